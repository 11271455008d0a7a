"""From one number a step to one number a token."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["broadcast_to_tokens", "pad_rows"]


def broadcast_to_tokens(step_values: ArrayLike, token_steps: ArrayLike) -> NDArray[np.float64]:
    """Give every trainable token the value of its step.

    Args:
        step_values: One value for each step of the trajectory, shape ``(T,)``.
        token_steps: For each completion token of a row the index of its step, -1 where it is not trained on, ``(L,)``.

    Returns:
        Shape ``(L,)``; 0 where ``token_steps`` is -1.

    Raises:
        ValueError: If the shapes are not those, an index is not an integer or names a step that is not there, or a
            value that a token needs is not finite.

    >>> broadcast_to_tokens([0.5, -1.0], [0, 0, -1, 1]).tolist()
    [0.5, 0.5, 0.0, -1.0]
    """
    values = np.asarray(step_values, dtype=np.float64)
    steps = np.asarray(token_steps)
    if values.ndim != 1 or steps.ndim != 1:
        raise ValueError(f"expected step values (T,) and token steps (L,), got shapes {values.shape} and {steps.shape}")
    if not len(steps):
        return np.zeros(0)
    if steps.dtype.kind not in "iu":
        raise ValueError(f"expected integer step indices, got {steps.dtype}")
    if steps.min() < -1 or steps.max() >= len(values):
        raise ValueError(f"expected step indices in [-1, {len(values)}), got {steps.min()} to {steps.max()}")
    out = np.zeros(len(steps))
    trained = steps >= 0
    out[trained] = values[steps[trained]]
    if not np.isfinite(out).all():
        bad = int(steps[~np.isfinite(out)][0])
        raise ValueError(f"expected finite step values, got {values[bad]} at step {bad}")
    return out


def pad_rows(rows: Sequence[ArrayLike], *, length: int | None = None, fill: float = 0.0) -> NDArray[np.float64]:
    """Return rows of different lengths as one array, filled up on the right.

    Args:
        rows: B rows of shape ``(L_i,)``.
        length: Width of the result; None takes the longest row.
        fill: What stands where a row has ended.

    Returns:
        Shape ``(B, L)``.

    Raises:
        ValueError: If a row is not a vector or is longer than ``length``.

    >>> pad_rows([[1.0, 2.0], [3.0]]).tolist()
    [[1.0, 2.0], [3.0, 0.0]]
    """
    arrays = [np.asarray(row, dtype=np.float64) for row in rows]
    for i, array in enumerate(arrays):
        if array.ndim != 1:
            raise ValueError(f"expected rows of shape (L,), got shape {array.shape} at row {i}")
    longest = max(map(len, arrays), default=0)
    width = longest if length is None else length
    if longest > width:
        raise ValueError(f"expected rows of at most {width} tokens, got {longest}")
    out = np.full((len(arrays), width), float(fill))
    for i, array in enumerate(arrays):
        out[i, : len(array)] = array
    return out
