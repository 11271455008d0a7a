"""Step scorers: a number for each step of a trajectory. Third parties add theirs by ``agentgym_ttg.scorers``."""

from ._meter import with_end_state
from .aggregation import STEP_AGGREGATIONS, TOKEN_AGGREGATIONS, aggregate_steps, aggregate_tokens
from .base import ScorerKind, ScorerSettings, StepScorer, score_trajectories
from .registry import ENTRY_POINT_GROUP, SCORERS, get_scorer, scorer_kind

__all__ = [
    "ENTRY_POINT_GROUP",
    "SCORERS",
    "STEP_AGGREGATIONS",
    "TOKEN_AGGREGATIONS",
    "ScorerKind",
    "ScorerSettings",
    "StepScorer",
    "aggregate_steps",
    "aggregate_tokens",
    "get_scorer",
    "score_trajectories",
    "scorer_kind",
    "with_end_state",
]
