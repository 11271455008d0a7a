"""A model that plays the counting game, but not well; needs the extra 'train'."""

from __future__ import annotations

from pathlib import Path

from toy_envs import COUNTING, CountingEnv

from agentgym_ttg.agents.recording import parse_recorder, record
from agentgym_ttg.agents.warm_start import WarmStartConfig, train_warm_start
from agentgym_ttg.core import load_trajectories
from agentgym_ttg.envs.vector import make_vector_env
from agentgym_ttg.models.tiny import TinyConfig


def make_counting_models(folder: Path, *, episodes: int, updates: tuple[int, ...]) -> list[Path]:
    """Clone a poor expert; return the model after each number of updates."""
    record(
        folder / "demos.jsonl",
        [parse_recorder("noisy:0.7")],
        episodes=episodes,
        seed=0,
        env_id=COUNTING,
        make_envs=lambda expert: make_vector_env(COUNTING, 16, expert=expert),
        probe=CountingEnv(),
    )
    tiny = TinyConfig(hidden=32, layers=2, heads=2, feed_forward=48, vocab=320, context=512)
    models = []
    for count in updates:
        config = WarmStartConfig(updates=count, batch_size=16, learning_rate=5e-3, tiny=tiny, dtype="float32")
        models.append(folder / f"model-{count}")
        train_warm_start(load_trajectories(folder / "demos.jsonl"), config, models[-1])
    return models
