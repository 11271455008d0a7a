"""Guided acting: candidates are tried in branches of the episode, and a scorer picks."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from toy_envs import COUNTING, CountingEnv

from agentgym_ttg.agents.guided import GUIDANCE_METRICS, GuidedEngine, pick, require_branching
from agentgym_ttg.agents.policies.base import SamplingParams
from agentgym_ttg.agents.policies.scripted import RandomPolicy
from agentgym_ttg.agents.rollout import EpisodeSpec, RolloutEngine
from agentgym_ttg.core import Completion, ConfigError, Message, load_tokenizer
from agentgym_ttg.credit import StepSignal
from agentgym_ttg.envs import StepResult
from agentgym_ttg.envs.vector import make_vector_env
from agentgym_ttg.meter import Estimate
from agentgym_ttg.scorers import ScorerSettings, get_scorer

GOLDEN = json.loads((Path(__file__).parents[1] / "data" / "golden.json").read_text())["guided_selection"]
C = 100.0


class Counted:
    """Knows how far it still is: reads count and goal off the anchor of the decision that is due."""

    name = "counted"

    def __init__(self):
        self.tokens_scored = 0
        self.calls = 0

    def score(self, trajectories):
        self.calls += 1
        self.tokens_scored += sum(len(trajectory) for trajectory in trajectories)
        return [[self._estimate(trajectory, step) for step in range(len(trajectory))] for trajectory in trajectories]

    def _estimate(self, trajectory, step):
        goal = int(trajectory.turns[0].messages[0].content.split()[2].rstrip("."))
        seen = trajectory.turns[step].messages[-1].content
        at = int(seen.split()[1].rstrip(",")) if seen.startswith("Count ") and "," in seen else 0
        return Estimate(True, float(goal - at))


class Offers:
    """Offers the n-th of its commands as the n-th candidate."""

    name = "offers"

    def __init__(self, *commands):
        self.commands = commands
        self.asked = []
        self.released = []

    def generate(self, requests):
        self.asked += [list(request.messages) for request in requests]
        seen = {}
        out = []
        for request in requests:
            owner = request.episode_id.partition("/candidate")[0]
            number = seen[owner] = seen.get(owner, -1) + 1
            out.append(Completion(self.commands[number], token_ids=[1] * (number + 1)))
        return out

    def release(self, episode_ids):
        self.released += episode_ids


def specs(count):
    return [EpisodeSpec(f"count/train/{i:06d}", seed=i, episode_id=f"e{i}") for i in range(count)]


def play(policy, *, count=3, scorer=None, choice="scorer", candidates=None, envs=None, **kwargs):
    envs = envs or make_vector_env(COUNTING, 4, **kwargs)
    engine = GuidedEngine(
        envs,
        policy,
        scorer,
        env_id=COUNTING,
        tokenizer=load_tokenizer(None),
        candidates=candidates or len(getattr(policy, "commands", "....")),
        choice=choice,
        sampling=SamplingParams(),
    )
    done = {finished.spec.episode_id: finished.trajectory for finished in engine.run(specs(count))}
    return [done[f"e{i}"] for i in range(count)]


def ttg(meter=None):
    settings = ScorerSettings(failure_cost=C, guiding=True)
    return get_scorer("ttg", settings, meter=meter or Counted())


def said(trajectory):
    return [str(turn.completion) for turn in trajectory.turns]


def test_the_golden_selection():
    costs = np.array(GOLDEN["candidates_c"], dtype=float)
    assert (GOLDEN["c_now"] - costs).tolist() == GOLDEN["delta"]
    assert pick(GOLDEN["delta"]) == GOLDEN["pick"]
    deltas = [
        StepSignal.from_estimates([True, c < 25600], [500, c], success=False, failure_cost=25600).deltas[0]
        for c in costs
    ]
    assert pick(deltas) == GOLDEN["pick"]


@pytest.mark.parametrize("own_snapshots", [True, False])
def test_the_candidate_with_the_greatest_progress_is_executed(own_snapshots):
    policy = Offers("down", "roll", "up", "up")
    for index, trajectory in enumerate(play(policy, scorer=ttg(), own_snapshots=own_snapshots)):
        goal = 3 + index % 5
        assert trajectory.success
        assert said(trajectory) == ["up"] * goal
        assert trajectory.metadata["metrics"]["ups"] == goal


def test_snapshots_and_replay_play_alike_with_a_random_state():
    played = [
        [(said(t), [turn.observation for turn in t.turns]) for t in play(RandomPolicy(), scorer=ttg(), own_snapshots=s)]
        for s in (True, False)
    ]
    assert played[0] == played[1]


def test_ties_go_to_the_first_candidate_and_what_breaks_down_loses():
    # Both leave the count as it is; the first is taken until the step limit.
    assert set(said(play(Offers("roll", "What"), scorer=ttg(), count=1)[0])) == {"roll"}
    assert set(said(play(Offers("What", "roll"), scorer=ttg(), count=1)[0])) == {"What"}
    broken = play(Offers("boom", "up", "down"), scorer=ttg())
    assert all(trajectory.success and set(said(trajectory)) == {"up"} for trajectory in broken)


def test_an_episode_in_which_every_candidate_breaks_down_ends_as_error_alone():
    first = play(Offers("boom", "nan"), scorer=ttg(), count=2)
    assert [trajectory.outcome for trajectory in first] == ["error", "error"]
    assert "boom" in first[0].metadata["error"]


def test_a_branch_that_ends_the_episode_is_scored_by_its_outcome():
    assert said(play(Offers("up", "win", "lose"), scorer=ttg(), count=1)[0]) == ["win"]
    assert said(play(Offers("lose", "down", "lose"), scorer=ttg(), count=1)[0])[0] == "down"


def test_the_account_of_what_was_spent():
    meter = Counted()
    policy = Offers("up", "up", "down", "up")
    trajectories = play(policy, scorer=ttg(meter), count=3)
    for trajectory in trajectories:
        steps = len(trajectory)
        found = {name: trajectory.metadata["metrics"][name] for name in GUIDANCE_METRICS}
        scored = found.pop("scorer_tokens")
        assert found == {
            "actor_tokens": steps * (1 + 2 + 3 + 4),
            "candidates": 4 * steps,
            "distinct_candidates": 2 * steps,
            "branch_executions": 2 * steps,
            "steps_guided": steps,
        }
        assert scored > 0
    total = sum(trajectory.metadata["metrics"]["scorer_tokens"] for trajectory in trajectories)
    assert total == pytest.approx(meter.tokens_scored)
    # The branches of all live episodes are scored in one call a round.
    assert meter.calls == max(map(len, trajectories))
    assert {"e0", "e0/candidate-1", "e0/candidate-3"} <= set(policy.released)


def test_one_distinct_candidate_needs_neither_branch_nor_scorer():
    meter = Counted()
    trajectory = play(Offers("up", "up"), scorer=ttg(meter), count=1)[0]
    assert trajectory.success
    assert meter.calls == 0
    assert trajectory.metadata["metrics"]["branch_executions"] == 0


def test_the_policy_is_asked_from_where_the_episode_went():
    policy = Offers("down", "up")
    trajectory = play(policy, scorer=ttg(), count=1)[0]
    last = policy.asked[-1]
    assert [message.content for message in last if message.role == "assistant"] == said(trajectory)[:-1]
    assert all(isinstance(message, Message) for message in last)


def test_the_controls_are_paired_with_the_guided_run():
    plain = RolloutEngine(make_vector_env(COUNTING, 4), RandomPolicy(), env_id=COUNTING)
    expected = {finished.spec.episode_id: said(finished.trajectory) for finished in plain.run(specs(6))}
    natural = play(RandomPolicy(), choice="first", candidates=1, count=6)
    assert {f"e{i}": said(t) for i, t in enumerate(natural)} == expected
    # The first decision is the same draw in all of them.
    asked = play(RandomPolicy(), choice="first", candidates=4, count=6)
    assert [said(t)[0] for t in asked] == [said(t)[0] for t in natural]


def test_random_of_n_picks_by_chance_among_all_candidates_and_executes_one():
    trajectories = play(Offers("roll", "up", "roll", "roll"), choice="random", count=40)
    commands = [command for trajectory in trajectories for command in said(trajectory)]
    share = commands.count("up") / len(commands)
    assert 0.15 < share < 0.35  # a quarter: what is offered three times is three times as likely
    assert all(t.metadata["metrics"]["branch_executions"] == 0 for t in trajectories)
    again = play(Offers("roll", "up", "roll", "roll"), choice="random", count=40)
    assert [said(t) for t in again] == [said(t) for t in trajectories]


def test_an_unreadable_answer_of_the_meter_counts_as_a_failure():
    class Confused(Counted):
        def _estimate(self, trajectory, step):
            said = str(trajectory.turns[step - 1].completion) if step else ""
            return Estimate.invalid() if said == "up" else super()._estimate(trajectory, step)

    assert set(said(play(Offers("up", "down"), scorer=ttg(Confused()), count=1)[0])[:-1]) == {"down"}


@pytest.mark.parametrize(("kwargs", "word"), [({"candidates": 0}, ">= 1"), ({"choice": "best"}, "unknown choice")])
def test_settings_that_cannot_work_are_refused(kwargs, word):
    with pytest.raises(ConfigError, match=word):
        GuidedEngine(
            make_vector_env(COUNTING, 1),
            RandomPolicy(),
            ttg(),
            env_id=COUNTING,
            tokenizer=load_tokenizer(None),
            **kwargs,
        )


def test_guidance_without_a_scorer_is_refused():
    with pytest.raises(ConfigError, match="needs a step scorer"):
        play(RandomPolicy())


class ForgetfulEnv(CountingEnv):
    """Shares a counter between its branches, so that going back does not bring it back."""

    moves = 0

    def _act(self, action):
        ForgetfulEnv.moves += 1
        return StepResult(f"Move {ForgetfulEnv.moves}.")


class UnreturnableEnv(CountingEnv):
    def _snapshot(self):
        raise NotImplementedError("a live server")


@pytest.mark.parametrize(("kind", "why"), [(ForgetfulEnv, "answered otherwise"), (UnreturnableEnv, "a live server")])
def test_an_environment_that_cannot_branch_says_so(kind, why):
    with pytest.raises(ConfigError, match=rf"{kind.__name__} cannot branch: .*{why}"):
        require_branching(kind())


@pytest.mark.parametrize("own_snapshots", [True, False])
def test_environments_that_can_branch_pass(own_snapshots):
    require_branching(CountingEnv(own_snapshots=own_snapshots))
