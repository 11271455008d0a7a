"""DeltaTTG: progress in Token-to-Go redistributes the trajectory's advantage over its steps."""

from __future__ import annotations

from typing import Any

from agentgym_ttg.credit import AdvantageEstimator, DeltaTTG
from agentgym_ttg.meter.base import ProgressMeter
from agentgym_ttg.meter.signals import MeterSignal, SignalKind

from ..config import TrainConfig
from .base import Method

__all__ = ["DELTATTG", "build_deltattg"]


def build_deltattg(
    config: TrainConfig,
    meter: ProgressMeter | None,
    failure_cost: float,
    *,
    signal: SignalKind = "ttg",
    **changes: Any,
) -> AdvantageEstimator:
    """Build the estimator: what the meter says becomes a signal, the signal becomes weights.

    Args:
        config: Training settings.
        meter: The progress meter.
        failure_cost: C, in the meter's unit.
        signal: What is read from the meter; the method reads the tokens to go.
        **changes: Arguments of :class:`~agentgym_ttg.credit.DeltaTTG` in the place of the settings'.
    """
    assert meter is not None  # `needs_meter`
    settings: dict[str, Any] = {
        "rho": config.rho,
        "cap": config.cap,
        "sign_aware": config.sign_aware,
        "reading": config.weight_reading,
        "normalize_over": config.normalize_over,
    }
    return DeltaTTG(MeterSignal(meter, failure_cost=failure_cost, kind=signal), **(settings | changes))


DELTATTG = Method(
    "deltattg",
    "GRPO whose advantage is redistributed over the steps by the change of the tokens to go",
    "DeltaTTG (the method of this project, docs/method.md)",
    "train",
    estimator=build_deltattg,
    needs_meter=True,
)
