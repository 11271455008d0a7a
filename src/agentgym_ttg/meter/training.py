"""From recorded trajectories to a trained meter."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections import Counter as Tally
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from agentgym_ttg.core.errors import ConfigError, DataError, MissingDependencyError
from agentgym_ttg.core.trajectory import Trajectory

from .config import MeterConfig
from .evaluation import MeterEvaluation, evaluate_meter
from .labels import SPLITS, Counter, Label, LengthNorm, label_trajectories, select_split, split_tasks
from .references import References

if TYPE_CHECKING:
    from agentgym_ttg.models import LoadedModel

    from .features import FeatureCache
    from .head import HeadMeter

__all__ = ["MeterReport", "Progress", "default_backbone", "fit_head_meter", "train_meter"]

#: Called with the stage, how much of it is done, how much there is, and what was measured.
Progress = Callable[[str, int, int, dict[str, float]], None]

REPORT_FILE = "report.json"


class MeterReport(BaseModel):
    """What came of a meter training; also written as ``report.json`` into the meter's folder."""

    model_config = ConfigDict(frozen=True)

    folder: str
    """Where the meter lies."""
    kind: str
    """``head`` or ``generative``."""
    trajectories: dict[str, int]
    """Recordings by split."""
    histories: dict[str, int]
    """Decision histories by split."""
    policies: dict[str, int]
    """Recordings by policy."""
    envs: dict[str, int] = {}
    """Recordings by environment; empty in reports of older meters."""
    epochs: list[dict[str, float]]
    """What was measured while training."""
    test: MeterEvaluation
    """Quality on the held-out tasks, beside both references."""
    seconds: float
    """Wall time of training and evaluation."""


def train_meter(
    trajectories: Sequence[Trajectory],
    config: MeterConfig | None = None,
    out_dir: str | Path = "meter",
    progress: Progress | None = None,
) -> MeterReport:
    """Train a meter from recordings, save it in ``out_dir`` and evaluate it on held-out tasks.

    The folder appears (or is replaced) only when everything is done. The state of an unfinished training is kept in a
    hidden folder beside it; the same call goes on from there and gives the same meter.

    Args:
        trajectories: Recordings of any policies; those that ended as ``error`` are left out.
        config: Settings; default :class:`MeterConfig`.
        out_dir: Folder of the meter.
        progress: Told of every update.

    Raises:
        DataError: If there are too few tasks to hold any out, or no success among the training recordings.
        ConfigError: If the backbone cannot be loaded, or a setting cannot work.
        MissingDependencyError: If torch or transformers are not installed.
    """
    started = time.perf_counter()
    config = config or MeterConfig()
    report_to: Progress = progress or _silent
    torch = _torch()
    if config.threads:
        torch.set_num_threads(config.threads)
    usable = [t for t in trajectories if t.outcome != "error" and len(t)]
    places = split_tasks((t.task_id for t in usable), seed=config.seed, validation=config.validation, test=config.test)
    parts = {split: select_split(usable, places, split) for split in SPLITS}
    if not any(t.success for t in parts["train"]):
        raise DataError(
            f"expected successful trajectories to learn the tokens to go from, got {len(parts['train'])} training "
            "recordings without any; record an expert, or a policy that sometimes succeeds"
        )
    out = Path(out_dir)
    work = _work_folder(out, usable, config)
    backbone = config.backbone or default_backbone()
    base = _load_base(backbone, config)
    layers = int(getattr(base.model.config.get_text_config(), "num_hidden_layers", 1))
    config = config.filled(sum(p.numel() for p in base.model.parameters()), layers)
    counter = message_counter(config.count_with, base.tokenizer)
    norm = LengthNorm.fit(parts["train"], counter) if config.target == "normalized" else None
    labels: dict[str, list[Label]] = {
        split: label_trajectories(part, target=config.target, counter=counter, norm=norm)
        for split, part in parts.items()
    }
    references = References.fit(labels["train"])
    note = {
        "backbone": backbone,
        "config": config.model_dump(mode="json"),
        "recordings": {split: len(part) for split, part in parts.items()},
        "tasks": dict(Tally(places.values())),
        "policy_lengths": dict(norm.lengths) if norm else {},
    }
    train = _train_head if config.kind == "head" else _train_generative
    meter, epochs = train(base, labels, references, note, config, work, report_to)
    report_to("evaluate", 0, 1, {})
    evaluation = evaluate_meter(meter, labels["test"], references=references)
    report = MeterReport(
        folder=str(out),
        kind=config.kind,
        trajectories={split: len(part) for split, part in parts.items()},
        histories={split: sum(len(t) for t in part) for split, part in parts.items()},
        policies=dict(sorted(Tally(t.policy for t in usable).items())),
        envs=dict(sorted(Tally(t.env_id for t in usable).items())),
        epochs=epochs,
        test=evaluation,
        seconds=time.perf_counter() - started,
    )
    meter.save(out, extra={REPORT_FILE: report.model_dump_json(indent=2) + "\n"})
    shutil.rmtree(work, ignore_errors=True)
    report_to("evaluate", 1, 1, {})
    return report


def _train_head(
    base: LoadedModel,
    labels: dict[str, list[Label]],
    references: References,
    note: dict[str, Any],
    config: MeterConfig,
    work: Path,
    progress: Progress,
) -> tuple[Any, list[dict[str, float]]]:
    return fit_head_meter(
        base,
        labels["train"],
        labels["validation"],
        config,
        work=work,
        references=references,
        note=note,
        progress=progress,
    )


def fit_head_meter(
    base: LoadedModel,
    train: Sequence[Label],
    validation: Sequence[Label],
    config: MeterConfig,
    *,
    work: Path,
    references: References | None = None,
    note: dict[str, Any] | None = None,
    features: FeatureCache | None = None,
    progress: Progress | None = None,
) -> tuple[HeadMeter, list[dict[str, float]]]:
    """Train a head meter on labels that are there; :func:`train_meter` makes them from recordings.

    Args:
        base: The backbone; it is trained (unless ``config.train`` is ``heads``) and shortened in place.
        train: What it learns from.
        validation: What chooses the epoch.
        config: Settings, with nothing left open (:meth:`MeterConfig.filled`).
        work: Folder for the state of the training.
        references: What the meter carries as its references.
        note: How it was made, for the record.
        features: Where a frozen backbone's hidden states are kept; None keeps them in ``work``.
        progress: Told of every update.

    Returns:
        The meter, at its best epoch on ``validation``, and what was measured after each epoch.

    Raises:
        ConfigError: If the backbone cannot be shortened, or the training diverges.
        DataError: If no label has values to learn.
    """
    import torch

    from ._head_training import train_heads
    from ._torch import keep_layers
    from .head import HeadMeter, HeadNetwork, HeadSettings

    assert config.context_length is not None
    torch.manual_seed(config.seed)
    model = base.model.base_model
    keep_layers(model, config.layers)
    settings = HeadSettings(
        name=config.name or "head",
        target=config.target,
        style=config.effective_style,
        context_length=config.context_length,
        threshold=config.threshold,
        references=references,
        training=note or {},
    )
    learnt = [label.values for label in train if label.has_values]
    if not learnt:
        raise DataError("expected training labels with values to learn, got none")
    values = np.concatenate(learnt)
    raw = np.log1p(values) if settings.transform == "log1p" else values
    settings = settings.model_copy(
        update={"value_mean": float(raw.mean()), "value_std": float(raw.std()) or 1.0},
    )
    network = HeadNetwork(model, int(model.config.get_text_config().hidden_size))
    meter = HeadMeter(network, base.tokenizer, settings, batch_tokens=config.batch_tokens, device=config.device)
    epochs = train_heads(meter, train, validation, config, work=work, progress=progress or _silent, features=features)
    return meter, epochs


def _train_generative(
    base: LoadedModel,
    labels: dict[str, list[Label]],
    references: References,
    note: dict[str, Any],
    config: MeterConfig,
    work: Path,
    progress: Progress,
) -> tuple[Any, list[dict[str, float]]]:
    from ._generative_training import train_generative

    return train_generative(base, labels, references, note, config, work=work, progress=progress)


def message_counter(count_with: str, tokenizer: Any) -> Counter | None:
    """Return what counts the tokens of a message, None for the recorded counts (see ``MeterConfig.count_with``)."""
    if count_with == "recorded":
        return None
    from agentgym_ttg.models import ChatBridge

    from .prompts import remembered_ids

    memory: dict[str, list[int]] = {}
    end = 1 if ChatBridge(tokenizer).stop_ids else 0  # the token with which an actor ends its message is sampled too
    return lambda text: len(remembered_ids(tokenizer, text, memory)) + end


def _work_folder(out: Path, trajectories: Sequence[Trajectory], config: MeterConfig) -> Path:
    """Return the folder for the state of this training; that of another configuration or other data is removed."""
    digest = hashlib.blake2b(digest_size=8)
    digest.update(config.model_dump_json(exclude={"threads", "device"}).encode())
    for t in trajectories:
        counts = ",".join(map(str, t.token_counts))
        digest.update(json.dumps([t.task_id, t.policy, t.outcome, counts, t.turns[-1].observation]).encode())
    work = out.absolute().with_name(f".{out.absolute().name}.work")
    stamp = work / "stamp"
    if not (stamp.is_file() and stamp.read_text() == digest.hexdigest()):
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        stamp.write_text(digest.hexdigest())
    return work


def _torch() -> Any:
    try:
        import torch
        import transformers  # noqa: F401 - only whether it is there
    except ImportError as error:
        raise MissingDependencyError(error.name or "torch", "train", "training a progress meter") from error
    return torch


def _load_base(backbone: str, config: MeterConfig) -> LoadedModel:
    from ._torch import load_base

    return load_base(backbone, dtype=config.dtype, device=config.device)


def default_backbone() -> str:
    """Return the shipped warm start."""
    from agentgym_ttg.models.loading import ASSETS

    found = sorted(folder.parent.name for folder in ASSETS.glob("*/config.json"))
    if not found:
        raise ConfigError("there is no shipped model to start a meter from; name one with backbone=")
    return f"asset:{found[0]}"


def _silent(stage: str, done: int, total: int, metrics: dict[str, float]) -> None:
    """Say nothing."""
