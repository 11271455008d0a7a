import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_ttg.core import ToolCall, ToolCallError, parse_tool_calls

F = '{"name": "f", "arguments": {"x": 1}}'
G = '{"name": "g", "arguments": {}}'
CALL_F, CALL_G = ToolCall("f", {"x": 1}), ToolCall("g", {})


def tag(body):
    return f"<tool_call>{body}</tool_call>"


def kinds(calls):
    """Names of the calls, with ! for an error."""
    return [call.name if isinstance(call, ToolCall) else "!" for call in calls]


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        (tag(F), [CALL_F]),
        (f"<tool_call>\n{F}\n</tool_call>", [CALL_F]),
        # Several, glued, unseparated
        (tag(F) + tag(G), [CALL_F, CALL_G]),
        (tag(F + G), [CALL_F, CALL_G]),
        (tag(F + ",\n" + G), [CALL_F, CALL_G]),
        (tag(f"[{F}, {G}]"), [CALL_F, CALL_G]),
        # Nested braces, marks inside strings
        (tag('{"name": "f", "arguments": {"a": {"b": {"c": "}}"}}}}'), [ToolCall("f", {"a": {"b": {"c": "}}"}}})]),
        (tag('{"name": "f", "arguments": {"t": "</tool_call>"}}'), [ToolCall("f", {"t": "</tool_call>"})]),
        (tag('{"name": "f", "arguments": {"t": "<tool_call>"}}'), [ToolCall("f", {"t": "<tool_call>"})]),
        (tag('{"name": "f", "arguments": {"t": "</think>"}}'), [ToolCall("f", {"t": "</think>"})]),
        ('{"name": "f", "arguments": {"t": "<think></think>"}}', [ToolCall("f", {"t": "<think></think>"})]),
        # A missing or doubled tag
        (f"<tool_call>{F}", [CALL_F]),
        (f"{F}</tool_call>", [CALL_F]),
        (f"<tool_call>{F}<tool_call>{G}</tool_call>", [CALL_F, CALL_G]),
        (f"<tool_call><tool_call>{F}</tool_call>", [CALL_F]),
        (f"{tag(F)}</tool_call>", [CALL_F]),
        # Bare JSON in the forms that models are trained on
        (F, [CALL_F]),
        ('{"name": "f", "parameters": {"x": 1}}', [CALL_F]),
        (f"<|python_tag|>{F}; {G}", [CALL_F, CALL_G]),
        (f"{F}\n{G}", [CALL_F, CALL_G]),
        (f"[{F}, {G}]", [CALL_F, CALL_G]),
        (f"```json\n{F}\n```", [CALL_F]),
        (f"```\n[{F}]\n```", [CALL_F]),
        (tag(f"\n```json\n{F}\n```\n"), [CALL_F]),
        ('{"type": "function", "function": {"name": "f", "arguments": "{\\"x\\": 1}"}, "id": "c7"}',
         [ToolCall("f", {"x": 1}, "c7")]),
        (json.dumps({"role": "assistant", "content": None, "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}},
            {"id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}}]}),
         [ToolCall("f", {"x": 1}, "a"), ToolCall("g", {}, "b")]),
        # Reasoning
        (f"<think>{tag(G)}</think>{tag(F)}", [CALL_F]),
        (f"hm {tag(G)}</think>{tag(F)}", [CALL_F]),
        (f"<think>never closed {tag(G)}", []),
    ],
)  # fmt: skip
def test_the_right_calls(text, calls):
    assert parse_tool_calls(text)[2] == calls
    assert "tool_call" not in parse_tool_calls(text)[1]


@pytest.mark.parametrize(
    "body",
    [
        "", "{", "}", "null", "3", '"f"', "f(x=1)", '{"name": "f"', '{"name": "f", "arguments": {"x": }}',
        '{"name": "f", "arguments": {"x": 1}', "{'name': 'f', 'arguments': {}}",
        '{"name": "f", "arguments": [1]}', '{"name": "f", "arguments": "x"}', '{"name": "f", "arguments": "[1]"}',
        '{"name": "f", "arguments": "{} x"}', '{"name": "f", "arguments": ""}',
        '{"name": "f", "arguments": null}', '{"name": "f", "arguments": 3}', '{"name": "f"}', '{"arguments": {}}',
        '{"name": 3, "arguments": {}}', '{"name": "", "arguments": {}}',
        '{"name": "f", "arguments": {}, "parameters": {}}', '{"name": "f", "name": "g", "arguments": {}}',
        '{"name": "f", "arguments": {"x": NaN}}', '{"name": "f", "arguments": {"x": -Infinity}}',
        '{"name": "f", "arguments": {"x": 1e999}}', '{"name": "f", "arguments": {"x": ' + "9" * 5000 + "}}",
        '{"name": "f", "arguments": {"x": ' + "[" * 500 + "]" * 500 + "}}", "[" * 100_000, '{"a":' * 100_000,
        "[]", "[[]]", '{"tool_calls": "none"}', '{"tool_calls": []}',
        '{"name": "f", "arguments": {"x": "a\nb"}}',
    ],
)  # fmt: skip
def test_a_broken_call_is_an_error_and_the_others_still_run(body):
    _, said, calls = parse_tool_calls(tag(F) + tag(body) + tag(G))
    assert kinds(calls)[0] == "f"
    assert kinds(calls)[-1] == "g"
    assert kinds(calls)[1:-1] == ["!"]
    assert calls[1].message
    assert len(calls[1].text) <= 120
    assert said == ""


def test_an_unclosed_broken_call_swallows_no_other():
    assert kinds(parse_tool_calls(f'<tool_call>{{"name": "f", "arg\n{tag(G)}')[2]) == ["!", "g"]


def test_text_behind_a_call_in_its_tag_is_an_error_of_its_own():
    assert kinds(parse_tool_calls(tag(F + " thanks"))[2]) == ["f", "!"]


def test_an_item_that_is_no_call_spoils_only_itself():
    assert kinds(parse_tool_calls(f"<tool_call>[{F}, 3, {G}]</tool_call>")[2]) == ["f", "!", "g"]


@pytest.mark.parametrize(
    "answer",
    [
        "The name is f.",
        '{"answer": 4}',
        "[1] says so, [2] does not.",
        '[1] The "name" is f.',
        "{x | x > 0} is a set",
        "[1, 2, 3]",
        '{"function": "sin", "x": 1}',
        '{"name": "Ann", "age": 3}',
        "```python\nprint(1)\n```",
        "```json\n[1, 2]\n```",
        "1 < 2 > 1",
        "{",
        "",
    ],
)
def test_an_answer_is_no_call(answer):
    assert parse_tool_calls(answer) == ("", answer, [])


@pytest.mark.parametrize(
    "text", ['{"name": "f", "arguments": {"x": 1}', '{"name": "f", "parameters": {x: 1}}', "<|python_tag|>{"]
)
def test_bare_json_that_was_meant_as_a_call_is_an_error(text):
    assert kinds(parse_tool_calls(text)[2]) == ["!"]


def test_text_behind_a_bare_call_is_said():
    assert parse_tool_calls(f"{F}\nThat should do.") == ("", "That should do.", [CALL_F])


@pytest.mark.parametrize("text", ["</tool_call>", "f(x=1)</tool_call>"])
def test_a_closing_tag_alone_is_an_error_and_no_answer(text):
    _, said, calls = parse_tool_calls(text)
    assert kinds(calls) == ["!"]
    assert said == ""


def test_text_outside_is_kept_without_the_calls():
    assert parse_tool_calls(f"I look. {tag(F)} Then I see.") == ("", "I look.  Then I see.", [CALL_F])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
CALLS = st.builds(ToolCall, st.text(min_size=1), st.dictionaries(st.text(), JSON, max_size=3))


@settings(deadline=None)
@given(st.lists(CALLS, min_size=1, max_size=4), st.sampled_from(["", "\n", " and "]))
def test_rendered_calls_are_read_back_whatever_they_hold(calls, glue):
    assert parse_tool_calls(glue.join(call.to_hermes() for call in calls))[2] == calls


@settings(deadline=None)
@given(CALLS)
def test_the_bare_forms_are_read_back(call):
    for record in (
        {"name": call.name, "arguments": call.arguments},
        {"name": call.name, "parameters": call.arguments},
        {"function": {"name": call.name, "arguments": json.dumps(call.arguments)}},
        {"tool_calls": [{"function": {"name": call.name, "arguments": json.dumps(call.arguments)}}]},
    ):
        assert parse_tool_calls(json.dumps(record)) == ("", "", [call])


@settings(max_examples=400, deadline=None)
@given(st.text(st.sampled_from('{}[]"\\:,<>/tolcaname_ \n\x00\ud800') | st.characters(), max_size=60))
def test_anything_in_a_tag_is_calls_or_errors_and_never_an_empty_call(body):
    calls = parse_tool_calls(tag(body))[2]
    for call in calls:
        assert isinstance(call, (ToolCall, ToolCallError))
        if isinstance(call, ToolCall):
            assert "arguments" in body or "parameters" in body
