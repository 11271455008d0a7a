"""What a retriever is, whatever stands behind it."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from .documents import Document, Hit

__all__ = ["Retriever"]


@runtime_checkable
class Retriever(Protocol):
    """Finds documents for a query.

    All of them keep to the same rules: best first; equal scores in the order of the document ids; only documents that
    match (a dense retriever: that have any text), so possibly fewer than ``k``; nothing for an empty query or corpus.
    """

    @property
    def name(self) -> str:
        """Name in results, with what determines the ranking."""

    def search(self, query: str, k: int = 3) -> list[Hit]:
        """Return at most ``k`` documents, best first.

        Raises:
            ConfigError: If ``k < 1``.
        """

    def document(self, doc_id: str) -> Document | None:
        """Return a document by its id, None if there is none."""

    def close(self) -> None:
        """Release files and connections; closing twice is fine."""
