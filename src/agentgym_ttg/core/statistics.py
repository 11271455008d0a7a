"""Intervals for results."""

from __future__ import annotations

import math

__all__ = ["wilson_interval"]


def wilson_interval(successes: int, trials: int, z: float = 1.959964) -> tuple[float, float]:
    """Return the Wilson interval of a rate (95 % by default); (0, 1) without trials.

    >>> low, high = wilson_interval(7, 10)
    >>> round(low, 3), round(high, 3)
    (0.397, 0.892)
    >>> wilson_interval(4, 4)[1]
    1.0
    """
    if trials == 0:
        return 0.0, 1.0
    rate = successes / trials
    centre = rate + z * z / (2 * trials)
    margin = z * math.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    # The interval holds the rate; at rates of 0 and 1 rounding would put its end a hair to the wrong side.
    return max(0.0, min(rate, (centre - margin) / scale)), min(1.0, max(rate, (centre + margin) / scale))
