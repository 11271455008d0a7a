"""The goals of the six ALFWorld task types, recognised by what their formula says.

The formulas are those of ALFRED's goal library, which ALFWorld writes into every problem. They are matched as a set
of conditions, so the names of the variables, their order and the nesting of ``exists`` do not matter. Anything
else is refused: a goal that is only nearly understood would give wrong wins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agentgym_ttg.core.errors import DataError

from .sexpr import Node, flatten

__all__ = ["TASK_TYPES", "Goal", "TaskType", "goal_formula", "goal_sentences", "read_goal"]

TaskType = Literal[
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
]

TASK_TYPES: tuple[TaskType, ...] = (
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
)
"""The official names, in the official order (1 to 6)."""

_Literal = tuple[str, ...]

_PLACED: frozenset[_Literal] = frozenset(
    {("objecttype", "?o", "OBJECT"), ("receptacletype", "?r", "TARGET"), ("inreceptacle", "?o", "?r")}
)
_FORMS: dict[TaskType, frozenset[_Literal]] = {
    "pick_and_place_simple": _PLACED,
    "pick_clean_then_place_in_recep": _PLACED | {("cleanable", "?o"), ("isclean", "?o")},
    "pick_heat_then_place_in_recep": _PLACED | {("heatable", "?o"), ("ishot", "?o")},
    "pick_cool_then_place_in_recep": _PLACED | {("coolable", "?o"), ("iscool", "?o")},
    "pick_two_obj_and_place": _PLACED
    | {("objecttype", "?p", "OBJECT"), ("inreceptacle", "?p", "?r"), ("not =", "?o", "?p")},
    "look_at_obj_in_light": frozenset(
        {
            ("objecttype", "?o", "OBJECT"),
            ("holds", "?a", "?o"),
            ("objecttype", "?t", "TARGET"),
            ("toggleable", "?t"),
            ("istoggled", "?t"),
            ("receptacleatlocation", "?s", "?l"),
            ("atlocation", "?b", "?l"),
            ("inreceptacle", "?t", "?s"),
        }
    ),
}
_SORTS: dict[str, str] = {
    "?o": "object", "?p": "object", "?t": "object", "?r": "receptacle", "?s": "receptacle",
    "?a": "agent", "?b": "agent", "?l": "location",
}  # fmt: skip

_SENTENCES: dict[TaskType, tuple[str, str]] = {
    "pick_and_place_simple": ("put a {obj} in {target}.", "put some {obj} on {target}."),
    "look_at_obj_in_light": ("look at {obj} under the {target}.", "examine the {obj} with the {target}."),
    "pick_clean_then_place_in_recep": (
        "put a clean {obj} in {target}.",
        "clean some {obj} and put it in {target}.",
    ),
    "pick_heat_then_place_in_recep": (
        "put a hot {obj} in {target}.",
        "heat some {obj} and put it in {target}.",
    ),
    "pick_cool_then_place_in_recep": (
        "put a cool {obj} in {target}.",
        "cool some {obj} and put it in {target}.",
    ),
    "pick_two_obj_and_place": ("put two {obj} in {target}.", "find two {obj} and put them in {target}."),
}


@dataclass(frozen=True, slots=True)
class Goal:
    """What has to hold in the end.

    Attributes:
        task_type: one of the six official names.
        object_kind: the kind of object to place or to look at, in lower case, such as ``apple``.
        target_kind: the kind of receptacle to place it in; for ``look_at_obj_in_light`` the kind of lamp.
    """

    task_type: TaskType
    object_kind: str
    target_kind: str


def goal_sentences(goal: Goal) -> tuple[str, str]:
    """Return the two sentences with which official games state this goal.

    >>> goal_sentences(Goal("pick_two_obj_and_place", "pen", "drawer"))
    ('put two pen in drawer.', 'find two pen and put them in drawer.')
    """
    first, second = _SENTENCES[goal.task_type]
    words = {"obj": goal.object_kind, "target": goal.target_kind}
    return first.format(**words), second.format(**words)


def goal_formula(goal: Goal) -> str:
    """Write the goal as PDDL, in a form that :func:`read_goal` and the official engine both read."""
    literals = _FORMS[goal.task_type]
    variables = sorted({word for literal in literals for word in literal[1:] if word.startswith("?")})
    kinds = {"OBJECT": f"{goal.object_kind}type", "TARGET": f"{goal.target_kind}type"}
    conditions = []
    for literal in sorted(literals):
        name, *arguments = (kinds.get(word, word) for word in literal)
        inner = " ".join(arguments)
        conditions.append(f"(not (= {inner}))" if name == "not =" else f"({name} {inner})")
    declared = " ".join(f"{variable} - {_SORTS[variable]}" for variable in variables)
    return f"(and (exists ({declared}) (and {' '.join(conditions)})))"


def read_goal(node: Node, what: str = "the problem") -> Goal:
    """Recognise a goal formula.

    Args:
        node: the expression that follows ``:goal``.
        what: how to call the problem in an error.

    Returns:
        The goal.

    Raises:
        DataError: if the formula is none of the six.
    """
    literals: list[_Literal] = []
    sorts: dict[str, str] = {}
    _collect(node, {}, literals, sorts, what)
    found = frozenset(literals)
    for task_type, form in _FORMS.items():
        goal = _match(task_type, form, found, sorts)
        if goal is not None:
            return goal
    raise DataError(
        f"{what}: the goal is none of the six ALFWorld task types ({', '.join(TASK_TYPES)}): "
        f"{flatten(node)[:600]}. "
        "Games with sliced objects or movable receptacles are not part of ALFWorld's text games."
    )


def _collect(node: Node, scope: dict[str, str], literals: list[_Literal], sorts: dict[str, str], what: str) -> None:
    """Flatten a conjunction with nested ``exists`` into literals over variables that are unique in the whole goal."""
    if not isinstance(node, list) or not node or not isinstance(node[0], str):
        raise DataError(f"{what}: cannot read the goal at {flatten(node)[:200]}")
    head = node[0]
    if head == "and":
        for child in node[1:]:
            _collect(child, scope, literals, sorts, what)
    elif head == "exists" and len(node) == 3 and isinstance(node[1], list):
        inner = dict(scope)
        pending: list[str] = []
        words = iter(node[1])
        for word in words:
            if word == "-":
                sort = str(next(words, "object"))
                for name in pending:
                    sorts[inner[name]] = sort
                pending = []
            else:
                inner[str(word)] = f"?{len(sorts) + len(pending)}"
                pending.append(str(word))
        for name in pending:
            sorts[inner[name]] = "object"
        _collect(node[2], inner, literals, sorts, what)
    else:
        if head == "not" and len(node) == 2 and isinstance(node[1], list) and node[1][:1] == ["="]:
            head, arguments = "not =", node[1][1:]
        else:
            arguments = node[1:]
        if not all(isinstance(word, str) for word in arguments):
            raise DataError(f"{what}: the goal uses {head!r}, which no ALFWorld goal does: {flatten(node)[:200]}")
        renamed = [scope.get(str(word), str(word)) for word in arguments]
        literals.append((head, *(sorted(renamed) if head == "not =" else renamed)))


def _match(
    task_type: TaskType, form: frozenset[_Literal], found: frozenset[_Literal], sorts: dict[str, str]
) -> Goal | None:
    """Bind the words of a form to those of the goal, one literal after the other; None where that fails."""
    if len(form) != len(found):
        return None

    def bind(rest: list[_Literal], left: frozenset[_Literal], names: dict[str, str]) -> dict[str, str] | None:
        if not rest:
            return names if not left else None
        literal = rest[0]
        for candidate in left:
            if candidate[0] != literal[0] or len(candidate) != len(literal):
                continue
            for words in (candidate[1:], candidate[:0:-1]) if literal[0] == "not =" else (candidate[1:],):
                merged = dict(names)
                if all(merged.setdefault(key, word) == word for key, word in zip(literal[1:], words, strict=True)):
                    result = bind(rest[1:], left - {candidate}, merged)
                    if result is not None:
                        return result
        return None

    names = bind(sorted(form, key=lambda literal: (literal[0] != "objecttype", literal)), found, {})
    if names is None:
        return None
    if any(sorts.get(word) != _SORTS[key] for key, word in names.items() if key in _SORTS):
        return None
    kind, target = names["OBJECT"], names["TARGET"]
    if not (kind.endswith("type") and target.endswith("type")) or kind.startswith("?") or target.startswith("?"):
        return None
    return Goal(task_type, kind.removesuffix("type"), target.removesuffix("type"))
