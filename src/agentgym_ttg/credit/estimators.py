"""What an advantage estimator is, and what it reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from agentgym_ttg.core.trajectory import Trajectory, TrajectoryGroup

__all__ = ["AdvantageEstimator", "CreditReport", "StepCredit", "trajectory_advantages"]


@dataclass(slots=True)
class StepCredit:
    """What an estimator says of one trajectory.

    Attributes:
        advantages: Of each step, shape ``(T,)``.
        weights: Multipliers of the trajectory's own advantage, ``(T,)``; None where the method has none.
        costs: c_0 … c_T, ``(T + 1,)``, where the method has them.
        deltas: Delta_t, ``(T,)``, where the method has them.
        kept: Why the original advantage was kept, ``""`` if it was redistributed.
    """

    advantages: NDArray[np.float64]
    weights: NDArray[np.float64] | None = None
    costs: NDArray[np.float64] | None = None
    deltas: NDArray[np.float64] | None = None
    kept: str = ""


@dataclass(slots=True)
class CreditReport:
    """The credit of a batch.

    Attributes:
        credits: One list for each group, one entry for each trajectory, in the given order.
        metrics: Numbers for the log.
    """

    credits: list[list[StepCredit]]
    metrics: dict[str, float] = field(default_factory=dict)


class AdvantageEstimator(Protocol):
    """Turns the outcomes of a task's trajectories into an advantage for each step."""

    def __call__(self, group: TrajectoryGroup) -> list[NDArray[np.float64]]:
        """Return one array of shape ``(T_i,)`` for each trajectory of the group."""

    def estimate(self, groups: Sequence[TrajectoryGroup]) -> CreditReport:
        """Return the credit of a whole batch; what has to be computed for all is computed once."""


class GroupEstimator:
    """Base of the estimators: a subclass writes :meth:`estimate_group`."""

    def __call__(self, group: TrajectoryGroup) -> list[NDArray[np.float64]]:
        """Return one array of shape ``(T_i,)`` for each trajectory of the group."""
        return [credit.advantages for credit in self.estimate([group]).credits[0]]

    def estimate(self, groups: Sequence[TrajectoryGroup]) -> CreditReport:
        """Return the credit of a batch, with its metrics."""
        credits = [self.estimate_group(group) for group in groups]
        return CreditReport(credits, batch_metrics(groups, credits))

    def estimate_group(self, group: TrajectoryGroup) -> list[StepCredit]:
        """Return the credit of one group's trajectories."""
        raise AssertionError("an estimator defines estimate_group")


def usable(group: TrajectoryGroup) -> list[int]:
    """Return the indices of the trajectories that count: those whose environment did not break down."""
    return [i for i, trajectory in enumerate(group) if trajectory.outcome != "error" and len(trajectory)]


def trajectory_advantages(
    group: TrajectoryGroup, rewards: NDArray[np.float64] | None = None, *, eps: float, normalize_over: str
) -> NDArray[np.float64]:
    """Return A_i of each trajectory (eq. 6), shape ``(G,)``; 0 for those that ended as ``error``.

    Args:
        group: The trajectories of one task.
        rewards: R_i in the place of the total rewards, shape ``(G,)``.
        eps: Added to the deviation.
        normalize_over: See :func:`~agentgym_ttg.credit.group_advantages`.
    """
    from .advantages import group_advantages

    out = np.zeros(len(group))
    counted = usable(group)
    if rewards is None:
        rewards = np.array([trajectory.total_reward for trajectory in group], dtype=np.float64)
    if counted:
        out[counted] = group_advantages(
            rewards[counted],
            [len(group.trajectories[i]) for i in counted],
            eps=eps,
            normalize_over=normalize_over,  # type: ignore[arg-type]
        )
    return out


def spread(trajectory: Trajectory, advantage: float) -> NDArray[np.float64]:
    """Return the same advantage for every step, shape ``(T,)``."""
    return np.full(len(trajectory), advantage)


def batch_metrics(groups: Sequence[TrajectoryGroup], credits: Sequence[Sequence[StepCredit]]) -> dict[str, float]:
    """Return the numbers that every method logs about its credit."""
    flat = [credit for group in credits for credit in group]
    counts = [[group.trajectories[i].total_reward for i in usable(group)] for group in groups]
    constant = sum(1 for rewards in counts if not rewards or max(rewards) == min(rewards))
    metrics = {
        "zero_variance_groups": constant / max(len(groups), 1),
        "error_trajectories": float(sum(t.outcome == "error" for group in groups for t in group)),
    }
    weighted = [credit for credit in flat if credit.weights is not None]
    if weighted:
        kept = Counter(credit.kept for credit in weighted if credit.kept)
        metrics["kept_original"] = sum(kept.values()) / len(weighted)
        metrics.update({f"kept_{reason}": count / len(weighted) for reason, count in sorted(kept.items())})
        moved = [credit.weights for credit in weighted if not credit.kept and credit.weights is not None]
        if moved:
            weights = np.concatenate(moved)
            metrics["weight_min"], metrics["weight_max"] = float(weights.min()), float(weights.max())
            metrics["weight_mean"], metrics["weight_std"] = float(weights.mean()), float(weights.std())
    return metrics
