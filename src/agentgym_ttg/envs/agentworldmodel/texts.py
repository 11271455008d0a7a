"""What the agent is offered and told: the two tools, the list of a world's tools, errors, plausible arguments."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from agentgym_ttg.core.messages import ToolCall

__all__ = ["META_TOOLS", "error_detail", "render_call", "sample_argument", "tool_listing"]

_TEXT = {"type": "string"}
META_TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "list_tools",
            "description": "List the tools of this world with their arguments.",
            "parameters": {"type": "object", "properties": {}},
        },
    },
    {
        "type": "function",
        "function": {
            "name": "call_tool",
            "description": "Call a tool of this world.",
            "parameters": {
                "type": "object",
                "properties": {"tool_name": _TEXT, "arguments": {"type": "object"}},
                "required": ["tool_name", "arguments"],
            },
        },
    },
]


def render_call(call: ToolCall) -> str:
    """Write a call of a world's tool as the agent does, through ``call_tool``."""
    return ToolCall("call_tool", {"tool_name": call.name, "arguments": call.arguments}).to_hermes()


def tool_listing(schemas: list[dict[str, Any]]) -> str:
    """Write a world's tools, one a line, with the types of their arguments; ``?`` marks the optional ones."""
    lines = []
    for schema in schemas:
        required = schema["parameters"]["required"]
        parts = [
            f"{key}{'' if key in required else '?'}: {kind.get('type', 'any')}"
            for key, kind in schema["parameters"]["properties"].items()
        ]
        lines.append(f"{schema['name']}({', '.join(parts)}): {schema['description']}")
    return "\n".join(lines)


def error_detail(body: Any) -> str:
    """Return what a refused call says, in one line that a model can act on."""
    detail = body.get("detail", body) if isinstance(body, dict) else body
    if isinstance(detail, list):  # how FastAPI says which argument does not fit
        parts = [
            f"argument {'.'.join(map(str, item.get('loc', ())[1:]))!r}: {item.get('msg', '')}"
            for item in detail
            if isinstance(item, dict)
        ]
        return "; ".join(parts) or json.dumps(detail)
    return detail if isinstance(detail, str) else json.dumps(detail, ensure_ascii=False)


def sample_argument(key: str, kind: dict[str, Any], seen: list[str], rng: np.random.Generator) -> Any:
    """Draw a plausible value for an argument, where it can be from the names ``seen`` so far."""
    if options := kind.get("enum"):
        return options[int(rng.integers(len(options)))]
    if kind.get("type") in ("integer", "number"):
        return int(rng.integers(1, 10))
    if kind.get("type") == "boolean":
        return bool(rng.integers(2))
    fitting = [one for one in seen if key.startswith(one.split()[0])] or seen
    return fitting[int(rng.integers(len(fitting)))]
