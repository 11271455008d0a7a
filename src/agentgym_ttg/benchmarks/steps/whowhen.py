"""Who & When: failed logs of several agents, and which step of which agent was the decisive mistake.

A line is ``{"history": [{"name", "role", "content"}, ...], "mistake_step": "3", "mistake_agent": ..., "question": ...,
"id": ...}``. Every message of the history is a step, as the data set counts them. Source:
mingyin1/Agents_Failure_Attribution.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from agentgym_ttg.core.completion import Completion
from agentgym_ttg.core.errors import DataError
from agentgym_ttg.core.messages import Message
from agentgym_ttg.core.trajectory import Trajectory, Turn

from .records import clipped, field_of

__all__ = ["FailureRecord", "read_record"]

_NUMBER = re.compile(r"0|[1-9][0-9]*")


@dataclass(slots=True)
class FailureRecord:
    """A failed trajectory and its decisive mistake.

    Attributes:
        trajectory: What was done.
        mistake: Index of the decisive step.
        agent: Who made the mistake.
        record: Where it stands in its file.
    """

    trajectory: Trajectory
    mistake: int
    agent: str
    record: str


def read_record(place: str, record: dict[str, Any], *, clip: int | None = None) -> FailureRecord:
    """Return the failed trajectory of a record.

    The scorer is shown the question and who speaks; never the right answer or why the step was wrong.

    Args:
        place: Where the record stands, for errors.
        record: Its JSON object.
        clip: Most characters of a step and of the question; the middle is left out.

    Raises:
        DataError: If the history or the mistake are not what the format says; names the record.
    """
    number = record.get("id", record.get("question_ID", ""))
    name = f"{place} (id {number})"
    question = field_of(record, "question", str, name)
    history = field_of(record, "history", list, name)
    if not history:
        raise DataError(f"{name}: the history holds no message, so there is no step")
    turns: list[Turn] = []
    for index, row in enumerate(history):
        if not isinstance(row, dict) or not isinstance(row.get("content"), str):
            raise DataError(f"{name}: expected message {index} of the history as an object with a text in 'content'")
        speaker = str(row.get("name") or row.get("role") or "agent")
        asked = f"{clipped(question, clip)}\n[{speaker}]" if index == 0 else f"[{speaker}]"
        turns.append(Turn((Message("user", asked),), Completion(clipped(row["content"], clip))))
    step = field_of(record, "mistake_step", (str, int), name)
    if isinstance(step, str) and not _NUMBER.fullmatch(step.strip()):
        raise DataError(f"{name}: expected mistake_step as the index of a step, got {step!r}")
    mistake = int(step)
    if not 0 <= mistake < len(turns):
        raise DataError(f"{name}: mistake_step is {mistake}, but the history has {len(turns)} steps (0 is the first)")
    task = str(record.get("question_ID") or number)
    trajectory = Trajectory("whowhen", task, "agents", turns, "failure", 0.0, metadata={"id": number})
    return FailureRecord(trajectory, mistake, str(record.get("mistake_agent") or ""), name)
