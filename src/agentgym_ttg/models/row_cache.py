"""A key-value cache in which every row has its own length, so that rows can be kept across turns.

Position in the cache is position in the text: the key of a row's token ``t`` lies at column ``t``. New tokens of a
ragged batch are padded on the LEFT, so the last column is every row's last token, and what belongs to padding is
written to a scratch column that nobody reads. Memory is allocated ahead; a token is written in place, never by
concatenation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicLayer

__all__ = ["RowCache"]


@dataclass(slots=True)
class _Step:
    """Where the keys and values of the forward pass in progress go, and what it may read."""

    rows: torch.Tensor  # (n,) slots
    contiguous: bool  # rows are 0..n-1: a view serves instead of a copy
    columns: torch.Tensor  # (n, q) columns to write
    width: int  # columns [0, width) can be read


class RowCache(Cache):  # type: ignore[misc]
    """Keys and values of many rows, ``(slots, heads, columns, head_dim)`` for each layer.

    Args:
        slots: Rows at first; grows by :meth:`reserve`.
        columns: Tokens of a row at first; grows by :meth:`reserve`.
    """

    def __init__(self, slots: int = 0, columns: int = 0) -> None:
        super().__init__(layer_class_to_replicate=DynamicLayer)
        self._keys: list[torch.Tensor] = []
        self._values: list[torch.Tensor] = []
        self.slots = slots
        self.columns = columns
        self._step: _Step | None = None

    def reserve(self, slots: int, columns: int) -> None:
        """Make room for ``slots`` rows of ``columns`` tokens; what is held is kept."""
        if slots <= self.slots and columns <= self.columns:
            return
        keep_slots, keep_columns = self.slots, self.columns
        self.slots = max(slots, self.slots)
        self.columns = max(columns, self.columns)
        for tensors in (self._keys, self._values):
            for layer, old in enumerate(tensors):
                new = old.new_zeros(self.slots, old.shape[1], self.columns + 1, old.shape[3])
                new[:keep_slots, :, :keep_columns] = old[:, :, :keep_columns]
                tensors[layer] = new

    def begin(self, rows: list[int], lengths: list[int], new: list[int], device: torch.device) -> dict[str, Any]:
        """Announce a forward pass.

        Args:
            rows: Slots that take part, ``n`` of them.
            lengths: Tokens that each row holds, ``(n,)``.
            new: Tokens that each row is given, ``(n,)``; the batch has ``q = max(new)`` columns, padded left.
            device: Where the model is.

        Returns:
            ``position_ids`` ``(n, q)`` and ``mask`` ``(n, 1, q, width)``, True where attention is allowed.
        """
        queries = max(new)
        if queries == 1:
            positions = torch.tensor(lengths, device=device)[:, None]
            real = None
        else:
            start = torch.tensor([have - (queries - count) for have, count in zip(lengths, new, strict=True)])
            offsets = torch.arange(queries)[None, :]
            positions = start[:, None] + offsets
            real = (offsets >= queries - torch.tensor(new)[:, None]).to(device)
            positions = positions.clamp(min=0).to(device)
        width = max(have + count for have, count in zip(lengths, new, strict=True))
        columns = positions if real is None else torch.where(real, positions, self.columns)
        self._step = _Step(
            rows=torch.tensor(rows, device=device),
            contiguous=rows == list(range(len(rows))),
            columns=columns,
            width=width,
        )
        # A padded query sees column 0: a row of the mask without any True would give NaN.
        visible = positions if real is None else torch.where(real, positions, 0)
        mask = torch.arange(width, device=device)[None, None, None, :] <= visible[:, None, :, None]
        return {"position_ids": positions, "mask": mask}

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store the new keys and values of a layer; return all that its queries may look at."""
        step = self._step
        assert step is not None
        while len(self._keys) <= layer_idx:
            for tensors, states in ((self._keys, key_states), (self._values, value_states)):
                shape = (self.slots, states.shape[1], self.columns + 1, states.shape[3])
                # Zeros, not empty: masked columns take part in products with weight 0, and 0 x NaN is NaN.
                tensors.append(torch.zeros(shape, dtype=states.dtype, device=states.device))
        keys, values = self._keys[layer_idx], self._values[layer_idx]
        where = (step.rows[:, None], slice(None), step.columns)
        keys[where] = key_states.transpose(1, 2)
        values[where] = value_states.transpose(1, 2)
        if step.contiguous:
            count = len(step.rows)
            return keys[:count, :, : step.width], values[:count, :, : step.width]
        return keys[:, :, : step.width][step.rows], values[:, :, : step.width][step.rows]

    def copy_rows(self, source: list[int], target: list[int], width: int) -> None:
        """Copy the first ``width`` tokens of some rows over those of others; the lists must not overlap."""
        for tensor in (*self._keys, *self._values):
            tensor[target, :, :width] = tensor[source, :, :width]

    def swap_rows(self, first: list[int], second: list[int], width: int) -> None:
        """Exchange rows pairwise, as far as their first ``width`` tokens go."""
        take, put = [*first, *second], [*second, *first]
        for tensor in (*self._keys, *self._values):
            tensor[put, :, :width] = tensor[take, :, :width]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Return the width that the pass in progress can read."""
        return self._step.width if self._step is not None else 0

    def get_mask_sizes(self, query_length: int, layer_idx: int) -> tuple[int, int]:
        """Return the width of the pass in progress, offset 0."""
        return self.get_seq_length(layer_idx), 0

    def nbytes(self) -> int:
        """Return the memory that is held, in bytes."""
        return sum(tensor.numel() * tensor.element_size() for tensor in (*self._keys, *self._values))
