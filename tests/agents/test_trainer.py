"""The seam with TRL: our rows and advantages through its optimiser give the loss of eq. 12."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra 'train' is not installed")
pytest.importorskip("trl", reason="the extra 'train' is not installed")

from agentgym_ttg.agents.config import TrainConfig  # noqa: E402
from agentgym_ttg.agents.rows import Row  # noqa: E402
from agentgym_ttg.agents.trainer import AgentTrainer, UpdateBatch, last_checkpoint  # noqa: E402


@pytest.fixture(scope="module")
def actor_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random two-layer model with the shipped tokenizer, on disk."""
    from importlib import resources

    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    folder = tmp_path_factory.mktemp("actor")
    file = resources.files("agentgym_ttg.core") / "assets" / "tokenizer.json"
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(file), eos_token="<|end|>", pad_token="<|end|>")
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(tokenizer),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=16,
            max_position_embeddings=256,
            tie_word_embeddings=True,
        )
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def load(path: Path):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    return AutoModelForCausalLM.from_pretrained(path, dtype="float32"), AutoTokenizer.from_pretrained(path)


def make_rows(seed: int, count: int) -> tuple[list[Row], list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    rows, advantages = [], []
    for _ in range(count):
        length = int(rng.integers(2, 12))
        steps = np.sort(rng.integers(0, 3, length))
        steps[rng.random(length) < 0.3] = -1
        rows.append(
            Row(
                prompt_ids=rng.integers(0, 500, int(rng.integers(1, 9))).tolist(),
                completion_ids=rng.integers(0, 500, length).tolist(),
                steps=steps,
                logprobs=np.where(steps >= 0, rng.normal(-6, 0.5, length), 0).astype(np.float32),
            )
        )
        advantages.append(np.where(steps >= 0, rng.normal(0, 1, length), 0.0))
    return rows, advantages


def train(path: Path, out: Path, *, resume: Path | None = None, batch=None, **settings):
    model, tokenizer = load(path)
    logged: list[tuple[int, dict]] = []
    config = TrainConfig(**{"updates": 2, "microbatches": 2, "warmup_updates": 0, "checkpoint_every": 1, **settings})
    trainer = AgentTrainer(
        model,
        tokenizer,
        config,
        collect=batch or (lambda update: UpdateBatch(*make_rows(update, 7), metrics={"mark": update})),
        on_update=lambda update, metrics: logged.append((update, metrics)),
        output_dir=out,
    )
    trainer.train(resume_from_checkpoint=str(resume) if resume else None)
    return model, logged


def reference_loss(path: Path, rows: list[Row], advantages: list[np.ndarray]) -> float:
    """Eq. 12 for the first step: ratio one, so the token mean of -A."""
    total = sum((row.steps >= 0).sum() for row in rows)
    return -sum(float(a[row.steps >= 0].sum()) for row, a in zip(rows, advantages, strict=True)) / total


def test_first_loss_is_the_token_mean(actor_path: Path, tmp_path: Path) -> None:
    rows, advantages = make_rows(0, 7)
    _, logged = train(actor_path, tmp_path, updates=1)
    assert logged[0][0] == 0
    assert logged[0][1]["mark"] == 0
    assert logged[0][1]["loss"] == pytest.approx(reference_loss(actor_path, rows, advantages), abs=2e-4)


def test_off_policy_loss_follows_eq_12(actor_path: Path, tmp_path: Path) -> None:
    """With several optimiser steps the ratio is to the sampling log-probabilities, clipped and dual-clipped."""
    rows, advantages = make_rows(0, 6)
    model, tokenizer = load(actor_path)
    losses: list[float] = []
    config = TrainConfig(updates=1, minibatches=2, microbatches=1, warmup_updates=0, learning_rate=1e-12)
    trainer = AgentTrainer(
        model,
        tokenizer,
        config,
        collect=lambda update: UpdateBatch(rows, advantages),
        on_update=lambda update, metrics: losses.append(metrics["loss"]),
        output_dir=tmp_path,
    )
    expected = []
    with torch.no_grad():
        for part in np.array_split(np.random.default_rng([0, 0]).permutation(6), 2):
            terms: list[float] = []
            for i in part:
                row = rows[i]
                logits = model(torch.tensor([row.prompt_ids + row.completion_ids])).logits[0].log_softmax(-1)
                for k, token in enumerate(row.completion_ids):
                    if row.steps[k] < 0:
                        continue
                    now = float(logits[len(row.prompt_ids) + k - 1, token])
                    ratio, a = np.exp(now - row.logprobs[k]), advantages[i][k]
                    s = min(ratio * a, np.clip(ratio, 0.8, 1.28) * a)
                    terms.append(-(max(s, 3.0 * a) if a < 0 else s))
            expected.append(np.mean(terms))
    trainer.train()
    assert losses == [pytest.approx(np.mean(expected), abs=2e-3)]


def test_micro_batches_do_not_change_the_result(actor_path: Path, tmp_path: Path) -> None:
    one, _ = train(actor_path, tmp_path / "a", microbatches=1)
    many, _ = train(actor_path, tmp_path / "b", microbatches=5)
    for p, q in zip(one.parameters(), many.parameters(), strict=True):
        torch.testing.assert_close(p, q, atol=1e-5, rtol=0)


def test_rows_without_advantage_are_counted_but_not_computed(
    actor_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A KL term too small to show has every row computed; without one only rows with a gradient are."""
    rows, advantages = make_rows(0, 9)
    advantages = [values * (i % 3 == 0) for i, values in enumerate(advantages)]
    widths: list[int] = []
    tensors = AgentTrainer._tensors

    def counting(self: AgentTrainer, chosen: list[Row], values: list[np.ndarray]):
        widths.append(len(chosen))
        return tensors(self, chosen, values)

    monkeypatch.setattr(AgentTrainer, "_tensors", counting)
    trained = {}
    for kl in (0.0, 1e-12):
        widths.clear()
        model, logged = train(
            actor_path, tmp_path / str(kl), updates=1, kl_coef=kl, batch=lambda update: UpdateBatch(rows, advantages)
        )
        trained[kl] = (sum(widths), logged[0][1]["loss"], list(model.parameters()))
    assert (trained[0.0][0], trained[1e-12][0]) == (3, 9)
    assert trained[0.0][1] == pytest.approx(trained[1e-12][1], abs=1e-4)
    for p, q in zip(trained[0.0][2], trained[1e-12][2], strict=True):
        torch.testing.assert_close(p, q, atol=1e-5, rtol=0)


def test_resumed_is_uninterrupted(actor_path: Path, tmp_path: Path) -> None:
    whole, _logged = train(actor_path, tmp_path / "a", updates=4, kl_coef=0.01)
    train(actor_path, tmp_path / "b", updates=2, kl_coef=0.01)
    checkpoint = last_checkpoint(tmp_path / "b")
    assert checkpoint is not None
    assert checkpoint[1] == 2
    resumed, rest = train(actor_path, tmp_path / "b", updates=4, kl_coef=0.01, resume=checkpoint[0])
    assert [update for update, _ in rest] == [2, 3]
    for p, q in zip(whole.parameters(), resumed.parameters(), strict=True):
        torch.testing.assert_close(p, q, atol=1e-6, rtol=0)


def test_incomplete_checkpoints_are_passed_over(actor_path: Path, tmp_path: Path) -> None:
    train(actor_path, tmp_path, updates=2)
    (tmp_path / "checkpoint-2" / "complete.json").unlink()
    found = last_checkpoint(tmp_path)
    assert found is not None
    assert found[1] == 1
    assert not (tmp_path / "checkpoint-2").exists()


def test_nothing_to_train_on_is_no_nan(actor_path: Path, tmp_path: Path) -> None:
    before, _ = load(actor_path)
    after, logged = train(actor_path, tmp_path, batch=lambda update: UpdateBatch([], []), kl_coef=0.1)
    assert np.isfinite(logged[0][1]["loss"])
    for p, q in zip(before.parameters(), after.parameters(), strict=True):
        torch.testing.assert_close(p, q, atol=0, rtol=0)


def test_observation_tokens_cannot_poison_the_loss(
    actor_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A KL of exp(200) on a token that is not trained on must not reach the sum."""
    monkeypatch.setattr(f"{AgentTrainer.__module__}.can_score_selected", lambda model: False)
    model, tokenizer = load(actor_path)
    rows, advantages = make_rows(3, 5)
    seen: list[dict] = []
    trainer = AgentTrainer(
        model,
        tokenizer,
        TrainConfig(updates=1, microbatches=1, kl_coef=0.1, warmup_updates=0),
        collect=lambda update: UpdateBatch(rows, advantages),
        on_update=lambda update, metrics: seen.append(metrics),
        output_dir=tmp_path,
    )
    original = trainer.ref_model.forward

    def poisoned(*args, **kwargs):
        outputs = original(*args, **kwargs)
        hidden = ~trainer._trainable
        outputs.log_probs[:, -hidden.size(1) :][hidden] = float("inf")
        return outputs

    trainer.ref_model.forward = poisoned
    trainer.train()
    assert np.isfinite(seen[0]["loss"])
    assert all(torch.isfinite(p).all() for p in model.parameters())


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_scoring_only_what_is_trained_on_changes_nothing(
    actor_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, temperature: float
) -> None:
    """The same update with TRL's scoring of every position."""

    def update(out: Path) -> tuple[list, dict]:
        model, tokenizer = load(actor_path)
        logged: list[dict] = []
        trainer = AgentTrainer(
            model,
            tokenizer,
            TrainConfig(updates=2, microbatches=2, kl_coef=0.1, entropy_coef=0.01, warmup_updates=0),
            collect=lambda update: UpdateBatch(*make_rows(update, 7)),
            on_update=lambda update, metrics: logged.append(metrics),
            output_dir=out,
            temperature=temperature,
        )
        trainer.train()
        return list(model.parameters()), logged[-1]

    ours, our_numbers = update(tmp_path / "a")
    monkeypatch.setattr(f"{AgentTrainer.__module__}.can_score_selected", lambda model: False)
    theirs, their_numbers = update(tmp_path / "b")
    assert our_numbers == pytest.approx(their_numbers, rel=1e-3, abs=1e-5)
    for p, q in zip(ours, theirs, strict=True):
        torch.testing.assert_close(p, q, atol=1e-5, rtol=0)
