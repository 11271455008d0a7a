"""A comparison sorted for a report: which columns are methods, which ablations, sweeps, transfers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from agentgym_ttg.core.errors import ConfigError, DataError

from ..compare.aggregate import Comparison, EnvComparison, MethodSummary, aggregate
from ..compare.load import COMPARISON_FILE, RunData, load_runs
from ..compare.settings import changed_settings
from ..compare.statistics import Curve, Interval, PairedDifference, mean_interval, paired_difference
from ..run_folder import read_json
from ..setup import short_name

__all__ = ["ABLATED", "Column", "EnvStudy", "Role", "Study", "SweepPoint", "by_value", "load_study"]

Role = Literal["method", "ablation", "sweep", "transfer", "variant", "scripted"]

#: The method whose ablations are called ``deltattg-…``.
ABLATED = "deltattg"


@dataclass(frozen=True, eq=False, slots=True)
class Column:
    """A method or variant on one environment.

    Attributes:
        summary: Its numbers over seeds.
        role: What it is there for.
        runs: Its complete runs, by seed.
        changed: The settings in which it differs from its method as it is.
    """

    summary: MethodSummary
    role: Role
    runs: Sequence[RunData]
    changed: dict[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """Its name."""
        return self.summary.label

    def curves(self, kind: Literal["evaluation", "training"] = "evaluation") -> list[Curve]:
        """Return the learning curves that have points."""
        found = [run.curve(kind) for run in self.runs if run.metrics and run.evaluations]
        return [curve for curve in found if len(curve.values)]


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """One value of a swept setting.

    Attributes:
        value: The value.
        column: The column that has it.
        seeds: The seeds that every value of the setting has; those of this value where they have none in common.
        final: Success at the end over these seeds.
        default: Whether it is the value of the method as it is.
    """

    value: Any
    column: Column
    seeds: frozenset[int]
    final: Interval
    default: bool


@dataclass(frozen=True, slots=True)
class EnvStudy:
    """An environment's part of the report.

    Attributes:
        comparison: The numbers.
        columns: In the order of the runs.
    """

    comparison: EnvComparison
    columns: list[Column]

    @property
    def env(self) -> str:
        """Registered id."""
        return self.comparison.env

    @property
    def slug(self) -> str:
        """Its name in files and anchors."""
        return short_name(self.env)

    @property
    def reference(self) -> Column | None:
        """What the others are compared with."""
        return self.get(self.comparison.reference or "")

    def get(self, label: str) -> Column | None:
        """Return a column by its name."""
        return next((column for column in self.columns if column.label == label), None)

    def of(self, *roles: Role) -> list[Column]:
        """Return the columns that are there for these purposes."""
        return [column for column in self.columns if column.role in roles]

    @property
    def contenders(self) -> list[Column]:
        """Return what can be the best: methods and ablations; without any, whatever was trained.

        A swept value is none: the best of many values is partly luck, and was looked for.
        """
        return self.of("method", "ablation") or self.of("variant", "transfer", "sweep") or self.of("scripted")

    @property
    def main(self) -> EnvComparison:
        """Return the numbers without swept values, and without what is not trained."""
        return replace(
            self.comparison, methods=[c.summary for c in self.columns if c.role not in ("sweep", "scripted")]
        )

    def ablations(self) -> list[Column]:
        """Return the full method and its ablations; nothing where no ablation was run."""
        found = self.of("ablation")
        full = self.get(ABLATED)
        return [*([full] if full else []), *found] if found else []

    def sweeps(self) -> dict[str, dict[str, list[SweepPoint]]]:
        """Return the swept settings: by setting, then by method, the values in order, that of the method itself too."""
        out: dict[str, dict[str, list[tuple[Any, Column, bool]]]] = {}
        for column in self.of("sweep"):
            ((name, value),) = column.changed.items()
            lines = out.setdefault(name, {})
            method = column.summary.method
            if method not in lines:
                base = next((one for one in self.columns if one.summary.method == method and not one.changed), None)
                lines[method] = [(_value(base, name), base, base.label == method)] if base else []
            lines[method].append((value, column, False))
        return {name: {method: _sweep(points) for method, points in lines.items()} for name, lines in out.items()}

    def difference(self, of: Column, from_: Column, *, seeds: Collection[int] | None = None) -> PairedDifference:
        """Return how much higher one column ends than another, paired by seed; None takes all seeds that both have."""
        mine = {seed: rate for seed, rate in of.summary.by_seed.items() if seeds is None or seed in seeds}
        theirs = {seed: rate for seed, rate in from_.summary.by_seed.items() if seeds is None or seed in seeds}
        return paired_difference(mine, theirs, rng=np.random.default_rng(0))


@dataclass(frozen=True, slots=True)
class Study:
    """What a report of several runs tells.

    Attributes:
        runs: All runs, complete or not.
        comparison: The numbers of those that are complete.
        envs: One for each environment.
        settings: What the comparison folders say of themselves, by folder.
        failures: Why runs are missing, by ``label/seed-N on ENV``, where the comparison knows.
        commits: The states of the code that the complete runs were made with.
    """

    runs: list[RunData]
    comparison: Comparison
    envs: list[EnvStudy]
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    commits: tuple[str, ...] = ()


def load_study(paths: Sequence[str | Path], *, reference: str | None = None) -> Study:
    """Read run folders and comparison folders for a report.

    Args:
        paths: The folders.
        reference: Label of what the others are compared with; default what the comparison says, else ``grpo``.

    Raises:
        ConfigError: If a path is neither, or nothing is called like the reference.
    """
    runs = load_runs(paths)
    settings = {
        str(path): read_json(Path(path).expanduser() / COMPARISON_FILE).get("settings", {})
        for path in paths
        if (Path(path).expanduser() / COMPARISON_FILE).is_file()
    }
    labels = list(dict.fromkeys(run.label for run in runs))
    if reference is not None and reference not in labels:
        raise ConfigError(f"--reference {reference!r} is none of the runs; there are {', '.join(labels)}")
    told = [str(one["reference"]) for one in settings.values() if one.get("reference")]
    comparison = aggregate(runs, reference=reference or next(iter(told), "grpo"))
    envs = [EnvStudy(one, _columns(one, runs)) for one in comparison.envs]
    commits = dict.fromkeys(_commit(run.path) for run in runs if run.complete)
    return Study(runs, comparison, envs, settings, _failures(paths), tuple(commit for commit in commits if commit))


def _sweep(values: Sequence[tuple[Any, Column, bool]]) -> list[SweepPoint]:
    common = frozenset.intersection(*(frozenset(column.summary.by_seed) for _, column, _ in values))
    out = []
    for value, column, default in sorted(values, key=lambda one: by_value(one[0])):
        seeds = common or frozenset(column.summary.by_seed)
        final = mean_interval([rate for seed, rate in column.summary.by_seed.items() if seed in seeds])
        out.append(SweepPoint(value, column, seeds, final, default))
    return out


def _columns(env: EnvComparison, runs: Iterable[RunData]) -> list[Column]:
    complete = [run for run in runs if run.complete and run.env == env.env]
    by_label: dict[str, list[RunData]] = {}
    for run in sorted(complete, key=lambda run: run.seed):
        by_label.setdefault(run.label, []).append(run)
    first: dict[str, RunData] = {}
    for label, members in by_label.items():
        if label == members[0].method or members[0].method not in first:
            first[members[0].method] = members[0]
    out = []
    for summary in env.methods:
        members = by_label[summary.label]
        base = first[summary.method]
        changed = changed_settings(members[0], base)
        if changed or members[0] is base or members[0].path != base.path:  # a swept value can be the method as it is
            out.append(Column(summary, _role(summary, members, changed), members, changed))
    return out


def _role(summary: MethodSummary, runs: Sequence[RunData], changed: dict[str, Any]) -> Role:
    if summary.kind == "evaluate":
        return "scripted"
    if any(run.meter_elsewhere for run in runs):
        return "transfer"
    if summary.label == summary.method:
        return "ablation" if summary.method.startswith(f"{ABLATED}-") else "method"
    return "sweep" if len(changed) == 1 else "variant"


def _commit(folder: Path) -> str:
    try:
        git = read_json(folder / "environment.json").get("git") or {}
    except DataError:
        return ""
    return f"{str(git['commit'])[:12]}{' with changes' if git.get('dirty') else ''}" if git.get("commit") else ""


def _failures(paths: Sequence[str | Path]) -> dict[str, str]:
    """Return what ``status.json`` of a comparison says of runs that failed."""
    out = {}
    for path in (Path(one).expanduser() for one in paths):
        if not ((path / COMPARISON_FILE).is_file() and (path / "status.json").is_file()):
            continue
        states = {row.get("path"): row for row in read_json(path / "status.json").get("jobs", [])}
        for job in read_json(path / COMPARISON_FILE).get("jobs", []):
            if error := (states.get(job["path"]) or {}).get("error"):
                out[f"{job['label']}/seed-{job['seed']} on {job['env']}"] = str(error)
    return out


def _value(column: Column, name: str) -> Any:
    """Return a setting of a column's runs, as they found it where it was left open."""
    run = column.runs[0]
    if name == "failure_cost" and run.config.get(name) is None:
        return run.failure_cost
    return run.config.get(name)


def by_value(value: Any) -> tuple[bool, float, str]:
    """Return a key that sorts numbers by their size, and before words."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return not number, float(value) if number else 0.0, str(value)
