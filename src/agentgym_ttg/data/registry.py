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
        place: ``module:attribute`` of a function that takes ``arguments`` and returns the folder, for data that this
            project installs into its cache.
        bring: The command that brings it.
    """

    name: str
    env: str
    summary: str
    licence: str
    reader: str
    variable: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    place: str = ""
    bring: str = ""

    @property
    def built_in(self) -> bool:
        """Whether it comes with the package."""
        return not self.variable and not self.place


_ALFWORLD = "agentgym_ttg/ALFWorld-v0"
_WORLDS = "agentgym_ttg/AgentWorldModel-v0"

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
        DataSource(
            "worlds",
            _WORLDS,
            "built-in worlds behind tools: eight of them, ten kinds of tasks in each",
            "this project, Apache-2.0",
            "agentgym_ttg.envs.agentworldmodel.loading:WorldData",
        ),
        DataSource(
            "agentworldmodel",
            _WORLDS,
            "the published AgentWorldModel worlds (gen_*.jsonl)",
            "Snowflake/AgentWorldModel-1K on the Hugging Face hub; see its card for the licence",
            "agentgym_ttg.envs.agentworldmodel.loading:WorldData",
            variable="AGENTWORLDMODEL_DATA",
            bring='hf download Snowflake/AgentWorldModel-1K --repo-type dataset --local-dir "$AGENTWORLDMODEL_DATA"',
        ),
        *(
            DataSource(
                "bfcl" if version == "v3" else f"bfcl-{version}",
                "agentgym_ttg/BFCL-v0",
                f"the Berkeley Function-Calling Leaderboard {version}, {what}",
                "bfcl-eval, Apache-2.0",
                "agentgym_ttg.envs.bfcl.data:BFCLData",
                arguments={"version": version},
                place="agentgym_ttg.data.bfcl_install:bfcl_folder",
                bring="agentgym-ttg data install bfcl" + ("" if version == "v3" else f" --version {version}"),
            )
            for version, what in (("v3", "every category"), ("v4", "the multi-turn categories"))
        ),
    )
}
