"""Recorded conversations, and tiny language models that can read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentgym_ttg.core import Completion, Message, Trajectory, Turn

_TASKS = ("put a clean mug on the desk", "find two books")
_ACTIONS = ("go to desk 1", "take mug 1 from desk 1", "look", "open drawer 2")
_SEEN = ("You arrive at desk 1.", "You see a mug 1 and a book 2.", "Nothing happens.", "The drawer 2 is open.")


def conversation(rng: np.random.Generator, steps: int) -> Trajectory:
    """A conversation of texts, as it comes from a server or another model."""
    turns = []
    said = str(rng.choice(_TASKS))
    for _ in range(steps):
        action, seen = str(rng.choice(_ACTIONS)), str(rng.choice(_SEEN))
        turns.append(Turn((Message("user", said),), Completion(action), seen, tokens=4))
        said = seen
    success = steps % 2 == 0
    return Trajectory("toy", f"t{steps}", "someone", turns, "success" if success else "failure", float(success))


@pytest.fixture
def conversations() -> list[Trajectory]:
    rng = np.random.default_rng(3)
    return [conversation(rng, steps) for steps in (4, 1, 7, 2)]


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    """Tiny tensors are slower on several threads."""
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def tiny_models(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Two checkpoints of one tiny model, with one tokenizer."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from agentgym_ttg.models.tiny import TinyConfig, build_tokenizer, make_tiny_model

    tokenizer = build_tokenizer([*_TASKS, *_ACTIONS, *_SEEN] * 4, 400)
    folders: list[Path] = []
    for seed in (0, 1):
        model = make_tiny_model(tokenizer, TinyConfig(hidden=32, layers=2, heads=2, feed_forward=64), seed=seed)
        folders.append(tmp_path_factory.mktemp(f"tiny-{seed}"))
        model.save_pretrained(folders[-1])
        tokenizer.save_pretrained(folders[-1])
    return [str(folder) for folder in folders]
