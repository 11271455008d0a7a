"""The text space of every environment."""

from __future__ import annotations

import string
from typing import Any

import numpy as np
from gymnasium import Space

__all__ = ["Unicode"]

_ALPHABET = np.array(list(string.ascii_letters + string.digits + " .,:?!"))


class Unicode(Space[str]):
    r"""All strings of at most ``max_length`` characters, any characters, the empty string included.

    ``gymnasium.spaces.Text`` names its characters one by one, which excludes punctuation by default and is
    unusable for all of Unicode; here membership is a type and a length.

    Args:
        max_length: Longest string, in characters.
        seed: Seed of :meth:`sample`.

    >>> "naïve\n\u2028" in Unicode(), 3 in Unicode()
    (True, False)
    """

    def __init__(self, max_length: int = 1_000_000, seed: int | np.random.Generator | None = None) -> None:
        if max_length < 0:
            raise ValueError(f"expected max_length >= 0, got {max_length}")
        self.max_length = int(max_length)
        super().__init__(shape=None, dtype=str, seed=seed)

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """Draw a short ASCII string (random text is never a meaningful action; this serves checkers)."""
        if mask is not None or probability is not None:
            raise ValueError("Unicode.sample takes neither mask nor probability")
        length = int(self.np_random.integers(0, min(32, self.max_length) + 1))
        return "".join(self.np_random.choice(_ALPHABET, size=length))

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is a string that is not too long."""
        return isinstance(x, str) and len(x) <= self.max_length

    @property
    def is_np_flattenable(self) -> bool:
        """Text has no fixed-size array form."""
        return False

    def to_jsonable(self, sample_n: Any) -> list[str]:
        """Return the samples as they are."""
        return list(sample_n)

    def from_jsonable(self, sample_n: list[Any]) -> list[str]:
        """Return the samples as they are."""
        return list(sample_n)

    def __eq__(self, other: object) -> bool:
        """Two Unicode spaces are equal if they admit the same strings."""
        return isinstance(other, Unicode) and other.max_length == self.max_length

    def __hash__(self) -> int:
        """Hash by what is compared."""
        return hash((Unicode, self.max_length))

    def __repr__(self) -> str:
        """Return the constructor call."""
        return f"Unicode(max_length={self.max_length})"
