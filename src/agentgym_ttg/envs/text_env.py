"""Lifting a foreign Gymnasium environment with text in and text out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium as gym

from agentgym_ttg.core.actions import Action
from agentgym_ttg.core.errors import ConfigError, EngineError
from agentgym_ttg.core.spaces import Unicode

from .base import MultiTurnEnv, StepResult
from .tasks import NumberedIds, Task, TaskSet

__all__ = ["ForeignTextEnv", "from_text_env"]

_TASKS = 1_000_000
_PREFIX = {"train": "seed-", "test": "test-seed-"}
_NUMERIC = (gym.spaces.Box, gym.spaces.Discrete, gym.spaces.MultiBinary, gym.spaces.MultiDiscrete, gym.spaces.Dict)

Observe = Callable[[Any], str]
Success = Callable[[float, bool, dict[str, Any]], bool]
Admissible = Callable[[dict[str, Any]], Sequence[str]]


class ForeignTextEnv(MultiTurnEnv):
    """A foreign environment behind our contract; made by :func:`from_text_env`.

    Its tasks are seeds: ``seed-000017`` resets the foreign environment with ``seed=17``, and ``test-seed-000017`` of
    the split ``test`` with ``seed=1_000_017``, so the splits do not overlap. Branching replays the actions.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any] | Callable[[], gym.Env[Any, Any]],
        *,
        env_id: str = "",
        success: Success | None = None,
        observe: Observe | None = None,
        actions: Sequence[str] | None = None,
        admissible: Admissible | None = None,
        max_steps: int | None = None,
        **kwargs: Any,
    ) -> None:
        if not isinstance(env, gym.Env) and not callable(env):
            raise ConfigError(
                f"expected a gymnasium.Env or a function that makes one, got {type(env).__name__}; "
                "make it first: from_text_env(gym.make(...))"
            )
        self.foreign: gym.Env[Any, Any] = env if isinstance(env, gym.Env) else env()
        if not isinstance(self.foreign, gym.Env):
            raise ConfigError(
                f"expected a gymnasium.Env or a function that makes one, got {type(self.foreign).__name__}"
            )
        spec = self.foreign.spec
        if max_steps is None and spec is not None:
            max_steps = spec.max_episode_steps
        super().__init__(max_steps=max_steps, **kwargs)
        self.env_id = env_id or (spec.id if spec is not None else type(self.foreign.unwrapped).__name__)
        self._success_of = success or _solved
        self._observe = observe or self._check_text_observations()
        self._admissible_of = admissible
        self._actions_by_name = self._check_actions(actions)
        self._foreign_info: dict[str, Any] = {}
        self._total = 0.0

    def _check_text_observations(self) -> Observe:
        space = self.foreign.observation_space
        if isinstance(space, _NUMERIC):
            raise ConfigError(
                f"the observations of {self.env_id} are {space}, not text; pass observe=, a function that words one"
            )
        return _as_text

    def _check_actions(self, names: Sequence[str] | None) -> dict[str, Any] | None:
        """Return the foreign action for each name; None where the foreign environment takes text."""
        space = self.foreign.action_space
        if isinstance(space, gym.spaces.Discrete):
            if names is None:
                raise ConfigError(
                    f"the actions of {self.env_id} are numbers ({space}); pass actions=[...], a name for each"
                )
            if len(names) != space.n:
                raise ConfigError(f"expected {space.n} names in actions, one for each of {space}, got {len(names)}")
            table = {name.strip().lower(): space.start + number for number, name in enumerate(names)}
            if len(table) != len(names):
                raise ConfigError("expected different names in actions (letter case does not count)")
            self._names = [name.strip() for name in names]
            return table
        if names is not None:
            raise ConfigError(f"actions= names the actions of a Discrete space; {self.env_id} has {space}")
        if not isinstance(space, (gym.spaces.Text, Unicode)) and type(space).__module__.startswith("gymnasium."):
            raise ConfigError(f"expected an environment with text or Discrete actions, {self.env_id} has {space}")
        return None

    def _tasks(self, split: str) -> TaskSet:
        return TaskSet(split, NumberedIds(_PREFIX[split], _TASKS), source=self.env_id)

    def _begin(self, task: Task) -> str:
        ids = self.tasks.ids
        assert isinstance(ids, NumberedIds)
        seed = ids.number(task.id) + (_TASKS if task.split == "test" else 0)
        observation, info = self.foreign.reset(seed=seed)
        self._foreign_info = dict(info)
        self._total = 0.0
        return self._words(observation)

    def _act(self, action: Action) -> StepResult:
        foreign_action: Any = action.command
        if self._actions_by_name is not None:
            known = self._actions_by_name.get(action.command.strip().lower())
            if known is None:
                return StepResult(f"Unknown action. Expected one of: {', '.join(self._names)}.", valid=False)
            foreign_action = known
        observation, reward, terminated, truncated, info = self.foreign.step(foreign_action)
        self._foreign_info = dict(info)
        self._total += float(reward)
        return StepResult(
            self._words(observation),
            reward=float(reward),
            terminated=bool(terminated),
            truncated=bool(truncated),
            success=bool(self._success_of(self._total, bool(terminated), self._foreign_info)),
        )

    def _words(self, observation: Any) -> str:
        text = self._observe(observation)
        if not isinstance(text, str):
            raise EngineError(
                f"expected the observation of {self.env_id} as text, got {type(text).__name__}; "
                "pass observe=, a function that words one"
            )
        return text

    def _admissible_actions(self) -> list[str]:
        if self._admissible_of is not None:
            return [str(action) for action in self._admissible_of(self._foreign_info)]
        if self._actions_by_name is not None:
            return list(self._names)
        for key in ("admissible_actions", "admissible_commands"):
            found = self._foreign_info.get(key)
            if isinstance(found, (list, tuple)) and all(isinstance(action, str) for action in found):
                return list(found)
        return []

    def _close(self) -> None:
        self.foreign.close()


def _solved(total_reward: float, terminated: bool, info: Mapping[str, Any]) -> bool:
    return terminated and total_reward > 0


def _as_text(observation: Any) -> str:
    text: str = observation
    return text


def from_text_env(
    env: gym.Env[Any, Any] | Callable[[], gym.Env[Any, Any]],
    *,
    env_id: str = "",
    success: Success | None = None,
    observe: Observe | None = None,
    actions: Sequence[str] | None = None,
    admissible: Admissible | None = None,
    max_steps: int | None = None,
    **kwargs: Any,
) -> ForeignTextEnv:
    """Lift a Gymnasium environment that this project does not know to a :class:`MultiTurnEnv`.

    It gains token accounting, chat messages, limits, branching, recording and everything that is built on them. The
    foreign environment must be deterministic given its seed and the actions, as Gymnasium asks for: tasks are seeds,
    and branching replays.

    Args:
        env: The environment, or a function that makes one (a picklable one can go into worker processes:
            ``TextVectorEnv(functools.partial(from_text_env, make_env), 64, workers=2)``).
        env_id: Name for records; default its registered id.
        success: Whether the task is solved, from (total reward so far, terminated, info); default: terminated with a
            total reward above zero.
        observe: Words an observation that is no text (``lambda observation: observation["mission"]``).
        actions: A name for each action of a Discrete action space, in order.
        admissible: The legal commands, from ``info``; default: the names of Discrete actions, else
            ``info["admissible_actions"]`` or ``info["admissible_commands"]``, else none.
        max_steps: Decisions after which the episode is truncated; default the limit of the environment's registration,
            else 50. The foreign environment's own truncation holds as well.
        **kwargs: ``split``, ``max_tokens``, ``action_format``, ``tokenizer``, ``render_mode`` of
            :class:`MultiTurnEnv`.

    Raises:
        ConfigError: If observations or actions are neither text nor worded by ``observe`` and ``actions``.

    >>> import gymnasium as gym
    >>> env = from_text_env(
    ...     gym.make("FrozenLake-v1", is_slippery=False),
    ...     observe=lambda cell: f"You stand on field {cell} of 16.",
    ...     actions=["left", "down", "right", "up"],
    ... )
    >>> observation, info = env.reset(options={"task_id": "seed-000017"})
    >>> observation, info["admissible_actions"]
    ('You stand on field 0 of 16.', ['left', 'down', 'right', 'up'])
    >>> for action in ["down", "down", "right", "right", "down", "right"]:
    ...     observation, reward, terminated, truncated, info = env.step(action)
    >>> terminated, info["success"], info["episode_tokens"] >= 6
    (True, True, True)
    """
    return ForeignTextEnv(
        env,
        env_id=env_id,
        success=success,
        observe=observe,
        actions=actions,
        admissible=admissible,
        max_steps=max_steps,
        **kwargs,
    )
