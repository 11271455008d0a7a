"""The page: sections from a run record, one self-contained HTML file."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

from ._document import document
from ._load import RunRecord
from ._steps import show_trajectory
from ._svg import Series, bars, line_chart, note, number
from ._text import Html, element, join

__all__ = ["render"]


def render(run: RunRecord) -> str:
    """Return the report of a run as an HTML document."""
    sections: list[tuple[str, str, Html]] = []

    def add(name: str, title: str, content: Html | None) -> None:
        if content:
            sections.append((name, title, element("section", element("h2", title, id=name), content)))

    add("curves", "Learning curves", _curves(run))
    add("optimisation", "Optimisation", _optimisation(run))
    add("results", "Results", _results(run))
    add("meter", "Progress meter", _meter(run))
    add("time", "Time by stage", _time(run))
    add("samples", "Sample trajectories", _samples(run))
    add("settings", "Settings and environment", _settings(run))
    method, env = run.config.get("method", "?"), run.config.get("env", "?")
    title = f"{method} on {env}"
    body = join(
        [
            element("h1", title),
            element("p", _subtitle(run), class_="note"),
            _warning(run),
            _tiles(run),
            element("nav", *(element("a", heading, href=f"#{name}") for name, heading, _ in sections)),
            *(content for _, _, content in sections),
        ]
    )
    return document(title, body)


def _subtitle(run: RunRecord) -> str:
    data = run.environment.get("data", {})
    git = run.environment.get("git") or {}
    commit = f"commit {str(git['commit'])[:12]}{' with changes' if git.get('dirty') else ''}" if git else ""
    seed = f"seed {run.config.get('seed')}"
    parts = [data.get("source"), f"split {run.config.get('split')}", seed, commit, run.environment.get("started")]
    return " · ".join(str(part) for part in parts if part)


def _warning(run: RunRecord) -> Html:
    if run.results.get("complete"):
        return Html("")
    return element("p", "This run is not complete: the numbers are those of what was there.", class_="warn")


def _interval(rate: Any, low: Any, high: Any) -> str:
    if not all(isinstance(value, (int, float)) for value in (rate, low, high)):
        return "–"
    return f"{rate:.1%} [{low:.1%}, {high:.1%}]"


def _tiles(run: RunRecord) -> Html:
    tiles: list[tuple[str, str]] = []
    results, evaluations = run.results, run.evaluations
    if evaluations:
        first, last = evaluations[0], evaluations[-1]
        for name, row in (("before training", first), (f"after update {last.get('update')}", last)):
            rate = _interval(row.get("eval_success"), row.get("eval_low"), row.get("eval_high"))
            tiles.append((rate, f"success, {name}"))
    elif "success_rate" in results:
        rate = _interval(results["success_rate"], results["success_low"], results["success_high"])
        tiles.append((rate, "success [95 % interval]"))
    if results:
        tiles.append((number(results.get("episodes", 0)), "episodes"))
        tiles.append((f"{results.get('assistant_tokens_per_episode', 0):.1f}", "assistant tokens per episode"))
        tiles.append((f"{results.get('invalid_action_rate', 0):.1%}", "invalid actions"))
    if run.metrics:
        tiles.append((number(len(run.metrics)), "updates"))
        tiles.append((number(float(run.metrics[-1].get("actor_tokens", 0))), "actor tokens generated"))
    boxes = (element("div", element("b", value), element("span", name), class_="tile") for value, name in tiles)
    return element("div", *boxes, class_="tiles")


# Curves ---------------------------------------------------------------------------------------------------------------


def _finite(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan


def _points(rows: Sequence[dict[str, Any]], x: str, y: str) -> list[tuple[float, float]]:
    return [(_finite(row.get(x)), _finite(row.get(y))) for row in rows]


def _smooth(points: Sequence[tuple[float, float]], window: int) -> list[tuple[float, float]]:
    """Return means over the last ``window`` points."""
    out = []
    for index in range(len(points)):
        part = [y for _, y in points[max(0, index + 1 - window) : index + 1] if math.isfinite(y)]
        out.append((points[index][0], math.fsum(part) / len(part) if part else math.nan))
    return out


def _chart(title: str, content: Html) -> Html:
    return element("div", element("h3", title), content)


def _curves(run: RunRecord) -> Html | None:
    if not run.metrics and len(run.evaluations) < 2:
        return None
    tokens = {int(row.get("update", i)): _finite(row.get("actor_tokens")) for i, row in enumerate(run.metrics)}
    # An evaluation "after update n" stands at the tokens that n updates have generated.
    evaluations = [
        {**row, "tokens": tokens.get(int(row.get("update", 0)) - 1, 0.0 if not row.get("update") else math.nan)}
        for row in run.evaluations
    ]
    trained = [{**row, "done": int(row.get("update", i)) + 1} for i, row in enumerate(run.metrics)]
    window = max(1, len(trained) // 15)
    charts = []
    for x, name in (("updates", "policy updates"), ("tokens", "actor tokens generated")):
        mine, theirs = ("done", "update") if x == "updates" else ("actor_tokens", "tokens")
        raw = _points(trained, mine, "success")
        held_out = Series(
            "held-out tasks",
            _points(evaluations, theirs, "eval_success"),
            [(_finite(row.get("eval_low")), _finite(row.get("eval_high"))) for row in evaluations],
            "dotted",
        )
        lines = [held_out, Series(f"training tasks, mean of {window}", _smooth(raw, window))]
        if window > 1:
            lines.append(Series("training tasks", raw, style="faint", colour=1))
        title = f"Success against {name}"
        charts.append(_chart(title, line_chart(lines, x=name, y="success", y_range=(0.0, 1.0))))
        rewards = _points(trained, mine, "reward")
        title = f"Reward against {name}"
        charts.append(_chart(title, line_chart([Series("", _smooth(rewards, window))], x=name, y="mean reward")))
    return join(
        [element("div", *charts, class_="charts"), note("Bars are 95 % intervals of the held-out evaluations.")]
    )


_PANELS: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...] = (
    ("Entropy", "nats per token", (("entropy", ""),)),
    ("KL to the start", "nats per token", (("kl", ""),)),
    ("Clipped tokens", "share", (("clip_fraction", ""),)),
    ("Actions", "share", (("invalid_actions", "invalid"), ("cut_off_completions", "cut off"))),
    ("Assistant tokens per episode", "tokens", (("assistant_tokens", ""),)),
    ("Steps per episode", "steps", (("steps", ""),)),
    ("Groups without a difference", "share", (("zero_variance_groups", ""),)),
    ("Trajectories that kept their advantage", "share", (("kept_original", ""),)),
    ("Weights", "weight", (("weight_max", "largest"), ("weight_std", "deviation"), ("weight_min", "smallest"))),
    ("Gradient norm", "norm", (("grad_norm", ""),)),
)


def _optimisation(run: RunRecord) -> Html | None:
    charts = []
    rows = [{**row, "done": int(row.get("update", i)) + 1} for i, row in enumerate(run.metrics)]
    for title, unit, lines in _PANELS:
        series = [Series(name, _points(rows, "done", key)) for key, name in lines]
        if any(math.isfinite(y) for one in series for _, y in one.points):
            charts.append(_chart(title, line_chart(series, x="policy updates", y=unit)))
    return element("div", *charts, class_="charts") if charts else None


# Tables ---------------------------------------------------------------------------------------------------------------


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> Html:
    first = element("thead", element("tr", *(element("th", name) for name in head)))
    body = (
        element("tr", *(element("td", cell, class_="n" if index else None) for index, cell in enumerate(row)))
        for row in rows
    )
    return element("table", first, element("tbody", *body))


def _results(run: RunRecord) -> Html | None:
    results = run.results
    if "success_rate" not in results:
        return None
    rows = [
        [kind, row["episodes"], _interval(row["success_rate"], row["success_low"], row["success_high"]),
         f"{row['mean_steps']:.1f}"]
        for kind, row in results.get("task_types", {}).items()
    ]  # fmt: skip
    overall = _interval(results["success_rate"], results["success_low"], results["success_high"])
    rows.append(["all", results["episodes"], overall, f"{results.get('mean_steps', 0):.1f}"])
    outcomes = ", ".join(f"{name} {count}" for name, count in results.get("outcomes", {}).items() if count)
    extra = [[name, f"{value:.4g}"] for name, value in results.get("metrics", {}).items()]
    return join(
        [
            note(f"Split {results.get('split')} of {results.get('data')}, policy {results.get('policy')}. {outcomes}."),
            _table(["task type", "episodes", "success [95 % interval]", "steps"], rows),
            _table(["metric", "mean"], extra) if extra else "",
        ]
    )


_METER_ROWS: tuple[tuple[str, str], ...] = (
    ("completion_auroc", "completion AUROC"),
    ("completion_accuracy", "completion accuracy"),
    ("balanced_accuracy", "balanced accuracy"),
    ("token_accuracy", "token accuracy u"),
    ("mean_absolute_error", "mean absolute error"),
    ("rank_correlation", "rank correlation inside trajectories"),
    ("rank_correlation_across", "rank correlation at the same step"),
    ("reward", "prediction reward"),
    ("invalid", "invalid outputs"),
)


def _meter(run: RunRecord) -> Html | None:
    test = (run.meter or {}).get("test")
    if not isinstance(test, dict) or run.meter is None:
        return None
    columns = [test.get(name) or {} for name in ("meter", "constant", "steps")]
    rows = [
        [title, *(number(round(value, 4)) if isinstance(value := c.get(key), (int, float)) else "–" for c in columns)]
        for key, title in _METER_ROWS
    ]
    charts = []
    for key, title, x, y in (
        ("completion_calibration", "Completion", "estimated probability", "share that succeeded"),
        ("value_calibration", "Tokens to go", "estimated tokens to go", "actual tokens to go"),
    ):
        found = [(_finite(b.get("estimate")), _finite(b.get("actual"))) for b in test.get(key) or []]
        if found:
            charts.append(_chart(title, line_chart([Series("", found, style="dotted")], x=x, y=y, diagonal=True)))
    beats = "beats both references" if test.get("beats_references") else "does not beat both references"
    counts = ", ".join(f"{count} {policy}" for policy, count in (run.meter.get("policies") or {}).items())
    return join(
        [
            note(f"A {run.meter.get('kind')} meter, on held-out tasks; it {beats}. Recordings: {counts}."),
            _table(["", "meter", "constant", "steps × mean tokens"], rows),
            element("div", *charts, class_="charts"),
        ]
    )


def _time(run: RunRecord) -> Html | None:
    rows = [(name, _finite(stage.get("seconds"))) for name, stage in run.stages.items() if isinstance(stage, dict)]
    for key, name in (
        ("seconds_rollout", "updates: rollout"),
        ("seconds_meter", "updates: meter"),
        ("seconds_update", "updates: optimiser"),
    ):
        rows.append((name, math.fsum(v for row in run.metrics if math.isfinite(v := _finite(row.get(key))))))
    spent = [_finite(row.get("seconds")) for row in run.evaluations]
    rows.append(("evaluations", math.fsum(value for value in spent if math.isfinite(value))))
    if not any(value > 0 for _, value in rows):
        return None
    return bars(rows, unit="s")


def _samples(run: RunRecord) -> Html | None:
    if not run.samples:
        return None
    legend = (
        "Each row is a decision: what was seen, what was said, how many tokens that cost; where a meter was asked, its "
        "cost before the action, Δ (green is progress, red is regress), and the weight of the step's advantage (blue)."
    )
    shown = (show_trajectory(one, opened=index == 0) for index, one in enumerate(run.samples))
    return join([note(legend), *shown])


def _settings(run: RunRecord) -> Html:
    def block(title: str, value: Any, keep: Callable[[Any], bool] = bool) -> Html:
        if not keep(value):
            return Html("")
        text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)
        return element("details", element("summary", title), element("pre", text))

    return join([block("Settings", run.config), block("Environment", run.environment), block("Stages", run.stages)])
