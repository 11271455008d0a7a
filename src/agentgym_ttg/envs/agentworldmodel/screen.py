"""``python -m agentgym_ttg.envs.agentworldmodel.screen FOLDER``: mark tasks that cannot be trusted.

Generated tasks have faults. A task is marked if its world's database does not build, if its code does not start, if it
has no verifier in code, or if the verifier already passes on the untouched database (or fails on it). What is marked is
written to ``screen.json`` in the folder, and the environment leaves it out.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro

from agentgym_ttg.core.errors import AgentGymError, DataError, EngineError

from .env import SCREEN_FILE
from .loading import initial_database, load_worlds
from .records import World
from .sandbox.client import launcher
from .sandbox.guard import Limits

__all__ = ["main", "screen_world"]


@dataclass
class _Options:
    data_dir: tyro.conf.Positional[str | None] = None
    """Folder of published worlds; default the built-in ones."""
    timeout: float = 30.0
    """Seconds for the start of a world and for a verdict."""


def screen_world(world: World, limits: Limits | None = None, timeout: float = 30.0) -> dict[str, str]:
    """Return the ids of a world's faulty tasks, each with the reason."""
    limits = limits or Limits()
    ids = {f"{world.name}/{task.index:04d}": task for task in world.tasks}
    try:
        database = initial_database(world)
    except DataError as error:
        return dict.fromkeys(ids, f"the database does not build: {error}")
    try:
        server = launcher().world(world.name, world.code, database, limits, timeout)
        episode = server.episode(database, timeout)
    except EngineError as error:
        return dict.fromkeys(ids, f"the code does not start: {error}")
    marked: dict[str, str] = {}
    try:
        episode.peer.end()
        shutil.copyfile(database, Path(episode.folder) / "initial.db")
        for task_id, task in ids.items():
            if not task.verifier:
                marked[task_id] = "there is no verifier in code"
                continue
            try:
                if launcher().verdict(task.verifier, episode.folder, "", limits, timeout) == "complete":
                    marked[task_id] = "the verifier passes on the untouched database"
            except EngineError as error:
                marked[task_id] = f"the verifier fails: {error}"
            shutil.copyfile(database, episode.database)
    finally:
        episode.close()
    return marked


def main(args: Sequence[str] | None = None) -> int:
    """Run the command; return 0, or 2 where there is nothing to read."""
    options = tyro.cli(_Options, description=__doc__, args=None if args is None else list(args))
    try:
        worlds = load_worlds(options.data_dir)
    except AgentGymError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    marked: dict[str, str] = {}
    for world in worlds.values():
        found = screen_world(world, timeout=options.timeout)
        marked |= found
        print(f"{world.name}: {len(found)} of {len(world.tasks)} tasks marked", flush=True)
    for reason, count in Counter(reason.partition(":")[0] for reason in marked.values()).most_common():
        print(f"  {count} tasks: {reason}")
    if options.data_dir is not None:
        path = Path(options.data_dir).expanduser() / SCREEN_FILE
        path.write_text(json.dumps({"marked": marked}, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        print(f"written to {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
