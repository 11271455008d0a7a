"""Questions: what they hold, and writing the built-in ones from the fact table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .dice import Dice
from .relations import RELATIONS, Asking
from .table import Fact, FactTable
from .writer import Abstract, Level, select_facts

__all__ = ["Hop", "Question", "write_questions"]

_TEST_SHARE = 0.3
_TWO_HOP_MOST = 800  # chains of each level that are kept, before they are worded


@dataclass(frozen=True, slots=True)
class Hop:
    """One search that an expert makes.

    Attributes:
        query: What it searches for.
        answer: What it has to find.
        names: All names of the answer; one of them stands in a gold document.
        gold: Ids of the documents that say it; any one will do.
    """

    query: str
    answer: str
    names: tuple[str, ...]
    gold: frozenset[str]


@dataclass(frozen=True, slots=True)
class Question:
    """One question.

    Attributes:
        id: Unique in its split.
        question: The text.
        answer: The answer.
        golden_answers: All answers that count.
        is_paraphrased: Whether it is worded otherwise than the documents.
        kind: ``single-hop``, ``two-hop``, or what the data calls it.
        cat: Field.
        hops: What an expert searches for, in order.
    """

    id: str
    question: str
    answer: str
    golden_answers: tuple[str, ...]
    is_paraphrased: bool
    kind: str
    cat: str
    hops: tuple[Hop, ...]

    @property
    def task_type(self) -> str:
        """``kind/original`` or ``kind/paraphrased``."""
        wording = "paraphrased" if self.is_paraphrased else "original"
        return f"{self.kind}/{wording}" if self.kind else wording


class _Edge(NamedTuple):
    source: str
    target: str
    asking: Asking
    fact: Fact


def write_questions(
    table: FactTable, abstracts: Sequence[Abstract], level: Level, seed: int, prefix: str
) -> dict[str, tuple[Question, ...]]:
    """Write the questions of a level.

    Every question has one answer: a relation that has several from where it is asked is left out. Each pair of names
    that a question joins belongs to one split, and a question over two hops only to the split of both its facts; so no
    pair, in either direction, is asked for in both splits.

    Args:
        table: The facts.
        abstracts: The documents; a fact that none states is not asked for.
        level: How hard.
        seed: Determines splits, wording and order.
        prefix: Ids are ``prefix/split/number``.

    Returns:
        Split (``train``, ``test``) -> questions.
    """
    return _Asker(table, abstracts, level, Dice(seed)).questions(prefix)


class _Asker:
    def __init__(self, table: FactTable, abstracts: Sequence[Abstract], level: Level, dice: Dice) -> None:
        self.table, self.level, self.dice = table, level, dice
        gold: defaultdict[Fact, set[str]] = defaultdict(set)
        for abstract in abstracts:
            for fact in abstract.facts:
                gold[fact].add(abstract.document.id)
        self.gold: Mapping[Fact, set[str]] = gold

    def questions(self, prefix: str) -> dict[str, tuple[Question, ...]]:
        edges = self._edges()
        items: dict[str, list[tuple[_Edge, ...]]] = {"train": [], "test": []}
        for edge in edges:
            items[self._split(edge)].append((edge,))
        pairs = {split: {_pair(chain[0].source, chain[0].target) for chain in items[split]} for split in items}
        chains = self.dice.order(self._chains(edges), "chains")[:_TWO_HOP_MOST]
        for chain in chains:
            split = self._split(chain[0])
            ends = _pair(chain[0].source, chain[1].target)
            other = "test" if split == "train" else "train"
            if self._split(chain[1]) == split and ends not in pairs[other]:
                items[split].append(chain)
                pairs[split].add(ends)
        out: dict[str, tuple[Question, ...]] = {}
        for split, found in items.items():
            worded = [(chain, paraphrased) for chain in found for paraphrased in (False, True)]
            out[split] = tuple(
                self._word(chain, paraphrased, f"{prefix}/{split}/{number:06d}")
                for number, (chain, paraphrased) in enumerate(self.dice.order(worded, "questions", split))
            )
        return out

    def _edges(self) -> list[_Edge]:
        """Return what can be asked with one answer."""
        found: defaultdict[tuple[Asking, str], dict[str, _Edge]] = defaultdict(dict)
        chosen = set(select_facts(self.table, self.level))
        for fact in self.table.facts:  # all of them: an answer that a level leaves out is still an answer
            relation = RELATIONS[fact.relation]
            found[relation.forward, fact.subject][fact.object] = _Edge(
                fact.subject, fact.object, relation.forward, fact
            )
            if relation.inverse:
                found[relation.inverse, fact.object][fact.subject] = _Edge(
                    fact.object, fact.subject, relation.inverse, fact
                )
        single = [next(iter(edges.values())) for edges in found.values() if len(edges) == 1]
        return [edge for edge in single if edge.fact in chosen and edge.fact in self.gold]

    def _chains(self, edges: Iterable[_Edge]) -> Iterator[tuple[_Edge, _Edge]]:
        edges = list(edges)
        by_source: defaultdict[str, list[_Edge]] = defaultdict(list)
        for edge in edges:
            by_source[edge.source].append(edge)
        for first in edges:
            if first.asking.bridge:
                for second in by_source[first.target]:
                    if second.fact != first.fact and not self._alike(first.source, second.target):
                        yield first, second

    def _alike(self, one: str, other: str) -> bool:
        """Whether the answer can be read off the question."""
        words = {word for name in self.table.aliases[one] for word in name.lower().split()}
        return any(word in words for name in self.table.aliases[other] for word in name.lower().split())

    def _split(self, edge: _Edge) -> str:
        return "test" if self.dice.unit("split", *_pair(edge.source, edge.target)) < _TEST_SHARE else "train"

    def _word(self, chain: tuple[_Edge, ...], paraphrased: bool, question_id: str) -> Question:
        first, last = chain[0], chain[-1]
        subject = first.source
        if paraphrased and not self.level.statements:  # another name is another wording too
            subject = self.dice.pick(self.table.aliases[subject], "alias", question_id)
        if len(chain) == 2:
            subject = first.asking.bridge[paraphrased].format(s=subject)
        wordings = last.asking.paraphrased if paraphrased else last.asking.original
        text = self.dice.pick(wordings, "question", question_id).format(s=subject)
        return Question(
            id=question_id,
            question=text[0].upper() + text[1:] if text.startswith("the ") else text,
            answer=last.target,
            golden_answers=self.table.aliases[last.target],
            is_paraphrased=paraphrased,
            kind=("single-hop", "two-hop")[len(chain) - 1],
            cat=RELATIONS[last.fact.relation].field,
            hops=tuple(
                Hop(
                    query=f"{edge.source} {edge.asking.keyword}",
                    answer=edge.target,
                    names=self.table.aliases[edge.target],
                    gold=frozenset(self.gold[edge.fact]),
                )
                for edge in chain
            ),
        )


def _pair(one: str, other: str) -> tuple[str, str]:
    return (one, other) if one <= other else (other, one)
