"""How good a meter is: numbers from estimates and labels (NumPy only)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, ConfigDict

from .base import Estimate
from .labels import Label

__all__ = ["MeterMetrics", "auroc", "estimated_value", "meter_metrics", "spearman", "token_accuracy"]


class MeterMetrics(BaseModel):
    """Quality of one predictor over all decision histories of some trajectories; NaN-free, None where undefined."""

    model_config = ConfigDict(frozen=True)

    trajectories: int
    """Trajectories that were scored."""
    histories: int
    """Decision histories that were scored."""
    completable: float
    """Share of histories whose trajectory succeeded."""
    invalid: float
    """Share of unreadable outputs."""
    completion_auroc: float | None
    """Area under the ROC curve of the completion estimate; 0.5 is blind. None if all outcomes are alike."""
    completion_accuracy: float
    """Share of histories with the right class; an invalid output is wrong."""
    balanced_accuracy: float | None
    """Mean of the accuracies on completable and on other histories."""
    token_accuracy: float | None
    """u of eq. 5, mean over the histories of ``answered``, as in eq. 4."""
    mean_absolute_error: float | None
    """Mean of abs(v_hat - v), in units of the target, over the same histories."""
    answered: float | None
    """Share of the histories with a value to predict (the completable ones; all, for a score) for which the predictor
    gives one. Predictors that answer different histories are compared by ``MeterEvaluation.paired``."""
    rank_correlation: float | None
    """Spearman of v_hat and v inside a successful trajectory, mean over trajectories (1 if it only ever falls)."""
    rank_correlation_across: float | None
    """Spearman of v_hat and v across successful trajectories at the same step, weighted mean over steps: what is
    known beyond the step index."""
    flips: float
    """How often ``can_complete`` changes along a trajectory, mean over trajectories; each change moves the cost by
    about C and so takes most of a trajectory's credit."""
    reward: float
    """Mean of eq. 4, which counts all of this: right class, invalid outputs, token accuracy."""


def meter_metrics(estimates: Sequence[Sequence[Estimate]], labels: Sequence[Label]) -> MeterMetrics:
    """Compare estimates with labels.

    Args:
        estimates: For each label one estimate for each decision.
        labels: What was recorded.

    Raises:
        ValueError: If the lengths differ, or there is nothing to compare.
    """
    if len(estimates) != len(labels) or any(len(e) != len(b.values) for e, b in zip(estimates, labels, strict=True)):
        raise ValueError("expected one estimate for each decision of each label")
    flat = [estimate for row in estimates for estimate in row]
    if not flat:
        raise ValueError("expected at least one decision history, got none")
    truth = np.concatenate([np.full(len(label.values), label.can_complete) for label in labels])
    target = np.concatenate([label.values for label in labels])
    valid = np.array([estimate.valid for estimate in flat])
    said = np.array([estimate.valid and estimate.can_complete for estimate in flat])
    learnt = np.concatenate([np.full(len(label.values), label.has_values) for label in labels])
    value = np.array([np.nan if estimated_value(e) is None else estimated_value(e) for e in flat], dtype=np.float64)
    logit = np.array([_completion_score(estimate) for estimate in flat])
    both = learnt & np.isfinite(value)
    accuracy = np.where(both, token_accuracy(np.where(both, value, 0.0), target), 0.0)
    right = valid & (said == truth)
    positive, negative = right[truth], right[~truth]
    reward = np.where(truth, np.where(both & said, 0.2 + 0.8 * accuracy, -1.0), np.where(right, 1.0, -1.0))
    return MeterMetrics(
        trajectories=len(labels),
        histories=len(flat),
        completable=float(truth.mean()),
        invalid=float((~valid).mean()),
        completion_auroc=auroc(logit, truth),
        completion_accuracy=float(right.mean()),
        balanced_accuracy=float((positive.mean() + negative.mean()) / 2) if positive.size and negative.size else None,
        token_accuracy=float(accuracy[both].mean()) if both.any() else None,
        mean_absolute_error=float(np.abs(value - target)[both].mean()) if both.any() else None,
        answered=float(both[learnt].mean()) if learnt.any() else None,
        rank_correlation=_inside(estimates, labels),
        rank_correlation_across=_across(estimates, labels),
        flips=float(np.mean([_flips(row) for row in estimates if row])),
        reward=float(reward.mean()),
    )


def token_accuracy(predicted: ArrayLike, actual: ArrayLike) -> NDArray[np.float64]:
    """Return u of eq. 5, the linear reading, elementwise.

    >>> token_accuracy([300.0, 800.0], [400.0, 400.0])
    array([0.75, 0.  ])
    """
    v_hat, v = np.asarray(predicted, dtype=np.float64), np.asarray(actual, dtype=np.float64)
    return np.maximum(0.0, 1.0 - np.abs(v_hat - v) / np.maximum(v, 1.0))


def auroc(scores: ArrayLike, positives: ArrayLike) -> float | None:
    """Return the area under the ROC curve, ties counted half; None if one class is missing.

    >>> auroc([0.1, 0.4, 0.4, 0.9], [False, False, True, True])
    0.875
    """
    score, positive = np.asarray(scores, dtype=np.float64), np.asarray(positives, dtype=bool)
    count, others = int(positive.sum()), int((~positive).sum())
    if not count or not others:
        return None
    ranks = _ranks(score)
    return float((ranks[positive].sum() - count * (count + 1) / 2) / (count * others))


def spearman(a: ArrayLike, b: ArrayLike) -> float | None:
    """Return the rank correlation, ties averaged; 0 if only one side is constant, None if undefined.

    >>> round(spearman([1, 2, 3], [10, 30, 20]), 3)
    0.5
    """
    x, y = _ranks(np.asarray(a, dtype=np.float64)), _ranks(np.asarray(b, dtype=np.float64))
    if len(x) < 2 or np.ptp(y) == 0:
        return None
    if np.ptp(x) == 0:
        return 0.0
    return float(np.corrcoef(x, y)[0, 1])


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ranks from 1, ties averaged."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts).astype(np.float64)
    mean_rank: NDArray[np.float64] = last - (counts - 1) / 2
    return mean_rank[inverse]


def estimated_value(estimate: Estimate) -> float | None:
    """Return what the meter regresses: the score of an outcome meter, else the cost."""
    return estimate.score if estimate.score is not None else estimate.remaining_tokens


def _completion_score(estimate: Estimate) -> float:
    """Return what completion is ranked by: the log-odds, else the class; an invalid output ranks between."""
    if not estimate.valid:
        return 0.0
    if estimate.completion_logit is not None:
        return estimate.completion_logit
    return 1.0 if estimate.can_complete else -1.0


def _flips(row: Sequence[Estimate]) -> int:
    return sum(a.can_complete != b.can_complete for a, b in itertools.pairwise(row) if a.valid and b.valid)


def _inside(estimates: Sequence[Sequence[Estimate]], labels: Sequence[Label]) -> float | None:
    found: list[float] = []
    for row, label in zip(estimates, labels, strict=True):
        if not label.can_complete:
            continue
        pairs = [(x, v) for e, v in zip(row, label.values, strict=True) if (x := estimated_value(e)) is not None]
        if len(pairs) >= 3:
            value = spearman([p[0] for p in pairs], [p[1] for p in pairs])
            if value is not None:
                found.append(value)
    return float(np.mean(found)) if found else None


def _across(estimates: Sequence[Sequence[Estimate]], labels: Sequence[Label]) -> float | None:
    by_step: dict[int, list[tuple[float, float]]] = {}
    for row, label in zip(estimates, labels, strict=True):
        if label.can_complete:
            for step, (estimate, value) in enumerate(zip(row, label.values, strict=True)):
                if (predicted := estimated_value(estimate)) is not None:
                    by_step.setdefault(step, []).append((predicted, float(value)))
    total = weight = 0.0
    for pairs in by_step.values():
        value = spearman([p[0] for p in pairs], [p[1] for p in pairs]) if len(pairs) >= 5 else None
        if value is not None:
            total, weight = total + value * len(pairs), weight + len(pairs)
    return total / weight if weight else None
