"""The data sources: what an environment plays, built in or brought by the user.

A source names the classes that read it as ``module:attribute``, as Gymnasium's registration does, so that listing what
there is imports no environment.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["DATA_SOURCES", "DataSource"]


@dataclass(frozen=True, slots=True)
class DataSource:
    """One data set.

    Attributes:
        name: As it is called in lists.
        env: Id of the environment that plays it.
        summary: What it is.
        licence: Its licence and origin.
        reader: ``module:attribute`` of what opens it: called with the folder (or with ``arguments`` for built-in
            data), it returns an object with ``splits``, ``ids(split)`` and ``content_hash(split)``.
        variable: Environment variable that names the folder, ``""`` for built-in data.
        arguments: Arguments of the reader of built-in data.
        bring: The command that brings it.
    """

    name: str
    env: str
    summary: str
    licence: str
    reader: str
    variable: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    bring: str = ""

    @property
    def built_in(self) -> bool:
        """Whether it comes with the package."""
        return not self.variable


_ALFWORLD = "agentgym_ttg/ALFWorld-v0"

DATA_SOURCES: dict[str, DataSource] = {
    source.name: source
    for source in (
        *(
            DataSource(
                f"alfworld-{level}",
                _ALFWORLD,
                f"built-in household games, {level}: generated from a seed, six task types",
                "this project, Apache-2.0",
                "agentgym_ttg.envs.alfworld.builtin:BuiltinGames",
                arguments={"level": level},
            )
            for level in ("easy", "medium", "hard")
        ),
        DataSource(
            "alfworld",
            _ALFWORLD,
            "the official ALFWorld games (json_2.1.1)",
            "ALFWorld, MIT",
            "agentgym_ttg.envs.alfworld.data:OfficialData",
            variable="ALFWORLD_DATA",
            bring='pip install "agentgym-ttg[alfworld]" && alfworld-download --data-dir "$ALFWORLD_DATA"',
        ),
    )
}
