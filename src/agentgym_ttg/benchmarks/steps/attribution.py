"""Failure attribution: which step of a failed log was the decisive mistake?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agentgym_ttg.core.errors import ConfigError
from agentgym_ttg.scorers import StepScorer, get_scorer

from .config import AttributionConfig
from .records import load_records
from .statistics import Integers, bootstrap, ratio_interval, resampled
from .whowhen import FailureRecord, read_record

__all__ = ["RULES", "attribute", "evaluate_attribution", "pick"]

#: How a step is accused by the numbers of the steps.
RULES = ("lowest-step", "lowest-cumulative", "sharpest-drop")

#: Steps are told apart up to here; longer logs are put together.
_LENGTHS = ((1, 4), (5, 6), (7, 8), (9, 10), (11, 20), (21, 50), (51, None))


def pick(scores: ArrayLike, rule: str) -> int | None:
    """Return the index of the accused step; the first of several, None if no step has a number.

    - ``lowest-step``: the lowest number.
    - ``lowest-cumulative``: where the sum of the numbers up to and with the step is lowest.
    - ``sharpest-drop``: the number that lies farthest below that of the step before; the first step has none before it
      and is accused only where there is no other.

    Args:
        scores: Of the steps, ``(T,)``; steps with NaN are passed over.
        rule: One of :data:`RULES`.

    Raises:
        ConfigError: If there is no such rule.

    >>> [pick([0.4, -0.1, -0.9, 0.2, -0.5], rule) for rule in RULES]
    [2, 4, 2]
    """
    if rule not in RULES:
        raise ConfigError(f"unknown rule {rule!r}; expected one of {', '.join(RULES)}")
    array = np.asarray(scores, dtype=np.float64)
    there = np.flatnonzero(np.isfinite(array))
    if not len(there):
        return None
    values = array[there]
    if rule == "lowest-step":
        return int(there[np.argmin(values)])
    if rule == "lowest-cumulative":
        return int(there[np.argmin(np.cumsum(values))])
    return int(there[1 + np.argmin(np.diff(values))]) if len(values) > 1 else int(there[0])


def evaluate_attribution(config: AttributionConfig, progress: Callable[[str], None]) -> dict[str, Any]:
    """Score the logs, accuse a step by each rule and compare; return the results.

    Args:
        config: Settings.
        progress: Told in words what is being done.

    Raises:
        ConfigError: If a scorer cannot be built.
        DataError: If the data are broken.
        MissingDependencyError: If what runs a scorer is not installed.
    """
    records = load_records(config.data, partial(read_record, clip=config.clip), limit=config.limit)
    # All are made before any works: a misspelt name is told at once.
    scorers = [get_scorer(name, config.scorer_options) for name in config.scorer]
    results = attribute(records, scorers, seed=config.seed, resamples=config.resamples, progress=progress)
    return results | {
        "settings": config.stored(),
    }


def attribute(
    records: Sequence[FailureRecord],
    scorers: Sequence[StepScorer],
    *,
    seed: int = 0,
    resamples: int = 2000,
    progress: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Return how often each scorer and rule accuses the right step, and how far off they are, beside references.

    Args:
        records: The failed logs.
        scorers: What scores the steps.
        seed: Of the bootstrap.
        resamples: Its draws.
        progress: Told in words what is being done.
    """
    lengths = np.array([len(record.trajectory) for record in records])
    truth = np.array([record.mistake for record in records])
    draws = resampled(len(records), np.random.default_rng(seed), resamples=resamples)
    rows: dict[str, Any] = {}
    kept: dict[str, list[NDArray[np.float64]]] = {}
    for scorer in scorers:
        progress(f"scoring with {scorer.name}")
        found = kept[scorer.name] = scorer.step_scores([record.trajectory for record in records])
        for rule in RULES:
            picked = [pick(row, rule) for row in found]
            exact = np.array([p == m for p, m in zip(picked, truth, strict=True)], dtype=np.float64)
            # Where no step has a number the middle one stands in, so that no log is left out.
            places = np.array([(n - 1) // 2 if p is None else p for p, n in zip(picked, lengths, strict=True)])
            row = _row(exact, np.abs(places - truth).astype(np.float64), lengths, draws)
            rows[f"{scorer.name}: {rule}"] = row | {"accused": sum(p is not None for p in picked)}
    uniform = [np.abs(np.arange(n) - m).mean() for n, m in zip(lengths, truth, strict=True)]
    rows["random step"] = _row(1.0 / lengths, np.array(uniform), lengths, draws)
    for name, places in (
        ("always first", np.zeros_like(lengths)),
        ("always last", lengths - 1),
        ("always middle", (lengths - 1) // 2),
    ):
        rows[name] = _row((places == truth).astype(np.float64), np.abs(places - truth).astype(float), lengths, draws)
    return {
        "evaluation": "attribution",
        "data": {
            "logs": len(records),
            "steps": int(lengths.sum()),
            "by_length": {name: int(mask.sum()) for name, mask in _bands(lengths)},
        },
        "rows": rows,
        "heat_map": _heat_map(records, kept),
    }


def _bands(lengths: NDArray[np.int64]) -> list[tuple[str, NDArray[np.bool_]]]:
    """Return the names and masks of the ranges of lengths that occur."""
    out = []
    for low, high in _LENGTHS:
        mask = (lengths >= low) & ((lengths <= high) if high is not None else np.True_)
        if mask.any():
            out.append((f"{low}-{high}" if high is not None else f"{low}+", mask))
    return out


def _row(
    exact: NDArray[np.float64], distance: NDArray[np.float64], lengths: NDArray[np.int64], draws: Sequence[Integers]
) -> dict[str, Any]:
    ones = np.ones(len(exact))

    def error(chosen: Integers) -> float:
        return float(distance[chosen].mean())

    return {
        "exact": ratio_interval(exact, ones, draws).as_json(),
        "mean_absolute_error": bootstrap(error, draws, len(exact)).as_json(),
        "by_length": {
            name: {
                "logs": int(mask.sum()),
                "exact": float(exact[mask].mean()),
                "mean_absolute_error": float(distance[mask].mean()),
            }
            for name, mask in _bands(lengths)
        },
    }


def _heat_map(records: Sequence[FailureRecord], scores: dict[str, list[NDArray[np.float64]]]) -> list[dict[str, Any]]:
    """Return the first log of the most frequent length; its mistake is the label."""
    lengths = [len(record.trajectory) for record in records]
    usual = max(sorted(set(lengths)), key=lengths.count)
    chosen = lengths.index(usual)
    labels = [0] * usual
    labels[records[chosen].mistake] = -1
    return [
        {
            "record": records[chosen].record,
            "labels": labels,
            "scores": {
                name: [float(x) if np.isfinite(x) else None for x in rows[chosen]] for name, rows in scores.items()
            },
        }
    ]
