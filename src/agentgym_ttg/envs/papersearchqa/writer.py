"""Writes the built-in abstracts from the fact table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentgym_ttg.envs._search import Document

from .dice import Dice
from .relations import RELATIONS
from .table import Fact, FactTable

__all__ = ["LEVELS", "Abstract", "Level", "write_abstracts"]


@dataclass(frozen=True, slots=True)
class Level:
    """How hard the built-in set is.

    Attributes:
        relations: Relations that occur; empty for all.
        longest_name: Facts with a longer name are left out; 0 for no limit.
        copies: Abstracts for each fact.
        mentions: Abstracts for each subject that name it and say nothing of use.
        statements: How many wordings of a statement, and of a question, are used; 0 for all.
        terse: One statement and at most one sentence more, instead of a whole abstract.
    """

    relations: tuple[str, ...] = ()
    longest_name: int = 0
    copies: int = 1
    mentions: int = 1
    statements: int = 0
    terse: bool = False


LEVELS: dict[str, Level] = {
    "easy": Level(("class", "indication", "adverse"), 15, copies=4, mentions=2, statements=2, terse=True),
    "medium": Level(("class", "target", "indication", "adverse", "gene", "product"), 24, copies=2, statements=2),
    "hard": Level(),
}


@dataclass(frozen=True, slots=True)
class Abstract:
    """A document and the facts that it states."""

    document: Document
    facts: frozenset[Fact]


_BACKGROUND = (
    "{Field} has seen much work on this question.",
    "Data from unselected patients remain scarce.",
    "Earlier reports were small and retrospective.",
    "Guidelines disagree on several points of this topic.",
    "We reviewed the records of {n} consecutive patients.",
    "This multicentre study enrolled {n} participants in {m} hospitals.",
    "A {n}-bed teaching hospital kept a registry for {m} years.",
    "We searched the literature and pooled {m} eligible studies.",
)
_RESULTS = (
    "Follow-up lasted {m} months and {n} visits were analysed.",
    "The result held after adjustment for age and sex.",
    "Findings were consistent in all {m} subgroups.",
    "No new safety signal appeared in {n} person-years.",
    "The observation was confirmed by two blinded readers.",
    "Prospective studies of at least {n} patients are needed.",
    "Costs fell by {m} percent over the study period.",
    "The authors call for a wider registry.",
)
_ASIDES = (
    "No such relation was seen for {t}.",
    "{T} served as the comparison.",
    "Patients exposed to {t} were excluded.",
    "The question has been studied more often for {t}.",
)
_MENTIONS = (
    "A survey compared {s} and {t}; the {k} was not examined.",
    "This letter corrects a table on {s} and {t}. The {k} is not discussed.",
    "Students were asked about the {k} of {s} and of {t}; most answers were wrong.",
    "An audit of {s} and {t} in {m} clinics; data on {k} were missing.",
)
_SHORT = ("{n} cases were seen.", "Age was {m} years.", "Two readers agreed.", "Follow-up took {m} months.")
_TITLES = (
    "{Field}: report {n} from a teaching hospital",
    "Observations in {field}, part {m}",
    "A case series in {field}",
    "{Field} in practice: {n} records reviewed",
    "Notes from a {field} service",
    "What {field} registries teach after {m} years",
)
_SUBJECT_TITLES = (
    "{S} revisited: a review",
    "Ten years of {s}: a regional experience",
    "On {s} in everyday practice",
    "{S}: open questions",
)


def write_abstracts(table: FactTable, level: Level, seed: int) -> tuple[Abstract, ...]:
    """Write all abstracts of a level.

    An abstract's title never holds an answer to a question about its facts. The order, and so the order of the ids, is
    one of chance.

    Args:
        table: The facts.
        level: How hard.
        seed: Determines wording, numbers and order.
    """
    facts = select_facts(table, level)
    writer = _Writer(Dice(seed), level, facts)
    drafts = [writer.state(fact, copy) for fact in facts for copy in range(level.copies)]
    drafts += [
        writer.mention(relation, subject, copy)
        for relation, subject in dict.fromkeys((fact.relation, fact.subject) for fact in facts)
        for copy in range(level.mentions)
        if writer.dice.unit("mention?", relation, subject, copy) < 1 / 3
    ]
    order = writer.dice.order(range(len(drafts)), "order")
    return tuple(
        Abstract(Document(f"{100_000 + place}", drafts[index][0], drafts[index][1]), drafts[index][2])
        for place, index in enumerate(order)
    )


def select_facts(table: FactTable, level: Level) -> tuple[Fact, ...]:
    """Return the facts of a level, in the order of the table."""
    return tuple(
        fact
        for fact in table.facts
        if (not level.relations or fact.relation in level.relations)
        and (not level.longest_name or max(len(fact.subject), len(fact.object)) <= level.longest_name)
    )


_Draft = tuple[str, str, frozenset[Fact]]


class _Writer:
    def __init__(self, dice: Dice, level: Level, facts: Sequence[Fact]) -> None:
        self.dice, self.level = dice, level
        self.peers: dict[str, list[Fact]] = {}
        for fact in facts:
            self.peers.setdefault(fact.relation, []).append(fact)

    def state(self, fact: Fact, copy: int) -> _Draft:
        """Write an abstract that states a fact."""
        dice, key = self.dice, (*fact, copy)
        relation = RELATIONS[fact.relation]
        wordings = relation.statements[: self.level.statements or None]
        # Each copy another wording, as far as there are any.
        chosen = wordings[(copy + dice.number("wording", *fact)) % len(wordings)]
        statement = _capital(chosen.format(s=fact.subject, o=fact.object))
        if self.level.terse:
            more = [self._fill(dice.pick(_SHORT, "short", *key), fact, key)] if dice.unit("more", *key) < 0.5 else []
            return relation.field, " ".join([statement, *more]), frozenset([fact])
        stated = [fact]
        peer = dice.pick(self.peers[fact.relation], "peer", *key)
        aside: list[str] = []
        if peer.subject != fact.subject and peer.object != fact.object:
            if dice.unit("aside", *key) < 0.35:  # a true statement about something else
                wording = dice.pick(wordings, "peer wording", *key)
                aside, stated = [_capital(wording.format(s=peer.subject, o=peer.object))], [fact, peer]
            elif dice.unit("aside", *key) < 0.7:
                wording = dice.pick(_ASIDES, "aside wording", *key)
                aside = [wording.format(t=peer.subject, T=_capital(peer.subject))]
        sentences = [
            self._fill(dice.pick(_BACKGROUND, "background", *key), fact, key),
            *(aside if dice.unit("aside first", *key) < 0.5 else []),
            statement,
            self._fill(dice.pick(_RESULTS, "results", *key), fact, key),
        ]
        if aside and aside[0] not in sentences:
            sentences.append(aside[0])
        return self._title(fact, key), " ".join(sentences), frozenset(stated)

    def mention(self, relation: str, subject: str, copy: int) -> _Draft:
        """Write an abstract that names a subject and what is asked of it, and does not say it."""
        key = ("mention", relation, subject, copy)
        peer = self.dice.pick(self.peers[relation], "peer", *key)
        fact = Fact(relation, subject, "")
        wordings = _MENTIONS[: self.level.statements or None]
        values = {"s": subject, "t": peer.subject, "k": RELATIONS[relation].topic}
        text = _capital(self._fill(self.dice.pick(wordings, "wording", *key), fact, key, **values))
        if self.level.terse:
            return RELATIONS[relation].field, text, frozenset()
        background = self._fill(self.dice.pick(_BACKGROUND, "background", *key), fact, key)
        results = self._fill(self.dice.pick(_RESULTS, "results", *key), fact, key)
        return self._title(fact, key), f"{background} {text} {results}", frozenset()

    def _title(self, fact: Fact, key: tuple[object, ...]) -> str:
        may_name = RELATIONS[fact.relation].inverse is None  # else the subject is an answer
        wordings = _SUBJECT_TITLES if may_name and self.dice.unit("named", *key) < 0.5 else _TITLES
        return self._fill(self.dice.pick(wordings, "title", *key), fact, ("title", *key))

    def _fill(self, text: str, fact: Fact, key: tuple[object, ...], **more: str) -> str:
        field = RELATIONS[fact.relation].field
        values = {
            "n": str(40 + self.dice.number("n", text, *key) % 900),
            "m": str(2 + self.dice.number("m", text, *key) % 30),
            "Field": field,
            "field": field.lower(),
            "s": fact.subject,
            "S": _capital(fact.subject),
        }
        return text.format(**{**values, **more})


def _capital(text: str) -> str:
    # Names such as "p53" or "t(9;22)" keep their spelling: only plain words get a capital.
    word = text.split(" ", 1)[0]
    return text[0].upper() + text[1:] if word.isalpha() and word.islower() else text
