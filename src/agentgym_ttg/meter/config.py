"""The settings of meter training."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from .labels import Target
from .prompts import Style

__all__ = ["TINY", "MeterConfig", "RefineConfig", "SFTSettings"]

#: Parameters below which a model is too small to have been pretrained on language at large.
TINY = 20_000_000


class SFTSettings(BaseModel):
    """Supervised fine-tuning of a generative meter (eq. 3), by TRL's ``SFTTrainer``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    learning_rate: float | None = Field(default=None, gt=0)
    """Peak learning rate; None takes the paper's 1e-5, and 1e-3 for a model below 20M parameters."""
    epochs: float = Field(default=1.0, gt=0)
    """Passes over the examples."""
    batch_size: int = Field(default=32, ge=1)
    """Examples in an optimiser step."""
    micro_batch_size: int = Field(default=8, ge=1)
    """Examples in a forward pass."""
    histories_per_trajectory: int | None = Field(default=4, ge=1)
    """Decision histories drawn from each trajectory as examples; None takes all."""


class RefineConfig(BaseModel):
    """Refinement of a generative meter with the prediction reward (eq. 4 and 5), by TRL's ``GRPOTrainer``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    steps: int = Field(default=50, ge=0)
    """Optimiser steps; 0 leaves the refinement out."""
    learning_rate: float | None = Field(default=None, gt=0)
    """Learning rate; None takes the paper's 3e-6, and 3e-5 for a model below 20M parameters."""
    group_size: int = Field(default=8, ge=2)
    """Answers sampled for each history."""
    histories_per_step: int = Field(default=8, ge=1)
    """Histories in an optimiser step."""
    temperature: float = Field(default=1.0, gt=0)
    """Sampling temperature."""
    kl_coef: float = Field(default=0.0, ge=0)
    """Coefficient of the KL term to the fine-tuned model."""
    token_accuracy: Literal["linear", "ratio"] = "linear"
    """Reading of u in eq. 5."""


class MeterConfig(BaseModel):
    """How a progress meter is trained."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["head", "generative"] = "head"
    """Two heads read in one pass, or a model that answers in text."""
    backbone: str | None = None
    """Model to start from: a folder or hub id; None takes the shipped tiny warm start."""
    name: str = ""
    """Name for results; default the kind."""
    seed: int = 0
    """Seeds splits, order, initialisation and sampling."""

    # Labels
    target: Target = "tokens"
    """Assistant tokens to go; ``normalized`` by each policy's verbosity; ``steps`` to go; final score (``outcome``)."""
    count_with: Literal["meter", "recorded"] = "meter"
    """Who counts the tokens of recorded messages: the meter's tokenizer (one unit for all policies; one end-of-turn
    token is added to each message where the actor samples one), or the counts as recorded."""
    validation: float = Field(default=0.1, gt=0, lt=1)
    """Share of the tasks that choose the epoch."""
    test: float = Field(default=0.1, gt=0, lt=1)
    """Share of the tasks that are held out for evaluation."""

    # Reading
    style: Style | None = None
    """Wording of histories; None takes ``chat`` for heads and ``transcript`` for the generative meter."""
    context_length: int | None = Field(default=None, ge=32)
    """Most tokens in a pass; longer histories lose their middle (see HistoryEncoder). None takes 512 for a model below
    20M parameters and 8192 for others."""
    threshold: float = Field(default=0.5, gt=0, lt=1)
    """Probability of completion from which the head meter says that the task can be completed."""
    instruction: str | None = None
    """Instruction of the generative meter; None takes the built-in one, and none at all for a model below 20M
    parameters, which learns from examples only."""

    # Head meter
    layers: int | None = Field(default=None, ge=1)
    """Keep only the first layers of the backbone: a meter that is read at every update should cost little of it. None
    takes half of them (at least 2) for a model below 20M parameters, and all for others."""
    train: Literal["all", "heads"] = "all"
    """``heads`` leaves the backbone as it is: its hidden states at the decisions are read once, and only the two heads
    learn from them. For backbones that are too large to be trained where the meter is made."""
    epochs: int = Field(default=6, ge=1)
    """Passes over the recordings; the best on the validation tasks is kept."""
    windows_per_epoch: int | None = Field(default=1, ge=1)
    """Windows of a trajectory that an epoch reads, drawn anew each time; None reads all. Only trajectories longer than
    the context have more than one: the long failures, which else would take most of the time."""
    patience: int = Field(default=2, ge=1)
    """Epochs without improvement after which training stops."""
    learning_rate: float | None = Field(default=None, gt=0)
    """Peak learning rate of the backbone; None takes 1e-3 for a model below 20M parameters and 1e-5 for others."""
    head_learning_rate: float | None = Field(default=None, gt=0)
    """Peak learning rate of the heads; None takes 5 or 10 times that of the backbone (spec, section 7)."""
    weight_decay: float = Field(default=0.01, ge=0)
    """AdamW weight decay of matrices."""
    warmup: float = Field(default=0.05, ge=0, lt=1)
    """Share of the updates with a rising learning rate; then it falls as a cosine."""
    batch_trajectories: int = Field(default=32, ge=1)
    """Trajectories in an optimiser step."""
    batch_tokens: int = Field(default=8192, ge=32)
    """Padded tokens in a forward pass."""
    max_grad_norm: float = Field(default=1.0, gt=0)
    """Gradient clipping."""
    huber_beta: float = Field(default=0.25, gt=0)
    """Where the smooth-L1 loss turns from square to absolute, in standard deviations of the transformed target."""
    completion_weight: float = Field(default=1.0, ge=0)
    """Weight of the completion loss beside the value loss."""
    balance: bool = True
    """Whether both classes count alike in the completion loss. Recordings of experts hold few failures, an actor that
    still learns makes many; equal weights do not carry the recordings' share over to the actor."""

    # Generative meter
    sft: SFTSettings = SFTSettings()
    """Fine-tuning."""
    refine: RefineConfig = RefineConfig()
    """Refinement."""

    # Hardware
    device: str = "auto"
    """``auto``, ``cpu``, ``cuda``."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Parameter type; float32 on CPUs."""
    threads: int | None = Field(default=None, ge=1)
    """CPU threads of torch; None leaves its setting."""

    @model_validator(mode="after")
    def _coherent(self) -> MeterConfig:
        if self.validation + self.test >= 1:
            raise ValueError("expected validation + test < 1")
        if self.kind == "generative" and self.target == "outcome":
            raise ValueError(
                "a generative meter answers with tokens or steps to go; target 'outcome' needs kind 'head'"
            )
        return self

    def filled(self, parameters: int, layers: int) -> MeterConfig:
        """Return the settings with what was left open decided by the size of the model.

        Args:
            parameters: Number of parameters of the backbone.
            layers: Number of its layers.
        """
        tiny = parameters < TINY
        half = min(layers, max(2, (layers + 1) // 2))
        rate = self.learning_rate or (1e-3 if tiny else 1e-5)
        sft = self.sft.model_copy(update={"learning_rate": self.sft.learning_rate or (1e-3 if tiny else 1e-5)})
        refine = self.refine.model_copy(update={"learning_rate": self.refine.learning_rate or (3e-5 if tiny else 3e-6)})
        return self.model_copy(
            update={
                "context_length": self.context_length or (512 if tiny else 8192),
                "instruction": "" if self.instruction is None and tiny else self.instruction,
                "layers": self.layers or (half if tiny else layers),
                "learning_rate": rate,
                "head_learning_rate": self.head_learning_rate or rate * (5 if tiny else 10),
                "sft": sft,
                "refine": refine,
            }
        )

    @property
    def effective_style(self) -> Style:
        """The wording that is used."""
        return self.style or ("chat" if self.kind == "head" else "transcript")
