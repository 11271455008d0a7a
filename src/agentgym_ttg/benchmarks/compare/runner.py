"""Running the jobs of a comparison within a budget of cores, each in a process of its own.

What is done is found in the folders themselves, never in a list beside them: a run is done when its ``results.json``
says so, a shared stage when its ``stages.json`` names it. So the comparison can be stopped anywhere, with its jobs.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from agentgym_ttg.core.errors import ConfigError, DataError

from ..config import differences
from ..run_folder import read_json, write_json
from .plan import Job, Plan

__all__ = ["JobState", "Runner", "State"]

State = Literal["waiting", "running", "done", "failed", "blocked"]

#: Seconds between two looks at the processes, and between two writings of ``status.json``.
_LOOK, _REPORT = 0.2, 5.0
#: Seconds that jobs have to stop in good order.
_GRACE = 30.0
#: Lines of a failed job's log that are shown.
_TAIL = 12
#: Exit status of a run for what the user has to mend; trying again would not.
_USAGE = 2


@dataclass(eq=False, slots=True)
class JobState:
    """How far a job is.

    Attributes:
        job: The job.
        state: ``blocked``: a shared job that it needs has failed.
        attempts: How often it was started by this process.
        done: Policy updates done.
        success: Success rate of the last update, None before the first.
        seconds: Wall time of its processes, of this comparison's process alone.
        error: The last lines of its log, where it failed.
    """

    job: Job
    state: State = "waiting"
    attempts: int = 0
    done: int = 0
    success: float | None = None
    seconds: float = 0.0
    error: str = ""
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0


class Runner:
    """Starts jobs, watches them, and tries again what failed.

    Args:
        plan: The jobs.
        folder: The comparison's folder.
        slots: Jobs at once.
        threads: CPU threads of each.
        retries: How often a failed job is started again.
        on_change: Called with a job whose state has changed.

    Raises:
        ConfigError: If a folder holds a run with other settings.
    """

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        *,
        slots: int = 1,
        threads: int = 1,
        retries: int = 1,
        on_change: Callable[[JobState], Any] = lambda state: None,
    ) -> None:
        self.folder = folder
        self.slots = slots
        self.threads = threads
        self.retries = retries
        self.on_change = on_change
        self.states = {job.path: JobState(job) for job in plan.jobs}
        self._began = time.time()
        for state in self.states.values():
            self._check(state.job)
            state.state = "done" if self.is_done(state.job) else "waiting"
            self.look(state)
        # A shared stage that no run waits for any more need not be there.
        runs = [state for state in self.states.values() if state.job.until is None]
        owed = {need.path for state in runs if state.state != "done" for need in _all(state.job)}
        for path, state in list(self.states.items()):
            if state.job.until is not None and state.state != "done" and path not in owed:
                del self.states[path]

    def is_done(self, job: Job) -> bool:
        """Whether a job's folder holds all that it is to hold."""
        place = self.folder / job.path
        if job.until is None:
            return bool(_object(place / "results.json").get("complete"))
        return job.until in _object(place / "stages.json")

    def run(self, on_tick: Callable[[], Any] = lambda: None) -> bool:
        """Run what is not done; return whether all of it is.

        However it is left, no job goes on.

        Args:
            on_tick: Called at every look at the processes.

        Raises:
            DataError: If the disk takes no more.
        """
        reported = 0.0
        try:
            while True:
                for state in self.running:
                    self._reap(state)
                self._start_what_can()
                if time.monotonic() - reported > _REPORT:
                    self.write_status()
                    reported = time.monotonic()
                on_tick()
                if not self.running and not any(self._ready(state) for state in self.states.values()):
                    break
                time.sleep(_LOOK)
        finally:
            self._stop()
            with suppress(DataError):
                self.write_status()
        return all(state.state == "done" for state in self.states.values())

    @property
    def running(self) -> list[JobState]:
        """The jobs that have a process."""
        return [state for state in self.states.values() if state.process is not None]

    def write_status(self) -> None:
        """Replace ``status.json``.

        Raises:
            DataError: If the disk takes it not.
        """
        for state in self.running:
            self.look(state)
        rows = [
            {
                "path": state.job.path,
                "state": state.state,
                "attempts": state.attempts,
                "updates_done": state.done,
                "updates": state.job.total,
                "success": state.success,
                "seconds": round(self._seconds(state), 1),
                "error": state.error,
            }
            for state in self.states.values()
        ]
        counts = {name: sum(row["state"] == name for row in rows) for name in get_args(State)}
        write_json(
            self.folder / "status.json",
            {"process": os.getpid(), "seconds": round(time.time() - self._began, 1), "counts": counts, "jobs": rows},
        )

    def look(self, state: JobState) -> None:
        """Read how far a run is."""
        if state.job.until is not None:
            return
        lines = _last_lines(self.folder / state.job.path / "metrics.jsonl")
        if lines is not None:
            with suppress(ValueError, KeyError):
                row = json.loads(lines)
                state.done, state.success = int(row["update"]) + 1, float(row["success"])

    # Starting -----------------------------------------------------------------------------------------------------

    def _ready(self, state: JobState) -> bool:
        return state.state == "waiting" and all(self._state_of(need) == "done" for need in state.job.needs)

    def _state_of(self, job: Job) -> State:
        state = self.states.get(job.path)
        return state.state if state is not None else "done"

    def _start_what_can(self) -> None:
        for state in self.states.values():
            lost = [need.path for need in state.job.needs if self._state_of(need) in ("failed", "blocked")]
            if state.state == "waiting" and lost:
                state.error = f"needs {lost[0]}, which failed"
                self._set(state, "blocked")
        for state in self.states.values():
            if len(self.running) >= self.slots:
                return
            if not self._ready(state):
                continue
            if _locked(self.folder / state.job.path):
                state.error = "its folder is being written by another process; waiting for that to end"
                continue
            self._start(state)

    def _start(self, state: JobState) -> None:
        job = state.job
        place = self.folder / job.path
        place.mkdir(parents=True, exist_ok=True)
        settings = self._settings(job)
        if job.until == "meter":
            self._lay_in_recordings(job)
        file = self._beside(job, "settings", ".json")
        write_json(file, settings)
        command = [sys.executable, "-m", "agentgym_ttg.benchmarks.compare.worker", "--config", str(file)]
        command += ["--out", str(place), "--resume", "--threads", str(self.threads), "--json"]
        if job.until is not None:
            command += ["--until", job.until]
        log = self._log(job)
        state.attempts += 1
        with open(log, "ab") as file_handle:
            file_handle.write(f"--- attempt {state.attempts}: {' '.join(command)}\n".encode())
            file_handle.flush()
            environment = {**os.environ, "OMP_NUM_THREADS": str(self.threads), "PYTHONUNBUFFERED": "1"}
            state.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=file_handle,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,  # Ctrl-C reaches the comparison, which stops its jobs in good order
            )
        state.started = time.monotonic()
        self._set(state, "running")

    def _settings(self, job: Job) -> dict[str, Any]:
        """Return the settings of a job, with what the shared jobs have made."""
        stored = self.folder / job.path / "config.json"
        if job.until is not None and stored.is_file():
            return read_json(stored)  # made for other runs, but with all that matters for these
        settings = dict(job.settings)
        if job.warm_start is not None:
            stages = read_json(self.folder / job.warm_start.path / "stages.json")
            settings["warm_start_from"] = stages["warm_start"]["result"]
        return settings

    def _lay_in_recordings(self, job: Job) -> None:
        """Give a meter's folder the recordings, as if it had made them."""
        source = next(self.folder / need.path for need in job.needs if need.until == "recordings")
        place = self.folder / job.path
        stages = place / "stages.json"
        if stages.exists():
            return
        target = place / "recordings.jsonl"
        target.unlink(missing_ok=True)
        try:
            os.link(source / "recordings.jsonl", target)
        except OSError:  # a file system without links
            shutil.copyfile(source / "recordings.jsonl", target)
        write_json(stages, read_json(source / "stages.json"))

    def _check(self, job: Job) -> None:
        """Refuse a folder that holds another run."""
        stored = self.folder / job.path / "config.json"
        if job.until is not None or not stored.is_file():
            return
        before, now = read_json(stored), dict(job.settings)
        if job.warm_start is not None:  # known only when it is made
            now["warm_start_from"] = before.get("warm_start_from")
        if found := differences(before, now):
            raise ConfigError(
                f"{stored.parent} holds a run with other settings ({'; '.join(found)}); give this comparison another "
                "folder with --out, or the run another name (variants)"
            )

    # Ending -------------------------------------------------------------------------------------------------------

    def _reap(self, state: JobState) -> None:
        assert state.process is not None
        status = state.process.poll()
        if status is None:
            return
        self._close(state)
        if status == 0 and self.is_done(state.job):
            state.error = ""
            self._set(state, "done")
            return
        state.error = f"exit status {status}\n{self._tail(state.job)}".strip()
        again = status != _USAGE and state.attempts <= self.retries
        self._set(state, "failed")
        if again:
            state.state = "waiting"

    def _stop(self) -> None:
        """End the jobs that are running; they keep what they have."""
        for state in self.running:
            assert state.process is not None
            assert state.process.stdin is not None
            state.process.stdin.close()  # the worker stops itself
        deadline = time.monotonic() + _GRACE
        for state in self.running:
            assert state.process is not None
            try:
                state.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                state.process.kill()
                state.process.wait()
            self._close(state)
            state.state = "waiting"

    def _close(self, state: JobState) -> None:
        state.seconds = self._seconds(state)
        if state.process is not None and state.process.stdin is not None:
            state.process.stdin.close()
        state.process = None
        self.look(state)

    def _set(self, state: JobState, new: State) -> None:
        state.state = new
        self.on_change(state)

    def _seconds(self, state: JobState) -> float:
        return state.seconds + (time.monotonic() - state.started if state.process is not None else 0.0)

    # Files beside the run folders ---------------------------------------------------------------------------------

    def _beside(self, job: Job, kind: str, suffix: str) -> Path:
        path = self.folder / kind / (job.path.replace("/", "_") + suffix)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def _log(self, job: Job) -> Path:
        return self._beside(job, "logs", ".log")

    def _tail(self, job: Job) -> str:
        with suppress(OSError):
            text = self._log(job).read_text(encoding="utf-8", errors="replace")
            return "\n".join(text.rsplit("--- attempt", 1)[-1].splitlines()[1:][-_TAIL:])
        return ""


def _all(job: Job) -> set[Job]:
    """Return all that a job needs, directly or not."""
    return {other for need in job.needs for other in (need, *_all(need))}


def _locked(folder: Path) -> bool:
    """Whether another process writes the folder: a job of an earlier comparison that is still stopping."""
    try:
        with open(folder / ".lock", "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def _object(path: Path) -> dict[str, Any]:
    return read_json(path) if path.is_file() else {}


def _last_lines(path: Path) -> str | None:
    """Return the last complete line of a file, None where there is none."""
    try:
        with open(path, "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 65536))
            lines = file.read().split(b"\n")[:-1]
    except OSError:
        return None
    return lines[-1].decode(errors="replace") if lines else None
