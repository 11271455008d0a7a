"""Published data, from folders in the published schema."""

import json
import runpy
from pathlib import Path

import pytest

from agentgym_ttg.core.errors import DataError
from agentgym_ttg.envs._search import BM25
from agentgym_ttg.envs.papersearchqa.data import folder_data
from agentgym_ttg.envs.papersearchqa.env import PaperSearchQAEnv

REAL = Path(__file__).parents[4] / "shared" / "data" / "papersearch"
SCRIPT = Path(__file__).parents[3] / "scripts" / "convert_papersearch.py"
QUESTION = {
    "question": "What heals wounds?",
    "answer": "zinc",
    "golden_answers": ["zinc", "Zn"],
    "is_paraphrased": True,
    "cat": "Nutrition",
    "pmid": 77,
}


def write(folder, **files):
    contents = {"corpus": [{"id": 0, "contents": "TITLE: Wounds. ABSTRACT: Zinc heals.", "pmid": "77"}], **files}
    for name, records in contents.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder


def test_the_published_schema(tmp_path):
    data = folder_data(write(tmp_path, train=[QUESTION, QUESTION], test=[{**QUESTION, "golden_answers": '["Zn"]'}]))
    first, second = data.questions["train"]
    assert (first.id, second.id) == ("train/000000", "train/000001")
    assert (first.task_type, first.golden_answers) == ("paraphrased", ("zinc", "Zn"))
    assert first.hops[0].gold == {"77"}
    assert data.questions["test"][0].golden_answers == ("Zn",)


def test_one_file_with_splits_and_dev_as_test(tmp_path):
    records = [{**QUESTION, "split": split, "id": split, "kind": "k"} for split in ("train", "dev")]
    data = folder_data(write(tmp_path, questions=records))
    assert [data.questions[split][0].id for split in ("train", "test")] == ["train/train", "test/dev"]
    assert data.questions["test"][0].task_type == "k/paraphrased"


def test_parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="Parquet needs the extra 'parquet'")
    from pyarrow import parquet

    write(tmp_path)
    parquet.write_table(pyarrow.Table.from_pylist([QUESTION]), tmp_path / "test.parquet")
    assert folder_data(tmp_path).questions["test"][0].golden_answers == ("zinc", "Zn")


def test_playing_it(tmp_path):
    pytest.importorskip("bm25s", reason="BM25 needs the extra 'search'")
    env = PaperSearchQAEnv(split="test", data_dir=write(tmp_path, test=[QUESTION]), expert=True)
    assert env.tasks.source == tmp_path.name
    assert env.data_hash
    _, info = env.reset(seed=0)
    *_, info = env.step(info["expert_action"])
    assert info["metrics"]["gold_hit_at_3"] == 1.0  # by its PMID, which is not its id
    _, reward, *_ = env.step("<answer>ZN</answer>")
    assert reward == 1.0


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"test": [{**QUESTION, "question": ""}]}, "record 1: expected 'question'"),
        ({"test": [{**QUESTION, "answer": None, "golden_answers": None}]}, "expected 'answer'"),
        ({"test": [{**QUESTION, "golden_answers": [{}]}]}, "'golden_answers': expected texts"),
        ({"test": [{**QUESTION, "is_paraphrased": "no"}]}, "'is_paraphrased'"),
        ({"test": [{**QUESTION, "id": 1}] * 2}, "two questions have the id"),
        ({"questions": [{**QUESTION, "split": "x"}]}, "as train, dev or test"),
        ({}, "holds no questions"),
    ],
)
def test_bad_data_is_named(tmp_path, files, message):
    with pytest.raises(DataError, match=message):
        folder_data(write(tmp_path, **files))


def test_a_missing_split_or_corpus_is_named(tmp_path):
    pytest.importorskip("bm25s", reason="BM25 needs the extra 'search'")
    write(tmp_path, test=[QUESTION])
    with pytest.raises(DataError, match="no split 'train'"):
        PaperSearchQAEnv(split="train", data_dir=tmp_path).reset()
    (tmp_path / "corpus.jsonl").unlink()
    with pytest.raises(DataError, match="holds no corpus"):
        folder_data(tmp_path)


@pytest.mark.skipif(not REAL.is_dir(), reason="the real abstracts are not here")
def test_real_abstracts_rank_as_the_library_ranks_them(tmp_path):
    bm25s = pytest.importorskip("bm25s", reason="BM25 needs the extra 'search'")
    from agentgym_ttg.envs._search.text import query_terms, terms

    runpy.run_path(str(SCRIPT))["main"](REAL, tmp_path)
    data = folder_data(tmp_path)
    assert {split: len(questions) for split, questions in data.questions.items()} == {"train": 550, "test": 519}
    documents, index = list(data.corpus), BM25(data.corpus)
    library = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
    library.index([terms(document.contents) for document in documents], show_progress=False)
    known = {term for document in documents for term in terms(document.contents)}
    for question in data.questions["test"][:100]:
        asked = query_terms(question.question, known.__contains__)
        ranked, _ = library.retrieve([asked], k=3, show_progress=False)
        ours = [hit.document.id for hit in index.search(question.question)]
        assert ours == [documents[place].id for place in ranked[0]]
