"""What a generative meter says, and how it is read. Nothing is guessed: what cannot be read is invalid."""

from __future__ import annotations

import json
import math
from typing import Any

from .base import Estimate
from .labels import Target

__all__ = [
    "ANSWER_PREFIX",
    "CLOSING",
    "answer_pieces",
    "default_instruction",
    "format_answer",
    "parse_answer",
    "value_key",
]

#: What every answer begins with; ``true`` or ``false`` follows (the completion logit is read there).
ANSWER_PREFIX = '<answer>{"can_complete":'
CLOSING = "</answer>"


def value_key(target: Target) -> str:
    """Return the name of the number in the answer."""
    return "remaining_steps" if target == "steps" else "remaining_tokens"


def answer_pieces(can_complete: bool, value: float | None, target: Target = "tokens") -> list[str]:
    """Return the answer in the pieces that are tokenised one by one, so that both classes share their beginning.

    >>> "".join(answer_pieces(True, 123))
    '<answer>{"can_complete":true,"remaining_tokens":123}</answer>'
    """
    number = str(round(value)) if can_complete and value is not None else "null"
    return [ANSWER_PREFIX, "true" if can_complete else "false", f',"{value_key(target)}":', number, "}" + CLOSING]


def format_answer(can_complete: bool, value: float | None, target: Target = "tokens") -> str:
    """Return the answer as text.

    >>> format_answer(False, None)
    '<answer>{"can_complete":false,"remaining_tokens":null}</answer>'
    """
    return "".join(answer_pieces(can_complete, value, target))


def parse_answer(text: str, target: Target = "tokens", *, integer_floats: bool = False) -> Estimate:
    """Read the last ``<answer>…</answer>`` of a text.

    Args:
        text: What the model said.
        target: Names the number.
        integer_floats: Whether ``123.0`` is a number of tokens; by default only integers are (spec, section 4).

    Returns:
        The estimate; :meth:`Estimate.invalid` if there is no block, no JSON object in it, no boolean class, or the
        class is true without a finite number >= 0. A number beside ``false`` is ignored.

    >>> parse_answer('so: <answer>{"can_complete":true,"remaining_tokens":40}</answer>').remaining_tokens
    40.0
    >>> parse_answer('<answer>{"can_complete":true,"remaining_tokens":-1}</answer>').valid
    False
    """
    end = text.rfind(CLOSING)
    start = text.rfind("<answer>", 0, end) if end >= 0 else -1
    if start < 0:
        return Estimate.invalid()
    try:
        answer = json.loads(text[start + len("<answer>") : end], parse_constant=_refuse)
    except (ValueError, RecursionError):
        return Estimate.invalid()
    if not isinstance(answer, dict) or not isinstance(can := answer.get("can_complete"), bool):
        return Estimate.invalid()
    if not can:
        return Estimate(False, None)
    value = _number(answer.get(value_key(target)), integer_floats)
    return Estimate.invalid() if value is None else Estimate(True, value)


def _number(value: Any, integer_floats: bool) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, float) and not (integer_floats and value.is_integer()):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no number of tokens")


def default_instruction(target: Target = "tokens") -> str:
    """Return what a generative meter is told before the history."""
    unit = "actions the assistant will still take" if target == "steps" else "tokens the assistant will still write"
    return (
        "You measure the progress of an assistant that works on a task in several turns. You are shown the task and "
        "everything that was said and observed so far. Judge whether the task can still be completed from here and, "
        f"if so, estimate how many {unit} until it is done (observations do not count). Answer with exactly one line: "
        f"{format_answer(True, 123, target)} or {format_answer(False, None, target)}"
    )
