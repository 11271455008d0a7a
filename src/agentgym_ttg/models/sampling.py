"""Choosing a token, with randomness that belongs to the row and not to the batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

__all__ = ["sample_tokens"]


def sample_tokens(
    logits: torch.Tensor,
    *,
    temperatures: Sequence[float],
    top_ps: Sequence[float],
    rngs: Sequence[np.random.Generator],
) -> tuple[list[int], list[float]]:
    """Choose one token for each row.

    A row with temperature > 0 takes exactly one uniform number from its generator and looks it up in the cumulative
    distribution, so its choice does not depend on the other rows. Temperature 0 takes the most likely token (the lowest
    id among equals) and no number.

    The log-probability returned is that of the whole vocabulary after division by the temperature, before top-p: what
    TRL's GRPO recomputes for the same token. For a greedy row it is that of temperature 1.

    Args:
        logits: Shape ``(n, vocab)``, any floating type; the arithmetic is float32, the cumulative sum float64.
        temperatures: Length n.
        top_ps: Length n; nucleus mass of each row.
        rngs: Length n; the generator of each row.

    Returns:
        The ids and their log-probabilities, each of length n.

    >>> logits = torch.tensor([[0.0, 9.0, 0.0]])
    >>> sample_tokens(logits, temperatures=[0.0], top_ps=[1.0], rngs=[np.random.default_rng(0)])[0]
    [1]
    """
    logits = logits.float()
    scale = [temperature if temperature > 0 else 1.0 for temperature in temperatures]
    if any(value != 1.0 for value in scale):
        logits = logits / torch.tensor(scale, device=logits.device)[:, None]
    logprobs = torch.log_softmax(logits, dim=-1)
    if all(temperature == 0 for temperature in temperatures):
        chosen = logits.argmax(dim=-1)
    else:
        probs = logprobs.exp()
        if any(top_p < 1 for top_p in top_ps):
            probs = _nucleus(probs, torch.tensor(top_ps, device=probs.device))
        cumulative = probs.cumsum(dim=-1, dtype=torch.float64)
        total = cumulative[:, -1:]
        draws = [rng.random() if temperature > 0 else 0.0 for rng, temperature in zip(rngs, temperatures, strict=True)]
        point = torch.tensor(draws, dtype=torch.float64, device=logits.device)[:, None] * total
        # The first entry above the point has a positive probability; rounding could push the point up to the total.
        point = torch.minimum(point, torch.nextafter(total, torch.zeros_like(total)))
        chosen = torch.searchsorted(cumulative, point, right=True).squeeze(1)
        greedy = torch.tensor([temperature == 0 for temperature in temperatures], device=logits.device)
        chosen = torch.where(greedy, logits.argmax(dim=-1), chosen)
    picked = logprobs.gather(1, chosen[:, None]).squeeze(1)
    return chosen.tolist(), picked.tolist()


def _nucleus(probs: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    """Zero what lies outside the smallest set of most likely tokens whose mass reaches ``top_p``."""
    ordered, index = probs.sort(dim=-1, descending=True, stable=True)
    before = ordered.cumsum(dim=-1) - ordered
    outside = (before >= top_p[:, None]) & (top_p[:, None] < 1)
    return probs.masked_fill(outside.gather(1, index.argsort(dim=-1)), 0.0)
