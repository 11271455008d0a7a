"""What a step scorer is: trajectories in, a number for each step out; and what one may need to be built."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from agentgym_ttg.core.errors import ConfigError
from agentgym_ttg.core.trajectory import Trajectory

from .aggregation import StepAggregation, TokenAggregation

if TYPE_CHECKING:
    from agentgym_ttg.meter.base import ProgressMeter

__all__ = ["ScorerKind", "ScorerSettings", "StepScorer", "flag_of", "score_trajectories"]


@runtime_checkable
class StepScorer(Protocol):
    """Gives a number to each step of whole trajectories."""

    @property
    def name(self) -> str:
        """Name for results."""

    @property
    def tokens_scored(self) -> int:
        """Tokens that the scorer's models have read and written so far (the compute account)."""

    def step_scores(self, trajectories: Sequence[Trajectory]) -> list[NDArray[np.float64]]:
        """Return one number for each step of each trajectory; higher is a better step.

        Returns:
            For each trajectory an array of shape ``(T_i,)``; NaN where a step cannot be scored (an unreadable answer).
        """


class ScorerSettings(BaseModel):
    """What scorers may need; each reads its own part, :attr:`ScorerKind.needs` says what it cannot do without."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    meter: str | None = None
    """ttg, steps-to-go, future-score: a trained meter, a folder or hub id."""
    failure_cost: float | None = Field(None, gt=0)
    """C, cost of a state that cannot be completed, in the meter's unit; None takes what the meter was trained with."""
    use_outcome: bool = True
    """Whether the last step may be scored by the observed outcome (eq. 8). False asks the meter about the state behind
    the last step, too: what a score must do that is to predict the outcome."""
    guiding: bool = False
    """Meters, for guided acting: an answer that cannot be read counts as "cannot be completed" instead of leaving the
    trajectory without numbers, and what neighbouring trajectories have in common is read once."""
    model: str | None = None
    """Scorers that read a language model: a folder, hub id, GGUF file or asset; llm-judge: its name at the server.
    progress-advantage: the policy."""
    reference: str | None = None
    """progress-advantage: the checkpoint that the policy was trained from."""
    beta: float = Field(1.0, gt=0)
    """progress-advantage: factor of the log-ratio."""
    token_aggregation: TokenAggregation = "mean"
    """How the numbers of a step's tokens become the step's."""
    step_aggregation: StepAggregation = "mean"
    """How the numbers of a trajectory's steps become the trajectory's."""
    order: Literal["aggregate-first", "ratio-first"] = "aggregate-first"
    """progress-advantage: whether each model's log-probabilities are aggregated first and then subtracted (the
    authors' code), or the ratio of each token is formed first; it matters for min and max."""
    window: int = Field(16, ge=1)
    """deepconf: tokens of the sliding window."""
    top_k: int = Field(20, ge=1)
    """deepconf: most probable tokens whose log-probabilities are averaged."""
    base_url: str | None = None
    """llm-judge: address of an OpenAI-compatible server."""
    api_key_env: str = "OPENAI_API_KEY"
    """llm-judge: environment variable that holds the server's key."""
    concurrency: int = Field(16, ge=1)
    """llm-judge: requests at once."""
    dtype: str = "auto"
    """Parameter type of local models."""
    device: str = "auto"
    """Where local models run."""
    batch_tokens: int = Field(8192, ge=1)
    """Padded tokens in one forward pass."""
    context_length: int | None = Field(None, ge=32)
    """Most tokens of a history that a language model reads; None takes what its configuration allows."""


@dataclass(frozen=True, slots=True)
class ScorerKind:
    """A step scorer that can be named.

    Attributes:
        name: As it is written on the command line.
        summary: One line for lists.
        source: Where it is described.
        build: Builds it from the settings; ``meter=`` is one that is there already, for scorers that ask one.
        needs: Fields of :class:`ScorerSettings` that it cannot do without.
        asks_meter: Whether it asks a progress meter, which may be handed over instead of ``meter`` in the settings.
        meter_target: What that meter must have been trained to predict.
        sees_outcome: Whether its numbers may depend on the observed outcome (unless ``use_outcome`` is off).
    """

    name: str
    summary: str
    source: str
    build: Callable[..., StepScorer]
    needs: tuple[str, ...] = ()
    asks_meter: bool = False
    meter_target: str | None = None
    sees_outcome: bool = False

    def make(self, settings: ScorerSettings | None = None, *, meter: ProgressMeter | None = None) -> StepScorer:
        """Build the scorer.

        Args:
            settings: What it is built from.
            meter: A progress meter that is there already; only for scorers that ask one.

        Raises:
            ConfigError: If something that it needs is missing, or cannot be loaded.
            MissingDependencyError: If what runs it is not installed.
        """
        settings = settings or ScorerSettings()
        for name in self.needs:
            if getattr(settings, name) is None and not (name == "meter" and meter is not None):
                raise ConfigError(f"the step scorer {self.name!r} needs {flag_of(name)}: {_MEANING.get(name, name)}")
        options: dict[str, Any] = {"meter": meter} if self.asks_meter else {}
        return self.build(settings, **options)


_MEANING = {
    "meter": "a trained progress meter, a folder or hub id",
    "model": "a causal language model, a folder, hub id or GGUF file",
    "reference": "the checkpoint that the policy was trained from",
    "base_url": "the address of an OpenAI-compatible server",
}


def flag_of(name: str) -> str:
    """Return how a setting is written on the command line.

    >>> flag_of("base_url")
    '--base-url'
    """
    return "--" + name.replace("_", "-")


def score_trajectories(scores: Sequence[NDArray[np.float64]], how: StepAggregation = "mean") -> NDArray[np.float64]:
    """Return one number for each trajectory from those of its steps, shape ``(N,)``; see :mod:`.aggregation`."""
    from .aggregation import aggregate_steps

    return np.array([aggregate_steps(row, how) for row in scores], dtype=np.float64)
