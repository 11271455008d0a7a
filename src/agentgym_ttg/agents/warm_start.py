"""Behaviour cloning: a model that starts weak but not blind.

A randomly initialised model never finds a reward, so reinforcement learning starts from one that has read expert
demonstrations. Loss is taken on what the assistant said and, at a smaller weight, on what the environment said, which
teaches the model which things exist before it acts on them.

The warm start of the built-in ALFWorld ships with this package. It is made by::

    python -m agentgym_ttg.agents.warm_start --out src/agentgym_ttg/models/assets/alfworld_easy
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn import functional

from agentgym_ttg.core.errors import ConfigError
from agentgym_ttg.core.messages import Message
from agentgym_ttg.core.trajectory import Trajectory
from agentgym_ttg.models.chat import ChatBridge
from agentgym_ttg.models.loading import LoadedModel, quiet
from agentgym_ttg.models.tiny import TinyConfig, build_tokenizer, make_tiny_model
from agentgym_ttg.wrappers.chat import PromptBuilder

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

__all__ = ["CloningRow", "WarmStartConfig", "cloning_rows", "demonstrations_hash", "train_warm_start"]


@dataclass(frozen=True, slots=True)
class WarmStartConfig:
    """How a model is cloned from demonstrations.

    Attributes:
        updates: Optimiser steps.
        batch_size: Rows in a step.
        learning_rate: Peak of AdamW, reached after ``warmup`` and then falling linearly to zero.
        warmup: Share of the updates that warm up.
        weight_decay: Of AdamW, on matrices.
        observation_weight: Weight of a token that the assistant did not say; its own weigh 1.
        max_grad_norm: Gradient clipping.
        seed: Of initial weights and order.
        threads: CPU threads; a fixed number makes the result reproducible. None leaves torch's setting.
        dtype: Of the saved weights; training is in float32 unless a base model says otherwise.
        tiny: Shape of the model where no base model is given.
    """

    updates: int = 600
    batch_size: int = 32
    learning_rate: float = 2e-3
    warmup: float = 0.05
    weight_decay: float = 0.01
    observation_weight: float = 0.3
    max_grad_norm: float = 1.0
    seed: int = 0
    threads: int | None = 1
    dtype: str = "bfloat16"
    tiny: TinyConfig = field(default_factory=TinyConfig)


@dataclass(slots=True)
class CloningRow:
    """One training sequence: its ids, and for each whether the assistant said it, both of length L."""

    ids: list[int]
    said: list[bool]


def cloning_rows(trajectory: Trajectory, bridge: ChatBridge, prompt: PromptBuilder) -> list[CloningRow]:
    """Return the rows of a demonstration, in the form that the policy will see it in.

    A decision whose prompt extends the one before continues its row, so a conversation is one row; a windowed prompt
    is a row of its own. An action that the environment refused is read like an observation, not imitated: so a
    demonstration with mistakes teaches how to go on after one.

    Args:
        trajectory: A demonstration. Recorded ids are not used: they may be another tokenizer's.
        bridge: Chat template of the model to be trained.
        prompt: Prototype of the prompt; copied.
    """
    prompt = prompt.copy()
    rows: list[CloningRow] = []
    before: list[Message] = []
    for number, turn in enumerate(trajectory.turns):
        if number == 0:
            prompt.start(turn.messages)
        else:
            prompt.push(trajectory.turns[number - 1].completion, turn.messages)
        messages = prompt.prompt()
        known = len(before)
        if rows and len(messages) > known and messages[:known] == before:
            asked = bridge.extend(messages[known:], bridge.end_of_turn_id is not None)
            row = rows[-1]
        else:
            asked = bridge.first_prompt(messages, trajectory.tools)
            row = CloningRow([], [])
            rows.append(row)
        answer = bridge.encode(str(turn.completion))
        if (end := bridge.end_of_turn_id) is not None or bridge.stop_ids:
            answer = [*answer, bridge.stop_ids[0] if end is None else end]
        row.ids += asked + answer
        row.said += [False] * len(asked) + [turn.valid] * len(answer)
        before = [*messages, Message("assistant", str(turn.completion))]
    return rows


def demonstrations_hash(trajectories: Sequence[Trajectory]) -> str:
    """Return a hash of what the demonstrations say; clock times, ids and metadata do not enter."""
    digest = hashlib.blake2b(digest_size=16)
    for trajectory in trajectories:
        digest.update(f"{trajectory.env_id}\n{trajectory.task_id}\n".encode(errors="surrogatepass"))
        for turn in trajectory.turns:
            for message in turn.messages:
                digest.update(f"{message.role}\0{message.content}\0".encode(errors="surrogatepass"))
            digest.update(f"{turn.completion}\0\0".encode(errors="surrogatepass"))
    return digest.hexdigest()


def train_warm_start(
    trajectories: Sequence[Trajectory],
    config: WarmStartConfig | None = None,
    out_dir: str | Path | None = None,
    progress: Callable[[int, int, dict[str, float]], None] | None = None,
    *,
    prompt: PromptBuilder | None = None,
    base: LoadedModel | None = None,
    more_texts: Sequence[str] = (),
    made_of: Mapping[str, Any] | None = None,
) -> LoadedModel:
    """Clone demonstrations.

    Deterministic: the same demonstrations, settings, thread count and torch build give the same weights.

    Args:
        trajectories: Demonstrations.
        config: Settings.
        out_dir: Where to save the model, its tokenizer and ``warm_start.json``; None saves nothing.
        progress: Called after each update with the number of updates done, their total, and metrics (``loss``,
            ``accuracy`` of the assistant's tokens, ``seconds``).
        prompt: Prototype of the prompt that the policy will see; default a plain conversation.
        base: Model to start from, changed in place; None makes a tiny one with a tokenizer for these texts.
        more_texts: Further text for that tokenizer: what the environment may say but did not in the demonstrations.
        made_of: Noted in ``warm_start.json``.

    Returns:
        The model in evaluation mode.

    Raises:
        ConfigError: If there is nothing to learn from.
    """
    config = config or WarmStartConfig()
    prompt = prompt or PromptBuilder()
    if not any(trajectory.turns for trajectory in trajectories):
        raise ConfigError("expected demonstrations with at least one turn, got none")
    threads = torch.get_num_threads()
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    try:
        loaded = base or _fresh(trajectories, config, prompt, more_texts)
        bridge = ChatBridge(loaded.tokenizer)
        context = getattr(loaded.model.config, "max_position_embeddings", 1 << 30)
        rows = [row for trajectory in trajectories for row in cloning_rows(trajectory, bridge, prompt)]
        rows = [CloningRow(row.ids[:context], row.said[:context]) for row in rows]
        last = _fit(loaded.model, rows, config, progress)
        if out_dir is not None:
            note = {**(made_of or {}), "demonstrations": len(trajectories), "rows": len(rows), **last}
            note["demonstrations_hash"] = demonstrations_hash(trajectories)
            loaded = save_warm_start(loaded, config, Path(out_dir), note)
    finally:
        torch.set_num_threads(threads)
    return loaded


def save_warm_start(loaded: LoadedModel, config: WarmStartConfig, folder: Path, note: Mapping[str, Any]) -> LoadedModel:
    """Save a model with what it was made of; the weights in memory are rounded as the saved ones are."""
    dtype = getattr(torch, config.dtype)
    model = loaded.model
    kept = model.dtype
    model.to(dtype)
    model.config.dtype = dtype
    with quiet():
        model.save_pretrained(folder)
        loaded.tokenizer.save_pretrained(folder)
    model.to(kept)
    model.config._name_or_path = str(folder)
    for file in folder.iterdir():
        file.chmod(0o644)  # as any other file of a package
    record = {
        **note,
        "config": dataclasses.asdict(config),
        "parameters": int(model.num_parameters()),
        "weights_hash": hashlib.blake2b((folder / "model.safetensors").read_bytes(), digest_size=16).hexdigest(),
        "torch": torch.__version__,
    }
    save_note(folder, record)
    return LoadedModel.of(model, loaded.tokenizer, str(folder))


def save_note(folder: Path, more: Mapping[str, Any]) -> None:
    """Add to the ``warm_start.json`` of a folder."""
    path = folder / "warm_start.json"
    note = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**note, **more}, indent=2, sort_keys=True) + "\n")


def _fresh(
    trajectories: Sequence[Trajectory], config: WarmStartConfig, prompt: PromptBuilder, more_texts: Sequence[str]
) -> LoadedModel:
    texts = [text for trajectory in trajectories for text in _texts(trajectory, prompt)]
    tokenizer: PreTrainedTokenizerFast = build_tokenizer([*texts, *more_texts], config.tiny.vocab)
    return LoadedModel.of(make_tiny_model(tokenizer, config.tiny, seed=config.seed), tokenizer, "tiny")


def _texts(trajectory: Trajectory, prompt: PromptBuilder) -> Iterator[str]:
    prompt = prompt.copy()
    for number, turn in enumerate(trajectory.turns):
        if number == 0:
            prompt.start(turn.messages)
        else:
            prompt.push(trajectory.turns[number - 1].completion, turn.messages)
        messages = prompt.prompt()
        new = messages if number == 0 or prompt.mode == "windowed" else messages[-len(turn.messages) :]
        yield from (message.content for message in new)
        yield str(turn.completion)


# Optimisation ---------------------------------------------------------------------------------------------------------


def _fit(
    model: Any,
    rows: Sequence[CloningRow],
    config: WarmStartConfig,
    progress: Callable[[int, int, dict[str, float]], None] | None,
) -> dict[str, float]:
    matrices = [p for p in model.parameters() if p.requires_grad and p.ndim >= 2]
    others = [p for p in model.parameters() if p.requires_grad and p.ndim < 2]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": config.weight_decay}, {"params": others, "weight_decay": 0.0}],
        lr=config.learning_rate,
        betas=(0.9, 0.98),
    )
    warmup = max(1, math.ceil(config.warmup * config.updates))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda step: min((step + 1) / warmup, max(config.updates - step, 0) / max(config.updates - warmup, 1)),
    )
    rng = np.random.default_rng(config.seed)
    batches = _batches(rows, config, rng)
    recent: list[tuple[float, float]] = []
    start = time.perf_counter()
    model.train()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        for update in range(config.updates):
            loss, accuracy = _loss(model, next(batches), config)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(model.parameters(), config.max_grad_norm)
            optimizer.step()
            schedule.step()
            recent = [*recent[-49:], (float(loss.detach()), accuracy)]
            if progress is not None:
                now = {"loss": recent[-1][0], "accuracy": accuracy, "seconds": time.perf_counter() - start}
                progress(update + 1, config.updates, now)
    model.eval()
    means = np.mean(recent, axis=0) if recent else np.zeros(2)
    return {"loss": round(float(means[0]), 4), "accuracy": round(float(means[1]), 4)}


def _batches(
    rows: Sequence[CloningRow], config: WarmStartConfig, rng: np.random.Generator
) -> Iterator[list[CloningRow]]:
    """Yield batches without end: a new order each pass, rows of similar length together."""
    size = config.batch_size
    while True:
        order = rng.permutation(len(rows))
        pool = size * 16
        batches: list[list[CloningRow]] = []
        for begin in range(0, len(order), pool):
            part = sorted(order[begin : begin + pool].tolist(), key=lambda index: (len(rows[index].ids), index))
            batches += [[rows[i] for i in part[b : b + size]] for b in range(0, len(part), size)]
        for index in rng.permutation(len(batches)):
            yield batches[index]


def _loss(model: Any, batch: Sequence[CloningRow], config: WarmStartConfig) -> tuple[torch.Tensor, float]:
    """Return the weighted mean loss, and the share of the assistant's tokens that come first in the ranking."""
    longest = max(len(row.ids) for row in batch)
    ids = torch.zeros(len(batch), longest, dtype=torch.long)
    weights = torch.zeros(len(batch), longest)
    own = torch.zeros(len(batch), longest, dtype=torch.bool)
    for line, row in enumerate(batch):
        ids[line, : len(row.ids)] = torch.tensor(row.ids)
        said = torch.tensor(row.said)
        own[line, : len(row.ids)] = said
        weights[line, : len(row.ids)] = torch.where(said, 1.0, config.observation_weight)
    ids, weights, own = ids.to(model.device), weights.to(model.device), own.to(model.device)
    # Padding is on the right: with causal attention no real token looks at it, so no mask is needed.
    logits = model(input_ids=ids, use_cache=False).logits[:, :-1].float()
    target, weights, own = ids[:, 1:], weights[:, 1:], own[:, 1:]
    losses = functional.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="none").view(target.shape)
    real = weights > 0
    loss = torch.where(real, losses * weights, 0.0).sum() / weights.sum()
    with torch.no_grad():
        right = (logits.argmax(-1) == target) & own
        accuracy = float(right.sum() / own.sum().clamp(min=1))
    return loss, accuracy


if __name__ == "__main__":
    import sys

    from agentgym_ttg.agents.warm_start_asset import main

    sys.exit(main())
