"""Things by name, open to other packages through entry points."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator, Mapping
from typing import ClassVar, Protocol, TypeVar

from .errors import ConfigError, nearest

__all__ = ["Named", "Registry"]


class Named(Protocol):
    """What can be registered."""

    @property
    def name(self) -> str:
        """As it is written on the command line."""


T = TypeVar("T", bound=Named)


class Registry(Mapping[str, T]):
    """Name to entry: those of this package, then those of others, which are imported when they are asked for.

    A subclass says what it holds.

    Args:
        own: The entries of this package, in order.

    Attributes:
        noun: What an entry is called in errors.
        kind: Its class.
        group: Entry-point group in which other packages name theirs.
    """

    noun: ClassVar[str]
    kind: ClassVar[type]
    group: ClassVar[str]

    def __init__(self, own: tuple[T, ...]) -> None:
        self._own: dict[str, T] = {entry.name: entry for entry in own}

    def register(self, entry: T) -> None:
        """Add an entry for this process.

        Raises:
            ConfigError: If the name is taken by another one.
        """
        if self._own.get(entry.name, entry) is not entry:
            raise ConfigError(f"there is a {self.noun} {entry.name!r} already; choose another name")
        self._own[entry.name] = entry

    def find(self, name: str) -> T:
        """Return the entry called ``name``.

        Raises:
            ConfigError: If there is none (names the nearest), or another package's is broken.
        """
        try:
            return self[name]
        except KeyError:
            pass
        hint = nearest(name, self)
        raise ConfigError(
            f"unknown {self.noun} {name!r}"
            + (f"; did you mean {hint[0]!r}?" if hint else ".")
            + f" There are {', '.join(self)}."
        )

    def _foreign(self) -> dict[str, importlib.metadata.EntryPoint]:
        found = importlib.metadata.entry_points(group=self.group)
        return {point.name: point for point in found if point.name not in self._own}

    def __getitem__(self, name: str) -> T:
        """Return an entry.

        Raises:
            KeyError: If there is none of this name.
            ConfigError: If another package's cannot be imported or is something else.
        """
        if name in self._own:
            return self._own[name]
        point = self._foreign()[name]
        try:
            entry: T = point.load()
        except Exception as error:  # a foreign module may fail in any way
            raise ConfigError(
                f"{self.noun} {name!r} ({point.value}) cannot be imported: {type(error).__name__}: {error}"
            ) from error
        if not isinstance(entry, self.kind):
            raise ConfigError(
                f"{self.noun} {name!r}: expected {point.value} to be a {self.kind.__name__}, got {type(entry).__name__}"
            )
        return entry

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        yield from self._own
        yield from sorted(self._foreign())

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._own) + len(self._foreign())
