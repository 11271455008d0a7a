"""DeltaTTG: progress in Token-to-Go redistributes the trajectory's advantage over its steps."""

from __future__ import annotations

from agentgym_ttg.credit import AdvantageEstimator, DeltaTTG
from agentgym_ttg.meter.base import ProgressMeter
from agentgym_ttg.meter.signals import MeterSignal

from ..config import TrainConfig
from .base import Method

__all__ = ["DELTATTG"]


def _estimator(config: TrainConfig, meter: ProgressMeter | None, failure_cost: float) -> AdvantageEstimator:
    assert meter is not None  # the registry has asked for one
    return DeltaTTG(
        MeterSignal(meter, failure_cost=failure_cost),
        rho=config.rho,
        cap=config.cap,
        sign_aware=config.sign_aware,
        reading=config.weight_reading,
        normalize_over=config.normalize_over,
    )


DELTATTG = Method(
    "deltattg",
    "GRPO whose advantage is redistributed over the steps by the change of the tokens to go",
    "DeltaTTG (the method of this project, docs/method.md)",
    "train",
    estimator=_estimator,
    needs_meter=True,
)
