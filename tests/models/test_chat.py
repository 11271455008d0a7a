"""Prompts of ids that only grow, whatever the chat template."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("transformers")

from agentgym_ttg.core.errors import ConfigError
from agentgym_ttg.core.messages import Message
from agentgym_ttg.models.chat import ChatBridge
from agentgym_ttg.models.tiny import build_tokenizer

# Templates with the habits of well-known families, in short.
CHATML = (
    "{% if tools %}<|tools|>{% for t in tools %}{{ t['name'] }};{% endfor %}\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# Drops the reasoning of every assistant message that a user message follows.
FORGETS_REASONING = (
    "{% for m in messages %}{% set c = m['content'] %}"
    "{% if m['role'] == 'assistant' and not loop.last and '</think>' in c %}{% set c = c.split('</think>')[-1] %}"
    "{% endif %}<|im_start|>{{ m['role'] }}\n{{ c }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# Trims contents, has headers, knows tools as another role.
TRIMS = (
    "<|begin|>{% for m in messages %}<|header|>{{ 'ipython' if m['role'] == 'tool' else m['role'] }}<|/header|>\n\n"
    "{{ m['content'] | trim }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|header|>assistant<|/header|>\n\n{% endif %}"
)
# Neither system nor tool, and roles must alternate.
ALTERNATES = (
    "{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate user/assistant') }}{% endif %}"
    "<|im_start|>{{ 'model' if m['role'] == 'assistant' else 'user' }}\n{{ m['content'] | trim }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>model\n{% endif %}"
)
TEMPLATES = {
    "tiny": "",
    "chatml": CHATML,
    "forgets": FORGETS_REASONING,
    "trims": TRIMS,
    "alternates": ALTERNATES,
    "plain": None,
}


def bridge_for(name: str) -> ChatBridge:
    tokenizer = build_tokenizer(["You arrive at desk 1.", "go to desk 1"] * 4, 400)
    marks = ["<|im_start|>", "<|im_end|>", "<|header|>", "<|/header|>", "<|begin|>"]
    tokenizer.add_special_tokens({"additional_special_tokens": marks}, replace_extra_special_tokens=False)
    if TEMPLATES[name] != "":
        tokenizer.chat_template = TEMPLATES[name]
    if name not in ("tiny", "plain"):
        tokenizer.eos_token = "<|im_end|>"
    return ChatBridge(tokenizer)


@pytest.mark.parametrize("name", TEMPLATES)
def test_appending_gives_what_the_template_renders(name: str) -> None:
    bridge = bridge_for(name)
    asked = [Message("user", "You arrive at desk 1.")]
    new = [Message("user", "You arrive at desk 2.")]
    said = bridge.encode("go to desk 2")
    assert bridge.end_of_turn_id is not None
    ids = [*bridge.first_prompt(asked), *said, bridge.end_of_turn_id, *bridge.extend(new, completion_ended=True)]
    assert ids == bridge.first_prompt([*asked, Message("assistant", "go to desk 2"), *new])


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_completion_that_was_cut_off_is_closed(name: str) -> None:
    bridge = bridge_for(name)
    new = [Message("user", "Nothing happens.")]
    ended, cut = bridge.extend(new, completion_ended=True), bridge.extend(new, completion_ended=False)
    assert cut == [bridge.end_of_turn_id, *ended]


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_end_of_turn_is_a_stop_and_not_part_of_the_text(name: str) -> None:
    bridge = bridge_for(name)
    assert bridge.end_of_turn_id in bridge.stop_ids
    ids = bridge.encode("go to desk 1")
    assert bridge.decode([*ids, bridge.stop_ids[0]]) == bridge.decode(ids) == "go to desk 1"


def test_earlier_reasoning_stays_in_the_prompt_although_the_template_would_drop_it() -> None:
    bridge = bridge_for("forgets")
    asked, new = [Message("user", "Where?")], [Message("user", "No.")]
    said = "<think>the desk</think>go to desk 1"
    whole = bridge.tokenizer.decode(bridge.first_prompt([*asked, Message("assistant", said), *new]))
    assert "the desk" not in whole
    ids = bridge.first_prompt(asked) + bridge.encode(said) + bridge.extend(new, completion_ended=False)
    assert "the desk" in bridge.tokenizer.decode(ids)


def test_roles_that_a_template_does_not_know_are_carried_by_others() -> None:
    bridge = bridge_for("alternates")
    prompt = bridge.tokenizer.decode(bridge.first_prompt([Message("system", "Be brief."), Message("user", "Hello.")]))
    assert "Be brief.\n\nHello." in prompt
    after = bridge.tokenizer.decode(bridge.extend([Message("tool", "42", name="add"), Message("user", "So?")], True))
    assert "42" in after
    assert "So?" in after
    assert bridge.first_prompt([Message("system", "Be brief.")])


def test_tools_reach_the_template() -> None:
    bridge = bridge_for("chatml")
    prompt = bridge.first_prompt([Message("user", "Hi.")], [{"name": "add"}, {"name": "sub"}])
    assert "<|tools|>add;sub;" in bridge.tokenizer.decode(prompt)


def test_a_text_that_looks_like_the_stand_in_does_no_harm() -> None:
    bridge = bridge_for("chatml")
    text = "Standin7309 Probe4821"
    assert text in bridge.tokenizer.decode(bridge.extend([Message("user", text)], True))


def test_templates_that_cannot_work_are_refused() -> None:
    tokenizer = build_tokenizer(["go"], 300)
    tokenizer.chat_template = "{% for m in messages if m['role'] == 'user' %}{{ m['content'] }}{% endfor %}"
    with pytest.raises(ConfigError, match="leaves out what the assistant said"):
        ChatBridge(tokenizer)
    tokenizer.chat_template = "{{ raise_exception('never') }}"
    with pytest.raises(ConfigError, match="never"):
        ChatBridge(tokenizer)
    with pytest.raises(ConfigError, match="at least one message"):
        bridge_for("chatml").extend([], True)


def test_variables_of_the_template_can_be_set() -> None:
    tokenizer = build_tokenizer(["go"], 300)
    tokenizer.chat_template = tokenizer.chat_template + "{{ '<quiet>' if quiet else '' }}"
    bridge = ChatBridge(tokenizer, {"quiet": True})
    assert bridge.tokenizer.decode(bridge.extend([Message("user", "x")], True)).endswith("<quiet>")


BRIDGES = {name: bridge_for(name) for name in ("tiny", "chatml")}


@pytest.mark.parametrize("name", BRIDGES)
@given(text=st.text(max_size=60))
@settings(max_examples=60, deadline=None)
def test_any_observation_is_taken_and_ids_round_trip(name: str, text: str) -> None:
    bridge = BRIDGES[name]
    ids = bridge.extend([Message("user", text)], completion_ended=True)
    assert ids == bridge.extend([Message("user", text)], completion_ended=True)
    shown = bridge.tokenizer.decode(ids)
    clean = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert clean in shown
