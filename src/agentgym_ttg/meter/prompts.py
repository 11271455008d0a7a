"""Histories as token ids, so that one pass over a trajectory reads every decision in it.

A trajectory is encoded piece by piece (a message, an action, a marker) and the pieces are only ever appended. The ids
of history h_t are therefore exactly the first ``boundaries[t]`` ids of the whole, and a causal model that reads the
whole has read every history.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

from agentgym_ttg.core.errors import ConfigError
from agentgym_ttg.core.messages import Message
from agentgym_ttg.core.trajectory import Trajectory

__all__ = ["STYLES", "EncodedTrajectory", "HistoryEncoder", "Layout", "Style", "Window", "make_encoder"]

Style = Literal["chat", "transcript"]
STYLES: tuple[Style, ...] = get_args(Style)

_MIN_CONTEXT = 32
_REMEMBERED = 50_000


class Layout(Protocol):
    """How the pieces of a conversation become ids; every piece is encoded by itself."""

    def opening(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> list[int]:
        """Return the ids of tools, task and first observation, up to where the first action begins."""

    def action(self, text: str) -> list[int]:
        """Return the ids of an action."""

    def observed(self, messages: Sequence[Message]) -> list[int]:
        """Return the ids of what the environment said to an action, up to where the next action begins."""


@dataclass(frozen=True, slots=True)
class EncodedTrajectory:
    """The ids of a whole trajectory.

    Attributes:
        ids: Everything up to the last decision, in order; the last action and what came of it are not in any history.
        boundaries: Length of h_t in ids, ``(T,)``, increasing.
        cuts: Where the observation before decision t begins, ``(T,)``; the history may be cut open there.
        task_end: End of the opening, which no truncation removes.
    """

    ids: list[int]
    boundaries: list[int]
    cuts: list[int]
    task_end: int


@dataclass(frozen=True, slots=True)
class Window:
    """Ids that are read in one pass, and the decisions that are read from them.

    Attributes:
        ids: The opening, and behind it the last part of the history.
        steps: The decisions t, consecutive.
        positions: Length of (truncated) h_t in ``ids``, for each of ``steps``.
    """

    ids: list[int]
    steps: list[int]
    positions: list[int]


class HistoryEncoder:
    """Encodes trajectories and cuts them to the context limit.

    Truncation keeps the opening (tools, task, first observation) and the end of the history. It must be such that one
    pass still serves many decisions: when h_t no longer fits, everything between the opening and a later observation
    is dropped, so much that half of the room is free again, and the following decisions are read in that window until
    it is full. Which window h_t is read in depends on h_t alone, never on what came later, so a whole trajectory and
    its histories one by one give the same ids.

    Args:
        layout: How pieces become ids.
        context_length: Most ids in a window.

    Raises:
        ConfigError: If the limit is too small to hold anything.
    """

    def __init__(self, layout: Layout, context_length: int) -> None:
        if context_length < _MIN_CONTEXT:
            raise ConfigError(f"expected a meter context of at least {_MIN_CONTEXT} tokens, got {context_length}")
        self.layout = layout
        self.context_length = context_length

    def encode(self, trajectory: Trajectory) -> EncodedTrajectory:
        """Return the ids of a trajectory with at least one turn."""
        ids = self._fit_opening(self.layout.opening(trajectory.turns[0].messages, trajectory.tools))
        task_end = len(ids)
        boundaries: list[int] = []
        cuts: list[int] = []
        for step, turn in enumerate(trajectory.turns):
            if step:
                ids += self.layout.action(str(trajectory.turns[step - 1].completion))
                cuts.append(len(ids))
                ids += self.layout.observed(turn.messages)
            else:
                cuts.append(task_end)
            boundaries.append(len(ids))
        return EncodedTrajectory(ids, boundaries, cuts, task_end)

    def windows(self, encoded: EncodedTrajectory) -> list[Window]:
        """Return the passes that read every decision of a trajectory; one where it fits the context."""
        task_end, limit = encoded.task_end, self.context_length
        room = limit - task_end
        starts: list[int] = []
        start = task_end
        for step, end in enumerate(encoded.boundaries):
            if end - start > room:
                later = [cut for cut in encoded.cuts[1 : step + 1] if cut > start and end - cut <= room // 2]
                last = encoded.cuts[step]
                # Where the last observation alone takes more than half, it is kept whole if it fits, else its end.
                whole = start < last and end - last <= room
                start = later[0] if later else last if whole else end - room
            starts.append(start)
        out: list[Window] = []
        for step, start in enumerate(starts):
            end = encoded.boundaries[step]
            if out and starts[step - 1] == start:
                window = out[-1]
                window.ids.extend(encoded.ids[encoded.boundaries[step - 1] : end])
                window.steps.append(step)
                window.positions.append(len(window.ids))
            else:
                ids = encoded.ids[:task_end] + encoded.ids[start:end]
                out.append(Window(ids, [step], [len(ids)]))
        return out

    def _fit_opening(self, ids: list[int]) -> list[int]:
        """Cut the middle out of an opening that would leave less than a quarter of the context to the history."""
        most = self.context_length * 3 // 4
        if len(ids) <= most:
            return list(ids)
        head = most // 2
        return [*ids[:head], *ids[len(ids) - (most - head) :]]


class TranscriptLayout:
    """Plain text with a marker line before each message; needs nothing of the tokenizer.

    Args:
        tokenizer: A tokenizer of transformers.
        before: Ids in front of everything (an instruction and the beginning of the user message, say).
    """

    def __init__(self, tokenizer: Any, before: Sequence[int] = ()) -> None:
        self._tokenizer = tokenizer
        self._before = list(before)
        self._memory: dict[str, list[int]] = {}

    def opening(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> list[int]:
        """Return the ids in front, the tools one a line, and the first messages."""
        lines = [json.dumps(tool, ensure_ascii=False) for tool in tools]
        listed = self._ids("[tools]\n" + "".join(f"{line}\n" for line in lines)) if lines else []
        return self._before + listed + self.observed(messages)

    def observed(self, messages: Sequence[Message]) -> list[int]:
        """Return the ids of the messages."""
        ids: list[int] = []
        for message in messages:
            who = f"{message.role} {message.name}" if message.name else message.role
            ids += self._ids(f"[{who}]\n{message.content}\n")
        return ids

    def action(self, text: str) -> list[int]:
        """Return the ids of an action and its marker."""
        return self._ids(f"[assistant]\n{text}\n")

    def _ids(self, text: str) -> list[int]:
        return remembered_ids(self._tokenizer, text, self._memory)


class ChatLayout:
    """The conversation as the actor reads it, in the tokenizer's chat template.

    A decision is read behind the header of the assistant's message, where the actor begins to speak.

    Args:
        tokenizer: A tokenizer of transformers.
    """

    def __init__(self, tokenizer: Any) -> None:
        from agentgym_ttg.models import ChatBridge

        self._bridge = ChatBridge(tokenizer)
        self._memory: dict[str, list[int]] = {}
        self._observed: dict[tuple[Message, ...], list[int]] = {}

    def opening(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> list[int]:
        """Return the ids of the first prompt."""
        return self._bridge.first_prompt(messages, tools)

    def action(self, text: str) -> list[int]:
        """Return the ids of the text; what ends the assistant's turn comes with the observation."""
        return remembered_ids(self._bridge.tokenizer, text, self._memory)

    def observed(self, messages: Sequence[Message]) -> list[int]:
        """Return the ids that follow a completion: end of turn, the messages, the assistant's header."""
        key = tuple(messages) or (Message("user", ""),)
        found = self._observed.get(key)
        if found is None:
            found = self._bridge.extend(key, False)
            if len(self._observed) >= _REMEMBERED:
                self._observed.clear()
            self._observed[key] = found
        return found


def remembered_ids(tokenizer: Any, text: str, memory: dict[str, list[int]]) -> list[int]:
    """Return the ids of ``text`` without special tokens; short texts repeat a lot and are remembered."""
    found = memory.get(text)
    if found is None:
        found = plain_ids(tokenizer, text)
        if len(text) <= 2_000:
            if len(memory) >= _REMEMBERED:
                memory.clear()
            memory[text] = found
    return found


def plain_ids(tokenizer: Any, text: str) -> list[int]:
    """Return the ids of ``text`` without special tokens added; a lone surrogate reads as U+FFFD."""
    try:
        ids = tokenizer.encode(text, add_special_tokens=False)
    except (TypeError, UnicodeEncodeError):
        clean = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        ids = tokenizer.encode(clean, add_special_tokens=False)
    return [int(i) for i in ids]


def make_encoder(tokenizer: Any, style: Style, context_length: int) -> HistoryEncoder:
    """Return the encoder for a tokenizer and a style.

    Args:
        tokenizer: A tokenizer of transformers.
        style: ``chat`` words the history as the actor reads it, in the tokenizer's chat template; ``transcript`` as
            plain text with markers.
        context_length: Most ids in a pass.

    Raises:
        ConfigError: If the style is unknown.
    """
    if style not in STYLES:
        raise ConfigError(f"unknown style {style!r}; expected one of {', '.join(STYLES)}")
    layout: Layout = ChatLayout(tokenizer) if style == "chat" else TranscriptLayout(tokenizer)
    return HistoryEncoder(layout, context_length)
