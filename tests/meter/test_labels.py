import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_ttg.core import Completion, ConfigError, DataError, Message, Trajectory, Turn
from agentgym_ttg.meter import label_trajectories, split_tasks
from agentgym_ttg.meter.labels import LengthNorm, select_split


def trajectory(tokens, outcome="success", policy="p", task="t", reward=None):
    turns = [Turn((Message("user", "?"),), Completion("word " * n), tokens=n) for n in tokens]
    total = float(outcome == "success") if reward is None else reward
    return Trajectory("toy", task, policy, turns, outcome, total)


def test_token_to_go_counts_from_the_action_on_and_failures_have_no_cost():
    success, failure, truncated = label_trajectories(
        [trajectory([5, 2, 0, 3]), trajectory([4, 4], "failure"), trajectory([1], "truncated")]
    )
    assert success.values.tolist() == [10, 5, 3, 3]
    assert success.can_complete
    assert success.has_values
    for label in (failure, truncated):
        assert not label.can_complete
        assert not label.has_values


def test_broken_episodes_and_empty_ones_are_left_out():
    labels = label_trajectories([trajectory([1], "error"), trajectory([]), trajectory([2])])
    assert [label.trajectory.token_counts.tolist() for label in labels] == [[2]]


def test_recounting_puts_all_policies_in_one_unit():
    foreign = trajectory([2, 3])
    for turn in foreign.turns:
        turn.tokens *= 7
    assert label_trajectories([foreign])[0].values.tolist() == [35, 21]
    assert label_trajectories([foreign], counter=lambda text: len(text.split()))[0].values.tolist() == [5, 3]


def test_steps_and_outcome_targets():
    assert label_trajectories([trajectory([9, 9, 9])], target="steps")[0].values.tolist() == [3, 2, 1]
    lost, won = label_trajectories(
        [trajectory([9, 9], "failure", reward=-0.5), trajectory([9], reward=10.0)], target="outcome"
    )
    assert lost.values.tolist() == [-0.5, -0.5]
    assert lost.has_values
    assert won.values.tolist() == [10.0]


def test_normalized_targets_agree_between_a_terse_and_a_verbose_policy():
    terse, verbose = trajectory([1, 2, 1], policy="terse"), trajectory([10, 20, 10], policy="verbose")
    failed = trajectory([500], "truncated", policy="terse")
    norm = LengthNorm.fit([terse, verbose, failed])
    assert norm.lengths == {"terse": 4.0, "verbose": 40.0}
    a, b, _ = label_trajectories([terse, verbose, failed], target="normalized", norm=norm)
    assert np.allclose(a.values, b.values)
    assert a.values[0] == norm.reference == 22.0


def test_normalized_without_lengths_and_unknown_targets_are_refused():
    with pytest.raises(ConfigError, match="norm="):
        label_trajectories([trajectory([1])], target="normalized")
    with pytest.raises(ConfigError, match="unknown target"):
        label_trajectories([trajectory([1])], target="minutes")


@settings(deadline=None)
@given(st.lists(st.integers(0, 400), min_size=1, max_size=40))
def test_labels_fall_by_what_each_action_costs(tokens):
    values = label_trajectories([trajectory(tokens)])[0].values
    assert np.array_equal(values - np.append(values[1:], 0), tokens)


@settings(deadline=None)
@given(st.sets(st.text(max_size=12), min_size=3, max_size=60), st.integers(0, 2**31))
def test_every_task_is_in_one_split_and_no_split_is_empty(tasks, seed):
    places = split_tasks(tasks, seed=seed)
    assert set(places) == tasks
    assert set(places.values()) == {"train", "validation", "test"}
    assert places == split_tasks(sorted(tasks) * 2, seed=seed)


def test_a_task_stays_in_its_split_when_others_are_recorded():
    few = split_tasks(f"task/{i}" for i in range(200))
    many = split_tasks(f"task/{i}" for i in range(2000))
    assert all(many[task] == place for task, place in few.items())


def test_splits_never_tear_a_task_apart(corridor):
    recordings = corridor(30)
    places = split_tasks(t.task_id for t in recordings)
    parts = [{t.task_id for t in select_split(recordings, places, s)} for s in ("train", "validation", "test")]
    assert parts[0].isdisjoint(parts[1] | parts[2])
    assert parts[1].isdisjoint(parts[2])
    assert sum(len(select_split(recordings, places, s)) for s in ("train", "validation", "test")) == len(recordings)


def test_too_few_tasks_and_impossible_shares_are_refused():
    with pytest.raises(DataError, match="at least 3 tasks"):
        split_tasks(["a", "b", "a"])
    with pytest.raises(ConfigError, match="below 1"):
        split_tasks(["a", "b", "c"], validation=0.6, test=0.5)
