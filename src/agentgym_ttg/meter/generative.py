"""GenerativeMeter: a causal LM that answers in text; the trajectory is read once for all its decisions."""

from __future__ import annotations

import copy
import inspect
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from agentgym_ttg.core.errors import ConfigError
from agentgym_ttg.core.trajectory import Trajectory
from agentgym_ttg.models import LoadedModel, load_causal_lm

from ._torch import save_pretrained
from .answers import ANSWER_PREFIX, CLOSING, answer_pieces, default_instruction, parse_answer
from .base import Estimate
from .files import open_meter, saved_meter
from .labels import Target
from .prompts import HistoryEncoder, TranscriptLayout, Window, plain_ids
from .references import References

__all__ = ["GenerativeMeter", "GenerativeSettings"]

_PLACE = "Placeholder5173"


class GenerativeSettings(BaseModel):
    """What a generative meter needs to know to be asked."""

    model_config = ConfigDict(frozen=True)

    name: str = "generative"
    """Name for results."""
    target: Target = "tokens"
    """What it estimates: tokens (also normalised ones) or steps to go."""
    context_length: int = Field(default=8192, ge=32)
    """Most tokens of a prompt."""
    instruction: str | None = None
    """What it is told before the history; None is the built-in text."""
    max_answer_tokens: int | None = Field(default=None, ge=1)
    """Tokens after which an unfinished answer is invalid; None takes 48, or what the longest answer takes with the
    model's tokenizer if that is more."""
    integer_floats: bool = False
    """Whether ``123.0`` is a valid number."""
    completion_logits: bool = True
    """Whether the two continuations ``true`` and ``false`` are scored for the completion log-odds."""
    references: References | None = None
    """The references fitted on the meter's training split."""
    training: dict[str, Any] = {}
    """How the meter was made, for the record."""


class GenerativeMeter:
    """Asks a causal LM at every decision, and reads its answer strictly.

    The history is one user message, a transcript, behind an instruction. It only grows from decision to decision, so
    its keys and values are computed once; each decision is a branch: the cache up to there, the end of the message,
    and the answer, decoded greedily. Branches of one trajectory are decoded together.

    Args:
        loaded: Model and tokenizer.
        settings: What ``meter.json`` holds.
        branch_rows: Decisions that are decoded together; bounds memory.
        share_prefix: Whether to branch from the kept cache; None finds out whether the model's cache allows it
            (sliding windows and recurrent states do not), False reads every history from the beginning.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        settings: GenerativeSettings | None = None,
        *,
        branch_rows: int = 16,
        share_prefix: bool | None = None,
    ) -> None:
        self.model = loaded.model.eval()
        self.tokenizer = loaded.tokenizer
        self.settings = settings or GenerativeSettings()
        self.branch_rows = branch_rows
        self.share_prefix = share_prefix
        self.name = self.settings.name
        self.tokens_scored = 0
        instruction = self.settings.instruction
        told = default_instruction(self.settings.target) if instruction is None else instruction
        head, self.tail = _frame(self.tokenizer, told)
        longest = "".join(answer_pieces(True, 10**7 - 1, self.settings.target))
        needed = max(48, len(plain_ids(self.tokenizer, longest)) + 2)
        self.max_answer_tokens = self.settings.max_answer_tokens or needed
        room = self.settings.context_length - len(self.tail) - self.max_answer_tokens
        if room < len(head) + 32:
            raise ConfigError(
                f"a context of {self.settings.context_length} tokens has no room for a history beside an instruction "
                f"of {len(head) + len(self.tail)} tokens and an answer of {self.max_answer_tokens}; raise "
                "context_length or shorten the instruction"
            )
        self.encoder = HistoryEncoder(TranscriptLayout(self.tokenizer, head), room)
        self.stop_ids = {int(i) for i in (*loaded.stop_ids, self.tokenizer.eos_token_id) if i is not None}
        # transformers 5.24 renamed the argument
        known = inspect.signature(self.model.forward).parameters
        self._cache_name = "cache" if "cache" in known else "past_key_values"
        self._prefix = plain_ids(self.tokenizer, ANSWER_PREFIX)
        self._classes = [plain_ids(self.tokenizer, word) for word in ("true", "false")]

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return torch.device(self.model.device)

    @property
    def target(self) -> Target:
        """What the meter predicts."""
        return self.settings.target

    def prompt(self, window: Window, index: int) -> list[int]:
        """Return the ids after which the answer for the ``index``-th decision of a window begins."""
        return window.ids[: window.positions[index]] + self.tail

    def score(self, trajectories: Sequence[Trajectory]) -> list[list[Estimate]]:
        """Return one estimate for each decision history of each trajectory; see :class:`ProgressMeter`."""
        return [
            [
                self._estimate(text, logit)
                for window in (self.encoder.windows(self.encoder.encode(trajectory)) if len(trajectory) else [])
                for text, logit in self.answers(window)
            ]
            for trajectory in trajectories
        ]

    def _estimate(self, text: str, logit: float | None) -> Estimate:
        found = parse_answer(text, self.settings.target, integer_floats=self.settings.integer_floats)
        if not found.valid:
            return found
        known = logit if logit is not None and math.isfinite(logit) else None
        return Estimate(found.can_complete, found.remaining_tokens, completion_logit=known)

    # One pass over the trajectory, a branch for each answer -----------------------------------------------------------

    @torch.inference_mode()
    def answers(self, window: Window) -> list[tuple[str, float | None]]:
        """Return for each decision of a window what the model says, and the completion log-odds."""
        out: list[tuple[str, float | None]] = []
        shared = self._read(window.ids) if self.share_prefix is not False else None
        if self.share_prefix is None:
            self.share_prefix = _branches(shared)
        if not self.share_prefix:
            shared = None
        rows = self.branch_rows if shared is not None else 1
        for start in range(0, len(window.positions), rows):
            positions = window.positions[start : start + rows]
            cache = shared if shared is not None else self._read(window.ids[: positions[0]])
            texts = self._decode(cache, positions)
            logits = self._log_odds(cache, positions) if self.settings.completion_logits else [None] * len(texts)
            out.extend(zip(texts, logits, strict=True))
        return out

    def _read(self, ids: Sequence[int]) -> Any:
        """Return the cache after ``ids``."""
        self.tokens_scored += len(ids)
        tensor = torch.tensor([list(ids)], device=self.device)
        return getattr(self.model(input_ids=tensor, use_cache=True, logits_to_keep=1), self._cache_name)

    def _branch(self, cache: Any, positions: Sequence[int]) -> tuple[Any, Tensor, Tensor]:
        """Return a copy of the cache with a row for each position, which columns a row may look at, and the positions.

        All rows keep the columns of the longest; a shorter row's mask hides what came later. The keys hold their rotary
        position already, so what follows only has to be told its own.
        """
        longest = max(positions)
        branch = copy.deepcopy(cache)
        beyond = branch.get_seq_length() - longest
        if beyond:
            branch.crop(-beyond)
        if len(positions) > 1:
            branch.batch_repeat_interleave(len(positions))
        at = torch.tensor(positions, device=self.device)
        mask = (torch.arange(longest, device=self.device)[None, :] < at[:, None]).long()
        return branch, mask, at

    def _step(self, branch: Any, mask: Tensor, at: Tensor, ids: Tensor, keep: int) -> tuple[Tensor, Tensor, Tensor]:
        """Append ids ``(R, q)`` to a branch; return the logits of the last ``keep``, the mask and the positions."""
        count = ids.shape[1]
        mask = torch.cat([mask, mask.new_ones(len(ids), count)], dim=1)
        places = at[:, None] + torch.arange(count, device=self.device)[None, :]
        logits = self.model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=places,
            use_cache=True,
            logits_to_keep=keep,
            **{self._cache_name: branch},
        ).logits
        self.tokens_scored += int(ids.numel())
        return logits, mask, at + count

    def _repeat(self, ids: Sequence[int], rows: int) -> Tensor:
        return torch.tensor([list(ids)], device=self.device).expand(rows, -1)

    def _decode(self, cache: Any, positions: Sequence[int]) -> list[str]:
        """Decode greedily until the answer is closed, an end token or the limit."""
        branch, mask, at = self._branch(cache, positions)
        said: list[list[int]] = [[] for _ in positions]
        open_rows = set(range(len(positions)))
        ids = self._repeat(self.tail, len(positions))
        for _ in range(self.max_answer_tokens):
            logits, mask, at = self._step(branch, mask, at, ids, 1)
            chosen = logits[:, -1].argmax(dim=-1)
            for row in sorted(open_rows):
                token = int(chosen[row])
                said[row].append(token)
                if token in self.stop_ids or CLOSING in self.tokenizer.decode(said[row][-16:]):
                    open_rows.discard(row)
            if not open_rows:
                break
            ids = chosen[:, None]
        return [str(self.tokenizer.decode(ids, skip_special_tokens=True)) for ids in said]

    def _log_odds(self, cache: Any, positions: Sequence[int]) -> list[float | None]:
        """Return log p(true) - log p(false) behind the fixed beginning of the answer."""
        start = [*self.tail, *self._prefix]
        sums: list[Tensor] = []
        for word in self._classes:
            branch, mask, at = self._branch(cache, positions)
            ids = self._repeat([*start, *word[:-1]], len(positions))
            logits, _, _ = self._step(branch, mask, at, ids, len(word))
            logprobs = logits.float().log_softmax(dim=-1)
            picked = logprobs.gather(-1, self._repeat(word, len(positions))[:, :, None]).squeeze(-1)
            sums.append(picked.sum(dim=-1))
        return [float(x) for x in (sums[0] - sums[1]).tolist()]

    # Files --------------------------------------------------------------------------------------------------------

    def save(self, folder: str | os.PathLike[str], extra: Mapping[str, str] | None = None) -> None:
        """Save in Hugging Face form, whole or not at all: model, tokenizer, ``meter.json``.

        Args:
            folder: Where to; a meter that is there is replaced.
            extra: Text files to put beside it, by name.
        """
        with saved_meter(folder, "generative", self.settings, extra) as fresh:
            save_pretrained(fresh, self.model, self.tokenizer)

    @classmethod
    def load(
        cls,
        path_or_id: str | os.PathLike[str],
        *,
        device: str = "auto",
        dtype: str = "auto",
        branch_rows: int = 16,
        share_prefix: bool | None = None,
    ) -> GenerativeMeter:
        """Load a saved meter from a folder or the hub.

        Raises:
            ConfigError: If there is no generative meter.
        """
        folder, settings = open_meter(path_or_id, "generative", GenerativeSettings)
        loaded = load_causal_lm(str(folder), dtype=dtype, device=device)
        return cls(loaded, settings, branch_rows=branch_rows, share_prefix=share_prefix)

    @classmethod
    def untrained(
        cls,
        spec: str,
        settings: GenerativeSettings | None = None,
        *,
        device: str = "auto",
        dtype: str = "auto",
        branch_rows: int = 16,
    ) -> GenerativeMeter:
        """Return a meter from a model that was never trained as one (the ``deltattg-untrained`` ablation).

        Args:
            spec: What :func:`~agentgym_ttg.models.load_causal_lm` takes: a folder, hub id, ``asset:`` or ``gguf:``.
            settings: How it is asked.
            device: Where it runs.
            dtype: Parameter type.
            branch_rows: Decisions that are decoded together.
        """
        settings = settings or GenerativeSettings(name="untrained")
        return cls(load_causal_lm(spec, dtype=dtype, device=device), settings, branch_rows=branch_rows)


def _branches(cache: Any) -> bool:
    """Whether rows of a cache can be copied, cut and hidden column by column."""
    layers = list(getattr(cache, "layers", None) or [])
    return bool(layers) and all(type(layer).__name__ == "DynamicLayer" for layer in layers)


def _frame(tokenizer: Any, instruction: str) -> tuple[list[int], list[int]]:
    """Return the ids before the history (instruction, beginning of the message) and behind it (its end, header)."""
    if not getattr(tokenizer, "chat_template", None):
        return plain_ids(tokenizer, f"{instruction}\n\n"), plain_ids(tokenizer, "[estimate]\n")
    user = {"role": "user", "content": _PLACE}
    together = {"role": "user", "content": f"{instruction}\n\n{_PLACE}"}
    conversations = ([{"role": "system", "content": instruction}, user], [together]) if instruction else ([user],)
    for messages in conversations:
        try:
            text = str(
                tokenizer.apply_chat_template(
                    messages, tokenize=False, add_generation_prompt=True, enable_thinking=False
                )
            )
        except Exception:  # a template without a system role raises what it likes
            continue
        before, found, behind = text.partition(_PLACE)
        if found and instruction in before:
            return plain_ids(tokenizer, before), plain_ids(tokenizer, behind)
    raise ConfigError("the chat template of the meter's tokenizer does not render a user message")
