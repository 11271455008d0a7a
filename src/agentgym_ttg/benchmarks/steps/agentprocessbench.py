"""AgentProcessBench: chats with tool calls, a label for each assistant message by its index.

A line is ``{"messages": [...], "step_labels": {"2": 1, "4": -1}, "final_label": 1, "data_source": ...,
"query_index": ..., "sample_index": ...}``. Every assistant message is a step. Source: RUCBM/AgentProcessBench.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from agentgym_ttg.core.completion import Completion
from agentgym_ttg.core.errors import DataError
from agentgym_ttg.core.messages import Message, ToolCall
from agentgym_ttg.core.trajectory import Trajectory, Turn

from .records import LabelledTrajectory, clipped, field_of

__all__ = ["read_record"]

_LABELS = (-1, 0, 1)
_INDEX = re.compile(r"0|[1-9][0-9]*")


def read_record(place: str, record: dict[str, Any], *, clip: int | None = None) -> LabelledTrajectory:
    """Return the labelled trajectory of a record.

    Args:
        place: Where the record stands, for errors.
        record: Its JSON object.
        clip: Most characters of what the environment said in one message; its middle is left out.

    Raises:
        DataError: If the messages or the labels are not what the format says; names the record.
    """
    source = str(record.get("data_source") or "unknown")
    query, sample = record.get("query_index", record.get("question")), record.get("sample_index")
    if query is None:
        raise DataError(f"{place}: expected query_index (or question), by which data are split; it is missing")
    name = f"{place} ({source}, query {query}, sample {sample})"
    rows = field_of(record, "messages", list, name)
    messages = [_message(row, number, name) for number, row in enumerate(rows)]
    spoken = [number for number, message in enumerate(messages) if message.role == "assistant"]
    if not spoken:
        raise DataError(f"{name}: no assistant message among its {len(messages)} messages, so there is no step")
    labels = _labels(field_of(record, "step_labels", dict, name), messages, spoken, name)
    final = field_of(record, "final_label", int, name)
    if final not in _LABELS:
        raise DataError(f"{name}: expected final_label -1, 0 or 1, got {final}")
    turns: list[Turn] = []
    ends = [*spoken[1:], len(messages)]
    start = 0
    for number, end in zip(spoken, ends, strict=True):
        said = messages[number].content
        turns.append(
            Turn(
                messages=tuple(_clip(messages[start:number], clip)),
                completion=Completion(said),
                observation="\n".join(m.content for m in _clip(messages[number + 1 : end], clip)),
                metadata={"message": number},
            )
        )
        start = number + 1
    trajectory = Trajectory(
        env_id=source,
        task_id=f"{source}/{query}",
        policy=str(record.get("model") or ""),
        turns=turns,
        outcome="success" if final == 1 else "failure",
        total_reward=float(final == 1),
        tools=[tool for tool in record.get("tools") or [] if isinstance(tool, dict)],
        metadata={"sample": sample, "final_label": final},
    )
    return LabelledTrajectory(trajectory, np.array(labels, dtype=np.int64), source, f"{source}/{query}", name)


def _clip(messages: Sequence[Message], clip: int | None) -> list[Message]:
    """Clip what the environment said; system and user messages hold the task and stay whole."""
    return [
        Message(m.role, clipped(m.content, clip), m.name, m.tool_call_id) if m.role == "tool" else m for m in messages
    ]


def _message(row: Any, number: int, name: str) -> Message:
    if not isinstance(row, dict):
        raise DataError(f"{name}: expected message {number} as an object, got {type(row).__name__}")
    try:
        message = Message.from_dict(row)
    except ValueError as error:
        raise DataError(f"{name}: message {number}: {error}") from error
    calls = row.get("tool_calls") or []
    if message.role != "assistant" or not calls:
        return message
    if not isinstance(calls, list):
        raise DataError(f"{name}: expected tool_calls of message {number} as a list, got {type(calls).__name__}")
    parts = [message.content] if message.content else []
    parts += [_call(call, number, name) for call in calls]
    return Message("assistant", "\n".join(parts))


def _call(call: Any, number: int, name: str) -> str:
    """Return a tool call in the form that models write; arguments that are no JSON object stay as they are."""
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise DataError(f"{name}: a tool call of message {number} names no function")
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        try:
            decoded = json.loads(arguments)
        except ValueError:
            decoded = None
        if not isinstance(decoded, dict):
            return f"<tool_call>\n{function['name']} {arguments}\n</tool_call>"
        arguments = decoded
    return ToolCall(function["name"], arguments if isinstance(arguments, dict) else {}).to_hermes()


def _labels(given: dict[Any, Any], messages: Sequence[Message], spoken: Sequence[int], name: str) -> list[int]:
    found: dict[int, int] = {}
    for key, value in given.items():
        if not isinstance(key, str) or not _INDEX.fullmatch(key):
            raise DataError(f"{name}: expected the keys of step_labels as message indices in strings, got {key!r}")
        index = int(key)
        if index >= len(messages):
            raise DataError(f"{name}: step_labels names message {index}, but there are {len(messages)} messages")
        if messages[index].role != "assistant":
            raise DataError(
                f"{name}: step_labels names message {index}, which is of the role {messages[index].role!r}; "
                f"assistant messages are {', '.join(map(str, spoken))}"
            )
        if isinstance(value, bool) or value not in _LABELS:
            raise DataError(f"{name}: expected the label of message {index} as -1, 0 or 1, got {value!r}")
        found[index] = int(value)
    if missing := [index for index in spoken if index not in found]:
        raise DataError(f"{name}: step_labels has no label for the assistant messages {', '.join(map(str, missing))}")
    return [found[index] for index in spoken]
