import copy

import gymnasium as gym
import pytest
import toy_envs
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_ttg.core import Completion, ConfigError, EpisodeError, Message
from agentgym_ttg.wrappers import ChatHistory, PromptBuilder, PromptTemplate, load_template

TASK = "count/train/000004"


def user(text):
    return Message("user", text)


def started(**kwargs):
    builder = PromptBuilder(**kwargs)
    builder.start([user("Your task is to: count. You see 0.")], {"admissible_actions": ["up", "down"]})
    return builder


def texts(builder):
    return [(message.role, message.content) for message in builder.prompt()]


# Conversation ---------------------------------------------------------------------------------------------------------


def test_a_conversation_is_the_chat_as_it_went():
    builder = started(system="Be brief.")
    builder.push(Completion("<think>hm</think>up", token_ids=[1]), [user("You see 1.")])
    builder.push("add(1)", [Message("tool", "2", "add", "c1"), Message("tool", "3", "add", "c2")])
    assert builder.prompt() == [
        Message("system", "Be brief."),
        user("Your task is to: count. You see 0."),
        Message("assistant", "<think>hm</think>up"),
        user("You see 1."),
        Message("assistant", "add(1)"),
        Message("tool", "2", "add", "c1"),
        Message("tool", "3", "add", "c2"),
    ]
    assert all(type(message.content) is str for message in builder.prompt())


TURN = st.tuples(st.text(st.characters(), max_size=8), st.lists(st.text(st.characters(), max_size=8), max_size=2))


@settings(max_examples=60, deadline=None)
@given(st.lists(TURN, max_size=5), st.sampled_from([None, "alfworld", "default"]))
def test_every_conversation_extends_the_one_before(turns, template):
    builder = started(template=template and load_template(template))
    before = builder.prompt()
    for said, observations in turns:
        builder.push(said, [user(text) for text in observations], {"admissible_actions": ["up"]})
        now = builder.prompt()
        assert now[: len(before)] == before
        assert now[len(before)] == Message("assistant", said)
        before = now


def test_a_template_frames_the_opening_and_each_answer_of_a_conversation():
    template = PromptTemplate(
        system="S", first="{task} | {observation} | {admissible_actions}", reply="{step}/{taken}: {observation}",
        task_pattern=r"to: (\w+)", admissible_separator=", ",
    )  # fmt: skip
    builder = started(template=template)
    builder.push("up", [user("one")])
    builder.push("call", [Message("tool", "4")])  # the result of a call stays what it is
    assert texts(builder) == [
        ("system", "S"),
        ("user", "count | Your task is to: count. You see 0. | up, down"),
        ("assistant", "up"),
        ("user", "2/1: one"),
        ("assistant", "call"),
        ("tool", "4"),
    ]


# Window ---------------------------------------------------------------------------------------------------------------

WINDOW = PromptTemplate(
    first="F {task}|{observation}|{admissible_actions}",
    turn="T {task}|{history}|{observation}|{admissible_actions}|{step}|{taken}|{shown}",
    history_item="[{step} {observation} -> {action}]",
    history_separator=" ",
    admissible_separator=",",
    task_pattern=r"to: (\w+)",
)


def test_a_window_is_one_message_for_each_decision():
    builder = started(mode="windowed", history_length=2, template=WINDOW, system="S")
    assert texts(builder) == [("system", "S"), ("user", "F count|Your task is to: count. You see 0.|up,down")]
    for number in range(1, 4):
        builder.push(
            f"<think>go {number}</think><action>up {number}</action>",
            [user(f"see {number}")],
            {"admissible_actions": ["a"]},
        )
    assert texts(builder) == [
        ("system", "S"),
        ("user", "T count|[2 see 1 -> up 2] [3 see 2 -> up 3]|see 3|a|4|3|2"),
    ]


def test_a_window_of_length_zero_shows_no_history():
    builder = started(mode="windowed", history_length=0, template=WINDOW)
    builder.push("up", [user("see 1")])
    assert texts(builder) == [("user", "T count||see 1||2|1|0")]


def test_system_messages_of_the_environment_lead_in_both_forms():
    for mode in ("conversation", "windowed"):
        builder = PromptBuilder(mode, system="ours")
        builder.start([Message("system", "theirs"), user("x")])
        builder.push("up", [user("y")])
        assert texts(builder)[:2] == [("system", "ours"), ("system", "theirs")]


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("go north", "go north"),
        ("<think>a <action>b</action></think><action> go </action>", "go"),
        ("hm</think>go", "go"),
        ("So I do this: <action>go</action> now", "go"),
        ("<search>a b</search>", "a b"),
        ("<think>never closed", ""),
        ("<action>a</action> and <action>b</action>", "<action>a</action> and <action>b</action>"),
        ("{braces} {0}", "{braces} {0}"),
    ],
)
def test_the_history_shows_the_command_without_reasoning_and_tag(said, shown):
    builder = started(mode="windowed", template=WINDOW)
    builder.push(said, [user("x")])
    assert f"You see 0. -> {shown}]" in texts(builder)[0][1]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(st.sampled_from("{}![]:.0a\\%\n\u2028\ud800"), max_size=12), min_size=3, max_size=3))
def test_braces_in_what_is_filled_in_are_text(pieces):
    task, said, seen = pieces
    template = PromptTemplate(turn="{task}|{history}|{observation}|{admissible_actions}", history_item="{message}")
    builder = PromptBuilder("windowed", template=template)
    builder.start([user(task)])
    builder.push(said, [user(seen)], {"admissible_actions": [seen]})
    assert texts(builder) == [("user", f"{task.strip()}|{said}|{seen}|{seen}")]


def test_a_window_without_a_template_takes_the_shipped_default():
    builder = started(mode="windowed")
    builder.push("up", [user("You see 1.")])
    [(role, text)] = texts(builder)
    assert role == "user"
    assert "You see 0." in text
    assert "You see 1." in text


# Both -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["conversation", "windowed"])
def test_a_copy_branches_and_a_start_forgets(mode):
    builder = started(mode=mode)
    builder.push("up", [user("left")])
    branch, point = builder.copy(), builder.prompt()
    builder.push("down", [user("right")])
    assert branch.prompt() == point
    branch.push("down", [user("right")])
    assert branch.prompt() == builder.prompt()
    fresh = PromptBuilder(mode)
    for one in (builder, fresh):
        one.start([user("again")])
        one.push("x", [user("y")])
    assert builder.prompt() == fresh.prompt()


def test_the_prompt_is_the_callers_to_keep():
    builder = started()
    builder.prompt().clear()
    assert len(builder.prompt()) == 1


def test_use_before_the_start_and_bad_settings():
    for call in (lambda b: b.prompt(), lambda b: b.push("x", [])):
        with pytest.raises(EpisodeError, match="call start"):
            call(PromptBuilder())
    with pytest.raises(ConfigError, match="unknown prompt mode 'window'"):
        PromptBuilder("window")
    with pytest.raises(ConfigError, match="history_length"):
        PromptBuilder(history_length=-1)


# The wrapper ----------------------------------------------------------------------------------------------------------


def test_the_wrapper_puts_the_prompt_into_info():
    env = ChatHistory(gym.make(toy_envs.COUNTING), system="S")
    observation, info = env.reset(seed=0, options={"task_id": TASK})
    assert info["prompt"] == [{"role": "system", "content": "S"}, {"role": "user", "content": observation}]
    second, *_, info = env.step("up")
    assert info["prompt"][2:] == [{"role": "assistant", "content": "up"}, {"role": "user", "content": second}]
    assert env.step("tool")[4]["prompt"][-1] == {"role": "tool", "content": "5", "name": "add"}


@pytest.mark.parametrize("mode", ["conversation", "windowed"])
def test_the_wrapper_branches_with_its_environment(mode):
    env = ChatHistory(gym.make(toy_envs.COUNTING), mode=mode)
    env.reset(seed=0, options={"task_id": TASK})
    env.step("roll")
    point = env.snapshot()
    expected = [env.step("roll"), env.step("up")]
    for _ in range(2):
        env.restore(point)
        assert [env.step("roll"), env.step("up")] == expected


def test_a_template_by_file_and_errors_at_the_construction(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("first: 'Look: {observation}'")
    env = ChatHistory(gym.make(toy_envs.COUNTING), template=str(path))
    observation, info = env.reset(seed=0)
    assert info["prompt"][0]["content"] == f"Look: {observation}"
    with pytest.raises(ConfigError, match="unknown prompt template"):
        ChatHistory(gym.make(toy_envs.COUNTING), template="nope")
    assert copy.deepcopy(env.spec) == env.spec
