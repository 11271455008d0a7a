import numpy as np
import pytest

from agentgym_ttg.core import Completion, ConfigError, Message, Trajectory, TrajectoryGroup, Turn
from agentgym_ttg.credit import DeltaTTG
from agentgym_ttg.meter import Estimate
from agentgym_ttg.meter.signals import MeterSignal


class Scripted:
    name = "scripted"
    tokens_scored = 0

    def __init__(self, *rows, target=None):
        self.rows = list(rows)
        if target:
            self.target = target

    def score(self, trajectories):
        return self.rows[: len(trajectories)]


def trajectory(steps, outcome="success", reward=None):
    turns = [Turn((Message("user", "?"),), Completion("x"), tokens=2) for _ in range(steps)]
    total = float(outcome == "success") if reward is None else reward
    return Trajectory("toy", "t", "p", turns, outcome, total)


def yes(value, logit=None):
    return Estimate(True, value, completion_logit=logit)


def no(logit=None):
    return Estimate(False, None, completion_logit=logit)


def test_ttg_costs_follow_the_specification():
    rows = ([yes(900), yes(600), yes(650), yes(200)], [yes(50), no(), yes(1e6)], [no(), no()])
    signal = MeterSignal(Scripted(*rows), failure_cost=1000)
    success, failure, never = signal([trajectory(4), trajectory(3, "truncated"), trajectory(2)])
    assert success.costs.tolist() == [900, 600, 650, 200, 0]
    assert success.deltas.tolist() == [300, -50, 450, 200]
    assert failure.costs.tolist() == [50, 1000, 1000, 1000]  # cut to C; C at the end
    assert failure.usable
    assert not never.usable
    assert signal.estimates == list(rows)
    kept = MeterSignal(Scripted(*rows), failure_cost=1000, clip=False)([trajectory(4), trajectory(3, "truncated")])[1]
    assert kept.costs[2] == 1e6


def test_an_invalid_answer_makes_the_signal_invalid():
    signal = MeterSignal(Scripted([yes(5), Estimate.invalid()]), failure_cost=10)
    assert not signal([trajectory(2)])[0].valid


@pytest.mark.parametrize(
    ("kind", "rows", "success", "failure"),
    [
        ("logit", [yes(1, 2.0), yes(1, 50.0), no(-3.0)], [8, -13, 13], [8, -13, -7]),
        ("feasibility", [no(), yes(1), yes(2)], [1, 0, 0], [1, 0, -1]),
        ("outcome", [Estimate(False, None, score=s) for s in (0.2, 0.5, 0.4)], [0.3, -0.1, 0.6], [0.3, -0.1, -0.4]),
    ],
)
def test_the_ablations_differ_in_the_potential_only(kind, rows, success, failure):
    a, b = MeterSignal(Scripted(rows, rows), kind=kind)([trajectory(3), trajectory(3, "failure")])
    np.testing.assert_allclose(a.deltas, success)
    np.testing.assert_allclose(b.deltas, failure)
    assert a.usable
    assert a.costs is None


def test_the_outcome_signal_ends_at_the_observed_score():
    rows = [Estimate(True, None, score=4.0)]
    assert MeterSignal(Scripted(rows), kind="outcome")([trajectory(1, reward=10.0)])[0].deltas.tolist() == [6.0]


def test_kinds_must_fit_their_meter():
    for kind, target in (("ttg", "steps"), ("ttg", "outcome"), ("steps", "tokens"), ("outcome", "tokens")):
        with pytest.raises(ConfigError, match="needs a meter trained on"):
            MeterSignal(Scripted(target=target), kind=kind, failure_cost=10)
    with pytest.raises(ConfigError, match="failure_cost"):
        MeterSignal(Scripted())
    with pytest.raises(ConfigError, match="unknown signal"):
        MeterSignal(Scripted(), kind="mood", failure_cost=1)
    with pytest.raises(ConfigError, match="log-odds"):
        MeterSignal(Scripted([yes(1)]), kind="logit")([trajectory(1)])
    with pytest.raises(ConfigError, match="final score"):
        MeterSignal(Scripted([yes(1)]), kind="outcome")([trajectory(1)])
    with pytest.raises(ConfigError, match="each of the 2 decisions"):
        MeterSignal(Scripted([yes(1)]), failure_cost=5)([trajectory(2)])


def test_the_signal_drives_the_estimator():
    meter = Scripted([yes(30), yes(10), yes(20)], [yes(30), no(), no()])
    group = TrajectoryGroup("t", [trajectory(3), trajectory(3, "failure")])
    good, bad = DeltaTTG(MeterSignal(meter, failure_cost=100), cap=3)(group)
    assert good.argmax() in (0, 2)
    assert good.argmin() == 1
    assert bad.argmin() == 0  # the blame is on the action after which nothing could be completed
