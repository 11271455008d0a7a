"""The training loop of the head meter.

A plain loop: two losses at many positions of one sequence are neither TRL's SFT nor its reward modelling.
"""

from __future__ import annotations

import copy
import math
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from agentgym_ttg.core.errors import ConfigError

from .config import MeterConfig
from .features import FeatureCache
from .head import HeadMeter, HeadNetwork, collate, length_batches
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
    states: Tensor | None = None  # (N, H) of a frozen backbone, standardised


class _Heads(nn.Module):
    """The heads of a network without its backbone; they learn from standardised hidden states."""

    def __init__(self, network: HeadNetwork) -> None:
        super().__init__()
        self.value_head = network.value_head
        self.completion_head = network.completion_head

    def forward(self, states: Tensor) -> tuple[Tensor, Tensor]:
        return self.value_head(states).squeeze(-1), self.completion_head(states).squeeze(-1)

    def fold(self, mean: Tensor, scale: Tensor) -> None:
        """Take the standardisation into the weights, so that the heads read plain hidden states."""
        with torch.no_grad():
            for head in (self.value_head, self.completion_head):
                head.weight.div_(scale)
                head.bias.sub_((head.weight * mean).sum(-1))


def train_heads(
    meter: HeadMeter,
    train: Sequence[Label],
    validation: Sequence[Label],
    config: MeterConfig,
    *,
    work: Path,
    progress: Progress,
    features: FeatureCache | None = None,
) -> list[dict[str, float]]:
    """Train the meter's network in place and leave it at its best epoch on the validation labels.

    With ``config.train == "heads"`` the backbone stays as it is: its hidden states are read once, into ``features`` (by
    default a folder in ``work``), and the heads learn from them.

    Deterministic from ``config.seed``. The state after each epoch is kept in ``work``, so that a killed training goes
    on from its last finished epoch and comes out the same.

    Returns:
        What was measured after each epoch.
    """
    network: nn.Module = meter.network
    rows, held = (_rows(meter, labels, config.windows_per_epoch) for labels in (train, validation))
    folding: tuple[Tensor, Tensor] | None = None
    if config.train == "heads":
        network = _Heads(meter.network)
        cache = features if features is not None else FeatureCache(work / "features")
        rows, held, folding = _with_states(meter, rows, held, cache, progress)
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
        found = _validate(meter, network, held, validation, weights, config)
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
    if folding is not None:
        assert isinstance(network, _Heads)
        network.fold(*folding)
    meter.network.eval()
    return history


def _with_states(
    meter: HeadMeter, rows: list[_Row], held: list[_Row], cache: FeatureCache, progress: Progress
) -> tuple[list[_Row], list[_Row], tuple[Tensor, Tensor]]:
    """Give the rows their hidden states, standardised by those of the training rows; return mean and scale, too."""
    every = [*rows, *held]
    found = cache.read(
        meter.network,
        [row.window for row in every],
        device=meter.device,
        batch_tokens=meter.batch_tokens,
        progress=lambda done, total: progress("features", done, total, {}),
    )
    states = [torch.from_numpy(array).to(meter.device) for array in found]
    seen = torch.cat(states[: len(rows)])
    mean, scale = seen.mean(0), seen.std(0, unbiased=False).clamp_min(1e-4)
    out = [replace(row, states=(state - mean) / scale) for row, state in zip(every, states, strict=True)]
    return out[: len(rows)], out[len(rows) :], (mean, scale)


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
    scores, logits = _ask(network, rows, device)
    counts = torch.tensor([len(row.values) for row in rows], device=device)
    truth = torch.repeat_interleave(torch.tensor([row.can_complete for row in rows], device=device), counts)
    learnt = torch.repeat_interleave(torch.tensor([row.has_values for row in rows], device=device), counts)
    target = torch.cat([row.values for row in rows]).to(device)
    value = F.smooth_l1_loss(scores, target, reduction="none", beta=config.huber_beta)
    value_loss = torch.where(learnt, value, value.new_zeros(())).sum()
    weight = torch.where(truth, logits.new_tensor(weights[1]), logits.new_tensor(weights[0]))
    completion_loss = F.binary_cross_entropy_with_logits(logits, truth.float(), weight=weight, reduction="sum")
    return value_loss, completion_loss


def _ask(network: nn.Module, rows: Sequence[_Row], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return standard scores and log-odds at the decisions of some rows, each ``(N,)``."""
    states = [row.states for row in rows if row.states is not None]
    if len(states) == len(rows):
        scores, logits = network(torch.cat(states))
    else:
        scores, logits = network(*collate([row.window for row in rows], device))
    return scores, logits


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
    meter: HeadMeter,
    network: nn.Module,
    rows: Sequence[_Row],
    labels: Sequence[Label],
    weights: tuple[float, float],
    config: MeterConfig,
) -> dict[str, float]:
    """Return the validation losses (the epoch is chosen by their weighted sum) and what they mean."""
    shares = {row.trajectory: row.share for row in rows}
    values, logits = _read(meter, network, rows, labels)
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


def _read(
    meter: HeadMeter, network: nn.Module, rows: Sequence[_Row], labels: Sequence[Label]
) -> tuple[list[NDArray[np.float64]], list[NDArray[np.float64]]]:
    """Return what :meth:`HeadMeter.read` does, from the kept hidden states where there are any."""
    if any(row.states is None for row in rows):
        return meter.read([label.trajectory for label in labels])
    values, logits = ([np.full(len(label.values), np.nan) for label in labels] for _ in range(2))
    with torch.inference_mode():
        for row in rows:
            z, logit = (out.cpu().double().numpy() for out in _ask(network, [row], meter.device))
            values[row.trajectory][row.window.steps] = meter.settings.decode_values(z)
            logits[row.trajectory][row.window.steps] = logit
    return values, logits


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
