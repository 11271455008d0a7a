"""From runs to a comparison: for each environment and method the numbers over seeds, and what they cost.

Only complete runs count; those that are not are named beside the numbers. Everything pairs by seed: a method's
difference from the reference is taken between runs with the same seed, so that what a seed brings (tasks, their order)
does not blur it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from .load import RunData
from .statistics import Curve, Interval, PairedDifference, Reach, mean_interval, paired_difference, reach

__all__ = ["LEVELS", "Comparison", "Cost", "EnvComparison", "MethodSummary", "aggregate"]

#: Success rates whose reaching is told, beside the one that the reference ends with.
LEVELS = (0.5, 0.7, 0.8, 0.9)


@dataclass(frozen=True, slots=True)
class Cost:
    """The compute account of a method, each a mean over its seeds.

    Attributes:
        generated: Actor tokens generated in training, dropped groups included.
        trained: Actor tokens trained on.
        meter_tokens: Tokens that the meter read and wrote while crediting updates.
        seconds: Wall seconds by stage, see :class:`~.load.ComputeAccount`.
        update_seconds: Seconds of all updates.
        preparation: Seconds of making the meter, paid once for all runs that use it.
        meter_overhead: Seconds of asking the meter over those of the rest of the updates.
        relative: Update seconds for each generated token, the reference's being 1; paired by seed.
        relative_with_preparation: The same with the whole preparation charged to each run.
        peak_memory_mb: Largest resident memory over the runs, MiB; None where it is not known.
        peak_gpu_mb: Largest GPU memory over the runs, MiB; None without a GPU.
    """

    generated: Interval
    trained: Interval
    meter_tokens: Interval
    seconds: dict[str, Interval]
    update_seconds: Interval
    preparation: Interval
    meter_overhead: Interval
    relative: Interval
    relative_with_preparation: Interval
    peak_memory_mb: float | None
    peak_gpu_mb: float | None


@dataclass(frozen=True, slots=True)
class MethodSummary:
    """A method on an environment.

    Attributes:
        label: Its name in tables.
        method: The method.
        kind: ``train`` or ``evaluate`` (played as it is).
        seeds: Of the complete runs, in order.
        by_seed: Success rate of the trained policy on the evaluation split, by seed.
        final: Success rate of the trained policy on the evaluation split.
        difference: Of ``final`` from the reference's; None for the reference.
        splits: Success rate by split.
        task_types: Success rate on the evaluation split by task type.
        scores: The benchmark's official numbers.
        before: Success rate before the first update.
        gain: Success rate of the last evaluation during training less that of the first, paired by seed.
        mean_success: Mean success over the evaluations during training: how early it learned.
        reaches: What it took to reach each level of :data:`LEVELS`, by level and axis.
        reference_level: What it took to reach the reference's level, in the unit of each axis. That level is the mean
            over its seeds of the last evaluation during training, so the same tasks make the level and the curves.
        reference_share: The same in updates and tokens, as a share of what the reference took in all.
        cost: What it cost.
    """

    label: str
    method: str
    kind: Literal["train", "evaluate"]
    seeds: tuple[int, ...]
    by_seed: dict[int, float]
    final: Interval
    difference: PairedDifference | None
    splits: dict[str, Interval]
    task_types: dict[str, Interval]
    scores: dict[str, Interval]
    before: Interval
    gain: Interval
    mean_success: Interval
    reaches: dict[float, dict[str, Reach]]
    reference_level: dict[str, Reach]
    reference_share: dict[str, Reach]
    cost: Cost


@dataclass(frozen=True, slots=True)
class EnvComparison:
    """All methods on one environment.

    Attributes:
        env: Registered id.
        reference: Label of the reference; None where no run of it is complete.
        methods: One for each label, in the order of the runs.
    """

    env: str
    reference: str | None
    methods: list[MethodSummary]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison.

    Attributes:
        envs: One for each environment.
        incomplete: ``label/seed-N on ENV`` of runs that are not complete, and left out.
        confidence: Of all intervals.
    """

    envs: list[EnvComparison]
    incomplete: list[str] = field(default_factory=list)
    confidence: float = 0.95

    def as_json(self) -> dict[str, Any]:
        """Return what ``results.json`` holds; numbers that are not known are None."""
        found: dict[str, Any] = _plain(self)
        return found


def aggregate(
    runs: Sequence[RunData],
    *,
    reference: str = "grpo",
    levels: Sequence[float] = LEVELS,
    resamples: int = 10_000,
    seed: int = 0,
) -> Comparison:
    """Put the runs of a comparison together.

    Args:
        runs: Of any environments, methods and seeds.
        reference: Label of what the others are compared with.
        levels: Success rates whose reaching is told.
        resamples: Of the bootstrap.
        seed: Of the bootstrap.
    """
    complete = [run for run in runs if run.complete]
    missing = [f"{run.label}/seed-{run.seed} on {run.env}" for run in runs if not run.complete]
    envs = []
    for env in dict.fromkeys(run.env for run in complete):
        columns: dict[str, list[RunData]] = {}
        for run in complete:
            if run.env == env:
                columns.setdefault(run.label, []).append(run)
        base = columns.get(reference, [])
        methods = [
            _summary(label, sorted(members, key=lambda run: run.seed), base, levels, resamples, seed)
            for label, members in columns.items()
        ]
        envs.append(EnvComparison(env, reference if base else None, methods))
    return Comparison(envs, missing)


def _summary(
    label: str,
    runs: Sequence[RunData],
    base: Sequence[RunData],
    levels: Sequence[float],
    resamples: int,
    seed: int,
) -> MethodSummary:
    curves: dict[Hashable, Curve] = {run.seed: run.curve() for run in runs if run.evaluations and run.metrics}
    ends = {s: float(curve.values[-1]) for s, curve in curves.items() if len(curve.values)}
    starts = {s: float(curve.values[0]) for s, curve in curves.items() if len(curve.values)}
    difference = None
    if base and label != base[0].label:
        difference = paired_difference(
            {run.seed: run.final_success for run in runs},
            {run.seed: run.final_success for run in base},
            rng=np.random.default_rng(seed),  # the same for each, so that adding a method changes no other's interval
            resamples=resamples,
        )
    level = mean_interval([_end(run) for run in base]).mean
    whole = {axis: _lengths(base, axis) for axis in ("updates", "generated", "trained")}
    known = math.isfinite(level)
    return MethodSummary(
        label=label,
        method=runs[0].method,
        kind=runs[0].kind,
        by_seed={run.seed: run.final_success for run in runs},
        seeds=tuple(run.seed for run in runs),
        final=mean_interval([run.final_success for run in runs]),
        difference=difference,
        splits=_by_name(runs, lambda run: {name: split.success for name, split in run.splits.items()}),
        task_types=_by_name(runs, lambda run: _of_eval_split(run, "task_types")),
        scores=_by_name(runs, lambda run: _of_eval_split(run, "scores")),
        before=mean_interval(list(starts.values())),
        gain=mean_interval([ends[s] - starts[s] for s in ends]),
        mean_success=mean_interval([float(curve.values.mean()) for curve in curves.values() if len(curve.values)]),
        reaches={point: {axis: reach(curves, point, axis=axis) for axis in whole} for point in levels},
        reference_level={axis: reach(curves, level, axis=axis) for axis in whole} if known else {},
        reference_share=(
            {axis: reach(curves, level, axis=axis, relative_to=whole[axis]) for axis in whole} if known else {}
        ),
        cost=_cost(runs, base),
    )


def _end(run: RunData) -> float:
    """Return the success rate that a run's learning curve ends with, or that it had at all without a curve."""
    values = run.curve().values
    return float(values[-1]) if len(values) else run.final_success


def _lengths(base: Sequence[RunData], axis: str) -> dict[Hashable, float]:
    """Return what the reference took in all, by seed."""
    found = {run.seed: run.curve().axis(axis) for run in base if run.evaluations and run.metrics}
    return {seed: float(values[-1]) for seed, values in found.items() if len(values)}


def _of_eval_split(run: RunData, name: str) -> Mapping[str, float]:
    split = run.splits.get(run.eval_split)
    return {} if split is None else getattr(split, name)


def _by_name(runs: Sequence[RunData], read: Callable[[RunData], Mapping[str, float]]) -> dict[str, Interval]:
    names = dict.fromkeys(name for run in runs for name in read(run))
    return {name: mean_interval([read(run)[name] for run in runs if name in read(run)]) for name in names}


def _cost(runs: Sequence[RunData], base: Sequence[RunData]) -> Cost:
    accounts = [run.account for run in runs]
    unit = {run.seed: run.account.seconds_per_token for run in base}

    def relative(seconds: Callable[[RunData], float]) -> Interval:
        pairs = [(run, unit[run.seed]) for run in runs if run.seed in unit and run.account.generated]
        return mean_interval([seconds(run) / run.account.generated / one for run, one in pairs if one > 0])

    stages = dict.fromkeys(name for account in accounts for name in account.seconds)
    memory = [account.peak_memory_mb for account in accounts if account.peak_memory_mb is not None]
    gpu = [account.peak_gpu_mb for account in accounts if account.peak_gpu_mb is not None]
    return Cost(
        generated=mean_interval([account.generated for account in accounts]),
        trained=mean_interval([account.trained for account in accounts]),
        meter_tokens=mean_interval([account.meter_tokens for account in accounts]),
        seconds={name: mean_interval([account.seconds.get(name, 0.0) for account in accounts]) for name in stages},
        update_seconds=mean_interval([account.update_seconds for account in accounts]),
        preparation=mean_interval([account.preparation for account in accounts]),
        meter_overhead=mean_interval([account.meter_overhead for account in accounts]),
        relative=relative(lambda run: run.account.update_seconds),
        relative_with_preparation=relative(lambda run: run.account.update_seconds + run.account.preparation),
        peak_memory_mb=max(memory, default=None),
        peak_gpu_mb=max(gpu, default=None),
    )


def _plain(value: Any) -> Any:
    """Return dataclasses as mappings, and numbers that JSON does not have as None."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: _plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value
