"""The native engine against TextWorld; needs the extra ``alfworld``. The long run is ``verify_official.py``."""

from __future__ import annotations

import importlib.util
import os
import random
import sys
from pathlib import Path

import pytest

from agentgym_ttg.core.errors import DataError, MissingDependencyError
from agentgym_ttg.envs.alfworld.builtin import generate_game, to_game_file
from agentgym_ttg.envs.alfworld.engine import Game, Variant
from agentgym_ttg.envs.alfworld.experts import SearchingExpert
from agentgym_ttg.envs.alfworld.textworld_engine import TextWorldEpisode, TextWorldGame, game_data, require_alfworld

from .conftest import small

INSTALLED = all(importlib.util.find_spec(name) for name in ("alfworld", "textworld", "fast_downward"))
needs_alfworld = pytest.mark.skipif(not INSTALLED, reason='the extra "alfworld" is not installed')


def compare(game: Game, seed: int, random_steps: int = 8) -> TextWorldEpisode:
    native, other = game.start(), TextWorldGame.from_game(game).start()
    expert, rng = SearchingExpert(), random.Random(seed)
    expert.reset(native.observation)
    for count in range(60):
        assert native.observation == other.observation
        assert native.admissible_commands() == other.admissible_commands()
        assert native.won == other.won
        if native.won:
            break
        command = expert.act(native.observation, native.admissible_commands())
        if count < random_steps:
            command = rng.choice([*native.admissible_commands(), "sing", f"  {command} "])
        assert native.step(command) == other.step(command)
    assert native.won
    return other


@needs_alfworld
def test_built_in_games_are_the_same_in_both_engines() -> None:
    compare(generate_game("easy", "train", 5), 1)
    compare(generate_game("hard", "valid_seen", 2), 2)


@needs_alfworld
@pytest.mark.parametrize(
    ("task_type", "thing", "target"),
    [
        ("pick_two_obj_and_place", "apple", "drawer"),
        ("pick_heat_then_place_in_recep", "apple", "fridge"),
        ("look_at_obj_in_light", "pen", "desklamp"),
    ],
)
def test_rare_situations_are_the_same_in_both_engines(task_type: str, thing: str, target: str) -> None:
    game = small(task_type, thing, target)
    native, other = game.start(), TextWorldGame.from_game(game).start()
    rng = random.Random(task_type)
    for _ in range(60):
        assert native.observation == other.observation
        assert native.admissible_commands() == other.admissible_commands()
        assert native.won == other.won
        command = rng.choice(native.admissible_commands())
        assert native.step(command) == other.step(command)


@needs_alfworld
def test_official_games_are_the_same_in_both_engines(official: list[Game]) -> None:
    compare(official[5], 3, random_steps=3)


@needs_alfworld
def test_game_files_play_in_both_engines(tmp_path: Path) -> None:
    game = generate_game("easy", "train", 1)
    path = to_game_file(game, tmp_path)
    read, other = Game.from_file(path), TextWorldGame.from_file(path)
    assert path.name == "game.tw-pddl"
    assert read.goal_text == other.goal_text == game.goal_text
    assert read.goal == other.goal == game.goal
    assert read.variant == game.variant
    assert read.walkthrough
    assert read.start().observation == other.start().observation == game.start().observation
    cleaning = Game.from_problem(game.problem_text, game.goal_text, variant=Variant(sink_cleans=True))
    assert Game.from_file(to_game_file(cleaning, tmp_path / "b.tw-pddl")).variant.sink_cleans


@needs_alfworld
def test_other_rules_are_for_textworld_alone(tmp_path: Path) -> None:
    content = game_data(generate_game("easy", "train", 1))
    content["pddl_domain"] = content["pddl_domain"].replace("(cleanable ?o)", "", 1).replace("(cleanable ?o)", "")
    with pytest.raises(DataError, match=r"cleanobject.*textworld"):
        Game.from_data(content)
    assert TextWorldGame.from_data(content).start().admissible_commands()


@needs_alfworld
def test_branches_by_replay() -> None:
    episode = TextWorldGame.from_game(generate_game("easy", "train", 3)).start()
    command = next(command for command in episode.admissible_commands() if command.startswith("go to"))
    episode.step(command)
    twin = episode.copy()
    assert twin.observation == episode.observation
    assert twin.admissible_commands() == episode.admissible_commands()
    assert twin.state_key() == episode.state_key()
    twin.step(next(command for command in twin.admissible_commands() if command.startswith("go to")))
    assert twin.state_key() != episode.state_key()


def test_goal_sentences_are_not_let_into_the_grammar() -> None:
    game = generate_game("easy", "train", 0)
    hostile = Game.from_problem(game.problem_text, 'do {__import__("os")}')
    with pytest.raises((DataError, MissingDependencyError)):
        TextWorldGame.from_game(hostile)


@pytest.mark.skipif(INSTALLED, reason="alfworld is installed")
def test_without_alfworld_the_extra_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingDependencyError, match=r"agentgym-ttg\[alfworld\]"):
        to_game_file(generate_game("easy", "train", 0), tmp_path)


def test_a_file_without_rules_is_refused(tmp_path: Path) -> None:
    game = generate_game("easy", "train", 0)
    content = {"pddl_domain": "", "grammar": "", "pddl_problem": game.problem_text}
    with pytest.raises(DataError, match="no grammar"):
        TextWorldGame.from_data(content)


def test_the_official_package_does_not_decide_where_games_come_from(monkeypatch):
    """Importing it sets ``$ALFWORLD_DATA``, which would turn later built-in environments into official ones."""
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    pytest.importorskip("alfworld", reason="the extra 'alfworld' is not installed")
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    require_alfworld.cache_clear()
    for module in [name for name in sys.modules if name.split(".")[0] == "alfworld"]:
        monkeypatch.delitem(sys.modules, module)
    require_alfworld()
    assert "ALFWORLD_DATA" not in os.environ
