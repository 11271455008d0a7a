"""What a meter has to beat: predictors that read nothing of the history."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from agentgym_ttg.core.trajectory import Trajectory

from .base import Estimate
from .labels import Label
from .metrics import token_accuracy

__all__ = ["ConstantReference", "References", "StepReference"]


class ConstantReference(BaseModel):
    """The same answer for every history.

    Attributes:
        probability: Share of completable histories in the training split.
        value: The constant with the smallest mean absolute error on the training split, its median.
        accurate_value: The constant with the best token accuracy there. Each metric is compared with the constant
            that is best for it.
    """

    model_config = ConfigDict(frozen=True)
    probability: float
    value: float
    accurate_value: float

    @classmethod
    def fit(cls, labels: Sequence[Label]) -> ConstantReference:
        """Fit on the labels of the training split."""
        values = _values(labels)
        if not len(values):
            return cls(probability=_share(labels), value=0.0, accurate_value=0.0)
        candidates = np.unique(np.quantile(values, np.linspace(0, 1, 101)))
        scores = [float(token_accuracy(candidate, values).mean()) for candidate in candidates]
        best = float(candidates[int(np.argmax(scores))])
        return cls(probability=_share(labels), value=float(np.median(values)), accurate_value=best)

    def score(
        self, trajectories: Sequence[Trajectory], *, always: bool = False, accurate: bool = False
    ) -> list[list[Estimate]]:
        """Return the constant for every history.

        Args:
            trajectories: What to score.
            always: Whether to give the value even where completion is improbable.
            accurate: Whether to give the value fitted for token accuracy.
        """
        estimate = _estimate(self.probability, self.accurate_value if accurate else self.value, always)
        return [[estimate] * len(trajectory) for trajectory in trajectories]


class StepReference(BaseModel):
    """Remaining steps x mean tokens: what can be known from the step index alone.

    It may know how many actions were taken so far, and from the training split: how many steps successful
    trajectories that got this far still needed on average, how many tokens a step costs on average, and which share
    of the trajectories that got this far succeeded. It reads neither task nor history.

    Attributes:
        probability: P(success | t decisions taken), by t; the last entry stands for everything later.
        remaining_steps: Mean steps to go of successful trajectories at step t, by t.
        per_step: Mean target units (tokens) of a step in successful trajectories.
    """

    model_config = ConfigDict(frozen=True)
    probability: list[float]
    remaining_steps: list[float]
    per_step: float

    @classmethod
    def fit(cls, labels: Sequence[Label]) -> StepReference:
        """Fit on the labels of the training split."""
        longest = max((len(label.values) for label in labels), default=0)
        solved = [label for label in labels if label.can_complete]
        share, prior = [], _share(labels)
        steps: list[float] = []
        for t in range(max(longest, 1)):
            there = [label.can_complete for label in labels if len(label.values) > t]
            # One pseudo-count of the overall share keeps rare late steps away from 0 and 1.
            share.append((sum(there) + prior) / (len(there) + 1))
            left = [len(label.values) - t for label in solved if len(label.values) > t]
            steps.append(float(np.mean(left)) if left else (steps[-1] if steps else 1.0))
        total = sum(float(label.values[0]) for label in solved)
        count = sum(len(label.values) for label in solved)
        return cls(probability=share, remaining_steps=steps, per_step=total / count if count else 0.0)

    def score(self, trajectories: Sequence[Trajectory], *, always: bool = False) -> list[list[Estimate]]:
        """Return an estimate for every history, by its step index.

        Args:
            trajectories: What to score.
            always: Whether to give the value even where completion is improbable.
        """
        last = len(self.probability) - 1
        table = [
            _estimate(probability, steps * self.per_step, always)
            for probability, steps in zip(self.probability, self.remaining_steps, strict=True)
        ]
        return [[table[min(t, last)] for t in range(len(trajectory))] for trajectory in trajectories]


class References(BaseModel):
    """Both references, fitted on the same training split as the meter and saved with it."""

    model_config = ConfigDict(frozen=True)
    constant: ConstantReference
    steps: StepReference

    @classmethod
    def fit(cls, labels: Sequence[Label]) -> References:
        """Fit both."""
        return cls(constant=ConstantReference.fit(labels), steps=StepReference.fit(labels))


def _estimate(probability: float, value: float, always: bool) -> Estimate:
    clipped = min(max(probability, 1e-6), 1 - 1e-6)
    logit = float(np.log(clipped / (1 - clipped)))
    can = always or probability >= 0.5
    return Estimate(can, float(value) if can else None, completion_logit=logit)


def _values(labels: Sequence[Label]) -> NDArray[np.float64]:
    return np.concatenate([label.values for label in labels if label.can_complete] or [np.zeros(0)])


def _share(labels: Sequence[Label]) -> float:
    total = sum(len(label.values) for label in labels)
    return sum(len(label.values) for label in labels if label.can_complete) / total if total else 0.0
