"""Self-certainty: how far a model's distributions are from uniform where something was said."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from ._causal import open_reader
from ._confidence import ConfidenceScorer
from .aggregation import aggregate_tokens
from .base import ScorerKind, ScorerSettings, StepScorer

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["SELF_CERTAINTY", "certainty"]


def certainty(log_probs: Tensor, said: Tensor) -> Tensor:
    """Return KL(uniform || p) at each token, ``(n,)``: -log V minus the mean log-probability of the vocabulary."""
    return -math.log(log_probs.shape[-1]) - log_probs.mean(-1)


def _build(settings: ScorerSettings) -> StepScorer:
    assert settings.model is not None  # `needs`
    step = partial(aggregate_tokens, how=settings.token_aggregation)
    return ConfidenceScorer("self-certainty", open_reader(settings, settings.model), certainty, step)


SELF_CERTAINTY = ScorerKind(
    "self-certainty",
    "mean divergence of the model's distributions from uniform",
    "Kang et al., Scalable Best-of-N Selection via Self-Certainty, 2025, arXiv:2502.18581",
    _build,
    needs=("model",),
)
