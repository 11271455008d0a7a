"""The native engine on hand-made and built-in games."""

from __future__ import annotations

import pickle
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentgym_ttg.core.errors import DataError
from agentgym_ttg.envs.alfworld.builtin import BuiltinGames
from agentgym_ttg.envs.alfworld.engine import TASK_TYPES, Episode, Game, Goal, Variant, goal_sentences
from agentgym_ttg.envs.alfworld.engine.goals import goal_formula, read_goal
from agentgym_ttg.envs.alfworld.engine.sexpr import read_sexpr

from .conftest import HEAD, small


def say(episode: Episode, *commands: str) -> list[str]:
    return [episode.step(command).observation for command in commands]


def test_text_of_a_whole_game() -> None:
    episode = small("pick_clean_then_place_in_recep").start()
    assert episode.observation == (
        "-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room. Looking quickly around you, you see a "
        "desk 1, a drawer 2, a drawer 1, a fridge 1, a microwave 1, and a sinkbasin 1.\n\n"
        "Your task is to: put a clean apple in drawer."
    )
    assert say(
        episode,
        "look",
        "go to fridge 1",
        "open fridge 1",
        "take apple 2 from fridge 1",
        "examine apple 2",
        "look",
        "go to sinkbasin 1",
        "clean apple 2 with sinkbasin 1",
        "examine apple 2",
        "inventory",
        "go to drawer 1",
        "open drawer 1",
        "examine drawer 2",
        "go to drawer 2",
    ) == [
        "You are in the middle of a room. Looking quickly around you, you see nothing.",
        "You arrive at fridge 1. The fridge 1 is closed.",
        "You open the fridge 1. The fridge 1 is open. In it, you see a apple 2.",
        "You pick up the apple 2 from the fridge 1.",
        "There's nothing special about apple 2.",
        "You are facing the fridge 1. Next to it, you see nothing.",
        "You arrive at sinkbasin 1. On the sinkbasin 1, you see nothing.",
        "You clean the apple 2 using the sinkbasin 1.",
        "This is a clean apple 2.",
        "You are carrying: a apple 2.",
        "You arrive at drawer 1. The drawer 1 is closed.",
        "You open the drawer 1. The drawer 1 is open. In it, you see a pen 1.",
        "The drawer 2 is closed.",
        "Nothing happens.",  # it stands at the same spot
    ]
    assert not episode.won
    assert episode.step("move apple 2 to drawer 1").won
    assert say(episode, "look") == ["You are facing the drawer 2, and drawer 1. Next to it, you see nothing."]


def test_admissible_commands_are_sorted_and_complete() -> None:
    episode = small().start()
    say(episode, "go to desk 1")
    assert episode.admissible_commands() == [
        "examine desk 1",
        "go to drawer 1",
        "go to drawer 2",
        "go to fridge 1",
        "go to microwave 1",
        "go to sinkbasin 1",
        "help",
        "inventory",
        "look",
        "take apple 1 from desk 1",
        "take bowl 1 from desk 1",
        "take knife 1 from desk 1",
        "use desklamp 1",
    ]


def test_hot_cold_sliced_and_bowls() -> None:
    episode = small().start()
    say(episode, "go to desk 1", "take bowl 1 from desk 1")
    assert say(episode, "examine bowl 1") == ["This is a normal bowl 1. In it, you see a pen 1."]
    episode = small().start()
    say(episode, "go to desk 1", "take knife 1 from desk 1")
    assert say(episode, "slice apple 1 with knife 1") == ["You sliced the apple 1 with the knife 1."]
    episode = small().start()
    texts = say(
        episode, "go to desk 1", "take apple 1 from desk 1", "go to microwave 1", "heat apple 1 with microwave 1",
        "examine apple 1", "go to fridge 1", "cool apple 1 with fridge 1", "examine apple 1", "go to sinkbasin 1",
        "clean apple 1 with sinkbasin 1", "examine apple 1",
    )  # fmt: skip
    assert texts[4] == "This is a hot apple 1."
    assert texts[7] == "This is a cold apple 1."
    assert texts[-1] == "This is a cool and clean apple 1."


def test_a_thing_in_two_places_is_taken_from_one() -> None:
    episode = small("pick_and_place_simple", "pen", "drawer").start()
    assert episode.won
    say(episode, "go to drawer 1", "open drawer 1", "open drawer 2", "take pen 1 from drawer 1")
    assert episode.step("examine drawer 2").observation == "The drawer 2 is open. In it, you see a pen 1."
    assert episode.won
    say(episode, "move pen 1 to drawer 2")
    # TextWorld lists what was taken from one of the receptacles here as lying beside them.
    assert say(episode, "look")[0].endswith("Next to it, you see a pen 1.")


def test_looking_in_the_light_needs_lamp_place_and_thing() -> None:
    episode = small("look_at_obj_in_light", "apple", "desklamp").start()
    say(episode, "go to desk 1", "use desklamp 1")
    assert not episode.won
    assert episode.step("take apple 1 from desk 1").won
    assert not episode.step("go to fridge 1").won
    assert episode.step("go to desk 1").won
    assert say(episode, "use desklamp 1") == ["You turn on the desklamp 1."]  # it never says "off"


def test_old_syntax() -> None:
    episode = small(variant=Variant(syntax="put", has_help=False)).start()
    assert "help" not in episode.admissible_commands()
    assert say(episode, "go to fridge 1") == ["You arrive at loc 6. The fridge 1 is closed."]
    say(episode, "open fridge 1", "take apple 2 from fridge 1", "go to drawer 1", "open drawer 1")
    outcome = episode.step("put apple 2 in/on drawer 1")
    assert outcome.won
    assert outcome.observation == "You put the apple 2 in/on the drawer 1."


def test_playing_on_after_the_win() -> None:
    episode = small("pick_and_place_simple", "pen", "drawer").start()
    assert episode.step("look").won
    assert episode.step("nonsense").won


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_goals_survive_being_written_and_read(task_type: str) -> None:
    goal = Goal(task_type, "mug", "desklamp" if task_type.startswith("look") else "shelf")  # type: ignore[arg-type]
    assert read_goal(read_sexpr(goal_formula(goal))) == goal
    assert all("mug" in sentence and sentence.endswith(".") for sentence in goal_sentences(goal))


@pytest.mark.parametrize(
    "goal",
    [
        "(and (exists (?o - object) (isSliced ?o)))",
        "(and (exists (?r - receptacle) (exists (?o - object) (and (inReceptacle ?o ?r) (objectType ?o AppleType)))))",
        "(forall (?o - object) (isClean ?o))",
        "(or (isClean Apple_bar_1) (isHot Apple_bar_1))",
        "(and)",
        # a movable receptacle, and an apple that has to be clean and hot
        "(and (exists (?o - object ?r - receptacle) (and (objectType ?o AppleType) (receptacleType ?r DeskType) "
        "(inReceptacle ?o ?r) (isClean ?o) (cleanable ?o) (isHot ?o) (heatable ?o))))",
        "(and " * 3000 + ")" * 3000,
    ],
)
def test_goals_outside_the_six_are_refused(goal: str) -> None:
    with pytest.raises(DataError, match="goal"):
        Game.from_problem(HEAD % goal, game_id="strange")


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("(openable Fridge_bar_1)", "(haunted Fridge_bar_1)", "haunted"),
        ("(openable Fridge_bar_1)", "(openable Apple_bar_1)", "receptacle"),
        ("(openable Fridge_bar_1)", "(openable Fridge_bar_7)", "fridge_bar_7"),
        ("(atLocation agent1 loc_bar_9)", "", "one agent"),
        ("(domain", "(domain", "define"),
        ("(:domain alfred)", "(:domain chess)", "chess"),
        (
            "(objectType Pen_bar_1 PenType)",
            "(objectType Pen_bar_1 PenType) (objectType Pen_bar_1 BowlType)",
            "two facts",
        ),
        ("- otype)", "- dragon)", "dragon"),
        ("(:init", "(:unit", "init"),
        ("(:goal", "((:goal", "not closed"),
    ],
)
def test_problems_outside_the_domain_are_refused(old: str, new: str, what: str) -> None:
    text = HEAD % goal_formula(Goal("pick_and_place_simple", "apple", "drawer"))
    text = text.replace("(define", "(defend") if what == "define" else text.replace(old, new, 1)
    with pytest.raises(DataError, match=what):
        Game.from_problem(text)


def test_random_play_keeps_the_promises(builtin: dict[str, list[Game]]) -> None:
    for level, games in builtin.items():
        rng = random.Random(level)
        for game in games[::3]:
            episode = game.start()
            for _ in range(40):
                admissible = episode.admissible_commands()
                assert admissible == sorted(set(admissible))
                before, key = episode.copy(), episode.state_key()
                command = rng.choice(admissible)
                outcome = episode.step(command)
                assert outcome.valid
                assert outcome.observation != "Nothing happens."
                assert outcome.won == episode.won
                # the copy has not noticed
                assert before.state_key() == key
                assert before.admissible_commands() == admissible
                # and goes the same way
                assert before.step(command) == outcome
                assert before.state_key() == episode.state_key()


def test_every_admissible_command_is_valid(builtin: dict[str, list[Game]]) -> None:
    for game in builtin["hard"][::9]:
        episode, rng = game.start(), random.Random(game.id)
        for _ in range(15):
            for command in episode.admissible_commands():
                branch = episode.copy()
                outcome = branch.step(command)
                assert outcome.valid
                assert outcome.observation != "Nothing happens."
            episode.step(rng.choice(episode.admissible_commands()))


def test_games_and_episodes_pickle(builtin: dict[str, list[Game]]) -> None:
    episode = builtin["easy"][0].start()
    episode.step(episode.admissible_commands()[0])
    twin = pickle.loads(pickle.dumps(episode))
    assert twin.admissible_commands() == episode.admissible_commands()
    assert twin.state_key() == episode.state_key()
    assert twin.step("look") == episode.step("look")


_GAME = BuiltinGames("easy").load("builtin/easy/train/000000")
_WORDS = st.sampled_from(
    ["go to", "take", "move", "from", "to", "desk 1", "book 1", "look", "<action>", "\x00", "\u2028"]
)


@given(
    st.one_of(
        st.text(st.characters(codec=None), max_size=60),
        st.lists(_WORDS, max_size=7).map(" ".join),
        st.binary(max_size=30).map(lambda raw: raw.decode("latin-1")),
        st.builds(lambda text, count: text * count, st.text(min_size=1, max_size=5), st.integers(1, 200_000)),
    )
)
@settings(max_examples=600, deadline=None, suppress_health_check=list(HealthCheck))
def test_hostile_commands_never_raise_and_never_win(command: str) -> None:
    episode = _GAME.start()
    admissible = episode.admissible_commands()
    outcome = episode.step(command)
    assert outcome.valid == (command.strip() in admissible)
    assert not outcome.won
    if not outcome.valid:
        assert outcome.observation == "Nothing happens."
        assert episode.state_key() == _GAME.start().state_key()


@pytest.mark.parametrize(
    "command", ["", " ", "\ud800 look", "look\ud800", "x" * 1_000_000, "\x00", "look\x00", "\n\r\t"]
)
def test_special_commands(command: str) -> None:
    assert _GAME.start().step(command).valid is False
