"""Write a designed game as a PDDL problem of the ALFWorld domain."""

from __future__ import annotations

from collections import Counter

from ..engine.goals import goal_formula
from .design import Design
from .dice import Dice
from .tables import OPENABLE, RECEPTACLES, THINGS

__all__ = ["write_problem"]

_BASINS = {"sinkbasin": "Sink_bar_{:02d}_bar_SinkBasin", "bathtubbasin": "Bathtub_bar_{:02d}_bar_BathtubBasin"}


def write_problem(design: Design, name: str) -> str:
    """Return the PDDL text.

    The ids follow ALFWorld's pattern (``Mug_bar_07``), from which both engines make the names in the text: the first id
    of a kind gets the highest number. Which id stands where is shuffled, so that a number tells nothing.

    Args:
        design: the game.
        name: name of the PDDL problem; letters, digits, ``_`` and ``-``.

    Returns:
        The problem, in the same order on every machine.
    """
    dice = Dice(f"names {name}")
    receptacle_ids = _ids(dice, list(design.receptacles), RECEPTACLES)
    kinds = [kind for kind, _ in design.things]
    thing_ids = _ids(dice, kinds, {kind: THINGS[kind].word for kind in set(kinds)})
    spots = [f"loc_bar_{spot:02d}" for spot in design.locations]
    start = "loc_bar_99"

    objects = ["agent1 - agent"]
    objects += [f"{identity} - receptacle" for identity in sorted(receptacle_ids)]
    objects += [f"{identity} - object" for identity in sorted(thing_ids)]
    objects += [f"{spot} - location" for spot in sorted({*spots, start})]
    objects += [f"{RECEPTACLES[kind]}Type - rtype" for kind in sorted(set(design.receptacles))]
    goal_kinds = {design.goal.object_kind, *kinds}
    objects += [f"{THINGS[kind].word}Type - otype" for kind in sorted(goal_kinds)]

    facts = [f"atLocation agent1 {start}"]
    for identity, kind, spot in zip(receptacle_ids, design.receptacles, spots, strict=True):
        facts.append(f"receptacleType {identity} {RECEPTACLES[kind]}Type")
        facts.append(f"receptacleAtLocation {identity} {spot}")
        if kind in OPENABLE:
            facts.append(f"openable {identity}")
    for identity, (kind, index) in zip(thing_ids, design.things, strict=True):
        facts.append(f"objectType {identity} {THINGS[kind].word}Type")
        facts.append(f"inReceptacle {identity} {receptacle_ids[index]}")
        facts.append(f"objectAtLocation {identity} {spots[index]}")
        facts += [f"{fact} {identity}" for fact in THINGS[kind].facts]
    for place in sorted(set(design.receptacles)):
        for kind in sorted(goal_kinds):
            if place in THINGS[kind].places:
                facts.append(f"canContain {RECEPTACLES[place]}Type {THINGS[kind].word}Type")

    lines = [f"(define (problem {name})", "(:domain alfred)", "(:objects"]
    lines += [f"  {entry}" for entry in objects]
    lines += [")", "(:init"]
    lines += [f"  ({fact})" for fact in sorted(facts)]
    lines += [")", f"(:goal {goal_formula(design.goal)})", ")", ""]
    return "\n".join(lines)


def _ids(dice: Dice, kinds: list[str], words: dict[str, str]) -> list[str]:
    """Give each entity an id; the numbers within a kind are shuffled."""
    free = {kind: dice.shuffled(range(1, count + 1)) for kind, count in sorted(Counter(kinds).items())}
    return [
        _BASINS[kind].format(free[kind].pop()) if kind in _BASINS else f"{words[kind]}_bar_{free[kind].pop():02d}"
        for kind in kinds
    ]
