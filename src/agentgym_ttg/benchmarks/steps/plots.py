"""Pictures of the step evaluations, from their results alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from agentgym_ttg.core.errors import DataError, MissingDependencyError

__all__ = ["draw"]

Results = dict[str, Any]


def draw(results: Results, folder: Path, kind: str = "png") -> list[str]:
    """Draw what there is to see in some results; return the names of the files.

    Args:
        results: Of an evaluation.
        folder: Where the pictures go.
        kind: ``png`` or ``svg``.

    Raises:
        DataError: If the disk takes them not.
        MissingDependencyError: If matplotlib is not installed.
    """
    pictures: dict[str, Callable[[Results], Any]] = {
        "quality": _quality,
        "attribution": _attribution,
        "calibration": _calibration,
        "early_warning": _early_warning,
        "success_against_n": _success_against_n,
        "heat_map": _heat_map,
    }
    names: list[str] = []
    for name, picture in pictures.items():
        figure = picture(results)
        if figure is None:
            continue
        file = folder / f"{name}.{kind}"
        # No creation date in the file: the same numbers give the same bytes.
        try:
            figure.savefig(file, dpi=110, metadata={"Date": None} if kind == "svg" else {"Software": None})
        except OSError as error:
            raise DataError(f"cannot write {file}: {error.strerror or error}") from error
        names.append(file.name)
    return names


def _figure(panels: int, *, columns: int = 3, width: float = 4.4, height: float = 3.3) -> tuple[Any, list[Any]]:
    try:
        # The object interface: no global state, no display.
        from matplotlib import rcParams
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependencyError("matplotlib", "train", "drawing the plots of step evaluations") from error
    rcParams["svg.hashsalt"] = "agentgym_ttg"  # ids inside an SVG are random otherwise
    columns = min(columns, panels)
    rows = -(-panels // columns)
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def _bars(axis: Any, rows: Results, pick: Callable[[Results], Results], title: str) -> None:
    """Draw a number of each row with its interval, the first on top."""
    names = list(rows)
    for place, name in enumerate(reversed(names)):
        found = pick(rows[name])
        if found["value"] is None:
            continue
        low = found["low"] if found["low"] is not None else found["value"]
        high = found["high"] if found["high"] is not None else found["value"]
        axis.plot([low, high], [place, place], color="tab:blue", linewidth=1.5)
        axis.plot([found["value"]], [place], "o", color="tab:blue", markersize=5)
    axis.set_yticks(range(len(names)), list(reversed(names)), fontsize=8)
    axis.set_ylim(-0.6, len(names) - 0.4)
    axis.grid(axis="x", color="0.9")
    axis.set_xlabel(title)


def _quality(results: Results) -> Any:
    if results["evaluation"] != "quality":
        return None
    figure, axes = _figure(3, width=5.0, height=0.6 + 0.33 * len(results["rows"]))
    for axis, key, title in zip(
        axes,
        ("accuracy", "balanced", "first_error_all"),
        ("sign accuracy, pooled", "balanced sign accuracy", "first error right, all trajectories"),
        strict=True,
    ):
        _bars(axis, results["rows"], lambda row, key=key: row["pooled"][key], title)  # type: ignore[misc]
    return figure


def _attribution(results: Results) -> Any:
    if results["evaluation"] != "attribution":
        return None
    figure, axes = _figure(2, width=5.4, height=0.6 + 0.28 * len(results["rows"]))
    _bars(axes[0], results["rows"], lambda row: row["exact"], "exact step")
    _bars(axes[1], results["rows"], lambda row: row["mean_absolute_error"], "mean absolute error, steps")
    return figure


def _calibration(results: Results) -> Any:
    if results["evaluation"] == "quality" and results["calibration"]:
        figure, axes = _figure(len(results["calibration"]))
        units = {"tokens": "tokens to go", "steps": "steps to go", "outcome": "final score"}
        for axis, (target, bins) in zip(axes, results["calibration"].items(), strict=True):
            x, y = [one["predicted"] for one in bins], [one["observed"] for one in bins]
            top = max(*x, *y, 1e-9)
            axis.plot([0, top], [0, top], color="0.6", linestyle="--", linewidth=1, label="perfect")
            axis.plot(x, y, "o-", color="tab:blue", markersize=4, linewidth=1, label="states, a tenth each")
            unit = units[target] + (", failures with penalty" if target != "outcome" else "")
            axis.set_xlabel(f"predicted {unit}", fontsize=8)
            axis.set_ylabel("observed", fontsize=8)
            axis.legend(fontsize=7)
        return figure
    if results["evaluation"] == "uncertainty":
        rows = {name: row["calibration"] for name, row in results["rows"].items() if row.get("calibration")}
        figure, axes = _figure(max(1, len(rows)))
        for axis, (name, bins) in zip(axes, rows.items(), strict=False):
            x, y = [one["score"] for one in bins], [one["success"] for one in bins]
            axis.plot(x, y, "o-", color="tab:blue", markersize=4, linewidth=1)
            axis.set_ylim(-0.03, 1.03)
            axis.set_xlabel(f"score of the trajectory: {name}", fontsize=8)
            axis.set_ylabel("share that succeeded", fontsize=8)
        return figure
    return None


def _early_warning(results: Results) -> Any:
    if results["evaluation"] != "uncertainty":
        return None
    curves = {name: row["early_warning"] for name, row in results["rows"].items() if row.get("early_warning")}
    if not curves:
        return None
    figure, axes = _figure(1, width=6.0, height=4.0)
    for number, (name, curve) in enumerate(curves.items()):
        colour = f"C{number}"
        x = [point["steps"] for point in curve]
        axes[0].plot(x, _column(curve, "value", "auroc"), "o-", color=colour, markersize=3, label=name)
        axes[0].fill_between(
            x, _column(curve, "low", "auroc"), _column(curve, "high", "auroc"), color=colour, alpha=0.15, linewidth=0
        )
    axes[0].axhline(0.5, color="0.6", linestyle="--", linewidth=1)
    axes[0].set_xlabel("steps seen, of trajectories that go on")
    axes[0].set_ylabel("AUROC of success")
    axes[0].legend(fontsize=8)
    return figure


def _success_against_n(results: Results) -> Any:
    if results["evaluation"] != "best-of-n":
        return None
    figure, axes = _figure(1, width=6.0, height=4.0)
    styles = {"random": ("0.5", "--"), "oracle": ("0.2", ":"), "fewest steps": ("0.7", "-.")}
    for number, (name, row) in enumerate(results["rows"].items()):
        colour, line = styles.get(name, (f"C{number}", "-"))
        x = [point["n_picked_from"] for point in row["success"]]
        axes[0].plot(x, _column(row["success"], "value"), line, marker="o", color=colour, markersize=3, label=name)
        if name not in styles:
            low, high = _column(row["success"], "low"), _column(row["success"], "high")
            axes[0].fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
    axes[0].set_xlabel("trajectories picked from, N")
    axes[0].set_ylabel("success of the picked one")
    axes[0].legend(fontsize=8)
    return figure


def _column(points: Sequence[Results], key: str, inside: str | None = None) -> list[float]:
    values = [(point[inside] if inside else point)[key] for point in points]
    return [float("nan") if value is None else value for value in values]


def _heat_map(results: Results) -> Any:
    """Draw the scores of some trajectories, each scorer's in its own scale, with the labels above."""
    maps = [one for one in results.get("heat_map", []) if one["scores"]]
    if not maps:
        return None
    deep = max(len(one["scores"]) for one in maps)
    figure, axes = _figure(len(maps), columns=1, width=9.0, height=1.3 + 0.3 * deep)
    marks = {1: ("+", "tab:green"), 0: ("·", "0.4"), -1: ("−", "tab:red")}
    for axis, one in zip(axes, maps, strict=True):
        names = list(one["scores"])
        table = np.array(
            [[np.nan if x is None else x for x in row] for row in one["scores"].values()], dtype=np.float64
        )
        # A scorer whose numbers all have one sign (log-probabilities) shows what lies above and below its own middle.
        middle = np.array([np.nanmedian(row) if _one_sign(row) else 0.0 for row in table])
        centred = table - middle[:, None]
        sizes = np.array([np.nanmax(np.abs(row)) if np.isfinite(row).any() else 1.0 for row in centred])
        axis.imshow(centred / np.maximum(sizes, 1e-12)[:, None], cmap="RdYlGn", vmin=-1, vmax=1, aspect="auto")
        axis.set_yticks(range(len(names)), names, fontsize=7)
        axis.set_xticks(range(table.shape[1]))
        axis.tick_params(labelsize=7)
        axis.set_xlabel("step", fontsize=8)
        axis.set_title(one["record"], fontsize=8, pad=18 if one["labels"] else 6)
        for step, label in enumerate(one["labels"] or []):
            text, colour = marks[label]
            axis.text(step, -0.62, text, color=colour, ha="center", va="bottom", fontsize=12, clip_on=False)
    return figure


def _one_sign(row: Any) -> bool:
    there = row[np.isfinite(row)]
    return bool(there.size) and bool((there >= 0).all() or (there <= 0).all())
