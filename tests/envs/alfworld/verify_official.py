"""The long checks of ALFWorld, not part of the test suite.

    python tests/envs/alfworld/verify_official.py                  # every official walkthrough, both experts
    python tests/envs/alfworld/verify_official.py --textworld 200  # native engine against TextWorld, 200 games
    python tests/envs/alfworld/verify_official.py --textworld 24 --builtin hard

Games come from the packs (``--packs``, one JSON a line) or from an official folder (``--data-dir``). The TextWorld
part needs the extra ``alfworld`` and takes about seven seconds a game. Exit status 1 where something does not agree.
"""

from __future__ import annotations

import argparse
import itertools
import json
import lzma
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agentgym_ttg.envs.alfworld.builtin import BuiltinGames
from agentgym_ttg.envs.alfworld.data import OfficialData
from agentgym_ttg.envs.alfworld.engine import Episode, Game, Variant
from agentgym_ttg.envs.alfworld.experts import PlanningExpert, SearchingExpert

PACKS = Path(__file__).resolve().parents[4] / "shared" / "data" / "alfworld"
LIMIT = 50


def read_games(arguments: argparse.Namespace) -> Iterator[Game]:
    """All games that the arguments name, one after the other."""
    if arguments.builtin:
        games = BuiltinGames(arguments.builtin)
        for split in ("valid_seen", "valid_unseen"):
            yield from (games.load(task_id) for task_id in games.ids(split))
    elif arguments.data_dir:
        data = OfficialData(arguments.data_dir)
        for split in data.splits:
            yield from (data.load(task_id) for task_id in data.ids(split))
    else:
        for split in ("valid_seen", "train"):
            with lzma.open(arguments.packs / f"{split}.jsonl.xz", "rt", encoding="utf-8") as lines:
                for line in lines:
                    row = json.loads(line)
                    yield Game.from_problem(
                        row["p"],
                        row["g"],
                        variant=Variant(sink_cleans=True),
                        game_id=row["id"],
                        walkthrough=tuple(row["w"]),
                    )


def play(episode: Episode, expert: Any) -> int:
    """Number of commands to the win, 0 where there is none within the limit."""
    expert.reset(episode.observation)
    for count in range(1, LIMIT + 1):
        if episode.step(expert.act(episode.observation, episode.admissible_commands())).won:
            return count
    return 0


def check_all(arguments: argparse.Namespace) -> bool:
    """Play every walkthrough and both experts."""
    steps: dict[str, list[int]] = defaultdict(list)
    by_type: dict[str, list[int]] = defaultdict(list)
    bad: Counter[str] = Counter()
    count = 0
    for game in itertools.islice(read_games(arguments), arguments.limit):
        count += 1
        if game.walkthrough:
            episode = game.start()
            outcomes = [episode.step(command) for command in game.walkthrough]
            if not outcomes[-1].won or not all(outcome.valid for outcome in outcomes):
                bad["walkthrough"] += 1
                print(f"walkthrough fails: {game.id}")
            steps["walkthrough"].append(len(game.walkthrough))
        for name in ("planning", "searching"):
            episode = game.start()
            length = play(episode, PlanningExpert(episode) if name == "planning" else SearchingExpert())
            if length:
                steps[name].append(length)
            else:
                bad[name] += 1
                print(f"{name} expert fails: {game.id}")
            if name == "searching":
                by_type[game.task_type].append(length)
    print(f"{count} games; failures: {dict(bad) or 'none'}")
    for name, lengths in steps.items():
        print(f"  {name:12} won {len(lengths) / count:8.3%}, mean {sum(lengths) / len(lengths):.3f} commands")
    for task_type, lengths in sorted(by_type.items()):
        print(f"    {task_type:32} {len(lengths):5} games, searching mean {sum(lengths) / len(lengths):.2f}")
    return not bad["walkthrough"] and bad["planning"] + bad["searching"] <= count * 0.001


def spread(games: Iterator[Game], count: int) -> list[Game]:
    """Take ``count`` games evenly over the task types and over the list."""
    groups: dict[str, list[Game]] = defaultdict(list)
    for game in games:
        groups[game.task_type].append(game)
    chosen: list[Game] = []
    shares = [count // len(groups) + (index < count % len(groups)) for index in range(len(groups))]
    for (_, group), share in zip(sorted(groups.items()), shares, strict=True):
        stride = max(1, len(group) // max(1, share))
        chosen += group[::stride][:share]
    return chosen


def check_textworld(arguments: argparse.Namespace) -> bool:
    """Play the same commands in both engines and compare everything that can be seen."""
    from agentgym_ttg.envs.alfworld.textworld_engine import TextWorldGame

    chosen = spread(read_games(arguments), arguments.textworld)
    started, steps, mismatches, wins, total = time.time(), 0, 0, 0, ""
    for number, game in enumerate(chosen, 1):
        native, official = game.start(), TextWorldGame.from_game(game).start()
        expert, rng = SearchingExpert(), random.Random(f"{arguments.seed} {game.id}")
        expert.reset(native.observation)
        played: list[str] = []
        while True:
            mine = (native.observation, native.admissible_commands(), native.won)
            theirs = (official.observation, official.admissible_commands(), official.won)
            if mine != theirs:
                mismatches += 1
                print(f"MISMATCH in {game.id} after {played}\n  native    {mine}\n  textworld {theirs}", flush=True)
                break
            if native.won or len(played) >= arguments.steps + LIMIT:
                break
            command = choose(rng, expert, native, random_play=len(played) < arguments.steps)
            native.step(command)
            official.step(command)
            played.append(command)
        steps += len(played)
        wins += native.won
        rate = steps / (time.time() - started)
        total = f"{steps} steps, {wins} wins, {mismatches} mismatches"
        print(f"{number}/{len(chosen)} {game.task_type} {len(played)} steps; in all {total}, {rate:.1f}/s", flush=True)
    print(f"{len(chosen)} games, {dict(Counter(game.task_type for game in chosen))}, {total}")
    return mismatches == 0


def choose(rng: random.Random, expert: SearchingExpert, episode: Episode, *, random_play: bool) -> str:
    """A command: mostly random ones at first (those that do something more often), then the expert's."""
    admissible = episode.admissible_commands()
    advice = expert.act(episode.observation, admissible)
    if not random_play:
        return advice
    if rng.random() < 0.04:
        return rng.choice(["dance", "", " look ", "take mug 9 from moon 1", "GO TO fridge 1", "go to fridge 1\n"])
    doing = [
        command for command in admissible if not command.startswith(("go to", "help", "inventory", "look", "examine"))
    ]
    return rng.choice(doing) if doing and rng.random() < 0.5 else rng.choice(admissible)


def main() -> int:
    """Run the checks that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packs", type=Path, default=PACKS, help="folder with train.jsonl.xz and valid_seen.jsonl.xz")
    parser.add_argument("--data-dir", type=Path, help="an official folder (ALFWORLD_DATA) in place of the packs")
    parser.add_argument(
        "--builtin", choices=("easy", "medium", "hard"), help="built-in games in place of official ones"
    )
    parser.add_argument("--limit", type=int, help="check so many games only")
    parser.add_argument("--textworld", type=int, default=0, metavar="N", help="compare N games with TextWorld")
    parser.add_argument("--steps", type=int, default=14, help="random commands before the expert takes over")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    return 0 if (check_textworld if arguments.textworld else check_all)(arguments) else 1


if __name__ == "__main__":
    sys.exit(main())
