import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_ttg.meter import Estimate
from agentgym_ttg.meter.answers import answer_pieces, format_answer, parse_answer


@settings(deadline=None)
@given(st.booleans(), st.integers(0, 10**9), st.sampled_from(["tokens", "normalized", "steps"]))
def test_what_is_written_is_read(can, value, target):
    text = f"thinking <answer>nonsense</answer> {format_answer(can, value, target)}\n"
    assert parse_answer(text, target) == Estimate(can, float(value) if can else None)


def test_both_classes_share_the_prefix_that_the_logit_is_read_behind():
    assert answer_pieces(True, 7)[0] == answer_pieces(False, None)[0] == '<answer>{"can_complete":'
    assert [answer_pieces(c, 7)[1] for c in (True, False)] == ["true", "false"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "nothing"),
        ('{"can_complete":true,"remaining_tokens":3}', "no block"),
        ('<answer>{"can_complete":true,"remaining_tokens":3}', "not closed"),
        ("<answer></answer>", "empty"),
        ("<answer>[true, 3]</answer>", "no object"),
        ('<answer>{"can_complete":"true","remaining_tokens":3}</answer>', "class is no bool"),
        ('<answer>{"can_complete":1,"remaining_tokens":3}</answer>', "class is a number"),
        ('<answer>{"remaining_tokens":3}</answer>', "no class"),
        ('<answer>{"can_complete":true}</answer>', "no number"),
        ('<answer>{"can_complete":true,"remaining_tokens":null}</answer>', "null"),
        ('<answer>{"can_complete":true,"remaining_tokens":-1}</answer>', "negative"),
        ('<answer>{"can_complete":true,"remaining_tokens":"3"}</answer>', "text"),
        ('<answer>{"can_complete":true,"remaining_tokens":true}</answer>', "bool"),
        ('<answer>{"can_complete":true,"remaining_tokens":3.5}</answer>', "fraction"),
        ('<answer>{"can_complete":true,"remaining_tokens":3.0}</answer>', "float, strict"),
        ('<answer>{"can_complete":true,"remaining_tokens":NaN}</answer>', "nan"),
        ('<answer>{"can_complete":true,"remaining_tokens":Infinity}</answer>', "infinite"),
        ('<answer>{"can_complete":true,"remaining_tokens":1' + "0" * 400 + "}</answer>", "not finite as a float"),
        ('<answer>{"can_complete":true,"remaining_tokens":' + "[" * 100_000 + "</answer>", "nested without end"),
        ('<answer>{"can_complete":true,"remaining_steps":3}</answer>', "another key"),
        ('<answer>{"can_complete":true,"remaining_tokens":3}</answer> no: <answer>?</answer>', "the last block counts"),
    ],
)
def test_what_cannot_be_read_is_invalid_and_never_guessed(text, why):
    assert parse_answer(text) == Estimate.invalid(), why


def test_lenient_rows_of_the_specification():
    zero = '<answer>{"can_complete":true,"remaining_tokens":0}</answer>'
    assert parse_answer(zero) == Estimate(True, 0.0)
    denied = '<answer>{"can_complete":false,"remaining_tokens":55}</answer>'
    assert parse_answer(denied) == Estimate(False, None)
    floating = '<answer> {"can_complete": true, "remaining_tokens": 3.0} </answer>'
    assert parse_answer(floating, integer_floats=True) == Estimate(True, 3.0)
    assert not parse_answer(floating.replace("3.0", "3.5"), integer_floats=True).valid
    assert parse_answer("<answer><answer>" + format_answer(True, 4).removeprefix("<answer>")).remaining_tokens == 4


@settings(deadline=None)
@given(st.text())
def test_hostile_text_never_raises(text):
    for candidate in (text, f"<answer>{text}</answer>", f'<answer>{{"can_complete":{text}}}</answer>'):
        estimate = parse_answer(candidate)
        assert estimate.valid or estimate == Estimate.invalid()
