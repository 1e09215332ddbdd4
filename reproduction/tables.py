"""The tables of a reproduction, for the terminal and for Markdown."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from gainful.comparison.render import markdown_table, markdown_text, rich_table
from gainful.report.parts import MARKS, Cell, Table
from reproduction.artificial import HEADLINE, ArtificialResult
from reproduction.ohsumed import JUDGED, TESTED, Figure, OhsumedResult
from reproduction.origin import origin
from reproduction.published import ARTIFICIAL, OHSUMED, TABLE_1

Result = OhsumedResult | ArtificialResult
BESIDE = f"{MARKS[-1]} more than one standard error of ours below the published figure, {MARKS[1]} more than one above"


def terminal(result: Result) -> Any:
    """Tables and notes for a Rich console."""
    from rich.console import Group
    from rich.text import Text

    tables, notes = _tables(result), _notes(result)
    return Group(*(rich_table(table) for table in tables), *(Text(line, style="dim") for line in notes))


def markdown(result: Result, command: str) -> str:
    """A page for docs/results: tables, notes, and where they come from."""
    title = "OHSUMED" if isinstance(result, OhsumedResult) else "Artificial data"
    parts = [f"# {title}: our figures next to the published ones"]
    tables = [*_tables(result), *([full_table(result)] if isinstance(result, OhsumedResult) else [])]
    for table in tables:
        parts += [f"## {table.title}", markdown_table(table)]
    made = origin(command)
    libraries = ", ".join(f"{name} {version}" for name, version in made["versions"].items())
    lines = [markdown_text(line) for line in _notes(result)]
    lines += [f"Command: `{made['command']}`", f"Commit: {made['commit'] or 'not known'}. Date: {made['date']}"]
    lines.append(markdown_text(libraries))
    parts.append("\n".join(f"- {line}" for line in lines))
    return "\n\n".join(parts) + "\n"


def command_line(arguments: Sequence[str]) -> str:
    """The command, ready to be typed again."""
    return " ".join(["gainful", *(shlex.quote(argument) for argument in arguments)])


def _tables(result: Result) -> list[Table]:
    if isinstance(result, ArtificialResult):
        return [artificial_table(result)]
    tables = [rankers_table(result)]
    tables += [published_table(result)] if result.published else []
    return [*tables, claims_table(result)] if result.claims() else tables


def _notes(result: Result) -> list[str]:
    return _artificial_notes(result) if isinstance(result, ArtificialResult) else _ohsumed_notes(result)


# -- OHSUMED -----------------------------------------------------------------------------------------------------------


def rankers_table(result: OhsumedResult) -> Table:
    """All rankers: means with standard errors, differences from the baseline with corrected p-values, time."""
    shown = tuple(dict.fromkeys((*TESTED, *JUDGED)))
    best = {m: max(result.figure(label, m).mean for label in result.labels) for m in shown}
    head = ["ranker", *(_name(m) for m in shown)]
    for m in TESTED:
        head += [f"Δ {_name(m)}", "p"]
    rows = []
    for label in result.labels:
        cells = [Cell(label, label)]
        for m in shown:
            figure = result.figure(label, m)
            text = _with_error(figure) if m in TESTED else f"{figure.mean:.4f}"
            cells.append(Cell(text, figure.mean, best=figure.mean >= best[m]))
        for m in TESTED:
            cells += _against(result, label, m)
        seconds = result.seconds(label)
        rows.append((*cells, _features(result, label), Cell(f"{seconds:.0f} s", seconds)))
    return Table(
        f"All rankers, tuned alike, against {result.comparison.baseline}", (*head, "features", "time"), tuple(rows)
    )


def _features(result: OhsumedResult, label: str) -> Cell:
    """The share of features used, with the published share in brackets."""
    kept = result.kept(label)
    theirs = OHSUMED[label].kept if label in OHSUMED else None
    if kept is None:
        return Cell("")
    return Cell(f"{kept:.0%}" if theirs is None else f"{kept:.0%} ({theirs:.0%})", kept)


def _against(result: OhsumedResult, label: str, measure: str) -> list[Cell]:
    t = result.comparison.paired_tests.get((label, measure))
    if t is None:
        return [Cell("–"), Cell("–")]
    p = t.p_holm[result.comparison.marking_test or "randomization"]
    verdict = result.comparison.verdict(label, measure)
    return [Cell(f"{t.difference:+.4f}", t.difference, verdict=verdict), Cell(f"{p:.3f}", p)]


def published_table(result: OhsumedResult) -> Table:
    """The rankers with published figures: ours, theirs, the difference."""
    head = ["ranker"]
    for m in JUDGED:
        head += [_name(m), "paper", "diff."]
    rows = []
    for label in result.published:
        cells = [Cell(label, label)]
        for m in JUDGED:
            cells += _beside(result.figure(label, m))
        rows.append(tuple(cells))
    return Table("Compared with the published figures", tuple(head), tuple(rows))


def _beside(figure: Figure, scale: float = 1.0, digits: int = 4) -> list[Cell]:
    cells = [Cell(_with_error(figure, scale, digits), figure.mean)]
    if figure.published is None or figure.difference is None:
        return [*cells, Cell("–"), Cell("")]
    cells.append(Cell(f"{scale * figure.published:.{1 if scale > 1 else digits}f}", figure.published))
    difference = f"{scale * figure.difference:+.{digits}f}"
    return [*cells, Cell(difference, figure.difference, verdict=figure.verdict)]


def full_table(result: OhsumedResult) -> Table:
    """Every column of the papers' table: our figures in one row, the published ones in the next."""
    measures = (*TABLE_1, "ndcg@10")
    rows = []
    for label, paper in result.published.items():
        figures = [result.figure(label, m) for m in measures]
        rows.append((Cell(label), *(Cell(f"{f.mean:.4f}", f.mean, verdict=f.verdict) for f in figures)))
        theirs = [Cell("–" if f.published is None else f"{f.published:.4f}", f.published) for f in figures]
        rows.append((Cell(f"{paper.called} ({paper.source})"), *theirs))
    return Table("All columns", ("ranker", *(_name(m) for m in measures)), tuple(rows))


def claims_table(result: OhsumedResult) -> Table:
    """What papers say about pairs of rankers without giving numbers, and what we find."""
    head = ("ranker", "against", *(f"Δ {_name(m)}" for m in TESTED), "the paper")
    rows = []
    for claim, other, found in result.claims():
        ours = [Cell(_format_signed(d, error), d) for d, error in found.values()]
        rows.append((Cell(claim.ranker), Cell(other), *ours, Cell(f"{claim.says} ({claim.source})")))
    return Table("Claims of papers that show OHSUMED only as plots", head, tuple(rows))


def _ohsumed_notes(result: OhsumedResult) -> list[str]:
    comparison = result.comparison
    tuning = comparison.protocol["tuning"]
    lines = [
        f"{comparison.data['folds']} folds, {len(comparison.query_ids)} test queries; LETOR 3.0's measure; means of "
        "the folds' means ± standard error over the queries. The papers give no errors.",
        f"Parameters chosen on the validation queries by {tuning['metric'].partition('(')[0]}, {tuning['trials']} "
        f"trials per ranker and fold, seed {tuning['seed']}. Time is the sum over all trials and trainings.",
        f"Δ and p: against {comparison.baseline}, randomisation test, Holm over the rankers; {MARKS[1]} significantly "
        f"better, {MARKS[-1]} worse at {comparison.alpha:g}.",
        f"Compared with published figures: {BESIDE}.",
    ]
    for m, labels in result.better_than_baseline().items():
        lines.append(f"Significantly better than {comparison.baseline} in {_name(m)}: {', '.join(labels) or 'none'}.")
    behind = ", ".join(result.behind()) or "none"
    lines.append(f"Below a published {' or '.join(_name(m) for m in JUDGED)} by more than one error: {behind}.")
    return [*lines, *result.remarks]


# -- artificial data ---------------------------------------------------------------------------------------------------


def artificial_table(result: ArtificialResult) -> Table:
    """NDCG@10 × 100 as in the paper: ours, theirs, the difference, spread, iterations, time."""
    comparison, rows = result.comparison, []
    for label in result.labels:
        published = ARTIFICIAL.get(label)
        theirs = None if published is None else published.deviations.get(HEADLINE)
        t = comparison.paired_tests.get((label, HEADLINE))
        seconds = comparison.fit_seconds(label)
        cells = [Cell(label, label), *_beside(result.figure(label), 100.0, 2)]
        cells.append(Cell(f"{100 * result.deviation(label):.1f}", result.deviation(label)))
        cells.append(Cell("–" if theirs is None else f"{100 * theirs:.1f}", theirs))
        if t is None:
            cells.append(Cell("–"))
        else:
            verdict = comparison.verdict(label, HEADLINE)
            cells.append(Cell(f"{100 * t.difference:+.2f}", t.difference, verdict=verdict))
        cells += [Cell(str(result.iterations(label)), result.iterations(label)), Cell(f"{seconds:.0f} s", seconds)]
        rows.append(tuple(cells))
    head = ("ranker", "NDCG@10", "published", "difference", "s.d.", "published s.d.", f"Δ {comparison.baseline}")
    return Table("Table 1 of Li, Burges and Wu 2007", (*head, "iterations", "time"), tuple(rows))


def _artificial_notes(result: ArtificialResult) -> list[str]:
    how: Any = result.comparison.protocol
    sizes = " / ".join(f"{n:,}" for n in how["queries"])
    shares = "all equally likely" if how["shares"] is None else "with the probabilities " + _list(how["shares"])
    return [
        f"{sizes} queries of 50 documents for training, validation and test (the paper: 10,000 / 5,000 / 10,000), five "
        f"grades, {shares}; seed {how['seed']}.",
        f"{how['trees']:,} iterations of {how['leaves']} leaves, shrinkage {how['rate']:g}, best iteration on "
        f"validation; NDCG@10 × 100 ± standard error over the queries; {how['threads']} thread(s).",
        f"Compared with published figures: {BESIDE}. Against {result.comparison.baseline}: significant at "
        f"{result.comparison.alpha:g} after Holm.",
        *result.remarks,
    ]


def _format_signed(difference: float, error: float) -> str:
    return f"{difference:+.4f} ± {error:.4f}"


def _list(numbers: Sequence[float]) -> str:
    return ", ".join(f"{number:g}" for number in numbers)


def _name(measure: str) -> str:
    return measure.upper()


def _with_error(figure: Figure, scale: float = 1.0, digits: int = 4) -> str:
    error = f"{scale * figure.error:.{max(digits - 1, 2)}f}"
    return f"{scale * figure.mean:.{digits}f} ± {error.removeprefix('0')}"
