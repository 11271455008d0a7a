"""Progress Advantage: by how much a trained policy finds a step more likely than the model it was trained from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agentgym_ttg.core.errors import ConfigError
from agentgym_ttg.core.trajectory import Trajectory

from ._causal import TrajectoryReader, check_same_tokenizer, open_reader, said_logprobs
from .aggregation import TokenAggregation, aggregate_tokens
from .base import ScorerKind, ScorerSettings, StepScorer

__all__ = ["PROGRESS_ADVANTAGE", "Order", "ProgressAdvantageScorer", "progress_advantage"]

Order = Literal["aggregate-first", "ratio-first"]


def progress_advantage(
    logp_policy: ArrayLike,
    logp_reference: ArrayLike,
    how: TokenAggregation = "mean",
    *,
    order: Order = "aggregate-first",
    beta: float = 1.0,
) -> float:
    """Return beta (log pi - log pi_ref) of a step from the log-probabilities of its tokens.

    Args:
        logp_policy: By the policy, ``(n,)``.
        logp_reference: By the reference, ``(n,)``.
        how: Aggregation over the tokens.
        order: ``aggregate-first`` aggregates each model's log-probabilities and subtracts (the authors' code);
            ``ratio-first`` subtracts at each token and aggregates. They differ for ``min`` and ``max``.
        beta: Factor.

    Raises:
        ValueError: If the two have not the same tokens.

    >>> round(progress_advantage([-0.1, -2.0], [-0.3, -0.5], "min"), 3)
    -1.5
    """
    policy = np.asarray(logp_policy, dtype=np.float64)
    reference = np.asarray(logp_reference, dtype=np.float64)
    if policy.shape != reference.shape:
        raise ValueError(f"expected log-probabilities of the same tokens, got {policy.shape} and {reference.shape}")
    if order == "ratio-first":
        return beta * aggregate_tokens(policy - reference, how)
    if order != "aggregate-first":
        raise ConfigError(f"unknown order {order!r}; expected aggregate-first or ratio-first")
    return beta * (aggregate_tokens(policy, how) - aggregate_tokens(reference, how))


class ProgressAdvantageScorer:
    """Scores steps with two checkpoints; each reads a trajectory once.

    Args:
        policy: The trained checkpoint.
        reference: The one it was trained from.
        how: Aggregation over a step's tokens.
        order: See :func:`progress_advantage`.
        beta: Factor.

    Raises:
        ConfigError: If the checkpoints' tokens are not the same.
    """

    def __init__(
        self,
        policy: TrajectoryReader,
        reference: TrajectoryReader,
        *,
        how: TokenAggregation = "mean",
        order: Order = "aggregate-first",
        beta: float = 1.0,
    ) -> None:
        check_same_tokenizer(policy, reference)
        self.name = "progress-advantage"
        self.policy = policy
        self.reference = reference
        self.how = how
        self.order = order
        self.beta = beta

    @property
    def tokens_scored(self) -> int:
        """Tokens that both checkpoints have read."""
        return self.policy.tokens_scored + self.reference.tokens_scored

    def step_scores(self, trajectories: Sequence[Trajectory]) -> list[NDArray[np.float64]]:
        """Return the log-ratio of each step; see :class:`~agentgym_ttg.scorers.StepScorer`."""
        ours = self.policy.read(trajectories, said_logprobs)
        theirs = self.reference.read(trajectories, said_logprobs)
        return [
            np.array(
                [
                    progress_advantage(a, b, self.how, order=self.order, beta=self.beta)
                    for a, b in zip(steps, others, strict=True)
                ],
                dtype=np.float64,
            )
            for steps, others in zip(ours, theirs, strict=True)
        ]


def _build(settings: ScorerSettings) -> StepScorer:
    assert settings.model is not None
    assert settings.reference is not None  # `needs`
    return ProgressAdvantageScorer(
        open_reader(settings, settings.model),
        open_reader(settings, settings.reference),
        how=settings.token_aggregation,
        order=settings.order,
        beta=settings.beta,
    )


PROGRESS_ADVANTAGE = ScorerKind(
    "progress-advantage",
    "log-ratio of a trained policy to the checkpoint it was trained from",
    "Progress Advantage, 2026, arXiv:2606.26080",
    _build,
    needs=("model", "reference"),
)
