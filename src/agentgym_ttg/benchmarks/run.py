"""``python -m agentgym_ttg.benchmarks.run``: play or train a method on an environment, into a run folder."""

from __future__ import annotations

import datetime
import json
import shlex
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from agentgym_ttg.agents.methods import get_method
from agentgym_ttg.core.errors import ConfigError, PolicyError, TrajectoryFileError

from .config import RunConfig, flat, layered, load_config_file, parse_flags, peek
from .console import EpisodeProgress, guarded, print_results
from .environment import describe_environment
from .evaluate import Evaluation
from .report import write_report
from .run_folder import RunFolder, read_json
from .setup import Setup, resolve, short_name

__all__ = ["execute", "main", "parse"]

_DESCRIPTION = "Play or train a method on an environment; everything that comes of it is kept in a run folder."


def parse(args: Sequence[str], *, prog: str = "agentgym-ttg run") -> RunConfig:
    """Return the settings of a command line: defaults or a resumed folder, preset, file, flags.

    Raises:
        ConfigError: If there is nothing to resume, or a setting cannot be.
    """
    ahead = peek(args, "config", "preset", "method", "out", "resume")
    file = ahead.get("config")
    stored: dict[str, Any] | None = None
    if "resume" in ahead and ahead.get("out"):
        path = Path(ahead["out"]).expanduser() / "config.json"
        if path.exists():
            stored = read_json(path)
        elif "method" not in ahead and file is None:
            raise ConfigError(
                f"nothing to resume in {ahead['out']}: there is no config.json. Give --method and the other settings "
                "to start a run there"
            )
    preset = ahead.get("preset")
    method = ahead.get("method") or (load_config_file(file) if file else {}).get("method")
    in_file = file is not None and "preset" in load_config_file(file)
    if stored is None and preset is None and not in_file and method and get_method(str(method)).kind == "train":
        preset = "cpu"
    config = parse_flags(layered(stored=stored, preset=preset, file=file), args, prog=prog, description=_DESCRIPTION)
    if config.resume and config.out is None:
        raise ConfigError("--resume needs the run folder; name it with --out")
    return config


def execute(config: RunConfig, *, program: str = "python -m agentgym_ttg.benchmarks.run") -> dict[str, Any]:
    """Run what the settings say; return the results.

    Raises:
        ConfigError: If a setting cannot work.
        AgentGymError: Whatever ends the run early; the run folder keeps what there is.
    """
    with closing(Setup(config)) as setup:
        config = setup.config
        out = Path(config.out) if config.out else _new_folder(config)
        if setup.method.kind == "train":
            from .train import require_training, train

            require_training()
            setup.prompt()
            with _folder(setup, out, program) as folder:
                return train(setup, folder)
        if config.until is not None:
            raise ConfigError(f"--until concerns methods that train; {config.method!r} only plays")
        policy = setup.policy()  # before there is a folder: a model that does not load leaves none behind
        _ = setup.scorer
        setup.prompt()
        with _folder(setup, out, program) as folder:
            evaluation = Evaluation(setup, folder, policy)
            title = f"{config.method} on {setup.env_id.rsplit('/', 1)[-1]} {setup.split}"
            with EpisodeProgress(title, len(evaluation.owed), show=config.show) as bar:
                return evaluation.run(bar.add)


def _new_folder(config: RunConfig) -> Path:
    name = short_name(config.env)
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    base = Path("runs") / f"{stamp}-{name}-{config.method}"
    path, number = base, 1
    while path.exists():
        number += 1
        path = base.with_name(f"{base.name}-{number}")
    return path


def _folder(setup: Setup, out: Path, program: str) -> RunFolder:
    environment = describe_environment(
        data=setup.probe.tasks.source, data_hash=setup.probe.data_hash, split=setup.split
    )
    return RunFolder(out, flat(setup.config), environment, resume=setup.config.resume, program=program)


def main(args: Sequence[str] | None = None, *, prog: str = "python -m agentgym_ttg.benchmarks.run") -> int:
    """Run the command; return the exit status."""
    words = list(sys.argv[1:] if args is None else args)

    def command() -> int:
        config = parse(words, prog=prog)
        # Named now, so that an interrupted run can say where it lies.
        folder = config.out or str(_new_folder(resolve(config)))
        config = config.model_copy(update={"out": folder})
        try:
            results = execute(config, program=prog)
        except (KeyboardInterrupt, PolicyError, TrajectoryFileError):
            if (Path(folder).expanduser() / "config.json").exists():
                print(
                    f"what was finished is kept; go on with: {prog} --resume --out {shlex.quote(folder)}",
                    file=sys.stderr,
                )
            raise
        if config.until is not None:
            print(json.dumps(results, indent=2) if config.as_json else f"prepared until {config.until}: {folder}")
            return 0
        report = write_report(folder)
        if config.as_json:
            print(json.dumps(results, indent=2))
        else:
            print_results(results, folder, str(report))
        return 0

    return guarded(command)


if __name__ == "__main__":
    sys.exit(main())
