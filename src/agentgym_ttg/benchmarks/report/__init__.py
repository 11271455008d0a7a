"""An HTML report of a run folder: one file, readable offline, nothing in it that runs."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import tyro

from agentgym_ttg.core.errors import ConfigError, DataError

from ..console import guarded
from ._load import RunRecord, load_run
from ._page import render

__all__ = ["RunRecord", "load_run", "main", "render", "write_report"]


def write_report(run: str | os.PathLike[str], out: str | os.PathLike[str] | None = None, *, samples: int = 12) -> Path:
    """Write the report of a run folder; return the file.

    Args:
        run: The run folder; it may still be growing.
        out: The file; default ``report.html`` in the folder.
        samples: At most so many sample trajectories.

    Raises:
        ConfigError: If it is no run folder.
        DataError: If the file cannot be written.
    """
    page = render(load_run(os.fspath(run), samples=samples))
    path = Path(out) if out is not None else Path(run).expanduser() / "report.html"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
                file.write(page)
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise DataError(f"cannot write the report {path}: {error.strerror or error}") from error
    return path


@dataclass
class _Options:
    runs: tyro.conf.Positional[tuple[str, ...]]
    """Run folders."""
    out: str | None = None
    """File of the report; default report.html in each run folder."""
    samples: int = 12
    """Sample trajectories to show."""


def main(args: Sequence[str] | None = None, *, prog: str = "python -m agentgym_ttg.benchmarks.report") -> int:
    """Run the command; return the exit status."""
    words = list(sys.argv[1:] if args is None else args)

    def command() -> int:
        options = tyro.cli(_Options, args=words, prog=prog, description="An HTML report of a run folder.")
        if not options.runs:
            raise ConfigError("expected a run folder")
        if options.out is not None and len(options.runs) > 1:
            raise ConfigError("--out names one file, but several run folders were given")
        for run in options.runs:
            print(write_report(run, options.out, samples=options.samples))
        return 0

    return guarded(command)
