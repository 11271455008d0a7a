"""What the commands show: progress on standard error, results on standard output, errors in one paragraph."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from agentgym_ttg.core.errors import (
    AgentGymError,
    ConfigError,
    DataError,
    MissingDependencyError,
    TrajectoryFileError,
)
from agentgym_ttg.core.trajectory import Trajectory

__all__ = [
    "EpisodeProgress",
    "StageProgress",
    "Terminated",
    "guarded",
    "print_results",
    "progress_bars",
    "terminable",
    "transcript",
    "with_status",
]

T = TypeVar("T")

#: What the user can mend by calling again otherwise; everything else is a breakdown.
_USAGE = (ConfigError, DataError, MissingDependencyError, TrajectoryFileError)


class Terminated(KeyboardInterrupt):
    """SIGTERM, handled as Ctrl-C is: what is there is kept."""


@contextmanager
def terminable() -> Iterator[None]:
    """Turn SIGTERM into :class:`Terminated` while inside, in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def guarded(call: Callable[[], int]) -> int:
    """Run a command; an error of ours becomes one paragraph on standard error and an exit status.

    2 for what the user can mend, 1 for a breakdown, 130 for Ctrl-C, 143 for SIGTERM.
    """
    try:
        with terminable():
            return call()
    except Terminated:
        print("terminated", file=sys.stderr)
        return 143
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `| head` has seen enough
        sys.stderr.close()
        return 1
    except AgentGymError as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2 if isinstance(error, _USAGE) else 1


def with_status(text: str, work: Callable[[Callable[[str], None]], T]) -> T:
    """Do something and show on a terminal what is being done.

    Args:
        text: What is shown at first.
        work: Called with what takes the next text.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        return work(lambda told: None)
    with console.status(text) as status:
        return work(status.update)


def progress_bars(*columns: ProgressColumn, console: Console | None = None) -> Progress:
    """Return bars on standard error that vanish at the end; none where it is no terminal.

    Args:
        *columns: What stands behind the count.
        console: Where they are shown.
    """
    console = console or Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        *columns,
        console=console,
        disable=not console.is_terminal,
        transient=True,
    )


class EpisodeProgress:
    """A bar of episodes with the live success rate; nothing where standard error is no terminal.

    Args:
        description: What is being done.
        total: Episodes in all.
        show: Print the transcripts of the first episodes, so many.
    """

    def __init__(self, description: str, total: int, *, show: int = 0) -> None:
        self._show = show
        self._bar = progress_bars(TextColumn("{task.fields[numbers]}"), TimeRemainingColumn())
        self._description, self._total = description, total
        self._played = self._won = self._errors = 0
        self._task: TaskID | None = None

    def __enter__(self) -> EpisodeProgress:
        """Show the bar."""
        self._bar.start()
        self._task = self._bar.add_task(self._description, total=self._total, numbers="")
        return self

    def __exit__(self, *error: object) -> None:
        """Take the bar away."""
        self._bar.stop()

    def add(self, trajectory: Trajectory) -> None:
        """Count an episode."""
        if self._played < self._show:
            self._bar.console.print(transcript(trajectory), soft_wrap=True)
        self._played += 1
        self._won += trajectory.outcome == "success"
        self._errors += trajectory.outcome == "error"
        assert self._task is not None
        numbers = f"success {self._won / self._played:.1%}" + (f", {self._errors} errors" if self._errors else "")
        self._bar.update(self._task, advance=1, numbers=numbers)


def transcript(trajectory: Trajectory) -> Text:
    """Return a readable record of an episode, in colour."""
    out = Text(f"── {trajectory.task_id} ── {trajectory.policy}\n", style="bold")
    for turn in trajectory.turns:
        for message in turn.messages:
            out.append(_printable(message.content) + "\n", style="dim" if message.role == "system" else "")
        out.append(f"> {_printable(str(turn.completion))}", style="green" if turn.valid else "red")
        out.append(f"  ({turn.tokens} tokens)\n", style="dim")
    if trajectory.turns:
        out.append(_printable(trajectory.turns[-1].observation) + "\n")
    style = "bold green" if trajectory.success else "bold red"
    tokens = int(trajectory.token_counts.sum())
    out.append(f"── {trajectory.outcome}: {len(trajectory)} steps, {tokens} assistant tokens\n", style=style)
    return out


def _printable(text: str) -> str:
    """Leave out control characters, which a terminal would obey."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)


class StageProgress:
    """Stages of a longer run, one bar each; notes stay visible. A ``StageReporter`` for training."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._bar = progress_bars(TextColumn("{task.fields[numbers]}"), TimeRemainingColumn())
        self._task: TaskID | None = None

    def __enter__(self) -> StageProgress:
        """Begin."""
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Take the bars away."""
        self._bar.stop()

    def stage(self, name: str, total: int | None = None) -> None:
        """Begin a stage of ``total`` units."""
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._task = self._bar.add_task(name, total=total, numbers="")

    def advance(self, count: int = 1, **numbers: float) -> None:
        """Report progress in the stage, with numbers to show beside it."""
        if self._task is not None:
            self._bar.update(self._task, advance=count)
            if numbers:
                shown = " ".join(f"{name} {value:.3g}" for name, value in numbers.items())
                self._bar.update(self._task, numbers=shown)

    def note(self, text: str) -> None:
        """Say something that stays visible."""
        (self._bar.console if not self._bar.disable else self._console).print(text, highlight=False, markup=False)


def _rate(numbers: Mapping[str, Any]) -> str:
    return f"{numbers['success_rate']:.1%} [{numbers['success_low']:.1%}, {numbers['success_high']:.1%}]"


def print_results(results: Mapping[str, Any], folder: str, report: str) -> None:
    """Print the results as a table on standard output."""
    table = Table(title=f"{results['method']} on {results['env']}, {results['split']} ({results['data']})")
    table.add_column("")
    table.add_column("episodes", justify="right")
    table.add_column("success [95 % interval]", justify="right")
    table.add_column("steps", justify="right")
    kinds: Mapping[str, Mapping[str, Any]] = results["task_types"]
    for kind, numbers in kinds.items():
        table.add_row(kind, str(numbers["episodes"]), _rate(numbers), f"{numbers['mean_steps']:.1f}")
    if kinds:
        table.add_section()
    table.add_row("all", str(results["episodes"]), _rate(results), f"{results['mean_steps']:.1f}")
    console = Console()
    console.print(table)
    facts = [
        f"{results['assistant_tokens_per_episode']:.1f} assistant tokens per episode",
        f"{results['invalid_action_rate']:.1%} invalid actions",
        f"{results['errors']} errors",
        f"{results['wall_s']:.1f} s",
    ]
    console.print(", ".join(facts), highlight=False)
    for name, value in results["metrics"].items():
        console.print(f"{name}: {value:.4g}", highlight=False, markup=False)
    if scores := results.get("scores"):
        console.print(
            "official scores: " + ", ".join(f"{name} {value:.4g}" for name, value in scores.items()),
            highlight=False,
            markup=False,
        )
    console.print(f"run folder: {folder}\nreport: {report}", highlight=False, markup=False, soft_wrap=True)
