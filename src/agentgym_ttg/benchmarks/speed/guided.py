"""Guided acting: branching by the native engine's snapshots against replaying, natively and with TextWorld."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from agentgym_ttg.agents.guided import GuidedEngine
from agentgym_ttg.agents.policies.base import Policy, SamplingParams
from agentgym_ttg.agents.policies.scripted import RandomPolicy
from agentgym_ttg.agents.rollout import EpisodeSpec
from agentgym_ttg.core.errors import ConfigError
from agentgym_ttg.core.trajectory import Trajectory
from agentgym_ttg.envs.alfworld.env import ALFWorldEnv
from agentgym_ttg.envs.vector import TextVectorEnv
from agentgym_ttg.scorers.base import StepScorer

from ._episodes import ENV, benchmark_model, judged, use_threads, why_no_textworld
from ._harness import Candidate, Paired, measure
from ._registry import SpeedBenchmark

__all__ = ["BENCHMARK"]

_SNAPSHOT, _REPLAY, _TEXTWORLD = "native snapshot", "native replay", "textworld replay"


@dataclass(frozen=True)
class Options:
    """Options of the guided-acting speed benchmark."""

    games: int = 2
    """Games that are played."""
    steps: int = 6
    """Steps of each episode."""
    candidates: int = 4
    """Actions that are tried at each step."""
    repetitions: int = 3
    """Rounds; the ways take turns."""
    data_dir: str | None = None
    """Folder of the official games; default built-in ones, as full as the official (hard)."""
    split: str = "valid_seen"
    """Split of the games."""
    model: str | None = None
    """Folder or hub id of the actor; default the shipped one; "fresh" makes a tiny one."""
    threads: int | None = None
    """CPU threads of torch; default its own choice."""
    seed: int = 0
    """Seed of the draws."""
    native_only: bool = False
    """Leave TextWorld out."""
    without_model: bool = False
    """Measure branching alone, with random actions and a scorer that costs nothing."""


class _ReplayedALFWorld(ALFWorldEnv):
    """Has no snapshots, so that the base class replays the actions."""

    def _snapshot(self) -> Any:
        return None


class _Novelty:
    """Scores a step by how much it shows that was not seen before, and costs nothing."""

    name = "novelty"
    tokens_scored = 0

    def step_scores(self, trajectories: Sequence[Trajectory]) -> list[NDArray[np.float64]]:
        """Return the length of each observation that is new in its trajectory."""
        out = []
        for trajectory in trajectories:
            seen: set[str] = set()
            row = []
            for turn in trajectory.turns:
                row.append(0.0 if turn.observation in seen else float(len(turn.observation)))
                seen.add(turn.observation)
            out.append(np.array(row, dtype=np.float64))
        return out


@dataclass(frozen=True, slots=True)
class _Way:
    """How the episodes branch."""

    engine: Literal["native", "textworld"]
    replay: bool

    def envs(self, options: Options) -> TextVectorEnv:
        kind = _ReplayedALFWorld if self.replay else ALFWorldEnv
        return TextVectorEnv(
            lambda: kind(
                split=options.split,
                data_dir=options.data_dir,
                difficulty="hard",
                engine=self.engine,
                max_steps=options.steps,
            ),
            options.games,
        )


_WAYS = {_SNAPSHOT: _Way("native", False), _REPLAY: _Way("native", True), _TEXTWORLD: _Way("textworld", True)}


def _run(options: Options, progress: Callable[[str], object]) -> list[Paired]:
    if min(options.games, options.steps, options.repetitions) < 1 or options.candidates < 2:
        raise ConfigError("expected games, steps and repetitions >= 1 and candidates >= 2")
    why = "left out by --native-only" if options.native_only else why_no_textworld()
    found = [_measure("branching", options, _scripted, why, progress)]
    if not options.without_model:
        use_threads(options.threads)
        progress("loading the model")
        with _model_and_meter(options) as make:
            found.append(_measure("guided acting", options, make, why, progress))
    return found


def _measure(
    name: str,
    options: Options,
    make: Callable[[], tuple[Policy, StepScorer]],
    why: str,
    progress: Callable[[str], object],
) -> Paired:
    ways = {label: way for label, way in _WAYS.items() if not (why and way.engine == "textworld")}
    played: dict[str, list[Trajectory]] = {}

    def candidate(label: str, way: _Way) -> Candidate:
        def work(made: tuple[Policy, StepScorer]) -> float:
            played[label] = _play(way, options, *made)
            return float(sum(t.metadata["metrics"]["branch_executions"] for t in played[label]))

        return Candidate(work, make, warm_up=way.engine == "native")

    paired = measure(
        name,
        "candidate tried",
        {label: candidate(label, way) for label, way in ways.items()},
        repetitions=options.repetitions,
        skipped={_TEXTWORLD: why} if why else {},
        progress=progress,
    )
    notes = []
    if _TEXTWORLD in ways:
        ratio, cpu = paired.ratio(_TEXTWORLD)[0], paired.ratio(_TEXTWORLD, cpu=True)[0]
        notes.append(judged(f"{_SNAPSHOT} against {_TEXTWORLD}", ratio, 20, cpu=cpu))
    same = {label: sum(map(_same, played[_SNAPSHOT], played[label])) for label in ways if label != _SNAPSHOT}
    notes += [f"{label}: {count} of {options.games} episodes are those of the first" for label, count in same.items()]
    values = {f"equal_episodes_{label.replace(' ', '_')}": float(count) for label, count in same.items()}
    return dataclasses.replace(paired, notes=tuple(notes), values=values)


def _play(way: _Way, options: Options, policy: Policy, scorer: StepScorer) -> list[Trajectory]:
    with closing(way.envs(options)) as envs:
        ids = envs.tasks
        # Spread over the split: official ids are sorted by task type.
        chosen = [ids[(number * len(ids)) // options.games % len(ids)] for number in range(options.games)]
        specs = [EpisodeSpec(task, seed=options.seed, episode_id=f"{n}") for n, task in enumerate(chosen)]
        engine = GuidedEngine(
            envs,
            policy,
            scorer,
            env_id=ENV,
            tokenizer=ALFWorldEnv(difficulty="easy", data="built-in").tokenizer,
            candidates=options.candidates,
            sampling=SamplingParams(temperature=1.0, max_tokens=12),
        )
        done = {finished.spec.episode_id: finished.trajectory for finished in engine.run(specs)}
        return [done[spec.episode_id] for spec in specs]


def _scripted() -> tuple[Policy, StepScorer]:
    return RandomPolicy(), _Novelty()


@contextmanager
def _model_and_meter(options: Options) -> Iterator[Callable[[], tuple[Policy, StepScorer]]]:
    """Give what makes an actor and a meter of the same model; what the meter says does not change its cost."""
    from agentgym_ttg.agents.policies.hf import HFPolicy
    from agentgym_ttg.meter.config import MeterConfig
    from agentgym_ttg.meter.untrained import untrained_meter
    from agentgym_ttg.scorers import ScorerSettings, get_scorer

    cost = float(options.steps * 12)
    with benchmark_model(options.model, seed=options.seed) as loaded:
        meter = untrained_meter(MeterConfig(backbone=loaded.path, device="cpu"), failure_cost=cost)
        scorer = get_scorer("ttg", ScorerSettings(failure_cost=cost, guiding=True), meter=meter)
        yield lambda: (HFPolicy(loaded), scorer)


def _same(one: Trajectory, other: Trajectory) -> bool:
    return [(str(t.completion), t.observation) for t in one.turns] == [
        (str(t.completion), t.observation) for t in other.turns
    ]


BENCHMARK = SpeedBenchmark("guided", "guided acting: branching by snapshot against replaying", Options, _run)
