"""The errors of this package.

Each says what was expected, what came, and what to do. Everything that this package raises on purpose derives
from :class:`AgentGymError`, so one ``except`` catches it all; the second base keeps the builtin meaning.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

__all__ = [
    "AgentGymError",
    "ConfigError",
    "DataError",
    "EngineError",
    "EpisodeError",
    "MissingDependencyError",
    "PolicyError",
    "TrajectoryFileError",
    "UnknownTaskError",
    "nearest",
]


class AgentGymError(Exception):
    """Base of every error that this package raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by state, not by calling the constructor again (errors come back from worker processes)."""
        return _rebuild, (type(self), self.args, dict(self.__dict__))


def _rebuild(cls: type[AgentGymError], args: tuple[Any, ...], state: dict[str, Any]) -> AgentGymError:
    error: AgentGymError = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class ConfigError(AgentGymError, ValueError):
    """A setting, name or combination of settings that cannot work."""


class DataError(AgentGymError, ValueError):
    """A data folder, split or file is missing, corrupt or outside what the environment plays."""


class UnknownTaskError(DataError):
    """A task id that the chosen split does not hold."""

    def __init__(self, task_id: str, split: str, known: Iterable[str]) -> None:
        hint = nearest(task_id, known)
        super().__init__(
            f"unknown task id {task_id!r} in split {split!r}"
            + (f"; nearest: {', '.join(map(repr, hint))}" if hint else "")
            + ". List the ids with `env.unwrapped.tasks`."
        )
        self.task_id = task_id


class EpisodeError(AgentGymError, RuntimeError):
    """The episode cannot take this call: not reset, already finished, or closed."""


class EngineError(AgentGymError, RuntimeError):
    """A simulator, worker process or served world failed; the episode ends as ``error``."""


class PolicyError(AgentGymError, RuntimeError):
    """A policy could not produce a completion (server unreachable, model not loadable, ...)."""


class TrajectoryFileError(AgentGymError, ValueError):
    """A trajectory file cannot be read or written as such."""


class MissingDependencyError(AgentGymError, ImportError):
    """An optional dependency is not installed; names the extra that brings it."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the optional package {package!r}, which is not installed. "
            f'Install it with: pip install "agentgym-ttg[{extra}]"'
        )
        self.package = package
        self.extra = extra


def nearest(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """Return up to ``count`` of the known names that look most like ``name``.

    Only the first 5,000 names are looked at, so that an unlimited task stream stays cheap.

    >>> nearest("alfwrld", ["ALFWorld", "bfcl"])
    ['ALFWorld']
    """
    pool: dict[str, str] = {}  # letter case does not count
    for candidate, _ in zip(known, range(5_000), strict=False):
        pool.setdefault(candidate.lower(), candidate)
    return [pool[key] for key in difflib.get_close_matches(name[:200].lower(), pool, n=count, cutoff=0.5)]
