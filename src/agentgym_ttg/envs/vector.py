"""Many episodes at once: the vector environment that ``gym.make_vec`` returns."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from agentgym_ttg.core.errors import AgentGymError, ConfigError, EngineError, EpisodeError

from ._batching import as_seed, batch_infos, per_slot, reset_mask, seeds_of
from ._slots import EnvFactory, Factory, StepOutcome, broken_outcome
from ._worker import LocalBackend, Replies, Request, WorkerBackend
from .tasks import TaskSet

__all__ = ["EnvFactory", "SlotSnapshot", "StepOutcome", "TextVectorEnv", "make_vector_env"]

_State = Literal["new", "running", "done", "broken"]
_STEP_TIMEOUT, _RESET_TIMEOUT, _START_TIMEOUT = 120.0, 600.0, 300.0


@dataclass(frozen=True, slots=True)
class SlotSnapshot:
    """A point of a slot's episode; can be restored into any slot of its vector environment, any number of times."""

    state: Any
    last: StepOutcome
    over: bool


@dataclass(slots=True)
class _Slot:
    """What the vector environment knows of a slot.

    ``broken``: the environment is gone, and the episode has not been told yet; its next step is the error.
    """

    state: _State = "new"
    last: StepOutcome | None = None
    why: str = ""


class TextVectorEnv(VectorEnv[tuple[str, ...], Sequence[str], NDArray[Any]]):
    """A vector of multi-turn text environments that steps only the episodes that are alive.

    The Gymnasium interface (:meth:`reset`, :meth:`step`) stands on the slot interface (:meth:`reset_slots`,
    :meth:`step_slots`), which plays every slot at its own pace. Episodes are never reset by themselves
    (``AutoresetMode.DISABLED``): a finished slot keeps its last observation, earns nothing and costs nothing until it
    is reset, for example by ``reset(options={"reset_mask": terminations | truncations})``.

    An environment that breaks down ends its own episode: the step gives an ``error`` text and ``truncated``, the others
    do not notice, and the environment is made anew for its next episode. With ``workers``, the same holds for a crash
    of the process or a step that takes too long; one worker's death ends the episodes of the slots it holds. Only what
    the caller got wrong (an unknown task, an action that is no string, a step in a finished slot) is raised.

    Not safe to be used from several threads at once.

    Args:
        factory: Makes one environment, a :class:`~agentgym_ttg.envs.MultiTurnEnv`, wrapped or not; with ``workers``
            it must be picklable.
        num_envs: Number of slots.
        workers: 0 keeps all environments in this process; else so many worker processes share the slots, for engines
            that are slow, crash or are not thread-safe.
        step_timeout: Seconds for one step in a worker; default 120.
        reset_timeout: Seconds for one reset or restore in a worker; default 600. (A worker may take 300 to start.)

    Raises:
        ConfigError: If a setting cannot work.
    """

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.DISABLED}  # noqa: RUF012 - Gymnasium's form

    def __init__(
        self,
        factory: Factory,
        num_envs: int,
        *,
        workers: int = 0,
        step_timeout: float | None = None,
        reset_timeout: float | None = None,
    ) -> None:
        self.closed = True  # until there is something to close
        if num_envs < 1:
            raise ConfigError(f"expected num_envs >= 1, got {num_envs}")
        if workers < 0:
            raise ConfigError(f"expected workers >= 0, got {workers}")
        for name, limit in (("step_timeout", step_timeout), ("reset_timeout", reset_timeout)):
            if limit is not None and not workers:
                raise ConfigError(f"{name} needs worker processes (workers >= 1): nothing can stop a step in-process")
            if limit is not None and not limit > 0:
                raise ConfigError(f"expected {name} > 0 seconds, got {limit}")
        self.num_envs = num_envs
        self.workers = min(workers, num_envs)
        self.step_timeout = (step_timeout or _STEP_TIMEOUT) if workers else None
        self.reset_timeout = (reset_timeout or _RESET_TIMEOUT) if workers else None
        self._slots = [_Slot() for _ in range(num_envs)]
        self._backend: LocalBackend | WorkerBackend
        if workers:
            self._backend = WorkerBackend(factory, num_envs, self.workers, _START_TIMEOUT)
        else:
            self._backend = LocalBackend(factory, num_envs)
        self.closed = False
        description = self._backend.description
        self._tokenizer = description.tokenizer
        self.render_mode = description.render_mode
        self.single_observation_space = description.observation_space
        self.single_action_space = description.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    # The slot interface -------------------------------------------------------------------------------------------

    def reset_slots(self, resets: Mapping[int, Mapping[str, Any]]) -> dict[int, tuple[str, dict[str, Any]]]:
        """Begin episodes in some slots.

        Args:
            resets: By slot: ``{"seed": int or None, "task_id": str or None}``, both optional.

        Returns:
            By slot: first observation and ``info``. If the environment broke down, ``info["error"]`` says why, the
            observation is empty, and the slot's next step gives the same error.

        Raises:
            UnknownTaskError: If the split has no such task. The other slots have been reset.
            ConfigError: If a request is none.
        """
        requests: dict[int, Request] = {}
        for slot, wish in resets.items():
            self._check_slot(slot)
            if unknown := set(wish) - {"seed", "task_id"}:
                raise ConfigError(f"unknown reset request {sorted(unknown)[0]!r}; expected 'seed' and 'task_id'")
            requests[slot] = Request("reset", (as_seed(wish.get("seed")), wish.get("task_id")))
            self._slots[slot] = _Slot()
        replies = self._run(requests, self.reset_timeout)
        out: dict[int, tuple[str, dict[str, Any]]] = {}
        for slot, request in requests.items():
            outcome: StepOutcome | None = replies.values.get(slot)
            if slot in replies.lost:
                outcome = broken_outcome(replies.lost[slot], None, None, None, request.arguments[1] or "")
            if outcome is None:  # raised
                continue
            if outcome.error:
                outcome.info["error"] = outcome.error
                self._slots[slot] = _Slot("broken", outcome, outcome.error)
            else:
                self._slots[slot] = _Slot("running", outcome)
            out[slot] = (outcome.observation, outcome.info)
        _raise_first(replies.raised)
        return out

    def step_slots(self, actions: Mapping[int, str]) -> dict[int, StepOutcome]:
        """Take one action in some slots; the others stand still.

        Raises:
            EpisodeError: If a slot has no running episode; nothing is executed then.
            TypeError: If an action is not a string; nothing is executed then.
        """
        for slot, action in actions.items():
            self._check_slot(slot)
            state = self._slots[slot].state
            if state in ("new", "done"):
                why = "before its reset" if state == "new" else "on a finished episode"
                raise EpisodeError(f"step in slot {slot} {why}; reset the slot first")
            if not isinstance(action, str):
                raise TypeError(f"expected the action of slot {slot} to be a string, got {type(action).__name__}")
        running = {slot: action for slot, action in actions.items() if self._slots[slot].state == "running"}
        replies = self._run({slot: Request("step", (action,)) for slot, action in running.items()}, self.step_timeout)
        out: dict[int, StepOutcome] = {}
        for slot, action in actions.items():
            entry = self._slots[slot]
            outcome: StepOutcome | None = replies.values.get(slot)
            if outcome is None:
                why = entry.why or f"{replies.raised.get(slot)}"
                outcome = broken_outcome(why, entry.last.info if entry.last else None, action, self._tokenizer)
                outcome.info.pop("error", None)
            elif entry.state == "broken" and not outcome.over:  # its step came back, then its worker died
                outcome = outcome._replace(truncated=True, error=entry.why)
            self._slots[slot] = _Slot("done" if outcome.over else "running", outcome)
            out[slot] = outcome
        return out

    def snapshot_slot(self, slot: int) -> SlotSnapshot:
        """Return the present point of a slot's episode.

        Raises:
            EpisodeError: If the slot has no episode.
            EngineError: If its environment is gone or cannot say.
        """
        self._check_slot(slot)
        entry = self._slots[slot]
        if entry.state == "new" or entry.last is None:
            raise EpisodeError(f"snapshot of slot {slot} without an episode; reset the slot first")
        if entry.state == "broken" or entry.last.error:
            raise EngineError(
                f"slot {slot} holds no environment to take a snapshot of: {entry.why or entry.last.error}"
            )
        state = self._one(slot, Request("snapshot"), self.reset_timeout)
        return SlotSnapshot(state, entry.last, over=entry.state == "done")

    def restore_slot(self, slot: int, snapshot: SlotSnapshot) -> None:
        """Go back to a point of an episode of this or of another slot.

        Raises:
            EngineError: If the environment cannot; the slot has no episode then.
        """
        self._check_slot(slot)
        self._slots[slot] = _Slot()
        self._one(slot, Request("restore", (snapshot.state,)), self.reset_timeout)
        self._slots[slot] = _Slot("done" if snapshot.over else "running", snapshot.last)

    def last_outcome(self, slot: int) -> StepOutcome | None:
        """Return what came last in a slot; None if it was never reset."""
        self._check_slot(slot)
        return self._slots[slot].last

    @property
    def live_slots(self) -> list[int]:
        """The slots whose episode is running."""
        return [number for number, entry in enumerate(self._slots) if entry.state in ("running", "broken")]

    @property
    def tasks(self) -> TaskSet:
        """The tasks of the environments' split."""
        tasks: TaskSet = self._one(0, Request("attribute", ("tasks",)), self.reset_timeout)
        return tasks

    # The Gymnasium interface --------------------------------------------------------------------------------------

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[tuple[str, ...], dict[str, Any]]:
        """Begin an episode in every slot, or in those that ``options["reset_mask"]`` names.

        Args:
            seed: One for each slot, or the first of consecutive ones; None goes on with each environment's generator.
            options: ``"task_id"``: one task for all slots, or a list with one (or None) for each;
                ``"reset_mask"``: boolean array of shape ``(num_envs,)``.

        Returns:
            The observations of all slots, and ``infos``: for each key of ``info`` an array of shape ``(num_envs,)``
            and under ``_key`` the mask of the slots that were reset.
        """
        options = dict(options or {})
        mask = reset_mask(options.pop("reset_mask", None), self.num_envs)
        seeds = seeds_of(seed, self.num_envs)
        tasks = per_slot("task_id", options.pop("task_id", None), self.num_envs)
        if options:
            raise ConfigError(f"unknown reset option {next(iter(options))!r}; expected 'task_id' and 'reset_mask'")
        chosen = [int(slot) for slot in np.flatnonzero(mask)]
        self.reset_slots({slot: {"seed": seeds[slot], "task_id": tasks[slot]} for slot in chosen})
        return self._observations(), self._infos(chosen, dict.fromkeys(chosen, ""))

    def step(
        self, actions: Sequence[str]
    ) -> tuple[tuple[str, ...], NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """Take one action in every live slot.

        Args:
            actions: One for each slot; those of finished slots are ignored and may be None.

        Returns:
            Observations (tuple of ``num_envs`` strings), rewards (float64), terminations and truncations (bool), and
            ``infos`` as in :meth:`reset`, with ``infos["error"]``: why a slot's environment broke down, ``""`` if not.

        Raises:
            EpisodeError: If no slot has a running episode.
        """
        if isinstance(actions, str):
            raise ConfigError(f"expected a list of {self.num_envs} actions, one for each slot, got one string")
        if len(actions) != self.num_envs:
            raise ConfigError(f"expected {self.num_envs} actions, one for each slot, got {len(actions)}")
        live = self.live_slots
        if not live:
            raise EpisodeError("step() without a running episode; call reset() first")
        outcomes = self.step_slots({slot: actions[slot] for slot in live})
        rewards = np.zeros(self.num_envs, dtype=np.float64)
        for slot, outcome in outcomes.items():
            rewards[slot] = outcome.reward
        last = [entry.last for entry in self._slots]
        terminations = np.array([one is not None and one.terminated for one in last], dtype=np.bool_)
        truncations = np.array([one is not None and one.truncated for one in last], dtype=np.bool_)
        errors = {slot: outcome.error for slot, outcome in outcomes.items()}
        return self._observations(), rewards, terminations, truncations, self._infos(live, errors)

    def render(self) -> tuple[Any, ...] | None:
        """Return what each environment renders."""
        replies = self._run({slot: Request("render") for slot in range(self.num_envs)}, self.step_timeout)
        _raise_first(replies.raised)
        return tuple(replies.values.get(slot) for slot in range(self.num_envs))

    def close_extras(self, **kwargs: Any) -> None:
        """Close the environments and end the workers."""
        self._backend.close()

    def __del__(self) -> None:
        """Leave no process behind."""
        if not getattr(self, "closed", True):
            self.close()

    # Inside -------------------------------------------------------------------------------------------------------

    def _check_slot(self, slot: int) -> None:
        if self.closed:
            raise EpisodeError("the vector environment is closed; make a new one")
        if not 0 <= slot < self.num_envs:
            raise ConfigError(f"expected a slot from 0 to {self.num_envs - 1}, got {slot}")

    def _run(self, requests: Mapping[int, Request], timeout: float | None) -> Replies:
        """Have the requests executed, and note which episodes went down with their environment."""
        if self.closed:
            raise EpisodeError("the vector environment is closed; make a new one")
        try:
            replies = self._backend.run(requests, timeout)
        except BaseException as error:  # Ctrl-C: nobody knows how far these environments came
            lost = self._backend.abandon().union(requests)
            self._break(dict.fromkeys(lost, f"interrupted by {type(error).__name__}"))
            raise
        self._break(replies.lost)
        return replies

    def _break(self, lost: Mapping[int, str]) -> None:
        for slot, why in lost.items():
            if self._slots[slot].state == "running":
                self._slots[slot] = dataclasses.replace(self._slots[slot], state="broken", why=why)

    def _one(self, slot: int, request: Request, timeout: float | None) -> Any:
        replies = self._run({slot: request}, timeout)
        if error := replies.raised.get(slot):
            raise error if isinstance(error, AgentGymError) else EngineError(f"{type(error).__name__}: {error}")
        if slot in replies.lost:
            raise EngineError(f"{request.command} in slot {slot}: {replies.lost[slot]}")
        return replies.values[slot]

    def _observations(self) -> tuple[str, ...]:
        return tuple(entry.last.observation if entry.last else "" for entry in self._slots)

    def _infos(self, fresh: Sequence[int], errors: Mapping[int, str]) -> dict[str, Any]:
        return batch_infos([entry.last.info if entry.last else {} for entry in self._slots], fresh, errors)


def _raise_first(raised: Mapping[int, Exception]) -> None:
    for error in raised.values():
        raise error


def make_vector_env(
    env_id: str | EnvSpec,
    num_envs: int = 1,
    *,
    workers: int = 0,
    step_timeout: float | None = None,
    reset_timeout: float | None = None,
    wrap: Callable[[gym.Env[Any, Any]], gym.Env[Any, Any]]
    | Sequence[Callable[[gym.Env[Any, Any]], gym.Env[Any, Any]]] = (),
    **kwargs: Any,
) -> TextVectorEnv:
    """Make a vector of a registered environment; what ``gym.make_vec`` calls.

    Args:
        env_id: Registered id or spec.
        num_envs: Number of slots.
        workers: Worker processes, see :class:`TextVectorEnv`.
        step_timeout: Seconds for a step in a worker.
        reset_timeout: Seconds for a reset in a worker.
        wrap: A wrapper class or function, or several, around each single environment; with ``workers`` it must be
            picklable (``functools.partial(ChatHistory, mode="windowed")``).
        **kwargs: Arguments of the environment (``split="valid_seen"``, ``max_steps=30``, ...).

    >>> import agentgym_ttg
    >>> envs = make_vector_env("agentgym_ttg/ALFWorld-v0", num_envs=3, split="valid_seen")
    >>> observations, infos = envs.reset(seed=0)
    >>> observations, rewards, terminations, truncations, infos = envs.step(["look", "inventory", "dance"])
    >>> infos["action_valid"].tolist()
    [True, True, False]
    >>> envs.close()
    """
    spec = gym.spec(env_id) if isinstance(env_id, str) else env_id
    wrappers = (wrap,) if callable(wrap) else tuple(wrap)
    # Gymnasium's own guards do not know an episode that begins by restore() instead of reset().
    bare = dataclasses.replace(spec, order_enforce=False, disable_env_checker=True)
    envs = TextVectorEnv(
        EnvFactory(bare, kwargs, wrappers),
        num_envs,
        workers=workers,
        step_timeout=step_timeout,
        reset_timeout=reset_timeout,
    )
    envs.spec = spec
    return envs
