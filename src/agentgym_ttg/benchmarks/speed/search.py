"""Search: our indexes against rank_bm25 and SQLite's full-text search, on synthetic documents."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from agentgym_ttg.core.errors import ConfigError, EngineError, MissingDependencyError
from agentgym_ttg.envs._search import BM25, Document, TantivyBM25
from agentgym_ttg.envs._search.text import terms

from ._harness import Candidate, Paired, measure
from ._registry import SpeedBenchmark

__all__ = ["BENCHMARK", "SyntheticCorpus", "served_memory"]

_WORDS = 30_000
_K = 3
#: Candidates that take this many documents at most; beyond, one query takes seconds.
_MOST = {"rank_bm25": 50_000}
_FEW = 20  # queries for the slow ones


@dataclass(frozen=True)
class Options:
    """Options of the search speed benchmark."""

    sizes: tuple[int, ...] = (2_000, 20_000, 200_000)
    """Documents in the corpora."""
    length: int = 120
    """Mean words of a document."""
    queries: int = 200
    """Queries that are timed; slow candidates answer the first 20."""
    repetitions: int = 3
    """Rounds; the candidates take turns."""
    memory: bool = True
    """Whether a fresh process opens each index and reports its memory."""
    seed: int = 0
    """Seed of documents and queries."""


class SyntheticCorpus:
    """Documents of invented words whose frequencies fall like those of a language.

    Args:
        count: Documents.
        length: Mean words of one.
        seed: Determines all of them.
    """

    def __init__(self, count: int, length: int, seed: int) -> None:
        self.count, self.length, self.seed = count, length, seed
        self.content_hash = f"synthetic 1/{count}/{length}/{seed}"

    def __iter__(self) -> Iterator[Document]:
        """Iterate over the documents."""
        weights = 1.0 / (np.arange(_WORDS) + 3.0)
        edges = np.cumsum(weights / weights.sum())
        words = _words()
        rng = np.random.default_rng([self.seed, self.count])
        for number in range(self.count):
            size = int(rng.integers(self.length // 2, self.length * 3 // 2 + 1))
            drawn = np.minimum(np.searchsorted(edges, rng.random(size)), _WORDS - 1)
            yield Document(f"{number:07d}", "", " ".join(words[index] for index in drawn))

    def queries(self, count: int) -> list[str]:
        """Return queries of three to six words, neither the commonest nor the rarest."""
        words, rng = _words(), np.random.default_rng([self.seed, 1])
        return [
            " ".join(words[int(index)] for index in rng.integers(50, 5_000, size=rng.integers(3, 7)))
            for _ in range(count)
        ]


@functools.lru_cache(maxsize=1)
def _words() -> tuple[str, ...]:
    syllables = [first + second for first in "bcdfghjklmnpqrtvwz" for second in "aeiou"]
    count = len(syllables)
    return tuple(
        f"{syllables[i % count]}{syllables[i // count % count]}{syllables[i // count**2]}" for i in range(_WORDS)
    )


def _run(options: Options, progress: Callable[[str], object]) -> list[Paired]:
    if min((*options.sizes, options.length, options.queries, options.repetitions), default=0) < 1:
        raise ConfigError("expected sizes, length, queries and repetitions >= 1")
    with tempfile.TemporaryDirectory() as folder:
        return [_one(size, options, folder, progress) for size in options.sizes]


def _one(size: int, options: Options, folder: str, progress: Callable[[str], object]) -> Paired:
    corpus = SyntheticCorpus(size, options.length, options.seed)
    queries = corpus.queries(options.queries)
    values: dict[str, float] = {}
    skipped: dict[str, str] = {}
    searchers: dict[str, Callable[[str], list[str]]] = {}

    def build(label: str, make: Callable[[], Callable[[str], list[str]]]) -> None:
        if size > _MOST.get(label, size):
            skipped[label] = f"more than {_MOST[label]:,} documents"
            return
        progress(f"{size:,} documents: building {label}")
        started = time.perf_counter()
        try:
            searchers[label] = make()
        except (MissingDependencyError, sqlite3.OperationalError) as error:
            skipped[label] = str(error)
            return
        values[f"{label}_build_seconds"] = time.perf_counter() - started

    ours = BM25 if importlib.util.find_spec("bm25s") else TantivyBM25
    build("ours", lambda: _ours(ours(corpus, cache_dir=folder, show_progress=False)))
    build("tantivy", lambda: _ours(TantivyBM25(corpus, cache_dir=folder, show_progress=False)))
    build("sqlite_fts5", lambda: _sqlite(corpus))
    scores: list[Any] = []
    build("rank_bm25", lambda: _rank_bm25(corpus, scores))
    latencies: dict[str, list[float]] = {label: [] for label in searchers}

    def work(label: str, asked: list[str]) -> float:
        for query in asked:
            started = time.perf_counter()
            searchers[label](query)
            latencies[label].append(time.perf_counter() - started)
        return float(len(asked))

    candidates = {
        label: Candidate(functools.partial(_ignore_prepared, work, label, queries if fast else queries[:_FEW]))
        for label in searchers
        for fast in [label in ("ours", "tantivy")]
    }
    found = measure(
        f"search in {size:,} documents",
        "query",
        candidates,
        repetitions=options.repetitions,
        skipped=skipped,
        progress=progress,
    )
    for label, seconds in latencies.items():
        values[f"{label}_p50_ms"], values[f"{label}_p95_ms"] = (
            float(value) * 1e3 for value in np.percentile(seconds, [50, 95])
        )
    notes = [
        f"{label}: p50 {values[f'{label}_p50_ms']:.3g} ms, p95 {values[f'{label}_p95_ms']:.3g} ms, "
        f"built in {values[f'{label}_build_seconds']:.1f} s"
        for label in searchers
    ]
    for label in searchers:
        if label != "ours":
            ratio = values[f"{label}_p50_ms"] / values["ours_p50_ms"]
            values[f"p50_ratio_{label}"] = ratio
            notes.append(f"p50 of {label} is {ratio:,.1f} times ours")
    if "rank_bm25" in searchers:
        same, clear = _agreement(searchers, scores, queries)
        values["same_top1_as_rank_bm25"] = same / max(clear, 1)
        notes.append(f"same first document as rank_bm25 in {same} of the {clear} queries whose two best scores differ")
    if options.memory:
        progress(f"{size:,} documents: memory")
        values["served_mb"] = _in_fresh_process(size, options, folder)
        notes.append(f"a process that serves the index takes {values['served_mb']:,.0f} MB")
    return dataclasses.replace(found, notes=tuple(notes), values=values)


def _ignore_prepared(work: Callable[[str, list[str]], float], label: str, asked: list[str], prepared: Any) -> float:
    return work(label, asked)


def _ours(index: BM25 | TantivyBM25) -> Callable[[str], list[str]]:
    return lambda query: [hit.document.id for hit in index.search(query, _K)]


def _sqlite(corpus: SyntheticCorpus) -> Callable[[str], list[str]]:
    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE docs USING fts5(id UNINDEXED, body)")
    database.executemany("INSERT INTO docs VALUES (?, ?)", ((doc.id, " ".join(terms(doc.text))) for doc in corpus))
    database.commit()
    ask = "SELECT id FROM docs WHERE docs MATCH ? ORDER BY rank LIMIT ?"
    return lambda query: [row[0] for row in database.execute(ask, (" OR ".join(terms(query)), _K))]


def _rank_bm25(corpus: SyntheticCorpus, scores: list[Any]) -> Callable[[str], list[str]]:
    try:
        from rank_bm25 import BM25Okapi
    except ImportError:
        raise MissingDependencyError("rank_bm25", "search-large", "the comparison with rank_bm25") from None
    documents = list(corpus)
    index = BM25Okapi([terms(document.text) for document in documents], k1=1.5, b=0.75)
    scores.append(index.get_scores)

    def search(query: str) -> list[str]:
        best = np.argsort(-index.get_scores(terms(query)), kind="stable")[:_K]
        return [documents[int(place)].id for place in best]

    return search


def _agreement(
    searchers: dict[str, Callable[[str], list[str]]], scores: list[Any], queries: list[str]
) -> tuple[int, int]:
    """Return in how many queries the first document is the same, of those where the other's two best differ."""
    same = clear = 0
    for query in queries[: max(_FEW * 5, 1)]:
        top = np.sort(scores[0](terms(query)))[-2:]
        if len(top) == 2 and top[1] - top[0] > 1e-6 * max(abs(top[1]), 1.0):
            clear += 1
            same += searchers["rank_bm25"](query)[0] == searchers["ours"](query)[0]
    return same, clear


def _in_fresh_process(size: int, options: Options, folder: str) -> float:
    call = f"served_memory({size}, {options.length}, {options.seed}, {options.queries}, {folder!r})"
    code = f"from agentgym_ttg.benchmarks.speed.search import served_memory; print({call})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode:
        raise EngineError(f"the process that measures memory failed: {done.stderr.strip()[-300:]}")
    return float(done.stdout)


def served_memory(size: int, length: int, seed: int, queries: int, folder: str) -> float:
    """Open an index that was built before, search, and return this process's greatest memory in MB (10^6 bytes)."""
    corpus = SyntheticCorpus(size, length, seed)
    index = BM25(corpus, cache_dir=folder)
    for query in corpus.queries(queries):
        index.search(query, _K)
    return _greatest_memory()


def _greatest_memory() -> float:
    status = Path("/proc/self/status")
    if status.is_file():  # getrusage() would count what the parent had when it started this process
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024 / 1e6
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


BENCHMARK = SpeedBenchmark(
    "search", "our search indexes against tantivy, SQLite FTS5 and rank_bm25, on synthetic documents", Options, _run
)
