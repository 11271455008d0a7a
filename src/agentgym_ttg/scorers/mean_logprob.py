"""Mean log-probability: how likely a model finds what was said."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from agentgym_ttg.core.errors import ConfigError
from agentgym_ttg.core.trajectory import Trajectory

from ._causal import open_reader, said_logprobs
from ._confidence import ConfidenceScorer
from .aggregation import TokenAggregation, aggregate_tokens
from .base import ScorerKind, ScorerSettings, StepScorer

__all__ = ["MEAN_LOGPROB", "RecordedLogprobs"]


class RecordedLogprobs:
    """Aggregates the log-probabilities that the policy recorded when it sampled; reads no model.

    Args:
        how: Aggregation over a step's tokens.
    """

    tokens_scored = 0

    def __init__(self, how: TokenAggregation = "mean") -> None:
        self.name = "mean-logprob"
        self._how = how

    def step_scores(self, trajectories: Sequence[Trajectory]) -> list[NDArray[np.float64]]:
        """Return the aggregated log-probability of each step.

        Raises:
            ConfigError: If a message came without log-probabilities.
        """
        return [np.array([self._step(t, i) for i in range(len(t))], dtype=np.float64) for t in trajectories]

    def _step(self, trajectory: Trajectory, step: int) -> float:
        said = trajectory.turns[step].completion
        if said.logprobs is None and said:
            raise ConfigError(
                f"step {step} of {trajectory.task_id!r} by {trajectory.policy!r} was recorded without "
                "log-probabilities; name a model to read them with (model)"
            )
        return aggregate_tokens(said.logprobs or (), self._how)


def _build(settings: ScorerSettings) -> StepScorer:
    how = settings.token_aggregation
    if settings.model is None:
        return RecordedLogprobs(how)
    reader = open_reader(settings, settings.model)
    return ConfidenceScorer("mean-logprob", reader, said_logprobs, partial(aggregate_tokens, how=how))


MEAN_LOGPROB = ScorerKind(
    "mean-logprob",
    "log-probability of what was said, by a model or as recorded when it was sampled",
    "confidence baseline of Progress Advantage, arXiv:2606.26080",
    _build,
)
