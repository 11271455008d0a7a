"""A comparison as tables: on the console, as Markdown, as CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rich.table import Table

from .aggregate import Comparison, EnvComparison, MethodSummary
from .statistics import Interval, PairedDifference, Reach

__all__ = [
    "Sheet",
    "as_csv",
    "as_markdown",
    "compute_sheet",
    "effort_sheet",
    "interval_cell",
    "markdown_table",
    "rate_cell",
    "rich_tables",
    "seconds_sheet",
    "sheets",
    "success_sheet",
]

#: Stages of every run, and what the table calls them.
_PARTS = {
    "warm_start": "warm start",
    "rollout": "rollouts",
    "meter_scoring": "asking the meter",
    "update": "optimiser",
    "evaluation": "evaluations",
}
_STAGES = ("warm_start", "recordings", "meter", "rollout", "meter_scoring", "update", "evaluation")


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table of texts.

    Attributes:
        title: What stands above it.
        head: Names of the columns.
        rows: The cells.
        note: What has to be known to read it.
    """

    title: str
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    note: str = ""


def sheets(comparison: Comparison) -> list[Sheet]:
    """Return the tables of a comparison: success, what it took, splits and task types, and the compute account."""
    out = []
    for env in comparison.envs:
        out += [success_sheet(env), effort_sheet(env), *_parts(env), compute_sheet(env), seconds_sheet(env)]
    return out


def as_markdown(comparison: Comparison) -> str:
    """Return all tables as Markdown."""
    blocks = []
    for sheet in sheets(comparison):
        blocks.append(f"## {sheet.title}\n\n{markdown_table(sheet)}")
    if comparison.incomplete:
        blocks.append(f"Not complete, and left out: {', '.join(comparison.incomplete)}.")
    return "\n\n".join(blocks) + "\n"


def markdown_table(sheet: Sheet) -> str:
    """Return a table as Markdown, with its note."""
    lines = [_line(sheet.head), _line(["---"] * len(sheet.head)), *(_line(row) for row in sheet.rows)]
    return "\n".join([*lines, *(["", sheet.note] if sheet.note else [])])


def rich_tables(comparison: Comparison) -> Iterator[Table]:
    """Return all tables for the console."""
    for sheet in sheets(comparison):
        table = Table(title=sheet.title, caption=sheet.note or None)
        for index, name in enumerate(sheet.head):
            table.add_column(name, justify="right" if index else "left", overflow="fold")
        for row in sheet.rows:
            table.add_row(*row)
        yield table


def as_csv(comparison: Comparison) -> str:
    """Return the numbers, one row for each environment and method, for other programs."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    head: list[str] | None = None
    for env in comparison.envs:
        for method in env.methods:
            row = _numbers(env, method)
            if head is None:
                head = list(row)
                writer.writerow(head)
            writer.writerow([row[name] for name in head])
    return out.getvalue()


# The tables -------------------------------------------------------------------------------------------------------


def success_sheet(env: EnvComparison) -> Sheet:
    """Return the table of success, and of its difference from the reference."""
    against = f"difference from {env.reference}" if env.reference else "difference"
    rows = [
        (
            method.label,
            str(method.final.n),
            rate_cell(method.before),
            rate_cell(method.final),
            _difference(method.difference),
            _p(method.difference),
            rate_cell(method.mean_success),
        )
        for method in env.methods
    ]
    return Sheet(
        f"{env.env}: success",
        ("method", "seeds", "before", "success at the end", against, "p", "mean over training"),
        rows,
        "Means over seeds with 95 % intervals: Student's t; of the paired differences by bootstrap over seeds, p by "
        "sign flips (five seeds cannot give less than 0.0625).",
    )


def effort_sheet(env: EnvComparison) -> Sheet:
    """Return the table of what it took to reach levels."""
    points = list(env.methods[0].reaches) if env.methods else []
    head = ["method"]
    if env.reference:
        head += [f"updates to {env.reference}'s end", f"share of {env.reference}'s updates", "share of its tokens"]
    head += [f"updates to {point:.0%}" for point in points]
    rows = []
    for method in env.methods:
        row = [method.label]
        if env.reference:
            row += [
                _reach(method.reference_level.get("updates"), "{:.1f}"),
                _reach(method.reference_share.get("updates"), "{:.0%}"),
                _reach(method.reference_share.get("generated"), "{:.0%}"),
            ]
        row += [_reach(method.reaches[point]["updates"], "{:.1f}") for point in points]
        rows.append(tuple(row))
    return Sheet(
        f"{env.env}: what it took to reach a success rate",
        tuple(head),
        rows,
        "Mean over the seeds that reached it; with >= where some did not, which then count with their whole length. "
        "In brackets how many of the seeds did.",
    )


def _parts(env: EnvComparison) -> list[Sheet]:
    out = []
    for title, name, cell in (
        ("success by split", "splits", rate_cell),
        ("success by task type", "task_types", lambda found: _number(found.mean, "{:.1%}")),
        ("official scores", "scores", lambda found: interval_cell(found, "{:.4g}")),
    ):
        columns = list(dict.fromkeys(part for method in env.methods for part in getattr(method, name)))
        if columns:
            rows = [
                (method.label, *(cell(found[part]) if part in found else "" for part in columns))
                for method in env.methods
                for found in [getattr(method, name)]
            ]
            out.append(Sheet(f"{env.env}: {title}", ("method", *columns), rows))
    return out


def compute_sheet(env: EnvComparison) -> Sheet:
    """Return the compute account."""
    unit = env.reference or "the reference"
    head = ("method", "actor tokens", "trained on", "meter tokens", "meter share", f"cost ({unit} = 1)")
    rows = []
    for method in env.methods:
        cost = method.cost
        rows.append(
            (
                method.label,
                _count(cost.generated),
                _count(cost.trained),
                _count(cost.meter_tokens),
                _number(cost.meter_overhead.mean, "{:.1%}"),
                interval_cell(cost.relative, "{:.2f}"),
                _number(cost.peak_memory_mb, "{:.0f}"),
                _number(cost.peak_gpu_mb, "{:.0f}"),
            )
        )
    return Sheet(
        f"{env.env}: compute account",
        (*head, "memory MiB", "GPU MiB"),
        rows,
        "Means over seeds. Meter share: seconds of asking the meter over the rest of the updates. Cost: update seconds "
        "for each generated actor token, paired by seed. Memory: the largest of the runs.",
    )


def seconds_sheet(env: EnvComparison) -> Sheet:
    """Return the table of seconds by stage."""
    rows = [
        (
            method.label,
            *(_number(found.mean if found else None, "{:.1f}") for found in map(method.cost.seconds.get, _PARTS)),
            _number(method.cost.update_seconds.mean, "{:.1f}"),
            _number(method.cost.preparation.mean, "{:.1f}"),
        )
        for method in env.methods
    ]
    return Sheet(
        f"{env.env}: seconds by stage",
        ("method", *_PARTS.values(), "all updates", "making the meter"),
        rows,
        "Means over seeds. Making the meter, its recordings included, is paid once for all runs that share it.",
    )


# Cells ------------------------------------------------------------------------------------------------------------


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _number(value: float | None, form: str) -> str:
    return "" if value is None or not math.isfinite(value) else form.format(value)


def interval_cell(found: Interval, form: str) -> str:
    """Return a mean with its interval as text; empty where there is none."""
    if not math.isfinite(found.mean):
        return ""
    if not math.isfinite(found.low):
        return form.format(found.mean)
    return f"{form.format(found.mean)} [{form.format(found.low)}, {form.format(found.high)}]"


def rate_cell(found: Interval) -> str:
    """Return a rate with its interval in percent, cut off where no rate can be."""
    return interval_cell(replace(found, low=max(found.low, 0.0), high=min(found.high, 1.0)), "{:.1%}")


def _count(found: Interval) -> str:
    return _number(found.mean, "{:,.0f}")


def _difference(found: PairedDifference | None) -> str:
    if found is None or not math.isfinite(found.mean):
        return ""
    if not math.isfinite(found.low):
        return f"{100 * found.mean:+.1f}"
    return f"{100 * found.mean:+.1f} [{100 * found.low:+.1f}, {100 * found.high:+.1f}]"


def _p(found: PairedDifference | None) -> str:
    return "" if found is None else _number(found.p_value, "{:.3f}")


def _reach(found: Reach | None, form: str) -> str:
    if found is None or not found.n:
        return ""
    part = f" ({found.reached}/{found.n})"
    if found.reached == found.n:
        return interval_cell(found.mean, form) + part
    return ">= " + _number(found.at_least.mean, form) + part


def _numbers(env: EnvComparison, method: MethodSummary) -> dict[str, str]:
    def of(name: str, found: Interval | PairedDifference | None) -> dict[str, str]:
        values = {part: getattr(found, part) if found else math.nan for part in ("mean", "low", "high")}
        return {f"{name}_{part}": _number(value, "{:.6g}") for part, value in values.items()}

    cost, share = method.cost, method.reference_share
    row = {"env": env.env, "label": method.label, "method": method.method, "seeds": str(method.final.n)}
    row |= of("success", method.final) | of("difference", method.difference) | {"p": _p(method.difference)}
    row |= of("before", method.before) | of("mean_success", method.mean_success)
    for axis in ("updates", "generated", "trained"):
        found = share.get(axis)
        row |= of(f"share_of_{axis}", found.mean if found else None)
        row[f"share_of_{axis}_at_least"] = _number(found.at_least.mean if found else None, "{:.6g}")
        row[f"share_of_{axis}_reached"] = str(found.reached if found else "")
    for level, by_axis in method.reaches.items():
        row[f"updates_to_{level:g}"] = _number(by_axis["updates"].mean.mean, "{:.6g}")
        row[f"updates_to_{level:g}_reached"] = str(by_axis["updates"].reached)
    row |= of("generated", cost.generated) | of("trained", cost.trained) | of("meter_tokens", cost.meter_tokens)
    row |= of("update_seconds", cost.update_seconds) | of("preparation", cost.preparation)
    row |= of("meter_overhead", cost.meter_overhead) | of("relative_cost", cost.relative)
    for name in _STAGES:
        row[f"seconds_{name}"] = _number(cost.seconds[name].mean if name in cost.seconds else None, "{:.6g}")
    row["peak_memory_mb"] = _number(cost.peak_memory_mb, "{:.6g}")
    row["peak_gpu_mb"] = _number(cost.peak_gpu_mb, "{:.6g}")
    return row
