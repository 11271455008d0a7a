"""What a training run is asked to do, and who shows how far it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from agentgym_ttg.core.trajectory import TrajectoryGroup
from agentgym_ttg.credit import AdvantageEstimator
from agentgym_ttg.envs.base import MultiTurnEnv
from agentgym_ttg.envs.vector import TextVectorEnv
from agentgym_ttg.meter.base import ProgressMeter
from agentgym_ttg.wrappers.chat import PromptBuilder

from .config import TrainConfig
from .methods.base import MeterTarget
from .policies.base import SamplingParams

__all__ = ["SilentReporter", "StageReporter", "TrainingJob"]


class StageReporter(Protocol):
    """Shows how far a run is."""

    def stage(self, name: str, total: int | None = None) -> None:
        """Begin a stage of ``total`` units."""

    def advance(self, count: int = 1, **numbers: float) -> None:
        """Report progress in the stage, with numbers to show beside it."""

    def note(self, text: str) -> None:
        """Say something that stays visible."""


class SilentReporter:
    """Shows nothing."""

    def stage(self, name: str, total: int | None = None) -> None:
        """Begin a stage."""

    def advance(self, count: int = 1, **numbers: float) -> None:
        """Report progress."""

    def note(self, text: str) -> None:
        """Say something."""


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """What is to be trained, on what.

    Attributes:
        method: Name of the method, for the record.
        make_estimator: Builds the method's estimator from the settings and, if it wants one, the meter.
        needs_meter: Whether the method uses a progress meter.
        meter_target: What the method's meter is trained to predict.
        meter_trained: Whether it is trained at all.
        keep: Which groups to keep (dynamic sampling); None keeps all.
        env_id: Registered id.
        make_env: Builds one environment; takes ``split=`` and ``expert=``.
        make_envs: Builds the vector environment; takes ``split=``, ``expert=``.
        split: Training split.
        eval_split: Held-out split.
        seed: Seed of the run.
        model: ``--model``; None takes a warm start.
        prompt: Prompt of the policy.
        sampling: Sampling in training.
        config: Training settings.
        folder: Run folder.
    """

    method: str
    make_estimator: Callable[[TrainConfig, ProgressMeter | None, float], AdvantageEstimator]
    env_id: str
    make_env: Callable[..., MultiTurnEnv]
    make_envs: Callable[..., TextVectorEnv]
    split: str
    eval_split: str
    seed: int
    prompt: PromptBuilder
    sampling: SamplingParams
    config: TrainConfig
    folder: Path
    model: str | None = None
    needs_meter: bool = False
    meter_target: MeterTarget = "tokens"
    meter_trained: bool = True
    keep: Callable[[TrajectoryGroup], bool] | None = None

    def failure_cost(self, probe: MultiTurnEnv) -> float:
        """Return C, in the unit of the meter's target: as set, else the longest episode there can be.

        Args:
            probe: An environment like those that are played.
        """
        if self.config.failure_cost is not None:
            return self.config.failure_cost
        unit = 1 if self.meter_target == "steps" else self.sampling.max_tokens
        return float(probe.max_steps * unit)

    def filled_config(self, probe: MultiTurnEnv) -> TrainConfig:
        """Return the settings with what follows from the environment's limits filled in.

        Args:
            probe: An environment like those that are played.
        """
        if self.config.overlong_tokens is not None:
            return self.config
        longest = probe.max_steps * self.sampling.max_tokens
        if probe.max_tokens is not None:
            longest = min(longest, probe.max_tokens)
        return self.config.model_copy(update={"overlong_tokens": float(longest)})
