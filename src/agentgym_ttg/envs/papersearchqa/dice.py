"""Choices that depend on a seed and a name only: not on their order, the machine or a library's version."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import TypeVar

__all__ = ["Dice"]

_T = TypeVar("_T")


class Dice:
    """A source of named choices.

    >>> Dice(0).pick("abc", "x", 1) == Dice(0).pick("abc", "x", 1)
    True
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def number(self, *key: object) -> int:
        """Return 64 bits for a key."""
        text = "\x1f".join(str(part) for part in (self._seed, *key))
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")

    def unit(self, *key: object) -> float:
        """Return a number in [0, 1) for a key."""
        return self.number(*key) / 2.0**64

    def pick(self, options: Sequence[_T], *key: object) -> _T:
        """Choose one of the options."""
        return options[self.number(*key) % len(options)]

    def order(self, items: Iterable[_T], *key: object) -> list[_T]:
        """Return distinct items in an order of chance."""
        return sorted(items, key=lambda item: (self.number(*key, item), str(item)))
