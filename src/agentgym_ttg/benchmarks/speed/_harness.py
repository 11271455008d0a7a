"""Paired timing: the candidates take turns, so that what else the machine does hits all of them alike."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Candidate", "Measurement", "Paired", "measure"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to do the work.

    Attributes:
        work: Does it once, with what ``prepare`` returned; returns how many units it was (steps, resets, tokens, ...).
        prepare: Makes what one round needs; its time does not count.
        warm_up: Whether to work once before the first round.
    """

    work: Callable[[Any], float]
    prepare: Callable[[], Any] = lambda: None
    warm_up: bool = True


@dataclass(frozen=True, slots=True)
class Measurement:
    """One candidate's times.

    Attributes:
        seconds: Seconds for one unit, of each repetition.
        cpu_seconds: Processor seconds of this process for one unit, over all its threads: what a busy machine does not
            change much.
    """

    seconds: tuple[float, ...]
    cpu_seconds: tuple[float, ...] = ()

    @property
    def median(self) -> float:
        """Median seconds for one unit."""
        return statistics.median(self.seconds)

    @property
    def rate(self) -> float:
        """Units a second, from the median."""
        return 1.0 / self.median if self.median else float("inf")


@dataclass(frozen=True, slots=True)
class Paired:
    """Several candidates on the same work.

    Attributes:
        name: What was measured.
        unit: What one unit is.
        candidates: By name; the first is the one that the others are compared with.
        skipped: Candidates that could not run, with the reason.
        notes: What else was observed, such as that results agree.
        values: The same as numbers.
    """

    name: str
    unit: str
    candidates: Mapping[str, Measurement]
    skipped: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    values: Mapping[str, float] = field(default_factory=dict)

    def ratio(self, other: str, *, cpu: bool = False) -> tuple[float, float, float]:
        """Return how many times the first candidate is faster than ``other``: median, least and greatest.

        Each repetition is compared with the one beside it; a common slowdown cancels.

        Args:
            other: A candidate.
            cpu: Compare processor time instead of elapsed time.
        """
        first, second = next(iter(self.candidates.values())), self.candidates[other]
        if cpu:
            pairs = zip(first.cpu_seconds, second.cpu_seconds, strict=True)
        else:
            pairs = zip(first.seconds, second.seconds, strict=True)
        ratios = sorted(theirs / max(ours, 1e-12) for ours, theirs in pairs)
        return statistics.median(ratios), ratios[0], ratios[-1]


def measure(
    name: str,
    unit: str,
    candidates: Mapping[str, Candidate],
    *,
    repetitions: int = 3,
    skipped: Mapping[str, str] | None = None,
    notes: tuple[str, ...] = (),
    progress: Callable[[str], object] = lambda text: None,
) -> Paired:
    """Time the candidates in turns.

    Args:
        name: What is measured.
        unit: What one unit of work is.
        candidates: By name; the first is the one that the others are compared with.
        repetitions: Rounds; in every second one the order is reversed.
        skipped: Candidates that cannot run, with the reason.
        notes: What else was observed.
        progress: Told what is going on.

    Raises:
        ValueError: If there is nothing to measure, or a candidate did no unit of work.
    """
    if not candidates or repetitions < 1:
        raise ValueError(f"expected candidates and repetitions >= 1, got {len(candidates)} and {repetitions}")
    for label, candidate in candidates.items():
        if candidate.warm_up:
            progress(f"{name}: warming up {label}")
            candidate.work(candidate.prepare())
    times: dict[str, list[float]] = {label: [] for label in candidates}
    cpu: dict[str, list[float]] = {label: [] for label in candidates}
    for number in range(repetitions):
        order = list(candidates) if number % 2 == 0 else list(candidates)[::-1]
        for label in order:
            progress(f"{name}: {label}, {number + 1} of {repetitions}")
            prepared = candidates[label].prepare()
            gc.collect()
            started, cpu_started = time.perf_counter(), time.process_time()
            units = candidates[label].work(prepared)
            spent, cpu_spent = time.perf_counter() - started, time.process_time() - cpu_started
            if not units > 0:
                raise ValueError(f"{name}: {label} did no unit of work")
            times[label].append(spent / units)
            cpu[label].append(cpu_spent / units)
    return Paired(
        name,
        unit,
        {label: Measurement(tuple(seconds), tuple(cpu[label])) for label, seconds in times.items()},
        dict(skipped or {}),
        notes,
    )
