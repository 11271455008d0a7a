"""What the speed benchmarks of training play: the built-in ALFWorld games with the shipped model, or a fresh one."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym_ttg.agents.policies.base import Policy, SamplingParams
from agentgym_ttg.agents.policies.scripted import NoisyExpertPolicy
from agentgym_ttg.agents.rollout import EpisodeSpec, RolloutEngine, group_specs
from agentgym_ttg.core.errors import MissingDependencyError
from agentgym_ttg.core.trajectory import Trajectory
from agentgym_ttg.envs.vector import TextVectorEnv, make_vector_env

if TYPE_CHECKING:
    from agentgym_ttg.models.loading import LoadedModel

__all__ = ["ENV", "benchmark_model", "judged", "make_envs", "play", "specs", "use_threads"]

ENV = "agentgym_ttg/ALFWorld-v0"
_SHIPPED = Path(__file__).parents[2] / "models" / "assets" / "alfworld_easy"


def make_envs(slots: int, *, max_steps: int, split: str = "train", expert: bool = False) -> TextVectorEnv:
    """Make a vector of built-in easy games."""
    return make_vector_env(
        ENV, slots, data="built-in", difficulty="easy", split=split, max_steps=max_steps, expert=expert
    )


def specs(envs: TextVectorEnv, *, tasks: int, group_size: int, seed: int, name: str = "speed") -> list[EpisodeSpec]:
    """Return the episodes of the first tasks, in groups."""
    return group_specs([envs.tasks[i] for i in range(tasks)], size=group_size, seed=seed, name=name)


def play(envs: TextVectorEnv, policy: Policy, episodes: Sequence[EpisodeSpec], *, max_tokens: int) -> list[Trajectory]:
    """Play episodes at temperature 1; return them in order."""
    engine = RolloutEngine(envs, policy, env_id=ENV, sampling=SamplingParams(temperature=1.0, max_tokens=max_tokens))
    done = {finished.spec.episode_id: finished.trajectory for finished in engine.run(episodes)}
    return [done[spec.episode_id] for spec in episodes]


@contextmanager
def benchmark_model(spec: str | None, *, seed: int = 0) -> Iterator[LoadedModel]:
    """Load the model of a benchmark; it stays on disk while inside.

    Args:
        spec: Folder or hub id. None takes the shipped warm start, and without that a fresh one; ``"fresh"`` makes a
            tiny model with random weights and a tokenizer of the games' text.
        seed: Of a fresh model.
    """
    from transformers.utils import logging

    from agentgym_ttg.models.loading import load_causal_lm

    logging.disable_progress_bar()  # loading a tiny model is no progress of the benchmark
    if spec is None and (_SHIPPED / "config.json").is_file():
        spec = str(_SHIPPED)
    if spec not in (None, "fresh"):
        yield load_causal_lm(str(spec), dtype="float32", device="cpu")
        return
    from agentgym_ttg.models.tiny import build_tokenizer, make_tiny_model

    with tempfile.TemporaryDirectory() as folder, closing(make_envs(8, max_steps=12, expert=True)) as envs:
        episodes = specs(envs, tasks=8, group_size=1, seed=seed, name="text")
        seen = play(envs, NoisyExpertPolicy(0.2), episodes, max_tokens=12)
        texts = [text for one in seen for turn in one.turns for text in (turn.observation, str(turn.completion))]
        tokenizer = build_tokenizer(texts, 1024)
        make_tiny_model(tokenizer, seed=seed).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        yield load_causal_lm(folder, dtype="float32", device="cpu")


def use_threads(count: int | None) -> None:
    """Set torch's threads; None leaves them."""
    import torch

    if count is not None:
        torch.set_num_threads(count)


def why_no_textworld() -> str:
    """Return why TextWorld cannot be measured; "" if it can."""
    from agentgym_ttg.envs.alfworld.textworld_engine import require_alfworld

    try:
        require_alfworld()
    except MissingDependencyError as error:
        return str(error)
    return ""


def judged(
    what: str, value: float, bound: float, *, cpu: float | None = None, at_most: bool = False, unit: str = " x"
) -> str:
    """Say a number beside what it should be, and the same number from processor time.

    >>> judged("kept cache against re-encoding", 3.04, 2.5)
    'kept cache against re-encoding: 3.04 x, target at least 2.5 x: met'
    >>> judged("meter share", 7.0, 5.0, at_most=True, unit=" %")
    'meter share: 7 %, target at most 5 %: missed'
    """

    def verdict(number: float) -> str:
        return "met" if (number <= bound if at_most else number >= bound) else "missed"

    side = "most" if at_most else "least"
    text = f"{what}: {value:.3g}{unit}, target at {side} {bound:g}{unit}: {verdict(value)}"
    return text + ("" if cpu is None else f" (processor time {cpu:.3g}{unit}: {verdict(cpu)})")
