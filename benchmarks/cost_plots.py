"""Small multiples of training costs, as SVG: one panel per ranker, logarithmic axes, measurements and model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from cost_model import USUAL, Measurement, Points, along, exponent, predicted, sweep
from gainful.report.plots import Frame, number

STYLE = (
    "text{font:10px system-ui,sans-serif;fill:#333}.name{font-weight:600}.grid{stroke:#ddd;stroke-width:.6}"
    ".model{stroke:#0f766e;fill:none;stroke-width:1.3}.dot{fill:#b45309}.small{font-size:8px;fill:#666}"
    "@media (prefers-color-scheme:dark){text{fill:#ddd}.small{fill:#aaa}.grid{stroke:#444}"
    ".model{stroke:#5eead4}.dot{fill:#fbbf24}}"
)
PANEL, ACROSS = (168.0, 122.0), 6


@dataclass(frozen=True)
class Panel:
    """One ranker's measurements along an axis, and the model's predictions."""

    name: str
    points: Points
    model: Callable[[float], float]


def panels(groups: Mapping[str, list[Measurement]], models: Mapping[str, Any], axis: str) -> list[Panel]:
    made = []
    for name, ms in groups.items():
        points = sweep(ms, axis)
        if len(points) > 1:
            count = max(m["iterations"] for m in along(ms, axis))
            usual = {"ranker": name, **USUAL, "iterations": count}
            made.append(Panel(name, points, partial(_modelled, models[name], usual, axis)))
    return made


def _modelled(model: dict[str, Any], usual: Measurement, axis: str, size: float) -> float:
    return predicted(model, usual | {axis: size})[0]


def plot(made: Sequence[Panel], x_name: str, title: str) -> str:
    """Small multiples on shared logarithmic axes: dots are measurements, the line is the model."""
    points = np.log10([point for panel in made for point in panel.points])
    x, y = ((float(np.floor(v.min() + 1e-9)), float(np.ceil(v.max() - 1e-9))) for v in points.T)
    frame = Frame(*PANEL, x, y, left=34, right=8, top=20, bottom=24)
    width, height = ACROSS * PANEL[0], -(-len(made) // ACROSS) * PANEL[1] + 16
    parts = []
    for i, panel in enumerate(made):
        left, top = PANEL[0] * (i % ACROSS), PANEL[1] * (i // ACROSS)
        parts.append(f'<g transform="translate({left:g} {top:g})">{_drawn(frame, panel)}</g>')
    caption = f"{x_name} against seconds per fit, with the exponent; dots are measurements, lines are the model"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{title}">'
        f"<style>{STYLE}</style>{''.join(parts)}"
        f'<text class="small" x="4" y="{height - 4:g}">{caption}</text></svg>\n'
    )


def _drawn(frame: Frame, panel: Panel) -> str:
    low, high = frame.y
    places = np.linspace(*np.log10([panel.points[0][0], panel.points[-1][0]]), 25)
    curve = [(frame.at_x(v), frame.at_y(float(np.clip(np.log10(panel.model(10.0**v)), low, high)))) for v in places]
    dots = "".join(
        f'<circle class="dot" cx="{frame.at_x(np.log10(a)):.1f}" cy="{frame.at_y(np.log10(b)):.1f}" r="2.3"/>'
        for a, b in panel.points
    )
    return (
        f'{_grid(frame)}<path class="model" d="M{"L".join(f"{a:.1f} {b:.1f}" for a, b in curve)}"/>{dots}'
        f'<text class="name" x="6" y="13">{panel.name}  {exponent(panel.points):.2f}</text>'
    )


def _grid(frame: Frame) -> str:
    across, up = (range(int(low), int(high) + 1) for low, high in (frame.x, frame.y))
    right, bottom = frame.width - frame.right, frame.height - frame.bottom
    lines = [f"M{frame.left:.1f} {frame.at_y(v):.1f}H{right:.1f}" for v in up]
    lines += [f"M{frame.at_x(v):.1f} {frame.top:.1f}V{bottom:.1f}" for v in across]
    texts = [(frame.left - 3, frame.at_y(v) + 3, "end", number(10.0**v)) for v in up if v % 2 == 0]
    texts += [(frame.at_x(v), bottom + 10, "middle", f"10{_raised(v)}") for v in across]
    return f'<path class="grid" d="{"".join(lines)}"/>' + "".join(
        f'<text class="small" text-anchor="{anchor}" x="{x:.1f}" y="{y:.1f}">{text}</text>'
        for x, y, anchor, text in texts
    )


def _raised(power: int) -> str:
    return str(power).translate(str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻"))
