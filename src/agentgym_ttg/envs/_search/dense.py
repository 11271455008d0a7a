"""Dense retrieval: nearest neighbours of a sentence embedding, by exact inner product."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym_ttg.core.errors import ConfigError, DataError, MissingDependencyError

from ._index import IndexedRetriever, progress
from .documents import Corpus, Document, Hit
from .store import DocumentStore, write_store

__all__ = ["DenseRetriever", "Encoder", "load_encoder"]

#: Texts in, one vector each out, shape ``(texts, dimensions)``.
Encoder = Callable[[Sequence[str]], NDArray[np.float32]]

_BATCH = 64
_BLOCK = 65_536  # documents scored at once


class DenseRetriever(IndexedRetriever):
    """Embeds the corpus once (cached, memory-mapped as float32) and compares by cosine.

    The comparison is exact, one pass over the vectors for each query: right for up to some million documents; beyond
    that, serve an approximate index and use :class:`~.http.HttpRetriever`.

    Args:
        corpus: The documents.
        model: Any sentence-embedding model, by path or hub id; also the name of ``encoder`` where that is given.
        encoder: Embeds texts; None loads ``model``.
        query_prefix: Put before a query (E5 models want ``"query: "``).
        passage_prefix: Put before a document (``"passage: "``).
        cache_dir: Where embeddings are kept.
        show_progress: Whether building shows a bar.

    Raises:
        MissingDependencyError: If the model is to be loaded and torch and transformers are not installed.
        ConfigError: If the model cannot be loaded.
        DataError: If two documents have one id.
    """

    def __init__(
        self,
        corpus: Corpus,
        model: str,
        *,
        encoder: Encoder | None = None,
        query_prefix: str = "",
        passage_prefix: str = "",
        cache_dir: str | Path | None = None,
        show_progress: bool | None = None,
    ) -> None:
        self.model = model
        self._encoder = encoder
        self.query_prefix, self.passage_prefix = query_prefix, passage_prefix
        super().__init__(corpus, ("dense", model, passage_prefix), cache_dir, show_progress)

    @property
    def name(self) -> str:
        """Name in results."""
        return f"dense({self.model})"

    def _embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if self._encoder is None:
            self._encoder = load_encoder(self.model)
        vectors = np.asarray(self._encoder(texts), dtype=np.float32)
        if vectors.ndim != 2 or len(vectors) != len(texts) or not np.isfinite(vectors).all():
            raise DataError(
                f"expected the encoder {self.model!r} to give {len(texts)} finite vectors, got shape {vectors.shape}"
            )
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        normed: NDArray[np.float32] = vectors / np.maximum(lengths, 1e-12)
        return normed

    def _build(self, folder: Path, corpus: Corpus) -> None:
        count, width = 0, 0
        has_text: list[bool] = []
        with (folder / "vectors.bin").open("wb") as file:
            for batch in _batches(progress(write_store(folder, corpus), self._show_progress, "embedding")):
                vectors = self._embed([self.passage_prefix + document.contents for document in batch])
                has_text.extend(bool(document.contents.strip()) for document in batch)
                count, width = count + len(vectors), vectors.shape[1]
                file.write(vectors.tobytes())
        np.save(folder / "has_text.npy", np.array(has_text, dtype=bool))
        np.save(folder / "shape.npy", np.array([count, width]))

    def _open(self, folder: Path) -> None:
        self.store = DocumentStore(folder)
        count, width = (int(n) for n in np.load(folder / "shape.npy"))
        self._has_text: NDArray[np.bool_] = np.load(folder / "has_text.npy")
        self._vectors: NDArray[np.float32] = (
            np.memmap(folder / "vectors.bin", dtype=np.float32, mode="r", shape=(count, width))
            if count
            else np.zeros((0, 1), dtype=np.float32)
        )

    def _search(self, query: str, k: int) -> list[Hit]:
        vector = self._embed([self.query_prefix + query])[0]
        scores = np.empty(len(self.store), dtype=np.float32)
        for start in range(0, len(scores), _BLOCK):
            # einsum adds up each row in the same order wherever it stands, so equal documents tie exactly.
            scores[start : start + _BLOCK] = np.einsum("nd,d->n", self._vectors[start : start + _BLOCK], vector)
        candidates = np.flatnonzero(self._has_text)
        if len(candidates) > k:
            least = np.partition(scores[candidates], len(candidates) - k)[len(candidates) - k]
            candidates = candidates[scores[candidates] >= least]
        best = candidates[np.lexsort((self.store.rank[candidates], -scores[candidates]))][:k]
        return [Hit(self.store.at(int(position)), float(scores[position])) for position in best]


def _batches(documents: Any) -> Iterator[list[Document]]:
    batch: list[Document] = []
    for document in documents:
        batch.append(document)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def load_encoder(model: str, *, max_length: int = 512) -> Encoder:
    """Load a sentence-embedding model: mean of its last hidden states over the text's tokens.

    Args:
        model: A folder or hub id of transformers.
        max_length: Tokens of a text that are read.

    Raises:
        MissingDependencyError: If torch or transformers is not installed.
        ConfigError: If the model cannot be loaded.
    """
    try:
        import torch
        from transformers import AutoModel, AutoTokenizer
    except ImportError:
        raise MissingDependencyError("transformers", "train", "dense retrieval") from None
    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(model)
        network: Any = AutoModel.from_pretrained(model).eval()
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot load the embedding model {model!r}: {error}") from error
    device = "cuda" if torch.cuda.is_available() else "cpu"
    network.to(device)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token

    def encode(texts: Sequence[str]) -> NDArray[np.float32]:
        clean = [text.encode("utf-8", "replace").decode() or " " for text in texts]
        batch = tokenizer(clean, padding=True, truncation=True, max_length=max_length, return_tensors="pt").to(device)
        with torch.inference_mode():
            hidden = network(**batch).last_hidden_state.float()
        mask = batch["attention_mask"].unsqueeze(-1).float()
        mean = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1)
        vectors: NDArray[np.float32] = mean.cpu().numpy()
        return vectors

    return encode
