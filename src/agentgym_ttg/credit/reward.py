"""The reward of the meter's own training (eq. 4 and 5)."""

from __future__ import annotations

import math
from typing import Literal

__all__ = ["prediction_reward", "token_accuracy"]


def token_accuracy(predicted: float, actual: float, *, form: Literal["linear", "ratio"] = "linear") -> float:
    """Return u in [0, 1], how near a predicted token count is.

    Args:
        predicted: v_hat >= 0.
        actual: v >= 0.
        form: ``linear``: ``max(0, 1 - |v_hat - v| / max(v, 1))``; ``ratio``: ``min / max``, 0/0 = 1. The paper's exact
            form is not known (spec, section 1).

    Raises:
        ValueError: If a count is negative or not finite, or ``form`` is unknown.

    >>> token_accuracy(500, 400), token_accuracy(500, 400, form="ratio")
    (0.75, 0.8)
    """
    if not (_is_count(predicted) and _is_count(actual)):
        raise ValueError(f"expected finite token counts >= 0, got {predicted} and {actual}")
    if form == "linear":
        return max(0.0, 1.0 - abs(predicted - actual) / max(actual, 1.0))
    if form == "ratio":
        if predicted == actual == 0:
            return 1.0
        return min(predicted, actual) / max(predicted, actual, 1.0)
    raise ValueError(f"expected form 'linear' or 'ratio', got {form!r}")


def prediction_reward(
    predicted: tuple[bool, float | None] | None,
    actual: tuple[bool, float | None],
    *,
    form: Literal["linear", "ratio"] = "linear",
) -> float:
    """Return the reward of one answer (eq. 4).

    Args:
        predicted: (b_hat, v_hat), None for an answer that could not be read. With b_hat true, a v_hat that is missing,
            negative or not finite makes the answer invalid too.
        actual: (b, v), the label; v is not looked at where b is false.
        form: Of u.

    Returns:
        0.2 + 0.8 u for a completable state recognised; 1 for a lost one recognised; -1 otherwise.

    Raises:
        ValueError: If the label is completable without a token count >= 0, or ``form`` is unknown.

    >>> prediction_reward((True, 300), (True, 400)), prediction_reward(None, (False, None))
    (0.8, -1.0)
    """
    completable, remaining = actual
    if completable and not (remaining is not None and _is_count(remaining)):
        raise ValueError(f"expected a label with remaining tokens >= 0 for a completable state, got {remaining}")
    if predicted is None or predicted[0] != completable:
        return -1.0
    if not completable or remaining is None:
        return 1.0
    guess = predicted[1]
    if guess is None or not _is_count(guess):
        return -1.0
    return 0.2 + 0.8 * token_accuracy(guess, remaining, form=form)


def _is_count(value: float) -> bool:
    return math.isfinite(value) and value >= 0
