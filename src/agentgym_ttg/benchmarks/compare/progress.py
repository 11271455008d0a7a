"""What is seen of a comparison while it runs: a bar over all runs and a line for each that goes on."""

from __future__ import annotations

from rich.console import Console
from rich.progress import TaskID, TextColumn, TimeElapsedColumn

from ..console import progress_bars
from .runner import JobState, Runner

__all__ = ["CompareProgress"]

_WORDS = {"running": "begun", "done": "done", "failed": "FAILED", "blocked": "BLOCKED"}


class CompareProgress:
    """Bars on a terminal; elsewhere one line for each change. Failures are told on either, and stay."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._bar = progress_bars(TextColumn("{task.fields[numbers]}"), TimeElapsedColumn(), console=self._console)
        self._lines: dict[str, TaskID] = {}
        self._all: TaskID | None = None
        self._runner: Runner | None = None

    def __enter__(self) -> CompareProgress:
        """Begin."""
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Take the bars away."""
        self._bar.stop()

    def watch(self, runner: Runner) -> None:
        """Show the jobs of a runner."""
        self._runner = runner
        self._all = self._bar.add_task("all jobs", total=len(runner.states), numbers="")
        self.tick()

    def changed(self, state: JobState) -> None:
        """Tell a job's new state."""
        path = state.job.path
        if state.state in ("failed", "blocked"):
            self._say(f"{_WORDS[state.state]}: {path} (attempt {state.attempts})\n{state.error}")
        elif not self._console.is_terminal:
            self._say(f"{_WORDS.get(state.state, state.state)}: {path}")

    def tick(self) -> None:
        """Bring the lines up to date."""
        if self._runner is None or self._all is None or self._bar.disable:
            return
        states = list(self._runner.states.values())
        failed = sum(state.state in ("failed", "blocked") for state in states)
        self._bar.update(
            self._all,
            completed=sum(state.state == "done" for state in states),
            numbers=f"{failed} failed" if failed else "",
        )
        running = {state.job.path: state for state in self._runner.running}
        for path in set(self._lines) - set(running):
            self._bar.remove_task(self._lines.pop(path))
        for path, state in running.items():
            if path not in self._lines:
                self._lines[path] = self._bar.add_task(path, total=state.job.total or None, numbers="")
            self._runner.look(state)
            shown = f"success {state.success:.1%}" if state.success is not None else state.job.until or ""
            self._bar.update(self._lines[path], completed=state.done, numbers=shown)

    def _say(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)
