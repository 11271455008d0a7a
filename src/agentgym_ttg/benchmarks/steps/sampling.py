"""Sampling several trajectories of each task."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from agentgym_ttg.agents.recording import parse_recorder
from agentgym_ttg.agents.rollout import RolloutEngine, group_specs
from agentgym_ttg.agents.tasks import TaskStream
from agentgym_ttg.core.errors import ConfigError
from agentgym_ttg.core.trajectory_files import TrajectoryWriter, iter_trajectories
from agentgym_ttg.envs import resolve_env_id

from ..config import RunConfig
from ..setup import Setup, eval_split
from .config import BestOfNConfig

__all__ = ["sample_groups"]


def sample_groups(config: BestOfNConfig, file: Path, progress: Callable[[str], None]) -> None:
    """Play ``config.n`` episodes of each of ``config.tasks`` drawn tasks into a file; what is there stays.

    Args:
        config: Settings.
        file: Trajectory file.
        progress: Told in words what is being done.

    Raises:
        ConfigError: If a setting cannot work, or the file holds other trajectories.
        AgentGymError: Whatever ends it early; what was recorded is kept.
    """
    assert config.policy is not None
    recorder = parse_recorder(config.policy)
    split = config.split or eval_split(resolve_env_id(config.env))
    run = RunConfig(method="random", env=config.env, split=split, seed=config.seed, max_steps=config.max_steps)
    with closing(Setup(run)) as setup:
        tasks = setup.probe.tasks
        ids = TaskStream(tasks, config.seed).take(0, min(config.tasks, len(tasks)))
        specs = group_specs(ids, size=config.n, seed=config.seed, name=f"best-of-n/{recorder.name}")
        done = {t.metadata.get("episode_id") for t in iter_trajectories(file)} if file.exists() else set()
        if others := done - {spec.episode_id for spec in specs}:
            raise ConfigError(
                f"{file} holds {len(others)} trajectories of other settings; name another file to --record"
            )
        owed = [spec for spec in specs if spec.episode_id not in done]
        if not owed:
            return
        sampling = setup.sampling
        if recorder.temperature is not None:
            sampling = replace(sampling, temperature=recorder.temperature)
        with closing(setup.make_envs(expert=recorder.needs_expert)) as envs, TrajectoryWriter(file) as writer:
            engine = RolloutEngine(
                envs,
                recorder.make(setup.probe.format),
                env_id=setup.env_id,
                prompt=setup.prompt(),
                sampling=sampling,
                policy_name=recorder.name,
            )
            for number, finished in enumerate(engine.run(owed), start=1):
                writer.write(finished.trajectory)
                progress(f"sampled {number} of {len(owed)} episodes")
