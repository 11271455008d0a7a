import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_ttg.core import ConfigError, PlainFormat, TagFormat, ToolFormat, make_action_format, split_reasoning

PIECES = st.sampled_from(
    [
        "<think>", "</think>", "<action>", "</action>", "<search>", "</search>", "<tool_call>", "</tool_call>",
        "<thi", "nk>", "</", "{", "}", '{"name": "f", "arguments": {}}', '"', "\\", "\x00", "\ud800", "\u2028", "\n",
        " ", "go", "[" * 50, "```json", "```", "<|python_tag|>", "secret",
    ]
)  # fmt: skip
HOSTILE = st.lists(PIECES | st.text(st.characters(), max_size=5), max_size=12).map("".join)
FORMATS = [
    PlainFormat(),
    TagFormat(),
    TagFormat(tags=("search", "answer"), require_think=False, on_repeat="last"),
    ToolFormat(),
]


@settings(max_examples=500, deadline=None)
@given(HOSTILE)
def test_parsing_never_raises_and_always_says_something(text):
    for form in FORMATS:
        action = form.parse(text)
        assert action.text == text
        assert action.error or action.command or action.calls
        assert action.valid or action.error or action.calls


@settings(max_examples=300, deadline=None)
@given(HOSTILE)
def test_reasoning_never_reaches_the_environment(text):
    message = f"<think>{text.replace('</think>', '')}</think>" + "go"
    depth = text.replace("</think>", "").count("<think>")
    action = PlainFormat().parse(message)
    assert action.command == ("go" if depth == 0 else "")


@pytest.mark.parametrize(
    ("text", "reasoning", "said"),
    [
        ("go", "", "go"),
        ("<think>a</think>go", "a", "go"),
        ("a</think>go", "a", "go"),
        ("<think>a", "a", ""),
        ("<think>a<think>b</think>c</think>go", "abc", "go"),
        ("a</think>b</think>go", "ab", "go"),
        ("go<think>a</think>north", "a", "gonorth"),
        ("</think>go", "", "go"),
        ("", "", ""),
    ],
)
def test_reasoning_is_split_off(text, reasoning, said):
    assert split_reasoning(text) == (reasoning, said)


def test_plain_takes_the_message_as_the_command():
    action = PlainFormat().parse(" <think>hm</think>\n go north \n")
    assert (action.command, action.reasoning, action.valid) == ("go north", "hm", True)
    assert not PlainFormat().parse("<think>hm</think>").valid
    assert not PlainFormat().parse(" \n").valid


@pytest.mark.parametrize(
    "text",
    [
        "<action>go</action>",
        "<think>a</think>go",
        "<think>a</think><action>go",
        "<think>a</think>go</action>",
        "<think>a</think><action></action>",
        "<think>a</think><action>go</action><action>look</action>",
        "<think>a</think><action>go<action>look</action>",
        "<think><action>go</action></think>",
        "<think><action>go</action>",
        "",
    ],
)
def test_tags_refuse_and_say_what_is_expected(text):
    action = TagFormat().parse(text)
    assert not action.valid
    assert action.command == ""
    assert "<action>" in action.error


@pytest.mark.parametrize(
    "text",
    [
        "<think>a</think><action>go north</action>",
        "a</think><action> go north </action>",
        "</think><action>go north</action>",
        "<think></think>so:\n<action>go north</action> thanks",
        "<think>I could <action>jump</action></think><action>go north</action>",
    ],
)
def test_tags_find_the_one_action(text):
    action = TagFormat().parse(text)
    assert (action.command, action.kind, action.error) == ("go north", "action", "")


def test_other_tags_and_the_last_of_several():
    form = TagFormat(tags=("search", "answer"), require_think=False, on_repeat="last")
    action = form.parse("<search>a</search> <answer>b</answer>")
    assert (action.kind, action.command) == ("answer", "b")
    assert not form.parse("<search>a</answer>").valid


@pytest.mark.parametrize("form", FORMATS[:3])
@given(command=st.text("abc <>{}\n\u2028", min_size=1).map(str.strip).filter(bool), reasoning=st.text("xyz "))
def test_what_is_rendered_is_parsed_back(form, command, reasoning):
    action = form.parse(form.render(command, reasoning=reasoning))
    assert action.command == command
    assert action.valid


def test_tools_take_an_answer_or_calls():
    assert ToolFormat().parse("It is 4.").command == "It is 4."
    action = ToolFormat().parse('<tool_call>{"name": "f", "arguments": {}}</tool_call>')
    assert action.command == ""
    assert action.calls[0].name == "f"
    assert not ToolFormat().parse("<think>hm</think>").valid
    assert not ToolFormat().parse("<tool_call>{</tool_call>").valid


def test_formats_by_name():
    assert make_action_format("tags").name == "tags"
    with pytest.raises(ConfigError, match="did you mean 'tags'"):
        make_action_format("tag")
    with pytest.raises(ConfigError, match="expected one of plain"):
        make_action_format("tools", ["plain"])
