"""The results of the step evaluations for people."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.table import Table

__all__ = ["print_results"]

Results = dict[str, Any]


def print_results(results: Results, console: Console) -> None:
    """Print the tables of an evaluation."""
    printers: dict[str, Callable[[Results, Console], None]] = {
        "quality": _quality,
        "attribution": _attribution,
        "uncertainty": _uncertainty,
        "best-of-n": _best_of_n,
    }
    printers[results["evaluation"]](results, console)


def percent(found: Results, scale: float = 100.0, digits: int = 1) -> str:
    """Return a number with its interval.

    >>> percent({"value": 0.5, "low": 0.25, "high": 0.75}), percent({"value": None, "low": None, "high": None})
    ('50.0 [25.0, 75.0]', '–')
    """
    if found["value"] is None:
        return "–"
    text = f"{found['value'] * scale:.{digits}f}"
    if found.get("low") is None or found.get("high") is None:
        return text
    return f"{text} [{found['low'] * scale:.{digits}f}, {found['high'] * scale:.{digits}f}]"


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column(columns[0], no_wrap=True)
    for column in columns[1:]:
        table.add_column(column, justify="right")
    return table


def _quality(results: Results, console: Console) -> None:
    data, split = results["data"], results["split"]
    console.print(
        f"{data['trajectories']} trajectories of {data['questions']} questions, {data['steps']} steps: "
        f"{data['good']} good, {data['neutral']} neutral (left out), {data['bad']} bad; "
        f"{split['folds']} fold(s), split by {split['by']}. Per cent, 95 % by bootstrap over "
        f"{results['settings']['resample']}.",
        highlight=False,
    )
    names = ("accuracy", "balanced", "coverage", "first_error", "first_error_all", "auroc")
    heads = ("accuracy", "balanced", "coverage", "first error", "first error, all", "step AUROC")
    table = _table("Step quality, pooled over steps", "", *heads)
    for name, row in results["rows"].items():
        table.add_row(name, *(percent(row["pooled"][key]) for key in names))
    console.print(table)
    if len(data["sources"]) > 1:
        table = _table("Sign accuracy by data set", "", *data["sources"])
        for name, row in results["rows"].items():
            table.add_row(name, *(percent(row["by_source"][source]["accuracy"]) for source in data["sources"]))
        console.print(table)
    table = _table("Sign accuracy ahead of (percentage points, paired)", "", "majority", "random")
    for name, row in results["rows"].items():
        if lead := row.get("accuracy_ahead_of"):
            table.add_row(name, percent(lead["majority"]), percent(lead["random"]))
    console.print(table)


def _attribution(results: Results, console: Console) -> None:
    data = results["data"]
    bands = list(data["by_length"])
    table = _table(
        f"Failure attribution, {data['logs']} logs",
        "",
        "exact step, %",
        "mean abs. error",
        *(f"{b} steps" for b in bands),
    )
    for name, row in results["rows"].items():
        inside = [
            f"{row['by_length'][b]['exact']:.0%} / {row['by_length'][b]['mean_absolute_error']:.1f}" for b in bands
        ]
        table.add_row(name, percent(row["exact"]), percent(row["mean_absolute_error"], 1.0, 2), *inside)
    console.print(table)
    counts = ", ".join(f"{band}: {count}" for band, count in data["by_length"].items())
    console.print(f"by number of steps: exact / mean absolute error (logs: {counts})", highlight=False)


def _uncertainty(results: Results, console: Console) -> None:
    data = results["data"]
    table = _table(
        f"Score against success, {data['trajectories']} trajectories, {data['successes']} successes",
        "",
        "over steps",
        "AUROC",
        "Spearman",
    )
    for name, row in results["rows"].items():
        table.add_row(name, row.get("aggregation", ""), percent(row["auroc"], 1.0, 3), percent(row["spearman"], 1.0, 3))
    console.print(table)
    curves = {name: row["early_warning"] for name, row in results["rows"].items() if row.get("early_warning")}
    if curves:
        table = _table(
            "Early warning: AUROC after the first k steps, of trajectories that go on", "k", "going on", *curves
        )
        longest = max(curves.values(), key=len)
        for index, point in enumerate(longest):
            shown = [percent(c[index]["auroc"], 1.0, 3) if index < len(c) else "" for c in curves.values()]
            table.add_row(str(point["steps"]), str(point["trajectories"]), *shown)
        console.print(table)


def _best_of_n(results: Results, console: Console) -> None:
    data = results["data"]
    title = f"Success of the picked trajectory, %, {data['tasks']} tasks ({data['mixed_tasks']} with both outcomes)"
    table = _table(title, "N", *results["rows"])
    for n in range(data["n"]):
        table.add_row(str(n + 1), *(percent(row["success"][n]) for row in results["rows"].values()))
    console.print(table)
    table = _table(f"At N = {data['n']}, percentage points, paired by task", "", "ahead of random", "behind the oracle")
    for name, row in results["rows"].items():
        if "behind_oracle" in row:
            table.add_row(name, percent(row["ahead_of_random"][-1]), percent(row["behind_oracle"][-1]))
    console.print(table)
    if data["tasks_with_fewer"]:
        console.print(f"{data['tasks_with_fewer']} tasks with fewer than {data['n']} trajectories are left out")
