"""DeltaTTG: the change of the estimated tokens to go redistributes a trajectory's advantage over its steps.

Algorithm 1 of the specification, from top to bottom: group advantages as in GRPO; one call to the meter for every
decision history of the batch; costs, deltas, shares, bounded weights; advantage times weight. Reward, sign and
token-mean scale stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agentgym_ttg.core.trajectory import Trajectory, TrajectoryGroup

from .estimators import (
    BatchEstimator,
    CreditReport,
    StepCredit,
    TokenCounts,
    batch_metrics,
    spread,
    trajectory_advantages,
    usable,
)
from .shares import costs_from_estimates, progress_deltas, step_shares
from .weights import bounded_unit_mean_weights

__all__ = ["DeltaTTG", "Signal", "StepSignal"]


@dataclass(frozen=True, slots=True)
class StepSignal:
    """What a signal says of one trajectory.

    Attributes:
        deltas: Progress of each step, shape ``(T,)``; positive is good.
        valid: Whether every answer behind it could be read; one that could not resets the whole group. Deltas that are
            not finite count as such.
        usable: Whether there is anything to redistribute by; false keeps the trajectory's original advantage
            (a meter that never believes in success).
        costs: c_0 … c_T, shape ``(T + 1,)``, for the record.
    """

    deltas: NDArray[np.float64]
    valid: bool = True
    usable: bool = True
    costs: NDArray[np.float64] | None = None

    @classmethod
    def from_estimates(
        cls,
        can_complete: ArrayLike,
        remaining_tokens: ArrayLike,
        valid: ArrayLike | None = None,
        *,
        success: bool,
        failure_cost: float,
        clip: bool = True,
    ) -> StepSignal:
        """Return the signal of a trajectory from a meter's estimates of its decision histories (eq. 7 to 9).

        Args:
            can_complete: b_hat, shape ``(T,)``.
            remaining_tokens: v_hat, shape ``(T,)``; ignored (may be NaN) where ``can_complete`` is false. One that is
                negative or not finite where it is true is an invalid answer.
            valid: Whether each answer could be read, shape ``(T,)``; None for all.
            success: The observed outcome; truncation is no success (eq. 8).
            failure_cost: C > 0.
            clip: As in :func:`~agentgym_ttg.credit.costs_from_estimates`.

        Raises:
            ValueError: If shapes differ or C is not finite and positive.

        >>> StepSignal.from_estimates([True, False], [600, float("nan")], success=False, failure_cost=2000).deltas
        array([-1400.,     0.])
        """
        possible = np.asarray(can_complete)
        remaining = np.asarray(remaining_tokens, dtype=np.float64)
        read = np.ones(possible.shape, dtype=bool) if valid is None else np.asarray(valid, dtype=bool)
        if not possible.shape == remaining.shape == read.shape:
            raise ValueError(
                "expected an estimate for each decision, got shapes "
                f"{possible.shape}, {remaining.shape} and {read.shape}"
            )
        broken = ~read | (possible.astype(bool) & ~(np.isfinite(remaining) & (remaining >= 0)))
        costs = costs_from_estimates(
            possible & ~broken, np.where(broken, 0.0, remaining), failure_cost=failure_cost, clip=clip
        )
        if broken.any():
            return cls(np.zeros(len(costs)), valid=False)
        last = 0.0 if success else float(failure_cost)
        return cls(progress_deltas(costs, last), usable=bool(possible.any()), costs=np.append(costs, last))


#: Scores whole trajectories; one signal for each. A progress meter becomes one in ``agentgym_ttg.meter.signals``.
Signal = Callable[[Sequence[Trajectory]], list[StepSignal]]


@dataclass(frozen=True)
class DeltaTTG(BatchEstimator):
    """Token-to-Go credit (eq. 6 to 11).

    A trajectory keeps its original advantage (weights 1) if an answer of its group was invalid, the signal is not
    usable, its advantage is 0, it has one step, or no step of it has the sign that counts.

    Attributes:
        signal: Scores all trajectories of a batch at once; it is not asked about those that ended as ``error``, nor
            about groups whose advantages are all 0.
        rho: Uniform part of the shares.
        cap: M, largest weight.
        sign_aware: Whether a negative advantage goes to regress instead of progress (eq. 10).
        reading: Of the operator B_M, see :func:`~agentgym_ttg.credit.bounded_unit_mean_weights`.
        normalize_over: As in GRPO.
        eps: Added to the deviation.

    Raises:
        ValueError: If ``cap < 1``, ``rho`` is outside [0, 1] or ``reading`` is unknown.

    >>> from agentgym_ttg.core import Completion, Trajectory, Turn
    >>> def played(outcome, reward):
    ...     turns = [Turn((), Completion(), tokens=10)] * 2
    ...     return Trajectory("e", "t", turns=turns, outcome=outcome, total_reward=reward)
    >>> first_step_helps = lambda trajectories: [StepSignal(np.array([30.0, 0.0]))] * len(trajectories)
    >>> group = TrajectoryGroup("t", [played("success", 1.0), played("failure", 0.0)])
    >>> [array.round(2).tolist() for array in DeltaTTG(first_step_helps)(group)]
    [[1.56, 0.17], [-0.87, -0.87]]
    """

    signal: Signal
    rho: float = 0.2
    cap: float = 5.0
    sign_aware: bool = True
    reading: Literal["broadcast", "split"] = "broadcast"
    normalize_over: Literal["actions", "trajectories"] = "actions"
    eps: float = 1e-6

    def __post_init__(self) -> None:
        """Refuse what cannot work before any trajectory is rolled out."""
        # The two functions check their settings; one step is enough to ask them.
        bounded_unit_mean_weights(step_shares([0.0], 0.0, rho=self.rho), [1.0], cap=self.cap, reading=self.reading)

    def estimate(self, groups: Sequence[TrajectoryGroup], *, token_counts: TokenCounts | None = None) -> CreditReport:
        """Return the credit of a batch; the signal is asked once, for all its trajectories.

        Args:
            groups: The batch.
            token_counts: n_t of each trajectory of each group, where the trainable tokens of the steps are not
                ``Trajectory.token_counts``.

        Raises:
            ValueError: If the signal's answers or the token counts do not fit the batch.
        """
        advantages = [
            trajectory_advantages(group, eps=self.eps, normalize_over=self.normalize_over) for group in groups
        ]
        # Where all advantages are 0 there is nothing to redistribute, and the meter's time is saved.
        asked = [usable(group) if values.any() else [] for group, values in zip(groups, advantages, strict=True)]
        signals = iter(
            self._ask([group.trajectories[i] for group, row in zip(groups, asked, strict=True) for i in row])
        )
        if token_counts is None:
            token_counts = [[trajectory.token_counts for trajectory in group] for group in groups]
        expected = [[(len(trajectory),) for trajectory in group] for group in groups]
        if [[np.shape(counts) for counts in row] for row in token_counts] != expected:
            raise ValueError("expected one token count for each step of every trajectory of every group")
        credits = [
            self._redistribute(group, values, {i: next(signals) for i in row}, counts)
            for group, values, row, counts in zip(groups, advantages, asked, token_counts, strict=True)
        ]
        return CreditReport(credits, batch_metrics(groups, credits, cap=self.cap))

    def _ask(self, trajectories: Sequence[Trajectory]) -> list[StepSignal]:
        signals = list(self.signal(trajectories)) if trajectories else []
        if len(signals) != len(trajectories):
            raise ValueError(f"expected a signal for each of {len(trajectories)} trajectories, got {len(signals)}")
        for trajectory, signal in zip(trajectories, signals, strict=True):
            if np.shape(signal.deltas) != (len(trajectory),):
                raise ValueError(
                    f"expected a delta for each of the {len(trajectory)} steps of a trajectory of "
                    f"{trajectory.task_id!r}, got shape {np.shape(signal.deltas)}"
                )
        return signals

    def _redistribute(
        self,
        group: TrajectoryGroup,
        advantages: NDArray[np.float64],
        signals: dict[int, StepSignal],
        token_counts: Sequence[ArrayLike],
    ) -> list[StepCredit]:
        group_valid = all(map(_is_valid, signals.values()))
        return [
            self._credit(trajectory, float(advantages[i]), signals.get(i), group_valid, token_counts[i])
            for i, trajectory in enumerate(group)
        ]

    def _credit(
        self,
        trajectory: Trajectory,
        advantage: float,
        signal: StepSignal | None,
        group_valid: bool,
        token_counts: ArrayLike,
    ) -> StepCredit:
        tokens = np.asarray(token_counts, dtype=np.float64)
        weights = np.ones(len(trajectory))
        if signal is None:
            kept = "error" if trajectory.outcome == "error" else "zero_advantage" if len(trajectory) else "empty"
            return StepCredit(spread(trajectory, 0.0), weights=weights, tokens=tokens, kept=kept)
        kept = self._why_kept(advantage, signal, group_valid)
        if not kept:
            shares = step_shares(signal.deltas, advantage, rho=self.rho, sign_aware=self.sign_aware)
            weights = bounded_unit_mean_weights(shares, tokens, cap=self.cap, reading=self.reading)
            relevant = signal.deltas if advantage > 0 or not self.sign_aware else -signal.deltas
            # Known only afterwards: with the split reading equal shares are not equal weights.
            if (weights == 1).all() and not (relevant[tokens > 0] > 0).any():
                kept = "no_mass"
        return StepCredit(
            advantages=spread(trajectory, advantage) * weights,
            weights=weights,
            tokens=tokens,
            costs=signal.costs,
            deltas=signal.deltas if _is_valid(signal) else None,
            kept=kept,
        )

    def _why_kept(self, advantage: float, signal: StepSignal, group_valid: bool) -> str:
        """Return why a trajectory keeps its original advantage, ``""`` if it does not (Algorithm 1, footnote 2)."""
        if not group_valid:
            return "invalid_group"
        if not signal.usable:
            return "never_completable"
        if advantage == 0:
            return "zero_advantage"
        if len(signal.deltas) == 1:
            return "single_step"
        return ""


def _is_valid(signal: StepSignal) -> bool:
    return signal.valid and bool(np.isfinite(signal.deltas).all())
