"""What the public functions refuse, and their small rules."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_ttg.credit import (
    StepSignal,
    bounded_unit_mean_weights,
    broadcast_to_tokens,
    clip_loss,
    costs_from_estimates,
    group_advantages,
    overlong_penalty,
    pad_rows,
    prediction_advantages,
    prediction_reward,
    progress_deltas,
    step_shares,
    token_accuracy,
    token_to_go,
)

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    "call",
    [
        lambda: token_to_go([3, -1]),
        lambda: token_to_go([NAN]),
        lambda: token_to_go([[1, 2]]),
        lambda: token_to_go(5),
        lambda: token_to_go(["many"]),
        lambda: progress_deltas([1, INF], 0),
        lambda: progress_deltas([1, -1], 0),
        lambda: progress_deltas([1], NAN),
        lambda: progress_deltas([1], -1),
        lambda: progress_deltas([[1]], 0),
        lambda: step_shares([NAN], 1.0),
        lambda: step_shares([1.0], NAN),
        lambda: step_shares([1.0], 1.0, rho=-0.1),
        lambda: step_shares([1.0], 1.0, rho=1.1),
        lambda: step_shares([1.0], 1.0, rho=NAN),
        lambda: step_shares([[1.0]], 1.0),
        lambda: bounded_unit_mean_weights([0.5, 0.5], [1]),
        lambda: bounded_unit_mean_weights([-0.5, 0.5], [1, 1]),
        lambda: bounded_unit_mean_weights([0.5, 0.5], [1, -1]),
        lambda: bounded_unit_mean_weights([0.5, INF], [1, 1]),
        lambda: bounded_unit_mean_weights([0.5, 0.5], [1, NAN]),
        lambda: bounded_unit_mean_weights([[0.5]], [[1]]),
        lambda: bounded_unit_mean_weights([0.5, 0.5], [1, 1], cap=0.999),
        lambda: bounded_unit_mean_weights([0.5, 0.5], [1, 1], cap=NAN),
        lambda: bounded_unit_mean_weights([0.5, 0.5], [1, 1], reading="other"),
        lambda: group_advantages([1, 0], [1]),
        lambda: group_advantages([1, NAN], [1, 1]),
        lambda: group_advantages([1, 0], [1, -1]),
        lambda: group_advantages([[1, 0]], [[1, 1]]),
        lambda: group_advantages([1, 0], [1, 1], eps=-1),
        lambda: group_advantages([1, 0], [1, 1], normalize_over="tokens"),
        lambda: prediction_advantages([1, INF]),
        lambda: costs_from_estimates([True], [1.0, 2.0], failure_cost=5),
        lambda: costs_from_estimates([True], [NAN], failure_cost=5),
        lambda: costs_from_estimates([True], [-1.0], failure_cost=5),
        lambda: costs_from_estimates([0.7], [1.0], failure_cost=5),
        lambda: costs_from_estimates([True], [1.0], failure_cost=0),
        lambda: costs_from_estimates([True], [1.0], failure_cost=INF),
        lambda: StepSignal.from_estimates([True], [1.0, 2.0], success=True, failure_cost=5),
        lambda: StepSignal.from_estimates([True], [1.0], [True, False], success=True, failure_cost=5),
        lambda: token_accuracy(-1, 5),
        lambda: token_accuracy(1, INF),
        lambda: token_accuracy(1, 5, form="square"),
        lambda: prediction_reward((True, 5), (True, None)),
        lambda: prediction_reward(None, (True, -1)),
        lambda: broadcast_to_tokens([1.0], [1]),
        lambda: broadcast_to_tokens([1.0], [-2]),
        lambda: broadcast_to_tokens([1.0], [0.5]),
        lambda: broadcast_to_tokens([[1.0]], [0]),
        lambda: broadcast_to_tokens([1.0, NAN], [0, 1]),
        lambda: pad_rows([[1.0, 2.0]], length=1),
        lambda: pad_rows([1.0]),
        lambda: clip_loss([1.0], [1.0, 2.0]),
        lambda: clip_loss([-1.0], [1.0]),
        lambda: clip_loss([1.0], [1.0], dual_clip=1.0),
        lambda: overlong_penalty(5, max_tokens=10, buffer=0),
        lambda: overlong_penalty(5, max_tokens=10, buffer=11),
        lambda: overlong_penalty(5, max_tokens=10, buffer=5, factor=-1),
    ],
)
def test_bad_input_is_refused(call):
    with pytest.raises(ValueError):
        call()


def test_an_error_says_what_came_and_where():
    with pytest.raises(ValueError, match=r"expected token counts >= 0, got -2\.0 at 1"):
        token_to_go([5, -2])


def test_no_steps_are_no_error():
    assert token_to_go([]).shape == (0,)
    assert progress_deltas([], 0).shape == (0,)
    assert step_shares([], 1.0).shape == (0,)
    assert bounded_unit_mean_weights([], []).shape == (0,)
    assert group_advantages([], []).shape == (0,)
    assert pad_rows([]).shape == (0, 0)


def test_inputs_are_not_changed():
    values = np.array([3.0, 1.0, 2.0])
    counts = np.array([1, 2, 3])
    kept = values.copy(), counts.copy()
    token_to_go(counts)
    progress_deltas(values, 0)
    step_shares(values, 1.0)
    bounded_unit_mean_weights(values, counts)
    group_advantages(values, counts)
    np.testing.assert_array_equal(values, kept[0])
    np.testing.assert_array_equal(counts, kept[1])


def test_integers_give_float64():
    for found in (
        token_to_go([1, 2]),
        progress_deltas([5, 3], 0),
        step_shares([2, 1], 1),
        bounded_unit_mean_weights([1, 2], [3, 4], cap=2),
        group_advantages([1, 0], [2, 2]),
        broadcast_to_tokens([1, 2], [0, 1]),
    ):
        assert found.dtype == np.float64


def test_trajectories_without_actions_do_not_count():
    assert group_advantages([1.0, 0.0], [3, 0]).tolist() == [0.0, 0.0]
    np.testing.assert_array_equal(group_advantages([1, 0, 5], [2, 2, 0])[:2], group_advantages([1, 0], [2, 2]))


def test_centring_alone():
    np.testing.assert_allclose(group_advantages([1, 0], [1, 3], divide_by_std=False), [0.75, -0.25])


@pytest.mark.parametrize("broken", [None, -5, NAN, INF])
def test_an_unusable_count_is_rewarded_like_an_unreadable_answer(broken):
    assert prediction_reward((True, broken), (True, 400)) == -1
    assert prediction_reward((False, broken), (False, None)) == 1, "not looked at where the state is lost"


@settings(max_examples=50, deadline=None)
@given(st.floats(0, 1e9), st.floats(0, 1e9), st.sampled_from(["linear", "ratio"]))
def test_token_accuracy_is_best_where_the_estimate_is_right(predicted, actual, form):
    assert 0 <= token_accuracy(predicted, actual, form=form) <= 1
    right = token_accuracy(actual, actual, form=form)
    assert right >= token_accuracy(predicted, actual, form=form)
    assert prediction_reward((True, predicted), (True, actual), form=form) >= 0.2, "the class counts first"


@settings(max_examples=50, deadline=None)
@given(st.floats(0, 20), st.floats(-5, 5))
def test_the_loss_is_bounded_where_the_ratio_runs_away(ratio, advantage):
    loss = float(clip_loss([ratio], [advantage])[0])
    assert float(clip_loss([1.0], [advantage])[0]) == -advantage
    if advantage < 0:
        assert 0.8 * -advantage - 1e-12 <= loss <= 3 * -advantage + 1e-12
        assert float(clip_loss([ratio], [advantage], dual_clip=None)[0]) >= loss
    else:
        assert -1.28 * advantage - 1e-12 <= loss <= 0


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-10, 10), min_size=1, max_size=6), st.data())
def test_every_trainable_token_has_its_steps_value(values, data):
    steps = data.draw(st.lists(st.integers(-1, len(values) - 1), max_size=20))
    found = broadcast_to_tokens(values, np.array(steps, dtype=np.int64))
    assert found.tolist() == [0.0 if step < 0 else values[step] for step in steps]


def test_a_value_that_no_token_needs_may_be_anything():
    assert broadcast_to_tokens([NAN, 2.0], [1, -1]).tolist() == [2.0, 0.0]
    assert broadcast_to_tokens([], [-1, -1]).tolist() == [0.0, 0.0]


def test_rows_are_filled_up_on_the_right():
    found = pad_rows([[1.0], [], [2.0, 3.0]], length=3, fill=-7)
    assert found.tolist() == [[1, -7, -7], [-7, -7, -7], [2, 3, -7]]


def test_overlong_penalty_is_a_ramp():
    penalties = [overlong_penalty(n, max_tokens=100, buffer=20, factor=2) for n in (0, 80, 90, 100, 110)]
    assert penalties == [0, 0, -1, -2, -3]
