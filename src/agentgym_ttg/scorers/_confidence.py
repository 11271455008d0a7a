"""Scorers that read one model: a number for each token, then one for each step."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from agentgym_ttg.core.trajectory import Trajectory

from ._causal import Measure, TrajectoryReader

__all__ = ["ConfidenceScorer"]


class ConfidenceScorer:
    """Scores a step by what a causal LM's distributions say of its tokens.

    Args:
        name: Name for results.
        reader: The model.
        measure: From log-probabilities ``(n, V)`` and tokens ``(n,)`` to a number for each token.
        step: From the numbers of a step's tokens, ``(n_t,)``, to the step's; 0 for a step without tokens.
    """

    def __init__(
        self,
        name: str,
        reader: TrajectoryReader,
        measure: Measure,
        step: Callable[[NDArray[np.float64]], float],
    ) -> None:
        self.name = name
        self.reader = reader
        self._measure = measure
        self._step = step

    @property
    def tokens_scored(self) -> int:
        """Tokens that the model has read."""
        return self.reader.tokens_scored

    def step_scores(self, trajectories: Sequence[Trajectory]) -> list[NDArray[np.float64]]:
        """Return the confidence in each step; see :class:`~agentgym_ttg.scorers.StepScorer`."""
        return [
            np.array([self._step(tokens) for tokens in steps], dtype=np.float64)
            for steps in self.reader.read(trajectories, self._measure)
        ]
