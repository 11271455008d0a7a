"""Policies that follow ``info`` instead of a model: random, expert, and an expert that errs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentgym_ttg.core.actions import ActionFormat, PlainFormat
from agentgym_ttg.core.completion import Completion
from agentgym_ttg.core.errors import ConfigError, PolicyError

from .base import GenerationRequest

__all__ = ["ExpertPolicy", "NoisyExpertPolicy", "RandomPolicy"]


class _Scripted:
    """Answers each request by itself; keeps nothing."""

    name: str

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
        """Answer every request, in order.

        Raises:
            PolicyError: If ``info`` does not carry what the policy follows.
        """
        return [Completion(self._answer(request), finish_reason="stop") for request in requests]

    def release(self, episode_ids: Iterable[str]) -> None:
        """Nothing is kept, so nothing is forgotten."""

    def _answer(self, request: GenerationRequest) -> str:
        raise AssertionError("a scripted policy answers")


def _random_command(request: GenerationRequest) -> str:
    commands = request.info.get("admissible_actions") or []
    if not commands:
        raise PolicyError(
            "a random action needs info['admissible_actions'], which is empty in task "
            f"{request.info.get('task_id')!r}; this environment does not list its actions"
        )
    return str(commands[int(request.rng.integers(len(commands)))])


def _expert_message(request: GenerationRequest) -> str:
    message = request.info.get("expert_action")
    if not message:
        raise PolicyError(
            f"the expert follows info['expert_action'], which is missing in task {request.info.get('task_id')!r}; "
            "make the environment with expert=True"
        )
    return str(message)


class RandomPolicy(_Scripted):
    """A uniformly random admissible action.

    Args:
        action_format: Writes the command as a message; the environment's ``format``.
        name: For the record.

    >>> import numpy as np
    >>> request = GenerationRequest("e", [], {"admissible_actions": ["look"]}, np.random.default_rng(0))
    >>> RandomPolicy().generate([request])
    [Completion('look')]
    """

    def __init__(self, action_format: ActionFormat | None = None, *, name: str = "random") -> None:
        self.format = action_format or PlainFormat()
        self.name = name

    def _answer(self, request: GenerationRequest) -> str:
        return self.format.render(_random_command(request))


class ExpertPolicy(_Scripted):
    """The environment's own expert; the environment is made with ``expert=True``.

    Args:
        name: For the record.
    """

    def __init__(self, *, name: str = "expert") -> None:
        self.name = name

    def _answer(self, request: GenerationRequest) -> str:
        return _expert_message(request)


class NoisyExpertPolicy(_Scripted):
    """The expert, except that a step is a random admissible action with probability ``p``.

    Args:
        p: Probability of a random step, in [0, 1].
        action_format: Writes the random command as a message; the environment's ``format``.
        name: For the record; default ``noisy:p``.

    Raises:
        ConfigError: If ``p`` is no probability.
    """

    def __init__(self, p: float, action_format: ActionFormat | None = None, *, name: str | None = None) -> None:
        if not 0 <= p <= 1:
            raise ConfigError(f"expected the probability of a random step in [0, 1], got {p}")
        self.p = p
        self.format = action_format or PlainFormat()
        self.name = name or f"noisy:{p:g}"

    def _answer(self, request: GenerationRequest) -> str:
        # The number is drawn in either case, so that the stream of an episode does not depend on its outcome.
        if request.rng.random() < self.p:
            return self.format.render(_random_command(request))
        return _expert_message(request)
