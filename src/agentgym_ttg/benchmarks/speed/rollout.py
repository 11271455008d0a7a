"""Rollouts: a key-value cache that is kept between turns against reading the whole prompt at each turn."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import tyro

from agentgym_ttg.core.errors import ConfigError
from agentgym_ttg.core.trajectory import Trajectory

from ._episodes import benchmark_model, judged, make_envs, play, specs, use_threads
from ._harness import Candidate, Paired, measure
from ._registry import SpeedBenchmark

__all__ = ["BENCHMARK"]

_TOLERANCE = 1e-5


@dataclass(frozen=True)
class Options:
    """Options of the rollout speed benchmark."""

    tasks: int = 8
    """Tasks; groups of the same task share their beginning."""
    group_size: int = 8
    """Episodes of a task."""
    slots: int = 64
    """Episodes at once."""
    max_steps: int = 20
    """Longest episode."""
    max_tokens: int = 12
    """Longest action, in tokens."""
    repetitions: Annotated[int, tyro.conf.arg(aliases=["--repeats"])] = 3
    """Rounds; the ways take turns."""
    model: str | None = None
    """Folder or hub id of the actor; default the shipped one; "fresh" makes a tiny one."""
    threads: int | None = None
    """CPU threads of torch; default its own choice."""
    seed: int = 0
    """Seed of games and draws."""


def _run(options: Options, progress: Callable[[str], object]) -> list[Paired]:
    if min(options.tasks, options.group_size, options.slots, options.max_steps, options.repetitions) < 1:
        raise ConfigError("expected tasks, group_size, slots, max_steps and repetitions >= 1")
    from agentgym_ttg.agents.policies.hf import HFPolicy

    use_threads(options.threads)
    progress("loading the model")
    played: dict[str, list[Trajectory]] = {}
    with (
        benchmark_model(options.model, seed=options.seed) as loaded,
        closing(make_envs(options.slots, max_steps=options.max_steps)) as envs,
    ):
        episodes = specs(envs, tasks=options.tasks, group_size=options.group_size, seed=options.seed)

        def candidate(label: str, keep_cache: bool) -> Candidate:
            def prepare() -> HFPolicy:
                return HFPolicy(loaded, keep_cache=keep_cache)

            def work(policy: HFPolicy) -> float:
                played[label] = play(envs, policy, episodes, max_tokens=options.max_tokens)
                return float(sum(trajectory.token_counts.sum() for trajectory in played[label]))

            return Candidate(work, prepare, warm_up=False)

        ways = {"kept cache": candidate("kept cache", True), "re-encoding": candidate("re-encoding", False)}
        first = next(iter(ways.values()))
        play(envs, first.prepare(), episodes[: options.group_size], max_tokens=options.max_tokens)  # warm-up
        found = measure("rollout", "sampled token", ways, repetitions=options.repetitions, progress=progress)
    same, difference = _compare(played["kept cache"], played["re-encoding"])
    steps = sum(len(trajectory) for trajectory in played["kept cache"])
    ratio, cpu = found.ratio("re-encoding")[0], found.ratio("re-encoding", cpu=True)[0]
    notes = (
        judged("kept cache against re-encoding", ratio, 2.5, cpu=cpu),
        f"sampled ids are equal in {same} of {len(episodes)} episodes ({steps} actions); log-probabilities differ "
        f"by at most {difference:.1e} ({'within' if difference <= _TOLERANCE else 'BEYOND'} {_TOLERANCE:g})",
    )
    values = {
        "episodes": len(episodes),
        "equal_episodes": same,
        "actions": steps,
        "sampled_tokens": float(sum(t.token_counts.sum() for t in played["kept cache"])),
        "largest_logprob_difference": difference,
    }
    return [dataclasses.replace(found, notes=notes, values=values)]


def _compare(ours: Sequence[Trajectory], theirs: Sequence[Trajectory]) -> tuple[int, float]:
    """Return how many episodes have equal ids, and the largest difference of log-probabilities in them."""
    same, difference = 0, 0.0
    for one, other in zip(ours, theirs, strict=True):
        if [turn.completion.token_ids for turn in one.turns] != [turn.completion.token_ids for turn in other.turns]:
            continue
        same += 1
        for a, b in zip(one.turns, other.turns, strict=True):
            gap: Any = np.abs(np.asarray(a.completion.logprobs) - np.asarray(b.completion.logprobs))
            difference = max(difference, float(gap.max(initial=0.0)))
    return same, difference


BENCHMARK = SpeedBenchmark("rollout", "rollouts: kept cache against re-encoding each turn", Options, _run)
