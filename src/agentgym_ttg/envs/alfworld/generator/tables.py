"""What there is in the built-in games: rooms, furniture, things, and where things belong.

The words are those of ALFWorld's domain, so that built-in and official games speak one language and both engines play
both. The rooms, amounts and weights are this project's own, written from common sense.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LEVELS", "ONLY_ONE", "OPENABLE", "RECEPTACLES", "ROOMS", "SMALL", "THINGS", "Level", "Room", "ThingKind"]

_WORDS = """
ArmChair BathtubBasin Bed Cabinet Cart CoffeeMachine CoffeeTable CounterTop Desk DiningTable Drawer Dresser
Fridge GarbageCan HandTowelHolder LaundryHamper Microwave Ottoman Safe Shelf SideTable SinkBasin Sofa
StoveBurner Toaster Toilet ToiletPaperHanger TowelHolder TVStand
"""

RECEPTACLES: dict[str, str] = {kind.lower(): kind for kind in _WORDS.split()}
"""Kind in lower case -> PDDL word."""

OPENABLE = frozenset({"cabinet", "drawer", "fridge", "microwave", "safe"})
"""The kinds that open and close."""

SMALL = frozenset({"coffeemachine", "handtowelholder", "stoveburner", "toiletpaperhanger", "towelholder"})
"""The kinds that one thing fills."""


@dataclass(frozen=True, slots=True)
class Level:
    """How large the games of a difficulty level are.

    Attributes:
        receptacles: least and greatest number of receptacles.
        things: least and greatest number of things.
        most_of_a_kind: how many receptacles of one kind a room may have.
        most_of_a_thing: how many other things of one kind lie about.
        crowd: how many things one receptacle starts with at most.
        shared_locations: whether neighbouring drawers and cabinets may be reached from one spot, as in many
            official games.
    """

    receptacles: tuple[int, int]
    things: tuple[int, int]
    most_of_a_kind: int
    most_of_a_thing: int
    crowd: int
    shared_locations: bool


LEVELS: dict[str, Level] = {
    "easy": Level((8, 13), (8, 14), 3, 2, 4, False),
    "medium": Level((14, 19), (18, 28), 5, 3, 6, False),
    "hard": Level((18, 29), (34, 48), 9, 4, 10, True),
}


@dataclass(frozen=True, slots=True)
class Room:
    """What furniture a room has.

    Attributes:
        always: the kinds that every such room has.
        maybe: the kinds that fill it up, with their weights.
    """

    always: tuple[str, ...]
    maybe: dict[str, int]


def _weights(text: str) -> dict[str, int]:
    """Read ``"desk 3, shelf 1"``."""
    return {kind: int(weight) for kind, weight in (item.split() for item in text.split(", "))}


ROOMS: dict[str, Room] = {
    "kitchen": Room(
        ("countertop", "fridge", "microwave", "sinkbasin"),
        _weights(
            "cabinet 9, drawer 5, stoveburner 4, countertop 3, diningtable 2, shelf 2, sidetable 1, coffeemachine 2, "
            "toaster 2, garbagecan 2"
        ),
    ),
    "bedroom": Room(
        ("bed", "desk"),
        _weights(
            "drawer 9, shelf 5, sidetable 4, dresser 2, garbagecan 2, cabinet 2, armchair 1, laundryhamper 1, safe 1"
        ),
    ),
    "livingroom": Room(
        ("sofa", "coffeetable", "sidetable"),
        _weights(
            "drawer 6, shelf 4, armchair 3, cabinet 3, dresser 2, tvstand 2, diningtable 2, garbagecan 2, desk 1, "
            "ottoman 1, safe 1"
        ),
    ),
    "bathroom": Room(
        ("sinkbasin", "toilet", "countertop"),
        _weights(
            "cabinet 6, drawer 5, shelf 3, toiletpaperhanger 2, handtowelholder 2, towelholder 2, garbagecan 2, "
            "bathtubbasin 2, cart 1"
        ),
    ),
}

_SINGLE = """
bathtubbasin bed cart coffeemachine coffeetable desk fridge garbagecan laundryhamper microwave safe sinkbasin sofa
toaster toilet tvstand
"""

ONLY_ONE = frozenset(_SINGLE.split())
"""The kinds of which a room has one at most."""


@dataclass(frozen=True, slots=True)
class ThingKind:
    """A kind of thing.

    Attributes:
        word: PDDL word.
        rooms: the rooms that have it.
        facts: its PDDL affordances.
        places: receptacle kind -> weight; weight 0 means that it fits there but does not start there.
    """

    word: str
    rooms: tuple[str, ...]
    facts: tuple[str, ...]
    places: dict[str, int]


_FACTS = {
    "p": "pickupable", "c": "cleanable", "h": "heatable", "k": "coolable", "s": "sliceable", "t": "toggleable",
    "v": "isReceptacleObject",
}  # fmt: skip
_ROOMS = {"K": "kitchen", "B": "bedroom", "L": "livingroom", "W": "bathroom"}

# word | rooms | affordances (p pick up, c clean, h heat, k cool, s slice, t switch, v holds things) | places
_TABLE = """
Apple | K | pchks | fridge 4, countertop 4, diningtable 3, sinkbasin 2, garbagecan 1, sidetable 2, microwave 1
Bread | K | phks | countertop 5, diningtable 4, fridge 2, sidetable 1, garbagecan 1, microwave 0
Egg | K | pchks | fridge 5, countertop 3, sinkbasin 2, diningtable 2, microwave 1, sidetable 1, garbagecan 1
Lettuce | K | pcks | fridge 5, countertop 4, diningtable 3, sinkbasin 2, sidetable 1, garbagecan 0
Potato | K | pchks | fridge 4, countertop 4, diningtable 2, sinkbasin 3, microwave 1, sidetable 1, garbagecan
    1
Tomato | K | pchks | fridge 5, countertop 4, diningtable 3, sinkbasin 2, sidetable 1, garbagecan 1, microwave
    0
Bowl | K | pckv | cabinet 4, countertop 3, diningtable 3, fridge 1, shelf 2, sinkbasin 1, sidetable 1,
    microwave 0
Cup | K | pchkv | cabinet 4, countertop 3, diningtable 2, shelf 2, sinkbasin 2, fridge 1, microwave 1,
    sidetable 1
Mug | KB | pchkv | cabinet 4, coffeemachine 2, countertop 3, desk 3, shelf 2, sinkbasin 1, sidetable 1,
    diningtable 1, dresser 1, microwave 1, fridge 0
Plate | K | pchkv | cabinet 5, countertop 3, diningtable 3, sinkbasin 2, shelf 2, fridge 1, microwave 0
Pan | K | pckv | stoveburner 5, cabinet 3, countertop 3, sinkbasin 1, diningtable 1, fridge 0
Pot | K | pckv | stoveburner 5, cabinet 3, countertop 2, sinkbasin 1, shelf 1, fridge 1, diningtable 0
Kettle | K | pc | stoveburner 4, cabinet 3, countertop 3, shelf 1, sinkbasin 0, diningtable 0
Fork | K | pc | drawer 5, countertop 3, diningtable 3, sinkbasin 2
Spoon | K | pc | drawer 5, countertop 3, diningtable 3, sinkbasin 2
Knife | K | pc | drawer 4, countertop 4, diningtable 2, sinkbasin 1
ButterKnife | K | pc | drawer 4, countertop 3, diningtable 3, sinkbasin 1
Spatula | K | pc | drawer 4, countertop 4, diningtable 1, sinkbasin 2
Ladle | K | pc | drawer 3, countertop 3, cabinet 3, sinkbasin 1, diningtable 0
PepperShaker | K | p | cabinet 3, countertop 4, diningtable 3, shelf 2, drawer 2, sidetable 1
SaltShaker | K | p | cabinet 3, countertop 4, diningtable 3, shelf 2, drawer 2, sidetable 1
DishSponge | KW | pc | sinkbasin 4, countertop 4, drawer 1, cabinet 2, shelf 1, cart 1, bathtubbasin 1,
    garbagecan 0, toilet 0
SoapBottle | KW | p | countertop 4, cabinet 3, sinkbasin 0, shelf 2, cart 2, garbagecan 1, toilet 2, drawer 1
WineBottle | K | pk | cabinet 3, countertop 3, shelf 2, diningtable 2, fridge 2, garbagecan 1
Glassbottle | K | p | cabinet 3, countertop 3, shelf 2, sinkbasin 1, garbagecan 2, fridge 1
AlarmClock | B | p | desk 4, sidetable 5, dresser 3, shelf 3
Book | BL | p | bed 4, desk 4, sidetable 2, shelf 3, sofa 3, coffeetable 4, drawer 2, armchair 1, dresser 2,
    cabinet 1, diningtable 1
CD | B | p | desk 4, drawer 4, shelf 3, dresser 2, sidetable 2, safe 1, garbagecan 1, cabinet 1
CellPhone | BL | p | bed 3, desk 4, sidetable 3, drawer 3, dresser 2, sofa 3, coffeetable 3, armchair 1, safe
    1, shelf 1
CreditCard | BL | p | desk 4, drawer 4, sidetable 2, dresser 2, shelf 2, safe 2, coffeetable 3, sofa 2,
    armchair 2, diningtable 1
KeyChain | BL | p | drawer 4, sidetable 3, desk 3, dresser 2, safe 2, coffeetable 3, sofa 2, shelf 1, armchair
    1, diningtable 1
Laptop | BL | p | desk 5, bed 4, sofa 4, coffeetable 3, armchair 1, dresser 1, diningtable 2, ottoman 1
Pen | BL | p | desk 5, drawer 4, sidetable 2, shelf 2, dresser 1, coffeetable 2, garbagecan 1, diningtable 1
Pencil | BL | p | desk 5, drawer 4, sidetable 2, shelf 2, dresser 1, coffeetable 2, garbagecan 1, diningtable
    1
Pillow | BL | p | bed 6, sofa 5, armchair 3, ottoman 1
TeddyBear | B | p | bed 6, shelf 2, armchair 2, dresser 1, sidetable 0
Cloth | BW | pc | drawer 3, cabinet 3, laundryhamper 2, dresser 2, countertop 3, shelf 1, cart 2, sinkbasin 1,
    bathtubbasin 2, toilet 0, bed 0
RemoteControl | L | p | sofa 4, coffeetable 5, armchair 2, tvstand 4, sidetable 2, drawer 2, shelf 1, ottoman
    1, dresser 1
Newspaper | L | p | coffeetable 5, sofa 4, armchair 3, sidetable 2, diningtable 2, ottoman 1, drawer 1,
    garbagecan 1, shelf 1
Box | L | pv | coffeetable 3, sofa 3, diningtable 3, cabinet 3, shelf 2, dresser 1, sidetable 1, tvstand 1,
    armchair 1, ottoman 1
Statue | BL | p | shelf 5, dresser 3, coffeetable 3, sidetable 2, tvstand 2, desk 1, safe 1, cabinet 1,
    diningtable 0
Vase | L | p | shelf 4, coffeetable 4, diningtable 3, dresser 2, sidetable 2, cabinet 2, tvstand 1, safe 1,
    desk 0
Watch | L | p | drawer 4, coffeetable 3, sidetable 3, shelf 2, dresser 2, safe 2, tvstand 1, desk 1,
    diningtable 0
TissueBox | LW | p | coffeetable 4, sidetable 3, countertop 4, toilet 2, shelf 2, cabinet 2, cart 1, drawer 1,
    dresser 1, desk 1, diningtable 1
WateringCan | L | p | shelf 3, cabinet 3, sidetable 2, coffeetable 2, drawer 1, dresser 1
Candle | W | p | countertop 4, toilet 3, shelf 3, cabinet 3, drawer 2, cart 2
HandTowel | W | p | handtowelholder 6, countertop 2, cabinet 3, drawer 2, shelf 1, sinkbasin 0, toilet 0, cart
    1
SoapBar | W | pc | countertop 4, sinkbasin 3, bathtubbasin 3, toilet 2, cabinet 3, drawer 2, shelf 2, cart 2,
    garbagecan 1
SprayBottle | W | p | countertop 4, toilet 3, cabinet 4, shelf 2, garbagecan 2, cart 2, drawer 1
ToiletPaper | W | p | toiletpaperhanger 5, toilet 4, cabinet 4, countertop 2, drawer 3, shelf 2, cart 1,
    garbagecan 1
Towel | W | p | towelholder 6, countertop 1, cabinet 2, bathtubbasin 1
DeskLamp | BL | t | desk 5, sidetable 4, dresser 2, shelf 1
"""


def _read_table() -> dict[str, ThingKind]:
    kinds: dict[str, ThingKind] = {}
    for line in _TABLE.replace("\n    ", " ").strip().splitlines():
        word, rooms, facts, places = (part.strip() for part in line.split("|"))
        kinds[word.lower()] = ThingKind(
            word, tuple(_ROOMS[room] for room in rooms), tuple(_FACTS[fact] for fact in facts), _weights(places)
        )
    return kinds


THINGS: dict[str, ThingKind] = _read_table()
"""Kind in lower case -> what it is."""
