"""Between JSON calls, the package's call strings, and JSON schemas."""

from __future__ import annotations

import ast
import keyword
from collections.abc import Mapping
from typing import Any

from agentgym_ttg.core.messages import ToolCall

__all__ = ["call_string", "parse_call", "tool_name", "tool_schema"]

_TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": "string", "double": "number", "long": "integer"}
_JSON_TYPES = {"object", "number", "array", "string", "integer", "boolean", "null"}


def tool_name(name: str) -> str:
    """Return a name as servers of models accept it.

    >>> tool_name("math.factorial")
    'math_factorial'
    """
    return name.replace(".", "_")


def call_string(call: ToolCall) -> str | None:
    r"""Write a call as the package's executor reads it: literals only, so that evaluating it runs nothing else.

    Returns:
        The text; None if an argument's name is no identifier.

    >>> call_string(ToolCall("cd", {"folder": "a'); import os #"}))
    'cd(folder="a\'); import os #")'
    """
    if not call.name.isidentifier() or keyword.iskeyword(call.name):
        return None
    if any(not key.isidentifier() or keyword.iskeyword(key) for key in call.arguments):
        return None
    return f"{call.name}({', '.join(f'{key}={value!r}' for key, value in call.arguments.items())})"


def parse_call(text: str, functions: Mapping[str, Mapping[str, Any]]) -> ToolCall:
    """Read a ground-truth call string.

    Raises:
        ValueError: If it is not a call with literal arguments.

    >>> parse_call("cd('x')", {"cd": {"parameters": {"properties": {"folder": {}}}}})
    ToolCall(name='cd', arguments={'folder': 'x'}, id='')
    """
    node = ast.parse(text.strip(), mode="eval").body
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise ValueError(f"expected a call, got {text!r}")
    names = list(functions.get(node.func.id, {}).get("parameters", {}).get("properties", {}))
    arguments = {name: ast.literal_eval(value) for name, value in zip(names, node.args, strict=False)}
    arguments |= {item.arg: ast.literal_eval(item.value) for item in node.keywords if item.arg}
    return ToolCall(node.func.id, arguments)


def tool_schema(function: Mapping[str, Any], language: str = "Python") -> dict[str, Any]:
    """Return a function of the data as a JSON-schema tool. Java and JavaScript arguments are written as text."""
    parameters = _schema(function.get("parameters", {}))
    if language != "Python":
        for name, schema in parameters.get("properties", {}).items():
            kind = function["parameters"]["properties"][name].get("type", "any")
            note = f" This parameter is of the {language} type {kind}; write its value in a string."
            parameters["properties"][name] = {"type": "string", "description": schema.get("description", "") + note}
    about = {"name": tool_name(function["name"]), "description": function.get("description", "")}
    return {"type": "function", "function": {**about, "parameters": parameters}}


def _schema(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    out = dict(schema)
    kind = out.get("type")
    if isinstance(kind, str):
        kind = _TYPES.get(kind.lower(), kind.lower())
        out["type"] = kind if kind in _JSON_TYPES else "string"
    if isinstance(out.get("properties"), dict):
        out["properties"] = {key: _schema(value) for key, value in out["properties"].items()}
    if isinstance(out.get("items"), dict):
        out["items"] = _schema(out["items"])
    return out
