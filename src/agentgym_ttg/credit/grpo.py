"""GRPO: every step of a trajectory has the trajectory's group-relative advantage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agentgym_ttg.core.trajectory import TrajectoryGroup

from .estimators import GroupEstimator, StepCredit, spread, trajectory_advantages

__all__ = ["GRPO"]


@dataclass(frozen=True)
class GRPO(GroupEstimator):
    """Group-relative advantages (eq. 6), the same for every step.

    Attributes:
        normalize_over: ``actions`` (the reading of DeltaTTG) or ``trajectories``.
        eps: Added to the deviation.

    >>> from agentgym_ttg.core import Completion, Trajectory, Turn
    >>> def played(steps, outcome, reward):
    ...     return Trajectory("e", "t", turns=[Turn((), Completion())] * steps, outcome=outcome, total_reward=reward)
    >>> group = TrajectoryGroup("t", [played(1, "success", 1.0), played(3, "failure", 0.0)])
    >>> [array.round(2).tolist() for array in GRPO()(group)]
    [[1.5], [-0.5, -0.5, -0.5]]
    """

    normalize_over: Literal["actions", "trajectories"] = "actions"
    eps: float = 1e-6

    def estimate_group(self, group: TrajectoryGroup) -> list[StepCredit]:
        """Return the credit of one group's trajectories."""
        advantages = trajectory_advantages(group, eps=self.eps, normalize_over=self.normalize_over)
        return [StepCredit(spread(trajectory, a)) for trajectory, a in zip(group, advantages, strict=True)]
