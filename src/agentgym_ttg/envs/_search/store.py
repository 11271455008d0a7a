"""The documents beside an index: one file, memory-mapped, found by position or by id."""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from agentgym_ttg.core.errors import DataError

from .documents import Document

__all__ = ["DocumentStore", "write_store"]


def write_store(folder: Path, documents: Iterable[Document]) -> Iterator[Document]:
    """Write the documents into ``folder`` as they pass through.

    Raises:
        DataError: If two documents have the same id.
    """
    ids: list[str] = []
    seen: set[str] = set()
    offsets = [0]
    with (folder / "documents.bin").open("wb") as file:
        for document in documents:
            if document.id in seen:
                raise DataError(
                    f"two documents have the id {document.id!r}; an id must name one document. "
                    "Remove or rename one of them"
                )
            seen.add(document.id)
            ids.append(document.id)
            # ASCII JSON: line separators, control characters and lone surrogates survive.
            fields = [document.id, document.title, document.text, document.source]
            offsets.append(offsets[-1] + file.write(json.dumps(fields).encode("ascii")))
            yield document
    order = np.array(sorted(range(len(ids)), key=ids.__getitem__), dtype=np.int64)
    rank = np.empty(len(ids), dtype=np.int64)
    rank[order] = np.arange(len(ids))
    np.save(folder / "offsets.npy", np.array(offsets, dtype=np.int64))
    np.save(folder / "order.npy", order)
    np.save(folder / "rank.npy", rank)


class DocumentStore:
    """Reads what :func:`write_store` wrote.

    Args:
        folder: The folder.

    Attributes:
        rank: Place of each document in the order of the ids, shape ``(documents,)``; decides ties.
    """

    def __init__(self, folder: Path) -> None:
        self._offsets = np.load(folder / "offsets.npy", mmap_mode="r")
        self._order = _load(folder / "order.npy")
        self.rank = _load(folder / "rank.npy")
        self._data: mmap.mmap | None = None
        if self._offsets[-1] > 0:
            with (folder / "documents.bin").open("rb") as file:
                self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self._offsets) - 1

    def at(self, position: int) -> Document:
        """Return the document at a position of the corpus."""
        assert self._data is not None
        return Document(*json.loads(self._data[int(self._offsets[position]) : int(self._offsets[position + 1])]))

    def find(self, doc_id: str) -> Document | None:
        """Return the document with this id, by bisection."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            document = self.at(int(self._order[middle]))
            if document.id == doc_id:
                return document
            if document.id < doc_id:
                low = middle + 1
            else:
                high = middle
        return None

    def close(self) -> None:
        """Unmap the file."""
        if self._data is not None:
            self._data.close()
            self._data = None


def _load(path: Path) -> np.ndarray:
    # An empty array cannot be mapped.
    array: np.ndarray = np.load(path)
    return array if not len(array) else np.load(path, mmap_mode="r")
