"""The state of one game while it is played: which commands apply, what they change, whether the goal holds.

Sets of things and of receptacles are bit masks in Python integers, so a copy of a world is three short lists and a
few integers. The rules are those of ``alfred.pddl`` of ALFWorld, with its two surprises: a stray comma in
``examineObject`` leaves only the held object examinable, and moving between two receptacles at one location changes
nothing, for which reason the official planner drops the action.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum

from .domain import Variant
from .problem import Problem

__all__ = ["Action", "Rules", "Verb", "World", "bits"]


class Verb(IntEnum):
    """What an action does; the first four change nothing."""

    LOOK = 0
    INVENTORY = 1
    HELP = 2
    EXAMINE = 3
    GO = 4
    OPEN = 5
    CLOSE = 6
    TAKE = 7
    MOVE = 8
    CLEAN = 9
    HEAT = 10
    COOL = 11
    USE = 12
    SLICE = 13


Action = tuple[Verb, int, int]
"""Verb, index of the thing (-1: none), index of the receptacle (of the knife, for SLICE; -1: none)."""


def bits(mask: int) -> Iterator[int]:
    """Iterate over the positions of the ones of a mask, ascending.

    >>> list(bits(0b10110))
    [1, 2, 4]
    """
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def mask_of(indices: Iterable[int]) -> int:
    """Return the mask with ones at the given positions."""
    mask = 0
    for index in indices:
        mask |= 1 << index
    return mask


class Rules:
    """What never changes in a game, laid out for speed; shared by all its episodes."""

    def __init__(self, problem: Problem, variant: Variant) -> None:
        self.problem = problem
        self.variant = variant
        things, receptacles = problem.things, problem.receptacles
        self.thing_names = tuple(thing.name for thing in things)
        self.receptacle_names = tuple(receptacle.name for receptacle in receptacles)
        self.where = tuple(receptacle.location for receptacle in receptacles)
        self.at = tuple(
            tuple(index for index, location in enumerate(self.where) if location == here)
            for here in range(len(problem.locations))
        )
        self.openable = mask_of(index for index, receptacle in enumerate(receptacles) if receptacle.openable)
        self.pickupable = self._having("pickupable")
        self.cleanable = self._having("cleanable")
        self.heatable = self._having("heatable")
        self.coolable = self._having("coolable")
        self.toggleable = self._having("toggleable")
        self.sliceable = self._having("sliceable")
        self.knives = mask_of(i for i, thing in enumerate(things) if thing.kind in ("knife", "butterknife"))
        cleaners = ("sinkbasin", "sink") if variant.sink_cleans else ("sinkbasin",)
        self.cleaners = self._of_kind(*cleaners)
        self.microwaves = self._of_kind("microwave")
        self.fridges = self._of_kind("fridge")
        self.fits = tuple(
            mask_of(i for i, thing in enumerate(things) if (receptacle.kind, thing.kind) in problem.can_contain)
            for receptacle in receptacles
        )
        self._set_goal()
        self._standing: dict[int, dict[str, Action]] = {}

    def _having(self, fact: str) -> int:
        return mask_of(index for index, thing in enumerate(self.problem.things) if fact in thing.facts)

    def _of_kind(self, *kinds: str) -> int:
        return mask_of(index for index, place in enumerate(self.problem.receptacles) if place.kind in kinds)

    def _set_goal(self) -> None:
        goal = self.problem.goal
        wanted = mask_of(i for i, thing in enumerate(self.problem.things) if thing.kind == goal.object_kind)
        lamps = 0
        targets: tuple[int, ...] = ()
        if goal.task_type == "look_at_obj_in_light":
            lamps = mask_of(i for i, thing in enumerate(self.problem.things) if thing.kind == goal.target_kind)
        else:
            targets = tuple(bits(self._of_kind(goal.target_kind)))
        affordance = {
            "pick_clean_then_place_in_recep": self.cleanable,
            "pick_heat_then_place_in_recep": self.heatable,
            "pick_cool_then_place_in_recep": self.coolable,
        }
        self.goal_things = wanted & affordance.get(goal.task_type, wanted)
        self.goal_lamps = lamps & self.toggleable
        self.goal_receptacles = targets

    def standing(self, location: int) -> dict[str, Action]:
        """Return the commands that apply at a location whatever else is the case (made once per location)."""
        known = self._standing.get(location)
        if known is None:
            known = {}
            for index in self.at[location]:
                known[f"examine {self.receptacle_names[index]}"] = (Verb.EXAMINE, -1, index)
            for index, there in enumerate(self.where):
                if there not in (location, -1):
                    known[f"go to {self.receptacle_names[index]}"] = (Verb.GO, -1, index)
            if self.variant.has_help:
                known["help"] = (Verb.HELP, -1, -1)
            known["inventory"] = (Verb.INVENTORY, -1, -1)
            known["look"] = (Verb.LOOK, -1, -1)
            self._standing[location] = known
        return known


class World:
    """The changing state of a game.

    Attributes:
        rules: what never changes.
        location: index of the agent's location.
        holding: index of the held thing, -1 for none.
        opened: mask of the receptacles that stand open.
        contents: for each receptacle, the mask of the things in it. A thing may be in two receptacles at once.
        nearby: for each location, the mask of the things said to be there (``objectAtLocation``).
        taken: for each receptacle, the mask of the things that were taken from it and not put back; TextWorld lists
            those among them that are ``nearby`` as lying next to it.
        clean: mask of the clean things; likewise ``hot``, ``cool``, ``sliced``, ``toggled``.
    """

    __slots__ = (
        "clean", "contents", "cool", "holding", "hot", "location", "nearby", "opened", "rules", "sliced", "taken",
        "toggled",
    )  # fmt: skip

    rules: Rules
    location: int
    holding: int
    opened: int
    contents: list[int]
    nearby: list[int]
    taken: list[int]
    clean: int
    hot: int
    cool: int
    sliced: int
    toggled: int

    @classmethod
    def start(cls, rules: Rules) -> World:
        """Return the world in its initial state."""
        problem, world = rules.problem, cls()
        world.rules = rules
        world.location = problem.start
        world.holding = -1
        world.opened = mask_of(i for i, receptacle in enumerate(problem.receptacles) if receptacle.opened)
        world.contents = [mask_of(receptacle.holds) for receptacle in problem.receptacles]
        world.nearby = [mask_of(group) for group in problem.nearby]
        world.taken = [0] * len(problem.receptacles)
        world.clean, world.hot, world.cool, world.sliced, world.toggled = (
            mask_of(i for i, thing in enumerate(problem.things) if fact in thing.facts)
            for fact in ("isclean", "ishot", "iscool", "issliced", "istoggled")
        )
        return world

    def copy(self) -> World:
        """Return an independent copy."""
        twin = World()
        twin.rules = self.rules
        twin.location = self.location
        twin.holding = self.holding
        twin.opened = self.opened
        twin.contents = self.contents[:]
        twin.nearby = self.nearby[:]
        twin.taken = self.taken[:]
        twin.clean = self.clean
        twin.hot = self.hot
        twin.cool = self.cool
        twin.sliced = self.sliced
        twin.toggled = self.toggled
        return twin

    def commands(self) -> dict[str, Action]:
        """Return every command that applies now, with its action, in no particular order."""
        rules = self.rules
        here = rules.at[self.location]
        found = rules.standing(self.location).copy()
        holding, opened = self.holding, self.opened
        things, receptacles = rules.thing_names, rules.receptacle_names
        held = 1 << holding if holding >= 0 else 0
        for index in here:
            bit, name = 1 << index, receptacles[index]
            accessible = True
            if rules.openable & bit:
                accessible = bool(opened & bit)
                if accessible:
                    found[f"close {name}"] = (Verb.CLOSE, -1, index)
                else:
                    found[f"open {name}"] = (Verb.OPEN, -1, index)
            content = self.contents[index]
            if not held:
                if accessible:
                    for thing in bits(content & rules.pickupable):
                        found[f"take {things[thing]} from {name}"] = (Verb.TAKE, thing, index)
            else:
                if accessible and rules.fits[index] & held:
                    if rules.variant.syntax == "move":
                        found[f"move {things[holding]} to {name}"] = (Verb.MOVE, holding, index)
                    else:
                        found[f"put {things[holding]} in/on {name}"] = (Verb.MOVE, holding, index)
                if rules.cleaners & bit and rules.cleanable & held:
                    found[f"clean {things[holding]} with {name}"] = (Verb.CLEAN, holding, index)
                if rules.microwaves & bit and rules.heatable & held:
                    found[f"heat {things[holding]} with {name}"] = (Verb.HEAT, holding, index)
                if rules.fridges & bit and rules.coolable & held:
                    found[f"cool {things[holding]} with {name}"] = (Verb.COOL, holding, index)
            for thing in bits(content & rules.toggleable):
                found.setdefault(f"use {things[thing]}", (Verb.USE, thing, index))
        if held:
            found[f"examine {things[holding]}"] = (Verb.EXAMINE, holding, -1)
            if rules.knives & held:
                for thing in bits(self.nearby[self.location] & rules.sliceable):
                    found[f"slice {things[thing]} with {things[holding]}"] = (Verb.SLICE, thing, holding)
        return found

    def apply(self, action: Action) -> None:
        """Change the state as an action does that applies now."""
        verb, thing, receptacle = action
        if verb <= Verb.EXAMINE:
            return
        if verb is Verb.GO:
            self.location = self.rules.where[receptacle]
        elif verb is Verb.OPEN:
            self.opened |= 1 << receptacle
        elif verb is Verb.CLOSE:
            self.opened &= ~(1 << receptacle)
        elif verb is Verb.TAKE:
            bit = 1 << thing
            self.contents[receptacle] &= ~bit
            self.taken[receptacle] |= bit
            self.nearby[self.location] &= ~bit
            self.holding = thing
        elif verb is Verb.MOVE:
            bit = 1 << thing
            self.contents[receptacle] |= bit
            self.taken[receptacle] &= ~bit
            self.nearby[self.location] |= bit
            self.holding = -1
        elif verb is Verb.CLEAN:
            self.clean |= 1 << thing
        elif verb is Verb.HEAT:
            self.hot |= 1 << thing
            self.cool &= ~(1 << thing)
        elif verb is Verb.COOL:
            self.cool |= 1 << thing
            self.hot &= ~(1 << thing)
        elif verb is Verb.USE:
            self.toggled |= 1 << thing
        else:
            self.sliced |= 1 << thing

    def won(self) -> bool:
        """Whether the goal holds now."""
        rules = self.rules
        task_type, wanted, contents = rules.problem.goal.task_type, rules.goal_things, self.contents
        if task_type == "look_at_obj_in_light":
            if self.holding < 0 or not wanted >> self.holding & 1:
                return False
            lit = rules.goal_lamps & self.toggled
            return any(contents[index] & lit for index in rules.at[self.location])
        if task_type == "pick_clean_then_place_in_recep":
            wanted &= self.clean
        elif task_type == "pick_heat_then_place_in_recep":
            wanted &= self.hot
        elif task_type == "pick_cool_then_place_in_recep":
            wanted &= self.cool
        elif task_type == "pick_two_obj_and_place":
            return any((contents[index] & wanted).bit_count() >= 2 for index in rules.goal_receptacles)
        return any(contents[index] & wanted for index in rules.goal_receptacles)

    def key(self) -> str:
        """Return a text that is equal for equal states of one game, on every machine."""
        contents = ".".join(format(mask, "x") for mask in self.contents)
        nearby = ".".join(format(mask, "x") for mask in self.nearby)
        taken = ".".join(format(mask, "x") for mask in self.taken)
        return (
            f"{self.location}/{self.holding}/{self.opened:x}/{contents}/{nearby}/{taken}/"
            f"{self.clean:x}/{self.hot:x}/{self.cool:x}/{self.sliced:x}/{self.toggled:x}"
        )
