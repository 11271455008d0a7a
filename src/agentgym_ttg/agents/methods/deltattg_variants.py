"""The variants of DeltaTTG: each is the method but for what its entry names.

The first seven are the ablations; ``deltattg-normtok`` goes beyond them.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from agentgym_ttg.meter.signals import SignalKind

from .base import MeterTarget, Method
from .deltattg import build_deltattg

__all__ = ["DELTATTG_VARIANTS", "deltattg_variant"]

_ABLATION = "an ablation of DeltaTTG (docs/method.md)"


def deltattg_variant(
    name: str,
    summary: str,
    *,
    source: str = _ABLATION,
    signal: SignalKind = "ttg",
    target: MeterTarget = "tokens",
    trained: bool = True,
    **changes: Any,
) -> Method:
    """Return DeltaTTG with a difference.

    Args:
        name: As it is written on the command line.
        summary: One line for lists.
        source: Where it is described.
        signal: What is read from the meter, see :class:`~agentgym_ttg.meter.signals.MeterSignal`.
        target: What the meter is trained to predict.
        trained: Whether it is trained at all.
        **changes: Arguments of :class:`~agentgym_ttg.credit.DeltaTTG` in the place of the settings'.
    """
    return Method(
        name,
        summary,
        source,
        "train",
        estimator=partial(build_deltattg, signal=signal, **changes),
        needs_meter=True,
        meter_target=target,
        meter_trained=trained,
        takes_signal=signal == "ttg" and target == "tokens" and trained,
    )


DELTATTG_VARIANTS: tuple[Method, ...] = (
    deltattg_variant(
        "deltattg-outcome",
        "DeltaTTG by the change of the predicted final score (Future Score) instead of the tokens to go",
        signal="outcome",
        target="outcome",
    ),
    deltattg_variant(
        "deltattg-logit",
        "DeltaTTG by the change of the log-odds of completion, clipped to +-10; the meter is the same",
        signal="logit",
    ),
    deltattg_variant(
        "deltattg-feasibility",
        "DeltaTTG by whether the task can still be completed, without the tokens to go; the meter is the same",
        signal="feasibility",
    ),
    deltattg_variant(
        "deltattg-stepstogo",
        "DeltaTTG with a meter of steps to go instead of tokens to go",
        signal="steps",
        target="steps",
    ),
    deltattg_variant(
        "deltattg-positive",
        "DeltaTTG that gives a negative advantage, too, to the steps of progress (no sign reversal)",
        sign_aware=False,
    ),
    deltattg_variant(
        "deltattg-untrained",
        "DeltaTTG with a meter that was never trained",
        trained=False,
    ),
    deltattg_variant(
        "deltattg-rho0",
        "DeltaTTG without the uniform part of the shares",
        rho=0.0,
    ),
    deltattg_variant(
        "deltattg-normtok",
        "DeltaTTG with tokens to go that are divided by the recording policy's mean trajectory length",
        source="this project",
        target="normalized",
    ),
)
