"""The settings of the step evaluations."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import tyro
from pydantic import BaseModel, ConfigDict, Field

from agentgym_ttg.scorers.aggregation import StepAggregation
from agentgym_ttg.scorers.base import ScorerSettings

from .folds import Splitting
from .heads import HeadTarget, Penalty
from .trajectories import LastStep

__all__ = ["AttributionConfig", "BestOfNConfig", "OutputConfig", "QualityConfig", "UncertaintyConfig"]


class OutputConfig(BaseModel):
    """What all evaluations share."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seed: int = Field(0, ge=0)
    """Seeds splits, trainings and the bootstrap."""
    resamples: int = Field(2000, ge=10)
    """Draws of the bootstrap."""
    out: str | None = None
    """Folder for results.json and the plots."""
    plot_format: Literal["png", "svg"] = "png"
    """File type of the plots."""
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False
    """Print the results as JSON on standard output, and nothing else there."""
    threads: int | None = Field(None, ge=1)
    """CPU threads of torch; None leaves its setting."""

    def stored(self) -> dict[str, Any]:
        """Return the settings that the numbers depend on, for ``results.json``."""
        return self.model_dump(mode="json", exclude={"out", "as_json", "threads", "cache", "plot_format"})


class QualityConfig(OutputConfig):
    """Step quality on labelled chats (AgentProcessBench)."""

    data: tuple[str, ...]
    """Files of JSON lines (plain, .xz, .gz, .bz2) or folders with such files."""
    targets: tuple[HeadTarget, ...] = ("tokens", "outcome", "steps")
    """What head meters are trained to predict: Token-to-Go, Future Score, Step-to-Go."""
    scorer: tuple[str, ...] = ()
    """Further step scorers that are judged beside them, by name; --scorer-options tells what they are built from."""
    scorer_options: ScorerSettings = ScorerSettings()
    """What the further scorers are built from."""
    backbone: str | None = None
    """Backbone of the meters: a folder, hub id or GGUF file; None takes the shipped tiny model."""
    train: Literal["all", "heads"] = "all"
    """Train everything (the paper), or leave the backbone as it is and train the heads only: its hidden states are then
    read once for all targets and folds."""
    split: Splitting = "auto"
    """``stratified`` 75/5/20 %; ``query``: folds that never tear a question apart; ``auto``: the first from 1,000
    trajectories on, else the second."""
    folds: int = Field(5, ge=2)
    """Folds by query."""
    validation: float = Field(0.1, gt=0, lt=1)
    """Share of the questions not tested that choose the epoch, for folds by query."""
    penalty: Penalty = "max"
    """What a failure costs beside its own length: the longest or the mean successful training trajectory of the data
    set."""
    context_length: int | None = Field(None, ge=32)
    """Most tokens in a pass; longer histories lose their middle. None takes 512 for a tiny backbone, else 8192."""
    clip: int | None = Field(None, ge=2)
    """Most characters of a tool's answer; its middle is left out. None takes answers whole."""
    epochs: int | None = Field(None, ge=1)
    """Passes over the training trajectories; None takes 6, and 100 where only heads are trained."""
    patience: int | None = Field(None, ge=1)
    """Epochs without improvement after which training stops; None takes 2, and 15 where only heads are trained."""
    learning_rate: float | None = Field(None, gt=0)
    """Peak rate of the backbone; None takes 1e-5, and 1e-3 for a tiny one."""
    head_learning_rate: float | None = Field(None, gt=0)
    """Peak rate of the heads; None takes 1e-4 (5e-3 beside a tiny backbone), and 1e-3 where only heads are trained."""
    layers: int | None = Field(None, ge=1)
    """Keep only the first layers of the backbone; None takes half of a tiny one and all of others."""
    batch_tokens: int = Field(8192, ge=32)
    """Padded tokens in a forward pass."""
    device: str = "auto"
    """``auto``, ``cpu``, ``cuda``."""
    cache: str | None = None
    """Folder that keeps hidden states and unfinished trainings, so that the same call goes on where it stopped."""
    limit: int | None = Field(None, ge=1)
    """Only the first trajectories."""
    resample: Literal["trajectory", "query"] = "trajectory"
    """What the bootstrap draws; by query, the intervals also hold for other questions."""


class AttributionConfig(OutputConfig):
    """Failure attribution (Who & When): which step was the decisive mistake."""

    data: tuple[str, ...]
    """Files of JSON lines (plain, .xz, .gz, .bz2) or folders with such files."""
    scorer: tuple[str, ...] = ("mean-logprob",)
    """Step scorers by name."""
    scorer_options: ScorerSettings = ScorerSettings()
    """What they are built from."""
    clip: int | None = Field(None, ge=2)
    """Most characters of a step and of the question; the middle is left out."""
    limit: int | None = Field(None, ge=1)
    """Only the first records."""


class BlindConfig(OutputConfig):
    """What the evaluations share that score trajectories without showing the outcome."""

    scorer: tuple[str, ...] = ("mean-logprob",)
    """Step scorers by name. They are never shown the outcome."""
    scorer_options: ScorerSettings = ScorerSettings()
    """What they are built from."""
    aggregation: StepAggregation | None = None
    """How the numbers of the steps become the trajectory's; None takes the sum for meters (their changes add up to what
    they think of the end) and the mean for others."""
    last_step: LastStep = "skip"
    """The last step of a meter, whose score is the outcome elsewhere: left without a score, since meters are trained on
    states with a decision to be taken; or ``ask`` the meter about the state behind it."""


class UncertaintyConfig(BlindConfig):
    """Does the score of a trajectory tell whether it succeeds, and how early."""

    data: tuple[str, ...]
    """Trajectory files (``python -m agentgym_ttg.benchmarks.collect``)."""
    max_steps: int = Field(20, ge=1)
    """The early-warning curve ends here."""
    limit: int | None = Field(None, ge=1)
    """Only the first trajectories."""


class BestOfNConfig(BlindConfig):
    """N trajectories of each task, one of them picked by score."""

    data: tuple[str, ...] = ()
    """Trajectory files with several trajectories of each task; or none, and --policy samples them."""
    policy: str | None = None
    """Sample with this policy: random, noisy:P, model:PATH[@TEMPERATURE], server:MODEL@URL."""
    env: str = "agentgym_ttg/ALFWorld-v0"
    """Environment to sample in."""
    split: str | None = None
    """Its split; None takes the one that it is evaluated on."""
    tasks: int = Field(50, ge=1)
    """Tasks to sample."""
    max_steps: int | None = Field(None, ge=1)
    """Decisions after which a sampled episode is truncated."""
    record: str | None = None
    """Keep the sampled trajectories in this file; the same call goes on where it stopped."""
    n: int = Field(8, ge=1)
    """Trajectories of a task, N; more recorded ones are left out."""
