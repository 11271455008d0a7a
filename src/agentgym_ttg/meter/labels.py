"""What a meter is to say: labels from recorded trajectories, and which tasks are held out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from agentgym_ttg.core.errors import ConfigError, DataError
from agentgym_ttg.core.trajectory import Trajectory

__all__ = ["SPLITS", "TARGETS", "Label", "LengthNorm", "Split", "Target", "label_trajectories", "split_tasks"]

Target = Literal["tokens", "normalized", "steps", "outcome"]
Split = Literal["train", "validation", "test"]
TARGETS: tuple[Target, ...] = get_args(Target)
SPLITS: tuple[Split, ...] = get_args(Split)

#: Counts the assistant tokens of one message text.
Counter = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Label:
    """The labels of every decision history of one recorded trajectory.

    Attributes:
        trajectory: What was recorded.
        can_complete: b of eq. 2, the same for every history of the trajectory: whether it succeeded.
        values: Regression target at each decision, shape ``(T,)``, in units of the target: assistant tokens to go
            (eq. 1; also ``normalized``, then in tokens of the average policy), steps to go, or the final score.
        has_values: Whether ``values`` is to be learnt. Costs to go are defined by success only (eq. 2: null
            otherwise); the final score is defined for all.
    """

    trajectory: Trajectory
    can_complete: bool
    values: NDArray[np.float64]
    has_values: bool


@dataclass(frozen=True, slots=True)
class LengthNorm:
    """How verbose each recording policy is, to take that out of the labels (target ``normalized``).

    Attributes:
        lengths: Mean assistant tokens of a policy's successful trajectories; a failed one is as long as the step
            limit makes it, which says nothing of how much the policy talks.
        reference: Mean of ``lengths`` over the policies; the unit that normalised labels are given in, so that they
            remain tokens and the failure cost keeps its meaning.
    """

    lengths: Mapping[str, float]
    reference: float

    def factor(self, policy: str) -> float:
        """Return what to multiply the token counts of ``policy`` by; 1 for a policy that was never seen to succeed."""
        length = self.lengths.get(policy, 0.0)
        return self.reference / length if length > 0 else 1.0

    @classmethod
    def fit(cls, trajectories: Iterable[Trajectory], counter: Counter | None = None) -> LengthNorm:
        """Measure the policies of ``trajectories``."""
        totals: dict[str, list[float]] = {}
        for trajectory in trajectories:
            if trajectory.success and len(trajectory):
                totals.setdefault(trajectory.policy, []).append(float(_token_counts(trajectory, counter).sum()))
        lengths = {policy: float(np.mean(values)) for policy, values in sorted(totals.items())}
        return cls(lengths, float(np.mean(list(lengths.values()))) if lengths else 1.0)


def label_trajectories(
    trajectories: Iterable[Trajectory],
    *,
    target: Target = "tokens",
    counter: Counter | None = None,
    norm: LengthNorm | None = None,
) -> list[Label]:
    """Return the labels of recorded trajectories, in order (eq. 1 and 2).

    Trajectories that ended as ``error`` say nothing of the actions, and those without a turn have no history; both are
    left out. Failure and truncation are labels like success.

    Args:
        trajectories: Recordings of any policies.
        target: What is regressed.
        counter: Counts the tokens of each message anew, so that the messages of all policies are counted in one unit;
            None takes the counts as they were recorded.
        norm: Verbosity of the policies; needed for ``normalized``. Fit it on the training split.

    Raises:
        ConfigError: If the target is unknown, or ``normalized`` comes without ``norm``.
        DataError: If a recorded token count is negative.

    >>> from agentgym_ttg.core import Completion, Message, Turn
    >>> turns = [Turn((Message("user", "go"),), Completion("a"), tokens=n) for n in (5, 2, 3)]
    >>> label_trajectories([Trajectory("toy", "t", turns=turns, outcome="success")])[0].values
    array([10.,  5.,  3.])
    """
    if target not in TARGETS:
        raise ConfigError(f"unknown target {target!r}; expected one of {', '.join(TARGETS)}")
    if target == "normalized" and norm is None:
        raise ConfigError("target 'normalized' needs the lengths of the policies; pass norm=LengthNorm.fit(...)")
    out: list[Label] = []
    for trajectory in trajectories:
        if trajectory.outcome == "error" or not len(trajectory):
            continue
        steps = len(trajectory)
        if target == "steps":
            values = np.arange(steps, 0, -1, dtype=np.float64)
        elif target == "outcome":
            values = np.full(steps, float(trajectory.total_reward))
        else:
            counts = _token_counts(trajectory, counter)
            if (counts < 0).any():
                raise DataError(f"negative token count in a trajectory of task {trajectory.task_id!r}")
            values = np.cumsum(counts[::-1])[::-1].astype(np.float64)
            if target == "normalized" and norm is not None:
                values = values * norm.factor(trajectory.policy)
        out.append(Label(trajectory, trajectory.success, values, trajectory.success or target == "outcome"))
    return out


def split_tasks(
    task_ids: Iterable[str], *, seed: int = 0, validation: float = 0.1, test: float = 0.1
) -> dict[str, Split]:
    """Assign every task to train, validation or test; histories of one task are never torn apart.

    A task's place follows from the hash of its id (and the seed) alone, so it stays when others are recorded. Only
    where that leaves a split without any task, tasks with the extreme hashes move there.

    Args:
        task_ids: Ids, repeats allowed.
        seed: Another seed, another assignment.
        validation: Share of the validation split.
        test: Share of the test split.

    Raises:
        ConfigError: If the shares are not positive or leave nothing to train on.
        DataError: If there are fewer than three tasks.

    >>> places = split_tasks(f"task/{i}" for i in range(1000))
    >>> [sum(place == split for place in places.values()) for split in SPLITS]
    [807, 94, 99]
    """
    if not (validation > 0 and test > 0 and validation + test < 1):
        raise ConfigError(f"expected validation > 0, test > 0 and a sum below 1, got {validation} and {test}")
    order = sorted((_position(task_id, seed), task_id) for task_id in set(task_ids))
    if len(order) < len(SPLITS):
        raise DataError(
            f"expected recordings of at least {len(SPLITS)} tasks to train, choose and test a meter on different ones, "
            f"got {len(order)}; record more tasks"
        )
    train_end, validation_end = 1 - validation - test, 1 - test
    count = len(order)
    first = sum(position < train_end for position, _ in order)
    second = sum(position < validation_end for position, _ in order)
    first = min(max(first, 1), count - 2)
    second = min(max(second, first + 1), count - 1)
    return {
        task_id: "train" if i < first else "validation" if i < second else "test"
        for i, (_, task_id) in enumerate(order)
    }


def _token_counts(trajectory: Trajectory, counter: Counter | None) -> NDArray[np.int64]:
    if counter is None:
        return trajectory.token_counts
    return np.array([counter(str(turn.completion)) for turn in trajectory.turns], dtype=np.int64)


def _position(task_id: str, seed: int) -> float:
    """Return a uniform number in [0, 1) that depends on the id and the seed only."""
    text = f"{seed}:{task_id}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") / 2**64


def select_split(trajectories: Sequence[Trajectory], places: Mapping[str, Split], split: Split) -> list[Trajectory]:
    """Return the trajectories whose task is in ``split``, in order."""
    return [trajectory for trajectory in trajectories if places.get(trajectory.task_id) == split]
