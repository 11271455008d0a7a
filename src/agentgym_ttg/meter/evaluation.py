"""A meter against what was recorded, beside predictors that read nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from .base import Estimate, ProgressMeter
from .labels import Label
from .metrics import MeterMetrics, estimated_value, meter_metrics, token_accuracy
from .references import References

__all__ = ["CalibrationBin", "MeterEvaluation", "Paired", "evaluate_meter"]

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


class Paired(BaseModel):
    """Two predictors on the same histories.

    Attributes:
        histories: How many.
        error: Mean absolute error of (meter, reference).
        token_accuracy: u of (meter, reference).
    """

    model_config = ConfigDict(frozen=True)
    histories: int
    error: tuple[float, float]
    token_accuracy: tuple[float, float]

    @property
    def meter_is_better(self) -> bool:
        """Whether the meter is better in both."""
        return self.error[0] < self.error[1] and self.token_accuracy[0] > self.token_accuracy[1]


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
    paired: dict[str, Paired]
    """The meter against each reference over the histories for which both give a value; each one's own numbers are over
    its own histories, and a predictor that answers only the easy ones would look good."""
    beats_references: bool
    """Whether the meter is better than both: completion AUROC, and over the paired histories token accuracy and
    absolute error; as far as these are defined."""
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
    constant = references.constant.score(trajectories, always=True)
    accurate = references.constant.score(trajectories, always=True, accurate=True)
    by_step = references.steps.score(trajectories, always=True)
    paired = {
        "constant": _paired(found, constant, accurate, labels),
        "steps": _paired(found, by_step, by_step, labels),
    }
    scores = {
        "constant": _strongest(references.constant.score(trajectories), constant, accurate, labels),
        "steps": _strongest(references.steps.score(trajectories), by_step, by_step, labels),
    }
    groups: dict[str, list[int]] = {}
    for index, trajectory in enumerate(trajectories):
        groups.setdefault(trajectory.policy, []).append(index)
    return MeterEvaluation(
        meter=own,
        **scores,
        paired={name: pair for name, pair in paired.items() if pair is not None},
        beats_references=all(_orders_better(own, reference) for reference in scores.values())
        and all(pair.meter_is_better for pair in paired.values() if pair is not None),
        by_policy={
            policy: meter_metrics([found[i] for i in members], [labels[i] for i in members])
            for policy, members in sorted(groups.items())
        },
        completion_calibration=_completion_bins(found, labels),
        value_calibration=_value_bins(found, labels),
    )


def _strongest(
    classes: Sequence[Sequence[Estimate]],
    values: Sequence[Sequence[Estimate]],
    accurate: Sequence[Sequence[Estimate]],
    labels: Sequence[Label],
) -> MeterMetrics:
    """Join the variants of a reference: its classes, its values, its values for token accuracy."""
    by_class, by_value, by_accuracy = (meter_metrics(said, labels) for said in (classes, values, accurate))
    update = {name: getattr(by_value, name) for name in ("mean_absolute_error", "answered", *_RANKS)}
    update["token_accuracy"] = by_accuracy.token_accuracy
    update["reward"] = max(by_class.reward, by_accuracy.reward)
    return by_class.model_copy(update=update)


def _orders_better(meter: MeterMetrics, reference: MeterMetrics) -> bool:
    ours, theirs = meter.completion_auroc, reference.completion_auroc
    return theirs is None or (ours is not None and ours > theirs)


def _paired(
    ours: Sequence[Sequence[Estimate]],
    theirs: Sequence[Sequence[Estimate]],
    accurate: Sequence[Sequence[Estimate]],
    labels: Sequence[Label],
) -> Paired | None:
    """Compare the values where both give one; ``accurate`` is the reference's variant for token accuracy."""
    rows = [
        (actual, estimated_value(x), estimated_value(y), estimated_value(z))
        for mine, other, best, label in zip(ours, theirs, accurate, labels, strict=True)
        if label.has_values
        for x, y, z, actual in zip(mine, other, best, label.values, strict=True)
    ]
    table = np.array([row for row in rows if None not in row], dtype=np.float64)
    if not len(table):
        return None
    actual, mine, other, best = table.T
    return Paired(
        histories=len(table),
        error=(float(np.abs(mine - actual).mean()), float(np.abs(other - actual).mean())),
        token_accuracy=(float(token_accuracy(mine, actual).mean()), float(token_accuracy(best, actual).mean())),
    )


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
