"""The running record of an episode, for rendering."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from agentgym_ttg.core.messages import Message

__all__ = ["Transcript"]


class _Entry(NamedTuple):
    role: str
    text: str
    note: str


class Transcript:
    """What was said so far; cheap to copy, because entries are immutable."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self._printed = 0
        self.last_observation = ""

    def observe(self, messages: Sequence[Message], reward: float = 0.0) -> None:
        """Add what the environment said."""
        note = f"reward {reward:g}" if reward else ""
        self._entries.extend(_Entry(m.role if not m.name else f"{m.role} {m.name}", m.content, note) for m in messages)
        self.last_observation = "\n\n".join(message.content for message in messages)

    def act(self, text: str, tokens: int, valid: bool) -> None:
        """Add what the assistant said."""
        note = f"{tokens} tokens" + ("" if valid else ", invalid")
        self._entries.append(_Entry("assistant", text, note))

    def state(self) -> tuple[Any, ...]:
        """Return an immutable copy."""
        return (tuple(self._entries), self._printed, self.last_observation)

    @classmethod
    def from_state(cls, state: tuple[Any, ...]) -> Transcript:
        """Rebuild from :meth:`state`."""
        self = cls()
        entries, self._printed, self.last_observation = state
        self._entries = list(entries)
        return self

    def text(self) -> str:
        """Return the transcript as plain text."""
        return "\n".join(f"[{e.role}{f', {e.note}' if e.note else ''}] {e.text}" for e in self._entries)

    def print_new(self) -> None:
        """Print what is new, in colour where the terminal has any."""
        from rich.console import Console
        from rich.text import Text

        console = Console()
        colours = {"assistant": "bold cyan", "user": "default", "system": "dim"}
        for entry in self._entries[self._printed :]:
            line = Text(f"{entry.role}> ", style="dim")
            line.append(_printable(entry.text), style=colours.get(entry.role, "green"))
            if entry.note:
                line.append(f"  ({entry.note})", style="red" if "invalid" in entry.note else "dim")
            console.print(line)
        self._printed = len(self._entries)


def _printable(text: str) -> str:
    """Escape what a terminal would act on; keep newlines and tabs."""
    return "".join(c if c in "\n\t" or c.isprintable() else repr(c)[1:-1] for c in text)
