"""What a decoder is: prompts of ids in, sampled ids and their log-probabilities out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch

from agentgym_ttg.core.completion import FinishReason

__all__ = ["DecodeRequest", "Decoded", "Decoder", "context_length", "evaluating"]


@dataclass(frozen=True, slots=True)
class DecodeRequest:
    """One message to be sampled.

    Attributes:
        key: Whose message; what was read for a key is kept until :meth:`Decoder.release`.
        prompt_ids: The whole prompt, at least one id.
        rng: Source of this message's randomness, one number for each token.
        max_tokens: Limit of the message.
        temperature: 0 is greedy.
        top_p: Nucleus mass.
        group: Keys of one group probably begin alike, which is looked for.
    """

    key: str
    prompt_ids: Sequence[int]
    rng: np.random.Generator
    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    group: str = ""


@dataclass(slots=True)
class Decoded:
    """A sampled message.

    Attributes:
        token_ids: What was sampled, the end token included.
        logprobs: Their log-probabilities (:func:`~agentgym_ttg.models.sampling.sample_tokens` says which).
        finish_reason: ``stop`` at an end token, ``length`` at a limit. A prompt that leaves no room in the context
            gives no ids and ``length``.
    """

    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finish_reason: FinishReason = "length"


class Decoder(Protocol):
    """Samples messages; may remember what it has read."""

    tokens_read: int
    tokens_prompted: int

    def generate(self, requests: Sequence[DecodeRequest]) -> list[Decoded]:
        """Sample a message for each request, in order."""

    def release(self, keys: Iterable[str]) -> None:
        """Forget some keys; unknown ones are ignored."""


def context_length(model: Any) -> int:
    """Return how many tokens the model can look at."""
    config = model.config.get_text_config()
    limit = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
    return int(limit) if limit else 1 << 30


@contextlib.contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Switch dropout and gradients off for a while."""
    training = model.training
    if training:
        model.eval()
    try:
        # Not inference_mode: buffers that a model makes on the way (rotary tables) must stay usable in training.
        with torch.no_grad():
            yield
    finally:
        if training:
            model.train()
