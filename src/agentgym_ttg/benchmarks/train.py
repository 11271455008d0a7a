"""Training a method in a run folder: the settings become a job, its stages are shown, the result is evaluated."""

from __future__ import annotations

import importlib
from typing import Any

from agentgym_ttg.agents.policies.base import SamplingParams
from agentgym_ttg.core.errors import MissingDependencyError

from .console import StageProgress
from .evaluate import Evaluation
from .run_folder import RunFolder
from .setup import Setup

__all__ = ["require_training", "train"]


def require_training() -> None:
    """Check that what trains is installed, before there is a run folder.

    Raises:
        MissingDependencyError: If the extra ``train`` is not installed.
    """
    try:
        importlib.import_module("trl")
        importlib.import_module("torch")
    except ModuleNotFoundError as error:
        raise MissingDependencyError(error.name or "torch", "train", "training a method") from error


def train(setup: Setup, folder: RunFolder) -> dict[str, Any]:
    """Run every stage that the folder does not have yet, then play the held-out tasks; return the results.

    With ``until``, only the stages up to that one are run, and what they left is returned.

    Raises:
        MissingDependencyError: If the extra ``train`` is not installed.
        AgentGymError: What a stage raises; what it had finished stays.
    """
    from agentgym_ttg.agents.training import TrainingJob, prepare_training, run_training

    config = setup.config
    method = setup.method.with_signal(config.train)
    assert config.eval_split is not None
    job = TrainingJob(
        method=method.name,
        make_estimator=method.make_estimator,
        needs_meter=method.needs_meter,
        meter_target=method.meter_target,
        meter_trained=method.meter_trained,
        keep=method.keep,
        env_id=setup.env_id,
        make_env=setup.make_env,
        make_envs=setup.make_envs,
        split=setup.split,
        eval_split=config.eval_split,
        seed=config.seed,
        model=config.model,
        prompt=setup.prompt(),
        sampling=setup.sampling,
        config=config.train,
        folder=folder.path,
    )
    with StageProgress() as progress:
        if config.until is not None:
            return {"complete": False, "stages": prepare_training(job, config.until, progress)}
        trained = run_training(job, progress)
        sampling = SamplingParams(config.train.eval_temperature, config.top_p, config.max_response_tokens)
        splits: dict[str, Any] = {}
        for split in config.final_splits:
            beside = Evaluation(setup, folder, trained.policy, split=split, sampling=sampling, beside=True)
            progress.stage(f"evaluation on {split}", len(beside.owed))
            splits[split] = beside.run(lambda trajectory: progress.advance(1))
        evaluation = Evaluation(
            setup,
            folder,
            trained.policy,
            split=config.eval_split,
            episodes=config.episodes or config.train.eval_episodes,
            sampling=sampling,
            extra={"trained_model": str(trained.model), "training": trained.summary, "splits": splits},
        )
        progress.stage(f"evaluation on {config.eval_split}", len(evaluation.owed))
        return evaluation.run(lambda trajectory: progress.advance(1))
