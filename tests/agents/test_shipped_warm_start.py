# ruff: noqa: E402 - imports behind importorskip
"""The warm start that ships with the package."""

from __future__ import annotations

import hashlib
import json

import gymnasium as gym
import pytest

torch = pytest.importorskip("torch", reason="the extra 'train' is not installed")
pytest.importorskip("transformers", reason="the extra 'train' is not installed")

import agentgym_ttg  # noqa: F401 - registers the environments
from agentgym_ttg.agents.policies import HFPolicy, SamplingParams
from agentgym_ttg.agents.rollout import RolloutEngine, group_specs
from agentgym_ttg.agents.warm_start_cache import made_of
from agentgym_ttg.envs.vector import make_vector_env
from agentgym_ttg.models.loading import ASSETS, load_causal_lm
from agentgym_ttg.wrappers.chat import PromptBuilder

FOLDER = ASSETS / "alfworld_easy"
NOTE = json.loads((FOLDER / "warm_start.json").read_text())
ENV = "agentgym_ttg/ALFWorld-v0"


def test_it_is_small_and_what_its_note_says() -> None:
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) <= 3_000_000
    digest = hashlib.blake2b((FOLDER / "model.safetensors").read_bytes(), digest_size=16).hexdigest()
    assert NOTE["weights_hash"] == digest
    assert NOTE["source"] == "agentgym_ttg.agents.warm_start"


def test_it_fits_the_default_run() -> None:
    probe = gym.make(ENV, split="train", data="built-in").unwrapped
    wanted = made_of(ENV, probe, PromptBuilder())
    assert {name: NOTE.get(name) for name in wanted} == wanted


def test_an_action_is_a_few_tokens_and_anything_can_be_read() -> None:
    tokenizer = load_causal_lm(str(FOLDER), device="cpu").tokenizer
    assert len(tokenizer.encode("go to cabinet 2")) == 2
    assert len(tokenizer.encode("move apple 1 to fridge 1")) <= 5
    text = "Ünïcode 🙂 <0x41>\u2028 fridge 12345"
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_it_is_weak_but_not_blind() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    envs = make_vector_env(ENV, 32, split="valid_seen", data="built-in", max_steps=25)
    try:
        engine = RolloutEngine(
            envs,
            HFPolicy(load_causal_lm(str(FOLDER), device="cpu")),
            env_id=ENV,
            sampling=SamplingParams(temperature=0.0, max_tokens=16),
        )
        done = [
            finished.trajectory for finished in engine.run(group_specs(list(envs.tasks[:32]), size=1, seed=0, name="t"))
        ]
    finally:
        envs.close()
        torch.set_num_threads(threads)
    assert 0.1 <= sum(trajectory.success for trajectory in done) / 32 <= 0.8
