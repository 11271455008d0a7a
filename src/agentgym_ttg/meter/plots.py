"""Pictures of a meter: calibration, and the estimate along trajectories."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from agentgym_ttg.core.errors import MissingDependencyError

from .base import Estimate
from .evaluation import MeterEvaluation
from .labels import Label
from .metrics import estimated_value

__all__ = ["calibration_plot", "trace_data", "trace_plot"]


def calibration_plot(evaluation: MeterEvaluation, path: Path, *, unit: str = "tokens") -> None:
    """Draw estimated against observed completion and tokens to go.

    Raises:
        MissingDependencyError: If matplotlib is not installed.
    """
    figure, axes = _figure(2)
    panels = (
        (axes[0], evaluation.completion_calibration, "probability of completion", "share that succeeded"),
        (axes[1], evaluation.value_calibration, f"estimated {unit} to go", f"actual {unit} to go"),
    )
    for axis, bins, x_name, y_name in panels:
        if bins:
            x, y = [b.estimate for b in bins], [b.actual for b in bins]
            low, high = (0.0, 1.0) if axis is axes[0] else (0.0, max(*x, *y, 1.0))
            axis.plot([low, high], [low, high], color="0.6", linestyle="--", linewidth=1, label="perfect")
            sizes = np.array([b.histories for b in bins], dtype=np.float64)
            axis.plot(x, y, color="tab:blue", linewidth=1)
            axis.scatter(x, y, s=10 + 90 * sizes / sizes.max(), color="tab:blue", label="histories, by number")
            axis.legend(loc="upper left", fontsize=8)
        else:
            axis.text(0.5, 0.5, "no estimates", ha="center", va="center", transform=axis.transAxes)
        axis.set_xlabel(x_name)
        axis.set_ylabel(y_name)
    _save(figure, path)


def trace_data(
    estimates: Sequence[Sequence[Estimate]], labels: Sequence[Label], *, count: int = 3
) -> list[dict[str, Any]]:
    """Return the traces that are drawn.

    Up to ``count`` successful and as many other trajectories: the first of each kind with at least three decisions.
    """
    out: list[dict[str, Any]] = []
    for wanted in (True, False):
        found = [
            (row, label)
            for row, label in zip(estimates, labels, strict=True)
            if label.can_complete is wanted and len(row) >= 3
        ][:count]
        out += [
            {
                "task_id": label.trajectory.task_id,
                "policy": label.trajectory.policy,
                "outcome": label.trajectory.outcome,
                "estimate": [estimated_value(e) for e in row],
                "can_complete": [e.can_complete if e.valid else None for e in row],
                "completion_logit": [e.completion_logit for e in row],
                "actual": [float(v) for v in label.values] if label.has_values else None,
            }
            for row, label in found
        ]
    return out


def trace_plot(traces: Sequence[dict[str, Any]], path: Path, *, unit: str = "tokens") -> None:
    """Draw estimates along trajectories, beside what was observed.

    Raises:
        MissingDependencyError: If matplotlib is not installed.
    """
    figure, axes = _figure(max(1, len(traces)), columns=3)
    for axis, trace in zip(axes, traces, strict=False):
        steps = np.arange(len(trace["estimate"]))
        values = np.array([np.nan if v is None else v for v in trace["estimate"]], dtype=np.float64)
        axis.plot(steps, values, marker="o", markersize=3, color="tab:blue", label="estimate")
        if trace["actual"] is not None:
            axis.plot(steps, trace["actual"], color="0.5", linestyle="--", label="actual")
        denied = [t for t, can in zip(steps, trace["can_complete"], strict=True) if can is False]
        invalid = [t for t, can in zip(steps, trace["can_complete"], strict=True) if can is None]
        for marks, colour, name in ((denied, "tab:red", "not completable"), (invalid, "black", "invalid")):
            if marks:
                axis.plot(marks, np.zeros(len(marks)), "x", color=colour, markersize=5, label=name, clip_on=False)
        axis.set_title(f"{trace['policy']}: {trace['outcome']}\n{trace['task_id'][-40:]}", fontsize=8)
        axis.set_xlabel("decision")
        axis.set_ylabel(f"{unit} to go")
        axis.set_ylim(bottom=0)
        axis.legend(fontsize=7)
    for axis in axes[len(traces) :]:
        axis.set_axis_off()
    _save(figure, path)


def _figure(panels: int, columns: int = 2) -> tuple[Any, list[Any]]:
    try:
        # The object interface: no global state, no display.
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependencyError("matplotlib", "train", "drawing a meter's plots") from error
    columns = min(columns, panels)
    rows = -(-panels // columns)
    figure = Figure(figsize=(4.2 * columns, 3.2 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def _save(figure: Any, path: Path) -> None:
    # No creation date in the file: the same numbers give the same bytes.
    figure.savefig(path, dpi=110, metadata={"Software": None})
