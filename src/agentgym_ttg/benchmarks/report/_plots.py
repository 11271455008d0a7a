"""What the pictures of a comparison show, apart from how they are drawn: for the page as SVG, and as PNG."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from ..compare.statistics import Interval, band
from ..setup import short_name
from ._study import Column, EnvStudy, by_value

__all__ = [
    "SETTINGS",
    "Bars",
    "Intervals",
    "Line",
    "Lines",
    "Picture",
    "Plot",
    "elsewhere",
    "pictures",
    "shown_value",
    "transfer_columns",
]


@dataclass(frozen=True, slots=True)
class Line:
    """A line, with a band or with bars.

    Attributes:
        name: For the legend.
        x: Positions.
        y: Values; NaN leaves a gap.
        low: Lower ends of the intervals; NaN for none.
        high: Upper ends.
        colour: Index of the colour, which also chooses the dashes.
        bars: Whether the intervals are bars at points, not a band.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    colour: int
    bars: bool = False


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines over a horizontal axis.

    Attributes:
        title: What is seen.
        x: Label of the horizontal axis.
        y: Label of the vertical axis.
        lines: The lines.
        ticks: Names of the positions 0, 1, …, where the axis has no numbers; empty for a numeric axis.
        level: A horizontal line to compare with, and its name.
        percent: Whether the values are shares.
        y_range: What the vertical axis has to cover; None for what the lines need.
    """

    title: str
    x: str
    y: str
    lines: Sequence[Line]
    ticks: Sequence[str] = ()
    level: tuple[float, str] | None = None
    percent: bool = True
    y_range: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Intervals:
    """A number with its interval and its seeds for each row.

    Attributes:
        title: What is seen.
        x: Label of the horizontal axis.
        rows: Name, mean with interval, and the numbers of the seeds.
        line: Where "no difference" is.
        percent: Whether the values are shares, shown as percent or points.
    """

    title: str
    x: str
    rows: Sequence[tuple[str, Interval, Sequence[float]]]
    line: float | None = None
    percent: bool = False


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars made of parts, one for each row.

    Attributes:
        title: What is seen.
        x: Label of the horizontal axis.
        parts: Names of the parts.
        rows: Name, and the size of each part.
    """

    title: str
    x: str
    parts: Sequence[str]
    rows: Sequence[tuple[str, Sequence[float]]]


Plot = Lines | Intervals | Bars


@dataclass(frozen=True, slots=True)
class Picture:
    """Plots that belong together: a figure of the paper's kind, a file of the report.

    Attributes:
        kind: Which: ``curves``, ``differences``, ``ablations``, ``compute``, ``transfer``, ``sensitivity``.
        env: Its environment's short name.
        caption: How to read it.
        plots: The plots.
    """

    kind: str
    env: str
    caption: str
    plots: Sequence[Plot] = field(default_factory=tuple)

    @property
    def name(self) -> str:
        """Name of its file."""
        return f"{self.kind}-{self.env}"


def pictures(study: EnvStudy) -> list[Picture]:
    """Return the pictures of an environment that have something to show."""
    found = [_curves(study), _differences(study), _ablations(study), _compute(study), _transfer(study)]
    return [picture for picture in (*found, _sensitivity(study)) if picture.plots]


_AXES = (("updates", "policy updates"), ("generated", "actor tokens generated"))


def _curves(study: EnvStudy) -> Picture:
    columns = study.of("method") or study.contenders
    plots = [
        Lines(f"Success against {name}", name, "success on held-out tasks", lines)
        for axis, name in _AXES
        if (lines := _bands(columns, axis))
    ]
    caption = (
        "Mean over seeds of the evaluations on held-out tasks; the bands are 95 % intervals of that mean (Student's "
        "t). Lines end where the shortest run of a method does."
    )
    return Picture("curves", study.slug, caption, plots)


def _bands(columns: Iterable[Column], axis: str, colours: dict[str, int] | None = None) -> list[Line]:
    lines = []
    for number, column in enumerate(columns):
        if curves := column.curves():
            found = band(curves, axis=axis)
            colour = number if colours is None else colours[column.label]
            x, y, low, high = (part.tolist() for part in (found.x, found.mean, found.low, found.high))
            lines.append(Line(column.label, x, y, low, high, colour))
    return lines


def _differences(study: EnvStudy) -> Picture:
    reference = study.reference
    rows = []
    if reference is not None:
        for column in study.of("method", "ablation", "variant", "transfer"):
            if column is not reference and (found := study.difference(column, reference)).n:
                mine, theirs = column.summary.by_seed, reference.summary.by_seed
                seeds = [mine[s] - theirs[s] for s in mine if s in theirs]
                rows.append((column.label, found.student, seeds))
    plots = []
    if rows and reference is not None:
        title = f"Difference from {reference.label} at the end"
        plots = [Intervals(title, "percentage points", rows, line=0.0, percent=True)]
    caption = (
        "Success at the end less that of the reference with the same seed. Dots are seeds, the bar is the 95 % "
        "interval of their mean (paired Student's t): where it holds 0, the seeds do not separate the two."
    )
    return Picture("differences", study.slug, caption, plots)


def _ablations(study: EnvStudy) -> Picture:
    columns = study.ablations()
    plots: list[Lines] = []
    if len(columns) > 1 and columns[0].role != "ablation":
        full = columns[0]
        for column in columns[1:]:
            lines = _bands([full, column], "updates", {full.label: 0, column.label: 1})
            if lines:
                plots.append(Lines(column.label, "policy updates", "success", lines))
    caption = "Each ablation beside the full method: success on held-out tasks, mean and 95 % interval over seeds."
    return Picture("ablations", study.slug, caption, _same_range(plots))


def _same_range(plots: Sequence[Lines]) -> list[Lines]:
    """Give plots that are to be compared one vertical axis."""
    values = [v for plot in plots for line in plot.lines for part in (line.y, line.low, line.high) for v in part]
    values += [plot.level[0] for plot in plots if plot.level is not None]
    there = [value for value in values if math.isfinite(value)]
    return [replace(plot, y_range=(min(there), max(there))) for plot in plots] if there else list(plots)


#: The parts of an update's time, and what they are called.
_PARTS = (("rollout", "rollouts"), ("meter_scoring", "asking the meter"), ("update", "optimiser"))


def _compute(study: EnvStudy) -> Picture:
    trained = [column for column in study.columns if column.summary.cost.generated.mean > 0]
    trained = [column for column in trained if column.role in ("method", "ablation", "variant", "transfer")]
    plots: list[Plot] = []
    reference = study.reference
    relative = [
        (column.label, column.summary.cost.relative, ())
        for column in trained
        if math.isfinite(column.summary.cost.relative.mean)
    ]
    if relative and reference is not None:
        title = f"Cost of an actor token, {reference.label} = 1"
        plots.append(Intervals(title, f"times {reference.label}", relative, line=1.0))
    rows = [
        (
            column.label,
            [
                1000 * column.summary.cost.seconds[part].mean / column.summary.cost.generated.mean
                if part in column.summary.cost.seconds
                else 0.0
                for part, _ in _PARTS
            ],
        )
        for column in trained
    ]
    if rows:
        plots.append(
            Bars("Where the time of updates goes", "seconds for 1,000 actor tokens", [name for _, name in _PARTS], rows)
        )
    caption = (
        "Wall time of the updates for each actor token generated; the interval is over seeds, paired with the "
        "reference. Making the meter is not in it: it is paid once, and stands in the table."
    )
    return Picture("compute", study.slug, caption, plots)


def transfer_columns(study: EnvStudy) -> list[Column]:
    """Return what a transfer is read from: the reference, the methods as they are, and with a meter from elsewhere."""
    found = study.of("transfer")
    methods = {column.summary.method for column in found}
    beside = [c for c in study.columns if c is study.reference or (c.label in methods and c.role != "transfer")]
    return [*beside, *found] if found else []


def _transfer(study: EnvStudy) -> Picture:
    columns = transfer_columns(study)
    plots: list[Plot] = []
    if columns:
        rows = [(c.label, c.summary.final, list(c.summary.by_seed.values())) for c in columns]
        plots.append(Intervals("Success at the end", "success on held-out tasks, %", rows, percent=True))
        if lines := _bands(columns, "updates"):
            plots.append(Lines("Success against updates", "policy updates", "success on held-out tasks", lines))
    caption = "Training guided by a meter that learned elsewhere, beside the same method with a meter of its own."
    return Picture("transfer", study.slug, caption, plots)


#: What settings are called in text.
SETTINGS = {
    "failure_cost": "failure cost C",
    "rho": "rho, the share spread evenly",
    "cap": "cap M on the weights",
    "group_size": "group size G",
    "meter_layers": "layers of the meter",
    "recordings": "recordings the meter learns from",
}


def shown_value(value: object) -> str:
    """Return a value of a setting as text."""
    return "default" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _sensitivity(study: EnvStudy) -> Picture:
    plots = []
    reference = study.reference
    for name, lines in study.sweeps().items():
        everything = sorted((point for points in lines.values() for point in points), key=lambda p: by_value(p.value))
        values = list(dict.fromkeys(shown_value(point.value) for point in everything))
        default = {shown_value(p.value) for points in lines.values() for p in points if p.default}
        drawn = []
        for number, (method, points) in enumerate(lines.items()):
            finals = [point.final for point in points]
            drawn.append(
                Line(
                    method,
                    [float(values.index(shown_value(point.value))) for point in points],
                    [final.mean for final in finals],
                    [final.low for final in finals],
                    [final.high for final in finals],
                    number,
                    bars=True,
                )
            )
        level = None
        if reference is not None and reference.summary.method not in lines:
            level = (reference.summary.final.mean, reference.label)
        ticks = [f"{value} *" if value in default and value != "default" else value for value in values]
        title = SETTINGS.get(name, name.replace("_", " "))
        plots.append(Lines(title, "", "success at the end", drawn, ticks=ticks, level=level))
    caption = (
        "One setting varied at a time; bars are 95 % intervals over the seeds that all values have. A star marks the "
        "method as it is; the dashed line is the reference. Values are spaced evenly, not to scale."
    )
    return Picture("sensitivity", study.slug, caption, _same_range(plots))


def elsewhere(column: Column) -> str:
    """Return where a column's meter learned, as text."""
    source = column.runs[0].meter_source
    if source is None:
        return ""
    arguments = source.get("env_kwargs") or {}
    return ", ".join([short_name(str(source["env"])), *(f"{name} {value}" for name, value in arguments.items())])
