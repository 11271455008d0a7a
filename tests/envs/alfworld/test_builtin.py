"""The generator of built-in games."""

from __future__ import annotations

import hashlib
from collections import Counter

import pytest

from agentgym_ttg.core.errors import DataError, UnknownTaskError
from agentgym_ttg.envs.alfworld.builtin import BUILTIN_SIZES, BuiltinGames, generate_game
from agentgym_ttg.envs.alfworld.engine import TASK_TYPES, Game
from agentgym_ttg.envs.alfworld.experts import PlanningExpert
from agentgym_ttg.envs.alfworld.generator import LEVELS, design_game, split_of
from agentgym_ttg.envs.alfworld.generator.design import layout_is_unseen, task_is_unseen
from agentgym_ttg.envs.alfworld.generator.tables import OPENABLE, RECEPTACLES, ROOMS, THINGS


def test_ids_determine_games() -> None:
    games, others = BuiltinGames("easy"), BuiltinGames("easy")
    assert games.load("builtin/easy/train/000123").problem_text == others.load("builtin/easy/train/000123").problem_text
    texts = {generate_game("easy", "train", index).problem_text.split("\n", 1)[1] for index in range(200)}
    assert len(texts) == 200


@pytest.mark.parametrize(
    ("level", "split", "index", "expected"),
    [
        ("easy", "train", 0, "8a49243debc63748"),
        ("easy", "train", 999_999, "a5f25624f7c3cecf"),
        ("medium", "valid_seen", 139, "84883453b48e844f"),
        ("hard", "valid_unseen", 133, "08d123598444767d"),
    ],
)
def test_games_are_the_same_everywhere(level: str, split: str, index: int, expected: str) -> None:
    # A change here changes every game that was ever recorded: raise generator.design.VERSION with it.
    game = generate_game(level, split, index)
    found = hashlib.sha256(f"{game.goal_text}\n{game.problem_text}".encode()).hexdigest()[:16]
    assert found == expected


@pytest.mark.parametrize("level", LEVELS)
def test_splits_do_not_overlap(level: str) -> None:
    count = 60
    designs = {split: [design_game(level, split, index) for index in range(count)] for split in BUILTIN_SIZES}
    for split, group in designs.items():
        assert {split_of(design.goal, design.layout) for design in group} == {split}
    pairs = {split: {(d.goal, d.layout) for d in group} for split, group in designs.items()}
    assert not pairs["train"] & pairs["valid_seen"]
    seen = pairs["train"] | pairs["valid_seen"]
    assert not {layout for _, layout in seen} & {layout for _, layout in pairs["valid_unseen"]}
    assert not {goal for goal, _ in seen} & {goal for goal, _ in pairs["valid_unseen"]}
    assert all(task_is_unseen(goal) and layout_is_unseen(layout) for goal, layout in pairs["valid_unseen"])


@pytest.mark.parametrize("level", LEVELS)
def test_sizes_and_task_types(level: str, builtin: dict[str, list[Game]]) -> None:
    size, games = LEVELS[level], builtin[level]
    for game in games:
        assert size.receptacles[0] <= len(game.problem.receptacles) <= size.receptacles[1]
        assert len(game.problem.things) <= size.things[1]
        assert not game.start().won
    assert {game.task_type for game in games} == set(TASK_TYPES)
    lengths = [len(PlanningExpert(game.start()).plan()) for game in games]
    assert min(lengths) >= 3
    assert 5 <= sum(lengths) / len(lengths) <= 8


def test_evaluation_splits_have_all_task_types_alike() -> None:
    for split in ("valid_seen", "valid_unseen"):
        size = BUILTIN_SIZES[split]
        counts = Counter(design_game("easy", split, index).goal.task_type for index in range(size))
        assert set(counts) == set(TASK_TYPES)
        assert max(counts.values()) - min(counts.values()) <= 1


@pytest.mark.parametrize("level", LEVELS)
def test_every_game_can_be_solved(level: str, builtin: dict[str, list[Game]]) -> None:
    for game in builtin[level]:
        episode = game.start()
        plan = PlanningExpert(episode).plan()
        assert plan, game
        outcomes = [episode.step(command) for command in plan]
        assert all(outcome.valid for outcome in outcomes)
        assert [outcome.won for outcome in outcomes] == [False] * (len(plan) - 1) + [True]


def test_variety() -> None:
    games = [generate_game("easy", "train", index) for index in range(150)]
    assert len({(game.goal, frozenset(game.problem.can_contain)) for game in games}) > 120
    assert len({game.goal_text for game in games}) > 90
    closed = sum(
        any(
            game.problem.things[thing].kind == game.goal.object_kind
            for receptacle in game.problem.receptacles
            if receptacle.openable
            for thing in receptacle.holds
        )
        for game in games
    )
    assert 30 < closed < 120  # the wanted thing is often, not always, behind a door


def test_tables_are_consistent() -> None:
    for room in ROOMS.values():
        assert {*room.always, *room.maybe} <= set(RECEPTACLES)
    assert set(RECEPTACLES) >= OPENABLE
    for thing in THINGS.values():
        assert set(thing.places) <= set(RECEPTACLES)
        assert any(thing.places.values())


def test_bad_names_get_clear_errors() -> None:
    with pytest.raises(DataError, match="did you mean 'easy'"):
        BuiltinGames("esay")
    games = BuiltinGames("easy")
    with pytest.raises(DataError, match="valid_seen"):
        games.ids("test")
    for task_id in ("builtin/hard/train/000001", "builtin/easy/train/1", "", "builtin/easy/valid_seen/000140"):
        with pytest.raises(UnknownTaskError):
            games.load(task_id)
    with pytest.raises(DataError):
        generate_game("easy", "valid_seen", 140)


def test_content_hash_depends_on_level_and_split() -> None:
    hashes = {BuiltinGames(level).content_hash(split) for level in LEVELS for split in BUILTIN_SIZES}
    assert len(hashes) == 9
    assert BuiltinGames("easy").content_hash("train") == BuiltinGames("easy").content_hash("train")
