"""Uncertainty: does the score of a trajectory, or of its first steps, tell whether it succeeds?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym_ttg.core.trajectory import Trajectory
from agentgym_ttg.meter.metrics import auroc, spearman
from agentgym_ttg.scorers import STEP_AGGREGATIONS, score_trajectories
from agentgym_ttg.scorers.aggregation import StepAggregation

from .config import UncertaintyConfig
from .statistics import Integers, Measured, bootstrap, resampled
from .trajectories import blind_scorers, read_trajectories

__all__ = ["evaluate_uncertainty", "told_by"]

Floats = NDArray[np.float64]

#: Draws for each point of the curve.
_CURVE_DRAWS = 500


def evaluate_uncertainty(config: UncertaintyConfig, progress: Callable[[str], None]) -> dict[str, Any]:
    """Score recorded trajectories and compare with their outcomes; return the results.

    Args:
        config: Settings.
        progress: Told in words what is being done.

    Raises:
        ConfigError: If a scorer cannot be built.
        DataError: If there are not both successes and failures.
        MissingDependencyError: If what runs a scorer is not installed.
        TrajectoryFileError: If a file cannot be read as such.
    """
    trajectories = read_trajectories(config.data, limit=config.limit)
    scorers = blind_scorers(config.scorer, config.scorer_options, config.aggregation, config.last_step)
    success = np.array([trajectory.success for trajectory in trajectories])
    draws = resampled(len(trajectories), np.random.default_rng(config.seed), resamples=config.resamples)
    rows: dict[str, Any] = {}
    kept: dict[str, list[Floats]] = {}
    for scorer in scorers:
        found = kept[scorer.name] = scorer.scores(trajectories, progress)
        rows[scorer.name] = told_by(found, success, scorer.aggregation, draws, max_steps=config.max_steps)
    # What everybody knows: long episodes fail.
    length = [np.full(len(trajectory), -1.0) for trajectory in trajectories]
    rows["fewer steps"] = told_by(length, success, "sum", draws, max_steps=0)
    rows["random"] = {"auroc": Measured(0.5).as_json(), "spearman": Measured(0.0).as_json()}
    return {
        "evaluation": "uncertainty",
        "data": {
            "trajectories": len(trajectories),
            "tasks": len({(t.env_id, t.task_id) for t in trajectories}),
            "successes": int(success.sum()),
            "steps": sum(map(len, trajectories)),
        },
        "settings": config.stored(),
        "rows": rows,
        "heat_map": _heat_map(trajectories, kept),
    }


def told_by(
    scores: Sequence[Floats],
    success: NDArray[np.bool_],
    how: StepAggregation,
    draws: Sequence[Integers],
    *,
    max_steps: int,
) -> dict[str, Any]:
    """Return how well trajectory scores tell success.

    The early-warning curve has a point for each k: the score of the first k steps of the trajectories that have more
    than k (of those that ended the outcome is known), and what the other trajectories' number is.

    Args:
        scores: Step scores, ``(T_i,)`` each; they must not depend on later steps.
        success: Outcomes, ``(N,)``.
        how: From step scores to a trajectory's; the others are reported beside it.
        draws: Of the bootstrap.
        max_steps: Largest k.
    """
    whole = score_trajectories(scores, how)
    out: dict[str, Any] = {
        "aggregation": how,
        **_both(whole, success, draws),
        "scored": int(np.isfinite(whole).sum()),
        "other_aggregations": {
            name: auroc(*_finite(score_trajectories(scores, name), success)) for name in STEP_AGGREGATIONS
        },
        "calibration": _calibration(whole, success),
    }
    curve = []
    for k in range(1, max_steps + 1):
        going = [i for i, row in enumerate(scores) if len(row) > k]
        won = success[going]
        if len(going) < 10 or won.all() or not won.any():
            break
        early = score_trajectories([scores[i][:k] for i in going], how)
        sample = resampled(len(going), np.random.default_rng(k), resamples=min(_CURVE_DRAWS, len(draws)))
        curve.append({"steps": k, "trajectories": len(going), "successes": int(won.sum()), **_both(early, won, sample)})
    return out | {"early_warning": curve}


def _finite(values: Floats, success: NDArray[np.bool_]) -> tuple[Floats, NDArray[np.bool_]]:
    there = np.isfinite(values)
    return values[there], success[there]


def _both(values: Floats, success: NDArray[np.bool_], draws: Sequence[Integers]) -> dict[str, Any]:
    """Return AUROC and Spearman over the trajectories that have a score."""
    there = np.isfinite(values)

    def area(chosen: Integers) -> float | None:
        chosen = chosen[there[chosen]]
        return auroc(values[chosen], success[chosen])

    def ranks(chosen: Integers) -> float | None:
        chosen = chosen[there[chosen]]
        return spearman(values[chosen], success[chosen].astype(np.float64))

    return {
        "auroc": bootstrap(area, draws, len(values)).as_json(),
        "spearman": bootstrap(ranks, draws, len(values)).as_json(),
    }


def _calibration(values: Floats, success: NDArray[np.bool_], bins: int = 10) -> list[dict[str, float]]:
    """Return the success rate in bins of equally many trajectories by score."""
    score, won = _finite(values, success)
    order = np.argsort(score, kind="stable")
    return [
        {"score": float(score[part].mean()), "success": float(won[part].mean()), "trajectories": len(part)}
        for part in np.array_split(order, bins)
        if len(part)
    ]


def _heat_map(trajectories: Sequence[Trajectory], scores: dict[str, list[Floats]]) -> list[dict[str, Any]]:
    """Return the longest success and the longest failure of at most 40 steps; they carry no labels."""
    out = []
    for wanted in (True, False):
        fitting = [i for i, t in enumerate(trajectories) if t.success is wanted and len(t) <= 40]
        if fitting:
            chosen = max(fitting, key=lambda i: (len(trajectories[i]), -i))
            one = trajectories[chosen]
            out.append(
                {
                    "record": f"{one.task_id} by {one.policy}: {one.outcome}",
                    "labels": None,
                    "scores": {
                        name: [float(x) if np.isfinite(x) else None for x in rows[chosen]]
                        for name, rows in scores.items()
                    },
                }
            )
    return out
