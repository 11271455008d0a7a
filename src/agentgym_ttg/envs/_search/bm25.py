"""BM25 with precomputed scores (``bm25s``): the fastest up to about a million documents."""

from __future__ import annotations

import json
from array import array
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym_ttg.core.errors import ConfigError, MissingDependencyError

from ._index import IndexedRetriever, progress
from .documents import Corpus, Hit
from .store import DocumentStore, write_store
from .text import ANALYSER_VERSION, query_terms, terms

__all__ = ["BM25"]

_SCORES = "bm25"
_VOCABULARY = "vocabulary.json"


class BM25(IndexedRetriever):
    """BM25 (Lucene's formula) over a corpus, built once, cached by content and memory-mapped.

    Score of document d for the query terms q: sum over q of ``idf(q) * tf / (tf + k1 * (1 - b + b * |d| / avg))`` with
    ``idf(q) = ln(1 + (N - n_q + 0.5) / (n_q + 0.5))``, which is positive for every term, also one that all documents
    have. So a document that matches always stands above one that does not, and the latter is never returned.

    Args:
        corpus: The documents.
        k1: Saturation of the term frequency.
        b: How much the document's length counts.
        cache_dir: Where indexes are kept; default :func:`~.cache.cache_folder`.
        show_progress: Whether building shows a bar; None: for large corpora on a terminal.

    Raises:
        MissingDependencyError: If ``bm25s`` is not installed.
        DataError: If two documents have one id, or the index cannot be written.

    >>> from agentgym_ttg.envs._search import Document, MemoryCorpus
    >>> index = BM25(MemoryCorpus([Document("a", "", "zinc in wounds"), Document("b", "", "iron")]))
    >>> [hit.document.id for hit in index.search("Which wounds need zinc?")]
    ['a']
    """

    def __init__(
        self,
        corpus: Corpus,
        *,
        k1: float = 1.5,
        b: float = 0.75,
        cache_dir: str | Path | None = None,
        show_progress: bool | None = None,
    ) -> None:
        if not (k1 > 0 and 0 <= b <= 1):
            raise ConfigError(f"expected k1 > 0 and b in [0, 1], got k1={k1}, b={b}")
        self.k1, self.b = k1, b
        self._bm25s = _import()
        super().__init__(corpus, ("bm25s", ANALYSER_VERSION, k1, b), cache_dir, show_progress)

    @property
    def name(self) -> str:
        """Name in results."""
        return f"bm25s(k1={self.k1:g}, b={self.b:g})"

    def _build(self, folder: Path, corpus: Corpus) -> None:
        vocabulary: dict[str, int] = {}
        ids: list[array[int]] = []
        for document in progress(write_store(folder, corpus), self._show_progress, "indexing"):
            # Four bytes a word; a list would take eight.
            ids.append(array("i", [vocabulary.setdefault(word, len(vocabulary)) for word in terms(document.contents)]))
        (folder / _VOCABULARY).write_text(json.dumps(vocabulary), encoding="ascii")
        if not vocabulary:  # no document says anything; bm25s would divide by the mean length
            return
        model = self._bm25s.BM25(method="lucene", k1=self.k1, b=self.b, backend="numpy", csc_backend="numpy")
        tokens = self._bm25s.tokenization.Tokenized(ids=ids, vocab=vocabulary)
        model.index(tokens, create_empty_token=False, show_progress=False)
        model.save(folder / _SCORES, show_progress=False)

    def _open(self, folder: Path) -> None:
        self.store = DocumentStore(folder)
        self._vocabulary: dict[str, int] = json.loads((folder / _VOCABULARY).read_text(encoding="ascii"))
        self._model: Any = None
        if self._vocabulary:
            self._model = self._bm25s.BM25.load(folder / _SCORES, mmap=True, load_vocab=False)

    def scores(self, query: str) -> NDArray[np.float32]:
        """Return the score of every document, shape ``(documents,)``; 0 for those that do not match."""
        found = sorted(self._vocabulary[term] for term in query_terms(query, self._vocabulary.__contains__))
        if not found or self._model is None:
            return np.zeros(len(self.store), dtype=np.float32)
        # Sorted, so that documents alike in these terms get the same float32 sum to the last bit.
        scores: NDArray[np.float32] = self._model.get_scores_from_ids(found)
        return scores

    def _search(self, query: str, k: int) -> list[Hit]:
        scores = self.scores(query)
        matching = np.flatnonzero(scores)
        if len(matching) > k:
            least = np.partition(scores[matching], len(matching) - k)[len(matching) - k]
            matching = matching[scores[matching] >= least]  # all that tie for the last place
        best = matching[np.lexsort((self.store.rank[matching], -scores[matching]))][:k]
        return [Hit(self.store.at(int(position)), float(scores[position])) for position in best]


def _import() -> Any:
    try:
        import bm25s
    except ImportError:
        raise MissingDependencyError("bm25s", "search", "BM25 retrieval") from None
    return bm25s
