"""HGPO (arXiv 2602.22817): step advantages within groups of equal recent history, longer histories weighing more."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from agentgym_ttg.core.trajectory import Trajectory, TrajectoryGroup

from .estimators import GroupEstimator, StepCredit, trajectory_advantages, usable
from .gigpo import Normalization, check_step_settings, discounted_returns, group_relative, split_steps

__all__ = ["HGPO"]


@dataclass(frozen=True)
class HGPO(GroupEstimator):
    """Weighted mean over k = 1 … K + 1 of the advantage among the steps whose last k anchors are equal.

    A step takes part at length k if it has k anchors (its own and the k - 1 before it), none of them empty (unknown),
    and at least one other step of the group shares them. Where it takes part nowhere, its advantage is 0.

    Attributes:
        history_length: K, the history that the policy sees.
        gamma: Discount of the step returns.
        alpha: Weights are ``(k + 1) ** alpha`` or ``k ** alpha``, see ``weight_base``.
        weight_base: ``k+1`` (the paper's code) or ``k`` (another source).
        drop_zeros: Whether terms that are exactly 0 are left out of the mean, as in the paper's code.
        base_group: Whether the episode advantage of the whole group is a further term, of the weight of k = 0.
        mode: ``mean_std_norm`` divides by the (population) deviation, ``mean_norm`` does not.
        normalize_over: Of the episode advantage.
        eps: Added to the deviations, and to the sum of the weights (as in the paper's code).

    Raises:
        ValueError: If a setting is out of range.
    """

    history_length: int = 2
    gamma: float = 0.95
    alpha: float = 1.0
    weight_base: Literal["k+1", "k"] = "k+1"
    drop_zeros: bool = True
    base_group: bool = False
    mode: Normalization = "mean_std_norm"
    normalize_over: Literal["actions", "trajectories"] = "actions"
    eps: float = 1e-6

    def __post_init__(self) -> None:
        """Refuse what cannot work before any trajectory is rolled out."""
        check_step_settings(self.gamma, self.mode)
        if self.history_length < 0:
            raise ValueError(f"expected history_length >= 0, got {self.history_length}")
        if not self.alpha >= 0:
            raise ValueError(f"expected alpha >= 0, got {self.alpha}")
        if self.weight_base not in ("k+1", "k"):
            raise ValueError(f"expected weight_base 'k+1' or 'k', got {self.weight_base!r}")

    def estimate_group(self, group: TrajectoryGroup) -> list[StepCredit]:
        """Return the credit of one group's trajectories."""
        out = [StepCredit(np.zeros(len(trajectory))) for trajectory in group]
        counted = usable(group)
        if not counted:
            return out
        trajectories = [group.trajectories[i] for i in counted]
        returns = np.concatenate([discounted_returns(trajectory, self.gamma) for trajectory in trajectories])
        terms: list[NDArray[np.float64]] = []
        present: list[NDArray[np.bool_]] = []
        weights: list[float] = []
        for k in range(1, self.history_length + 2):
            keys = recent_anchors(trajectories, k)
            sizes = Counter(keys)
            terms.append(group_relative(returns, keys, eps=self.eps, ddof=0, mode=self.mode))
            present.append(np.array([key is not None and sizes[key] > 1 for key in keys]))
            weights.append(self._weight(k))
        if self.base_group:
            episode = trajectory_advantages(
                group, eps=self.eps, normalize_over=self.normalize_over, divide_by_std=self.mode == "mean_std_norm"
            )
            terms.append(np.concatenate([np.full(len(group.trajectories[i]), episode[i]) for i in counted]))
            present.append(np.ones(len(returns), dtype=bool))
            weights.append(self._weight(0))
        steps = self._mean(np.array(terms), np.array(present), np.array(weights))
        for i, part in zip(counted, split_steps(steps, trajectories), strict=True):
            out[i].advantages = part
        return out

    def _weight(self, k: int) -> float:
        return math.pow(k + 1 if self.weight_base == "k+1" else k, self.alpha)

    def _mean(
        self, terms: NDArray[np.float64], present: NDArray[np.bool_], weights: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the weighted mean of the terms that are there, all of shape ``(K + 1, N)``; 0 where none is."""
        taken = weights[:, None] * (present & (terms != 0) if self.drop_zeros else present)
        total = taken.sum(axis=0)
        weighted = (taken * terms).sum(axis=0)
        return np.asarray(np.divide(weighted, total + self.eps, out=np.zeros_like(weighted), where=total > 0))


def recent_anchors(trajectories: Sequence[Trajectory], length: int) -> list[tuple[str, ...] | None]:
    """Return the last ``length`` anchors at every step of every trajectory; None where there are not as many."""
    out: list[tuple[str, ...] | None] = []
    for trajectory in trajectories:
        anchors = trajectory.anchors
        for end in range(1, len(anchors) + 1):
            recent = tuple(anchors[max(0, end - length) : end])
            out.append(recent if len(recent) == length and all(recent) else None)
    return out
