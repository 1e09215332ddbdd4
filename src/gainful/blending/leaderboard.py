"""The leaderboard of a blend: what each member reached out of fold, and what it counts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gainful.blending.weights import counting, mean_and_error
from gainful.data.rows import Array
from gainful.display import html, plots
from gainful.errors import plural
from gainful.parameters.constraints import split_outside_brackets
from gainful.rankers.registry import RANKERS
from gainful.statistics.quality import Quality

INTERVAL = 1.96  # standard errors
ANY_LOSS = ("boosted", "linear", "neural")


@dataclass(frozen=True)
class Row:
    """A member, or the blend itself. ``difference`` is the blend less the member, paired by query.

    ``queries`` is how many the mean is over: all of those left out, or fewer where time was over.
    """

    name: str
    mean: float
    error: float
    weight: float
    seconds: float
    models: int
    difference: float = 0.0
    difference_error: float = 0.0
    note: str = ""
    queries: int = 0

    @property
    def interval(self) -> tuple[float, float]:
        """The mean ± 1.96 standard errors."""
        return self.mean - INTERVAL * self.error, self.mean + INTERVAL * self.error


@dataclass(frozen=True)
class Leaderboard:
    """The blend first, then its members by metric, those that did not score all queries last.

    ``used_for`` says what the queries left out chose of the models that scored them; "" if nothing. Prints as a table,
    in notebooks too.
    """

    metric: str
    queries: int
    blend: Row
    members: tuple[Row, ...]
    used_for: str = ""

    @classmethod
    def of_values(
        cls,
        metric: str,
        blend: Array,
        members: Sequence[tuple[Row, Array]],
        query_weights: Array | None,
        models: int,
        used_for: str,
    ) -> Leaderboard:
        mean, error = mean_and_error(blend, query_weights)
        rows = []
        for row, values in members:
            difference, its_error = mean_and_error(blend - values, query_weights)
            facts = asdict(row) | dict(zip(("mean", "error"), mean_and_error(values, query_weights), strict=True))
            facts |= {"queries": int(counting(values, query_weights).sum())}
            rows.append(Row(**(facts | {"difference": difference, "difference_error": its_error})))
        queries = int(counting(blend, query_weights).sum())
        rows.sort(key=lambda row: (row.queries < queries, row.mean != row.mean, -row.mean))
        whole = Row("blend", mean, error, 1.0, sum(row.seconds for row in rows), models, queries=queries)
        return cls(metric, queries, whole, tuple(rows), used_for)

    @property
    def quality(self) -> Quality:
        """What to expect of the blend on new queries, unless it says otherwise."""
        on = f"{plural(self.queries, 'query', 'queries')} left out"
        return Quality(self.metric, self.blend.mean, on, self.used_for, self.blend.error)

    def __iter__(self) -> Iterator[Row]:
        yield self.blend
        yield from self.members

    def __len__(self) -> int:
        return 1 + len(self.members)

    @property
    def sentence(self) -> str:
        """The result in one sentence or two; ± are standard errors."""
        models = plural(self.blend.models, "model")
        if not math.isfinite(self.blend.mean):
            return f"A blend of {models}; there is no query left out on which it could be measured."
        text = f"The blend of {models} reaches {self.quality}"
        measured = [row for row in self.members if math.isfinite(row.mean) and row.queries == self.queries]
        if not measured:  # each member scored some of them
            return f"{text}."
        best = measured[0]
        chosen = f" (chosen on them from {len(measured)}: expect less on others)" if len(measured) > 1 else ""
        text += f"; the best single ranker, {family_of(best.name)}, {best.mean:.4f}{chosen}"
        standards = [row for row in measured if family_of(row.name) == "lambdamart"]
        standard = standards[0] if standards else None
        if standard is not None and standard is not best:
            chosen = f" (the best of {len(standards)} on them: expect less on others)" if len(standards) > 1 else ""
            text += f"; lambdamart, LightGBM's lambdarank, {standard.mean:.4f}{chosen}"
        other = standard or best
        if not math.isfinite(other.difference_error) or other.weight == 1.0:  # then it is the blend
            return f"{text}."
        return (
            f"{text}. The difference to {family_of(other.name)} is {other.difference:+.4f} ± "
            f"{other.difference_error:.4f}."
        )

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per line, for frames and JSON."""
        return [{**asdict(row), "low": row.interval[0], "high": row.interval[1]} for row in self]

    def to_dict(self) -> dict[str, Any]:
        rows = [asdict(row) for row in self]
        return {"metric": self.metric, "queries": self.queries, "used_for": self.used_for, "rows": rows}

    @classmethod
    def from_dict(cls, stored: Any) -> Leaderboard:
        """What :meth:`to_dict` returned, from a model file; anything else raises ValueError or TypeError."""
        first, *others = (Row(**_checked(row)) for row in stored["rows"])
        return cls(str(stored["metric"]), int(stored["queries"]), first, tuple(others), str(stored["used_for"]))

    def labels(self) -> list[str]:
        """A short name for each line: the ranker's, numbered where it was tried with several settings."""
        families = [family_of(row.name) for row in self]
        seen: dict[str, int] = {}
        labels = []
        for family in families:
            seen[family] = seen.get(family, 0) + 1
            labels.append(f"{family} #{seen[family]}" if families.count(family) > 1 else family)
        return labels

    def cells(self) -> list[tuple[str, ...]]:
        """The table as text, the heading first."""
        lines: list[tuple[str, ...]] = [
            ("ranker", self.metric, "± s.e.", "blend − it", "± s.e.", "weight", "models", "seconds", "")
        ]
        for row, label in zip(self, self.labels(), strict=True):
            lines.append(
                (
                    label,
                    _figure(row.mean),
                    _figure(row.error),
                    "" if row is self.blend else _figure(row.difference, "+"),
                    "" if row is self.blend else _figure(row.difference_error),
                    f"{row.weight:.3f}" if row.weight else "",
                    str(row.models or ""),
                    f"{row.seconds:.1f}",
                    row.note,
                )
            )
        return lines

    def __str__(self) -> str:
        lines = self.cells()
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        text = []
        for first, *middle, last in lines:
            padded = (cell.rjust(width) for cell, width in zip(middle, widths[1:-1], strict=True))
            text.append("  ".join([first.ljust(widths[0]), *padded, last]).rstrip())
        return "\n".join([*text, self.sentence])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head, *body = self.cells()
        shown = html.table(head, body, left=(0, len(head) - 1))
        return html.frame("Leaderboard", shown, about=self.sentence)

    def plot(self, ax: Any = None) -> Any:
        """Draw the mean of the blend and of each member with its 95 % interval; returns the axes.

        Members that were measured on fewer queries are left out. Needs the extra ``plot``.
        """
        known = [(label, row) for label, row in zip(self.labels(), self, strict=True) if row.queries == self.queries]
        ends = [(row.interval[0], row.mean, row.interval[1]) for _, row in known]
        label = f"{self.metric} on queries left out, with 95 % intervals"
        return plots.intervals(ax, [label for label, _ in known], ends, x=label, beside=0)


def family_of(spec: str) -> str:
    """The name in a spec; where a ranker takes any loss, the loss too; the ranker that trees start from."""
    name, *settings = split_outside_brackets(spec, ":")
    grows = name in RANKERS and RANKERS[name].kind == "trees"  # for others, init means something else
    kept = ["loss="] * (name in ANY_LOSS) + ["init="] * grows
    return ":".join([name, *(one for one in settings if one.startswith(tuple(kept)))])


def _figure(value: float, sign: str = "") -> str:
    return f"{value:{sign}.4f}" if math.isfinite(value) else "–"


def _checked(row: Any) -> dict[str, Any]:
    kinds = {"name": str, "note": str, "models": int, "queries": int}
    for name, value in row.items():
        if name in kinds:
            if type(value) is not kinds[name]:
                raise ValueError(f"{name} of the leaderboard is not a {kinds[name].__name__}")
        elif value is not None and (type(value) not in (int, float) or not math.isfinite(value)):
            raise ValueError(f"{name} of the leaderboard is not a number")
    return {name: _number(value) if name not in kinds else value for name, value in row.items()}


def _number(value: Any) -> float:
    return float("nan") if value is None else float(value)
