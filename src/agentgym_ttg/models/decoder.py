"""Batched sampling that never reads a token twice.

:class:`CachedDecoder` keeps the keys and values of an episode between its turns and encodes only what is new;
:class:`ReencodingDecoder` reads the whole prompt at each turn. Both give the same tokens and, up to rounding, the same
log-probabilities. The second is the reference of the first, and serves architectures whose state is no plain
key-value cache.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from .cached_decoder import CachedDecoder
from .decoding import Decoded, Decoder, DecodeRequest, context_length, evaluating
from .reencoding_decoder import ReencodingDecoder

__all__ = [
    "CachedDecoder",
    "DecodeRequest",
    "Decoded",
    "Decoder",
    "ReencodingDecoder",
    "context_length",
    "make_decoder",
]


def make_decoder(model: Any, stop_ids: Iterable[int], **options: Any) -> Decoder:
    """Return the cached decoder where it reproduces the model, else the re-encoding one.

    A few tokens are run through both ways of reading; architectures with recurrent or chunked state, with positions
    taken from the attention mask, or with an attention kernel that takes no mask do not pass.

    Args:
        model: A causal LM of transformers.
        stop_ids: Tokens that end a message.
        **options: Of :class:`CachedDecoder`.
    """
    stop_ids = list(stop_ids)
    if _keeps_plain_cache(model):
        return CachedDecoder(model, stop_ids, **options)
    return ReencodingDecoder(model, stop_ids)


def _keeps_plain_cache(model: Any) -> bool:
    generator = np.random.default_rng(0)
    vocab = int(model.get_input_embeddings().weight.shape[0])
    ids = [[int(i) for i in generator.integers(0, vocab, size)] for size in (9, 7)]
    try:
        with evaluating(model):
            # Two ragged passes through the cache against one plain pass for each row.
            decoder = CachedDecoder(model, [])
            decoder._cache.reserve(2, 12)
            decoder._forward([1, 0], [0, 0], [ids[0][:5], ids[1][:2]])
            cached = decoder._forward([1, 0], [5, 2], [ids[0][5:], ids[1][2:]])
            for row, line in enumerate(ids):
                plain = model(input_ids=torch.tensor([line], device=model.device)).logits[0, -1].float()
                tolerance = 1e-3 if plain.dtype == model.dtype else 0.1
                difference = (plain - cached[row].float()).abs().max()
                if not bool(difference <= tolerance * (1.0 + plain.std())):
                    return False
    except (AttributeError, NotImplementedError, RuntimeError, TypeError, ValueError, IndexError):
        return False
    return True
