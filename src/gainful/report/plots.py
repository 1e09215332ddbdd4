"""The plots of the report as SVG, without a plotting library: nothing to load, sharp at any size and in print.

The style sheet sets colours, line widths and text sizes by class, so that dark mode, print and the page's toggles work
without redrawing. Every plot has a description in words.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

SLOTS = 6  # colours of the palette
MOST_TICKS = 12  # of an axis of whole numbers
NAME_LENGTH = 24  # of a name in a plot
LETTER = 6.8  # width of a letter, in units of a plot
MOST_NAMED = 8  # points of which each has its name in the plot, if there is room; of more, the frontier
Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Line:
    """The curve of one ranker with its band; ``slot`` is its colour, None for grey."""

    key: str
    name: str
    points: Points
    band: Sequence[tuple[float, float]]
    slot: int | None


@dataclass(frozen=True)
class Frame:
    """The drawing area, and the position of each value in it."""

    width: float
    height: float
    x: tuple[float, float]
    y: tuple[float, float]
    left: float = 40.0
    right: float = 8.0
    top: float = 20.0
    bottom: float = 32.0

    def at_x(self, value: float) -> float:
        return _between(value, self.x, self.left, self.width - self.right)

    def at_y(self, value: float) -> float:
        return _between(value, self.y, self.height - self.bottom, self.top)


def _between(value: float, span: tuple[float, float], first: float, last: float) -> float:
    low, high = span
    return first + (last - first) * ((value - low) / (high - low) if high > low else 0.5)


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """About ``about`` round numbers in [low, high].

    >>> ticks(0.31, 0.52)
    [0.35, 0.4, 0.45, 0.5]
    >>> ticks(0.0, 12.0, 3)
    [0.0, 5.0, 10.0]
    """
    if not high > low:
        return [low]
    raw = (high - low) / about
    unit = 10.0 ** math.floor(math.log10(raw))
    step = min((unit * m for m in (1, 2, 5, 10)), key=lambda s: abs(math.log(s / raw)))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [float(f"{i * step:.12g}") for i in range(first, last + 1)]


def number(value: float) -> str:
    """A short tick label."""
    if value and abs(value) < 1e-3:
        return f"{value:.0e}".replace("e-0", "e-")
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e6 else f"{value:.3g}".replace("e+0", "e")


# -- whole plots -------------------------------------------------------------------------------------------------------


def curves(
    lines: Sequence[Line],
    *,
    x_name: str,
    y_name: str,
    title: str,
    description: str,
    from_zero: bool = False,
    banded: bool = False,
    diagonal: bool = False,
) -> str:
    """Lines, each with its band; grey lines are drawn first.

    ``from_zero`` lets both axes of a diagonal plot, or the vertical one, begin at 0; ``banded`` shows the bands of all
    lines in colour, not of two; ``diagonal`` draws the line of equal values.
    """
    values = [v for line in lines for _, v in line.points]
    values += [v for line in lines if line.slot is not None for pair in line.band for v in pair]
    known = [v for v in values if math.isfinite(v)] or [0.0, 1.0]
    places = sorted({x for line in lines for x, _ in line.points if math.isfinite(x)})
    low = 0.0 if from_zero else min(known)
    pad = 0.04 * (max(known) - low) or 0.05
    y = (low if from_zero else low - pad, max(known) + pad)
    few = len(places) <= MOST_TICKS and all(x.is_integer() for x in places)
    beside = 0.15 if few else 0.02 * (places[-1] - places[0]) or 0.05
    x = (0.0 if diagonal and from_zero else places[0] - beside, places[-1] + beside)
    frame = Frame(400, 260, x, y)
    x_ticks = [(t, number(t)) for t in (places if few else ticks(*x))]
    parts = [_axes(frame, x_ticks, ticks(*y), x_name, y_name)]
    if diagonal:
        ends = [max(x[0], y[0]), min(x[1], y[1])]
        parts.append(f'<path class="equal" d="{_path([(frame.at_x(v), frame.at_y(v)) for v in ends])}"/>')
    parts += [_line(frame, line) for line in sorted(lines, key=lambda line: line.slot is not None)]
    return _svg(frame, parts, title, description, "plot banded" if banded else "plot")


def _line(frame: Frame, line: Line) -> str:
    place = [(frame.at_x(x), frame.at_y(y)) for x, y in line.points if math.isfinite(y)]
    ends = [(frame.at_x(x), *pair) for (x, _), pair in zip(line.points, line.band, strict=True)]
    ends = [(x, frame.at_y(low), frame.at_y(high)) for x, low, high in ends if math.isfinite(low)]
    outline = [(x, high) for x, _, high in ends] + [(x, low) for x, low, _ in reversed(ends)]
    band = f'<path class="band" d="{_path(outline)}Z"/>' if outline else ""
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.2"/>' for x, y in place)
    kind = "off" if line.slot is None else f"on c{line.slot}"
    return (
        f'<g class="line {kind}" data-key="{line.key}"><title>{escape(line.name)}</title>{band}'
        f'<path class="stroke" d="{_path(place)}"/>{dots}</g>'
    )


@dataclass(frozen=True)
class Spot:
    """One point of a scatter plot, with the interval of y."""

    name: str
    x: float
    y: float
    low: float
    high: float


def frontier(spots: Sequence[Spot]) -> list[str]:
    """The names of the points that no other one beats in both, a lower x and a higher y, from the left.

    >>> frontier([Spot("a", 1, 0.5, 0, 1), Spot("b", 2, 0.4, 0, 1), Spot("c", 3, 0.7, 0, 1)])
    ['a', 'c']
    """
    best, names = -math.inf, []
    for spot in sorted(spots, key=lambda spot: (spot.x, -spot.y)):
        if spot.y > best:
            best = spot.y
            names.append(spot.name)
    return names


def scatter(spots: Sequence[Spot], *, x_name: str, y_name: str, title: str, description: str) -> str:
    """Points on a logarithmic x axis; the frontier is joined by a line. Few points all have names."""
    places = [math.log10(spot.x) for spot in spots]
    ends = [v for spot in spots for v in (spot.low, spot.y, spot.high) if math.isfinite(v)]
    pad = 0.06 * (max(ends) - min(ends)) or 0.05
    beside = 0.06 * (max(places) - min(places)) or 0.5
    x = (min(places) - beside, max(places) + beside)
    frame = Frame(400, 260, x, (min(ends) - pad, max(ends) + pad))
    marks = [m + step for m in range(math.floor(x[0]), math.ceil(x[1])) for step in _log_steps(x)]
    x_ticks = [(m, number(10.0**m)) for m in marks if x[0] <= m <= x[1]]
    x_ticks = [(m, text) for m, text in x_ticks if frame.at_x(m) + LETTER / 2 * len(text) <= frame.width]
    parts = [_axes(frame, x_ticks, ticks(*frame.y), x_name, y_name)]
    named = frontier(spots)
    front = [spot for name in named for spot in spots if spot.name == name]
    parts.append(f'<path class="front" d="{_path([(frame.at_x(math.log10(s.x)), frame.at_y(s.y)) for s in front])}"/>')
    parts += [_spot(frame, spot, spot.name in named) for spot in sorted(spots, key=lambda spot: spot.name in named)]
    others = sorted((s for s in spots if s.name not in named), key=lambda s: -s.y) if len(spots) <= MOST_NAMED else []
    parts.append(_spot_names(frame, [*reversed(front), *others], spots))
    return _svg(frame, parts, title, description)


def _log_steps(x: tuple[float, float]) -> tuple[float, ...]:
    """Where the ticks of a decade are: fewer if there are many decades."""
    wide = x[1] - x[0]
    return (0.0,) if wide > 2.5 else (0.0, math.log10(3)) if wide > 1 else (0.0, math.log10(2), math.log10(5))


def _spot(frame: Frame, spot: Spot, best: bool) -> str:
    x, y = frame.at_x(math.log10(spot.x)), frame.at_y(spot.y)
    known = math.isfinite(spot.low) and math.isfinite(spot.high)
    line = f'<path d="M{x:.1f} {frame.at_y(spot.low):.1f}V{frame.at_y(spot.high):.1f}"/>' if known else ""
    told = f"{spot.name}: {spot.y:.4f}" + (f" [{spot.low:.4f}, {spot.high:.4f}]" if known else "")
    return (
        f'<g class="spot{" best" if best else ""}"><title>{escape(f"{told}, {spot.x:.3g} s")}</title>{line}'
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5"/></g>'
    )


def _spot_names(frame: Frame, named: Sequence[Spot], spots: Sequence[Spot]) -> str:
    """Names of points, each where it covers no other name and no point; a name without room is left out."""
    dots = [(frame.at_x(math.log10(spot.x)), frame.at_y(spot.y)) for spot in spots]
    taken = [(x - 4, x + 4, y, 8.0) for x, y in dots]  # from, to, middle, and how far the middle of a name must be
    found = []
    for spot in named:
        x, y = frame.at_x(math.log10(spot.x)), frame.at_y(spot.y)
        text = spot.name if len(spot.name) <= NAME_LENGTH else f"{spot.name[: NAME_LENGTH - 1]}…"
        wide = LETTER * len(text)
        sides = (("start", x + 7), ("end", x - 7 - wide))
        for middle, (anchor, start) in itertools.product((y - 8, y + 10), sides):
            inside = frame.left <= start and start + wide <= frame.width
            if inside and all(abs(middle - m) > far or start + wide < a or b < start for a, b, m, far in taken):
                taken.append((start, start + wide, middle, 12.0))
                place = start if anchor == "start" else start + wide
                found.append(f'<text class="{anchor} name" x="{place:.1f}" y="{middle + 4:.1f}">{escape(text)}</text>')
                break
    return "".join(found)


def spark(
    runs: Sequence[Points], *, name: str, x_name: str, title: str, log: bool = False, x_ticks: Sequence[Any] = (),
    mark: int | None = None,
) -> str:  # fmt: skip
    """A small plot of one quantity, one thin line per run (the first one strong); ``mark`` rings a point of the first.

    ``x_ticks`` are (position, text) pairs; by default the first and the last position.
    """
    shown = [[(x, y) for x, y in run if math.isfinite(y) and (not log or y > 0)] for run in runs]
    shown = [run for run in shown if run]
    if not shown:
        return ""
    change: Callable[[float], float] = math.log10 if log else float
    xs = [x for run in shown for x, _ in run]
    ys = [change(y) for run in shown for _, y in run]
    pad = 0.06 * (max(ys) - min(ys)) or abs(0.05 * ys[0]) or 1.0
    y_span = (min(ys) - pad, max(ys) + pad)
    frame = Frame(200, 110, (min(xs), max(xs)), y_span, left=40, right=8, top=22, bottom=24)
    parts = [_spark_axes(frame, name, x_name, log, x_ticks)]
    for i, run in reversed(list(enumerate(shown))):
        place = [(frame.at_x(x), frame.at_y(change(y))) for x, y in run]
        if len(place) == 1:
            parts.append(f'<circle class="dot" cx="{place[0][0]:.1f}" cy="{place[0][1]:.1f}" r="2.4"/>')
        parts.append(f'<path class="{"first" if i == 0 else "other"}" d="{_path(place)}"/>')
        if i == 0 and mark is not None and mark < len(place):
            parts.append(f'<circle class="ring" cx="{place[mark][0]:.1f}" cy="{place[mark][1]:.1f}" r="4"/>')
    first, last = shown[0][0][1], shown[0][-1][1]
    return _svg(frame, parts, title, f"From {number(first)} at the start to {number(last)} at the end.", "spark")


def _spark_axes(frame: Frame, name: str, x_name: str, log: bool, x_ticks: Sequence[Any]) -> str:
    places = ticks(*frame.y, 3)
    if log:
        whole = sorted({float(round(t)) for t in places if frame.y[0] <= round(t) <= frame.y[1]})
        places = whole if len(whole) > 1 else places
    labels = [number(10.0**t) if log else number(t) for t in places]
    lines = "".join(
        f'<path class="grid" d="M{frame.left:.1f} {frame.at_y(t):.1f}H{frame.width - frame.right:.1f}"/>'
        f'<text class="end" x="{frame.left - 4:.1f}" y="{frame.at_y(t) + 3:.1f}">{text}</text>'
        for t, text in zip(places, labels, strict=True)
    )
    marks = list(x_ticks) or [(frame.x[0], number(frame.x[0])), (frame.x[1], number(frame.x[1]))]
    anchors = ["start", *(["middle"] * (len(marks) - 2)), "end"] if len(marks) > 1 else ["middle"]
    if len(marks) == 2 and marks[0] == marks[1]:
        marks, anchors, x_name = [(marks[0][0], f"{x_name} {marks[0][1]}")], ["middle"], ""
    base = frame.height - frame.bottom + 11
    lines += "".join(
        f'<text class="{anchor}" x="{frame.at_x(x):.1f}" y="{base:.1f}">{escape(str(text))}</text>'
        for (x, text), anchor in zip(marks, anchors, strict=True)
    )
    middle = (frame.left + frame.width - frame.right) / 2
    if len(marks) < 3:
        lines += f'<text class="middle name" x="{middle:.1f}" y="{base:.1f}">{escape(x_name)}</text>'
    else:
        lines += f'<text class="middle name" x="{middle:.1f}" y="{base + 10:.1f}">{escape(x_name)}</text>'
    return f'{lines}<text class="start name" x="2" y="10">{escape(name)}</text>'


def interval_picture(value: float, low: float, high: float, span: float, verdict: int) -> str:
    """An interval on an axis with a mark at zero, for a table cell next to its figures."""
    frame = Frame(90, 16, (-span, span), (0, 1), left=3, right=3, top=0, bottom=0)
    kind = {1: "better", -1: "worse", 0: "neither"}[verdict]
    known = math.isfinite(low) and math.isfinite(high)
    line = f'<path class="whisker" d="M{frame.at_x(low):.1f} 8H{frame.at_x(high):.1f}"/>' if known else ""
    return (
        f'<svg class="interval {kind}" viewBox="0 0 90 16" width="90" height="16" aria-hidden="true">'
        f'<path class="zero" d="M{frame.at_x(0):.1f} 0V16"/>{line}'
        f'<circle cx="{frame.at_x(value):.1f}" cy="8" r="3"/></svg>'
    )


# -- parts -------------------------------------------------------------------------------------------------------------


def _axes(
    frame: Frame, x_ticks: Sequence[tuple[float, str]], y_ticks: Sequence[float], x_name: str, y_name: str
) -> str:
    bottom, right = frame.height - frame.bottom, frame.width - frame.right
    parts = [
        f'<path class="grid" d="M{frame.left:.1f} {frame.at_y(t):.1f}H{right:.1f}"/>'
        f'<text class="end" x="{frame.left - 5:.1f}" y="{frame.at_y(t) + 4:.1f}">{number(t)}</text>'
        for t in y_ticks
    ]
    parts += [
        f'<text class="middle" x="{frame.at_x(x):.1f}" y="{bottom + 13:.1f}">{escape(text)}</text>'
        for x, text in x_ticks
    ]
    middle = (frame.left + right) / 2
    parts.append(f'<text class="middle name" x="{middle:.1f}" y="{bottom + 27:.1f}">{escape(x_name)}</text>')
    parts.append(f'<text class="start name" x="2" y="11">{escape(y_name)}</text>')
    return "".join(parts)


def _path(points: Points) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points) if points else ""


def _svg(frame: Frame, parts: Sequence[str], title: str, description: str, kind: str = "plot") -> str:
    return (
        f'<svg class="{kind}" viewBox="0 0 {frame.width:g} {frame.height:g}" role="img" '
        f'aria-label="{escape(f"{title}. {description}")}">{"".join(parts)}</svg>'
    )


def thin(points: Points, limit: int) -> list[tuple[float, float]]:
    """At most ``limit`` of the points, evenly spaced, including the first and the last."""
    if len(points) <= limit:
        return list(points)
    places = np.unique(np.round(np.linspace(0, len(points) - 1, limit)).astype(int))
    return [points[i] for i in places]
