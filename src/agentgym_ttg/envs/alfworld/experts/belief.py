"""What an agent knows from reading the game's text: the world as seen so far.

Everything is taken from observations and, where given, from the admissible commands; nothing from the game's state. An
observation of ALFWorld says by itself what has happened, so the belief stays right whoever chose the command.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from agentgym_ttg.core.errors import PolicyError

from ..engine import Goal
from ..engine.goals import TASK_TYPES, goal_sentences

__all__ = ["Belief", "kind_of", "read_task"]

_ENTITY = r"[a-z]+ [0-9]+"
_LISTED = re.compile(rf"\ba ({_ENTITY})")
_SEEN = re.compile(rf"(?:On the ({_ENTITY})|The ({_ENTITY}) is open\. In it), you see ([^\n]*)")
_CLOSED = re.compile(rf"The ({_ENTITY}) is closed\.")
_ARRIVED = re.compile(rf"You arrive at {_ENTITY}\. (?:On the|The) ({_ENTITY})")
_EXAMINED = re.compile(rf"(?:On the|The) ({_ENTITY})")
_SHUT = re.compile(rf"You close the ({_ENTITY})\.")
_TAKEN = re.compile(rf"You pick up the ({_ENTITY}) from the ({_ENTITY})\.")
_PLACED = re.compile(rf"You (?:move|put) the ({_ENTITY}) (?:to|in/on) the ({_ENTITY})\.")
_TREATED = re.compile(rf"You (clean|heat|cool) the ({_ENTITY}) using the {_ENTITY}\.")
_LIT = re.compile(rf"You turn on the ({_ENTITY})\.")
_CARRYING = re.compile(rf"You are carrying: a ({_ENTITY})\.")
_TASK = re.compile(r"Your task is to: ([^\n]*)")
_TAKE = re.compile(rf"take ({_ENTITY}) from ({_ENTITY})")

_TEMPLATES: list[tuple[re.Pattern[str], Goal]] = [
    (re.compile(re.escape(sentence).replace("OBJ", "([a-z]+)").replace("TARGET", "([a-z]+)")), Goal(task, "", ""))
    for task in TASK_TYPES
    for sentence in goal_sentences(Goal(task, "OBJ", "TARGET"))
]
# "put a clean apple in fridge." also fits no other template: each pattern allows one word per gap.


def kind_of(name: str) -> str:
    """Return the kind of an entity.

    >>> kind_of("cabinet 12")
    'cabinet'
    """
    return name.rsplit(" ", 1)[0]


def read_task(text: str) -> Goal:
    """Read the goal from a text that holds ``Your task is to: ...``, or from a goal sentence itself.

    Raises:
        PolicyError: if the sentence is none of the twelve official wordings (a human annotation, say).

    >>> read_task("Your task is to: cool some mug and put it in shelf.")
    Goal(task_type='pick_cool_then_place_in_recep', object_kind='mug', target_kind='shelf')
    """
    match = _TASK.search(text)
    sentence = (match.group(1) if match else text).strip()
    for pattern, goal in _TEMPLATES:
        found = pattern.fullmatch(sentence if sentence.endswith(".") else f"{sentence}.")
        if found:
            return Goal(goal.task_type, found.group(1), found.group(2))
    raise PolicyError(
        f"cannot tell the task from {sentence[:120]!r}: expected one of ALFWorld's wordings, such as "
        "'put a clean apple in fridge.'. Pass goal= where the task is known otherwise."
    )


class Belief:
    """What is known of one episode.

    Attributes:
        receptacles: all receptacles, as the first observation lists them.
        at: the receptacle that the agent last went to, "" at the start.
        here: the receptacles known to be within reach.
        contents: what was seen in each receptacle that has been looked into.
        closed: the receptacles known to be closed now.
        holding: the held thing, "" for none.
        origin: where the held thing came from.
        treated: what was done to a thing: ``clean``, ``heat``, ``cool``.
        lit: the lamps that were switched on.
    """

    def __init__(self, observation: str) -> None:
        scene = observation.partition("Your task is to:")[0]
        self.receptacles: list[str] = list(dict.fromkeys(_LISTED.findall(scene)))
        self.at = ""
        self.here: set[str] = set()
        self.contents: dict[str, set[str]] = {}
        self.closed: set[str] = set()
        self.holding = ""
        self.origin = ""
        self.treated: dict[str, set[str]] = {}
        self.lit: set[str] = set()

    def update(self, observation: str, admissible: Iterable[str]) -> None:
        """Take in an observation and the commands that are admissible after it (may be empty)."""
        arrived = _ARRIVED.search(observation)
        if arrived:
            self.at = arrived.group(1)
            self.here = {self.at}
        examined = _EXAMINED.match(observation)
        if examined:  # only what is within reach can be examined: a neighbour at the same spot
            self.here.add(examined.group(1))
        for name in _CLOSED.findall(observation):
            self.closed.add(name)
        for on, inside, listed in _SEEN.findall(observation):
            self.contents[on or inside] = set(_LISTED.findall(listed))
            self.closed.discard(on or inside)
        for name in _SHUT.findall(observation):
            self.closed.add(name)
        for thing, place in _TAKEN.findall(observation):
            self.contents.setdefault(place, set()).discard(thing)
            self.holding, self.origin = thing, place
        for thing, place in _PLACED.findall(observation):
            self.contents.setdefault(place, set()).add(thing)
            self.holding = self.origin = ""
        for done, thing in _TREATED.findall(observation):
            state = self.treated.setdefault(thing, set())
            state.discard({"heat": "cool", "cool": "heat"}.get(done, ""))
            state.add(done)
        self.lit.update(_LIT.findall(observation))
        carrying = _CARRYING.search(observation)
        if carrying:
            self.holding = carrying.group(1)
        elif "You are not carrying anything." in observation:
            self.holding = ""
        self._learn_from(list(admissible))

    def _learn_from(self, admissible: list[str]) -> None:
        """Commands tell what is within reach, which helps where two receptacles share a spot."""
        if not admissible:
            return
        known = set(self.receptacles)
        self.here = {name for command in admissible if (name := command.removeprefix("examine ")) in known}
        for command in admissible:
            if command.startswith("open "):
                self.closed.add(command.removeprefix("open "))
            elif command.startswith("close "):
                self.closed.discard(command.removeprefix("close "))
            elif command.startswith("take "):
                match = _TAKE.fullmatch(command)
                if match and match.group(2) in self.contents:
                    self.contents[match.group(2)].add(match.group(1))

    def places_of(self, kind: str) -> list[tuple[str, str]]:
        """Return (thing, receptacle) for each thing of a kind that was seen, in the order of the room."""
        return [
            (thing, place)
            for place in self.receptacles
            for thing in sorted(self.contents.get(place, ()))
            if kind_of(thing) == kind and thing != self.holding
        ]
