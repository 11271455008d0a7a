"""From an assistant message to what the environment executes.

Three formats, one result type. A format also *renders*, so that scripted policies speak the form that the
environment listens to. A message that does not parse is an :class:`Action` with an error text that a model can
act on: parsing never raises and never invents an empty call. Reasoning never reaches the environment.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from .errors import ConfigError, nearest
from .messages import ToolCall
from .tool_calls import ToolCallError, parse_tool_calls

__all__ = [
    "ACTION_FORMATS",
    "Action",
    "ActionFormat",
    "PlainFormat",
    "TagFormat",
    "ToolFormat",
    "make_action_format",
    "split_reasoning",
]


@dataclass(frozen=True, slots=True)
class Action:
    """A parsed assistant message.

    Attributes:
        text: The whole message as the assistant said it.
        command: What the environment is to execute; for tool messages the text outside the calls.
        kind: Name of the tag that held the command, ``""`` in other formats.
        reasoning: Text inside ``<think>``.
        calls: Tool calls in order; a broken one is a :class:`ToolCallError` in its place.
        error: Why there is nothing to execute, ``""`` if there is.
    """

    text: str
    command: str = ""
    kind: str = ""
    reasoning: str = ""
    calls: tuple[ToolCall | ToolCallError, ...] = ()
    error: str = ""

    @property
    def valid(self) -> bool:
        """Whether the message is in the expected form throughout."""
        return not self.error and not any(isinstance(call, ToolCallError) for call in self.calls)


class ActionFormat(Protocol):
    """How an assistant message carries an action."""

    @property
    def name(self) -> str:
        """Name in settings."""

    def parse(self, text: str) -> Action:
        """Parse a message; never raises."""

    def render(self, command: str, *, reasoning: str = "", kind: str = "") -> str:
        """Write a message whose parse is ``command``."""

    def describe(self) -> str:
        """Say the expected form, for prompts and error observations."""


_THINK = re.compile(r"<(/?)think>")


def split_reasoning(text: str) -> tuple[str, str]:
    """Split a message into (reasoning, what is said outside of it).

    Everything up to a stray ``</think>`` is reasoning (chat templates that open the tag in the prompt), and so is
    everything behind a ``<think>`` that is never closed; nesting counts.

    >>> split_reasoning("<think>hm</think>go north")
    ('hm', 'go north')
    >>> split_reasoning("hm</think>go north"), split_reasoning("<think>go north")
    (('hm', 'go north'), ('go north', ''))
    """
    reasoning: list[str] = []
    said: list[str] = []
    depth, start = 0, 0
    for match in _THINK.finditer(text):
        closing = bool(match.group(1))
        piece = text[start : match.start()]
        if depth == 0 and closing:
            reasoning.extend([*said, piece])
            said.clear()
        else:
            (reasoning if depth else said).append(piece)
            depth += -1 if closing else 1
        start = match.end()
    (reasoning if depth else said).append(text[start:])
    return "".join(reasoning).strip(), "".join(said).strip()


@dataclass(frozen=True, slots=True)
class PlainFormat:
    """The message is the command; a ``<think>`` block before it is reasoning."""

    name: str = "plain"

    def parse(self, text: str) -> Action:
        """Parse a message; never raises."""
        reasoning, command = split_reasoning(text)
        error = "" if command else "The message holds no action."
        return Action(text, command=command, reasoning=reasoning, error=error)

    def render(self, command: str, *, reasoning: str = "", kind: str = "") -> str:
        """Write a message whose parse is ``command``."""
        return f"<think>{reasoning}</think>{command}" if reasoning else command

    def describe(self) -> str:
        """Say the expected form."""
        return "Answer with the action alone."


@dataclass(frozen=True, slots=True)
class TagFormat:
    """``<think>…</think><action>…</action>``, or other tags in the place of ``action``.

    Attributes:
        tags: Names of the tags that carry a command; exactly one of them is expected.
        require_think: Whether a missing ``<think>`` block makes the action invalid (the rule of the public ALFWorld
            runs, spec/baselines).
        on_repeat: ``"error"`` refuses several command tags; ``"last"`` takes the last (the rule of PaperSearchQA).
    """

    tags: tuple[str, ...] = ("action",)
    require_think: bool = True
    on_repeat: Literal["error", "last"] = "error"
    name: str = "tags"

    def parse(self, text: str) -> Action:
        """Parse a message; never raises."""
        reasoning, said = split_reasoning(text)
        if self.require_think and not reasoning and not _THINK.search(text):
            return Action(text, error=f"The <think> block is missing. {self.describe()}")
        found = self._blocks(said)
        if isinstance(found, str):
            return Action(text, reasoning=reasoning, error=f"{found} {self.describe()}")
        if len(found) > 1 and self.on_repeat == "error":
            return Action(text, reasoning=reasoning, error=f"Several actions in one message. {self.describe()}")
        kind, command = found[-1]
        if not command:
            return Action(text, reasoning=reasoning, kind=kind, error=f"The <{kind}> tag is empty.")
        return Action(text, command=command, kind=kind, reasoning=reasoning)

    def _blocks(self, said: str) -> list[tuple[str, str]] | str:
        names = "|".join(map(re.escape, self.tags))
        blocks: list[tuple[str, str]] = []
        opened: tuple[str, int] | None = None
        for match in re.finditer(rf"<(/?)({names})>", said):
            closing, tag = bool(match.group(1)), match.group(2)
            if not closing:
                if opened:
                    return f"A second <{tag}> opens before <{opened[0]}> is closed."
                opened = (tag, match.end())
            else:
                if not opened or opened[0] != tag:
                    return f"</{tag}> closes a tag that is not open."
                blocks.append((tag, said[opened[1] : match.start()].strip()))
                opened = None
        if opened:
            return f"<{opened[0]}> is not closed."
        return blocks or "No action tag was found."

    def render(self, command: str, *, reasoning: str = "", kind: str = "") -> str:
        """Write a message whose parse is ``command``."""
        tag = kind or self.tags[0]
        think = f"<think>{reasoning}</think>" if reasoning or self.require_think else ""
        return f"{think}<{tag}>{command}</{tag}>"

    def describe(self) -> str:
        """Say the expected form."""
        forms = " or ".join(f"<{tag}>…</{tag}>" for tag in self.tags)
        return f"Expected form: {'<think>…</think> and then ' if self.require_think else ''}{forms}, once."


@dataclass(frozen=True, slots=True)
class ToolFormat:
    """Tool calls as ``<tool_call>{…}</tool_call>`` or bare JSON; text without any call is an answer."""

    name: str = "tools"

    def parse(self, text: str) -> Action:
        """Parse a message; never raises."""
        reasoning, said, calls = parse_tool_calls(text)
        error = "" if said or calls else "The message holds neither a tool call nor an answer."
        return Action(text, command=said, reasoning=reasoning, calls=tuple(calls), error=error)

    def render(self, command: str, *, reasoning: str = "", kind: str = "") -> str:
        """Write a message whose parse is ``command`` (an answer; calls are rendered by ``ToolCall.to_hermes``)."""
        return f"<think>{reasoning}</think>{command}" if reasoning else command

    def describe(self) -> str:
        """Say the expected form."""
        return 'Expected form: <tool_call>{"name": …, "arguments": {…}}</tool_call>, or an answer as plain text.'


ACTION_FORMATS: dict[str, type[PlainFormat | TagFormat | ToolFormat]] = {
    "plain": PlainFormat,
    "tags": TagFormat,
    "tools": ToolFormat,
}


def make_action_format(name: str, allowed: Sequence[str] = tuple(ACTION_FORMATS)) -> ActionFormat:
    """Return the format called ``name`` with its default settings.

    Raises:
        ConfigError: If there is no such format, or the environment does not take it.
    """
    if name not in allowed or name not in ACTION_FORMATS:
        hint = nearest(name, allowed)
        raise ConfigError(
            f"unknown action format {name!r}; expected one of {', '.join(allowed)}"
            + (f" (did you mean {hint[0]!r}?)" if hint else "")
        )
    return ACTION_FORMATS[name]()
