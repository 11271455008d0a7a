"""Where things that can be made again are kept."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["CACHE_VARIABLE", "cache_dir"]

CACHE_VARIABLE = "AGENTGYM_TTG_CACHE"


def cache_dir(*parts: str) -> Path:
    """Return a folder below this project's cache: ``$AGENTGYM_TTG_CACHE``, else ``~/.cache/agentgym_ttg``."""
    root = os.environ.get(CACHE_VARIABLE)
    base = Path(root).expanduser() if root else Path("~/.cache").expanduser() / "agentgym_ttg"
    return base.joinpath(*parts)
