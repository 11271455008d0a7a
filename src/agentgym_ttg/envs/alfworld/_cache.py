"""A small cache of parsed games."""

from __future__ import annotations

from collections import OrderedDict

from .engine import Game

__all__ = ["GameCache"]


class GameCache:
    """Keeps the games that were used last.

    It has no lock, so that what holds it can be pickled; when threads share one, a game may be parsed twice, no more.

    Args:
        size: how many games to keep, at least one.
    """

    def __init__(self, size: int) -> None:
        self._size = max(1, size)
        self._games: OrderedDict[str, Game] = OrderedDict()

    def get(self, task_id: str) -> Game | None:
        """Return a game, None where it is not kept."""
        game = self._games.pop(task_id, None)
        if game is not None:
            self._games[task_id] = game  # now the newest
        return game

    def put(self, game: Game) -> None:
        """Keep a game; forget the one that was not used for longest."""
        self._games[game.id] = game
        while len(self._games) > self._size:
            try:
                self._games.popitem(last=False)
            except KeyError:
                return
