"""Official ALFWorld data: which games a folder holds, in a fixed order, and one game by its id.

The layout is that of ``alfworld-download``::

    $ALFWORLD_DATA/json_2.1.1/<split>/<task>/<trial>/game.tw-pddl

A game's id is its folder relative to ``json_2.1.1``, with forward slashes. The ids are sorted as text, so their order
is the same on every machine (the official loader's ``os.walk`` order is not). As in the official loader, games with
movable receptacles or sliced objects, and games not marked solvable, are left out.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from agentgym_ttg.core.errors import DataError, UnknownTaskError, nearest

from ._cache import GameCache
from .engine import TASK_TYPES, Game

__all__ = ["DATA_VARIABLE", "GAME_FILE", "SPLITS", "OfficialData", "task_type_of"]

SPLITS = ("train", "valid_seen", "valid_unseen")
DATA_VARIABLE = "ALFWORLD_DATA"
GAME_FILE = "game.tw-pddl"

_HOW = (
    "Download the games with `pip install alfworld && alfworld-download` and set ALFWORLD_DATA (or data_dir) to the "
    "folder that holds json_2.1.1, or leave data_dir out to play the built-in games."
)
_TAIL = 4096
_SOLVABLE = re.compile(rb'"solvable"\s*:\s*(true|false)')
_MOVE, _PUT = b"move {o} to {r}", b"put {o} in/on {r}"


def task_type_of(task_id: str) -> str:
    """Return the task type that an id names, ``""`` where it names none.

    >>> task_type_of("valid_seen/look_at_obj_in_light-Book-None-DeskLamp-305/trial_T2019")
    'look_at_obj_in_light'
    """
    for part in task_id.split("/"):
        name = part.split("-", 1)[0]
        if name in TASK_TYPES:
            return name
    return ""


class OfficialData:
    """The official games in one folder.

    Args:
        data_dir: the folder that holds ``json_2.1.1``, or that folder itself; by default ``$ALFWORLD_DATA``.
        cache_size: how many parsed games to keep (about 0.4 MB each).

    Raises:
        DataError: if there is no such folder, or no split in it.

    Attributes:
        root: the folder that holds the splits.
        name: what to call the data in results, such as ``json_2.1.1``.
    """

    def __init__(self, data_dir: str | os.PathLike[str] | None = None, *, cache_size: int = 64) -> None:
        given = data_dir if data_dir is not None else os.environ.get(DATA_VARIABLE)
        if not given:
            raise DataError(f"no folder given for the official ALFWorld games. {_HOW}")
        self.root = _find_root(Path(os.path.expandvars(os.fspath(given))).expanduser())
        self.name = self.root.name
        self._games = GameCache(cache_size)
        self._ids: dict[str, tuple[str, ...]] = {}
        self._members: dict[str, frozenset[str]] = {}
        self._hashes: dict[str, str] = {}
        self._syntax: tuple[str, str] | None = None

    @property
    def splits(self) -> tuple[str, ...]:
        """The official splits that the folder has."""
        return tuple(split for split in SPLITS if (self.root / split).is_dir())

    def ids(self, split: str) -> tuple[str, ...]:
        """Return the sorted ids of a split.

        Raises:
            DataError: if the split is unknown, missing in this folder, or empty.
        """
        if split not in self._ids:
            if split not in SPLITS:
                close = nearest(split, SPLITS)
                hint = f"; did you mean {close[0]!r}?" if close else ""
                raise DataError(f"unknown split {split!r}; ALFWorld has {', '.join(SPLITS)}{hint}")
            if split not in self.splits:
                raise DataError(
                    f"{self.root} has no folder for the split {split!r}, only {', '.join(self.splits)}. {_HOW}"
                )
            found = tuple(sorted(_scan(self.root, split)))
            if not found:
                raise DataError(f"{self.root / split} holds no solvable {GAME_FILE}. {_HOW}")
            self._ids[split] = found
            self._members[split] = frozenset(found)
            for task_id in (found[0], found[-1]):  # the rest is compared as it is loaded
                self._compare_syntax(task_id, _syntax_in_file(self.root / task_id / GAME_FILE))
        return self._ids[split]

    def path(self, task_id: str) -> Path:
        """Return the file of a game.

        Raises:
            UnknownTaskError: if the id is not among the games of its split; names the nearest ids.
        """
        split = task_id.split("/", 1)[0]
        if split not in SPLITS or split not in self.splits:
            split = self.splits[0]
        ids = self.ids(split)
        if task_id not in self._members[split]:
            raise UnknownTaskError(task_id, split, ids)
        return self.root / task_id / GAME_FILE

    def load(self, task_id: str) -> Game:
        """Read a game, or return it from the cache.

        Raises:
            UnknownTaskError: if the id is not in the folder.
            DataError: if the file is damaged, outside the ALFWorld domain, or has another command syntax than the
                other games of the folder.
        """
        game = self._games.get(task_id)
        if game is not None:
            return game
        path = self.path(task_id)
        game = Game.from_file(path, game_id=task_id)
        self._compare_syntax(task_id, game.variant.syntax)
        self._games.put(game)
        return game

    def content_hash(self, split: str) -> str:
        """Return a hash of the split's ids and of the whole content of their files (blake2b, 16 bytes, hex).

        It reads every file once (about 0.3 GB for ``train``, a second or so) and is kept for this object's life. Two
        machines have the same hash exactly if they play the same games. A mixture of command syntaxes raises here too.
        """
        if split not in self._hashes:
            digest = hashlib.blake2b(digest_size=16)
            for task_id in self.ids(split):
                path = self.root / task_id / GAME_FILE
                try:
                    content = path.read_bytes()
                except OSError as error:
                    raise DataError(f"cannot read the game file {path}: {error.strerror or error}") from error
                self._compare_syntax(task_id, _syntax_in(content))
                digest.update(f"{task_id}\0{len(content)}\0".encode())
                digest.update(content)
            self._hashes[split] = digest.hexdigest()
        return self._hashes[split]

    def _compare_syntax(self, task_id: str, syntax: str) -> None:
        if not syntax:  # rebuilt without the grammar: the native engine then speaks the newest syntax
            syntax = "move"
        if self._syntax is None:
            self._syntax = (syntax, task_id)
        elif syntax != self._syntax[0]:
            raise DataError(
                f"{self.root} mixes two releases: {self._syntax[1]} has the command "
                f"{_command(self._syntax[0])!r}, {task_id} has {_command(syntax)!r}. "
                "A policy would meet two languages. Keep each release in a folder of its own."
            )


def _command(syntax: str) -> str:
    return "move X to Y" if syntax == "move" else "put X in/on Y"


def _find_root(folder: Path) -> Path:
    """Return the folder that holds the splits."""
    if not folder.is_dir():
        raise DataError(f"the ALFWorld data folder {folder} does not exist or is no folder. {_HOW}")
    candidates = [folder, *sorted(path for path in folder.glob("json_2.1.*") if path.is_dir())]
    found = [path for path in candidates if any((path / split).is_dir() for split in SPLITS)]
    if not found:
        raise DataError(
            f"expected {folder} to hold json_2.1.1 with {', '.join(SPLITS)} in it (or those splits directly), "
            f"found {', '.join(sorted(path.name for path in folder.iterdir())[:8]) or 'an empty folder'}. {_HOW}"
        )
    if len(found) > 1:
        raise DataError(
            f"{folder} holds more than one release: {', '.join(path.name for path in found)}. Name one as data_dir."
        )
    return found[0]


def _scan(root: Path, split: str) -> list[str]:
    """List the playable games of a split."""
    found: list[str] = []
    for folder, _, files in os.walk(root / split):
        if GAME_FILE not in files or "movable" in folder or "Sliced" in folder:
            continue
        if _is_solvable(os.path.join(folder, GAME_FILE)):
            found.append(Path(folder).relative_to(root).as_posix())
    return found


def _is_solvable(path: str) -> bool:
    """Whether the file is marked solvable; only its end is read where the mark is there."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL))
            match = _SOLVABLE.search(file.read())
            if match is None:
                file.seek(0)
                match = _SOLVABLE.search(file.read())
    except OSError as error:
        raise DataError(f"cannot read the game file {path}: {error.strerror or error}") from error
    # A damaged file without the mark stays in the list, so that playing it names it in an error and the
    # number of games does not shrink unnoticed.
    return match is None or match.group(1) == b"true"


def _syntax_in(content: bytes) -> str:
    has_move, has_put = _MOVE in content, _PUT in content
    return "move" if has_move else "put" if has_put else ""


def _syntax_in_file(path: Path) -> str:
    try:
        return _syntax_in(path.read_bytes())
    except OSError as error:
        raise DataError(f"cannot read the game file {path}: {error.strerror or error}") from error
