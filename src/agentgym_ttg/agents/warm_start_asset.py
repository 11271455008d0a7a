"""The command that makes the shipped warm start: ``python -m agentgym_ttg.agents.warm_start --out FOLDER``."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
import tyro

from agentgym_ttg.envs.base import MultiTurnEnv
from agentgym_ttg.envs.vector import make_vector_env
from agentgym_ttg.models.loading import LoadedModel
from agentgym_ttg.wrappers.chat import PromptBuilder

from .demonstrations import record_demonstrations
from .policies.base import SamplingParams
from .policies.hf import HFPolicy
from .rollout import RolloutEngine, group_specs
from .warm_start import WarmStartConfig, save_note, train_warm_start
from .warm_start_cache import STRAYS, made_of

__all__ = ["AssetConfig", "main", "make_asset", "success_rate"]

_ENV = "agentgym_ttg/ALFWorld-v0"


@dataclass(frozen=True)
class AssetConfig:
    """Make the warm start of the built-in ALFWorld games: record the expert, clone it, evaluate the clone."""

    out: Path
    """Folder to save the model in."""
    difficulty: str = "easy"
    """Level of the built-in games."""
    demonstrations: int = 6000
    """Expert episodes to clone."""
    stumble: float = 0.2
    """Share of steps at which the expert says what the game refuses; that is read, not cloned."""
    stray_episodes: int = STRAYS
    """Episodes of an expert that errs half the time, read only for the tokenizer: what the games answer off the way."""
    eval_episodes: int = 134
    """Held-out games that the clone plays, sampled and greedily; 0 leaves it out."""
    cloning: WarmStartConfig = field(default_factory=WarmStartConfig)
    """Settings of the cloning."""


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
    say(f"recording {config.demonstrations} expert episodes")
    with tempfile.TemporaryDirectory() as folder:
        found = record_demonstrations(
            Path(folder) / "demonstrations.jsonl",
            episodes=config.demonstrations,
            stumble=config.stumble,
            strays=config.stray_episodes,
            seed=seed,
            env_id=_ENV,
            probe=probe,
            make_envs=lambda **kwargs: make_vector_env(_ENV, 64, **train, **kwargs),
        )

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
        found.solved,
        config.cloning,
        config.out,
        progress,
        prompt=prompt,
        more_texts=found.texts,
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
