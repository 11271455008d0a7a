"""Queries with their labels, and the corpus: a folder in the published layout, or the built-in set.

A folder holds ``corpus.jsonl`` (``docid``, ``text``, ``url``; also ``.gz``, ``.xz``, ``.parquet``) and
``queries.jsonl`` (``query_id``, ``query``, ``answer``, ``gold_docs``, ``evidence_docs``), its strings obfuscated or
plain. ``qrels_evidence.txt`` and ``qrels_gold.txt`` (``query_id 0 docid relevance``) replace the labels in the records
where they are there. The canary stands in each record, in ``canary.txt``, or is given; without one the data is plain.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from agentgym_ttg.core.errors import DataError
from agentgym_ttg.envs._search import Corpus, FileCorpus
from agentgym_ttg.envs._search.documents import iter_records

from .obfuscation import reveal_record

__all__ = ["BrowseData", "Query", "builtin_data", "folder_data"]

_SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.xz", ".parquet")
_HOW = "Give a folder with queries.jsonl and corpus.jsonl, or leave data_dir out for the built-in queries."


@dataclass(frozen=True, slots=True)
class Query:
    """One query.

    Attributes:
        id: Unique.
        query: The text.
        answer: The answer.
        evidence: Ids of the documents that the answer rests on, in the order of the data.
        gold: Ids of the documents that hold the answer itself.
    """

    id: str
    query: str
    answer: str
    evidence: tuple[str, ...]
    gold: tuple[str, ...]


@dataclass(frozen=True)
class BrowseData:
    """The queries and the corpus.

    Attributes:
        name: What results call it.
        queries: Id -> query, sorted by id.
        corpus: The documents; None where they are served elsewhere.
        content_hash: Hash of all of it.
    """

    name: str
    queries: Mapping[str, Query]
    corpus: Corpus | None
    content_hash: str


@functools.lru_cache(maxsize=1)
def builtin_data() -> BrowseData:
    """Read the built-in set (``scripts/make_browsecomp_builtin.py`` makes it); same layout, same obfuscation.

    >>> data = builtin_data()
    >>> len(data.queries), len(list(data.corpus))
    (24, 360)
    """
    with resources.as_file(resources.files(__package__) / "assets") as folder:
        return folder_data(folder, name="built-in")


def folder_data(
    folder: Path, *, canary: str = "", corpus: Path | None = None, needs_corpus: bool = True, name: str = ""
) -> BrowseData:
    """Read a folder.

    Args:
        folder: The folder.
        canary: Of the obfuscation, where the data does not tell.
        corpus: Corpus file that lies elsewhere.
        needs_corpus: False where a served index is searched.
        name: What results call it; default the folder's name.

    Raises:
        DataError: If something is missing or damaged; names the file and the record.
    """
    if not folder.is_dir():
        raise DataError(f"the data folder {folder} does not exist or is no folder. {_HOW}")
    path, corpus_path = _find(folder, "queries"), corpus or _find(folder, "corpus")
    if path is None or (corpus_path is None and needs_corpus):
        found = ", ".join(sorted(entry.name for entry in folder.iterdir())[:8]) or "nothing"
        raise DataError(f"{folder} holds no {'queries' if path is None else 'corpus'}, only {found}. {_HOW}")
    note = folder / "canary.txt"
    canary = canary or (note.read_text(encoding="utf-8").strip() if note.is_file() else "")
    evidence, gold = _qrels(folder / "qrels_evidence.txt"), _qrels(folder / "qrels_gold.txt")
    documents = FileCorpus(corpus_path) if corpus_path else None
    digest = hashlib.blake2b((documents.content_hash if documents else "").encode(), digest_size=16)
    queries: dict[str, Query] = {}
    for number, record in enumerate(iter_records(path), 1):
        query = _query(record, canary, evidence, gold, f"{path}, record {number}")
        if query.id in queries:
            raise DataError(f"{path}, record {number}: the query_id {query.id!r} came before")
        queries[query.id] = query
        digest.update(json.dumps([query.id, query.query, query.answer, query.evidence, query.gold]).encode())
    ordered = {key: queries[key] for key in sorted(queries)}
    return BrowseData(name or folder.name or str(folder), ordered, documents, digest.hexdigest())


def _query(
    record: Mapping[str, Any],
    canary: str,
    evidence: Mapping[str, tuple[str, ...]],
    gold: Mapping[str, tuple[str, ...]],
    where: str,
) -> Query:
    own = record.get("canary") or canary
    if own:
        try:
            record = reveal_record(dict(record), str(own))
        except DataError as error:
            raise DataError(f"{where}: {error}") from error
    query_id = record.get("query_id", record.get("id"))
    texts = {key: record.get(key) for key in ("query", "answer")}
    for key, value in texts.items():
        if not isinstance(value, str) or not value.strip():
            raise DataError(f"{where}: expected {key!r} as a text, got {value!r:.80}")
    if query_id is None:
        raise DataError(f"{where}: expected a 'query_id', got the keys {sorted(record)[:8]}")
    key = str(query_id)
    return Query(
        key,
        str(texts["query"]),
        str(texts["answer"]),
        evidence.get(key) or _docids(record.get("evidence_docs"), where),
        gold.get(key) or _docids(record.get("gold_docs"), where),
    )


def _docids(value: Any, where: str) -> tuple[str, ...]:
    """Return the ids of a list of documents, given as objects or as bare ids."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise DataError(f"{where}: expected a list of documents, got {type(value).__name__}")
    out = []
    for item in value:
        doc_id = item.get("docid", item.get("id")) if isinstance(item, dict) else item
        if isinstance(doc_id, bool) or not isinstance(doc_id, str | int):
            raise DataError(f"{where}: expected documents with a 'docid', got {item!r:.80}")
        out.append(str(doc_id))
    return tuple(dict.fromkeys(out))


def _qrels(path: Path) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    if path.is_file():
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
            cells = line.split()
            if not cells:
                continue
            if len(cells) != 4:
                raise DataError(f"{path}, line {number}: expected 'query_id 0 docid relevance', got {line[:80]!r}")
            if cells[3] not in ("0", "-1"):
                found.setdefault(cells[0], []).append(cells[2])
    return {key: tuple(dict.fromkeys(ids)) for key, ids in found.items()}


def _find(folder: Path, stem: str) -> Path | None:
    return next((folder / (stem + suffix) for suffix in _SUFFIXES if (folder / (stem + suffix)).is_file()), None)
