"""The trainer: TRL's GRPO optimiser under our rollouts and our credit.

TRL keeps loss, optimiser, accelerate, checkpoints and logging. This subclass replaces what TRL does to obtain a batch
(one prompt, one completion, one advantage a row) by rows that the rollout engine and an advantage estimator made:
prompt ids, completion ids, mask, advantages of shape (B, L). The seam is three private methods of TRL, whose minor
version is pinned; ``tests/agents/test_trainer.py`` holds it to the reference loss of :mod:`agentgym_ttg.credit`.
"""

from __future__ import annotations

import json
import os
import shutil
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from numpy.typing import NDArray
from transformers import PrinterCallback
from trl import GRPOConfig, GRPOTrainer

from .config import TrainConfig
from .rows import Row
from .scoring import can_score_selected, score_selected

__all__ = ["AgentTrainer", "UpdateBatch", "last_checkpoint"]

_MARKER = "complete.json"


@dataclass(slots=True)
class UpdateBatch:
    """What one update is made of.

    Attributes:
        rows: The rows of every trajectory, in any order.
        advantages: For each row the advantage of each completion token, ``(L,)``; 0 where it is not trained on.
        metrics: What is to be logged with the update.
    """

    rows: list[Row]
    advantages: list[NDArray[np.float64]]
    metrics: dict[str, Any] = field(default_factory=dict)


class AgentTrainer(GRPOTrainer):  # type: ignore[misc]
    """GRPO on rows from an environment.

    Args:
        model: The actor, loaded from ``model.config._name_or_path`` (the KL reference is loaded from there again).
        tokenizer: Its tokenizer.
        config: Training settings.
        collect: Called with the index of the update; returns its batch.
        on_update: Called with the index and the metrics of each finished update.
        output_dir: Where checkpoints go.
        temperature: Sampling temperature of the rollouts; log-probabilities are those of the scaled distribution.
        seed: Seed of the order of rows in mini-batches.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        config: TrainConfig,
        *,
        collect: Callable[[int], UpdateBatch],
        on_update: Callable[[int, dict[str, Any]], None],
        output_dir: Path,
        temperature: float = 1.0,
        seed: int = 0,
        max_completion_length: int = 512,
    ) -> None:
        self.settings = config
        self._collect = collect
        self._on_update = on_update
        self._seed = seed
        self._update_metrics: dict[str, Any] = {}
        self._trainable: torch.Tensor | None = None
        self._buffered_inputs: list[dict[str, torch.Tensor]] | None = None
        super().__init__(
            model=model,
            reward_funcs=_no_reward,
            args=_grpo_config(config, output_dir, temperature, seed, max_completion_length),
            # TRL draws its prompts from a data set; ours come from the environment, so its rows are placeholders.
            train_dataset=Dataset.from_dict({"prompt": [""] * 2 * config.minibatches * config.microbatches}),
            processing_class=tokenizer,
        )
        self.remove_callback(PrinterCallback)  # the run shows its own progress

    # The seam: TRL's private methods ------------------------------------------------------------------------------

    def _prepare_inputs(self, generation_batch: Any) -> dict[str, torch.Tensor]:
        """Return the next micro-batch; collect a new update when the last one is used up."""
        position = self._step % self.args.steps_per_generation
        if position == 0 or self._buffered_inputs is None:
            update = self.state.global_step // self.settings.minibatches
            batch = self._collect(update)
            self._update_metrics = batch.metrics
            self._buffered_inputs = self._micro_batches(batch, update)
        inputs: dict[str, torch.Tensor] = self._buffered_inputs[position]
        return inputs

    def _compute_loss(self, model: Any, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        self._trainable = inputs["tool_mask"].bool()
        loss: torch.Tensor = super()._compute_loss(model, inputs)
        return loss

    def _get_per_token_logps_and_entropies(
        self, model: Any, input_ids: Any, attention_mask: Any, logits_to_keep: int, *args: Any, **kwargs: Any
    ) -> tuple[Any, Any, Any]:
        """Zero what is not trained on by selection, so that nothing there can turn a sum into NaN."""
        if self._trainable is not None and not kwargs.get("compute_aux_loss") and can_score_selected(model):
            with self.accelerator.autocast():
                scored = score_selected(model, input_ids, attention_mask, self._trainable, temperature=self.temperature)
            return *scored, None
        logps, entropies, aux_loss = super()._get_per_token_logps_and_entropies(
            model, input_ids, attention_mask, logits_to_keep, *args, **kwargs
        )
        if self._trainable is not None:
            zero = torch.zeros((), dtype=logps.dtype, device=logps.device)
            logps = torch.where(self._trainable, logps, zero)
            if entropies is not None:
                entropies = torch.where(self._trainable, entropies, zero)
        return logps, entropies, aux_loss

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log as TRL does, and report the finished update."""
        super().log(logs, start_time)
        if "loss" in logs and self.accelerator.is_main_process:
            update = self.state.global_step // self.settings.minibatches - 1
            self._on_update(update, {**self._update_metrics, **_own_names(logs)})

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """Save as TRL does; the marker comes last, so a killed save is never resumed from."""
        super()._save_checkpoint(model, trial)
        if self.args.should_save:
            folder = Path(self._get_output_dir(trial=trial)) / f"checkpoint-{self.state.global_step}"
            marker = {"update": self.state.global_step // self.settings.minibatches}
            temporary = folder / f"{_MARKER}.tmp"
            temporary.write_text(json.dumps(marker))
            os.replace(temporary, folder / _MARKER)

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """Write none: a checkpoint of a run folder is not a published model."""

    # Batches ------------------------------------------------------------------------------------------------------

    def _micro_batches(self, batch: UpdateBatch, update: int) -> list[dict[str, torch.Tensor]]:
        """Split an update into mini-batches at random and those into micro-batches by length.

        Rows without any advantage, those of groups whose rewards are equal, have no gradient where there is neither a
        KL nor an entropy term: they are counted in the token mean, not computed.
        """
        rng = np.random.default_rng([self._seed, update])
        order = rng.permutation(len(batch.rows)) if self.settings.minibatches > 1 else np.arange(len(batch.rows))
        everything = self.beta != 0.0 or self.settings.entropy_coef != 0.0
        needed = np.array([everything or bool(np.any(values)) for values in batch.advantages], dtype=bool)
        tokens = np.array([np.count_nonzero(row.steps >= 0) for row in batch.rows], dtype=np.int64)
        out: list[dict[str, torch.Tensor]] = []
        for part in np.array_split(order, self.settings.minibatches):
            kept = part[needed[part]]
            pieces = _split_by_length([batch.rows[i] for i in kept], kept, self.settings.microbatches)
            micro = [self._tensors([batch.rows[i] for i in p], [batch.advantages[i] for i in p]) for p in pieces]
            # TRL divides by the tokens of the whole generation batch, scaled to one accumulation window; giving it the
            # window's own count scaled back makes each optimiser step an exact token mean (eq. 12).
            local = torch.tensor(float(tokens[part].sum()), device=self.accelerator.device)
            total = self.accelerator.reduce(local, reduction="sum")
            for tensors in micro:
                tensors["num_items_in_batch"] = total * self.settings.minibatches
            out += micro
        return out

    def _tensors(self, rows: Sequence[Row], advantages: Sequence[NDArray[np.float64]]) -> dict[str, torch.Tensor]:
        """Pad rows to tensors, on the right only.

        What is longer than the shortest prompt counts as completion that is not trained on. So a batch is as wide as
        its longest row, and the model, being causal, needs no attention mask.
        """
        if not rows:  # fewer rows than micro-batches: one that counts for nothing
            pad = self._tokenizer.pad_token_id
            rows = [Row([pad], [pad], np.array([-1]), np.zeros(1, np.float32))]
            advantages = [np.zeros(1)]
        device = self.accelerator.device
        width = min(len(row.prompt_ids) for row in rows)
        length = max(len(row.prompt_ids) + len(row.completion_ids) for row in rows) - width
        shape = (len(rows), length)
        prompt_ids = np.array([row.prompt_ids[:width] for row in rows], dtype=np.int64)
        completion_ids = np.full(shape, self._tokenizer.pad_token_id)
        completion_mask, trainable = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        advantage, logprobs = np.zeros(shape, dtype=np.float32), np.zeros(shape, dtype=np.float32)
        for i, (row, values) in enumerate(zip(rows, advantages, strict=True)):
            start = len(row.prompt_ids) - width
            end = start + len(row.completion_ids)
            completion_ids[i, :end] = [*row.prompt_ids[width:], *row.completion_ids]
            completion_mask[i, :end] = 1
            trainable[i, start:end] = row.steps >= 0
            advantage[i, start:end] = np.where(row.steps >= 0, values, 0.0)
            logprobs[i, start:end] = np.where(row.steps >= 0, row.logprobs, 0.0)
        if not np.isfinite(advantage).all():
            raise AssertionError("an advantage is not finite")
        inputs = {
            "prompt_ids": torch.from_numpy(prompt_ids),
            "prompt_mask": torch.from_numpy(np.ones_like(prompt_ids)),
            "completion_ids": torch.from_numpy(completion_ids),
            "completion_mask": torch.from_numpy(completion_mask),
            "tool_mask": torch.from_numpy(trainable),
            "advantages": torch.from_numpy(advantage),
        }
        inputs = {name: tensor.to(device) for name, tensor in inputs.items()}
        self._add_other_logprobs(inputs, torch.from_numpy(logprobs).to(device))
        return inputs

    def _add_other_logprobs(self, inputs: dict[str, torch.Tensor], sampled: torch.Tensor) -> None:
        """Add the log-probabilities of the rollout policy and of the reference, where the loss needs them.

        With one optimiser step an update the policy that sampled is the policy that learns, and TRL takes the ratio to
        itself. Else the ratio is to the log-probabilities at sampling time, or to those of a fresh forward pass where
        another engine (vLLM) sampled, or did not say.
        """
        self._trainable = inputs["tool_mask"].bool()
        ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
        mask = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1)
        keep = inputs["completion_ids"].size(1)
        with torch.no_grad():
            if self.settings.minibatches > 1:
                if self.use_vllm or not bool(torch.isfinite(sampled).all()):
                    sampled = self._get_per_token_logps_and_entropies(self.model, ids, mask, keep)[0]
                inputs["old_per_token_logps"] = sampled
            if self.beta != 0.0:
                reference = self.ref_model
                inputs["ref_per_token_logps"] = self._get_per_token_logps_and_entropies(reference, ids, mask, keep)[0]


def _no_reward(prompts: list[Any], **kwargs: Any) -> list[float]:
    """Stand in for TRL's reward functions; rewards come from the environment."""
    return [0.0] * len(prompts)


def _split_by_length(rows: Sequence[Row], indices: NDArray[np.int64], pieces: int) -> list[list[int]]:
    """Split row indices into ``pieces`` lists of similar lengths and similar padded size; lists may be empty."""
    lengths = np.array([len(row.prompt_ids) + len(row.completion_ids) for row in rows], dtype=np.int64)
    order = np.argsort(-lengths, kind="stable")
    cumulative = np.cumsum(lengths[order])
    total = cumulative[-1] if len(cumulative) else 0
    edges = np.minimum((cumulative - lengths[order] / 2) * pieces // max(total, 1), pieces - 1).astype(int)
    out: list[list[int]] = [[] for _ in range(pieces)]
    for edge, position in zip(edges, order, strict=True):
        out[edge].append(int(indices[position]))
    return out


def _grpo_config(
    config: TrainConfig, output_dir: Path, temperature: float, seed: int, max_completion_length: int
) -> GRPOConfig:
    use_cpu = config.device == "cpu" or (config.device == "auto" and not torch.cuda.is_available())
    with warnings.catch_warnings():
        # TRL still reads the name that transformers is about to retire.
        warnings.filterwarnings("ignore", message=".*gradient_checkpointing.*", category=FutureWarning)
        return _build_config(config, output_dir, temperature, seed, max_completion_length, use_cpu)


def _build_config(
    config: TrainConfig,
    output_dir: Path,
    temperature: float,
    seed: int,
    max_completion_length: int,
    use_cpu: bool,
) -> GRPOConfig:
    return GRPOConfig(
        output_dir=str(output_dir),
        max_steps=config.updates * config.minibatches,
        per_device_train_batch_size=2,
        num_generations=2,
        steps_per_generation=config.minibatches * config.microbatches,
        gradient_accumulation_steps=config.microbatches,
        num_iterations=1,
        learning_rate=config.learning_rate,
        lr_scheduler_type=config.lr_schedule,
        warmup_steps=config.warmup_updates * config.minibatches,
        weight_decay=config.weight_decay,
        max_grad_norm=config.max_grad_norm,
        loss_type="dapo",
        epsilon=config.epsilon_low,
        epsilon_high=config.epsilon_high,
        delta=config.dual_clip,
        beta=config.kl_coef,
        entropy_coef=config.entropy_coef,
        temperature=temperature,
        max_completion_length=max_completion_length,
        use_vllm=config.vllm != "off",
        vllm_mode=config.vllm if config.vllm != "off" else "colocate",
        vllm_gpu_memory_utilization=config.vllm_memory,
        vllm_server_base_url=config.vllm_server_url,
        gradient_checkpointing=config.gradient_checkpointing,
        bf16=config.dtype == "bfloat16",
        use_cpu=use_cpu,
        logging_steps=config.minibatches,
        save_strategy="steps",
        save_steps=config.checkpoint_every * config.minibatches,
        save_total_limit=2,
        report_to="none",
        disable_tqdm=True,
        ignore_data_skip=True,
        shuffle_dataset=False,
        dataloader_pin_memory=False,
        seed=seed,
    )


def _own_names(logs: dict[str, float]) -> dict[str, Any]:
    """Return TRL's numbers under the names of our metrics."""
    names = {
        "loss": "loss",
        "grad_norm": "grad_norm",
        "learning_rate": "learning_rate",
        "entropy": "entropy",
        "kl": "kl",
        "clip_ratio/region_mean": "clip_fraction",
        "clip_ratio/low_mean": "clip_fraction_low",
        "clip_ratio/high_mean": "clip_fraction_high",
    }
    return {own: logs[name] for name, own in names.items() if logs.get(name) is not None}


def last_checkpoint(folder: Path) -> tuple[Path, int] | None:
    """Return the last complete checkpoint below ``folder`` and the number of updates it has; remove incomplete ones."""
    found: list[tuple[int, Path]] = []
    for path in folder.glob("checkpoint-*"):
        try:
            found.append((int(json.loads((path / _MARKER).read_text())["update"]), path))
        except (OSError, ValueError, KeyError):
            shutil.rmtree(path, ignore_errors=True)
    if not found:
        return None
    update, path = max(found)
    return path, update
