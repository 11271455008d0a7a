"""The command that makes the shipped warm start: ``python -m agentgym_ttg.agents.warm_start --out FOLDER``."""

from __future__ import annotations

import json
import os
import re
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
import tyro

from agentgym_ttg.core.trajectory import Trajectory
from agentgym_ttg.envs.base import MultiTurnEnv
from agentgym_ttg.envs.vector import make_vector_env
from agentgym_ttg.models.loading import LoadedModel
from agentgym_ttg.wrappers.chat import PromptBuilder

from .policies.base import GenerationRequest, SamplingParams
from .policies.hf import HFPolicy
from .policies.scripted import ExpertPolicy, NoisyExpertPolicy
from .rollout import EpisodeSpec, RolloutEngine, group_specs
from .tasks import TaskStream
from .warm_start import WarmStartConfig, save_note, train_warm_start
from .warm_start_cache import made_of

__all__ = ["AssetConfig", "demonstrate", "main", "make_asset", "success_rate"]

_ENV = "agentgym_ttg/ALFWorld-v0"
_ENTITY = re.compile(r"[a-z]+ \d+")


@dataclass(frozen=True)
class AssetConfig:
    """Make the warm start of the built-in ALFWorld games: record the expert, clone it, evaluate the clone."""

    out: Path
    """Folder to save the model in."""
    difficulty: str = "easy"
    """Level of the built-in games."""
    demonstrations: int = 6000
    """Expert episodes to clone."""
    stumble: float = 0.0
    """Share of steps at which the expert says what the game refuses; that is not cloned, what follows is."""
    stray_episodes: int = 60
    """Episodes of an expert that errs half the time, read only for the tokenizer: what the games answer off the way."""
    eval_episodes: int = 134
    """Held-out games that the clone plays, sampled and greedily; 0 leaves it out."""
    cloning: WarmStartConfig = field(default_factory=WarmStartConfig)
    """Settings of the cloning."""


class StumblingExpert(ExpertPolicy):
    """The expert, except that it sometimes says what the game refuses, and goes on.

    A clone of an expert that never errs has never read a refusal. Once refused it repeats itself to the end of the
    episode, and no reward tells it what else to do. Wrong commands are what experts said in other games, about the
    place where this one is, if there are such: just what a clone imagines.

    Args:
        p: Probability of a wrong command at a step.
        memory: Commands of other games to choose from.
    """

    def __init__(self, p: float, *, memory: int = 2000) -> None:
        super().__init__()
        self.p = p
        self._said: deque[tuple[str, str]] = deque(maxlen=memory)  # commands, each with the entity that it ends on

    def _answer(self, request: GenerationRequest) -> str:
        right = super()._answer(request)
        stumbles = request.rng.random() < self.p
        wrong = self._wrong(request) if stumbles else None
        self._said.append((right, (_ENTITY.findall(right) or [""])[-1]))
        return right if wrong is None else wrong

    def _wrong(self, request: GenerationRequest) -> str | None:
        """Return a command that the game will refuse, if there is one."""
        here = set(_ENTITY.findall(request.messages[-1].content))
        admissible = set(request.info["admissible_actions"])
        refused = [(said, where) for said, where in self._said if said not in admissible]
        choice = [said for said, where in refused if where in here] or [said for said, _ in refused]
        return choice[int(request.rng.integers(len(choice)))] if choice else None


def demonstrate(
    env_kwargs: dict[str, Any], policy: Any, specs: Sequence[EpisodeSpec], *, env_id: str = _ENV
) -> list[Trajectory]:
    """Let a scripted policy play; return its episodes in the order of ``specs``."""
    envs = make_vector_env(env_id, min(64, len(specs)), expert=True, **env_kwargs)
    try:
        engine = RolloutEngine(envs, policy, env_id=env_id)
        return [group.trajectories[0] for group in engine.run_groups(specs)]
    finally:
        envs.close()


def success_rate(
    loaded: LoadedModel, env_kwargs: dict[str, Any], *, episodes: int, temperature: float, prompt: PromptBuilder
) -> float:
    """Let a model play the first tasks of a split; return the share that it solves."""
    envs = make_vector_env(_ENV, min(64, episodes), **env_kwargs)
    try:
        specs = group_specs(list(envs.tasks[:episodes]), size=1, seed=0, name="held-out")
        engine = RolloutEngine(
            envs,
            HFPolicy(loaded),
            env_id=_ENV,
            prompt=prompt,
            sampling=SamplingParams(temperature=temperature, max_tokens=16),
        )
        return sum(done.trajectory.success for done in engine.run(specs)) / len(specs)
    finally:
        envs.close()


def make_asset(config: AssetConfig, say: Callable[[str], None] = print) -> dict[str, Any]:
    """Make and save the warm start; return its note.

    Args:
        config: Settings.
        say: Takes lines of progress.
    """
    import torch

    from agentgym_ttg.models.loading import load_causal_lm

    if config.cloning.threads is not None:
        torch.set_num_threads(config.cloning.threads)
    games: dict[str, Any] = {"data": "built-in", "difficulty": config.difficulty}
    train, held_out = {**games, "split": "train"}, {**games, "split": "valid_unseen"}
    probe = gym.make(_ENV, **train).unwrapped
    assert isinstance(probe, MultiTurnEnv)
    seed, prompt = config.cloning.seed, PromptBuilder()
    # Seeds that no run uses, so that training meets other games than those that were cloned.
    tasks = TaskStream(probe.tasks, 2**31 + seed).take(0, config.demonstrations + config.stray_episodes)
    specs = group_specs(tasks, size=1, seed=seed, name="demonstration")
    say(f"recording {config.demonstrations} expert episodes")
    demos = demonstrate(train, StumblingExpert(config.stumble), specs[: config.demonstrations])
    strays = demonstrate(train, NoisyExpertPolicy(0.5, probe.format), specs[config.demonstrations :])
    demos = [trajectory for trajectory in demos if trajectory.success]

    def progress(done: int, total: int, numbers: dict[str, float]) -> None:
        if done % 25 == 0 or done == total:
            say(
                f"update {done}/{total}: loss {numbers['loss']:.3f}, accuracy {numbers['accuracy']:.3f}, "
                f"{numbers['seconds']:.0f} s"
            )

    note = {
        **made_of(_ENV, probe, prompt),
        "difficulty": config.difficulty,
        "source": "agentgym_ttg.agents.warm_start",
        "stumble": config.stumble,
    }
    train_warm_start(
        demos,
        config.cloning,
        config.out,
        progress,
        prompt=prompt,
        more_texts=[turn.observation for trajectory in strays for turn in trajectory.turns],
        made_of=note,
    )
    if config.eval_episodes:
        say(f"playing {config.eval_episodes} held-out games")
        saved = load_causal_lm(str(config.out), device="cpu")
        rates = {
            name: success_rate(saved, held_out, episodes=config.eval_episodes, temperature=temperature, prompt=prompt)
            for name, temperature in (("sampled", 1.0), ("greedy", 0.0))
        }
        save_note(config.out, {f"success_{name}": round(rate, 4) for name, rate in rates.items()})
    return dict(json.loads((config.out / "warm_start.json").read_text()))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    config = tyro.cli(AssetConfig, args=arguments, prog="python -m agentgym_ttg.agents.warm_start")
    note = make_asset(config, lambda line: print(line, file=sys.stderr, flush=True))
    print(json.dumps(note, indent=2, sort_keys=True))
    return 0
