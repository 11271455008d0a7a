"""The environments behind the slots of a vector environment; the same code in-process and in a worker process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from agentgym_ttg.core.errors import ConfigError, UnknownTaskError
from agentgym_ttg.core.tokenizers import Tokenizer, count_tokens

from .base import INFO_TYPES, MultiTurnEnv

__all__ = ["Description", "EnvFactory", "Factory", "SlotHost", "StepOutcome", "broken_outcome"]

Factory = Callable[[], gym.Env[str, str]]


@dataclass(frozen=True)
class EnvFactory:
    """Makes a registered environment, and wraps it; picklable where its arguments are.

    Attributes:
        spec: What to make. The spec itself travels, so a worker need not have it registered.
        kwargs: Arguments of the environment.
        wrap: Applied one after the other, the first innermost.
    """

    spec: EnvSpec
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    wrap: tuple[Callable[[gym.Env[Any, Any]], gym.Env[Any, Any]], ...] = ()

    def __call__(self) -> gym.Env[Any, Any]:
        """Make one environment."""
        env: gym.Env[Any, Any] = gym.make(self.spec, **self.kwargs)
        for wrapper in self.wrap:
            env = wrapper(env)
        return env


class StepOutcome(NamedTuple):
    """What came of one action in one slot.

    Attributes:
        observation: What the environment answered, ``""`` if it broke down.
        reward: Reward of the step.
        terminated: Whether the task's rules ended the episode.
        truncated: Whether a limit ended it, or a breakdown.
        info: ``info`` of the environment; the last one, brought up to date, if it broke down.
        error: Why the environment broke down, ``""`` if it did not. The episode is over then.
    """

    observation: str
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]
    error: str = ""

    @property
    def over(self) -> bool:
        """Whether the episode has ended."""
        return self.terminated or self.truncated or bool(self.error)


class Description(NamedTuple):
    """What the vector environment has to know of its environments."""

    observation_space: gym.Space[str]
    action_space: gym.Space[str]
    render_mode: str | None
    tokenizer: Tokenizer


def broken_outcome(
    error: str, last: Mapping[str, Any] | None, action: str | None, tokenizer: Tokenizer | None, task_id: str = ""
) -> StepOutcome:
    """Return the outcome of a step, or of a reset (``action`` None), in which the environment broke down."""
    info: dict[str, Any] = {key: kind() for key, kind in INFO_TYPES.items()}
    info.update(last or {"task_id": task_id})
    said = count_tokens(action, tokenizer) if action is not None and tokenizer is not None else 0
    info.update(
        assistant_tokens=said,
        episode_tokens=info["episode_tokens"] + said,
        success=False,
        action_valid=False,
        messages=[],
        admissible_actions=[],
    )
    return StepOutcome("", 0.0, False, True, info, error)


class SlotHost:
    """Holds the environments of some slots and executes one command at a time.

    An environment that raised is made anew before its next episode: what it holds is not to be trusted.
    """

    def __init__(self, factory: Factory, slots: Sequence[int]) -> None:
        self._factory = factory
        self._envs: dict[int, gym.Env[str, str] | None] = {}
        self._last: dict[int, dict[str, Any]] = {}
        try:
            for slot in slots:
                self._envs[slot] = self._make()
        except BaseException:
            self.close()
            raise

    def _make(self) -> gym.Env[str, str]:
        env = self._factory()
        if not isinstance(env.unwrapped, MultiTurnEnv):
            env.close()
            raise ConfigError(
                f"expected a MultiTurnEnv in a text vector environment, got {type(env.unwrapped).__name__}; "
                "lift it with agentgym_ttg.from_text_env"
            )
        return env

    def _env(self, slot: int) -> gym.Env[str, str]:
        env = self._envs[slot]
        if env is None:
            env = self._envs[slot] = self._make()
        return env

    def describe(self) -> Description:
        """Describe the environments by the first."""
        env = self._env(next(iter(self._envs)))
        assert isinstance(env.unwrapped, MultiTurnEnv)
        return Description(env.observation_space, env.action_space, env.render_mode, env.unwrapped.tokenizer)

    def execute(self, command: str, slot: int, *arguments: Any) -> Any:
        """Execute ``reset``, ``step``, ``snapshot``, ``restore``, ``render`` or ``attribute``."""
        return getattr(self, f"_do_{command}")(slot, *arguments)

    def _do_reset(self, slot: int, seed: int | None, task_id: str | None) -> StepOutcome:
        env = self._env(slot)
        # A split that cannot be read or an unknown task is the caller's error; one broken task is the episode's.
        env.get_wrapper_attr("tasks")
        try:
            observation, info = env.reset(seed=seed, options=None if task_id is None else {"task_id": task_id})
        except (ConfigError, UnknownTaskError):
            raise
        except Exception as error:
            self._discard(slot)
            return broken_outcome(_word(error), None, None, None, task_id or "")
        self._last[slot] = info
        return StepOutcome(observation, 0.0, False, False, info)

    def _do_step(self, slot: int, action: str) -> StepOutcome:
        env = self._env(slot)
        try:
            observation, reward, terminated, truncated, info = env.step(action)
        except Exception as error:
            tokenizer = env.get_wrapper_attr("tokenizer")
            self._discard(slot)
            return broken_outcome(_word(error), self._last.get(slot), action, tokenizer)
        self._last[slot] = info
        return StepOutcome(observation, float(reward), terminated, truncated, info)

    def _do_snapshot(self, slot: int) -> Any:
        return self._env(slot).get_wrapper_attr("snapshot")(), self._last.get(slot, {})

    def _do_restore(self, slot: int, state: tuple[Any, dict[str, Any]]) -> None:
        snapshot, info = state
        try:
            self._env(slot).get_wrapper_attr("restore")(snapshot)
        except Exception:
            self._discard(slot)
            raise
        self._last[slot] = info

    def _do_render(self, slot: int) -> Any:
        env = self._envs[slot]
        return None if env is None else env.render()

    def _do_attribute(self, slot: int, name: str) -> Any:
        return self._env(slot).get_wrapper_attr(name)

    def _discard(self, slot: int) -> None:
        env, self._envs[slot] = self._envs[slot], None
        if env is not None:
            try:
                env.close()
            except Exception:  # it is broken already, and a new one takes its place
                return

    def close(self) -> None:
        """Close all environments."""
        for slot in self._envs:
            self._discard(slot)


def _word(error: Exception) -> str:
    text = str(error)
    name = type(error).__name__
    return f"{name}: {text}"[:2000] if text else name
