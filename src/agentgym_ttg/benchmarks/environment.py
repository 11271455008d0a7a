"""What a result was made with: versions, machine, commit, data."""

from __future__ import annotations

import datetime
import importlib.metadata
import importlib.util
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import agentgym_ttg

__all__ = ["describe_environment", "peak_memory"]

_PACKAGES = [
    "agentgym-ttg",
    "gymnasium",
    "numpy",
    "pydantic",
    "tokenizers",
    "torch",
    "transformers",
    "trl",
    "accelerate",
    "datasets",
    "openai",
    "vllm",
    "alfworld",
    "textworld",
]


def describe_environment(*, data: str, data_hash: str, split: str) -> dict[str, Any]:
    """Return what ``environment.json`` holds.

    Args:
        data: Name of the data source.
        data_hash: Hash of the split's content.
        split: The split.
    """
    return {
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "python": platform.python_version(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "packages": _versions(),
        "git": _commit(),
        "data": {"source": data, "split": split, "hash": data_hash},
    }


def peak_memory() -> dict[str, float | None]:
    """Return the most memory that this process has held so far, in MiB.

    Returns:
        ``rss_mb``: resident memory, without that of worker processes; None where the system does not tell.
        ``gpu_mb``: allocated by torch on the GPU that took most; None without a GPU.
    """
    rss: float | None = None
    if importlib.util.find_spec("resource") is not None:
        import resource

        unit = 1 if sys.platform == "darwin" else 1024  # bytes there, KiB elsewhere
        rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20
    gpu: float | None = None
    torch = sys.modules.get("torch")  # what did not import it has nothing on a GPU
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        gpu = max(torch.cuda.max_memory_allocated(i) for i in range(torch.cuda.device_count())) / 2**20
    return {"rss_mb": rss, "gpu_mb": gpu}


def _versions() -> dict[str, str]:
    out = {}
    for name in _PACKAGES:
        try:
            out[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    out.setdefault("agentgym-ttg", agentgym_ttg.__version__)
    return out


def _commit() -> dict[str, Any] | None:
    """Return commit and cleanness of the checkout that the package runs from; None where it is no checkout."""
    folder = Path(agentgym_ttg.__file__).parent

    def git(*args: str) -> str:
        done = subprocess.run(["git", "-C", str(folder), *args], capture_output=True, text=True, timeout=10, check=True)
        return done.stdout.strip()

    try:
        if git("ls-files", "__init__.py") == "":  # installed inside somebody else's repository
            return None
        return {"commit": git("rev-parse", "HEAD"), "dirty": bool(git("status", "--porcelain", "--", "."))}
    except (OSError, subprocess.SubprocessError):
        return None
