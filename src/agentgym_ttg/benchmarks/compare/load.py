"""Reading run folders, finished or not, and whole comparisons, into plain dataclasses.

``load_runs`` takes any mix of run folders and comparison folders (those with a ``compare.json``); what comes out is one
flat list of :class:`RunData`, whose ``env``, ``label`` and ``seed`` say which cell of a table a run belongs to. Runs of
a comparison that have not begun are in it too, as incomplete ones: what is missing has to be told.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from agentgym_ttg.core.errors import ConfigError

from ..run_folder import object_of, rows_of
from .settings import name_apart
from .statistics import Curve

__all__ = [
    "COMPARISON_FILE",
    "ComputeAccount",
    "RunData",
    "SplitResult",
    "load_run_data",
    "load_runs",
]

COMPARISON_FILE = "compare.json"

#: Stages that are paid once for each meter, whatever number of runs uses it.
PREPARATION = ("recordings", "meter")
#: Parts of every policy update.
UPDATE_PARTS = ("rollout", "meter_scoring", "update")


@dataclass(frozen=True, slots=True)
class SplitResult:
    """How the final policy did on one split.

    Attributes:
        split: Name of the split.
        episodes: Episodes played.
        success: Success rate.
        low: Lower end of Wilson's 95 % interval over the episodes.
        high: Upper end.
        steps: Mean decisions of an episode.
        tokens: Mean assistant tokens of an episode.
        errors: Episodes that broke down (they count as not solved).
        task_types: Success rate by task type.
        scores: The benchmark's official numbers, where it has some.
    """

    split: str
    episodes: int
    success: float
    low: float
    high: float
    steps: float
    tokens: float
    errors: int
    task_types: dict[str, float] = field(default_factory=dict)
    scores: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ComputeAccount:
    """What a run cost.

    Attributes:
        generated: Actor tokens generated in training, dropped groups included, evaluations not.
        trained: Actor tokens that an update was made from.
        meter_tokens: Tokens that the progress meter read and wrote while crediting updates.
        seconds: Wall seconds by stage: ``warm_start``, ``recordings``, ``meter`` (making it, 0 where it was given),
            ``rollout``, ``meter_scoring``, ``update``, ``evaluation``.
        preparation: Seconds of recording and training the meter, also where another run or the shared stage of a
            comparison made it; paid once for all runs with that meter. 0 for methods without one.
        peak_memory_mb: Largest resident memory of the run's process in MiB, None where it was not recorded.
        peak_gpu_mb: Largest GPU memory allocated in MiB, None without a GPU.
    """

    generated: int = 0
    trained: int = 0
    meter_tokens: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    preparation: float = 0.0
    peak_memory_mb: float | None = None
    peak_gpu_mb: float | None = None

    @property
    def update_seconds(self) -> float:
        """Seconds of all policy updates: rollout, meter and optimiser."""
        return math.fsum(self.seconds.get(name, 0.0) for name in UPDATE_PARTS)

    @property
    def meter_overhead(self) -> float:
        """Seconds of asking the meter over those of everything else in the updates; NaN without an update."""
        other = self.seconds.get("rollout", 0.0) + self.seconds.get("update", 0.0)
        return self.seconds.get("meter_scoring", 0.0) / other if other > 0 else math.nan

    @property
    def seconds_per_token(self) -> float:
        """Update seconds for each generated actor token; NaN without any."""
        return self.update_seconds / self.generated if self.generated else math.nan


@dataclass(slots=True)
class RunData:
    """One run, as far as it has come.

    Attributes:
        path: The run folder.
        env: Registered id of the environment.
        label: What the run is called in tables: the method, or the variant of a comparison.
        method: The method.
        seed: Seed of the run.
        kind: ``train`` if it made policy updates or was to, else ``evaluate``.
        complete: Whether everything that was asked for is there.
        updates: Policy updates done.
        config: The flat settings (``config.json``).
        evaluations: Held-out evaluations during training, one object each: ``update`` (updates done before it),
            ``eval_success``, ``eval_low``, ``eval_high``, at the first and last also ``sampled_success``.
        metrics: One object for each update.
        splits: How the final policy did, by split.
        eval_split: The split of the evaluations during training.
        account: What it cost.
        meter: The meter's report (``MeterReport`` as JSON), also where it was shared; None without one.
        meter_source: Where the meter learned, ``env`` and ``env_kwargs``; None without a meter, or if it is not known.
        failure_cost: The failure cost C that the run used, in the meter's unit; None without a meter.
    """

    path: Path
    env: str
    label: str
    method: str
    seed: int
    kind: Literal["train", "evaluate"]
    complete: bool
    updates: int
    config: dict[str, Any]
    evaluations: list[dict[str, Any]]
    metrics: list[dict[str, Any]]
    splits: dict[str, SplitResult]
    eval_split: str
    account: ComputeAccount
    meter: dict[str, Any] | None = None
    meter_source: dict[str, Any] | None = None
    failure_cost: float | None = None

    @property
    def meter_elsewhere(self) -> bool:
        """Whether the meter learned on another environment, or on the same with other arguments."""
        if self.meter_source is None:
            return False
        here = {"env": self.env, "env_kwargs": self.config.get("env_kwargs") or {}}
        return any(value != here[name] for name, value in self.meter_source.items())

    @property
    def final_success(self) -> float:
        """Success rate of the final policy on ``eval_split``; the last evaluation's where it was not played yet."""
        if self.eval_split in self.splits:
            return self.splits[self.eval_split].success
        return float(self.evaluations[-1].get("eval_success", math.nan)) if self.evaluations else math.nan

    def curve(self, kind: Literal["evaluation", "training"] = "evaluation") -> Curve:
        """Return the learning curve.

        Args:
            kind: ``evaluation``: success on held-out tasks, greedy unless set otherwise; a point at ``update = n``
                stands behind n updates and the tokens of those. ``training``: success of the sampled training episodes
                of each update, played by the policy as it was before it; denser and noisier.
        """
        generated, trained = self._tokens_after()
        if kind == "training":
            done = np.array([int(row["update"]) for row in self.metrics], dtype=np.int64)
            values = [_number(row.get("success")) for row in self.metrics]
        elif kind == "evaluation":
            rows = [row for row in self.evaluations if int(row["update"]) < len(generated)]
            done = np.array([int(row["update"]) for row in rows], dtype=np.int64)
            values = [_number(row.get("eval_success")) for row in rows]
        else:
            raise ValueError(f"unknown curve {kind!r}; expected 'evaluation' or 'training'")
        return Curve(done.astype(np.float64), generated[done], trained[done], np.array(values, dtype=np.float64))

    def _tokens_after(self) -> tuple[np.ndarray[Any, np.dtype[np.float64]], np.ndarray[Any, np.dtype[np.float64]]]:
        """Return the actor tokens generated and trained on after 0, 1, … updates."""
        generated = [0.0, *(_number(row.get("actor_tokens")) for row in self.metrics)]
        trained = [0.0, *(_number(row.get("trained_tokens")) for row in self.metrics)]
        return np.array(generated), np.cumsum(trained)


def load_run_data(path: str | Path, *, label: str | None = None) -> RunData:
    """Read a run folder.

    Args:
        path: The folder; it may still be growing.
        label: What to call the run; default its method.

    Raises:
        ConfigError: If it is no run folder, or a file in it is broken.
    """
    folder = Path(path).expanduser()
    if not (folder / "config.json").is_file():
        raise ConfigError(f"{folder} is no run folder: expected a config.json in it, as benchmarks.run leaves it")
    config = object_of(folder / "config.json")
    results = object_of(folder / "results.json")
    metrics = rows_of(folder / "metrics.jsonl")
    evaluations = rows_of(folder / "evaluations.jsonl")
    trains = bool(metrics or evaluations) or "training" in results or (folder / "stages.json").exists()
    method = str(config.get("method", "?"))
    eval_split = str((config.get("eval_split") if trains else config.get("split")) or results.get("split") or "")
    place = _meter_folder(folder, config) if not metrics or "meter_tokens" in metrics[-1] else None
    meter = object_of(place / "report.json") or None if place is not None else None
    return RunData(
        path=folder,
        env=str(results.get("env") or config.get("env") or "?"),
        label=label or method,
        method=method,
        seed=int(config.get("seed", 0)),
        kind="train" if trains else "evaluate",
        complete=bool(results.get("complete")),
        updates=len(metrics),
        config=config,
        evaluations=evaluations,
        metrics=metrics,
        splits=_splits(results),
        eval_split=eval_split,
        account=_account(folder, place, results, metrics, evaluations),
        meter=meter,
        meter_source=_meter_source(place, meter),
        failure_cost=results.get("training", {}).get("failure_cost"),
    )


def load_runs(paths: Iterable[str | Path]) -> list[RunData]:
    """Read run folders and comparison folders.

    A run of a comparison is called as its ``compare.json`` says; runs given by themselves are called by their method
    and the settings that they do not share. A folder that is named twice is read once.

    Raises:
        ConfigError: If a path is neither, or two runs are the same method with the same settings and seed.
    """
    out: list[RunData] = []
    single: dict[Path, RunData] = {}
    for path in (Path(one).expanduser() for one in paths):
        plan = path / COMPARISON_FILE
        if plan.is_file():
            out += [_planned(path, job) for job in object_of(plan).get("jobs", [])]
        elif path.resolve() not in single:
            single[path.resolve()] = load_run_data(path)
    name_apart(list(single.values()))
    cells: dict[tuple[str, str, int], RunData] = {}
    for run in (*out, *single.values()):
        twin = cells.setdefault((run.env, run.label, run.seed), run)
        if twin is not run and twin.path.resolve() != run.path.resolve():
            raise ConfigError(f"{twin.path} and {run.path} are both {run.label} on {run.env} with seed {run.seed}")
    return list(cells.values())


def _planned(folder: Path, job: Mapping[str, Any]) -> RunData:
    path = folder / str(job["path"])
    if (path / "config.json").is_file():
        return load_run_data(path, label=str(job["label"]))
    env, method, seed = str(job.get("env", "?")), str(job.get("method", "?")), int(job.get("seed", 0))
    return RunData(
        path=path,
        env=env,
        label=str(job["label"]),
        method=method,
        seed=seed,
        kind="train",
        complete=False,
        updates=0,
        config={"env": env, "method": method, "seed": seed},
        evaluations=[],
        metrics=[],
        splits={},
        eval_split="",
        account=ComputeAccount(),
    )


def _splits(results: Mapping[str, Any]) -> dict[str, SplitResult]:
    found: dict[str, SplitResult] = {}
    for name, row in [*results.get("splits", {}).items(), (str(results.get("split", "")), results)]:
        if name and int(row.get("episodes", 0)) > 0 and "success_rate" in row:
            found[name] = SplitResult(
                split=name,
                episodes=int(row["episodes"]),
                success=float(row["success_rate"]),
                low=float(row["success_low"]),
                high=float(row["success_high"]),
                steps=_number(row.get("mean_steps")),
                tokens=_number(row.get("assistant_tokens_per_episode")),
                errors=int(row.get("errors", 0)),
                task_types={kind: float(v["success_rate"]) for kind, v in row.get("task_types", {}).items()},
                scores={kind: float(v) for kind, v in row.get("scores", {}).items()},
            )
    return found


def _account(
    folder: Path,
    meter: Path | None,
    results: Mapping[str, Any],
    metrics: list[dict[str, Any]],
    evaluations: list[dict[str, Any]],
) -> ComputeAccount:
    seconds = _stage_seconds(folder)
    # `seconds_meter` of an update is asking the meter, the stage `meter` is making it.
    for key, name in (("rollout", "rollout"), ("meter", "meter_scoring"), ("update", "update")):
        seconds[name] = math.fsum(float(row.get(f"seconds_{key}") or 0.0) for row in metrics)
    seconds["evaluation"] = math.fsum(float(row.get("seconds") or 0.0) for row in evaluations)
    made = seconds
    if not any(name in seconds for name in PREPARATION) and meter is not None:
        made = _stage_seconds(meter.parent)
    last: Mapping[str, Any] = metrics[-1] if metrics else {}
    memory = results.get("peak_memory", {})
    return ComputeAccount(
        generated=int(last.get("actor_tokens", 0)),
        trained=sum(int(row.get("trained_tokens", 0)) for row in metrics),
        meter_tokens=int(last.get("meter_tokens", 0)),
        seconds=seconds,
        preparation=math.fsum(made.get(name, 0.0) for name in PREPARATION),
        peak_memory_mb=memory.get("rss_mb"),
        peak_gpu_mb=memory.get("gpu_mb"),
    )


def _stage_seconds(folder: Path) -> dict[str, float]:
    stages = object_of(folder / "stages.json")
    return {name: float(stage.get("seconds", 0.0)) for name, stage in stages.items() if isinstance(stage, dict)}


def _meter_folder(folder: Path, config: Mapping[str, Any]) -> Path | None:
    """Return where the run's meter lies: in the run, where ``--meter`` said, or where a moved comparison has it now."""
    places = [folder / "meter"]
    if given := config.get("meter"):
        path = Path(str(given))
        places += [path, *(above / "shared" / path.parent.name / path.name for above in folder.absolute().parents[:4])]
    return next((place for place in places if (place / "report.json").is_file()), None)


def _meter_source(place: Path | None, report: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the environment that a meter learned on: of the run that made it, or of its recordings."""
    if place is None:
        return None
    maker = object_of(place.parent / "config.json")
    if "env" in maker and "method" in maker:
        return {"env": str(maker["env"]), "env_kwargs": maker.get("env_kwargs") or {}}
    envs = (report or {}).get("envs") or {}
    return {"env": " + ".join(envs)} if envs else None


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan
