"""A retriever from a short text, the same on the command line and in ``gym.make``."""

from __future__ import annotations

from pathlib import Path

from agentgym_ttg.core.errors import ConfigError, nearest

from .base import Retriever
from .bm25 import BM25
from .dense import DenseRetriever
from .documents import Corpus, FileCorpus
from .http import HttpRetriever
from .tantivy import TantivyBM25

__all__ = ["make_retriever"]

_LARGE = 1_000_000  # documents beyond which precomputed scores take too much memory to build
_BYTES_PER_DOCUMENT = 1200


def make_retriever(
    spec: str, corpus: Corpus | None, *, cache_dir: str | Path | None = None, show_progress: bool | None = None
) -> Retriever:
    """Make a retriever.

    Args:
        spec: ``bm25`` (``bm25s`` up to about a million documents, ``tantivy`` beyond), ``bm25s``, ``tantivy``,
            ``dense:MODEL`` (a sentence-embedding model by path or hub id), or the ``http://`` address of a served
            index.
        corpus: The documents; not needed for an address.
        cache_dir: Where indexes are kept.
        show_progress: Whether building shows a bar.

    Raises:
        ConfigError: If ``spec`` names no retriever, or there is no corpus for it.
        MissingDependencyError: If its library is not installed.
        DataError: If the corpus cannot be indexed.
    """
    kind, _, rest = spec.partition(":")
    if kind in ("http", "https"):
        return HttpRetriever(spec)
    if kind not in ("bm25", "bm25s", "tantivy", "dense") or (kind == "dense") != bool(rest):
        hint = nearest(spec, ("bm25", "bm25s", "tantivy", "dense:MODEL", "http://HOST:PORT"), 1)
        raise ConfigError(
            f"unknown retriever {spec!r}; expected bm25, bm25s, tantivy, dense:MODEL or http://HOST:PORT"
            + (f" (did you mean {hint[0]!r}?)" if hint else "")
        )
    if corpus is None:
        raise ConfigError(f"the retriever {spec!r} needs a corpus, and none was given")
    if kind == "dense":
        return DenseRetriever(corpus, rest, cache_dir=cache_dir, show_progress=show_progress)
    if kind == "tantivy" or (kind == "bm25" and _is_large(corpus)):
        return TantivyBM25(corpus, cache_dir=cache_dir, show_progress=show_progress)
    return BM25(corpus, cache_dir=cache_dir, show_progress=show_progress)


def _is_large(corpus: Corpus) -> bool:
    """Estimate from the size where counting would mean reading it all."""
    if isinstance(corpus, FileCorpus):
        packed = corpus.path.suffix in (".gz", ".xz", ".parquet")
        return corpus.path.stat().st_size * (3 if packed else 1) > _LARGE * _BYTES_PER_DOCUMENT
    length = getattr(corpus, "__len__", None)
    return length is not None and length() > _LARGE
