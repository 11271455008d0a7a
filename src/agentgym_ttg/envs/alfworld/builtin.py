"""Built-in games: made by this project's own generator, no download, the six official task types.

A game's id, such as ``builtin/easy/train/000123``, alone determines the game, on every machine and in every release
with the same generator version. Results that come from built-in games must say so; ``BuiltinGames.name`` is the label.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from agentgym_ttg.core.errors import DataError, UnknownTaskError, nearest
from agentgym_ttg.envs.tasks import NumberedIds

from ._cache import GameCache
from .engine import Game, goal_sentences
from .generator import LEVELS, design_game, write_problem
from .generator.design import VERSION

__all__ = ["BUILTIN_SIZES", "BuiltinGames", "generate_game", "to_game_file"]

BUILTIN_SIZES = {"train": 1_000_000, "valid_seen": 140, "valid_unseen": 134}
"""Games per split; the evaluation splits are as large as the official ones."""


def generate_game(level: str, split: str, index: int) -> Game:
    """Make one game.

    Args:
        level: ``easy``, ``medium`` or ``hard``.
        split: ``train``, ``valid_seen`` or ``valid_unseen``.
        index: number of the game in its split.

    Returns:
        The game, read through the same code as an official one.

    Raises:
        DataError: if there is no such level, split or index.
    """
    _check(level, LEVELS, "difficulty level of the built-in games")
    _check(split, BUILTIN_SIZES, "split of the built-in games")
    if not 0 <= index < BUILTIN_SIZES[split]:
        raise DataError(f"built-in split {split!r} has games 0 to {BUILTIN_SIZES[split] - 1}, not {index}")
    design = design_game(level, split, index)
    text = write_problem(design, f"builtin_{VERSION}_{level}_{split}_{index:06d}")
    sentence = goal_sentences(design.goal)[design.sentence]
    return Game.from_problem(text, sentence, game_id=f"builtin/{level}/{split}/{index:06d}")


def _check(name: str, known: object, what: str) -> None:
    names = list(known)  # type: ignore[call-overload]
    if name not in names:
        close = nearest(str(name), names)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise DataError(f"unknown {what} {name!r}; there are {', '.join(names)}{hint}")


class BuiltinGames:
    """The built-in games of one difficulty level; the same face as :class:`~.data.OfficialData`.

    Args:
        level: ``easy`` (8 to 13 receptacles), ``medium`` (14 to 19) or ``hard`` (18 to 29, like the official games).
        cache_size: how many games to keep.

    Raises:
        DataError: if there is no such level.

    Attributes:
        name: what to call the data in results.

    >>> games = BuiltinGames("easy")
    >>> games.load("builtin/easy/valid_seen/000003").task_type
    'pick_heat_then_place_in_recep'
    """

    splits = tuple(BUILTIN_SIZES)

    def __init__(self, level: str = "easy", *, cache_size: int = 64) -> None:
        _check(level, LEVELS, "difficulty level of the built-in games")
        self.level = level
        self.name = f"built-in {level}"
        self._games = GameCache(cache_size)

    def ids(self, split: str) -> NumberedIds:
        """Return the ids of a split.

        Raises:
            DataError: if there is no such split.
        """
        _check(split, BUILTIN_SIZES, "split of the built-in games")
        return NumberedIds(f"builtin/{self.level}/{split}/", BUILTIN_SIZES[split])

    def load(self, task_id: str) -> Game:
        """Make a game, or return it from the cache.

        Raises:
            UnknownTaskError: if the id is not one of this level; names the nearest ids.
        """
        game = self._games.get(task_id)
        if game is not None:
            return game
        parts = task_id.split("/")
        split = parts[2] if len(parts) == 4 and parts[2] in BUILTIN_SIZES else "train"
        ids = self.ids(split)
        if task_id not in ids:
            raise UnknownTaskError(task_id, split, ids[:100])  # looking through a million is no help
        game = generate_game(self.level, split, ids.number(task_id))
        self._games.put(game)
        return game

    def content_hash(self, split: str) -> str:
        """Return a hash for the split: of the generator's version and of its first twelve games' text."""
        digest = hashlib.blake2b(f"{VERSION}/{self.level}/{split}".encode(), digest_size=16)
        for index in range(12):
            game = generate_game(self.level, split, index)
            digest.update(f"{game.goal_text}\0{game.problem_text}\0".encode())
        return digest.hexdigest()


def to_game_file(game: Game, path: str | Path) -> Path:
    """Write a game as ``game.tw-pddl``, which the official engine plays too.

    The PDDL domain and the grammar are those of the installed ``alfworld`` package.

    Args:
        game: the game, built-in or official.
        path: the file to write, or a folder to write ``game.tw-pddl`` into.

    Returns:
        The file.

    Raises:
        MissingDependencyError: if ``alfworld`` is not installed.
        DataError: if the file cannot be written.
    """
    from .experts import PlanningExpert
    from .textworld_engine import game_data

    content = game_data(game)
    if not content["walkthrough"]:
        content["walkthrough"] = PlanningExpert(game.start()).plan()
    path = Path(path)
    try:
        if path.suffix != ".tw-pddl":
            path.mkdir(parents=True, exist_ok=True)
            path = path / "game.tw-pddl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content), encoding="utf-8")
    except OSError as error:
        raise DataError(f"cannot write the game file {path}: {error.strerror or error}") from error
    return path
