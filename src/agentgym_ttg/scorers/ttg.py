"""Token-to-Go: how much a step lowers the assistant tokens that are still to go."""

from __future__ import annotations

from agentgym_ttg.meter.base import ProgressMeter

from ._meter import open_meter_scorer
from .base import ScorerKind, ScorerSettings, StepScorer

__all__ = ["TTG"]


def _build(settings: ScorerSettings, *, meter: ProgressMeter | None = None) -> StepScorer:
    return open_meter_scorer("ttg", settings, meter, "ttg")


TTG = ScorerKind(
    "ttg",
    "decrease of the estimated assistant tokens to go, by any meter of tokens",
    "DeltaTTG (the method of this project, docs/method.md)",
    _build,
    needs=("meter",),
    asks_meter=True,
    meter_target="tokens",
    sees_outcome=True,
)
