"""Reading trajectories with a causal language model: what it says of each token that the assistant said.

A trajectory is one row of ids where its prompts extend each other, else one row for each prompt (a policy that showed
itself a window of the history). Where the recording carries the ids that were sampled, and they are ids of this model's
tokenizer, they are read as they are; from texts, the row is built by the model's chat template.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from agentgym_ttg.core.errors import ConfigError, MissingDependencyError
from agentgym_ttg.core.messages import Message
from agentgym_ttg.core.trajectory import Trajectory, Turn

from .base import ScorerSettings

if TYPE_CHECKING:
    from torch import Tensor

    from agentgym_ttg.models.loading import LoadedModel

__all__ = ["Measure", "Row", "Span", "TrajectoryReader", "check_same_tokenizer", "open_reader", "said_logprobs"]

#: From the log-probabilities ``(n, V)`` and the tokens that were said ``(n,)`` to a number each, ``(n,)``.
Measure: TypeAlias = "Callable[[Tensor, Tensor], Tensor]"


class Span(NamedTuple):
    """Tokens ``start`` to ``end`` of a row: what the assistant said in a step."""

    step: int
    start: int
    end: int


@dataclass(slots=True)
class Row:
    """Ids that are read in one pass, and where the steps are in them."""

    ids: list[int]
    spans: list[Span] = field(default_factory=list)


class TrajectoryReader:
    """Reads whole trajectories with one model, each token once.

    Args:
        loaded: Model and tokenizer.
        batch_tokens: Padded tokens in one forward pass.
        context_length: Most tokens in a row; None takes what the model's configuration allows.

    Attributes:
        tokens_scored: Tokens read so far.
    """

    def __init__(self, loaded: LoadedModel, *, batch_tokens: int = 8192, context_length: int | None = None) -> None:
        from agentgym_ttg.models.chat import ChatBridge

        self.model = loaded.model.eval()
        self.name = loaded.path
        self.bridge = ChatBridge(loaded.tokenizer)
        self.stop_ids = {*self.bridge.stop_ids, *loaded.stop_ids}
        self.batch_tokens = batch_tokens
        text = loaded.model.config.get_text_config()
        self.vocabulary = int(text.vocab_size)
        allowed = getattr(text, "max_position_embeddings", None) or 1 << 20
        self.context_length = min(context_length or allowed, allowed)
        self.tokens_scored = 0

    def read(self, trajectories: Sequence[Trajectory], measure: Measure) -> list[list[NDArray[np.float64]]]:
        """Return a number for each token of each step of each trajectory.

        Args:
            trajectories: What to read.
            measure: From log-probabilities ``(n, V)`` and tokens ``(n,)`` to numbers ``(n,)``.

        Returns:
            For each trajectory, for each step, an array of shape ``(n_t,)``.
        """
        import torch

        owners: list[int] = []
        rows: list[Row] = []
        for index, trajectory in enumerate(trajectories):
            for row in self.rows(trajectory):
                owners.append(index)
                rows.append(row)
        out = [[np.zeros(0) for _ in trajectory.turns] for trajectory in trajectories]
        with torch.inference_mode():
            for batch in _batches([len(row.ids) for row in rows], self.batch_tokens):
                for index, numbers in zip(batch, self._pass([rows[i] for i in batch], measure), strict=True):
                    offset = 0
                    for step, start, end in rows[index].spans:
                        out[owners[index]][step] = numbers[offset : offset + end - start]
                        offset += end - start
        return out

    def _pass(self, rows: Sequence[Row], measure: Measure) -> list[NDArray[np.float64]]:
        """Read some rows at once; return the numbers of the tokens in each one's spans."""
        import torch

        from agentgym_ttg.models.logits import chosen_logits

        ids = np.zeros((len(rows), max(len(row.ids) for row in rows)), dtype=np.int64)
        for number, row in enumerate(rows):
            ids[number, : len(row.ids)] = row.ids
        self.tokens_scored += sum(len(row.ids) for row in rows)
        places = [np.concatenate([np.arange(s.start, s.end) for s in row.spans]) for row in rows]
        device = self.model.device
        tensor = torch.from_numpy(ids).to(device)
        which = torch.from_numpy(np.repeat(np.arange(len(rows)), [len(p) for p in places])).to(device)
        at = torch.from_numpy(np.concatenate(places)).to(device)
        said = tensor[which, at]
        found: list[Any] = []
        done = 0
        for logits in chosen_logits(self.model, tensor, which, at - 1):
            found.append(measure(logits.log_softmax(-1), said[done : done + len(logits)]).double().cpu())
            done += len(logits)
        numbers: NDArray[np.float64] = torch.cat(found).numpy()
        return np.split(numbers, np.cumsum([len(p) for p in places])[:-1])

    # From a trajectory to rows --------------------------------------------------------------------------------------

    def rows(self, trajectory: Trajectory) -> list[Row]:
        """Return the rows of a trajectory; steps without tokens are in none.

        Raises:
            ConfigError: If the model's chat template refuses the messages.
        """
        prompts = [self._recorded_prompt(turn) for turn in trajectory.turns]
        found: list[Row] = []
        for step, turn in enumerate(trajectory.turns):
            said = self._said(turn)
            known = prompts[step] if None not in prompts else None
            if known is not None:
                if not (found and known[: len(found[-1].ids)] == found[-1].ids):
                    found.append(Row([]))
                row = found[-1]
                row.ids = list(known)
            elif step == 0:
                row = Row(self.bridge.first_prompt(turn.messages, trajectory.tools))
                found.append(row)
            else:
                row = found[-1]
                ended = bool(row.ids) and row.ids[-1] == self.bridge.end_of_turn_id
                row.ids += self.bridge.extend(turn.messages or (Message("user", ""),), ended)
            if said:
                row.spans.append(Span(step, len(row.ids), len(row.ids) + len(said)))
                row.ids += said
        return [piece for row in found for piece in self._fitted(row)]

    def _said(self, turn: Turn) -> list[int]:
        """Return the ids of what was said: as sampled, where they are this tokenizer's, else those of the text."""
        completion, end = turn.completion, self.bridge.end_of_turn_id
        recorded = completion.token_ids
        if recorded is not None and self._is_mine(recorded, str(completion)):
            return list(recorded)
        if not completion:
            return []
        ids = self.bridge.encode(str(completion))
        return ids if end is None or completion.truncated else [*ids, end]

    def _recorded_prompt(self, turn: Turn) -> list[int] | None:
        """Return the prompt's ids where they were recorded with this model's tokenizer."""
        ids = turn.prompt_ids if turn.prompt_ids is not None else turn.completion.prompt_ids
        said = turn.completion.token_ids
        if not ids or said is None or not self._is_mine(said, str(turn.completion)):
            return None
        if max(ids) >= self.vocabulary:
            return None
        shown = self.bridge.decode(ids)
        return list(ids) if all(message.content.strip()[-40:] in shown for message in turn.messages[-1:]) else None

    def _is_mine(self, ids: Sequence[int], text: str) -> bool:
        if any(not 0 <= i < self.vocabulary for i in ids):
            return False
        body = list(ids[:-1]) if ids and ids[-1] in self.stop_ids else list(ids)
        return bool(self.bridge.tokenizer.decode(body, clean_up_tokenization_spaces=False) == text)

    def _fitted(self, row: Row) -> list[Row]:
        """Cut a row that is longer than the context into rows that overlap by half, steps whole where they fit."""
        limit = self.context_length
        out: list[Row] = []
        start = 0
        for step, begin, end in row.spans:
            if end - start > limit:
                start = max(begin - limit // 2, end - limit)
                out.append(Row([]))
            elif not out:
                out.append(Row([]))
            piece = out[-1]
            piece.ids = row.ids[start:end]
            first = max(begin - start, 1)  # the first token of a row has nothing before it
            if first < end - start:
                piece.spans.append(Span(step, first, end - start))
        return [piece for piece in out if piece.spans]


def said_logprobs(log_probs: Tensor, said: Tensor) -> Tensor:
    """Return the log-probability of each token that was said, ``(n,)``."""
    return log_probs.gather(-1, said[:, None]).squeeze(-1)


def open_reader(settings: ScorerSettings, spec: str) -> TrajectoryReader:
    """Load a model and return its reader.

    Raises:
        ConfigError: If there is no such model or its chat template cannot be used.
        MissingDependencyError: If torch or transformers are not installed.
        PolicyError: If the model cannot be loaded.
    """
    try:
        import torch  # noqa: F401 - so that what is missing is told with the extra that brings it
        import transformers  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingDependencyError(error.name or "torch", "train", "reading with a language model") from error
    from agentgym_ttg.models.loading import load_causal_lm

    loaded = load_causal_lm(spec, dtype=settings.dtype, device=settings.device)
    return TrajectoryReader(loaded, batch_tokens=settings.batch_tokens, context_length=settings.context_length)


def _batches(lengths: Sequence[int], batch_tokens: int) -> list[list[int]]:
    from agentgym_ttg.meter.head import length_batches

    return length_batches(lengths, batch_tokens)


def check_same_tokenizer(one: TrajectoryReader, other: TrajectoryReader) -> None:
    """Refuse two models whose tokens are not the same.

    Raises:
        ConfigError: If their vocabularies differ.
    """
    ours, theirs = one.bridge.tokenizer.get_vocab(), other.bridge.tokenizer.get_vocab()
    if ours != theirs:
        raise ConfigError(
            f"the tokens of {one.name} ({len(ours)}) and {other.name} ({len(theirs)}) are not the same; expected two "
            "checkpoints of one model"
        )
