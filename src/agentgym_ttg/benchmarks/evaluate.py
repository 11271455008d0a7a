"""Playing a policy on an environment's tasks, into a run folder."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from agentgym_ttg.agents.guided import GUIDANCE_METRICS
from agentgym_ttg.agents.policies.base import Policy, SamplingParams
from agentgym_ttg.agents.rollout import EpisodeSpec
from agentgym_ttg.agents.tasks import TaskStream
from agentgym_ttg.core.errors import ConfigError, DataError
from agentgym_ttg.core.trajectory import Trajectory
from agentgym_ttg.core.trajectory_files import TrajectoryWriter, iter_trajectories
from agentgym_ttg.envs.tasks import TaskSet

from .environment import peak_memory
from .results import EpisodeRecord, summarise
from .run_folder import RunFolder
from .setup import Setup

__all__ = ["Evaluation", "plan_episodes"]

#: Seconds between two updates of a running evaluation's results.json.
_REPORT_EVERY = 20.0


def plan_episodes(tasks: TaskSet, *, episodes: int | None, seed: int) -> list[EpisodeSpec]:
    """Return the episodes of a run; their number, the tasks and the seed determine them all.

    A training split is met in the order of a seeded shuffle, any other split in its sorted order from the first task
    on; when all tasks had their turn they come again.

    Args:
        tasks: The split's tasks.
        episodes: How many; None plays each task of an evaluation split once, 100 of a training split.
        seed: Of order, environments and policies.
    """
    training = tasks.split == "train"
    if episodes is None:
        episodes = min(100, len(tasks)) if training else len(tasks)
    stream = TaskStream(tasks, seed)
    return [
        EpisodeSpec(
            task_id=stream[index] if training else tasks[index % len(tasks)],
            seed=int(np.random.SeedSequence([seed, index]).generate_state(1)[0]),
            episode_id=f"episode-{index}",
            metadata={"episode": index},
        )
        for index in range(episodes)
    ]


class Evaluation:
    """The evaluation of one policy in one run folder; what the folder has already is not played again.

    Args:
        setup: The parts of the run.
        folder: Where the episodes go.
        policy: Who acts.
        split: Which tasks; default the run's split.
        episodes: How many; default the settings'.
        sampling: How to sample; default the settings'.
        extra: Further entries of ``results.json``.
        beside: Whether this is not the run's own evaluation but one of another split beside it: its episodes go to
            ``trajectories-SPLIT.jsonl``, and its numbers are for the caller to keep.

    Raises:
        ConfigError: If the folder's episodes are not those of these settings.
    """

    def __init__(
        self,
        setup: Setup,
        folder: RunFolder,
        policy: Policy,
        *,
        split: str | None = None,
        episodes: int | None = None,
        sampling: SamplingParams | None = None,
        extra: dict[str, Any] | None = None,
        beside: bool = False,
    ) -> None:
        self.setup = setup
        self.folder = folder
        self.policy = policy
        self.split = split or setup.split
        self.sampling = sampling or setup.sampling
        self.extra = extra or {}
        self.beside = beside
        self.tasks = setup.probe.tasks
        if self.split != setup.split:
            with closing(setup.make_env(split=self.split)) as env:
                self.tasks = env.tasks
        self.specs = plan_episodes(self.tasks, episodes=episodes or setup.config.episodes, seed=setup.config.seed)
        self.records: dict[int, EpisodeRecord] = {}
        self._before = folder.results_before() if folder.resumed and not beside else {}
        self._started = time.perf_counter()
        if self.file.exists():
            self._read_back(retry_errors=setup.config.retry_errors)

    def _read_back(self, *, retry_errors: bool) -> None:
        retried = False
        for trajectory in iter_trajectories(self.file):
            record = EpisodeRecord.of(trajectory)
            spec = self.specs[record.episode] if 0 <= record.episode < len(self.specs) else None
            if spec is None or spec.task_id != record.task_id or record.episode in self.records:
                raise ConfigError(
                    f"{self.file} holds episode {record.episode} of task {record.task_id!r}, which this "
                    "run does not have; choose another folder with --out"
                )
            if retry_errors and record.outcome == "error":
                retried = True
                continue
            self.records[record.episode] = record
        if retried:
            self._drop_errors()

    def _drop_errors(self) -> None:
        """Rewrite the file without the broken episodes, atomically."""
        temporary = self.file.with_suffix(".tmp")
        temporary.unlink(missing_ok=True)
        with TrajectoryWriter(temporary) as writer:
            for trajectory in iter_trajectories(self.file):
                if trajectory.outcome != "error":
                    writer.write(trajectory)
        os.replace(temporary, self.file)

    @property
    def file(self) -> Path:
        """Where the episodes are kept."""
        return self.folder.path / f"trajectories-{self.split}.jsonl" if self.beside else self.folder.trajectories

    @property
    def owed(self) -> list[EpisodeSpec]:
        """The episodes that are not there yet."""
        return [spec for spec in self.specs if spec.metadata["episode"] not in self.records]

    @property
    def complete(self) -> bool:
        """Whether every episode is there."""
        return len(self.records) == len(self.specs)

    def run(self, on_episode: Callable[[Trajectory], Any] = lambda trajectory: None) -> dict[str, Any]:
        """Play what is owed, and return the results; whatever ends it early, what was played is kept.

        Raises:
            PolicyError: If the policy cannot answer.
            TrajectoryFileError: If the disk takes no more.
        """
        try:
            reported = time.perf_counter()
            with TrajectoryWriter(self.file) as writer:
                for trajectory in self._play():
                    writer.write(trajectory)
                    record = EpisodeRecord.of(trajectory)
                    self.records[record.episode] = record
                    on_episode(trajectory)
                    if time.perf_counter() - reported > _REPORT_EVERY:
                        self._report()
                        reported = time.perf_counter()
        except BaseException:
            with contextlib.suppress(DataError):  # what ended it is the news, also where the disk is full
                self._report()
            raise
        return self._report()

    def _report(self) -> dict[str, Any]:
        results = self.results()
        if not self.beside:
            self.folder.write_results(results)
        return results

    def _play(self) -> Iterator[Trajectory]:
        owed = self.owed
        if not owed:
            return
        slots = min(self.setup.config.num_envs, len(owed))
        with closing(self.setup.make_envs(slots, split=self.split)) as envs:
            engine = self.setup.engine(envs, self.policy, self.sampling)
            for finished in engine.run(owed):
                yield finished.trajectory

    def results(self) -> dict[str, Any]:
        """Return what ``results.json`` holds."""
        config = self.setup.config
        return {
            "env": self.setup.env_id,
            "data": self.tasks.source,
            "split": self.split,
            "method": config.method,
            "policy": self.policy.name,
            "model": config.model,
            "seed": config.seed,
            "complete": self.complete,
            "episodes_owed": len(self.specs) - len(self.records),
            **summarise(self.records.values(), type(self.setup.probe).summarize),
            **self._guidance(),
            **self.extra,
            "peak_memory": self._peak_memory(),
            "wall_s": round(float(self._before.get("wall_s") or 0.0) + time.perf_counter() - self._started, 3),
        }

    def _guidance(self) -> dict[str, Any]:
        """Return what choosing among candidates took, summed over the episodes."""
        if self.setup.method.choice is None:
            return {}
        scorer = self.setup.scorer
        totals = {name: sum(row.metrics.get(name, 0.0) for row in self.records.values()) for name in GUIDANCE_METRICS}
        return {"guidance": {"scorer": scorer.name if scorer else None, **totals}}

    def _peak_memory(self) -> dict[str, float | None]:
        """Return the peak of this process, or that of an interrupted one before it where it was higher."""
        before = self._before.get("peak_memory") or {}
        return {
            name: max((value for value in (now, before.get(name)) if value is not None), default=None)
            for name, now in peak_memory().items()
        }
