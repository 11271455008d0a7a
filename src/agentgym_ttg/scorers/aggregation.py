"""From the numbers of tokens to a step's, from those of steps to a trajectory's. Pure functions."""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from agentgym_ttg.core.errors import ConfigError

__all__ = ["STEP_AGGREGATIONS", "TOKEN_AGGREGATIONS", "StepAggregation", "TokenAggregation", "aggregate_steps"]
__all__ += ["aggregate_tokens"]

TokenAggregation = Literal["sum", "mean", "last", "min", "max"]
StepAggregation = Literal["sum", "mean", "last", "min", "max", "bottom10"]
TOKEN_AGGREGATIONS: tuple[TokenAggregation, ...] = get_args(TokenAggregation)
STEP_AGGREGATIONS: tuple[StepAggregation, ...] = get_args(StepAggregation)


def aggregate_tokens(values: ArrayLike, how: TokenAggregation = "mean") -> float:
    """Return the number of a step from those of its tokens, shape ``(n,)``; a step without tokens scores 0.

    >>> aggregate_tokens([-1.0, -3.0], "mean"), aggregate_tokens([], "min")
    (-2.0, 0.0)

    Raises:
        ConfigError: If there is no such aggregation.
    """
    if how not in TOKEN_AGGREGATIONS:
        raise ConfigError(f"unknown token aggregation {how!r}; expected one of {', '.join(TOKEN_AGGREGATIONS)}")
    array = np.asarray(values, dtype=np.float64)
    if not array.size:
        return 0.0
    if how == "last":
        return float(array[-1])
    return float(getattr(array, how)())  # sum, mean, min, max


def aggregate_steps(values: ArrayLike, how: StepAggregation = "mean") -> float:
    """Return the number of a trajectory from those of its steps, shape ``(T,)``.

    Steps that could not be scored (NaN) are left out. ``bottom10`` is the mean of the lowest tenth, at least one step.
    A trajectory without a scored step is NaN.

    >>> aggregate_steps([3.0, float("nan"), 1.0], "mean"), aggregate_steps(range(20), "bottom10")
    (2.0, 0.5)

    Raises:
        ConfigError: If there is no such aggregation.
    """
    if how not in STEP_AGGREGATIONS:
        raise ConfigError(f"unknown step aggregation {how!r}; expected one of {', '.join(STEP_AGGREGATIONS)}")
    array = np.asarray(values, dtype=np.float64)
    array = array[~np.isnan(array)]
    if not array.size:
        return math.nan
    if how == "bottom10":
        return float(np.sort(array)[: math.ceil(array.size / 10)].mean())
    return aggregate_tokens(array, how)
