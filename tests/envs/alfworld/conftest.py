"""Games for the tests: built-in ones always, official ones where the shared data lies beside the repository."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from agentgym_ttg.envs.alfworld.builtin import BuiltinGames
from agentgym_ttg.envs.alfworld.engine import Game, Goal, Variant
from agentgym_ttg.envs.alfworld.engine.goals import goal_formula

PACKS = Path(__file__).resolve().parents[4] / "shared" / "data" / "alfworld"

HEAD = """
(define (problem small) (:domain alfred)
(:objects agent1 - agent
  Fridge_bar_1 Sink_bar_1_bar_SinkBasin Drawer_bar_1 Drawer_bar_2 Desk_bar_1 Microwave_bar_1 - receptacle
  Apple_bar_1 Apple_bar_2 Knife_bar_1 DeskLamp_bar_1 Bowl_bar_1 Pen_bar_1 - object
  loc_bar_1 loc_bar_2 loc_bar_3 loc_bar_4 loc_bar_5 loc_bar_9 - location
  FridgeType SinkBasinType DrawerType DeskType MicrowaveType - rtype
  AppleType KnifeType DeskLampType BowlType PenType - otype)
(:init (atLocation agent1 loc_bar_9)
  (receptacleType Fridge_bar_1 FridgeType) (openable Fridge_bar_1) (receptacleAtLocation Fridge_bar_1 loc_bar_1)
  (receptacleType Sink_bar_1_bar_SinkBasin SinkBasinType) (receptacleAtLocation Sink_bar_1_bar_SinkBasin loc_bar_2)
  (receptacleType Drawer_bar_1 DrawerType) (openable Drawer_bar_1) (receptacleAtLocation Drawer_bar_1 loc_bar_3)
  (receptacleType Drawer_bar_2 DrawerType) (openable Drawer_bar_2) (receptacleAtLocation Drawer_bar_2 loc_bar_3)
  (receptacleType Desk_bar_1 DeskType) (receptacleAtLocation Desk_bar_1 loc_bar_4)
  (receptacleType Microwave_bar_1 MicrowaveType) (openable Microwave_bar_1)
  (receptacleAtLocation Microwave_bar_1 loc_bar_5)
  (objectType Apple_bar_1 AppleType) (objectType Apple_bar_2 AppleType) (objectType Knife_bar_1 KnifeType)
  (objectType DeskLamp_bar_1 DeskLampType) (objectType Bowl_bar_1 BowlType) (objectType Pen_bar_1 PenType)
  (pickupable Apple_bar_1) (cleanable Apple_bar_1) (heatable Apple_bar_1) (coolable Apple_bar_1) (sliceable Apple_bar_1)
  (pickupable Apple_bar_2) (cleanable Apple_bar_2) (heatable Apple_bar_2) (coolable Apple_bar_2) (sliceable Apple_bar_2)
  (pickupable Knife_bar_1) (toggleable DeskLamp_bar_1) (pickupable Bowl_bar_1) (isReceptacleObject Bowl_bar_1)
  (pickupable Pen_bar_1) (inReceptacleObject Pen_bar_1 Bowl_bar_1)
  (inReceptacle Apple_bar_1 Fridge_bar_1) (inReceptacle Apple_bar_2 Desk_bar_1) (inReceptacle Knife_bar_1 Desk_bar_1)
  (inReceptacle DeskLamp_bar_1 Desk_bar_1) (inReceptacle Bowl_bar_1 Desk_bar_1) (inReceptacle Pen_bar_1 Drawer_bar_1)
  (inReceptacle Pen_bar_1 Drawer_bar_2)
  (objectAtLocation Apple_bar_1 loc_bar_1) (objectAtLocation Apple_bar_2 loc_bar_4)
  (canContain DrawerType AppleType) (canContain FridgeType AppleType) (canContain DrawerType PenType))
(:goal %s))
"""


def small(
    task_type: str = "pick_and_place_simple", thing: str = "apple", target: str = "drawer", **more: object
) -> Game:
    goal = Goal(task_type, thing, target)  # type: ignore[arg-type]
    return Game.from_problem(HEAD % goal_formula(goal), **more)  # type: ignore[arg-type]


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
