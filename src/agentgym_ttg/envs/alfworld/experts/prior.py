"""Where things usually are: for a searching expert that has not looked yet.

For each kind of thing, the percentage of receptacles of a kind that held at least one at the start, counted over the
3,553 official training games (data release 2.1.2, MIT licence), rooms without such a thing left out. Pairs under half
a percent are left out too.
"""

from __future__ import annotations

__all__ = ["chance_of"]

_TABLE = """
alarmclock = diningtable:74 desk:55 countertop:52 dresser:46 sidetable:35 shelf:11
apple = fridge:41 diningtable:34 sidetable:31 microwave:24 garbagecan:23 countertop:20 sinkbasin:17
book = bed:59 coffeetable:50 desk:40 diningtable:33 countertop:33 sofa:24 dresser:23 armchair:13 tvstand:8
    sidetable:8 cabinet:3 drawer:3 shelf:1
bowl = desk:78 coffeetable:43 fridge:33 diningtable:33 dresser:32 tvstand:29 countertop:16 shelf:9
    sidetable:7 sinkbasin:6 microwave:5 cabinet:5
box = diningtable:45 coffeetable:27 sofa:22 desk:14 tvstand:8 ottoman:5 cabinet:5 sidetable:5 dresser:4
    armchair:3 shelf:2
bread = diningtable:50 countertop:33 fridge:17 sidetable:9 garbagecan:1
butterknife = diningtable:50 countertop:39 sidetable:27 sinkbasin:10 drawer:3
candle = sidetable:61 countertop:45 toilet:44 coffeetable:39 cart:35 tvstand:33 diningtable:30 dresser:25
    shelf:22 cabinet:12 drawer:9
cd = diningtable:58 dresser:39 desk:36 sidetable:25 garbagecan:14 armchair:9 drawer:8 cabinet:7 safe:6
    shelf:4
cellphone = bed:42 desk:40 diningtable:40 coffeetable:36 ottoman:35 dresser:35 tvstand:30 countertop:27
    sofa:25 safe:23 sidetable:19 armchair:17 drawer:5 shelf:5
cloth = bathtubbasin:61 cart:33 countertop:27 cabinet:19 dresser:14 sinkbasin:9 drawer:7 toilet:6 shelf:5
    sidetable:1
creditcard = desk:39 dresser:36 diningtable:34 tvstand:32 sofa:31 countertop:28 coffeetable:27
    sidetable:22 armchair:19 ottoman:19 shelf:10 drawer:9
cup = fridge:35 diningtable:33 sidetable:28 sinkbasin:17 countertop:17 microwave:14 shelf:6 cabinet:3
desklamp = sidetable:42 desk:40 dresser:36 coffeetable:16 shelf:4
dishsponge = bathtubbasin:39 cart:30 diningtable:29 countertop:21 toilet:15 sinkbasin:14 sidetable:13
    garbagecan:10 shelf:10 drawer:7 cabinet:4
egg = fridge:40 diningtable:27 sidetable:26 garbagecan:22 sinkbasin:22 microwave:21 countertop:19
floorlamp = sinkbasin:41
fork = diningtable:46 countertop:31 sidetable:24 sinkbasin:15 drawer:7
glassbottle = diningtable:37 countertop:18 sinkbasin:17 fridge:15 garbagecan:14 shelf:8 cabinet:4
handtowel = handtowelholder:79 countertop:5
kettle = diningtable:23 stoveburner:17 countertop:16 cabinet:3 sinkbasin:3 shelf:1
keychain = desk:39 safe:37 dresser:34 coffeetable:28 diningtable:28 tvstand:26 sidetable:22 ottoman:19
    sofa:15 armchair:11 drawer:8 shelf:7 countertop:5 cabinet:2
knife = diningtable:47 countertop:33 sidetable:13 sinkbasin:8 drawer:6
ladle = diningtable:50 countertop:30 drawer:4 sinkbasin:4 cabinet:4
laptop = bed:70 countertop:48 diningtable:40 desk:36 coffeetable:32 sofa:31 tvstand:17 dresser:17
    ottoman:14 armchair:5 sidetable:4
lettuce = diningtable:50 fridge:34 countertop:26 sidetable:23 sinkbasin:9 garbagecan:2
mug = desk:61 coffeemachine:38 dresser:37 diningtable:28 fridge:26 sidetable:25 countertop:25 microwave:15
    sinkbasin:12 shelf:7 cabinet:3
newspaper = diningtable:44 dresser:40 coffeetable:28 sofa:28 ottoman:25 sidetable:14 armchair:12
    tvstand:12 shelf:11 drawer:1
pan = countertop:24 stoveburner:22 diningtable:10 fridge:6 cabinet:1
papertowelroll = diningtable:41 toilet:25 sidetable:23 countertop:22 cart:21 garbagecan:14 shelf:10
pen = desk:58 diningtable:57 coffeetable:50 dresser:47 countertop:29 sidetable:28 tvstand:24 shelf:10
    drawer:6 garbagecan:5
pencil = desk:49 diningtable:49 coffeetable:42 dresser:36 sidetable:34 countertop:25 tvstand:16 shelf:11
    garbagecan:10 drawer:6
peppershaker = sidetable:36 diningtable:36 countertop:24 shelf:10 cabinet:5 drawer:5
pillow = bed:92 sofa:70 armchair:14 ottoman:2
plate = diningtable:35 coffeetable:27 countertop:20 tvstand:18 fridge:14 dresser:10 sidetable:8 shelf:6
    cabinet:5 sinkbasin:4 microwave:1
pot = stoveburner:33 countertop:11 diningtable:10 fridge:7 shelf:1 sinkbasin:1 cabinet:1
potato = fridge:41 diningtable:35 countertop:22 sidetable:21 sinkbasin:20 microwave:18 garbagecan:12
remotecontrol = countertop:52 desk:51 coffeetable:38 dresser:34 tvstand:34 diningtable:32 sofa:26
    ottoman:19 sidetable:15 armchair:10 drawer:4 shelf:3
saltshaker = diningtable:38 sidetable:36 countertop:24 shelf:9 cabinet:4 drawer:4
soapbar = sidetable:45 countertop:33 bathtubbasin:31 toilet:27 cart:26 sinkbasin:18 shelf:14 garbagecan:12
    cabinet:12 drawer:8
soapbottle = diningtable:44 dresser:40 toilet:37 countertop:27 sidetable:25 cart:22 garbagecan:18 shelf:15
    cabinet:5 drawer:1
spatula = diningtable:48 countertop:32 sinkbasin:15 sidetable:10 drawer:7
spoon = diningtable:43 sidetable:29 countertop:28 sinkbasin:20 drawer:9
spraybottle = sidetable:62 cart:54 toilet:43 countertop:40 dresser:34 diningtable:33 shelf:20
    garbagecan:20 cabinet:8
statue = coffeetable:45 desk:44 diningtable:44 dresser:37 tvstand:37 countertop:28 sidetable:23 shelf:19
teddybear = bed:62
tissuebox = coffeetable:57 desk:54 countertop:54 diningtable:39 cart:37 tvstand:29 shelf:22 sidetable:20
    dresser:17 cabinet:10 drawer:6 toilet:5 garbagecan:1
toiletpaper = toilet:42 sidetable:38 countertop:36 dresser:36 cart:33 toiletpaperhanger:23 shelf:19
    garbagecan:18 cabinet:11 drawer:8 bathtubbasin:1
tomato = fridge:51 diningtable:40 sidetable:26 countertop:23 garbagecan:18 sinkbasin:12
towel = towelholder:87 countertop:3
vase = dresser:51 coffeetable:42 desk:40 diningtable:38 tvstand:27 countertop:27 shelf:21 sidetable:19
    cabinet:6
watch = tvstand:46 desk:44 diningtable:42 dresser:38 coffeetable:37 sidetable:22 drawer:9 shelf:5
wateringcan = shelf:18 coffeetable:11 sidetable:1
winebottle = diningtable:48 countertop:32 garbagecan:16 shelf:6 cabinet:4 fridge:3 sidetable:2
"""


def _read() -> dict[str, dict[str, float]]:
    table: dict[str, dict[str, float]] = {}
    current: dict[str, float] = {}
    for line in _TABLE.strip().splitlines():
        kind, equals, rest = line.partition(" = ")
        if equals:
            current = table.setdefault(kind, {})
        for pair in (rest if equals else line).split():
            place, _, percent = pair.partition(":")
            current[place] = int(percent) / 100
    return table


_CHANCES = _read()


def chance_of(thing: str, receptacle: str) -> float:
    """Return the chance that a receptacle of a kind holds a thing of a kind; small but not zero where none was seen.

    >>> chance_of("pillow", "bed") > chance_of("pillow", "armchair") > chance_of("pillow", "toilet") > 0
    True
    """
    return max(0.003, _CHANCES.get(thing, {}).get(receptacle, 0.0))
