"""The step scorers by name; open to other packages.

Another package adds one by an entry point in the group ``agentgym_ttg.scorers`` that names a :class:`ScorerKind`::

    [project.entry-points."agentgym_ttg.scorers"]
    my-scorer = "my_package.scorer:SCORER"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentgym_ttg.core.registry import Registry

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


class ScorerRegistry(Registry[ScorerKind]):
    """Name to step scorer."""

    noun = "step scorer"
    kind = ScorerKind
    group = ENTRY_POINT_GROUP


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
    return SCORERS.find(name)


def get_scorer(name: str, settings: ScorerSettings | None = None, *, meter: ProgressMeter | None = None) -> StepScorer:
    """Build the scorer called ``name``; see :meth:`ScorerKind.make`.

    Raises:
        ConfigError: If there is none, or something that it needs is missing.
        MissingDependencyError: If what runs it is not installed.
    """
    return scorer_kind(name).make(settings, meter=meter)
