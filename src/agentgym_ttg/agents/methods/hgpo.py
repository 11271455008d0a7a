"""HGPO: step advantages among the steps with the same recent history, longer histories weighing more."""

from __future__ import annotations

from agentgym_ttg.credit import HGPO, AdvantageEstimator
from agentgym_ttg.meter.base import ProgressMeter

from ..config import TrainConfig
from .base import Method

__all__ = ["HGPO_METHOD"]


def _estimator(config: TrainConfig, meter: ProgressMeter | None, failure_cost: float) -> AdvantageEstimator:
    return HGPO(
        history_length=config.hgpo_history,
        gamma=config.step_gamma,
        alpha=config.hgpo_alpha,
        weight_base=config.hgpo_weight_base,
        drop_zeros=config.hgpo_drop_zeros,
        base_group=config.hgpo_base_group,
        mode=config.step_norm,
        normalize_over=config.normalize_over,
    )


HGPO_METHOD = Method(
    "hgpo",
    "a weighted mean of advantages among the steps of the group whose recent history is the same",
    "HGPO, 2026, arXiv:2602.22817",
    "train",
    estimator=_estimator,
)
