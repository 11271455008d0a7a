"""Meter folders: saved whole or not at all, loaded by path or hub id."""

from __future__ import annotations

import glob
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from agentgym_ttg.core.errors import ConfigError, MissingDependencyError

__all__ = ["METER_FILE", "find_meter", "open_meter", "read_settings", "saved_meter"]

METER_FILE = "meter.json"
FORMAT_VERSION = 1
_Settings = TypeVar("_Settings", bound=BaseModel)


@contextmanager
def replace_folder(target: Path) -> Iterator[Path]:
    """Give a fresh folder to write into, and put it in the place of ``target`` once everything is written.

    A process that dies at any moment leaves either the old folder or the new one: the new one is written beside it,
    synced, and swapped in by two renames; a death between the two is mended by :func:`find_meter` and by the next
    save, which find the old folder under its other name. An exception leaves the old folder as it was.
    """
    target = target.absolute()
    target.parent.mkdir(parents=True, exist_ok=True)
    _mend(target)
    for abandoned in target.parent.glob(f".{glob.escape(target.name)}.new-*"):  # of saves that were killed
        shutil.rmtree(abandoned, ignore_errors=True)
    fresh = target.with_name(f".{target.name}.new-{os.getpid()}")
    fresh.mkdir()
    try:
        yield fresh
        for path in sorted(fresh.rglob("*")):
            _sync(path)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    old = _old_name(target)
    if target.exists():
        shutil.rmtree(old, ignore_errors=True)
        os.rename(target, old)
    os.rename(fresh, target)
    shutil.rmtree(old, ignore_errors=True)


def _old_name(target: Path) -> Path:
    return target.with_name(f".{target.name}.old")


def _mend(target: Path) -> None:
    """Take back the old folder if a save died between its two renames."""
    old = _old_name(target)
    if old.is_dir() and not target.exists():
        os.rename(old, target)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def find_meter(path_or_id: str | os.PathLike[str]) -> Path:
    """Return the local folder of a meter, downloading it if it is a hub id.

    Raises:
        ConfigError: If there is neither such a folder nor such a hub repository, or no meter in it.
        MissingDependencyError: If it would have to be downloaded and ``huggingface_hub`` is not installed.
    """
    path = Path(path_or_id).expanduser()
    _mend(path.absolute())
    if path.is_dir():
        if not (path / METER_FILE).is_file():
            raise ConfigError(
                f"{path} holds no meter: expected a {METER_FILE} in it. Train one with "
                "`python -m agentgym_ttg.meter train RECORDINGS --out FOLDER`; for a model that was never trained as "
                "a meter use GenerativeMeter.untrained(model)"
            )
        return path
    name = os.fspath(path_or_id)
    if path.exists() or name.count("/") != 1 or name.startswith((".", "/", "~")):
        raise ConfigError(f"expected a meter's folder or hub id, got {name!r}, which is no folder")
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise MissingDependencyError("huggingface_hub", "train", f"downloading the meter {name!r}") from error
    try:
        folder = Path(snapshot_download(name))
    except Exception as error:  # the client raises many kinds: no network, no such repository, no access
        raise ConfigError(f"cannot load the meter {name!r}: no such folder, and the hub says: {error}") from error
    if not (folder / METER_FILE).is_file():
        raise ConfigError(f"the hub repository {name!r} holds no meter: expected a {METER_FILE} in it")
    return folder


@contextmanager
def saved_meter(
    folder: str | os.PathLike[str], kind: str, settings: BaseModel, extra: Mapping[str, str] | None = None
) -> Iterator[Path]:
    """Give a fresh folder for the weights of a meter; add ``extra`` text files and ``meter.json``, and swap it in."""
    with replace_folder(Path(folder)) as fresh:
        yield fresh
        for name, text in (extra or {}).items():
            (fresh / name).write_text(text, encoding="utf-8")
        write_settings(fresh, kind, settings)


def open_meter(path_or_id: str | os.PathLike[str], kind: str, model: type[_Settings]) -> tuple[Path, _Settings]:
    """Return the folder of a meter of this kind, and its settings.

    Raises:
        ConfigError: If there is no meter, or one of another kind.
    """
    folder = find_meter(path_or_id)
    record = read_settings(folder)
    if record.get("kind") != kind:
        raise ConfigError(f"{folder} holds a meter of kind {record.get('kind')!r}, expected {kind!r}")
    return folder, parse_settings(folder, model, record["settings"])


def write_settings(folder: Path, kind: str, settings: BaseModel, extra: dict[str, Any] | None = None) -> None:
    """Write ``meter.json``."""
    record = {"format": FORMAT_VERSION, "kind": kind, **(extra or {}), "settings": settings.model_dump(mode="json")}
    (folder / METER_FILE).write_text(json.dumps(record, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def read_settings(folder: Path) -> dict[str, Any]:
    """Read ``meter.json``.

    Raises:
        ConfigError: If it is not one, or one of a newer version.
    """
    try:
        record = json.loads((folder / METER_FILE).read_text(encoding="utf-8"))
        if not isinstance(record, dict) or not isinstance(record.get("settings"), dict):
            raise ValueError("expected an object with settings")
        version = int(record["format"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{folder / METER_FILE} is no meter description: {error}") from error
    if version > FORMAT_VERSION:
        raise ConfigError(
            f"{folder} has meter format {version}, newer than this version reads ({FORMAT_VERSION}); "
            "upgrade agentgym-ttg"
        )
    return record


def parse_settings(folder: Path, model: type[_Settings], settings: dict[str, Any]) -> _Settings:
    """Validate the settings of a meter.

    Raises:
        ConfigError: If they are not what this kind of meter has.
    """
    try:
        return model.model_validate(settings)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ConfigError(f"{folder / METER_FILE}: settings.{where}: {first['msg']}") from error
