"""A PDDL problem of the ALFWorld domain, read once into an immutable :class:`Problem`.

Entities are ordered by their lower-case id, which is the order in which TextWorld lists them, and are numbered as
ALFWorld's demangler numbers them: all entities of one name count together, and the first in order gets the highest
number.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

from agentgym_ttg.core.errors import DataError

from .goals import Goal, read_goal
from .sexpr import Node, flatten, read_sexpr

__all__ = ["Problem", "Receptacle", "Thing", "read_problem"]


@dataclass(frozen=True, slots=True)
class Receptacle:
    """A place that holds things.

    Attributes:
        id: lower-case PDDL name.
        name: what the text calls it, such as ``cabinet 3``.
        kind: its type without ``type``, such as ``cabinet``.
        location: index of its location, -1 where the problem gives it none (then nobody can go there).
        openable: whether it opens and closes.
        opened: whether it stands open at the start.
        holds: indices of the things in it at the start, ascending.
    """

    id: str
    name: str
    kind: str
    location: int
    openable: bool
    opened: bool
    holds: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Thing:
    """An object of the PDDL problem (``object`` means something else in Python).

    Attributes:
        id: lower-case PDDL name.
        name: what the text calls it, such as ``mug 2``.
        kind: its type without ``type``, such as ``mug``.
        facts: names of the unary predicates that hold of it at the start (``pickupable``, ``cleanable``, ...).
        inside: indices of the things inside it (cups and bowls), ascending.
    """

    id: str
    name: str
    kind: str
    facts: frozenset[str]
    inside: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """Everything that a problem says.

    Attributes:
        name: name of the PDDL problem.
        goal: what has to be reached.
        start: index of the location where the agent starts.
        locations: names of the locations as the text calls them, in order of their ids.
        receptacles: the receptacles, in order of their ids.
        things: the objects, in order of their ids.
        nearby: for each location, the things that the problem puts there (``objectAtLocation``), ascending.
        can_contain: pairs (receptacle kind, object kind) that may be put together.
    """

    name: str
    goal: Goal
    start: int
    locations: tuple[str, ...]
    receptacles: tuple[Receptacle, ...]
    things: tuple[Thing, ...]
    nearby: tuple[tuple[int, ...], ...]
    can_contain: frozenset[tuple[str, str]]


_SORTS = frozenset({"agent", "location", "receptacle", "object", "rtype", "otype"})
_THING_FACTS = (
    "pickupable", "moveable", "cleanable", "heatable", "coolable", "toggleable", "sliceable", "isreceptacleobject",
    "isreceptacleobjectfull", "isclean", "ishot", "iscool", "issliced", "istoggled", "ison",
)  # fmt: skip
_SIGNATURES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_THING_FACTS, ("object",)),
    "openable": ("receptacle",),
    "opened": ("receptacle",),
    "full": ("receptacle",),
    "checked": ("*",),
    "examined": ("location",),
    "atlocation": ("agent", "location"),
    "receptacleatlocation": ("receptacle", "location"),
    "objectatlocation": ("object", "location"),
    "inreceptacle": ("object", "receptacle"),
    "wasinreceptacle": ("object", "receptacle"),
    "inreceptacleobject": ("object", "object"),
    "receptacletype": ("receptacle", "rtype"),
    "objecttype": ("object", "otype"),
    "cancontain": ("rtype", "otype"),
}


def read_problem(text: str, what: str = "the PDDL problem") -> Problem:
    """Read a problem.

    Args:
        text: the PDDL problem.
        what: how to call it in an error.

    Returns:
        The problem.

    Raises:
        DataError: if the text is no PDDL problem, or one outside the ALFWorld domain.
    """
    try:
        return _read(text, what)
    except RecursionError:
        raise DataError(f"{what}: the goal is nested too deeply to be an ALFWorld goal") from None


def _read(text: str, what: str) -> Problem:
    whole = read_sexpr(text, what)
    sections: dict[str, list[Node]] = {}
    for part in whole[1:]:
        if isinstance(part, list) and part and isinstance(part[0], str):
            sections[part[0]] = part[1:]
    if whole[:1] != ["define"] or not {"problem", ":objects", ":init", ":goal"} <= set(sections):
        raise DataError(f"{what}: expected (define (problem ...) (:objects ...) (:init ...) (:goal ...))")
    if sections.get(":domain", ["alfred"]) != ["alfred"]:
        raise DataError(f"{what}: expected the domain 'alfred', found {flatten(sections[':domain'])[:80]}")
    if len(sections[":goal"]) != 1:
        raise DataError(f"{what}: expected one goal, found {len(sections[':goal'])}")
    sorts = _read_objects(sections[":objects"], what)
    facts = _read_facts(sections[":init"], sorts, what)
    return _assemble(str((sections["problem"] or ["?"])[0]), facts, sorts, read_goal(sections[":goal"][0], what), what)


def _read_objects(words: list[Node], what: str) -> dict[str, str]:
    """Read a typed list ``a b - sort c - sort`` into name -> sort."""
    sorts: dict[str, str] = {}
    pending: list[str] = []
    stream = iter(words)
    for word in stream:
        if word == "-":
            sort = next(stream, None)
            if sort not in _SORTS:
                raise DataError(f"{what}: unknown type {str(sort)[:80]!r}; ALFWorld has {', '.join(sorted(_SORTS))}")
            for name in pending:
                if sorts.setdefault(name, str(sort)) != sort:
                    raise DataError(f"{what}: {name[:80]!r} is declared as {sorts[name]} and as {sort}")
            pending = []
        elif isinstance(word, str):
            pending.append(word)
        else:
            raise DataError(f"{what}: expected names in (:objects ...), found {flatten(word)[:80]}")
    if pending:
        raise DataError(f"{what}: {pending[0][:80]!r} in (:objects ...) has no type")
    return sorts


def _read_facts(items: list[Node], sorts: dict[str, str], what: str) -> dict[str, list[tuple[str, ...]]]:
    """Check the initial facts against the domain's predicates; group them by predicate, in the file's order."""
    facts: defaultdict[str, list[tuple[str, ...]]] = defaultdict(list)
    for item in items:
        if not isinstance(item, list) or not item or not isinstance(item[0], str):
            raise DataError(f"{what}: expected facts in (:init ...), found {flatten(item)[:80]}")
        name = item[0]
        if name == "=":  # (= (total-cost) 0), (= (distance a b) 3): costs, which no text shows
            continue
        signature = _SIGNATURES.get(name)
        arguments = tuple(str(word) for word in item[1:])
        if signature is None or len(signature) != len(arguments):
            raise DataError(f"{what}: the fact {flatten(item)[:160]} is not one that an ALFWorld game starts with")
        for argument, sort in zip(arguments, signature, strict=True):
            found = sorts.get(argument)
            if found is None or (sort not in ("*", found)):
                raise DataError(
                    f"{what}: in {flatten(item)[:160]}, expected {argument[:80]!r} to be declared as {sort}, "
                    f"found {found or 'no declaration'}"
                )
        facts[name].append(arguments)
    return facts


def _names(ids: set[str]) -> dict[str, str]:
    """Name the entities as ALFWorld does: ``mug_bar__plus_01...`` becomes ``mug 2``."""
    stems: dict[str, str] = {}
    for entity in ids:
        stem, bar, _ = entity.partition("_bar_")
        if bar:
            stems[entity] = stem + "basin" if "basin" in entity else stem
    left = Counter(stems.values())
    names: dict[str, str] = {}
    for entity in sorted(ids):
        if entity in stems:
            stem = stems[entity]
            names[entity] = f"{stem} {left[stem]}"
            left[stem] -= 1
        else:
            names[entity] = f"{_unmangle(entity)} "  # the trailing space is ALFWorld's
    return names


def _unmangle(text: str) -> str:
    for mangled, plain in (("_minus_", "-"), ("_plus_", "+"), ("_dot_", "."), ("_comma_", ",")):
        text = text.replace(mangled, plain)
    return text


def _single(pairs: list[tuple[str, ...]], relation: str, what: str) -> dict[str, str]:
    """Turn pairs into a mapping; refuse two values for one name."""
    found: dict[str, str] = {}
    for name, value in pairs:
        if found.setdefault(name, value) != value:
            raise DataError(f"{what}: {name[:80]!r} has two facts {relation}: {found[name][:80]} and {value[:80]}")
    return found


def _assemble(
    name: str, facts: dict[str, list[tuple[str, ...]]], sorts: dict[str, str], goal: Goal, what: str
) -> Problem:
    named = {argument for group in facts.values() for arguments in group for argument in arguments}
    names = _names(named)
    by_sort: defaultdict[str, list[str]] = defaultdict(list)
    for entity in sorted(named):
        by_sort[sorts[entity]].append(entity)
    agents = {arguments[0] for arguments in facts["atlocation"]}
    starts = {arguments[1] for arguments in facts["atlocation"]}
    if len(agents) != 1 or len(starts) != 1:
        raise DataError(f"{what}: expected one agent at one location, found {len(agents)} at {len(starts)}")

    place = {entity: index for index, entity in enumerate(by_sort["location"])}
    spot = {entity: index for index, entity in enumerate(by_sort["receptacle"])}
    item = {entity: index for index, entity in enumerate(by_sort["object"])}
    kinds = _single(facts["objecttype"], "objectType", what) | _single(facts["receptacletype"], "receptacleType", what)
    where = _single(facts["receptacleatlocation"], "receptacleAtLocation", what)
    holds: list[set[int]] = [set() for _ in spot]
    for thing, receptacle in facts["inreceptacle"]:
        holds[spot[receptacle]].add(item[thing])
    nearby: list[set[int]] = [set() for _ in place]
    for thing, location in facts["objectatlocation"]:
        nearby[place[location]].add(item[thing])
    inside: list[set[int]] = [set() for _ in item]
    for inner, outer in facts["inreceptacleobject"]:
        inside[item[outer]].add(item[inner])
    unary: defaultdict[str, set[str]] = defaultdict(set)
    for fact in _THING_FACTS:
        for (thing,) in facts[fact]:
            unary[thing].add(fact)
    openable, opened = ({pair[0] for pair in facts[fact]} for fact in ("openable", "opened"))

    return Problem(
        name=name,
        goal=goal,
        start=place[starts.pop()],
        locations=tuple(names[entity] for entity in by_sort["location"]),
        receptacles=tuple(
            Receptacle(
                id=entity,
                name=names[entity],
                kind=kinds.get(entity, "").removesuffix("type"),
                location=place[where[entity]] if entity in where else -1,
                openable=entity in openable,
                opened=entity in opened,
                holds=tuple(sorted(holds[index])),
            )
            for entity, index in spot.items()
        ),
        things=tuple(
            Thing(
                id=entity,
                name=names[entity],
                kind=kinds.get(entity, "").removesuffix("type"),
                facts=frozenset(unary[entity]),
                inside=tuple(sorted(inside[index])),
            )
            for entity, index in item.items()
        ),
        nearby=tuple(tuple(sorted(group)) for group in nearby),
        can_contain=frozenset(
            (receptacle.removesuffix("type"), thing.removesuffix("type")) for receptacle, thing in facts["cancontain"]
        ),
    )
