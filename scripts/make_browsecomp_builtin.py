"""Make the built-in queries and documents of BrowseComp-Plus: an invented country, so that nobody knows the answers.

    python scripts/make_browsecomp_builtin.py [FOLDER]

Each query joins three constraints: a scholar born in a town on a certain river, who worked at an institute founded by a
certain person, won the prize that a certain company pays for; the title of the book is asked for. For each scholar
asked for there are three others who fail exactly one constraint. The output is the same on every machine.
"""

from __future__ import annotations

import json
import lzma
import random
import sys
from pathlib import Path
from typing import ClassVar

from agentgym_ttg.envs.browsecompplus.obfuscation import conceal

CANARY = "agentgym_ttg BrowseComp-Plus built-in set. This data is for evaluation and should not be in training corpora."
QUERIES, FILLERS = 24, 18
TOWNS, INSTITUTES, PRIZES = 60, 36, 36
FIELDS = ["glaciology", "harmonics", "botany", "lexicography", "optics", "seismology", "numismatics", "hydrology"]
TEXTS = {
    "town": (
        "{name} is a town in the {region} of Velmar, on the river {river}. "
        "It is known for the {festival}, held each {month}."
    ),
    "institute": (
        "The {name} is a research institute in Velmar. It was founded in {year} by {founder}, "
        "and keeps a library of {count} volumes."
    ),
    "prize": (
        "The {name} is awarded every {gap} years in Velmar. "
        "Its prize money is paid by {sponsor}, which deals in {goods}."
    ),
    "scholar": (
        "{name} (born {year}) was a scholar of {field} from Velmar, a native of {town}. "
        "{name} worked for {span} years at the {institute}, and received the {prize} in {won}."
    ),
    "book": (
        "{title} is a book on {field}, written by {name} and printed in {printed}. "
        "Its {count} pages were translated twice."
    ),
}


def main(folder: Path) -> None:
    rng = random.Random(20_25)
    names = Names(rng)
    rivers = [names.make("river") for _ in range(20)]
    festivals = ["lantern", "salt", "kite", "harvest", "mask", "bell", "ice", "honey", "reed", "drum"]
    months = ["January", "March", "April", "June", "July", "September", "October", "December"]
    regions = ["north", "south", "west", "uplands", "coast", "lake district"]
    goods = ["timber", "glass", "wool", "tin", "paper", "salt fish", "clockwork", "dyes"]
    texts: list[tuple[str, str, str]] = []  # key, title, text

    towns = [(names.make("town"), rivers[number % len(rivers)]) for number in range(TOWNS)]
    for name, river in towns:
        festival = f"{rng.choice(festivals)} festival"
        values = {
            "name": name,
            "region": rng.choice(regions),
            "river": river,
            "festival": festival,
            "month": rng.choice(months),
        }
        texts.append((f"town {name}", name, TEXTS["town"].format(**values)))
    institutes = []
    for _ in range(INSTITUTES):
        name, founder = f"{names.make('place')} Institute", names.person()
        institutes.append((name, founder))
        values = {"name": name, "year": rng.randint(1790, 1890), "founder": founder, "count": rng.randint(9, 90) * 1000}
        texts.append((f"institute {name}", name, TEXTS["institute"].format(**values)))
    prizes = []
    for _ in range(PRIZES):
        name, sponsor = f"{names.make('place')} Prize", f"{names.make('place')} Company"
        prizes.append((name, sponsor))
        values = {
            "name": name,
            "gap": rng.choice(["two", "three", "four"]),
            "sponsor": sponsor,
            "goods": rng.choice(goods),
        }
        texts.append((f"prize {name}", name, TEXTS["prize"].format(**values)))

    taken: set[tuple[str, str, str]] = set()
    queries = []

    def scholar(river: str, institute: int, prize: int) -> tuple[str, str, str]:
        """Write a scholar and the book; return name, town, title."""
        name, town = names.person(), rng.choice([town for town, at in towns if at == river])
        field = rng.choice(FIELDS)
        born = rng.randint(1880, 1930)
        title = f"The {names.make('place')} {rng.choice(['Ledger', 'Meridian', 'Almanac', 'Catalogue', 'Survey'])}"
        values = {
            "name": name,
            "year": born,
            "field": field,
            "town": town,
            "span": rng.randint(4, 30),
            "won": born + rng.randint(35, 60),
        }
        values |= {"institute": institutes[institute][0], "prize": prizes[prize][0]}
        texts.append((f"scholar {name}", name, TEXTS["scholar"].format(**values)))
        book = {
            "title": title,
            "field": field,
            "name": name,
            "printed": born + rng.randint(30, 60),
            "count": rng.randint(120, 700),
        }
        texts.append((f"book {title}", title, TEXTS["book"].format(**book)))
        return name, town, title

    def other(count: int, but: int) -> int:
        return rng.choice([number for number in range(count) if number != but])

    for number in range(QUERIES):
        river, institute, prize = rivers[number % len(rivers)], number % INSTITUTES, (number * 5 + 1) % PRIZES
        wanted = (river, institutes[institute][1], prizes[prize][1])
        assert wanted not in taken
        taken.add(wanted)
        name, town, title = scholar(river, institute, prize)
        # Hard negatives: each fails one constraint. None can meet another query: its own triple is never asked for.
        for attempt in range(3):
            triple = [
                (rivers[other(len(rivers), number % len(rivers))], institute, prize),
                (river, other(INSTITUTES, institute), prize),
                (river, institute, other(PRIZES, prize)),
            ][attempt]
            scholar(*triple)
        query = (
            f"A scholar from Velmar was born in a town on the river {river}, worked at the institute that was founded "
            f"by {institutes[institute][1]}, and received the prize whose money is paid by the {prizes[prize][1]}. "
            "What is the title of the book that this scholar wrote?"
        )
        evidence = [f"institute {institutes[institute][0]}", f"prize {prizes[prize][0]}", f"town {town}"]
        evidence += [f"scholar {name}", f"book {title}"]
        queries.append((query, title, evidence, evidence[-1:]))
    for _ in range(FILLERS):
        scholar(rng.choice(rivers), other(INSTITUTES, -1), PRIZES - 1)

    rng.shuffle(texts)
    ids = {key: str(5000 + 7 * place) for place, (key, _, _) in enumerate(texts)}
    folder.mkdir(parents=True, exist_ok=True)
    corpus = [{"docid": ids[key], "title": title, "text": text} for key, title, text in texts]
    packed = "".join(json.dumps(record) + "\n" for record in corpus).encode()
    (folder / "corpus.jsonl.xz").write_bytes(lzma.compress(packed, preset=9, check=lzma.CHECK_CRC32))
    with (folder / "queries.jsonl").open("w", encoding="ascii", newline="\n") as file:
        for number, (query, answer, evidence, gold) in enumerate(queries, 1):
            record = {
                "query_id": f"{number:03d}",
                "query": conceal(query, CANARY),
                "answer": conceal(answer, CANARY),
                "evidence_docs": [{"docid": conceal(ids[key], CANARY)} for key in evidence],
                "gold_docs": [{"docid": conceal(ids[key], CANARY)} for key in gold],
                "canary": CANARY,
            }
            file.write(json.dumps(record) + "\n")
    print(f"{folder}: {len(queries)} queries, {len(corpus)} documents")


class Names:
    """Invented names, each once."""

    STARTS: ClassVar = [
        "Bra",
        "Cor",
        "Dal",
        "Ely",
        "Fen",
        "Gor",
        "Hal",
        "Ith",
        "Jor",
        "Kel",
        "Lom",
        "Mir",
        "Nev",
        "Osk",
        "Pell",
    ]
    MIDDLES: ClassVar = ["a", "e", "i", "o", "u", "an", "en", "or", "al", "ist"]
    ENDS: ClassVar = {
        "river": ["mere", "wen", "sk", "dra", "lis"],
        "town": ["stad", "burg", "wick", "holm", "ford"],
        "place": ["vane", "thorn", "rick", "moor", "gard"],
        "first": ["na", "ric", "dan", "lia", "mund", "vi"],
        "last": ["sen", "ovic", "hart", "quist", "mann", "dotter"],
    }

    def __init__(self, rng: random.Random) -> None:
        self._rng, self._used = rng, set()

    def make(self, kind: str) -> str:
        while True:
            name = self._rng.choice(self.STARTS) + self._rng.choice(self.MIDDLES) + self._rng.choice(self.ENDS[kind])
            if name not in self._used:
                self._used.add(name)
                return name

    def person(self) -> str:
        while True:
            pair = (self._rng.choice(self.STARTS) + self._rng.choice(self.ENDS["first"]) for _ in range(1))
            name = f"{next(pair)} {self._rng.choice(self.STARTS)}{self._rng.choice(self.MIDDLES)}"
            name += self._rng.choice(self.ENDS["last"])
            if name not in self._used:
                self._used.add(name)
                return name


if __name__ == "__main__":
    default = Path(__file__).parents[1] / "src" / "agentgym_ttg" / "envs" / "browsecompplus" / "assets"
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else default)
