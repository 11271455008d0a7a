"""The leaderboard's scores, as pure functions.

The formulas are those of ``generate_leaderboard_csv`` in bfcl-eval 2025.8.6.2 (BFCL v3): a category that was not played
counts as 0, in the weighted means with the number of its tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

__all__ = ["aggregate_scores", "scores_by_category"]

Results = Mapping[str, tuple[float, int]]

#: Tasks of the categories whose mean is weighted.
_LIVE = {
    "live_simple": 258,
    "live_multiple": 1053,
    "live_parallel": 16,
    "live_parallel_multiple": 24,
    "live_irrelevance": 882,
    "live_relevance": 18,
}


def scores_by_category(episodes: Iterable[tuple[str, bool]]) -> dict[str, tuple[float, int]]:
    """Return (accuracy, count) of each category.

    >>> scores_by_category([("java", True), ("java", False)])
    {'java': (0.5, 2)}
    """
    counts: dict[str, list[int]] = {}
    for category, success in episodes:
        entry = counts.setdefault(category, [0, 0])
        entry[0] += bool(success)
        entry[1] += 1
    return {category: (won / played, played) for category, (won, played) in counts.items()}


def aggregate_scores(results: Results) -> dict[str, float]:
    """Return the leaderboard's columns.

    Args:
        results: (accuracy, count) of each category.

    Returns:
        ``overall``, ``non_live``, ``live``, ``multi_turn``, ``irrelevance``, ``relevance`` (the two of Hallucination),
        ``non_live_ast`` and ``live_ast``; all in [0, 1].

    >>> aggregate_scores({"live_relevance": (1.0, 18)})["relevance"]
    1.0
    """

    def score(name: str) -> float:
        return results.get(name, (0.0, 0))[0]

    def mean(values: Iterable[float]) -> float:
        values = list(values)
        return sum(values) / len(values)

    def weighted(names: Iterable[str]) -> float:
        parts = [results.get(name, (0.0, _LIVE[name])) for name in names]
        count = sum(played for _, played in parts)
        return sum(accuracy * played for accuracy, played in parts) / count if count else 0.0

    shapes = ("multiple", "parallel", "parallel_multiple")
    simple = mean(score(name) for name in ("simple", "java", "javascript"))
    ast = [simple, *(score(name) for name in shapes)]
    live = ["live_simple", *(f"live_{name}" for name in shapes)]
    non_live = mean([*ast, score("irrelevance")])
    overall_live = weighted([*live, "live_irrelevance", "live_relevance"])
    turns = mean(score(f"multi_turn_{name}") for name in ("base", "miss_func", "miss_param", "long_context"))
    return {
        "overall": mean([non_live, overall_live, turns]),
        "non_live": non_live,
        "live": overall_live,
        "multi_turn": turns,
        "irrelevance": mean([score("irrelevance"), score("live_irrelevance")]),
        "relevance": score("live_relevance"),
        "non_live_ast": mean(ast),
        "live_ast": weighted(live),
    }
