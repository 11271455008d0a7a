"""Writing every episode of an environment to a trajectory file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, SupportsFloat

import gymnasium as gym

from agentgym_ttg.core.recorder import TrajectoryBuilder
from agentgym_ttg.core.trajectory_files import TrajectoryWriter

__all__ = ["RecordTrajectories"]


class RecordTrajectories(gym.Wrapper[str, str, str, str], gym.utils.RecordConstructorArgs):
    """Appends each episode to a trajectory file as soon as it ends.

    An episode that is left by ``reset`` or ``close`` before its end is written as ``truncated``, with
    ``metadata["unfinished"]``; one in which the environment broke down is written as ``error``.

    Args:
        env: Any :class:`~agentgym_ttg.envs.MultiTurnEnv`, wrapped or not.
        path: The file; made if it is not there, else appended to. One environment at a time can write it.
        policy: Name of the policy that acts.
        metadata: What else is to stand with each trajectory; JSON-serialisable.

    Raises:
        TrajectoryFileError: If the file cannot be written; from the constructor where that is known then.
    """

    def __init__(
        self,
        env: gym.Env[str, str],
        path: str | os.PathLike[str],
        policy: str = "",
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        gym.utils.RecordConstructorArgs.__init__(
            self, path=os.fspath(path), policy=policy, metadata=None if metadata is None else dict(metadata)
        )
        gym.Wrapper.__init__(self, env)
        self.policy = policy
        self.extra = dict(metadata or {})
        self._writer = TrajectoryWriter(path)
        self._builder: TrajectoryBuilder | None = None

    @property
    def env_id(self) -> str:
        """The id that stands in the records."""
        return env_id_of(self.env)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Write what was left unfinished, and begin anew."""
        self._write()
        observation, info = self.env.reset(seed=seed, options=options)
        metadata: dict[str, Any] = {"split": self.env.get_wrapper_attr("split")}
        if seed is not None:
            metadata["seed"] = int(seed)
        self._builder = TrajectoryBuilder(
            env_id=self.env_id,
            policy=self.policy,
            observation=observation,
            info=info,
            metadata={**metadata, **self.extra},
        )
        return observation, info

    def step(self, action: str) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step, and write the episode if it is over."""
        phase = self.env.get_wrapper_attr("phase")
        try:
            observation, reward, terminated, truncated, info = self.env.step(action)
        except Exception as error:
            if phase == "running" and self.env.get_wrapper_attr("phase") == "done" and self._builder is not None:
                self._builder.add(
                    action,
                    observation="",
                    reward=0.0,
                    terminated=False,
                    truncated=True,
                    info={"action_valid": False},
                    error=f"{type(error).__name__}: {error}"[:2000],
                )
                self._write()
            raise
        if self._builder is not None:
            self._builder.add(
                action,
                observation=observation,
                reward=float(reward),
                terminated=terminated,
                truncated=truncated,
                info=info,
            )
            if self._builder.finished:
                self._write()
        return observation, reward, terminated, truncated, info

    def _write(self) -> None:
        """Write the episode, if there is one with at least one decision."""
        builder, self._builder = self._builder, None
        if builder is not None and len(builder):
            self._writer.write(builder.finish())

    def snapshot(self) -> Any:
        """Return the present point of the episode, with its record so far."""
        builder = self._builder.copy() if self._builder is not None else None
        return (self.env.get_wrapper_attr("snapshot")(), builder)

    def restore(self, snapshot: Any) -> None:
        """Go back to a point of the episode; the record branches with it.

        The branch that is left is not written: only episodes that were played to their end are on their own.
        """
        inner, builder = snapshot
        self.env.get_wrapper_attr("restore")(inner)
        self._builder = builder.copy() if builder is not None else None

    def close(self) -> None:
        """Write what was left unfinished, close the file and the environment; closing twice is fine."""
        try:
            self._write()
        finally:
            self._writer.close()
            super().close()


def env_id_of(env: gym.Env[Any, Any]) -> str:
    """Return the registered id of an environment, else the one it was lifted with, else its class's name."""
    if env.spec is not None:
        return env.spec.id
    return str(getattr(env.unwrapped, "env_id", "")) or type(env.unwrapped).__name__
