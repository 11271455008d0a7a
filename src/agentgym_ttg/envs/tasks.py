"""Which tasks an environment plays: sorted, stable across machines, and labelled with where they come from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentgym_ttg.core.errors import DataError, UnknownTaskError

__all__ = ["NumberedIds", "Task", "TaskSet"]


@dataclass(frozen=True, slots=True)
class Task:
    """One task.

    Attributes:
        id: Stable id, unique inside its split.
        split: The split it belongs to.
        data: Whatever the domain wants to keep with it.
    """

    id: str
    split: str
    data: Any = None


class NumberedIds(Sequence[str]):
    """The ids ``prefix + 000000`` … of a generated stream; a sequence without a list behind it.

    >>> ids = NumberedIds("toy/train/", 1_000_000)
    >>> ids[7], "toy/train/000009" in ids, "toy/train/9" in ids
    ('toy/train/000007', True, False)
    """

    def __init__(self, prefix: str, size: int, width: int = 6) -> None:
        self.prefix, self.size, self.width = prefix, size, width
        self._pattern = re.compile(re.escape(prefix) + rf"([0-9]{{{width}}})")

    def __eq__(self, other: object) -> bool:
        """Whether the other stream holds the same ids."""
        mine = (self.prefix, self.size, self.width)
        return isinstance(other, NumberedIds) and mine == (other.prefix, other.size, other.width)

    def __hash__(self) -> int:
        """Hash by what is compared."""
        return hash((self.prefix, self.size, self.width))

    def __repr__(self) -> str:
        """Return the constructor call."""
        return f"NumberedIds({self.prefix!r}, {self.size}, width={self.width})"

    def number(self, task_id: str) -> int:
        """Return the number of an id.

        Raises:
            KeyError: If the id is not of this stream.
        """
        match = self._pattern.fullmatch(task_id)
        if not match or int(match.group(1)) >= self.size:
            raise KeyError(task_id)
        return int(match.group(1))

    def __len__(self) -> int:
        """Return how many ids there are."""
        return self.size

    def __contains__(self, task_id: object) -> bool:
        """Whether the id is of this stream, in constant time."""
        match = self._pattern.fullmatch(task_id) if isinstance(task_id, str) else None
        return bool(match) and int(match.group(1)) < self.size  # type: ignore[union-attr]

    def __getitem__(self, index: Any) -> Any:
        """Return the id at ``index``, or a list for a slice."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self.size))]
        if not -self.size <= index < self.size:
            raise IndexError(index)
        return f"{self.prefix}{index % self.size:0{self.width}d}"


@dataclass(frozen=True)
class TaskSet(Sequence[str]):
    """The ids of one split.

    Attributes:
        split: Name of the split.
        ids: Sorted ids.
        source: Where the tasks come from, as it is to stand in every result: ``"built-in"``, or the data's name.
        content_hash: Hash of the tasks' content, ``""`` where the ids alone determine it.
    """

    split: str
    ids: Sequence[str]
    source: str = "built-in"
    content_hash: str = ""
    _members: frozenset[str] = field(init=False, repr=False, compare=False, default=frozenset())

    def __post_init__(self) -> None:
        """Refuse an empty set and repeated ids; index the ids."""
        if not len(self.ids):
            raise DataError(f"split {self.split!r} of {self.source} holds no task")
        if not isinstance(self.ids, NumberedIds):
            object.__setattr__(self, "_members", frozenset(self.ids))
            if len(self._members) != len(self.ids):
                raise DataError(f"split {self.split!r} of {self.source} names a task twice")

    def __len__(self) -> int:
        """Return the number of tasks."""
        return len(self.ids)

    def __getitem__(self, index: Any) -> Any:
        """Return the id at ``index``."""
        return self.ids[index]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the ids in order."""
        return iter(self.ids)

    def __contains__(self, task_id: object) -> bool:
        """Whether there is such a task, in constant time."""
        return task_id in (self.ids if isinstance(self.ids, NumberedIds) else self._members)

    def get(self, task_id: str) -> Task:
        """Return the task with this id.

        Raises:
            UnknownTaskError: If there is none; names the nearest ids.
        """
        if task_id not in self:
            raise UnknownTaskError(task_id, self.split, self.ids)
        return Task(task_id, self.split)
