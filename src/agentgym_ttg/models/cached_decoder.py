"""Sampling that keeps an episode's keys and values between its turns, and encodes only what is new."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from .decoding import Decoded, DecodeRequest, context_length, evaluating
from .row_cache import RowCache
from .sampling import sample_tokens

__all__ = ["CachedDecoder"]

#: Shortest prefix worth copying from another row.
_MIN_SHARED = 4
#: Rows that have finished stay in the batch until the live ones are fewer than this share of it.
_COMPACT_BELOW = 0.6


@dataclass(slots=True)
class _Row:
    """What the cache holds for a key: the tokens ``ids``, in slot ``slot``."""

    slot: int
    group: str
    ids: list[int] = field(default_factory=list)
    used: int = 0


class CachedDecoder:
    """Samples with a key-value cache that lives as long as the episodes.

    - A prompt that extends what its key has read costs only the extension; any other prompt is read from where it
      departs (a sliding window of the history keeps its common beginning).
    - A new key takes the common beginning from a row of its group, and prompts that are equal are read once.
    - Rows that have finished their message drop out of the batch, several at a time, because moving rows costs.
    - A changed parameter (a training step) empties the cache by itself.

    Args:
        model: A causal LM of transformers whose attention takes a mask (``sdpa`` or ``eager``).
        stop_ids: Tokens that end a message.
        max_cache_tokens: Room of the cache in tokens, over all rows; the rows used longest ago give way, and batches
            that do not fit are sampled in parts.
        max_pass_tokens: Most tokens in one forward pass.
    """

    def __init__(
        self,
        model: Any,
        stop_ids: Iterable[int],
        *,
        max_cache_tokens: int = 1 << 20,
        max_pass_tokens: int = 1 << 14,
    ) -> None:
        self.model = model
        self.stop_ids = frozenset(stop_ids)
        self.max_cache_tokens = max_cache_tokens
        self.max_pass_tokens = max_pass_tokens
        self.context = context_length(model)
        self.tokens_read = 0
        self.tokens_prompted = 0
        self._pass_cost = _pass_cost(model)
        self._cache = RowCache()
        self._rows: dict[str, _Row] = {}
        self._clock = 0
        self._weights: Any = None
        parameters = inspect.signature(model.forward).parameters
        self._cache_name = "cache" if "cache" in parameters else "past_key_values"
        self._last_only = "logits_to_keep" in parameters
        config = model.config.get_text_config()
        self._layer_types = set(getattr(config, "layer_types", None) or ())
        self._window: int | None = getattr(config, "sliding_window", None)

    # Interface ----------------------------------------------------------------------------------------------------

    def generate(self, requests: Sequence[DecodeRequest]) -> list[Decoded]:
        """Sample a message for each request, in order; a key may occur once.

        Raises:
            ValueError: If a prompt is empty or a key occurs twice.
        """
        if len({request.key for request in requests}) != len(requests):
            raise ValueError("expected one request for each key, got a key twice")
        results = [Decoded() for _ in requests]
        todo: list[int] = []
        for index, request in enumerate(requests):
            if not request.prompt_ids:
                raise ValueError(f"expected a prompt of at least one token for {request.key!r}")
            self.tokens_prompted += len(request.prompt_ids)
            if len(request.prompt_ids) < self.context:
                todo.append(index)
        with evaluating(self.model):
            self._check_weights()
            while todo:
                count = self._fitting([requests[i] for i in todo])
                part, todo = todo[:count], todo[count:]
                self._generate([requests[i] for i in part], [results[i] for i in part])
        return results

    def release(self, keys: Iterable[str]) -> None:
        """Forget some keys; unknown ones are ignored."""
        for key in keys:
            self._rows.pop(key, None)

    def reset(self) -> None:
        """Forget everything and free the memory."""
        self._rows.clear()
        self._cache = RowCache()

    # Rows ---------------------------------------------------------------------------------------------------------

    def _check_weights(self) -> None:
        """Empty the cache if a parameter was replaced or written to since the last call."""
        weights = [(p.data_ptr(), p._version) for p in self.model.parameters()]
        if weights != self._weights:
            if self._weights is not None:
                self._rows.clear()
            self._weights = weights

    def _limit(self, request: DecodeRequest) -> int:
        return min(request.max_tokens, self.context - len(request.prompt_ids))

    def _fitting(self, requests: Sequence[DecodeRequest]) -> int:
        """Return how many of the requests fit into the cache together; at least one."""
        width = 0
        for count, request in enumerate(requests):
            width = max(width, len(request.prompt_ids) + self._limit(request))
            if count and (count + 1) * width > self.max_cache_tokens:
                return count
        return len(requests)

    def _place(self, requests: Sequence[DecodeRequest]) -> list[_Row]:
        """Give every request a row that holds as much of its prompt as is known, but not its last token."""
        self._clock += 1
        width = max(len(request.prompt_ids) + self._limit(request) for request in requests)
        for request in requests:
            if row := self._rows.get(request.key):
                row.used = self._clock
                keep = _common(row.ids, request.prompt_ids, len(request.prompt_ids) - 1)
                del row.ids[keep:]
        new = [request for request in requests if request.key not in self._rows]
        columns = max(width, self._cache.columns)
        rows_that_fit = max(self.max_cache_tokens // columns, len(requests))
        self._evict(len(self._rows) + len(new) - rows_that_fit)
        taken = {row.slot for row in self._rows.values()}
        free = (slot for slot in range(len(self._rows) + len(new)) if slot not in taken)
        if new:
            donors: dict[str, list[_Row]] = {}
            for row in self._rows.values():
                donors.setdefault(row.group, []).append(row)
            for request in new:
                self._rows[request.key] = _Row(next(free), request.group, used=self._clock)
        rows = [self._rows[request.key] for request in requests]
        slots = 1 + max(row.slot for row in self._rows.values())
        if slots > self._cache.slots or width > self._cache.columns:
            # Grow ahead of the conversation, so that not every turn moves the whole cache.
            longer = min(max(width * 3 // 2, 128), self.context) if width > self._cache.columns else 0
            self._cache.reserve(slots, max(longer, width))
        for request in new:
            self._borrow(request, self._rows[request.key], donors.get(request.group, []))
        self._gather_in_front(rows)
        return rows

    def _evict(self, count: int) -> None:
        idle = sorted((row.used, key) for key, row in self._rows.items() if row.used < self._clock)
        for _, key in idle[: max(count, 0)]:
            del self._rows[key]

    def _borrow(self, request: DecodeRequest, row: _Row, donors: Sequence[_Row]) -> None:
        """Copy the longest common beginning from a row of the group."""
        limit = len(request.prompt_ids) - 1
        best = max(donors, key=lambda donor: _common(donor.ids, request.prompt_ids, limit), default=None)
        if best is None:
            return
        shared = _common(best.ids, request.prompt_ids, limit)
        if shared >= _MIN_SHARED:
            self._cache.copy_rows([best.slot], [row.slot], shared)
            row.ids = list(request.prompt_ids[:shared])

    def _gather_in_front(self, rows: Sequence[_Row]) -> None:
        """Exchange slots until ``rows`` are the first ones, in any order."""
        count = len(rows)
        outside = [row for row in rows if row.slot >= count]
        if not outside:
            return
        inside = {row.slot for row in rows if row.slot < count}
        holes = [slot for slot in range(count) if slot not in inside][: len(outside)]
        owners = {row.slot: row for row in self._rows.values()}
        moved = [owners[slot] for slot in holes if slot in owners]
        width = max((len(row.ids) for row in [*outside, *moved]), default=0)
        if width:
            self._cache.swap_rows([row.slot for row in outside], holes, width)
        for row, hole in zip(outside, holes, strict=True):
            if hole in owners:
                owners[hole].slot = row.slot
            row.slot = hole

    # Sampling -----------------------------------------------------------------------------------------------------

    def _generate(self, requests: Sequence[DecodeRequest], results: Sequence[Decoded]) -> None:
        rows = self._place(requests)
        logits = self._read_prompts(requests, rows)
        live = front = sorted(range(len(rows)), key=lambda i: rows[i].slot)
        logits = logits[torch.tensor(live, device=logits.device)]
        while True:
            chosen, logprobs = sample_tokens(
                logits,
                temperatures=[requests[i].temperature for i in live],
                top_ps=[requests[i].top_p for i in live],
                rngs=[requests[i].rng for i in live],
            )
            going: list[int] = []
            for i, token, logprob in zip(live, chosen, logprobs, strict=True):
                result = results[i]
                result.token_ids.append(token)
                result.logprobs.append(logprob)
                if token in self.stop_ids:
                    result.finish_reason = "stop"
                elif len(result.token_ids) < self._limit(requests[i]):
                    going.append(i)
            if not going:
                return
            live = going
            if len(live) < _COMPACT_BELOW * len(front):
                self._gather_in_front([rows[i] for i in live])
                live = front = sorted(live, key=lambda i: rows[i].slot)
            logits = self._next(rows, front, live, results)

    def _next(
        self, rows: Sequence[_Row], front: Sequence[int], live: Sequence[int], results: Sequence[Decoded]
    ) -> torch.Tensor:
        """Read the last sampled token of the live rows; return their logits, ``(len(live), vocab)``.

        Rows of the front that have finished take part with a token that counts for nothing: it lands in the column
        behind their text, which their next token overwrites. Moving rows at every finish costs more.
        """
        going = set(live)
        tokens = [[results[i].token_ids[-1] if i in going else 0] for i in front]
        out = self._forward([rows[i].slot for i in front], [len(rows[i].ids) for i in front], tokens)
        for i in live:
            rows[i].ids.append(results[i].token_ids[-1])
        self.tokens_read -= len(front) - len(live)
        if len(front) == len(live):
            return out
        return out[torch.tensor([position for position, i in enumerate(front) if i in going], device=out.device)]

    def _read_prompts(self, requests: Sequence[DecodeRequest], rows: Sequence[_Row]) -> torch.Tensor:
        """Read what is new of each prompt; return the logits behind it, ``(n, vocab)``."""
        leaders: dict[tuple[int, ...], int] = {}
        twins: list[tuple[int, int]] = []
        pending: dict[int, list[int]] = {}
        for index, (request, row) in enumerate(zip(requests, rows, strict=True)):
            if not row.ids:
                leader = leaders.setdefault(tuple(request.prompt_ids), index)
                if leader != index:
                    twins.append((leader, index))
                    continue
            pending[index] = list(request.prompt_ids[len(row.ids) :])
        logits: list[torch.Tensor | None] = [None] * len(rows)
        lengths = {index: len(ids) for index, ids in pending.items()}
        for bucket in _buckets(lengths, self.max_pass_tokens, self._pass_cost):
            bucket.sort(key=lambda index: rows[index].slot)
            out = self._append([rows[i] for i in bucket], [pending[i] for i in bucket])
            for position, index in enumerate(bucket):
                logits[index] = out[position]
        for leader, index in twins:
            logits[index] = logits[leader]
            rows[index].ids = list(rows[leader].ids)
        if twins:
            width = max(len(rows[index].ids) for _, index in twins)
            self._cache.copy_rows([rows[a].slot for a, _ in twins], [rows[b].slot for _, b in twins], width)
        return torch.stack([line for line in logits if line is not None])

    def _append(self, rows: Sequence[_Row], new: Sequence[list[int]]) -> torch.Tensor:
        """Read new tokens of some rows, a bounded number at a time; return the last logits, ``(n, vocab)``."""
        longest = max(map(len, new))
        piece = max(self.max_pass_tokens // len(rows), 1)
        if longest > piece:  # all but the last piece of long prompts go first, row by row where lengths differ
            for row, ids in zip(rows, new, strict=True):
                while len(ids) > piece:
                    self._forward([row.slot], [len(row.ids)], [ids[:piece]])
                    row.ids += ids[:piece]
                    ids[:piece] = []
        logits = self._forward([row.slot for row in rows], [len(row.ids) for row in rows], new)
        for row, ids in zip(rows, new, strict=True):
            row.ids += ids
        return logits

    def _forward(self, slots: list[int], lengths: list[int], new: Sequence[list[int]]) -> torch.Tensor:
        queries = max(map(len, new))
        device = self.model.device
        input_ids = torch.tensor([[0] * (queries - len(ids)) + ids for ids in new], device=device)
        inputs = self._cache.begin(slots, lengths, [len(ids) for ids in new], device)
        self.tokens_read += sum(map(len, new))
        out = self.model(
            input_ids=input_ids,
            attention_mask=self._masks(inputs["mask"], inputs["position_ids"]),
            position_ids=inputs["position_ids"],
            use_cache=True,
            **{self._cache_name: self._cache},
            **({"logits_to_keep": 1} if self._last_only else {}),
        )
        last: torch.Tensor = out.logits[:, -1]
        return last

    def _masks(self, mask: torch.Tensor, positions: torch.Tensor) -> Any:
        """Return the mask in the form that the attention takes; with a sliding window where the width exceeds it."""
        if self._window is None or mask.shape[-1] <= self._window:
            return self._as_taken(mask)
        near = torch.arange(mask.shape[-1], device=mask.device) > positions[:, None, :, None] - self._window
        # A padded query keeps its column 0.
        sliding = torch.where(mask.sum(-1, keepdim=True) > 1, mask & near, mask)
        if self._layer_types:
            return {"full_attention": self._as_taken(mask), "sliding_attention": self._as_taken(sliding)}
        return self._as_taken(sliding)

    def _as_taken(self, mask: torch.Tensor) -> torch.Tensor:
        if self.model.config._attn_implementation != "eager":
            return mask
        dtype = self.model.dtype
        return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, torch.finfo(dtype).min)


def _common(held: Sequence[int], wanted: Sequence[int], limit: int) -> int:
    """Return the length of the common beginning, at most ``limit``."""
    limit = min(len(held), limit)
    if list(held[:limit]) == list(wanted[:limit]):
        return limit
    return next(i for i in range(limit) if held[i] != wanted[i])


def _pass_cost(model: Any) -> int:
    """Return the fixed cost of a forward pass in tokens: splitting a ragged batch pays if it saves more padding.

    Measured on CPUs: a pass costs as much as about 100 tokens of a model of a million parameters, and fewer of a larger
    one. An accelerator reads some hundred tokens at the price of one.
    """
    if model.device.type != "cpu":
        return 512
    return int(min(max(1e8 / model.num_parameters(), 8), 128))


def _buckets(lengths: dict[int, int], max_tokens: int, pass_cost: int) -> list[list[int]]:
    """Split ragged lengths so that padding plus the fixed cost of a pass is small.

    >>> _buckets({0: 100, 1: 5, 2: 98, 3: 4}, max_tokens=1000, pass_cost=48)
    [[0, 2], [1, 3]]
    """
    order = sorted(lengths, key=lambda index: -lengths[index])
    buckets: list[list[int]] = []
    for position, index in enumerate(order):
        if buckets:
            longest = lengths[buckets[-1][0]]
            saved = (longest - lengths[index]) * (len(order) - position)
            fits = longest * (len(buckets[-1]) + 1) <= max_tokens
            if saved <= pass_cost and fits:
                buckets[-1].append(index)
                continue
        buckets.append([index])
    return buckets
