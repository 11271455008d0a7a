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
from numpy.typing import NDArray

from agentgym_ttg.core.trajectory import Trajectory, TrajectoryGroup

from .estimators import CreditReport, GroupEstimator, StepCredit, batch_metrics, spread, trajectory_advantages, usable
from .shares import step_shares
from .weights import bounded_unit_mean_weights

__all__ = ["DeltaTTG", "StepSignal"]


@dataclass(frozen=True, slots=True)
class StepSignal:
    """What a signal says of one trajectory.

    Attributes:
        deltas: Progress of each step, shape ``(T,)``; positive is good.
        valid: Whether every answer behind it could be read; one that could not resets the whole group.
        usable: Whether there is anything to redistribute by; false keeps the trajectory's original advantage
            (a meter that never believes in success).
        costs: c_0 … c_T, shape ``(T + 1,)``, for the record.
    """

    deltas: NDArray[np.float64]
    valid: bool = True
    usable: bool = True
    costs: NDArray[np.float64] | None = None


#: Scores whole trajectories; one signal for each. A progress meter becomes one in ``agentgym_ttg.meter.signals``.
Signal = Callable[[Sequence[Trajectory]], list[StepSignal]]


@dataclass(frozen=True)
class DeltaTTG(GroupEstimator):
    """Token-to-Go credit (eq. 6 to 11).

    Attributes:
        signal: Scores all trajectories of a batch at once.
        rho: Uniform part of the shares.
        cap: M, largest weight.
        sign_aware: Whether a negative advantage goes to regress instead of progress (eq. 10).
        reading: Of the operator B_M, see :func:`~agentgym_ttg.credit.bounded_unit_mean_weights`.
        normalize_over: As in GRPO.
        eps: Added to the deviation.

    Raises:
        ValueError: If ``cap < 1`` or ``rho`` is outside [0, 1].
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
        if not self.cap >= 1:
            raise ValueError(f"expected cap >= 1, got {self.cap}")
        if not 0 <= self.rho <= 1:
            raise ValueError(f"expected rho in [0, 1], got {self.rho}")

    def estimate(self, groups: Sequence[TrajectoryGroup]) -> CreditReport:
        """Return the credit of a batch; the signal is asked once, for all its trajectories."""
        asked = [group.trajectories[i] for group in groups for i in usable(group)]
        answers = iter(self.signal(asked) if asked else [])
        credits = []
        for group in groups:
            signals = {i: next(answers) for i in usable(group)}
            credits.append(self._redistribute(group, signals))
        return CreditReport(credits, batch_metrics(groups, credits))

    def _redistribute(self, group: TrajectoryGroup, signals: dict[int, StepSignal]) -> list[StepCredit]:
        advantages = trajectory_advantages(group, eps=self.eps, normalize_over=self.normalize_over)
        group_valid = all(signal.valid for signal in signals.values())
        out: list[StepCredit] = []
        for i, trajectory in enumerate(group):
            advantage = float(advantages[i])
            signal = signals.get(i)
            weights = np.ones(len(trajectory))
            kept = self._why_kept(advantage, signal, group_valid, len(trajectory))
            if signal is not None and not kept:
                shares = step_shares(signal.deltas, advantage, rho=self.rho, sign_aware=self.sign_aware)
                weights = bounded_unit_mean_weights(shares, trajectory.token_counts, cap=self.cap, reading=self.reading)
            out.append(
                StepCredit(
                    advantages=spread(trajectory, advantage) * weights,
                    weights=weights,
                    costs=signal.costs if signal else None,
                    deltas=signal.deltas if signal else None,
                    kept=kept,
                )
            )
        return out

    def _why_kept(self, advantage: float, signal: StepSignal | None, group_valid: bool, steps: int) -> str:
        """Return why a trajectory keeps its original advantage, ``""`` if it does not (Algorithm 1, footnote 2)."""
        if signal is None:
            return "error"
        if not group_valid:
            return "invalid_group"
        if not signal.usable:
            return "never_completable"
        if advantage == 0:
            return "zero_advantage"
        if steps == 1:
            return "single_step"
        relevant = signal.deltas if advantage > 0 or not self.sign_aware else -signal.deltas
        return "" if (relevant > 0).any() else "no_mass"
