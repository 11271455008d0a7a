# ruff: noqa: E402 - imports behind importorskip
"""The tiny model and its tokenizer."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="the extra 'train' is not installed")
transformers = pytest.importorskip("transformers", reason="the extra 'train' is not installed")

from agentgym_ttg.core.errors import ConfigError
from agentgym_ttg.models.tiny import TinyConfig, build_tokenizer, make_tiny_model, tokenizer_json

TEXTS = [
    f"You arrive at {place} {n}. On the {place} {n}, you see a {thing} {n}.\n\n"
    f"Your task is to: put a {thing} on {place}."
    for place in ("countertop", "sidetable")
    for thing in ("apple", "soapbar")
    for n in range(1, 5)
] + [f"take {thing} {n} from countertop 1" for thing in ("apple", "soapbar") for n in range(1, 5)] * 3

TOKENIZER = build_tokenizer(TEXTS, 420)


def test_an_entity_with_its_number_is_one_token_and_an_action_few() -> None:
    assert TOKENIZER.tokenize("countertop 3") == ["countertopĠ3"]
    assert TOKENIZER.tokenize("take apple 2 from countertop 1") == ["takeĠ", "appleĠ2", "ĠfromĠ", "countertopĠ1"]


def test_a_kind_is_its_own_token_in_the_goal() -> None:
    tokens = TOKENIZER.tokenize("Your task is to: put a apple on sidetable.")
    assert "apple" in tokens
    assert "sidetable" in tokens
    assert len(tokens) <= 5


@given(st.text(max_size=80))
@settings(max_examples=200, deadline=None)
def test_any_text_round_trips(text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    ids = TOKENIZER.encode(text, add_special_tokens=False)
    assert TOKENIZER.decode(ids, clean_up_tokenization_spaces=False) == text


@pytest.mark.parametrize(
    "text", ["<0x41>", "cabinet 33", "a\u2028b\x00\r\n", " leading", "Ġ", "countertop 3countertop 4"]
)
def test_awkward_text_round_trips(text: str) -> None:
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == text


def test_the_same_texts_give_the_same_tokenizer() -> None:
    assert tokenizer_json(build_tokenizer(TEXTS, 420)) == tokenizer_json(TOKENIZER)


def test_the_size_is_a_limit_and_too_small_a_one_is_refused() -> None:
    assert len(build_tokenizer(TEXTS, 280)) <= 280
    assert len(build_tokenizer([], 280)) == 262
    with pytest.raises(ConfigError, match="vocab_size >= 262"):
        build_tokenizer(TEXTS, 261)


def test_tokenizer_and_model_are_saved_like_any_other(tmp_path: Path) -> None:
    model = make_tiny_model(TOKENIZER, TinyConfig(hidden=32, layers=2, feed_forward=48), seed=3).eval()
    model.save_pretrained(tmp_path)
    TOKENIZER.save_pretrained(tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    chat = [{"role": "user", "content": TEXTS[0]}]
    assert tokenizer.apply_chat_template(chat, tokenize=False) == TOKENIZER.apply_chat_template(chat, tokenize=False)
    ids = TOKENIZER.encode(TEXTS[0])
    assert tokenizer.encode(TEXTS[0]) == ids
    assert (tokenizer.eos_token, tokenizer.pad_token) == ("<|end|>", "<|pad|>")
    assert type(again).__name__ == "Qwen3ForCausalLM"
    assert again.generation_config.eos_token_id == tokenizer.eos_token_id
    with torch.no_grad():
        assert torch.equal(model(torch.tensor([ids])).logits, again(torch.tensor([ids])).logits)


def test_initial_weights_follow_the_seed_alone() -> None:
    shape = TinyConfig(hidden=32, layers=1, feed_forward=48)
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    one, two, other = (make_tiny_model(TOKENIZER, shape, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    assert not torch.equal(one.lm_head.weight, other.lm_head.weight)


def test_the_default_shape_is_about_a_million_parameters() -> None:
    vocabulary = type("Vocabulary", (), {"__len__": lambda self: 2048, "eos_token_id": 1, "pad_token_id": 0})()
    assert 0.7e6 < make_tiny_model(vocabulary).num_parameters() < 1.3e6
