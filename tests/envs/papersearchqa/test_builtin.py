"""The built-in questions and abstracts."""

import itertools

import pytest

from agentgym_ttg.envs._search import BM25
from agentgym_ttg.envs.papersearchqa.builtin import builtin_data
from agentgym_ttg.envs.papersearchqa.relations import RELATIONS
from agentgym_ttg.envs.papersearchqa.table import load_table
from agentgym_ttg.envs.papersearchqa.writer import LEVELS

LEVEL = pytest.mark.parametrize("level", LEVELS)
KINDS = {f"{hop}/{form}" for hop in ("single-hop", "two-hop") for form in ("original", "paraphrased")}


@LEVEL
def test_sizes_and_kinds(level):
    data = builtin_data(level)
    assert len(data.corpus) >= 1500
    assert sum(len(questions) for questions in data.questions.values()) >= 600
    for questions in data.questions.values():
        assert {question.task_type for question in questions} == KINDS


@LEVEL
def test_every_question_has_one_answer_and_it_stands_in_a_gold_document(level):
    data = builtin_data(level)
    documents = {document.id: document for document in data.corpus}
    answers = {}
    for questions in data.questions.values():
        for question in questions:
            assert answers.setdefault(question.question, question.answer) == question.answer
            assert question.answer in question.golden_answers
            for hop in question.hops:
                assert hop.gold
                for doc_id in hop.gold:
                    assert hop.answer.lower() in documents[doc_id].text.lower()


@LEVEL
def test_no_title_gives_an_answer_away_and_no_question_does(level):
    data = builtin_data(level)
    documents = {document.id: document for document in data.corpus}
    for questions in data.questions.values():
        for question in questions:
            asked = question.question.lower()
            assert not any(f" {name.lower()} " in f" {asked.rstrip('?')} " for name in question.golden_answers)
            for doc_id in question.hops[-1].gold:
                title = documents[doc_id].title.lower()
                assert not any(title == name.lower() for name in question.golden_answers)
            golds = frozenset.intersection(*(hop.gold for hop in question.hops))
            assert len(question.hops) == 1 or not golds  # two hops take two documents


@LEVEL
def test_no_pair_is_asked_for_in_both_splits(level):
    data = builtin_data(level)
    pairs = {split: set() for split in data.questions}
    for split, questions in data.questions.items():
        for question in questions:
            source = question.hops[0].query.rsplit(" ", 1)[0]
            # The query begins with the name that is asked about; find the longest name that it begins with.
            names = load_table().aliases
            while source not in names:
                source = source.rsplit(" ", 1)[0]
            chain = [source, *(hop.answer for hop in question.hops)]
            pairs[split] |= {frozenset(pair) for pair in itertools.pairwise(chain)}
            pairs[split].add(frozenset((chain[0], chain[-1])))
    assert not pairs["train"] & pairs["test"]


def test_a_seed_gives_the_same_again_and_another_seed_another_set():
    first = builtin_data("easy", 5)
    builtin_data.cache_clear()
    again = builtin_data("easy", 5)
    assert first is not again
    assert (first.questions, first.hashes, list(first.corpus)) == (again.questions, again.hashes, list(again.corpus))
    assert again.hashes != builtin_data("easy", 0).hashes
    assert set(again.index["test"]) != set(builtin_data("easy", 0).index["test"])


def test_a_question_finds_a_gold_document_and_the_first_title_is_never_the_answer():
    pytest.importorskip("bm25s", reason="BM25 needs the extra 'search'")
    data = builtin_data("hard")
    index = BM25(data.corpus)
    questions = [q for q in data.questions["test"] if q.task_type == "single-hop/original"][:150]
    hits = titles = 0
    for question in questions:
        found = [hit.document for hit in index.search(question.question)]
        hits += bool(question.hops[0].gold & {document.id for document in found})
        titles += bool(found) and found[0].title.lower() in {name.lower() for name in question.golden_answers}
    assert hits / len(questions) > 0.7
    assert titles == 0


def test_the_table_is_well_formed():
    table = load_table()
    assert len(table.facts) > 2000
    assert {fact.relation for fact in table.facts} == set(RELATIONS)
    for fact in table.facts:
        assert not set("{}<>|=") & set(fact.subject + fact.object)
    for relation in RELATIONS.values():
        for wording in relation.statements:
            assert wording.format(s="S0", o="O0").count("S0") >= 1
            assert "O0" in wording.format(s="S0", o="O0")
        for asking in filter(None, (relation.forward, relation.inverse)):
            assert all("{s}" in text for text in (*asking.original, *asking.paraphrased, *asking.bridge))
            assert len(asking.bridge) in (0, 2)
