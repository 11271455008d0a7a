"""Charts as inline SVG, drawn here so that a report needs no plotting library and no network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from ._text import Html, element, esc, join

__all__ = ["COLOURS", "Series", "bars", "line_chart", "nice_ticks", "number"]

#: Told apart by the colour-blind, too (Okabe and Ito).
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555")

_WIDTH, _HEIGHT = 460, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 14, 12, 40


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a chart.

    Attributes:
        name: For the legend.
        points: x and y; one that is not finite leaves a gap.
        bounds: Lower and upper bound at each point, drawn as a bar; empty for none.
        style: A line, a line with dots, dots alone, or a thin faint line.
        colour: Index of the colour; default the place in the chart.
    """

    name: str
    points: Sequence[tuple[float, float]]
    bounds: Sequence[tuple[float, float]] = field(default_factory=tuple)
    style: Literal["line", "dotted", "dots", "faint", "dashed"] = "line"
    colour: int | None = None


def number(value: float) -> str:
    """Return a number as short as it can be read.

    >>> [number(x) for x in (0, 0.25, 1500, 2_000_000, 1e-7)]
    ['0', '0.25', '1500', '2M', '1e-07']
    """
    if value == 0:
        return "0"
    size = abs(value)
    for scale, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if size >= scale:
            scale = 1e3 if unit == "k" else scale
            return f"{value / scale:.4g}{unit}"
    return f"{value:.4g}"


def nice_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Return round numbers that cover an interval, about ``count`` of them.

    >>> nice_ticks(0, 1)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    size = max(abs(low), abs(high))
    if not high - low > 1e-9 * size:
        half = 0.5 * size or 0.5
        low, high = low - half, high + half
    raw = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw * 0.999)
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [float(f"{index * step:.10g}") for index in range(first, last + 1)]


def _drawable(*values: float) -> bool:
    """Whether these are numbers that a chart can hold."""
    return all(math.isfinite(value) and (value == 0 or 1e-15 < abs(value) < 1e15) for value in values)


def line_chart(
    series: Sequence[Series],
    *,
    x: str,
    y: str,
    y_range: tuple[float, float] | None = None,
    diagonal: bool = False,
) -> Html:
    """Draw lines.

    Args:
        series: The lines; those without a point are left out.
        x: Label of the horizontal axis.
        y: Label of the vertical axis.
        y_range: Limits of the vertical axis; default what the points need, zero included.
        diagonal: Whether to draw the line y = x.
    """
    drawn = [one for one in series if any(_drawable(*p) for p in one.points)]
    if not drawn:
        return element("p", "Nothing to draw yet.", class_="none")
    xs = [p[0] for one in drawn for p in one.points if _drawable(*p)]
    ys = [p[1] for one in drawn for p in one.points if _drawable(*p)]
    ys += [value for one in drawn for pair in one.bounds for value in pair if _drawable(value)]
    x_ticks = nice_ticks(min(xs), max(xs))
    low, high = y_range or (min(0.0, *ys), max(ys))
    if high <= low:
        high = low + 1.0
    if diagonal:
        low, high = min(low, min(xs)), max(high, max(xs))
    y_ticks = nice_ticks(low, high)
    frame = _Frame(x_ticks, y_ticks)
    parts = [frame.axes(x, y)]
    if diagonal:
        ends = [max(x_ticks[0], y_ticks[0]), min(x_ticks[-1], y_ticks[-1])]
        parts.append(_polyline([frame.place(v, v) for v in ends], "#999", width=1, dash="4 3"))
    colours = [COLOURS[(i if one.colour is None else one.colour) % len(COLOURS)] for i, one in enumerate(drawn)]
    for one, colour in zip(drawn, colours, strict=True):
        parts.append(_draw(frame, one, colour))
    legend = join(
        element("span", element("i", style=f"background:{colour}"), one.name)
        for one, colour in zip(drawn, colours, strict=True)
        if one.style != "faint"
    )
    picture = element(
        "svg",
        join(parts),
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        role="img",
        aria_label=f"{y} against {x}",
        xmlns="http://www.w3.org/2000/svg",
    )
    return element("figure", picture, element("figcaption", legend) if len(drawn) > 1 or drawn[0].name else "")


class _Frame:
    def __init__(self, x_ticks: Sequence[float], y_ticks: Sequence[float]) -> None:
        self.x_ticks, self.y_ticks = x_ticks, y_ticks

    def place(self, x: float, y: float) -> tuple[float, float]:
        wide = (x - self.x_ticks[0]) / (self.x_ticks[-1] - self.x_ticks[0])
        tall = (y - self.y_ticks[0]) / (self.y_ticks[-1] - self.y_ticks[0])
        tall = min(max(tall, 0.0), 1.0)
        return (
            round(_LEFT + wide * (_WIDTH - _LEFT - _RIGHT), 2),
            round(_HEIGHT - _BOTTOM - tall * (_HEIGHT - _TOP - _BOTTOM), 2),
        )

    def axes(self, x: str, y: str) -> Html:
        parts: list[Html] = []
        for tick in self.y_ticks:
            _, top = self.place(self.x_ticks[0], tick)
            parts.append(element("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=top, y2=top, class_="grid"))
            parts.append(element("text", number(tick), x=_LEFT - 6, y=top + 4, text_anchor="end"))
        for tick in self.x_ticks:
            left, _ = self.place(tick, self.y_ticks[0])
            parts.append(element("text", number(tick), x=left, y=_HEIGHT - _BOTTOM + 16, text_anchor="middle"))
        bottom = _HEIGHT - _BOTTOM
        parts.append(element("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=bottom, y2=bottom, class_="axis"))
        middle = _LEFT + (_WIDTH - _LEFT - _RIGHT) / 2
        parts.append(element("text", x, x=middle, y=_HEIGHT - 6, text_anchor="middle", class_="label"))
        half = _TOP + (_HEIGHT - _TOP - _BOTTOM) / 2
        turned = f"rotate(-90 13 {half})"
        parts.append(element("text", y, x=13, y=half, text_anchor="middle", class_="label", transform=turned))
        return join(parts)


def _draw(frame: _Frame, one: Series, colour: str) -> Html:
    parts: list[Html] = []
    for (x, _), (low, high) in zip(one.points, one.bounds, strict=False):
        if _drawable(x, low, high):
            (left, bottom), (_, top) = frame.place(x, low), frame.place(x, high)
            parts.append(element("line", x1=left, x2=left, y1=bottom, y2=top, stroke=colour, stroke_width=1.5))
    run: list[tuple[float, float]] = []
    runs: list[list[tuple[float, float]]] = [run]
    for x, y in one.points:
        if _drawable(x, y):
            run.append(frame.place(x, y))
        elif run:
            run = []
            runs.append(run)
    if one.style != "dots":
        dash = "5 3" if one.style == "dashed" else None
        width, opacity = (1.0, 0.35) if one.style == "faint" else (2.0, None)
        parts += [_polyline(r, colour, width=width, dash=dash, opacity=opacity) for r in runs if len(r) > 1]
    if one.style in ("dotted", "dots") or all(len(r) <= 1 for r in runs):
        for x, y in one.points:
            if _drawable(x, y):
                left, top = frame.place(x, y)
                told = element("title", f"{one.name}: {number(x)}, {number(y)}")
                parts.append(element("circle", told, cx=left, cy=top, r=3, fill=colour))
    return join(parts)


def _polyline(
    places: Sequence[tuple[float, float]],
    colour: str,
    *,
    width: float,
    dash: str | None = None,
    opacity: float | None = None,
) -> Html:
    points = " ".join(f"{x},{y}" for x, y in places)
    return element(
        "polyline",
        points=points,
        fill="none",
        stroke=colour,
        stroke_width=width,
        stroke_dasharray=dash,
        stroke_opacity=opacity,
    )


def bars(rows: Sequence[tuple[str, float]], *, unit: str) -> Html:
    """Draw horizontal bars, one for each row, with their values and shares."""
    rows = [(name, value) for name, value in rows if math.isfinite(value) and value > 0]
    total = sum(value for _, value in rows)
    if not total:
        return element("p", "Nothing to draw yet.", class_="none")
    largest = max(value for _, value in rows)
    lines = [
        element(
            "tr",
            element("th", name),
            element("td", element("span", style=f"width:{100 * value / largest:.2f}%"), class_="bar"),
            element("td", f"{number(round(value, 3))} {unit}", class_="n"),
            element("td", f"{value / total:.1%}", class_="n"),
        )
        for name, value in rows
    ]
    return element("table", *lines, class_="bars")


def note(text: str) -> Html:
    """Return a line of explanation."""
    return element("p", esc(text), class_="note")
