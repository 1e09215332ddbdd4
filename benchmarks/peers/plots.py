"""Learning curves as standalone SVG: NDCG@10 against seconds on a log scale, one panel per group.

Few curves have a name: the best of each maker, the reference, and our best three. The others are grey.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import ceil, floor, log10
from typing import Any

from gainful.report.plots import Frame, number, ticks
from peers.contestants import GROUPS, REFERENCE
from peers.curves import Curve

COLOURS = {
    "gainful": "#00796b",
    "LightGBM": "#1565c0",
    "XGBoost": "#c62828",
    "CatBoost": "#ef6c00",
    "scikit-learn": "#7b1fa2",
    "fastrank": "#6d4c41",
    "pyltr": "#616161",
}
OURS, OUR_BEST = "gainful", 3
DASHES = ("", "7 3", "2 3")  # of several by one maker, the best first
WIDTH, PANEL, LABELS, TOP, LINE = 860.0, 330.0, 252.0, 34.0, 14.0
STYLE = (
    "text{font:11px system-ui,sans-serif;fill:#333}.title{font-weight:600;font-size:13px}.end{text-anchor:end}"
    ".middle{text-anchor:middle}.grid{stroke:#eee;stroke-width:.6}.curve{fill:none;stroke-width:2}"
    ".other{fill:none;stroke:#bbb;stroke-width:1}.thin{fill:none;stroke-width:.6;opacity:.6}.soft{fill:#777}"
    ".mark{stroke:#888;stroke-width:.8;stroke-dasharray:3 3}"
)


def picture(title: str, groups: dict[str, list[dict[str, Any]]], reference_times: dict[str, float]) -> str:
    """One panel per group, stacked; the dotted line marks the group's reference time."""
    panels = [
        panel(GROUPS[group], results, REFERENCE[group], reference_times[group], top=i * (PANEL + TOP) + TOP)
        for i, (group, results) in enumerate(groups.items())
    ]
    height = len(panels) * (PANEL + TOP) + TOP
    words = escape(
        f"{title}: NDCG@10 on test queries against seconds of training, on a log scale. The tables hold all figures."
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {height:g}" role="img" aria-label="{words}">'
        f"<style>{STYLE}</style>"
        f'<rect width="{WIDTH:g}" height="{height:g}" fill="#fff"/>{"".join(panels)}</svg>\n'
    )


def panel(title: str, results: Sequence[dict[str, Any]], reference: str, reference_time: float, top: float) -> str:
    curves = {r["name"]: Curve.from_dict(r["curve"]).kept() for r in results}
    frame = _frame(curves, top)
    parts = [f'<text class="title" x="4" y="{top:.1f}">{escape(title)}: NDCG@10</text>', _axes(frame)]
    place = frame.at_x(log10(reference_time))
    parts.append(f'<path class="mark" d="M{place:.1f} {frame.top:.1f}V{frame.height - frame.bottom:.1f}"/>')
    ends = {name: points[-1] for name, points in curves.items()}
    styles = _styles(named_curves({name: value for name, (_, value) in ends.items()}, reference))
    others = [name for name in curves if name not in styles]
    parts += [_steps(frame, curves[name], 'class="other"') for name in others]
    parts += [_steps(frame, curves[name], f'class="curve" {style}') for name, style in reversed(styles.items())]
    parts += _labels(frame, {name: ends[name] for name in styles}, styles)
    if others:
        words = f"grey: {len(others)} others, all in the table"
        parts.append(f'<text class="soft" x="{frame.left:.1f}" y="{frame.height - 6:.1f}">{words}</text>')
    return "".join(parts)


def named_curves(ends: dict[str, float], reference: str) -> list[str]:
    """The best of each maker by its last value, the reference, and our best three; the best first.

    >>> named_curves({"gainful a": 0.5, "XGBoost b": 0.6, "XGBoost c": 0.4, "XGBoost d": 0.3}, "XGBoost d")
    ['XGBoost b', 'gainful a', 'XGBoost d']
    """
    order = sorted(ends, key=lambda name: -ends[name])
    kept: dict[str, list[str]] = {}
    for name in order:
        mine = kept.setdefault(maker_of(name), [])
        if name == reference or len(mine) < (OUR_BEST if maker_of(name) == OURS else 1):
            mine.append(name)
    return [name for name in order if name in kept[maker_of(name)]]


def maker_of(name: str) -> str:
    return next(maker for maker in COLOURS if name.startswith(maker))


def _frame(curves: dict[str, list[tuple[float, float]]], top: float) -> Frame:
    """Time from the first model to the last; quality from the range of the better half of the curves."""
    seconds = [log10(at) for points in curves.values() for at, _ in points]
    last = sorted(points[-1][1] for points in curves.values())
    high = last[-1]
    low = min(max(last[0], high - 0.35), high - 0.02)
    pad = 0.05 * (high - low) or 0.01
    return Frame(
        WIDTH, top + PANEL, (min(seconds) - 0.05, max(seconds) + 0.05), (low - 4 * pad, high + pad), left=44.0,
        right=LABELS, top=top + 10, bottom=36.0,
    )  # fmt: skip


def _axes(frame: Frame) -> str:
    bottom, right = frame.height - frame.bottom, frame.width - frame.right
    rows = "".join(
        f'<path class="grid" d="M{frame.left:.1f} {frame.at_y(t):.1f}H{right:.1f}"/>'
        f'<text class="end" x="{frame.left - 5:.1f}" y="{frame.at_y(t) + 4:.1f}">{number(t)}</text>'
        for t in ticks(*frame.y, 6)
    )
    columns = "".join(
        f'<path class="grid" d="M{frame.at_x(log10(t)):.1f} {frame.top:.1f}V{bottom:.1f}"/>'
        f'<text class="middle" x="{frame.at_x(log10(t)):.1f}" y="{bottom + 14:.1f}">{t:g} s</text>'
        for t in decades(*frame.x)
    )
    return rows + columns


def decades(low: float, high: float) -> list[float]:
    """1, 10, 100 … between these powers of ten; with 2 and 5 if there would be few.

    >>> decades(-1.2, 1.1)
    [0.1, 1.0, 10.0]
    >>> decades(0.2, 1.1)
    [2.0, 5.0, 10.0]
    """
    steps = (1, 2, 5) if high - low < 2 else (1,)
    all_of_them = [float(f"{m}e{e}") for e in range(floor(low), ceil(high) + 1) for m in steps]
    return [t for t in all_of_them if low <= log10(t) <= high]


def _styles(names: Sequence[str]) -> dict[str, str]:
    """One colour per maker, one dash pattern per ranker of it."""
    seen: dict[str, int] = {}
    found = {}
    for name in names:
        maker = maker_of(name)
        dash = DASHES[min(seen.get(maker, 0), len(DASHES) - 1)]
        seen[maker] = seen.get(maker, 0) + 1
        found[name] = f'stroke="{COLOURS[maker]}"' + (f' stroke-dasharray="{dash}"' if dash else "")
    return found


def _steps(frame: Frame, points: Sequence[tuple[float, float]], style: str) -> str:
    """The current quality, which stays until something better is finished."""
    low = frame.y[0]
    shown = [(frame.at_x(log10(at)), frame.at_y(max(value, low))) for at, value in points]
    path = f"M{shown[0][0]:.1f} {shown[0][1]:.1f}" + "".join(f"H{x:.1f}V{y:.1f}" for x, y in shown[1:])
    return f'<path {style} d="{path}"/>'


def _labels(frame: Frame, ends: dict[str, tuple[float, float]], styles: dict[str, str]) -> list[str]:
    """Names beside the ends of the curves, moved apart if they would overlap."""
    order = sorted(ends, key=lambda name: -ends[name][1])
    wanted = [frame.at_y(max(ends[name][1], frame.y[0])) for name in order]
    places = spread(wanted, LINE, frame.top, frame.height - 8)
    right = frame.width - frame.right
    parts = []
    for name, place, (at, value) in zip(order, places, (ends[n] for n in order), strict=True):
        x, y = frame.at_x(log10(at)), frame.at_y(max(value, frame.y[0]))
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" {styles[name]} fill="#fff"/>')
        parts.append(f'<path class="thin" {styles[name]} d="M{x + 3:.1f} {y:.1f}L{right + 8:.1f} {place:.1f}"/>')
        parts.append(f'<path class="curve" {styles[name]} d="M{right + 8:.1f} {place:.1f}h22"/>')
        parts.append(f'<text x="{right + 34:.1f}" y="{place + 4:.1f}">{escape(name)} {value:.3f}</text>')
    return parts


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places in the given order, each at least ``gap`` below the one before, as close as possible to the given ones.

    >>> spread([10.0, 11.0, 40.0], 5.0, 0.0, 100.0)
    [10.0, 15.0, 40.0]
    >>> spread([98.0, 99.0], 5.0, 0.0, 100.0)
    [95.0, 100.0]
    """
    places: list[float] = []
    for at in wanted:
        places.append(max(at, low if not places else places[-1] + gap))
    bound = high
    for i in range(len(places) - 1, -1, -1):
        places[i] = min(places[i], bound)
        bound = places[i] - gap
    return places
