import json
import math

import gymnasium as gym
import numpy as np
import pytest

import agentgym_ttg
from agentgym_ttg.core import ConfigError, EpisodeError
from agentgym_ttg.credit import bounded_unit_mean_weights, step_shares
from agentgym_ttg.envs.base import MultiTurnEnv, StepResult
from agentgym_ttg.envs.tasks import TaskSet
from agentgym_ttg.meter import Estimate, ProgressMeter
from agentgym_ttg.wrappers.progress import ProgressCredit

TTG_KEYS = {"can_complete", "remaining_tokens", "cost", "delta", "valid"}


class Counter(MultiTurnEnv):
    """Count up to three; `quit` gives up."""

    default_max_steps = 6
    action_formats = ("plain",)

    def _tasks(self, split):
        return TaskSet(split, ["count"])

    def _begin(self, task):
        self.value = 0
        return "The counter shows 0. Reach 3."

    def _act(self, action):
        self.value += {"up": 1, "down": -1}.get(action.command, 0)
        over = self.value >= 3 or action.command == "quit"
        return StepResult(f"The counter shows {self.value}.", float(self.value >= 3), over, self.value >= 3)


gym.register("agentgym_ttg_test/Counter-v0", entry_point=Counter)


class CounterMeter:
    """Knows the counter: ten tokens for each step that is missing; answers scripted by the value where given."""

    name = "counter"

    def __init__(self, answers=None):
        self.tokens_scored = 0
        self.calls = 0
        self.answers = answers or {}

    def score(self, trajectories):
        self.calls += 1
        return [[self._estimate(turn) for turn in trajectory.turns] for trajectory in trajectories]

    def _estimate(self, turn):
        value = int(turn.messages[-1].content.split("shows ")[1].split(".")[0])
        return self.answers.get(value, Estimate(True, 10.0 * (3 - value)))


def play(env, actions):
    _, info = env.reset(seed=0)
    infos = [info]
    for action in actions:
        _, _, terminated, truncated, info = env.step(action)
        infos.append(info)
    assert terminated or truncated
    return infos


UP_DOWN = ["up", "down", "up", "up", "up"]


def test_online_costs_and_deltas_follow_equations_7_to_9():
    infos = play(ProgressCredit(Counter(), CounterMeter(), failure_cost=100), UP_DOWN)
    assert [info["ttg"]["cost"] for info in infos] == [30, 20, 30, 20, 10, 0]
    assert [info["ttg"]["delta"] for info in infos] == [None, 10, -10, 10, 10, 10]
    assert infos[-1]["ttg"] == {
        "can_complete": True, "remaining_tokens": 0.0, "cost": 0.0, "delta": 10.0, "valid": True
    }  # fmt: skip
    assert all(info["credit"] is None for info in infos[:-1])
    credit = infos[-1]["credit"]
    assert credit["costs"] == [30, 20, 30, 20, 10, 0]
    assert credit["deltas"] == [10, -10, 10, 10, 10]
    assert credit["tokens"] == [info["assistant_tokens"] for info in infos[1:]]
    assert credit["kept"] == ""


def test_weights_are_those_of_the_credit_floor():
    credit = play(ProgressCredit(Counter(), CounterMeter(), failure_cost=100, rho=0.1, cap=2), UP_DOWN)[-1]["credit"]
    for name, sign in (("weights_positive", 1), ("weights_negative", -1)):
        expected = bounded_unit_mean_weights(step_shares(credit["deltas"], sign, rho=0.1), credit["tokens"], cap=2)
        np.testing.assert_allclose(credit[name], expected)
        assert np.average(credit[name], weights=credit["tokens"]) == pytest.approx(1)
        assert max(credit[name]) <= 2 + 1e-12
    assert np.argmax(credit["weights_negative"]) == 1  # the step back
    assert np.argmin(credit["weights_positive"]) == 1


def test_deferred_gives_the_same_credit_from_one_question():
    online, deferred = CounterMeter(), CounterMeter()
    a = play(ProgressCredit(Counter(), online, failure_cost=100), UP_DOWN)
    b = play(ProgressCredit(Counter(), deferred, online=False, failure_cost=100), UP_DOWN)
    assert a[-1]["credit"] == b[-1]["credit"]
    assert a[-1]["ttg"] == b[-1]["ttg"]
    assert (online.calls, deferred.calls) == (5, 1)
    for info in b[:-1]:
        assert info["ttg"] == dict.fromkeys(TTG_KEYS)


@pytest.mark.parametrize("online", [True, False])
def test_keys_and_types_are_the_same_at_every_step(online):
    env = ProgressCredit(Counter(), CounterMeter({1: Estimate(False, None)}), online=online, failure_cost=100)
    for info in play(env, UP_DOWN):
        assert set(info["ttg"]) == TTG_KEYS
        for key, kinds in (("can_complete", bool), ("valid", bool), ("cost", float), ("delta", float)):
            assert info["ttg"][key] is None or type(info["ttg"][key]) is kinds
        json.dumps({"ttg": info["ttg"], "credit": info["credit"]}, allow_nan=False)


@pytest.mark.parametrize(("actions", "outcome"), [(["up", "quit"], "failure"), (["look"] * 6, "truncated")])
def test_failure_and_truncation_cost_c_at_the_end(actions, outcome):
    infos = play(ProgressCredit(Counter(), CounterMeter(), failure_cost=100), actions)
    assert infos[-1]["ttg"]["cost"] == 100
    assert infos[-1]["ttg"]["can_complete"] is False
    assert infos[-1]["ttg"]["remaining_tokens"] is None
    assert infos[-1]["credit"]["deltas"][-1] == infos[-2]["ttg"]["cost"] - 100


def test_a_state_that_cannot_be_completed_costs_c_and_estimates_are_cut_to_c():
    answers = {0: Estimate(True, 1e9), 1: Estimate(False, None)}
    infos = play(ProgressCredit(Counter(), CounterMeter(answers), failure_cost=100), ["up", "up", "up"])
    assert infos[-1]["credit"]["costs"] == [100, 100, 10, 0]


def test_an_invalid_answer_is_reported_and_keeps_the_original_advantage():
    infos = play(ProgressCredit(Counter(), CounterMeter({1: Estimate.invalid()}), failure_cost=100), ["up", "up", "up"])
    assert infos[1]["ttg"] == {
        "can_complete": False, "remaining_tokens": None, "cost": None, "delta": None, "valid": False
    }  # fmt: skip
    credit = infos[-1]["credit"]
    assert credit["kept"] == "invalid"
    assert credit["deltas"] == [None, None, 10]
    assert credit["weights_positive"] == credit["weights_negative"] == [1, 1, 1]


def test_a_meter_that_never_believes_in_success_keeps_the_original_advantage():
    never = dict.fromkeys(range(4), Estimate(False, None))
    credit = play(ProgressCredit(Counter(), CounterMeter(never), failure_cost=100), ["up"] * 3)[-1]["credit"]
    assert credit["kept"] == "never_completable"
    assert credit["weights_positive"] == [1, 1, 1]
    assert credit["deltas"] == [0, 0, 100]


def test_the_failure_cost_is_steps_times_the_response_limit():
    assert ProgressCredit(Counter(), CounterMeter()).failure_cost == 6 * 512
    assert ProgressCredit(Counter(), CounterMeter(), max_response_tokens=16).failure_cost == 96
    steps = CounterMeter()
    steps.target = "steps"
    assert ProgressCredit(Counter(), steps).failure_cost == 6


def test_episodes_do_not_mix_and_branches_keep_their_estimates():
    env = ProgressCredit(Counter(), CounterMeter(), failure_cost=100)
    env.reset(seed=0)
    env.step("up")
    saved = env.snapshot()
    first = [env.step(action)[4] for action in ("up", "up")][-1]["credit"]
    env.restore(saved)
    env.step("down")
    env.restore(saved)
    again = [env.step(action)[4] for action in ("up", "up")][-1]["credit"]
    assert again == first
    assert len(play(env, ["up"] * 3)[-1]["credit"]["deltas"]) == 3
    with pytest.raises(EpisodeError):
        env.step("up")


def test_wrong_settings_are_refused():
    for options, message in (
        ({"rho": 1.5}, "rho"), ({"cap": 0.5}, "cap"), ({"failure_cost": 0}, "failure_cost"),
        ({"failure_cost": math.inf}, "failure_cost"), ({"max_response_tokens": 0}, "max_response_tokens"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=message):
            ProgressCredit(Counter(), CounterMeter(), **options)
    with pytest.raises(ConfigError, match="is no folder"):
        ProgressCredit(Counter(), "no/such/meter/folder")
    with pytest.raises(ConfigError, match="score"):
        ProgressCredit(Counter(), object())


def test_a_lifted_foreign_environment_gains_credit():
    lifted = agentgym_ttg.from_text_env(
        gym.make("FrozenLake-v1", is_slippery=False),
        observe=lambda cell: f"The counter shows {cell}.",
        actions=["left", "down", "right", "up"],
    )
    infos = play(
        ProgressCredit(lifted, CounterMeter({v: Estimate(True, 15.0 - v) for v in range(16)}), failure_cost=50),
        ["down", "down", "right", "right", "down", "right"],
    )
    assert infos[-1]["success"]
    assert sum(infos[-1]["credit"]["deltas"]) == infos[0]["ttg"]["cost"]


def test_gymnasium_checks_pass_and_an_environment_is_remade_with_its_meter():
    env = ProgressCredit(gym.make("agentgym_ttg_test/Counter-v0"), CounterMeter(), failure_cost=100)
    assert isinstance(env.meter, ProgressMeter)
    again = gym.make(env.spec)
    assert again.meter is env.meter  # models are never copied
    assert play(again, ["up"] * 3)[-1]["credit"]["deltas"] == [10, 10, 10]


def test_gym_make_works_with_the_path_of_a_trained_meter(tmp_path):
    pytest.importorskip("transformers", reason="a trained meter needs torch and transformers")
    from agentgym_ttg.meter.head import HeadMeter, HeadNetwork, HeadSettings
    from agentgym_ttg.models import build_tokenizer, make_tiny_model
    from agentgym_ttg.models.tiny import TinyConfig

    tokenizer = build_tokenizer(["You are in the middle of a room."] * 9, 300)
    model = make_tiny_model(tokenizer, TinyConfig(hidden=32, layers=1, heads=2, feed_forward=32), seed=0)
    HeadMeter(HeadNetwork(model.base_model, 32), tokenizer, HeadSettings(), device="cpu").save(tmp_path / "meter")
    plain = gym.make("agentgym_ttg/ALFWorld-v0", data="built-in", max_steps=3)
    env = ProgressCredit(plain, tmp_path / "meter", max_response_tokens=16)
    assert env.failure_cost == 48
    spec = gym.envs.registration.EnvSpec.from_json(env.spec.to_json())
    actions = ["look", "inventory", "look"]
    infos, again = play(env, actions), play(gym.make(spec), actions)
    assert all(math.isfinite(delta) for delta in infos[-1]["credit"]["deltas"])
    assert again[-1]["credit"] == infos[-1]["credit"]
    deferred = play(ProgressCredit(plain, str(tmp_path / "meter"), online=False, max_response_tokens=16), actions)
    np.testing.assert_allclose(deferred[-1]["credit"]["costs"], infos[-1]["credit"]["costs"], rtol=1e-5)


def test_the_example_for_foreign_environments_runs():
    import importlib.util
    from pathlib import Path

    path = Path(__file__).parents[2] / "examples" / "wrap_your_env.py"
    spec = importlib.util.spec_from_file_location("wrap_your_env", path)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    credit = example.main()
    assert credit["deltas"][:3] == [3, -3, 3]
    assert credit["kept"] == ""
    assert np.argmax(credit["weights_negative"]) == 1
