"""Reading the fact table: names with their aliases, and facts."""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import NamedTuple

from agentgym_ttg.core.errors import DataError

from .relations import FILES

__all__ = ["Fact", "FactTable", "load_table"]

_WORD = re.compile(r"[^\W_]{3,}")


class Fact(NamedTuple):
    """``relation(subject, object)``; both by their first name."""

    relation: str
    subject: str
    object: str


@dataclass(frozen=True)
class FactTable:
    """All facts.

    Attributes:
        facts: In the order of the files.
        aliases: Name -> all names of the same thing, the first name first.
    """

    facts: tuple[Fact, ...]
    aliases: Mapping[str, tuple[str, ...]]

    @functools.cached_property
    def objects(self) -> Mapping[tuple[str, str], tuple[str, ...]]:
        """(relation, subject) -> objects."""
        out: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        for fact in self.facts:
            out[fact.relation, fact.subject].append(fact.object)
        return {key: tuple(names) for key, names in out.items()}

    @functools.cached_property
    def subjects(self) -> Mapping[tuple[str, str], tuple[str, ...]]:
        """(relation, object) -> subjects."""
        out: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        for fact in self.facts:
            out[fact.relation, fact.object].append(fact.subject)
        return {key: tuple(names) for key, names in out.items()}


@functools.lru_cache(maxsize=1)
def load_table() -> FactTable:
    """Read the table that is shipped.

    A fact whose object can be read off its subject ("Lassa virus", "Lassa fever") is left out: it would be answered
    without a search.

    >>> table = load_table()
    >>> table.objects["antidote", "cyanide"], table.aliases["aciclovir"]
    (('hydroxocobalamin',), ('acyclovir', 'aciclovir'))
    """
    first: dict[str, str] = {}  # lower-case name or alias -> first name
    names: dict[str, list[str]] = {}
    facts: dict[Fact, None] = {}
    for file, columns in FILES.items():
        text = (resources.files(__package__) / "facts" / f"{file}.txt").read_text(encoding="utf-8")
        for number, line in enumerate(text.splitlines(), 1):
            if not line or line.startswith("#"):
                continue
            cells = [_enter(cell, first, names) for cell in line.split("|")]
            if len(cells) != 1 + max(max(pair[1:]) for pair in columns):
                raise DataError(f"{file}.txt, line {number}: {len(cells)} cells do not fit its relations")
            for relation, subject, obj in columns:
                if cells[subject] and cells[obj] and not _overlap(names[cells[subject]], names[cells[obj]]):
                    facts[Fact(relation, cells[subject], cells[obj])] = None
    return FactTable(tuple(facts), {name: tuple(names[key]) for key in names for name in names[key]})


def _enter(cell: str, first: dict[str, str], names: dict[str, list[str]]) -> str:
    """Register the names in a cell; return the first name, ``""`` for an empty cell."""
    given = [name.strip() for name in cell.split("=")]
    if given == ["-"]:
        return ""
    known = next((first[name.lower()] for name in given if name.lower() in first), given[0])
    all_names = names.setdefault(known, [known])
    for name in given:
        if name not in all_names:
            all_names.append(name)
        first[name.lower()] = known
    return known


def _overlap(subjects: list[str], objects: list[str]) -> bool:
    words = {word.lower() for name in subjects for word in _WORD.findall(name)}
    return any(word.lower() in words for name in objects for word in _WORD.findall(name))
