"""The warm start of an environment: the shipped one where it fits, else one made from the expert, and kept."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym_ttg.core.cache import cache_dir
from agentgym_ttg.envs.base import MultiTurnEnv
from agentgym_ttg.envs.vector import TextVectorEnv
from agentgym_ttg.wrappers.chat import PromptBuilder

from .demonstrations import record_demonstrations

if TYPE_CHECKING:
    from .training_job import StageReporter

__all__ = ["find_or_make_warm_start", "made_of"]

_NOTE = "warm_start.json"
#: Episodes of an expert that errs half the time, read only for the tokenizer.
STRAYS = 60


def made_of(env_id: str, probe: MultiTurnEnv, prompt: PromptBuilder) -> dict[str, Any]:
    """Return what a warm start has to fit: the environment, its data, and how the model is prompted and answers."""
    return {
        "env": env_id,
        "data": probe.tasks.source,
        "action_format": probe.format.name,
        "prompt": prompt.mode,
        "template": hashlib.blake2b(prompt.template.model_dump_json().encode(), digest_size=8).hexdigest()
        if prompt.template
        else "",
    }


def find_or_make_warm_start(
    *,
    env_id: str,
    probe: MultiTurnEnv,
    make_envs: Callable[..., TextVectorEnv],
    prompt: PromptBuilder,
    demonstrations: int,
    stumble: float,
    updates: int,
    seed: int,
    reporter: StageReporter,
) -> str:
    """Return a model spec to start training from.

    Args:
        env_id: Registered id.
        probe: An environment of the kind, on the training split.
        make_envs: Builds the vector environment; takes ``expert=``.
        prompt: Prompt of the policy.
        demonstrations: Expert episodes to clone, where none is shipped.
        stumble: Share of steps at which the expert says what is refused.
        updates: Optimiser steps of the cloning.
        seed: Seeds tasks and weights.
        reporter: Shows the progress.
    """
    from agentgym_ttg.models.loading import ASSETS

    note = made_of(env_id, probe, prompt)
    for path in sorted(ASSETS.glob(f"*/{_NOTE}")):
        shipped = json.loads(path.read_text())
        if all(shipped.get(name) == value for name, value in note.items()):
            reporter.note(f"warm start: the shipped {path.parent.name}")
            return f"asset:{path.parent.name}"
    key = {**note, "content": probe.data_hash, "demonstrations": demonstrations, "stumble": stumble}
    key |= {"strays": STRAYS, "updates": updates, "seed": seed}
    digest = hashlib.blake2b(json.dumps(key, sort_keys=True).encode(), digest_size=12).hexdigest()
    folder = cache_dir("warm_starts", digest)
    if not (folder / _NOTE).exists():
        _make(folder, key, env_id, probe, make_envs, prompt, reporter)
    reporter.note(f"warm start: {folder}")
    return str(folder)


def _make(
    folder: Path,
    key: dict[str, Any],
    env_id: str,
    probe: MultiTurnEnv,
    make_envs: Callable[..., TextVectorEnv],
    prompt: PromptBuilder,
    reporter: StageReporter,
) -> None:
    """Record the expert and clone it; the folder appears when all of it is there."""
    from .warm_start import WarmStartConfig, train_warm_start

    folder.parent.mkdir(parents=True, exist_ok=True)
    recordings = folder.with_name(folder.name + ".demonstrations.jsonl")
    reporter.stage("demonstrations", key["demonstrations"])
    found = record_demonstrations(
        recordings,
        episodes=key["demonstrations"],
        stumble=key["stumble"],
        strays=key["strays"],
        seed=key["seed"],
        env_id=env_id,
        probe=probe,
        make_envs=make_envs,
        on_episode=lambda trajectory: reporter.advance(),
    )
    reporter.stage("warm start", key["updates"])
    temporary = Path(tempfile.mkdtemp(prefix=folder.name, dir=folder.parent))
    try:
        train_warm_start(
            found.solved,
            WarmStartConfig(updates=key["updates"], seed=key["seed"]),
            temporary,
            lambda done, total, numbers: reporter.advance(1, loss=numbers["loss"]),
            prompt=prompt,
            more_texts=found.texts,
            made_of=key,
        )
        if folder.exists():  # another process was faster
            shutil.rmtree(temporary)
        else:
            os.replace(temporary, folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    recordings.unlink(missing_ok=True)
