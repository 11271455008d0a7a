"""What a policy is: prompts in, completions out, many at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from agentgym_ttg.core.completion import Completion
from agentgym_ttg.core.errors import ConfigError
from agentgym_ttg.core.messages import Message

__all__ = ["GenerationRequest", "Policy", "SamplingParams"]


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How to sample.

    Attributes:
        temperature: 0 is greedy.
        top_p: Nucleus mass, in (0, 1].
        max_tokens: Response limit of one message, in tokens.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int = 512

    def __post_init__(self) -> None:
        """Refuse what cannot be sampled."""
        if not self.temperature >= 0:
            raise ConfigError(f"expected temperature >= 0, got {self.temperature}")
        if not 0 < self.top_p <= 1:
            raise ConfigError(f"expected top_p in (0, 1], got {self.top_p}")
        if self.max_tokens < 1:
            raise ConfigError(f"expected max_tokens >= 1, got {self.max_tokens}")


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One decision to be taken.

    Attributes:
        episode_id: Stable during an episode and unique in a run; a policy may keep a cache under it until
            :meth:`Policy.release`.
        messages: The whole prompt as the agent composed it. In conversation form it extends the previous request of
            the episode by the completion given and by what came back; a policy may rely on that only after checking.
        info: The environment's ``info`` at this decision (scripted policies look there).
        rng: Randomness of this decision; the only source that a policy may use, so that a result does not depend on
            what else is in the batch.
        sampling: Temperature and limits.
        group_id: Episodes of one group begin with the same prompt, whose prefill can be shared.
        tools: JSON schemas of the tools on offer.
    """

    episode_id: str
    messages: Sequence[Message]
    info: Mapping[str, Any]
    rng: np.random.Generator
    sampling: SamplingParams = field(default_factory=SamplingParams)
    group_id: str = ""
    tools: Sequence[Mapping[str, Any]] = ()


@runtime_checkable
class Policy(Protocol):
    """A source of assistant messages."""

    name: str

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
        """Answer every request, in order.

        Raises:
            PolicyError: If the policy cannot answer at all (server gone, model broken).
        """

    def release(self, episode_ids: Iterable[str]) -> None:
        """Forget what is kept for these episodes; they are over. Unknown ids are ignored."""
