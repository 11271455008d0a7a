"""How fast AgentWorldModel's worlds are: tool calls a second, resets after the first, whole solved episodes.

    python scripts/measure_worlds.py [--transport mcp] [--calls 2000]

Prints JSON. One environment, one process of the world: what a core does.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np

from agentgym_ttg.core.messages import ToolCall
from agentgym_ttg.envs.agentworldmodel.env import AgentWorldModelEnv


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--resets", type=int, default=200)
    parser.add_argument("--transport", default="in-process", choices=("in-process", "mcp"))
    options = parser.parse_args()
    env = AgentWorldModelEnv(transport=options.transport, max_steps=options.calls + 1, expert=True)
    tasks = {task_id.partition("/")[0]: task_id for task_id in env.tasks}
    for task_id in tasks.values():  # the first reset of a world starts its process
        env.reset(options={"task_id": task_id})

    env.reset(options={"task_id": tasks["library"]})
    arguments = {"book": "book 1", "member": "member 1"}
    messages = [
        ToolCall("call_tool", {"tool_name": name, "arguments": {key: arguments[key] for key in keys}}).to_hermes()
        for name, keys in (("show_book", ["book"]), ("lend", ["book", "member"]), ("give_back", ["book"]))
    ]
    started = time.perf_counter()
    for number in range(options.calls):
        env.step(messages[number % len(messages)])
    calls = options.calls / (time.perf_counter() - started)

    took, wins = [], 0
    started = time.perf_counter()
    for number in range(options.resets):
        begun = time.perf_counter()
        _, info = env.reset(options={"task_id": env.tasks[number * 7 % len(env.tasks)]})
        took.append(1000 * (time.perf_counter() - begun))
        over = False
        while not over:
            _, _, terminated, truncated, info = env.step(info["expert_action"])
            over = terminated or truncated
        wins += info["success"]
    episodes = options.resets / (time.perf_counter() - started)
    env.close()
    quantiles = dict(zip(("p50", "p95", "max"), np.quantile(took, (0.5, 0.95, 1.0)).round(1).tolist(), strict=True))
    print(
        json.dumps(
            {
                "transport": options.transport,
                "calls_per_s": round(calls, 1),
                "reset_ms": quantiles,
                "episodes_per_s": round(episodes, 2),
                "solved": f"{wins}/{options.resets}",
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
