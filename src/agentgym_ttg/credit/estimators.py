"""What an advantage estimator is, and what it reports."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agentgym_ttg.core.trajectory import Trajectory, TrajectoryGroup

from .advantages import group_advantages

__all__ = [
    "KEPT_REASONS",
    "AdvantageEstimator",
    "BatchEstimator",
    "CreditReport",
    "GroupEstimator",
    "StepCredit",
    "TokenCounts",
    "batch_metrics",
    "spread",
    "trajectory_advantages",
    "usable",
]

#: n_t of every trajectory of every group, in the order of the batch; each of shape ``(T_i,)``.
TokenCounts = Sequence[Sequence[ArrayLike]]

#: Why a trajectory can keep its original advantage, see :attr:`StepCredit.kept`; the first that holds is given.
KEPT_REASONS: tuple[str, ...] = ("invalid_group", "never_completable", "zero_advantage", "single_step", "no_mass")


@dataclass(slots=True)
class StepCredit:
    """What an estimator says of one trajectory.

    Attributes:
        advantages: Of each step, shape ``(T,)``; 0 throughout for a trajectory that ended as ``error``.
        weights: Multipliers of the trajectory's own advantage, ``(T,)``; None where the method has none.
        tokens: n_t that the weights were made for, ``(T,)``.
        costs: c_0 … c_T, ``(T + 1,)``, where the method has them.
        deltas: Delta_t, ``(T,)``, where the method has them.
        kept: Why the original advantage was kept, one of :data:`KEPT_REASONS`; ``error`` or ``empty`` for a trajectory
            that is left out; ``""`` if the advantage was redistributed (or the method never does).
    """

    advantages: NDArray[np.float64]
    weights: NDArray[np.float64] | None = None
    tokens: NDArray[np.float64] | None = None
    costs: NDArray[np.float64] | None = None
    deltas: NDArray[np.float64] | None = None
    kept: str = ""


@dataclass(slots=True)
class CreditReport:
    """The credit of a batch.

    Attributes:
        credits: One list for each group, one entry for each trajectory, in the given order.
        metrics: Numbers for the log, see :func:`batch_metrics`.
    """

    credits: list[list[StepCredit]]
    metrics: dict[str, float] = field(default_factory=dict)

    @property
    def kept(self) -> dict[str, int]:
        """How many trajectories kept their original advantage or were left out, by reason."""
        return dict(Counter(credit.kept for group in self.credits for credit in group if credit.kept))


class AdvantageEstimator(Protocol):
    """Turns the outcomes of a task's trajectories into an advantage for each step."""

    def __call__(self, group: TrajectoryGroup) -> list[NDArray[np.float64]]:
        """Return one array of shape ``(T_i,)`` for each trajectory of the group."""

    def estimate(self, groups: Sequence[TrajectoryGroup], *, token_counts: TokenCounts | None = None) -> CreditReport:
        """Return the credit of a whole batch; what has to be computed for all is computed once.

        Args:
            groups: The batch; groups do not influence each other.
            token_counts: Trainable tokens of each step, where they are not ``Trajectory.token_counts``.
        """


class BatchEstimator(ABC):
    """Base of estimators that need the whole batch at once: a subclass writes :meth:`estimate`."""

    def __call__(self, group: TrajectoryGroup) -> list[NDArray[np.float64]]:
        """Return one array of shape ``(T_i,)`` for each trajectory of the group."""
        return [credit.advantages for credit in self.estimate([group]).credits[0]]

    @abstractmethod
    def estimate(self, groups: Sequence[TrajectoryGroup], *, token_counts: TokenCounts | None = None) -> CreditReport:
        """Return the credit of a batch, with its metrics; see :class:`AdvantageEstimator`."""


class GroupEstimator(BatchEstimator):
    """Base of estimators that look at one group at a time: a subclass writes :meth:`estimate_group`."""

    def estimate(self, groups: Sequence[TrajectoryGroup], *, token_counts: TokenCounts | None = None) -> CreditReport:
        """Return the credit of a batch, with its metrics; the token counts do not matter here."""
        credits = [self.estimate_group(group) for group in groups]
        return CreditReport(credits, batch_metrics(groups, credits))

    @abstractmethod
    def estimate_group(self, group: TrajectoryGroup) -> list[StepCredit]:
        """Return the credit of one group's trajectories, in their order."""


def usable(group: TrajectoryGroup) -> list[int]:
    """Return the indices of the trajectories that count: not ended as ``error``, and of at least one step."""
    return [i for i, trajectory in enumerate(group) if trajectory.outcome != "error" and len(trajectory)]


def trajectory_advantages(
    group: TrajectoryGroup,
    rewards: NDArray[np.float64] | None = None,
    *,
    eps: float,
    normalize_over: Literal["actions", "trajectories"],
    divide_by_std: bool = True,
) -> NDArray[np.float64]:
    """Return A_i of each trajectory (eq. 6), shape ``(G,)``; 0 for those that are not :func:`usable`.

    Args:
        group: The trajectories of one task.
        rewards: R_i in the place of the total rewards, shape ``(G,)``.
        eps: As in :func:`~agentgym_ttg.credit.group_advantages`, like the two below.
        normalize_over: What the mean and the deviation are taken over.
        divide_by_std: Whether to divide at all.
    """
    out = np.zeros(len(group))
    counted = usable(group)
    if rewards is None:
        rewards = np.array([trajectory.total_reward for trajectory in group], dtype=np.float64)
    if counted:
        out[counted] = group_advantages(
            rewards[counted],
            [len(group.trajectories[i]) for i in counted],
            eps=eps,
            normalize_over=normalize_over,
            divide_by_std=divide_by_std,
        )
    return out


def spread(trajectory: Trajectory, advantage: float) -> NDArray[np.float64]:
    """Return the same advantage for every step, shape ``(T,)``."""
    return np.full(len(trajectory), float(advantage))


def batch_metrics(
    groups: Sequence[TrajectoryGroup], credits: Sequence[Sequence[StepCredit]], *, cap: float | None = None
) -> dict[str, float]:
    """Return the numbers that every method logs about its credit.

    - ``zero_variance_groups``: share of groups whose rewards are all equal (they teach nothing).
    - ``error_trajectories``: number of trajectories left out because they ended as ``error``.
    - where there are weights, ``kept_original`` and ``kept_<reason>``: share of the trajectories that count which kept
      their original advantage, by :data:`KEPT_REASONS`; ``weight_min``, ``weight_max``, ``weight_mean`` and
      ``weight_std`` over the steps of the others that have tokens (the token-weighted mean is 1 by construction), and
      ``weight_capped``, the share of those steps at the cap. The weight numbers are missing where nothing was
      redistributed.

    Args:
        groups: The batch.
        credits: Its credit.
        cap: M, where the method has one.
    """
    counts = [[group.trajectories[i].total_reward for i in usable(group)] for group in groups]
    constant = sum(1 for rewards in counts if not rewards or max(rewards) == min(rewards))
    metrics = {
        "zero_variance_groups": constant / max(len(groups), 1),
        "error_trajectories": float(sum(t.outcome == "error" for group in groups for t in group)),
    }
    weighted = [c for group in credits for c in group if c.weights is not None and c.kept not in ("error", "empty")]
    if not weighted:
        return metrics
    kept = Counter(credit.kept for credit in weighted if credit.kept)
    metrics["kept_original"] = sum(kept.values()) / len(weighted)
    for reason in (*KEPT_REASONS, *sorted(set(kept) - set(KEPT_REASONS))):
        metrics[f"kept_{reason}"] = kept[reason] / len(weighted)
    moved = [_spoken(credit) for credit in weighted if not credit.kept]
    weights = np.concatenate(moved) if moved else np.zeros(0)
    if len(weights):
        metrics["weight_min"], metrics["weight_max"] = float(weights.min()), float(weights.max())
        metrics["weight_mean"], metrics["weight_std"] = float(weights.mean()), float(weights.std())
        if cap is not None:
            metrics["weight_capped"] = float((weights >= cap).mean())
    return metrics


def _spoken(credit: StepCredit) -> NDArray[np.float64]:
    """Return the weights of the steps that have tokens."""
    weights = credit.weights if credit.weights is not None else np.zeros(0)
    return weights if credit.tokens is None else weights[credit.tokens > 0]
