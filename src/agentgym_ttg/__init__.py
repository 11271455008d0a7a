"""Multi-turn Gymnasium environments for language-model agents, with Token-to-Go credit.

>>> import gymnasium as gym, agentgym_ttg
>>> env = gym.make("agentgym_ttg/ALFWorld-v0", split="valid_seen")
>>> observation, info = env.reset(seed=0)
>>> observation, reward, terminated, truncated, info = env.step("look")
>>> info["assistant_tokens"] > 0
True
"""

import importlib
from typing import TYPE_CHECKING, Any

from .envs.registration import register_environments

if TYPE_CHECKING:
    from .envs.text_env import from_text_env
    from .envs.vector import TextVectorEnv, make_vector_env

__version__ = "0.1.0"
__all__ = ["TextVectorEnv", "__version__", "from_text_env", "make_vector_env"]

_LAZY = {
    "TextVectorEnv": "agentgym_ttg.envs.vector",
    "from_text_env": "agentgym_ttg.envs.text_env",
    "make_vector_env": "agentgym_ttg.envs.vector",
}

register_environments()


def __getattr__(name: str) -> Any:
    """Import what is not needed to register the environments only when it is asked for."""
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
