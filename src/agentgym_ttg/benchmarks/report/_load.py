"""What a run folder holds for a report.

``config.json``, ``environment.json``, ``results.json`` of every run; ``metrics.jsonl`` (one object an update),
``evaluations.jsonl``, ``stages.json``, ``meter/report.json`` and ``samples.jsonl`` (annotated trajectories) of those
that train. Each may be missing: a report can be made of a run that is still going on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from agentgym_ttg.core.errors import ConfigError, TrajectoryFileError
from agentgym_ttg.core.trajectory import Trajectory
from agentgym_ttg.core.trajectory_files import iter_trajectories

from ..run_folder import object_of, rows_of

__all__ = ["RunRecord", "load_run"]

#: Episodes of an evaluation that are looked through for samples.
_LOOKED_AT = 300


@dataclass(slots=True)
class RunRecord:
    """A run, as far as it has come.

    Attributes:
        path: The folder.
        config: The settings.
        environment: Versions, machine, data.
        results: The numbers.
        metrics: One object for each update.
        evaluations: One object for each evaluation on held-out tasks.
        stages: By name, with ``seconds``.
        meter: The meter's report, None where there is none.
        samples: Trajectories to be shown.
    """

    path: Path
    config: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)
    metrics: list[dict[str, Any]] = field(default_factory=list)
    evaluations: list[dict[str, Any]] = field(default_factory=list)
    stages: dict[str, Any] = field(default_factory=dict)
    meter: dict[str, Any] | None = None
    samples: list[Trajectory] = field(default_factory=list)


def load_run(path: str | Path, *, samples: int = 12) -> RunRecord:
    """Read a run folder.

    Args:
        path: The folder.
        samples: At most so many trajectories.

    Raises:
        ConfigError: If it is no run folder.
    """
    folder = Path(path).expanduser()
    if not (folder / "config.json").is_file():
        raise ConfigError(f"{folder} is no run folder: expected a config.json in it, as benchmarks.run leaves it")
    return RunRecord(
        path=folder,
        config=object_of(folder / "config.json"),
        environment=object_of(folder / "environment.json"),
        results=object_of(folder / "results.json"),
        metrics=rows_of(folder / "metrics.jsonl"),
        evaluations=rows_of(folder / "evaluations.jsonl"),
        stages=object_of(folder / "stages.json"),
        meter=object_of(folder / "meter" / "report.json") or None,
        samples=_samples(folder, samples),
    )


def _samples(folder: Path, count: int) -> list[Trajectory]:
    """Return annotated samples, the last ones of each outcome; without any, some episodes of the evaluation."""
    annotated = _trajectories(folder / "samples.jsonl", None)
    if annotated:
        return annotated[-count:][::-1]
    played = _trajectories(folder / "trajectories.jsonl", _LOOKED_AT)
    chosen: list[Trajectory] = []
    for outcome in ("success", "truncated", "failure", "error"):
        chosen += [one for one in played if one.outcome == outcome][: max(1, count // 4)]
    return chosen[:count]


def _trajectories(path: Path, limit: int | None) -> list[Trajectory]:
    if not path.is_file():
        return []
    try:
        return list(islice(iter_trajectories(path), limit))
    except TrajectoryFileError as error:
        raise ConfigError(str(error)) from error
