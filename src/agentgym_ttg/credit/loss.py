"""The reference form of the policy loss (eq. 12), which TRL's is compared with in tests."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["clip_loss"]


def clip_loss(
    ratio: ArrayLike,
    advantage: ArrayLike,
    *,
    epsilon_low: float = 0.2,
    epsilon_high: float = 0.28,
    dual_clip: float | None = 3.0,
) -> NDArray[np.float64]:
    """Return the loss of each token; the batch's loss is one mean over all its trainable tokens.

    Args:
        ratio: Current over rollout probability, any shape.
        advantage: Redistributed advantage, same shape.
        epsilon_low: Lower clip.
        epsilon_high: Upper clip.
        dual_clip: d > 1: with a negative advantage the loss is at most d times its size; None for no bound.

    Raises:
        ValueError: If the shapes differ, a ratio is negative, or ``dual_clip`` is not above 1.

    >>> clip_loss([1.5, 4.0], [2.0, -2.0]).tolist()
    [-2.56, 6.0]
    """
    r, a = np.asarray(ratio, dtype=np.float64), np.asarray(advantage, dtype=np.float64)
    if r.shape != a.shape:
        raise ValueError(f"expected one advantage for each ratio, got shapes {r.shape} and {a.shape}")
    if (r < 0).any():
        raise ValueError(f"expected ratios >= 0, got {r[r < 0].flat[0]}")
    if dual_clip is not None and not dual_clip > 1:
        raise ValueError(f"expected dual_clip > 1 or None, got {dual_clip}")
    score = np.minimum(r * a, np.clip(r, 1 - epsilon_low, 1 + epsilon_high) * a)
    if dual_clip is not None:
        score = np.where(a < 0, np.maximum(score, dual_clip * a), score)
    return np.asarray(-score)
