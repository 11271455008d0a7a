"""What the game says, word for word as ALFWorld's grammar (``alfred.twl2``) says it."""

from __future__ import annotations

from collections.abc import Sequence

from .world import Action, Verb, World, bits

__all__ = ["HELP", "NOTHING_HAPPENS", "feedback", "introduction", "listing", "look"]

NOTHING_HAPPENS = "Nothing happens."

HELP = """Available commands:
  look:                             look around your current location
  inventory:                        check your current inventory
  go to (receptacle):               move to a receptacle
  open (receptacle):                open a receptacle
  close (receptacle):               close a receptacle
  take (object) from (receptacle):  take an object from a receptacle
  move (object) to (receptacle):  place an object in or on a receptacle
  examine (something):              examine a receptacle or an object
  use (object):                     use an object
  heat (object) with (receptacle):  heat an object using a receptacle
  clean (object) with (receptacle): clean an object using a receptacle
  cool (object) with (receptacle):  cool an object using a receptacle
  slice (object) with (object):     slice an object using a sharp object
"""


def listing(names: Sequence[str]) -> str:
    """Join names as the grammar does.

    >>> listing([]), listing(["a cup 1"]), listing(["a cup 2", "a cup 1"])
    ('nothing', 'a cup 1', 'a cup 2, and a cup 1')
    """
    if not names:
        return "nothing"
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])}, and {names[-1]}"


def introduction(world: World, goal_sentence: str) -> str:
    """The first text of a game."""
    scene = look(world) if world.rules.at[world.location] else _room(world, world.rules.receptacle_names)
    return f"-= Welcome to TextWorld, ALFRED! =-\n\n{scene}\n\nYour task is to: {goal_sentence}"


def look(world: World) -> str:
    """What ``look`` says."""
    rules = world.rules
    here = rules.at[world.location]
    if not here:  # at the start, away from everything, ALFWorld's grammar sees nothing
        return _room(world, ())
    beside = [
        f"a {rules.thing_names[thing]}"
        for thing in bits(world.nearby[world.location])
        for index in here
        if world.taken[index] >> thing & 1
    ]
    facing = listing([rules.receptacle_names[index] for index in here])
    return f"You are facing the {facing}. Next to it, you see {listing(beside)}."


def _room(world: World, receptacles: Sequence[str]) -> str:
    reachable = [f"a {name}" for name, at in zip(receptacles, world.rules.where, strict=False) if at >= 0]
    return f"You are in the middle of a room. Looking quickly around you, you see {listing(reachable)}."


def _inside(world: World, receptacle: int) -> str:
    """What ``examine`` says of a receptacle; going there and opening it say it too."""
    rules, name, bit = world.rules, world.rules.receptacle_names[receptacle], 1 << receptacle
    if rules.openable & bit and not world.opened & bit:
        return f"The {name} is closed."
    names = rules.thing_names
    content = listing([f"a {names[thing]}" for thing in bits(world.contents[receptacle])])
    if rules.openable & bit:
        return f"The {name} is open. In it, you see {content}."
    return f"On the {name}, you see {content}."


def _thing(world: World, index: int) -> str:
    """What ``examine`` says of the held thing: the first of the grammar's conditions that holds."""
    rules, thing, bit = world.rules, world.rules.problem.things[index], 1 << index
    name = thing.name
    if "isreceptacleobject" in thing.facts:
        content = listing([f"a {rules.thing_names[inner]}" for inner in thing.inside])
        return f"This is a normal {name}. In it, you see {content}."
    clean, hot, cool, sliced = (bool(mask & bit) for mask in (world.clean, world.hot, world.cool, world.sliced))
    tempered = "hot" if hot else "cool" if cool else ""
    if sliced and (clean or tempered):
        adjectives = " and ".join(word for word in (tempered, "clean" if clean else "") if word)
        return f"This is a {adjectives} sliced {name}."
    if clean and tempered:
        return f"This is a {tempered} and clean {name}."
    if clean or tempered:
        return f"This is a {'clean' if clean else 'hot' if hot else 'cold'} {name}."
    if bit & rules.toggleable & world.toggled:
        return f"This {name} is on."
    if bit & rules.sliceable & world.sliced:
        return f"This is a sliced {name}."
    return f"There's nothing special about {name}."


def feedback(world: World, action: Action) -> str:
    """What the game says after an action; ``world`` is the state that the action has led to."""
    verb, thing, receptacle = action
    rules = world.rules
    if verb is Verb.GO:
        place = rules.receptacle_names[receptacle]
        if rules.variant.syntax == "put":  # before 0.4.0 the text named the location
            place = rules.problem.locations[world.location]
        return f"You arrive at {place}. {_inside(world, receptacle)}"
    if verb is Verb.LOOK:
        return look(world)
    if verb is Verb.INVENTORY:
        if world.holding < 0:
            return "You are not carrying anything."
        return f"You are carrying: a {rules.thing_names[world.holding]}."
    if verb is Verb.HELP:
        return HELP
    if verb is Verb.EXAMINE:
        return _thing(world, thing) if thing >= 0 else _inside(world, receptacle)
    if verb is Verb.SLICE:
        return f"You sliced the {rules.thing_names[thing]} with the {rules.thing_names[receptacle]}."
    if verb is Verb.USE:  # TextWorld never says "off": it looks at whether the lamp was ever switched
        return f"You turn on the {rules.thing_names[thing]}."
    place = rules.receptacle_names[receptacle]
    if verb is Verb.OPEN:
        return f"You open the {place}. {_inside(world, receptacle)}"
    if verb is Verb.CLOSE:
        return f"You close the {place}."
    name = rules.thing_names[thing]
    if verb is Verb.TAKE:
        return f"You pick up the {name} from the {place}."
    if verb is Verb.MOVE:
        if rules.variant.syntax == "put":
            return f"You put the {name} in/on the {place}."
        return f"You move the {name} to the {place}."
    done = {Verb.CLEAN: "clean", Verb.HEAT: "heat", Verb.COOL: "cool"}[verb]
    return f"You {done} the {name} using the {place}."
