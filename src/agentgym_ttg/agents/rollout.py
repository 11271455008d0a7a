"""The rollout engine: many episodes at once, one batched policy call for all that wait for a decision."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from agentgym_ttg.core.completion import Completion
from agentgym_ttg.core.messages import Message
from agentgym_ttg.core.recorder import TrajectoryBuilder
from agentgym_ttg.core.trajectory import Trajectory, TrajectoryGroup
from agentgym_ttg.envs.vector import StepOutcome, TextVectorEnv
from agentgym_ttg.wrappers.chat import PromptBuilder

from .policies.base import GenerationRequest, Policy, SamplingParams

__all__ = ["EpisodeSpec", "FinishedEpisode", "LiveEpisode", "RolloutEngine", "group_specs"]


@dataclass(frozen=True, slots=True)
class EpisodeSpec:
    """One episode to be played.

    Attributes:
        task_id: The task.
        seed: Seeds the environment and the policy's draws in this episode.
        episode_id: Unique in a run; ``seed`` and ``episode_id`` alone determine the episode's randomness.
        group_id: Episodes of one group play the same task and are compared with each other.
        metadata: Copied into the trajectory.
    """

    task_id: str
    seed: int
    episode_id: str
    group_id: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FinishedEpisode:
    """A finished episode and what it was."""

    spec: EpisodeSpec
    trajectory: Trajectory


@dataclass(slots=True)
class LiveEpisode:
    """An episode that is being played."""

    spec: EpisodeSpec
    rng: np.random.Generator
    prompt: PromptBuilder
    builder: TrajectoryBuilder
    info: dict[str, Any]


class RolloutEngine:
    """Plays episodes in the slots of a vector environment.

    A free slot takes the next episode at once, so slow episodes do not hold up others, and a finished episode costs
    nothing more. An environment that breaks down ends its own episode as ``error``. The result of an episode does not
    depend on what else is in the batch.

    Args:
        envs: Where the episodes run; its ``num_envs`` is how many run at once.
        policy: Who acts.
        env_id: Registered id, for the record.
        prompt: Prototype of the prompt that the policy sees; copied for each episode.
        sampling: How to sample.
        policy_name: Name for the record; default the policy's.
    """

    def __init__(
        self,
        envs: TextVectorEnv,
        policy: Policy,
        *,
        env_id: str,
        prompt: PromptBuilder | None = None,
        sampling: SamplingParams | None = None,
        policy_name: str | None = None,
    ) -> None:
        self.envs = envs
        self.policy = policy
        self.env_id = env_id
        self.prompt = prompt or PromptBuilder()
        self.sampling = sampling or SamplingParams()
        self.policy_name = policy_name or policy.name

    def run(self, specs: Iterable[EpisodeSpec]) -> Iterator[FinishedEpisode]:
        """Play the episodes; yield each as it finishes.

        Raises:
            PolicyError: If the policy cannot answer at all. Episodes that have finished were already yielded.
        """
        waiting = iter(specs)
        live: dict[int, LiveEpisode] = {}
        free = list(range(self.envs.num_envs))
        try:
            while True:
                yield from self._start(waiting, free, live)
                if not live:
                    return
                for slot in self._decide(live):
                    episode = live.pop(slot)
                    self.policy.release([episode.spec.episode_id])
                    free.append(slot)
                    yield FinishedEpisode(episode.spec, episode.builder.finish())
        finally:
            self.policy.release([episode.spec.episode_id for episode in live.values()])

    def run_groups(self, specs: Sequence[EpisodeSpec]) -> list[TrajectoryGroup]:
        """Play the episodes and return them by group; groups and members in the order of ``specs``."""
        done = {finished.spec.episode_id: finished.trajectory for finished in self.run(specs)}
        groups: dict[str, TrajectoryGroup] = {}
        for spec in specs:
            group = groups.setdefault(spec.group_id or spec.episode_id, TrajectoryGroup(spec.task_id))
            group.trajectories.append(done[spec.episode_id])
        return list(groups.values())

    def _start(
        self, waiting: Iterator[EpisodeSpec], free: list[int], live: dict[int, LiveEpisode]
    ) -> Iterator[FinishedEpisode]:
        """Fill the free slots; yield the episodes whose environment did not even begin."""
        while free and (started := self._next_specs(waiting, free)):
            yield from self._begin(started, free, live)

    @staticmethod
    def _next_specs(waiting: Iterator[EpisodeSpec], free: list[int]) -> dict[int, EpisodeSpec]:
        """Give the free slots to the next episodes."""
        started = dict(zip(sorted(free), waiting, strict=False))
        free[:] = [slot for slot in free if slot not in started]
        return started

    def _begin(
        self, started: dict[int, EpisodeSpec], free: list[int], live: dict[int, LiveEpisode]
    ) -> Iterator[FinishedEpisode]:
        resets = {slot: {"seed": spec.seed, "task_id": spec.task_id} for slot, spec in started.items()}
        for slot, (observation, info) in self.envs.reset_slots(resets).items():
            spec = started[slot]
            builder = TrajectoryBuilder(
                env_id=self.env_id,
                policy=self.policy_name,
                observation=observation,
                info=info,
                metadata={"seed": spec.seed, "episode_id": spec.episode_id, **spec.metadata},
            )
            if error := info.get("error"):
                builder.fail(error)
                free.append(slot)
                yield FinishedEpisode(spec, builder.finish())
                continue
            prompt = self.prompt.copy()
            prompt.start([Message.from_dict(message) for message in info["messages"]], info)
            live[slot] = LiveEpisode(
                spec=spec,
                rng=np.random.default_rng([spec.seed, zlib.crc32(spec.episode_id.encode())]),
                prompt=prompt,
                builder=builder,
                info=info,
            )

    def _decide(self, live: dict[int, LiveEpisode]) -> list[int]:
        """Take one decision in every live episode; return the slots whose episode is over."""
        slots = sorted(live)
        requests = [
            GenerationRequest(
                episode_id=live[slot].spec.episode_id,
                messages=live[slot].prompt.prompt(),
                info=live[slot].info,
                rng=live[slot].rng,
                sampling=self.sampling,
                group_id=live[slot].spec.group_id,
                tools=live[slot].info["tools"],
            )
            for slot in slots
        ]
        completions = self.policy.generate(requests)
        outcomes = self.envs.step_slots(dict(zip(slots, completions, strict=True)))
        over: list[int] = []
        for slot, completion in zip(slots, completions, strict=True):
            self._record(live[slot], completion, outcomes[slot])
            if outcomes[slot].over:
                over.append(slot)
        return over

    @staticmethod
    def _record(episode: LiveEpisode, completion: Completion, outcome: StepOutcome) -> None:
        """Add a decision and what came of it to the episode's record, and to its prompt where it goes on."""
        add_step(episode.builder, completion, outcome)
        if not outcome.over:
            episode.info = outcome.info
            messages = [Message.from_dict(message) for message in outcome.info["messages"]]
            episode.prompt.push(completion, messages, outcome.info)


def add_step(builder: TrajectoryBuilder, completion: Completion, outcome: StepOutcome) -> None:
    """Add a decision and what came of it to a record."""
    builder.add(
        completion,
        observation=outcome.observation,
        reward=outcome.reward,
        terminated=outcome.terminated,
        truncated=outcome.truncated,
        info=outcome.info,
        error=outcome.error,
    )


def group_specs(task_ids: Sequence[str], *, size: int, seed: int, name: str) -> list[EpisodeSpec]:
    """Return ``size`` episodes of each task, as groups.

    All episodes of a group reset the environment with the same seed, so that a stochastic environment begins alike;
    their policies draw apart, because their episode ids differ.

    Args:
        task_ids: The tasks, one group each.
        size: G, episodes of each task.
        seed: Base seed.
        name: Prefix of the ids, unique for each batch of a run.
    """
    return [
        EpisodeSpec(
            task_id=task_id,
            seed=int(np.random.SeedSequence([seed, zlib.crc32(f"{name}/{index}".encode())]).generate_state(1)[0]),
            episode_id=f"{name}/{index}/{member}",
            group_id=f"{name}/{index}",
        )
        for index, task_id in enumerate(task_ids)
        for member in range(size)
    ]
