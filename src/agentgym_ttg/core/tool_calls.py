"""Reading tool calls out of assistant text.

The JSON is read by a decoder that knows where a value ends, so a ``</tool_call>`` inside a string, nested braces
and calls glued together are no trouble. What cannot be read becomes a :class:`ToolCallError` in its place, and the
calls around it still run.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from .messages import ToolCall

__all__ = ["ToolCallError", "parse_tool_calls"]

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_MARK = re.compile(r"<think>|</think>|<tool_call>")
_SPACE = re.compile(r"(?:[\s,;]|```(?:json)?|</tool_call>)*")  # what may stand between bare calls
_SPACE_IN_TAG = re.compile(r"(?:[\s,;]|```(?:json)?)*")
_FENCE = re.compile(r"\A```(?:json|python)?\s*(.*?)\s*```\Z", re.DOTALL)
_LLAMA_TAG = "<|python_tag|>"
_DEEPEST = 100  # nesting of a call's JSON; what reads it later may recurse


@dataclass(frozen=True, slots=True)
class ToolCallError:
    """A call that could not be read.

    Attributes:
        message: What was wrong, worded for the model that wrote it.
        text: The offending text, shortened.
    """

    message: str
    text: str = ""


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError("an object names the same key twice")
    return out


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is too large for a number")
    return value


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_unique_keys)


def _decode(text: str, position: int = 0) -> tuple[Any, int]:
    """Read one JSON value; return it and where it ends.

    Raises:
        ValueError: If there is none, or it is nested too deep.
    """
    try:
        value, end = _DECODER.raw_decode(text, position)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    level, depth = [value], 0
    while level := [item for one in level for item in _items(one)]:
        depth += 1
        if depth > _DEEPEST:
            raise ValueError("it is nested too deep")
    return value, end


def _items(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def parse_tool_calls(text: str) -> tuple[str, str, list[ToolCall | ToolCallError]]:
    """Split a message into reasoning, text outside the calls, and the calls in order.

    Understands Hermes/Qwen tags and bare JSON as Llama and the OpenAI format write it: an object with ``name`` and
    ``arguments`` or ``parameters``, an object with a ``function`` object or a ``tool_calls`` list, a list of such
    objects, several separated by ``;``; in a code fence or behind ``<|python_tag|>``.

    >>> parse_tool_calls('<think>hm</think>ok <tool_call>{"name": "f", "arguments": {"x": 1}}</tool_call>')
    ('hm', 'ok', [ToolCall(name='f', arguments={'x': 1}, id='')])
    >>> parse_tool_calls('{"name": "f", "parameters": {}}')[2]
    [ToolCall(name='f', arguments={}, id='')]
    >>> parse_tool_calls('<tool_call>{"name": "f", "arguments": [1]}</tool_call>')[2][0].message
    "the arguments of 'f' must be a JSON object, got list"
    """
    if "think>" in text and (bare := _bare(text.strip())) is not None and _complete(bare):
        return "", bare[1], bare[0]  # the marks stand inside strings
    reasoning: list[str] = []
    said: list[str] = []
    calls: list[ToolCall | ToolCallError] = []
    position, depth = 0, 0
    while match := _MARK.search(text, position):
        piece = text[position : match.start()]
        (reasoning if depth else said).append(piece)
        position = match.end()
        mark = match.group()
        if mark == "<think>":
            depth += 1
        elif mark == "</think>":
            if depth == 0:  # the template opened the tag in the prompt: all so far was reasoning
                reasoning.extend(said)
                said.clear()
                calls.clear()
            depth = max(depth - 1, 0)
        elif depth == 0:
            found, position = _tagged(text, position)
            calls.extend(found)
    (reasoning if depth else said).append(text[position:])
    thought, outside = "".join(reasoning).strip(), "".join(said).strip()
    if calls:
        return thought, outside.replace(_CLOSE, "").strip(), calls  # a doubled closing tag is no answer
    if (bare := _bare(outside)) is not None:
        return thought, bare[1], bare[0]
    if _CLOSE in outside:
        calls.append(ToolCallError("</tool_call> closes no call: the <tool_call> tag is missing", _short(outside)))
        outside = ""
    return thought, outside, calls


def _tagged(text: str, start: int) -> tuple[list[ToolCall | ToolCallError], int]:
    """Read the calls behind an opening tag; return them and where reading goes on."""
    calls: list[ToolCall | ToolCallError] = []
    position = _skip(_SPACE_IN_TAG, text, start)
    if text.startswith(_OPEN, position):  # the tag is doubled, or its call was left out: the next one counts
        return calls, position
    while position < len(text) and not text.startswith((_CLOSE, _OPEN), position):
        try:
            value, position = _decode(text, position)
        except ValueError as error:
            end = _recover(text, position)
            calls.append(_broken(text[position:end], error))
            position = end
            break
        calls.extend(_calls_of(value))
        position = _skip(_SPACE_IN_TAG, text, position)
    if not calls:
        calls.append(ToolCallError("the <tool_call> tag is empty"))
    if text.startswith(_CLOSE, position):
        position += len(_CLOSE)
    return calls, position


def _skip(pattern: re.Pattern[str], text: str, position: int) -> int:
    match = pattern.match(text, position)
    return match.end() if match else position


def _recover(text: str, position: int) -> int:
    """Find the end of an unreadable call: the next tag, whichever comes first."""
    ends = [end for mark in (_CLOSE, _OPEN) if (end := text.find(mark, position)) >= 0]
    return min(ends, default=len(text))


def _bare(said: str) -> tuple[list[ToolCall | ToolCallError], str] | None:
    """Read a message that begins with JSON calls; return them and the text behind. None if it is ordinary text."""
    fence = _FENCE.match(said)
    tagged = said.startswith(_LLAMA_TAG)
    body = fence.group(1) if fence else said.removeprefix(_LLAMA_TAG).strip()
    if not body.startswith(("{", "[")):
        return None
    values: list[Any] = []
    position = 0
    broken: list[ToolCall | ToolCallError] = []
    while position < len(body) and body[position] in "{[":
        try:
            value, position = _decode(body, position)
        except ValueError as error:
            broken = [_broken(body[position:], error)]
            break
        values.append(value)
        position = _skip(_SPACE, body, position)
    meant = any(_looks_like_call(value) for value in values)
    if broken:
        # Broken JSON is a broken call only if it was meant as one; "[1] says so" and "{x} is a set" are answers.
        rest = body[position:]
        if not (meant or tagged or ('"name"' in rest and ('"arguments"' in rest or '"parameters"' in rest))):
            return None
        return [*_flatten(values), *broken], ""
    if not (meant or tagged):
        return None  # an answer that happens to be JSON
    return list(_flatten(values)), body[position:].strip()


def _complete(bare: tuple[list[ToolCall | ToolCallError], str]) -> bool:
    return not bare[1] and all(isinstance(call, ToolCall) for call in bare[0])


def _looks_like_call(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and all(_looks_like_call(item) for item in value)
    return isinstance(value, dict) and (
        isinstance(value.get("tool_calls"), list)
        or isinstance(value.get("function"), dict)
        or ("name" in value and ("arguments" in value or "parameters" in value))
    )


def _flatten(values: list[Any]) -> Iterator[ToolCall | ToolCallError]:
    for value in values:
        yield from _calls_of(value)


def _calls_of(value: Any) -> list[ToolCall | ToolCallError]:
    """Return the calls that one decoded JSON value holds."""
    if isinstance(value, dict) and isinstance(value.get("tool_calls"), list):
        value = value["tool_calls"]
    if isinstance(value, list):
        if not value:
            return [ToolCallError("the list of calls is empty")]
        return [_call_of(item) for item in value]
    return [_call_of(value)]


def _call_of(value: Any) -> ToolCall | ToolCallError:
    if not isinstance(value, dict):
        return ToolCallError(f"a call must be a JSON object, got {type(value).__name__}", _short(repr(value)))
    inner = value.get("function")
    body = inner if isinstance(inner, dict) else value
    name = body.get("name")
    if not isinstance(name, str) or not name:
        return ToolCallError('a call must name its tool: {"name": …, "arguments": {…}}', _short(repr(value)))
    if "arguments" in body and "parameters" in body:
        return ToolCallError(f"the call of {name!r} has both arguments and parameters", _short(repr(value)))
    arguments = body.get("arguments", body.get("parameters"))
    if arguments is None:
        if "arguments" in body or "parameters" in body:
            return ToolCallError(f"the arguments of {name!r} must be a JSON object, got null")
        return ToolCallError(f'the call of {name!r} has no "arguments"; write {{}} if the tool takes none')
    if isinstance(arguments, str):  # the OpenAI form: arguments as JSON text
        try:
            decoded, end = _decode(arguments.strip())
            if end < len(arguments.strip()):
                raise ValueError("there is text behind the object")
            arguments = decoded
        except ValueError as error:
            return _broken(arguments, error, f"the arguments of {name!r}")
    if not isinstance(arguments, dict):
        return ToolCallError(
            f"the arguments of {name!r} must be a JSON object, got {type(arguments).__name__}", _short(repr(arguments))
        )
    call_id = value.get("id")
    return ToolCall(name, arguments, call_id if isinstance(call_id, str) else "")


def _broken(text: str, error: Exception, what: str = "the call") -> ToolCallError:
    why = error.msg if isinstance(error, json.JSONDecodeError) else str(error)[:200]
    where = f" at character {error.pos}" if isinstance(error, json.JSONDecodeError) else ""
    return ToolCallError(f"{what} is not valid JSON: {why}{where}", _short(text))


def _short(text: str, limit: int = 120) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
