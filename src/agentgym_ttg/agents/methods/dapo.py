"""DAPO: GRPO on groups whose rewards differ, with a soft penalty on overlong trajectories.

The asymmetric clip (``epsilon_low``, ``epsilon_high``) and the token mean are the loss of every method here, so that
methods differ in their credit alone; what remains of DAPO are dynamic sampling and overlong shaping.
"""

from __future__ import annotations

from agentgym_ttg.credit import DAPO, AdvantageEstimator, is_informative
from agentgym_ttg.meter.base import ProgressMeter

from ..config import TrainConfig
from .base import Method

__all__ = ["DAPO_METHOD"]


def _estimator(config: TrainConfig, meter: ProgressMeter | None, failure_cost: float) -> AdvantageEstimator:
    return DAPO(
        max_tokens=config.overlong_tokens,
        buffer=config.overlong_buffer,
        factor=config.overlong_factor,
        normalize_over=config.normalize_over,
    )


DAPO_METHOD = Method(
    "dapo",
    "GRPO on groups whose rewards differ (dynamic sampling), long trajectories penalised softly",
    "Yu et al., DAPO, 2025, arXiv:2503.14476",
    "train",
    estimator=_estimator,
    keep=is_informative,
)
