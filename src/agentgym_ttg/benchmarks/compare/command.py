"""``python -m agentgym_ttg.benchmarks.compare``: methods x environments x seeds, into a comparison folder.

===================== ========================================================================
``compare.json``      the settings, and which run folder is which run
``runs/``             ordinary run folders, ``ENVIRONMENT/LABEL/seed-N``
``shared/``           what runs share: warm start, recordings, meters; run folders too
``settings/, logs/``  what each job was started with, and what it said
``status.json``       how far it is
``results.json``      the comparison; also ``compare.md`` and ``compare.csv``
===================== ========================================================================
"""

from __future__ import annotations

import fcntl
import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from agentgym_ttg.core.errors import ConfigError, DataError

from ..console import guarded
from ..run_folder import write_json, write_text
from .aggregate import aggregate
from .config import CompareConfig, parse_comparison, stored_settings
from .load import COMPARISON_FILE, load_runs
from .plan import Plan, make_plan, variants_of
from .progress import CompareProgress
from .runner import Runner
from .tables import as_csv, as_markdown, rich_tables

__all__ = ["main"]

_DESCRIPTION = "Compare methods on environments over seeds; the same command again goes on where it stopped."


def main(args: Sequence[str] | None = None, *, prog: str = "python -m agentgym_ttg.benchmarks.compare") -> int:
    """Run the command; return the exit status: 0 if every run is there, 1 if one is missing."""
    words = list(sys.argv[1:] if args is None else args)

    def command() -> int:
        config = parse_comparison(words, prog=prog, description=_DESCRIPTION)
        assert config.out is not None
        folder = Path(config.out).expanduser().absolute()
        _check_reference(config)
        plan = make_plan(config, folder)
        if config.dry_run:
            _list_jobs(Runner(plan, folder), as_json=config.as_json)
            return 0
        with _locked(folder):
            try:
                complete = _run(config, plan, folder)
            except KeyboardInterrupt:
                again = f"{prog} --out {shlex.quote(config.out)}"
                print(f"what was finished is kept; go on with: {again}", file=sys.stderr)
                raise
            _conclude(config, folder)
        return 0 if complete else 1

    return guarded(command)


def _check_reference(config: CompareConfig) -> None:
    labels = [variant.label for variant in variants_of(config)]
    if config.reference not in labels and len(labels) > 1:
        raise ConfigError(
            f"the reference {config.reference!r} is none of what is compared ({', '.join(labels)}); add it to "
            "--methods, or name another with --reference"
        )


def _run(config: CompareConfig, plan: Plan, folder: Path) -> bool:
    with CompareProgress() as progress:
        runner = Runner(
            plan,
            folder,
            slots=max(1, config.cores // config.threads_per_job),
            threads=config.threads_per_job,
            retries=config.retries,
            on_change=progress.changed,
        )
        # Only now: what the folder says of itself stays where its runs are found to be others.
        write_json(folder / COMPARISON_FILE, {"settings": stored_settings(config), "jobs": plan.entries})
        progress.watch(runner)
        complete = runner.run(progress.tick)
    missing = [state for state in runner.states.values() if state.state != "done"]
    for state in missing:
        print(f"missing: {state.job.path} ({state.state}): {state.error}", file=sys.stderr)
    return complete


def _list_jobs(runner: Runner, *, as_json: bool) -> None:
    rows: list[dict[str, Any]] = [
        {
            "path": state.job.path,
            "state": state.state,
            "updates_done": state.done,
            "updates": state.job.total,
            "needs": [need.path for need in state.job.needs],
        }
        for state in runner.states.values()
    ]
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    table = Table("state", "updates", show_lines=False)
    for name in ("job", "needs"):
        table.add_column(name, overflow="fold")
    for row in rows:
        updates = f"{row['updates_done']}/{row['updates']}" if row["updates"] else ""
        table.add_row(row["state"], updates, row["path"], "\n".join(row["needs"]))
    Console().print(table)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep a second comparison out of the folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / ".lock", "ab") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise ConfigError(f"{folder} is being written by another comparison; wait for it") from error
            yield
    except OSError as error:
        raise DataError(
            f"cannot write into {folder}: {error.strerror or error}. Choose another folder with --out"
        ) from error


def _conclude(config: CompareConfig, folder: Path) -> None:
    """Put together what is there, into files and onto standard output.

    Raises:
        DataError: If the disk takes it not.
    """
    comparison = aggregate(load_runs([folder]), reference=config.reference)
    results = comparison.as_json()
    write_json(folder / "results.json", results)
    write_text(folder / "compare.md", as_markdown(comparison))
    write_text(folder / "compare.csv", as_csv(comparison))
    if config.as_json:
        print(json.dumps(results, indent=2))
        return
    console = Console()
    for table in rich_tables(comparison):
        console.print(table)
    console.print(f"comparison: {folder}", highlight=False, markup=False, soft_wrap=True)
