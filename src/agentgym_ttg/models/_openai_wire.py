"""Between our messages and the chat-completions form of OpenAI-compatible servers. Pure functions."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from agentgym_ttg.core.completion import Completion, FinishReason
from agentgym_ttg.core.messages import Message, ToolCall
from agentgym_ttg.core.tool_calls import parse_tool_calls

__all__ = ["describe_tools", "read_choice", "to_tools", "to_wire"]

_AS_ID = re.compile(r"token_id:(\d+)")
_FINISH: dict[Any, FinishReason] = {"stop": "stop", "tool_calls": "stop", "function_call": "stop", "length": "length"}


def to_tools(tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return tool schemas in the server's form; a bare function schema is wrapped.

    >>> to_tools([{"name": "add", "parameters": {}}])
    [{'type': 'function', 'function': {'name': 'add', 'parameters': {}}}]
    """
    return [dict(tool) if "function" in tool else {"type": "function", "function": dict(tool)} for tool in tools]


def describe_tools(tools: Sequence[Mapping[str, Any]]) -> str:
    """Say which tools there are and how to call them, for models whose server does not do it."""
    lines = [json.dumps(tool["function"] if "function" in tool else dict(tool), ensure_ascii=False) for tool in tools]
    return (
        "You can call tools. Their JSON schemas, one a line:\n<tools>\n" + "\n".join(lines) + "\n</tools>\n"
        'Call one by writing <tool_call>{"name": …, "arguments": {…}}</tool_call>; several calls follow each other.'
    )


def to_wire(messages: Sequence[Message], *, native_tools: bool) -> list[dict[str, Any]]:
    """Return messages in the server's form.

    With native tools, calls that the assistant wrote as text become ``tool_calls``, and each tool message answers one
    of them, by its id or else in order. Strict servers refuse a tool message that answers nothing: such a message, and
    every one without native tools, goes as a user message.

    >>> said = ToolCall("add", {"a": 1}).to_hermes()
    >>> wire = to_wire([Message("assistant", said), Message("tool", "2", name="add")], native_tools=True)
    >>> wire[0]["tool_calls"][0]["id"] == wire[1]["tool_call_id"]
    True
    """
    out: list[dict[str, Any]] = []
    owed: list[str] = []
    for number, message in enumerate(messages):
        answered = number + 1 < len(messages) and messages[number + 1].role == "tool"
        if message.role == "assistant":
            calls = _calls(message.content) if native_tools and answered else []
            owed = [call.id or f"call_{number}_{index}" for index, call in enumerate(calls)]
            out.append(_said(message, calls, owed) if calls else {"role": "assistant", "content": message.content})
        elif message.role == "tool" and owed:
            call_id = message.tool_call_id if message.tool_call_id in owed else owed[0]
            owed.remove(call_id)
            out.append({"role": "tool", "content": message.content, "tool_call_id": call_id})
        else:
            # What a strict server still waits for cannot come any more.
            out += [{"role": "tool", "content": "", "tool_call_id": call_id} for call_id in owed]
            owed = []
            role = "user" if message.role == "tool" else message.role
            out.append({"role": role, "content": message.content})
    return out


def _calls(text: str) -> list[ToolCall]:
    """Return the calls in a message; none if one of them is broken."""
    _, _, calls = parse_tool_calls(text)
    good = [call for call in calls if isinstance(call, ToolCall)]
    return good if len(good) == len(calls) else []


def _said(message: Message, calls: Sequence[ToolCall], ids: Sequence[str]) -> dict[str, Any]:
    reasoning, said, _ = parse_tool_calls(message.content)
    text = f"<think>{reasoning}</think>{said}" if reasoning else said
    return {
        "role": "assistant",
        "content": text or None,
        "tool_calls": [
            {
                "id": call_id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False)},
            }
            for call, call_id in zip(calls, ids, strict=True)
        ],
    }


def read_choice(answer: Mapping[str, Any]) -> Completion:
    """Read the first choice of a chat completion.

    Reasoning that the server has split off comes back in ``<think>``, and tool calls come back as Hermes text, so that
    an environment sees one form. Ids and log-probabilities are taken where they are complete.

    Args:
        answer: The decoded JSON.

    Raises:
        ValueError: If it is no chat completion.
    """
    try:
        choice = answer["choices"][0]
        message = choice["message"]
        content = message.get("content") or ""
        calls = message.get("tool_calls") or []
        reasoning = message.get("reasoning_content") or message.get("reasoning") or ""
        parts = [f"<think>{reasoning}</think>" if isinstance(reasoning, str) and reasoning else "", content]
        text = "".join(parts)
        for call in calls:
            text += ("\n" if text else "") + _hermes(call["function"])
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"not a chat completion: {type(error).__name__}: {error}") from error
    if not isinstance(content, str):
        raise ValueError(f"expected the message content as a string, got {type(content).__name__}")
    ids, logprobs = _tokens(choice)
    prompt = answer.get("prompt_token_ids") or choice.get("prompt_token_ids")
    return Completion(
        text,
        token_ids=ids,
        logprobs=logprobs,
        prompt_ids=prompt if _is_ids(prompt) else None,
        finish_reason=_FINISH.get(choice.get("finish_reason"), "unknown"),
    )


def _hermes(function: Mapping[str, Any]) -> str:
    """Write a call as text; arguments that are no JSON object stay as they are, for the environment to object to."""
    name, arguments = str(function["name"]), function.get("arguments") or "{}"
    try:
        decoded = json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return f'<tool_call>\n{{"name": {json.dumps(name)}, "arguments": {arguments}}}\n</tool_call>'
    return ToolCall(name, decoded).to_hermes()


def _tokens(choice: Mapping[str, Any]) -> tuple[list[int] | None, list[float] | None]:
    entries = choice.get("logprobs")
    entries = (entries.get("content") or []) if isinstance(entries, Mapping) else []
    entries = [entry for entry in entries if isinstance(entry, Mapping)]
    ids: list[int] | None = choice.get("token_ids")
    if not _is_ids(ids):
        found = [_AS_ID.fullmatch(str(entry.get("token"))) for entry in entries]
        ids = [int(match.group(1)) for match in found if match] if found and all(found) else None
    if ids is None:
        return None, None
    values = [entry.get("logprob") for entry in entries]
    logprobs = [float(value) for value in values if isinstance(value, (int, float))]
    return ids, (logprobs if len(logprobs) == len(values) == len(ids) else None)


def _is_ids(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(i, int) and not isinstance(i, bool) for i in value)
