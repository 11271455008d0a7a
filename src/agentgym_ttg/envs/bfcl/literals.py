"""The published answers of single-turn tasks as calls; values of Java and JavaScript written in their language."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agentgym_ttg.core.messages import ToolCall

from .calls import tool_name

__all__ = ["ground_truth_calls", "java_literal", "javascript_literal"]

Functions = Sequence[Mapping[str, Any]]


def ground_truth_calls(
    truth: Sequence[Mapping[str, Mapping[str, Sequence[Any]]]], functions: Functions = (), language: str = "Python"
) -> list[ToolCall]:
    """Return one acceptable answer of a single-turn task: of each argument its first value that is not left out.

    Args:
        truth: The published answer: for each call its name, and for each argument the accepted values.
        functions: The task's functions, whose types say how a value is written.
        language: ``Python``, ``Java`` or ``JavaScript``; the latter two take every value as text.

    >>> ground_truth_calls([{"math.area": {"side": [3], "unit": ["", "cm"]}}])
    [ToolCall(name='math_area', arguments={'side': 3}, id='')]
    """
    known = {one["name"]: one.get("parameters", {}) for one in functions}
    out = []
    for item in truth:
        for name, arguments in item.items():
            if name not in known and len(known) == 1:
                (name,) = known  # one published answer names its only function by another name
            required = known.get(name, {}).get("required", ())
            chosen = {
                key: _first(([one for one in options if one != ""] or "") if key in required else options)
                for key, options in arguments.items()
                if key in required or not _optional(options)
            }
            if language != "Python":
                write = java_literal if language == "Java" else javascript_literal
                declared = known.get(name, {}).get("properties", {})
                chosen = {key: write(value, declared.get(key, {})) for key, value in chosen.items()}
            out.append(ToolCall(tool_name(name), chosen))
    return out


def java_literal(value: Any, declared: Mapping[str, Any]) -> str:
    """Write a value as Java source, by the declared type of its parameter.

    >>> java_literal(42, {"type": "long"}), java_literal(["a"], {"type": "Array", "items": {"type": "String"}})
    ('42L', 'new String[]{a}')
    """
    kind = str(declared.get("type", "any"))
    inner = str(declared.get("items", {}).get("type", "any")) if isinstance(declared.get("items"), Mapping) else "any"
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        puts = " ".join(f'put("{key}", {_java_element(item, "any")});' for key, item in value.items())
        return f"new HashMap<String, Object>() {{{{ {puts} }}}}"
    if isinstance(value, list) and kind == "ArrayList":
        return f"new ArrayList<>(Arrays.asList({', '.join(_java_element(item, inner) for item in value)}))"
    if isinstance(value, list):
        # The package's reader of arrays keeps quotation marks as part of a declared String.
        items = [item if inner == "String" else _java_element(item, inner) for item in value]
        return f"new {'Object' if inner == 'any' else inner}[]{{{', '.join(map(str, items))}}}"
    return _java_element(value, kind)


def _java_element(value: Any, kind: str) -> str:
    if isinstance(value, str):
        return f"'{value}'" if kind == "char" else f'"{value}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value}{ {'long': 'L', 'float': 'f'}.get(kind, '') }"


def javascript_literal(value: Any, declared: Mapping[str, Any]) -> str:
    """Write a value as JavaScript source, by the declared type of its parameter.

    >>> javascript_literal(["a", True], {"type": "array"}), javascript_literal(5, {"type": "Bigint"})
    ('["a", true]', '5n')
    """
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)}: {_script_element(item)}" for key, item in value.items()) + "}"
    if declared.get("type") == "Bigint" and isinstance(value, int) and not isinstance(value, bool):
        return f"{value}n"
    return json.dumps(value, ensure_ascii=False)


def _script_element(value: Any) -> str:
    if isinstance(value, str):
        return value if value.isidentifier() else json.dumps(value, ensure_ascii=False)
    return javascript_literal(value, {})


def _optional(options: Any) -> bool:
    return isinstance(options, list) and (not options or "" in options[:1])


def _first(options: Any) -> Any:
    return _concrete(options[0]) if isinstance(options, list) and options else options


def _concrete(value: Any) -> Any:
    """Resolve an answer that is itself a set of alternatives."""
    if isinstance(value, dict):
        return {
            key: _concrete(_first(options)) if isinstance(options, list) else options
            for key, options in value.items()
            if not _optional(options)
        }
    if isinstance(value, list):
        return [_concrete(item) for item in value]
    return value
