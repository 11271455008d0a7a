"""An expert with a hand that slips: for recording trajectories with wrong steps in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from agentgym_ttg.core.errors import ConfigError

__all__ = ["Expert", "NoisyExpert"]


class Expert(Protocol):
    """Whatever plays a game: told what the game said, it says what to do."""

    def reset(self, observation: str) -> None:
        """Start an episode; ``observation`` is the game's first text."""

    def act(self, observation: str, admissible: Sequence[str] = ()) -> str:
        """Return the next command."""
        ...


class NoisyExpert:
    """Plays a random admissible command now and then, else what another expert says.

    The other expert is asked at every step, so that it reads everything, and carries on from wherever it is brought.
    Some official games have things (a roll of paper towels, a teddy bear) that no receptacle takes: once a slip has
    picked one up, nobody can win any more. Built-in games have no such traps.

    Args:
        expert: the other expert.
        p: chance of a random command, from 0 to 1.
        rng: where the chance comes from.

    Raises:
        ConfigError: if ``p`` is not a probability.
    """

    def __init__(self, expert: Expert, p: float, rng: np.random.Generator) -> None:
        if not 0.0 <= p <= 1.0:
            raise ConfigError(f"expected a probability from 0 to 1 for a wrong step, found {p}")
        self.expert = expert
        self.p = p
        self.rng = rng
        self.slipped = False
        """Whether the last command was a random one."""

    def reset(self, observation: str) -> None:
        """Start an episode."""
        self.expert.reset(observation)
        self.slipped = False

    def act(self, observation: str, admissible: Sequence[str] = ()) -> str:
        """Return the next command."""
        command = self.expert.act(observation, admissible)
        self.slipped = bool(admissible) and float(self.rng.random()) < self.p
        return admissible[int(self.rng.integers(len(admissible)))] if self.slipped else command
