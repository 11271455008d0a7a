"""Numbers from step scores and labels, with intervals by resampling trajectories. Pure functions on arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agentgym_ttg.meter.metrics import auroc

__all__ = [
    "Judgement",
    "Measured",
    "bootstrap",
    "judge",
    "judge_random",
    "measure",
    "ratio_interval",
    "resampled",
    "step_auroc",
]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Measured:
    """A number and its 95 % interval.

    Attributes:
        value: The number; NaN where it is not defined.
        low: Lower end; NaN where there is no interval.
        high: Upper end.
        n: What it was measured on (trajectories, steps: see where it is made).
    """

    value: float
    low: float = math.nan
    high: float = math.nan
    n: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return the JSON form; None for what is not defined."""
        numbers = {name: getattr(self, name) for name in ("value", "low", "high")}
        return {name: x if math.isfinite(x) else None for name, x in numbers.items()} | {"n": self.n}


def resampled(
    count: int, rng: np.random.Generator, *, resamples: int = 2000, groups: Sequence[Hashable] | None = None
) -> list[Integers]:
    """Return index arrays, each a draw of trajectories with replacement.

    Args:
        count: Number of trajectories.
        rng: Draws them.
        resamples: Number of draws.
        groups: A group of each trajectory; whole groups are drawn then.
    """
    if groups is None:
        return list(rng.integers(count, size=(resamples, count)))
    members: dict[Hashable, list[int]] = {}
    for index, group in enumerate(groups):
        members.setdefault(group, []).append(index)
    parts = [np.array(rows, dtype=np.int64) for rows in members.values()]
    draws = rng.integers(len(parts), size=(resamples, len(parts)))
    return [np.concatenate([parts[i] for i in draw]) for draw in draws]


def bootstrap(statistic: Callable[[Integers], float | None], draws: Sequence[Integers], count: int) -> Measured:
    """Return a statistic of all trajectories and its percentile interval.

    Args:
        statistic: From indices of trajectories to the number; None or NaN where it is not defined.
        draws: See :func:`resampled`.
        count: Number of trajectories.
    """
    value = _number(statistic(np.arange(count)))
    found = np.array([_number(statistic(draw)) for draw in draws], dtype=np.float64)
    found = found[np.isfinite(found)]
    if not math.isfinite(value) or len(found) < 2:
        return Measured(value, n=count)
    low, high = np.percentile(found, [2.5, 97.5])
    return Measured(value, float(low), float(high), count)


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def ratio_interval(numerators: ArrayLike, denominators: ArrayLike, draws: Sequence[Integers]) -> Measured:
    """Return sum(numerators) / sum(denominators) over trajectories, with its interval; ``n`` is the denominator.

    >>> found = ratio_interval([1, 2], [2, 2], [np.array([0, 0]), np.array([1, 1])])
    >>> found.value, found.n
    (0.75, 4)
    """
    above, below = np.asarray(numerators, dtype=np.float64), np.asarray(denominators, dtype=np.float64)

    def ratio(chosen: Integers) -> float:
        total = below[chosen].sum()
        return float(above[chosen].sum() / total) if total else math.nan

    found = bootstrap(ratio, draws, len(above))
    return Measured(found.value, found.low, found.high, int(below.sum()))


@dataclass(frozen=True, slots=True)
class Judgement:
    """What step scores are worth, counted for each trajectory; every array has the shape ``(N,)``.

    Attributes:
        right_positive: Good steps whose score is above 0.
        positive: Good steps.
        right_negative: Bad steps whose score is below 0.
        negative: Bad steps.
        covered: Good and bad steps whose score says anything: a number other than 0.
        first: 1 where the first step with a score below 0 is the first bad one, or there is neither.
        error: 1 where there is a bad step.
    """

    right_positive: Floats
    positive: Floats
    right_negative: Floats
    negative: Floats
    covered: Floats
    first: Floats
    error: Floats

    @property
    def right(self) -> Floats:
        """Good and bad steps whose score has the sign of the label; a step without a sign is wrong."""
        return self.right_positive + self.right_negative

    @property
    def judged(self) -> Floats:
        """Good and bad steps; neutral ones are left out."""
        return self.positive + self.negative

    def of(self, chosen: Integers) -> Judgement:
        """Return the part for some trajectories."""
        return Judgement(**{one.name: getattr(self, one.name)[chosen] for one in fields(self)})


def judge(scores: Sequence[ArrayLike], labels: Sequence[ArrayLike]) -> Judgement:
    """Compare the signs of step scores with labels.

    Args:
        scores: For each trajectory ``(T_i,)``; NaN and 0 have no sign.
        labels: For each trajectory ``(T_i,)`` of 1, 0 (neutral) and -1.

    Raises:
        ValueError: If they do not fit each other.

    >>> found = judge([[0.5, -1.0, 0.0]], [[1, 1, -1]])
    >>> found.right.tolist(), found.judged.tolist(), found.covered.tolist(), found.first.tolist()
    ([1.0], [3.0], [2.0], [0.0])
    """
    rows: list[tuple[float, ...]] = []
    for row, truth in zip(scores, labels, strict=True):
        score, label = np.asarray(row, dtype=np.float64), np.asarray(truth)
        if score.shape != label.shape:
            raise ValueError(f"expected a score for each label, got the shapes {score.shape} and {label.shape}")
        sign = np.sign(np.nan_to_num(score, nan=0.0))
        good, bad = label == 1, label == -1
        rows.append(
            (
                float((sign[good] > 0).sum()),
                float(good.sum()),
                float((sign[bad] < 0).sum()),
                float(bad.sum()),
                float((sign[good | bad] != 0).sum()),
                float(_first(sign < 0) == _first(bad)),
                float(bad.any()),
            )
        )
    return Judgement(*np.array(rows, dtype=np.float64).reshape(len(rows), 7).T)


def judge_random(labels: Sequence[ArrayLike]) -> Judgement:
    """Return what is expected of a fair coin for each step."""
    rows: list[tuple[float, ...]] = []
    for truth in labels:
        label = np.asarray(truth)
        good, bad = float((label == 1).sum()), float((label == -1).sum())
        first = _first(label == -1)
        hit = 0.5 ** len(label) if first is None else 0.5 ** (first + 1)
        rows.append((good / 2, good, bad / 2, bad, good + bad, hit, float(bad > 0)))
    return Judgement(*np.array(rows, dtype=np.float64).reshape(len(rows), 7).T)


def _first(mask: NDArray[np.bool_]) -> int | None:
    return int(np.argmax(mask)) if mask.any() else None


def measure(found: Judgement, draws: Sequence[Integers]) -> dict[str, Measured]:
    """Return the rates of a judgement with intervals.

    - ``accuracy``: sign accuracy, pooled over steps; a step without a sign is wrong.
    - ``balanced``: mean of the accuracies on good and on bad steps; a constant sign has 0.5.
    - ``covered_accuracy``: the same as ``accuracy`` over the steps with a sign.
    - ``coverage``: share of the steps with a sign.
    - ``first_error``: share of the trajectories with a bad step whose first one is found.
    - ``first_error_all``: the same over all trajectories; one without a bad step is right if none is found.
    """

    def balanced(chosen: Integers) -> float:
        part = found.of(chosen)
        good, bad = part.positive.sum(), part.negative.sum()
        if not good or not bad:
            return math.nan
        return float((part.right_positive.sum() / good + part.right_negative.sum() / bad) / 2)

    ones = np.ones(len(found.first))
    return {
        "accuracy": ratio_interval(found.right, found.judged, draws),
        "balanced": bootstrap(balanced, draws, len(found.first)),
        "covered_accuracy": ratio_interval(found.right, found.covered, draws),
        "coverage": ratio_interval(found.covered, found.judged, draws),
        "first_error": ratio_interval(found.first * found.error, found.error, draws),
        "first_error_all": ratio_interval(found.first, ones, draws),
    }


def step_auroc(scores: Sequence[ArrayLike], labels: Sequence[ArrayLike], draws: Sequence[Integers]) -> Measured:
    """Return how well scores rank good steps above bad ones, pooled over trajectories; steps without a score rank low.

    Unlike the sign accuracy it asks for no zero point.
    """
    rows = [np.nan_to_num(np.asarray(row, dtype=np.float64), nan=-np.inf) for row in scores]
    truths = [np.asarray(truth) for truth in labels]

    def area(chosen: Integers) -> float | None:
        score = np.concatenate([rows[i] for i in chosen])
        truth = np.concatenate([truths[i] for i in chosen])
        judged = truth != 0
        return auroc(score[judged], truth[judged] > 0)

    return bootstrap(area, draws, len(rows))
