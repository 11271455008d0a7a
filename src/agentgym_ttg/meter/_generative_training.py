"""Training of the generative meter: supervised with TRL, then refined with the prediction reward."""

from __future__ import annotations

import inspect
import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback
from transformers.trainer_utils import get_last_checkpoint
from trl import GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer

from agentgym_ttg.credit import prediction_reward
from agentgym_ttg.models import LoadedModel, load_causal_lm

from ._torch import quiet, save_pretrained
from .answers import answer_pieces, parse_answer
from .config import MeterConfig
from .generative import GenerativeMeter, GenerativeSettings
from .labels import Label
from .metrics import meter_metrics
from .prompts import plain_ids
from .references import References

__all__ = ["train_generative"]

#: Called with the stage, how much of it is done, how much there is, and what was measured.
Progress = Callable[[str, int, int, dict[str, float]], None]

_MARKER = "complete"


@dataclass(frozen=True, slots=True)
class _Example:
    prompt: list[int]
    answer: list[int]
    can_complete: bool
    value: float


def train_generative(
    base: LoadedModel,
    labels: dict[str, list[Label]],
    references: References,
    note: dict[str, Any],
    config: MeterConfig,
    *,
    work: Path,
    progress: Progress,
) -> tuple[GenerativeMeter, list[dict[str, float]]]:
    """Fine-tune and refine; return the better of both models on the validation tasks (by eq. 4), and the measurements.

    Each stage leaves its model in ``work``; a killed training goes on from the last checkpoint of its stage.
    """
    assert config.context_length is not None
    settings = GenerativeSettings(
        name=config.name or "generative",
        target=config.target,
        context_length=config.context_length,
        instruction=config.instruction,
        references=references,
        training=note,
    )
    meter = GenerativeMeter(base, settings)
    rng = np.random.default_rng([config.seed, 1])
    examples = _examples(meter, labels["train"], config.sft.histories_per_trajectory, rng)
    held = labels["validation"]
    history: list[dict[str, float]] = []
    tuned = work / "sft"
    if not (tuned / _MARKER).is_file():
        _fine_tune(meter, examples, config, work / "sft-checkpoints", progress)
        _keep(meter, tuned)
    meter = _reload(tuned, settings, config)
    history.append({"stage": 0.0, **_measure(meter, held)})
    progress("sft", 1, 1, history[-1])
    if config.refine.steps:
        refined = work / "refined"
        if not (refined / _MARKER).is_file():
            picked = rng.permutation(len(examples))[: config.refine.steps * config.refine.histories_per_step]
            _refine(meter, [examples[i] for i in picked], config, work / "refine-checkpoints", progress)
            _keep(meter, refined)
        meter = _reload(refined, settings, config)
        history.append({"stage": 1.0, **_measure(meter, held)})
        progress("refine", 1, 1, history[-1])
        if history[1]["reward"] < history[0]["reward"]:
            meter = _reload(tuned, settings, config)
    return meter, history


def _examples(
    meter: GenerativeMeter, labels: Sequence[Label], per_trajectory: int | None, rng: np.random.Generator
) -> list[_Example]:
    """Return prompts and answers.

    The answer is tokenised piece by piece, so that both classes share its beginning and the completion logit is read at
    a place that was trained.
    """
    end = [meter.tokenizer.eos_token_id] if meter.tokenizer.eos_token_id is not None else []
    out: list[_Example] = []
    for label in labels:
        steps = len(label.values)
        count = steps if per_trajectory is None else min(per_trajectory, steps)
        chosen = set(rng.permutation(steps)[:count].tolist())
        for window in meter.encoder.windows(meter.encoder.encode(label.trajectory)):
            for index, step in enumerate(window.steps):
                if step in chosen:
                    value = float(label.values[step])
                    pieces = answer_pieces(label.can_complete, value, meter.target)
                    answer = [i for piece in pieces for i in plain_ids(meter.tokenizer, piece)] + end
                    out.append(_Example(meter.prompt(window, index), answer, label.can_complete, value))
    return out


def _fine_tune(
    meter: GenerativeMeter, examples: Sequence[_Example], config: MeterConfig, folder: Path, progress: Progress
) -> None:
    """Minimise eq. 3: cross-entropy of the answer tokens, prompt masked."""
    sft = config.sft
    rows = Dataset.from_dict(
        {
            "input_ids": [example.prompt + example.answer for example in examples],
            "completion_mask": [[0] * len(example.prompt) + [1] * len(example.answer) for example in examples],
        }
    )
    micro = min(sft.micro_batch_size, sft.batch_size)
    accumulation = max(1, sft.batch_size // micro)
    total = max(1, math.ceil(math.ceil(len(examples) / (micro * accumulation)) * sft.epochs))
    arguments = SFTConfig(
        output_dir=str(folder),
        num_train_epochs=sft.epochs,
        per_device_train_batch_size=micro,
        gradient_accumulation_steps=accumulation,
        learning_rate=sft.learning_rate,
        lr_scheduler_type="cosine",
        warmup_steps=max(1, round(0.05 * total)),
        max_length=config.context_length,
        completion_only_loss=True,
        save_steps=max(1, total // 4),
        **_common(config),
    )
    with quiet():
        trainer = SFTTrainer(
            model=meter.model,
            args=arguments,
            train_dataset=rows,
            processing_class=meter.tokenizer,
            callbacks=[_Report("sft", progress)],
        )
    _run(trainer, meter, folder)


class _Refiner(GRPOTrainer):  # type: ignore[misc]
    """GRPO whose prompts are ids that were built once; text is never tokenised again."""

    prompt_table: list[list[int]]

    def _tokenize_prompts(self, prompts: list[Any]) -> tuple[list[list[int]], None, dict[str, Any]]:
        return [self.prompt_table[int(prompt)] for prompt in prompts], None, {}


def _refine(
    meter: GenerativeMeter, examples: Sequence[_Example], config: MeterConfig, folder: Path, progress: Progress
) -> None:
    """Maximise the prediction reward (eq. 4 and 5), advantages normalised inside the answers to one history."""
    refine = config.refine
    target = meter.target

    def reward(
        prompts: list[str], completions: list[str], can_complete: list[bool], value: list[float], **_: Any
    ) -> list[float]:
        said = [parse_answer(text, target) for text in completions]
        return [
            prediction_reward(
                (estimate.can_complete, estimate.remaining_tokens) if estimate.valid else None,
                (b, v if b else None),
                form=refine.token_accuracy,
            )
            for estimate, b, v in zip(said, can_complete, value, strict=True)
        ]

    rows = Dataset.from_dict(
        {
            "prompt": [str(i) for i in range(len(examples))],
            "can_complete": [example.can_complete for example in examples],
            "value": [example.value for example in examples],
        }
    )
    arguments = GRPOConfig(
        output_dir=str(folder),
        max_steps=refine.steps,
        per_device_train_batch_size=refine.group_size,
        gradient_accumulation_steps=refine.histories_per_step,
        num_generations=refine.group_size,
        learning_rate=refine.learning_rate,
        lr_scheduler_type="constant",
        max_completion_length=meter.max_answer_tokens,
        temperature=refine.temperature,
        beta=refine.kl_coef,
        loss_type="dapo",
        scale_rewards="group",
        save_steps=max(1, refine.steps // 4),
        **_common(config),
    )
    trainer = _Refiner(
        model=meter.model,
        reward_funcs=reward,
        args=arguments,
        train_dataset=rows,
        processing_class=meter.tokenizer,
        callbacks=[_Report("refine", progress)],
    )
    trainer.prompt_table = [example.prompt for example in examples]
    _run(trainer, meter, folder)


def _common(config: MeterConfig) -> dict[str, Any]:
    """Return what both trainers are told."""
    on_gpu = torch.cuda.is_available() and config.device != "cpu"
    # transformers 5.2x renamed the switch; on a CPU memory is not what is scarce.
    known = inspect.signature(SFTConfig).parameters
    switch = "activation_checkpointing" if "activation_checkpointing" in known else "gradient_checkpointing"
    return {
        switch: on_gpu,
        "bf16": config.dtype == "bfloat16",
        "use_cpu": not on_gpu,
        "seed": config.seed,
        "data_seed": config.seed,
        "save_strategy": "steps",
        "save_total_limit": 1,
        "logging_steps": 1,
        "report_to": "none",
        "disable_tqdm": True,
        "dataloader_pin_memory": on_gpu,
    }


class _Report(TrainerCallback):  # type: ignore[misc]
    """Tells the caller of every optimiser step."""

    def __init__(self, stage: str, progress: Progress) -> None:
        self._stage = stage
        self._progress = progress

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any) -> None:
        """Pass on loss and reward."""
        found = {k: float(v) for k, v in (logs or {}).items() if k in ("loss", "reward", "mean_token_accuracy")}
        if found:
            self._progress(self._stage, state.global_step, state.max_steps, found)


def _checkpoint(folder: Path) -> str | None:
    return get_last_checkpoint(str(folder)) if folder.is_dir() else None


def _run(trainer: Any, meter: GenerativeMeter, folder: Path) -> None:
    """Train, from the last checkpoint where there is one, and take the model back from accelerate."""
    trainer.remove_callback(PrinterCallback)  # it writes to standard output, which belongs to the results
    with quiet():
        trainer.train(resume_from_checkpoint=_checkpoint(folder))
    meter.model = trainer.accelerator.unwrap_model(trainer.model).eval()


def _keep(meter: GenerativeMeter, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    save_pretrained(folder, meter.model, meter.tokenizer)
    (folder / _MARKER).write_text("")  # last: without it the stage is done again


def _reload(folder: Path, settings: GenerativeSettings, config: MeterConfig) -> GenerativeMeter:
    """Return the model of a finished stage, always from its files: a resumed training continues with the same."""
    return GenerativeMeter(load_causal_lm(str(folder), dtype=config.dtype, device=config.device), settings)


def _measure(meter: GenerativeMeter, labels: Sequence[Label]) -> dict[str, float]:
    metrics = meter_metrics(meter.score([label.trajectory for label in labels]), labels)
    names = ("reward", "invalid", "completion_auroc", "completion_accuracy", "token_accuracy")
    return {name: value for name in names if (value := getattr(metrics, name)) is not None}
