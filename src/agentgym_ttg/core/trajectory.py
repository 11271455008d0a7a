"""What is recorded of an episode."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from .completion import Completion
from .messages import Message

__all__ = ["OUTCOMES", "Outcome", "Trajectory", "TrajectoryGroup", "Turn"]

Outcome = Literal["success", "failure", "truncated", "error"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


@dataclass(slots=True)
class Turn:
    """One decision of the assistant and what came of it.

    Attributes:
        messages: What was new in the chat before this decision, as the environment said it: at the first turn the
            task and the first observation, later the answer to the previous action. The messages of all turns up to
            this one, with the completions between them, are the history h_t that a meter reads.
        completion: What the assistant said.
        observation: What the environment answered.
        reward: Reward of this step.
        tokens: Assistant tokens of this step.
        anchor: State key of the state that the decision was taken in (step grouping of GiGPO and HGPO).
        valid: Whether the action could be parsed and was legal.
        prompt_ids: The exact ids that the policy read, where known. Kept apart from ``messages`` because a policy
            may show itself only a window of the history.
        metadata: Anything else, JSON-serialisable.
    """

    messages: tuple[Message, ...]
    completion: Completion
    observation: str = ""
    reward: float = 0.0
    tokens: int = 0
    anchor: str = ""
    valid: bool = True
    prompt_ids: tuple[int, ...] | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Trajectory:
    """One episode of one policy.

    Attributes:
        env_id: Registered id of the environment.
        task_id: The task.
        policy: Name of the policy that acted.
        turns: The decisions, in order; T of them.
        outcome: ``success``; ``failure`` (the episode ended otherwise); ``truncated`` (a limit ended it);
            ``error`` (the environment or the policy broke down: not a statement about the actions).
        total_reward: Sum of the step rewards, R_i.
        tools: JSON schemas of the tools that were on offer.
        metadata: Split, seed, task type, error text and the like; JSON-serialisable.
    """

    env_id: str
    task_id: str
    policy: str = ""
    turns: list[Turn] = field(default_factory=list)
    outcome: Outcome = "truncated"
    total_reward: float = 0.0
    tools: list[dict[str, Any]] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)

    @property
    def success(self) -> bool:
        """Whether the task was solved. Truncation and errors are not success."""
        return self.outcome == "success"

    @property
    def token_counts(self) -> NDArray[np.int64]:
        """Assistant tokens of each step, shape ``(T,)``."""
        return np.array([turn.tokens for turn in self.turns], dtype=np.int64)

    @property
    def anchors(self) -> list[str]:
        """State key before each decision, length T."""
        return [turn.anchor for turn in self.turns]

    def __len__(self) -> int:
        """Return T, the number of decisions."""
        return len(self.turns)


@dataclass(slots=True)
class TrajectoryGroup:
    """The G trajectories of one task that are compared with each other."""

    task_id: str
    trajectories: list[Trajectory] = field(default_factory=list)

    def __iter__(self) -> Iterator[Trajectory]:
        """Iterate over the trajectories."""
        return iter(self.trajectories)

    def __len__(self) -> int:
        """Return G."""
        return len(self.trajectories)
