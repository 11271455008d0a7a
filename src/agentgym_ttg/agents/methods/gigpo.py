"""GiGPO: the trajectory's group-relative advantage plus one among the steps taken in the same state."""

from __future__ import annotations

from agentgym_ttg.credit import AdvantageEstimator, GiGPO
from agentgym_ttg.meter.base import ProgressMeter

from ..config import TrainConfig
from .base import Method

__all__ = ["GIGPO_METHOD"]


def _estimator(config: TrainConfig, meter: ProgressMeter | None, failure_cost: float) -> AdvantageEstimator:
    return GiGPO(
        gamma=config.step_gamma,
        omega=config.step_weight,
        mode=config.step_norm,
        similarity=config.anchor_similarity,
        normalize_over=config.normalize_over,
    )


GIGPO_METHOD = Method(
    "gigpo",
    "the trajectory's advantage plus one among the steps of the group that were taken in the same state",
    "Feng et al., GiGPO, 2025, arXiv:2505.10978",
    "train",
    estimator=_estimator,
)
