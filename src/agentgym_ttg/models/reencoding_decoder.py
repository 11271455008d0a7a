"""Sampling that reads the whole prompt at each turn: the reference, and the way for any architecture."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from transformers import GenerationConfig, LogitsProcessorList, StoppingCriteriaList

from .decoding import Decoded, DecodeRequest, context_length, evaluating
from .sampling import sample_tokens

__all__ = ["ReencodingDecoder"]


class ReencodingDecoder:
    """Reads the whole prompt at each turn, with the model's own cache inside the turn only.

    Args:
        model: Any causal LM of transformers.
        stop_ids: Tokens that end a message.
        max_rows: Prompts in one batch.
    """

    def __init__(self, model: Any, stop_ids: Iterable[int], *, max_rows: int = 64) -> None:
        self.model = model
        self.stop_ids = frozenset(stop_ids)
        self.context = context_length(model)
        self.max_rows = max_rows
        self.tokens_read = 0
        self.tokens_prompted = 0

    def generate(self, requests: Sequence[DecodeRequest]) -> list[Decoded]:
        """Sample a message for each request, in order.

        Raises:
            ValueError: If a prompt is empty.
        """
        if any(not request.prompt_ids for request in requests):
            raise ValueError("expected a prompt of at least one token")
        results = [Decoded() for _ in requests]
        todo = [index for index, request in enumerate(requests) if len(request.prompt_ids) < self.context]
        self.tokens_prompted += sum(len(request.prompt_ids) for request in requests)
        with evaluating(self.model):
            for start in range(0, len(todo), self.max_rows):
                part = todo[start : start + self.max_rows]
                self._generate([requests[i] for i in part], [results[i] for i in part])
        return results

    def release(self, keys: Iterable[str]) -> None:
        """Nothing is kept, so nothing is forgotten."""

    def _generate(self, requests: Sequence[DecodeRequest], results: Sequence[Decoded]) -> None:
        device = self.model.device
        longest = max(len(request.prompt_ids) for request in requests)
        pads = [longest - len(request.prompt_ids) for request in requests]
        ids = torch.tensor([[0] * pad + list(r.prompt_ids) for pad, r in zip(pads, requests, strict=True)])
        mask = (torch.arange(longest)[None] >= torch.tensor(pads)[:, None]).long()
        limits = [min(request.max_tokens, self.context - len(request.prompt_ids)) for request in requests]
        self.tokens_read += int(mask.sum())

        def choose(_: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
            live = [
                i
                for i, (result, limit) in enumerate(zip(results, limits, strict=True))
                if result.finish_reason != "stop" and len(result.token_ids) < limit
            ]
            tokens, logprobs = sample_tokens(
                logits[live],
                temperatures=[requests[i].temperature for i in live],
                top_ps=[requests[i].top_p for i in live],
                rngs=[requests[i].rng for i in live],
            )
            forced = torch.full_like(logits, -torch.inf)
            forced[:, 0] = 0.0
            for i, token, logprob in zip(live, tokens, logprobs, strict=True):
                results[i].token_ids.append(token)
                results[i].logprobs.append(logprob)
                if token in self.stop_ids:
                    results[i].finish_reason = "stop"
                forced[i, 0] = -torch.inf
                forced[i, token] = 0.0
            return forced

        def finished(*_: Any) -> torch.Tensor:
            over = [
                result.finish_reason == "stop" or len(result.token_ids) >= limit
                for result, limit in zip(results, limits, strict=True)
            ]
            return torch.tensor(over, device=device)

        # The library takes what a config leaves open (ends of text, penalties) from the model's own: put that aside.
        own = self.model.generation_config
        self.model.generation_config = GenerationConfig()
        try:
            self.model.generate(
                ids.to(device),
                attention_mask=mask.to(device),
                generation_config=GenerationConfig(max_new_tokens=max(limits), do_sample=False, pad_token_id=0),
                logits_processor=LogitsProcessorList([choose]),
                stopping_criteria=StoppingCriteriaList([finished]),
            )
        finally:
            self.model.generation_config = own
