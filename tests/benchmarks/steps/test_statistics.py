"""Numbers of judgements, checked by hand, by force or by simulation."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_ttg.benchmarks.steps.attribution import attribute, pick
from agentgym_ttg.benchmarks.steps.best_of_n import oracle_curve, pick_curve
from agentgym_ttg.benchmarks.steps.statistics import (
    judge,
    judge_random,
    measure,
    ratio_interval,
    resampled,
    step_auroc,
)
from agentgym_ttg.benchmarks.steps.uncertainty import told_by
from agentgym_ttg.benchmarks.steps.whowhen import read_record
from agentgym_ttg.core.errors import ConfigError

ROWS = st.lists(
    st.lists(st.tuples(st.sampled_from([-1, 0, 1]), st.floats(-2, 2)), min_size=1, max_size=6), min_size=1, max_size=6
)


def draws(count, number=200):
    return resampled(count, np.random.default_rng(0), resamples=number)


def test_signs_are_counted_neutral_steps_are_not_and_no_sign_is_wrong():
    scores = [[1.0, -1.0, 5.0, 0.0], [np.nan, 2.0]]
    labels = [[1, -1, 0, 1], [-1, 1]]
    found = measure(judge(scores, labels), draws(2))
    assert found["accuracy"].value == pytest.approx(3 / 5)
    assert found["accuracy"].n == 5
    assert found["coverage"].value == pytest.approx(3 / 5)
    assert found["covered_accuracy"].value == 1.0
    assert found["balanced"].value == pytest.approx((2 / 3 + 1 / 2) / 2)


@pytest.mark.parametrize(
    ("scores", "labels", "hit"),
    [
        ([1, -1, -1], [1, -1, 1], True),
        ([-1, -1, 1], [1, -1, 1], False),
        ([-1, 1], [0, -1], False),  # an accused neutral step is a false alarm
        ([1, 1], [1, 0], True),  # nothing wrong, nothing accused
        ([1, -1], [1, 1], False),
        ([1, 1], [1, -1], False),
    ],
)
def test_the_first_error(scores, labels, hit):
    assert judge([scores], [labels]).first.tolist() == [float(hit)]


def test_first_error_accuracy_is_over_the_trajectories_with_an_error():
    found = measure(judge([[1, 1], [1, -1], [-1, 1]], [[1, 1], [1, -1], [1, -1]]), draws(3))
    assert found["first_error"].value == pytest.approx(1 / 2)
    assert found["first_error_all"].value == pytest.approx(2 / 3)


def test_the_random_reference_is_what_coins_do():
    labels = [[1, -1, 0, -1], [1, 1], [0, 0, -1]]
    rng = np.random.default_rng(1)
    coins = [judge([rng.choice([-1.0, 1.0], len(row)) for row in labels], labels) for _ in range(4000)]
    expected = judge_random(labels)
    for name in ("right", "first"):
        assert np.mean([getattr(one, name) for one in coins], axis=0) == pytest.approx(
            getattr(expected, name), abs=0.05
        )


@given(ROWS)
def test_a_constant_sign_is_balanced_at_one_half(rows):
    labels = [[label for label, _ in row] for row in rows]
    found = measure(judge([[1.0] * len(row) for row in labels], labels), draws(len(rows), 10))
    flat = [label for row in labels for label in row]
    assert np.isnan(found["balanced"].value) or found["balanced"].value == 0.5
    assert np.isnan(found["balanced"].value) == (1 not in flat or -1 not in flat)


@given(ROWS)
def test_turning_all_signs_turns_right_into_wrong(rows):
    labels = [[label for label, _ in row] for row in rows]
    scores = [np.array([score for _, score in row]) for row in rows]
    one, other = judge(scores, labels), judge([-row for row in scores], labels)
    assert (one.right + other.right == one.covered).all()


def test_scores_of_another_length_are_refused():
    with pytest.raises(ValueError, match="a score for each label"):
        judge([[1.0]], [[1, 1]])


def test_intervals_hold_the_value_and_shrink_with_more_trajectories():
    rng = np.random.default_rng(0)
    widths = []
    for count in (20, 500):
        right = rng.random(count) < 0.7
        found = ratio_interval(right, np.ones(count), draws(count, 500))
        assert found.low <= found.value <= found.high
        widths.append(found.high - found.low)
    assert widths[1] < widths[0] / 2


def test_whole_groups_are_drawn():
    for draw in resampled(6, np.random.default_rng(0), resamples=50, groups=list("aabbcc")):
        counts = np.bincount(draw, minlength=6)
        assert (counts[0::2] == counts[1::2]).all()


def test_the_step_auroc_asks_for_no_zero_point():
    labels = [[1, -1], [1, -1, 0]]
    assert step_auroc([[-1.0, -2.0], [-1.5, -9.0, -5.0]], labels, draws(2)).value == 1.0


# Attribution --------------------------------------------------------------------------------------------------------


def test_rules_on_the_golden_scores():
    scores = [0.4, -0.1, -0.9, 0.2, -0.5]
    assert pick(scores, "lowest-step") == 2
    assert pick(scores, "lowest-cumulative") == 4
    assert pick(scores, "sharpest-drop") == 2


def test_steps_without_a_number_are_passed_over():
    scores = [1.0, np.nan, 0.5, np.nan, -3.0]
    assert pick(scores, "sharpest-drop") == 4
    assert pick([np.nan, np.nan], "lowest-step") is None
    assert pick([np.nan, 2.0], "sharpest-drop") == 1
    with pytest.raises(ConfigError, match="unknown rule"):
        pick(scores, "worst")


class Known:
    """A scorer that knows the mistake."""

    name = "known"
    tokens_scored = 0

    def __init__(self, mistakes):
        self.mistakes = mistakes

    def step_scores(self, trajectories):
        return [
            np.array([-1.0 if i == mistake else 0.5 for i in range(len(t))])
            for t, mistake in zip(trajectories, self.mistakes, strict=True)
        ]


def logs(shape):
    return [
        read_record(
            f"line {i}",
            {
                "question": "?",
                "history": [{"name": "A", "content": str(k)} for k in range(n)],
                "mistake_step": m,
            },
        )
        for i, (n, m) in enumerate(shape)
    ]


def test_who_knows_the_mistake_finds_it_and_references_do_what_they_say():
    rows = attribute(logs([(5, 0), (6, 3), (9, 4)]), [Known([0, 3, 4])], resamples=50)["rows"]
    assert rows["known: lowest-step"]["exact"]["value"] == 1.0
    assert rows["known: lowest-step"]["mean_absolute_error"]["value"] == 0.0
    assert rows["always first"]["exact"]["value"] == pytest.approx(1 / 3)
    assert rows["always first"]["mean_absolute_error"]["value"] == pytest.approx((0 + 3 + 4) / 3)
    assert rows["always last"]["mean_absolute_error"]["value"] == pytest.approx((4 + 2 + 4) / 3)
    assert rows["always middle"]["mean_absolute_error"]["value"] == pytest.approx((2 + 1 + 0) / 3)
    assert rows["random step"]["exact"]["value"] == pytest.approx(np.mean([1 / 5, 1 / 6, 1 / 9]))
    assert rows["random step"]["mean_absolute_error"]["value"] == pytest.approx(np.mean([10 / 5, 9 / 6, 20 / 9]))
    assert {band: row["logs"] for band, row in rows["always first"]["by_length"].items()} == {"5-6": 2, "9-10": 1}


# Best of N ----------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=6))
def test_the_curve_is_the_mean_over_all_subsets(pairs):
    scores, won = [s for s, _ in pairs], [float(w) for _, w in pairs]
    picked, best = pick_curve(scores, won), oracle_curve(won)
    for n in range(1, len(pairs) + 1):
        subsets = list(itertools.combinations(range(len(pairs)), n))
        chosen = [won[max(subset, key=lambda i: (scores[i], -i))] for subset in subsets]
        assert picked[n - 1] == pytest.approx(np.mean(chosen))
        assert best[n - 1] == pytest.approx(np.mean([max(won[i] for i in subset) for subset in subsets]))


def test_who_has_no_score_is_picked_last():
    assert pick_curve([np.nan, -5.0], [1, 0]).tolist() == [0.5, 0.0]


# Uncertainty --------------------------------------------------------------------------------------------------------


def test_early_scores_are_of_trajectories_that_go_on():
    rng = np.random.default_rng(0)
    success = np.arange(40) % 2 == 0
    # The first step says nothing, the second everything; a third is there for half of them.
    scores = [np.array([rng.random(), 10.0 * won, 0.0][: 2 + (i < 20)]) for i, won in enumerate(success)]
    found = told_by(scores, success, "sum", draws(40, 50), max_steps=5)
    assert found["auroc"]["value"] == 1.0
    first, second = found["early_warning"]
    assert (first["trajectories"], second["trajectories"]) == (40, 20)
    assert first["auroc"]["value"] < 0.8
    assert second["auroc"]["value"] == 1.0
