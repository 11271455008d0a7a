"""Running calls on the package's executable classes, and judging a dialogue by its checker."""

from __future__ import annotations

import contextlib
import copy
import decimal
import importlib
import itertools
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agentgym_ttg.core.messages import ToolCall

from .calls import call_string
from .package import Package

__all__ = ["UNDEFINED_CALL", "Execution", "refusal"]

#: Stands in a dialogue's record for a call of a function that there is not: it is an answer, but does nothing.
UNDEFINED_CALL = "function_that_is_not_defined()"
_COUNTER = itertools.count()
_MOST_DIGITS = 1_000
_MOST_BITS = 20_000


class Execution:
    """The executable classes of one environment, fresh for each dialogue.

    The package keeps instances among its module's globals under a model's name; every environment has a name of its
    own there, and :meth:`forget` drops what it left. The precision that the calculator sets is set back.
    """

    def __init__(self, package: Package) -> None:
        self.package = package
        self._name = f"agentgym_{os.getpid()}_{next(_COUNTER)}"
        self._entry: Mapping[str, Any] = {}
        self._category = ""

    def begin(self, entry: Mapping[str, Any], category: str) -> None:
        """Start a dialogue."""
        self.forget()
        self._entry, self._category = entry, category

    def run(self, text: str) -> str:
        """Execute a call made by :func:`.calls.call_string`; return what it gives, or its error."""
        with _own_precision():
            results, _ = self.package.multi_turn_utils.execute_multi_turn_func_call(
                [text],
                self._entry["initial_config"],
                self._entry["involved_classes"],
                self._name,
                self._entry["id"],
                long_context="long_context" in self._category,
                is_evaL_run=False,
            )
        return str(results[0])

    def judge(self, decoded: list[list[list[str]]], truth: Sequence[Sequence[str]]) -> bool:
        """Judge a whole dialogue: the calls of each message of each turn, against the ground truth of each turn."""
        entry = {key: copy.deepcopy(self._entry[key]) for key in ("id", "initial_config", "involved_classes")}
        try:
            with _own_precision():
                verdict = self.package.multi_turn_checker(decoded, truth, entry, self._category, f"{self._name}_check")
        except Exception:  # states that the checker cannot compare, such as a folder moved into itself
            return False
        return bool(verdict["valid"])

    def forget(self) -> None:
        """Drop the instances that the package keeps in its module."""
        space = vars(self.package.multi_turn_utils)
        for key in [key for key in space if key.startswith(f"{self._name}_")]:
            del space[key]


def refusal(call: ToolCall, functions: Mapping[str, Mapping[str, Any]]) -> str:
    """Return why a call is not executed, ``""`` if it is: unknown, not to be written as a call, or endless work.

    >>> refusal(ToolCall("power", {"base": 9, "exponent": 10**9}), {"power": {}})
    'Error during execution: the result of power would be too large'
    """
    if call.name not in functions:
        return f"Error during execution: name {call.name[:80]!r} is not defined"
    if call_string(call) is None:
        return f"Error during execution: {call.name}() got an argument whose name is no identifier"
    given = call.arguments
    if call.name == "power":
        base, exponent = given.get("base"), given.get("exponent")
        if isinstance(base, int) and isinstance(exponent, int) and exponent * math.log2(abs(base) + 1) > _MOST_BITS:
            return "Error during execution: the result of power would be too large"
    for name in ("precision", "decimal_places"):
        value = given.get(name)
        if isinstance(value, (int, float)) and abs(value) > _MOST_DIGITS:
            return f"Error during execution: {name} must be at most {_MOST_DIGITS}"
    return ""


@contextlib.contextmanager
def _own_precision() -> Iterator[None]:
    """Undo the calculator's changes of the process's precision."""
    context: Any = importlib.import_module("mpmath").mp
    before = context.prec
    try:
        with decimal.localcontext():
            yield
    finally:
        context.prec = before
