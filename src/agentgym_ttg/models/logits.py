"""Logits of chosen positions, without projecting all the others onto the vocabulary."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

__all__ = ["chosen_logits", "has_plain_head"]

#: What some architectures do to their logits after the projection.
_RESCALED = ("final_logit_softcapping", "logit_scale", "output_multiplier", "lm_head_multiplier", "logits_scaling")
_CHUNK = 1 << 25  # floats that are projected at once


def has_plain_head(model: Any) -> bool:
    """Return whether a model's logits are its last hidden states times a matrix, so that the two can be parted."""
    if not isinstance(model, PreTrainedModel) or hasattr(model, "peft_config"):
        return False
    config = model.config.get_text_config()
    if any(getattr(config, name, None) is not None for name in _RESCALED):
        return False
    return isinstance(model.get_output_embeddings(), torch.nn.Linear) and model.base_model is not model


def chosen_logits(model: Any, ids: Tensor, rows: Tensor, positions: Tensor) -> Iterator[Tensor]:
    """Yield the logits at chosen positions, in order, a part at a time.

    Sequences are padded on the right and the model is causal, so no padding is before what is read, and no attention
    mask is needed.

    Args:
        model: A causal LM.
        ids: Token ids, ``(B, L)``.
        rows: Sequence of each position, ``(N,)``.
        positions: Which token's logits (those of the token behind it), ``(N,)``.

    Yields:
        ``(n, V)`` in float32; the n sum to N.
    """
    plain = has_plain_head(model)
    if plain:
        states = model.base_model(input_ids=ids, use_cache=False).last_hidden_state
        head = model.get_output_embeddings()
        width = int(head.weight.shape[0])
    else:
        states = model(input_ids=ids, use_cache=False).logits
        width = int(states.shape[-1])
    part = max(1, _CHUNK // width)
    for start in range(0, len(rows), part):
        read = states[rows[start : start + part], positions[start : start + part]]
        yield (head(read) if plain else read).float()
