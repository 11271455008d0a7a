"""BM25 on disk (``tantivy``): for corpora of millions of documents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentgym_ttg.core.errors import MissingDependencyError

from ._index import IndexedRetriever, progress
from .documents import Corpus, Hit
from .store import DocumentStore, write_store
from .text import ANALYSER_VERSION, query_terms, terms

__all__ = ["TantivyBM25"]

_HEAP = 256 << 20  # bytes of the indexing writer
_FOLDER = "tantivy"


class TantivyBM25(IndexedRetriever):
    """BM25 (k1 = 1.2, b = 0.75, fixed by the library) over a corpus, built once and cached by content.

    The library keeps the postings on disk and document lengths in one byte, so scores differ slightly from those of
    :class:`~.bm25.BM25`. Terms are the same.

    Args:
        corpus: The documents.
        cache_dir: Where indexes are kept; default :func:`~.cache.cache_folder`.
        show_progress: Whether building shows a bar; None: on a terminal.

    Raises:
        MissingDependencyError: If ``tantivy`` is not installed.
        DataError: If two documents have one id, or the index cannot be written.
    """

    def __init__(
        self, corpus: Corpus, *, cache_dir: str | Path | None = None, show_progress: bool | None = None
    ) -> None:
        self._tantivy = _import()
        super().__init__(corpus, ("tantivy", ANALYSER_VERSION), cache_dir, show_progress)

    @property
    def name(self) -> str:
        """Name in results."""
        return "tantivy(k1=1.2, b=0.75)"

    def _schema(self) -> Any:
        builder = self._tantivy.SchemaBuilder()
        # The terms come ready-made: one analyser for all retrievers.
        builder.add_text_field("terms", stored=False, tokenizer_name="whitespace", index_option="freq")
        builder.add_unsigned_field("position", stored=True)
        return builder.build()

    def _build(self, folder: Path, corpus: Corpus) -> None:
        (folder / _FOLDER).mkdir()
        index = self._tantivy.Index(self._schema(), path=str(folder / _FOLDER))
        writer = index.writer(heap_size=_HEAP, num_threads=1)
        documents = progress(write_store(folder, corpus), self._show_progress, "indexing")
        for position, document in enumerate(documents):
            entry = self._tantivy.Document()
            entry.add_text("terms", " ".join(terms(document.contents)))
            entry.add_unsigned("position", position)
            writer.add_document(entry)
        writer.commit()
        writer.wait_merging_threads()

    def _open(self, folder: Path) -> None:
        self.store = DocumentStore(folder)
        self._index: Any = self._tantivy.Index(self._schema(), path=str(folder / _FOLDER))
        self._index.reload()
        self._searcher: Any = self._index.searcher()

    def _search(self, query: str, k: int) -> list[Hit]:
        found = query_terms(query, lambda term: self._searcher.doc_freq("terms", term) > 0)
        if not found:
            return []
        query_class, occur = self._tantivy.Query, self._tantivy.Occur.Should
        schema = self._index.schema
        # Sorted, so that equal documents add up the same numbers in the same order.
        parsed = query_class.boolean_query(
            [(occur, query_class.term_query(schema, "terms", term, "freq")) for term in sorted(found)]
        )
        limit = k + 8
        while True:  # all that tie for the last place are needed to let the ids decide
            hits = self._searcher.search(parsed, limit=min(limit, len(self.store)), count=False).hits
            if len(hits) < limit or hits[k - 1][0] > hits[-1][0]:
                break
            limit *= 4
        scored = [(-score, self._searcher.doc(address)["position"][0]) for score, address in hits]
        scored.sort(key=lambda pair: (pair[0], self.store.rank[pair[1]]))
        return [Hit(self.store.at(position), -score) for score, position in scored[:k]]

    def close(self) -> None:
        """Release the files."""
        super().close()
        self._searcher = self._index = None


def _import() -> Any:
    try:
        import tantivy
    except ImportError:
        raise MissingDependencyError("tantivy", "search-large", "BM25 retrieval over a large corpus") from None
    return tantivy
