"""The sections of the report that draw: curves, query by query, training, paths; empty where they have nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from gainful.comparison import tables
from gainful.comparison.render import html_table
from gainful.comparison.report import plots
from gainful.comparison.report.sections import Facts, counted, figure, folded
from gainful.comparison.tables import Cell, Sheet
from gainful.comparison.to_dict import TOP

if TYPE_CHECKING:
    from gainful.comparison.result import Comparison

MOST_BARS = 380  # more do not fit side by side
POINT_BUDGET = 4000  # of all training curves together: some 40 kB
OPEN_CARDS = 6
WATCHED = {"objective": False, "gap": True, "validation": False}  # quantity → whether on a log scale


# -- NDCG@1 … 10 -------------------------------------------------------------------------------------------------------


def curves(comparison: Comparison, facts: Facts) -> str:
    """One line per ranker with a band; a few in colour, the others grey until they are asked for."""
    names = list(facts["curve"])
    if not names:
        return ""
    shown = highlighted(comparison)
    lines = []
    for i, label in enumerate(comparison.labels):
        told = facts["rankers"][label]
        points = [(float(m.k or 0), _known(told["means"][n])) for m, n in zip(comparison.curve, names, strict=True)]
        band = [(_known(low), _known(high)) for low, high in (told["intervals"][n] for n in names)]
        lines.append(plots.Line(f"r{i}", label, points, band, shown.index(label) if label in shown else None))
    level = tables.percent(comparison.level)
    picture = plots.curves(
        lines,
        x_name="k",
        y_name="mean NDCG@k",
        title=f"Mean NDCG@1 to NDCG@{comparison.curve[-1].k} of {counted(len(lines), 'ranker')}",
        description=f"Bands are {level} bootstrap intervals. The table of figures below holds the same values.",
    )
    values = html_table(_curve_sheet(comparison, facts), sortable=True, name="curve-values")
    caption = (
        f"Mean NDCG at each depth. Bands: {level} bootstrap intervals of the first two of the list; point at another "
        "to see its band."
    )
    return (
        f'<div class="split"><figure>{picture}<figcaption>{escape(caption)}</figcaption></figure>'
        f"{_toggles(lines)}</div>{folded('The figures of this plot', values)}"
    )


def highlighted(comparison: Comparison) -> list[str]:
    """The best ranker, the baseline and the next best, as many as there are colours; the first two get bands."""
    first, *rest = comparison.by_mean
    if first != comparison.baseline:
        rest = [comparison.baseline, *(label for label in rest if label != comparison.baseline)]
    return [first, *rest][: plots.SLOTS]


def _toggles(lines: Sequence[plots.Line]) -> str:
    def order(line: plots.Line) -> tuple[bool, int]:
        return line.slot is None, line.slot or 0

    boxes = "".join(
        f'<label class="toggle {"off" if line.slot is None else f"on c{line.slot}"}" data-key="{line.key}">'
        f'<input type="checkbox"{"" if line.slot is None else " checked"}>'
        f'<svg class="swatch" viewBox="0 0 24 8" aria-hidden="true"><path class="stroke" d="M1 4H23"/></svg>'
        f"<span>{escape(line.name)}</span></label>"
        for line in sorted(lines, key=order)
    )
    return f'<fieldset class="toggles"><legend>Rankers in colour (at most {plots.SLOTS})</legend>{boxes}</fieldset>'


def _curve_sheet(comparison: Comparison, facts: Facts) -> Sheet:
    names = list(facts["curve"])
    rows = []
    for label in comparison.by_mean:
        means = facts["rankers"][label]["means"]
        rows.append((Cell(label, label), *(Cell(figure(means[n]), means[n]) for n in names)))
    return Sheet("Mean NDCG at each depth", ("ranker", *names), tuple(rows))


# -- queries -----------------------------------------------------------------------------------------------------------


def queries(comparison: Comparison, facts: Facts) -> str:
    """The best two rankers, query by query."""
    pair = facts["best_two"]
    if pair is None:
        return ""
    heading = comparison.headings[comparison.headline]
    values = pair["sorted"]["difference"]
    shown = [v for _, v in plots.thinned(list(enumerate(values)), MOST_BARS)]
    count = f"{pair['first']} is better on {pair['wins']:,}, equal on {pair['ties']:,}, worse on {pair['losses']:,}"
    picture = plots.bars(
        shown,
        x_name=f"{len(values):,} test queries, sorted",
        y_name=f"Δ {heading}",
        title=f"{heading} of {pair['first']} less {pair['second']} on each query, sorted",
        description=f"{count}; mean difference {pair['difference']:+.4f}.",
    )
    thinner = f" {len(shown)} of them are drawn, evenly spaced." if len(shown) < len(values) else ""
    caption = f"{pair['first']} less {pair['second']}, the best two by mean {heading}: {count}.{thinner}"
    blocks = [f"<figure>{picture}<figcaption>{escape(caption)}</figcaption></figure>"]
    for kind, title in (("won_most", "better"), ("lost_most", "worse")):
        if pair[kind]:
            blocks.append(f"<h3>Where {escape(pair['first'])} is {title} by most</h3>")
            blocks += [_query(pair, told, facts, i == 0) for i, told in enumerate(pair[kind])]
    return "".join(blocks)


def _query(pair: Facts, told: Facts, facts: Facts, opened: bool) -> str:
    names = (pair["first"], pair["second"])
    values = " against ".join(figure(v) for v in told["values"])
    fold = f", fold {told['fold']}" if facts["data"]["folds"] > 1 else ""
    title = (
        f"Query {told['query']}{fold}: {values} ({told['difference']:+.4f}), {counted(told['n_documents'], 'document')}"
    )
    if not told["documents"]:
        return f"<p>{escape(title)}</p>"
    top = max(facts["data"]["grade_range"][1], 1)
    strips = "".join(_strip(name, i, told["documents"], top) for i, name in enumerate(names))
    head = ("document", "grade", "rank A", "score A", "rank B", "score B")
    rows = [
        (
            Cell(d["id"], d["id"]),
            Cell(f"{d['grade']:g}", d["grade"]),
            *(c for i in (0, 1) for c in (Cell(str(d["ranks"][i]), d["ranks"][i]), _score(d["scores"][i]))),
        )
        for d in told["documents"]
    ]
    sheet = Sheet(f"Documents of query {told['query']} among the first {TOP} of either ranker", head, tuple(rows))
    return folded(title, f'<div class="strips">{strips}</div>{html_table(sheet, sortable=True)}', opened)


def _score(value: float | None) -> Cell:
    return Cell("–" if value is None else f"{value:.4g}", value)


def _strip(name: str, i: int, documents: Sequence[Facts], top: float) -> str:
    """The grades of the first documents in the order of one ranker."""
    ranked = sorted((d for d in documents if d["ranks"][i] <= TOP), key=lambda d: d["ranks"][i])
    boxes = "".join(
        f'<li style="--g:{d["grade"] / top:.2f}" title="{escape(str(d["id"]))}">{d["grade"]:g}</li>' for d in ranked
    )
    return (
        f'<div class="strip"><span>{"AB"[i]}: {escape(name)}</span><ol aria-label="Grades by rank">{boxes}</ol></div>'
    )


# -- training ----------------------------------------------------------------------------------------------------------


def training(comparison: Comparison, facts: Facts) -> str:
    """Objective, gap and validation metric over the iterations, for each ranker that has more than one."""
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
                # With parameters of its own each fold has an objective of its own, which shares no axis.
                [
                    plots.thinned(_series(history, quantity), limit)
                    for history in (runs[:1] if comparison.tuned and quantity == "objective" else runs)
                ],
                name=quantity,
                x_name="iteration",
                title=f"{quantity} of {label} over its iterations",
                log=log,
            )
            for quantity, log in WATCHED.items()
        ]
        cards.append(_card(label, small))
    several = " One line a fold, the first one strong." if comparison.data["folds"] > 1 else ""
    if several and comparison.tuned:
        several += " Objectives of the first fold only: the parameters chosen differ from fold to fold, and so do they."
    note = (
        "Objective and duality gap as each ranker defines them, the gap relative and on a log scale; validation is the "
        f"metric on the validation queries by which the ranker is chosen.{several}"
    )
    return f"<p>{escape(note)}</p>{_cards(cards)}"


def _series(history: Facts, quantity: str) -> list[tuple[float, float]]:
    pairs = zip(history.get("iteration", ()), history.get(quantity, ()), strict=False)
    return [(float(i), float(v)) for i, v in pairs if v is not None]


def paths(comparison: Comparison, facts: Facts) -> str:
    """Rankers trained for several strengths of regularisation: the validation metric and what the strength does."""
    cards = []
    for label in comparison.by_mean:
        told = facts["rankers"][label]["facts"][0]
        rows = told.get("path") or []
        if len(rows) < 2:
            continue
        strength = "l1" if "l1" in rows[0] else "C"
        values = [row.get(strength) for row in rows]
        kept = values.index(told["kept"]) if told.get("kept") in values else None
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
    note = f"Models{fold} along the strength of regularisation, in the order of training; the ring is the one kept."
    return f"<p>{escape(note)}</p>{_cards(cards)}"


def _card(label: str, small: Sequence[str]) -> str:
    return f'<figure class="card"><figcaption>{escape(label)}</figcaption>{"".join(small)}</figure>'


def _cards(cards: Sequence[str]) -> str:
    first, rest = cards[:OPEN_CARDS], cards[OPEN_CARDS:]
    more = folded(f"{len(rest)} more", f'<div class="cards">{"".join(rest)}</div>') if rest else ""
    return f'<div class="cards">{"".join(first)}</div>{more}'


def _known(value: float | None) -> float:
    return math.nan if value is None else float(value)
