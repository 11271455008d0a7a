"""``python -m agentgym_ttg.benchmarks.steps NAME``: evaluate step scorers."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro
from pydantic import ValidationError
from rich.console import Console

from agentgym_ttg.core.errors import ConfigError, DataError

from ..console import guarded, with_status
from ..run_folder import write_json
from .attribution import evaluate_attribution
from .best_of_n import evaluate_best_of_n
from .config import AttributionConfig, BestOfNConfig, OutputConfig, QualityConfig, UncertaintyConfig
from .quality import evaluate_quality
from .tables import print_results
from .uncertainty import evaluate_uncertainty

__all__ = ["main"]

_WIDTH = 180
_PROG = "python -m agentgym_ttg.benchmarks.steps"


@dataclass(frozen=True, slots=True)
class _Evaluation:
    config: type[OutputConfig]
    run: Callable[[Any, Callable[[str], None]], dict[str, Any]]
    summary: str


_EVALUATIONS = {
    "quality": _Evaluation(QualityConfig, evaluate_quality, "signs of step scores against labels (AgentProcessBench)"),
    "attribution": _Evaluation(AttributionConfig, evaluate_attribution, "find the decisive mistake (Who & When)"),
    "uncertainty": _Evaluation(UncertaintyConfig, evaluate_uncertainty, "scores against success, also early"),
    "best-of-n": _Evaluation(BestOfNConfig, evaluate_best_of_n, "pick one of N trajectories by score"),
}


def main(args: Sequence[str] | None = None, *, prog: str = _PROG) -> int:
    """Run the command; return the exit status."""
    words = list(sys.argv[1:] if args is None else args)
    if not words or words[0] in ("-h", "--help"):
        lines = "\n".join(f"  {name:<13}{one.summary}" for name, one in _EVALUATIONS.items())
        print(f"usage: {prog} NAME [options]\n\n{lines}\n\n{prog} NAME --help tells its options.")
        return 0 if words else 2

    def command() -> int:
        chosen = _EVALUATIONS.get(words[0])
        if chosen is None:
            from agentgym_ttg.core.errors import nearest

            hint = nearest(words[0], _EVALUATIONS)
            raise ConfigError(
                f"unknown evaluation {words[0]!r}; expected one of {', '.join(_EVALUATIONS)}"
                + (f" (did you mean {hint[0]!r}?)" if hint else "")
            )
        _run(chosen, _parsed(chosen, words, prog))
        return 0

    return guarded(command)


def _parsed(chosen: _Evaluation, words: Sequence[str], prog: str) -> OutputConfig:
    try:
        return tyro.cli(
            chosen.config, args=list(words[1:]), prog=f"{prog} {words[0]}", description=f"{chosen.summary}."
        )
    except ValidationError as error:
        first = error.errors()[0]
        flag = "--" + ".".join(map(str, first["loc"])).replace("_", "-")
        raise ConfigError(f"{flag}: {first['msg']}, got {first.get('input')!r}") from error


def _run(chosen: _Evaluation, config: OutputConfig) -> None:
    folder = None if config.out is None else _folder(Path(config.out).expanduser())
    if config.threads is not None:
        _set_threads(config.threads)
    results = with_status(chosen.summary, lambda say: chosen.run(config, say))
    if folder is not None:
        from .plots import draw

        write_json(folder / "results.json", results)  # first: plots may want a package that is not there
        draw(results, folder, config.plot_format)
    if config.as_json:
        print(json.dumps(results, indent=2, allow_nan=False))
        return
    out = Console()
    if not out.is_terminal:
        out = Console(width=_WIDTH)  # a file or pipe has no edge at which numbers must be cut
    print_results(results, out)
    if folder is not None:
        out.print(f"results and plots: {folder}", highlight=False, markup=False, soft_wrap=True)


def _folder(folder: Path) -> Path:
    """Make the folder before anything is computed.

    Raises:
        DataError: If it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"cannot make the folder {folder}: {error.strerror or error}; choose another --out") from error
    return folder


def _set_threads(count: int) -> None:
    try:
        import torch
    except ImportError:  # nothing that would use them
        return
    torch.set_num_threads(count)
