# ruff: noqa: E402 - imports behind importorskip
"""Behaviour cloning of demonstrations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra 'train' is not installed")
pytest.importorskip("transformers", reason="the extra 'train' is not installed")

from agentgym_ttg.agents.policies import GenerationRequest, HFPolicy, SamplingParams
from agentgym_ttg.agents.warm_start import WarmStartConfig, cloning_rows, demonstrations_hash, train_warm_start
from agentgym_ttg.core.completion import Completion
from agentgym_ttg.core.errors import ConfigError
from agentgym_ttg.core.messages import Message
from agentgym_ttg.core.trajectory import Trajectory, Turn
from agentgym_ttg.models.chat import ChatBridge
from agentgym_ttg.models.loading import load_causal_lm
from agentgym_ttg.models.tiny import TinyConfig
from agentgym_ttg.wrappers.chat import PromptBuilder

SMALL = WarmStartConfig(
    updates=120,
    batch_size=8,
    learning_rate=4e-3,
    tiny=TinyConfig(hidden=48, layers=2, heads=2, feed_forward=96, vocab=320, context=256),
)


def demonstration(index: int) -> Trajectory:
    """Carry the cup that is seen to the desk that is seen."""
    cup, desk = index % 3 + 1, index % 2 + 1
    asks = [f"You see a cup {cup}.", f"You hold it and see a desk {desk}."]
    says = [f"take cup {cup}", f"put it on desk {desk}"]
    turns = [Turn((Message("user", ask),), Completion(say)) for ask, say in zip(asks, says, strict=True)]
    return Trajectory("toy", f"t{index}", "expert", turns, "success")


DEMOS = [demonstration(index) for index in range(24)]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[tuple[int, int, dict[str, float]]]]:
    folder = tmp_path_factory.mktemp("made")
    seen: list[tuple[int, int, dict[str, float]]] = []
    train_warm_start(DEMOS, SMALL, folder, lambda *now: seen.append(now), made_of={"env": "toy"})
    return folder, seen


def test_the_clone_acts_as_shown(made: Any) -> None:
    policy = HFPolicy(load_causal_lm(str(made[0]), device="cpu"))
    chats = [list(demo.turns[0].messages) for demo in DEMOS[:6]]
    for step in range(2):
        requests = [
            GenerationRequest(str(i), tuple(chat), {}, np.random.default_rng(0), SamplingParams(0.0, 1.0, 12))
            for i, chat in enumerate(chats)
        ]
        said = policy.generate(requests)
        assert said == [demo.turns[step].completion for demo in DEMOS[:6]]
        assert {completion.finish_reason for completion in said} == {"stop"}
        if step == 0:
            for chat, completion, demo in zip(chats, said, DEMOS, strict=False):
                chat += [Message("assistant", str(completion)), *demo.turns[1].messages]


def test_progress_and_note_say_what_was_done(made: Any) -> None:
    folder, seen = made
    assert [done for done, _, _ in seen] == list(range(1, 121))
    assert {total for _, total, _ in seen} == {120}
    assert seen[-1][2]["loss"] < seen[0][2]["loss"] / 2
    note = json.loads((folder / "warm_start.json").read_text())
    assert (note["env"], note["demonstrations"], note["rows"]) == ("toy", 24, 24)
    assert note["demonstrations_hash"] == demonstrations_hash(DEMOS)
    assert note["config"]["updates"] == 120
    assert json.loads((folder / "config.json").read_text())["dtype"] == "bfloat16"


def test_the_same_demonstrations_give_the_same_weights(made: Any, tmp_path: Path) -> None:
    first = json.loads((made[0] / "warm_start.json").read_text())
    torch.manual_seed(99)
    train_warm_start(DEMOS, SMALL, tmp_path)
    again = json.loads((tmp_path / "warm_start.json").read_text())
    assert again["weights_hash"] == first["weights_hash"]
    assert (tmp_path / "tokenizer.json").read_text() == (made[0] / "tokenizer.json").read_text()


def test_a_base_model_keeps_its_tokenizer_and_learns(made: Any) -> None:
    base = load_causal_lm(str(made[0]), device="cpu")
    vocabulary = base.tokenizer.get_vocab()
    other = [Trajectory("toy", "x", "expert", [Turn((Message("user", "You see a cup 1."),), Completion("look"))])] * 8
    short = WarmStartConfig(updates=40, batch_size=8, learning_rate=1e-2)
    policy = HFPolicy(train_warm_start(other, short, base=base))
    assert policy.loaded.tokenizer.get_vocab() == vocabulary
    request = GenerationRequest("e", other[0].turns[0].messages, {}, np.random.default_rng(0), SamplingParams(0.0))
    assert policy.generate([request]) == ["look"]


def test_rows_are_what_the_policy_reads_and_says(made: Any) -> None:
    bridge = ChatBridge(load_causal_lm(str(made[0]), device="cpu").tokenizer)
    (row,) = cloning_rows(DEMOS[0], bridge, PromptBuilder())
    chat = [message for turn in DEMOS[0].turns for message in (*turn.messages, Message("assistant", turn.completion))]
    end = bridge.end_of_turn_id
    assert row.ids == [*bridge.first_prompt(chat)[:-1]]  # without the header of a further message
    said = bridge.tokenizer.decode([i for i, own in zip(row.ids, row.said, strict=True) if own])
    assert said == "take cup 1<|end|>put it on desk 1<|end|>"
    assert row.ids.count(end) == 2


def test_windowed_prompts_are_rows_of_their_own(made: Any) -> None:
    bridge = ChatBridge(load_causal_lm(str(made[0]), device="cpu").tokenizer)
    prompt = PromptBuilder("windowed", history_length=1)
    rows = cloning_rows(DEMOS[0], bridge, prompt)
    assert len(rows) == 2
    prompt.start(DEMOS[0].turns[0].messages)
    prompt.push("take cup 1", DEMOS[0].turns[1].messages)
    assert rows[1].ids[: rows[1].said.index(True)] == bridge.first_prompt(prompt.prompt())


def test_nothing_to_learn_from_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least one turn"):
        train_warm_start([])
    with pytest.raises(ConfigError, match="at least one turn"):
        train_warm_start([Trajectory("toy", "t")])


def test_the_hash_is_of_what_was_said() -> None:
    other = demonstration(0)
    assert demonstrations_hash([other]) == demonstrations_hash(DEMOS[:1])
    other.metadata["clock"] = 12
    assert demonstrations_hash([other]) == demonstrations_hash(DEMOS[:1])
    other.turns[0].completion = Completion("take cup 2")
    assert demonstrations_hash([other]) != demonstrations_hash(DEMOS[:1])


def test_what_the_environment_refused_is_read_but_not_imitated(made: Any) -> None:
    bridge = ChatBridge(load_causal_lm(str(made[0]), device="cpu").tokenizer)
    demo = demonstration(0)
    stumble = Turn(demo.turns[0].messages, Completion("take cup 9"), valid=False)
    again = Turn((Message("user", "Nothing happens."),), demo.turns[0].completion)
    (row,) = cloning_rows(Trajectory("toy", "t", turns=[stumble, again]), bridge, PromptBuilder())
    assert "take cup 9<|end|>" in bridge.tokenizer.decode(row.ids)
    said = bridge.tokenizer.decode([i for i, own in zip(row.ids, row.said, strict=True) if own])
    assert said == "take cup 1<|end|>"
