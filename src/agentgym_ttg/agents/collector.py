"""Collecting one update: groups of episodes, their credit, their rows."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agentgym_ttg.core.errors import PolicyError
from agentgym_ttg.core.trajectory import Trajectory, TrajectoryGroup
from agentgym_ttg.credit import AdvantageEstimator, StepCredit, broadcast_to_tokens

from .config import TrainConfig
from .rollout import RolloutEngine, group_specs
from .rows import make_rows, total_tokens, trainable_tokens
from .tasks import TaskStream
from .trainer import UpdateBatch

__all__ = ["Collector", "annotate"]


@dataclass(slots=True)
class Collector:
    """Rolls out the groups of an update and turns them into a training batch.

    Attributes:
        engine: Plays the episodes.
        tasks: Where the tasks come from.
        estimator: Turns outcomes into advantages.
        config: Training settings.
        seed: Seed of the run; the update's number and it determine every draw.
        keep: Which groups to keep; the others are replaced by groups of further tasks (DAPO's dynamic sampling).
        cursor: Position in ``tasks``.
        actor_tokens: Tokens generated so far, those of dropped groups included.
        on_groups: Called with the annotated groups of each update.
    """

    engine: RolloutEngine
    tasks: TaskStream
    estimator: AdvantageEstimator
    config: TrainConfig
    seed: int
    keep: Callable[[TrajectoryGroup], bool] | None = None
    cursor: int = 0
    actor_tokens: int = 0
    on_groups: Callable[[int, Sequence[TrajectoryGroup]], Any] | None = None

    def __call__(self, update: int) -> UpdateBatch:
        """Collect the batch of an update.

        Raises:
            PolicyError: If dynamic sampling finds no full batch in ``max_sampling_rounds`` rounds.
        """
        started = time.perf_counter()
        groups, sampled = self._roll_out(update)
        rolled_out = time.perf_counter()
        # The loss counts the ids that were sampled; where an environment counts otherwise, weights follow the loss.
        token_counts = [[trainable_tokens(trajectory) for trajectory in group] for group in groups]
        report = self.estimator.estimate(groups, token_counts=token_counts)
        scored = time.perf_counter()
        rows, advantages = [], []
        for group, credits in zip(groups, report.credits, strict=True):
            for trajectory, credit in zip(group, credits, strict=True):
                if trajectory.outcome == "error":
                    continue
                values = self._with_penalty(trajectory, credit)
                for row in make_rows(trajectory, merge=self.config.merge_rows):
                    rows.append(row)
                    advantages.append(broadcast_to_tokens(values, row.steps))
                annotate(trajectory, credit)
        if self.on_groups is not None:
            self.on_groups(update, groups)
        metrics = {
            "update": update,
            **_outcomes([trajectory for group in groups for trajectory in group]),
            **report.metrics,
            **sampled,
            "task_cursor": self.cursor,
            "actor_tokens": self.actor_tokens,
            "rows": len(rows),
            "trained_tokens": total_tokens(rows),
            "seconds_rollout": rolled_out - started,
            "seconds_meter": scored - rolled_out,
        }
        return UpdateBatch(rows, advantages, metrics)

    def _roll_out(self, update: int) -> tuple[list[TrajectoryGroup], dict[str, int]]:
        """Return the groups of an update, and how many rounds and further groups it took to find them."""
        wanted = self.config.tasks_per_update
        groups: list[TrajectoryGroup] = []
        played = 0
        rounds = self.config.max_sampling_rounds if self.keep else 1
        for attempt in range(rounds):
            task_ids = self.tasks.take(self.cursor, self._next_round(wanted, len(groups), played))
            self.cursor += len(task_ids)
            name = f"update-{update}" + (f"/round-{attempt}" if attempt else "")
            found = self.engine.run_groups(
                group_specs(task_ids, size=self.config.group_size, seed=self.seed, name=name)
            )
            played += len(found)
            self.actor_tokens += int(sum(trainable_tokens(t).sum() for group in found for t in group))
            groups += found if self.keep is None else [group for group in found if self.keep(group)]
            if len(groups) >= wanted:
                counts = {
                    "sampling_rounds": attempt + 1,
                    "dropped_groups": played - len(groups),
                    "surplus_groups": len(groups) - wanted,
                }
                return groups[:wanted], counts
        raise PolicyError(
            f"dynamic sampling found {len(groups)} of {wanted} groups with differing rewards among {played} in "
            f"{rounds} rounds; the tasks are too hard or too easy for this policy: start from another warm start, "
            "change the difficulty, or raise max_sampling_rounds"
        )

    def _next_round(self, wanted: int, kept: int, played: int) -> int:
        """Return how many groups to play next: what is missing, over the share of groups kept so far.

        Asking for what is missing alone would end in many small rounds where few groups differ.
        """
        missing = wanted - kept
        return min(wanted, math.ceil(missing * played / kept)) if kept else wanted

    def _with_penalty(self, trajectory: Trajectory, credit: StepCredit) -> np.ndarray[Any, np.dtype[np.float64]]:
        if not self.config.invalid_action_penalty:
            return credit.advantages
        invalid = np.array([not turn.valid for turn in trajectory.turns], dtype=np.float64)
        return credit.advantages - self.config.invalid_action_penalty * invalid


def annotate(trajectory: Trajectory, credit: StepCredit) -> None:
    """Write a trajectory's credit into the metadata of its turns, for the report."""
    for t, turn in enumerate(trajectory.turns):
        turn.metadata["advantage"] = float(credit.advantages[t])
        if credit.weights is not None:
            turn.metadata["weight"] = float(credit.weights[t])
        if credit.deltas is not None:
            turn.metadata["delta"] = float(credit.deltas[t])
        if credit.costs is not None:
            turn.metadata["cost"] = float(credit.costs[t])
    if credit.kept:
        trajectory.metadata["kept"] = credit.kept


def _outcomes(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Return what an update's episodes were like; broken ones are not counted."""
    played = [trajectory for trajectory in trajectories if trajectory.outcome != "error"]
    turns = [turn for trajectory in played for turn in trajectory.turns]
    return {
        "episodes": len(played),
        "success": float(np.mean([t.success for t in played])) if played else 0.0,
        "reward": float(np.mean([t.total_reward for t in played])) if played else 0.0,
        "truncated": float(np.mean([t.outcome == "truncated" for t in played])) if played else 0.0,
        "steps": float(np.mean([len(t) for t in played])) if played else 0.0,
        "assistant_tokens": float(np.mean([t.token_counts.sum() for t in played])) if played else 0.0,
        "invalid_actions": float(np.mean([not turn.valid for turn in turns])) if turns else 0.0,
        "cut_off_completions": float(np.mean([turn.completion.truncated for turn in turns])) if turns else 0.0,
        "empty_completions": float(np.mean([turn.tokens == 0 for turn in turns])) if turns else 0.0,
    }
