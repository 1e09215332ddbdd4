"""Plots with Matplotlib, the extra ``plot``, which is imported on use. Results say what to draw; shapes are here.

Few colours, names at the curves instead of a legend, and lines that differ by dashes and marks, so that a print in
grey is as readable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gainful.display.html import LESS, MORE
from gainful.errors import MissingExtraError, brief

GREY = "0.55"
TONES = (MORE, LESS, "#00805c", "#7a4b9d")
DASHES = ("-", "--", ":", "-.")
ROW = 0.3  # inches per horizontal bar
LONGEST_NAME = 40


def axes(ax: Any, *, rows: int | None = None) -> Any:
    """The axes given, or new ones; ``rows`` horizontal bars make them as high as that needs."""
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError:
        raise MissingExtraError.of("plot()", "Matplotlib", "plot") from None
    height = 4.0 if rows is None else 1.2 + ROW * rows
    _, made = pyplot.subplots(figsize=(6.4, height), layout="constrained")
    return made


def curves(
    ax: Any, by_name: Mapping[str, tuple[Sequence[float], Sequence[float]]], *, x: str, y: str, mark: str = ""
) -> Any:
    """Lines (xs, ys), each named at its last point; a single line needs no name."""
    ax = axes(ax)
    for i, (name, (xs, ys)) in enumerate(by_name.items()):
        tone = TONES[i % len(TONES)]
        marker = mark or ("o" if len(xs) == 1 else "")
        ax.plot(xs, ys, color=tone, linestyle=DASHES[i % len(DASHES)], marker=marker, markersize=4)
        if len(by_name) > 1 and len(xs):
            ax.annotate(
                plain(name), (xs[-1], ys[-1]), xytext=(5, 0), textcoords="offset points", va="center", color=tone
            )
    ax.set(xlabel=plain(x), ylabel=plain(y))
    return tidy(ax)


def point(ax: Any, x: float, y: float, text: str) -> None:
    """Set off one point of a curve, and write above it what it is."""
    ax.plot([x], [y], "o", color=LESS, markersize=7, zorder=5)
    ax.annotate(plain(text), (x, y), xytext=(0, 7), textcoords="offset points", ha="center", color=LESS)
    ax.margins(y=0.12)


def signed_bars(ax: Any, names: Sequence[str], values: Sequence[float], *, x: str) -> Any:
    """Horizontal bars left and right of zero, the first at the top, each with its figure."""
    ax = axes(ax, rows=len(names))
    places = np.arange(len(names))
    ax.barh(places, values, color=[MORE if value >= 0 else LESS for value in values], height=0.7)
    ax.axvline(0.0, color="0.3", linewidth=0.8)
    for place, value in zip(places, values, strict=True):
        side, where = ("left", 4) if value >= 0 else ("right", -4)
        ax.annotate(
            f"{value:+.3g}", (value, place), xytext=(where, 0), textcoords="offset points", ha=side, va="center"
        )
    ax.margins(x=0.18)
    ax.set(xlabel=plain(x))
    return name_rows(ax, names)


def intervals(
    ax: Any, names: Sequence[str], ends: Sequence[tuple[float, float, float]], *, x: str, beside: int | None = None
) -> Any:
    """Points with their intervals (low, middle, high), the first row at the top; a line marks the row ``beside``."""
    ax = axes(ax, rows=len(names))
    low, middle, high = np.array(ends, dtype=float).reshape(-1, 3).T
    places = np.arange(len(names))
    if beside is not None:
        ax.axvline(middle[beside], color=GREY, linewidth=1, linestyle="--", zorder=0)
    ax.errorbar(middle, places, xerr=[middle - low, high - middle], fmt="o", color=MORE, capsize=3, markersize=5)
    ax.set(xlabel=plain(x))
    return name_rows(ax, names)


def name_rows(ax: Any, names: Sequence[str]) -> Any:
    """Names at horizontal rows, the first at the top."""
    ax.set_yticks(np.arange(len(names)), [plain(brief(name, LONGEST_NAME)) for name in names])
    ax.set_ylim(len(names) - 0.4, -0.6)
    return tidy(ax)


def count_along(ax: Any) -> None:
    """Whole numbers on the horizontal axis."""
    ax.xaxis.get_major_locator().set_params(integer=True)


def tidy(ax: Any) -> Any:
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax


def plain(text: str) -> str:
    """Text that Matplotlib draws as it is: a dollar sign would begin a formula."""
    return text.replace("$", r"\$")
