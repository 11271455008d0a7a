import copy
import pickle

import pytest

from agentgym_ttg.core import Completion, Message, ToolCall, Unicode

FIELDS = {"token_ids": [5, 9], "logprobs": [-0.5, -1.0], "prompt_ids": [1, 2, 3], "finish_reason": "length"}


def fields_of(said):
    return said.token_ids, said.logprobs, said.prompt_ids, said.finish_reason


@pytest.mark.parametrize(
    "clone", [copy.copy, copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c))], ids=["copy", "deepcopy", "pickle"]
)
def test_a_copy_keeps_text_type_and_fields(clone):
    said = Completion("go \ud800 \x00", **FIELDS)
    other = clone(said)
    assert type(other) is Completion
    assert other == said
    assert fields_of(other) == ((5, 9), (-0.5, -1.0), (1, 2, 3), "length")


def test_a_subclass_survives_a_pickle():
    assert type(pickle.loads(pickle.dumps(Loud("hi", token_ids=[1])))) is Loud


class Loud(Completion):
    pass


def test_equality_and_hash_are_those_of_the_text():
    said = Completion("go", token_ids=[1])
    assert said == "go"
    assert said == Completion("go", token_ids=[2, 3])
    assert hash(said) == hash("go")
    assert {said: 1}["go"] == 1


def test_it_is_a_string_everywhere():
    said = Completion("go", token_ids=[1])
    assert isinstance(said, str)
    assert said in Unicode()
    assert type(str(said)) is str
    assert type(said + " north") is str
    assert f"{said}" == "go"
    assert "tokens=1" in repr(said)


def test_the_ids_are_frozen_and_plain():
    import numpy as np

    ids = [np.int64(4)]
    said = Completion("x", token_ids=ids, logprobs=[np.float32(-0.5)])
    ids.append(5)
    assert said.token_ids == (4,)
    assert type(said.token_ids[0]) is int
    assert type(said.logprobs[0]) is float


@pytest.mark.parametrize("ids", [None, [1], [1, 2, 3]])
def test_log_probabilities_need_one_id_each(ids):
    with pytest.raises(ValueError, match="one log-probability for each token id"):
        Completion("x", token_ids=ids, logprobs=[-1.0, -2.0])


def test_an_empty_list_of_log_probabilities_needs_an_empty_list_of_ids():
    assert Completion("", token_ids=[], logprobs=[]).token_ids == ()
    with pytest.raises(ValueError, match="no ids"):
        Completion("", logprobs=[])


def test_truncated_is_the_token_limit_only():
    assert Completion("x", finish_reason="length").truncated
    assert not Completion("x", finish_reason="stop").truncated
    assert not Completion("x").truncated


def test_messages_round_trip_through_the_chat_form():
    message = Message("tool", "4", name="add", tool_call_id="c1")
    assert Message.from_dict(message.to_dict()) == message
    assert Message("user", "hi").to_dict() == {"role": "user", "content": "hi"}
    assert Message.from_dict({"role": "assistant", "content": None}).content == ""


@pytest.mark.parametrize("bad", [{"role": "robot", "content": "x"}, {"content": "x"}, {"role": "user", "content": [1]}])
def test_what_is_no_chat_message_is_refused(bad):
    with pytest.raises(ValueError, match="expected"):
        Message.from_dict(bad)


def test_a_rendered_call_keeps_any_characters():
    call = ToolCall("say", {"text": "</tool_call> naïve \u2028 {}"})
    from agentgym_ttg.core import parse_tool_calls

    assert parse_tool_calls(call.to_hermes())[2] == [call]
