"""Which trajectories train, choose and test a meter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from agentgym_ttg.core.errors import DataError

from .records import LabelledTrajectory

__all__ = ["FULL_SET", "Fold", "Splitting", "make_folds"]

#: Trajectories of the whole AgentProcessBench, and how the paper splits them.
FULL_SET = 1000
_PAPER = (750, 50, 200)

Splitting = Literal["auto", "stratified", "query"]


@dataclass(frozen=True, slots=True)
class Fold:
    """Indices of the trajectories of each part."""

    train: list[int]
    validation: list[int]
    test: list[int]


def make_folds(
    records: Sequence[LabelledTrajectory], how: Splitting, *, folds: int = 5, validation: float = 0.1, seed: int = 0
) -> list[Fold]:
    """Split labelled trajectories.

    ``stratified`` is the paper's one split into 75, 5 and 20 % of the trajectories (750/50/200 of the full set), alike
    in data sets and outcomes; the trajectories of one question may fall into different parts. ``query`` makes every
    trajectory a test trajectory once and never tears a question apart. ``auto`` takes the first for a full set.

    Args:
        records: The trajectories.
        how: Which split.
        folds: Number of folds by query.
        validation: Share of the questions not tested that choose the epoch, at least one.
        seed: Draws the split.

    Raises:
        DataError: If there are too few trajectories or questions.
    """
    if how == "stratified" or (how == "auto" and len(records) >= FULL_SET):
        return [_stratified(records, seed)]
    rng = np.random.default_rng(seed)
    queries = sorted({record.query for record in records})
    if len(queries) < max(folds, 3):
        raise DataError(f"expected at least {max(folds, 3)} questions for {folds} folds, got {len(queries)}")
    order = [queries[i] for i in rng.permutation(len(queries))]
    out: list[Fold] = []
    for number in range(folds):
        tested = set(order[number::folds])
        # The others from another place on, so that each fold is chosen by other questions.
        offset = number * len(order) // folds
        rest = [order[(offset + i) % len(order)] for i in range(len(order))]
        rest = [query for query in rest if query not in tested]
        chosen = set(rest[: max(1, round(len(rest) * validation))])
        out.append(
            Fold(
                [i for i, r in enumerate(records) if r.query not in tested and r.query not in chosen],
                [i for i, r in enumerate(records) if r.query in chosen],
                [i for i, r in enumerate(records) if r.query in tested],
            )
        )
    return out


def _stratified(records: Sequence[LabelledTrajectory], seed: int) -> Fold:
    """Deal each stratum (data set and outcome) out in the parts' shares; rounding is made up over the strata."""
    if len(records) < 20:
        raise DataError(f"expected at least 20 trajectories to split 75/5/20, got {len(records)}")
    rng = np.random.default_rng(seed)
    strata: dict[tuple[str, bool], list[int]] = {}
    for index, record in enumerate(records):
        strata.setdefault((record.source, record.trajectory.success), []).append(index)
    dealt = [index for key in sorted(strata) for index in rng.permutation(strata[key]).tolist()]
    # Every index has a place on a circle of 20: 15 places train, 1 validates, 4 test. Strata lie one after another on
    # it, so each has its shares up to one place.
    places = np.array([0, 0, 0, 2, 0, 0, 0, 0, 2, 0, 1, 0, 0, 2, 0, 0, 0, 0, 2, 0])
    part = places[np.arange(len(dealt)) % len(places)]
    parts = [sorted(int(i) for i, p in zip(dealt, part, strict=True) if p == wanted) for wanted in range(3)]
    if len(records) == FULL_SET:
        assert tuple(map(len, parts)) == _PAPER
    return Fold(*parts)
