"""What the list of data sources shows of BFCL: read from its files, without importing the package."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

from .package import MULTI_TURN, SINGLE_TURN, data_file, json_lines

__all__ = ["BFCLData", "categories_of", "tasks_hash"]


def categories_of(version: str) -> tuple[str, ...]:
    """Return the categories that are played of a version."""
    return (*SINGLE_TURN, *MULTI_TURN) if version == "v3" else MULTI_TURN


def tasks_hash(version: str, entries: Iterable[Mapping[str, Any]]) -> str:
    """Return the hash that names a set of tasks in results: of their ids and questions, in order."""
    digest = blake2b(f"BFCL {version}".encode(), digest_size=16)
    for entry in entries:
        digest.update(f"{entry['id']}{entry['question']}".encode(errors="surrogatepass"))
    return digest.hexdigest()


class BFCLData:
    """The tasks of one version.

    Args:
        data_dir: Folder that ``agentgym-ttg data install bfcl`` made.
        version: ``v3`` or ``v4``.

    Raises:
        DataError: If a file is not there or not readable.
    """

    splits = ("test",)

    def __init__(self, data_dir: str, version: str = "v3") -> None:
        self.version = version
        files = [data_file(Path(data_dir), version, category) for category in categories_of(version)]
        self._entries = [entry for file in files for entry in json_lines(file)]

    def ids(self, split: str) -> list[str]:
        """Return the sorted task ids."""
        return sorted(entry["id"] for entry in self._entries)

    def content_hash(self, split: str) -> str:
        """Return the hash that results of every category are labelled with."""
        return tasks_hash(self.version, self._entries)
