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

__all__ = ["GiGPO", "discounted_returns", "group_relative", "similar_anchors"]


def discounted_returns(trajectory: Trajectory, gamma: float) -> NDArray[np.float64]:
    """Return R_t = r_t + gamma R_{t+1}, shape ``(T,)``."""
    returns = np.zeros(len(trajectory))
    following = 0.0
    for t in range(len(trajectory) - 1, -1, -1):
        following = returns[t] = trajectory.turns[t].reward + gamma * following
    return returns


def group_relative(
    values: NDArray[np.float64], keys: Sequence[Hashable], *, eps: float, ddof: int, divide: bool = True
) -> NDArray[np.float64]:
    """Return (value - mean) / (std + eps) within the values that share a key; 0 where a key stands alone.

    Args:
        values: Shape ``(N,)``.
        keys: Length N.
        eps: Added to the deviation.
        ddof: 1 for the sample deviation, 0 for the population's.
        divide: False leaves the division out.
    """
    members: dict[Hashable, list[int]] = {}
    for i, key in enumerate(keys):
        members.setdefault(key, []).append(i)
    out = np.zeros(len(values))
    for indices in members.values():
        part = values[indices]
        if len(part) > 1 and part.max() != part.min():
            centred = part - part.mean()
            out[indices] = centred / (part.std(ddof=ddof) + eps) if divide else centred
    return out


def similar_anchors(anchors: Sequence[str], ratio: float) -> list[str]:
    """Return for each anchor the representative of those it is similar to.

    Two anchors are joined if their ``SequenceMatcher`` ratio, symmetrised, reaches ``ratio``, and so on through
    intermediate ones; the representative is the smallest. So the result does not depend on the order.
    """
    distinct = sorted(set(anchors))
    parent = {anchor: anchor for anchor in distinct}

    def root(anchor: str) -> str:
        while parent[anchor] != anchor:
            anchor = parent[anchor]
        return anchor

    for i, a in enumerate(distinct):
        for b in distinct[i + 1 :]:
            if root(a) != root(b) and max(_ratio(a, b, ratio), _ratio(b, a, ratio)) >= ratio:
                low, high = sorted((root(a), root(b)))
                parent[high] = low
    return [root(anchor) for anchor in anchors]


def _ratio(a: str, b: str, least: float) -> float:
    matcher = SequenceMatcher(None, a, b, autojunk=False)
    if matcher.real_quick_ratio() < least or matcher.quick_ratio() < least:
        return 0.0
    return matcher.ratio()


@dataclass(frozen=True)
class GiGPO(GroupEstimator):
    """A = A_episode + omega * A_step.

    Attributes:
        gamma: Discount of the step returns.
        omega: Weight of the step advantage.
        mode: ``mean_std_norm`` divides both terms by the sample deviation, ``mean_norm`` neither.
        similarity: None groups equal anchors; else anchors of at least this similarity.
        normalize_over: Of the episode term, as in GRPO.
        eps: Added to the deviation.
    """

    gamma: float = 0.95
    omega: float = 1.0
    mode: Literal["mean_std_norm", "mean_norm"] = "mean_std_norm"
    similarity: float | None = None
    normalize_over: Literal["actions", "trajectories"] = "actions"
    eps: float = 1e-6

    def estimate_group(self, group: TrajectoryGroup) -> list[StepCredit]:
        """Return the credit of one group's trajectories."""
        divide = self.mode == "mean_std_norm"
        counted = usable(group)
        trajectories = [group.trajectories[i] for i in counted]
        if divide:
            episode = trajectory_advantages(group, eps=self.eps, normalize_over=self.normalize_over)
        else:
            episode = self._centred(group, counted)
        out = [StepCredit(np.zeros(len(trajectory))) for trajectory in group]
        if not counted:
            return out
        returns = np.concatenate([discounted_returns(trajectory, self.gamma) for trajectory in trajectories])
        anchors = [anchor for trajectory in trajectories for anchor in trajectory.anchors]
        if self.similarity is not None:
            anchors = similar_anchors(anchors, self.similarity)
        steps = group_relative(returns, anchors, eps=self.eps, ddof=1, divide=divide)
        edges = np.cumsum([len(trajectory) for trajectory in trajectories])[:-1]
        for i, part in zip(counted, np.split(steps, edges), strict=True):
            out[i].advantages = episode[i] + self.omega * part
        return out

    def _centred(self, group: TrajectoryGroup, counted: Sequence[int]) -> NDArray[np.float64]:
        rewards = np.array([trajectory.total_reward for trajectory in group], dtype=np.float64)
        lengths = np.array([len(trajectory) for trajectory in group], dtype=np.float64)
        repeats = lengths if self.normalize_over == "actions" else np.ones_like(lengths)
        out = np.zeros(len(group))
        if counted and rewards[counted].max() != rewards[counted].min():
            mean = (repeats * rewards)[counted].sum() / repeats[counted].sum()
            out[counted] = rewards[counted] - mean
        return out
