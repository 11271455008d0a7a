"""A toy domain whose Token-to-Go can be read off its text, and a tiny language model that can read it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from agentgym_ttg.core import Completion, Message, Trajectory, Turn
from agentgym_ttg.meter.answers import format_answer

CHAT_TEMPLATE = (
    "{%- for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{%- endfor %}{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{%- endif %}"
)


def play(task: int, policy: str, rng: np.random.Generator, max_steps: int = 12) -> Trajectory:
    """Walk a corridor: ``task`` fixes the distance; the noisy policy errs and may fall into a pit (no way out)."""
    noise = {"good": 0.05, "noisy": 0.35, "lost": 0.7}[policy]
    at, goal, pit = 0, 2 + task % 5, False
    turns: list[Turn] = []
    text = f"You are at place 0. Your task is to: reach place {goal}."
    outcome = "truncated"
    for _ in range(max_steps):
        roll = rng.random()
        move = "walk on" if roll >= noise else ("walk back" if roll > noise / 3 else "jump down")
        tokens = {"walk on": 3, "walk back": 4, "jump down": 5}[move]
        messages = (Message("user", text),)
        if not pit:
            if move == "walk on":
                at += 1
            elif move == "walk back":
                at = max(0, at - 1)
            else:
                pit = True
        text = "You sit in a pit." if pit else f"You are at place {at}."
        done = not pit and at >= goal
        turns.append(Turn(messages, Completion(move), text, float(done), tokens, anchor=f"{at}{pit}"))
        if done:
            outcome = "success"
            break
    return Trajectory("toy/Corridor-v0", f"corridor/{task:03d}", policy, turns, outcome, float(outcome == "success"))


@pytest.fixture(scope="session")
def corridor() -> Callable[..., list[Trajectory]]:
    def make(tasks: int, *, seed: int = 0, policies: tuple[str, ...] = ("good", "noisy", "lost")) -> list[Trajectory]:
        rng = np.random.default_rng(seed)
        return [play(task, policy, rng) for task in range(tasks) for policy in policies]

    return make


@pytest.fixture(scope="session")
def tiny_lm(tmp_path_factory: pytest.TempPathFactory, corridor: Callable[..., list[Trajectory]]) -> Path:
    """A Qwen3-architecture model of 0.1M parameters with a chat template, saved like any other."""
    torch = pytest.importorskip("torch", reason="a language model needs torch")
    transformers = pytest.importorskip("transformers", reason="a language model needs transformers")
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    text = [turn.observation for trajectory in corridor(20) for turn in trajectory.turns]
    text += [str(turn.completion) for trajectory in corridor(20) for turn in trajectory.turns]
    text += [format_answer(True, 17)] * 20 + [format_answer(False, None)] * 20
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=specials, initial_alphabet=alphabet)
    backend.train_from_iterator(text, trainer)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=CHAT_TEMPLATE
    )
    config = transformers.Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=48,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=24,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("tiny-lm")
    transformers.Qwen3ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
