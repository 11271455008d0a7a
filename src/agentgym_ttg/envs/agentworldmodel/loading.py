"""Worlds from where they lie, and their databases as they are in the beginning."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path

from agentgym_ttg.core.errors import DataError, MissingDependencyError

from .authoring import WORLDS, author_records, builtin_names
from .records import World, read_records, worlds_from_records
from .sandbox.client import launcher

__all__ = ["DATA_VARIABLE", "SPLITS", "WorldData", "initial_database", "load_worlds", "task_ids", "worlds_hash"]

#: Environment variable that names the folder (or hub id) of published worlds.
DATA_VARIABLE = "AGENTWORLDMODEL_DATA"
SPLITS = ("train", "test")


@functools.lru_cache(maxsize=8)
def load_worlds(data_dir: str | None = None) -> dict[str, World]:
    """Load worlds: the built-in ones, or those of a folder (or hub id) of published files.

    Raises:
        DataError: If there is nothing to read.
    """
    if data_dir is None:
        return worlds_from_records(author_records(*(WORLDS / name for name in builtin_names())))
    folder = Path(data_dir).expanduser()
    if not folder.is_dir() and re.fullmatch(r"[\w.-]+/[\w.-]+", data_dir):
        folder = _from_hub(data_dir)
    if not folder.is_dir():
        raise DataError(f"no such folder: {data_dir}; expected one with gen_*.jsonl, or a hub id owner/name")
    return worlds_from_records(read_records(folder))


def task_ids(worlds: Mapping[str, World], split: str) -> list[str]:
    """Return the sorted ids of a split's tasks: those with a verifier, a quarter of them, by a hash, for ``test``."""
    ids = [f"{world.name}/{task.index:04d}" for world in worlds.values() for task in world.tasks if task.verifier]
    return sorted(task_id for task_id in ids if (_digest(task_id) % 4 == 0) == (split == "test"))


def worlds_hash(worlds: Mapping[str, World]) -> str:
    """Return the hash of all that is in some worlds."""
    text = "".join(world.content_hash for world in worlds.values())
    return blake2b(text.encode(), digest_size=16).hexdigest()


class WorldData:
    """What the list of data sources shows of worlds.

    Args:
        data_dir: See :func:`load_worlds`.

    Raises:
        DataError: If there is nothing to read.
    """

    splits = SPLITS

    def __init__(self, data_dir: str | None = None) -> None:
        self._worlds = load_worlds(data_dir)

    def ids(self, split: str) -> list[str]:
        """Return the sorted ids of a split."""
        return task_ids(self._worlds, split)

    def content_hash(self, split: str) -> str:
        """Return the hash of the worlds; they are the same in both splits."""
        return worlds_hash(self._worlds)


def _digest(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=4).digest(), "big")


def _from_hub(name: str) -> Path:
    try:
        import huggingface_hub
    except ModuleNotFoundError as error:
        raise MissingDependencyError("huggingface_hub", "train", f"reading {name!r} from the hub") from error
    try:
        return Path(huggingface_hub.snapshot_download(name, repo_type="dataset", allow_patterns=["gen_*.jsonl"]))
    except Exception as error:
        raise DataError(f"{name!r} is no folder here, and the hub does not give it: {error}") from error


def initial_database(world: World) -> Path:
    """Return the world's database as it is in the beginning, built once for each process of ours."""
    path = Path(launcher().folder) / f"initial-{_world_key(world)}.db"
    if not path.exists():
        making = path.with_suffix(f".{os.getpid()}")
        world.build(making)
        making.replace(path)
    return path


@functools.lru_cache(maxsize=4096)
def _key_of(name: str, statements: tuple[str, ...]) -> str:
    return blake2b("\0".join((name, *statements)).encode(), digest_size=12).hexdigest()


def _world_key(world: World) -> str:
    return _key_of(world.name, world.statements)
