"""The BFCL environment: the published tasks, executed and judged by the published code."""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar
from zlib import crc32

import numpy as np

from agentgym_ttg.core.actions import Action
from agentgym_ttg.core.errors import ConfigError
from agentgym_ttg.core.messages import Message, ToolCall
from agentgym_ttg.core.tool_calls import ToolCallError
from agentgym_ttg.envs.base import MultiTurnEnv, StepResult
from agentgym_ttg.envs.tasks import Task, TaskSet

from .calls import call_string, parse_call, tool_name, tool_schema
from .data import categories_of, tasks_hash
from .execution import UNDEFINED_CALL, Execution, refusal
from .literals import ground_truth_calls
from .package import MULTI_TURN, Package, load_package
from .scores import aggregate_scores, scores_by_category

__all__ = ["BFCLEnv"]

#: Messages with calls that a turn may have; one more fails the task, as upstream does it.
STEPS_PER_TURN = 20
_MORE_FUNCTIONS = "I have updated some more functions you can choose from. What about now?"
#: A dialogue of v3 whose ground truth has one turn more than its user: the index of the turn that belongs to the one
#: before it, as v4 corrected it. Upstream's v3 runner fails every answer there, because the counts differ.
_BELONGS_BEFORE = {"multi_turn_base_154": 2}


@functools.lru_cache(maxsize=64)
def _category(version: str, name: str) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    package = load_package(version)
    entries = {entry["id"]: entry for entry in package.entries(name)}
    answers = package.answers(name)
    for task_id, index in _BELONGS_BEFORE.items():
        truth = answers.get(task_id, [])
        if task_id in entries and len(truth) > len(entries[task_id]["question"]):
            answers[task_id] = [*truth[: index - 1], truth[index - 1] + truth[index], *truth[index + 1 :]]
    return entries, answers


class BFCLEnv(MultiTurnEnv):
    """Function calling, ``agentgym_ttg/BFCL-v0``: every category of BFCL v3, or the multi-turn ones of v4.

    A single-turn task is one message. A multi-turn task is a dialogue: a message with calls is executed and answered by
    one tool message for each call; a message in which no call can be read ends the user's turn; more than 20 messages
    with calls in a turn fail the task. ``info["task_type"]`` is the category.

    A call is executed only if it names a function of the task and its arguments are JSON; the package's executor gets
    it rebuilt from literals, never the model's text. State is fresh in each episode.

    Verdicts and turns are upstream's, with one exception: the dialogue ``multi_turn_base_154`` of v3, which upstream's
    runner counts as failed whatever is answered (its ground truth has a turn too many), is judged by v4's correction.

    Args:
        split: ``test``; BFCL is for evaluation.
        version: ``v3``, or ``v4`` (multi-turn categories).
        categories: Which categories; None for all of the version.
        **kwargs: See :class:`~agentgym_ttg.envs.base.MultiTurnEnv`.

    Raises:
        DataError: If the package is not installed.
        ConfigError: If there is no such version or category.
    """

    splits: ClassVar[tuple[str, ...]] = ("test",)
    action_formats: ClassVar[tuple[str, ...]] = ("tools",)
    default_max_steps: ClassVar[int] = 200

    def __init__(
        self,
        *,
        split: str = "test",
        version: str = "v3",
        categories: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(split=split, **kwargs)
        known = categories_of(version)
        if unknown := [name for name in categories or () if name not in known]:
            raise ConfigError(f"unknown BFCL {version} category {unknown[0]!r}; expected one of {', '.join(known)}")
        self.version = version
        self.categories = tuple(categories or known)
        self.package: Package = load_package(version)
        self._execution = Execution(self.package)
        self._entry: dict[str, Any] = {}
        self._kind = ""
        self._truth: Any = None
        self._functions: dict[str, dict[str, Any]] = {}
        self._offered: list[dict[str, Any]] = []
        self._turn = self._count = 0
        self._decoded: list[list[list[str]]] = []
        self._owed: list[list[ToolCall]] = []

    def _tasks(self, split: str) -> TaskSet:
        entries = [entry for name in self.categories for entry in _category(self.version, name)[0].values()]
        ids = sorted(entry["id"] for entry in entries)
        digest = tasks_hash(self.version, entries)
        return TaskSet(split, ids, source=f"BFCL {self.version}", content_hash=digest)

    # Episodes -----------------------------------------------------------------------------------------------------

    @property
    def _multi_turn(self) -> bool:
        return self._kind in MULTI_TURN

    def _begin(self, task: Task) -> list[Message]:
        for name in self.categories:
            entries, answers = _category(self.version, name)
            if task.id in entries:
                self._entry, self._kind, self._truth = entries[task.id], name, answers.get(task.id)
                break
        self._execution.begin(self._entry, self._kind)
        self._turn = self._count = 0
        self._decoded = [[]]
        if self._multi_turn:
            every = [one for kind in self._entry["involved_classes"] for one in self.package.functions(kind)]
        else:
            every = self._entry["function"]
        self._functions = {tool_name(one["name"]): one for one in every}
        held = {name for names in self._entry.get("missed_function", {}).values() for name in names}
        self._offered = [one for one in every if one["name"] not in held]
        self._owed = self._solution() if self.expert else []
        return _messages(self._entry["question"][0])

    def _solution(self) -> list[list[ToolCall]]:
        if self._multi_turn:
            return [[parse_call(text, self._functions) for text in turn] for turn in self._truth]
        if self._kind == "live_relevance":
            return [[ToolCall(next(iter(self._functions)), {})]]
        return [ground_truth_calls(self._truth or [], self._entry["function"], self._language)]

    @property
    def _language(self) -> str:
        return {"java": "Java", "javascript": "JavaScript"}.get(self._kind, "Python")

    def _act(self, action: Action) -> StepResult:
        return self._act_in_turn(action) if self._multi_turn else self._judge_single(action)

    def _act_in_turn(self, action: Action) -> StepResult:
        good = [call for call in action.calls if isinstance(call, ToolCall)]
        if not good:
            broken = [
                Message("tool", f"Error: {call.message}") for call in action.calls if not isinstance(call, ToolCall)
            ]
            return self._next_turn(broken)
        messages: list[Message] = []
        texts: list[str] = []
        valid = True
        for call in action.calls:
            if isinstance(call, ToolCallError):
                messages.append(Message("tool", f"Error: {call.message}"))
                valid = False
                continue
            reply, text = refusal(call, self._functions), call_string(call)
            if reply or text is None:
                valid = False
                text = UNDEFINED_CALL
            else:
                reply = self._execution.run(text)
            texts.append(text)
            messages.append(Message("tool", reply, name=call.name, tool_call_id=call.id))
        self._decoded[-1].append(texts)
        for call in good if self._owed else ():  # one call settles one that is owed, also where two are alike
            if call in self._owed[self._turn]:
                self._owed[self._turn].remove(call)
        self._count += 1
        if self._count > STEPS_PER_TURN:
            self._execution.forget()
            return StepResult(messages, terminated=True, valid=valid, metrics=self._metrics_now(forced=True))
        return StepResult(messages, valid=valid)

    def _next_turn(self, before: list[Message]) -> StepResult:
        self._turn += 1
        self._count = 0
        valid = not before
        if self._turn < len(self._entry["question"]):
            self._decoded.append([])
            added = self._entry.get("missed_function", {}).get(str(self._turn))
            if added:
                self._offered = [*self._offered, *(self._functions[name] for name in added)]
                return StepResult([*before, Message("user", _MORE_FUNCTIONS)], valid=valid)
            return StepResult([*before, *_messages(self._entry["question"][self._turn])], valid=valid)
        won = self._execution.judge(self._decoded, self._truth)
        self._execution.forget()
        return StepResult(
            before,
            reward=float(won),
            terminated=True,
            success=won,
            valid=valid,
            metrics=self._metrics_now(forced=False),
        )

    def _metrics_now(self, *, forced: bool) -> dict[str, float]:
        return {"turns": float(self._turn), "force_quit": float(forced)}

    def _judge_single(self, action: Action) -> StepResult:
        calls = [call for call in action.calls if isinstance(call, ToolCall)]
        output = [{self._functions.get(call.name, {}).get("name", call.name): call.arguments} for call in calls]
        if "irrelevance" in self._kind:
            won = not output
        elif "relevance" in self._kind:
            won = bool(output)
        elif not output or len(calls) < len(action.calls):
            won = False  # upstream cannot decode a message with a broken call
        else:
            won = self._check(output)
        return StepResult([], reward=float(won), terminated=True, success=won, valid=action.valid)

    def _check(self, output: list[dict[str, Any]]) -> bool:
        try:
            verdict = self.package.ast_checker(
                copy.deepcopy(self._entry["function"]), output, self._truth, self._language, self._kind, "any"
            )
        except (TypeError, ValueError, KeyError, AttributeError, IndexError, RecursionError):
            return False  # the checker takes some shapes of wrong arguments for granted
        return bool(verdict["valid"])

    # The rest of the contract -------------------------------------------------------------------------------------

    def _tools(self) -> list[dict[str, Any]]:
        return [tool_schema(one, self._language) for one in self._offered]

    def _task_type(self) -> str:
        return self._kind

    def _expert_message(self) -> str:
        calls = self._owed[self._turn] if self._turn < len(self._owed) else []
        if not calls:
            return "Done."
        if self._multi_turn and self._count + len(calls) <= STEPS_PER_TURN:
            return calls[0].to_hermes()
        return "\n".join(call.to_hermes() for call in calls)

    def _admissible_actions(self) -> list[str]:
        assert self._task is not None
        rng = np.random.default_rng([crc32(self._task.id.encode()), self._steps])
        out = ["Done."]
        for index in rng.permutation(len(self._offered))[:4]:
            one = self._offered[int(index)]
            required = one.get("parameters", {}).get("required", ())
            out.append(ToolCall(tool_name(one["name"]), dict.fromkeys(required, "1")).to_hermes())
        return out

    def _close(self) -> None:
        self._execution.forget()

    @staticmethod
    def summarize(episodes: Sequence[tuple[str, bool, Mapping[str, float]]]) -> dict[str, float]:
        """Return the leaderboard's columns; the task type is the category. See :func:`.scores.aggregate_scores`."""
        return aggregate_scores(scores_by_category((category, success) for category, success, _ in episodes))


def _messages(turn: Any) -> list[Message]:
    return [Message.from_dict(message) for message in turn]
