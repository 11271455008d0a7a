"""The plots of a comparison as inline SVG; dashes, too, tell lines apart, and every plot says its numbers in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ._plots import Bars, Intervals, Line, Lines, Plot
from ._svg import COLOURS, nice_ticks, number
from ._text import Html, element, join

__all__ = ["DASHES", "draw_plot"]

#: Told apart without colour, too.
DASHES = (None, "7 3", "2 2.5", "9 3 2 3", "5 2", "1 2", "12 4")

_WIDTH, _HEIGHT = 520, 290
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 14, 10, 44
_ROW = 24

#: From a point of the data to a place in the picture.
Place = Callable[[float, float], tuple[float, float]]


def draw_plot(plot: Plot) -> Html:
    """Return a plot as a figure with its title."""
    if isinstance(plot, Lines):
        content = _lines(plot)
    elif isinstance(plot, Intervals):
        content = _intervals(plot)
    else:
        content = _bars(plot)
    return element("div", element("h3", plot.title), content, class_="plot")


def style_of(index: int) -> tuple[str, str | None]:
    """Return colour and dashes of a line."""
    return COLOURS[index % len(COLOURS)], DASHES[index % len(DASHES)]


# Lines ------------------------------------------------------------------------------------------------------------


def _lines(plot: Lines) -> Html:
    ys = [v for line in plot.lines for part in (line.y, line.low, line.high) for v in part if math.isfinite(v)]
    xs = [v for line in plot.lines for v in line.x if math.isfinite(v)]
    if not ys or not xs:
        return element("p", "Nothing to draw yet.", class_="none")
    if plot.level is not None:
        ys.append(plot.level[0])
    low, high = min(ys), max(ys)
    if plot.y_range is not None:
        low, high = min(low, plot.y_range[0]), max(high, plot.y_range[1])
    if plot.percent:
        low, high = max(0.0, low), min(1.0, high)
    y_ticks = nice_ticks(0.0 if low < 0.5 * high else low, high)
    x_ticks = [float(i) for i in range(len(plot.ticks))] or nice_ticks(min(xs), max(xs))
    left, right = (-0.4, len(plot.ticks) - 0.6) if plot.ticks else (x_ticks[0], x_ticks[-1])

    def place(x: float, y: float) -> tuple[float, float]:
        y = min(max(y, y_ticks[0]), y_ticks[-1])
        return (
            round(_LEFT + (x - left) / (right - left) * (_WIDTH - _LEFT - _RIGHT), 2),
            round(_HEIGHT - _BOTTOM - (y - y_ticks[0]) / (y_ticks[-1] - y_ticks[0]) * (_HEIGHT - _TOP - _BOTTOM), 2),
        )

    parts: list[Html] = []
    for tick in y_ticks:
        _, top = place(left, tick)
        parts.append(element("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=top, y2=top, class_="grid"))
        parts.append(element("text", _tick(tick, plot.percent), x=_LEFT - 6, y=top + 4, text_anchor="end"))
    for index, tick in enumerate(x_ticks):
        middle, _ = place(tick, y_ticks[0])
        name = plot.ticks[index] if plot.ticks else number(tick)
        parts.append(element("text", name, x=middle, y=_HEIGHT - _BOTTOM + 17, text_anchor="middle"))
    parts.append(_axis_names(plot.x, plot.y))
    if plot.level is not None:
        _, top = place(left, plot.level[0])
        told = element("title", f"{plot.level[1]}: {_value(plot.level[0], plot.percent)}")
        ends = {"x1": _LEFT, "x2": _WIDTH - _RIGHT, "y1": top, "y2": top}
        parts.append(element("line", told, **ends, stroke="#555", stroke_dasharray="5 4", stroke_width=1.5))
        parts.append(element("text", plot.level[1], x=_WIDTH - _RIGHT - 2, y=top - 5, text_anchor="end"))
    bands = [_band([place(x, y) for x, y in _edge(line)], style_of(line.colour)[0]) for line in plot.lines]
    parts += bands
    width = len(plot.lines)
    for index, line in enumerate(plot.lines):
        aside = (index - (width - 1) / 2) * 9 if line.bars else 0.0  # bars at the same value stand side by side
        parts.append(_line(line, place, aside, plot.percent))
    said = "; ".join(_said(line, plot) for line in plot.lines)
    return _figure(
        parts, _WIDTH, _HEIGHT, f"{plot.title}: {plot.y} against {plot.x or 'the value'}. {said}", _legend(plot.lines)
    )


def _edge(line: Line) -> list[tuple[float, float]]:
    if line.bars:
        return []
    points = [
        (x, low, high)
        for x, low, high in zip(line.x, line.low, line.high, strict=True)
        if math.isfinite(low) and math.isfinite(high)
    ]
    return [*((x, high) for x, _, high in points), *((x, low) for x, low, _ in reversed(points))]


def _band(places: Sequence[tuple[float, float]], colour: str) -> Html:
    if not places:
        return Html("")
    points = " ".join(f"{x},{y}" for x, y in places)
    return element("polygon", points=points, fill=colour, fill_opacity=0.13)


def _line(line: Line, place: Place, aside: float, percent: bool) -> Html:
    colour, dash = style_of(line.colour)
    parts: list[Html] = []
    there = [(x, y) for x, y in zip(line.x, line.y, strict=True) if math.isfinite(y)]
    places = [(place(x, y)[0] + aside, place(x, y)[1]) for x, y in there]
    if line.bars:
        for x, low, high in zip(line.x, line.low, line.high, strict=True):
            if math.isfinite(low) and math.isfinite(high):
                (across, bottom), (_, top) = place(x, low), place(x, high)
                ends = {"x1": across + aside, "x2": across + aside, "y1": bottom, "y2": top}
                parts.append(element("line", **ends, stroke=colour, stroke_width=1.5))
    points = " ".join(f"{x:.2f},{y:.2f}" for x, y in places)
    parts.append(
        element("polyline", points=points, fill="none", stroke=colour, stroke_width=2.2, stroke_dasharray=dash)
    )
    if len(places) <= 30:
        for (x, y), (across, top) in zip(there, places, strict=True):
            told = element("title", f"{line.name}: {_value(y, percent)} at {number(x)}")
            parts.append(element("circle", told, cx=round(across, 2), cy=top, r=3, fill=colour))
    return join(parts)


def _said(line: Line, plot: Lines) -> str:
    there = [y for y in line.y if math.isfinite(y)]
    if not there:
        return f"{line.name}: nothing"
    return f"{line.name}: from {_value(there[0], plot.percent)} to {_value(there[-1], plot.percent)}"


def _legend(lines: Sequence[Line]) -> Html:
    entries = []
    for line in lines:
        colour, dash = style_of(line.colour)
        stroke = element("line", x1=0, x2=30, y1=4, y2=4, stroke=colour, stroke_width=3, stroke_dasharray=dash)
        sample = element("svg", stroke, viewBox="0 0 30 8", class_="sample", aria_hidden="true")
        entries.append(element("span", sample, line.name))
    return join(entries)


# Rows -------------------------------------------------------------------------------------------------------------


def _intervals(plot: Intervals) -> Html:
    scale = 100.0 if plot.percent else 1.0
    rows = [
        (name, scale * found.mean, scale * found.low, scale * found.high, [scale * value for value in seeds])
        for name, found, seeds in plot.rows
    ]
    values = [v for _, mean, low, high, seeds in rows for v in (mean, low, high, *seeds) if math.isfinite(v)]
    if not values:
        return element("p", "Nothing to draw yet.", class_="none")
    if plot.line is not None:
        values.append(scale * plot.line)
    ticks = nice_ticks(min(values), max(values))
    left = 18 + 6.6 * max(len(name) for name, *_ in rows)
    width, right = max(_WIDTH, left + 430), 130
    height = _ROW * len(rows) + 52

    def across(value: float) -> float:
        return round(left + (value - ticks[0]) / (ticks[-1] - ticks[0]) * (width - left - right), 2)

    bottom = _ROW * len(rows) + 8
    parts: list[Html] = []
    for tick in ticks:
        parts.append(element("line", x1=across(tick), x2=across(tick), y1=4, y2=bottom, class_="grid"))
        parts.append(element("text", number(tick), x=across(tick), y=bottom + 15, text_anchor="middle"))
    if plot.line is not None:
        zero = across(scale * plot.line)
        parts.append(element("line", x1=zero, x2=zero, y1=4, y2=bottom, stroke="#333", stroke_width=1.5))
    middle = left + (width - left - right) / 2
    parts.append(element("text", plot.x, x=middle, y=bottom + 34, text_anchor="middle", class_="label"))
    sign = "+" if plot.percent and plot.line is not None else ""
    digits = f"{{:{sign}.1f}}" if plot.percent else "{:.2f}"
    for index, (name, mean, low, high, seeds) in enumerate(rows):
        y = 4 + _ROW * (index + 0.5)
        known = math.isfinite(low) and math.isfinite(high)
        text = digits.format(mean) + (f" [{digits.format(low)}, {digits.format(high)}]" if known else "")
        parts.append(element("text", name, x=left - 8, y=y + 4, text_anchor="end"))
        for value in seeds:
            if math.isfinite(value):
                parts.append(element("circle", cx=across(value), cy=y, r=3, fill="#777", fill_opacity=0.45))
        if known:
            ends = {"x1": across(low), "x2": across(high), "y1": y, "y2": y}
            parts.append(element("line", **ends, stroke=COLOURS[0], stroke_width=3))
        if math.isfinite(mean):
            told = element("title", f"{name}: {text}")
            parts.append(element("circle", told, cx=across(mean), cy=y, r=5, fill=COLOURS[0]))
        parts.append(element("text", text, x=width - right + 8, y=y + 4))
    said = "; ".join(f"{name} {digits.format(mean)}" for name, mean, *_ in rows)
    return _figure(parts, width, height, f"{plot.title}. {said}", None)


def _bars(plot: Bars) -> Html:
    largest = max((math.fsum(sizes) for _, sizes in plot.rows), default=0.0)
    if not largest > 0:
        return element("p", "Nothing to draw yet.", class_="none")
    ticks = nice_ticks(0.0, largest)
    left = 18 + 6.6 * max(len(name) for name, _ in plot.rows)
    width, right = max(_WIDTH, left + 430), 60
    bottom = _ROW * len(plot.rows) + 8
    parts: list[Html] = []

    def across(value: float) -> float:
        return round(left + value / ticks[-1] * (width - left - right), 2)

    for tick in ticks:
        parts.append(element("line", x1=across(tick), x2=across(tick), y1=4, y2=bottom, class_="grid"))
        parts.append(element("text", number(tick), x=across(tick), y=bottom + 15, text_anchor="middle"))
    for index, (name, sizes) in enumerate(plot.rows):
        y = 4 + _ROW * index + 4
        parts.append(element("text", name, x=left - 8, y=y + 12, text_anchor="end"))
        begin = 0.0
        for part, (title, size) in enumerate(zip(plot.parts, sizes, strict=True)):
            if size > 0 and math.isfinite(size):
                told = element("title", f"{name}, {title}: {number(round(size, 4))}")
                start, long = across(begin), round(across(begin + size) - across(begin), 2)
                colour = COLOURS[part % len(COLOURS)]
                parts.append(element("rect", told, x=start, y=y, width=long, height=16, fill=colour))
                begin += size
        parts.append(element("text", number(round(begin, 3)), x=across(begin) + 6, y=y + 12))
    middle = left + (width - left - right) / 2
    parts.append(element("text", plot.x, x=middle, y=bottom + 34, text_anchor="middle", class_="label"))
    legend = join(
        element("span", element("i", style=f"background:{COLOURS[i % len(COLOURS)]}", class_="box"), name)
        for i, name in enumerate(plot.parts)
    )
    said = "; ".join(f"{name} {number(round(math.fsum(sizes), 3))}" for name, sizes in plot.rows)
    return _figure(parts, width, bottom + 44, f"{plot.title}, {plot.x}. {said}", legend)


# Both -------------------------------------------------------------------------------------------------------------


def _figure(parts: Sequence[Html], width: float, height: float, said: str, legend: Html | None) -> Html:
    picture = element(
        "svg",
        join(parts),
        viewBox=f"0 0 {width:g} {height:g}",
        role="img",
        aria_label=said,
        xmlns="http://www.w3.org/2000/svg",
    )
    return element("figure", picture, element("figcaption", legend) if legend else "")


def _axis_names(x: str, y: str) -> Html:
    bottom = _HEIGHT - _BOTTOM
    middle = _LEFT + (_WIDTH - _LEFT - _RIGHT) / 2
    half = _TOP + (_HEIGHT - _TOP - _BOTTOM) / 2
    return join(
        [
            element("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=bottom, y2=bottom, class_="axis"),
            element("text", x, x=middle, y=_HEIGHT - 8, text_anchor="middle", class_="label"),
            element(
                "text", y, x=13, y=half, text_anchor="middle", class_="label", transform=f"rotate(-90 13 {half:g})"
            ),
        ]
    )


def _tick(value: float, percent: bool) -> str:
    return f"{100 * value:g}%" if percent else number(value)


def _value(value: float, percent: bool) -> str:
    return f"{value:.1%}" if percent else number(round(value, 4))
