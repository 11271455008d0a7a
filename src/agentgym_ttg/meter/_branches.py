"""Reading histories that begin alike: the common beginning once, what follows it side by side.

The branches of an episode share everything up to the last step. A pack is one row of ids: the trunk, then each
branch; an attention mask lets a branch see the trunk and itself, and its positions go on from the trunk's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .prompts import Window

__all__ = ["Pack", "can_pack", "collate_packs", "pack_windows"]

_LOOK_BACK = 8


@dataclass(slots=True)
class Pack:
    """Windows that are read in one row.

    Attributes:
        members: Indices of the windows, in order.
        windows: They themselves.
        trunk: Length of their common beginning.
    """

    members: list[int]
    windows: list[Window]
    trunk: int

    @property
    def length(self) -> int:
        """Length of the row."""
        return self.trunk + sum(len(window.ids) - self.trunk for window in self.windows)


def can_pack(backbone: Any) -> bool:
    """Whether a model lets a mask decide what a token sees: full attention in every layer, in torch's own kernels."""
    config = backbone.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    windowed = getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True)
    return kinds == {"full_attention"} and not windowed and config._attn_implementation in ("sdpa", "eager")


def pack_windows(windows: Sequence[Window], most: int) -> list[Pack]:
    """Return packs of windows that stand near each other and of which at least half is shared.

    Args:
        windows: In order; those of one episode stand together.
        most: Most tokens of a pack.
    """
    out: list[Pack] = []
    for index, window in enumerate(windows):
        # A long episode has several windows, and the one that resembles this is a few packs back.
        for place in range(len(out) - 1, max(len(out) - 1 - _LOOK_BACK, -1), -1):
            pack = out[place]
            trunk = _common(pack.windows[0].ids[: pack.trunk], window.ids)
            longest = max(len(window.ids), *(len(other.ids) for other in pack.windows))
            grown = Pack([*pack.members, index], [*pack.windows, window], trunk)
            if 2 * trunk >= longest and grown.length <= most:
                out[place] = grown
                break
        else:
            out.append(Pack([index], [window], len(window.ids)))
    return out


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    count = min(len(one), len(other))
    differ = np.flatnonzero(np.asarray(one[:count]) != np.asarray(other[:count]))
    return int(differ[0]) if len(differ) else count


def collate_packs(packs: Sequence[Pack], device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return a batch of packs.

    Returns:
        Ids ``(B, L)``, rotary positions ``(B, L)``, what sees what as bool ``(B, 1, L, L)``, and row and length up to
        each decision ``(N,)``, in the order of the packs' windows.
    """
    longest = max(pack.length for pack in packs)
    ids = np.zeros((len(packs), longest), dtype=np.int64)
    places = np.zeros((len(packs), longest), dtype=np.int64)
    sees = np.zeros((len(packs), 1, longest, longest), dtype=bool)
    rows: list[int] = []
    ends: list[NDArray[np.int64]] = []
    for number, pack in enumerate(packs):
        trunk = pack.trunk
        ids[number, :trunk] = pack.windows[0].ids[:trunk]
        places[number, :trunk] = np.arange(trunk)
        at = trunk
        for window in pack.windows:
            count = len(window.ids) - trunk
            ids[number, at : at + count] = window.ids[trunk:]
            places[number, at : at + count] = np.arange(trunk, len(window.ids))
            sees[number, 0, at : at + count, :trunk] = True
            sees[number, 0, at : at + count, at : at + count] = np.tri(count, dtype=bool)
            position = np.asarray(window.positions)
            ends.append(np.where(position <= trunk, position, position - trunk + at))
            rows += [number] * len(position)
            at += count
        sees[number, 0, :trunk, :trunk] = np.tri(trunk, dtype=bool)
        padding = np.arange(at, longest)
        sees[number, 0, padding, padding] = True  # a row that sees nothing has no softmax
    where = np.array(rows, dtype=np.int64), np.concatenate(ends)
    a, b, c, d, e = (torch.from_numpy(array).to(device) for array in (ids, places, sees, *where))
    return a, b, c, d, e
