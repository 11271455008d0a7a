"""The pictures of a comparison as PNG files, by matplotlib."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentgym_ttg.core.errors import DataError, MissingDependencyError

from ._charts import DASHES
from ._plots import Bars, Intervals, Lines, Picture, Plot
from ._svg import COLOURS

__all__ = ["can_draw", "save_picture"]


def can_draw() -> bool:
    """Return whether matplotlib is installed."""
    try:
        _matplotlib()
    except MissingDependencyError:
        return False
    return True


def save_picture(picture: Picture, folder: Path) -> Path:
    """Write a picture as a PNG file; return it.

    Args:
        picture: The picture.
        folder: Where it goes; named after the picture.

    Raises:
        DataError: If the disk takes it not.
        MissingDependencyError: If matplotlib is not installed.
    """
    figure_class, canvas = _matplotlib()
    wide = all(not isinstance(plot, Lines) for plot in picture.plots)
    columns = 1 if wide else min(3, len(picture.plots))
    rows = -(-len(picture.plots) // columns)
    tallest = max(_height(plot) for plot in picture.plots)
    figure = figure_class(figsize=((8.0 if wide else 4.6) * columns, tallest * rows), layout="constrained")
    canvas(figure)
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axis, plot in zip(axes, picture.plots, strict=False):
        axis.set_title(plot.title, fontsize=10, loc="left")
        axis.spines[["top", "right"]].set_visible(False)
        if isinstance(plot, Lines):
            _lines(axis, plot)
        elif isinstance(plot, Intervals):
            _intervals(axis, plot)
        else:
            _bars(axis, plot)
    for axis in axes[len(picture.plots) :]:
        axis.set_visible(False)
    file = folder / f"{picture.name}.png"
    try:
        figure.savefig(file, dpi=130, metadata={"Software": None})
    except OSError as error:
        raise DataError(f"cannot write {file}: {error.strerror or error}") from error
    return file


def _matplotlib() -> tuple[Any, Any]:
    try:
        # The object interface: no global state, no display.
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependencyError("matplotlib", "train", "drawing the report's PNG files") from error
    return Figure, FigureCanvasAgg


def _height(plot: Plot) -> float:
    return 3.6 if isinstance(plot, Lines) else 1.1 + 0.28 * len(plot.rows)


def _dashes(index: int) -> Any:
    dash = DASHES[index % len(DASHES)]
    return "-" if dash is None else (0, tuple(float(part) / 2 for part in dash.split()))


def _lines(axis: Any, plot: Lines) -> None:
    for index, line in enumerate(plot.lines):
        colour = COLOURS[line.colour % len(COLOURS)]
        aside = 0.06 * (index - (len(plot.lines) - 1) / 2) if line.bars else 0.0
        x = [value + aside for value in line.x]
        if line.bars:
            for place, low, high in zip(x, line.low, line.high, strict=True):
                if math.isfinite(low):
                    axis.plot([place, place], [low, high], color=colour, linewidth=1.5)
        else:
            axis.fill_between(x, line.low, line.high, color=colour, alpha=0.13, linewidth=0)
        marker = "o" if len(x) <= 30 else None
        axis.plot(x, line.y, color=colour, linestyle=_dashes(line.colour), marker=marker, markersize=3, label=line.name)
    if plot.ticks:
        axis.set_xticks(range(len(plot.ticks)), plot.ticks, fontsize=8)
        axis.set_xlim(-0.4, len(plot.ticks) - 0.6)
    if plot.level is not None:
        axis.axhline(plot.level[0], color="0.35", linestyle="--", linewidth=1, label=plot.level[1])
    if plot.percent:
        bottom, top = axis.get_ylim()
        if plot.y_range is not None:
            bottom, top = min(bottom, plot.y_range[0]), max(top, plot.y_range[1])
        axis.set_ylim(max(bottom, -0.02), min(top, 1.02))
        axis.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g}%")
    axis.set_xlabel(plot.x, fontsize=9)
    axis.set_ylabel(plot.y, fontsize=9)
    axis.tick_params(labelsize=8)
    axis.grid(axis="y", color="0.9")
    axis.legend(fontsize=7, frameon=False)


def _intervals(axis: Any, plot: Intervals) -> None:
    scale = 100.0 if plot.percent else 1.0
    for place, (_, found, seeds) in enumerate(plot.rows):
        axis.plot([scale * v for v in seeds], [place] * len(seeds), "o", color="0.5", alpha=0.5, markersize=4)
        if math.isfinite(found.low):
            axis.plot([scale * found.low, scale * found.high], [place, place], color=COLOURS[0], linewidth=2.5)
        axis.plot([scale * found.mean], [place], "o", color=COLOURS[0], markersize=6)
    if plot.line is not None:
        axis.axvline(scale * plot.line, color="0.2", linewidth=1)
    _rows(axis, [name for name, *_ in plot.rows], plot.x)


def _bars(axis: Any, plot: Bars) -> None:
    for place, (_, sizes) in enumerate(plot.rows):
        begin = 0.0
        for part, size in enumerate(sizes):
            label = plot.parts[part] if place == 0 else None
            axis.barh([place], [size], left=[begin], color=COLOURS[part % len(COLOURS)], height=0.65, label=label)
            begin += size
    axis.legend(fontsize=7, frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=len(plot.parts))
    _rows(axis, [name for name, _ in plot.rows], plot.x)


def _rows(axis: Any, names: Sequence[str], x: str) -> None:
    axis.set_yticks(range(len(names)), names, fontsize=8)
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.set_xlabel(x, fontsize=9)
    axis.tick_params(labelsize=8)
    axis.grid(axis="x", color="0.9")
    axis.set_axisbelow(True)
