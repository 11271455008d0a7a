"""The invariants of the specification (section 9), as properties."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_ttg.credit import (
    GRPO,
    DeltaTTG,
    StepSignal,
    bounded_unit_mean_weights,
    broadcast_to_tokens,
    group_advantages,
    progress_deltas,
    step_shares,
    token_to_go,
)

CLOSE = {"rtol": 1e-9, "atol": 1e-12}

rhos = st.floats(0, 1)
caps = st.one_of(st.just(1.0), st.floats(1, 20))
deltas = st.floats(-1e6, 1e6).map(lambda x: round(x, 3))
amounts = st.one_of(st.just(0.0), st.floats(1e-6, 1e6))
signs = st.sampled_from([1.0, -1.0, 0.37, -2.5])


@st.composite
def steps(draw, minimum=1):
    """Deltas and token counts of one trajectory; some steps have no tokens."""
    size = draw(st.integers(minimum, 12))
    changes = draw(st.lists(deltas, min_size=size, max_size=size))
    tokens = draw(st.lists(st.one_of(st.just(0), st.integers(1, 500)), min_size=size, max_size=size))
    return np.array(changes), np.array(tokens)


@st.composite
def paths(draw):
    """Whole costs of the decision histories of a trajectory, its terminal cost and token counts."""
    size = draw(st.integers(1, 12))
    costs = draw(st.lists(st.integers(0, 30_000), min_size=size, max_size=size))
    tokens = draw(st.lists(st.integers(0, 500), min_size=size, max_size=size))
    return np.array(costs, float), float(draw(st.integers(0, 30_000))), np.array(tokens)


def weigh(changes, tokens, advantage, rho=0.2, cap=5.0, **options):
    return bounded_unit_mean_weights(step_shares(changes, advantage, rho=rho, **options), tokens, cap=cap)


def exact_weights(shares, tokens, cap):
    """B_M in rationals, by its definition: cut off at the cap, give the excess to the room that is left."""
    shares, tokens, cap = [Fraction(float(q)) for q in shares], [int(n) for n in tokens], Fraction(float(cap))
    total, mass = sum(tokens), sum(n * q for n, q in zip(tokens, shares, strict=True))
    if mass == 0:
        return [1.0] * len(tokens)
    weights = [q * total / mass for q in shares]
    cut = [min(w, cap) for w in weights]
    excess = sum(n * (w - u) for n, w, u in zip(tokens, weights, cut, strict=True))
    room = sum(n * (cap - u) for n, u in zip(tokens, cut, strict=True))
    if excess:
        cut = [u + excess / room * (cap - u) for u in cut]
    return [float(u) if n else 1.0 for u, n in zip(cut, tokens, strict=True)]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(amounts, st.integers(0, 999)), min_size=1, max_size=12), caps)
def test_weights_are_those_of_exact_arithmetic(pairs, cap):
    shares, tokens = np.array(pairs).T
    found = bounded_unit_mean_weights(shares, tokens, cap=cap)
    np.testing.assert_allclose(found, exact_weights(shares, tokens, cap), **CLOSE)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(amounts, st.integers(0, 999)), min_size=1, max_size=12), caps, st.floats(1e-9, 1e9))
def test_weights_keep_order_and_ignore_the_scale_of_shares(pairs, cap, scale):
    shares, tokens = np.array(pairs).T
    weights = bounded_unit_mean_weights(shares, tokens, cap=cap)
    np.testing.assert_allclose(bounded_unit_mean_weights(scale * shares, tokens, cap=cap), weights, **CLOSE)
    spoken = np.flatnonzero(tokens > 0)
    ordered = weights[spoken[np.argsort(shares[spoken], kind="stable")]]
    assert (np.diff(ordered) >= -1e-12 * cap).all()


@settings(max_examples=50, deadline=None)
@given(steps(), st.floats(-10, 10), rhos, st.booleans())
def test_shares_are_a_distribution(step, advantage, rho, sign_aware):
    changes, _ = step
    shares = step_shares(changes, advantage, rho=rho, sign_aware=sign_aware)
    assert shares.sum() == pytest.approx(1)
    assert (shares >= rho / len(shares) * (1 - 1e-12)).all()


@settings(max_examples=50, deadline=None)
@given(steps(), signs, rhos, caps)
def test_1_the_sum_over_tokens_and_the_sign_are_kept(step, advantage, rho, cap):
    changes, tokens = step
    weights = weigh(changes, tokens, advantage, rho, cap)
    per_token = broadcast_to_tokens(advantage * weights, np.repeat(np.arange(len(tokens)), tokens))
    assert per_token.sum() == pytest.approx(advantage * tokens.sum(), rel=1e-9, abs=1e-9)
    assert (per_token * np.sign(advantage) >= 0).all()


@settings(max_examples=50, deadline=None)
@given(steps(), signs, rhos, caps)
def test_2_what_is_grpo_is_exactly_grpo(step, advantage, rho, cap):
    changes, tokens = step
    ones = np.ones(len(tokens))
    np.testing.assert_array_equal(weigh(changes, tokens, advantage, 1.0, cap), ones)
    np.testing.assert_array_equal(weigh(changes, tokens, advantage, rho, 1.0), ones)
    np.testing.assert_array_equal(weigh(changes[:1], tokens[:1], advantage, rho, cap), ones[:1])
    equal = np.full(len(tokens), abs(changes[0]) * np.sign(advantage))
    np.testing.assert_array_equal(weigh(equal, tokens, advantage, rho, cap), ones)


@settings(max_examples=50, deadline=None)
@given(steps(), signs, rhos, caps, st.randoms(use_true_random=False))
def test_3_permuting_steps_permutes_the_weights(step, advantage, rho, cap, random):
    changes, tokens = step
    order = list(range(len(tokens)))
    random.shuffle(order)
    expected = weigh(changes, tokens, advantage, rho, cap)[order]
    np.testing.assert_allclose(weigh(changes[order], tokens[order], advantage, rho, cap), expected, **CLOSE)


@settings(max_examples=50, deadline=None)
@given(paths(), st.integers(0, 10**6), signs)
def test_4_a_constant_on_all_costs_changes_nothing(path, constant, advantage):
    costs, last, tokens = path
    expected = weigh(progress_deltas(costs, last), tokens, advantage)
    shifted = progress_deltas(costs + constant, last + constant)
    np.testing.assert_array_equal(weigh(shifted, tokens, advantage), expected)


@settings(max_examples=50, deadline=None)
@given(paths(), st.floats(1e-6, 1e6), signs)
def test_5_the_scale_of_costs_changes_nothing(path, scale, advantage):
    costs, last, tokens = path
    expected = weigh(progress_deltas(costs, last), tokens, advantage)
    np.testing.assert_allclose(
        weigh(progress_deltas(costs * scale, last * scale), tokens, advantage), expected, **CLOSE
    )


@settings(max_examples=50, deadline=None)
@given(paths(), st.integers(1, 30_000))
def test_6_the_outcome_changes_the_last_delta_only(path, failure_cost):
    costs, _, _ = path
    ends = [
        StepSignal.from_estimates(np.full(len(costs), True), costs, success=success, failure_cost=failure_cost).deltas
        for success in (True, False)
    ]
    np.testing.assert_array_equal(ends[0][:-1], ends[1][:-1])
    assert ends[0][-1] - ends[1][-1] == failure_cost
    assert ends[0].sum() == min(costs[0], failure_cost), "the sum telescopes"


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.floats(-100, 100), st.integers(1, 50)), min_size=1, max_size=16))
def test_7_advantages_of_all_actions_sum_to_zero(pairs):
    rewards, counts = np.array(pairs).T
    advantages = group_advantages(rewards, counts)
    scale = np.abs(counts * advantages).sum()
    # Rewards that differ by less than their rounding are not centred better than that.
    spread = max(rewards.max() - rewards.min(), 1e-6)
    assert abs((counts * advantages).sum()) <= 1e-9 * scale * max(1, np.abs(rewards).max() / spread)
    assert (np.sign(advantages[np.argsort(rewards)]) == np.sort(np.sign(advantages))).all(), "in the rewards' order"


@settings(max_examples=50, deadline=None)
@given(steps(), signs, rhos, caps)
def test_8_weights_are_bounded(step, advantage, rho, cap):
    changes, tokens = step
    weights = weigh(changes, tokens, advantage, rho, cap)
    spoken = tokens > 0
    if not spoken.any():
        return
    assert weights[spoken].min() >= 0
    assert weights[spoken].max() <= cap
    floor = rho * (tokens.sum() / len(tokens)) / tokens.max()
    assert weights[spoken].min() >= floor * (1 - 1e-9)


@settings(max_examples=50, deadline=None)
@given(steps(), rhos)
def test_9_an_advantage_looks_at_deltas_of_its_own_sign_only(step, rho):
    changes, _ = step
    for sign, relevant in ((1.0, np.maximum(changes, 0)), (-1.0, np.minimum(changes, 0))):
        np.testing.assert_array_equal(step_shares(changes, sign, rho=rho), step_shares(relevant, sign, rho=rho))
    np.testing.assert_array_equal(
        step_shares(changes, -1.0, rho=rho, sign_aware=False), step_shares(changes, 1.0, rho=rho)
    )


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_10_an_invalid_answer_resets_its_own_group_only(data, play, group_of):
    groups, signals = [], []
    for _ in range(data.draw(st.integers(2, 4))):
        size = data.draw(st.integers(2, 4))
        groups.append(group_of(*[play([10, 20, 5], float(i % 2)) for i in range(size)]))
        signals.append([StepSignal(np.array(data.draw(st.permutations([50.0, -20.0, 3.0])))) for _ in range(size)])
    broken = data.draw(st.integers(0, len(groups) - 1))
    where = data.draw(st.integers(0, len(groups[broken]) - 1))

    def flat(_):
        return [signal for group in signals for signal in group]

    before = DeltaTTG(flat).estimate(groups)
    signals[broken][where] = StepSignal(signals[broken][where].deltas, valid=False)
    after = DeltaTTG(flat).estimate(groups)
    for number, group in enumerate(groups):
        plain = GRPO()(group)
        for i in range(len(group)):
            if number == broken:
                np.testing.assert_array_equal(after.credits[number][i].advantages, plain[i])
            else:
                np.testing.assert_array_equal(after.credits[number][i].advantages, before.credits[number][i].advantages)
                assert (after.credits[number][i].advantages != plain[i]).any()
    assert after.kept == {"invalid_group": len(groups[broken])}


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 5000), max_size=30))
def test_tokens_to_go_are_those_from_each_action_on(tokens):
    found = token_to_go(tokens)
    assert found.tolist() == [sum(tokens[t:]) for t in range(len(tokens))]
    assert found.dtype == np.float64


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0, 1e300), min_size=1, max_size=12), st.floats(0, 1e300), signs)
def test_costs_of_any_size_give_finite_weights(costs, last, advantage):
    weights = weigh(progress_deltas(costs, last), np.full(len(costs), 7), advantage)
    assert np.isfinite(weights).all()
    assert weights.mean() == pytest.approx(1)
