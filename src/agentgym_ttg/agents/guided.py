"""Acting with guidance: several candidates for each step, each tried in a branch, a scorer picks (spec, section 6)."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from agentgym_ttg.core.completion import Completion
from agentgym_ttg.core.errors import AgentGymError, ConfigError, EngineError
from agentgym_ttg.core.messages import Message
from agentgym_ttg.core.tokenizers import Tokenizer, count_tokens
from agentgym_ttg.core.trajectory import Trajectory, Turn
from agentgym_ttg.envs.base import MultiTurnEnv
from agentgym_ttg.envs.vector import SlotSnapshot, StepOutcome, TextVectorEnv
from agentgym_ttg.scorers.base import StepScorer
from agentgym_ttg.wrappers.chat import PromptBuilder

from .policies.base import GenerationRequest, Policy, SamplingParams
from .rollout import EpisodeSpec, FinishedEpisode, LiveEpisode, RolloutEngine, add_step

__all__ = ["GUIDANCE_METRICS", "Choice", "GuidedEngine", "pick", "require_branching"]

Choice = Literal["scorer", "random", "first"]
#: What a guided episode reports in ``metadata["metrics"]``, beside what its environment does.
GUIDANCE_METRICS = (
    "actor_tokens",
    "scorer_tokens",
    "candidates",
    "distinct_candidates",
    "branch_executions",
    "steps_guided",
)


def pick(scores: ArrayLike) -> int:
    """Return the best candidate; ties go to the first, one that could not be scored loses.

    >>> pick([50.0, 200.0, 200.0, -25100.0]), pick([float("nan"), -3.0])
    (1, 1)
    """
    values = np.asarray(scores, dtype=np.float64)
    return int(np.argmax(np.where(np.isnan(values), -np.inf, values)))


@dataclass(slots=True)
class _Branches:
    """The candidates of one decision.

    Attributes:
        said: What the policy offered, in order.
        distinct: Those that differ; what is tried.
        outcomes: What came of each distinct one in its branch.
        after: Where each branch stands.
    """

    said: list[Completion]
    distinct: list[Completion]
    before: SlotSnapshot | None = None
    outcomes: list[StepOutcome] = field(default_factory=list)
    after: list[SlotSnapshot | None] = field(default_factory=list)


class GuidedEngine(RolloutEngine):
    """Plays episodes like :class:`RolloutEngine`, but chooses each action among several candidates.

    With ``choice="scorer"``, each distinct candidate is executed in a branch of the episode (by the environment's
    snapshot, or by replaying the actions where it has none), the scorer scores that step with what came of it, and the
    episode goes on in the branch of the best; ties go to the first candidate. The branches of all episodes that wait
    for a decision are scored in one call. One distinct candidate needs no scoring. ``random`` picks among the same
    candidates by chance, ``first`` takes the first; both execute one action only.

    The first candidates are those that :class:`RolloutEngine` would sample with the same specs, so controls are paired.

    Args:
        envs: Where the episodes run.
        policy: Who offers candidates.
        scorer: Who picks; needed for ``choice="scorer"`` only.
        env_id: Registered id, for the record.
        candidates: N.
        choice: How to pick.
        tokenizer: Counts candidates that come without ids.
        prompt: Prototype of the prompt that the policy sees.
        sampling: How to sample.
        policy_name: Name for the record; default the policy's.

    Raises:
        ConfigError: If a setting cannot work.
    """

    def __init__(
        self,
        envs: TextVectorEnv,
        policy: Policy,
        scorer: StepScorer | None = None,
        *,
        env_id: str,
        tokenizer: Tokenizer,
        candidates: int = 4,
        choice: Choice = "scorer",
        prompt: PromptBuilder | None = None,
        sampling: SamplingParams | None = None,
        policy_name: str | None = None,
    ) -> None:
        super().__init__(envs, policy, env_id=env_id, prompt=prompt, sampling=sampling, policy_name=policy_name)
        if candidates < 1:
            raise ConfigError(f"expected candidates >= 1, got {candidates}")
        if choice not in get_args(Choice):
            raise ConfigError(f"unknown choice {choice!r}; expected one of {', '.join(get_args(Choice))}")
        if choice == "scorer" and scorer is None:
            raise ConfigError("choice 'scorer' needs a step scorer, got none")
        self.scorer = scorer
        self.candidates = candidates
        self.choice = choice
        self.tokenizer = tokenizer
        self._rngs: dict[str, list[np.random.Generator]] = {}
        self._spent: dict[str, dict[str, float]] = {}

    def run(self, specs: Iterable[EpisodeSpec]) -> Iterator[FinishedEpisode]:
        """Play the episodes; yield each as it finishes, with :data:`GUIDANCE_METRICS` among its metrics."""
        try:
            for finished in super().run(specs):
                episode_id = finished.spec.episode_id
                self.policy.release(self._names(episode_id)[1:])
                self._rngs.pop(episode_id, None)
                spent = self._spent.pop(episode_id, dict.fromkeys(GUIDANCE_METRICS, 0.0))
                known = finished.trajectory.metadata
                known["metrics"] = {**known.get("metrics", {}), **spent}
                yield finished
        finally:
            self.policy.release([name for episode_id in self._rngs for name in self._names(episode_id)[1:]])
            self._rngs.clear()
            self._spent.clear()

    # One decision ---------------------------------------------------------------------------------------------------

    def _decide(self, live: dict[int, LiveEpisode]) -> list[int]:
        """Take one decision in every live episode; return the slots whose episode is over."""
        branches = {slot: self._offer(live[slot], said) for slot, said in self._candidates(live).items()}
        if self.choice == "scorer":
            broken = self._explore(branches)
            chosen = self._choose(live, branches)
            outcomes = self._go_on(branches, chosen, broken)
        else:
            chosen = {slot: self._blind(live[slot], found) for slot, found in branches.items()}
            outcomes = self.envs.step_slots({slot: found.distinct[chosen[slot]] for slot, found in branches.items()})
        over: list[int] = []
        for slot, found in branches.items():
            episode, outcome, completion = live[slot], outcomes[slot], found.distinct[chosen[slot]]
            self._adopt(episode.spec.episode_id, found.said.index(completion))
            self._record(episode, completion, outcome)
            if outcome.over:
                over.append(slot)
        return over

    def _names(self, episode_id: str) -> list[str]:
        """Return what the policy knows the candidates of an episode by; the first is the episode itself."""
        return [episode_id, *(f"{episode_id}/candidate-{number}" for number in range(1, self.candidates))]

    def _candidates(self, live: dict[int, LiveEpisode]) -> dict[int, list[Completion]]:
        slots = sorted(live)
        requests: list[GenerationRequest] = []
        for slot in slots:
            episode = live[slot]
            names = self._names(episode.spec.episode_id)
            rngs = self._rngs.get(names[0])
            if rngs is None:
                fresh = [np.random.default_rng([episode.spec.seed, zlib.crc32(name.encode())]) for name in names[1:]]
                rngs = self._rngs[names[0]] = [episode.rng, *fresh]
            messages = episode.prompt.prompt()
            requests += [
                GenerationRequest(
                    episode_id=name,
                    messages=messages,
                    info=episode.info,
                    rng=rng,
                    sampling=self.sampling,
                    group_id=episode.spec.group_id or names[0],
                    tools=episode.info["tools"],
                )
                for name, rng in zip(names, rngs, strict=True)
            ]
        said = iter(self.policy.generate(requests))
        return {slot: [next(said) for _ in range(self.candidates)] for slot in slots}

    def _offer(self, episode: LiveEpisode, said: list[Completion]) -> _Branches:
        distinct = list(dict.fromkeys(said))
        self._count(
            episode,
            actor_tokens=sum(count_tokens(one, self.tokenizer) for one in said),
            candidates=len(said),
            distinct_candidates=len(distinct),
        )
        return _Branches(said, distinct)

    def _count(self, episode: LiveEpisode, **numbers: float) -> None:
        account = self._spent.setdefault(episode.spec.episode_id, dict.fromkeys(GUIDANCE_METRICS, 0.0))
        for name, number in numbers.items():
            account[name] += number

    def _blind(self, episode: LiveEpisode, found: _Branches) -> int:
        """Choose without looking; a candidate that was offered twice is twice as likely."""
        if self.choice == "first":
            return 0
        number = len(episode.builder)
        key = [episode.spec.seed, zlib.crc32(f"{episode.spec.episode_id}/choice-{number}".encode())]
        return found.distinct.index(found.said[int(np.random.default_rng(key).integers(len(found.said)))])

    # Branches -------------------------------------------------------------------------------------------------------

    def _explore(self, branches: dict[int, _Branches]) -> dict[int, str]:
        """Try every distinct candidate, the k-th ones of all episodes together; return what could not be restored."""
        broken: dict[int, str] = {}
        for slot, found in branches.items():
            if len(found.distinct) > 1:
                try:
                    found.before = self.envs.snapshot_slot(slot)
                except EngineError as error:
                    broken[slot] = str(error)
        for number in range(max((len(found.distinct) for found in branches.values()), default=0)):
            due: dict[int, str] = {}
            for slot, found in branches.items():
                if slot in broken or number >= len(found.distinct):
                    continue
                try:
                    if number:
                        assert found.before is not None
                        self.envs.restore_slot(slot, found.before)
                    due[slot] = found.distinct[number]
                except AgentGymError as error:
                    broken[slot] = f"the episode could not be restored to branch from: {error}"
            for slot, outcome in self.envs.step_slots(due).items():
                found = branches[slot]
                found.outcomes.append(outcome)
                goes_on = len(found.distinct) > 1 and not outcome.over
                found.after.append(self.envs.snapshot_slot(slot) if goes_on else None)
        return broken

    def _choose(self, live: dict[int, LiveEpisode], branches: dict[int, _Branches]) -> dict[int, int]:
        """Return the best distinct candidate of each episode; all branches are scored in one call."""
        assert self.scorer is not None
        asked: list[tuple[int, int]] = []
        trajectories: list[Trajectory] = []
        for slot, found in branches.items():
            if len(found.distinct) < 2:
                continue
            self._count(live[slot], branch_executions=len(found.outcomes), steps_guided=1)
            for number, outcome in enumerate(found.outcomes):
                if not outcome.error:
                    asked.append((slot, number))
                    trajectories.append(_branch(live[slot], found.distinct[number], outcome))
        before = self.scorer.tokens_scored
        rows = self.scorer.step_scores(trajectories) if trajectories else []
        spent = (self.scorer.tokens_scored - before) / max(len(rows), 1)
        scores = {slot: np.full(len(found.distinct), -np.inf) for slot, found in branches.items()}
        for (slot, number), row in zip(asked, rows, strict=True):
            scores[slot][number] = row[len(live[slot].builder)]
            self._count(live[slot], scorer_tokens=spent)
        return {slot: pick(values) for slot, values in scores.items()}

    def _go_on(
        self, branches: dict[int, _Branches], chosen: dict[int, int], broken: dict[int, str]
    ) -> dict[int, StepOutcome]:
        """Put every episode where its best candidate led."""
        out: dict[int, StepOutcome] = {}
        for slot, found in branches.items():
            number = chosen[slot]
            after = found.after[number] if number < len(found.after) else None
            if slot not in broken and after is not None and number < len(found.outcomes) - 1:
                try:
                    self.envs.restore_slot(slot, after)
                except AgentGymError as error:
                    broken[slot] = f"the chosen branch could not be restored: {error}"
            if slot in broken:
                info: dict[str, Any] = {"action_valid": False, "success": False}
                out[slot] = StepOutcome("", 0.0, False, True, info, broken[slot])
            else:
                out[slot] = found.outcomes[number]
        return out

    def _adopt(self, episode_id: str, number: int) -> None:
        """Tell the policy which candidate the episode goes on with, where it keeps conversations."""
        follow: Any = getattr(self.policy, "follow", None)
        if follow is not None and self.candidates > 1:
            names = self._names(episode_id)
            follow(names[number], [name for name in names if name != names[number]])


def _branch(episode: LiveEpisode, completion: Completion, outcome: StepOutcome) -> Trajectory:
    """Return the episode up to and with a candidate; where it goes on, the decision behind it is a turn of nothing."""
    builder = episode.builder.copy()
    add_step(builder, completion, outcome)
    trajectory = builder.finish()
    if not outcome.over:
        messages = tuple(Message.from_dict(message) for message in outcome.info["messages"])
        trajectory.turns.append(Turn(messages or (Message("user", outcome.observation),), Completion("")))
    return trajectory


def require_branching(env: MultiTurnEnv, *, seed: int = 0) -> None:
    """Check that an environment can go back to a point of an episode, and then answers the same action alike.

    Args:
        env: An environment like those that are played; an episode of it is begun.
        seed: Of that episode.

    Raises:
        ConfigError: If it cannot.
    """
    name = type(env).__name__
    try:
        _, info = env.reset(seed=seed)
        for _ in range(2):
            action = env.format.render(info["admissible_actions"][0]) if info["admissible_actions"] else "look"
            before = env.snapshot()
            first = env.step(action)
            env.restore(before)
            second = env.step(action)
            if _seen(first) != _seen(second):
                raise ConfigError(
                    f"{name} cannot branch: after restore() the same action was answered otherwise. Guided acting "
                    "tries each candidate in a branch; give the environment a _snapshot and _restore, or make it "
                    "replay alike. random-of-n and natural need no branches"
                )
            if first[2] or first[3]:
                return
            info = first[4]
    except (EngineError, NotImplementedError) as error:
        raise ConfigError(
            f"{name} cannot branch: {type(error).__name__}: {error}. Guided acting tries each candidate in a branch; "
            "random-of-n and natural need none"
        ) from error


def _seen(step: tuple[Any, ...]) -> Sequence[Any]:
    observation, reward, terminated, truncated, info = step
    return observation, float(reward), terminated, truncated, info["success"], info["anchor"]
