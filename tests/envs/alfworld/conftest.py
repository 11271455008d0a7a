"""Games for the tests: built-in ones always, official ones where the shared data lies beside the repository."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from agentgym_ttg.envs.alfworld.builtin import BuiltinGames
from agentgym_ttg.envs.alfworld.engine import Game, Variant

PACKS = Path(__file__).resolve().parents[4] / "shared" / "data" / "alfworld"


def read_pack(split: str, stride: int) -> list[dict[str, Any]]:
    """Every ``stride``-th row of a pack."""
    with lzma.open(PACKS / f"{split}.jsonl.xz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for number, line in enumerate(lines) if number % stride == 0]


@pytest.fixture(scope="session")
def rows() -> list[dict[str, Any]]:
    """A sample of official games over both splits and all task types."""
    if not PACKS.is_dir():
        pytest.skip(f"no official games: {PACKS} is not there")
    return read_pack("valid_seen", 4) + read_pack("train", 61)


@pytest.fixture(scope="session")
def official(rows: list[dict[str, Any]]) -> list[Game]:
    """The sample as games."""
    return [
        Game.from_problem(
            row["p"], row["g"], variant=Variant(sink_cleans=True), game_id=row["id"], walkthrough=tuple(row["w"])
        )
        for row in rows
    ]


@pytest.fixture(scope="session")
def builtin() -> dict[str, list[Game]]:
    """Some built-in games of each level and split."""
    return {
        level: [
            games.load(games.ids(split)[index])
            for split, count in (("train", 30), ("valid_seen", 12), ("valid_unseen", 12))
            for index in range(count)
        ]
        for level in ("easy", "medium", "hard")
        for games in (BuiltinGames(level, cache_size=100),)
    }


def write_game(folder: Path, task_id: str, row: dict[str, Any], grammar: str, domain: str = "", **more: Any) -> Path:
    """Write a game file as an official folder has it."""
    place = folder / task_id
    place.mkdir(parents=True)
    content = {
        "pddl_domain": domain,
        "grammar": grammar.replace("UNKNOWN GOAL", str(row["g"]).rstrip(".")),
        "pddl_problem": row["p"],
        "solvable": True,
        "walkthrough": row["w"],
        **more,
    }
    path = place / "game.tw-pddl"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path
