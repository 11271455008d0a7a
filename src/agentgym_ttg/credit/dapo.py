"""DAPO: GRPO's advantages, overlong shaping, and what dynamic sampling keeps.

The asymmetric clip and the token mean are settings of the loss; the sampling loop is the rollout's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from agentgym_ttg.core.trajectory import TrajectoryGroup

from .estimators import GroupEstimator, StepCredit, spread, trajectory_advantages, usable

__all__ = ["DAPO", "is_informative", "overlong_penalty"]


def overlong_penalty(tokens: float, *, max_tokens: float, buffer: float, factor: float = 1.0) -> float:
    """Return the soft penalty of a long trajectory: ``min(-(tokens - (max - buffer)) / buffer * factor, 0)``.

    Args:
        tokens: Assistant tokens of the trajectory; observations do not count.
        max_tokens: Length at which the penalty reaches ``factor``; it grows on beyond.
        buffer: Length of the ramp before it, in (0, max_tokens].
        factor: Its height, >= 0.

    Returns:
        At most 0, to be added to the reward.

    Raises:
        ValueError: If an argument is out of range.

    >>> overlong_penalty(80, max_tokens=100, buffer=20), overlong_penalty(90, max_tokens=100, buffer=20)
    (0.0, -0.5)
    """
    if not 0 < buffer <= max_tokens:
        raise ValueError(f"expected 0 < buffer <= max_tokens, got buffer {buffer} and max_tokens {max_tokens}")
    if not factor >= 0:
        raise ValueError(f"expected factor >= 0, got {factor}")
    return min(-(tokens - (max_tokens - buffer)) / buffer * factor, 0.0) + 0.0


def is_informative(group: TrajectoryGroup) -> bool:
    """Whether the rewards of a group differ, so that it teaches something; dynamic sampling drops it otherwise.

    Trajectories that ended as ``error`` do not count; the overlong penalty does not either.
    """
    rewards = [group.trajectories[i].total_reward for i in usable(group)]
    return bool(rewards) and max(rewards) != min(rewards)


@dataclass(frozen=True)
class DAPO(GroupEstimator):
    """Group-relative advantages of the reward plus the (negative) overlong penalty.

    Attributes:
        max_tokens: Assistant tokens of a trajectory at which the penalty is full; None switches it off.
        buffer: Ramp before it; None takes a fifth of ``max_tokens``, the paper's proportion.
        factor: Height of the penalty.
        normalize_over: As in GRPO.
        eps: Added to the deviation.

    Raises:
        ValueError: If a setting is out of range.
    """

    max_tokens: float | None = None
    buffer: float | None = None
    factor: float = 1.0
    normalize_over: Literal["actions", "trajectories"] = "actions"
    eps: float = 1e-6

    def __post_init__(self) -> None:
        """Refuse what cannot work before any trajectory is rolled out."""
        self._penalty(0.0)

    def estimate_group(self, group: TrajectoryGroup) -> list[StepCredit]:
        """Return the credit of one group's trajectories."""
        rewards = np.array([t.total_reward + self._penalty(float(t.token_counts.sum())) for t in group])
        advantages = trajectory_advantages(group, rewards, eps=self.eps, normalize_over=self.normalize_over)
        return [StepCredit(spread(trajectory, a)) for trajectory, a in zip(group, advantages, strict=True)]

    def _penalty(self, tokens: float) -> float:
        if self.max_tokens is None:
            return 0.0
        buffer = self.max_tokens / 5 if self.buffer is None else self.buffer
        return overlong_penalty(tokens, max_tokens=self.max_tokens, buffer=buffer, factor=self.factor)
