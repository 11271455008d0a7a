"""Training: an update of this project's trainer against one of TRL's own ``GRPOTrainer``, on the same rows."""

from __future__ import annotations

import dataclasses
import math
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import tyro
from numpy.typing import NDArray

from agentgym_ttg.core.errors import ConfigError

from ._episodes import benchmark_model, judged, make_envs, play, specs, use_threads
from ._harness import Candidate, Paired, measure
from ._registry import SpeedBenchmark

if TYPE_CHECKING:
    from agentgym_ttg.agents.config import TrainConfig
    from agentgym_ttg.agents.rows import Row
    from agentgym_ttg.models.loading import LoadedModel

__all__ = ["BENCHMARK"]


@dataclass(frozen=True)
class Options:
    """Options of the training speed benchmark."""

    tasks: int = 8
    """Tasks (groups) of an update."""
    group_size: int = 8
    """Rows of a task: one conversation each."""
    max_steps: int = 20
    """Longest episode."""
    microbatches: int = 4
    """Forward passes of an optimiser step; divides the number of rows."""
    updates: int = 1
    """Updates in a round."""
    kl_coef: float = 0.02
    """Coefficient of the KL term; above 0 the reference model is read as well."""
    repetitions: Annotated[int, tyro.conf.arg(aliases=["--repeats"])] = 3
    """Rounds; the trainers take turns."""
    model: str | None = None
    """Folder or hub id of the actor; default the shipped one; "fresh" makes a tiny one."""
    threads: int | None = None
    """CPU threads of torch; default its own choice."""
    seed: int = 0
    """Seed of games and draws."""


@dataclass(frozen=True, slots=True)
class _Batch:
    """What both trainers learn from; an advantage belongs to a whole row, the only kind that TRL knows."""

    rows: list[Row]
    rewards: list[float]
    advantages: list[NDArray[np.float64]]


def _run(options: Options, progress: Callable[[str], object]) -> list[Paired]:
    rows = options.tasks * options.group_size
    if min(options.tasks, options.max_steps, options.updates, options.repetitions) < 1 or options.group_size < 2:
        raise ConfigError("expected tasks, max_steps, updates, repetitions >= 1 and group_size >= 2")
    if options.microbatches < 1 or rows % options.microbatches:
        raise ConfigError(f"expected microbatches to divide the {rows} rows, got {options.microbatches}")
    from agentgym_ttg.agents.config import TrainConfig

    use_threads(options.threads)
    progress("rolling out the rows")
    config = TrainConfig(
        updates=options.updates,
        microbatches=options.microbatches,
        kl_coef=options.kl_coef,
        warmup_updates=0,
        checkpoint_every=options.updates + 1,
        device="cpu",
    )
    weights: dict[str, list[Any]] = {}
    with benchmark_model(options.model, seed=options.seed) as loaded, tempfile.TemporaryDirectory() as folder:
        batch = _batch(loaded, options)
        makers = {"AgentTrainer": _ours, "GRPOTrainer": _theirs}

        def candidate(label: str) -> Candidate:
            def prepare() -> Any:
                trainer = makers[label](_copy(loaded), loaded.tokenizer, config, batch, options, Path(folder))
                trainer.args.save_strategy = "no"
                return trainer

            def work(trainer: Any) -> float:
                trainer.train()
                weights[label] = [parameter.detach() for parameter in trainer.model.parameters()]
                return float(options.updates)

            return Candidate(work, prepare)

        ways = {label: candidate(label) for label in makers}
        found = measure("train", f"update of {rows} rows", ways, repetitions=options.repetitions, progress=progress)
        start = [parameter.detach() for parameter in loaded.model.parameters()]
    cost = 1 / max(found.ratio("GRPOTrainer")[0], 1e-9)
    moved, apart = _distance(weights["AgentTrainer"], start), _distance(*weights.values())
    lengths = [len(row.prompt_ids) + len(row.completion_ids) for row in batch.rows]
    trained = int(sum((row.steps >= 0).sum() for row in batch.rows))
    values = {
        "time_of_ours_over_theirs": cost,
        "cpu_of_ours_over_theirs": 1 / max(found.ratio("GRPOTrainer", cpu=True)[0], 1e-9),
        "tokens": float(sum(lengths)),
        "trained_tokens": float(trained),
        "weights_apart_over_moved": apart / max(moved, 1e-30),
    }
    notes = (
        judged("AgentTrainer, time over GRPOTrainer's", cost, 1.1, cpu=values["cpu_of_ours_over_theirs"], at_most=True),
        f"{rows} rows of {np.mean(lengths):.0f} tokens in the mean, {trained} of {sum(lengths)} tokens trained on; the "
        f"weights that the two arrive at are {values['weights_apart_over_moved']:.1e} of the way apart",
    )
    return [dataclasses.replace(found, notes=notes, values=values)]


def _copy(loaded: LoadedModel) -> Any:
    """Return a fresh copy of the model, which the trainer may change."""
    from agentgym_ttg.models.loading import load_causal_lm

    return load_causal_lm(loaded.path, dtype="float32", device="cpu").model


def _batch(loaded: LoadedModel, options: Options) -> _Batch:
    """Roll out one update. Rewards are drawn, so that every group has a signal whatever the model can do."""
    from agentgym_ttg.agents.policies.hf import HFPolicy
    from agentgym_ttg.agents.rows import make_rows

    rng = np.random.default_rng(options.seed)
    with closing(make_envs(options.tasks * options.group_size, max_steps=options.max_steps)) as envs:
        episodes = specs(envs, tasks=options.tasks, group_size=options.group_size, seed=options.seed)
        played = play(envs, HFPolicy(loaded), episodes, max_tokens=12)
    rows = [row for trajectory in played for row in make_rows(trajectory)]
    if len(rows) != len(played):
        raise ConfigError("expected one row for each conversation; this model's chat template does not extend itself")
    rewards = rng.random((options.tasks, options.group_size))
    centred = rewards - rewards.mean(axis=1, keepdims=True)
    advantages = (centred / (rewards.std(axis=1, ddof=1, keepdims=True) + 1e-4)).ravel()  # as TRL computes them
    each = [np.where(row.steps >= 0, value, 0.0) for row, value in zip(rows, advantages, strict=True)]
    return _Batch(rows, [float(reward) for reward in rewards.ravel()], each)


def _ours(model: Any, tokenizer: Any, config: TrainConfig, batch: _Batch, options: Options, folder: Path) -> Any:
    from agentgym_ttg.agents.trainer import AgentTrainer, UpdateBatch

    return AgentTrainer(
        model,
        tokenizer,
        config,
        collect=lambda update: UpdateBatch(batch.rows, batch.advantages),
        on_update=lambda update, metrics: None,
        output_dir=folder,
        seed=options.seed,
    )


def _theirs(model: Any, tokenizer: Any, config: TrainConfig, batch: _Batch, options: Options, folder: Path) -> Any:
    """TRL's trainer as it comes, fed by its own ``rollout_func``."""
    import warnings

    from datasets import Dataset
    from transformers import PrinterCallback
    from trl import GRPOTrainer

    from agentgym_ttg.agents.trainer import _grpo_config

    args = _grpo_config(config, folder, 1.0, options.seed, 512)
    args.per_device_train_batch_size = len(batch.rows) // config.microbatches
    args.num_generations = options.group_size
    args.generation_batch_size = len(batch.rows)

    def rollout(prompts: Sequence[Any], trainer: Any) -> dict[str, Any]:
        return {
            "prompt_ids": [row.prompt_ids for row in batch.rows],
            "completion_ids": [row.completion_ids for row in batch.rows],
            "logprobs": None,
            "env_mask": [(row.steps >= 0).astype(int).tolist() for row in batch.rows],
            "earned": batch.rewards,
        }

    def reward(prompts: Sequence[Any], earned: Sequence[float], **others: Any) -> list[float]:
        return list(earned)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rollout_func is experimental
        trainer: Any = GRPOTrainer(
            model=model,
            reward_funcs=reward,
            args=args,
            train_dataset=Dataset.from_dict({"prompt": [str(task) for task in range(options.tasks)]}),
            processing_class=tokenizer,
            rollout_func=rollout,
        )
    trainer.remove_callback(PrinterCallback)
    return trainer


def _distance(one: Sequence[Any], other: Sequence[Any]) -> float:
    """Return the Euclidean distance between two sets of parameters."""
    return math.sqrt(sum(float(((a - b) ** 2).sum()) for a, b in zip(one, other, strict=True)))


BENCHMARK = SpeedBenchmark("train", "training: AgentTrainer against TRL's GRPOTrainer on the same rows", Options, _run)
