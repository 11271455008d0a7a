"""Where indexes are kept, and how one is built exactly once.

An index is made in a temporary folder beside its place and renamed into it when it is whole, so a killed build leaves
nothing that could be opened. The name is a hash of everything that determines the content; a changed corpus has another
name. Processes that want the same index wait for one another; a lock dies with the process that holds it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from agentgym_ttg.core.errors import DataError

__all__ = ["CACHE_VARIABLE", "build_once", "cache_folder", "content_key"]

CACHE_VARIABLE = "AGENTGYM_TTG_CACHE"
_MANIFEST = "manifest.json"


def cache_folder() -> Path:
    """Return the folder for what can be made again: ``$AGENTGYM_TTG_CACHE``, else the user's cache folder."""
    given = os.environ.get(CACHE_VARIABLE)
    if given:
        return Path(given).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "agentgym_ttg"


def content_key(*parts: object) -> str:
    """Return a short hash of all parts."""
    text = json.dumps([str(part) for part in parts])
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def build_once(folder: Path, key: str, build: Callable[[Path], None]) -> Path:
    """Return ``folder/key``, made by ``build`` if it is not there or is damaged.

    Args:
        folder: Where the indexes lie.
        key: Name of this one; it must determine the content.
        build: Fills an empty folder.

    Raises:
        DataError: If the folder cannot be written.
    """
    target = folder / key
    if _is_whole(target):
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder / f"{key}.lock"):
            if _is_whole(target):  # another process was faster
                return target
            for stale in folder.glob(f".{key}.*"):  # of a build that was killed
                shutil.rmtree(stale, ignore_errors=True)
            shutil.rmtree(target, ignore_errors=True)
            with tempfile.TemporaryDirectory(prefix=f".{key}.", dir=folder, ignore_cleanup_errors=True) as temporary:
                made = Path(temporary) / "index"
                made.mkdir()
                build(made)
                _write_manifest(made)
                made.rename(target)
    except OSError as error:
        raise DataError(
            f"cannot write the search index {target}: {error.strerror or error}. "
            f"Free some space there, or set {CACHE_VARIABLE} to another folder"
        ) from error
    return target


def _write_manifest(folder: Path) -> None:
    sizes = {path.relative_to(folder).as_posix(): path.stat().st_size for path in _files(folder)}
    path = folder / _MANIFEST
    with path.open("w", encoding="utf-8") as file:
        json.dump(sizes, file)
        file.flush()
        os.fsync(file.fileno())


def _is_whole(folder: Path) -> bool:
    """Whether every file that was written is there in its length; a full disk or a cleaner may have bitten."""
    try:
        sizes = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        return all((folder / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, AttributeError):
        return False


def _files(folder: Path) -> list[Path]:
    # Lock files come and go with the processes that have the index open.
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.endswith(".lock")]


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock; where the system has none, builds race, and the last whole one stays."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)
