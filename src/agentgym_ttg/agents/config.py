"""The settings of training, and the presets.

Precedence, lowest first: field defaults, the preset, the ``--config`` file, flags.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from agentgym_ttg.core.errors import ConfigError, nearest

__all__ = ["PRESETS", "TrainConfig", "preset_values"]


class TrainConfig(BaseModel):
    """How a method is trained; fields that a method does not use are ignored by it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    updates: int = Field(80, ge=0)
    """Policy updates; each one collects ``tasks_per_update`` x ``group_size`` trajectories."""
    tasks_per_update: int = Field(8, ge=1)
    """Tasks (groups) in an update."""
    group_size: int = Field(8, ge=1)
    """G: trajectories of one task that are compared with each other."""

    # Optimiser
    learning_rate: float = Field(3e-4, gt=0)
    """Peak learning rate of AdamW."""
    lr_schedule: str = "constant_with_warmup"
    """Learning-rate schedule, a name of transformers."""
    warmup_updates: int = Field(2, ge=0)
    """Updates of linear warm-up."""
    weight_decay: float = Field(0.0, ge=0)
    """AdamW weight decay."""
    max_grad_norm: float = Field(1.0, gt=0)
    """Gradient clipping."""
    minibatches: int = Field(1, ge=1)
    """Optimiser steps for each update; more than one makes the update off-policy, and the ratio clip matters."""
    microbatches: int = Field(4, ge=1)
    """Forward passes for each optimiser step (gradient accumulation)."""

    # Loss, eq. 12
    epsilon_low: float = Field(0.2, gt=0, lt=1)
    """Lower clip of the ratio."""
    epsilon_high: float = Field(0.28, gt=0)
    """Upper clip of the ratio."""
    dual_clip: float | None = Field(3.0, gt=1)
    """d: bound of the loss of tokens with a negative advantage; None switches it off."""
    kl_coef: float = Field(0.0, ge=0)
    """Coefficient of the KL term (k3 estimator) to the model that training starts from."""
    entropy_coef: float = 0.0
    """Coefficient of the entropy bonus."""
    invalid_action_penalty: float = Field(0.0, ge=0)
    """Subtracted from the advantage of steps whose action was invalid; kept out of R_i (spec, edge cases)."""

    # Rows
    merge_rows: bool = True
    """Join rows that extend each other into one; the numbers stay the same, the work shrinks."""
    normalize_over: Literal["actions", "trajectories"] = "actions"
    """Whether the group statistics count each reward once per action (eq. 6) or once per trajectory."""

    # DeltaTTG, eq. 7-11
    rho: float = Field(0.2, ge=0, le=1)
    """Uniform part of the step shares; 1 is GRPO."""
    cap: float = Field(5.0, ge=1)
    """M: largest weight of a step; 1 is GRPO."""
    failure_cost: float | None = Field(None, gt=0)
    """C: cost of a state that cannot be completed, in the meter's unit; None takes the longest episode there can be:
    max_steps x max_response_tokens, or max_steps for a meter of steps to go."""
    sign_aware: bool = True
    """Whether a negative advantage is distributed by regress (eq. 10) instead of progress."""
    weight_reading: Literal["broadcast", "split"] = "broadcast"
    """How a step's share reaches its tokens (spec, section 2)."""

    signal: str | None = None
    """DeltaTTG: any registered step scorer in the place of the meter's tokens to go. Guided acting: who picks."""
    signal_options: tuple[str, ...] = ()
    """What that scorer is built from, as KEY=VALUE (reference=PATH token_aggregation=mean); the value warm-start stands
    for the model that training starts from."""

    # DAPO
    max_sampling_rounds: int = Field(10, ge=1)
    """Rounds of dynamic sampling, the first included, to fill an update with groups whose rewards differ; then the run
    stops with an error."""
    overlong_tokens: float | None = Field(None, gt=0)
    """Assistant tokens of a trajectory at which the overlong penalty is full; None takes the longest episode there can
    be, max_steps x max_response_tokens (or max_tokens, if that is less)."""
    overlong_buffer: float | None = Field(None, gt=0)
    """Length of the ramp before it; None takes a fifth of overlong_tokens."""
    overlong_factor: float = Field(1.0, ge=0)
    """Height of the overlong penalty; 0 switches it off."""

    # GiGPO and HGPO
    step_gamma: float = Field(0.95, ge=0, le=1)
    """Discount of the step returns."""
    step_norm: Literal["mean_std_norm", "mean_norm"] = "mean_std_norm"
    """Whether step (and GiGPO's episode) advantages are divided by their deviation."""
    step_weight: float = Field(1.0, ge=0)
    """GiGPO: omega, weight of the step advantage beside the episode's."""
    anchor_similarity: float | None = Field(None, gt=0, le=1)
    """GiGPO: None groups the steps of equal states; else states of at least this similarity."""
    hgpo_history: int = Field(2, ge=0)
    """HGPO: K, states before the present one that a group may share."""
    hgpo_alpha: float = Field(1.0, ge=0)
    """HGPO: exponent of the weights; 0 weighs all lengths of history alike."""
    hgpo_weight_base: Literal["k+1", "k"] = "k+1"
    """HGPO: what is raised to hgpo_alpha, for a history of k states."""
    hgpo_drop_zeros: bool = True
    """HGPO: whether terms that are exactly 0 are left out of the mean."""
    hgpo_base_group: bool = False
    """HGPO: whether the episode advantage is a further term."""

    # What the run makes before it trains, where it is not given
    warm_start_from: str | None = None
    """Actor to start from: a folder or hub id. None: --model, else the shipped or a freshly made warm start."""
    warm_start: int = Field(2000, ge=1)
    """Expert demonstrations for a freshly made warm start."""
    warm_start_stumble: float = Field(0.2, ge=0, lt=1)
    """Share of steps at which the demonstrating expert says what will be refused (refused steps are read, not cloned);
    only where an environment lists every admissible action."""
    warm_start_updates: int = Field(900, ge=1)
    """Optimiser steps of a freshly made warm start."""
    meter: str | None = None
    """A trained meter: a folder or hub id. None: train one."""
    meter_kind: Literal["head", "generative"] = "head"
    """Which kind of meter is trained."""
    meter_backbone: str | None = None
    """Model that the meter starts from; None takes the warm start."""
    meter_layers: int | None = Field(None, ge=1)
    """Layers of that model which the meter keeps; None leaves it to the kind and size (MeterConfig.layers)."""
    meter_epochs: int = Field(6, ge=1)
    """Passes over the recordings when a head meter is trained; the generative one has its own (meter.training)."""
    recordings: int = Field(1600, ge=1)
    """Trajectories that are recorded to train the meter."""
    recorders: tuple[str, ...] = ("expert", "noisy:0.2", "noisy:0.5", "warm-start")
    """Policies that are recorded, in equal parts."""

    # Evaluation and checkpoints
    eval_every: int = Field(10, ge=0)
    """Updates between two evaluations on held-out tasks; 0 evaluates only before and after."""
    eval_episodes: int = Field(140, ge=1)
    """Held-out tasks of an evaluation."""
    eval_temperature: float = Field(0.0, ge=0)
    """Sampling temperature of evaluations; 0 is greedy."""
    checkpoint_every: int = Field(10, ge=1)
    """Updates between two checkpoints."""

    # Hardware
    dtype: Literal["auto", "float32", "bfloat16"] = "float32"
    """Parameter type of the actor; float32 on CPUs."""
    device: str = "auto"
    """``auto``, ``cpu``, ``cuda``."""
    threads: int | None = Field(None, ge=1)
    """CPU threads of torch; None leaves its default."""
    gradient_checkpointing: bool = False
    """Trade compute for memory."""
    vllm: Literal["off", "colocate", "server"] = "off"
    """Sample with vLLM through TRL, in the training process or from a ``trl vllm-serve`` server."""
    vllm_memory: float = Field(0.3, gt=0, le=1)
    """Share of GPU memory for a colocated vLLM."""
    vllm_server_url: str | None = None
    """Address of the vLLM server."""


#: Values of run and training fields for each preset; a name of ``RunConfig`` or of :class:`TrainConfig`.
PRESETS: dict[str, dict[str, Any]] = {
    # The default: two CPU cores, the tiny model, about ten minutes. Episodes are short (an expert needs 8.5 steps), a
    # KL term and a price on invalid actions keep the policy from memorising the training tasks.
    "cpu": {
        "max_steps": 20,
        "max_response_tokens": 12,
        "num_envs": 64,
        "prompt": "conversation",
        "updates": 50,
        "recordings": 800,
        "meter_epochs": 4,
        "learning_rate": 1e-4,
        "kl_coef": 0.05,
        "invalid_action_penalty": 0.1,
    },
    # Everything once, as small as it goes: for CI.
    "smoke": {
        "max_steps": 15,
        "max_response_tokens": 12,
        "num_envs": 32,
        "prompt": "conversation",
        "updates": 3,
        "tasks_per_update": 4,
        "group_size": 4,
        "recordings": 80,
        "meter_epochs": 1,
        "warm_start": 200,
        "warm_start_updates": 60,
        "kl_coef": 0.02,
        "invalid_action_penalty": 0.1,
        "eval_every": 0,
        "eval_episodes": 24,
        "checkpoint_every": 2,
    },
    # The paper's ALFWorld protocol: Qwen3-4B (or --model meta-llama/Llama-3.1-8B-Instruct), last two turns in the
    # prompt, 16 tasks x 8, 50 steps, 150 updates; what the paper leaves open follows the public runs (spec/baselines).
    "paper": {
        "model": "Qwen/Qwen3-4B",
        "prompt": "windowed",
        "history_length": 2,
        "action_format": "tags",
        "max_steps": 50,
        "max_response_tokens": 512,
        "num_envs": 128,
        "temperature": 1.0,
        "updates": 150,
        "tasks_per_update": 16,
        "group_size": 8,
        "learning_rate": 1e-6,
        "warmup_updates": 0,
        "minibatches": 4,
        "microbatches": 16,
        "kl_coef": 0.01,
        "entropy_coef": 0.001,
        "meter_kind": "generative",
        "meter_backbone": "Qwen/Qwen3-4B-Instruct-2507",
        "recordings": 8000,
        "recorders": ("expert", "noisy:0.2", "noisy:0.5", "model"),
        "eval_temperature": 0.4,
        "eval_every": 5,
        "eval_episodes": 140,
        "dtype": "bfloat16",
        "device": "cuda",
        "gradient_checkpointing": True,
        "vllm": "colocate",
    },
}


def preset_values(name: str) -> dict[str, Any]:
    """Return the values of a preset.

    Raises:
        ConfigError: If there is no such preset.
    """
    if name not in PRESETS:
        hint = nearest(name, PRESETS)
        raise ConfigError(
            f"unknown preset {name!r}; expected one of {', '.join(PRESETS)}"
            + (f" (did you mean {hint[0]!r}?)" if hint else "")
        )
    return dict(PRESETS[name])
