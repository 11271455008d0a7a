"""From trajectories to the rows that the optimiser sees. Ids in, ids out: nothing is tokenised here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agentgym_ttg.core.errors import PolicyError
from agentgym_ttg.core.trajectory import Trajectory

__all__ = ["Row", "make_rows", "total_tokens", "trainable_tokens"]


@dataclass(slots=True)
class Row:
    """One sequence of the training batch.

    Attributes:
        prompt_ids: What the policy read first.
        completion_ids: Everything after, ``(L,)``: sampled ids, and between two actions what the environment said.
        steps: Index of the action that a token belongs to, ``(L,)``; -1 for tokens that the policy did not sample,
            which are not trained on.
        logprobs: Log-probabilities at sampling time, ``(L,)``; 0 where ``steps`` is -1.
    """

    prompt_ids: list[int]
    completion_ids: list[int]
    steps: NDArray[np.int64]
    logprobs: NDArray[np.float32]

    def __post_init__(self) -> None:
        """Check that the columns fit."""
        length = len(self.completion_ids)
        if not length == len(self.steps) == len(self.logprobs):
            raise AssertionError(f"ids, steps and logprobs differ: {length}, {len(self.steps)}, {len(self.logprobs)}")


def trainable_tokens(trajectory: Trajectory) -> NDArray[np.int64]:
    """Return n_t, the sampled tokens of each action, shape ``(T,)``."""
    return np.array([len(turn.completion.token_ids or ()) for turn in trajectory.turns], dtype=np.int64)


def make_rows(trajectory: Trajectory, *, merge: bool = True) -> list[Row]:
    """Return the rows of a trajectory; actions without a sampled token have none.

    One row for each action. With ``merge``, an action whose prompt extends the row before it (prompt, completion, and
    then what is new) continues that row: a conversation becomes one row, a window of the history stays apart. Both
    forms hold the same tokens behind the same prefixes, so loss and gradient are the same.

    Raises:
        PolicyError: If a turn does not carry the ids that the policy read and sampled.
    """
    rows: list[Row] = []
    ids: list[int] = []
    for step, turn in enumerate(trajectory.turns):
        said, prompt = turn.completion, turn.prompt_ids
        if said.token_ids is None or prompt is None:
            raise PolicyError(
                f"turn {step} of {trajectory.task_id!r} (policy {trajectory.policy!r}) carries no token ids; training "
                "needs a policy that returns the ids it read and sampled"
            )
        if not said.token_ids:
            continue
        logprobs = said.logprobs if said.logprobs is not None else (np.nan,) * len(said.token_ids)
        row = rows[-1] if rows else None
        if merge and row is not None and len(prompt) >= len(ids) and list(prompt[: len(ids)]) == ids:
            between = list(prompt[len(ids) :])
            row.completion_ids += between + list(said.token_ids)
            row.steps = np.concatenate([row.steps, np.full(len(between), -1), np.full(len(said.token_ids), step)])
            row.logprobs = np.concatenate([row.logprobs, np.zeros(len(between)), logprobs]).astype(np.float32)
            ids += between + list(said.token_ids)
        else:
            rows.append(
                Row(
                    prompt_ids=list(prompt),
                    completion_ids=list(said.token_ids),
                    steps=np.full(len(said.token_ids), step),
                    logprobs=np.asarray(logprobs, dtype=np.float32),
                )
            )
            ids = list(prompt) + list(said.token_ids)
    return rows


def total_tokens(rows: Sequence[Row]) -> int:
    """Return the number of trainable tokens."""
    return int(sum((row.steps >= 0).sum() for row in rows))
