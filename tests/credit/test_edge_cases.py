"""The edge cases of the specification (section 4), row by row.

Two rows are not a matter of credit: which answers of a meter can be read (its parser), and copies of rows for padding
(advantages are made from trajectories, before there are rows).
"""

import numpy as np
import pytest

from agentgym_ttg.credit import GRPO, DeltaTTG, GiGPO, StepSignal, broadcast_to_tokens, group_advantages

C = 25600.0


def fixed(*signals):
    """A signal that says the same whatever it is asked."""
    return lambda trajectories: list(signals)


@pytest.fixture
def pair(play, group_of):
    """A trajectory that succeeds, and one that fails, of three steps each."""
    return group_of(play([10, 20, 30], 1.0), play([10, 20, 30], 0.0))


@pytest.fixture
def credit_of(pair, metered):
    """What a meter's answers for the two trajectories of ``pair`` give."""

    def credit(success, failure, **settings):
        return DeltaTTG(metered(success, failure, **settings)).estimate([pair]).credits[0]

    return credit


STEADY = [(True, 300), (True, 200), (True, 100)]
NEVER = [(False, None)] * 3


def test_no_mass_gives_equal_shares(pair):
    against = StepSignal(np.array([-5.0, 0.0, -1.0])), StepSignal(np.array([5.0, 0.0, 1.0]))
    report = DeltaTTG(fixed(*against)).estimate([pair])
    for credit, plain in zip(report.credits[0], GRPO()(pair), strict=True):
        np.testing.assert_array_equal(credit.advantages, plain)
        assert credit.kept == "no_mass"
    split = DeltaTTG(fixed(*against), reading="split").estimate([pair]).credits[0][0]
    np.testing.assert_allclose(split.weights, [2.0, 1.0, 2 / 3])
    assert split.kept == "", "with the split reading equal shares are not equal weights"


def test_single_step(play, group_of, metered):
    group = group_of(play([17], 1.0), play([5], 0.0))
    report = DeltaTTG(metered([(True, 40)], [(True, 90)])).estimate([group])
    assert [credit.weights.tolist() for credit in report.credits[0]] == [[1.0], [1.0]]
    assert report.kept == {"single_step": 2}


def test_a_step_without_tokens_keeps_its_place(play, group_of):
    """It takes its share, but the tokens of the others are normalised among themselves."""
    group = group_of(play([4, 0, 12], 1.0), play([5, 5], 0.0))
    signal = fixed(StepSignal(np.array([10.0, 80.0, 10.0])), StepSignal(np.zeros(2)))
    credit = DeltaTTG(signal, rho=0.0).estimate([group]).credits[0][0]
    np.testing.assert_allclose(credit.weights[[0, 2]], [1.0, 1.0])
    credit = DeltaTTG(fixed(StepSignal(np.array([30.0, 40.0, 10.0])), StepSignal(np.zeros(2))), rho=0.0)
    weights = credit.estimate([group]).credits[0][0].weights
    np.testing.assert_allclose(weights[[0, 2]], [2.0, 2 / 3])  # shares 3 : 1 on 4 and 12 tokens


def test_all_mass_on_steps_without_tokens(play, group_of):
    group = group_of(play([4, 0, 12], 1.0), play([5, 5], 0.0))
    signal = fixed(StepSignal(np.array([0.0, 80.0, 0.0])), StepSignal(np.zeros(2)))
    credit = DeltaTTG(signal, rho=0.0).estimate([group]).credits[0][0]
    np.testing.assert_array_equal(credit.weights, np.ones(3))
    assert credit.kept == "no_mass"


def test_trajectory_without_tokens(play, group_of):
    group = group_of(play([0, 0], 1.0), play([5, 5], 0.0))
    estimator = DeltaTTG(fixed(StepSignal(np.array([3.0, 1.0])), StepSignal(np.array([-3.0, -1.0]))))
    advantages = estimator(group)[0]
    assert np.isfinite(advantages).all()
    assert broadcast_to_tokens(advantages, []).shape == (0,)


@pytest.mark.parametrize("cap", [0.99, 0.0, -1.0, float("nan"), float("inf")])
def test_cap_below_one_is_refused_before_anything_is_rolled_out(cap):
    with pytest.raises(ValueError, match="cap"):
        DeltaTTG(fixed(), cap=cap)


def test_success_whose_meter_doubted_in_between(credit_of):
    doubt, _ = credit_of([(True, 900), (False, None), (True, 300)], STEADY)
    np.testing.assert_array_equal(doubt.deltas, [900 - C, C - 300, 300])
    assert doubt.weights.argmax() == 1
    assert doubt.weights.max() <= 5


def test_failure_that_the_meter_believed_in_to_the_end(credit_of):
    _, hopeful = credit_of(STEADY, STEADY)
    np.testing.assert_array_equal(hopeful.deltas, [100, 100, 100 - C])
    assert hopeful.weights.argmax() == 2


def test_failure_that_the_meter_saw_coming(credit_of):
    _, lost = credit_of(STEADY, [(True, 300), (False, None), (False, None)])
    np.testing.assert_array_equal(lost.deltas, [300 - C, 0, 0])
    assert lost.weights.argmax() == 0
    assert lost.weights[1] == lost.weights[2]


def test_never_completable_keeps_the_original_advantage(credit_of, pair):
    for credit, plain in zip(credit_of(NEVER, NEVER), GRPO()(pair), strict=True):
        np.testing.assert_array_equal(credit.advantages, plain)
        assert credit.kept == "never_completable"
    one_sided = credit_of(NEVER, [(True, 300), (False, None), (False, None)])
    assert [credit.kept for credit in one_sided] == ["never_completable", ""], "only the trajectory, not its group"


def test_estimates_above_the_failure_cost_are_clipped(credit_of):
    high = [(True, 900), (True, 400), (True, 100)]
    clipped, _ = credit_of(high, STEADY, failure_cost=500)
    np.testing.assert_array_equal(clipped.costs, [500, 400, 100, 0])
    plain, _ = credit_of(high, STEADY, failure_cost=500, clip=False)
    np.testing.assert_array_equal(plain.costs, [900, 400, 100, 0])


def test_nothing_to_go_before_the_end_is_legal(credit_of):
    early, _ = credit_of([(True, 50), (True, 0), (True, 0)], STEADY)
    np.testing.assert_array_equal(early.costs, [50, 0, 0, 0])
    assert early.kept == ""


@pytest.mark.parametrize("remaining", [None, -1, float("nan"), float("inf")])
def test_completable_without_a_token_count_is_an_invalid_answer(credit_of, pair, remaining):
    credits = credit_of([(True, 300), (True, remaining), (True, 100)], STEADY)
    for credit, plain in zip(credits, GRPO()(pair), strict=True):
        np.testing.assert_array_equal(credit.advantages, plain)
        assert credit.kept == "invalid_group"


def test_a_number_beside_not_completable_is_ignored(credit_of):
    with_number, _ = credit_of([(True, 300), (False, 7), (True, 100)], STEADY)
    without, _ = credit_of([(True, 300), (False, None), (True, 100)], STEADY)
    np.testing.assert_array_equal(with_number.advantages, without.advantages)


@pytest.mark.parametrize("reward", [0.0, 1.0, 0.1, 1 / 3])
def test_equal_rewards_give_exactly_zero(play, group_of, metered, reward):
    group = group_of(*[play([3] * 7, reward) for _ in range(3)])
    report = DeltaTTG(metered(*[[(True, 10)] * 7] * 3)).estimate([group])
    assert all((credit.advantages == 0).all() for credit in report.credits[0])
    assert report.kept == {"zero_advantage": 3}
    assert report.metrics["zero_variance_groups"] == 1


@pytest.mark.parametrize("steps", [1, 6])
def test_group_of_one(play, group_of, metered, steps):
    group = group_of(play([5] * steps, 1.0))
    for estimator in (GRPO(), GiGPO(omega=0), DeltaTTG(metered([(True, 10)] * steps))):
        assert (estimator(group)[0] == 0).all()
    assert group_advantages([1.0], [steps]).tolist() == [0.0]


def test_partial_reward_is_not_success(play, group_of, metered):
    """Success is the environment's own flag: a failure with a positive reward ends at cost C."""
    group = group_of(play([10, 20, 30], 0.6, outcome="failure"), play([10, 20, 30], 0.0))
    failed = DeltaTTG(metered(STEADY, STEADY)).estimate([group]).credits[0][0]
    assert failed.advantages[0] > 0
    assert failed.costs[-1] == C
    # Its last delta is negative and carries nothing of a positive advantage: only what rho spreads evenly.
    assert failed.weights[2] == failed.weights.min() < 1
    assert failed.weights[0] == failed.weights[1] > 1


def test_invalid_actions_do_not_touch_the_reward(pair):
    before = GRPO()(pair)
    pair.trajectories[0].turns[1].valid = False
    for found, expected in zip(GRPO()(pair), before, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_truncation_is_failure(play, group_of, metered):
    group = group_of(play([10, 20, 30], 1.0), play([10, 20, 30], 0.0, outcome="truncated"))
    assert DeltaTTG(metered(STEADY, STEADY)).estimate([group]).credits[0][1].costs[-1] == C
