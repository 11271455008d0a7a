"""Random choices that come out the same on every machine and Python version.

``random.Random`` promises only its ``random()`` to be stable, NumPy's distributions change between versions, and
``hash()`` of a text differs from run to run. The built-in games are named by ids that must mean the same game for
ever, so the generator brings its own dice: SplitMix64, seeded by SHA-256 of a text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TypeVar

__all__ = ["Dice", "bucket"]

_T = TypeVar("_T")
_MASK = (1 << 64) - 1


def bucket(text: str, count: int) -> int:
    """Put a text into one of ``count`` buckets, the same one everywhere and always.

    >>> bucket("apple", 10) == bucket("apple", 10)
    True
    """
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") % count


class Dice:
    """A stream of random choices that its seed text determines.

    >>> dice = Dice("a")
    >>> [dice.below(6) for _ in range(8)]
    [4, 4, 4, 2, 4, 1, 4, 2]
    """

    def __init__(self, seed: str) -> None:
        self._state = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "big")

    def _next(self) -> int:
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        z = self._state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        return z ^ (z >> 31)

    def below(self, count: int) -> int:
        """Return an integer from 0 to ``count - 1`` (biased by less than 2**-50 for the counts used here)."""
        return (self._next() * count) >> 64

    def between(self, low: int, high: int) -> int:
        """Return an integer from ``low`` to ``high``, both included."""
        return low + self.below(high - low + 1)

    def chance(self, percent: int) -> bool:
        """Return True in ``percent`` of 100 cases."""
        return self.below(100) < percent

    def choice(self, items: Sequence[_T]) -> _T:
        """Return one of the items."""
        return items[self.below(len(items))]

    def weighted(self, weights: Mapping[str, int]) -> str:
        """Return one of the keys, each as often as its whole-number weight says."""
        left = self.below(sum(weights.values()))
        for key, weight in weights.items():
            left -= weight
            if left < 0:
                return key
        raise AssertionError("unreachable")

    def shuffled(self, items: Sequence[_T]) -> list[_T]:
        """Return the items in another order."""
        mixed = list(items)
        for last in range(len(mixed) - 1, 0, -1):
            other = self.below(last + 1)
            mixed[last], mixed[other] = mixed[other], mixed[last]
        return mixed
