"""Head meters for step quality: Token-to-Go, Step-to-Go and Future Score by one recipe.

A step's score is the change of what a meter says from the state before the step to the state behind it. The meters are
trained on every state of a trajectory, the one behind its last step included, on successes and failures alike: a
failed trajectory costs what it took plus a penalty that is derived from the lengths of the successful ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from agentgym_ttg.core.errors import DataError
from agentgym_ttg.meter.config import MeterConfig
from agentgym_ttg.meter.labels import Label
from agentgym_ttg.scorers import with_end_state

from .folds import Fold
from .records import LabelledTrajectory

if TYPE_CHECKING:
    from agentgym_ttg.meter.features import FeatureCache
    from agentgym_ttg.meter.head import HeadMeter
    from agentgym_ttg.models import LoadedModel

__all__ = [
    "NAMES",
    "Counter",
    "HeadTarget",
    "Penalty",
    "StepPotentials",
    "failure_penalties",
    "make_labels",
    "potentials",
]

HeadTarget = Literal["tokens", "steps", "outcome"]
Penalty = Literal["max", "mean"]
Counter = Callable[[str], int]

NAMES: dict[HeadTarget, str] = {"tokens": "Token-to-Go", "steps": "Step-to-Go", "outcome": "Future Score"}


@dataclass(slots=True)
class StepPotentials:
    """What a meter says of the states of a trajectory, and what was observed.

    Attributes:
        predicted: At each of the T + 1 states; NaN for trajectories that were not tested.
        observed: The labels at the same states.
        falling: Whether less is better (costs), or more (a score).
    """

    predicted: NDArray[np.float64]
    observed: NDArray[np.float64]
    falling: bool

    def deltas(self, *, outcome: bool = False) -> NDArray[np.float64]:
        """Return the progress of each step, ``(T,)``.

        Args:
            outcome: Whether the state behind the last step counts as what was observed of it, not as predicted.
        """
        values = self.predicted.copy()
        if outcome and np.isfinite(values[-1]):
            values[-1] = self.observed[-1]
        change = np.diff(values)
        return -change if self.falling else change


def lengths_to_go(record: LabelledTrajectory, target: HeadTarget, counter: Counter) -> NDArray[np.float64]:
    """Return tokens or steps to go at the T + 1 states, 0 at the last."""
    turns = record.trajectory.turns
    if target == "steps":
        return np.arange(len(turns), -1, -1, dtype=np.float64)
    counts = np.array([counter(str(turn.completion)) for turn in turns], dtype=np.float64)
    return np.append(np.cumsum(counts[::-1])[::-1], 0.0)


def failure_penalties(
    records: Sequence[LabelledTrajectory], target: HeadTarget, counter: Counter, how: Penalty = "max"
) -> dict[str, float]:
    """Return what a failure costs beside its length, by data set, and for data sets without a success under ``""``.

    Args:
        records: The training trajectories.
        target: ``tokens`` or ``steps``; the unit.
        counter: Counts the tokens of a message.
        how: The longest or the mean successful trajectory.

    Raises:
        DataError: If no training trajectory succeeded.
    """
    lengths: dict[str, list[float]] = {}
    for record in records:
        if record.trajectory.success:
            lengths.setdefault(record.source, []).append(float(lengths_to_go(record, target, counter)[0]))
    if not lengths:
        raise DataError(f"none of the {len(records)} training trajectories succeeded, so no length of success is known")
    choose = max if how == "max" else (lambda values: float(np.mean(values)))
    out = {source: float(choose(values)) for source, values in sorted(lengths.items())}
    return out | {"": float(choose([value for values in lengths.values() for value in values]))}


def make_labels(
    records: Sequence[LabelledTrajectory], target: HeadTarget, counter: Counter, penalties: dict[str, float]
) -> list[Label]:
    """Return the labels of all T + 1 states of each trajectory.

    Args:
        records: The trajectories.
        target: What is regressed.
        counter: Counts the tokens of a message.
        penalties: See :func:`failure_penalties`; not read for ``outcome``.
    """
    out: list[Label] = []
    for record in records:
        success = record.trajectory.success
        if target == "outcome":
            values = np.full(len(record.trajectory) + 1, float(success))
        else:
            values = lengths_to_go(record, target, counter)
            if not success:
                values = values + penalties.get(record.source, penalties[""])
        out.append(Label(with_end_state(record.trajectory), success, values, has_values=True))
    return out


def potentials(
    records: Sequence[LabelledTrajectory],
    target: HeadTarget,
    folds: Sequence[Fold],
    config: MeterConfig,
    load: Callable[[], LoadedModel],
    *,
    features: FeatureCache | None,
    work: Path,
    penalty: Penalty = "max",
    progress: Callable[[str], None],
) -> tuple[list[StepPotentials], list[dict[str, Any]]]:
    """Train one meter for each fold and ask it about the fold's test trajectories.

    Args:
        records: All trajectories.
        target: What is regressed.
        folds: Who trains, chooses and tests.
        config: Settings of the training; ``target`` is set here.
        load: Gives the backbone, fresh where it is trained.
        features: Kept hidden states of a frozen backbone.
        work: Folder for states of trainings.
        penalty: See :func:`failure_penalties`.
        progress: Told in words what is being done.

    Returns:
        What is said of each trajectory, and the record of each training.
    """
    from agentgym_ttg.meter.training import fit_head_meter, message_counter

    found: list[StepPotentials | None] = [None] * len(records)
    trainings: list[dict[str, Any]] = []
    for number, fold in enumerate(folds):
        said = f"{NAMES[target]}, fold {number + 1} of {len(folds)}"
        progress(said)
        base = load()
        layers = int(base.model.config.get_text_config().num_hidden_layers)
        filled = config.model_copy(update={"target": target}).filled(
            sum(p.numel() for p in base.model.parameters()), layers
        )
        counter = message_counter("meter", base.tokenizer)
        assert counter is not None
        train = [records[i] for i in fold.train]
        penalties = {} if target == "outcome" else failure_penalties(train, target, counter, penalty)
        labels = make_labels(records, target, counter, penalties)
        meter, epochs = fit_head_meter(
            base,
            [labels[i] for i in fold.train],
            [labels[i] for i in fold.validation],
            filled,
            work=_work_folder(work, filled, records, fold, penalty),
            features=features,
            progress=_told(progress, said),
        )
        _ask(meter, labels, fold.test, found, features if filled.train == "heads" else None)
        best = min(epochs, key=lambda epoch: epoch["loss"])
        trainings.append(
            {
                "fold": number,
                "train": len(fold.train),
                "validation": len(fold.validation),
                "test": len(fold.test),
                "states": {
                    "train": int(sum(len(labels[i].values) for i in fold.train)),
                    "test": int(sum(len(labels[i].values) for i in fold.test)),
                },
                "penalties": penalties,
                "epochs": len(epochs),
                "best_epoch": best["epoch"],
                "validation_loss": best["value_loss"],
                "training_loss": best["train_value_loss"],
            }
        )
    nothing = make_labels(records, "outcome", lambda text: 0, {})
    filled_in = [
        one
        if one is not None
        else StepPotentials(np.full(len(label.values), np.nan), np.full(len(label.values), np.nan), target != "outcome")
        for one, label in zip(found, nothing, strict=True)
    ]
    return filled_in, trainings


def _ask(
    meter: HeadMeter,
    labels: Sequence[Label],
    tested: Sequence[int],
    found: list[StepPotentials | None],
    features: FeatureCache | None,
) -> None:
    values, _ = meter.read([labels[i].trajectory for i in tested], features)
    for index, predicted in zip(tested, values, strict=True):
        found[index] = StepPotentials(predicted, labels[index].values, meter.target != "outcome")


def _told(progress: Callable[[str], None], said: str) -> Callable[[str, int, int, dict[str, float]], None]:
    """Return what puts the progress of a training into words."""
    return lambda stage, done, total, numbers: progress(f"{said}: {stage} {done}/{total}")


def _work_folder(
    work: Path, config: MeterConfig, records: Sequence[LabelledTrajectory], fold: Fold, penalty: Penalty
) -> Path:
    """Return a folder that is of this training alone."""
    digest = hashlib.blake2b(digest_size=12)
    digest.update(config.model_dump_json(exclude={"threads", "device"}).encode() + penalty.encode())
    for part in (fold.train, fold.validation):
        for index in part:
            record = records[index]
            digest.update(f"{record.record}:{record.trajectory.outcome}\n".encode())
            for turn in record.trajectory.turns:
                digest.update(f"{turn.completion}\n{turn.observation}\n".encode("utf-8", "surrogatepass"))
        digest.update(b"|")
    folder = work / digest.hexdigest()
    folder.mkdir(parents=True, exist_ok=True)
    return folder
