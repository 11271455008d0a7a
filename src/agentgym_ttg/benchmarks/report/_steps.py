"""Sample trajectories: each step with its text, tokens, estimate, Delta and weight, in colour."""

from __future__ import annotations

import math
from typing import Any

from agentgym_ttg.core.trajectory import Trajectory, Turn

from ._svg import number
from ._text import Html, element, join

__all__ = ["show_trajectory"]

_LONG = 6000
_GOOD, _BAD, _HEAVY = (0, 158, 115), (213, 94, 0), (0, 114, 178)


def _shade(colour: tuple[int, int, int], strength: float) -> str:
    """Return a background between white and the colour."""
    share = 0.75 * min(max(strength, 0.0), 1.0)
    mixed = (round(255 + (channel - 255) * share) for channel in colour)
    return "background:rgb({},{},{})".format(*mixed)


def _value(turn: Turn, name: str) -> float | None:
    value = turn.metadata.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)


def show_trajectory(trajectory: Trajectory, *, opened: bool = False) -> Html:
    """Return a trajectory as a folding table, one row a step.

    Delta is shaded green (progress) and red (regress) relative to the largest of the trajectory, the weight blue
    relative to its largest.
    """
    turns = trajectory.turns
    largest = max((abs(v) for turn in turns if (v := _value(turn, "delta")) is not None), default=0.0)
    heaviest = max((v for turn in turns if (v := _value(turn, "weight")) is not None), default=0.0)
    columns = [
        name
        for name in ("cost", "delta", "weight", "advantage")
        if any(_value(turn, name) is not None for turn in turns)
    ]
    estimated = any(isinstance(turn.metadata.get("estimate"), dict) for turn in turns)
    titles = {
        "cost": "cost" if estimated else "estimated cost",
        "delta": "Δ",
        "weight": "weight",
        "advantage": "advantage",
    }
    head = element(
        "tr",
        *(element("th", name) for name in ("step", "observation and action", "tokens")),
        *([element("th", "estimate")] if estimated else []),
        *(element("th", titles[name]) for name in columns),
    )
    rows = [
        element(
            "tr",
            element("td", step, class_="n"),
            element("td", _words(turn)),
            element("td", turn.tokens, class_="n"),
            *([element("td", _estimate(turn.metadata.get("estimate")), class_="n")] if estimated else []),
            *(_cell(name, _value(turn, name), largest, heaviest) for name in columns),
        )
        for step, turn in enumerate(turns, 1)
    ]
    last = turns[-1].observation if turns else ""
    span = 3 + estimated + len(columns)
    rows.append(element("tr", element("td", ""), element("td", _long(last), class_="obs", colspan=span - 1)))
    return element(
        "details",
        element("summary", _headline(trajectory)),
        _facts(trajectory),
        element("table", head, *rows, class_="steps"),
        open="" if opened else None,
    )


def _headline(trajectory: Trajectory) -> Html:
    update = trajectory.metadata.get("update")
    return join(
        [
            element("b", trajectory.outcome, class_=f"outcome {trajectory.outcome}"),
            f" {trajectory.task_id} · {trajectory.policy or '?'}",
            "" if update is None else f" · update {update}",
            f" · {len(trajectory)} steps, {int(trajectory.token_counts.sum())} assistant tokens, reward "
            f"{number(trajectory.total_reward)}",
        ]
    )


def _facts(trajectory: Trajectory) -> Html:
    known = trajectory.metadata
    facts = []
    if known.get("kept"):
        facts.append(f"kept its original advantage: {known['kept']}")
    if known.get("error"):
        facts.append(f"error: {known['error']}")
    if known.get("task_type"):
        facts.append(f"task type {known['task_type']}")
    return element("p", "; ".join(map(str, facts)), class_="note") if facts else Html("")


def _words(turn: Turn) -> Html:
    said = element("div", _long(str(turn.completion)), class_="act" if turn.valid else "act invalid")
    seen = [
        element("div", _long(message.content), class_="obs" if message.role != "system" else "obs system")
        for message in turn.messages
    ]
    return join([*seen, said])


def _long(text: str) -> Html:
    """Return a text; the middle of a very long one is left out."""
    if len(text) > _LONG:
        left_out = len(text) - _LONG
        text = f"{text[: _LONG // 2]}\n[… {left_out} characters left out …]\n{text[-_LONG // 2 :]}"
    return element("span", text)


def _estimate(estimate: Any) -> str:
    if not isinstance(estimate, dict):
        return ""
    if not estimate.get("valid", True):
        return "invalid"
    remaining = estimate.get("remaining_tokens")
    if not estimate.get("can_complete") or not isinstance(remaining, (int, float)):
        return "cannot complete"
    return f"{remaining:.0f} to go"


def _cell(name: str, value: float | None, largest: float, heaviest: float) -> Html:
    if value is None:
        return element("td", "")
    style = None
    if name == "delta" and largest:
        style = _shade(_GOOD if value > 0 else _BAD, abs(value) / largest)
    elif name == "weight" and heaviest:
        style = _shade(_HEAVY, value / heaviest)
    text = f"{value:+.2f}" if name in ("delta", "advantage") else f"{value:.2f}"
    return element("td", text, class_="n", style=style)
