"""LLM judge: a model behind an OpenAI-compatible server is asked about each step (direct prompting)."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from agentgym_ttg.core.messages import Message
from agentgym_ttg.core.trajectory import Trajectory

from .base import ScorerKind, ScorerSettings, StepScorer

if TYPE_CHECKING:
    from agentgym_ttg.models.chat_server import ChatServer

__all__ = ["LLM_JUDGE", "LLMJudgeScorer", "read_verdict"]

_INSTRUCTION = """\
You judge single steps of an agent. Below are the task, what happened so far, and the step in question with what the \
environment answered. Decide whether this step brought the agent nearer to solving the task.

Answer with one number between <score> and </score>: 1 if the step was right and helped, 0 if it neither helped nor \
harmed, -1 if it was wrong or harmful. Numbers in between are allowed. Write nothing behind it."""
_VERDICT = re.compile(r"<score>\s*([+-]?(?:\d+\.?\d*|\.\d+))\s*</score>")
_MOST_CHARACTERS = 24_000


class LLMJudgeScorer:
    """Asks a model about each step, with the history before it and the observation behind it.

    A verdict that cannot be read is NaN. The judge never sees the outcome, nor what came later.

    Args:
        server: Where the model is.
        max_tokens: Response limit of a verdict.
    """

    def __init__(self, server: ChatServer, *, max_tokens: int = 512) -> None:
        self.name = "llm-judge"
        self.server = server
        self.max_tokens = max_tokens
        self.unreadable = 0

    @property
    def tokens_scored(self) -> int:
        """Tokens of questions and verdicts, by the server's own count."""
        return sum(self.server.usage.values())

    def step_scores(self, trajectories: Sequence[Trajectory]) -> list[NDArray[np.float64]]:
        """Return the verdict on each step; see :class:`~agentgym_ttg.scorers.StepScorer`.

        Raises:
            PolicyError: If the server does not answer.
        """
        from agentgym_ttg.models.chat_server import ChatQuestion

        questions = [
            ChatQuestion(
                self._question(trajectory, step),
                f"about step {step} of {trajectory.task_id!r}",
                max_tokens=self.max_tokens,
            )
            for trajectory in trajectories
            for step in range(len(trajectory))
        ]
        verdicts = iter([read_verdict(str(answer)) for answer in self.server.ask(questions)])
        out = [np.array([next(verdicts) for _ in trajectory.turns], dtype=np.float64) for trajectory in trajectories]
        self.unreadable += sum(int(np.isnan(row).sum()) for row in out)
        return out

    @staticmethod
    def _question(trajectory: Trajectory, step: int) -> list[Message]:
        told: list[str] = []
        for turn in trajectory.turns[:step]:
            told += [f"[{message.role}]\n{message.content}" for message in turn.messages]
            told.append(f"[agent]\n{turn.completion}")
        turn = trajectory.turns[step]
        told += [f"[{message.role}]\n{message.content}" for message in turn.messages]
        history = "\n\n".join(told)
        if len(history) > _MOST_CHARACTERS:  # the task and the latest matter most
            half = _MOST_CHARACTERS // 2
            history = f"{history[:half]}\n\n[… left out …]\n\n{history[-half:]}"
        asked = (
            f"<history>\n{history}\n</history>\n\n<step>\n{turn.completion}\n</step>\n\n"
            f"<answer>\n{turn.observation or '(nothing)'}\n</answer>"
        )
        return [Message("system", _INSTRUCTION), Message("user", asked)]


def read_verdict(text: str) -> float:
    """Return the last score in an answer, cut to [-1, 1]; NaN where there is none.

    >>> read_verdict("It opened the right drawer. <score>1</score>"), read_verdict("good")
    (1.0, nan)
    """
    found = _VERDICT.findall(text)
    return min(max(float(found[-1]), -1.0), 1.0) if found else math.nan


def _build(settings: ScorerSettings) -> StepScorer:
    from agentgym_ttg.models.chat_server import ChatServer

    assert settings.base_url is not None  # `needs`
    server = ChatServer(
        settings.base_url, settings.model, api_key_env=settings.api_key_env, concurrency=settings.concurrency
    )
    return LLMJudgeScorer(server)


LLM_JUDGE = ScorerKind(
    "llm-judge",
    "a model behind an OpenAI-compatible server is asked about each step",
    "direct prompting, the baseline of step-quality studies",
    _build,
    needs=("base_url",),
)
