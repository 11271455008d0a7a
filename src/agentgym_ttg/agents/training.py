"""A training run, stage by stage: warm start, recordings, meter, policy updates.

Every stage leaves its result in the run folder and is skipped where that is there, so a run that was stopped anywhere
goes on when it is started again. The randomness of every update comes from the run's seed and the update's number
alone; a resumed run needs the checkpoint and nothing else.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from agentgym_ttg.core.statistics import wilson_interval
from agentgym_ttg.core.trajectory import Trajectory, TrajectoryGroup
from agentgym_ttg.core.trajectory_files import TrajectoryWriter
from agentgym_ttg.meter.base import ProgressMeter

from .collector import Collector
from .policies.base import Policy, SamplingParams
from .preparation import Preparation, Stage
from .rollout import EpisodeSpec, RolloutEngine
from .run_files import JsonLines, write_json
from .tasks import TaskStream
from .training_job import SilentReporter, StageReporter, TrainingJob

__all__ = ["StageReporter", "TrainingJob", "TrainingResult", "prepare_training", "run_training"]


@dataclass(slots=True)
class TrainingResult:
    """What came of it.

    Attributes:
        model: Folder of the trained actor.
        policy: The trained actor, ready to act.
        summary: For ``results.json``.
    """

    model: Path
    policy: Policy
    summary: dict[str, Any] = field(default_factory=dict)


def run_training(job: TrainingJob, reporter: StageReporter | None = None) -> TrainingResult:
    """Run all stages that are not done yet.

    Raises:
        ConfigError: If a setting cannot work.
        AgentGymError: What a stage raises; what it had finished stays.
    """
    _set_up(job)
    return _Run(job, reporter or SilentReporter()).run()


def prepare_training(job: TrainingJob, until: Stage, reporter: StageReporter | None = None) -> dict[str, Any]:
    """Run the stages before the updates that are not done yet, up to and with ``until``.

    Returns:
        What ``stages.json`` of the run folder holds: result and seconds of each stage.

    Raises:
        ConfigError: If the run has no such stage, or a setting cannot work.
        AgentGymError: What a stage raises; what it had finished stays.
    """
    _set_up(job)
    with closing(job.make_env(split=job.split)) as probe:
        Preparation(job, reporter or SilentReporter(), probe).run(until)
    stages: dict[str, Any] = json.loads((job.folder / "stages.json").read_text())
    return stages


def _set_up(job: TrainingJob) -> None:
    import torch
    from transformers.utils import logging

    logging.disable_progress_bar()  # the bar of writing one file is noise between those of the stages
    if job.config.threads:
        torch.set_num_threads(job.config.threads)


class _Run:
    def __init__(self, job: TrainingJob, reporter: StageReporter) -> None:
        self.job = job
        self.probe = job.make_env(split=job.split)
        self.config = job.filled_config(self.probe)
        self.reporter = reporter
        self.folder = job.folder
        self.metrics = JsonLines(job.folder / "metrics.jsonl")
        self.evaluations = JsonLines(job.folder / "evaluations.jsonl")
        self.samples = job.folder / "samples.jsonl"
        self.failure_cost = job.failure_cost(self.probe)

    def run(self) -> TrainingResult:
        preparation = Preparation(self.job, self.reporter, self.probe)
        actor_path = preparation.run()
        return self._train(actor_path, preparation.meter())

    def _train(self, actor_path: str, meter: ProgressMeter | None) -> TrainingResult:
        from agentgym_ttg.models.loading import LoadedModel, load_causal_lm

        from .policies.hf import HFPolicy
        from .trainer import AgentTrainer, last_checkpoint

        job, config = self.job, self.config
        checkpoints = self.folder / "checkpoints"
        checkpoint = last_checkpoint(checkpoints)
        done = checkpoint[1] if checkpoint else 0
        self.metrics.keep(lambda row: row["update"] < done)
        self.evaluations.keep(lambda row: row["update"] <= done)
        loaded = load_causal_lm(actor_path, dtype=config.dtype, device=config.device)
        policy: Policy = HFPolicy(loaded, name=job.method)
        # A signal may ask the model that training starts from, wherever that came from.
        started = config.model_copy(update={"warm_start_from": actor_path})
        estimator = job.make_estimator(started, meter, self.failure_cost)
        with closing(job.make_envs(split=job.split)) as envs:
            history = self.metrics.read()
            collector = Collector(
                engine=RolloutEngine(envs, policy, env_id=job.env_id, prompt=job.prompt, sampling=job.sampling),
                tasks=TaskStream(self.probe.tasks, job.seed),
                estimator=estimator,
                config=config,
                seed=job.seed,
                keep=job.keep,
                cursor=int(history[-1]["task_cursor"]) if history else 0,
                actor_tokens=int(history[-1]["actor_tokens"]) if history else 0,
                on_groups=self._keep_samples,
            )
            clock = _Clock(meter, int(history[-1].get("meter_tokens", 0)) if history else 0)
            trainer = AgentTrainer(
                loaded.model,
                loaded.tokenizer,
                config,
                collect=collector,
                on_update=lambda update, numbers: self._after_update(policy, update, numbers, clock),
                output_dir=checkpoints,
                temperature=job.sampling.temperature or 1.0,
                seed=job.seed,
                max_completion_length=job.sampling.max_tokens,
            )
            if not self.evaluations.read():
                self._evaluate(policy, 0)
            self.reporter.stage("updates", config.updates)
            self.reporter.advance(done)
            clock.start()
            if done < config.updates:
                trainer.train(resume_from_checkpoint=str(checkpoint[0]) if checkpoint else None)
            elif checkpoint:
                loaded = load_causal_lm(str(checkpoint[0]), dtype=config.dtype, device=config.device)
        folder = self.folder / "model"
        if not (folder / "complete.json").exists():
            loaded.model.save_pretrained(folder)
            loaded.tokenizer.save_pretrained(folder)
            write_json(folder / "complete.json", {"updates": config.updates})
        loaded.model.eval()
        final = HFPolicy(LoadedModel.of(loaded.model, loaded.tokenizer, str(folder)), name=job.method)
        if all(row["update"] != config.updates for row in self.evaluations.read()):
            self._evaluate(final, config.updates)
        return TrainingResult(folder, final, self._summary(actor_path))

    # Around the updates -------------------------------------------------------------------------------------------

    def _after_update(self, policy: Policy, update: int, numbers: dict[str, Any], clock: _Clock) -> None:
        self.metrics.append({**clock.lap(numbers), "update": update})
        self.reporter.advance(1, success=numbers["success"], reward=numbers["reward"])
        done = update + 1
        if self.config.eval_every and done % self.config.eval_every == 0 and done < self.config.updates:
            self._evaluate(policy, done)
        clock.start()

    def _keep_samples(self, update: int, groups: Sequence[TrajectoryGroup]) -> None:
        """Keep a few trajectories of some updates for the report: the first success and the first failure."""
        if update % max(self.config.eval_every, 1) and update != self.config.updates - 1:
            return
        flat = [trajectory for group in groups for trajectory in group]
        chosen = [
            next((t for t in flat if t.outcome == outcome and len(t) > 1), None)
            for outcome in ("success", "truncated", "failure")
        ]
        with TrajectoryWriter(self.samples) as writer:
            for trajectory in chosen:
                if trajectory is not None:
                    trajectory.metadata["update"] = update
                    writer.write(trajectory)

    def _evaluate(self, policy: Policy, update: int) -> None:
        """Play the held-out tasks and keep the success rate."""
        job = self.job
        started = time.perf_counter()
        rows: dict[str, Any] = {"update": update, "split": job.eval_split}
        kinds = {"eval": self.config.eval_temperature}
        if update in (0, self.config.updates):
            kinds["sampled"] = 1.0
        for name, temperature in kinds.items():
            played = self._play(policy, f"{name}-{update}", temperature)
            wins = [t.success for t in played]  # breaking down is no success
            low, high = wilson_interval(sum(wins), len(wins))
            rows.update({f"{name}_success": float(np.mean(wins)) if wins else 0.0, f"{name}_low": low})
            rows.update({f"{name}_high": high, f"{name}_episodes": len(wins), f"{name}_temperature": temperature})
            turns = [turn for t in played for turn in t.turns]
            rows[f"{name}_invalid_actions"] = float(np.mean([not turn.valid for turn in turns])) if turns else 0.0
        self.evaluations.append({**rows, "seconds": time.perf_counter() - started})
        self.reporter.note(
            f"update {update}: success on {job.eval_split} {rows['eval_success']:.1%} "
            f"[{rows['eval_low']:.1%}, {rows['eval_high']:.1%}]"
        )

    def _play(self, policy: Policy, name: str, temperature: float) -> list[Trajectory]:
        """Play the first held-out tasks, each once."""
        sampling = SamplingParams(temperature=temperature, max_tokens=self.job.sampling.max_tokens)
        with closing(self.job.make_envs(split=self.job.eval_split)) as envs:
            count = min(self.config.eval_episodes, len(envs.tasks))
            # The seed is the same at every evaluation and for every method, so that comparisons are paired.
            specs = [EpisodeSpec(envs.tasks[i], seed=i, episode_id=f"{name}/{i}") for i in range(count)]
            engine = RolloutEngine(envs, policy, env_id=self.job.env_id, prompt=self.job.prompt, sampling=sampling)
            return [finished.trajectory for finished in engine.run(specs)]

    def _summary(self, actor_path: str) -> dict[str, Any]:
        evaluations = self.evaluations.read()
        metrics = self.metrics.read()
        stages = json.loads((self.folder / "stages.json").read_text())
        seconds = {name: stage["seconds"] for name, stage in stages.items()}
        for name in ("rollout", "meter", "update"):
            seconds[name if name != "meter" else "meter_scoring"] = sum(r.get(f"seconds_{name}", 0.0) for r in metrics)
        seconds["evaluation"] = sum(row["seconds"] for row in evaluations)
        return {
            "updates": len(metrics),
            "actor": actor_path,
            "actor_tokens_generated": metrics[-1]["actor_tokens"] if metrics else 0,
            "actor_tokens_trained": sum(row["trained_tokens"] for row in metrics),
            "meter_tokens": metrics[-1].get("meter_tokens", 0) if metrics else 0,
            "before": evaluations[0] if evaluations else None,
            "after": evaluations[-1] if evaluations else None,
            "failure_cost": self.failure_cost if self.job.needs_meter else None,
            "meter": stages.get("meter", {}).get("result"),
            "seconds": seconds,
        }


class _Clock:
    """Splits the time of an update: what is neither rollout nor meter is the optimiser's."""

    def __init__(self, meter: ProgressMeter | None, tokens_before: int) -> None:
        self._meter = meter
        self._offset = tokens_before - (meter.tokens_scored if meter else 0)
        self.start()

    def start(self) -> None:
        """Begin an update."""
        self._started = time.perf_counter()

    def lap(self, numbers: dict[str, Any]) -> dict[str, Any]:
        """Return the numbers with what the update that has just ended cost."""
        spent = time.perf_counter() - self._started
        other = spent - numbers["seconds_rollout"] - numbers["seconds_meter"]
        out = {**numbers, "seconds_update": max(other, 0.0)}
        if self._meter is not None:
            out["meter_tokens"] = self._meter.tokens_scored + self._offset
        return out
