"""Log-probabilities of the tokens that are trained on, and of no others.

TRL projects every position of a batch onto the vocabulary where it has no Triton kernel, padding and observations
included, although few of them are trained on. Here the hidden states are selected first.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from agentgym_ttg.models.logits import has_plain_head

__all__ = ["can_score_selected", "score_selected"]


def can_score_selected(model: Any) -> bool:
    """Return whether :func:`score_selected` reproduces the model: on a CPU, unwrapped, with a plain LM head."""
    return has_plain_head(model) and model.device.type == "cpu"


def score_selected(
    model: Any, ids: Tensor, mask: Tensor, chosen: Tensor, *, temperature: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Score chosen tokens.

    Args:
        model: A causal LM.
        ids: Token ids, ``(B, L)``.
        mask: 1 where there is a token, ``(B, L)``.
        chosen: Which of the last ``C`` tokens to score, bool ``(B, C)``, ``C < L``.
        temperature: Divides the logits.

    Returns:
        Log-probabilities and the entropies of the distributions they are drawn from, each ``(B, C)``,
        float32; 0 where not chosen.
    """
    # Padding on the right is behind everything that is read, and the model is causal: without a mask, attention takes
    # its causal kernel, which does half the work.
    behind = bool((mask[:, 1:] <= mask[:, :-1]).all()) and bool(mask[:, 0].all())
    hidden = model.base_model(input_ids=ids, attention_mask=None if behind else mask, use_cache=False).last_hidden_state
    count = chosen.shape[1]
    logits = model.get_output_embeddings()(hidden[:, -count - 1 : -1][chosen]).float() / temperature
    every = torch.log_softmax(logits, dim=-1)
    tokens = every.gather(-1, ids[:, -count:][chosen][:, None]).squeeze(-1)
    entropy = -(every.exp() * every).sum(-1)
    # masked_scatter keeps the graph even where nothing is chosen.
    empty = tokens.new_zeros(chosen.shape)
    return empty.masked_scatter(chosen, tokens), empty.masked_scatter(chosen, entropy)
