"""The data: obfuscation, the published layout, and the built-in set."""

import json
import re
import runpy
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_ttg.core.errors import DataError
from agentgym_ttg.envs._search import Document
from agentgym_ttg.envs.browsecompplus.calibration import calibration_error
from agentgym_ttg.envs.browsecompplus.data import Query, builtin_data, folder_data
from agentgym_ttg.envs.browsecompplus.obfuscation import conceal, reveal, reveal_record

ASSETS = Path(__file__).parents[3] / "src" / "agentgym_ttg" / "envs" / "browsecompplus" / "assets"
SCRIPT = Path(__file__).parents[3] / "scripts" / "make_browsecomp_builtin.py"


@given(st.text(st.characters(exclude_categories=["Cs"])), st.text(min_size=1))
def test_obfuscation_is_undone_with_the_same_canary(text, canary):
    canary = canary.encode("utf-8", "replace").decode()
    assert reveal(conceal(text, canary), canary) == text


def test_a_wrong_canary_or_plain_text_is_refused():
    with pytest.raises(DataError, match="Check the canary"):
        reveal(conceal("A sentence long enough to be no text by chance.", "right"), "wrong")
    with pytest.raises(DataError, match="expected base64"):
        reveal("plain text!", "canary")


def test_records_are_decoded_inside_and_plain_ids_stay():
    record = {
        "query_id": "7",
        "query": conceal("who", "c"),
        "n": 3,
        "docs": [{"docid": "5412", "text": conceal("x", "c")}],
    }
    assert reveal_record(record, "c") == {
        "query_id": "7",
        "query": "who",
        "n": 3,
        "docs": [{"docid": "5412", "text": "x"}],
    }
    assert reveal_record({"docid": conceal("5412", "c")}, "c") == {"docid": "5412"}


def write(folder, records, **files):
    (folder / "corpus.jsonl").write_text(
        '{"docid": "1", "text": "zinc", "url": "http://z"}\n{"docid": "2", "text": "iron"}\n'
    )
    (folder / "queries.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    for name, text in files.items():
        (folder / f"{name}.txt").write_text(text)
    return folder


def test_the_published_layout_obfuscated_plain_and_with_qrels(tmp_path):
    plain = {
        "query_id": "9",
        "query": "which metal?",
        "answer": "zinc",
        "evidence_docs": [{"docid": "1"}],
        "gold_docs": ["1"],
    }
    hidden = {**plain, "query": conceal(plain["query"], "c"), "answer": conceal("zinc", "c")}
    expected = Query("9", "which metal?", "zinc", ("1",), ("1",))
    for number, (record, files) in enumerate(
        [(plain, {}), ({**hidden, "canary": "c"}, {}), (hidden, {"canary": "c\n"})]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        data = folder_data(write(folder, [record], **files))
        assert data.queries == {"9": expected}
        assert next(iter(data.corpus)) == Document("1", "", "zinc", "http://z")
    data = folder_data(write(tmp_path, [hidden], qrels_evidence="9 0 2 1\n9 0 1 0\n"), canary="c")
    assert data.queries["9"].evidence == ("2",)


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([{"query_id": "1", "query": "a"}], "record 1: expected 'answer'"),
        ([{"query": "a", "answer": "b"}], "expected a 'query_id'"),
        ([{"query_id": "1", "query": "a", "answer": "b"}] * 2, "came before"),
        ([{"query_id": "1", "query": "a", "answer": "b", "canary": "c"}], "record 1: cannot decode"),
        ([{"query_id": "1", "query": "a", "answer": "b", "gold_docs": [{}]}], "with a 'docid'"),
        ([{"query_id": "1", "query": "a", "answer": "b", "gold_docs": "5"}], "a list of documents"),
    ],
)
def test_bad_records_are_named(tmp_path, records, message):
    with pytest.raises(DataError, match=message):
        folder_data(write(tmp_path, records))


def test_missing_files_are_named(tmp_path):
    with pytest.raises(DataError, match="holds no queries"):
        folder_data(tmp_path)
    with pytest.raises(DataError, match="does not exist"):
        folder_data(tmp_path / "nothing")
    (tmp_path / "qrels_gold.txt").write_text("9 2\n")
    with pytest.raises(DataError, match=r"qrels_gold\.txt, line 1"):
        folder_data(write(tmp_path, []))


def test_the_built_in_set_has_one_answer_for_each_query_and_hard_negatives():
    data = builtin_data()
    documents = {document.id: document for document in data.corpus}
    assert len(data.queries) >= 20
    assert len(documents) >= 300
    river, founder, sponsor, people, author = {}, {}, {}, {}, {}
    for document in documents.values():
        if match := re.search(r"on the river (\w+)\.", document.text):
            river[document.title] = match[1]
        elif match := re.search(r"founded in \d+ by ([\w ]+),", document.text):
            founder[document.title] = match[1]
        elif match := re.search(r"paid by ([\w ]+),", document.text):
            sponsor[document.title] = match[1]
        elif match := re.search(r"native of (\w+)\. .* at the ([\w ]+), and received the ([\w ]+) in", document.text):
            people[document.title] = match.groups()
        elif match := re.search(r"written by ([\w ]+) and", document.text):
            author[match[1]] = document.title
    assert len(river) + len(founder) + len(sponsor) + len(people) + len(author) == len(documents)
    for query in data.queries.values():
        wanted = re.search(
            r"the river (\w+), .* founded by ([\w ]+), and .* paid by the ([\w ]+)\.", query.query
        ).groups()
        met = {}
        for name, (town, institute, prize) in people.items():
            facts = (river[town], founder[institute], sponsor[prize])
            met[name] = sum(one == other for one, other in zip(facts, wanted, strict=True))
        assert [author[name] for name, count in met.items() if count == 3] == [query.answer]
        assert sum(count == 2 for count in met.values()) >= 3
        assert set(query.gold) < set(query.evidence) <= set(documents)
        assert len(query.evidence) == 5
        assert query.answer in documents[query.gold[0]].text


def test_the_built_in_set_is_stored_obfuscated_and_can_be_made_again(tmp_path):
    stored = (ASSETS / "queries.jsonl").read_text(encoding="ascii")
    assert not any(query.answer in stored for query in builtin_data().queries.values())
    runpy.run_path(str(SCRIPT))["main"](tmp_path)
    assert (tmp_path / "queries.jsonl").read_text(encoding="ascii") == stored
    again = folder_data(tmp_path)
    assert list(again.corpus) == list(builtin_data().corpus)


def test_calibration_error_by_hand():
    assert calibration_error([0.95, 0.95, 0.15], [True, False, False]) == pytest.approx((2 * 0.45 + 0.15) / 3)
    assert calibration_error([1.0], [True]) == 0.0
    for confidence, correct in (([], []), ([0.5], []), ([1.5], [True])):
        with pytest.raises(ValueError, match="expected"):
            calibration_error(confidence, correct)
