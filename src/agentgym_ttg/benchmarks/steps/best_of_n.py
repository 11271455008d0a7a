"""Best of N: of several trajectories of a task one is picked by score."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agentgym_ttg.core.errors import ConfigError, DataError
from agentgym_ttg.core.trajectory import Trajectory
from agentgym_ttg.core.trajectory_files import load_trajectories
from agentgym_ttg.scorers import score_trajectories

from .config import BestOfNConfig
from .sampling import sample_groups
from .statistics import Integers, ratio_interval, resampled
from .trajectories import blind_scorers, read_trajectories

__all__ = ["evaluate_best_of_n", "oracle_curve", "pick_curve"]

Floats = NDArray[np.float64]


def evaluate_best_of_n(config: BestOfNConfig, progress: Callable[[str], None]) -> dict[str, Any]:
    """Pick one of N trajectories of each task by score; return the success against N beside random and oracle.

    Args:
        config: Settings.
        progress: Told in words what is being done.

    Raises:
        ConfigError: If a setting cannot work or a scorer cannot be built.
        DataError: If no task has several trajectories.
        MissingDependencyError: If what runs a scorer is not installed.
        TrajectoryFileError: If a file cannot be read as such.
    """
    if bool(config.data) == (config.policy is not None):
        raise ConfigError("expected either recorded trajectories (--data FILE) or a policy to sample with (--policy)")
    scorers = blind_scorers(config.scorer, config.scorer_options, config.aggregation, config.last_step)
    trajectories = read_trajectories(config.data) if config.data else _sampled(config, progress)
    groups = _groups(trajectories, config.n)
    size = max(map(len, groups))
    full = [group for group in groups if len(group) == size]
    if size < 2:
        raise DataError(
            f"none of the {len(groups)} tasks has more than one trajectory; record several of each, or sample them "
            "with --policy"
        )
    members = [trajectories[i] for group in full for i in group]
    won = np.array([t.success for t in members], dtype=np.float64).reshape(len(full), size)
    draws = resampled(len(full), np.random.default_rng(config.seed), resamples=config.resamples)
    chance = np.array([np.full(size, row.mean()) for row in won])
    best = np.array([oracle_curve(row) for row in won])
    rows: dict[str, Any] = {}
    for scorer in scorers:
        values = score_trajectories(scorer.scores(members, progress), scorer.aggregation).reshape(len(full), size)
        curve = np.array([pick_curve(row, truth) for row, truth in zip(values, won, strict=True)])
        rows[scorer.name] = {
            "aggregation": scorer.aggregation,
            "scored": int(np.isfinite(values).sum()),
            "success": _curve(curve, draws),
            "ahead_of_random": _curve(curve - chance, draws),
            "behind_oracle": _curve(best - curve, draws),
        }
    # What everybody can do: where failures run into the limit, the shortest trajectory is the likeliest success.
    lengths = np.array([-len(t) for t in members], dtype=np.float64).reshape(len(full), size)
    shortest = np.array([pick_curve(row, truth) for row, truth in zip(lengths, won, strict=True)])
    rows["fewest steps"] = {
        "success": _curve(shortest, draws),
        "ahead_of_random": _curve(shortest - chance, draws),
        "behind_oracle": _curve(best - shortest, draws),
    }
    rows["random"] = {"success": _curve(chance, draws)}
    rows["oracle"] = {"success": _curve(best, draws), "ahead_of_random": _curve(best - chance, draws)}
    return {
        "evaluation": "best-of-n",
        "data": {
            "tasks": len(full),
            "trajectories": len(members),
            "n": size,
            "tasks_with_fewer": len(groups) - len(full),
            "mixed_tasks": int(((won.mean(1) > 0) & (won.mean(1) < 1)).sum()),
        },
        "settings": config.stored(),
        "rows": rows,
    }


def pick_curve(scores: ArrayLike, successes: ArrayLike) -> Floats:
    """Return the expected success of the best-scored of n random ones out of N, for n = 1..N.

    Exact: the mean over all subsets of size n. Of equal scores the first counts as the best; a trajectory without a
    score (NaN) is picked only among such.

    Args:
        scores: ``(N,)``.
        successes: ``(N,)``, 0 or 1.

    >>> pick_curve([0.1, 0.9, 0.5], [0, 1, 0]).round(3).tolist()
    [0.333, 0.667, 1.0]
    """
    score = np.nan_to_num(np.asarray(scores, dtype=np.float64), nan=-np.inf)
    success = np.asarray(successes, dtype=np.float64)[np.argsort(-score, kind="stable")]
    count = len(success)
    out = np.empty(count)
    for n in range(1, count + 1):
        # The one at rank r is the best of a subset where the others are drawn from the count - 1 - r behind it.
        weights = np.array([math.comb(count - 1 - rank, n - 1) for rank in range(count)]) / math.comb(count, n)
        out[n - 1] = float(weights @ success)
    return out


def oracle_curve(successes: ArrayLike) -> Floats:
    """Return the probability that there is a success among n random ones out of N, for n = 1..N.

    >>> oracle_curve([0, 1, 0]).round(3).tolist()
    [0.333, 0.667, 1.0]
    """
    success = np.asarray(successes, dtype=np.float64)
    return pick_curve(success, success)


def _curve(values: Floats, draws: Sequence[Integers]) -> list[dict[str, Any]]:
    """Return the mean over tasks for each n, with intervals by resampling tasks."""
    out = []
    for n in range(values.shape[1]):
        column = values[:, n]
        found = ratio_interval(column, np.ones(len(column)), draws)
        out.append({"n_picked_from": n + 1, **found.as_json()})
    return out


def _groups(trajectories: Sequence[Trajectory], most: int) -> list[list[int]]:
    """Return the indices of the trajectories of each task, the first ``most`` of each."""
    members: dict[tuple[str, str], list[int]] = {}
    for index, trajectory in enumerate(trajectories):
        members.setdefault((trajectory.env_id, trajectory.task_id), []).append(index)
    return [rows[:most] for rows in members.values()]


def _sampled(config: BestOfNConfig, progress: Callable[[str], None]) -> list[Trajectory]:
    with tempfile.TemporaryDirectory(prefix="agentgym_ttg-") as place:
        file = Path(config.record).expanduser() if config.record else Path(place) / "sampled.jsonl"
        sample_groups(config, file, progress)
        return [t for t in load_trajectories(file) if t.outcome != "error" and len(t)]
