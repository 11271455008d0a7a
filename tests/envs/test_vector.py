import functools
import gc
import tracemalloc

import gymnasium as gym
import numpy as np
import pytest
import toy_envs
from gymnasium.vector import AutoresetMode
from toy_envs import CountingEnv

from agentgym_ttg import make_vector_env
from agentgym_ttg.core import Completion, ConfigError, EngineError, EpisodeError, UnknownTaskError
from agentgym_ttg.envs import INFO_TYPES
from agentgym_ttg.envs.vector import TextVectorEnv
from agentgym_ttg.wrappers import ChatHistory

FAR = "count/train/000004"  # count to 7


def make(num_envs=3, **kwargs):
    return make_vector_env(toy_envs.COUNTING, num_envs, **kwargs)


@pytest.fixture
def envs():
    envs = make()
    yield envs
    envs.close()


def begin(envs, task_id=FAR):
    return envs.reset_slots({slot: {"seed": slot, "task_id": task_id} for slot in range(envs.num_envs)})


# The Gymnasium interface ----------------------------------------------------------------------------------------------


def test_make_vec_gives_ours_and_says_how_it_resets():
    envs = gym.make_vec(toy_envs.COUNTING, num_envs=2, max_steps=4, split="test")
    assert isinstance(envs, TextVectorEnv)
    assert envs.metadata["autoreset_mode"] is AutoresetMode.DISABLED
    assert envs.tasks.split == "test"
    observations, _ = envs.reset(seed=0)
    assert observations in envs.observation_space
    assert ("a", "b") in envs.action_space
    assert envs.spec.kwargs["num_envs"] == 2
    again = gym.make_vec(envs.spec)
    assert again.reset(seed=0)[0] == observations
    envs.close()
    again.close()


def test_the_synchronous_vector_of_gymnasium_works_as_well():
    envs = gym.make_vec(toy_envs.COUNTING, num_envs=2, vectorization_mode="sync")
    observations, _ = envs.reset(seed=0)
    assert observations == make(2).reset(seed=0)[0]
    assert envs.step(["up", "roll"])[0][0].startswith("Count 1")
    envs.close()


def test_each_slot_is_what_a_single_environment_is(envs):
    singles = [CountingEnv() for _ in range(3)]
    observations, infos = envs.reset(seed=[5, 6, 7])
    expected = [env.reset(seed=seed) for env, seed in zip(singles, (5, 6, 7), strict=True)]
    assert observations == tuple(observation for observation, _ in expected)
    for actions in (["up", "roll", "dance"], ["roll", "", "up"], ["down", "tool", "roll"]):
        after = envs.step(actions)
        for slot, (env, action) in enumerate(zip(singles, actions, strict=True)):
            observation, reward, terminated, truncated, info = env.step(action)
            assert (after[0][slot], after[1][slot]) == (observation, reward)
            assert (after[2][slot], after[3][slot]) == (terminated, truncated)
            assert {key: after[4][key][slot] for key in info} == info
            assert after[4]["error"][slot] == ""
    assert after[1].dtype == np.float64
    assert infos["success"].dtype == after[2].dtype == after[3].dtype == np.bool_


def test_one_seed_is_the_first_of_consecutive_ones(envs):
    assert envs.reset(seed=5)[0] == envs.reset(seed=[5, 6, 7])[0] == envs.reset(seed=np.array([5, 6, 7]))[0]
    before = envs.reset(seed=5)[0]
    assert envs.reset()[0] != before
    assert envs.reset(seed=[5, None, 7])[0][::2] == before[::2]


def test_tasks_one_for_all_or_one_each(envs):
    assert envs.reset(options={"task_id": FAR})[1]["task_id"].tolist() == [FAR] * 3
    chosen = ["count/train/000001", FAR, None]
    infos = envs.reset(seed=0, options={"task_id": chosen})[1]
    assert infos["task_id"].tolist()[:2] == chosen[:2]
    assert infos["task_id"].tolist()[2] == envs.reset(seed=0)[1]["task_id"][2]


def test_a_finished_slot_stands_still_costs_nothing_and_earns_nothing(envs):
    envs.reset(seed=0, options={"task_id": FAR})
    first = envs.step(["win", "up", "up"])
    assert first[1].tolist() == [1.0, 0.0, 0.0]
    roll = len(CountingEnv().tokenizer.encode("roll"))
    for _ in range(2):
        after = envs.step([None, "roll", "roll"])
        assert after[0][0] == first[0][0]
        assert after[1].tolist() == [0.0, 0.0, 0.0]
        assert after[2].tolist() == [True, False, False]
        assert after[4]["success"].tolist() == [True, False, False]
        assert after[4]["assistant_tokens"].tolist() == [0, roll, roll]
        assert after[4]["_assistant_tokens"].tolist() == [False, True, True]
        assert after[4]["messages"][0] == []
    assert after[4]["episode_tokens"].tolist() == [first[4]["episode_tokens"][0], 1 + 2 * roll, 1 + 2 * roll]


def test_only_the_slots_of_the_mask_are_reset(envs):
    envs.reset(seed=0, options={"task_id": FAR})
    _, _, terminations, truncations, _ = envs.step(["lose", "up", "cut"])
    observations, infos = envs.reset(seed=9, options={"reset_mask": terminations | truncations, "task_id": FAR})
    assert [text.startswith("Count to 7") for text in observations] == [True, False, True]
    assert infos["_task_id"].tolist() == [True, False, True]
    after = envs.step(["up", "up", "up"])
    assert [text.split(",")[0] for text in after[0]] == ["Count 1", "Count 2", "Count 1"]
    assert not (after[2] | after[3]).any()


def test_a_step_without_a_running_episode_is_our_error(envs):
    with pytest.raises(EpisodeError, match="call reset"):
        envs.step(["up"] * 3)
    envs.reset()
    envs.step(["lose"] * 3)
    with pytest.raises(EpisodeError, match="call reset"):
        envs.step(["up"] * 3)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda envs: envs.step(["up"]), ConfigError, "expected 3 actions"),
        (lambda envs: envs.step(["up", 3, "up"]), TypeError, "slot 1"),
        (lambda envs: envs.reset(seed=[1]), ConfigError, "expected 3 values of seed"),
        (lambda envs: envs.reset(seed="x"), ConfigError, "seed as an integer"),
        (lambda envs: envs.reset(options={"task_id": ["a"]}), ConfigError, "expected 3 values of task_id"),
        (lambda envs: envs.reset(options={"task": 1}), ConfigError, "unknown reset option 'task'"),
        (lambda envs: envs.reset(options={"reset_mask": [1, 0, 0]}), ConfigError, "boolean array of shape"),
        (lambda envs: envs.reset(options={"reset_mask": np.zeros(3, bool)}), ConfigError, "names no slot"),
        (lambda envs: envs.reset(options={"task_id": "count/train/0001"}), UnknownTaskError, "nearest"),
        (lambda envs: envs.reset_slots({3: {}}), ConfigError, "slot from 0 to 2"),
        (lambda envs: envs.reset_slots({0: {"task": 1}}), ConfigError, "unknown reset request"),
        (lambda envs: envs.step_slots({-1: "up"}), ConfigError, "slot from 0 to 2"),
    ],
)
def test_what_the_caller_gets_wrong_is_raised(envs, call, error, message):
    envs.reset(seed=0, options={"task_id": FAR})
    with pytest.raises(error, match=message):
        call(envs)


@pytest.mark.parametrize(
    "setting", [{"num_envs": 0}, {"workers": -1}, {"step_timeout": 3.0}, {"reset_timeout": 3.0}, {"split": "none"}]
)
def test_settings_that_cannot_work_are_refused(setting):
    with pytest.raises(ConfigError):
        make(**setting)


def test_rendering():
    envs = make(2, render_mode="ansi")
    envs.reset(seed=0, options={"task_id": FAR})
    envs.step(["up", "down"])
    assert [text.splitlines()[-1].split(",")[0] for text in envs.render()] == ["[user] Count 1", "[user] Count -1"]


# The slot interface ---------------------------------------------------------------------------------------------------


def test_slots_go_at_their_own_pace(envs):
    begin(envs)
    for _ in range(3):
        envs.step_slots({1: "up"})
    out = envs.step_slots({2: "up", 1: "up"})
    assert list(out) == [2, 1]
    assert [out[slot].observation.split(",")[0] for slot in (1, 2)] == ["Count 4", "Count 1"]
    assert envs.live_slots == [0, 1, 2]
    envs.step_slots({0: "lose"})
    assert envs.live_slots == [1, 2]
    with pytest.raises(EpisodeError, match="slot 0 on a finished episode"):
        envs.step_slots({0: "up", 1: "up"})
    assert envs.step_slots({1: "up"})[1].observation.startswith("Count 5")  # nothing had been executed


def test_an_unknown_task_in_one_slot_leaves_the_others_reset(envs):
    with pytest.raises(UnknownTaskError):
        envs.reset_slots({0: {"task_id": FAR}, 1: {"task_id": "nope"}, 2: {"task_id": FAR}})
    assert envs.live_slots == [0, 2]
    envs.step_slots({0: "up", 2: "up"})
    with pytest.raises(EpisodeError, match="slot 1 before its reset"):
        envs.step_slots({1: "up"})


@pytest.mark.parametrize("action", ["boom", "nan", "bad-anchor"])
def test_an_environment_that_breaks_down_ends_its_own_episode_only(envs, action):
    begin(envs)
    envs.step_slots({0: "up", 1: "up", 2: "up"})
    out = envs.step_slots({0: "up", 1: Completion(action, token_ids=[1, 2, 3]), 2: "up"})
    broken = out[1]
    assert broken.error
    assert (broken.observation, broken.reward, broken.terminated, broken.truncated) == ("", 0.0, False, True)
    assert broken.over
    assert [type(broken.info[key]) for key in INFO_TYPES] == list(INFO_TYPES.values())
    assert (broken.info["task_id"], broken.info["task_type"], broken.info["success"]) == (FAR, "to-7", False)
    assert (broken.info["assistant_tokens"], broken.info["episode_tokens"]) == (3, 4)
    assert all(out[slot].observation.startswith("Count 2") and not out[slot].error for slot in (0, 2))
    with pytest.raises(EpisodeError, match="finished"):
        envs.step_slots({1: "up"})
    envs.reset_slots({1: {"task_id": FAR}})
    assert envs.step_slots({1: "up"})[1].observation.startswith("Count 1")


def test_the_error_stands_in_the_infos(envs):
    envs.reset(seed=0, options={"task_id": FAR})
    _, _, terminations, truncations, infos = envs.step(["up", "boom", "up"])
    assert (terminations.tolist(), truncations.tolist()) == ([False] * 3, [False, True, False])
    assert [bool(error) for error in infos["error"]] == [False, True, False]
    assert "ZeroDivisionError: boom" in infos["error"][1]
    assert not any(envs.step(["up"] * 3)[4]["error"])  # said once


def test_an_episode_that_cannot_begin_is_told_at_the_reset_and_at_the_first_step():
    envs = make(cursed=True)
    out = envs.reset_slots({0: {"task_id": FAR}, 1: {"task_id": "count/train/000666"}})
    assert "error" not in out[0][1]
    observation, info = out[1]
    assert observation == ""
    assert "this room burns" in info["error"]
    assert info["task_id"] == "count/train/000666"
    step = envs.step_slots({0: "up", 1: "up"})
    assert not step[0].error
    assert step[1].error == info["error"]
    assert "error" not in step[1].info
    with pytest.raises(EpisodeError):
        envs.step_slots({1: "up"})
    infos = envs.reset(options={"task_id": [FAR, "count/train/000666", FAR]})[1]
    assert [bool(error) for error in infos["error"]] == [False, True, False]


@pytest.mark.parametrize("own", [False, True])
def test_branches_go_into_any_slot_also_one_that_was_never_reset(own):
    envs = make(3, own_snapshots=own)
    envs.reset_slots({0: {"seed": 1, "task_id": FAR}})
    envs.step_slots({0: "roll"})
    point = envs.snapshot_slot(0)
    original = envs.step_slots({0: "roll"})[0]
    for slot in (0, 1, 2, 2):
        envs.restore_slot(slot, point)
        assert envs.last_outcome(slot) == point.last
        assert envs.step_slots({slot: "roll"})[slot] == original
    envs.step_slots({0: "lose"})
    over = envs.snapshot_slot(0)
    envs.restore_slot(1, over)
    with pytest.raises(EpisodeError, match="finished"):
        envs.step_slots({1: "up"})


def test_no_snapshot_without_an_episode_or_an_environment(envs):
    with pytest.raises(EpisodeError, match="without an episode"):
        envs.snapshot_slot(0)
    begin(envs)
    envs.step_slots({0: "boom"})
    with pytest.raises(EngineError, match="boom"):
        envs.snapshot_slot(0)


def test_wrappers_go_around_each_environment_and_into_its_snapshots():
    envs = make(2, wrap=functools.partial(ChatHistory, mode="windowed", history_length=1))
    out = begin(envs)
    assert out[0][1]["prompt"][0]["content"].startswith("Count to 7")
    envs.step_slots({0: "up"})
    point = envs.snapshot_slot(0)
    expected = envs.step_slots({0: "roll"})[0]
    envs.restore_slot(1, point)
    assert envs.step_slots({1: "roll"})[1] == expected
    assert "Action 2: 'roll'" in expected.info["prompt"][0]["content"]
    assert make(1, wrap=[ChatHistory, ChatHistory]).reset()[1]["prompt"][0]


def test_something_else_than_our_environments_is_refused():
    with pytest.raises(ConfigError, match="lift it with agentgym_ttg"):
        TextVectorEnv(toy_envs.make_cartpole, 2)


def test_closing_twice_and_using_it_afterwards():
    envs = make()
    begin(envs)
    envs.close()
    envs.close()
    for call in (lambda: envs.reset(), lambda: envs.step(["up"] * 3), lambda: envs.step_slots({0: "up"}), envs.render):
        with pytest.raises(EpisodeError, match="closed"):
            call()


def test_an_interrupted_call_breaks_the_episodes_it_was_about(envs, monkeypatch):
    begin(envs)

    def interrupted(self, action):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(CountingEnv, "step", interrupted)
        with pytest.raises(KeyboardInterrupt):
            envs.step_slots({0: "up", 1: "up"})
    out = envs.step_slots({0: "up", 1: "up", 2: "up"})
    assert "KeyboardInterrupt" in out[0].error
    assert "KeyboardInterrupt" in out[1].error
    assert not out[2].error


def test_thousands_of_steps_of_64_episodes_leave_memory_flat():
    envs = make(64, max_steps=5)

    def play(rounds):
        for number in range(rounds):
            envs.reset(seed=number)
            for _ in range(5):
                if envs.live_slots:
                    envs.step(["roll"] * 64)

    tracemalloc.start()
    play(4)
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    play(10)  # 3,200 steps
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 100_000  # 31 bytes for each step
