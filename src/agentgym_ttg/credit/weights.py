"""The operator B_M: from step shares to bounded token weights of mean 1 (eq. 11, D.4)."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .shares import as_vector

__all__ = ["bounded_unit_mean_weights"]


def bounded_unit_mean_weights(
    shares: ArrayLike,
    token_counts: ArrayLike,
    *,
    cap: float = 5.0,
    reading: Literal["broadcast", "split"] = "broadcast",
) -> NDArray[np.float64]:
    """Return w_t: what the advantage is multiplied by at every token of step t.

    The shares are scaled to a token-weighted mean of 1, capped at ``cap``, and what the cap cuts off goes to the
    uncapped tokens in proportion to the room they have left. One pass suffices (spec, section 2, claim e).

    Args:
        shares: q_t >= 0, shape ``(T,)``.
        token_counts: n_t >= 0, trainable tokens of each step, shape ``(T,)``. A step without tokens has no
            multiplier; its entry is 1 and no token ever meets it.
        cap: M >= 1.
        reading: ``broadcast`` gives every token of a step the step's share (then rho = 1 and M = 1 are GRPO);
            ``split`` divides the share among the step's tokens first.

    Returns:
        Shape ``(T,)``, in [0, cap], with ``sum n_t w_t = sum n_t``.

    Raises:
        ValueError: If shapes differ, a value is negative or not finite, or ``cap < 1``.

    >>> bounded_unit_mean_weights([0.45, 0.45, 0.05, 0.05], [1, 2, 50, 47]).round(3).tolist()
    [5.0, 5.0, 0.876, 0.876]
    """
    q = as_vector(shares, "shares", nonnegative=True)
    n = as_vector(token_counts, "token counts", nonnegative=True)
    if q.shape != n.shape:
        raise ValueError(f"expected one token count for each share, got shapes {q.shape} and {n.shape}")
    if not (np.isfinite(cap) and cap >= 1):
        raise ValueError(f"expected a finite cap >= 1, got {cap}")
    if reading not in ("broadcast", "split"):
        raise ValueError(f"expected reading 'broadcast' or 'split', got {reading!r}")
    weights = np.ones(len(q))
    spoken = n > 0
    tokens = n[spoken]
    raw = q[spoken] if reading == "broadcast" else q[spoken] / tokens
    peak = raw.max(initial=0.0)
    if peak == 0:  # no trainable token, or all mass on steps without one
        return weights
    if cap == 1:  # the bounds leave nothing else; so it is exactly GRPO
        return weights
    raw = raw / peak
    total = tokens.sum()
    scaled = raw * (total / (tokens * raw).sum())
    capped = np.minimum(scaled, cap)
    excess = (tokens * (scaled - capped)).sum()
    room = cap - capped
    capacity = (tokens * room).sum()
    if excess > 0 and capacity > 0:
        # In exact arithmetic excess <= capacity; rounding must not push a weight past the cap.
        capped = np.minimum(capped + min(excess / capacity, 1.0) * room, cap)
    weights[spoken] = capped
    return weights
