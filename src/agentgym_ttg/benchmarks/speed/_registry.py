"""The speed benchmarks by name: one module each."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agentgym_ttg.core.errors import ConfigError, nearest

from ._harness import Paired

__all__ = ["SpeedBenchmark", "benchmark", "benchmarks"]


@dataclass(frozen=True, slots=True)
class SpeedBenchmark:
    """One speed benchmark.

    Attributes:
        name: As it is called on the command line.
        summary: One line.
        options: A dataclass of its options, each with a default and a docstring; becomes its flags.
        run: Called with the options and a function that is told what is going on; returns what was measured.
    """

    name: str
    summary: str
    options: type
    run: Callable[[Any, Callable[[str], object]], list[Paired]]


def benchmarks() -> list[str]:
    """Return the names of the speed benchmarks, without importing them."""
    package = importlib.import_module(__package__)
    return sorted(module.name for module in pkgutil.iter_modules(package.__path__) if module.name[0] != "_")


def benchmark(name: str) -> SpeedBenchmark:
    """Return a speed benchmark.

    Raises:
        ConfigError: If there is none of this name; names the nearest.
    """
    known = benchmarks()
    if name not in known:
        hint = nearest(name, known)
        raise ConfigError(
            f"unknown speed benchmark {name!r}"
            + (f"; did you mean {hint[0]!r}?" if hint else ".")
            + f" There are {', '.join(known)}."
        )
    found: SpeedBenchmark = importlib.import_module(f"{__package__}.{name}").BENCHMARK
    return found
