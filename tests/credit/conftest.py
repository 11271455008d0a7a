"""Builders for the tests of credit."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from agentgym_ttg.core import Completion, Trajectory, TrajectoryGroup, Turn
from agentgym_ttg.credit import StepSignal

GOLDEN = json.loads((Path(__file__).parents[1] / "data" / "golden.json").read_text(encoding="utf-8"))


def pytest_generate_tests(metafunc):
    """``case_<section>`` runs a test once for each entry of that section of the golden numbers."""
    for name in metafunc.fixturenames:
        if name.startswith("case_"):
            cases = GOLDEN[name.removeprefix("case_")]
            metafunc.parametrize(name, cases, ids=[case.get("name", str(i)) for i, case in enumerate(cases)])


@pytest.fixture(scope="session")
def golden():
    """The golden numbers of the specification."""
    return GOLDEN


@pytest.fixture(scope="session")
def rational():
    """Turn golden rationals into floats; a step without a multiplier becomes 1, which no token ever meets."""
    return lambda values: [1.0 if value is None else float(Fraction(value)) for value in values]


@pytest.fixture(scope="session")
def play():
    """Make a trajectory: its tokens a step, its reward, and whatever else matters."""

    def make(tokens, reward=0.0, *, outcome=None, anchors=None, rewards=None, task="task"):
        steps = len(tokens)
        anchors = anchors if anchors is not None else [f"state {i}" for i in range(steps)]
        rewards = rewards if rewards is not None else [0.0] * (steps - 1) + [reward] * (steps > 0)
        turns = [
            Turn((), Completion("x"), tokens=int(n), anchor=anchor, reward=r)
            for n, anchor, r in zip(tokens, anchors, rewards, strict=True)
        ]
        outcome = outcome or ("success" if reward > 0 else "failure")
        return Trajectory("env", task, turns=turns, outcome=outcome, total_reward=float(sum(rewards)))

    return make


@pytest.fixture(scope="session")
def group_of():
    """Make a group of the given trajectories."""
    return lambda *trajectories: TrajectoryGroup("task", list(trajectories))


@pytest.fixture(scope="session")
def metered():
    """Make a signal from what a meter says: for each trajectory (b_hat, v_hat), as ``(True, 40)``, in batch order."""

    def make(*answers, failure_cost=25600.0, clip=True):
        def signal(trajectories):
            assert len(trajectories) == len(answers)
            return [
                StepSignal.from_estimates(
                    [can for can, _ in said],
                    [np.nan if left is None else left for _, left in said],
                    success=trajectory.success,
                    failure_cost=failure_cost,
                    clip=clip,
                )
                for trajectory, said in zip(trajectories, answers, strict=True)
            ]

        return signal

    return make
