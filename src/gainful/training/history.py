"""``history_`` and ``path_``: plain lists of rows, which notebooks show as tables and which plot themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gainful.display import html, plots
from gainful.errors import GainfulError, plural


class Rows(list[dict[str, Any]]):
    """A list of mappings with the same keys; ``metric`` names what "validation" measures, where that is known."""

    noun = "row"

    def __init__(self, rows: Iterable[Mapping[str, Any]] = (), *, metric: str = ""):
        super().__init__(dict(row) for row in rows)
        self.metric = metric

    def _repr_html_(self) -> str:
        return html.mappings(self, plural(len(self), self.noun))

    def _known(self, name: str, x: str) -> tuple[list[float], list[float]]:
        """The values of a column and where they are, without rows that have none."""
        found = [(row[x], row[name]) for row in self if row.get(name) is not None and row[name] == row[name]]
        return [place for place, _ in found], [value for _, value in found]

    def _measured(self) -> str:
        """The column to plot: the validation metric, or the objective where there was no validation data."""
        found = next((n for n in ("validation", "objective") if self._known(n, n)[0]), None)
        if found is None:
            raise GainfulError(
                "there is nothing to plot: training recorded neither a validation metric nor an objective"
            )
        return found

    def _label(self, name: str) -> str:
        return name if name == "objective" else f"{self.metric or 'metric'} on the validation data"


class History(Rows):
    """One row per iteration: iteration, objective, gap, validation, seconds, and what else a ranker reports."""

    noun = "iteration"

    def plot(self, ax: Any = None) -> Any:
        """Draw the validation metric, or the objective without validation data, by iteration; returns the axes.

        Several validation sets have a curve each. Needs the extra ``plot``.
        """
        name = self._measured()
        several = [one for one in self[-1] if one.startswith(f"{name} ")]  # "validation NAME" of each validation set
        by_name = {one.removeprefix(f"{name} "): self._known(one, "iteration") for one in several or [name]}
        ax = plots.curves(ax, by_name, x="iteration", y=self._label(name))
        plots.count_along(ax)
        if name == "validation":
            xs, ys = next(iter(by_name.values()))
            best = max(range(len(ys)), key=ys.__getitem__)
            plots.point(ax, xs[best], ys[best], f"{ys[best]:.4f} at {xs[best]}")
        return ax


class Path(Rows):
    """One row per C, or per l1."""

    noun = "model"

    def plot(self, ax: Any = None) -> Any:
        """Draw the validation metric, or the objective without validation data, by C or l1; returns the axes.

        The axis is logarithmic. Needs the extra ``plot``.
        """
        x = "l1" if self and "l1" in self[0] else "C"
        name = self._measured()
        xs, ys = self._known(name, x)
        ax = plots.curves(ax, {name: (xs, ys)}, x=x, y=self._label(name), mark="o")
        if min(xs) > 0:
            ax.set_xscale("log")
        if name == "validation":
            best = max(range(len(ys)), key=ys.__getitem__)
            plots.point(ax, xs[best], ys[best], f"{ys[best]:.4f} at {x}={xs[best]:.3g}")
        return ax
