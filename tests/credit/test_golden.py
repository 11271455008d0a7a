"""The golden numbers of the specification, exact."""

from fractions import Fraction

import numpy as np
import pytest

from agentgym_ttg.credit import (
    GRPO,
    HGPO,
    DeltaTTG,
    GiGPO,
    StepSignal,
    bounded_unit_mean_weights,
    clip_loss,
    costs_from_estimates,
    group_advantages,
    prediction_advantages,
    prediction_reward,
    progress_deltas,
    step_shares,
    token_accuracy,
)

EXACT = {"rtol": 1e-14, "atol": 1e-14}
#: Golden values that are given as decimals are rounded to 9 or 12 digits.
ROUNDED = {"rtol": 0, "atol": 6e-10}


@pytest.mark.parametrize("reading", ["broadcast", "split"])
def test_bounded_weights(case_bm, reading, rational):
    case = case_bm
    weights = bounded_unit_mean_weights(rational(case["q"]), case["n"], cap=float(case["M"]), reading=reading)
    np.testing.assert_allclose(weights, rational(case[reading]), **EXACT)


@pytest.mark.parametrize("reading", ["broadcast", "split"])
def test_pipeline_function_by_function(case_pipeline, reading, rational):
    case = case_pipeline
    remaining = [np.nan if v is None else v for v in case["v_hat"]]
    costs = costs_from_estimates(case["can_complete"], remaining, failure_cost=case["C"])
    last = 0.0 if case["success"] else case["C"]
    np.testing.assert_array_equal([*costs, last], rational(case["cost"]))
    deltas = progress_deltas(costs, last)
    np.testing.assert_array_equal(deltas, rational(case["delta"]))
    advantage = float(case["A"])
    shares = step_shares(deltas, advantage, rho=float(Fraction(case["rho"])))
    np.testing.assert_allclose(shares, rational(case["share"]), **EXACT)
    if case["group_valid"] and any(case["can_complete"]):
        weights = bounded_unit_mean_weights(shares, case["n"], cap=float(case["M"]), reading=reading)
        np.testing.assert_allclose(weights, rational(case[reading]), **EXACT)


@pytest.mark.parametrize("reading", ["broadcast", "split"])
def test_pipeline_through_the_estimator(case_pipeline, reading, rational, play, group_of):
    """The trajectory of the case beside one of the opposite outcome, as it is credited in training."""
    case = case_pipeline
    case_trajectory = play(case["n"], float(case["success"]))
    other = play([10], float(not case["success"]))

    def signal(trajectories):
        assert trajectories == [case_trajectory, other]
        remaining = [np.nan if v is None else v for v in case["v_hat"]]
        ours = StepSignal.from_estimates(
            case["can_complete"], remaining, success=case["success"], failure_cost=case["C"]
        )
        return [ours, StepSignal(np.zeros(1), valid=case["group_valid"])]

    estimator = DeltaTTG(signal, rho=float(Fraction(case["rho"])), cap=float(case["M"]), reading=reading)
    credit = estimator.estimate([group_of(case_trajectory, other)]).credits[0][0]
    np.testing.assert_allclose(credit.weights, rational(case[reading]), **EXACT)
    plain = GRPO()(group_of(case_trajectory, other))[0]
    assert np.sign(plain[0]) == float(case["A"])
    np.testing.assert_allclose(credit.advantages, plain * credit.weights, **EXACT)
    np.testing.assert_array_equal(credit.costs, rational(case["cost"]))
    np.testing.assert_array_equal(credit.deltas, rational(case["delta"]))


def test_group_advantages(case_group_advantage, rational):
    case = case_group_advantage
    rewards = rational(case["R"])
    np.testing.assert_allclose(group_advantages(rewards, case["T"], eps=case["eps"]), case["A"], **ROUNDED)
    for form, numbers in (("actions", case), ("trajectories", case["once_per_trajectory"])):
        mean, deviation = float(Fraction(numbers["mu"])), float(Fraction(numbers["var_sample"])) ** 0.5
        expected = [(r - mean) / (deviation + case["eps"]) for r in rewards]
        found = group_advantages(rewards, case["T"], eps=case["eps"], normalize_over=form)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
        if deviation == 0:
            assert (found == 0).all(), "exactly, not up to rounding"


def test_meter_reward(golden):
    for row in golden["meter_reward"]["rows"]:
        predicted = None if row["b_hat"] is None else (bool(row["b_hat"]), row["v_hat"])
        for form in ("linear", "ratio"):
            reward = prediction_reward(predicted, (bool(row["b"]), row["v"]), form=form)
            assert reward == pytest.approx(float(Fraction(row[f"r_{form}"])), abs=1e-15)
            if row[f"u_{form}"] is not None:
                accuracy = token_accuracy(row["v_hat"], row["v"], form=form)
                assert accuracy == pytest.approx(float(Fraction(row[f"u_{form}"])), abs=1e-15)


def test_meter_group_norm(golden, rational):
    section = golden["meter_group_norm"]
    np.testing.assert_allclose(prediction_advantages(rational(section["rewards"])), section["A"], **ROUNDED)


def test_clip_loss(golden, rational):
    rows = golden["clip_loss"]
    loss = clip_loss(rational(row["ratio"] for row in rows), rational(row["adv"] for row in rows))
    np.testing.assert_allclose(loss, rational(row["token_loss"] for row in rows), **EXACT)


@pytest.fixture(scope="module")
def toy(golden, play, group_of):
    """The toy group of GiGPO and HGPO, and a column of its table in the order of its rows."""
    section = golden["gigpo_hgpo_toy"]
    trajectories = [
        play([1] * len(case["states"]), case["R"], anchors=case["states"]) for case in section["trajectories"].values()
    ]

    def column(name):
        return [row[name] for row in section["rows"]]

    return group_of(*trajectories), column, section


def test_gigpo(toy):
    group, column, section = toy
    settings = {"gamma": section["gamma"], "eps": section["eps"]}
    for suffix, mode in (("mean_std", "mean_std_norm"), ("mean", "mean_norm")):
        episode = np.concatenate(GiGPO(**settings, mode=mode, omega=0.0)(group))
        np.testing.assert_allclose(episode, column(f"A_E_{suffix}"), **ROUNDED)
        both = np.concatenate(GiGPO(**settings, mode=mode)(group))
        np.testing.assert_allclose(both - episode, column(f"A_S_{suffix}"), **ROUNDED)
    np.testing.assert_allclose(np.concatenate(GiGPO(**settings)(group)), column("A_gigpo_mean_std"), **ROUNDED)
    np.testing.assert_allclose(np.concatenate(GRPO(eps=section["eps"])(group)), column("A_E_mean_std"), **ROUNDED)


def test_hgpo(toy):
    group, column, section = toy
    found = np.concatenate(HGPO(gamma=section["gamma"], eps=section["eps"])(group))
    np.testing.assert_allclose(found, column("A_hgpo"), **ROUNDED)
