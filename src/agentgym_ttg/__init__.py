"""Multi-turn Gymnasium environments for language-model agents, with Token-to-Go credit.

>>> import gymnasium as gym, agentgym_ttg
>>> env = gym.make("agentgym_ttg/ALFWorld-v0", split="valid_seen")
>>> observation, info = env.reset(seed=0)
>>> observation, reward, terminated, truncated, info = env.step("look")
>>> info["assistant_tokens"] > 0
True
"""

from .envs.registration import register_environments

__version__ = "0.1.0"
__all__ = ["__version__"]

register_environments()
