"""Worlds from where they lie, and their databases as they are in the beginning."""

from __future__ import annotations

import functools
import os
import re
from hashlib import blake2b
from pathlib import Path

from agentgym_ttg.core.errors import DataError, MissingDependencyError

from .authoring import WORLDS, author_records, builtin_names
from .records import World, read_records, worlds_from_records
from .sandbox.client import launcher

__all__ = ["initial_database", "load_worlds"]


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
