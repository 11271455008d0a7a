"""Reports of runs: of one run its page, of several a comparison in the paper's tables and figures.

One HTML file, readable offline, nothing in it that runs; a comparison has Markdown, CSV and PNG beside it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from agentgym_ttg.core.errors import ConfigError, DataError

from ..compare.load import COMPARISON_FILE
from ..compare.tables import as_csv
from ..console import guarded
from ..run_folder import write_text
from ._comparison import render_comparison, write_markdown
from ._figures import can_draw, save_picture
from ._load import RunRecord, load_run
from ._page import render
from ._plots import pictures
from ._sheets import curves_csv
from ._study import load_study

__all__ = ["RunRecord", "load_run", "main", "render", "write_comparison_report", "write_report"]


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
    _folder(path.parent)
    _write(path, page)
    return path


def write_comparison_report(
    runs: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str] | None = None,
    *,
    reference: str | None = None,
    paper: bool = False,
    png: bool | None = None,
) -> Path:
    """Write the report of several runs, or of a comparison, into a folder; return the page.

    ``report.html`` is the page, ``report.md`` the same as Markdown, ``results.csv`` the numbers for each environment
    and method, ``curves.csv`` every evaluation during training; the pictures are PNG files beside them.

    Args:
        runs: Run folders and comparison folders.
        out: The folder, or its page if the name ends in ``.html``; default ``report`` in the comparison's folder, or in
            the current one where several folders were given.
        reference: Label of what the others are compared with; default what the comparison says, else ``grpo``.
        paper: Whether to show the paper's numbers beside ours.
        png: Whether to draw the PNG files; None draws them if matplotlib is installed.

    Raises:
        ConfigError: If a folder holds no run, or there is no such reference.
        DataError: If the disk takes a file not.
        MissingDependencyError: If ``png`` is true and matplotlib is not installed.
    """
    paths = [Path(run).expanduser() for run in runs]
    study = load_study(paths, reference=reference)
    place = Path(out).expanduser() if out is not None else (paths[0] if len(paths) == 1 else Path()) / "report"
    page = place if place.suffix == ".html" else place / "report.html"
    folder = page.parent
    _folder(folder)
    drawn = [picture for env in study.envs for picture in pictures(env)]
    with_files = can_draw() if png is None else png
    for picture in drawn if with_files else ():
        save_picture(picture, folder)
    _write(page.with_suffix(".md"), write_markdown(study, drawn if with_files else (), paper=paper))
    _write(folder / "results.csv", as_csv(study.comparison))
    _write(folder / "curves.csv", curves_csv(study.runs))
    _write(page, render_comparison(study, paper=paper))
    return page


def _folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"cannot write into {path}: {error.strerror or error}") from error


def _write(path: Path, text: str) -> None:
    try:
        write_text(path, text.encode("utf-8", "replace").decode("utf-8"))  # a lone surrogate ends no report
    except DataError as error:
        raise DataError(
            f"cannot write the report {path}: {error.__cause__}; choose another place with --out"
        ) from error


@dataclass
class _Options:
    runs: tyro.conf.Positional[tuple[str, ...]]
    """Run folders, or the folder of a comparison. One run has its page; several have a comparison."""
    out: str | None = None
    """File of one run's report (default report.html in it); folder of a comparison's (default report in it)."""
    samples: int = 12
    """Sample trajectories to show of one run."""
    reference: str | None = None
    """What the others are compared with: a method or variant; default what the comparison says, else grpo."""
    paper: bool = False
    """Show the paper's numbers beside ours, labelled as the paper's."""
    png: Annotated[bool | None, tyro.conf.FlagConversionOff] = None
    """True draws the comparison's pictures as PNG files, too; None does if matplotlib is there."""


def main(args: Sequence[str] | None = None, *, prog: str = "python -m agentgym_ttg.benchmarks.report") -> int:
    """Run the command; return the exit status."""
    words = list(sys.argv[1:] if args is None else args)

    def command() -> int:
        options = tyro.cli(_Options, args=words, prog=prog, description="An HTML report of runs, or of a comparison.")
        if not options.runs:
            raise ConfigError("expected run folders, or the folder of a comparison")
        first = Path(options.runs[0]).expanduser()
        if len(options.runs) == 1 and not (first / COMPARISON_FILE).is_file():
            print(write_report(first, options.out, samples=options.samples))
            return 0
        if options.png is None and not can_draw():
            print("no PNG files: matplotlib is not installed (the extra 'train' has it)", file=sys.stderr)
        page = write_comparison_report(
            options.runs, options.out, reference=options.reference, paper=options.paper, png=options.png
        )
        print(page)
        return 0

    return guarded(command)
