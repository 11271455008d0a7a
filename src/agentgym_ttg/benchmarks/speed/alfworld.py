"""ALFWorld: the native engine against TextWorld, on the same games and the same commands."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agentgym_ttg.core.errors import ConfigError

from ._episodes import why_no_textworld
from ._harness import Candidate, Paired, measure
from ._registry import SpeedBenchmark

__all__ = ["BENCHMARK"]


@dataclass(frozen=True)
class Options:
    """Options of the ALFWorld speed benchmark."""

    games: int = 3
    """Games that are played."""
    steps: int = 12
    """Commands in each game: the expert's, then random admissible ones."""
    branches: int = 1
    """Branches from each game after half of its commands; TextWorld has to play these again."""
    repetitions: int = 3
    """Rounds; the engines take turns."""
    data_dir: str | None = None
    """Folder of the official games; default built-in ones, as full as the official (hard)."""
    split: str = "valid_seen"
    """Split of the games."""
    seed: int = 0
    """Seed of the random commands."""
    native_only: bool = False
    """Leave TextWorld out."""


@dataclass(frozen=True, slots=True)
class _Play:
    """One game as both engines get it, the commands, and what the native engine answered."""

    content: str
    commands: tuple[str, ...]
    answers: tuple[tuple[str, tuple[str, ...]], ...]
    native: Any
    textworld: Any


def _run(options: Options, progress: Callable[[str], object]) -> list[Paired]:
    if min(options.games, options.steps, options.branches, options.repetitions) < 1:
        raise ConfigError("expected games, steps, branches and repetitions >= 1")
    why = "left out by --native-only" if options.native_only else why_no_textworld()
    progress("choosing games and commands")
    plays = _plays(options, textworld=not why)
    engines = {"native": [play.native for play in plays]}
    if not why:
        engines["textworld"] = [play.textworld for play in plays]
    skipped = {"textworld": why} if why else {}
    notes = () if why else _compare(plays, progress)
    common: dict[str, Any] = {"repetitions": options.repetitions, "skipped": skipped, "progress": progress}
    return [
        measure(
            "reset",
            "game parsed and started",
            {name: _resets(name, plays) for name in engines},
            **common,
        ),
        measure(
            "step",
            "command and admissible list",
            {name: _steps(name, games, plays) for name, games in engines.items()},
            notes=notes,
            **common,
        ),
        measure(
            "branch",
            f"independent copy after {options.steps // 2} commands",
            {name: _branches(name, games, plays, options.branches) for name, games in engines.items()},
            **common,
        ),
    ]


def _plays(options: Options, *, textworld: bool) -> list[_Play]:
    from agentgym_ttg.envs.alfworld.builtin import BuiltinGames
    from agentgym_ttg.envs.alfworld.data import OfficialData
    from agentgym_ttg.envs.alfworld.experts import SearchingExpert
    from agentgym_ttg.envs.alfworld.textworld_engine import TextWorldGame

    source: Any = OfficialData(options.data_dir) if options.data_dir else BuiltinGames("hard")
    ids: Sequence[str] = source.ids(options.split)
    rng = np.random.default_rng(options.seed)
    plays: list[_Play] = []
    for number in range(options.games):
        # Spread over the split: official ids are sorted by task type.
        game = source.load(ids[(number * len(ids)) // options.games % len(ids)])
        episode = game.start()
        expert = SearchingExpert.for_game(game)
        expert.reset(episode.observation)
        commands: list[str] = []
        answers: list[tuple[str, tuple[str, ...]]] = []
        while len(commands) < options.steps:
            admissible = episode.admissible_commands()
            if episode.won or (commands and rng.random() < 0.25):
                command = admissible[int(rng.integers(len(admissible)))]
            else:
                command = expert.act(episode.observation, admissible)
            outcome = episode.step(command)
            commands.append(command)
            answers.append((outcome.observation, tuple(episode.admissible_commands())))
        content = {"pddl_domain": "", "grammar": "", "pddl_problem": game.problem_text, "walkthrough": []}
        other = None
        if textworld and options.data_dir:
            other = TextWorldGame.from_file(source.path(game.id), game_id=game.id)
        elif textworld:
            other = TextWorldGame.from_game(game)
        if other is not None:
            content = other.content
        plays.append(_Play(json.dumps(content), tuple(commands), tuple(answers), game, other))
    return plays


def _compare(plays: Sequence[_Play], progress: Callable[[str], object]) -> tuple[str, ...]:
    """Play the commands in TextWorld and count where it answers otherwise."""
    steps = wrong = 0
    for number, play in enumerate(plays, 1):
        progress(f"comparing answers, game {number} of {len(plays)}")
        episode = play.textworld.start()
        for command, answer in zip(play.commands, play.answers, strict=True):
            outcome = episode.step(command)
            steps += 1
            wrong += (outcome.observation, tuple(episode.admissible_commands())) != answer
    return (f"text and admissible commands differ at {wrong} of {steps} steps",)


#: The native engine is so fast that one pass would be lost in the clock's noise.
_PASSES = {"native": 20, "textworld": 1}


def _resets(engine: str, plays: Sequence[_Play]) -> Candidate:
    """From the content of the game file to the first observation and admissible list."""
    from agentgym_ttg.envs.alfworld.engine import Game
    from agentgym_ttg.envs.alfworld.textworld_engine import TextWorldGame

    reader: Any = Game if engine == "native" else TextWorldGame

    def work(nothing: None) -> float:
        for _ in range(_PASSES[engine]):
            for play in plays:
                reader.from_data(json.loads(play.content)).start().admissible_commands()
        return len(plays) * _PASSES[engine]

    return Candidate(work, warm_up=engine == "native")


def _steps(engine: str, games: Sequence[Any], plays: Sequence[_Play]) -> Candidate:
    """The commands of each game; the episodes are started beforehand."""

    def prepare() -> list[Any]:
        return [game.start() for _ in range(_PASSES[engine]) for game in games]

    def work(episodes: list[Any]) -> float:
        for index, episode in enumerate(episodes):
            for command in plays[index % len(plays)].commands:
                episode.step(command)
                episode.admissible_commands()
        return sum(len(play.commands) for play in plays) * _PASSES[engine]

    return Candidate(work, prepare, warm_up=engine == "native")


def _branches(engine: str, games: Sequence[Any], plays: Sequence[_Play], count: int) -> Candidate:
    """Independent copies of episodes that have come half way."""
    times = count * _PASSES[engine]

    def prepare() -> list[Any]:
        episodes = [game.start() for game in games]
        for episode, play in zip(episodes, plays, strict=True):
            for command in play.commands[: len(play.commands) // 2]:
                episode.step(command)
        return episodes

    def work(episodes: list[Any]) -> float:
        for episode in episodes:
            for _ in range(times):
                episode.copy()
        return len(episodes) * times

    return Candidate(work, prepare, warm_up=engine == "native")


BENCHMARK = SpeedBenchmark("alfworld", "ALFWorld: native engine against TextWorld", Options, _run)
