"""The step scorers by name; open to other packages.

Another package adds one by an entry point in the group ``agentgym_ttg.scorers`` that names a :class:`ScorerKind`::

    [project.entry-points."agentgym_ttg.scorers"]
    my-scorer = "my_package.scorer:SCORER"
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from agentgym_ttg.core.errors import ConfigError, nearest

from .base import ScorerKind, ScorerSettings, StepScorer
from .deepconf import DEEPCONF
from .future_score import FUTURE_SCORE
from .llm_judge import LLM_JUDGE
from .mean_logprob import MEAN_LOGPROB
from .progress_advantage import PROGRESS_ADVANTAGE
from .self_certainty import SELF_CERTAINTY
from .steps_to_go import STEPS_TO_GO
from .ttg import TTG

if TYPE_CHECKING:
    from agentgym_ttg.meter.base import ProgressMeter

__all__ = ["ENTRY_POINT_GROUP", "SCORERS", "ScorerRegistry", "get_scorer", "scorer_kind"]

ENTRY_POINT_GROUP = "agentgym_ttg.scorers"


class ScorerRegistry(Mapping[str, ScorerKind]):
    """Name to scorer: those of this package, then those of others, which are imported when they are asked for."""

    def __init__(self, own: tuple[ScorerKind, ...]) -> None:
        self._own: dict[str, ScorerKind] = {kind.name: kind for kind in own}

    def register(self, kind: ScorerKind) -> None:
        """Add a scorer for this process.

        Raises:
            ConfigError: If the name is taken by another scorer.
        """
        if self._own.get(kind.name, kind) is not kind:
            raise ConfigError(f"there is a step scorer {kind.name!r} already; choose another name")
        self._own[kind.name] = kind

    def _foreign(self) -> dict[str, importlib.metadata.EntryPoint]:
        found = importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)
        return {point.name: point for point in found if point.name not in self._own}

    def __getitem__(self, name: str) -> ScorerKind:
        """Return a scorer's entry.

        Raises:
            KeyError: If there is none of this name.
            ConfigError: If another package's scorer cannot be imported or is no :class:`ScorerKind`.
        """
        if name in self._own:
            return self._own[name]
        point = self._foreign()[name]
        try:
            kind = point.load()
        except Exception as error:  # a foreign module may fail in any way
            raise ConfigError(
                f"step scorer {name!r} ({point.value}) cannot be imported: {type(error).__name__}: {error}"
            ) from error
        if not isinstance(kind, ScorerKind):
            raise ConfigError(
                f"step scorer {name!r}: expected {point.value} to be a ScorerKind, got {type(kind).__name__}"
            )
        return kind

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        yield from self._own
        yield from sorted(self._foreign())

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._own) + len(self._foreign())


SCORERS = ScorerRegistry(
    (TTG, STEPS_TO_GO, FUTURE_SCORE, PROGRESS_ADVANTAGE, MEAN_LOGPROB, SELF_CERTAINTY, DEEPCONF, LLM_JUDGE)
)


def scorer_kind(name: str) -> ScorerKind:
    """Return the entry of the scorer called ``name``.

    Raises:
        ConfigError: If there is none; names the nearest.

    >>> scorer_kind("progress-advantage").needs
    ('model', 'reference')
    >>> scorer_kind("deepcon")
    Traceback (most recent call last):
    ...
    agentgym_ttg.core.errors.ConfigError: unknown step scorer 'deepcon'; did you mean 'deepconf'? There are ttg, ...
    """
    try:
        return SCORERS[name]
    except KeyError:
        pass
    hint = nearest(name, SCORERS)
    raise ConfigError(
        f"unknown step scorer {name!r}"
        + (f"; did you mean {hint[0]!r}?" if hint else ".")
        + f" There are {', '.join(SCORERS)}."
    )


def get_scorer(name: str, settings: ScorerSettings | None = None, *, meter: ProgressMeter | None = None) -> StepScorer:
    """Build the scorer called ``name``; see :meth:`ScorerKind.make`.

    Raises:
        ConfigError: If there is none, or something that it needs is missing.
        MissingDependencyError: If what runs it is not installed.
    """
    return scorer_kind(name).make(settings, meter=meter)
