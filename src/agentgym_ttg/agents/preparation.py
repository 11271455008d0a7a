"""What a run makes before its first update: warm start, recordings, meter.

Every stage leaves its result in the run folder and is skipped where that is there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, get_args

from agentgym_ttg.core.errors import ConfigError
from agentgym_ttg.core.trajectory_files import load_trajectories
from agentgym_ttg.envs.base import MultiTurnEnv
from agentgym_ttg.meter.base import ProgressMeter

from .policies.base import SamplingParams
from .recording import parse_recorder, record
from .run_files import write_json
from .training_job import StageReporter, TrainingJob

if TYPE_CHECKING:
    from agentgym_ttg.meter.config import MeterConfig

__all__ = ["STAGES", "Preparation", "Stage"]

Stage = Literal["warm_start", "recordings", "meter"]
STAGES: tuple[Stage, ...] = get_args(Stage)


class Preparation:
    """The stages before the updates.

    Args:
        job: The run.
        reporter: Shows the progress.
        probe: An environment like those that are played.
    """

    def __init__(self, job: TrainingJob, reporter: StageReporter, probe: MultiTurnEnv) -> None:
        self.job = job
        self.config = job.config
        self.folder = job.folder
        self.reporter = reporter
        self.probe = probe

    def run(self, until: Stage | None = None) -> str:
        """Do what is not done yet; return the model that training starts from.

        Args:
            until: The last stage to do; None does all.

        Raises:
            ConfigError: If the run has no such stage.
        """
        if until is not None and until not in self.stages:
            raise ConfigError(
                f"a run of {self.job.method!r} with these settings has no stage {until!r}; it has "
                f"{', '.join(self.stages)}"
            )
        wanted = self.stages[: self.stages.index(until) + 1] if until is not None else self.stages
        actor_path = str(self._stage("warm_start", self._actor))
        if "recordings" in wanted:
            self._stage("recordings", lambda: self._record(actor_path))
        if "meter" in wanted:
            make = self._train_meter if self.job.meter_trained else self._make_untrained_meter
            self._stage("meter", lambda: make(actor_path))
        return actor_path

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages that this run has."""
        if not self.job.needs_meter:
            return ("warm_start",)
        if not self.job.meter_trained:
            return ("warm_start", "meter")
        return STAGES if self.config.meter is None else ("warm_start",)

    def meter(self) -> ProgressMeter | None:
        """Load the meter that the method asks; None for a method without one."""
        if not self.job.needs_meter:
            return None
        from agentgym_ttg.meter import load_meter

        given = self.config.meter if self.job.meter_trained else None
        return load_meter(given or self.folder / "meter", device=self.config.device)

    def _stage(self, name: str, work: Callable[[], Any]) -> Any:
        """Do a stage once; its result and its seconds are kept in ``stages.json``."""
        path = self.folder / "stages.json"
        done: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        if name not in done:
            started = time.perf_counter()
            result = work()
            done = {**done, name: {"result": result, "seconds": time.perf_counter() - started}}
            write_json(path, done)
        return done[name]["result"]

    def _actor(self) -> str:
        """Return the path or id of the model that training starts from."""
        if self.config.warm_start_from or self.job.model:
            return str(self.config.warm_start_from or self.job.model)
        from .warm_start_cache import find_or_make_warm_start

        return find_or_make_warm_start(
            env_id=self.job.env_id,
            probe=self.probe,
            make_envs=lambda **kwargs: self.job.make_envs(split=self.job.split, **kwargs),
            prompt=self.job.prompt,
            demonstrations=self.config.warm_start,
            stumble=self.config.warm_start_stumble,
            updates=self.config.warm_start_updates,
            seed=self.job.seed,
            reporter=self.reporter,
        )

    def _record(self, actor_path: str) -> int:
        """Record what the meter learns from."""
        actor = f"model:{actor_path}"
        aliases = {"warm-start": actor, "model": actor}
        recorders = [parse_recorder(name, aliases) for name in self.config.recorders]
        self.reporter.stage("recordings", self.config.recordings)
        path = self.folder / "recordings.jsonl"
        return record(
            path,
            recorders,
            episodes=self.config.recordings,
            seed=self.job.seed + 1,  # other tasks than those of the first updates
            env_id=self.job.env_id,
            make_envs=lambda **kwargs: self.job.make_envs(split=self.job.split, **kwargs),
            probe=self.probe,
            prompt=self.job.prompt,
            sampling=SamplingParams(temperature=1.0, max_tokens=self.job.sampling.max_tokens),
            on_episode=lambda trajectory: self.reporter.advance(),
        )

    def _train_meter(self, actor_path: str) -> dict[str, Any]:
        from agentgym_ttg.meter.training import train_meter

        trajectories = load_trajectories(self.folder / "recordings.jsonl")
        # An interrupted recording is resumed in another order; the meter must not depend on it.
        trajectories.sort(key=lambda t: str(t.metadata.get("episode_id")))
        started: dict[str, int] = {}

        def progress(stage: str, done: int, total: int, numbers: dict[str, float]) -> None:
            if stage not in started:
                self.reporter.stage(f"meter: {stage}", total)
            self.reporter.advance(done - started.get(stage, 0), **numbers)
            started[stage] = done

        report = train_meter(trajectories, self._meter_config(actor_path), self.folder / "meter", progress)
        return report.model_dump(mode="json")

    def _make_untrained_meter(self, actor_path: str) -> None:
        from agentgym_ttg.meter.untrained import untrained_meter

        meter = untrained_meter(self._meter_config(actor_path), failure_cost=self.job.failure_cost(self.probe))
        meter.save(self.folder / "meter")

    def _meter_config(self, actor_path: str) -> MeterConfig:
        from agentgym_ttg.meter.config import MeterConfig

        return MeterConfig(
            kind=self.config.meter_kind,
            backbone=self.config.meter_backbone or actor_path,
            target=self.job.meter_target,
            layers=self.config.meter_layers,
            epochs=self.config.meter_epochs,
            seed=self.job.seed,
            device=self.config.device,
            dtype="bfloat16" if self.config.dtype == "bfloat16" else "float32",
            threads=self.config.threads,
        )
