"""The contract of every environment: a multi-turn Gymnasium environment whose action is an assistant message."""

from __future__ import annotations

import copy
import functools
import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, SupportsFloat, TypeVar

import gymnasium as gym

from agentgym_ttg.core.actions import Action, ActionFormat, make_action_format
from agentgym_ttg.core.errors import AgentGymError, ConfigError, EngineError, EpisodeError, nearest
from agentgym_ttg.core.messages import Message
from agentgym_ttg.core.spaces import Unicode
from agentgym_ttg.core.tokenizers import count_tokens, load_tokenizer

from ._transcript import Transcript
from .tasks import Task, TaskSet

__all__ = ["INFO_TYPES", "MultiTurnEnv", "Snapshot", "StepResult"]

#: The keys of ``info`` and their types, the same after ``reset`` and after every ``step`` of every environment.
INFO_TYPES: dict[str, type] = {
    "task_id": str,
    "task_type": str,
    "success": bool,
    "assistant_tokens": int,
    "episode_tokens": int,
    "action_valid": bool,
    "admissible_actions": list,
    "messages": list,
    "tools": list,
    "anchor": str,
    "metrics": dict,
}

_T = TypeVar("_T")
_Phase = Literal["new", "running", "done", "closed"]


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a domain says of one action.

    Attributes:
        observation: Text (becomes a user message), or chat messages (tool results).
        reward: Reward of the step.
        terminated: Whether the episode is over by the task's own rules.
        success: Whether the task is solved.
        truncated: Whether a limit of the domain's own ended the episode (those of the base class are not its concern).
        valid: Whether the action was legal.
        metrics: Numbers about the episode that the results are to report, usually given with the last step.
    """

    observation: str | list[Message]
    reward: float = 0.0
    terminated: bool = False
    success: bool = False
    valid: bool = True
    truncated: bool = False
    metrics: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A point of an episode to branch from; opaque. ``domain`` is None where the actions are replayed."""

    origin: str
    task: Task
    rng_at_begin: dict[str, Any]
    rng_now: dict[str, Any]
    actions: tuple[str, ...]
    counters: tuple[Any, ...]
    transcript: tuple[Any, ...]
    domain: Any


class MultiTurnEnv(gym.Env[str, str]):
    """Base of all environments.

    A domain writes :meth:`_tasks`, :meth:`_begin` and :meth:`_act`; seeding, limits, parsing and its errors, token
    accounting, ``info``, rendering and branching are here. It may also say more: :meth:`_anchor`,
    :meth:`_admissible_actions`, :meth:`_tools`, :meth:`_task_type`, :meth:`_expert_message`, a faster
    :meth:`_snapshot` with :meth:`_restore`, :meth:`_close`, and the benchmark's own scores: :meth:`summarize`.

    Args:
        split: Which tasks to play.
        max_steps: Decisions after which the episode is truncated; default ``default_max_steps``.
        max_tokens: Assistant tokens after which the episode is truncated; default no limit.
        action_format: How a message carries an action: one of ``action_formats``; default the first.
        tokenizer: Counts messages that come without ids: None for the shipped one, else a path or hub id.
        expert: Whether ``info`` carries ``expert_action``, the next message of the domain's expert.
        render_mode: ``"ansi"`` (``render()`` returns the transcript) or ``"human"`` (it is printed as it grows).

    Raises:
        ConfigError: If a setting cannot work.
        DataError: If there are no tasks for the split.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi", "human"], "render_fps": 4}  # noqa: RUF012 - Gymnasium's form
    splits: ClassVar[tuple[str, ...]] = ("train", "test")
    action_formats: ClassVar[tuple[str, ...]] = ("plain", "tags")
    default_max_steps: ClassVar[int] = 50
    #: Whether ``info["admissible_actions"]`` is complete: whatever it does not list will be refused.
    lists_every_action: ClassVar[bool] = False

    def __init__(
        self,
        *,
        split: str = "train",
        max_steps: int | None = None,
        max_tokens: int | None = None,
        action_format: str | None = None,
        tokenizer: str | None = None,
        expert: bool = False,
        render_mode: str | None = None,
    ) -> None:
        for name, text in (("split", split), ("action_format", action_format), ("tokenizer", tokenizer)):
            if text is not None and not isinstance(text, str):
                raise ConfigError(f"expected {name} to be a string, got {type(text).__name__}")
        if split not in self.splits:
            hint = nearest(split, self.splits)
            raise ConfigError(
                f"unknown split {split!r}; expected one of {', '.join(self.splits)}"
                + (f" (did you mean {hint[0]!r}?)" if hint else "")
            )
        for name, limit in (("max_steps", max_steps), ("max_tokens", max_tokens)):
            if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
                raise ConfigError(f"expected {name} >= 1, an integer, or None, got {limit!r}")
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise ConfigError(f"unknown render_mode {render_mode!r}; expected one of {self.metadata['render_modes']}")
        self.split = split
        self.max_steps = self.default_max_steps if max_steps is None else max_steps
        self.max_tokens = max_tokens
        self.format = self._make_format(action_format or self.action_formats[0])
        self.tokenizer = load_tokenizer(tokenizer)
        self.expert = expert
        self.render_mode = render_mode
        self.observation_space = Unicode()
        self.action_space = Unicode()
        self._phase: _Phase = "new"
        self._task: Task | None = None
        self._transcript = Transcript()
        self._actions: list[str] = []
        self._rng_at_begin: dict[str, Any] = {}
        self._steps = self._tokens = 0
        self._success = False
        self._metrics: dict[str, float] = {}

    # What a domain writes -----------------------------------------------------------------------------------------

    @abstractmethod
    def _tasks(self, split: str) -> TaskSet:
        """Return the tasks of a split."""

    @abstractmethod
    def _begin(self, task: Task) -> str | list[Message]:
        """Start a task; return the first observation. Randomness comes from ``self.np_random`` only."""

    @abstractmethod
    def _act(self, action: Action) -> StepResult:
        """Execute a parsed action (never one with ``action.error``)."""

    # What a domain may write --------------------------------------------------------------------------------------

    def _make_format(self, name: str) -> ActionFormat:
        """Return the action format called ``name``; a domain with own tags overrides this."""
        return make_action_format(name, self.action_formats)

    def _anchor(self) -> str:
        """Return a key of the current state; equal keys are equal states for step grouping."""
        return self._transcript.last_observation

    def _admissible_actions(self) -> list[str]:
        """Return the commands that are legal now, if the domain knows them."""
        return []

    def _tools(self) -> list[dict[str, Any]]:
        """Return the JSON schemas of the tools on offer."""
        return []

    def _task_type(self) -> str:
        """Return the kind of the current task, for results by kind."""
        return ""

    def _expert_message(self) -> str:
        """Return what an expert would say now, in this environment's action format."""
        raise ConfigError(f"{type(self).__name__} has no expert")

    def _snapshot(self) -> Any:
        """Return the domain's state, or None to have actions replayed instead. Must not alias mutable state."""
        return None

    def _restore(self, state: Any) -> None:
        """Take back what :meth:`_snapshot` returned; may be called several times with the same object."""
        raise AssertionError("a domain that overrides _snapshot overrides _restore")

    def _data_hash(self) -> str:
        """Return a hash of the split's content; what the task set says unless the domain knows better."""
        return self.tasks.content_hash

    def _close(self) -> None:
        """Release what the domain holds."""

    @staticmethod
    def summarize(episodes: Sequence[tuple[str, bool, Mapping[str, float]]]) -> dict[str, float]:
        """Return the benchmark's official scores; none unless the domain has some.

        Success and the mean of each metric, over all and by task type, are in the results anyhow; this is for what a
        benchmark computes otherwise, for example a leaderboard's weighted columns.

        Args:
            episodes: (task type, success, metrics) of each; an episode that broke down counts as not solved.
        """
        return {}

    # The Gymnasium interface --------------------------------------------------------------------------------------

    @functools.cached_property
    def tasks(self) -> TaskSet:
        """The tasks of this environment's split."""
        return self._tasks(self.split)

    @functools.cached_property
    def data_hash(self) -> str:
        """Hash of the tasks' content; equal hashes are equal tasks. May read the whole data set once."""
        return self._data_hash()

    @property
    def phase(self) -> str:
        """``new``, ``running``, ``done`` or ``closed``."""
        return self._phase

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode.

        Args:
            seed: Seeds this environment's generator. The same seed gives the same task and the same text.
            options: ``{"task_id": id}`` plays that task; without it the generator draws one.

        Returns:
            The first observation and ``info`` (keys and types: :data:`INFO_TYPES`).

        Raises:
            UnknownTaskError: If the split has no such task.
            EpisodeError: If the environment is closed.
        """
        if self._phase == "closed":
            raise EpisodeError("reset() on a closed environment; make a new one")
        if options is not None and not isinstance(options, Mapping):
            raise ConfigError(f"expected options to be a dict such as {{'task_id': ...}}, got {type(options).__name__}")
        options = dict(options or {})
        task_id = options.pop("task_id", None)
        if options:
            raise ConfigError(f"unknown reset option {next(iter(options))!r}; expected 'task_id'")
        if task_id is not None and not isinstance(task_id, str):
            raise ConfigError(f"expected options['task_id'] to be a string, got {type(task_id).__name__}")
        tasks = self.tasks
        self._phase = "new"
        self._task = None
        super().reset(seed=seed)
        # Drawn in any case, so that naming the task that a seed draws replays the same episode.
        drawn = int(self.np_random.integers(len(tasks)))
        self._task = tasks.get(tasks[drawn] if task_id is None else task_id)
        self._steps = self._tokens = 0
        self._success = False
        self._metrics = {}
        self._actions = []
        self._rng_at_begin = copy.deepcopy(dict(self.np_random.bit_generator.state))
        task = self._task
        messages = self._guard(lambda: _as_messages(self._begin(task)), failed="new")
        self._transcript = Transcript()
        self._transcript.observe(messages)
        self._phase = "running"
        info = self._guard(lambda: self._info(messages, assistant_tokens=0, valid=True), failed="new")
        if self.render_mode == "human":
            self._transcript.print_new()
        return self._transcript.last_observation, info

    def step(self, action: str) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        """Take an assistant message.

        A message that cannot be parsed costs its tokens and a step, changes nothing, and is answered by an
        observation that says what was expected.

        Raises:
            EpisodeError: If there is no running episode.
            TypeError: If the action is not a string.
            EngineError: If the domain breaks down; the episode is over then.
        """
        if self._phase != "running":
            why = {"new": "before reset()", "done": "on a finished episode", "closed": "on a closed environment"}
            raise EpisodeError(f"step() {why[self._phase]}; call reset() first")
        if not isinstance(action, str):
            raise TypeError(f"expected the action to be a string (or Completion), got {type(action).__name__}")
        tokens = count_tokens(action, self.tokenizer)
        self._steps += 1
        self._tokens += tokens
        self._actions.append(action)
        result, messages = self._guard(lambda: self._execute(action))
        self._success = bool(result.success)
        self._metrics = {**self._metrics, **result.metrics}
        self._transcript.act(str(action), tokens, result.valid)
        self._transcript.observe(messages, reward=result.reward)
        spent = self._steps >= self.max_steps or (self.max_tokens is not None and self._tokens >= self.max_tokens)
        terminated = bool(result.terminated)
        truncated = (spent or bool(result.truncated)) and not terminated
        if terminated or truncated:
            self._phase = "done"
        info = self._guard(lambda: self._info(messages, assistant_tokens=tokens, valid=result.valid))
        if self.render_mode == "human":
            self._transcript.print_new()
        return self._transcript.last_observation, float(result.reward), terminated, truncated, info

    def _execute(self, text: str) -> tuple[StepResult, list[Message]]:
        """Parse and act; a message that does not parse leaves the state, also a success, as it is."""
        action = self.format.parse(str(text))
        if action.error:
            result = StepResult(action.error, valid=False, success=self._success)
        else:
            result = self._act(action)
            if not math.isfinite(result.reward):
                raise EngineError(f"{type(self).__name__} gave the reward {result.reward}")
        return result, _as_messages(result.observation, reply=True)

    def _guard(self, call: Callable[[], _T], *, failed: _Phase = "done") -> _T:
        """Turn any breakdown of the domain into our error, and end the episode."""
        try:
            return call()
        except AgentGymError:
            self._phase = failed
            raise
        except Exception as error:
            self._phase = failed
            task = self._task.id if self._task else "?"
            raise EngineError(f"{type(self).__name__}, task {task!r}: {type(error).__name__}: {error}") from error

    def _info(self, messages: Sequence[Message], *, assistant_tokens: int, valid: bool) -> dict[str, Any]:
        assert self._task is not None
        info: dict[str, Any] = {
            "task_id": self._task.id,
            "task_type": self._task_type(),
            "success": bool(self._success),
            "assistant_tokens": int(assistant_tokens),
            "episode_tokens": int(self._tokens),
            "action_valid": bool(valid),
            "admissible_actions": [] if self._phase == "done" else list(self._admissible_actions()),
            "messages": [message.to_dict() for message in messages],
            "tools": list(self._tools()),
            "anchor": self._anchor(),
            "metrics": dict(self._metrics),
        }
        if self.expert:
            info["expert_action"] = "" if self._phase == "done" else self._expert_message()
        return info

    # Branching ----------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Return the present point of the episode, to branch from.

        Raises:
            EpisodeError: If no episode was begun, or the environment is closed.
        """
        if self._phase == "closed":
            raise EpisodeError("snapshot() on a closed environment; make a new one")
        if self._task is None or self._phase == "new":
            raise EpisodeError("snapshot() without an episode; call reset() first")
        return Snapshot(
            origin=self._origin,
            task=self._task,
            rng_at_begin=self._rng_at_begin,
            rng_now=copy.deepcopy(dict(self.np_random.bit_generator.state)),
            actions=tuple(self._actions),
            counters=(self._phase, self._steps, self._tokens, self._success, dict(self._metrics)),
            transcript=self._transcript.state(),
            domain=self._snapshot(),
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to a point of an episode of this environment; a snapshot can be restored any number of times.

        Raises:
            EpisodeError: If the environment is closed.
            ConfigError: If it is no snapshot, or one of another kind of environment.
            EngineError: If the domain has no snapshots and replaying the actions does not work.
        """
        if self._phase == "closed":
            raise EpisodeError("restore() on a closed environment; make a new one")
        if not isinstance(snapshot, Snapshot):
            raise ConfigError(f"expected what snapshot() returned, got {type(snapshot).__name__}")
        if snapshot.origin != self._origin or snapshot.task.id not in self.tasks:
            raise ConfigError(
                f"the snapshot is of task {snapshot.task.id!r} of {snapshot.origin}, which this {self._origin} "
                f"({self.tasks.source}, split {self.split!r}) does not play; restore it in an environment made alike"
            )
        self._task = snapshot.task
        self._guard(lambda: self._replay(snapshot), failed="new")
        self.np_random.bit_generator.state = copy.deepcopy(snapshot.rng_now)
        self._rng_at_begin = snapshot.rng_at_begin
        self._actions = list(snapshot.actions)
        self._phase, self._steps, self._tokens, self._success, metrics = snapshot.counters
        self._metrics = dict(metrics)
        self._transcript = Transcript.from_state(snapshot.transcript)

    @property
    def _origin(self) -> str:
        return type(self).__name__

    def _replay(self, snapshot: Snapshot) -> None:
        """Bring the domain to the snapshot's state."""
        if snapshot.domain is not None:
            self._restore(snapshot.domain)
            return
        self.np_random.bit_generator.state = copy.deepcopy(snapshot.rng_at_begin)
        self._begin(snapshot.task)
        for text in snapshot.actions:
            self._execute(text)

    def render(self) -> str | None:
        """Return the transcript (``ansi``), or None: ``human`` prints as it goes, no mode renders nothing."""
        if self.render_mode == "ansi":
            return self._transcript.text()
        return None

    def close(self) -> None:
        """Release everything; closing twice is fine."""
        if self._phase != "closed":
            self._phase = "closed"
            self._close()


def _as_messages(observation: str | list[Message], *, reply: bool = False) -> list[Message]:
    """Return an observation as chat messages; text is a user message."""
    if isinstance(observation, str):
        return [Message("user", observation)]
    if not isinstance(observation, list) or not all(isinstance(message, Message) for message in observation):
        raise EngineError(f"expected the observation as a string or a list of Message, got {observation!r:.200}")
    if not observation and not reply:
        raise EngineError("an episode must begin with an observation, got no message")
    return list(observation)
