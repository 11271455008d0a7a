"""Append-only JSON-lines files of a training run that can be cut back to a checkpoint."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentgym_ttg.core.errors import DataError

__all__ = ["JsonLines", "write_json"]


class JsonLines:
    """A file of one JSON object a line, flushed line by line.

    Args:
        path: The file; made when the first line is written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, row: dict[str, Any]) -> None:
        """Write one row.

        Raises:
            DataError: If the disk takes it not.
        """
        try:
            with open(self.path, "ab") as file:
                file.write(json.dumps(row, allow_nan=False).encode() + b"\n")
        except OSError as error:
            raise DataError(f"cannot write {self.path}: {error.strerror or error}") from error

    def read(self) -> list[dict[str, Any]]:
        """Return the complete rows; a torn last line is passed over."""
        if not self.path.exists():
            return []
        lines = self.path.read_bytes().split(b"\n")[:-1]
        return [json.loads(line) for line in lines if line.strip()]

    def keep(self, predicate: Callable[[dict[str, Any]], bool]) -> None:
        """Drop, atomically, the rows that do not satisfy ``predicate``, and a torn last line."""
        if not self.path.exists():
            return
        rows = [row for row in self.read() if predicate(row)]
        temporary = self.path.with_name(self.path.name + ".tmp")
        temporary.write_bytes(b"".join(json.dumps(row).encode() + b"\n" for row in rows))
        os.replace(temporary, self.path)


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file atomically.

    Raises:
        DataError: If the disk takes it not.
    """
    temporary = path.with_name(path.name + ".tmp")
    try:
        temporary.write_text(json.dumps(value, indent=2, allow_nan=False) + "\n")
        os.replace(temporary, path)
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror or error}") from error
