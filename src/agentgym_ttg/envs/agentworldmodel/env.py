"""The AgentWorldModel environment: tools over a database, a verifier at the end."""

from __future__ import annotations

import json
import os
import re
import shutil
import warnings
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, get_args
from zlib import crc32

import numpy as np

from agentgym_ttg.core.actions import Action
from agentgym_ttg.core.errors import ConfigError
from agentgym_ttg.core.messages import Message, ToolCall
from agentgym_ttg.core.tool_calls import ToolCallError
from agentgym_ttg.envs.base import MultiTurnEnv, StepResult
from agentgym_ttg.envs.tasks import Task, TaskSet

from .loading import DATA_VARIABLE, SPLITS, initial_database, load_worlds, task_ids, worlds_hash
from .records import World, WorldTask
from .sandbox.client import EpisodeProcess, Transport, launcher, require_packages
from .sandbox.guard import Limits
from .texts import META_TOOLS, error_detail, render_call, sample_argument, tool_listing

__all__ = ["SCREEN_FILE", "AgentWorldModelEnv"]

#: What ``screen`` writes into a data folder, and the environment reads there.
SCREEN_FILE = "screen.json"
_START_TIMEOUT = 60.0
_LONGEST = 8_000
_ENTITY = re.compile(r"\b[a-z]+ \d+\b")


class _State(NamedTuple):
    database: bytes
    calls: int
    errors: int
    owed: tuple[ToolCall, ...]


class AgentWorldModelEnv(MultiTurnEnv):
    """Tasks in small worlds behind tools, ``agentgym_ttg/AgentWorldModel-v0``.

    A message with tool calls acts: the two tools are ``list_tools`` and ``call_tool(tool_name, arguments)``, and each
    call is answered by one tool message. A message without a call is the final answer; it ends the episode, and the
    task's verifier compares the databases before and after and reads the answer. Reward 1 if it says ``complete``.

    The world's code is not trusted: it runs in a process with limits. If it hangs, exits, eats memory, opens a socket
    or writes outside its folder, the episode ends with an :class:`~agentgym_ttg.core.errors.EngineError`.

    A quarter of the tasks, by a hash of their id, is the split ``test``. ``info["admissible_actions"]`` holds a handful
    of plausible calls, sampled anew at each step; they are a playground for scripted policies, not all there is.

    Args:
        split: ``train`` or ``test``.
        data_dir: Folder or hub id of published ``gen_*.jsonl``; None for ``$AGENTWORLDMODEL_DATA``, and
            where that is not set, for the built-in worlds.
        worlds: Names of the worlds to play; None for all.
        screened: Whether to leave out tasks that ``screen`` marked.
        call_timeout: Seconds for one tool call or verdict.
        limits: What a world's process may use.
        transport: ``in-process`` (frames over the process's socket, fastest), or ``mcp``: the world's tools behind a
            Model Context Protocol server in its process, under the same limits; observations are the same.
        **kwargs: See :class:`~agentgym_ttg.envs.base.MultiTurnEnv`.

    Raises:
        DataError: If the data are not there.
        MissingDependencyError: If ``fastapi`` or ``sqlalchemy`` is missing (extra ``awm``), or ``mcp`` where it is
            asked for (extra ``mcp``).
    """

    splits: ClassVar[tuple[str, ...]] = SPLITS
    action_formats: ClassVar[tuple[str, ...]] = ("tools",)
    default_max_steps: ClassVar[int] = 12

    def __init__(
        self,
        *,
        split: str = "train",
        data_dir: str | os.PathLike[str] | None = None,
        worlds: tuple[str, ...] | list[str] | None = None,
        screened: bool = True,
        call_timeout: float = 10.0,
        limits: Limits | None = None,
        transport: Transport = "in-process",
        **kwargs: Any,
    ) -> None:
        data_dir = data_dir if data_dir is not None else os.environ.get(DATA_VARIABLE) or None
        if data_dir is not None and kwargs.get("max_steps") is None:
            kwargs["max_steps"] = 30  # the published protocol; the built-in worlds are smaller
        super().__init__(split=split, **kwargs)
        if transport not in get_args(Transport):
            raise ConfigError(f"unknown transport {transport!r}; expected {' or '.join(get_args(Transport))}")
        require_packages(transport)
        self.transport: Transport = transport
        self.data_dir = None if data_dir is None else str(data_dir)
        known = load_worlds(self.data_dir)
        if unknown := [name for name in worlds or () if name not in known]:
            raise ConfigError(f"unknown world {unknown[0]!r}; there are {', '.join(list(known)[:20])}")
        self.worlds = {name: world for name, world in known.items() if worlds is None or name in worlds}
        self.call_timeout = call_timeout
        self.limits = limits or Limits()
        self._left_out = self._marked() if screened else set()
        self._world: World | None = None
        self._world_task: WorldTask | None = None
        self._episode: EpisodeProcess | None = None
        self._schemas: list[dict[str, Any]] = []
        self._owed: tuple[ToolCall, ...] = ()
        self._calls = self._errors = 0

    def _marked(self) -> set[str]:
        if self.data_dir is None:
            return set()
        path = Path(self.data_dir).expanduser() / SCREEN_FILE
        if not path.exists():
            return set()
        marked = set(json.loads(path.read_text(encoding="utf-8"))["marked"])
        if marked:
            warnings.warn(f"{len(marked)} tasks that {path} marks are left out", RuntimeWarning, stacklevel=3)
        return marked

    def _tasks(self, split: str) -> TaskSet:
        ids = [task_id for task_id in task_ids(self.worlds, split) if task_id not in self._left_out]
        source = "built-in worlds" if self.data_dir is None else f"AgentWorldModel {Path(self.data_dir).name}"
        return TaskSet(split, ids, source=source, content_hash=worlds_hash(self.worlds))

    def _begin(self, task: Task) -> str:
        name, _, index = task.id.rpartition("/")
        self._world = self.worlds[name]
        self._world_task = self._world.tasks[int(index)]
        self._owed = self._world_task.solution or ()
        self._calls = self._errors = 0
        self._open(initial_database(self._world))
        return f"World: {name}. Task: {self._world_task.instruction}"

    def _open(self, database: Path) -> None:
        assert self._world is not None
        self._close()
        world = self._world
        known = (world.name, world.code, initial_database(world), self.limits, _START_TIMEOUT, self.transport)
        self._episode = launcher().world(*known).episode(database, self.call_timeout)
        self._schemas = self._episode.tools

    def _act(self, action: Action) -> StepResult:
        if not action.calls:
            return self._finish(action.command)
        messages: list[Message] = []
        valid = True
        for call in action.calls:
            if isinstance(call, ToolCallError):
                self._errors += 1
                valid = False
                messages.append(Message("tool", f"Error: {call.message}"))
                continue
            text, good = self._run(call)
            valid = valid and good
            self._calls += 1
            self._errors += not good
            messages.append(Message("tool", text, name=call.name, tool_call_id=call.id))
        return StepResult(messages, valid=valid, metrics=self._counts())

    def _counts(self) -> dict[str, float]:
        return {"tool_calls": float(self._calls), "tool_errors": float(self._errors)}

    def _run(self, call: ToolCall) -> tuple[str, bool]:
        if call.name == "list_tools":
            return tool_listing(self._schemas), True
        if call.name != "call_tool":
            hint = (
                f'; call it as call_tool with "tool_name": {json.dumps(call.name)}'
                if any(tool["name"] == call.name for tool in self._schemas)
                else ""
            )
            return f"Error: there is no tool {call.name[:80]!r} here{hint}. Use list_tools or call_tool.", False
        name, arguments = call.arguments.get("tool_name"), call.arguments.get("arguments", {})
        if isinstance(arguments, str):  # some models write JSON text
            try:
                arguments = json.loads(arguments)
            except (ValueError, RecursionError):
                return 'Error: "arguments" is not valid JSON; write an object.', False
        if not isinstance(name, str) or not isinstance(arguments, dict):
            return 'Error: call_tool needs "tool_name" (a string) and "arguments" (an object).', False
        assert self._episode is not None
        status, body = self._episode.call(name, arguments)
        if status >= 400:
            return f"Error: {error_detail(body)}"[:_LONGEST], False
        done = ToolCall(name, arguments)
        if done in self._owed:
            at = self._owed.index(done)
            self._owed = self._owed[:at] + self._owed[at + 1 :]
        text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
        return (text if len(text) <= _LONGEST else text[:_LONGEST] + f"… ({len(text)} characters in all)"), True

    def _finish(self, answer: str) -> StepResult:
        assert self._episode is not None
        assert self._world is not None
        assert self._world_task is not None
        folder = self._episode.folder
        self._episode.peer.end()
        shutil.copyfile(initial_database(self._world), Path(folder) / "initial.db")
        result = launcher().verdict(self._world_task.verifier, folder, answer, self.limits, self.call_timeout)
        won = result == "complete"
        return StepResult([], reward=float(won), terminated=True, success=won, metrics=self._counts())

    def _tools(self) -> list[dict[str, Any]]:
        return META_TOOLS

    def _task_type(self) -> str:
        return self._world.name if self._world else ""

    def _expert_message(self) -> str:
        assert self._world_task is not None
        if self._world_task.solution is None:
            raise ConfigError("this task has no reference solution; only the built-in worlds have an expert")
        if not self._owed:
            return self.format.render(self._world_task.answer)
        return render_call(self._owed[0])

    def _admissible_actions(self) -> list[str]:
        assert self._task is not None
        assert self._world_task is not None
        rng = np.random.default_rng([crc32(self._task.id.encode()), self._steps])
        seen = _ENTITY.findall(self._world_task.instruction + " " + self._transcript.last_observation) or ["1"]
        out = [ToolCall("list_tools").to_hermes()]
        for index in rng.permutation(len(self._schemas))[:6]:
            schema = self._schemas[int(index)]
            given = {
                key: sample_argument(key, kind, seen, rng) for key, kind in schema["parameters"]["properties"].items()
            }
            out.append(render_call(ToolCall(schema["name"], given)))
        return out

    def _snapshot(self) -> _State | None:
        if self._episode is None or not self._episode.database.exists():
            return None
        return _State(self._episode.database.read_bytes(), self._calls, self._errors, self._owed)

    def _restore(self, state: _State) -> None:
        assert self._task is not None
        name, _, index = self._task.id.rpartition("/")
        self._world = self.worlds[name]
        self._world_task = self._world.tasks[int(index)]
        path = Path(launcher().folder) / f"restore-{id(self)}.db"
        path.write_bytes(state.database)
        try:
            self._open(path)
        finally:
            path.unlink()
        _, self._calls, self._errors, self._owed = state

    def _close(self) -> None:
        if self._episode is not None:
            self._episode.close()
            self._episode = None

    def __del__(self) -> None:
        """Leave no process behind when it was never closed."""
        if getattr(self, "_episode", None) is not None:
            self._close()
