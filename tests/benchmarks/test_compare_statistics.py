"""The statistics of comparisons against published tables, enumerations and what must hold of them."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_ttg.benchmarks.compare.statistics import (
    Curve,
    band,
    first_reaching,
    holm,
    mean_interval,
    paired_difference,
    reach,
    student_quantile,
)

rates = st.floats(0, 1).map(lambda value: round(value, 4))


def curve(values, *, every=10, tokens=100):
    x = np.arange(len(values), dtype=np.float64) * every
    return Curve(x, tokens * x, 0.9 * tokens * x, np.array(values, dtype=np.float64))


# Student's t -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("probability", "freedom", "quantile"),
    [  # any printed table of the t distribution
        (0.975, 1, 12.7062),
        (0.975, 2, 4.3027),
        (0.975, 3, 3.1824),
        (0.975, 4, 2.7764),
        (0.975, 9, 2.2622),
        (0.975, 30, 2.0423),
        (0.975, 120, 1.9799),
        (0.995, 5, 4.0321),
        (0.95, 7, 1.8946),
        (0.9, 2, 1.8856),
    ],
)
def test_quantiles_are_those_of_the_tables(probability, freedom, quantile):
    assert student_quantile(probability, freedom) == pytest.approx(quantile, abs=6e-5)
    assert student_quantile(1 - probability, freedom) == pytest.approx(-quantile, abs=6e-5)


@pytest.mark.parametrize("probability", [0.6, 0.75, 0.9, 0.99])
def test_one_and_two_degrees_of_freedom_have_a_formula(probability):
    assert student_quantile(probability, 1) == pytest.approx(math.tan(math.pi * (probability - 0.5)))
    centred = 2 * probability - 1
    assert student_quantile(probability, 2) == pytest.approx(centred * math.sqrt(2 / (1 - centred**2)))


@pytest.mark.parametrize(("probability", "freedom"), [(0.0, 3), (1.0, 3), (-1, 3), (0.5, 0)])
def test_what_is_no_quantile_is_refused(probability, freedom):
    with pytest.raises(ValueError, match="probability"):
        student_quantile(probability, freedom)


def test_an_interval_worked_by_hand():
    found = mean_interval([0.52, 0.48, 0.61, 0.55, 0.49])
    # mean 0.53, sample deviation sqrt(0.0110 / 4), times 2.7764 / sqrt(5)
    assert found.mean == pytest.approx(0.53)
    assert found.std == pytest.approx(math.sqrt(0.0110 / 4))
    assert (found.low, found.high) == pytest.approx((0.53 - 0.06511, 0.53 + 0.06511), abs=1e-4)


def test_one_number_has_no_interval_and_none_no_mean():
    one = mean_interval([0.5])
    assert one.mean == 0.5
    assert math.isnan(one.low)
    assert math.isnan(one.high)
    assert math.isnan(mean_interval([]).mean)
    assert mean_interval([0.5, math.nan, 0.7]).n == 2


def test_intervals_hold_the_true_mean_as_often_as_they_say():
    rng = np.random.default_rng(0)
    found = [mean_interval(rng.normal(3.0, 2.0, size=5)) for _ in range(2000)]
    held = sum(one.low <= 3.0 <= one.high for one in found) / len(found)
    assert held == pytest.approx(0.95, abs=0.02)


# Paired differences ------------------------------------------------------------------------------------------------


def test_a_paired_difference_worked_by_hand():
    mine, theirs = {0: 0.60, 1: 0.70, 2: 0.50}, {0: 0.50, 1: 0.55, 2: 0.45}
    found = paired_difference(mine, theirs, rng=np.random.default_rng(0))
    assert found.mean == pytest.approx(0.1)
    # t = 0.1 / (0.05 / sqrt 3) = 3.4641 with two degrees of freedom: p = 1 - t / sqrt(2 + t^2)
    t = 0.1 / (0.05 / math.sqrt(3))
    assert found.student_p == pytest.approx(1 - t / math.sqrt(2 + t * t))
    assert (found.student.low, found.student.high) == pytest.approx(
        (0.1 - 4.3027 * 0.05 / 3**0.5, 0.1 + 4.3027 * 0.05 / 3**0.5), abs=1e-5
    )
    assert found.p_value == pytest.approx(0.25)  # all three of one sign: 2 of 8 assignments


def test_the_bootstrap_agrees_with_all_resamples():
    differences = [0.10, 0.15, 0.05, -0.02]
    every = [np.mean(chosen) for chosen in product(differences, repeat=4)]
    low, high = np.percentile(every, [2.5, 97.5])
    found = paired_difference(
        dict(enumerate(differences)), dict.fromkeys(range(4), 0.0), rng=np.random.default_rng(1), resamples=200_000
    )
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.004)


def test_five_seeds_of_one_sign_give_the_least_sign_flip_p():
    found = paired_difference(
        {s: 0.5 + s / 100 for s in range(5)}, dict.fromkeys(range(5), 0.1), rng=np.random.default_rng(0)
    )
    assert found.p_value == pytest.approx(2 / 32)


def test_equal_differences_prove_nothing_by_their_lack_of_spread():
    found = paired_difference({0: 0.6, 1: 0.7}, {0: 0.5, 1: 0.6}, rng=np.random.default_rng(0))
    assert found.student_p == found.p_value == 0.5


def test_only_common_seeds_are_paired():
    found = paired_difference({0: 0.5, 1: math.nan, 2: 0.7}, {0: 0.4, 1: 0.4, 3: 0.1}, rng=np.random.default_rng(0))
    assert found.seeds == (0,)
    assert found.unpaired == (1, 2, 3)
    assert found.mean == pytest.approx(0.1)
    assert math.isnan(found.low)
    assert math.isnan(found.student_p)
    assert paired_difference({0: 0.5}, {1: 0.5}, rng=np.random.default_rng(0)).n == 0


@given(st.dictionaries(st.integers(0, 9), st.tuples(rates, rates), min_size=2))
def test_turning_a_difference_round_changes_its_sign_only(pairs):
    mine, theirs = ({seed: pair[i] for seed, pair in pairs.items()} for i in (0, 1))
    there = paired_difference(mine, theirs, rng=np.random.default_rng(0), resamples=200)
    back = paired_difference(theirs, mine, rng=np.random.default_rng(0), resamples=200)
    assert there.mean == pytest.approx(-back.mean)
    assert (there.student.low, there.student.high) == pytest.approx((-back.student.high, -back.student.low))
    assert (there.p_value, there.student_p) == pytest.approx((back.p_value, back.student_p))
    assert there.low - 1e-12 <= there.mean <= there.high + 1e-12 or there.n < 2
    assert 0 <= there.student_p <= 1


def test_more_than_enumerable_pairs_are_sampled():
    rng = np.random.default_rng(3)
    mine = dict(enumerate(rng.normal(0.02, 0.1, size=20)))
    found = paired_difference(mine, dict.fromkeys(mine, 0.0), rng=np.random.default_rng(0), resamples=20_000)
    assert found.p_value == pytest.approx(found.student_p, abs=0.05)


# Holm --------------------------------------------------------------------------------------------------------------


def test_holm_on_the_textbook_example():
    found = holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005})
    assert found == pytest.approx({"d": 0.02, "a": 0.03, "c": 0.06, "b": 0.06})
    assert holm({"a": math.nan, "b": 0.5}) == {"b": 0.5}
    assert holm({}) == {}


@given(st.dictionaries(st.integers(), st.floats(0, 1), min_size=1))
def test_a_correction_only_raises_and_keeps_the_order(values):
    found = holm(values)
    assert set(found) == set(values)
    assert all(values[key] <= found[key] <= 1 for key in values)
    ordered = sorted(values, key=lambda key: values[key])
    assert [found[key] for key in ordered] == sorted(found.values())
    assert min(found.values()) <= min(1.0, len(values) * min(values.values())) + 1e-12


# Curves ------------------------------------------------------------------------------------------------------------


def test_a_level_is_reached_between_two_points():
    one = curve([0.2, 0.4, 0.3, 0.6])
    assert first_reaching(one, 0.3) == pytest.approx(5.0)
    assert first_reaching(one, 0.3, axis="generated") == pytest.approx(500.0)
    assert first_reaching(one, 0.3, axis="trained") == pytest.approx(450.0)
    assert first_reaching(one, 0.45) == pytest.approx(25.0)
    assert first_reaching(one, 0.1) == 0.0
    assert first_reaching(one, 0.7) is None
    with pytest.raises(ValueError, match="unknown axis"):
        first_reaching(one, 0.3, axis="seconds")


def test_points_that_are_no_numbers_are_passed_over():
    assert first_reaching(curve([0.2, math.nan, 0.4]), 0.3) == pytest.approx(10.0)
    assert first_reaching(curve([]), 0.3) is None


@given(st.lists(rates, min_size=2, max_size=8), rates)
def test_a_higher_level_is_never_reached_earlier(values, level):
    one = curve(values)
    found, higher = first_reaching(one, level), first_reaching(one, min(1.0, level + 0.1))
    assert (found is None) == (max(values) < level - 1e-12)
    if higher is not None and found is not None:
        assert found <= higher + 1e-9


def test_runs_that_never_get_there_are_a_lower_bound_not_left_out():
    curves = {0: curve([0.0, 0.5]), 1: curve([0.0, 0.2]), 2: curve([0.0, 1.0])}
    found = reach(curves, 0.5)
    assert found.needed == {0: 10.0, 1: None, 2: 5.0}
    assert (found.reached, found.n) == (2, 3)
    assert found.mean.mean == pytest.approx(7.5)
    assert found.at_least.mean == pytest.approx(25 / 3)
    share = reach(curves, 0.5, relative_to={0: 10.0, 1: 20.0})
    assert share.needed == {0: 1.0, 1: None}  # seed 2 has nothing to be measured by
    assert share.at_least.mean == pytest.approx((1 + 0.5) / 2)
    own = reach(curves, {0: 0.25, 2: 0.5})
    assert own.needed == {0: 5.0, 2: 5.0}
    assert math.isnan(own.level)


def test_a_band_is_the_mean_of_the_runs_at_each_point():
    found = band([curve([0.2, 0.4]), curve([0.4, 0.8])])
    assert found.x.tolist() == [0, 10]
    assert found.mean.tolist() == pytest.approx([0.3, 0.6])
    assert found.low[1] < 0.4 < 0.8 < found.high[1]
    assert np.isnan(band([curve([0.2, 0.4])]).low).all()  # one run has no spread


def test_runs_of_other_lengths_share_a_grid_up_to_the_shortest():
    found = band([curve([0.0, 1.0]), curve([0.0, 0.5, 1.0])], points=11)
    assert found.x[-1] == 10
    assert found.mean[-1] == pytest.approx(0.75)
    assert found.mean[5] == pytest.approx((0.5 + 0.25) / 2)
    with pytest.raises(ValueError, match="at least one curve"):
        band([])
    with pytest.raises(ValueError, match="at least one curve"):
        band([curve([])])


def test_smoothing_takes_the_mean_of_the_points_before():
    assert curve([0.0, 1.0, 0.5, 0.5]).smoothed(2).values.tolist() == [0.0, 0.5, 0.75, 0.5]
    with pytest.raises(ValueError, match="window"):
        curve([0.0]).smoothed(0)
