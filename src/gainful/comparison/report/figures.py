"""The sections of the report with plots: curves, quality against time, training, paths; empty without content."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from gainful.comparison import tables
from gainful.comparison.report.sections import Facts, rounded
from gainful.errors import plural
from gainful.report import plots
from gainful.report.parts import Cell, Table, details, figure, html_table, toggles

if TYPE_CHECKING:
    from gainful.comparison.result import Comparison

POINT_BUDGET = 4000  # points of all training curves: about 40 kB
OPEN_CARDS = 6
WATCHED = {"objective": False, "gap": True, "validation": False}  # quantity → whether on a log scale


# -- NDCG@1 … 10 -------------------------------------------------------------------------------------------------------


def curves(comparison: Comparison, facts: Facts) -> str:
    """One line per ranker with a band; a few in colour, the others grey until selected."""
    names = list(facts["curve"])
    if not names:
        return ""
    shown = labels_in_colour(comparison)
    lines = []
    for i, label in enumerate(comparison.labels):
        entry = facts["rankers"][label]
        points = [(float(m.k or 0), _float(entry["means"][n])) for m, n in zip(comparison.curve, names, strict=True)]
        band = [(_float(low), _float(high)) for low, high in (entry["intervals"][n] for n in names)]
        lines.append(plots.Line(f"r{i}", label, points, band, shown.index(label) if label in shown else None))
    level = tables.percent(comparison.level)
    picture = plots.curves(
        lines,
        x_name="k",
        y_name="mean NDCG@k",
        title=f"Mean NDCG@1 to NDCG@{comparison.curve[-1].k} of {plural(len(lines), 'ranker')}",
        description=f"Bands are {level} intervals. The table below has the same values.",
    )
    values = html_table(_curve_table(comparison, facts), sortable=True, name="curve-values")
    caption = (
        f"Mean NDCG at each depth. Bands: {level} intervals of the first two rankers listed; point at "
        "another one to see its band."
    )
    return (
        f'<div class="split">{figure(picture, caption)}{toggles(lines, "Rankers")}</div>'
        f"{details('Values of this plot', values)}"
    )


def labels_in_colour(comparison: Comparison) -> list[str]:
    """The best ranker, the baseline and the next best, one per colour; the first two have bands."""
    first, *rest = comparison.by_mean
    if first != comparison.baseline:
        rest = [comparison.baseline, *(label for label in rest if label != comparison.baseline)]
    return [first, *rest][: plots.SLOTS]


def _curve_table(comparison: Comparison, facts: Facts) -> Table:
    names = list(facts["curve"])
    rows = []
    for label in comparison.by_mean:
        means = facts["rankers"][label]["means"]
        rows.append((Cell(label, label), *(Cell(rounded(means[n]), means[n]) for n in names)))
    return Table("Mean NDCG at each depth", ("ranker", *names), tuple(rows))


# -- quality against time ----------------------------------------------------------------------------------------------


def quality(comparison: Comparison) -> str:
    """The mean of the headline metric against the time that training took, with the rankers that none beats in both."""
    heading = comparison.headings[comparison.headline]
    spots = []
    for label in comparison.by_mean:
        mean, seconds = comparison.mean(label, heading), comparison.fit_seconds(label)
        if comparison.trained and comparison.was_trained(label) and seconds > 0 and math.isfinite(mean):
            spots.append(plots.Spot(label, seconds, mean, *comparison.interval(label, heading)))
    if len(spots) < 2:
        return ""
    best = plots.frontier(spots)
    picture = plots.scatter(
        spots,
        x_name="training time in seconds, all folds (log scale)",
        y_name=f"mean {heading}",
        title=f"Mean {heading} against training time of {plural(len(spots), 'ranker')}",
        description=f"None is both quicker and better than {', '.join(best)}. The table of means has the figures.",
    )
    caption = (
        f"Mean {heading} with {tables.percent(comparison.level)} intervals against training time without tuning, which "
        "depends on the machine and its load. The line joins the rankers that no other beats in both. Point at a "
        "ranker for its figures."
    )
    return figure(picture, caption)


# -- training ----------------------------------------------------------------------------------------------------------


def training(comparison: Comparison, facts: Facts) -> str:
    """Objective, gap and validation metric by iteration, for each ranker with more than one iteration."""
    histories = {label: facts["rankers"][label]["history"] for label in comparison.by_mean}
    trained = {label: runs for label, runs in histories.items() if any(len(h.get("iteration", ())) > 1 for h in runs)}
    if not trained:
        return ""
    n_lines = sum(len(runs) * sum(any(h.get(q) for h in runs) for q in WATCHED) for runs in trained.values())
    limit = max(12, min(120, POINT_BUDGET // max(n_lines, 1)))
    cards = []
    for label, runs in trained.items():
        small = [
            plots.spark(
                # Tuned folds have different parameters, so their objectives do not share an axis.
                [
                    plots.thin(_series(history, quantity), limit)
                    for history in (runs[:1] if comparison.tuned and quantity == "objective" else runs)
                ],
                name=quantity,
                x_name="iteration",
                title=f"{quantity} of {label} by iteration",
                log=log,
            )
            for quantity, log in WATCHED.items()
        ]
        cards.append(_card(label, small))
    plotted = {q for runs in trained.values() for q in WATCHED if any(h.get(q) for h in runs)}
    return f"<p>{escape(_training_note(comparison, plotted))}</p>{_cards(cards)}"


def _training_note(comparison: Comparison, plotted: set[str]) -> str:
    """What the plots show, of the quantities that some ranker has."""
    found = []
    if "objective" in plotted:
        found.append("Objective: what training improves, as each ranker defines it.")
    if "gap" in plotted:
        found.append("Gap: how far the objective is from its optimum at most, relative, on a log scale.")
    if "validation" in plotted:
        found.append("Validation: the metric on the validation queries, which decides which iteration is kept.")
    if comparison.data["folds"] > 1:
        found.append("One line per fold; the first fold is the strong line.")
        if comparison.tuned and "objective" in plotted:
            found.append("Objectives are from the first fold only, because the chosen parameters differ between folds.")
    return " ".join(found)


def _series(history: Facts, quantity: str) -> list[tuple[float, float]]:
    pairs = zip(history.get("iteration", ()), history.get(quantity, ()), strict=False)
    return [(float(i), float(v)) for i, v in pairs if v is not None]


def paths(comparison: Comparison, facts: Facts) -> str:
    """Rankers trained with several strengths of regularisation: validation metric, features kept, norm of weights."""
    cards = []
    for label in comparison.by_mean:
        entry = facts["rankers"][label]["facts"][0]
        rows = entry.get("path") or []
        if len(rows) < 2:
            continue
        strength = "l1" if "l1" in rows[0] else "C"
        values = [row.get(strength) for row in rows]
        kept = values.index(entry["kept"]) if entry.get("kept") in values else None
        middle = len(rows) // 2
        marks = [(float(i), plots.number(values[i])) for i in sorted({0, middle, len(rows) - 1})]
        small = [
            plots.spark(
                [[(float(i), float(row[q])) for i, row in enumerate(rows) if row.get(q) is not None]],
                name=name,
                x_name=strength,
                title=f"{name} of {label} along {strength}",
                x_ticks=marks,
                mark=kept,
            )
            for q, name in (("n_features", "features kept"), ("validation", "validation"), ("norm", "norm of weights"))
        ]
        cards.append(_card(label, small))
    if not cards:
        return ""
    fold = " of the first fold" if comparison.data["folds"] > 1 else ""
    note = f"Models{fold} by strength of regularisation, in order of training. The ring marks the model kept."
    return f"<p>{escape(note)}</p>{_cards(cards)}"


def _card(label: str, small: Sequence[str]) -> str:
    return f'<figure class="card"><figcaption>{escape(label)}</figcaption>{"".join(small)}</figure>'


def _cards(cards: Sequence[str]) -> str:
    first, rest = cards[:OPEN_CARDS], cards[OPEN_CARDS:]
    more = details(f"{len(rest)} more", f'<div class="cards">{"".join(rest)}</div>') if rest else ""
    return f'<div class="cards">{"".join(first)}</div>{more}'


def _float(value: float | None) -> float:
    return math.nan if value is None else float(value)
