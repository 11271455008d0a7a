"""From a meter to the signal that the credit floor redistributes by, one kind for each variant of DeltaTTG."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from agentgym_ttg.core.errors import ConfigError
from agentgym_ttg.core.trajectory import Trajectory
from agentgym_ttg.credit import StepSignal, costs_from_estimates, progress_deltas

from .base import Estimate, ProgressMeter

__all__ = ["SIGNALS", "MeterSignal", "SignalKind"]

SignalKind = Literal["ttg", "steps", "outcome", "logit", "feasibility"]
SIGNALS: tuple[SignalKind, ...] = get_args(SignalKind)


class MeterSignal:
    """Asks a meter about whole trajectories and turns its estimates into step deltas.

    - ``ttg``: costs are remaining tokens or C (eq. 7 to 9); the method itself.
    - ``steps``: the same with a meter of steps to go.
    - ``outcome``: S is the predicted final score, at the end the observed one; delta = S_{t+1} - S_t.
    - ``logit``: S is the log-odds of completion, clipped to +-``logit_bound``, at the end +-``logit_bound`` by outcome.
    - ``feasibility``: S is ``can_complete`` as 0 or 1, at the end the outcome.

    Where the meter never says ``can_complete``, the trajectory keeps its original advantage, except with ``outcome``,
    whose score needs no completion. An invalid answer anywhere makes the trajectory's signal invalid.

    Args:
        meter: The meter.
        failure_cost: C of eq. 7, in the meter's unit; needed by ``ttg`` and ``steps``.
        kind: Which signal.
        clip: Whether an estimate above C counts as C.
        logit_bound: L.

    Raises:
        ConfigError: If the kind is unknown or does not fit the meter, or ``failure_cost`` is missing.

    Attributes:
        estimates: What the meter said in the last call, for the record.
    """

    def __init__(
        self,
        meter: ProgressMeter,
        *,
        failure_cost: float | None = None,
        kind: SignalKind = "ttg",
        clip: bool = True,
        logit_bound: float = 10.0,
    ) -> None:
        if kind not in SIGNALS:
            raise ConfigError(f"unknown signal {kind!r}; expected one of {', '.join(SIGNALS)}")
        target = getattr(meter, "target", None)
        wanted = {"steps": ("steps",), "outcome": ("outcome",), "ttg": ("tokens", "normalized")}.get(kind)
        if target is not None and wanted and target not in wanted:
            raise ConfigError(
                f"signal {kind!r} needs a meter trained on {' or '.join(wanted)}, this one was trained on {target}"
            )
        if kind in ("ttg", "steps") and not (failure_cost is not None and 0 < failure_cost < float("inf")):
            raise ConfigError(f"signal {kind!r} needs a finite failure_cost > 0, got {failure_cost}")
        if not logit_bound > 0:
            raise ConfigError(f"expected logit_bound > 0, got {logit_bound}")
        self.meter = meter
        self.failure_cost = failure_cost
        self.kind = kind
        self.clip = clip
        self.logit_bound = logit_bound
        self.estimates: list[list[Estimate]] = []

    def __call__(self, trajectories: Sequence[Trajectory]) -> list[StepSignal]:
        """Return the signal of each trajectory; the meter is asked once for all.

        Raises:
            ConfigError: If the meter does not give what the kind needs.
        """
        self.estimates = list(self.meter.score(trajectories))
        return [self.signal(trajectory, row) for trajectory, row in zip(trajectories, self.estimates, strict=True)]

    def signal(self, trajectory: Trajectory, estimates: Sequence[Estimate]) -> StepSignal:
        """Return the signal of one trajectory from its estimates, one for each decision.

        Raises:
            ConfigError: If the estimates do not fit the trajectory, or lack what the kind needs.
        """
        if len(estimates) != len(trajectory):
            raise ConfigError(
                f"expected an estimate for each of the {len(trajectory)} decisions of {trajectory.task_id!r}, "
                f"got {len(estimates)} from {getattr(self.meter, 'name', self.meter)!r}"
            )
        if not all(estimate.valid for estimate in estimates):
            return StepSignal(np.zeros(len(trajectory)), valid=False)
        hopeful = any(estimate.can_complete for estimate in estimates)
        if self.kind in ("ttg", "steps"):
            return self._costs(trajectory, estimates, hopeful)
        values, last = self._potential(trajectory, estimates)
        deltas = np.diff(np.append(values, last))
        return StepSignal(deltas, usable=hopeful or self.kind == "outcome")

    def _costs(self, trajectory: Trajectory, estimates: Sequence[Estimate], hopeful: bool) -> StepSignal:
        assert self.failure_cost is not None
        remaining = [np.nan if e.remaining_tokens is None else e.remaining_tokens for e in estimates]
        can = [e.can_complete for e in estimates]
        try:
            costs = costs_from_estimates(can, remaining, failure_cost=self.failure_cost, clip=self.clip)
        except ValueError as error:
            raise ConfigError(f"the meter's estimates for {trajectory.task_id!r} give no costs: {error}") from error
        last = 0.0 if trajectory.success else self.failure_cost
        return StepSignal(progress_deltas(costs, last), usable=hopeful, costs=np.append(costs, last))

    def _potential(self, trajectory: Trajectory, estimates: Sequence[Estimate]) -> tuple[NDArray[np.float64], float]:
        """Return S_t, shape ``(T,)``, and what is observed at the end."""
        if self.kind == "feasibility":
            return np.array([float(e.can_complete) for e in estimates]), float(trajectory.success)
        if self.kind == "outcome":
            scores = [e.score for e in estimates]
            if any(score is None for score in scores):
                raise ConfigError("signal 'outcome' needs a meter that predicts the final score (target 'outcome')")
            return np.array(scores, dtype=np.float64), float(trajectory.total_reward)
        logits = [e.completion_logit for e in estimates]
        if any(logit is None for logit in logits):
            raise ConfigError("signal 'logit' needs a meter that gives log-odds of completion")
        bound = self.logit_bound
        return np.clip(np.array(logits, dtype=np.float64), -bound, bound), bound if trajectory.success else -bound
