"""Scorers that ask a progress meter."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from agentgym_ttg.core import Completion, ConfigError, Message, Trajectory, Turn
from agentgym_ttg.meter import Estimate
from agentgym_ttg.scorers import ScorerSettings, get_scorer


class ScriptedMeter:
    """Says, at the n-th decision, the n-th of its numbers; None is "cannot be completed", "?" an unreadable answer."""

    name = "scripted"

    def __init__(self, values, target="tokens"):
        self.values, self.target, self.tokens_scored = values, target, 0

    def score(self, trajectories):
        self.tokens_scored += sum(map(len, trajectories))
        return [[self._estimate(self.values[t]) for t in range(len(trajectory))] for trajectory in trajectories]

    def _estimate(self, value):
        if value == "?":
            return Estimate.invalid()
        if self.target == "outcome":
            return Estimate(True, None, score=value)
        return Estimate(value is not None, value)


def played(steps, *, success):
    turns = [Turn((Message("user", f"seen {t}"),), Completion("go"), f"seen {t + 1}", tokens=3) for t in range(steps)]
    return Trajectory("e", "t", turns=turns, outcome="success" if success else "failure", total_reward=float(success))


def scores(name, meter, trajectory, **settings):
    return get_scorer(name, ScorerSettings(**settings), meter=meter).step_scores([trajectory])[0].tolist()


def test_a_step_is_worth_the_tokens_it_takes_off_what_is_to_go():
    meter = ScriptedMeter([500, 450, None])
    assert scores("ttg", meter, played(3, success=False), failure_cost=2000) == [50, -1550, 0]
    assert scores("ttg", ScriptedMeter([500, 450, 100]), played(3, success=True), failure_cost=2000) == [50, 350, 100]


def test_without_the_outcome_the_meter_is_asked_about_the_end():
    meter = ScriptedMeter([500, 450, 100, 60])
    for success in (True, False):
        found = scores("ttg", meter, played(3, success=success), failure_cost=2000, use_outcome=False)
        assert found == [50, 350, 40]


def test_steps_to_go_and_future_score_read_meters_of_their_own_kind():
    assert scores("steps-to-go", ScriptedMeter([5, 3, 4], "steps"), played(3, success=True), failure_cost=9) == [
        2,
        -1,
        4,
    ]
    found = scores("future-score", ScriptedMeter([0.25, 0.5, 0.25], "outcome"), played(3, success=True))
    assert found == [0.25, -0.25, 0.75]
    with pytest.raises(ConfigError, match="trained on tokens"):
        scores("steps-to-go", ScriptedMeter([5]), played(1, success=True), failure_cost=9)


def test_an_unreadable_answer_is_no_number_or_a_failure_as_the_settings_say():
    meter = ScriptedMeter([500, "?", 100])
    trajectory = played(3, success=True)
    assert np.isnan(scores("ttg", meter, trajectory, failure_cost=2000)).all()
    assert scores("ttg", meter, trajectory, failure_cost=2000, guiding=True) == [-1500, 1900, 100]


def test_a_meter_without_training_lengths_needs_a_failure_cost():
    with pytest.raises(ConfigError, match="give failure_cost"):
        scores("ttg", ScriptedMeter([5]), played(1, success=True))


def test_the_failure_cost_defaults_to_the_longest_recording_of_the_meters_training():
    from agentgym_ttg.meter.references import ConstantReference, References, StepReference

    meter = ScriptedMeter([10, None])
    steps = StepReference(probability=[0.5] * 8, remaining_steps=[4.0] * 8, per_step=3.0)
    constant = ConstantReference(probability=0.5, value=9.0, accurate_value=9.0)
    meter.settings = type("Settings", (), {"references": References(constant=constant, steps=steps)})
    assert scores("ttg", meter, played(2, success=False)) == [10 - 24, 0]


def test_what_follows_does_not_change_the_earlier_steps():
    meter = ScriptedMeter([500, 450, 100, 60, 20])
    whole = played(5, success=False)
    part = replace(whole, turns=whole.turns[:3])
    assert scores("ttg", meter, part, failure_cost=999)[:2] == scores("ttg", meter, whole, failure_cost=999)[:2]
