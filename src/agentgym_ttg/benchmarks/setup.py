"""From settings to the parts of a run: method, environments, prompt, policy."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import load_env_creator

from agentgym_ttg.agents.guided import GuidedEngine, require_branching
from agentgym_ttg.agents.methods import Method, PolicySettings, get_method
from agentgym_ttg.agents.policies.base import Policy, SamplingParams
from agentgym_ttg.agents.rollout import RolloutEngine
from agentgym_ttg.agents.signals import scorer_settings
from agentgym_ttg.core.errors import ConfigError, nearest
from agentgym_ttg.envs import ENVIRONMENTS, MultiTurnEnv, resolve_env_id
from agentgym_ttg.envs.vector import TextVectorEnv, make_vector_env
from agentgym_ttg.scorers import StepScorer, scorer_kind
from agentgym_ttg.wrappers.chat import PromptBuilder
from agentgym_ttg.wrappers.templates import load_template

from .config import RunConfig

__all__ = ["Setup", "resolve", "short_name"]


def _creator(env_id: str) -> Any:
    entry = gym.spec(env_id).entry_point
    try:
        return load_env_creator(entry) if isinstance(entry, str) else entry
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"cannot import the environment {env_id!r} ({entry}): {error}") from error


def _named(name: str, what: str, known: tuple[str, ...]) -> str:
    if known and name not in known:
        hint = nearest(name, known)
        raise ConfigError(
            f"unknown {what} {name!r}; expected one of {', '.join(known)}"
            + (f" (did you mean {hint[0]!r}?)" if hint else "")
        )
    return name


def eval_split(env_id: str) -> str:
    """Return the split that an environment is evaluated on unless told otherwise."""
    if env_id in ENVIRONMENTS:
        return ENVIRONMENTS[env_id].default_eval_split
    splits: tuple[str, ...] = getattr(_creator(env_id), "splits", ("test",))
    return "test" if "test" in splits else splits[-1]


def short_name(env_id: str) -> str:
    """Return what folders call an environment.

    >>> short_name("agentgym_ttg/ALFWorld-v0")
    'alfworld'
    """
    return re.sub(r"-v\d+\Z", "", re.split("[/:]", env_id)[-1]).lower()


def resolve(config: RunConfig) -> RunConfig:
    """Return the settings with every default that depends on method or environment filled in.

    Raises:
        ConfigError: If method, environment or split are unknown; names the nearest.
    """
    method = get_method(config.method)
    env_id = resolve_env_id(config.env)
    creator = _creator(env_id)
    splits: tuple[str, ...] = getattr(creator, "splits", ())
    held_out = _named(config.eval_split, "split", splits) if config.eval_split else eval_split(env_id)
    split = config.split or (held_out if method.kind == "evaluate" or "train" not in splits else "train")
    action_format = config.action_format
    if action_format is None:
        offered = getattr(creator, "action_formats", ())
        action_format = next((name for name in method.action_formats if name in offered), None)
    template = config.template
    if template is None:
        template = env_id if method.prompted or config.prompt == "windowed" else "none"
    return config.model_copy(
        update={
            # `module:id` stays, so that the run folder's config.json finds the environment again.
            "env": config.env if ":" in config.env else env_id,
            "split": _named(split, "split", splits),
            "eval_split": held_out,
            "final_splits": tuple(_named(name, "split", splits) for name in config.final_splits),
            "action_format": action_format,
            "template": template,
        }
    )


@dataclass
class Setup:
    """The parts of a run, from resolved settings.

    Attributes:
        config: The settings, resolved.
        method: The method.
        env_id: Registered id.
        probe: An environment like those that are played, for its tasks, data and action format.
    """

    config: RunConfig
    method: Method = field(init=False)
    env_id: str = field(init=False)
    probe: MultiTurnEnv = field(init=False)

    def __post_init__(self) -> None:
        """Resolve the settings and make the probe.

        Raises:
            ConfigError: If a setting cannot work.
            DataError: If the data are not there.
        """
        self.config = resolve(self.config)
        self.method = get_method(self.config.method)
        self.env_id = resolve_env_id(self.config.env)
        self.probe = self.make_env()

    @property
    def split(self) -> str:
        """The split that is played."""
        assert self.config.split is not None
        return self.config.split

    def env_kwargs(self, *, split: str | None = None, expert: bool | None = None) -> dict[str, Any]:
        """Return the arguments of the environments.

        Args:
            split: Another split than the settings'.
            expert: Whether ``info`` is to carry the expert's actions; default as the method needs.
        """
        config = self.config
        given: dict[str, Any] = {
            "split": split or config.split,
            "max_steps": config.max_steps,
            "max_tokens": config.max_tokens,
            "action_format": config.action_format,
            "data_dir": config.data_dir,
        }
        out = {name: value for name, value in given.items() if value is not None}
        if clash := sorted(set(out) & set(config.env_kwargs)):
            raise ConfigError(f"env_kwargs names {clash[0]!r}, which has a field of its own; use that")
        out |= config.env_kwargs
        out |= dict(self.method.env_kwargs)
        if expert is not None:
            out["expert"] = expert
        return out

    def make_envs(
        self, num_envs: int | None = None, *, split: str | None = None, expert: bool | None = None
    ) -> TextVectorEnv:
        """Make the vector environment.

        Args:
            num_envs: Slots; default the settings'.
            split: Another split than the settings'.
            expert: See :meth:`env_kwargs`.
        """
        return make_vector_env(
            self.env_id,
            num_envs or self.config.num_envs,
            workers=self.config.workers,
            **self.env_kwargs(split=split, expert=expert),
        )

    def make_env(self, *, split: str | None = None, expert: bool | None = None) -> MultiTurnEnv:
        """Make one environment.

        Raises:
            ConfigError: If it does not take the arguments, or is not of ours.
        """
        kwargs = self.env_kwargs(split=split, expert=expert)
        creator = _creator(self.env_id)
        if not isinstance(creator, type) or issubclass(creator, MultiTurnEnv):
            _check_arguments(self.env_id, creator, kwargs)
            env = gym.make(self.env_id, **kwargs).unwrapped
            if isinstance(env, MultiTurnEnv):
                return env
        raise ConfigError(
            f"{self.env_id} is no multi-turn text environment; lift it with agentgym_ttg.from_text_env and register "
            "what that returns"
        )

    @property
    def sampling(self) -> SamplingParams:
        """How the policy samples."""
        config = self.config
        return SamplingParams(config.temperature, config.top_p, config.max_response_tokens)

    def prompt(self) -> PromptBuilder:
        """Return the prototype of the prompt.

        Raises:
            ConfigError: If there is no such template.
        """
        source = self.config.template
        template = None if source is None or source == "none" else load_template(source)
        return PromptBuilder(self.config.prompt, self.config.history_length, template)

    def policy(self) -> Policy:
        """Build the method's policy.

        Raises:
            ConfigError: If a setting that it needs is missing.
            MissingDependencyError: If what runs it is not installed.
            PolicyError: If a model cannot be loaded.
        """
        config = self.config
        if config.train.threads is not None and config.model is not None and config.base_url is None:
            import torch

            torch.set_num_threads(config.train.threads)
        return self.method.make_policy(
            PolicySettings(
                format=self.probe.format,
                model=config.model,
                base_url=config.base_url,
                api_key_env=config.api_key_env,
                noise=config.noise,
                dtype=config.train.dtype,
                device=config.train.device,
                concurrency=config.num_envs,
            )
        )

    @functools.cached_property
    def scorer(self) -> StepScorer | None:
        """The step scorer that picks among candidates; None for methods that ask none.

        Raises:
            ConfigError: If there is none of this name, something that it needs is missing, or the environment cannot
                branch.
        """
        if self.method.choice != "scorer":
            return None
        config = self.config.train
        kind = scorer_kind(config.signal or "ttg")
        if "meter" in kind.needs and config.meter is None:
            raise ConfigError(
                f"{self.config.method} with --signal {kind.name} needs a trained meter: --meter FOLDER (a run of "
                "deltattg leaves one in its folder, under meter/)"
            )
        require_branching(self.probe)
        per_step = 1 if kind.meter_target == "steps" else self.config.max_response_tokens
        return kind.make(
            scorer_settings(
                config,
                meter=config.meter,
                failure_cost=config.failure_cost or float(self.probe.max_steps * per_step),
                model=self.config.model if "model" in kind.needs else None,
                guiding=True,
            )
        )

    def engine(self, envs: TextVectorEnv, policy: Policy, sampling: SamplingParams) -> RolloutEngine:
        """Return what plays the episodes of this method."""
        prompt = self.prompt()
        if self.method.choice is None:
            return RolloutEngine(envs, policy, env_id=self.env_id, prompt=prompt, sampling=sampling)
        return GuidedEngine(
            envs,
            policy,
            self.scorer,
            env_id=self.env_id,
            tokenizer=self.probe.tokenizer,
            candidates=1 if self.method.choice == "first" else self.config.candidates,
            choice=self.method.choice,
            prompt=prompt,
            sampling=sampling,
        )

    def close(self) -> None:
        """Release the probe."""
        self.probe.close()


def _check_arguments(env_id: str, creator: Any, kwargs: Mapping[str, Any]) -> None:
    """Refuse an argument that the environment does not take, with the nearest that it does."""
    known: dict[str, inspect.Parameter] = {}
    open_ended = True
    for layer in getattr(creator, "__mro__", (creator,)):
        init = layer.__dict__.get("__init__") if isinstance(layer, type) else layer
        if init is None:
            continue
        parameters = inspect.signature(init).parameters
        known |= {name: p for name, p in parameters.items() if name != "self"}
        open_ended = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
        if not open_ended:
            break
    if open_ended:
        return
    for name in kwargs:
        if name not in known:
            hint = nearest(name, known)
            flag = " (--data-dir)" if name == "data_dir" else ""
            raise ConfigError(
                f"{env_id} takes no argument {name!r}{flag}"
                + (f"; did you mean {hint[0]!r}?" if hint else ".")
                + f" It takes {', '.join(sorted(n for n in known if not re.match('_|kwargs$|args$', n)))}."
            )
