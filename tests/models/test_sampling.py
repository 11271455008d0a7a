# ruff: noqa: E402 - imports behind importorskip
"""Tokens are drawn from the distribution asked for, each row by its own generator."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from agentgym_ttg.models.sampling import sample_tokens


def draw(logits: list[float], count: int, temperature: float = 1.0, top_p: float = 1.0) -> np.ndarray:
    rows = torch.tensor([logits]).expand(count, -1)
    rng = np.random.default_rng(0)
    ids, _ = sample_tokens(rows, temperatures=[temperature] * count, top_ps=[top_p] * count, rngs=[rng] * count)
    return np.bincount(ids, minlength=len(logits)) / count


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_frequencies_follow_the_scaled_distribution(temperature: float) -> None:
    logits = [0.0, 1.0, -1.0, 2.0, -30.0]
    expected = torch.softmax(torch.tensor(logits) / temperature, 0).numpy()
    np.testing.assert_allclose(draw(logits, 20_000, temperature), expected, atol=0.015)


def test_top_p_keeps_the_smallest_set_that_reaches_the_mass() -> None:
    logits = np.log([0.5, 0.3, 0.15, 0.05]).tolist()
    np.testing.assert_allclose(draw(logits, 20_000, top_p=0.7), [0.625, 0.375, 0, 0], atol=0.015)
    assert draw(logits, 100, top_p=1e-6)[0] == 1.0


def test_logprobs_are_of_the_scaled_distribution_before_top_p() -> None:
    logits = torch.randn(4, 9, generator=torch.Generator().manual_seed(0))
    temperatures = [0.5, 2.0, 1.0, 0.0]
    rngs = [np.random.default_rng(i) for i in range(4)]
    ids, logprobs = sample_tokens(logits, temperatures=temperatures, top_ps=[0.5, 1, 1, 1], rngs=rngs)
    for row, (token, logprob, temperature) in enumerate(zip(ids, logprobs, temperatures, strict=True)):
        assert logprob == pytest.approx(float((logits[row] / (temperature or 1)).log_softmax(-1)[token]), abs=1e-6)
    assert ids[3] == int(logits[3].argmax())


def test_a_row_draws_one_number_and_a_greedy_row_none() -> None:
    sampled, greedy, fresh = (np.random.default_rng(1) for _ in range(3))
    logits = torch.zeros(2, 5)
    sample_tokens(logits, temperatures=[1.0, 0.0], top_ps=[1, 1], rngs=[sampled, greedy])
    assert greedy.random() == fresh.random()
    assert sampled.random() == fresh.random()


def test_impossible_tokens_are_never_chosen() -> None:
    class Edge:
        def __init__(self, value: float) -> None:
            self.value = value

        def random(self) -> float:
            return self.value

    logits = torch.tensor([[-torch.inf, 0.0, -torch.inf, 0.0, -torch.inf]] * 2)
    ids, _ = sample_tokens(
        logits,
        temperatures=[1.0, 1.0],
        top_ps=[1.0, 1.0],
        rngs=[Edge(0.0), Edge(1.0 - 2**-53)],  # type: ignore[list-item]
    )
    assert ids == [1, 3]


def test_half_precision_is_computed_in_float32() -> None:
    logits = torch.randn(1, 1000).bfloat16()
    _, (logprob,) = sample_tokens(logits, temperatures=[0.0], top_ps=[1.0], rngs=[np.random.default_rng(0)])
    assert logprob == pytest.approx(float(logits.float().log_softmax(-1).max()), abs=1e-6)
