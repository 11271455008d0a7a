"""The counting environment at a pace that leaves time to be interrupted."""

import time

import gymnasium as gym
from toy_envs import CountingEnv

SLOW = "toys/Slow-v0"


class SlowEnv(CountingEnv):
    def _act(self, action):
        time.sleep(0.004)
        return super()._act(action)


if SLOW not in gym.registry:
    gym.register(SLOW, entry_point="slow_env:SlowEnv", order_enforce=False, disable_env_checker=True)
