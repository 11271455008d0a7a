"""A meter against what was recorded, beside predictors that read nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from .base import Estimate, ProgressMeter
from .labels import Label
from .metrics import MeterMetrics, estimated_value, meter_metrics
from .references import References

__all__ = ["CalibrationBin", "MeterEvaluation", "evaluate_meter"]

_BINS = 10
_RANKS = ("rank_correlation", "rank_correlation_across")


class CalibrationBin(BaseModel):
    """Histories with similar estimates.

    Attributes:
        estimate: Their mean estimate (probability of completion, or tokens to go).
        actual: What was observed on average (share of success, or tokens to go).
        histories: How many they are.
    """

    model_config = ConfigDict(frozen=True)
    estimate: float
    actual: float
    histories: int


class MeterEvaluation(BaseModel):
    """Quality of a meter on some recordings."""

    model_config = ConfigDict(frozen=True)

    meter: MeterMetrics
    """The meter."""
    constant: MeterMetrics
    """The constant fitted on the training split. So that a reference is as strong as it can be, each of its numbers is
    that of its best variant: the more frequent class for accuracy, always a value for the value metrics, the median
    for the error, the most accurate constant for token accuracy."""
    steps: MeterMetrics
    """Remaining steps x mean tokens, from the step index alone; its best variant, likewise."""
    paired_errors: dict[str, tuple[float, float]]
    """Mean absolute error of (meter, reference) over the histories for which both give a value; each one's own error is
    over its own histories, and a predictor that answers only the easy ones would look good."""
    beats_references: bool
    """Whether the meter is better than both in completion AUROC, token accuracy and paired absolute error, as far as
    these are defined."""
    by_policy: dict[str, MeterMetrics]
    """The meter, by recording policy."""
    completion_calibration: list[CalibrationBin]
    """Estimated probability of completion against observed success; empty for meters without log-odds."""
    value_calibration: list[CalibrationBin]
    """Estimated against observed target, over completable histories with an estimate."""


def evaluate_meter(
    meter: ProgressMeter,
    labels: Sequence[Label],
    *,
    references: References,
    estimates: Sequence[Sequence[Estimate]] | None = None,
) -> MeterEvaluation:
    """Score the recordings and compare.

    Args:
        meter: What is evaluated.
        labels: Recordings with their labels, of tasks that neither the meter nor the references were fitted on.
        references: Fitted on the training split.
        estimates: The meter's estimates, where they are there already.

    Raises:
        ValueError: If there is nothing to compare.
    """
    trajectories = [label.trajectory for label in labels]
    found = list(estimates) if estimates is not None else list(meter.score(trajectories))
    own = meter_metrics(found, labels)
    values = {
        "constant": references.constant.score(trajectories, always=True),
        "steps": references.steps.score(trajectories, always=True),
    }
    constant, steps = (
        _strongest(
            meter_metrics(reference.score(trajectories), labels),
            meter_metrics(values[name], labels),
            meter_metrics(accurate, labels),
        )
        for name, reference, accurate in (
            ("constant", references.constant, references.constant.score(trajectories, always=True, accurate=True)),
            ("steps", references.steps, values["steps"]),
        )
    )
    errors = {name: pair for name, other in values.items() if (pair := _paired_errors(found, other, labels))}
    groups: dict[str, list[int]] = {}
    for index, trajectory in enumerate(trajectories):
        groups.setdefault(trajectory.policy, []).append(index)
    return MeterEvaluation(
        meter=own,
        constant=constant,
        steps=steps,
        paired_errors=errors,
        beats_references=_beats(own, constant)
        and _beats(own, steps)
        and all(ours < theirs for ours, theirs in errors.values()),
        by_policy={
            policy: meter_metrics([found[i] for i in members], [labels[i] for i in members])
            for policy, members in sorted(groups.items())
        },
        completion_calibration=_completion_bins(found, labels),
        value_calibration=_value_bins(found, labels),
    )


def _strongest(classes: MeterMetrics, values: MeterMetrics, accurate: MeterMetrics) -> MeterMetrics:
    """Join the variants of a reference: its classes, its values, its values for token accuracy."""
    update = {name: getattr(values, name) for name in ("mean_absolute_error", "answered", *_RANKS)}
    update["token_accuracy"] = accurate.token_accuracy
    update["reward"] = max(classes.reward, accurate.reward)
    return classes.model_copy(update=update)


def _beats(meter: MeterMetrics, reference: MeterMetrics) -> bool:
    pairs = [
        (meter.completion_auroc, reference.completion_auroc),
        (meter.token_accuracy, reference.token_accuracy),
    ]
    return all(a is not None and a > b for a, b in pairs if b is not None)


def _paired_errors(
    ours: Sequence[Sequence[Estimate]], theirs: Sequence[Sequence[Estimate]], labels: Sequence[Label]
) -> tuple[float, float] | None:
    errors = [
        (abs(a - actual), abs(b - actual))
        for mine, other, label in zip(ours, theirs, labels, strict=True)
        if label.has_values
        for x, y, actual in zip(mine, other, label.values, strict=True)
        if (a := estimated_value(x)) is not None and (b := estimated_value(y)) is not None
    ]
    if not errors:
        return None
    mine, other = np.mean(errors, axis=0)
    return float(mine), float(other)


def _completion_bins(estimates: Sequence[Sequence[Estimate]], labels: Sequence[Label]) -> list[CalibrationBin]:
    pairs = [
        (1 / (1 + float(np.exp(-np.clip(estimate.completion_logit, -50, 50)))), float(label.can_complete))
        for row, label in zip(estimates, labels, strict=True)
        for estimate in row
        if estimate.valid and estimate.completion_logit is not None
    ]
    if not pairs:
        return []
    edges = np.minimum((np.array([p[0] for p in pairs]) * _BINS).astype(int), _BINS - 1)
    return _binned(pairs, edges)


def _value_bins(estimates: Sequence[Sequence[Estimate]], labels: Sequence[Label]) -> list[CalibrationBin]:
    pairs = [
        (value, float(actual))
        for row, label in zip(estimates, labels, strict=True)
        if label.has_values
        for estimate, actual in zip(row, label.values, strict=True)
        if (value := estimated_value(estimate)) is not None
    ]
    if not pairs:
        return []
    order = np.argsort([p[0] for p in pairs], kind="stable")
    edges = np.empty(len(pairs), dtype=int)
    edges[order] = np.arange(len(pairs)) * _BINS // len(pairs)
    return _binned(pairs, edges)


def _binned(pairs: Sequence[tuple[float, float]], bins: NDArray[np.int64]) -> list[CalibrationBin]:
    table = np.array(pairs)
    return [
        CalibrationBin(
            estimate=float(table[bins == b, 0].mean()),
            actual=float(table[bins == b, 1].mean()),
            histories=int((bins == b).sum()),
        )
        for b in range(_BINS)
        if (bins == b).any()
    ]
