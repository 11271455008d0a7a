"""Chat messages and tool calls, in the form that chat templates and OpenAI-compatible servers use."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["Message", "Role", "ToolCall"]

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call that the assistant asks for.

    Attributes:
        name: Name of the tool.
        arguments: Decoded JSON object.
        id: The caller's id, ``""`` where it gave none.
    """

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    id: str = ""

    def to_hermes(self) -> str:
        r"""Render in the Hermes/Qwen form, the one that environments see.

        >>> ToolCall("add", {"a": 1}).to_hermes()
        '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'
        """
        body = json.dumps({"name": self.name, "arguments": self.arguments}, ensure_ascii=False)
        return f"<tool_call>\n{body}\n</tool_call>"


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message.

    Attributes:
        role: Who speaks.
        content: The text.
        name: Name of the tool for ``role="tool"``.
        tool_call_id: The call that a tool message answers, where there is an id.
    """

    role: Role
    content: str
    name: str = ""
    tool_call_id: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the chat-template form; empty fields are left out.

        >>> Message("user", "hi").to_dict()
        {'role': 'user', 'content': 'hi'}
        """
        out: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.name:
            out["name"] = self.name
        if self.tool_call_id:
            out["tool_call_id"] = self.tool_call_id
        return out

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Message:
        """Read the chat-template form.

        Raises:
            ValueError: If the role or the content is not what a chat message holds.
        """
        role, content = data.get("role"), data.get("content")
        if role not in ("system", "user", "assistant", "tool"):
            raise ValueError(f"expected role system, user, assistant or tool, got {role!r}")
        if content is None:
            content = ""
        if not isinstance(content, str):
            raise ValueError(f"expected message content as a string, got {type(content).__name__}")
        return cls(role, content, str(data.get("name") or ""), str(data.get("tool_call_id") or ""))
