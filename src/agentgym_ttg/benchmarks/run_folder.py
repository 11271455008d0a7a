"""The run folder: what was asked for, what it was made with, what came out; safe to be killed and resumed.

===================== ========================================================================
``config.json``       the settings; ``run --config`` reads it back
``environment.json``  versions, machine, commit, data hash
``trajectories.jsonl``the episodes, one a line, written as each finishes
``results.json``      the numbers; replaced atomically, ``"complete": false`` until all is there
===================== ========================================================================

Runs that train keep more beside these (``agentgym_ttg.benchmarks.report`` names the files it reads).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shlex
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from agentgym_ttg.core.errors import ConfigError, DataError

from .config import differences

__all__ = ["RunFolder", "object_of", "read_json", "rows_of", "write_json", "write_text"]

_LOCK = ".lock"


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file so that at any moment the old or the new one is there, whole.

    Raises:
        DataError: If the disk takes it not.
    """
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text file so that at any moment the old or the new one is there, whole.

    Raises:
        DataError: If the disk takes it not.
    """
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, 0o666 & ~_umask())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise DataError(
            f"cannot write {path}: {error.strerror or error}. Free space or choose another folder with --out, then "
            "run the command again with --resume"
        ) from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        DataError: If there is none.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    if not isinstance(value, dict):
        raise DataError(f"{path}: expected a JSON object, got {type(value).__name__}")
    return value


def object_of(path: Path) -> dict[str, Any]:
    """Return what a JSON file of a run holds that may still be going on; nothing where it is not there yet.

    Raises:
        ConfigError: If it is broken.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
    return value if isinstance(value, dict) else {}


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Return the complete lines of a JSON-lines file; a torn last one belongs to a run that is going on.

    Raises:
        ConfigError: If a line is broken.
    """
    if not path.is_file():
        return []
    out = []
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], 1):
        if line.strip():
            try:
                out.append(json.loads(line))
            except ValueError as error:
                raise ConfigError(f"{path}, line {number}: {error}") from error
    return [row for row in out if isinstance(row, dict)]


class RunFolder:
    """One run's folder, locked for this process.

    Args:
        path: The folder; made where it is not there.
        config: The flat settings.
        environment: What :func:`~agentgym_ttg.benchmarks.environment.describe_environment` says.
        resume: Whether to go on with what is there.
        program: The command that resumes, for messages.

    Raises:
        ConfigError: If the folder holds something and ``resume`` was not asked for, holds a run with other settings or
            other data, or is being written by another process.
        DataError: If it cannot be written.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        config: Mapping[str, Any],
        environment: Mapping[str, Any],
        *,
        resume: bool = False,
        program: str = "python -m agentgym_ttg.benchmarks.run",
    ) -> None:
        self.path = Path(path).expanduser()
        self.program = program
        self.resumed = False
        self._lock: IO[bytes] | None = None
        if not resume:
            self._check_empty()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = open(self.path / _LOCK, "ab")  # noqa: SIM115 - held until close()
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self.close()
            raise ConfigError(
                f"{self.path} is being written by another process; wait for it or choose --out"
            ) from error
        except OSError as error:
            self.close()
            raise DataError(
                f"cannot write into the run folder {self.path}: {error.strerror or error}. Choose another with --out"
            ) from error
        try:
            self._open(dict(config), dict(environment))
        except BaseException:
            self.close()
            raise

    def _check_empty(self) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise ConfigError(f"the run folder {self.path} is a file; choose another with --out")
        found = [entry.name for entry in self.path.iterdir() if entry.name != _LOCK] if self.path.is_dir() else []
        if found:
            what = "already holds a run" if self.config_file.exists() else f"is not empty ({sorted(found)[0]}, …)"
            raise ConfigError(
                f"{self.path} {what}; finish it with `{self.resume_command}`, or choose another folder with --out"
            )

    def _open(self, config: dict[str, Any], environment: dict[str, Any]) -> None:
        if self.config_file.exists():
            stored = read_json(self.config_file)
            if found := differences(stored, config):
                raise ConfigError(
                    f"{self.path} holds a run with other settings ({'; '.join(found)}); leave these out to resume it, "
                    "or choose another folder with --out"
                )
            if self.environment_file.exists():
                before = read_json(self.environment_file)
                self._check_data(before, environment)
                environment = {**before, "resumed": [*before.get("resumed", []), environment]}
            self.resumed = True
        else:
            write_json(self.config_file, config)
        write_json(self.environment_file, environment)

    def _check_data(self, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        old, new = before.get("data", {}), now.get("data", {})
        if old.get("hash") != new.get("hash"):
            raise ConfigError(
                f"{self.path} was made with other data: {old.get('source')} ({old.get('hash')}), now "
                f"{new.get('source')} ({new.get('hash')}). Give the run its data back with --data-dir, or choose "
                "another folder with --out"
            )

    @property
    def config_file(self) -> Path:
        """``config.json``."""
        return self.path / "config.json"

    @property
    def environment_file(self) -> Path:
        """``environment.json``."""
        return self.path / "environment.json"

    @property
    def trajectories(self) -> Path:
        """``trajectories.jsonl``."""
        return self.path / "trajectories.jsonl"

    @property
    def results_file(self) -> Path:
        """``results.json``."""
        return self.path / "results.json"

    @property
    def resume_command(self) -> str:
        """The command that finishes this run."""
        return f"{self.program} --resume --out {shlex.quote(str(self.path))}"

    def results_before(self) -> dict[str, Any]:
        """Return what was reported so far; empty where nothing was."""
        try:
            return read_json(self.results_file)
        except DataError:
            return {}

    def write_results(self, results: Mapping[str, Any]) -> None:
        """Replace ``results.json``.

        Raises:
            DataError: If the disk takes it not.
        """
        write_json(self.results_file, results)

    def close(self) -> None:
        """Release the folder; closing twice is fine."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def __enter__(self) -> Self:
        """Return the folder."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release the folder."""
        self.close()
