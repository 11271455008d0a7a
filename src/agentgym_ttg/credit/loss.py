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
    """Return the loss of each token; the batch's loss is one mean over all trainable tokens.

    Args:
        ratio: Current over rollout probability, any shape.
        advantage: Redistributed advantage, same shape.
        epsilon_low: Lower clip.
        epsilon_high: Upper clip.
        dual_clip: d; None for none.

    >>> clip_loss([1.5, 4.0], [2.0, -2.0]).tolist()
    [-2.56, 6.0]
    """
    r, a = np.asarray(ratio, dtype=np.float64), np.asarray(advantage, dtype=np.float64)
    score = np.minimum(r * a, np.clip(r, 1 - epsilon_low, 1 + epsilon_high) * a)
    if dual_clip is not None:
        score = np.where(a < 0, np.maximum(score, dual_clip * a), score)
    return -score
