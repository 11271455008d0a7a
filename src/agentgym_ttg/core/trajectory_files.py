r"""Trajectory files: JSON lines, one trajectory a line, safe against a kill at any moment.

A file is only ever appended to, a whole line at a time. A process that dies while it writes leaves a torn last line:
readers pass over it and the next writer cuts it off, so that trajectory is owed again. Lines are split on ``\n`` only
and written as ASCII, so that every Python string survives the round trip (U+2028, NUL, lone surrogates).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from .completion import Completion, FinishReason
from .errors import MissingDependencyError, TrajectoryFileError
from .messages import Message, Role
from .trajectory import Outcome, Trajectory, Turn

__all__ = [
    "SCHEMA_VERSION",
    "TrajectoryWriter",
    "export_parquet",
    "iter_trajectories",
    "load_trajectories",
    "trajectory_from_dict",
    "trajectory_to_dict",
]

SCHEMA_VERSION = 1


class _MessageRecord(BaseModel):
    model_config = ConfigDict(extra="ignore")
    role: Role
    content: str
    name: str = ""
    tool_call_id: str = ""


class _TurnRecord(BaseModel):
    model_config = ConfigDict(extra="ignore")
    messages: list[_MessageRecord]
    text: str
    token_ids: list[int] | None = None
    logprobs: list[float] | None = None
    finish_reason: FinishReason = "unknown"
    # Prompts of consecutive turns mostly extend each other: `prompt_keep` ids of the previous prompt and completion
    # are kept, `prompt_new` follow. This keeps files linear in the episode's length.
    prompt_keep: int = 0
    prompt_new: list[int] | None = None
    observation: str = ""
    reward: float = 0.0
    tokens: int = 0
    anchor: str = ""
    valid: bool = True
    metadata: dict[str, Any] = {}


class _TrajectoryRecord(BaseModel):
    model_config = ConfigDict(extra="ignore")
    schema_version: int
    env_id: str
    task_id: str
    policy: str = ""
    outcome: Outcome
    total_reward: float = 0.0
    tools: list[dict[str, Any]] = []
    metadata: dict[str, Any] = {}
    turns: list[_TurnRecord]


def trajectory_to_dict(trajectory: Trajectory) -> dict[str, Any]:
    """Return the JSON-serialisable record of a trajectory."""
    turns: list[dict[str, Any]] = []
    before: tuple[int, ...] = ()
    for turn in trajectory.turns:
        said = turn.completion
        record: dict[str, Any] = {
            "messages": [message.to_dict() for message in turn.messages],
            "text": str(said),
            "observation": turn.observation,
            "reward": turn.reward,
            "tokens": turn.tokens,
            "anchor": turn.anchor,
            "valid": turn.valid,
        }
        if said.token_ids is not None:
            record["token_ids"] = list(said.token_ids)
        if said.logprobs is not None:
            record["logprobs"] = list(said.logprobs)
        if said.finish_reason != "unknown":
            record["finish_reason"] = said.finish_reason
        if turn.prompt_ids is not None:
            keep = _common_prefix(before, turn.prompt_ids)
            record["prompt_keep"] = keep
            record["prompt_new"] = list(turn.prompt_ids[keep:])
            before = turn.prompt_ids + (said.token_ids or ())
        if turn.metadata:
            record["metadata"] = turn.metadata
        turns.append(record)
    return {
        "schema_version": SCHEMA_VERSION,
        "env_id": trajectory.env_id,
        "task_id": trajectory.task_id,
        "policy": trajectory.policy,
        "outcome": trajectory.outcome,
        "total_reward": trajectory.total_reward,
        "tools": trajectory.tools,
        "metadata": trajectory.metadata,
        "turns": turns,
    }


def _common_prefix(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    limit = min(len(a), len(b))
    if a[:limit] == b[:limit]:
        return limit
    return next(i for i in range(limit) if a[i] != b[i])


def trajectory_from_dict(data: Any) -> Trajectory:
    """Build a trajectory from its record.

    Raises:
        TrajectoryFileError: If the record does not have the schema, or has a newer one.
    """
    version = data.get("schema_version") if isinstance(data, dict) else None
    if isinstance(version, int) and version > SCHEMA_VERSION:  # first: a newer record may look different throughout
        raise TrajectoryFileError(
            f"trajectory schema {version} is newer than this version reads ({SCHEMA_VERSION}); upgrade agentgym-ttg"
        )
    try:
        record = _TrajectoryRecord.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "record"
        raise TrajectoryFileError(f"not a trajectory record: {where}: {first['msg']}") from error
    turns: list[Turn] = []
    before: tuple[int, ...] = ()
    for number, row in enumerate(record.turns):
        try:
            said = Completion(row.text, token_ids=row.token_ids, logprobs=row.logprobs, finish_reason=row.finish_reason)
        except ValueError as error:
            raise TrajectoryFileError(f"turn {number}: {error}") from error
        prompt: tuple[int, ...] | None = None
        if row.prompt_new is not None:
            if not 0 <= row.prompt_keep <= len(before):
                raise TrajectoryFileError(f"turn {number}: prompt_keep is {row.prompt_keep} of {len(before)} ids")
            prompt = before[: row.prompt_keep] + tuple(row.prompt_new)
            before = prompt + (said.token_ids or ())
        turns.append(
            Turn(
                messages=tuple(Message(m.role, m.content, m.name, m.tool_call_id) for m in row.messages),
                completion=said,
                observation=row.observation,
                reward=row.reward,
                tokens=row.tokens,
                anchor=row.anchor,
                valid=row.valid,
                prompt_ids=prompt,
                metadata=row.metadata,
            )
        )
    return Trajectory(
        env_id=record.env_id,
        task_id=record.task_id,
        policy=record.policy,
        turns=turns,
        outcome=record.outcome,
        total_reward=record.total_reward,
        tools=record.tools,
        metadata=record.metadata,
    )


class TrajectoryWriter:
    """Appends trajectories to a file; one writer at a time.

    Opening cuts off a torn last line. Each trajectory is one ``write`` of one line, flushed; :meth:`close` (or leaving
    the ``with`` block) also syncs to disk.

    Args:
        path: The file; made with its folder if it is not there.

    Raises:
        TrajectoryFileError: If the file cannot be written or another process writes it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TrajectoryFileError(
                f"cannot make the folder {self.path.parent} for {self.path.name}: {error.strerror or error}"
            ) from error
        try:
            self._file: IO[bytes] = open(self.path, "a+b", buffering=0)  # noqa: SIM115 - closed by close()
        except OSError as error:
            raise TrajectoryFileError(f"cannot write {self.path}: {error.strerror or error}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _cut_torn_line(self._file)
        except BlockingIOError as error:
            self._file.close()
            raise TrajectoryFileError(f"{self.path} is being written by another writer") from error
        except OSError as error:
            self._file.close()
            raise TrajectoryFileError(f"cannot write {self.path}: {error.strerror or error}") from error

    def write(self, trajectory: Trajectory) -> None:
        """Append one trajectory.

        Raises:
            TrajectoryFileError: If the record is not JSON-serialisable or the disk takes no more; the file is left
                without the torn line.
        """
        try:
            line = json.dumps(trajectory_to_dict(trajectory), separators=(",", ":"), allow_nan=False).encode() + b"\n"
        except (TypeError, ValueError) as error:
            raise TrajectoryFileError(f"trajectory of {trajectory.task_id!r} cannot be written: {error}") from error
        if self._file.closed:
            raise TrajectoryFileError(f"cannot write {self.path}: the writer is closed")
        start: int | None = None
        try:
            start = self._file.seek(0, os.SEEK_END)
            written = 0
            while written < len(line):
                written += self._file.write(line[written:]) or 0
        except BaseException as error:  # Ctrl-C too: a torn line must not be written behind
            if start is not None:
                with contextlib.suppress(OSError):
                    self._file.truncate(start)
            if isinstance(error, OSError):
                raise TrajectoryFileError(f"cannot write {self.path}: {error.strerror or error}") from error
            raise

    def close(self) -> None:
        """Sync and close; closing twice is fine.

        Raises:
            TrajectoryFileError: If the disk cannot keep what was written.
        """
        if not self._file.closed:
            try:
                os.fsync(self._file.fileno())
            except OSError as error:
                raise TrajectoryFileError(f"cannot sync {self.path}: {error.strerror or error}") from error
            finally:
                self._file.close()

    def __enter__(self) -> Self:
        """Return the writer."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close; what went wrong inside is not hidden by what goes wrong here."""
        with contextlib.suppress(*(() if value is None else (TrajectoryFileError,))):
            self.close()


def _cut_torn_line(file: IO[bytes], block: int = 1 << 16) -> None:
    """Truncate behind the last newline; a line is complete only with its newline."""
    size = end = file.seek(0, os.SEEK_END)
    while end > 0:
        start = max(0, end - block)
        file.seek(start)
        found = file.read(end - start).rfind(b"\n")
        if found >= 0:
            end = start + found + 1
            break
        end = start
    if end < size:
        file.truncate(end)


def iter_trajectories(path: str | os.PathLike[str]) -> Iterator[Trajectory]:
    r"""Yield the trajectories of a file, in order; a torn last line (no ``\n``) is passed over.

    Raises:
        TrajectoryFileError: If the file cannot be read, or a complete line is no trajectory (names the line).
    """
    try:
        with open(path, "rb") as file:  # binary files split on \n only
            for number, line in enumerate(file, start=1):
                if not line.endswith(b"\n"):
                    return
                if not line.strip():
                    continue
                try:
                    trajectory = trajectory_from_dict(json.loads(line))
                except (ValueError, RecursionError) as error:
                    raise TrajectoryFileError(f"{os.fspath(path)}, line {number}: {error}") from error
                yield trajectory
    except OSError as error:
        raise TrajectoryFileError(f"cannot read {os.fspath(path)}: {error.strerror or error}") from error


def load_trajectories(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[Trajectory]:
    """Read one file or several, in order."""
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    return [trajectory for path in paths for trajectory in iter_trajectories(path)]


def export_parquet(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> int:
    """Write a trajectory file as Parquet through ``datasets``; return the number of rows.

    Free-form fields (tools, metadata) become JSON text columns, because their keys differ from row to row.

    Raises:
        MissingDependencyError: If ``datasets`` is not installed.
    """
    try:
        import datasets
    except ImportError as error:
        raise MissingDependencyError("datasets", "parquet", "exporting trajectories to Parquet") from error
    rows = []
    for trajectory in iter_trajectories(source):
        row = trajectory_to_dict(trajectory)
        row["tools"], row["metadata"] = json.dumps(row["tools"]), json.dumps(row["metadata"])
        for turn in row["turns"]:
            turn["metadata"] = json.dumps(turn.get("metadata", {}))
            for optional in ("token_ids", "logprobs", "finish_reason", "prompt_keep", "prompt_new"):
                turn.setdefault(optional, None)
            turn["messages"] = [{"name": "", "tool_call_id": "", **message} for message in turn["messages"]]
        rows.append(_parquet_safe(row))
    datasets.Dataset.from_list(rows).to_parquet(os.fspath(target))
    return len(rows)


def _parquet_safe(value: Any) -> Any:
    """Replace lone surrogates, which Parquet's UTF-8 cannot hold, by U+FFFD."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {key: _parquet_safe(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_parquet_safe(item) for item in value]
    return value
