"""Building the record of an episode while it is played."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .completion import Completion
from .messages import Message
from .trajectory import Outcome, Trajectory, Turn

__all__ = ["TrajectoryBuilder"]


class TrajectoryBuilder:
    """Collects the turns of one episode; used by the recording wrapper and by the rollout engine alike.

    Args:
        env_id: Registered id of the environment.
        policy: Name of the policy that acts.
        observation: The first observation.
        info: ``info`` of ``reset``.
        metadata: What else is known of the episode (split, seed, ...); JSON-serialisable.

    >>> info = {"task_id": "t", "messages": [{"role": "user", "content": "Go."}], "anchor": "a", "tools": []}
    >>> builder = TrajectoryBuilder(env_id="toy", policy="me", observation="Go.", info=info)
    >>> after = {**info, "messages": [{"role": "user", "content": "Done."}], "success": True, "assistant_tokens": 2}
    >>> builder.add("go", observation="Done.", reward=1.0, terminated=True, truncated=False, info=after)
    >>> trajectory = builder.finish()
    >>> trajectory.outcome, trajectory.total_reward, trajectory.turns[0].messages[0].content
    ('success', 1.0, 'Go.')
    """

    def __init__(
        self,
        *,
        env_id: str,
        policy: str,
        observation: str,
        info: Mapping[str, Any],
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        self._env_id = env_id
        self._policy = policy
        self._metadata = dict(metadata or {})
        self._task_id = str(info["task_id"])
        self._tools: list[dict[str, Any]] = list(info.get("tools", ()))
        self._tools_now = self._tools
        self._turns: list[Turn] = []
        self._over: Outcome | None = None
        self._error = ""
        self._see(observation, info)

    def _see(self, observation: str, info: Mapping[str, Any]) -> None:
        """Remember the state that the next decision is taken in."""
        self._messages = tuple(Message.from_dict(message) for message in info.get("messages", ()))
        if not self._messages and not self._turns:
            self._messages = (Message("user", observation),)
        self._anchor = str(info.get("anchor", ""))
        self._task_type = str(info.get("task_type", ""))
        self._metrics = dict(info.get("metrics", {}))

    @property
    def finished(self) -> bool:
        """Whether the episode is over."""
        return self._over is not None

    def __len__(self) -> int:
        """Return the number of turns so far."""
        return len(self._turns)

    def add(
        self,
        completion: str,
        *,
        observation: str,
        reward: float,
        terminated: bool,
        truncated: bool,
        info: Mapping[str, Any],
        error: str = "",
    ) -> None:
        """Add one decision and what came of it.

        Args:
            completion: What the assistant said; a :class:`Completion` keeps its ids.
            observation: What the environment answered.
            reward: Reward of the step.
            terminated: Whether the task's rules ended the episode.
            truncated: Whether a limit ended it.
            info: ``info`` of the step.
            error: Why the environment or the policy broke down, ``""`` if it did not; ends the episode.

        Raises:
            ValueError: If the episode is already over.
        """
        if self._over is not None:
            raise ValueError("expected a running episode, got a turn after its end")
        said = completion if isinstance(completion, Completion) else Completion(completion)
        turn = Turn(
            messages=self._messages,
            completion=said,
            observation=str(observation),
            reward=float(reward),
            tokens=int(info.get("assistant_tokens", len(said.token_ids or ()))),
            anchor=self._anchor,
            valid=bool(info.get("action_valid", not error)),
            prompt_ids=said.prompt_ids,
        )
        if self._tools_now != self._tools:  # tools that came on offer during the episode
            turn.metadata["tools"] = self._tools_now
        self._turns.append(turn)
        self._see(observation, info)
        self._tools_now = list(info.get("tools", self._tools_now))
        if error:
            self._over, self._error = "error", error
        elif terminated or truncated:
            self._over = "success" if info.get("success") else ("failure" if terminated else "truncated")

    def fail(self, error: str) -> None:
        """End the episode as ``error`` without a decision: the environment did not begin, or the policy broke down.

        Raises:
            ValueError: If the episode is already over.
        """
        if self._over is not None:
            raise ValueError("expected a running episode, got an error after its end")
        self._over, self._error = "error", error

    def finish(self) -> Trajectory:
        """Return the trajectory; an episode that is not over counts as truncated, and its metadata says so."""
        metadata = dict(self._metadata)
        if self._task_type:
            metadata["task_type"] = self._task_type
        if self._metrics:
            metadata["metrics"] = dict(self._metrics)
        if self._error:
            metadata["error"] = self._error
        if self._over is None:
            metadata["unfinished"] = True
        return Trajectory(
            env_id=self._env_id,
            task_id=self._task_id,
            policy=self._policy,
            turns=list(self._turns),
            outcome=self._over or "truncated",
            total_reward=float(sum(turn.reward for turn in self._turns)),
            tools=list(self._tools),
            metadata=metadata,
        )

    def copy(self) -> TrajectoryBuilder:
        """Return an independent copy (turns are shared, they do not change), to branch an episode."""
        other = object.__new__(TrajectoryBuilder)
        other.__dict__.update(self.__dict__)
        other._turns = list(self._turns)
        return other
