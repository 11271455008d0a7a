"""Loading any saved meter."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from agentgym_ttg.core.errors import ConfigError, MissingDependencyError

from .files import find_meter, read_settings

if TYPE_CHECKING:
    from .generative import GenerativeMeter
    from .head import HeadMeter

__all__ = ["load_meter"]


def load_meter(path_or_id: str | os.PathLike[str], **options: Any) -> HeadMeter | GenerativeMeter:
    """Load a meter of either kind from a folder or the hub, as its ``meter.json`` says.

    Args:
        path_or_id: Folder or hub id.
        **options: Of the kind's ``load`` (``device``, ``dtype``, ...).

    Raises:
        ConfigError: If there is no meter, or one of a kind that this version does not know.
        MissingDependencyError: If torch or transformers are not installed.
    """
    folder = find_meter(path_or_id)
    kind = read_settings(folder).get("kind")
    try:
        if kind == "head":
            from .head import HeadMeter

            return HeadMeter.load(folder, **options)
        if kind == "generative":
            from .generative import GenerativeMeter

            return GenerativeMeter.load(folder, **options)
    except ModuleNotFoundError as error:
        raise MissingDependencyError(error.name or "torch", "train", "a trained progress meter") from error
    raise ConfigError(f"{folder} holds a meter of the unknown kind {kind!r}; expected 'head' or 'generative'")
