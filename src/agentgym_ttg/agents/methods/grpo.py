"""GRPO: every step of a trajectory gets the trajectory's group-relative advantage."""

from __future__ import annotations

from agentgym_ttg.credit import GRPO, AdvantageEstimator
from agentgym_ttg.meter.base import ProgressMeter

from ..config import TrainConfig
from .base import Method

__all__ = ["GRPO_METHOD"]


def _estimator(config: TrainConfig, meter: ProgressMeter | None, failure_cost: float) -> AdvantageEstimator:
    return GRPO(normalize_over=config.normalize_over)


GRPO_METHOD = Method(
    "grpo",
    "one group-relative advantage for the whole trajectory",
    "Shao et al., DeepSeekMath, 2024, arXiv:2402.03300",
    "train",
    estimator=_estimator,
)
