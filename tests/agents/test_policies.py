"""Scripted policies, and a local model as a policy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from agentgym_ttg.agents.policies import (
    ExpertPolicy,
    GenerationRequest,
    HFPolicy,
    NoisyExpertPolicy,
    Policy,
    RandomPolicy,
    SamplingParams,
)
from agentgym_ttg.core.actions import TagFormat
from agentgym_ttg.core.errors import ConfigError, PolicyError
from agentgym_ttg.core.messages import Message

INFO = {
    "task_id": "t",
    "admissible_actions": ["look", "wait", "go"],
    "expert_action": "<think></think><action>go</action>",
}


def request(info: dict[str, Any], seed: int = 0, episode: str = "e") -> GenerationRequest:
    return GenerationRequest(episode, [Message("user", "Hi.")], info, np.random.default_rng(seed))


def test_random_actions_are_admissible_in_the_environments_form_and_follow_the_seed() -> None:
    policy = RandomPolicy(TagFormat())
    said = [policy.generate([request(INFO, seed)])[0] for seed in range(40)]
    assert {TagFormat().parse(text).command for text in said} == {"look", "wait", "go"}
    assert said == [policy.generate([request(INFO, seed)])[0] for seed in range(40)]


def test_the_expert_says_what_the_environment_proposes() -> None:
    assert ExpertPolicy().generate([request(INFO)] * 2) == [INFO["expert_action"]] * 2


@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_the_noisy_expert_errs_as_often_as_it_should(p: float) -> None:
    policy = NoisyExpertPolicy(p, TagFormat())
    said = policy.generate([request(INFO, seed) for seed in range(3000)])
    off_course = np.mean([TagFormat().parse(text).command != "go" for text in said])
    assert off_course == pytest.approx(p * 2 / 3, abs=0.03)
    assert policy.name == f"noisy:{p:g}"


def test_what_scripted_policies_miss_is_said() -> None:
    with pytest.raises(PolicyError, match="expert=True"):
        ExpertPolicy().generate([request({"task_id": "t", "expert_action": ""})])
    with pytest.raises(PolicyError, match="does not list its actions"):
        RandomPolicy().generate([request({"task_id": "t"})])
    with pytest.raises(ConfigError, match=r"\[0, 1\]"):
        NoisyExpertPolicy(1.5)


# A local model --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def loaded() -> Any:
    torch = pytest.importorskip("torch", reason="the extra 'train' is not installed")
    pytest.importorskip("transformers", reason="the extra 'train' is not installed")
    from agentgym_ttg.models import LoadedModel, TinyConfig, build_tokenizer, make_tiny_model

    tokenizer = build_tokenizer(["You arrive at desk 1.", "go to desk 1", "Nothing happens."] * 4, 320)
    model = make_tiny_model(tokenizer, TinyConfig(hidden=32, layers=2, feed_forward=48, context=192), seed=1)
    with torch.no_grad():  # livelier than a fresh model: sharper and able to end
        for parameter in model.parameters():
            parameter.mul_(3.0)
    return LoadedModel.of(model.eval(), tokenizer, "tiny")


def talk(policy: HFPolicy, turns: int = 4, temperature: float = 1.0, episodes: int = 3) -> dict[str, list[Any]]:
    """Hold conversations; return each episode's completions."""
    chats = {f"e{i}": [Message("user", "You arrive at desk 1.")] for i in range(episodes)}
    rngs = {key: np.random.default_rng(i) for i, key in enumerate(chats)}
    said: dict[str, list[Any]] = {key: [] for key in chats}
    for turn in range(turns):
        sampling = SamplingParams(temperature, max_tokens=5)
        requests = [
            GenerationRequest(key, tuple(chat), {}, rngs[key], sampling, group_id="g") for key, chat in chats.items()
        ]
        for key, completion in zip(chats, policy.generate(requests), strict=True):
            said[key].append(completion)
            chats[key] += [Message("assistant", str(completion)), Message("user", f"Nothing happens. {turn}")]
    policy.release(chats)
    return said


def test_prompts_only_grow_and_completions_are_token_exact(loaded: Any) -> None:
    policy = HFPolicy(loaded)
    assert isinstance(policy, Policy)
    for completions in talk(policy).values():
        for before, after in itertools.pairwise(completions):
            ids = before.prompt_ids + before.token_ids
            assert after.prompt_ids[: len(ids)] == ids
        for said in completions:
            assert len(said.token_ids) == len(said.logprobs) > 0
            ended = said.token_ids[-1] in policy.stop_ids
            assert said.finish_reason == ("stop" if ended else "length")
            assert said == policy.bridge.decode(said.token_ids)
    assert policy.stale_prompts == 0


def test_the_cache_changes_no_answer(loaded: Any) -> None:
    kept, fresh = HFPolicy(loaded), HFPolicy(loaded, keep_cache=False)
    one, two = talk(kept), talk(fresh)
    assert one == two
    for key in one:
        for a, b in zip(one[key], two[key], strict=True):
            assert (a.token_ids, a.prompt_ids) == (b.token_ids, b.prompt_ids)
            np.testing.assert_allclose(a.logprobs, b.logprobs, atol=1e-5)
    assert kept.decoder.tokens_read < 0.6 * fresh.decoder.tokens_read


def test_a_window_of_the_history_is_rendered_anew(loaded: Any) -> None:
    policy = HFPolicy(loaded)
    rng = np.random.default_rng(0)
    for text in ("You arrive at desk 1. Go on.", "You arrive at desk 2. Go on."):
        message = Message("user", text)
        (said,) = policy.generate([GenerationRequest("e", [message], {}, rng, SamplingParams(max_tokens=3))])
        assert list(said.prompt_ids) == policy.bridge.first_prompt([message])
    assert policy.stale_prompts == 1


def test_a_full_context_is_an_empty_answer_and_counted(loaded: Any) -> None:
    policy = HFPolicy(loaded)
    rng = np.random.default_rng(0)
    long, short = Message("user", "words " * 100), Message("user", "You arrive at desk 1.")
    said = policy.generate(
        [GenerationRequest(str(i), [m], {}, rng, SamplingParams(max_tokens=4)) for i, m in enumerate((long, short))]
    )
    assert (str(said[0]), said[0].token_ids, said[0].finish_reason) == ("", (), "length")
    assert len(said[1].token_ids) > 0
    assert policy.overflows == 1


def test_an_empty_conversation_is_refused(loaded: Any) -> None:
    with pytest.raises(ConfigError, match="at least one message"):
        HFPolicy(loaded).generate([GenerationRequest("e", [], {}, np.random.default_rng(0))])


def test_a_breakdown_of_the_model_is_our_error(loaded: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = HFPolicy(loaded)

    def broken(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("CUDA out of memory")

    monkeypatch.setattr(policy.decoder, "generate", broken)
    with pytest.raises(PolicyError, match="out of memory"):
        policy.generate([request({})])
