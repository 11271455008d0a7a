"""The tables of a comparison in the paper's forms, as texts; page and Markdown show the same."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from typing import Any

from ..compare.load import RunData
from ..compare.statistics import Interval, PairedDifference
from ..compare.tables import Sheet, interval_cell, rate_cell
from ._paper import PAPER_VALUES
from ._plots import SETTINGS, elsewhere, shown_value, transfer_columns
from ._study import Column, EnvStudy, Study

__all__ = [
    "ablation_sheet",
    "comparison_sheet",
    "curves_csv",
    "meter_sheet",
    "paper_sheet",
    "runs_sheet",
    "sensitivity_sheet",
    "transfer_sheet",
]


def comparison_sheet(study: EnvStudy) -> Sheet:
    """Return methods against task types and splits, with the overall rate (the paper's Table 1)."""
    columns = [*study.of("scripted"), *study.of("method"), *study.of("variant")]
    columns = columns or study.contenders
    split = next((run.eval_split for column in columns for run in column.runs if run.eval_split), "")
    types = _names(columns, "task_types")
    others = [name for name in _names(columns, "splits") if name != split]
    scores = _names(columns, "scores")
    head = ["method", "seeds", *(name.replace("_", " ") for name in types), f"overall ({split})"]
    rows = []
    for column in columns:
        summary = column.summary
        cells = [_mean(summary.task_types.get(name)) for name in types]
        cells.append(rate_cell(summary.final))
        cells += [rate_cell(summary.splits[name]) if name in summary.splits else "" for name in others]
        cells += [interval_cell(summary.scores[name], "{:.4g}") if name in summary.scores else "" for name in scores]
        rows.append((column.label, str(summary.final.n), *cells))
    note = (
        "Success of the trained policy, mean over seeds, with the 95 % interval of that mean in brackets; task types "
        f"are those of {split}, means only (they hold few tasks each)."
        if types
        else "Success of the trained policy, mean over seeds, with the 95 % interval of that mean in brackets."
    )
    return Sheet("Success by task type and split", (*head, *others, *scores), rows, note)


def ablation_sheet(study: EnvStudy) -> Sheet | None:
    """Return the full method and what is left of it without each part (the paper's Table 2)."""
    columns = study.ablations()
    if not columns:
        return None
    full = columns[0] if columns[0].role != "ablation" else None
    others = [name for name in _names(columns, "splits") if name != columns[0].runs[0].eval_split]
    head = ["variant", "what it is", "seeds", "success at the end", *others]
    head += [f"difference from {full.label}", "p"] if full else []
    rows = []
    for column in columns:
        row = [column.label, _summary(column.summary.method), str(column.summary.final.n)]
        row.append(rate_cell(column.summary.final))
        row += [rate_cell(column.summary.splits[name]) if name in column.summary.splits else "" for name in others]
        if full:
            found = study.difference(column, full) if column is not full else None
            row += [_difference(found), _p(found)]
        rows.append(tuple(row))
    note = "Differences in percentage points, paired by seed, with Student's 95 % interval; p of the paired t test, "
    return Sheet("The full method and its ablations", tuple(head), rows, note + "not corrected for the number of rows.")


def transfer_sheet(study: EnvStudy) -> Sheet | None:
    """Return training with meters from elsewhere beside training with an own one (the paper's Figure 5d)."""
    columns = transfer_columns(study)
    if not columns:
        return None
    reference = study.reference
    head = ["label", "meter learned on", "seeds", "success at the end"]
    if reference is not None:
        head += [f"difference from {reference.label}", f"share of {reference.label}'s updates to its end"]
    head.append("difference from own meter")
    rows = []
    for column in columns:
        row = [column.label, elsewhere(column) or "no meter", str(column.summary.final.n)]
        row.append(rate_cell(column.summary.final))
        if reference is not None:
            row.append(_difference(study.difference(column, reference) if column is not reference else None))
            share = column.summary.reference_share.get("updates")
            row.append("" if share is None or not share.n else _reached(share))
        own = study.get(column.summary.method)
        transferred = column.role == "transfer" and own is not None and own is not column
        row.append(_difference(study.difference(column, own)) if transferred and own is not None else "")
        rows.append(tuple(row))
    note = "Differences in percentage points, paired by seed, with Student's 95 % interval."
    return Sheet("Training with a meter from elsewhere", tuple(head), rows, note)


def sensitivity_sheet(study: EnvStudy) -> Sheet | None:
    """Return every swept value with its success; None where nothing was swept."""
    rows = []
    for name, lines in study.sweeps().items():
        for method, points in lines.items():
            for point in points:
                value = shown_value(point.value) + (" (as it is)" if point.default else "")
                reference = study.reference
                found = None
                if reference is not None and point.column is not reference:
                    found = study.difference(point.column, reference, seeds=point.seeds)
                share = point.column.summary.reference_share.get("updates")
                row = (SETTINGS.get(name, name), method, value, str(point.final.n), rate_cell(point.final))
                rows.append((*row, _difference(found), _reached(share) if share is not None and share.n else ""))
    if not rows:
        return None
    against = f"difference from {study.reference.label}" if study.reference else "difference"
    to = f"share of {study.reference.label}'s updates to its end" if study.reference else "share of updates"
    head = ("setting", "method", "value", "seeds", "success at the end", against, to)
    note = (
        "One setting varied at a time, everything else as the method has it. Means over the seeds that all values have."
    )
    return Sheet("Every value of every setting", head, rows, note)


#: Measures of a meter on its held-out tasks, and what they are called.
_METER = (
    ("completion_auroc", "completion AUROC", "{:.3f}"),
    ("token_accuracy", "token accuracy u", "{:.3f}"),
    ("mean_absolute_error", "mean absolute error", "{:.1f}"),
    ("rank_correlation", "rank correlation", "{:.3f}"),
    ("invalid", "invalid", "{:.1%}"),
)


def meter_sheet(study: EnvStudy) -> Sheet | None:
    """Return how good the meters were on their held-out tasks; None without any."""
    rows = []
    found: dict[str, tuple[list[str], list[dict[str, Any]]]] = {}
    for column in study.columns:
        reports = [run.meter for run in column.runs if run.meter and isinstance(run.meter.get("test"), dict)]
        if reports:  # what shares its meter shares a row
            key = json.dumps(sorted({json.dumps(report, sort_keys=True) for report in reports}))
            found.setdefault(key, ([], reports))[0].append(column.label)
    for labels, reports in found.values():
        tests = [report["test"] for report in reports]
        cells = [_measure([test.get("meter") for test in tests], key, form) for key, _, form in _METER]
        distinct = {json.dumps(test, sort_keys=True): bool(test.get("beats_references")) for test in tests}
        cells.append(f"{sum(distinct.values())} of {len(distinct)}")
        recorded = sum((reports[0].get("trajectories") or {}).values())
        more = f" and {len(labels) - 3} more" if len(labels) > 3 else ""
        rows.append((", ".join(labels[:3]) + more, str(reports[0].get("kind", "")), str(recorded), *cells))
    head = ("meter of", "kind", "recordings", *(name for _, name, _ in _METER), "better than constant and step count")
    note = "Mean over the meters of a row's runs, on tasks that the meter did not learn from, of recorded trajectories."
    return Sheet("Quality of the meters", head, rows, note) if rows else None


def runs_sheet(study: Study) -> Sheet:
    """Return every run, complete or not."""
    rows = []
    for run in study.runs:
        name = f"{run.label}/seed-{run.seed} on {run.env}"
        error = study.failures.get(name, "")
        state = "complete" if run.complete else "not complete"
        if error and not run.complete:
            state = f"failed: {error.strip().splitlines()[-1]}"
        final = "" if math.isnan(run.final_success) else f"{run.final_success:.1%}"
        rows.append((run.env, run.label, str(run.seed), state, str(run.updates), final, str(run.path)))
    head = ("environment", "label", "seed", "state", "updates", "success at the end", "folder")
    return Sheet("Every run", head, rows, "Runs that are not complete are left out of every number above.")


def paper_sheet() -> Sheet:
    """Return the paper's numbers, as the paper's."""
    rows = [(one.name, one.value, one.setting, one.source) for one in PAPER_VALUES]
    note = (
        "The paper's, not ours: other models, other hardware, other numbers of tasks. Its success rates stand in none "
        "of the project's sources, so they are not shown."
    )
    return Sheet("As the paper states them", ("what", "the paper's value", "for", "where we have it from"), rows, note)


def curves_csv(runs: Sequence[RunData]) -> str:
    """Return the learning curves of complete runs, one row for each evaluation."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["env", "label", "method", "seed", "update", "generated_tokens", "trained_tokens", "success"])
    for run in runs:
        if run.complete and run.metrics:
            curve = run.curve()
            points = zip(curve.updates, curve.generated, curve.trained, curve.values, strict=True)
            for update, generated, trained, value in points:
                numbers = [f"{update:.0f}", f"{generated:.0f}", f"{trained:.0f}", f"{value:.6g}"]
                writer.writerow([run.env, run.label, run.method, run.seed, *numbers])
    return out.getvalue()


# Cells ------------------------------------------------------------------------------------------------------------


def _names(columns: Sequence[Column], what: str) -> list[str]:
    return list(dict.fromkeys(name for column in columns for name in getattr(column.summary, what)))


def _mean(found: Interval | None) -> str:
    return "" if found is None or math.isnan(found.mean) else f"{found.mean:.1%}"


def _difference(found: PairedDifference | None) -> str:
    if found is None or not found.n:
        return ""
    mean = f"{100 * found.mean:+.1f}"
    low, high = found.student.low, found.student.high
    return mean if math.isnan(low) else f"{mean} [{100 * low:+.1f}, {100 * high:+.1f}]"


def _p(found: PairedDifference | None) -> str:
    if found is None or math.isnan(found.student_p):
        return ""
    return f"{found.student_p:.3f}" if found.student_p >= 0.001 else "< 0.001"


def _reached(share: Any) -> str:
    part = f" ({share.reached}/{share.n})"
    return f"{share.mean.mean:.0%}{part}" if share.reached == share.n else f">= {share.at_least.mean:.0%}{part}"


def _measure(rows: Sequence[Any], key: str, form: str) -> str:
    values = [row[key] for row in rows if isinstance(row, dict) and isinstance(row.get(key), (int, float))]
    return form.format(sum(values) / len(values)) if values else ""


def _summary(method: str) -> str:
    """Return a method's one line; empty for one that is not installed here."""
    from agentgym_ttg.agents.methods import METHODS

    return METHODS[method].summary if method in METHODS else ""
