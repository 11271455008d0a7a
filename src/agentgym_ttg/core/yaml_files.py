"""YAML files of settings: mappings whose keys stand once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from .errors import ConfigError

__all__ = ["parse_mapping", "read_mapping"]


_MERGE = "tag:yaml.org,2002:merge"


class _Loader(yaml.SafeLoader):
    """The safe loader, except that a key given twice is an error: YAML's own reader keeps the last one in silence."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
                if (key.tag, key.value) in seen:
                    raise yaml.composer.ComposerError(None, None, f"the key {key.value!r} stands twice", key.start_mark)
                seen.add((key.tag, key.value))
        return node


def read_mapping(path: str | Path, what: str) -> dict[str, Any]:
    """Read a YAML (or JSON) file that holds a mapping; an empty file is an empty mapping.

    Args:
        path: The file.
        what: What it is, for errors, such as ``"the config file"``.

    Raises:
        ConfigError: If it cannot be read, or is no mapping, or names a key twice.
    """
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {what} {path}: {getattr(error, 'strerror', None) or error}") from error
    return parse_mapping(text, f"{what} {path}")


def parse_mapping(text: str, what: str) -> dict[str, Any]:
    """Read YAML text that holds a mapping.

    Args:
        text: The text.
        what: What it is, for errors.

    Raises:
        ConfigError: If it is not YAML, or no mapping, or names a key twice.

    >>> parse_mapping("rho: 0.5", "the settings")
    {'rho': 0.5}
    """
    try:
        content = yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        raise ConfigError(f"{what} is not YAML: {' '.join(str(error).split())}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(f"{what}: expected a mapping of fields, got {type(content).__name__}")
    return content
