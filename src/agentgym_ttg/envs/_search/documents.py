"""Documents, the hits of a search, and reading a corpus from files."""

from __future__ import annotations

import gzip
import hashlib
import json
import lzma
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Protocol

from agentgym_ttg.core.errors import DataError, MissingDependencyError

__all__ = ["Corpus", "Document", "FileCorpus", "Hit", "MemoryCorpus", "iter_records", "split_contents"]

_OPENERS = {".gz": gzip.open, ".xz": lzma.open}
_FORMATS = (".jsonl", ".jsonl.gz", ".jsonl.xz", ".parquet")


@dataclass(frozen=True, slots=True)
class Document:
    """One document.

    Attributes:
        id: Unique in its corpus.
        title: Title, ``""`` where there is none.
        text: Body.
        source: Another name under which labels may point to it (a PMID, a URL).
    """

    id: str
    title: str
    text: str
    source: str = ""

    @property
    def contents(self) -> str:
        """Title and text, as they are indexed."""
        return f"{self.title}\n{self.text}" if self.title else self.text


@dataclass(frozen=True, slots=True)
class Hit:
    """A document that a search found.

    Attributes:
        document: The document.
        score: The retriever's score; higher is better, comparable inside one answer only.
    """

    document: Document
    score: float


class Corpus(Protocol):
    """Documents in a fixed order, and a hash of all that they say."""

    @property
    def content_hash(self) -> str:
        """Hash of ids, titles and texts, in order."""

    def __iter__(self) -> Iterator[Document]:
        """Iterate over the documents; can be done again."""


class MemoryCorpus:
    """Documents held in memory.

    >>> corpus = MemoryCorpus([Document("a", "", "zinc"), Document("b", "", "iron")])
    >>> len(corpus), corpus.content_hash == MemoryCorpus(list(corpus)).content_hash
    (2, True)
    """

    def __init__(self, documents: Iterable[Document]) -> None:
        self._documents = tuple(documents)

    @cached_property
    def content_hash(self) -> str:
        """Hash of ids, titles and texts, in order."""
        digest = hashlib.blake2b(digest_size=16)
        for document in self._documents:
            for part in (document.id, document.title, document.text, document.source):
                data = part.encode("utf-8", "surrogatepass")
                digest.update(len(data).to_bytes(8, "little"))
                digest.update(data)
        return digest.hexdigest()

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self._documents)

    def __iter__(self) -> Iterator[Document]:
        """Iterate over the documents."""
        return iter(self._documents)


class FileCorpus:
    """A corpus in a JSON-lines file (plain, ``.gz``, ``.xz``) or a Parquet file, read as it streams.

    A record has ``id`` (or ``docid``, ``pmid``), and ``contents`` (``"TITLE: … ABSTRACT: …"``) or ``title`` with
    ``text`` or ``abstract``.

    Args:
        path: The file.

    Raises:
        DataError: If there is no such file, or it is of another kind.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).expanduser()
        if not self.path.is_file():
            raise DataError(f"the corpus file {self.path} does not exist")
        if not self.path.name.endswith(_FORMATS):
            raise DataError(f"expected a corpus file ending in {', '.join(_FORMATS)}, got {self.path.name}")

    @property
    def content_hash(self) -> str:
        """Hash of the file's bytes, read anew each time: a changed file is noticed."""
        digest = hashlib.blake2b(digest_size=16)
        try:
            with self.path.open("rb") as file:
                while chunk := file.read(1 << 22):
                    digest.update(chunk)
        except OSError as error:
            raise DataError(f"cannot read the corpus file {self.path}: {error.strerror or error}") from error
        return digest.hexdigest()

    def __iter__(self) -> Iterator[Document]:
        """Iterate over the documents.

        Raises:
            DataError: If a record is damaged or has no id or text; names the line.
        """
        for number, record in enumerate(iter_records(self.path), 1):
            yield _document(record, f"{self.path}, record {number}")


def iter_records(path: Path) -> Iterator[dict[str, Any]]:
    r"""Iterate over the objects of a JSON-lines or Parquet file; lines end at ``\n`` only.

    Raises:
        DataError: If the file cannot be read or a line is no JSON object; names the line.
        MissingDependencyError: If a Parquet file is to be read and pyarrow is not installed.
    """
    if path.name.endswith(".parquet"):
        yield from _parquet_records(path)
        return
    opener: Any = _OPENERS.get(path.suffix, open)
    number = 0
    try:
        file: IO[bytes]
        with opener(path, "rb") as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                record = json.loads(line)
                if not isinstance(record, dict):
                    raise DataError(f"{path}, line {number}: expected a JSON object, got {type(record).__name__}")
                yield record
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise DataError(f"cannot read {path} behind line {number}: {error}") from error
    except ValueError as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path}, line {number}: not a JSON object ({error})") from error


def _parquet_records(path: Path) -> Iterator[dict[str, Any]]:
    try:
        import pyarrow.parquet as parquet  # type: ignore[import-untyped]
    except ImportError:
        raise MissingDependencyError("pyarrow", "parquet", f"reading {path.name}") from None
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=1024):
                yield from batch.to_pylist()
    except Exception as error:  # pyarrow's errors have no common base
        raise DataError(f"cannot read the Parquet file {path}: {error}") from error


def _document(record: Mapping[str, Any], where: str) -> Document:
    doc_id = next((record[key] for key in ("id", "docid", "_id", "pmid") if record.get(key) is not None), None)
    if doc_id is None or isinstance(doc_id, bool) or not isinstance(doc_id, str | int):
        raise DataError(f"{where}: expected an 'id' (or 'docid', 'pmid') as a string or a number, got {doc_id!r:.80}")
    title = record.get("title") or ""
    text = next((record[key] for key in ("text", "abstract") if record.get(key) is not None), None)
    if text is None and record.get("contents") is not None:
        title, text = split_contents(str(record["contents"]))
    if not isinstance(text, str) or not isinstance(title, str):
        raise DataError(
            f"{where}: expected 'contents', or 'text'/'abstract' with an optional 'title', as strings; "
            f"got the keys {sorted(record)[:8]}"
        )
    source = record.get("pmid") or record.get("url") or ""
    return Document(str(doc_id), title, text, str(source))


def split_contents(contents: str) -> tuple[str, str]:
    """Split the published form of an abstract into title and text.

    >>> split_contents("TITLE: Zinc in ageing. ABSTRACT: We measured zinc.")
    ('Zinc in ageing.', 'We measured zinc.')
    >>> split_contents("Just text.")
    ('', 'Just text.')
    """
    if not contents.lstrip().startswith("TITLE:"):
        return "", contents
    title, mark, text = contents.lstrip().removeprefix("TITLE:").partition("ABSTRACT:")
    return (title.strip(), text.strip()) if mark else ("", contents)
