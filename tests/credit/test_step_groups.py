"""GiGPO and HGPO against their definitions, written down directly."""

import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_ttg.core import TrajectoryGroup
from agentgym_ttg.credit import GRPO, HGPO, GiGPO
from agentgym_ttg.credit.gigpo import discounted_returns, group_relative, similar_anchors

EPS = 1e-6
CLOSE = {"rtol": 1e-8, "atol": 1e-8}


@st.composite
def groups(draw, play, anchors="abc"):
    found = []
    for _ in range(draw(st.integers(1, 5))):
        size = draw(st.integers(1, 5))
        states = draw(st.lists(st.sampled_from(list(anchors)), min_size=size, max_size=size))
        rewards = draw(st.lists(st.sampled_from([0.0, 0.0, 1.0, 0.25]), min_size=size, max_size=size))
        found.append(play([1] * size, anchors=states, rewards=rewards, outcome="failure"))
    return TrajectoryGroup("task", found)


def normalised(value, others, ddof):
    """(value - mean) / (std + eps) as the textbook says; 0 where nothing differs."""
    if len(others) < 2 or max(others) - min(others) < 1e-12:
        return 0.0
    found = (value - np.mean(others)) / (np.std(others, ddof=ddof) + EPS)
    return 0.0 if abs(found) < 1e-10 else found


def returns_of(group, gamma=0.95):
    return [
        [
            sum(gamma ** (u - t) * trajectory.turns[u].reward for u in range(t, len(trajectory)))
            for t in range(len(trajectory))
        ]
        for trajectory in group
    ]


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_gigpo_is_its_definition(data, play):
    group = data.draw(groups(play))
    returns, omega = returns_of(group), 0.7
    steps = [(i, t) for i, trajectory in enumerate(group) for t in range(len(trajectory))]
    found, episode = GiGPO(omega=omega)(group), GRPO()(group)
    for i, t in steps:
        same = [returns[j][s] for j, s in steps if group.trajectories[j].anchors[s] == group.trajectories[i].anchors[t]]
        expected = episode[i][t] + omega * normalised(returns[i][t], same, ddof=1)
        np.testing.assert_allclose(found[i][t], expected, **CLOSE)


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_hgpo_is_its_definition(data, play):
    group = data.draw(groups(play))
    length = data.draw(st.integers(0, 3))
    drop_zeros, base_group = data.draw(st.booleans()), data.draw(st.booleans())
    weight_base, alpha = data.draw(st.sampled_from(["k+1", "k"])), data.draw(st.sampled_from([0.0, 1.0, 2.0]))
    returns, episode = returns_of(group), GRPO()(group)
    steps = [(i, t) for i, trajectory in enumerate(group) for t in range(len(trajectory))]

    def history(i, t, k):
        return group.trajectories[i].anchors[t + 1 - k : t + 1] if t + 1 >= k else None

    estimator = HGPO(
        history_length=length, drop_zeros=drop_zeros, base_group=base_group, weight_base=weight_base, alpha=alpha
    )
    found = estimator(group)
    for i, t in steps:
        terms = [(0, episode[i][t])] if base_group else []
        for k in range(1, length + 2):
            mine = history(i, t, k)
            same = [returns[j][s] for j, s in steps if mine is not None and history(j, s, k) == mine]
            if len(same) > 1:
                terms.append((k, normalised(returns[i][t], same, ddof=0)))
        terms = [(k, value) for k, value in terms if value != 0 or not drop_zeros]
        weights = [(k + 1 if weight_base == "k+1" else k) ** alpha for k, _ in terms]
        total = sum(weights)
        mean = sum(w * value for w, (_, value) in zip(weights, terms, strict=True)) / (total + EPS) if total else 0.0
        np.testing.assert_allclose(found[i][t], mean, **CLOSE)


@pytest.mark.parametrize("estimator", [GiGPO(), GiGPO(mode="mean_norm"), HGPO(), HGPO(base_group=True)])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_names_of_states_do_not_matter(estimator, data, play):
    group = data.draw(groups(play))
    before = estimator(group)
    for trajectory in group:
        for turn in trajectory.turns:
            turn.anchor = {"a": "zebra", "b": "apple", "c": "m"}[turn.anchor]
    for renamed, original in zip(estimator(group), before, strict=True):
        np.testing.assert_allclose(renamed, original, rtol=1e-12, atol=1e-12)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_the_scale_of_rewards_is_the_scale_of_centred_advantages(data, play):
    group = data.draw(groups(play))
    estimators = [GiGPO(mode="mean_norm"), HGPO(mode="mean_norm")]
    before = [estimator(group) for estimator in estimators]
    for trajectory in group:
        trajectory.total_reward *= 10
        for turn in trajectory.turns:
            turn.reward *= 10
    for estimator, expected in zip(estimators, before, strict=True):
        for found, original in zip(estimator(group), expected, strict=True):
            np.testing.assert_allclose(found, 10 * original, **CLOSE)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([0.1, 0.2, 0.3, 0.7, 1.0]), st.sampled_from(["x", "y", None])), max_size=12),
    st.randoms(use_true_random=False),
    st.sampled_from(["mean_std_norm", "mean_norm"]),
)
def test_the_order_of_steps_does_not_matter(pairs, shuffler, mode):
    order = list(range(len(pairs)))
    shuffler.shuffle(order)
    values, keys = np.array([value for value, _ in pairs]), [key for _, key in pairs]
    expected = group_relative(values, keys, eps=EPS, ddof=1, mode=mode)
    found = group_relative(values[order], [keys[i] for i in order], eps=EPS, ddof=1, mode=mode)
    np.testing.assert_array_equal(found, expected[order], strict=True)
    assert (expected[[key is None for key in keys]] == 0).all()


def test_a_value_on_the_mean_is_exactly_zero_in_any_order():
    """HGPO drops terms that are exactly 0, so rounding must not decide: 0.1 + 0.2 + 0.3 is not always 0.6."""
    for order in itertools.permutations([0.1, 0.2, 0.3]):
        found = group_relative(np.array(order), ["x"] * 3, eps=EPS, ddof=0, mode="mean_std_norm")
        assert found[order.index(0.2)] == 0
        assert abs(found).max() == pytest.approx(1.2247, abs=1e-3)


def test_a_step_whose_state_is_unknown_stands_alone(play, group_of):
    group = group_of(play([1, 1], 1.0, anchors=["", "s"]), play([1, 1, 1], 0.0, anchors=["", "s", ""]))
    episode = GRPO()(group)
    for estimator in (GiGPO(), GiGPO(similarity=0.1)):
        found = estimator(group)
        assert found[0][0] == episode[0][0]
        assert found[1][2] == episode[1][2]
        assert found[0][1] > episode[0][1]
    hierarchical = HGPO()(group)
    assert hierarchical[0][0] == hierarchical[1][0] == hierarchical[1][2] == 0
    assert hierarchical[0][1] > 0


def test_returns_are_discounted(play):
    trajectory = play([1, 1, 1], rewards=[1.0, 0.0, 4.0], outcome="failure")
    assert discounted_returns(trajectory, 0.5).tolist() == [2.0, 2.0, 4.0]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.text("ab ", max_size=8), max_size=8), st.floats(0.3, 1.0), st.randoms(use_true_random=False))
def test_similar_anchors_do_not_depend_on_order(anchors, ratio, shuffler):
    shuffled = list(anchors)
    shuffler.shuffle(shuffled)
    expected = dict(zip(anchors, similar_anchors(anchors, ratio), strict=True))
    assert similar_anchors(shuffled, ratio) == [expected[anchor] for anchor in shuffled]


def test_similar_anchors_join_through_intermediate_ones():
    texts = ["aaaaaaaaaa", "aaaaaaaabb", "aaaaaabbbb", "zzzzzzzzzz"]
    random.Random(0).shuffle(texts)
    found = dict(zip(texts, similar_anchors(texts, 0.8), strict=True))
    assert len({found[text] for text in texts if "z" not in text}) == 1
    assert found["zzzzzzzzzz"] == "zzzzzzzzzz"
    assert len(set(similar_anchors(texts, 0.95))) == 4


def test_similar_states_share_a_group(play, group_of):
    group = group_of(play([1], 1.0, anchors=["You see mug 1."]), play([1], 0.0, anchors=["You see mug 2."]))
    assert GiGPO(similarity=0.9)(group)[0][0] > GiGPO()(group)[0][0] == GRPO()(group)[0][0]


@pytest.mark.parametrize(
    "make",
    [
        lambda: GiGPO(gamma=1.5),
        lambda: GiGPO(mode="median"),
        lambda: GiGPO(similarity=0.0),
        lambda: GiGPO(similarity=1.1),
        lambda: HGPO(gamma=-0.1),
        lambda: HGPO(history_length=-1),
        lambda: HGPO(alpha=-1.0),
        lambda: HGPO(weight_base="k+2"),
    ],
)
def test_settings_that_cannot_work_are_refused(make):
    with pytest.raises(ValueError, match="expected"):
        make()
