"""Counting what the assistant said.

Where a policy sampled ids, the ids are counted. Elsewhere a tokenizer counts the text; by default the small
byte-level BPE that this project trained and ships (``python scripts/make_tokenizer.py``), or any other by path or
hub id, so that foreign policies can be counted in one unit.
"""

from __future__ import annotations

import functools
from importlib import resources
from pathlib import Path
from typing import Protocol

from tokenizers import Tokenizer as _FastTokenizer

from .errors import ConfigError

__all__ = ["Tokenizer", "count_tokens", "load_tokenizer"]


class Tokenizer(Protocol):
    """What is needed of a tokenizer to count."""

    name: str

    def encode(self, text: str) -> list[int]:
        """Return the ids of ``text``, no special tokens added."""

    def decode(self, ids: list[int]) -> str:
        """Return the text of ``ids``."""


class _Fast:
    """A ``tokenizers`` tokenizer that takes any Python string."""

    def __init__(self, name: str, tokenizer: _FastTokenizer) -> None:
        self.name = name
        self._tokenizer = tokenizer
        tokenizer.no_truncation()  # some files carry a limit, which would cap the count
        tokenizer.no_padding()

    def encode(self, text: str) -> list[int]:
        """Return the ids of ``text``; a lone surrogate counts as U+FFFD."""
        try:
            encoding = self._tokenizer.encode(text, add_special_tokens=False)
        except (TypeError, UnicodeEncodeError):
            clean = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            encoding = self._tokenizer.encode(clean, add_special_tokens=False)
        return list(encoding.ids)

    def decode(self, ids: list[int]) -> str:
        """Return the text of ``ids``, special tokens included."""
        return str(self._tokenizer.decode(ids, skip_special_tokens=False))


@functools.lru_cache(maxsize=16)
def load_tokenizer(spec: str | None = None) -> Tokenizer:
    """Load a tokenizer.

    Args:
        spec: None for the shipped one; else a ``tokenizer.json``, a folder that holds one, or a hub id.

    Raises:
        ConfigError: If nothing can be loaded from ``spec``.

    >>> tokenizer = load_tokenizer()
    >>> tokenizer.decode(tokenizer.encode("go to cabinet 3"))
    'go to cabinet 3'
    """
    if spec is None:
        with resources.as_file(resources.files("agentgym_ttg.core") / "assets" / "tokenizer.json") as path:
            return _Fast("agentgym_ttg/default", _FastTokenizer.from_file(str(path)))
    path = Path(spec).expanduser()
    if path.is_dir():
        path = path / "tokenizer.json"
    try:
        if path.is_file():
            return _Fast(spec, _FastTokenizer.from_file(str(path)))
        return _Fast(spec, _FastTokenizer.from_pretrained(spec))
    except Exception as error:  # the library raises bare Exception
        raise ConfigError(
            f"cannot load a tokenizer from {spec!r}: expected a tokenizer.json, a folder with one, or the id of a hub "
            f"repository with one ({type(error).__name__}: {error})"
        ) from error


def count_tokens(said: str, tokenizer: Tokenizer) -> int:
    """Count the tokens of an assistant message: its sampled ids, else the tokenizer's.

    >>> from agentgym_ttg.core import Completion
    >>> count_tokens(Completion("go north", token_ids=[1, 2, 3]), load_tokenizer())
    3
    """
    ids = getattr(said, "token_ids", None)
    return len(ids) if ids is not None else len(tokenizer.encode(said))
