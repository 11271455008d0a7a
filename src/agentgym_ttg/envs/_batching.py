"""Between one value for each slot and the arrays and arguments of Gymnasium's vector interface."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym_ttg.core.errors import ConfigError

from .base import INFO_TYPES

__all__ = ["as_seed", "batch_infos", "per_slot", "reset_mask", "seeds_of"]


def as_seed(seed: Any) -> int | None:
    """Return a seed as a Python integer (Gymnasium takes no NumPy ones).

    Raises:
        ConfigError: If it is none.
    """
    if seed is None:
        return None
    try:
        return operator.index(seed)
    except TypeError:
        raise ConfigError(f"expected the seed as an integer or None, got {type(seed).__name__}") from None


def seeds_of(seed: Any, num_envs: int) -> list[int | None]:
    """Return a seed for each slot: those given, or consecutive ones from the one given."""
    if not isinstance(seed, (list, tuple, np.ndarray)) and (first := as_seed(seed)) is not None:
        return [first + slot for slot in range(num_envs)]
    return per_slot("seed", seed, num_envs)


def per_slot(name: str, value: Any, num_envs: int) -> list[Any]:
    """Return a value for each slot: those given, or the one given for all.

    Raises:
        ConfigError: If their number is not that of the slots.
    """
    if isinstance(value, (list, tuple, np.ndarray)):
        if len(value) != num_envs:
            raise ConfigError(f"expected {num_envs} values of {name}, one for each slot, got {len(value)}")
        return list(value)
    return [value] * num_envs


def reset_mask(mask: Any, num_envs: int) -> NDArray[np.bool_]:
    """Return which slots are to be reset; None is all.

    Raises:
        ConfigError: If the mask is no boolean array of shape ``(num_envs,)`` or names no slot.
    """
    if mask is None:
        return np.ones(num_envs, dtype=np.bool_)
    array = np.asarray(mask)
    if array.shape != (num_envs,) or array.dtype != np.bool_:
        raise ConfigError(
            f"expected options['reset_mask'] as a boolean array of shape ({num_envs},), "
            f"got {array.dtype} of shape {array.shape}"
        )
    if not array.any():
        raise ConfigError("options['reset_mask'] names no slot")
    return array


def batch_infos(last: Sequence[Mapping[str, Any]], fresh: Sequence[int], errors: Mapping[int, str]) -> dict[str, Any]:
    """Return the infos of all slots as arrays of shape ``(num_envs,)``, each with its mask under ``_key``.

    Args:
        last: The last ``info`` of each slot, empty before its first reset.
        fresh: The slots that moved. The others keep their last info, minus what would be counted twice, and are
            masked out.
        errors: Why environments broke down, by slot.
    """
    moved = np.zeros(len(last), dtype=np.bool_)
    moved[list(fresh)] = True
    blank = {key: kind() for key, kind in INFO_TYPES.items()}
    rows: list[dict[str, Any]] = []
    for slot, info in enumerate(last):
        row = {**blank, **info}
        if not moved[slot]:
            row.update(assistant_tokens=0, messages=[], error="")
        else:
            row["error"] = errors.get(slot, "") or row.get("error", "")
        rows.append(row)
    infos: dict[str, Any] = {}
    for key in dict.fromkeys(key for row in rows for key in row):
        kind = INFO_TYPES.get(key, object)
        array = np.empty(len(rows), dtype=kind if kind in (bool, int) else object)
        for slot, row in enumerate(rows):
            array[slot] = row.get(key)
        infos[key] = array
        infos[f"_{key}"] = moved & np.array([key in row for row in rows])
    return infos
