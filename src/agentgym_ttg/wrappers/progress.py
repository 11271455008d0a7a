"""Token-to-Go credit for any environment: what each step was worth, in ``info``."""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, SupportsFloat

import gymnasium as gym

from agentgym_ttg.core.completion import Completion
from agentgym_ttg.core.errors import ConfigError, EpisodeError
from agentgym_ttg.core.messages import Message
from agentgym_ttg.core.recorder import TrajectoryBuilder
from agentgym_ttg.core.trajectory import Trajectory, Turn
from agentgym_ttg.credit import bounded_unit_mean_weights, progress_deltas, step_shares

if TYPE_CHECKING:
    from agentgym_ttg.meter.base import Estimate, ProgressMeter

__all__ = ["ProgressCredit"]


@dataclass(slots=True)
class _Episode:
    builder: TrajectoryBuilder
    estimates: list[Estimate] = field(default_factory=list)
    costs: list[float | None] = field(default_factory=list)

    def copy(self) -> _Episode:
        return _Episode(self.builder.copy(), list(self.estimates), list(self.costs))


class ProgressCredit(gym.Wrapper[str, str, str, str], gym.utils.RecordConstructorArgs):
    """Adds to ``info`` what a progress meter says of the episode.

    ``info["ttg"]``, after ``reset`` and every ``step``, always with the same keys, about the state that the
    observation shows:

    - ``can_complete`` (bool): whether the task can still be completed;
    - ``remaining_tokens`` (float): assistant tokens still to go, None where it cannot;
    - ``cost`` (float): those tokens, or the failure cost; at the end 0 after success, the failure cost otherwise;
    - ``delta`` (float): cost before the action minus cost after it, progress > 0; None after ``reset``;
    - ``valid`` (bool): whether the meter's answer could be read; without it there is no cost.

    Deferred (``online=False``), each is None until the end of the episode, and the meter is asked once.

    ``info["credit"]`` is None until the end, and then a dict: ``deltas`` (T floats), ``costs`` (T + 1), ``tokens`` (T
    ints), ``weights_positive`` and ``weights_negative`` (T floats each: what a positive and a negative advantage of
    the trajectory is multiplied by at each step; their token-weighted mean is 1), ``estimates`` (T dicts), and
    ``kept`` (str): why the weights are all 1 (``"invalid"``: an answer could not be read; ``"never_completable"``: the
    meter never believed in success), ``""`` where the meter decides. In a group, one invalid answer resets the weights
    of the whole group; that is for the estimator, which sees the group.

    Args:
        env: Any :class:`~agentgym_ttg.envs.MultiTurnEnv`, wrapped or not, also a lifted foreign one.
        meter: A trained meter's folder or hub id, or an object with the protocol of
            :class:`~agentgym_ttg.meter.ProgressMeter`. Only the former can be written into ``env.spec``'s JSON.
        online: Whether to ask the meter at every step, or once at the end.
        failure_cost: C, cost of a state that cannot be completed; default ``max_steps x max_response_tokens``, or
            ``max_steps`` for a meter of steps to go.
        max_response_tokens: Limit of one message, for the default of ``failure_cost``.
        rho: Uniform part of the step shares.
        cap: M, largest weight.

    Raises:
        ConfigError: If a setting cannot work, or there is no such meter.
    """

    def __init__(
        self,
        env: gym.Env[str, str],
        meter: str | os.PathLike[str] | ProgressMeter,
        *,
        online: bool = True,
        failure_cost: float | None = None,
        max_response_tokens: int = 512,
        rho: float = 0.2,
        cap: float = 5.0,
    ) -> None:
        if isinstance(meter, os.PathLike):
            meter = os.fspath(meter)
        gym.utils.RecordConstructorArgs.__init__(
            self,
            meter=meter,
            online=online,
            failure_cost=failure_cost,
            max_response_tokens=max_response_tokens,
            rho=rho,
            cap=cap,
            _disable_deepcopy=True,  # a meter holds a model
        )
        gym.Wrapper.__init__(self, env)
        if not 0 <= rho <= 1:
            raise ConfigError(f"expected rho in [0, 1], got {rho}")
        if not cap >= 1:
            raise ConfigError(f"expected cap >= 1, got {cap}")
        self.meter = _as_meter(meter)
        self.online = online
        self.rho = rho
        self.cap = cap
        per_step = 1 if getattr(self.meter, "target", "tokens") == "steps" else max_response_tokens
        self.failure_cost = _failure_cost(env, failure_cost, per_step)
        self._episode: _Episode | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Reset, and estimate the first state."""
        observation, info = self.env.reset(seed=seed, options=options)
        env_id = self.env.spec.id if self.env.spec is not None else type(self.env.unwrapped).__name__
        builder = TrajectoryBuilder(env_id=env_id, policy="", observation=observation, info=info)
        self._episode = _Episode(builder)
        ttg = _nothing()
        if self.online:
            ttg = self._look(self._episode, observation, info)
        return observation, {**info, "ttg": ttg, "credit": None}

    def step(self, action: str) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step, and estimate what came of it."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        episode = self._episode
        if episode is None:
            raise EpisodeError("step() without an episode; call reset() first")
        episode.builder.add(
            action,
            observation=observation,
            reward=float(reward),
            terminated=terminated,
            truncated=truncated,
            info=info,
        )
        credit: dict[str, Any] | None = None
        ttg = _nothing()
        if terminated or truncated:
            ttg, credit = self._finish(episode)
            self._episode = None
        elif self.online:
            ttg = self._look(episode, observation, info)
        return observation, reward, terminated, truncated, {**info, "ttg": ttg, "credit": credit}

    def _look(self, episode: _Episode, observation: str, info: dict[str, Any]) -> dict[str, Any]:
        """Ask for the present state: the decision that is due is a turn whose action is not there yet."""
        trajectory = episode.builder.finish()
        messages = tuple(Message.from_dict(message) for message in info.get("messages", ()))
        if not messages:
            messages = (Message("user", observation),)
        trajectory.turns.append(Turn(messages, Completion("")))
        estimate = self.meter.score([trajectory])[0][-1]
        before = episode.costs[-1] if episode.costs else None
        episode.estimates.append(estimate)
        episode.costs.append(self._cost(estimate))
        return _entry(estimate, episode.costs[-1], before)

    def _finish(self, episode: _Episode) -> tuple[dict[str, Any], dict[str, Any]]:
        trajectory = episode.builder.finish()
        if not self.online:
            episode.estimates = list(self.meter.score([trajectory])[0])
            episode.costs = [self._cost(estimate) for estimate in episode.estimates]
        last = 0.0 if trajectory.success else self.failure_cost
        ttg = {
            "can_complete": trajectory.success,
            "remaining_tokens": 0.0 if trajectory.success else None,
            "cost": last,
            "delta": _difference(episode.costs[-1], last),
            "valid": True,
        }
        return ttg, self._credit(trajectory, episode, last)

    def _credit(self, trajectory: Trajectory, episode: _Episode, last: float) -> dict[str, Any]:
        counts = trajectory.token_counts
        known = [cost for cost in episode.costs if cost is not None]
        kept = ""
        deltas: list[float | None]
        if len(known) < len(episode.costs):
            kept = "invalid"
            path = [*episode.costs, last]
            deltas = [_difference(a, b) for a, b in itertools.pairwise(path)]
        else:
            found = progress_deltas(known, last)
            deltas = [float(x) for x in found]
            if not any(estimate.can_complete for estimate in episode.estimates):
                kept = "never_completable"
        weights = {}
        for name, sign in (("weights_positive", 1.0), ("weights_negative", -1.0)):
            if kept:
                weights[name] = [1.0] * len(counts)
            else:
                shares = step_shares(found, sign, rho=self.rho)
                weights[name] = [float(w) for w in bounded_unit_mean_weights(shares, counts, cap=self.cap)]
        return {
            "deltas": deltas,
            "costs": [*episode.costs, last],
            "tokens": [int(n) for n in counts],
            **weights,
            "estimates": [
                {
                    "can_complete": estimate.can_complete,
                    "remaining_tokens": estimate.remaining_tokens,
                    "valid": estimate.valid,
                }
                for estimate in episode.estimates
            ],
            "kept": kept,
        }

    def _cost(self, estimate: Estimate) -> float | None:
        """Return c of eq. 7; None for an invalid answer. An estimate above C is cut to C (spec, section 4)."""
        if not estimate.valid:
            return None
        if not estimate.can_complete or estimate.remaining_tokens is None:
            return self.failure_cost
        return min(float(estimate.remaining_tokens), self.failure_cost)

    def snapshot(self) -> Any:
        """Return the present point of the episode, estimates included."""
        inner = self.env.get_wrapper_attr("snapshot")()
        return inner, None if self._episode is None else self._episode.copy()

    def restore(self, snapshot: Any) -> None:
        """Go back to a point of the episode, estimates included."""
        inner, episode = snapshot
        self.env.get_wrapper_attr("restore")(inner)
        self._episode = None if episode is None else episode.copy()


def _as_meter(meter: str | ProgressMeter) -> ProgressMeter:
    if isinstance(meter, str):
        from agentgym_ttg.meter import load_meter

        return load_meter(meter)
    if not callable(getattr(meter, "score", None)):
        raise ConfigError(f"expected a meter's folder, hub id, or an object with score(), got {type(meter).__name__}")
    if getattr(meter, "target", "tokens") == "outcome":
        raise ConfigError("expected a meter of tokens or steps to go; this one predicts the final score")
    return meter


def _failure_cost(env: gym.Env[str, str], given: float | None, max_response_tokens: int) -> float:
    if given is not None:
        if not (given > 0 and given < float("inf")):
            raise ConfigError(f"expected failure_cost > 0, got {given}")
        return float(given)
    if max_response_tokens < 1:
        raise ConfigError(f"expected max_response_tokens >= 1, got {max_response_tokens}")
    steps = getattr(env.unwrapped, "max_steps", None) or (env.spec.max_episode_steps if env.spec else None)
    if not steps:
        raise ConfigError(
            "the environment names no limit of steps to derive the failure cost from; pass failure_cost=, or lift the "
            "environment with agentgym_ttg.from_text_env"
        )
    return float(steps * max_response_tokens)


def _entry(estimate: Estimate, cost: float | None, before: float | None) -> dict[str, Any]:
    return {
        "can_complete": bool(estimate.can_complete),
        "remaining_tokens": None if estimate.remaining_tokens is None else float(estimate.remaining_tokens),
        "cost": cost,
        "delta": _difference(before, cost),
        "valid": bool(estimate.valid),
    }


def _nothing() -> dict[str, Any]:
    return {"can_complete": None, "remaining_tokens": None, "cost": None, "delta": None, "valid": None}


def _difference(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else before - after
