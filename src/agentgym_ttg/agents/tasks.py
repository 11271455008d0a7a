"""The order in which training meets its tasks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["TaskStream"]


class TaskStream:
    """An endless, seeded stream over a task set: every task once in random order, then again in another order.

    Position ``cursor`` determines the task, so a resumed run goes on where it stopped with one integer.

    Args:
        tasks: The ids.
        seed: Seed of the orders.

    >>> stream = TaskStream(["a", "b", "c"], seed=0)
    >>> sorted(stream.take(0, 3)), stream.take(1, 2) == stream.take(0, 3)[1:]
    (['a', 'b', 'c'], True)
    """

    def __init__(self, tasks: Sequence[str], seed: int) -> None:
        self._tasks = tasks
        self._seed = seed
        self._epoch = -1
        self._order: NDArray[np.int64] = np.empty(0, dtype=np.int64)

    def __getitem__(self, cursor: int) -> str:
        """Return the task at a position of the stream."""
        epoch, position = divmod(cursor, len(self._tasks))
        if epoch != self._epoch:
            self._order = np.random.default_rng([self._seed, epoch]).permutation(len(self._tasks))
            self._epoch = epoch
        return self._tasks[int(self._order[position])]

    def take(self, cursor: int, count: int) -> list[str]:
        """Return ``count`` tasks from a position on."""
        return [self[cursor + i] for i in range(count)]
