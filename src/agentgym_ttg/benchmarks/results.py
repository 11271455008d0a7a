"""The numbers of a set of episodes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentgym_ttg.core.statistics import wilson_interval
from agentgym_ttg.core.trajectory import OUTCOMES, Trajectory

__all__ = ["EpisodeRecord", "summarise"]


@dataclass(frozen=True, slots=True)
class EpisodeRecord:
    """What the numbers need of an episode.

    Attributes:
        episode: Its number in the run.
        task_id: The task.
        task_type: Kind of the task.
        outcome: How it ended.
        steps: Decisions.
        tokens: Assistant tokens.
        invalid: Decisions whose action was not valid.
        cut_off: Messages that the token limit cut off.
        reward: Sum of the step rewards.
        metrics: Numbers that the environment reported.
        error: Why it broke down.
    """

    episode: int
    task_id: str
    task_type: str
    outcome: str
    steps: int
    tokens: int
    invalid: int
    cut_off: int
    reward: float
    metrics: Mapping[str, float] = field(default_factory=dict)
    error: str = ""

    @classmethod
    def of(cls, trajectory: Trajectory) -> EpisodeRecord:
        """Read a recorded episode."""
        known = trajectory.metadata
        return cls(
            episode=int(known.get("episode", -1)),
            task_id=trajectory.task_id,
            task_type=str(known.get("task_type", "")),
            outcome=trajectory.outcome,
            steps=len(trajectory),
            tokens=int(trajectory.token_counts.sum()),
            invalid=sum(not turn.valid for turn in trajectory.turns),
            cut_off=sum(turn.completion.truncated for turn in trajectory.turns),
            reward=trajectory.total_reward,
            metrics={str(k): float(v) for k, v in known.get("metrics", {}).items()},
            error=str(known.get("error", "")),
        )


#: A benchmark's own numbers from (task type, success, metrics) of each episode: ``MultiTurnEnv.summarize``.
Scores = Callable[[Sequence[tuple[str, bool, Mapping[str, float]]]], Mapping[str, float]]


def summarise(records: Iterable[EpisodeRecord], scores: Scores | None = None) -> dict[str, Any]:
    """Return the numbers; the order of the episodes does not matter.

    An episode that ended as ``error`` counts as not solved, so that breaking down never improves a result; step and
    token means are over the episodes that did not break down. Intervals are Wilson's, 95 %.
    ``scores`` holds the benchmark's official numbers, where it has some.

    Args:
        records: The episodes.
        scores: The environment's ``summarize``.
    """
    rows = sorted(records, key=lambda row: row.episode)
    sound = [row for row in rows if row.outcome != "error"]
    steps = sum(row.steps for row in sound)
    outcomes = Counter(row.outcome for row in rows)
    kinds = sorted({row.task_type for row in rows if row.task_type})
    names = sorted({name for row in rows for name in row.metrics})
    return {
        "episodes": len(rows),
        **_success(rows),
        "mean_reward": _mean([row.reward for row in sound]),
        "mean_steps": _mean([row.steps for row in sound]),
        "assistant_tokens_per_episode": _mean([row.tokens for row in sound]),
        "assistant_tokens": sum(row.tokens for row in rows),
        "invalid_action_rate": sum(row.invalid for row in sound) / steps if steps else 0.0,
        "cut_off_message_rate": sum(row.cut_off for row in sound) / steps if steps else 0.0,
        "errors": outcomes["error"],
        "outcomes": {name: outcomes[name] for name in OUTCOMES},
        "task_types": {
            kind: {
                "episodes": len(members),
                **_success(members),
                "mean_steps": _mean([row.steps for row in members if row.outcome != "error"]),
            }
            for kind in kinds
            if (members := [row for row in rows if row.task_type == kind])
        },
        "metrics": {name: _mean([row.metrics[name] for row in rows if name in row.metrics]) for name in names},
        "scores": _scores(rows, scores) if scores is not None and rows else {},
    }


def _scores(rows: Sequence[EpisodeRecord], scores: Scores) -> dict[str, float]:
    found = scores([(row.task_type, row.outcome == "success", row.metrics) for row in rows])
    return {str(name): float(value) for name, value in found.items()}


def _success(rows: Sequence[EpisodeRecord]) -> dict[str, Any]:
    wins = sum(row.outcome == "success" for row in rows)
    low, high = wilson_interval(wins, len(rows))
    rate = wins / len(rows) if rows else 0.0
    return {"successes": wins, "success_rate": rate, "success_low": low, "success_high": high}


def _mean(values: Sequence[float]) -> float:
    finite = [float(value) for value in values if math.isfinite(value)]
    return math.fsum(finite) / len(finite) if finite else 0.0
