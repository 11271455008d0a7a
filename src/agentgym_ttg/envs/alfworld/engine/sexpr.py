"""A reader for the Lisp-like text of PDDL: comments out, lower case, nested lists.

PDDL is case-insensitive and the official planner lower-cases everything it reads, so this reader does too.
"""

from __future__ import annotations

import re
from typing import TypeAlias

from agentgym_ttg.core.errors import DataError

__all__ = ["Node", "flatten", "read_sexpr", "strip_comments"]

Node: TypeAlias = "str | list[Node]"

_COMMENT = re.compile(r";[^\n]*")
_TOKEN = re.compile(r"[()]|[^\s()]+")


def strip_comments(text: str) -> str:
    """Return ``text`` without its ``;`` comments.

    >>> strip_comments("(a) ; why").strip()
    '(a)'
    """
    return _COMMENT.sub("", text)


def read_sexpr(text: str, what: str = "PDDL text") -> list[Node]:
    """Read exactly one parenthesised expression.

    Args:
        text: the PDDL text.
        what: how to call the text in an error.

    Returns:
        The expression as nested lists of lower-case symbols.

    Raises:
        DataError: if the parentheses do not match or there is anything outside them.

    >>> read_sexpr("(and (holds ?A Apple))")
    ['and', ['holds', '?a', 'apple']]
    """
    stack: list[list[Node]] = [[]]
    for token in _TOKEN.findall(strip_comments(text).lower()):
        if token == "(":
            stack.append([])
        elif token == ")":
            if len(stack) == 1:
                raise DataError(f"{what}: unexpected ')'; the parentheses do not match")
            closed = stack.pop()
            stack[-1].append(closed)
        else:
            stack[-1].append(token)
    if len(stack) > 1:
        raise DataError(f"{what}: {len(stack) - 1} parenthesis not closed; is the text cut off?")
    top = stack[0]
    if len(top) != 1 or not isinstance(top[0], list):
        raise DataError(f"{what}: expected one expression in parentheses, found {len(top)} items")
    return top[0]


def flatten(node: Node) -> str:
    """Write an expression back on one line (for errors and fingerprints).

    >>> flatten(["and", ["holds", "?a", "apple"]])
    '(and (holds ?a apple))'
    """
    pieces: list[str] = []
    stack: list[Node | None] = [node]
    while stack:
        item = stack.pop()
        if item is None:
            pieces.append(")")
        elif isinstance(item, str):
            pieces.append(item)
        else:
            pieces.append("(")
            stack.append(None)
            stack.extend(reversed(item))
    return " ".join(pieces).replace("( ", "(").replace(" )", ")")
