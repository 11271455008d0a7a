"""DeltaTTG: progress in Token-to-Go redistributes the trajectory's advantage over its steps."""

from __future__ import annotations

from typing import Any

from agentgym_ttg.credit import AdvantageEstimator, DeltaTTG
from agentgym_ttg.credit.deltattg import Signal
from agentgym_ttg.meter.base import ProgressMeter
from agentgym_ttg.meter.signals import MeterSignal, SignalKind
from agentgym_ttg.scorers import scorer_kind
from agentgym_ttg.scorers.signal import ScorerSignal

from ..config import TrainConfig
from ..signals import METER_SIGNALS, scorer_settings
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
        signal: What is read from the meter; the method reads the tokens to go. ``signal`` of the settings, any step
            scorer, takes its place.
        **changes: Arguments of :class:`~agentgym_ttg.credit.DeltaTTG` in the place of the settings'.
    """
    settings: dict[str, Any] = {
        "rho": config.rho,
        "cap": config.cap,
        "sign_aware": config.sign_aware,
        "reading": config.weight_reading,
        "normalize_over": config.normalize_over,
    }
    return DeltaTTG(_signal(config, meter, failure_cost, signal), **(settings | changes))


def _signal(config: TrainConfig, meter: ProgressMeter | None, failure_cost: float, kind: SignalKind) -> Signal:
    """Return what is asked: the meter, or the step scorer that the settings name."""
    if config.signal is None or config.signal in METER_SIGNALS:
        assert meter is not None  # `needs_meter`
        kind = METER_SIGNALS[config.signal] if config.signal else kind
        return MeterSignal(meter, failure_cost=failure_cost, kind=kind)
    scorer = scorer_kind(config.signal)
    reference = config.warm_start_from if "reference" in scorer.needs else None
    settings = scorer_settings(config, failure_cost=failure_cost, reference=reference)
    return ScorerSignal(scorer.make(settings, meter=meter))


DELTATTG = Method(
    "deltattg",
    "GRPO whose advantage is redistributed over the steps by the change of the tokens to go",
    "DeltaTTG (the method of this project, docs/method.md)",
    "train",
    estimator=build_deltattg,
    needs_meter=True,
    takes_signal=True,
)
