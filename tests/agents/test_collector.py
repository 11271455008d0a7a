"""Collecting an update: what every odd episode does to it."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra 'train' is not installed")
pytest.importorskip("trl", reason="the extra 'train' is not installed")

from toy_envs import COUNTING, CountingEnv  # noqa: E402

from agentgym_ttg.agents.collector import Collector  # noqa: E402
from agentgym_ttg.agents.config import TrainConfig  # noqa: E402
from agentgym_ttg.agents.rollout import RolloutEngine  # noqa: E402
from agentgym_ttg.agents.tasks import TaskStream  # noqa: E402
from agentgym_ttg.core import Completion, PolicyError  # noqa: E402
from agentgym_ttg.credit import GRPO, DeltaTTG, is_informative  # noqa: E402
from agentgym_ttg.envs.vector import make_vector_env  # noqa: E402
from agentgym_ttg.meter.base import Estimate  # noqa: E402
from agentgym_ttg.meter.signals import MeterSignal  # noqa: E402


class Script:
    """Member k of a group says line k; every line is two tokens behind a prompt of three."""

    name = "script"

    def __init__(self, *lines: str, ids=(7, 8)) -> None:
        self.lines = lines
        self.ids = ids

    def generate(self, requests):
        out = []
        for request in requests:
            said = self.lines[int(request.episode_id.rsplit("/", 1)[1]) % len(self.lines)]
            ids = () if said == "" else self.ids
            out.append(Completion(said, token_ids=ids, logprobs=[-0.5] * len(ids), prompt_ids=[1, 2, 3]))
        return out

    def release(self, episode_ids) -> None:
        pass


class Meter:
    """Sees progress in every step; cannot be read where it is told so."""

    name = "meter"
    tokens_scored = 0

    def __init__(self, unreadable=lambda trajectory: False) -> None:
        self.unreadable = unreadable
        self.calls = 0

    def score(self, trajectories):
        self.calls += 1
        return [
            [Estimate.invalid()] * len(t)
            if self.unreadable(t)
            else [Estimate(True, 50.0 / (k + 1)) for k in range(len(t))]
            for t in trajectories
        ]


def collect(policy, *, estimator=None, group_size=2, tasks=2, keep=None, **config):
    collector = Collector(
        engine=RolloutEngine(make_vector_env(COUNTING, 8), policy, env_id=COUNTING),
        tasks=TaskStream(CountingEnv().tasks, seed=0),
        estimator=estimator or GRPO(),
        config=TrainConfig(tasks_per_update=tasks, group_size=group_size, max_sampling_rounds=3, **config),
        seed=0,
        keep=keep,
    )
    return collector, collector(0)


def all_finite(batch) -> bool:
    return all(np.isfinite(values).all() for values in batch.advantages)


def test_advantages_reach_the_tokens_of_their_rows() -> None:
    _, batch = collect(Script("win", "lose"))
    assert batch.metrics["success"] == 0.5
    assert batch.metrics["trained_tokens"] == sum((row.steps >= 0).sum() for row in batch.rows) == 8
    signs = sorted(np.sign(values[0]) for values in batch.advantages)
    assert signs == [-1, -1, 1, 1]


def test_a_dead_environment_is_left_out_and_counted() -> None:
    _, batch = collect(Script("win", "boom", "lose"), group_size=3)
    assert batch.metrics["error_trajectories"] == 2
    assert batch.metrics["episodes"] == 4
    assert len(batch.rows) == 4
    assert all_finite(batch)


def test_equal_rewards_teach_nothing() -> None:
    _, batch = collect(Script("win"))
    assert batch.metrics["zero_variance_groups"] == 1
    assert all((values == 0).all() for values in batch.advantages)


def test_a_group_of_one_teaches_nothing() -> None:
    _, batch = collect(Script("win"), group_size=1)
    assert all((values == 0).all() for values in batch.advantages)


def test_an_empty_message_is_no_row_and_is_counted() -> None:
    _, batch = collect(Script("win", ""))
    assert batch.metrics["empty_completions"] > 0
    assert len(batch.rows) == 2
    assert all_finite(batch)


def test_an_unreadable_answer_resets_its_group_only() -> None:
    broken = Meter(lambda t: t.success and t.task_id == collector_tasks()[0])
    estimator = DeltaTTG(MeterSignal(broken, failure_cost=100))
    _, batch = collect(Script("win", "lose"), estimator=estimator)
    assert batch.metrics["kept_invalid_group"] == 0.5
    assert broken.calls == 1
    assert all_finite(batch)


def collector_tasks():
    return TaskStream(CountingEnv().tasks, seed=0).take(0, 2)


def test_the_price_of_invalid_actions_is_no_part_of_the_reward() -> None:
    _, plain = collect(Script("what?", "win"))
    _, priced = collect(Script("what?", "win"), invalid_action_penalty=0.5)
    assert plain.metrics["reward"] == priced.metrics["reward"] == 0.5
    shifts = sorted(float(a[0] - b[0]) for a, b in zip(plain.advantages, priced.advantages, strict=True))
    assert shifts == pytest.approx([0.0] * 2 + [0.5] * 20)


def test_dynamic_sampling_fills_the_batch_with_groups_that_differ() -> None:
    def keep(group):
        return is_informative(group) and int(group.task_id[-1]) % 2 == 0

    collector, batch = collect(Script("win", "lose"), tasks=3, keep=keep)
    assert batch.metrics["dropped_groups"] == batch.metrics["task_cursor"] - 3 > 0
    assert collector.actor_tokens == 4 * batch.metrics["task_cursor"]
    assert batch.metrics["episodes"] == 6


def test_dynamic_sampling_gives_up_with_a_word() -> None:
    with pytest.raises(PolicyError, match="found 0 of 2 groups with differing rewards among 6 in 3 rounds"):
        collect(Script("win"), keep=is_informative)


def test_a_round_of_dynamic_sampling_is_as_large_as_the_share_of_kept_groups_tells() -> None:
    asked = []

    def keep(group):
        asked.append(group.task_id)
        return len(asked) <= 2 or len(asked) > 8

    collector, batch = collect(Script("win", "lose"), tasks=8, keep=keep)
    assert batch.metrics["sampling_rounds"] == 2
    assert batch.metrics["task_cursor"] == 16  # 6 missing at 2 of 8 would be 24: no more than a full round
    assert batch.metrics["dropped_groups"] == 6
    assert batch.metrics["surplus_groups"] == 2
    assert batch.metrics["episodes"] == 16
    assert collector.actor_tokens == 4 * 16
