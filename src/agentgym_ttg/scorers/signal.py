"""From a step scorer to the signal that the credit floor redistributes by."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agentgym_ttg.core.trajectory import Trajectory
from agentgym_ttg.credit import StepSignal

from .base import StepScorer

__all__ = ["ScorerSignal"]


class ScorerSignal:
    """Takes the numbers of a step scorer for the steps' progress.

    A trajectory with a step that could not be scored has an invalid signal.

    Args:
        scorer: Any step scorer.
    """

    def __init__(self, scorer: StepScorer) -> None:
        self.scorer = scorer

    def __call__(self, trajectories: Sequence[Trajectory]) -> list[StepSignal]:
        """Return the signal of each trajectory; the scorer is asked once for all."""
        return [
            StepSignal(np.nan_to_num(row), valid=bool(np.isfinite(row).all()))
            for row in self.scorer.step_scores(trajectories)
        ]
