"""Steps to go: how much a step lowers the decisions that are still to be taken."""

from __future__ import annotations

from agentgym_ttg.meter.base import ProgressMeter

from ._meter import open_meter_scorer
from .base import ScorerKind, ScorerSettings, StepScorer

__all__ = ["STEPS_TO_GO"]


def _build(settings: ScorerSettings, *, meter: ProgressMeter | None = None) -> StepScorer:
    return open_meter_scorer("steps-to-go", settings, meter, "steps")


STEPS_TO_GO = ScorerKind(
    "steps-to-go",
    "decrease of the estimated steps to go, by a meter trained on steps",
    "an ablation of DeltaTTG (docs/method.md)",
    _build,
    needs=("meter",),
    asks_meter=True,
    meter_target="steps",
    sees_outcome=True,
)
