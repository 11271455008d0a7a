"""Labelled step data: JSON lines, plain or compressed; every error names the record."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from agentgym_ttg.core.errors import DataError
from agentgym_ttg.core.trajectory import Trajectory

__all__ = ["LabelledTrajectory", "clipped", "field_of", "files_of", "load_records", "read_json_lines"]

T = TypeVar("T")

_OPENERS: dict[str, Callable[..., Any]] = {".xz": lzma.open, ".gz": gzip.open, ".bz2": bz2.open}


@dataclass(slots=True)
class LabelledTrajectory:
    """A trajectory with a judgement of each step.

    Attributes:
        trajectory: What was done.
        labels: 1 for a good step, -1 for a bad one, 0 for a neutral one, shape ``(T,)``.
        source: The data set that it is from.
        query: The question; trajectories of one question are kept together when data are split.
        record: Where it stands in its file, for errors and heat maps.
    """

    trajectory: Trajectory
    labels: NDArray[np.int64]
    source: str
    query: str
    record: str = field(default="")


def files_of(path: str | os.PathLike[str]) -> list[Path]:
    """Return the files of a path: itself, or those of a folder that hold JSON lines, sorted.

    Raises:
        DataError: If there is nothing.
    """
    place = Path(path).expanduser()
    if place.is_file():
        return [place]
    if place.is_dir():
        endings = (".jsonl", *(f".jsonl{ending}" for ending in _OPENERS))
        found = sorted(child for child in place.iterdir() if child.is_file() and child.name.endswith(endings))
        if found:
            return found
        raise DataError(f"no .jsonl file (plain or .xz, .gz, .bz2) in {place}")
    raise DataError(f"no data at {place}: expected a file of JSON lines, or a folder with such files")


def read_json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the place (file and line) and the object of each line; empty lines are passed over.

    Raises:
        DataError: If the file cannot be read, or a line is no JSON object, or names a key twice.
    """
    opener: Callable[..., IO[bytes]] = _OPENERS.get(path.suffix, open)
    try:
        with opener(path, "rb") as file:
            for number, line in enumerate(file, start=1):
                if not line.strip():
                    continue
                place = f"{path.name}, line {number}"
                try:
                    value = json.loads(line, object_pairs_hook=_unique)
                except (ValueError, RecursionError) as error:
                    raise DataError(f"{place}: no JSON record: {error}") from error
                if not isinstance(value, dict):
                    raise DataError(f"{place}: expected a JSON object, got {type(value).__name__}")
                yield place, value
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise DataError(f"cannot read {path}: {error}") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(n for n in names if names.count(n) > 1)!r} stands twice")
    return out


def load_records(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    read: Callable[[str, dict[str, Any]], T],
    *,
    limit: int | None = None,
) -> list[T]:
    """Read labelled records from files or folders.

    Args:
        paths: Files or folders.
        read: Makes a record of its place and its JSON object.
        limit: Only the first so many.

    Raises:
        DataError: If there is none, or one is broken; names the file, the line and what is wrong.
    """
    several: Iterable[str | os.PathLike[str]] = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    out: list[T] = []
    for path in several:
        for file in files_of(path):
            for place, value in read_json_lines(file):
                if limit is not None and len(out) >= limit:
                    return out
                out.append(read(place, value))
    if not out:
        raise DataError("expected at least one labelled record, got none")
    return out


def field_of(record: dict[str, Any], name: str, kind: type | tuple[type, ...], place: str) -> Any:
    """Return a field of a record.

    Raises:
        DataError: If it is missing or of another type.
    """
    if name not in record:
        raise DataError(f"{place}: the field {name!r} is missing")
    value = record[name]
    if not isinstance(value, kind) or isinstance(value, bool):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        expected = " or ".join(k.__name__ for k in kinds)
        raise DataError(f"{place}: expected {name!r} as {expected}, got {type(value).__name__}")
    return value


def clipped(text: str, limit: int | None) -> str:
    """Return a text with its middle left out where it is longer than ``limit`` characters.

    >>> clipped("abcdefghij", 4), clipped("abc", 4), clipped("abc", None)
    ('ab…ij', 'abc', 'abc')
    """
    if limit is None or len(text) <= limit:
        return text
    head = (limit + 1) // 2
    return f"{text[:head]}…{text[len(text) - (limit - head) :]}"
