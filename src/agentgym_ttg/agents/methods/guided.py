"""Guided acting and its controls: one of several candidates is picked at each step, or the first is taken.

``random-of-n`` samples as many candidates as ``guided``, ``natural`` one; all execute as many steps in the episode, and
their first candidates are the same draws, so that the three are compared task by task.
"""

from __future__ import annotations

from .base import Method
from .react import model_policy

__all__ = ["GUIDED", "NATURAL", "RANDOM_OF_N"]

_SOURCE = "DeltaTTG, test-time guidance (docs/method.md)"

GUIDED = Method(
    "guided",
    "a model offers --candidates actions a step, each is tried in a branch, a step scorer picks (--signal, --meter)",
    _SOURCE,
    "evaluate",
    policy=model_policy,
    choice="scorer",
)
RANDOM_OF_N = Method(
    "random-of-n",
    "a model offers --candidates actions a step, one is picked by chance: a control of guided",
    _SOURCE,
    "evaluate",
    policy=model_policy,
    choice="random",
)
NATURAL = Method(
    "natural",
    "a model acts as it samples: a control of guided",
    _SOURCE,
    "evaluate",
    policy=model_policy,
    choice="first",
)
