"""Meter: whole trajectories in one pass against one pass for each decision, and what the meter costs an update."""

from __future__ import annotations

import copy
import dataclasses
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import tyro
from numpy.typing import NDArray

from agentgym_ttg.agents.policies.scripted import NoisyExpertPolicy
from agentgym_ttg.core.completion import Completion
from agentgym_ttg.core.errors import ConfigError
from agentgym_ttg.core.trajectory import Trajectory, TrajectoryGroup, Turn
from agentgym_ttg.credit import AdvantageEstimator, CreditReport

from ._episodes import ENV, benchmark_model, judged, make_envs, play, specs, use_threads
from ._harness import Candidate, Paired, measure
from ._registry import SpeedBenchmark

if TYPE_CHECKING:
    from agentgym_ttg.meter.head import HeadMeter
    from agentgym_ttg.models.loading import LoadedModel

__all__ = ["BENCHMARK"]

_TOLERANCE = 1e-5


@dataclass(frozen=True)
class Options:
    """Options of the meter speed benchmark."""

    trajectories: int = 16
    """Trajectories that are scored."""
    length: int = 20
    """T: decisions of each of them."""
    repetitions: Annotated[int, tyro.conf.arg(aliases=["--repeats"])] = 3
    """Rounds; the two ways take turns."""
    updates: int = 2
    """Updates in which the meter's share is measured; 0 leaves them out."""
    tasks: int = 8
    """Tasks of an update."""
    group_size: int = 8
    """Episodes of a task."""
    layers: int | None = None
    """Layers of the meter; default what meter training takes for a tiny model, half of them."""
    model: str | None = None
    """Folder or hub id of the actor and the meter's backbone; default the shipped one; "fresh" makes a tiny one."""
    threads: int | None = None
    """CPU threads of torch; default its own choice."""
    seed: int = 0
    """Seed of games, draws and heads."""


def _run(options: Options, progress: Callable[[str], object]) -> list[Paired]:
    sizes = (options.trajectories, options.length, options.repetitions, options.tasks, options.group_size)
    if min(sizes) < 1 or options.updates < 0:
        raise ConfigError("expected trajectories, length, repetitions, tasks, group_size >= 1 and updates >= 0")
    use_threads(options.threads)
    progress("loading the model")
    with benchmark_model(options.model, seed=options.seed) as loaded:
        meter = _meter(loaded, options)
        found = _scoring(meter, _trajectories(options), options, progress)
        if options.updates:
            progress("updates")
            notes, values = _share(meter, loaded, options)
            found = dataclasses.replace(found, notes=found.notes + notes, values={**found.values, **values})
    return [found]


def _meter(loaded: LoadedModel, options: Options) -> HeadMeter:
    """Return a meter with random heads: what it costs does not depend on what it has learned."""
    import torch

    from agentgym_ttg.meter._torch import keep_layers
    from agentgym_ttg.meter.head import HeadMeter, HeadNetwork, HeadSettings

    backbone = copy.deepcopy(loaded.model.base_model)
    config = backbone.config.get_text_config()
    keep_layers(backbone, options.layers or max(2, int(config.num_hidden_layers) // 2))
    network = HeadNetwork(backbone, int(config.hidden_size))
    generator = torch.Generator().manual_seed(options.seed)
    with torch.no_grad():
        for head in (network.value_head, network.completion_head):
            head.weight.copy_(torch.randn(head.weight.shape, generator=generator) / int(config.hidden_size) ** 0.5)
    settings = HeadSettings(value_mean=3.0, context_length=2048)
    return HeadMeter(network, loaded.tokenizer, settings, device="cpu")


def _trajectories(options: Options) -> list[Trajectory]:
    """Return trajectories of exactly T decisions, by a policy that errs too much to be done earlier."""
    out: list[Trajectory] = []
    tried = 0
    with closing(make_envs(options.trajectories, max_steps=options.length, expert=True)) as envs:
        while len(out) < options.trajectories:
            episodes = specs(envs, tasks=options.trajectories, group_size=1, seed=options.seed + tried, name="meter")
            played = play(envs, NoisyExpertPolicy(0.9), episodes, max_tokens=16)
            out += [trajectory for trajectory in played if len(trajectory) == options.length]
            tried += 1
    return out[: options.trajectories]


def _histories(trajectory: Trajectory) -> list[Trajectory]:
    """Return each decision history as a trajectory of its own, which ends where the decision is due."""
    return [
        dataclasses.replace(
            trajectory, turns=[*trajectory.turns[:t], Turn(trajectory.turns[t].messages, Completion(""))]
        )
        for t in range(len(trajectory))
    ]


def _scoring(
    meter: HeadMeter, trajectories: Sequence[Trajectory], options: Options, progress: Callable[[str], object]
) -> Paired:
    read: dict[str, list[np.ndarray[Any, Any]]] = {}

    def at_once(nothing: None) -> float:
        read["one pass"] = [np.stack(pair) for pair in zip(*meter.read(trajectories), strict=True)]
        return len(trajectories)

    def prepare() -> list[Trajectory]:
        return [history for trajectory in trajectories for history in _histories(trajectory)]

    def by_prefix(histories: list[Trajectory]) -> float:
        pairs = zip(*meter.read(histories), strict=True)  # batched like the other way, all histories together
        last = np.array([[values[-1], logits[-1]] for values, logits in pairs])
        read["prefix by prefix"] = list(last.reshape(len(trajectories), options.length, 2).swapaxes(1, 2))
        return len(trajectories)

    found = measure(
        "meter",
        f"trajectory of {options.length} decisions",
        {"one pass": Candidate(at_once), "prefix by prefix": Candidate(by_prefix, prepare)},
        repetitions=options.repetitions,
        progress=progress,
    )
    ours, theirs = np.stack(read["one pass"]), np.stack(read["prefix by prefix"])
    difference = float((np.abs(ours - theirs) / np.maximum(1.0, np.abs(theirs))).max())
    ratio, cpu = (found.ratio("prefix by prefix", cpu=of_cpu)[0] for of_cpu in (False, True))
    notes = (
        judged("one pass against prefix by prefix", ratio, options.length / 2, cpu=cpu),
        f"estimates differ by at most {difference:.1e}, relative where above 1 "
        f"({'within' if difference <= _TOLERANCE else 'BEYOND'} {_TOLERANCE:g})",
    )
    return dataclasses.replace(found, notes=notes, values={"largest_difference": difference})


# An update -----------------------------------------------------------------------------------------------------------


@dataclass
class _Timed:
    """An estimator that keeps the time of its last call, with drawn rewards.

    Groups of equal rewards are not scored; so every group is given differing ones, which is the meter's greatest cost.
    """

    inner: AdvantageEstimator
    rng: np.random.Generator
    spent: tuple[float, float] = (0.0, 0.0)

    def __call__(self, group: TrajectoryGroup) -> list[NDArray[np.float64]]:
        """Advantages of one group."""
        return self.inner(group)

    def estimate(self, groups: Sequence[TrajectoryGroup], **options: Any) -> CreditReport:
        """Estimate as the inner one does."""
        for trajectory in (trajectory for group in groups for trajectory in group):
            trajectory.total_reward = float(self.rng.random())
        started = _now()
        report = self.inner.estimate(groups, **options)
        self.spent = _since(started)
        return report


def _now() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def _since(started: tuple[float, float]) -> tuple[float, float]:
    now = _now()
    return now[0] - started[0], now[1] - started[1]


def _share(meter: HeadMeter, loaded: LoadedModel, options: Options) -> tuple[tuple[str, ...], dict[str, float]]:
    """Do whole updates of DeltaTTG, each one rollout, scoring and optimiser step, and look where the time goes."""
    from agentgym_ttg.agents.collector import Collector
    from agentgym_ttg.agents.config import PRESETS, TrainConfig
    from agentgym_ttg.agents.policies.base import SamplingParams
    from agentgym_ttg.agents.policies.hf import HFPolicy
    from agentgym_ttg.agents.rollout import RolloutEngine
    from agentgym_ttg.agents.tasks import TaskStream
    from agentgym_ttg.agents.trainer import AgentTrainer, UpdateBatch
    from agentgym_ttg.credit import DeltaTTG
    from agentgym_ttg.meter.signals import MeterSignal

    preset = PRESETS["cpu"]
    config = TrainConfig(
        updates=options.updates + 1,  # the first warms up
        tasks_per_update=options.tasks,
        group_size=options.group_size,
        kl_coef=preset["kl_coef"],
        checkpoint_every=options.updates + 2,
        device="cpu",
    )
    steps, tokens = preset["max_steps"], preset["max_response_tokens"]
    estimator = _Timed(
        DeltaTTG(MeterSignal(meter, failure_cost=float(steps * tokens))), np.random.default_rng(options.seed)
    )
    spent: list[tuple[float, float, float, float]] = []
    started = _now()
    slots = options.tasks * options.group_size
    with closing(make_envs(slots, max_steps=steps)) as envs, tempfile.TemporaryDirectory() as folder:
        sampling = SamplingParams(temperature=1.0, max_tokens=tokens)
        engine = RolloutEngine(envs, HFPolicy(loaded), env_id=ENV, sampling=sampling)
        collect = Collector(engine, TaskStream(envs.tasks, options.seed), estimator, config, options.seed)

        def begin(update: int) -> UpdateBatch:
            nonlocal started
            started = _now()
            return collect(update)

        def end(update: int, metrics: dict[str, Any]) -> None:
            spent.append((*_since(started), *estimator.spent))

        trainer = AgentTrainer(
            loaded.model,
            loaded.tokenizer,
            config,
            collect=begin,
            on_update=end,
            output_dir=Path(folder),
            seed=options.seed,
        )
        trainer.args.save_strategy = "no"
        trainer.train()
    wall, cpu, meter_wall, meter_cpu = (list(column) for column in zip(*spent[1:], strict=True))
    shares = [part / whole for part, whole in zip(meter_wall, wall, strict=True)]
    cpu_shares = [part / max(whole, 1e-9) for part, whole in zip(meter_cpu, cpu, strict=True)]
    values = {
        "update_seconds": statistics.median(wall),
        "update_cpu_seconds": statistics.median(cpu),
        "meter_seconds": statistics.median(meter_wall),
        "meter_cpu_seconds": statistics.median(meter_cpu),
        "meter_share": statistics.median(shares),
        "meter_share_cpu": statistics.median(cpu_shares),
    }
    notes = (
        judged(
            "meter and credit, share of an update",
            100 * values["meter_share"],
            5.0,
            cpu=100 * values["meter_share_cpu"],
            at_most=True,
            unit=" %",
        )
        + f"; {values['meter_seconds']:.2f} of {values['update_seconds']:.2f} s; "
        f"{options.tasks} x {options.group_size} episodes",
    )
    return notes, values


BENCHMARK = SpeedBenchmark(
    "meter", "progress meter: one pass against prefix by prefix, share of an update", Options, _run
)
