"""What a built-in game is about: its room, its task, what lies where. Also the splits.

**Splits do not overlap, by construction.** A game has a *task* (type, object, target) and a *layout* (its room and how
many receptacles of each kind the room has). SHA-256 sorts both:

* one task in six, and one layout in five, is *unseen*; a ``valid_unseen`` game has an unseen task in an unseen layout;
* ``train`` and ``valid_seen`` games have a seen task in a seen layout. Of the pairs (task, layout), one in ten belongs
  to ``valid_seen`` and the rest to ``train``.

So no game of one split can be a game of another, however long the streams run, and a model that is trained on
``train`` has met every task type and every word of ``valid_seen``, but never that task in that room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from ..engine import TASK_TYPES, Goal, TaskType
from .dice import Dice, bucket
from .tables import LEVELS, ONLY_ONE, OPENABLE, ROOMS, SMALL, THINGS, Level

__all__ = ["Design", "Layout", "design_game", "layout_is_unseen", "split_of", "task_is_unseen"]

VERSION = "1"
"""Part of every seed. A change of tables or rules that changes games has to raise it."""

_ROOMS_OF_TASK: dict[TaskType, tuple[str, ...]] = {
    "pick_and_place_simple": ("kitchen", "bedroom", "livingroom", "bathroom"),
    "look_at_obj_in_light": ("bedroom", "bedroom", "livingroom"),
    "pick_clean_then_place_in_recep": ("kitchen", "kitchen", "bathroom"),
    "pick_heat_then_place_in_recep": ("kitchen",),
    "pick_cool_then_place_in_recep": ("kitchen",),
    "pick_two_obj_and_place": ("kitchen", "bedroom", "livingroom", "bathroom"),
}
_AFFORDANCE: dict[TaskType, str] = {
    "pick_clean_then_place_in_recep": "cleanable",
    "pick_heat_then_place_in_recep": "heatable",
    "pick_cool_then_place_in_recep": "coolable",
}
_APPLIANCE: dict[TaskType, str] = {
    "pick_clean_then_place_in_recep": "sinkbasin",
    "pick_heat_then_place_in_recep": "microwave",
    "pick_cool_then_place_in_recep": "fridge",
}


@dataclass(frozen=True, slots=True)
class Layout:
    """A room and its furniture.

    Attributes:
        room: kind of room.
        counts: (receptacle kind, how many), sorted.
    """

    room: str
    counts: tuple[tuple[str, int], ...]

    @property
    def signature(self) -> str:
        """A text for the layout."""
        return f"{self.room}: " + ", ".join(f"{kind} {count}" for kind, count in self.counts)


@dataclass(frozen=True, slots=True)
class Design:
    """A game before it is written as PDDL.

    Attributes:
        goal: the task.
        sentence: which of the two official sentences states it.
        layout: the room.
        receptacles: kind of each receptacle.
        things: kind of each thing, and the index of the receptacle that it starts in.
        locations: for each receptacle the number of the spot from which it is reached.
    """

    goal: Goal
    sentence: int
    layout: Layout
    receptacles: tuple[str, ...]
    things: tuple[tuple[str, int], ...]
    locations: tuple[int, ...]


def _task_text(goal: Goal) -> str:
    return f"{goal.task_type}/{goal.object_kind}/{goal.target_kind}"


def task_is_unseen(goal: Goal) -> bool:
    """Whether a task is held out for ``valid_unseen``."""
    return bucket(f"task {_task_text(goal)}", 6) == 0


def layout_is_unseen(layout: Layout) -> bool:
    """Whether a layout is held out for ``valid_unseen``."""
    return bucket(f"layout {layout.signature}", 5) == 0


def split_of(goal: Goal, layout: Layout) -> str:
    """Return the split to which a task in a layout belongs, ``""`` where it belongs to none."""
    task, room = task_is_unseen(goal), layout_is_unseen(layout)
    if task and room:
        return "valid_unseen"
    if task or room:
        return ""
    return "valid_seen" if bucket(f"pair {_task_text(goal)} {layout.signature}", 10) == 0 else "train"


def design_game(level: str, split: str, index: int) -> Design:
    """Design a game; the three arguments alone decide it.

    Args:
        level: a key of ``LEVELS``.
        split: ``train``, ``valid_seen`` or ``valid_unseen``.
        index: number of the game in its split.

    Returns:
        A design that can be solved: whatever the task needs is in the room, can be reached, carried and put down.
    """
    dice = Dice(f"agentgym_ttg alfworld {VERSION} {level} {split} {index}")
    size = LEVELS[level]
    # The evaluation splits take the task types in turn, so that each has its share of few games.
    task_type = dice.choice(TASK_TYPES) if split == "train" else TASK_TYPES[index % len(TASK_TYPES)]
    while True:
        layout = _draw_layout(dice, dice.choice(_ROOMS_OF_TASK[task_type]), size)
        goals = [goal for goal in _goals(task_type, layout) if split_of(goal, layout) == split]
        if not goals:
            continue
        kinds = sorted({goal.object_kind for goal in goals})
        kind = dice.choice(kinds)
        goal = dice.choice([goal for goal in goals if goal.object_kind == kind])
        receptacles = tuple(kind for kind, count in layout.counts for _ in range(count))
        things = _place_things(dice, goal, layout.room, receptacles, size)
        if things is not None:
            locations = _spots(dice, receptacles, size)
            return Design(goal, dice.below(2), layout, receptacles, things, locations)


def _draw_layout(dice: Dice, room: str, size: Level) -> Layout:
    furniture = ROOMS[room]
    counts = Counter(furniture.always)
    wanted = dice.between(*size.receptacles)
    while sum(counts.values()) < wanted:
        open_kinds = {
            kind: weight
            for kind, weight in furniture.maybe.items()
            if counts[kind] < (1 if kind in ONLY_ONE else size.most_of_a_kind)
        }
        if not open_kinds:
            break
        counts[dice.weighted(open_kinds)] += 1
    return Layout(room, tuple(sorted(counts.items())))


def _goals(task_type: TaskType, layout: Layout) -> Iterator[Goal]:
    """All tasks of a type that make sense in a layout."""
    present = {kind for kind, _ in layout.counts}
    affordance, appliance = _AFFORDANCE.get(task_type), _APPLIANCE.get(task_type)
    if appliance is not None and appliance not in present:
        return
    for kind, thing in THINGS.items():
        if layout.room not in thing.rooms or "pickupable" not in thing.facts:
            continue
        if affordance is not None and affordance not in thing.facts:
            continue
        starts = {place for place, weight in thing.places.items() if weight and place in present}
        if task_type == "look_at_obj_in_light":
            if starts and any(weight and place in present for place, weight in THINGS["desklamp"].places.items()):
                yield Goal(task_type, kind, "desklamp")
            continue
        for target in sorted(thing.places):
            if target not in present or target == appliance or not starts - {target}:
                continue
            if target in SMALL and task_type == "pick_two_obj_and_place":
                continue
            yield Goal(task_type, kind, target)


def _place_things(
    dice: Dice, goal: Goal, room: str, receptacles: tuple[str, ...], size: Level
) -> tuple[tuple[str, int], ...] | None:
    """Say what lies where; None where the room is too full for the task."""
    room_left = [1 if kind in SMALL else size.crowd for kind in receptacles]
    things: list[tuple[str, int]] = []

    def put(kind: str, forbidden: str = "") -> bool:
        places = THINGS[kind].places
        options = {
            str(index): places.get(place, 0)
            for index, place in enumerate(receptacles)
            if room_left[index] and place != forbidden and places.get(place, 0)
        }
        if not options:
            return False
        index = int(dice.weighted(options))
        room_left[index] -= 1
        things.append((kind, index))
        return True

    two, look = goal.task_type == "pick_two_obj_and_place", goal.task_type == "look_at_obj_in_light"
    if look and not put("desklamp"):
        return None
    needed = 2 if two else 1
    # Nothing of the wanted kind starts where it has to go or, say, in the fridge when it has to be cooled: no game is
    # won, and no step of it done, before it begins.
    appliance = _APPLIANCE.get(goal.task_type, "")
    for _ in range(needed):
        if not put(goal.object_kind, "" if look else goal.target_kind):
            return None
        if receptacles[things[-1][1]] == appliance and appliance == "fridge":
            return None
    if dice.chance(35):
        put(goal.object_kind, "" if look else goal.target_kind)
    wanted = max(dice.between(*size.things), len(things))
    others = [kind for kind, thing in THINGS.items() if room in thing.rooms and kind != goal.object_kind]
    tries = 0
    while len(things) < wanted and tries < 400:
        tries += 1
        kind = dice.choice(others)
        limit = 1 if kind == "desklamp" else size.most_of_a_thing
        if sum(1 for placed, _ in things if placed == kind) < limit:
            put(kind)
    return tuple(things)


def _spots(dice: Dice, receptacles: tuple[str, ...], size: Level) -> tuple[int, ...]:
    """Give each receptacle a spot; at levels that share spots, neighbours of one openable kind may stand together."""
    spots: list[int] = []
    for index, kind in enumerate(receptacles):
        neighbour = index > 0 and receptacles[index - 1] == kind and kind in OPENABLE
        if size.shared_locations and neighbour and dice.chance(30):
            spots.append(spots[-1])
        else:
            spots.append(max(spots, default=-1) + 1)
    return tuple(spots)
