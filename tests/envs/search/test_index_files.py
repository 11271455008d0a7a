"""An index on disk: built once, by one process, whole or not at all, and never stale."""

import gzip
import json
import lzma
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from agentgym_ttg.core.errors import DataError, MissingDependencyError
from agentgym_ttg.envs._search import BM25, Document, FileCorpus, MemoryCorpus, cache_folder

pytest.importorskip("bm25s", reason="BM25 needs the extra 'search'")


def write_corpus(path, count=50, extra=()):
    records = [{"id": str(n), "contents": f"TITLE: T{n}. ABSTRACT: word{n} zinc"} for n in range(count)]
    path.write_text("".join(json.dumps(record) + "\n" for record in [*records, *extra]), encoding="utf-8")
    return path


def test_an_index_is_built_once_and_opened_afterwards(tmp_path, monkeypatch):
    corpus = FileCorpus(write_corpus(tmp_path / "corpus.jsonl"))
    first = BM25(corpus)
    monkeypatch.setattr(BM25, "_build", lambda *args: pytest.fail("built again"))
    again = BM25(corpus)
    assert again.path == first.path
    assert again.search("word7") == first.search("word7")
    assert first.search("word7")[0].document == Document("7", "T7.", "word7 zinc")


def test_a_changed_corpus_gets_another_index(tmp_path):
    path = write_corpus(tmp_path / "corpus.jsonl")
    before = BM25(FileCorpus(path))
    status = path.stat()
    path.write_text(path.read_text().replace("word7 ", "word8 "))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))  # same length, same time
    after = BM25(FileCorpus(path))
    assert after.path != before.path
    assert len(before.search("word8")) == 1
    assert len(after.search("word8")) == 2


def test_a_corpus_that_changes_under_the_build_is_refused(tmp_path):
    path = write_corpus(tmp_path / "corpus.jsonl")

    class Shifting(FileCorpus):
        def __iter__(self):
            yield from super().__iter__()
            write_corpus(self.path, count=51)

    with pytest.raises(DataError, match="changed while it was indexed"):
        BM25(Shifting(path))
    assert len(BM25(FileCorpus(path))) == 51


def test_a_damaged_index_is_made_again(tmp_path):
    corpus = FileCorpus(write_corpus(tmp_path / "corpus.jsonl"))
    index = BM25(corpus)
    expected = index.search("word7 zinc")
    index.close()
    for name in ("documents.bin", "bm25/data.csc.index.npy", "manifest.json"):
        file = index.path / name
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
        assert BM25(corpus).search("word7 zinc") == expected
    (index.path / "bm25" / "indices.csc.index.npy").unlink()
    assert BM25(corpus).search("word7 zinc") == expected


CHILD = """
    import sys, time
    from agentgym_ttg.envs._search import BM25, FileCorpus

    class Slow(FileCorpus):
        def __iter__(self):
            for number, document in enumerate(super().__iter__()):
                if number == 20:
                    print("building", flush=True)
                    time.sleep(float(sys.argv[2]))
                yield document

    hits = BM25(Slow(sys.argv[1])).search("word7")
    print("found", hits[0].document.id, flush=True)
"""


def child(path, seconds):
    command = [sys.executable, "-c", textwrap.dedent(CHILD), str(path), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_two_processes_want_one_index_at_once(tmp_path):
    path = write_corpus(tmp_path / "corpus.jsonl")
    answers = [process.communicate()[0].split("\n") for process in [child(path, 0.5), child(path, 0.5)]]
    assert all("found 7" in answer for answer in answers)
    assert sum("building" in answer for answer in answers) == 1  # the other waited
    assert BM25(FileCorpus(path)).search("word7")[0].document.id == "7"


def test_a_killed_build_leaves_nothing_behind(tmp_path):
    path = write_corpus(tmp_path / "corpus.jsonl")
    process = child(path, 60)
    assert process.stdout.readline() == "building\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    folder = cache_folder() / "search"
    assert [entry.name for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith(".")] == []
    index = BM25(FileCorpus(path))  # would wait for ever if the dead process held the lock
    assert index.search("word7")[0].document.id == "7"
    assert [entry for entry in folder.iterdir() if entry.name.startswith(".")] == []


def test_an_index_that_cannot_be_written_says_so(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataError, match="AGENTGYM_TTG_CACHE"):
        BM25(MemoryCorpus([Document("a", "", "x")]), cache_dir=tmp_path / "file")


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".jsonl.xz", ".parquet"])
def test_corpus_files_in_every_form(tmp_path, suffix):
    records = [
        {"id": 3, "contents": "TITLE: A. ABSTRACT: one\u2028\x85two", "pmid": "77"},
        {"id": 4, "contents": "no title", "pmid": None},
    ]
    path = tmp_path / f"corpus{suffix}"
    data = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode()
    if suffix == ".parquet":
        pyarrow = pytest.importorskip("pyarrow", reason="Parquet needs the extra 'parquet'")
        from pyarrow import parquet

        parquet.write_table(pyarrow.Table.from_pylist(records), path)
    else:
        path.write_bytes({".gz": gzip.compress, ".xz": lzma.compress}.get(path.suffix, bytes)(data))
    assert list(FileCorpus(path)) == [Document("3", "A.", "one\u2028\x85two", "77"), Document("4", "", "no title")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id": "a", "text": "x"', "line 2: not a JSON object"),
        ("[1]", "line 2: expected a JSON object, got list"),
        ('{"text": "x"}', "record 2: expected an 'id'"),
        ('{"id": {}, "text": "x"}', "record 2: expected an 'id'"),
        ('{"id": "a", "body": "x"}', "record 2: expected 'contents'"),
    ],
)
def test_a_bad_record_is_named(tmp_path, line, message):
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"id": "1", "text": "fine"}\n' + line + "\n")
    with pytest.raises(DataError, match=message):
        BM25(FileCorpus(path))


def test_bad_files_are_refused(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        FileCorpus(tmp_path / "nothing.jsonl")
    (tmp_path / "corpus.csv").write_text("id\n")
    with pytest.raises(DataError, match=r"ending in \.jsonl"):
        FileCorpus(tmp_path / "corpus.csv")
    (tmp_path / "corpus.jsonl.xz").write_bytes(b"no archive")
    with pytest.raises(DataError, match="cannot read"):
        list(FileCorpus(tmp_path / "corpus.jsonl.xz"))


def test_a_missing_library_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "bm25s", None)
    with pytest.raises(MissingDependencyError, match=r"agentgym-ttg\[search\]"):
        BM25(MemoryCorpus([]))
