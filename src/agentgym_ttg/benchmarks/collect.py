"""``python -m agentgym_ttg.benchmarks.collect``: record trajectories of several policies into one file."""

from __future__ import annotations

import json
import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from rich.console import Console
from rich.table import Table

from agentgym_ttg.agents.recording import Recorder, parse_recorder, record
from agentgym_ttg.core.errors import ConfigError, TrajectoryFileError
from agentgym_ttg.core.trajectory import Trajectory
from agentgym_ttg.core.trajectory_files import iter_trajectories

from .config import RunConfig, differences, env_kwargs_spec
from .console import EpisodeProgress, guarded
from .environment import describe_environment
from .run_folder import read_json, write_json
from .setup import Setup

__all__ = ["CollectConfig", "collect", "main"]


class CollectConfig(BaseModel):
    """What to record."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    policies: tuple[str, ...] = ("expert", "noisy:0.1", "noisy:0.3", "noisy:0.6", "random")
    """Policies, in equal parts: expert, noisy:P, random, model:PATH[@TEMPERATURE], server:MODEL@URL."""
    out: str = "trajectories.jsonl"
    """Trajectory file; each line bears its policy's name. Settings are kept beside it in FILE.json."""
    episodes: int = Field(500, ge=1)
    """Trajectories in all."""
    env: str = "agentgym_ttg/ALFWorld-v0"
    """Environment."""
    split: str = "train"
    """Tasks; every policy meets other ones, in a seeded order."""
    seed: int = Field(0, ge=0)
    """Seeds the order of the tasks, the environments and the policies."""
    temperature: float = Field(1.0, ge=0)
    """Sampling temperature of models that name none."""
    top_p: float = Field(1.0, gt=0, le=1)
    """Nucleus mass of sampling."""
    max_response_tokens: int = Field(512, ge=1)
    """Token limit of one message."""
    data_dir: str | None = None
    """Folder of the real data set; default what is built in."""
    max_steps: int | None = Field(None, ge=1)
    """Decisions after which an episode is truncated; default the environment's."""
    action_format: str | None = None
    """How a message carries an action; default the environment's."""
    env_kwargs: Annotated[dict[str, Any], env_kwargs_spec] = {}
    """Further arguments of the environment, such as difficulty=hard."""
    prompt: Literal["conversation", "windowed"] = "conversation"
    """What models see: the whole conversation, or a window of the last turns."""
    history_length: int = Field(2, ge=0)
    """Turns in the window."""
    template: str | None = None
    """Prompt template of models: a YAML file, a shipped name, or none."""
    num_envs: int = Field(16, ge=1)
    """Episodes at once."""
    workers: int = Field(0, ge=0)
    """Worker processes that hold the environments."""
    resume: bool = False
    """Finish a recording that was stopped."""
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False
    """Print a summary as JSON on standard output, and nothing else there."""


_SHARED = [
    "env",
    "split",
    "seed",
    "temperature",
    "top_p",
    "max_response_tokens",
    "data_dir",
    "max_steps",
    "action_format",
    "env_kwargs",
    "prompt",
    "history_length",
    "template",
    "num_envs",
    "workers",
]


def collect(config: CollectConfig) -> dict[str, Any]:
    """Record what the settings say; return a summary.

    Raises:
        ConfigError: If a setting cannot work, or the file is there and is not to be resumed.
        AgentGymError: Whatever ends it early; what was recorded is kept.
    """
    recorders = [parse_recorder(name) for name in config.policies]
    if not recorders:
        raise ConfigError("expected at least one policy in --policies")
    if len({recorder.name for recorder in recorders}) < len(recorders):
        raise ConfigError("--policies names a policy twice; raise --episodes to record more of each")
    path = Path(config.out).expanduser()
    with closing(Setup(RunConfig(method="random", **{name: getattr(config, name) for name in _SHARED}))) as setup:
        _prepare(path, config, setup)
        done = _count(path)
        title = f"recording {setup.env_id.rsplit('/', 1)[-1]} {setup.split}"
        with EpisodeProgress(title, config.episodes - sum(done.values())) as bar:
            record(
                path,
                recorders,
                episodes=config.episodes,
                seed=config.seed,
                env_id=setup.env_id,
                make_envs=setup.make_envs,
                probe=setup.probe,
                prompt=setup.prompt(),
                sampling=setup.sampling,
                on_episode=bar.add,
            )
        return _summary(path, setup, recorders)


def _prepare(path: Path, config: CollectConfig, setup: Setup) -> None:
    """Check what is there, and write down what is going to be."""
    if path.is_dir() or not path.name:
        raise ConfigError(f"--out {path} is a folder; expected the name of a file, such as recordings.jsonl")
    beside = path.with_name(path.name + ".json")
    settings = config.model_dump(mode="json", exclude={"out", "resume", "as_json", "num_envs", "workers"})
    environment = describe_environment(
        data=setup.probe.tasks.source, data_hash=setup.probe.data_hash, split=setup.split
    )
    if path.exists() and path.stat().st_size:
        if not config.resume:
            raise ConfigError(f"{path} already holds trajectories; finish it with --resume, or choose another --out")
        if not beside.exists():
            raise ConfigError(f"{path} was not made by this command ({beside.name} is missing); choose another --out")
        stored = read_json(beside)
        if found := differences(stored.get("config", {}), settings):
            raise ConfigError(f"{path} was recorded with other settings ({'; '.join(found)}); choose another --out")
        if stored.get("environment", {}).get("data", {}).get("hash") != environment["data"]["hash"]:
            raise ConfigError(f"{path} was recorded from other data; choose another --out")
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot make the folder {path.parent}: {error.strerror or error}") from error
    write_json(beside, {"config": settings, "environment": environment})


def _count(path: Path) -> Counter[str]:
    return Counter(t.policy for t in iter_trajectories(path)) if path.exists() else Counter()


def _summary(path: Path, setup: Setup, recorders: Sequence[Recorder]) -> dict[str, Any]:
    found: dict[str, list[tuple[str, int, int]]] = {recorder.name: [] for recorder in recorders}
    for trajectory in iter_trajectories(path):
        found.setdefault(trajectory.policy, []).append(_facts(trajectory))
    return {
        "file": str(path),
        "env": setup.env_id,
        "data": setup.probe.tasks.source,
        "split": setup.split,
        "trajectories": sum(map(len, found.values())),
        "policies": {
            name: {
                "trajectories": len(rows),
                "success_rate": sum(outcome == "success" for outcome, _, _ in rows) / max(len(rows), 1),
                "mean_steps": sum(steps for _, steps, _ in rows) / max(len(rows), 1),
                "assistant_tokens": sum(tokens for _, _, tokens in rows),
                "errors": sum(outcome == "error" for outcome, _, _ in rows),
            }
            for name, rows in found.items()
        },
    }


def _facts(trajectory: Trajectory) -> tuple[str, int, int]:
    return trajectory.outcome, len(trajectory), int(trajectory.token_counts.sum())


def main(args: Sequence[str] | None = None, *, prog: str = "python -m agentgym_ttg.benchmarks.collect") -> int:
    """Run the command; return the exit status."""
    words = list(sys.argv[1:] if args is None else args)

    def command() -> int:
        try:
            config = tyro.cli(CollectConfig, args=words, prog=prog, description="Record trajectories of policies.")
        except ValidationError as error:
            first = error.errors()[0]
            raise ConfigError(f"flags: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
        try:
            summary = collect(config)
        except (KeyboardInterrupt, TrajectoryFileError):
            again = " ".join(map(shlex.quote, [*words, *([] if "--resume" in words else ["--resume"])]))
            print(f"what was recorded is kept; go on with: {prog} {again}", file=sys.stderr)
            raise
        if config.as_json:
            print(json.dumps(summary, indent=2))
        else:
            _print(summary)
        return 0

    return guarded(command)


def _print(summary: dict[str, Any]) -> None:
    table = Table(title=f"{summary['env']}, {summary['split']} ({summary['data']})")
    for name in ("policy", "trajectories", "success", "steps", "assistant tokens", "errors"):
        table.add_column(name, justify="left" if name == "policy" else "right")
    for name, row in summary["policies"].items():
        table.add_row(
            name,
            str(row["trajectories"]),
            f"{row['success_rate']:.1%}",
            f"{row['mean_steps']:.1f}",
            str(row["assistant_tokens"]),
            str(row["errors"]),
        )
    console = Console()
    console.print(table)
    console.print(f"file: {summary['file']}", highlight=False, markup=False, soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
