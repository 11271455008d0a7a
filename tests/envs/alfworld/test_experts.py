"""The experts, on built-in games."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from agentgym_ttg.core.errors import ConfigError, PolicyError
from agentgym_ttg.envs.alfworld.engine import TASK_TYPES, Episode, Game, Goal, goal_sentences
from agentgym_ttg.envs.alfworld.experts import NoisyExpert, PlanningExpert, SearchingExpert, read_task


def play(episode: Episode, expert: Any, limit: int = 50, *, told: bool = True) -> int:
    expert.reset(episode.observation)
    for count in range(1, limit + 1):
        admissible = episode.admissible_commands()
        command = expert.act(episode.observation, admissible if told else ())
        assert not told or command in admissible
        if episode.step(command).won:
            return count
    return 0


@pytest.mark.parametrize("level", ["easy", "medium", "hard"])
def test_the_searching_expert_wins_from_the_text_alone(level: str, builtin: dict[str, list[Game]]) -> None:
    lengths = [play(game.start(), SearchingExpert()) for game in builtin[level]]
    assert all(lengths)
    plans = [len(PlanningExpert(game.start()).plan()) for game in builtin[level]]
    assert all(length >= plan for length, plan in zip(lengths, plans, strict=True))
    assert sum(lengths) < 2.6 * sum(plans)


def test_it_needs_no_admissible_commands(builtin: dict[str, list[Game]]) -> None:
    lengths = [play(game.start(), SearchingExpert(), told=False) for game in builtin["easy"]]
    assert sum(map(bool, lengths)) >= 0.98 * len(lengths)


@pytest.mark.parametrize("p", [0.2, 0.5])
def test_experts_carry_on_after_wrong_steps(p: float, builtin: dict[str, list[Game]]) -> None:
    for make in (lambda episode: SearchingExpert(), PlanningExpert):
        won = 0
        for number, game in enumerate(builtin["easy"]):
            episode = game.start()
            won += bool(play(episode, NoisyExpert(make(episode), p, np.random.default_rng(number)), 120))
        assert won == len(builtin["easy"])


def test_noise_is_what_it_says(builtin: dict[str, list[Game]]) -> None:
    game = builtin["easy"][0]
    noisy = NoisyExpert(SearchingExpert(), 0.0, np.random.default_rng(0))
    assert play(game.start(), noisy) == play(game.start(), SearchingExpert())
    always = NoisyExpert(SearchingExpert(), 1.0, np.random.default_rng(0))
    episode = game.start()
    always.reset(episode.observation)
    commands = []
    for _ in range(20):
        commands.append(always.act(episode.observation, episode.admissible_commands()))
        assert always.slipped
        episode.step(commands[-1])
    assert len(set(commands)) > 8
    with pytest.raises(ConfigError, match="probability"):
        NoisyExpert(SearchingExpert(), 1.5, np.random.default_rng(0))


def test_same_seed_same_noise(builtin: dict[str, list[Game]]) -> None:
    def record(seed: int) -> list[str]:
        episode, commands = builtin["easy"][3].start(), []
        expert = NoisyExpert(SearchingExpert(), 0.4, np.random.default_rng(seed))
        expert.reset(episode.observation)
        for _ in range(25):
            commands.append(expert.act(episode.observation, episode.admissible_commands()))
            episode.step(commands[-1])
        return commands

    assert record(1) == record(1)
    assert record(1) != record(2)


def test_wrong_thing_in_hand_is_put_away(builtin: dict[str, list[Game]]) -> None:
    for game in builtin["medium"]:
        episode = game.start()
        for receptacle in game.problem.receptacles:
            episode.step(f"go to {receptacle.name}")
            episode.step(f"open {receptacle.name}")
            other = [
                command
                for command in episode.admissible_commands()
                if command.startswith("take ") and not command.startswith(f"take {game.goal.object_kind} ")
            ]
            if other:
                episode.step(other[0])
                break
        assert not episode.won
        branch = episode.copy()
        assert play(branch, PlanningExpert(branch))
        expert = SearchingExpert(game.goal)
        expert.reset(game.start().observation)
        expert.act(episode.observation, episode.admissible_commands())
        episode.step("inventory")
        for _ in range(60):
            if episode.step(expert.act(episode.observation, episode.admissible_commands())).won:
                break
        assert episode.won


def test_a_planning_expert_has_nothing_to_do_after_the_win(builtin: dict[str, list[Game]]) -> None:
    episode = builtin["easy"][0].start()
    expert = PlanningExpert(episode)
    assert play(episode, expert)
    assert expert.plan() == []
    assert expert.act() == "look"


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_reading_the_task(task_type: str) -> None:
    goal = Goal(task_type, "mug", "shelf")  # type: ignore[arg-type]
    for sentence in goal_sentences(goal):
        assert read_task(f"...\n\nYour task is to: {sentence}") == goal
        assert read_task(sentence.rstrip(".")) == goal


def test_a_sentence_in_other_words_is_refused_or_told(builtin: dict[str, list[Game]]) -> None:
    game = builtin["easy"][0]
    episode = Game.from_problem(game.problem_text, "Please tidy up").start()
    with pytest.raises(PolicyError, match="tidy up"):
        SearchingExpert().reset(episode.observation)
    assert play(episode, SearchingExpert.for_game(game))
