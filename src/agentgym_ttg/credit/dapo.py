"""DAPO: GRPO's advantages, overlong shaping, and what dynamic sampling keeps.

The asymmetric clip and the token mean are settings of the loss; the sampling loop is the rollout's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from agentgym_ttg.core.trajectory import Trajectory, TrajectoryGroup

from .estimators import GroupEstimator, StepCredit, spread, trajectory_advantages, usable

__all__ = ["DAPO", "is_informative", "overlong_penalty"]


def overlong_penalty(tokens: float, *, max_tokens: float, buffer: float, factor: float = 1.0) -> float:
    """Return the soft penalty of a long trajectory: ``min(-(tokens - (max - buffer)) / buffer * factor, 0)``.

    Args:
        tokens: Assistant tokens of the trajectory; observations do not count.
        max_tokens: Length at which the penalty reaches ``factor``.
        buffer: Length of the ramp before it, > 0.
        factor: Its height.

    Raises:
        ValueError: If the buffer is not positive.

    >>> overlong_penalty(80, max_tokens=100, buffer=20), overlong_penalty(90, max_tokens=100, buffer=20)
    (0.0, -0.5)
    """
    if not buffer > 0:
        raise ValueError(f"expected buffer > 0, got {buffer}")
    return min(-(tokens - (max_tokens - buffer)) / buffer * factor, 0.0) + 0.0


def is_informative(group: TrajectoryGroup) -> bool:
    """Whether the rewards of a group differ, so that it has a gradient (dynamic sampling drops it otherwise)."""
    rewards = [group.trajectories[i].total_reward for i in usable(group)]
    return bool(rewards) and max(rewards) != min(rewards)


@dataclass(frozen=True)
class DAPO(GroupEstimator):
    """Group-relative advantages of the reward minus the overlong penalty.

    Attributes:
        max_tokens: Assistant tokens at which the penalty is full; None switches it off.
        buffer: Ramp before it.
        factor: Height of the penalty.
        normalize_over: As in GRPO.
        eps: Added to the deviation.
    """

    max_tokens: float | None = None
    buffer: float = 1.0
    factor: float = 1.0
    normalize_over: Literal["actions", "trajectories"] = "actions"
    eps: float = 1e-6

    def estimate_group(self, group: TrajectoryGroup) -> list[StepCredit]:
        """Return the credit of one group's trajectories."""
        rewards = np.array([trajectory.total_reward + self._penalty(trajectory) for trajectory in group])
        advantages = trajectory_advantages(group, rewards, eps=self.eps, normalize_over=self.normalize_over)
        return [StepCredit(spread(trajectory, float(a))) for trajectory, a in zip(group, advantages, strict=True)]

    def _penalty(self, trajectory: Trajectory) -> float:
        if self.max_tokens is None:
            return 0.0
        tokens = float(trajectory.token_counts.sum())
        return overlong_penalty(tokens, max_tokens=self.max_tokens, buffer=self.buffer, factor=self.factor)
