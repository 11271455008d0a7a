"""Every method that trains, as ``--method`` finds it: its credit, not that of the class behind it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_ttg.agents.config import TrainConfig
from agentgym_ttg.agents.methods import METHODS, deltattg_variant, get_method
from agentgym_ttg.core import Completion, ConfigError, Message, Trajectory, TrajectoryGroup, Turn
from agentgym_ttg.meter import Estimate

GOLDEN = json.loads((Path(__file__).parents[2] / "data" / "golden.json").read_text(encoding="utf-8"))
TRAINING = [name for name, method in METHODS.items() if method.kind == "train"]
DELTATTG = [name for name in TRAINING if name.startswith("deltattg")]
C = 100.0


class Meter:
    """Says what the anchors of a trajectory spell: ``50`` tokens to go, ``x`` for lost."""

    name, tokens_scored = "spelled", 0

    def __init__(self, target=None):
        if target is not None:
            self.target = target

    def score(self, trajectories):
        return [[self._estimate(turn.anchor) for turn in trajectory.turns] for trajectory in trajectories]

    def _estimate(self, said):
        if said == "x":
            return Estimate(False, None, completion_logit=-3.0, score=0.1)
        left = float(said)
        return Estimate(True, left, completion_logit=20.0 - left, score=1.0 - left / C)


def played(anchors, reward, *, tokens=3, outcome=None):
    rewards = [0.0] * (len(anchors) - 1) + [reward]
    turns = [
        Turn((Message("user", "?"),), Completion("x"), tokens=tokens, anchor=a, reward=r)
        for a, r in zip(anchors, rewards, strict=True)
    ]
    outcome = outcome or ("success" if reward else "failure")
    return Trajectory("e", "t", turns=turns, outcome=outcome, total_reward=float(reward))


def estimator(name, **values):
    method = get_method(name)
    meter = Meter(method.meter_target) if method.needs_meter else None
    config = TrainConfig.model_validate({"overlong_tokens": 1000.0} | values)
    return method.make_estimator(config, meter, C)


@pytest.mark.parametrize("name", ["gigpo", "hgpo"])
def test_the_toy_group_gets_the_golden_numbers(name):
    section = GOLDEN["gigpo_hgpo_toy"]
    group = TrajectoryGroup("t", [played(case["states"], case["R"]) for case in section["trajectories"].values()])
    found = np.concatenate(estimator(name)(group))
    column = {"gigpo": "A_gigpo_mean_std", "hgpo": "A_hgpo"}[name]
    np.testing.assert_allclose(found, [row[column] for row in section["rows"]], rtol=0, atol=6e-10)


@pytest.mark.parametrize("name", TRAINING)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_the_order_of_trajectories_changes_nothing(name, data):
    anchor = st.sampled_from(["90", "60", "30", "10", "x"])
    steps = st.lists(anchor, min_size=1, max_size=5)
    outcomes = st.sampled_from([("success", 1.0), ("failure", 0.0), ("truncated", 0.0), ("error", 0.0)])
    drawn = data.draw(st.lists(st.tuples(steps, outcomes), min_size=1, max_size=5))
    found = [played(anchors, reward, outcome=outcome) for anchors, (outcome, reward) in drawn]
    order = data.draw(st.permutations(range(len(found))))
    credit = estimator(name)
    expected = credit(TrajectoryGroup("t", found))
    shuffled = credit(TrajectoryGroup("t", [found[i] for i in order]))
    for place, i in enumerate(order):
        np.testing.assert_allclose(shuffled[place], expected[i], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", DELTATTG)
def test_redistribution_keeps_the_sum_and_the_sign(name):
    group = TrajectoryGroup("t", [played(["90", "30", "x", "20"], 1.0), played(["90", "x", "80"], 0.0)])
    plain, moved = estimator("grpo")(group), estimator(name)(group)
    for a, b in zip(plain, moved, strict=True):
        assert b.sum() == pytest.approx(a.sum())
        assert (np.sign(b) * np.sign(a) >= 0).all()
    assert not np.allclose(plain[0], moved[0])


def test_each_variant_reads_what_its_name_says():
    # Progress in tokens: 60, -30, 40, 20; lost in the last state of the failure.
    success, failure = played(["90", "30", "60", "20"], 1.0), played(["90", "95", "x"], 0.0)
    group = TrajectoryGroup("t", [success, failure])
    plain = estimator("grpo")(group)

    def weights(name, **values):
        return [m / p for m, p in zip(estimator(name, **values)(group), plain, strict=True)]

    def shares(masses, rho=0.2):
        masses = np.array(masses, dtype=float)
        q = rho / len(masses) + (1 - rho) * masses / masses.sum()
        return q / q.mean()

    expected = {
        "deltattg": ([60, 0, 40, 20], [5, 5, 0]),
        "deltattg-stepstogo": ([60, 0, 40, 20], [5, 5, 0]),
        "deltattg-normtok": ([60, 0, 40, 20], [5, 5, 0]),
        # Future Score: 0.1, 0.7, 0.4, 0.8, then 1; and 0.1, 0.05, 0.1, then 0.
        "deltattg-outcome": ([0.6, 0, 0.4, 0.2], [0.05, 0, 0.1]),
        # Log-odds, clipped to +-10: -10, -10, -10, 0, then 10; and -10, -10, -3, then -10.
        "deltattg-logit": ([0, 0, 10, 10], [0, 0, 7]),
        # Whether it can be completed: never a change in the success; lost at the second step of the failure.
        "deltattg-feasibility": ([1, 1, 1, 1], [0, 1, 0]),
    }
    for name, masses in expected.items():
        for found, mass in zip(weights(name), masses, strict=True):
            np.testing.assert_allclose(found, shares(mass), rtol=1e-9, err_msg=name)
    np.testing.assert_allclose(weights("deltattg-rho0")[0], shares([60, 0, 40, 20], rho=0.0), rtol=1e-9)
    # Without the sign reversal the failure is told by its progress; it has none, so it keeps its advantage.
    np.testing.assert_allclose(weights("deltattg-positive")[1], 1.0)
    np.testing.assert_allclose(weights("deltattg-positive")[0], weights("deltattg")[0])


def test_a_meter_of_another_unit_is_refused():
    for name, target in (("deltattg", "steps"), ("deltattg-stepstogo", "tokens"), ("deltattg-outcome", "tokens")):
        with pytest.raises(ConfigError, match=f"trained on {target}"):
            get_method(name).make_estimator(TrainConfig.model_validate({}), Meter(target), C)


def test_another_variant_is_one_call():
    mine = deltattg_variant("mine", "half of it", source="me", rho=0.5)
    found = mine.make_estimator(TrainConfig.model_validate({}), Meter(), C)
    same = get_method("deltattg").make_estimator(TrainConfig.model_validate({"rho": 0.5}), Meter(), C)
    group = TrajectoryGroup("t", [played(["90", "30", "60"], 1.0), played(["90", "80"], 0.0)])
    for a, b in zip(found(group), same(group), strict=True):
        np.testing.assert_array_equal(a, b)


def test_dapo_fines_what_is_too_long_and_keeps_groups_that_differ():
    long, short = played(["90"] * 9, 1.0, tokens=10), played(["90"] * 2, 1.0, tokens=10)
    group = TrajectoryGroup("t", [long, short])
    fined = estimator("dapo", overlong_tokens=100.0)(group)
    assert fined[0][0] < 0 < fined[1][0]
    assert all((values == 0).all() for values in estimator("dapo", overlong_factor=0.0)(group))
    keep = get_method("dapo").keep
    assert keep is not None
    assert not keep(group)
    assert keep(TrajectoryGroup("t", [long, played(["90"], 0.0)]))
