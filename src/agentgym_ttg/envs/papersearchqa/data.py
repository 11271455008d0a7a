"""Published data: questions and a corpus from a folder or a hub.

A folder holds ``corpus.jsonl`` (or ``.jsonl.gz``, ``.jsonl.xz``, ``.parquet``) and the questions, either one file for
each split (``train.jsonl``, ``test.jsonl``) or one ``questions.jsonl`` whose records name their ``split``. The schema
of a question is the published one: ``question``, ``answer``, ``golden_answers``, ``is_paraphrased``, ``cat``, ``pmid``;
``id``, ``kind`` and ``pmids`` are read where they are there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentgym_ttg.core.errors import DataError, MissingDependencyError
from agentgym_ttg.envs._search import Corpus, FileCorpus
from agentgym_ttg.envs._search.documents import iter_records

from .questions import Hop, Question

__all__ = ["HUB_PREFIX", "QuestionData", "folder_data", "hub_data", "read_question"]

HUB_PREFIX = "hub:"
_SPLITS = ("train", "test")
_SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.xz", ".parquet")
_HOW = (
    "Give a folder with corpus.jsonl and train.jsonl/test.jsonl (or questions.jsonl with a 'split'), "
    f"'{HUB_PREFIX}OWNER/NAME' for a hub's data set, or leave data_dir out for the built-in questions."
)


@dataclass(frozen=True)
class QuestionData:
    """Questions by split, and the corpus to search.

    Attributes:
        name: What results call it.
        questions: Split -> questions, each split sorted by id.
        corpus: The documents; None where they are served elsewhere.
        hashes: Split -> hash of its content.
        index: Split -> id -> question.
    """

    name: str
    questions: Mapping[str, tuple[Question, ...]]
    corpus: Corpus | None
    hashes: Mapping[str, str]
    index: dict[str, dict[str, Question]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """Index the questions."""
        for split, questions in self.questions.items():
            self.index[split] = {question.id: question for question in questions}

    def split(self, split: str) -> dict[str, Question]:
        """Return id -> question for a split.

        Raises:
            DataError: If the data does not have the split.
        """
        if split not in self.index:
            raise DataError(f"{self.name} has no split {split!r}, only {', '.join(self.index) or 'none'}. {_HOW}")
        return self.index[split]


def folder_data(folder: Path, *, corpus: Path | None = None, needs_corpus: bool = True) -> QuestionData:
    """Read a folder.

    Args:
        folder: The folder.
        corpus: Corpus file that lies elsewhere.
        needs_corpus: False where a served index is searched.

    Raises:
        DataError: If something is missing or damaged; names the file and the record.
    """
    if not folder.is_dir():
        raise DataError(f"the data folder {folder} does not exist or is no folder. {_HOW}")
    records: dict[str, list[Mapping[str, Any]]] = {}
    for split in _SPLITS:
        if path := _find(folder, split):
            records[split] = list(iter_records(path))
    if not records:
        path = _find(folder, "questions")
        if path is None:
            found = ", ".join(sorted(entry.name for entry in folder.iterdir())[:8]) or "nothing"
            raise DataError(f"{folder} holds no questions, only {found}. {_HOW}")
        for record in iter_records(path):
            split = {"dev": "test", "validation": "test"}.get(str(record.get("split")), str(record.get("split")))
            if split not in _SPLITS:
                raise DataError(f"{path}: expected each record's 'split' as train, dev or test, got {split!r}")
            records.setdefault(split, []).append(record)
    corpus_path = corpus or _find(folder, "corpus")
    if corpus_path is None and needs_corpus:
        raise DataError(f"{folder} holds no corpus. {_HOW}")
    return _data(folder.name or str(folder), records, FileCorpus(corpus_path) if corpus_path else None)


def hub_data(name: str, *, corpus: Path | None) -> QuestionData:
    """Read the questions of a data set on a hub; its corpus is a file here, or served.

    Raises:
        MissingDependencyError: If ``datasets`` is not installed.
        DataError: If the data set cannot be loaded.
    """
    try:
        import datasets
    except ImportError:
        raise MissingDependencyError("datasets", "parquet", "reading a data set from a hub") from None
    try:
        loaded = datasets.load_dataset(name)
        records = {split: list(loaded[split]) for split in _SPLITS if split in loaded}
    except Exception as error:  # the library raises many kinds
        raise DataError(f"cannot load {name!r} from the hub ({type(error).__name__}: {error}). {_HOW}") from error
    return _data(name, records, FileCorpus(corpus) if corpus else None)


def _find(folder: Path, stem: str) -> Path | None:
    return next((folder / (stem + suffix) for suffix in _SUFFIXES if (folder / (stem + suffix)).is_file()), None)


def _data(name: str, records: Mapping[str, Iterable[Mapping[str, Any]]], corpus: Corpus | None) -> QuestionData:
    questions: dict[str, tuple[Question, ...]] = {}
    hashes: dict[str, str] = {}
    corpus_hash = corpus.content_hash if corpus else ""
    for split, rows in records.items():
        digest = hashlib.blake2b(corpus_hash.encode(), digest_size=16)
        found: dict[str, Question] = {}
        for number, row in enumerate(rows):
            question = read_question(row, split, number, f"{name}, split {split}")
            if question.id in found:
                raise DataError(f"{name}, split {split}: two questions have the id {question.id!r}")
            found[question.id] = question
            digest.update(json.dumps([question.id, question.question, question.golden_answers]).encode() + b"\n")
        questions[split] = tuple(found[key] for key in sorted(found))
        hashes[split] = digest.hexdigest()
    return QuestionData(name, questions, corpus, hashes)


def read_question(row: Mapping[str, Any], split: str, number: int, where: str) -> Question:
    """Read one record of the published schema.

    Args:
        row: The record.
        split: Its split.
        number: Its place, which names it where it has no id.
        where: For errors.

    Raises:
        DataError: If a field is missing or of another type.
    """
    where = f"{where}, record {number + 1}"
    text, answer = row.get("question"), row.get("answer")
    if not isinstance(text, str) or not text.strip():
        raise DataError(f"{where}: expected 'question' as a text, got {text!r:.80}")
    golden = tuple(_texts(row.get("golden_answers"), f"{where}: 'golden_answers'"))
    if not isinstance(answer, str):
        if not golden:
            raise DataError(f"{where}: expected 'answer' as a text, got {answer!r:.80}")
        answer = golden[0]
    golden = golden or (answer,)
    paraphrased = row.get("is_paraphrased", False)
    if not isinstance(paraphrased, bool | int):
        raise DataError(f"{where}: expected 'is_paraphrased' as true or false, got {paraphrased!r:.80}")
    labels = list(_texts(row.get("pmids") or row.get("pmid"), f"{where}: 'pmid'"))
    given = row.get("id")
    return Question(
        id=f"{split}/{given}" if given is not None else f"{split}/{number:06d}",
        question=text.strip(),
        answer=answer,
        golden_answers=golden,
        is_paraphrased=bool(paraphrased),
        kind=str(row.get("kind") or ""),
        cat=str(row.get("cat") or ""),
        hops=(Hop(text.strip(), answer, golden, frozenset(labels)),),
    )


def _texts(value: Any, what: str) -> Iterator[str]:
    """Iterate over one text or number, or a list of them (also as NumPy arrays and JSON text come)."""
    if value is None:
        return
    if isinstance(value, str) and value.startswith("["):
        try:
            value = json.loads(value)
        except ValueError:
            value = [value]
    for item in value if isinstance(value, list | tuple) or hasattr(value, "tolist") else [value]:
        if isinstance(item, bool) or not isinstance(item, str | int):
            raise DataError(f"{what}: expected texts, got {item!r:.80}")
        yield str(item)
