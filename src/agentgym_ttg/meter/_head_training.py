"""The training loop of the head meter.

A plain loop: two losses at many positions of one sequence are neither TRL's SFT nor its reward modelling.
"""

from __future__ import annotations

import copy
import math
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from agentgym_ttg.core.errors import ConfigError

from .config import MeterConfig
from .head import HeadMeter, collate, length_batches
from .labels import Label
from .metrics import meter_metrics
from .prompts import Window

__all__ = ["train_heads"]

#: Called with the stage, how much of it is done, how much there is, and what was measured.
Progress = Callable[[str, int, int, dict[str, float]], None]


@dataclass(frozen=True, slots=True)
class _Row:
    trajectory: int
    window: Window
    share: float  # how often an epoch reads the window
    values: Tensor  # (N,) standard scores of the decisions of the window
    has_values: bool
    can_complete: bool


def train_heads(
    meter: HeadMeter,
    train: Sequence[Label],
    validation: Sequence[Label],
    config: MeterConfig,
    *,
    work: Path,
    progress: Progress,
) -> list[dict[str, float]]:
    """Train the meter's network in place and leave it at its best epoch on the validation labels.

    Deterministic from ``config.seed``. The state after each epoch is kept in ``work``, so that a killed training goes
    on from its last finished epoch and comes out the same.

    Returns:
        What was measured after each epoch.
    """
    network = meter.network
    rows, held = (_rows(meter, labels, config.windows_per_epoch) for labels in (train, validation))
    weights = _class_weights(rows, config.balance)
    drawn = len(_draw(rows, config.windows_per_epoch, np.random.default_rng(0)))
    updates = math.ceil(drawn / config.batch_trajectories)
    total = updates * config.epochs
    optimizer = torch.optim.AdamW(_parameter_groups(network, config), betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate(step, total, config.warmup))
    history: list[dict[str, float]] = []
    best: dict[str, Any] = {"loss": math.inf, "epoch": -1, "state": None}
    saved = work / "head-training.pt"  # a state of ours, read back without pickle
    if saved.is_file():
        state = torch.load(saved, weights_only=True, map_location=meter.device)
        network.load_state_dict(state["network"])
        optimizer.load_state_dict(state["optimizer"])
        schedule.load_state_dict(state["schedule"])
        history, best = state["history"], state["best"]
    for epoch in range(len(history), config.epochs):
        if epoch - best["epoch"] > config.patience and best["epoch"] >= 0:
            break
        torch.manual_seed(config.seed * 1_000_003 + epoch)  # dropout of backbones that have any
        order = _draw(rows, config.windows_per_epoch, np.random.default_rng([config.seed, epoch]))
        network.train()
        sums = np.zeros(2)
        for number, start in enumerate(range(0, len(order), config.batch_trajectories)):
            chosen = [rows[i] for i in order[start : start + config.batch_trajectories]]
            sums += _update(network, optimizer, chosen, weights, config, meter.device)
            schedule.step()
            progress("head", epoch * updates + number + 1, total, {"epoch": epoch + 1})
        network.eval()
        found = _validate(meter, held, validation, weights, config)
        found["epoch"] = epoch + 1
        found["train_value_loss"], found["train_completion_loss"] = (float(x) for x in sums / updates)
        history.append(found)
        if found["loss"] < best["loss"]:
            best = {"loss": found["loss"], "epoch": epoch, "state": copy.deepcopy(network.state_dict())}
        progress("head", (epoch + 1) * updates, total, found)
        _save_state(saved, network, optimizer, schedule, history, best)
    if best["state"] is None:
        raise ConfigError(
            f"the meter's training diverged: no epoch had a finite validation loss; lower learning_rate "
            f"(now {config.learning_rate:g}) or max_grad_norm"
        )
    network.load_state_dict(best["state"])
    network.eval()
    return history


def _rows(meter: HeadMeter, labels: Sequence[Label], most: int | None) -> list[_Row]:
    rows: list[_Row] = []
    readings = meter.readings([label.trajectory for label in labels])
    windows = Counter(reading.trajectory for reading in readings)
    for reading in readings:
        label = labels[reading.trajectory]
        scores = meter.settings.encode_values(label.values[reading.window.steps])
        rows.append(
            _Row(
                trajectory=reading.trajectory,
                window=reading.window,
                share=1.0 if most is None else min(1.0, most / windows[reading.trajectory]),
                values=torch.from_numpy(scores.astype(np.float32)),
                has_values=label.has_values,
                can_complete=label.can_complete,
            )
        )
    return rows


def _draw(rows: Sequence[_Row], most: int | None, rng: np.random.Generator) -> list[int]:
    """Return the rows of an epoch in random order, at most so many of each trajectory."""
    order = [int(i) for i in rng.permutation(len(rows))]
    if most is None:
        return order
    taken: Counter[int] = Counter()
    out: list[int] = []
    for index in order:
        taken[rows[index].trajectory] += 1
        if taken[rows[index].trajectory] <= most:
            out.append(index)
    return out


def _class_weights(rows: Sequence[_Row], balance: bool) -> tuple[float, float]:
    """Return the weights of (not completable, completable) histories; their mean over what an epoch reads is 1."""
    counts = [sum(row.share * len(row.values) for row in rows if row.can_complete is c) for c in (False, True)]
    if not balance or not all(counts):
        return 1.0, 1.0
    total = sum(counts)
    return total / (2 * counts[0]), total / (2 * counts[1])


def _parameter_groups(network: nn.Module, config: MeterConfig) -> list[dict[str, Any]]:
    """Return AdamW groups: heads learn faster, vectors (norms, biases) do not decay."""
    groups: dict[tuple[bool, bool], list[nn.Parameter]] = {}
    for name, parameter in network.named_parameters():
        groups.setdefault((not name.startswith("backbone."), parameter.ndim >= 2), []).append(parameter)
    return [
        {
            "params": parameters,
            "lr": config.head_learning_rate if is_head else config.learning_rate,
            "weight_decay": config.weight_decay if matrix else 0.0,
        }
        for (is_head, matrix), parameters in groups.items()
    ]


def _rate(step: int, total: int, warmup: float) -> float:
    rising = max(1, round(total * warmup))
    if step < rising:
        return (step + 1) / rising
    return 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * (step - rising) / max(1, total - rising)))


def _losses(
    network: nn.Module, rows: Sequence[_Row], weights: tuple[float, float], config: MeterConfig, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return the sums of value and completion loss over the decisions of some rows."""
    ids, row_of, positions = collate([row.window for row in rows], device)
    scores, logits = network(ids, row_of, positions)
    counts = torch.tensor([len(row.values) for row in rows], device=device)
    truth = torch.repeat_interleave(torch.tensor([row.can_complete for row in rows], device=device), counts)
    learnt = torch.repeat_interleave(torch.tensor([row.has_values for row in rows], device=device), counts)
    target = torch.cat([row.values for row in rows]).to(device)
    value = F.smooth_l1_loss(scores, target, reduction="none", beta=config.huber_beta)
    value_loss = torch.where(learnt, value, value.new_zeros(())).sum()
    weight = torch.where(truth, logits.new_tensor(weights[1]), logits.new_tensor(weights[0]))
    completion_loss = F.binary_cross_entropy_with_logits(logits, truth.float(), weight=weight, reduction="sum")
    return value_loss, completion_loss


def _update(
    network: nn.Module,
    optimizer: torch.optim.Optimizer,
    rows: Sequence[_Row],
    weights: tuple[float, float],
    config: MeterConfig,
    device: torch.device,
) -> NDArray[np.float64]:
    """Take one optimiser step; return the mean value and completion losses."""
    valued = max(1, sum(len(row.values) for row in rows if row.has_values))
    decisions = sum(len(row.values) for row in rows)
    sums = np.zeros(2)
    optimizer.zero_grad(set_to_none=True)
    for batch in length_batches([len(row.window.ids) for row in rows], config.batch_tokens):
        value, completion = _losses(network, [rows[i] for i in batch], weights, config, device)
        (value / valued + config.completion_weight * completion / decisions).backward()  # type: ignore[no-untyped-call]
        sums += (float(value.detach()) / valued, float(completion.detach()) / decisions)
    nn.utils.clip_grad_norm_(network.parameters(), config.max_grad_norm)
    optimizer.step()
    return sums


def _validate(
    meter: HeadMeter, rows: Sequence[_Row], labels: Sequence[Label], weights: tuple[float, float], config: MeterConfig
) -> dict[str, float]:
    """Return the validation losses (the epoch is chosen by their weighted sum) and what they mean."""
    shares = {row.trajectory: row.share for row in rows}
    values, logits = meter.read([label.trajectory for label in labels])
    sums, counts = np.zeros(2), np.zeros(2)
    for index, label in enumerate(labels):
        share = shares[index]
        if label.has_values:
            error = meter.settings.encode_values(values[index]) - meter.settings.encode_values(label.values)
            sums[0] += share * float(_smooth_l1(error, config.huber_beta).sum())
            counts[0] += share * len(error)
        sign = 1.0 if label.can_complete else -1.0
        surprise = np.logaddexp(0.0, -sign * logits[index])
        sums[1] += share * weights[int(label.can_complete)] * float(surprise.sum())
        counts[1] += share * len(surprise)
    value, completion = sums / np.maximum(counts, 1e-9)
    found = {
        "loss": float(value + config.completion_weight * completion),
        "value_loss": float(value),
        "completion_loss": float(completion),
    }
    metrics = meter_metrics(meter.estimates(values, logits), labels)
    for name in ("completion_auroc", "completion_accuracy", "token_accuracy", "reward"):
        number = getattr(metrics, name)
        if number is not None:
            found[name] = float(number)
    return found


def _smooth_l1(error: NDArray[np.float64], beta: float) -> NDArray[np.float64]:
    size = np.abs(error)
    return np.where(size < beta, 0.5 * size**2 / beta, size - 0.5 * beta)


def _save_state(
    path: Path,
    network: nn.Module,
    optimizer: torch.optim.Optimizer,
    schedule: Any,
    history: list[dict[str, float]],
    best: dict[str, Any],
) -> None:
    state = {
        "network": network.state_dict(),
        "optimizer": optimizer.state_dict(),
        "schedule": schedule.state_dict(),
        "history": history,
        "best": best,
    }
    temporary = path.with_suffix(".tmp")
    torch.save(state, temporary)
    os.replace(temporary, path)
