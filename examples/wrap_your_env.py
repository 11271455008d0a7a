"""Token-to-Go credit for an environment that this project has never seen, in ten lines.

``FrozenLake`` is Gymnasium's own: numbers in, numbers out, no language model anywhere. Lifted to text, it has assistant
tokens; with a progress meter, it has credit. The meter here is a rule; ``meter="path/to/a/trained/meter"`` is the other
way (``python -m agentgym_ttg.meter train recordings.jsonl``).

Run it: ``python examples/wrap_your_env.py``
"""

from __future__ import annotations

from collections.abc import Sequence

import gymnasium as gym

import agentgym_ttg
from agentgym_ttg.core import Trajectory
from agentgym_ttg.meter import Estimate
from agentgym_ttg.wrappers.progress import ProgressCredit


class ManhattanMeter:
    """Counts the fields to the goal: one action each, three tokens an action."""

    name = "manhattan"
    tokens_scored = 0

    def score(self, trajectories: Sequence[Trajectory]) -> list[list[Estimate]]:
        """One estimate for each decision; the protocol asks for no more."""
        return [[self.estimate(turn.messages[-1].content) for turn in trajectory.turns] for trajectory in trajectories]

    def estimate(self, text: str) -> Estimate:
        """Read the field off the observation."""
        field = int(text.split()[-1])
        return Estimate(True, remaining_tokens=3.0 * (6 - field // 4 - field % 4))


def main() -> dict[str, list[float]]:
    env = agentgym_ttg.from_text_env(
        gym.make("FrozenLake-v1", is_slippery=False),
        observe=lambda field: f"You are on field {field}",
        actions=["left", "down", "right", "up"],
    )
    env = ProgressCredit(env, meter=ManhattanMeter(), failure_cost=100)
    observation, info = env.reset(seed=0)
    for action in ["down", "up", "down", "down", "right", "right", "down", "right"]:
        observation, _, _, _, info = env.step(action)
        print(f"{action:6} -> {observation:24} to go {info['ttg']['cost']:4.0f}   delta {info['ttg']['delta']:+.0f}")
    for name, weights in info["credit"].items():
        if name.startswith("weights"):
            print(f"{name}: {[round(weight, 2) for weight in weights]}")
    return info["credit"]


if __name__ == "__main__":
    main()
