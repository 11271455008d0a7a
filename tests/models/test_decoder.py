# ruff: noqa: E402 - imports behind importorskip
"""A kept cache gives what reading everything again gives, and reads less."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from agentgym_ttg.models import cached_decoder as module
from agentgym_ttg.models.decoder import CachedDecoder, Decoded, Decoder, DecodeRequest, ReencodingDecoder, make_decoder

VOCAB = 120
SIZE: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "initializer_range": 0.3,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 0,
}


def build(name: str, **more: Any) -> Any:
    torch.manual_seed(0)
    config, model = getattr(transformers, f"{name}Config"), getattr(transformers, f"{name}ForCausalLM", None)
    return (model or getattr(transformers, f"{name}LMHeadModel"))(config(**{**SIZE, **more})).eval()


MODELS: dict[str, Callable[[], Any]] = {
    "qwen3": lambda: build("Qwen3", head_dim=8),
    "qwen3-windows": lambda: build(
        "Qwen3", head_dim=8, use_sliding_window=True, sliding_window=16, max_window_layers=1
    ),
    "llama": lambda: build("Llama"),
    "mistral": lambda: build("Mistral", sliding_window=16),
    "gpt2": lambda: build("GPT2", n_embd=32, n_layer=2, n_head=4, n_positions=256),
}


def play(decoder: Decoder, *, turns: int = 3, temperature: float = 1.0, window: bool = False, seed: int = 0) -> Any:
    """Six ragged episodes of two groups; some sit out, one leaves. Returns what was asked and answered."""
    words = np.random.default_rng(7)
    opening = [words.integers(2, VOCAB, size).tolist() for size in (12, 15)]
    prompts = {f"e{i}": list(opening[i % 2]) for i in range(6)}
    rngs = {key: np.random.default_rng([seed, i]) for i, key in enumerate(prompts)}
    log: list[tuple[str, list[int], Decoded]] = []
    for turn in range(turns):
        draw = np.random.default_rng([1, turn])
        present = [key for i, key in enumerate(prompts) if not (i == 2 and turn > 1) and not (i == 3 and turn == 1)]
        present = [present[i] for i in draw.permutation(len(present))]
        requests = [
            DecodeRequest(key, prompts[key], rngs[key], 6, temperature, 0.9, group=str(int(key[1]) % 2))
            for key in present
        ]
        for request, answer in zip(requests, decoder.generate(requests), strict=True):
            log.append((request.key, list(request.prompt_ids), answer))
            new = draw.integers(2, VOCAB, int(draw.integers(1, 12))).tolist()
            prompts[request.key] = [*request.prompt_ids, *answer.token_ids, *new]
            if window and turn % 2:
                prompts[request.key] = prompts[request.key][:8] + prompts[request.key][20:]
    return log


def assert_same(first: Any, second: Any, tolerance: float = 2e-5) -> None:
    assert [(key, prompt, answer.token_ids) for key, prompt, answer in first] == [
        (key, prompt, answer.token_ids) for key, prompt, answer in second
    ]
    for (_, _, one), (_, _, two) in zip(first, second, strict=True):
        np.testing.assert_allclose(one.logprobs, two.logprobs, atol=tolerance)
        assert one.finish_reason == two.finish_reason


STOPS = list(range(2, 30))


@pytest.mark.parametrize("window", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_kept_cache_equals_reading_again(name: str, window: bool) -> None:
    model = MODELS[name]()
    kept = make_decoder(model, STOPS)
    assert isinstance(kept, CachedDecoder)
    assert_same(play(kept, window=window), play(ReencodingDecoder(model, STOPS), window=window))
    assert kept.tokens_read < 0.7 * kept.tokens_prompted


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_logprobs_are_those_of_one_plain_pass(temperature: float) -> None:
    model = MODELS["qwen3"]()
    for _, prompt, answer in play(CachedDecoder(model, STOPS), temperature=temperature):
        with torch.no_grad():
            logits = model(torch.tensor([prompt + answer.token_ids])).logits[0, len(prompt) - 1 : -1]
        plain = (logits / temperature).log_softmax(-1).gather(1, torch.tensor(answer.token_ids)[:, None])[:, 0]
        np.testing.assert_allclose(answer.logprobs, plain.numpy(), atol=1e-5)


def test_an_answer_does_not_depend_on_the_batch() -> None:
    model = MODELS["qwen3"]()
    together = play(CachedDecoder(model, STOPS))
    for key in ("e0", "e5"):
        lines = [(k, prompt, answer) for k, prompt, answer in together if k == key]
        alone = CachedDecoder(model, STOPS)
        rng = np.random.default_rng([0, int(key[1])])
        again = [(k, p, alone.generate([DecodeRequest(k, p, rng, 6, 1.0, 0.9)])[0]) for k, p, _ in lines]
        assert_same(lines, again)


@pytest.mark.parametrize("options", [{"max_cache_tokens": 100}, {"max_pass_tokens": 5}, {"max_cache_tokens": 1}])
def test_little_room_changes_nothing(options: dict[str, int]) -> None:
    model = MODELS["llama"]()
    small = CachedDecoder(model, STOPS, **options)
    assert_same(play(small), play(CachedDecoder(model, STOPS)))


def test_equal_first_prompts_are_read_once_also_by_latecomers() -> None:
    model = MODELS["qwen3"]()
    decoder = CachedDecoder(model, [])
    prompt = list(range(2, 42))

    def ask(key: str) -> DecodeRequest:
        return DecodeRequest(key, prompt, np.random.default_rng(0), 1, group="g")

    first = decoder.generate([ask("a"), ask("b"), ask("c")])
    assert decoder.tokens_read == 40
    late = decoder.generate([ask("d")])
    assert decoder.tokens_read == 41  # only the last token, for its logits
    assert {answer.token_ids[0] for answer in [*first, *late]} == {first[0].token_ids[0]}


def test_finished_rows_drop_out() -> None:
    model = MODELS["qwen3"]()
    sizes: list[int] = []
    handle = model.register_forward_pre_hook(
        lambda _, args, kwargs: sizes.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    decoder = CachedDecoder(model, [])
    rng = np.random.default_rng(3)
    requests = [DecodeRequest(str(n), [5, 6, 7, 8 + n], rng, max_tokens=n, group="g") for n in (4, 1, 3, 2)]
    lengths = [len(answer.token_ids) for answer in decoder.generate(requests)]
    handle.remove()
    assert lengths == [4, 1, 3, 2]
    assert sizes[-3:] == [4, 2, 1]  # one that has finished stays a while, because moving rows costs


def test_a_training_step_empties_the_cache() -> None:
    model = MODELS["qwen3"]()
    decoder = CachedDecoder(model, STOPS)
    play(decoder)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    model(torch.tensor([[3, 4, 5]]), labels=torch.tensor([[3, 4, 5]])).loss.backward()
    optimizer.step()
    assert_same(play(decoder), play(CachedDecoder(model, STOPS)))


def test_released_keys_start_anew() -> None:
    model = MODELS["qwen3"]()
    decoder = CachedDecoder(model, [])
    request = DecodeRequest("a", [4, 5, 6, 7, 8, 9], np.random.default_rng(0), 1)
    decoder.generate([request])
    decoder.release(["a", "never seen"])
    decoder.generate([request])
    assert decoder.tokens_read == 12
    decoder.reset()
    decoder.generate([request])
    assert decoder.tokens_read == 18


def test_training_mode_is_left_as_it_was_and_dropout_is_off() -> None:
    model = build("Llama", attention_dropout=0.9)
    model.train()
    assert_same(play(CachedDecoder(model, STOPS)), play(CachedDecoder(model, STOPS)))
    assert model.training


@pytest.mark.parametrize("kind", [CachedDecoder, ReencodingDecoder])
def test_the_context_is_a_limit(kind: Any) -> None:
    model = build("Qwen3", head_dim=8, max_position_embeddings=16)
    decoder = kind(model, [])
    rng = np.random.default_rng(0)
    sizes = [10, 15, 16, 40]
    answers = decoder.generate([DecodeRequest(str(n), list(range(2, n + 2)), rng, 4) for n in sizes])
    assert [len(answer.token_ids) for answer in answers] == [4, 1, 0, 0]
    assert {answer.finish_reason for answer in answers} == {"length"}


@pytest.mark.parametrize(
    "make",
    [
        lambda: build("Mamba", hidden_size=32, num_hidden_layers=2),
        lambda: build("Bloom", hidden_size=32, n_layer=2, n_head=4),
    ],
    ids=["recurrent", "positions-from-mask"],
)
def test_other_architectures_fall_back(make: Callable[[], Any]) -> None:
    model = make()
    decoder = make_decoder(model, STOPS)
    assert isinstance(decoder, ReencodingDecoder)
    for _, prompt, answer in play(decoder, turns=2):
        with torch.no_grad():
            logits = model(torch.tensor([prompt + answer.token_ids])).logits[0, len(prompt) - 1 : -1]
        plain = logits.log_softmax(-1).gather(1, torch.tensor(answer.token_ids)[:, None])[:, 0]
        np.testing.assert_allclose(answer.logprobs, plain.numpy(), atol=1e-4)


def test_what_cannot_be_asked() -> None:
    decoder = CachedDecoder(MODELS["qwen3"](), [])
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="at least one token"):
        decoder.generate([DecodeRequest("a", [], rng, 1)])
    with pytest.raises(ValueError, match="a key twice"):
        decoder.generate([DecodeRequest("a", [1], rng, 1), DecodeRequest("a", [1], rng, 1)])
    assert decoder.generate([]) == []


def test_memory_stays_flat_over_many_episodes() -> None:
    decoder = CachedDecoder(MODELS["qwen3"](), STOPS)
    held: list[int] = []
    for episode in range(6):
        play(decoder, turns=2, seed=episode)
        decoder.release([f"e{i}" for i in range(6)])
        held.append(decoder._cache.nbytes())
    assert len(set(held[1:])) == 1


def test_ragged_lengths_are_split_where_padding_costs_more_than_a_pass() -> None:
    assert module._buckets({0: 3, 1: 3, 2: 4}, 1000, 48) == [[2, 0, 1]]
    assert module._buckets({0: 300, 1: 3, 2: 4}, 1000, 48) == [[0], [2, 1]]
    assert module._buckets({0: 300, 1: 3, 2: 4}, 1000, 1000) == [[0, 2, 1]]
    assert module._buckets({0: 6, 1: 6, 2: 6}, 12, 48) == [[0, 1], [2]]
