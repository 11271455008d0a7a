import copy
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_envs import CountingEnv

from agentgym_ttg.core import Completion, ConfigError, EngineError, EpisodeError, UnknownTaskError
from agentgym_ttg.envs import INFO_TYPES

TASK = "count/train/000000"  # count to 3


def begun(seed=0, task_id=TASK, **kwargs):
    env = CountingEnv(**kwargs)
    env.reset(seed=seed, options={"task_id": task_id})
    return env


def check_info(info, *more):
    assert list(info) == [*INFO_TYPES, *more]
    for key, kind in INFO_TYPES.items():
        assert type(info[key]) is kind, key


# Seeding and tasks ----------------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_task_text_and_luck():
    first, second = CountingEnv(), CountingEnv()
    for _ in range(2):  # a second time on the same instance too
        assert first.reset(seed=7) == second.reset(seed=7)
        assert first.step("roll") == second.step("roll")
    assert first.reset() == second.reset()  # and what the generator draws next
    assert first.reset(seed=7)[0] != first.reset(seed=8)[0]


def test_without_a_seed_the_generator_goes_on():
    env = CountingEnv()
    env.reset(seed=7)
    assert len({env.reset()[1]["task_id"] for _ in range(20)}) > 10


def test_naming_the_task_that_a_seed_draws_replays_the_episode():
    env = CountingEnv()
    drawn = env.reset(seed=7)
    assert env.reset(seed=7, options={"task_id": drawn[1]["task_id"]}) == drawn


def test_an_unknown_task_names_the_nearest_and_ends_the_episode_before():
    env = begun()
    with pytest.raises(UnknownTaskError, match="nearest: 'count/train/000"):
        env.reset(options={"task_id": "count/train/00001"})
    with pytest.raises(EpisodeError, match="before reset"):
        env.step("up")
    env.reset(options={"task_id": TASK})


@pytest.mark.parametrize("task_id", [3, b"x", ["a"]])
def test_a_task_id_is_a_string(task_id):
    with pytest.raises(ConfigError, match="to be a string"):
        CountingEnv().reset(options={"task_id": task_id})


def test_options_are_not_changed_and_unknown_ones_refused():
    options = {"task_id": TASK}
    begun().reset(options=options)
    assert options == {"task_id": TASK}
    with pytest.raises(ConfigError, match="unknown reset option 'task'"):
        CountingEnv().reset(options={"task": TASK})


def test_splits_hold_their_own_tasks():
    assert begun(task_id="count/test/000003", split="test").step("up")[4]["task_id"] == "count/test/000003"
    with pytest.raises(UnknownTaskError):
        CountingEnv(split="test").reset(options={"task_id": TASK})
    with pytest.raises(ConfigError, match="did you mean 'train'"):
        CountingEnv(split="trian")


@pytest.mark.parametrize(
    "setting", [{"max_steps": 0}, {"max_tokens": -1}, {"action_format": "xml"}, {"render_mode": "rgb_array"}]
)
def test_settings_that_cannot_work_are_refused(setting):
    with pytest.raises(ConfigError, match="expected"):
        CountingEnv(**setting)


# Endings --------------------------------------------------------------------------------------------------------------


def test_success_terminates():
    env = begun()
    observation, reward, terminated, truncated, info = env.step("win")
    assert (observation, reward, terminated, truncated, info["success"]) == ("Count 3, die 63.", 1.0, True, False, True)
    assert info["admissible_actions"] == []
    assert info["metrics"] == {"ups": 3.0}
    assert env.phase == "done"


def test_failure_terminates_without_success():
    _, reward, terminated, truncated, info = begun().step("lose")
    assert (reward, terminated, truncated, info["success"], info["metrics"]) == (0.0, True, False, False, {"lost": 1.0})


def test_the_step_limit_truncates_and_is_no_failure():
    env = begun(max_steps=2)
    assert env.step("roll")[2:4] == (False, False)
    assert env.step("roll")[2:4] == (False, True)


def test_success_on_the_last_step_is_no_truncation():
    env = begun(max_steps=1)
    _, _, terminated, truncated, info = env.step("win")
    assert (terminated, truncated, info["success"]) == (True, False, True)


def test_the_token_limit_truncates():
    env = begun(max_tokens=5)
    assert not env.step(Completion("roll", token_ids=[1] * 4))[3]
    assert env.step(Completion("roll", token_ids=[1]))[3]


def test_a_limit_of_the_domain_truncates():
    _, _, terminated, truncated, info = begun().step("cut")
    assert (terminated, truncated, info["success"]) == (False, True, False)


def test_a_message_that_does_not_parse_does_not_undo_a_success():
    env = begun()
    assert env.step("solved")[4]["success"]
    assert env.step("")[4]["success"]
    assert not env.step("up")[4]["success"]


def test_steps_outside_an_episode_are_our_error():
    env = CountingEnv()
    with pytest.raises(EpisodeError, match="before reset"):
        env.step("up")
    with pytest.raises(EpisodeError, match="without an episode"):
        env.snapshot()
    env.reset()
    env.step("lose")
    with pytest.raises(EpisodeError, match="finished episode"):
        env.step("up")
    env.reset()
    env.close()
    env.close()
    assert env.closes == 1
    for call in (lambda: env.step("up"), env.reset, env.snapshot, lambda: env.restore(None)):
        with pytest.raises(EpisodeError, match="close"):
            call()


@pytest.mark.parametrize("action", [None, 3, b"up", ["up"]])
def test_an_action_is_a_string(action):
    env = begun()
    with pytest.raises(TypeError, match="to be a string"):
        env.step(action)
    assert env.step("up")[4]["episode_tokens"] == 1  # nothing was counted


# Info and accounting --------------------------------------------------------------------------------------------------


def test_info_has_the_same_keys_and_types_at_every_step():
    env = CountingEnv()
    check_info(env.reset(options={"task_id": TASK})[1])
    for action in ["up", "dance", "", "tool", "silent", "solved", "<think>x", "lose"]:
        check_info(env.step(action)[4])


def test_the_expert_key_is_there_when_asked_for():
    env = CountingEnv(expert=True, action_format="tags")
    info = env.reset(options={"task_id": TASK})[1]
    check_info(info, "expert_action")
    while info["expert_action"]:
        _, _, terminated, _, info = env.step(info["expert_action"])
        check_info(info, "expert_action")
    assert terminated
    assert info["success"]


def test_info_is_the_callers_to_keep():
    env = begun()
    first = env.step("up")[4]
    before = copy.deepcopy(first)
    first["admissible_actions"].append("cheat")
    first["metrics"]["x"] = 1
    second = env.step("roll")[4]
    assert "cheat" not in second["admissible_actions"]
    assert "x" not in second["metrics"]
    env.step("up")
    assert {**first, "admissible_actions": before["admissible_actions"], "metrics": before["metrics"]} == before


def test_tokens_are_the_sampled_ids_or_the_tokenizers_count():
    env = begun()
    assert env.step(Completion("up", token_ids=[1, 2, 3, 4]))[4]["assistant_tokens"] == 4
    info = env.step("roll the die and think about it")[4]
    assert info["assistant_tokens"] == len(env.tokenizer.encode("roll the die and think about it"))
    assert info["episode_tokens"] == 4 + info["assistant_tokens"]
    assert env.reset()[1]["episode_tokens"] == 0


def test_reasoning_and_what_does_not_parse_cost_tokens_too():
    env = begun(action_format="tags")
    message = "<think>a long thought</think><action>up</action>"
    assert env.step(message)[4]["assistant_tokens"] == len(env.tokenizer.encode(message))
    observation, reward, terminated, truncated, info = env.step("up")
    assert "<action>" in observation
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert (info["action_valid"], info["anchor"], info["assistant_tokens"] > 0) == (False, "1/3", True)


def test_messages_are_what_is_new_for_the_chat():
    env = CountingEnv()
    observation, info = env.reset(options={"task_id": TASK})
    assert info["messages"] == [{"role": "user", "content": observation}]
    observation, *_, info = env.step("tool")
    assert info["messages"] == [{"role": "tool", "content": c, "name": "add"} for c in "45"]
    assert observation == "4\n\n5"
    observation, *_, info = env.step("silent")
    assert (observation, info["messages"]) == ("", [])


HOSTILE = st.text(st.characters(), max_size=60) | st.sampled_from(
    ["", " ", "<think>", "</think>", "<action>", "<action>win", "\x00", "\ud800", "win\x00", "<think>win", "x" * 5000]
)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(["plain", "tags", "tools"]), st.lists(HOSTILE, max_size=9))
def test_hostile_actions_never_raise_never_win_and_always_count(form, actions):
    env = begun(action_format=form, max_steps=50)
    total = 0
    for action in actions:
        _, reward, terminated, _, info = env.step(action)
        total += len(env.tokenizer.encode(action))
        assert (reward, terminated, info["success"], info["action_valid"]) == (0.0, False, False, False)
        assert info["episode_tokens"] == total
        check_info(info)


# Breakdowns -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", ["boom", "nan", "nothing", "bad-anchor"])
def test_a_domain_that_breaks_down_is_an_engine_error_and_ends_the_episode(action):
    env = begun()
    with pytest.raises(EngineError):
        env.step(action)
    with pytest.raises(EpisodeError, match="finished"):
        env.step("up")
    env.reset(options={"task_id": TASK})
    assert env.step("up")[0].startswith("Count 1")


def test_the_error_names_the_task_and_the_cause():
    with pytest.raises(EngineError, match=f"CountingEnv, task '{TASK}': ZeroDivisionError: boom") as caught:
        begun().step("boom")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_domain_that_cannot_begin():
    env = CountingEnv(cursed=True)
    with pytest.raises(EngineError, match="this room burns"):
        env.reset(options={"task_id": "count/train/000666"})
    with pytest.raises(EpisodeError, match="before reset"):
        env.step("up")
    env.reset(options={"task_id": TASK})


# Branching ------------------------------------------------------------------------------------------------------------

BOTH = pytest.mark.parametrize("own", [False, True], ids=["replay", "own"])


@BOTH
def test_a_branch_goes_on_exactly_as_the_original(own):
    env = begun(own_snapshots=own)
    env.step("roll")
    env.step("up")
    env.step("")  # does not parse, and belongs to the episode all the same
    point = env.snapshot()
    original = [env.step(action) for action in ("roll", "roll", "up", "down", "win")]
    for _ in range(3):  # any number of times, whatever happened in between
        env.restore(point)
        assert [env.step(action) for action in ("roll", "roll", "up", "down", "win")] == original
        env.reset(seed=99)
        env.step("roll")


@BOTH
def test_a_point_can_be_restored_in_another_instance_also_after_a_pickle(own):
    env = begun(own_snapshots=own)
    env.step("roll")
    point = pickle.loads(pickle.dumps(env.snapshot()))
    other = CountingEnv(own_snapshots=own)
    other.restore(point)
    assert other.phase == "running"
    assert [other.step("roll") for _ in range(3)] == [env.step("roll") for _ in range(3)]
    assert other.reset() == env.reset()  # the generator is where it was, too


@BOTH
def test_counters_limits_transcript_and_metrics_are_part_of_the_point(own):
    env = begun(own_snapshots=own, max_steps=3, render_mode="ansi")
    env.step("up")
    point, text = env.snapshot(), env.render()
    env.step("roll")
    env.step("roll")
    assert env.phase == "done"
    env.restore(point)
    assert (env.phase, env.render()) == ("running", text)
    assert not env.step("roll")[3]
    _, _, _, truncated, info = env.step("solved")
    assert truncated
    assert info["episode_tokens"] == sum(len(env.tokenizer.encode(a)) for a in ("up", "roll", "solved"))
    assert info["metrics"] == {"ups": 1.0}


@BOTH
def test_a_finished_point_stays_finished(own):
    env = begun(own_snapshots=own)
    env.step("win")
    point = env.snapshot()
    env.reset()
    env.restore(point)
    with pytest.raises(EpisodeError, match="finished"):
        env.step("up")


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from(["up", "down", "roll", "", "dance", "tool"]), max_size=6),
    st.lists(st.sampled_from(["up", "roll", "solved", ""]), max_size=4),
    st.booleans(),
    st.integers(0, 999),
)
def test_branching_is_exact_from_any_point(before, after, own, seed):
    task_id = "count/train/000004"  # count to 7: out of reach
    env = begun(seed=seed, task_id=task_id, own_snapshots=own)
    for action in before:
        env.step(action)
    point = env.snapshot()
    original = [env.step(action) for action in after]
    env.restore(point)
    assert [env.step(action) for action in after] == original


# Rendering and closing ------------------------------------------------------------------------------------------------


def test_ansi_is_the_transcript():
    env = begun(render_mode="ansi")
    env.step("up")
    env.step("dance")
    text = env.render()
    assert isinstance(text, str)
    assert text.splitlines() == [
        "[user] Count to 3. The die shows 63.",
        "[assistant, 1 tokens] up",
        "[user] Count 1, die 63.",
        f"[assistant, {len(env.tokenizer.encode('dance'))} tokens, invalid] dance",
        "[user] What?",
    ]
    env.reset(options={"task_id": TASK})
    assert "dance" not in env.render()


def test_human_prints_as_it_goes_and_escapes_what_a_terminal_would_act_on(capsys):
    env = begun(render_mode="human")
    assert "Count to 3" in capsys.readouterr().out
    env.step("up \x1b[2J\x07 [bold]x[/bold]")
    out = capsys.readouterr().out
    assert "Count to 3" not in out
    assert "\x1b[2J" not in out
    assert "\\x1b[2J\\x07 [bold]x[/bold]" in out
    assert env.render() is None


def test_no_render_mode_renders_nothing(capsys):
    env = begun()
    env.step("up")
    assert env.render() is None
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("wrong", [None, 3, "x", {}, []])
def test_what_is_no_snapshot_is_refused(wrong):
    env = CountingEnv()
    env.reset(seed=0)
    with pytest.raises(ConfigError, match=r"snapshot\(\)"):
        env.restore(wrong)
    env.step("up")


def test_a_snapshot_of_another_kind_or_another_split_is_refused():
    class OtherEnv(CountingEnv):
        pass

    env = CountingEnv(split="test")
    env.reset(seed=0)
    for other in (OtherEnv(split="test"), CountingEnv(split="train")):
        other.reset(seed=0)
        with pytest.raises(ConfigError, match="does not play"):
            other.restore(env.snapshot())
        other.step("up")


@pytest.mark.parametrize("wrong", [{"split": 3}, {"action_format": 3}, {"max_steps": 1.5}, {"max_tokens": True}])
def test_a_setting_of_the_wrong_type_is_refused(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        CountingEnv(**wrong)


def test_reset_options_that_are_no_mapping_are_refused():
    with pytest.raises(ConfigError, match="list"):
        CountingEnv().reset(options=["x"])
