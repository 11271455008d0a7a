import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_ttg.benchmarks.results import EpisodeRecord, summarise

records = st.builds(
    EpisodeRecord,
    episode=st.integers(0, 10**6),
    task_id=st.text(max_size=5),
    task_type=st.sampled_from(["", "a", "b"]),
    outcome=st.sampled_from(["success", "failure", "truncated", "error"]),
    steps=st.integers(0, 50),
    tokens=st.integers(0, 10_000),
    invalid=st.integers(0, 50),
    cut_off=st.integers(0, 50),
    reward=st.floats(-10, 10),
    metrics=st.dictionaries(st.sampled_from(["em", "recall"]), st.floats(0, 1)),
)


@given(st.lists(records, max_size=30, unique_by=lambda row: row.episode), st.randoms())
def test_order_does_not_matter_and_rates_are_rates(rows, rng):
    found = summarise(rows)
    shuffled = list(rows)
    random.Random(rng.random()).shuffle(shuffled)
    assert summarise(shuffled) == found
    assert 0 <= found["success_low"] <= found["success_rate"] <= found["success_high"] <= 1
    assert found["episodes"] == len(rows) == sum(found["outcomes"].values())
    for kind in found["task_types"].values():
        assert 0 <= kind["success_low"] <= kind["success_rate"] <= kind["success_high"] <= 1


def row(episode, outcome, **more):
    known = {"task_id": "t", "task_type": "", "steps": 4, "tokens": 10, "invalid": 1, "cut_off": 0, "reward": 0.0}
    return EpisodeRecord(episode=episode, outcome=outcome, **{**known, **more})


def test_a_broken_episode_is_not_solved_and_not_in_the_means():
    found = summarise([row(0, "success", steps=2, tokens=6), row(1, "error", steps=50, tokens=500)])
    assert found["success_rate"] == 0.5
    assert found["mean_steps"] == 2
    assert found["assistant_tokens_per_episode"] == 6
    assert found["assistant_tokens"] == 506  # what was spent was spent
    assert found["errors"] == 1


def test_a_metric_is_averaged_over_the_episodes_that_report_it():
    found = summarise(
        [row(0, "success", metrics={"em": 1.0}), row(1, "failure", metrics={"em": 0.0}), row(2, "failure")]
    )
    assert found["metrics"] == {"em": 0.5}


def test_nothing_played():
    found = summarise([])
    assert (found["episodes"], found["success_rate"]) == (0, 0.0)
    assert (found["success_low"], found["success_high"]) == (0.0, pytest.approx(1.0))


def test_the_benchmarks_own_scores_see_every_episode_and_breakdowns_as_unsolved():
    rows = [
        row(0, "success", task_type="a", metrics={"em": 1.0}),
        row(1, "error", task_type="b"),
        row(2, "failure", task_type="a"),
    ]
    seen = []
    found = summarise(rows, lambda episodes: (seen.extend(episodes), {"overall": 0.25})[1])
    assert found["scores"] == {"overall": 0.25}
    assert seen == [("a", True, {"em": 1.0}), ("b", False, {}), ("a", False, {})]
    assert summarise(rows)["scores"] == {}
