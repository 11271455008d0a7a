"""Group-relative advantages (eq. 6), and those of the meter's own training (eq. 5')."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .shares import as_vector

__all__ = ["group_advantages", "prediction_advantages"]


def group_advantages(
    rewards: ArrayLike,
    num_actions: ArrayLike,
    *,
    eps: float = 1e-6,
    normalize_over: Literal["actions", "trajectories"] = "actions",
    divide_by_std: bool = True,
) -> NDArray[np.float64]:
    """Return A_i = (R_i - mean) / (std + eps) within one task's group.

    Args:
        rewards: R_i, shape ``(G,)``.
        num_actions: T_i >= 0, shape ``(G,)``.
        eps: Added to the standard deviation, >= 0.
        normalize_over: ``actions`` takes mean and sample deviation after repeating each R_i once per action (D.3);
            ``trajectories`` counts each once.
        divide_by_std: False gives R_i - mean.

    Returns:
        Shape ``(G,)``. Exactly 0 throughout where all rewards are equal, and in a group of one.

    Raises:
        ValueError: If shapes differ, a value is not finite, a count or ``eps`` is negative, or ``normalize_over`` is
            unknown.

    >>> group_advantages([1, 0, 0, 1], [3, 5, 2, 4]).round(4).tolist()
    [0.9636, -0.9636, -0.9636, 0.9636]
    """
    reward = as_vector(rewards, "rewards")
    counts = as_vector(num_actions, "numbers of actions", nonnegative=True)
    if reward.shape != counts.shape:
        raise ValueError(f"expected one number of actions for each reward, got {counts.shape} for {reward.shape}")
    if normalize_over not in ("actions", "trajectories"):
        raise ValueError(f"expected normalize_over 'actions' or 'trajectories', got {normalize_over!r}")
    if not (np.isfinite(eps) and eps >= 0):
        raise ValueError(f"expected a finite eps >= 0, got {eps}")
    repeats = counts if normalize_over == "actions" else np.ones_like(counts)
    counted = reward[repeats > 0]
    rows = repeats.sum()
    # Compared, not computed: a rounding error over eps would be a spurious advantage.
    if len(counted) == 0 or rows < 2 or counted.max() == counted.min():
        return np.zeros_like(reward)
    mean = (repeats * reward).sum() / rows
    if not divide_by_std:
        return np.asarray(reward - mean)
    variance = (repeats * (reward - mean) ** 2).sum() / (rows - 1)
    return np.asarray((reward - mean) / (np.sqrt(variance) + eps))


def prediction_advantages(rewards: ArrayLike, *, eps: float = 1e-6) -> NDArray[np.float64]:
    """Return the advantages of the meter's answers to one history (eq. 5').

    Args:
        rewards: r_j of each answer, shape ``(G,)``.
        eps: Added to the sample deviation.

    Returns:
        Shape ``(G,)``; 0 throughout where all are equal.

    >>> prediction_advantages([1.0, -1.0, 0.0]).round(3).tolist()
    [1.0, -1.0, 0.0]
    """
    reward = as_vector(rewards, "rewards")
    return group_advantages(reward, np.ones_like(reward), eps=eps)
