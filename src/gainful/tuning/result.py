"""What :func:`gainful.tune` found: every trial, the best parameters, the model."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from gainful.display import html, plots
from gainful.errors import brief
from gainful.errors.terminal import make_console
from gainful.metrics import Metric
from gainful.parameters.space import Space
from gainful.persistence.jsonable import plain
from gainful.rankers.base import Ranker
from gainful.statistics.quality import Quality

SHOWN = 10  # trials in a notebook


@dataclass(eq=False, repr=False)
class TuneResult:
    """The trials of a search and the best of them. ``print`` it for the table.

    ``trials`` has one mapping per trial: ``trial`` (its number; 0 is the ranker as given), ``params``, ``state``
    ("done", "pruned" or "failed"), ``value`` (None unless done), ``iterations``, ``best_iteration``, ``seconds``,
    ``models`` (how many it trained), ``kept`` (which of several C or l1 validation chose) and ``warnings``.
    ``model`` is the ranker trained with the best parameters, or None without ``refit``.
    """

    ranker: str
    estimator: Ranker  # as in all trials, except for the parameters searched
    metric: Metric
    space: Space
    search: str
    seed: int
    best_params: dict[str, Any]
    best_value: float
    best_trial: int
    trials: tuple[Mapping[str, Any], ...]
    interrupted: bool = False
    model: Ranker | None = None
    workers: int | None = None  # trials run at once, if memory allowed fewer than requested

    @property
    def trials_by_number(self) -> dict[int, Mapping[str, Any]]:
        return {row["trial"]: row for row in self.trials}

    @property
    def gain(self) -> float | None:
        """How much better the best trial is than the ranker as given, on the validation data."""
        first = self.trials_by_number.get(0)
        return None if first is None or first["value"] is None else self.best_value - first["value"]

    @property
    def quality(self) -> Quality:
        """The best value, on queries that chose its parameters."""
        n = sum(row["value"] is not None for row in self.trials)
        best = self.trials_by_number[self.best_trial]
        gain = "" if self.gain is None else f" ({self.gain:+.4f} over the parameters given)"
        stopped = "choosing the iteration" if (best["iterations"] or 0) > 1 else ""
        used_for = f"choosing among {n} trials" if n > 1 else stopped
        return Quality(str(self.metric), self.best_value, f"the validation queries{gain}", used_for)

    def table(self, width: int = 120) -> str:
        """The trials as text, best first."""
        console = make_console(file=io.StringIO(), width=width, highlight=False)
        console.print(self.renderable())
        return console.file.getvalue().rstrip("\n")  # type: ignore[attr-defined, no-any-return]

    def renderable(self) -> Any:
        """The trials for a Rich console."""
        from rich import box
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for name in self._head:
            table.add_column(Text(name), justify="right" if name else "left")
        for row in self._best_first():
            style = "bold" if row["trial"] == self.best_trial else ("dim" if row["value"] is None else None)
            table.add_row(*map(Text, self._cells(row)), style=style)
        return Group(table, Text(self._summary(), style="dim"))

    @property
    def _head(self) -> tuple[str, ...]:
        return ("trial", self.metric.name, *self.space, "iterations", "seconds", "")

    def _cells(self, row: Mapping[str, Any]) -> list[str]:
        """A trial in a table, under the head."""
        value = "" if row["value"] is None else f"{row['value']:.4f}"
        chosen = (_short(row["params"][name]) for name in self.space)
        note = row["state"] if row["state"] != "done" else ("as given" if row["trial"] == 0 else "")
        return [str(row["trial"]), value, *chosen, str(row["iterations"]), f"{row['seconds']:.2f}", note]

    def _best_first(self) -> list[Mapping[str, Any]]:
        return sorted(self.trials, key=lambda row: (row["value"] is None, -(row["value"] or 0.0), row["trial"]))

    def _summary(self) -> str:
        found = ", ".join(f"{name}={_short(value)}" for name, value in self.best_params.items()) or "nothing to tune"
        states = [row["state"] for row in self.trials]
        parts = [f"{self.ranker}: {found}", str(self.quality)]
        parts.append(f"{len(states)} trials by {self.search} search, seed {self.seed}")
        parts += [f"{states.count(state)} {state}" for state in ("pruned", "failed") if state in states]
        if self.workers is not None:
            parts.append(f"memory allowed {self.workers} at a time")
        return "; ".join(parts) + (". Interrupted: the best so far." if self.interrupted else ".")

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        return f"TuneResult({self.ranker}: {self.best_params}, {self.metric.name} {self.best_value:.4f})"

    def _repr_html_(self) -> str:
        rows = []
        for row in self._best_first()[:SHOWN]:
            cells = [brief(cell) for cell in self._cells(row)]
            rows.append([html.bold(cell) for cell in cells] if row["trial"] == self.best_trial else cells)
        left = f"{len(self.trials) - SHOWN:,} more trials in .trials" if len(self.trials) > SHOWN else ""
        shown = html.table(self._head, rows, left=(len(self._head) - 1,))
        return html.frame(self.ranker, shown, html.lines([left] if left else []), about=self._summary())

    def plot(self, ax: Any = None) -> Any:
        """Draw the metric of each trial and the best so far; returns the axes. Needs the extra ``plot``."""
        done = sorted((row["trial"], row["value"]) for row in self.trials if row["value"] is not None)
        numbers, values = [trial for trial, _ in done], [value for _, value in done]
        best = list(accumulate(values, max))
        ax = plots.axes(ax)
        ax.plot(numbers, values, "o", color=plots.GREY, markersize=4)
        ax.step(numbers, best, where="post", color=html.MORE)
        plots.count_along(ax)
        ax.set(xlabel="trial", ylabel=f"{self.metric.name} on the validation data")
        plots.point(ax, self.best_trial, self.best_value, f"{self.best_value:.4f} in trial {self.best_trial}")
        return plots.tidy(ax)

    def to_dict(self) -> dict[str, Any]:
        """Everything except the model as plain values, as :meth:`to_json` writes it."""
        return plain(  # type: ignore[no-any-return]
            {
                "ranker": self.ranker,
                "metric": str(self.metric),
                "search": self.search,
                "seed": self.seed,
                "space": {name: str(dimension) for name, dimension in self.space.items()},
                "params": self.estimator.get_params(deep=False),
                "best_params": self.best_params,
                "best_value": self.best_value,
                "best_trial": self.best_trial,
                "gain": self.gain,
                "used_for": self.quality.used_for,
                "interrupted": self.interrupted,
                "trials": self.trials,
            }
        )

    def to_json(self, path: str | Path) -> None:
        """Write :meth:`to_dict` as JSON."""
        from gainful.formats.files import write_text

        write_text(path, json.dumps(self.to_dict(), indent=1))


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
