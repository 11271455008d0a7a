"""The obfuscated form in which browsing benchmarks are published, so that crawlers do not learn the answers.

A string is the base64 of its UTF-8 bytes XORed with SHA-256(canary), repeated. It is no secrecy.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Any

from agentgym_ttg.core.errors import DataError

__all__ = ["conceal", "reveal", "reveal_record"]

_PLAIN_KEYS = frozenset({"query_id", "canary"})
_ID_KEYS = frozenset({"docid", "id", "gold_docs", "evidence_docs", "negative_docs"})


def _mix(data: bytes, canary: str) -> bytes:
    key = hashlib.sha256(canary.encode("utf-8")).digest()
    return bytes(byte ^ key[place % len(key)] for place, byte in enumerate(data))


def conceal(text: str, canary: str) -> str:
    """Obfuscate a string.

    >>> conceal("zinc", "canary")
    'm2mVrQ=='
    """
    return base64.b64encode(_mix(text.encode("utf-8"), canary)).decode("ascii")


def reveal(text: str, canary: str) -> str:
    """Undo :func:`conceal`.

    Raises:
        DataError: If the text was not made with this canary.

    >>> reveal(conceal("naïve", "canary"), "canary")
    'naïve'
    """
    try:
        return _mix(base64.b64decode(text, validate=True), canary).decode("utf-8")
    except (binascii.Error, ValueError) as error:
        raise DataError(
            f"cannot decode {text[:40]!r} with the canary {canary[:40]!r}: expected base64 of text obfuscated with it "
            f"({error}). Check the canary, or give none for data that is already plain"
        ) from error


def reveal_record(value: Any, canary: str, key: str = "") -> Any:
    """Decode every string of a record, lists and objects inside included; ids that are plain stay so."""
    if isinstance(value, dict):
        return {
            name: item if name in _PLAIN_KEYS else reveal_record(item, canary, name) for name, item in value.items()
        }
    if isinstance(value, list):
        return [reveal_record(item, canary, key) for item in value]
    if not isinstance(value, str) or not value:
        return value
    if key not in _ID_KEYS:
        return reveal(value, canary)
    try:
        decoded = reveal(value, canary)
    except DataError:
        return value
    return decoded if decoded.isprintable() else value
