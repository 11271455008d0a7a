"""Recorded trajectories and what scorers say of them without being shown the outcome."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from agentgym_ttg.core.errors import DataError
from agentgym_ttg.core.trajectory import Trajectory
from agentgym_ttg.core.trajectory_files import iter_trajectories
from agentgym_ttg.scorers import ScorerSettings, StepScorer, get_scorer, scorer_kind
from agentgym_ttg.scorers.aggregation import StepAggregation

__all__ = ["BlindScorer", "LastStep", "blind_scorers", "read_trajectories"]

LastStep = Literal["skip", "ask"]

_PORTION = 64


def read_trajectories(paths: Sequence[str], *, limit: int | None = None) -> list[Trajectory]:
    """Return the recorded trajectories that can be judged: those with a step that did not end as ``error``.

    Args:
        paths: Trajectory files.
        limit: Only the first so many.

    Raises:
        DataError: If there is none, or only successes or only failures.
        TrajectoryFileError: If a file cannot be read as such.
    """
    out: list[Trajectory] = []
    for path in paths:
        for trajectory in iter_trajectories(Path(path).expanduser()):
            if limit is not None and len(out) >= limit:
                break
            if trajectory.outcome != "error" and len(trajectory):
                out.append(trajectory)
    if not out:
        raise DataError(f"expected at least one trajectory with a step in {', '.join(paths) or 'no file'}, got none")
    won = sum(trajectory.success for trajectory in out)
    if won in (0, len(out)):
        raise DataError(
            f"all {len(out)} trajectories {'succeeded' if won else 'failed'}: there is nothing to tell apart; record a "
            "policy that sometimes succeeds"
        )
    return out


@dataclass(frozen=True, slots=True)
class BlindScorer:
    """A scorer that is not shown the outcome.

    Attributes:
        scorer: The scorer.
        aggregation: From its step scores to a trajectory's.
        skips_last: Whether the last step stays without a score.
    """

    scorer: StepScorer
    aggregation: StepAggregation
    skips_last: bool

    @property
    def name(self) -> str:
        """Name for results."""
        return self.scorer.name

    def scores(
        self, trajectories: Sequence[Trajectory], progress: Callable[[str], None] = lambda text: None
    ) -> list[NDArray[np.float64]]:
        """Return the step scores of all trajectories, told of in portions.

        Raises:
            DataError: If the scorer gives another number of scores than there are steps.
        """
        out: list[NDArray[np.float64]] = []
        for start in range(0, len(trajectories), _PORTION):
            progress(f"{self.name}: {start} of {len(trajectories)} trajectories")
            part = trajectories[start : start + _PORTION]
            found = [np.array(row, dtype=np.float64) for row in self.scorer.step_scores(part)]
            if [len(row) for row in found] != [len(trajectory) for trajectory in part]:
                raise DataError(f"the step scorer {self.name!r} gave another number of scores than there are steps")
            if self.skips_last:
                for row in found:
                    row[-1:] = np.nan
            out += found
        return out


def blind_scorers(
    names: Sequence[str],
    settings: ScorerSettings,
    aggregation: StepAggregation | None = None,
    last_step: LastStep = "skip",
) -> list[BlindScorer]:
    """Build scorers that are not shown the outcome.

    The changes of a meter add up to what it thinks of the end, so its trajectory's score is their sum unless told
    otherwise; that of others is the mean, which does not grow with the number of steps.

    A meter is trained on states in which a decision is to be taken. The state behind the last step is none, and what
    it says of it can be anything; so the last step has no score, and the sum ends with the last decision.

    Args:
        names: The scorers.
        settings: What they are built from; ``use_outcome`` is turned off.
        aggregation: From step scores to a trajectory's, for all of them.
        last_step: ``ask`` scores the last step of scorers that would be shown the outcome there, as they can.

    Raises:
        ConfigError: If there is no such scorer, or something that it needs is missing.
        MissingDependencyError: If what runs it is not installed.
    """
    blind = settings.model_copy(update={"use_outcome": False})
    out: list[BlindScorer] = []
    for name in names:
        kind = scorer_kind(name)
        how: StepAggregation = aggregation or ("sum" if kind.asks_meter else "mean")
        out.append(BlindScorer(get_scorer(name, blind), how, kind.sees_outcome and last_step == "skip"))
    return out
