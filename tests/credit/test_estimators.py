"""What holds for every estimator, and DeltaTTG as training calls it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_ttg.core import TrajectoryGroup
from agentgym_ttg.credit import (
    DAPO,
    GRPO,
    HGPO,
    KEPT_REASONS,
    DeltaTTG,
    GiGPO,
    GroupEstimator,
    StepCredit,
    StepSignal,
    is_informative,
)


def by_anchor(trajectories):
    """A signal that depends on the trajectory alone, not on its place."""
    return [
        StepSignal(np.array([float(len(anchor) * 7 % 5 - 2) + 0.1 * i for i, anchor in enumerate(t.anchors)]))
        for t in trajectories
    ]


ESTIMATORS = {
    "grpo": GRPO(),
    "grpo-trajectories": GRPO(normalize_over="trajectories"),
    "dapo": DAPO(max_tokens=60, buffer=30),
    "gigpo": GiGPO(),
    "gigpo-mean": GiGPO(mode="mean_norm", normalize_over="trajectories"),
    "gigpo-similar": GiGPO(similarity=0.6),
    "hgpo": HGPO(),
    "hgpo-all": HGPO(drop_zeros=False, base_group=True, weight_base="k", alpha=2.0, mode="mean_norm"),
    "deltattg": DeltaTTG(by_anchor),
    "deltattg-positive": DeltaTTG(by_anchor, sign_aware=False, rho=0.0, cap=2.0),
}
every_estimator = pytest.mark.parametrize("estimator", ESTIMATORS.values(), ids=ESTIMATORS.keys())


@st.composite
def trajectories(draw, play):
    size = draw(st.integers(1, 6))
    anchors = draw(st.lists(st.sampled_from(["a", "bb", "ccc", "dddd", ""]), min_size=size, max_size=size))
    tokens = draw(st.lists(st.integers(0, 40), min_size=size, max_size=size))
    outcome = draw(st.sampled_from(["success", "failure", "truncated", "error"]))
    return play(tokens, draw(st.sampled_from([0.0, 0.5, 1.0])), outcome=outcome, anchors=anchors)


@every_estimator
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_the_order_of_trajectories_does_not_matter(estimator, data, play):
    found = data.draw(st.lists(trajectories(play), min_size=1, max_size=6))
    order = data.draw(st.permutations(range(len(found))))
    expected = estimator(TrajectoryGroup("task", found))
    shuffled = estimator(TrajectoryGroup("task", [found[i] for i in order]))
    for place, i in enumerate(order):
        assert shuffled[place].shape == (len(found[i]),)
        np.testing.assert_allclose(shuffled[place], expected[i], rtol=1e-9, atol=1e-9)
        assert np.isfinite(expected[i]).all()


@every_estimator
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_broken_trajectories_are_left_out_of_their_group(estimator, data, play):
    found = data.draw(st.lists(trajectories(play), min_size=1, max_size=6))
    sound = [trajectory for trajectory in found if trajectory.outcome != "error"]
    with_broken = estimator(TrajectoryGroup("task", found))
    without = iter(estimator(TrajectoryGroup("task", sound)))
    for trajectory, advantages in zip(found, with_broken, strict=True):
        expected = np.zeros(len(trajectory)) if trajectory.outcome == "error" else next(without)
        np.testing.assert_allclose(advantages, expected, rtol=1e-12, atol=1e-12)


@every_estimator
def test_groups_do_not_influence_each_other(estimator, play, group_of):
    groups = [
        group_of(play([3, 4], 1.0), play([5], 0.0)),
        group_of(play([2, 2, 2], 0.0), play([6, 1], 1.0), play([9], 1.0)),
        group_of(),
    ]
    together = estimator.estimate(groups)
    for group, credits in zip(groups, together.credits, strict=True):
        assert len(credits) == len(group)
        for credit, alone in zip(credits, estimator(group), strict=True):
            np.testing.assert_array_equal(credit.advantages, alone)
    assert estimator.estimate([]).credits == []


@every_estimator
def test_a_group_of_broken_or_empty_trajectories_is_all_zero(estimator, play, group_of):
    group = group_of(play([4, 4], 1.0, outcome="error"), play([], 0.0))
    report = estimator.estimate([group])
    assert [credit.advantages.tolist() for credit in report.credits[0]] == [[0.0, 0.0], []]
    assert report.metrics["error_trajectories"] == 1
    assert report.metrics["zero_variance_groups"] == 1


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_dapo_without_overlong_shaping_is_grpo(data, play):
    group = TrajectoryGroup("task", data.draw(st.lists(trajectories(play), min_size=1, max_size=5)))
    for dapo, grpo in zip(DAPO()(group), GRPO()(group), strict=True):
        np.testing.assert_array_equal(dapo, grpo)


def test_dapo_prefers_the_shorter_of_two_successes(play, group_of):
    group = group_of(play([27, 27], 1.0), play([10, 10], 1.0), play([5, 5], 0.0))
    long, short, failed = (advantages[0] for advantages in DAPO(max_tokens=60)(group))
    assert short > long > failed
    with pytest.raises(ValueError, match="buffer"):
        DAPO(max_tokens=60, buffer=100)


def test_dynamic_sampling_keeps_groups_whose_rewards_differ(play, group_of):
    win, lose = play([1], 1.0), play([1], 0.0)
    assert is_informative(group_of(win, lose))
    assert not is_informative(group_of(win, win))
    assert not is_informative(group_of(win, play([1], 0.0, outcome="error"))), "a broken trajectory does not count"
    assert not is_informative(group_of())


def test_a_third_partys_estimator_writes_one_method(play, group_of):
    class Reward(GroupEstimator):
        def estimate_group(self, group):
            return [StepCredit(np.full(len(trajectory), trajectory.total_reward)) for trajectory in group]

    report = Reward().estimate([group_of(play([1, 1], 1.0), play([1], 0.0))])
    assert [credit.advantages.tolist() for credit in report.credits[0]] == [[1.0, 1.0], [0.0]]
    assert report.metrics["zero_variance_groups"] == 0
    assert "weight_min" not in report.metrics


def test_the_signal_is_asked_once_for_the_whole_batch_without_broken_trajectories(play, group_of):
    calls = []

    def signal(asked):
        calls.append(list(asked))
        return by_anchor(asked)

    first = [play([1, 2], 1.0), play([1, 2], 0.0, outcome="error"), play([3, 1], 0.0)]
    second = [play([1, 2, 3], 0.0), play([1], 1.0), play([], 0.0)]
    report = DeltaTTG(signal).estimate([group_of(*first), group_of(*second)])
    assert calls == [[first[0], first[2], second[0], second[1]]]
    assert [credit.kept for credits in report.credits for credit in credits][1] == "error"
    assert report.kept["empty"] == 1


def test_trainable_tokens_can_be_given(play, group_of):
    """A completion that was cut for training has fewer trainable tokens than the assistant said."""
    group = group_of(play([10, 10], 1.0), play([10, 10], 0.0))

    def signal(asked):
        return [StepSignal(np.array([3.0, 1.0])) for _ in asked]

    estimator = DeltaTTG(signal, rho=0.0)
    counts = [[np.array([10, 30]), np.array([10, 10])]]
    found = estimator.estimate([group], token_counts=counts).credits[0][0]
    np.testing.assert_allclose(found.weights, [2.0, 2 / 3])
    np.testing.assert_allclose(estimator.estimate([group]).credits[0][0].weights, [1.5, 0.5])
    for wrong in ([counts[0][:1]], [[np.array([10]), np.array([10, 10])]], []):
        with pytest.raises(ValueError, match="token count"):
            estimator.estimate([group], token_counts=wrong)


@pytest.mark.parametrize("answer", [[], [StepSignal(np.zeros(3)), StepSignal(np.zeros(2))]])
def test_a_signal_that_does_not_fit_is_an_error(play, group_of, answer):
    with pytest.raises(ValueError, match=r"expected a (signal|delta) for each"):
        DeltaTTG(lambda asked: answer)(group_of(play([1, 2], 1.0), play([1, 2], 0.0)))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_deltas_that_are_not_finite_are_an_invalid_answer(play, group_of, value):
    group = group_of(play([1, 2], 1.0), play([1, 2], 0.0))
    report = DeltaTTG(lambda asked: [StepSignal(np.array([1.0, value])), StepSignal(np.zeros(2))]).estimate([group])
    for credit, plain in zip(report.credits[0], GRPO()(group), strict=True):
        np.testing.assert_array_equal(credit.advantages, plain)
    assert report.kept == {"invalid_group": 2}


@pytest.mark.parametrize("settings", [{"rho": 1.0}, {"cap": 1.0}])
def test_equal_weights_are_grpo(play, group_of, settings):
    group = group_of(play([3, 8, 2], 1.0), play([7, 1], 0.0), play([4, 4, 4, 4], 1.0))
    for found, plain in zip(DeltaTTG(by_anchor, **settings)(group), GRPO()(group), strict=True):
        np.testing.assert_array_equal(found, plain)


def test_the_positive_variant_blames_progress(play, group_of):
    group = group_of(play([10, 10], 1.0), play([10, 10], 0.0))

    def signal(asked):
        return [StepSignal(np.array([5.0, -5.0])) for _ in asked]

    aware, blind = DeltaTTG(signal)(group)[1], DeltaTTG(signal, sign_aware=False)(group)[1]
    assert aware[1] < aware[0] < 0
    assert blind[0] < blind[1] < 0


def test_metrics_say_what_was_kept_and_why(play, group_of):
    moved = group_of(play([1, 99, 0], 1.0), play([10, 10], 0.0))
    broken = group_of(play([1, 1], 1.0), play([1, 1], 0.0), play([1], 0.0, outcome="error"))
    flat = group_of(play([1, 1], 1.0), play([1, 1], 1.0))

    def signal(asked):
        return [
            StepSignal(np.array([90.0, 0.0, 50.0])),  # of 100 tokens the first gets the most: at the cap
            StepSignal(np.array([-1.0, -3.0])),
            StepSignal(np.zeros(2), valid=False),
            *[StepSignal(np.ones(2)) for _ in range(len(asked) - 3)],
        ]

    report = DeltaTTG(signal).estimate([moved, broken, flat])
    metrics = report.metrics
    assert report.kept == {"invalid_group": 2, "error": 1, "zero_advantage": 2}
    assert metrics["kept_original"] == pytest.approx(4 / 6), "the broken one is left out, it did not keep anything"
    assert metrics["kept_invalid_group"] == metrics["kept_zero_advantage"] == pytest.approx(2 / 6)
    assert {f"kept_{reason}" for reason in KEPT_REASONS} <= set(metrics), "always there, so that logs have columns"
    assert metrics["zero_variance_groups"] == pytest.approx(1 / 3)
    assert metrics["error_trajectories"] == 1
    # Over the steps with tokens of the two trajectories that were redistributed.
    found = [report.credits[0][0].weights[:2], report.credits[0][1].weights]
    weights = np.concatenate(found)
    assert weights[0] == 5
    assert metrics["weight_capped"] == 1 / 4
    assert (metrics["weight_min"], metrics["weight_max"]) == (weights.min(), 5)
    assert metrics["weight_mean"] == pytest.approx(weights.mean())
    assert metrics["weight_std"] == pytest.approx(weights.std())
