"""One vector entry point for each registered environment.

``gym.make_vec`` looks a vector entry point up as ``module:attribute`` and does not tell it which environment it is for.
So there is an attribute for each id, its name without the namespace: ``agentgym_ttg.envs.vector_entry:ALFWorld-v0``.
An environment that is registered elsewhere needs two lines::

    def make_vec(num_envs=1, **kwargs):
        return make_vector_env("my/Env-v0", num_envs, **kwargs)
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from .registration import ENVIRONMENTS
from .vector import TextVectorEnv, make_vector_env

__all__: list[str] = []


def __getattr__(name: str) -> Callable[..., TextVectorEnv]:
    """Return the entry point of the environment with this short id."""
    for env_id in ENVIRONMENTS:
        if env_id.rsplit("/", 1)[-1] == name:
            return functools.partial(make_vector_env, env_id)
    raise AttributeError(f"module {__name__!r} has no entry point {name!r}")
