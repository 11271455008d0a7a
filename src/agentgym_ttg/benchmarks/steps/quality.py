"""Step quality: does the sign of a score agree with what annotators say of the step?"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from agentgym_ttg.core.errors import ConfigError, DataError, MissingDependencyError
from agentgym_ttg.meter.config import MeterConfig
from agentgym_ttg.scorers import get_scorer

from .agentprocessbench import read_record
from .config import QualityConfig
from .folds import Fold, make_folds
from .heads import NAMES, StepPotentials, potentials
from .records import LabelledTrajectory, load_records
from .statistics import Integers, Judgement, Measured, bootstrap, judge, judge_random, measure, resampled, step_auroc

if TYPE_CHECKING:
    from agentgym_ttg.models import LoadedModel

__all__ = ["PAPER", "evaluate_quality", "judged_row", "training_config"]

#: What the paper reports (four data sets, the paper's own backbone): two percentages for each target as printed.
PAPER = {"tokens": (61.8, 56.9), "outcome": (60.2, 54.9), "steps": (55.9, 54.7), "direct prompting": (50.8,)}

Floats = NDArray[np.float64]


def evaluate_quality(config: QualityConfig, progress: Callable[[str], None]) -> dict[str, Any]:
    """Train the meters, judge them and the references; return the results.

    Args:
        config: Settings.
        progress: Told in words what is being done.

    Raises:
        ConfigError: If a setting cannot work.
        DataError: If the data are broken or too few.
        MissingDependencyError: If torch or transformers are not installed.
    """
    if not config.targets and not config.scorer:
        raise ConfigError("expected something to judge: name --targets or --scorer")
    records = load_records(config.data, partial(read_record, clip=config.clip), limit=config.limit)
    if not any((record.labels != 0).any() for record in records):
        raise DataError(f"all steps of the {len(records)} trajectories are labelled 0 (neutral): nothing to judge")
    folds = make_folds(records, config.split, folds=config.folds, validation=config.validation, seed=config.seed)
    tested = sorted(i for fold in folds for i in fold.test)
    scores, trained = _meter_scores(config, records, folds, progress)
    for name in config.scorer:
        progress(f"scoring with {name}")
        scorer = get_scorer(name, config.scorer_options)
        scores[name] = scorer.step_scores([record.trajectory for record in records])
    chosen = [records[i] for i in tested]
    groups = [record.query for record in chosen] if config.resample == "query" else None
    draws = resampled(len(chosen), np.random.default_rng(config.seed), resamples=config.resamples, groups=groups)
    labels = [record.labels for record in chosen]
    majority = [records_sign(records, fold) for fold in folds]
    constant = _constant(records, folds, majority)
    references = {"majority": judge([constant[i] for i in tested], labels), "random": judge_random(labels)}
    rows: dict[str, Any] = {}
    for name, found in scores.items():
        mine = [found[i] for i in tested]
        rows[name] = judged_row(mine, chosen, draws, config.seed, config.resamples, references)
    for name, judgement in references.items():
        rows[name] = {"pooled": _numbers(measure(judgement, draws)), "by_source": _by_source(judgement, chosen, config)}
        rows[name]["pooled"]["auroc"] = Measured(0.5, n=len(chosen)).as_json()
    return {
        "evaluation": "quality",
        "data": _describe(chosen),
        "split": {"folds": len(folds), "by": "stratified" if len(folds) == 1 else "query", "majority_sign": majority},
        "settings": config.stored(),
        "rows": rows,
        "trainings": {target: one["trainings"] for target, one in trained.items()},
        "calibration": {target: _calibration(one["potentials"], tested) for target, one in trained.items()},
        "heat_map": _heat_map(chosen, tested, scores),
        "paper": {name: list(numbers) for name, numbers in PAPER.items()},
    }


def training_config(config: QualityConfig) -> MeterConfig:
    """Return the settings of the meters' training: the paper's recipe, and what the user changed of it."""
    frozen = config.train == "heads"
    return MeterConfig(
        kind="head",
        backbone=config.backbone,
        seed=config.seed,
        train=config.train,
        context_length=config.context_length,
        layers=config.layers,
        epochs=config.epochs or (100 if frozen else 6),
        patience=config.patience or (15 if frozen else 2),
        windows_per_epoch=None,
        learning_rate=config.learning_rate,
        head_learning_rate=config.head_learning_rate or (1e-3 if frozen else None),
        batch_trajectories=32,
        batch_tokens=config.batch_tokens,
        completion_weight=0.0,  # one scalar head: failure is in the value
        device=config.device,
    )


def _meter_scores(
    config: QualityConfig, records: Sequence[LabelledTrajectory], folds: Sequence[Fold], progress: Callable[[str], None]
) -> tuple[dict[str, list[Floats]], dict[str, dict[str, Any]]]:
    scores: dict[str, list[Floats]] = {}
    trained: dict[str, dict[str, Any]] = {}
    if not config.targets:
        return scores, trained
    load, keep = _loader(config, progress)
    with ExitStack() as stack:
        place = config.cache or stack.enter_context(tempfile.TemporaryDirectory(prefix="agentgym_ttg-"))
        cache = keep(Path(place).expanduser() / "features")
        for target in config.targets:
            found, trainings = potentials(
                records,
                target,
                folds,
                training_config(config),
                load,
                features=cache,
                work=Path(place).expanduser() / "trainings",
                penalty=config.penalty,
                progress=progress,
            )
            trained[target] = {"potentials": found, "trainings": trainings}
            scores[NAMES[target]] = [one.deltas() for one in found]
            scores[f"{NAMES[target]}, outcome seen"] = [one.deltas(outcome=True) for one in found]
    return scores, trained


def _loader(config: QualityConfig, progress: Callable[[str], None]) -> tuple[Callable[[], LoadedModel], Any]:
    """Return what gives the backbone, and what makes the cache of hidden states."""
    try:
        import torch

        from agentgym_ttg.meter.features import FeatureCache
        from agentgym_ttg.meter.training import default_backbone
        from agentgym_ttg.models import load_causal_lm
    except ModuleNotFoundError as error:
        raise MissingDependencyError(error.name or "torch", "train", "training meters of step quality") from error
    if config.threads:
        torch.set_num_threads(config.threads)
    spec = config.backbone or default_backbone()
    kept: list[LoadedModel] = []

    def load() -> LoadedModel:
        if kept and config.train == "heads":  # nothing of it is changed
            return kept[0]
        progress(f"loading {spec}")
        kept[:] = [load_causal_lm(spec, dtype="float32", device=config.device)]
        return kept[0]

    return load, (lambda folder: FeatureCache(folder) if config.train == "heads" else None)


def records_sign(records: Sequence[LabelledTrajectory], fold: Fold) -> int:
    """Return the more frequent sign among the labels that a fold trains on; 1 where both are."""
    return 1 if sum(int(records[i].labels.sum()) for i in fold.train) >= 0 else -1


def _constant(
    records: Sequence[LabelledTrajectory], folds: Sequence[Fold], signs: Sequence[int]
) -> list[NDArray[np.int64]]:
    out = [np.zeros(len(record.labels), dtype=np.int64) for record in records]
    for fold, sign in zip(folds, signs, strict=True):
        for index in fold.test:
            out[index][:] = sign
    return out


def judged_row(
    scores: Sequence[Floats],
    records: Sequence[LabelledTrajectory],
    draws: Sequence[Integers],
    seed: int,
    resamples: int,
    references: dict[str, Judgement],
) -> dict[str, Any]:
    """Return what a table says of one scorer: pooled, by data set, and its lead over the references."""
    labels = [record.labels for record in records]
    found = judge(scores, labels)
    pooled = _numbers(measure(found, draws))
    pooled["auroc"] = step_auroc(scores, labels, draws[: min(len(draws), 500)]).as_json()
    lead = {}
    for name, other in references.items():

        def ahead(chosen: Integers, other: Judgement = other) -> float:
            total = found.judged[chosen].sum()
            return float((found.right[chosen] - other.right[chosen]).sum() / total) if total else float("nan")

        lead[name] = bootstrap(ahead, draws, len(records)).as_json()
    return {
        "pooled": pooled,
        "by_source": _sources(found, records, seed, resamples),
        "accuracy_ahead_of": lead,
    }


def _by_source(found: Judgement, records: Sequence[LabelledTrajectory], config: QualityConfig) -> dict[str, Any]:
    return _sources(found, records, config.seed, config.resamples)


def _sources(found: Judgement, records: Sequence[LabelledTrajectory], seed: int, resamples: int) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for source in sorted({record.source for record in records}):
        part = np.array([i for i, record in enumerate(records) if record.source == source])
        draws = resampled(len(part), np.random.default_rng(seed), resamples=resamples)
        out[source] = _numbers(measure(found.of(part), draws))
    return out


def _numbers(measured: dict[str, Measured]) -> dict[str, Any]:
    return {name: one.as_json() for name, one in measured.items()}


def _describe(records: Sequence[LabelledTrajectory]) -> dict[str, Any]:
    labels = np.concatenate([record.labels for record in records])
    return {
        "trajectories": len(records),
        "questions": len({record.query for record in records}),
        "successes": sum(record.trajectory.success for record in records),
        "steps": len(labels),
        "good": int((labels == 1).sum()),
        "neutral": int((labels == 0).sum()),
        "bad": int((labels == -1).sum()),
        "sources": sorted({record.source for record in records}),
    }


def _calibration(found: Sequence[StepPotentials], tested: Sequence[int], bins: int = 10) -> list[dict[str, float]]:
    """Return predicted against observed potentials in bins of equally many states."""
    predicted = np.concatenate([found[i].predicted for i in tested])
    observed = np.concatenate([found[i].observed for i in tested])
    there = np.isfinite(predicted) & np.isfinite(observed)
    order = np.argsort(predicted[there], kind="stable")
    return [
        {
            "predicted": float(predicted[there][part].mean()),
            "observed": float(observed[there][part].mean()),
            "states": len(part),
        }
        for part in np.array_split(order, bins)
        if len(part)
    ]


def _heat_map(
    records: Sequence[LabelledTrajectory], tested: Sequence[int], scores: dict[str, list[Floats]]
) -> list[dict[str, Any]]:
    """Return the longest trajectory (of at most 40 steps) with a bad step, and the longest without."""
    out = []
    for wanted in (True, False):
        fitting = [i for i, r in enumerate(records) if (r.labels == -1).any() == wanted and len(r.labels) <= 40]
        if not fitting:
            continue
        chosen = max(fitting, key=lambda i: (len(records[i].labels), -i))
        out.append(
            {
                "record": records[chosen].record,
                "labels": records[chosen].labels.tolist(),
                "scores": {
                    name: [float(x) if np.isfinite(x) else None for x in rows[tested[chosen]]]
                    for name, rows in scores.items()
                },
            }
        )
    return out
