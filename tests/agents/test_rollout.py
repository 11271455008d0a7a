"""The rollout engine on the counting environment."""

from collections import Counter
from collections.abc import Sequence

import pytest
from toy_envs import COUNTING, CountingEnv

from agentgym_ttg.agents.policies import GenerationRequest, SamplingParams
from agentgym_ttg.agents.policies.scripted import RandomPolicy
from agentgym_ttg.agents.recording import parse_recorder, record
from agentgym_ttg.agents.rollout import EpisodeSpec, RolloutEngine, group_specs
from agentgym_ttg.agents.tasks import TaskStream
from agentgym_ttg.core import Completion, ConfigError, PolicyError, load_trajectories
from agentgym_ttg.envs.vector import make_vector_env


class Talker:
    """Says what a function of the request says; keeps count of what it was told to forget."""

    name = "talker"

    def __init__(self, say) -> None:
        self.say = say
        self.batches: list[int] = []
        self.released: list[str] = []

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
        self.batches.append(len(requests))
        return [Completion(self.say(request), token_ids=[1, 2]) for request in requests]

    def release(self, episode_ids) -> None:
        self.released += episode_ids


def engine(policy, num_envs=4, **kwargs) -> RolloutEngine:
    return RolloutEngine(make_vector_env(COUNTING, num_envs, **kwargs), policy, env_id=COUNTING)


def specs(count, **kwargs):
    return [EpisodeSpec(f"count/train/{i:06d}", seed=i, episode_id=f"e{i}", **kwargs) for i in range(count)]


def test_every_episode_is_played_once_and_forgotten() -> None:
    policy = Talker(lambda request: "up")
    done = list(engine(policy).run(specs(11)))
    assert sorted(f.spec.episode_id for f in done) == sorted(f"e{i}" for i in range(11))
    assert all(f.trajectory.success for f in done)
    assert [len(f.trajectory) for f in sorted(done, key=lambda f: f.spec.seed)] == [3 + i % 5 for i in range(11)]
    assert sorted(policy.released) == sorted(f"e{i}" for i in range(11))
    assert done[0].trajectory.turns[0].tokens == 2


def test_finished_episodes_cost_nothing() -> None:
    policy = Talker(lambda request: "up")
    list(engine(policy).run(specs(4)))
    assert policy.batches == [4, 4, 4, 3, 2, 1]


def test_the_batch_does_not_matter() -> None:
    def outcome(num_envs):
        runs = engine(RandomPolicy(), num_envs).run(specs(9))
        return {f.spec.episode_id: [str(t.completion) for t in f.trajectory.turns] for f in runs}

    assert outcome(1) == outcome(4) == outcome(9)


def test_a_broken_environment_ends_its_own_episode() -> None:
    policy = Talker(lambda request: "boom" if request.episode_id == "e2" else "up")
    done = {f.spec.episode_id: f.trajectory for f in engine(policy).run(specs(5))}
    assert done["e2"].outcome == "error"
    assert "boom" in done["e2"].metadata["error"]
    assert [done[f"e{i}"].outcome for i in (0, 1, 3, 4)] == ["success"] * 4


def test_an_environment_that_cannot_start_ends_its_own_episode() -> None:
    plan = [EpisodeSpec(f"count/train/{i:06d}", seed=0, episode_id=str(i)) for i in (665, 666, 669)]
    done = {f.spec.episode_id: f.trajectory for f in engine(Talker(lambda r: "up"), cursed=True).run(plan)}
    assert done["666"].outcome == "error"
    assert "burns" in done["666"].metadata["error"]
    assert done["665"].success
    assert done["669"].success


def test_a_policy_that_gives_up_keeps_what_was_finished() -> None:
    def say(request):
        if request.episode_id == "e4":
            raise PolicyError("the server is gone")
        return "win"

    found = []
    policy = Talker(say)
    runner = engine(policy, 2)
    with pytest.raises(PolicyError, match="gone"):
        found.extend(finished.spec.episode_id for finished in runner.run(specs(6)))
    assert set(found) == {"e0", "e1", "e2", "e3"}
    assert set(policy.released) >= {"e4", "e5"}


def test_groups_come_in_order_and_begin_alike() -> None:
    plan = group_specs(["count/train/000003", "count/train/000001"], size=3, seed=5, name="u0")
    groups = engine(Talker(lambda request: "roll" if request.rng.random() < 0.3 else "up"), 4).run_groups(plan)
    assert [group.task_id for group in groups] == ["count/train/000003", "count/train/000001"]
    for group in groups:
        assert len(group) == 3
        assert len({trajectory.turns[0].messages for trajectory in group}) == 1
    assert len({tuple(map(len, group)) for group in groups}) == 2


def test_sampling_settings_reach_the_policy() -> None:
    seen = []
    runner = engine(Talker(lambda request: seen.append(request.sampling) or "win"))
    runner.sampling = SamplingParams(temperature=0.4, max_tokens=7)
    list(runner.run(specs(1)))
    assert seen == [SamplingParams(temperature=0.4, max_tokens=7)]


def test_a_task_stream_is_a_permutation_each_time_around() -> None:
    tasks = [str(i) for i in range(7)]
    stream = TaskStream(tasks, seed=3)
    first, second = stream.take(0, 7), stream.take(7, 7)
    assert sorted(first) == sorted(second) == tasks
    assert first != second
    assert TaskStream(tasks, seed=3).take(5, 4) == (first + second)[5:9]


def test_recording_goes_on_where_it_stopped(tmp_path) -> None:
    def run(path, limit=None):
        seen = []

        def stop(trajectory):
            seen.append(trajectory)
            if limit is not None and len(seen) == limit:
                raise KeyboardInterrupt

        return record(
            path,
            [parse_recorder(name) for name in ("expert", "noisy:0.5", "random")],
            episodes=10,
            seed=1,
            env_id=COUNTING,
            make_envs=lambda expert: make_vector_env(COUNTING, 3, expert=expert),
            probe=CountingEnv(),
            on_episode=stop,
        )

    assert run(tmp_path / "whole.jsonl") == 10
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "parts.jsonl", limit=4)
    assert run(tmp_path / "parts.jsonl") == 6
    assert run(tmp_path / "parts.jsonl") == 0
    whole, parts = (
        {t.metadata["episode_id"]: t for t in load_trajectories(tmp_path / name)}
        for name in ("whole.jsonl", "parts.jsonl")
    )
    assert whole == parts
    assert sorted({t.policy for t in whole.values()}) == ["expert", "noisy:0.5", "random"]
    assert sorted(Counter(t.policy for t in whole.values()).values()) == [3, 3, 4]


@pytest.mark.parametrize(
    ("text", "word"),
    [("exprt", "unknown policy"), ("noisy:2", r"\[0, 1\]"), ("noisy:x", "number"), ("model:", "unknown policy")],
)
def test_a_policy_that_is_none_is_refused(text, word) -> None:
    with pytest.raises(ConfigError, match=word):
        parse_recorder(text)


def test_an_alias_keeps_its_name() -> None:
    recorder = parse_recorder("warm-start", {"warm-start": "noisy:0.2"})
    assert recorder.name == "warm-start"
    assert recorder.needs_expert
