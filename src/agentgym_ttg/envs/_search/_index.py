"""What retrievers with an index on disk have in common."""

from __future__ import annotations

import os
import sys
from abc import abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from agentgym_ttg.core.errors import ConfigError, DataError

from .cache import build_once, cache_folder, content_key
from .documents import Corpus, Document, Hit
from .store import DocumentStore

__all__ = ["IndexedRetriever", "check_k", "progress"]

_T = TypeVar("_T")
_LAYOUT = 1  # of the files; a change makes other names in the cache


class IndexedRetriever:
    """Builds an index once, under a name that hashes the corpus and the settings, and opens it.

    Args:
        corpus: The documents.
        settings: Whatever else determines the index.
        cache_dir: Where indexes are kept.
        show_progress: Whether building shows a bar.
    """

    store: DocumentStore

    def __init__(
        self,
        corpus: Corpus,
        settings: tuple[object, ...],
        cache_dir: str | Path | None,
        show_progress: bool | None,
    ) -> None:
        self._show_progress = show_progress
        #: Hash of the corpus, for results.
        self.content_hash = corpus.content_hash
        folder = (Path(cache_dir) if cache_dir is not None else cache_folder()) / "search"
        key = content_key(_LAYOUT, self.content_hash, *settings)

        def build(path: Path) -> None:
            self._build(path, corpus)
            if corpus.content_hash != self.content_hash:
                raise DataError("the corpus changed while it was indexed; start again when it is at rest")

        #: Where the index lies.
        self.path = build_once(folder, key, build)
        self._open(self.path)
        self._pid = os.getpid()

    @abstractmethod
    def _build(self, folder: Path, corpus: Corpus) -> None:
        """Write the index."""

    @abstractmethod
    def _open(self, folder: Path) -> None:
        """Open the index; sets ``store``."""

    @abstractmethod
    def _search(self, query: str, k: int) -> list[Hit]:
        """Search; the corpus is not empty."""

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self.store)

    def search(self, query: str, k: int = 3) -> list[Hit]:
        """Return at most ``k`` documents that match, best first, ties by id.

        Raises:
            ConfigError: If ``k < 1``.
        """
        check_k(k)
        return self._search(query, k) if len(self.store) and query.strip() else []

    def document(self, doc_id: str) -> Document | None:
        """Return a document by its id, None if there is none."""
        return self.store.find(doc_id)

    def close(self) -> None:
        """Release the files."""
        self.store.close()


def check_k(k: int) -> None:
    """Refuse a number of documents that cannot be meant."""
    if k < 1:
        raise ConfigError(f"expected to retrieve k >= 1 documents, got {k}")


def progress(items: Iterable[_T], show: bool | None, what: str) -> Iterable[_T]:
    """Show a bar while iterating; by default only on a terminal and if it takes more than a moment."""
    if show is False or (show is None and not sys.stderr.isatty()):
        yield from items
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,.0f}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        for count, item in enumerate(items, 1):
            yield item
            if count % 500 == 0:
                bar.update(task, completed=count)
