"""What a progress meter is: histories in, Token-to-Go estimates out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from agentgym_ttg.core.trajectory import Trajectory

__all__ = ["Estimate", "ProgressMeter"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a meter says of one history h_t.

    Attributes:
        can_complete: b_hat: whether the task can still be completed from here.
        remaining_tokens: v_hat: assistant tokens still to be generated until success, >= 0 (steps, where the meter
            was trained on steps); None if not ``can_complete``, not ``valid``, or where the meter predicts a score.
        valid: Whether the meter's answer could be read. An invalid answer is reported, never guessed.
        completion_logit: log-odds of completion where the meter has them (the ``deltattg-logit`` ablation).
        score: predicted final score, of meters trained on outcomes (the ``deltattg-outcome`` ablation).
    """

    can_complete: bool
    remaining_tokens: float | None
    valid: bool = True
    completion_logit: float | None = None
    score: float | None = None

    @classmethod
    def invalid(cls) -> Estimate:
        """Return the estimate that stands for an unreadable answer."""
        return cls(False, None, valid=False)


@runtime_checkable
class ProgressMeter(Protocol):
    """Scores every decision history of whole trajectories.

    Attributes:
        name: Name for results.
        tokens_scored: Tokens that the meter has read and written so far (the compute account).
    """

    name: str
    tokens_scored: int

    def score(self, trajectories: Sequence[Trajectory]) -> list[list[Estimate]]:
        """Return one estimate for each decision history h_0 … h_{T-1} of each trajectory.

        h_t is the task, everything said and observed before action t: the messages of turns 0..t and the completions
        of turns 0..t-1. The state behind the last action is not asked for: its cost is the observed outcome (eq. 8).
        """
