"""Methods that follow ``info`` instead of a model: the floor, the ceiling, and what lies between."""

from __future__ import annotations

from ..policies.base import Policy
from ..policies.scripted import ExpertPolicy, NoisyExpertPolicy, RandomPolicy
from .base import Method, PolicySettings

__all__ = ["EXPERT", "NOISY_EXPERT", "RANDOM"]


def _random(settings: PolicySettings) -> Policy:
    return RandomPolicy(settings.format)


def _expert(settings: PolicySettings) -> Policy:
    return ExpertPolicy()


def _noisy(settings: PolicySettings) -> Policy:
    return NoisyExpertPolicy(settings.noise, settings.format)


RANDOM = Method("random", "a uniformly random admissible action", "this project", "evaluate", policy=_random)
EXPERT = Method(
    "expert", "the environment's own expert", "this project", "evaluate", policy=_expert, env_kwargs={"expert": True}
)
NOISY_EXPERT = Method(
    "noisy-expert",
    "the expert, but a random step with probability --noise",
    "this project",
    "evaluate",
    policy=_noisy,
    env_kwargs={"expert": True},
)
