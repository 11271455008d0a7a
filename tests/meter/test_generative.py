import numpy as np
import pytest

from agentgym_ttg.core import Completion, ConfigError, Trajectory, Turn
from agentgym_ttg.meter import Estimate, MeterConfig, ProgressMeter, load_meter, train_meter
from agentgym_ttg.meter.answers import format_answer

torch = pytest.importorskip("torch", reason="a generative meter needs torch")
pytest.importorskip("trl", reason="training a generative meter needs trl")

from agentgym_ttg.meter import generative  # noqa: E402
from agentgym_ttg.meter.generative import GenerativeMeter, GenerativeSettings  # noqa: E402
from agentgym_ttg.models import load_causal_lm  # noqa: E402


def meter(tiny_lm, **options):
    settings = {"instruction": "How far?", "context_length": 2048, "max_answer_tokens": 12}
    settings.update({k: options.pop(k) for k in list(options) if k in GenerativeSettings.model_fields})
    return GenerativeMeter(load_causal_lm(str(tiny_lm), device="cpu"), GenerativeSettings(**settings), **options)


def all_answers(scorer, trajectories):
    return [
        answer
        for trajectory in trajectories
        for window in scorer.encoder.windows(scorer.encoder.encode(trajectory))
        for answer in scorer.answers(window)
    ]


@pytest.mark.parametrize("context_length", [2048, 192])
def test_sharing_the_prefix_equals_reading_every_history_from_the_beginning(tiny_lm, corridor, context_length):
    shared = meter(tiny_lm, context_length=context_length, branch_rows=3)
    alone = meter(tiny_lm, context_length=context_length, share_prefix=False)
    trajectories = corridor(2)
    a, b = all_answers(shared, trajectories), all_answers(alone, trajectories)
    assert shared.share_prefix is True
    assert [text for text, _ in a] == [text for text, _ in b]
    np.testing.assert_allclose([x for _, x in a], [x for _, x in b], atol=1e-4)
    assert shared.tokens_scored < alone.tokens_scored


def test_the_completion_logit_is_that_of_the_two_continuations(tiny_lm, corridor):
    scorer = meter(tiny_lm)
    trajectory = corridor(1)[0]
    window = scorer.encoder.windows(scorer.encoder.encode(trajectory))[0]
    logit = scorer.answers(window)[-1][1]
    logprobs = []
    for word in ("true", "false"):
        prompt = scorer.prompt(window, len(window.positions) - 1)
        start = prompt + scorer.tokenizer.encode('<answer>{"can_complete":', add_special_tokens=False)
        ids = scorer.tokenizer.encode(word, add_special_tokens=False)
        with torch.no_grad():
            out = scorer.model(torch.tensor([start + ids])).logits[0].log_softmax(-1)
        logprobs.append(sum(float(out[len(start) - 1 + i, token]) for i, token in enumerate(ids)))
    assert logit == pytest.approx(logprobs[0] - logprobs[1], abs=1e-4)


def test_an_untrained_model_gives_invalid_outputs_not_guesses(tiny_lm, corridor):
    scorer = GenerativeMeter.untrained(str(tiny_lm), GenerativeSettings(context_length=1024, max_answer_tokens=4))
    assert isinstance(scorer, ProgressMeter)
    trajectories = corridor(1)
    assert scorer.score(trajectories) == [[Estimate.invalid()] * len(t) for t in trajectories]
    assert scorer.score([Trajectory("toy", "t", "p", [])]) == [[]]


def test_no_room_for_a_history_is_refused(tiny_lm):
    with pytest.raises(ConfigError, match="no room for a history"):
        meter(tiny_lm, context_length=64, instruction="Say how far it is, " * 20)


def test_models_without_a_chat_template_can_be_asked(tiny_lm, corridor):
    loaded = load_causal_lm(str(tiny_lm), device="cpu")
    loaded.tokenizer.chat_template = None
    scorer = GenerativeMeter(loaded, GenerativeSettings(max_answer_tokens=2))
    assert len(scorer.score(corridor(1))[0]) > 0


@pytest.fixture(scope="module")
def trained(tiny_lm, corridor, tmp_path_factory):
    folder = tmp_path_factory.mktemp("meters") / "generative"
    config = MeterConfig(
        kind="generative",
        backbone=str(tiny_lm),
        instruction="",
        device="cpu",
        context_length=512,
        threads=1,
        sft={
            "epochs": 5,
            "learning_rate": 5e-3,
            "batch_size": 16,
            "micro_batch_size": 16,
            "histories_per_trajectory": 3,
        },
        refine={"steps": 2, "group_size": 4, "histories_per_step": 2, "learning_rate": 1e-4},
    )
    stages = []
    recordings = corridor(24, policies=("good", "good", "noisy"))
    report = train_meter(recordings, config, folder, lambda stage, done, total, found: stages.append((stage, found)))
    return folder, report, stages


def test_fine_tuning_and_refinement_give_a_meter_that_answers(trained, corridor):
    folder, report, stages = trained
    assert {"sft", "refine", "evaluate"} <= {stage for stage, _ in stages}
    assert any("reward" in found for stage, found in stages if stage == "refine")
    losses = [found["loss"] for stage, found in stages if stage == "sft" and "loss" in found]
    assert np.mean(losses[-3:]) < 0.5 * losses[0]
    assert report.test.meter.invalid < 0.2
    assert report.test.meter.token_accuracy > 0.1
    scorer = load_meter(folder, device="cpu")
    estimates = [e for row in scorer.score(corridor(2, seed=8)) for e in row]
    assert sum(e.valid for e in estimates) > 0.8 * len(estimates)
    assert all(e.completion_logit is not None for e in estimates if e.valid)


def test_only_answer_tokens_are_in_the_loss(tiny_lm, corridor, monkeypatch, tmp_path):
    from agentgym_ttg.meter import _generative_training as training

    seen = []

    class Trainer:
        def __init__(self, train_dataset, args, **_):
            seen.extend(train_dataset)
            assert args.completion_only_loss

        def remove_callback(self, callback):
            pass

        def train(self, **_):
            raise KeyboardInterrupt

    monkeypatch.setattr(training, "SFTTrainer", Trainer)
    config = MeterConfig(kind="generative", backbone=str(tiny_lm), instruction="", device="cpu")
    with pytest.raises(KeyboardInterrupt):
        train_meter(corridor(10), config, tmp_path / "m")
    tokenizer = load_causal_lm(str(tiny_lm), device="cpu").tokenizer
    texts = set()
    for row in seen:
        learnt = [i for i, m in zip(row["input_ids"], row["completion_mask"], strict=True) if m]
        assert row["completion_mask"] == sorted(row["completion_mask"])
        assert learnt[-1] == tokenizer.eos_token_id
        texts.add(tokenizer.decode(learnt[:-1]))
    assert format_answer(False, None) in texts
    assert any(text.startswith('<answer>{"can_complete":true,"remaining_tokens":') for text in texts)


def test_saved_and_loaded_meters_agree(trained, tmp_path, corridor):
    scorer = load_meter(trained[0], device="cpu")
    scorer.save(tmp_path / "again")
    again = load_meter(tmp_path / "again", device="cpu")
    trajectories = corridor(1, seed=4)
    assert again.score(trajectories) == scorer.score(trajectories)
    assert again.settings == scorer.settings


def test_a_history_is_asked_without_its_future(tiny_lm, corridor):
    scorer = meter(tiny_lm)
    trajectory = next(t for t in corridor(5) if len(t) >= 4)
    whole = all_answers(scorer, [trajectory])
    for t in (0, 2, 3):
        turns = [*trajectory.turns[:t], Turn(trajectory.turns[t].messages, Completion(""))]
        text, logit = all_answers(scorer, [Trajectory("toy", "t", "p", turns)])[-1]
        assert text == whole[t][0]
        assert logit == pytest.approx(whole[t][1], abs=1e-4)


def test_caches_that_cannot_branch_are_read_from_the_beginning(tiny_lm, corridor, monkeypatch):
    monkeypatch.setattr(generative, "_branches", lambda cache: False)
    scorer = meter(tiny_lm)
    assert all_answers(scorer, corridor(1)[:1]) == all_answers(meter(tiny_lm, share_prefix=False), corridor(1)[:1])
