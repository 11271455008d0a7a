"""From one number a step to one number a token."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["broadcast_to_tokens"]


def broadcast_to_tokens(step_values: ArrayLike, token_steps: ArrayLike) -> NDArray[np.float64]:
    """Give every trainable token the value of its step.

    Args:
        step_values: One value for each step of the trajectory, shape ``(T,)``.
        token_steps: For each completion token of a row the index of its step, -1 where it is not trained on, ``(L,)``.

    Returns:
        Shape ``(L,)``; 0 where ``token_steps`` is -1.

    Raises:
        ValueError: If a token names a step that is not there.

    >>> broadcast_to_tokens([0.5, -1.0], [0, 0, -1, 1]).tolist()
    [0.5, 0.5, 0.0, -1.0]
    """
    values = np.asarray(step_values, dtype=np.float64)
    steps = np.asarray(token_steps, dtype=np.int64)
    if len(steps) and (steps.min() < -1 or steps.max() >= len(values)):
        raise ValueError(f"expected step indices in [-1, {len(values)}), got {steps.min()} to {steps.max()}")
    if not len(values):
        return np.zeros(len(steps))
    return np.where(steps >= 0, values[np.maximum(steps, 0)], 0.0)
