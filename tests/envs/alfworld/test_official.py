"""The native engine and the experts on a sample of the official games, where they are there."""

from __future__ import annotations

from agentgym_ttg.envs.alfworld.engine import TASK_TYPES, Game
from agentgym_ttg.envs.alfworld.experts import PlanningExpert, SearchingExpert


def test_walkthroughs_win(official: list[Game]) -> None:
    assert {game.task_type for game in official} == set(TASK_TYPES)
    for game in official:
        episode = game.start()
        assert not episode.won
        outcomes = [episode.step(command) for command in game.walkthrough]
        assert all(outcome.valid for outcome in outcomes), game
        assert outcomes[-1].won, game
        assert game.task_type == game.id.split("/")[1].split("-")[0]


def test_plans_are_as_short_as_the_walkthroughs(official: list[Game]) -> None:
    for game in official:
        assert len(PlanningExpert(game.start()).plan()) <= len(game.walkthrough), game


def test_the_searching_expert_wins(official: list[Game]) -> None:
    for game in official:
        episode, expert = game.start(), SearchingExpert()
        expert.reset(episode.observation)
        for _ in range(50):
            if episode.step(expert.act(episode.observation, episode.admissible_commands())).won:
                break
        assert episode.won, game


def test_nothing_admissible_is_refused(official: list[Game]) -> None:
    for game in official[::25]:
        episode = game.start()
        for command in game.walkthrough:
            for admissible in episode.admissible_commands():
                assert episode.copy().step(admissible).valid
            episode.step(command)
