"""HGPO (arXiv 2602.22817): step advantages within groups of equal recent history, longer histories weighing more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from agentgym_ttg.core.trajectory import TrajectoryGroup

from .estimators import GroupEstimator, StepCredit, trajectory_advantages, usable
from .gigpo import discounted_returns, group_relative

__all__ = ["HGPO"]


@dataclass(frozen=True)
class HGPO(GroupEstimator):
    """Weighted mean over k = 1 … K + 1 of the advantage among steps whose last k anchors are equal.

    Attributes:
        history_length: K, the history that the policy sees.
        gamma: Discount of the step returns.
        alpha: Weights are ``(k + 1) ** alpha`` or ``k ** alpha``, see ``weight_base``.
        weight_base: ``k+1`` (the paper's code) or ``k`` (another source).
        drop_zeros: Whether terms that are exactly 0 are left out of the mean, as in the paper's code.
        base_group: Whether the episode advantage of the whole group is a further term, of the weight of k = 0.
        normalize_over: Of that term.
        eps: Added to the (population) deviation.
    """

    history_length: int = 2
    gamma: float = 0.95
    alpha: float = 1.0
    weight_base: Literal["k+1", "k"] = "k+1"
    drop_zeros: bool = True
    base_group: bool = False
    normalize_over: Literal["actions", "trajectories"] = "actions"
    eps: float = 1e-6

    def estimate_group(self, group: TrajectoryGroup) -> list[StepCredit]:
        """Return the credit of one group's trajectories."""
        counted = usable(group)
        out = [StepCredit(np.zeros(len(trajectory))) for trajectory in group]
        if not counted:
            return out
        trajectories = [group.trajectories[i] for i in counted]
        returns = np.concatenate([discounted_returns(trajectory, self.gamma) for trajectory in trajectories])
        terms: list[NDArray[np.float64]] = []
        present: list[NDArray[np.bool_]] = []
        weights: list[float] = []
        for k in range(1, self.history_length + 2):
            keys = [
                tuple(trajectory.anchors[max(0, t + 1 - k) : t + 1]) if t + 1 >= k else None
                for trajectory in trajectories
                for t in range(len(trajectory))
            ]
            unique = [key if key is not None else ("alone", i) for i, key in enumerate(keys)]
            sizes: dict[object, int] = {}
            for key in unique:
                sizes[key] = sizes.get(key, 0) + 1
            terms.append(group_relative(returns, unique, eps=self.eps, ddof=0))
            present.append(np.array([sizes[key] > 1 for key in unique]))
            weights.append(float(k + 1 if self.weight_base == "k+1" else k) ** self.alpha)
        if self.base_group:
            episode = trajectory_advantages(group, eps=self.eps, normalize_over=self.normalize_over)
            terms.append(np.concatenate([np.full(len(group.trajectories[i]), episode[i]) for i in counted]))
            present.append(np.ones(len(returns), dtype=bool))
            weights.append(float(1 if self.weight_base == "k+1" else 0) ** self.alpha)
        steps = self._mean(np.array(terms), np.array(present), np.array(weights))
        edges = np.cumsum([len(trajectory) for trajectory in trajectories])[:-1]
        for i, part in zip(counted, np.split(steps, edges), strict=True):
            out[i].advantages = part
        return out

    def _mean(
        self, terms: NDArray[np.float64], present: NDArray[np.bool_], weights: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the weighted mean of the terms that are there; 0 where none is."""
        counts = present & (terms != 0) if self.drop_zeros else present
        total = (weights[:, None] * counts).sum(axis=0)
        weighted = (weights[:, None] * np.where(counts, terms, 0.0)).sum(axis=0)
        return np.asarray(np.divide(weighted, total, out=np.zeros_like(weighted), where=total > 0))
