"""Scorers that ask a progress meter: the change of what it says is the step's number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym_ttg.core.completion import Completion
from agentgym_ttg.core.errors import ConfigError
from agentgym_ttg.core.messages import Message
from agentgym_ttg.core.trajectory import Trajectory, Turn
from agentgym_ttg.meter.base import Estimate, ProgressMeter
from agentgym_ttg.meter.signals import MeterSignal, SignalKind

from .base import ScorerSettings

__all__ = ["MeterScorer", "default_failure_cost", "open_meter_scorer", "with_end_state"]


class MeterScorer:
    """Scores a step by the change of a meter's estimate, in the meter's unit.

    A trajectory in which an answer of the meter could not be read is NaN throughout.

    Args:
        name: Name for results.
        signal: What is read from the meter.
        use_outcome: Whether the last step is scored by the observed outcome; else by what the meter says of the state
            behind it.
    """

    def __init__(self, name: str, signal: MeterSignal, *, use_outcome: bool = True) -> None:
        self.name = name
        self.signal = signal
        self.use_outcome = use_outcome

    @property
    def tokens_scored(self) -> int:
        """Tokens that the meter has read and written."""
        return self.signal.meter.tokens_scored

    def step_scores(self, trajectories: Sequence[Trajectory]) -> list[NDArray[np.float64]]:
        """Return the delta of each step; see :class:`~agentgym_ttg.scorers.StepScorer`."""
        asked = trajectories if self.use_outcome else [with_end_state(trajectory) for trajectory in trajectories]
        return [
            np.where(found.valid, found.deltas, np.nan)[: len(trajectory)]
            for trajectory, found in zip(trajectories, self.signal(asked), strict=True)
        ]


def with_end_state(trajectory: Trajectory) -> Trajectory:
    """Return a trajectory with one more decision to be taken, in the state behind its last step."""
    if not trajectory.turns:
        return trajectory
    behind = Turn((Message("user", trajectory.turns[-1].observation),), Completion(""))
    return replace(trajectory, turns=[*trajectory.turns, behind], outcome="truncated")


def open_meter_scorer(
    name: str,
    settings: ScorerSettings,
    meter: ProgressMeter | None,
    kind: SignalKind,
) -> MeterScorer:
    """Build a scorer from a meter that is given, or named by the settings.

    Raises:
        ConfigError: If there is no such meter, or it was trained on something else.
        MissingDependencyError: If torch or transformers are not installed.
    """
    if meter is None:
        from agentgym_ttg.meter.loading import load_meter

        assert settings.meter is not None  # `needs`
        meter = load_meter(settings.meter, device=settings.device)
    if settings.guiding:
        meter = _GuidingMeter(meter)
    cost = settings.failure_cost
    if cost is None and kind in ("ttg", "steps"):
        cost = default_failure_cost(meter)
    return MeterScorer(name, MeterSignal(meter, failure_cost=cost, kind=kind), use_outcome=settings.use_outcome)


class _GuidingMeter:
    """A meter as guided acting asks it.

    An unreadable answer says that the task cannot be completed, with a final score of 0. What the branches of an
    episode have in common is read once, where the meter can do that.
    """

    def __init__(self, meter: ProgressMeter) -> None:
        self._meter = meter
        self.name = meter.name
        self.target = getattr(meter, "target", None)
        self.settings = getattr(meter, "settings", None)
        self.tokens_scored = meter.tokens_scored

    def score(self, trajectories: Sequence[Trajectory]) -> list[list[Estimate]]:
        """Return the meter's estimates."""
        ask: Callable[..., list[list[Estimate]]] = getattr(self._meter, "score_branches", self._meter.score)
        failed = Estimate(False, None, completion_logit=-np.inf, score=0.0)
        rows = [[one if one.valid else failed for one in row] for row in ask(trajectories)]
        self.tokens_scored = self._meter.tokens_scored
        return rows


def default_failure_cost(meter: ProgressMeter) -> float:
    """Return C where none is given: as many steps as the meter's longest training recording had, at their mean cost.

    Raises:
        ConfigError: If the meter keeps no record of its training lengths.
    """
    references: Any = getattr(getattr(meter, "settings", None), "references", None)
    if references is None:
        raise ConfigError(
            f"the meter {getattr(meter, 'name', meter)!r} keeps no lengths of its training recordings to derive the "
            "failure cost from; give failure_cost, the cost of a state that cannot be completed, in the meter's unit"
        )
    steps = references.steps
    return float(max(len(steps.remaining_steps) * steps.per_step, 1.0))
