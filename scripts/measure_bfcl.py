"""Replay BFCL's ground truth through the environment, many times over: speed, verdicts, and memory.

    python scripts/measure_bfcl.py --episodes 5000 [--version v4]

Prints a line every thousand episodes and a summary as JSON. Memory is the resident set after a garbage collection;
`growth_kb_per_1000` compares the end with the first time every dialogue had been played once.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import time

from agentgym_ttg.envs.bfcl.env import BFCLEnv
from agentgym_ttg.envs.bfcl.package import MULTI_TURN


def resident_kb() -> int:
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize() // 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=5000)
    parser.add_argument("--version", default="v3", choices=("v3", "v4"))
    options = parser.parse_args()
    env = BFCLEnv(version=options.version, categories=MULTI_TURN, expert=True)
    tasks = list(env.tasks)
    started, cpu = time.perf_counter(), time.process_time()
    wins = calls = first = 0
    first_pass = 0.0
    for number in range(options.episodes):
        _, info = env.reset(options={"task_id": tasks[number % len(tasks)]})
        over = False
        while not over:
            _, _, terminated, truncated, info = env.step(info["expert_action"])
            over = terminated or truncated
            calls += 1
        wins += info["success"]
        if number + 1 == len(tasks):
            first, first_pass = resident_kb(), time.process_time() - cpu
        if (number + 1) % 1000 == 0:
            print(f"{number + 1} episodes, {resident_kb()} kB", flush=True)
    last = resident_kb()
    later = max(options.episodes - len(tasks), 1)
    print(
        json.dumps(
            {
                "episodes": options.episodes,
                "valid": wins,
                "messages": calls,
                "cpu_s_of_first_pass": round(first_pass, 2),
                "wall_s": round(time.perf_counter() - started, 2),
                "resident_kb_after_first_pass": first,
                "resident_kb_at_end": last,
                "growth_kb_per_1000": round((last - first) * 1000 / later, 1) if first else None,
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
