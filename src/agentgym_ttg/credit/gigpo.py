"""GiGPO (arXiv 2505.10978): an episode advantage and, for steps that share a state, a step advantage."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from agentgym_ttg.core.trajectory import Trajectory, TrajectoryGroup

from .estimators import GroupEstimator, StepCredit, trajectory_advantages, usable

__all__ = ["GiGPO", "Normalization", "discounted_returns", "group_relative", "similar_anchors", "split_steps"]

Normalization = Literal["mean_std_norm", "mean_norm"]

#: A difference from the group's mean below this share of the largest value is rounding, and counts as 0.
_ROUNDING = 1e-12


def discounted_returns(trajectory: Trajectory, gamma: float) -> NDArray[np.float64]:
    """Return R_t = r_t + gamma R_{t+1}, shape ``(T,)``."""
    returns = np.zeros(len(trajectory))
    following = 0.0
    for t in range(len(trajectory) - 1, -1, -1):
        following = returns[t] = trajectory.turns[t].reward + gamma * following
    return returns


def group_relative(
    values: NDArray[np.float64], keys: Sequence[Hashable | None], *, eps: float, ddof: int, mode: Normalization
) -> NDArray[np.float64]:
    """Return (value - mean) / (std + eps) within the values that share a key; exactly 0 where a key stands alone.

    Neither the order of the values nor rounding decides whether a result is 0: what is within rounding of the mean is
    on it.

    Args:
        values: Shape ``(N,)``.
        keys: Length N; None shares with nobody.
        eps: Added to the deviation.
        ddof: 1 for the sample deviation, 0 for the population's.
        mode: ``mean_norm`` leaves the division out.
    """
    numbers: dict[Hashable, int] = {}
    ids = np.array([i if key is None else numbers.setdefault(key, i) for i, key in enumerate(keys)], dtype=np.int64)
    out = np.zeros(len(values))
    order = np.lexsort((values, ids))  # sorted within a group too, so that sums do not depend on the given order
    part, ids = values[order], ids[order]
    starts = np.flatnonzero(np.diff(ids, prepend=-1))
    sizes = np.diff(starts, append=len(ids))
    if not len(starts):
        return out

    def within(per_value: NDArray[np.float64], operation: np.ufunc) -> NDArray[np.float64]:
        return np.asarray(operation.reduceat(per_value, starts))

    centred = part - np.repeat(within(part, np.add) / sizes, sizes)
    largest = np.repeat(within(np.abs(part), np.maximum), sizes)
    centred[np.abs(centred) <= _ROUNDING * largest] = 0.0
    if mode == "mean_std_norm":
        deviation = np.sqrt(within(centred**2, np.add) / np.maximum(sizes - ddof, 1))
        scale = np.repeat(deviation + eps, sizes)
        np.divide(centred, scale, out=centred, where=centred != 0)
    out[order] = centred
    return out


def similar_anchors(anchors: Sequence[str], ratio: float) -> list[str]:
    """Return for each anchor the representative of those it is similar to.

    Two anchors are joined if their ``SequenceMatcher`` ratio, taken in sorted order, reaches ``ratio``, and so on
    through intermediate ones; the representative is the smallest. So the result does not depend on the order of the
    anchors. An empty anchor is joined with nothing.

    >>> similar_anchors(["You see a mug 1.", "A door.", "You see a mug 2."], 0.9)
    ['You see a mug 1.', 'A door.', 'You see a mug 1.']
    """
    distinct = sorted(set(anchors) - {""})
    parent = {anchor: anchor for anchor in ("", *distinct)}

    def root(anchor: str) -> str:
        while parent[anchor] != anchor:
            parent[anchor] = anchor = parent[parent[anchor]]
        return anchor

    matcher = SequenceMatcher(autojunk=False)
    for i, first in enumerate(distinct):
        matcher.set_seq2(first)  # what the matcher prepares once for all comparisons with it
        for second in distinct[i + 1 :]:
            low, high = sorted((root(first), root(second)))
            if low == high:
                continue
            matcher.set_seq1(second)
            if min(matcher.real_quick_ratio(), matcher.quick_ratio()) >= ratio and matcher.ratio() >= ratio:
                parent[high] = low
    return [root(anchor) for anchor in anchors]


def split_steps(values: NDArray[np.float64], trajectories: Sequence[Trajectory]) -> list[NDArray[np.float64]]:
    """Cut the concatenated steps of ``trajectories`` up again."""
    return np.split(values, np.cumsum([len(trajectory) for trajectory in trajectories])[:-1])


@dataclass(frozen=True)
class GiGPO(GroupEstimator):
    """A = A_episode + omega * A_step.

    A_step compares the discounted return of a step with those of all steps of the group's trajectories that were taken
    in the same state (equal anchor), repeated visits included. A step whose state nobody shares, or whose anchor is
    empty (unknown), has A_step = 0.

    Attributes:
        gamma: Discount of the step returns.
        omega: Weight of the step advantage.
        mode: ``mean_std_norm`` divides both terms by their sample deviation, ``mean_norm`` neither.
        similarity: None groups equal anchors; else anchors of at least this similarity, see :func:`similar_anchors`.
        normalize_over: Of the episode term, as in GRPO.
        eps: Added to the deviations.

    Raises:
        ValueError: If a setting is out of range.
    """

    gamma: float = 0.95
    omega: float = 1.0
    mode: Normalization = "mean_std_norm"
    similarity: float | None = None
    normalize_over: Literal["actions", "trajectories"] = "actions"
    eps: float = 1e-6

    def __post_init__(self) -> None:
        """Refuse what cannot work before any trajectory is rolled out."""
        check_step_settings(self.gamma, self.mode)
        if self.similarity is not None and not 0 < self.similarity <= 1:
            raise ValueError(f"expected a similarity in (0, 1] or None, got {self.similarity}")

    def estimate_group(self, group: TrajectoryGroup) -> list[StepCredit]:
        """Return the credit of one group's trajectories."""
        out = [StepCredit(np.zeros(len(trajectory))) for trajectory in group]
        counted = usable(group)
        if not counted:
            return out
        trajectories = [group.trajectories[i] for i in counted]
        episode = trajectory_advantages(
            group, eps=self.eps, normalize_over=self.normalize_over, divide_by_std=self.mode == "mean_std_norm"
        )
        returns = np.concatenate([discounted_returns(trajectory, self.gamma) for trajectory in trajectories])
        anchors = [anchor for trajectory in trajectories for anchor in trajectory.anchors]
        if self.similarity is not None:
            anchors = similar_anchors(anchors, self.similarity)
        steps = group_relative(returns, [a or None for a in anchors], eps=self.eps, ddof=1, mode=self.mode)
        for i, part in zip(counted, split_steps(steps, trajectories), strict=True):
            out[i].advantages = episode[i] + self.omega * part
        return out


def check_step_settings(gamma: float, mode: str) -> None:
    """Raise ``ValueError`` where GiGPO's and HGPO's common settings are out of range."""
    if not 0 <= gamma <= 1:
        raise ValueError(f"expected gamma in [0, 1], got {gamma}")
    if mode not in ("mean_std_norm", "mean_norm"):
        raise ValueError(f"expected mode 'mean_std_norm' or 'mean_norm', got {mode!r}")
