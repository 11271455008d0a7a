"""The action format: a query in ``<search>``, an answer in ``<answer>``."""

from __future__ import annotations

from dataclasses import dataclass

from agentgym_ttg.core.actions import TagFormat

__all__ = ["SearchFormat"]


@dataclass(frozen=True, slots=True)
class SearchFormat(TagFormat):
    """``<think>…</think>`` where one likes, then ``<search>query</search>`` or ``<answer>…</answer>``.

    Where a message holds several, the last one counts.

    >>> SearchFormat().parse("<answer>zinc</answer> or rather <answer>iron</answer>").command
    'iron'
    >>> SearchFormat().parse("zinc").valid
    False
    """

    tags: tuple[str, ...] = ("search", "answer")
    require_think: bool = False
    on_repeat: str = "last"  # type: ignore[assignment]

    def render(self, command: str, *, reasoning: str = "", kind: str = "") -> str:
        """Write a message; a command that brings its tags along (``info["admissible_actions"]``) keeps them."""
        if not kind and any(command.startswith(f"<{tag}>") and command.endswith(f"</{tag}>") for tag in self.tags):
            think = f"<think>{reasoning}</think>" if reasoning or self.require_think else ""
            return think + command
        return TagFormat.render(self, command, reasoning=reasoning, kind=kind)

    def describe(self) -> str:
        """Say the expected form, as a retry message."""
        think = "Reason inside <think> and </think> first. " if self.require_think else ""
        return (
            f"{think}To search, put a query between <search> and </search>. "
            "To answer, put the answer alone between <answer> and </answer>. Try again."
        )
