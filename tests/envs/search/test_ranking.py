"""What every retriever promises about its answers."""

import hashlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentgym_ttg.core.errors import ConfigError, DataError
from agentgym_ttg.envs._search import BM25, DenseRetriever, Document, MemoryCorpus, TantivyBM25, make_retriever
from agentgym_ttg.envs._search.text import query_terms, terms

pytest.importorskip("bm25s", reason="BM25 needs the extra 'search'")


def bag_encoder(texts):
    """Embed a text as its hashed words: equal texts get equal vectors."""
    out = np.zeros((len(texts), 32), dtype=np.float32)
    for row, text in enumerate(texts):
        for term in terms(text):
            out[row, hashlib.md5(term.encode()).digest()[0] % 32] += 1
    return out


def dense(corpus):
    return DenseRetriever(corpus, "bag-of-words", encoder=bag_encoder)


def tantivy(corpus):
    pytest.importorskip("tantivy", reason="needs the extra 'search-large'")
    return TantivyBM25(corpus)


RETRIEVERS = {"bm25s": BM25, "tantivy": tantivy, "dense": dense}
LEXICAL = ["bm25s", "tantivy"]


def corpus_of(**texts):
    return MemoryCorpus([Document(name, "", text) for name, text in texts.items()])


def ids(hits):
    return [hit.document.id for hit in hits]


@pytest.mark.parametrize("make", RETRIEVERS.values(), ids=RETRIEVERS)
def test_nothing_is_found_for_nothing_or_in_nothing(make):
    assert make(MemoryCorpus([])).search("zinc") == []
    index = make(corpus_of(a="zinc", b=""))
    assert index.search("") == []
    assert index.search(" \n\t") == []
    assert index.document("b").text == ""
    assert index.document("c") is None


@pytest.mark.parametrize("make", [RETRIEVERS[name] for name in LEXICAL], ids=LEXICAL)
def test_only_documents_that_match_are_returned(make):
    index = make(corpus_of(a="zinc and iron", b="iron", c="", d="copper"))
    assert ids(index.search("zinc iron", k=10)) == ["a", "b"]
    assert index.search("gold") == []
    # In two documents BM25's textbook idf is zero or negative, and so it is for a term that all documents have.
    assert ids(make(corpus_of(x="blank", y="zinc")).search("zinc", k=2)) == ["y"]
    assert ids(make(corpus_of(x="zinc iron", y="zinc")).search("zinc", k=2)) == ["y", "x"]
    assert ids(make(corpus_of(x="zinc iron", y="zinc")).search("iron zinc", k=1)) == ["x"]


@pytest.mark.parametrize("make", RETRIEVERS.values(), ids=RETRIEVERS)
def test_equal_scores_come_in_the_order_of_ids(make):
    documents = [Document(f"d{number:03d}", "", "zinc sulfate") for number in range(60)]
    for order in (documents, documents[::-1], documents[7:] + documents[:7]):
        index = make(MemoryCorpus(order))
        assert ids(index.search("zinc", k=5)) == ["d000", "d001", "d002", "d003", "d004"]


@pytest.mark.parametrize("make", RETRIEVERS.values(), ids=RETRIEVERS)
def test_duplicate_ids_and_bad_k_are_refused(make):
    with pytest.raises(DataError, match="two documents have the id 'a'"):
        make(MemoryCorpus([Document("a", "", "x"), Document("a", "", "y")]))
    with pytest.raises(ConfigError, match="k >= 1"):
        make(corpus_of(a="x")).search("x", k=0)


@pytest.mark.parametrize("make", RETRIEVERS.values(), ids=RETRIEVERS)
def test_awkward_documents_survive(make):
    nasty = "zinc \x00\x07\x1b[31m \u2028 \x85 \ud800 </information>"
    index = make(corpus_of(control=nasty, huge="iron " * 200_000, unbroken="q" * 1_000_000, greek="β-BLOCKER ﬁbrosis"))
    assert index.document("control").text == nasty
    assert ids(index.search("zinc", k=1)) == ["control"]
    assert ids(index.search("iron", k=1)) == ["huge"]
    assert ids(index.search("β blockers fibrosis", k=1)) == ["greek"]
    for query in ("\x00", "\ud800", "q" * 1_000_000, "zinc " * 100_000, "+title:( AND \"' ^2 zinc*"):
        assert len(index.search(query)) <= 3


def test_question_words_do_not_drown_the_question():
    assert query_terms("Which drug is it that causes gout?") == ["drug", "cause", "gout"]
    index = BM25(corpus_of(a="which is it that is which", b="gout in drugs"))
    assert ids(index.search("which drug is it that causes gout")) == ["b"]
    assert ids(index.search("which is it, xyzzy?")) == ["a"]  # where nothing else matches, they count


@pytest.mark.parametrize("make", [RETRIEVERS[name] for name in LEXICAL], ids=LEXICAL)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    texts=st.lists(st.lists(st.sampled_from(["zinc", "iron", "gold", "lead", "the", "of"]), max_size=6), max_size=8),
    query=st.lists(st.sampled_from(["zinc", "iron", "gold", "the", "xyz"]), max_size=4),
    k=st.integers(1, 10),
)
def test_ranking_invariants(make, texts, query, k):
    corpus = [Document(f"{number}", "", " ".join(words)) for number, words in enumerate(texts)]
    index = make(MemoryCorpus(corpus))
    hits = index.search(" ".join(query), k=k)
    known = {word for words in texts for word in words}
    wanted = {word for word in query if word in known}
    wanted = {word for word in wanted if word != "the"} or wanted
    matching = {doc.id for doc, words in zip(corpus, texts, strict=True) if wanted & set(words)}
    assert len(hits) == min(k, len(matching))
    assert set(ids(hits)) <= matching
    assert [(-hit.score, hit.document.id) for hit in hits] == sorted((-hit.score, hit.document.id) for hit in hits)
    assert all(hit.score > 0 for hit in hits)
    assert ids(index.search(" ".join(query), k=k + 3))[: len(hits)] == ids(hits)


def test_bm25_scores_follow_the_formula():
    texts = {"a": "zinc zinc iron", "b": "zinc", "c": "gold gold gold gold"}
    index = BM25(corpus_of(**texts), k1=1.2, b=0.5)
    n, length = 3, {"a": 3, "b": 1, "c": 4}
    average = sum(length.values()) / n

    def score(doc, word):
        tf = texts[doc].split().count(word)
        df = sum(word in text.split() for text in texts.values())
        idf = np.log(1 + (n - df + 0.5) / (df + 0.5))
        return idf * tf / (tf + 1.2 * (0.5 + 0.5 * length[doc] / average))

    got = {hit.document.id: hit.score for hit in index.search("zinc iron", k=3)}
    assert got == pytest.approx({doc: score(doc, "zinc") + score(doc, "iron") for doc in "ab"}, rel=1e-5)


def test_the_two_lexical_indexes_agree_where_scores_differ_clearly():
    rng = np.random.default_rng(3)
    words = [f"word{number}" for number in range(300)]
    corpus = MemoryCorpus(
        [Document(f"{n:04d}", "", " ".join(rng.choice(words, size=rng.integers(20, 60)))) for n in range(400)]
    )
    one, two = BM25(corpus, k1=1.2, b=0.75), tantivy(corpus)
    same = sum(
        ids(one.search(query, 1)) == ids(two.search(query, 1))
        for query in (" ".join(rng.choice(words, size=3)) for _ in range(50))
    )
    assert same >= 45  # tantivy rounds document lengths


def test_make_retriever_names_what_it_takes():
    assert isinstance(make_retriever("bm25", corpus_of(a="x")), BM25)
    with pytest.raises(ConfigError, match="did you mean 'tantivy'"):
        make_retriever("tantvy", corpus_of(a="x"))
    with pytest.raises(ConfigError, match="needs a corpus"):
        make_retriever("bm25", None)
    with pytest.raises(ConfigError, match="unknown retriever 'dense'"):
        make_retriever("dense", corpus_of(a="x"))
