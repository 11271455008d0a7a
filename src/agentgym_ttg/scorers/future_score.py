"""Future Score: how much a step raises the predicted final score."""

from __future__ import annotations

from agentgym_ttg.meter.base import ProgressMeter

from ._meter import open_meter_scorer
from .base import ScorerKind, ScorerSettings, StepScorer

__all__ = ["FUTURE_SCORE"]


def _build(settings: ScorerSettings, *, meter: ProgressMeter | None = None) -> StepScorer:
    return open_meter_scorer("future-score", settings, meter, "outcome")


FUTURE_SCORE = ScorerKind(
    "future-score",
    "increase of the predicted final score, by a meter trained on outcomes",
    "an ablation of DeltaTTG (docs/method.md)",
    _build,
    needs=("meter",),
    asks_meter=True,
    meter_target="outcome",
    sees_outcome=True,
)
