r"""The built-in tiny model: Qwen3 architecture, about a million parameters, and a tokenizer made for its environment.

A small model learns to copy ``cabinet 3`` late if that is several tokens. So the tokenizer is made from the
environment's own text: an entity with its number is ONE token, and whole phrases (``You arrive at ``, ``. On the ``)
are one token across their spaces, which makes an action two to four tokens. All 256 bytes are tokens as well, so any
text is encoded and decoded without loss.

It is a unigram tokenizer over bytes whose pieces all cost the same: text is cut into the fewest pieces. The phrases are
those that byte-pair merging finds, as far as the text really uses them, and none of them runs across the name of an
entity's kind: ``put some keychain on dresser`` has ``keychain`` and ``dresser`` as tokens.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE, Unigram
from tokenizers.trainers import BpeTrainer
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from agentgym_ttg.core.errors import ConfigError

__all__ = ["TINY_TEMPLATE", "TinyConfig", "build_tokenizer", "make_tiny_model"]

#: One token opens a message and names its role; only the assistant's is closed, because only that is sampled.
TINY_TEMPLATE = (
    "{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] }}"
    "{{ '<|end|>' if message['role'] == 'assistant' else '' }}{% endfor %}"
    "{{ '<|assistant|>' if add_generation_prompt else '' }}"
)

_SPECIAL = ("<|pad|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>")
_NUMBERED = re.compile(r"\b([a-z]+) \d+\b")
#: A piece must occur this often to be a token.
_MIN_COUNT = 3
_CANDIDATES = 8192


@dataclass(frozen=True, slots=True)
class TinyConfig:
    """Shape of the tiny model.

    Attributes:
        hidden: Width.
        layers: Decoder layers.
        heads: Attention heads; keys and values have as many, which spares copying them.
        feed_forward: Width of the gated feed-forward layer.
        vocab: Most tokens of the tokenizer; the model has as many as the tokenizer comes to.
        context: Longest conversation, in tokens.
    """

    hidden: int = 128
    layers: int = 4
    heads: int = 4
    feed_forward: int = 320
    vocab: int = 2048
    context: int = 2048


def build_tokenizer(texts: Iterable[str], vocab_size: int = 2048) -> PreTrainedTokenizerFast:
    """Make a tokenizer from an environment's text.

    The same texts in the same order give the same tokenizer.

    Args:
        texts: Observations and actions.
        vocab_size: Most tokens: special ones, 256 bytes, entities by frequency, then phrases by what they save.

    Returns:
        A fast tokenizer of transformers with a minimal chat template (:data:`TINY_TEMPLATE`).

    Raises:
        ConfigError: If ``vocab_size`` does not even hold the bytes.

    >>> tokenizer = build_tokenizer(["You arrive at cabinet 3. On the cabinet 3, you see a mug 1."] * 9, 400)
    >>> tokenizer.tokenize("go to cabinet 3")[-1], tokenizer.decode(tokenizer.encode("Ünïcode 🙂 7"))
    ('cabinetĠ3', 'Ünïcode 🙂 7')
    """
    room = vocab_size - len(_SPECIAL) - 256
    if room < 0:
        raise ConfigError(f"expected vocab_size >= {len(_SPECIAL) + 256} (special tokens and bytes), got {vocab_size}")
    texts = list(texts)
    named = Counter(kind for text in texts for kind in _NUMBERED.findall(text))
    cutter = _cutter(sorted(kind for kind, count in named.items() if count >= _MIN_COUNT))
    pieces = Counter(piece for text in texts for piece, _ in cutter.pre_tokenize_str(text))
    is_name = re.compile("(?:" + "|".join(map(re.escape, named)) + r")(?:Ġ\d+)?").fullmatch
    names = Counter({piece: n for piece, n in pieces.items() if n >= _MIN_COUNT and is_name(piece)})
    phrases = Counter({piece: n for piece, n in pieces.items() if not is_name(piece)})
    tokens = [piece for piece, _ in _by_count(names)][:room]
    tokens += _phrases(phrases, room - len(tokens))
    tokenizer = _unigram(tokens)
    tokenizer.pre_tokenizer = cutter
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in _SPECIAL])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|end|>",
        pad_token="<|pad|>",
        additional_special_tokens=list(_SPECIAL[2:]),
        clean_up_tokenization_spaces=False,
        model_input_names=["input_ids", "attention_mask"],
    )
    fast.chat_template = TINY_TEMPLATE
    # How servers of transformers cut an answer out; what they would guess from the architecture is another format.
    fast.response_template = {
        "defaults": {"role": "assistant"},
        "start_anchor": ["<|assistant|>"],
        "fields": {"content": {"close": ["<|end|>"], "content": "text"}},
    }
    return fast


def make_tiny_model(tokenizer: Any, config: TinyConfig | None = None, *, seed: int = 0) -> Qwen3ForCausalLM:
    """Make a randomly initialised model for a tokenizer; float32, tied embeddings.

    Args:
        tokenizer: Of :func:`build_tokenizer`.
        config: Shape.
        seed: Of the initial weights; the global random state of torch is left as it was.

    >>> model = make_tiny_model(build_tokenizer(["go to desk 1"], 300))
    >>> model.config.vocab_size, model.num_parameters() < 1_000_000
    (262, True)
    """
    config = config or TinyConfig()
    settings = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=config.hidden,
        intermediate_size=config.feed_forward,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        num_key_value_heads=config.heads,
        head_dim=config.hidden // config.heads,
        max_position_embeddings=config.context,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        dtype="float32",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen3ForCausalLM(settings)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    return model


# Tokens ---------------------------------------------------------------------------------------------------------------


def _cutter(kinds: Sequence[str]) -> Any:
    """Cut out entities, names of their kinds, and line breaks; then write bytes as printable characters."""
    known = "".join(f"{kind}|" for kind in sorted(kinds, key=lambda kind: (-len(kind), kind)))
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(rf"\b(?:(?:{known}[a-z]+) \d+|(?:{known[:-1] or r'$^'}))\b"), "isolated"),
            pre_tokenizers.Split(Regex(r"\n+"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


def _by_count(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _bytes() -> list[str]:
    return sorted(pre_tokenizers.ByteLevel.alphabet())


def _unigram(tokens: Iterable[str]) -> Tokenizer:
    vocab = [*_bytes(), *(token for token in tokens if len(token) > 1)]
    return Tokenizer(Unigram([(token, -1.0) for token in vocab], unk_id=None, byte_fallback=False))


def _phrases(counts: Counter[str], room: int) -> list[str]:
    """Return the phrases worth a token, most used first."""
    if room <= 0 or not counts:
        return []
    trainer = BpeTrainer(
        vocab_size=_CANDIDATES, min_frequency=_MIN_COUNT, show_progress=False, initial_alphabet=_bytes()
    )
    merged = Tokenizer(BPE())
    # The trainer counts what it is given; weighted repetition would be slow, so each piece comes as often as it occurs.
    merged.train_from_iterator((piece for piece, n in _by_count(counts) for _ in range(n)), trainer)
    # Keep what the fewest-pieces cut really uses; dropping the rest changes the cut, so look again.
    kept = sorted(token for token in merged.get_vocab() if len(token) > 1)
    for _ in range(3):
        used = _usage(kept, counts)
        worth = [token for token in used if used[token] >= _MIN_COUNT]
        kept = sorted(worth, key=lambda token: (-used[token] * (len(token) - 1), token))[:room]
    return kept


def _usage(tokens: list[str], counts: Counter[str]) -> Counter[str]:
    model = _unigram(tokens)
    used: Counter[str] = Counter()
    for piece, count in counts.items():
        for token in model.encode(piece, add_special_tokens=False).tokens:
            if len(token) > 1:
                used[token] += count
    return used


def tokenizer_json(tokenizer: Any) -> str:
    """Return the canonical JSON of a tokenizer, for hashing."""
    return json.dumps(json.loads(tokenizer.backend_tokenizer.to_str()), sort_keys=True)
