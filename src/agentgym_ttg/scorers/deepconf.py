"""DeepConf: the least confident stretch of a step."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ._causal import open_reader
from ._confidence import ConfidenceScorer
from .base import ScorerKind, ScorerSettings, StepScorer

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["DEEPCONF", "lowest_window", "top_confidence"]


def top_confidence(log_probs: Tensor, said: Tensor, *, top_k: int) -> Tensor:
    """Return the negative mean log-probability of the ``top_k`` most probable tokens, ``(n,)``.

    One token that takes nearly all the mass leaves the others very improbable, which makes it high.
    """
    return -log_probs.topk(min(top_k, log_probs.shape[-1]), dim=-1).values.mean(-1)


def lowest_window(values: NDArray[np.float64], *, window: int) -> float:
    """Return the lowest mean over ``window`` consecutive tokens; over all of them where they are fewer.

    >>> lowest_window(np.array([4.0, 2.0, 0.0, 5.0]), window=2)
    1.0
    """
    if not len(values):
        return 0.0
    width = min(window, len(values))
    sums = np.cumsum(np.concatenate([[0.0], values]))
    return float(((sums[width:] - sums[:-width]) / width).min())


def _build(settings: ScorerSettings) -> StepScorer:
    assert settings.model is not None  # `needs`
    return ConfidenceScorer(
        "deepconf",
        open_reader(settings, settings.model),
        partial(top_confidence, top_k=settings.top_k),
        partial(lowest_window, window=settings.window),
    )


DEEPCONF = ScorerKind(
    "deepconf",
    "lowest mean confidence over a window of the step's tokens",
    "Fu et al., Deep Think with Confidence, 2025, arXiv:2508.15260",
    _build,
    needs=("model",),
)
