"""How well stated confidence fits success."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["calibration_error"]


def calibration_error(confidence: Sequence[float], correct: Sequence[bool], *, bins: int = 10) -> float:
    """Return the expected calibration error.

    Answers are put into equal-width bins of confidence; the error is the mean of ``|accuracy - mean confidence|`` over
    the bins, weighted by their answers.

    Args:
        confidence: Stated, in [0, 1], shape ``(n,)``.
        correct: Shape ``(n,)``.
        bins: How many.

    Raises:
        ValueError: If the shapes differ, there is nothing, or a confidence is outside [0, 1].

    >>> round(calibration_error([0.9, 0.9, 0.1, 0.1], [True, False, False, False]), 3)
    0.25
    """
    stated, right = np.asarray(confidence, dtype=np.float64), np.asarray(correct, dtype=np.float64)
    if stated.ndim != 1 or stated.shape != right.shape or not len(stated):
        raise ValueError(f"expected as many confidences as outcomes, at least one; got {stated.shape}, {right.shape}")
    if not ((stated >= 0) & (stated <= 1)).all():
        raise ValueError("expected confidences in [0, 1]")
    place = np.minimum((stated * bins).astype(int), bins - 1)
    count = np.bincount(place, minlength=bins)
    gap = np.abs(np.bincount(place, right, bins) - np.bincount(place, stated, bins))  # sums: already weighted
    return float(gap[count > 0].sum() / len(stated))
