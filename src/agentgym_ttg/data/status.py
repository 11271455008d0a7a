"""Where each data source lies, and whether it is whole."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from agentgym_ttg.core.errors import AgentGymError

from .registry import DATA_SOURCES, DataSource

__all__ = ["SplitStatus", "Status", "check", "status"]


@dataclass(slots=True)
class SplitStatus:
    """One split.

    Attributes:
        tasks: How many tasks it has.
        content_hash: Hash of their content, ``""`` where it was not asked for.
    """

    tasks: int
    content_hash: str = ""


@dataclass(slots=True)
class Status:
    """What is known of a data source here.

    Attributes:
        name: Of the source.
        env: Environment that plays it.
        summary: What it is.
        licence: Licence and origin.
        state: ``built-in``, ``present``, ``missing`` or ``broken``.
        folder: Where it lies, ``""`` for built-in data and where no folder is named.
        splits: The splits that are there.
        problem: Why it is missing or broken.
        bring: The command that brings it.
    """

    name: str
    env: str
    summary: str
    licence: str
    state: str
    folder: str = ""
    splits: dict[str, SplitStatus] = field(default_factory=dict)
    problem: str = ""
    bring: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        return asdict(self)


def check(source: DataSource, folder: str | os.PathLike[str] | None = None, *, hashes: bool = False) -> Status:
    """Look at one source.

    Args:
        source: Which.
        folder: Where to look for it; default what its environment variable names.
        hashes: Whether to read all of it and compute the content hashes.
    """
    out = Status(source.name, source.env, source.summary, source.licence, "built-in", bring=source.bring)
    arguments: Mapping[str, Any] = source.arguments
    if source.place:
        out.folder = str(_named(source.place)(**arguments))
        out.state = "present" if Path(out.folder).is_dir() else "missing"
        if out.state == "missing":
            out.problem = "it is not installed"
            return out
        arguments = {**arguments, "data_dir": out.folder}
    elif not source.built_in:
        place = folder if folder is not None else os.environ.get(source.variable)
        if not place:
            out.state, out.problem = "missing", f"no folder: set {source.variable}, or pass --data-dir"
            return out
        out.folder = str(Path(os.path.expandvars(os.fspath(place))).expanduser())
        out.state = "present" if Path(out.folder).is_dir() else "missing"
        if out.state == "missing":
            out.problem = "there is no such folder"
            return out
        arguments = {"data_dir": out.folder}
    try:
        reader = _named(source.reader)(**arguments)
        for split in reader.splits:
            out.splits[split] = SplitStatus(len(reader.ids(split)))
            if hashes:
                out.splits[split].content_hash = reader.content_hash(split)
    except AgentGymError as error:
        out.state, out.problem = "broken", str(error)
    return out


def _named(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def status(folder: str | os.PathLike[str] | None = None, *, hashes: bool = False) -> list[Status]:
    """Look at every source; ``folder`` is where those that are not built in are looked for."""
    return [check(source, folder, hashes=hashes) for source in DATA_SOURCES.values()]
