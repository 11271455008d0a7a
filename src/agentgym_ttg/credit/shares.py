"""From costs to step shares: equations 7 to 10 of the specification. Pure numbers, float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["costs_from_estimates", "progress_deltas", "step_shares", "token_to_go"]

Array = NDArray[np.float64]


def as_vector(values: ArrayLike, name: str, *, nonnegative: bool = False) -> Array:
    """Return ``values`` as a finite float64 vector.

    Raises:
        ValueError: If it is not one-dimensional, not finite, or negative where it must not be.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"expected {name} of shape (T,), got shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(
            f"expected finite {name}, got {array[~np.isfinite(array)][0]} at {_first(~np.isfinite(array))}"
        )
    if nonnegative and (array < 0).any():
        raise ValueError(f"expected {name} >= 0, got {array[array < 0][0]} at {_first(array < 0)}")
    return array


def _first(mask: NDArray[Any]) -> int:
    return int(np.flatnonzero(mask)[0])


def token_to_go(token_counts: ArrayLike) -> Array:
    """Return TTG_t, the tokens from action t on, t included (eq. 1).

    Args:
        token_counts: n_t, shape ``(T,)``, >= 0.

    Returns:
        Suffix sums, shape ``(T,)``.

    Raises:
        ValueError: If the counts are negative, not finite or not a vector.

    >>> token_to_go([3, 5, 2]).tolist()
    [10.0, 7.0, 2.0]
    """
    counts = as_vector(token_counts, "token counts", nonnegative=True)
    return np.cumsum(counts[::-1])[::-1].copy()


def costs_from_estimates(
    can_complete: ArrayLike, remaining_tokens: ArrayLike, *, failure_cost: float, clip: bool = True
) -> Array:
    """Return c_t: the remaining tokens, or C where the state cannot be completed (eq. 7).

    Args:
        can_complete: b_hat, shape ``(T,)``; booleans, or 0 and 1.
        remaining_tokens: v_hat, shape ``(T,)``; ignored (may be NaN) where ``can_complete`` is false.
        failure_cost: C > 0.
        clip: Whether an estimate above C counts as C, so that failure is never cheaper than success (the spec's
            default for an unknown).

    Raises:
        ValueError: If shapes differ, an estimate is negative or not finite, or C is not finite and positive.

    >>> costs_from_estimates([True, False], [120.0, float("nan")], failure_cost=800).tolist()
    [120.0, 800.0]
    """
    if not (np.isfinite(failure_cost) and failure_cost > 0):
        raise ValueError(f"expected a finite failure cost > 0, got {failure_cost}")
    said = np.asarray(can_complete)
    possible = said.astype(bool)
    if (said != possible).any():
        raise ValueError(f"expected can_complete to be booleans, got {said[said != possible][0]}")
    remaining = np.asarray(remaining_tokens, dtype=np.float64)
    if possible.ndim != 1 or possible.shape != remaining.shape:
        raise ValueError(f"expected two vectors of one length, got shapes {possible.shape} and {remaining.shape}")
    as_vector(remaining[possible], "remaining tokens", nonnegative=True)
    costs = np.where(possible, remaining, failure_cost)
    return np.minimum(costs, failure_cost) if clip else costs


def progress_deltas(costs: ArrayLike, terminal_cost: float) -> Array:
    """Return Delta_t = c_t - c_{t+1}; progress is positive (eq. 8 and 9).

    Args:
        costs: c_0 … c_{T-1}, shape ``(T,)``, >= 0.
        terminal_cost: c_T: 0 after success, C after failure or truncation.

    Returns:
        Shape ``(T,)``; the sum telescopes to ``c_0 - c_T``.

    Raises:
        ValueError: If a cost is negative or not finite, or ``costs`` is not a vector.

    >>> progress_deltas([900, 600, 650, 200], 0).tolist()
    [300.0, -50.0, 450.0, 200.0]
    """
    before = as_vector(costs, "costs", nonnegative=True)
    last = as_vector([terminal_cost], "terminal cost", nonnegative=True)
    return np.asarray(before - np.concatenate([before[1:], last])[: len(before)])


def step_shares(deltas: ArrayLike, advantage: float, *, rho: float = 0.2, sign_aware: bool = True) -> Array:
    """Return q_t, the share of each step in the trajectory's advantage (eq. 10).

    A positive advantage goes to progress, a negative one to regress; ``rho`` of it is spread evenly. Where nothing
    qualifies, and where the advantage is 0, all shares are equal.

    Args:
        deltas: Delta_t, shape ``(T,)``; T may be 0.
        advantage: A_i.
        rho: Uniform part, in [0, 1]; 1 gives equal shares.
        sign_aware: False distributes by progress whatever the sign (ablation ``pos``).

    Returns:
        Shape ``(T,)``, non-negative, sum 1.

    Raises:
        ValueError: If an argument is not finite or ``rho`` is outside [0, 1].

    >>> step_shares([300, -50, 450, 200], 1.0, rho=0.2).round(3).tolist()
    [0.303, 0.05, 0.429, 0.218]
    """
    change = as_vector(deltas, "deltas")
    if not 0 <= rho <= 1:
        raise ValueError(f"expected rho in [0, 1], got {rho}")
    if not np.isfinite(advantage):
        raise ValueError(f"expected a finite advantage, got {advantage}")
    steps = len(change)
    if steps == 0:
        return change
    if advantage == 0:
        mass = np.zeros(steps)
    else:
        mass = np.maximum(change if advantage > 0 or not sign_aware else -change, 0.0)
    peak = mass.max()
    if peak == 0:
        return np.full(steps, 1.0 / steps)
    mass = mass / peak  # so that the sum of huge masses stays finite
    return np.asarray(rho / steps + (1.0 - rho) * mass / mass.sum())
