"""The sections of the report: functions from a comparison and its plain values to HTML, empty without content.

All text from outside (labels, ids, parameters) goes through ``escape``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, Any

from gainful.blending.leaderboard import Leaderboard
from gainful.comparison import tables
from gainful.comparison.grid import LossMatrix
from gainful.comparison.result import CURVE_SUM
from gainful.errors import plural
from gainful.report import plots
from gainful.report.parts import Cell, Table, definitions, details, html_table, notices

if TYPE_CHECKING:
    from gainful.comparison.result import Comparison

TRIAL_BUDGET = 400  # rows of all tables of trials
FEATURE_BUDGET = 300  # rows of all tables of importances
MEMORY_NOISE = 10 * 2**20  # bytes: smaller differences mean nothing, so a smaller figure fills no bar
MOST_SEGMENTS = 6  # side by side; more are listed one below the other
MOST_NAMED = 8
Facts = Mapping[str, Any]


# -- answer ------------------------------------------------------------------------------------------------------------


def answer(comparison: Comparison) -> str:
    """The result in one paragraph, then cautions and what went wrong."""
    heading, best = comparison.headings[comparison.headline], comparison.by_mean[0]
    low, high = comparison.interval(best, heading)
    mean = f"{comparison.mean(best, heading):.4f}"
    sentences = [
        f"Highest mean {escape(heading)}: <strong>{escape(best)}</strong>, {mean} "
        f"({tables.percent(comparison.level)} interval {tables.interval_text(low, high)}) "
        f"over {plural(len(comparison.query_ids), 'test query', 'test queries')}."
    ]
    others = [label for label in comparison.by_mean if label != comparison.baseline]
    if others and comparison.marking_test:
        for verdict, words in ((1, "better than"), (-1, "worse than"), (0, "different from")):
            names = [label for label in others if comparison.verdict(label, heading) == verdict]
            if names:
                lead = "Significantly" if verdict else "Not significantly"
                sentences.append(f"{lead} {words} the baseline {escape(comparison.baseline)}: {_name_list(names)}.")
    warnings = [*comparison.cautions, *tables.problems(comparison)]
    return f"<p>{' '.join(sentences)}</p>{notices(warnings)}"


def _name_list(labels: Sequence[str]) -> str:
    shown = [escape(label) for label in labels[:MOST_NAMED]]
    return ", ".join(shown) + (f" and {len(labels) - MOST_NAMED} more" if len(labels) > MOST_NAMED else "")


# -- tables of figures -------------------------------------------------------------------------------------------------


def summary(comparison: Comparison) -> str:
    legend = f"<p>{escape(tables.legend(comparison))}</p>" if len(comparison.labels) > 1 and comparison.tests else ""
    matrix = LossMatrix.of(comparison)
    grid = "" if matrix is None else html_table(matrix.table(), sortable=True, name="grid")
    return grid + html_table(tables.means_table(comparison), sortable=True, name="means", highest_first=1) + legend


def differences(comparison: Comparison) -> str:
    if len(comparison.labels) < 2:
        return ""
    heading = comparison.headings[comparison.headline]
    table = tables.differences_table(comparison)
    found = {
        label: comparison.paired_tests[label, heading] for label in comparison.labels if label != comparison.baseline
    }
    ends = [abs(v) for t in found.values() for v in (t.difference, *t.interval) if math.isfinite(v)]
    span = max(ends, default=0.0) or 1.0
    rows = []
    for row in table.rows:
        t = found[str(row[0].value)]
        picture = plots.interval_picture(t.difference, *t.interval, span, comparison.verdict(t.ranker, heading))
        more = (Cell(f"{t.superiority:.2f}", t.superiority), Cell(_size(t.detectable), t.detectable))
        rows.append((*row[:2], Cell("", t.difference, picture=picture), *row[2:4], more[0], *row[4:], more[1]))
    head = (*table.head[:2], "plot", *table.head[2:4], "P(better)", *table.head[4:], "detectable")
    note = (
        f"{comparison.noun.capitalize()} minus {comparison.baseline}, on {heading}.{_sum_note(comparison)} Plot: the "
        "difference and its interval; the vertical line marks zero. The p-values are corrected for multiple "
        "comparisons, the intervals are not. Effect: mean difference divided by its standard deviation (Cohen's d for "
        "pairs). P(better): probability of being better on a random query; ties count half. Detectable: the smallest "
        "difference that a test on this many queries finds in 80 % of cases."
    )
    html = html_table(Table(table.title, head, tuple(rows)), sortable=True, name="tests")
    return f"{html}<p>{escape(note)}</p>"


def _sum_note(comparison: Comparison) -> str:
    """What the column of Wilcoxon's test on the whole top of the list is about."""
    if all(measure != CURVE_SUM for _, measure in tables.shown_tests(comparison)):
        return ""
    return f" Wilcoxon Σndcg alone tests another figure, the {CURVE_SUM} of each query."


def _size(value: float) -> str:
    return "–" if not math.isfinite(value) else f"{value:.4f}"


def further(comparison: Comparison) -> str:
    """All pairs and practical equality, where they were chosen."""
    found = [html_table(table, sortable=True) for table in tables.further_tables(comparison, segments=False)]
    lines = tables.further_notes(comparison, segments=False)
    notes = "".join(f"<p>{escape(line)}</p>" for line in lines) if found else ""
    return "".join(found) + notes


def segments(comparison: Comparison) -> str:
    """The headline's mean in each segment of the queries, where segments were chosen: rankers × segments."""
    heading, parts = comparison.headings[comparison.headline], comparison.segmented
    if not parts:
        return ""
    whole = html_table(tables.segments_table(comparison), sortable=True, name="segments")
    note = f"<p>{escape(tables.segments_note(comparison))}</p>"
    if len(parts) > MOST_SEGMENTS:
        return whole + note
    rows = []
    for label in comparison.by_mean:
        cells = [Cell(tables.label_of(comparison, label), label), tables.mean_cell(comparison, label, heading)]
        rows.append((*cells, *(tables.mean_cell(part, label, heading) for part in parts.values())))
    head = [f"{name} ({plural(len(part.query_ids), 'query', 'queries')})" for name, part in parts.items()]
    table = Table(f"{heading} by segment", (comparison.noun, "all", *head), tuple(rows))
    matrix = html_table(table, sortable=True, name="by-segment", highest_first=1)
    return matrix + note + details("Intervals and differences by segment", whole)


# -- importances -------------------------------------------------------------------------------------------------------


def importances(comparison: Comparison, facts: Facts) -> str:
    """The features that matter most to each ranker; empty if no model was explained."""
    found = facts.get("importances", {})
    if not found:
        return ""
    most = max(5, min(15, FEATURE_BUDGET // len(found)))
    blocks = [
        details(label, _importance_table(comparison, label, found[label]["features"][:most]), opened=i == 0)
        for i, label in enumerate(label for label in comparison.by_mean if label in found)
    ]
    heading, level = comparison.headings[comparison.headline], tables.percent(comparison.level)
    n_queries = max(one["queries"] for one in found.values())
    left = [label for label in comparison.by_mean if label not in found]
    note = (
        f"Loss: what {heading} loses, in the mean over {plural(n_queries, 'test query', 'test queries')}, when the "
        f"values of the feature are shuffled within each query, with {level} intervals, paired by query. Contribution "
        "and gain: share of the feature in the size of all contributions within queries, and in the gain of all splits "
        f"or steps. At most {most} features of each ranker are shown; comparison.json has all. Shuffling a feature "
        "that others can stand in for costs little."
    ) + (f" Not explained: {', '.join(left[:MOST_NAMED])}{' …' if len(left) > MOST_NAMED else ''}." if left else "")
    return f"<p>{escape(note)}</p>{''.join(blocks)}"


def _importance_table(comparison: Comparison, label: str, features: Sequence[Facts]) -> str:
    ends = [abs(v) for one in features if one["interval"] for v in one["interval"] if v is not None]
    span = max(ends, default=0.0) or 1.0
    shares = [name for name in ("contribution", "gain") if any(one[name] is not None for one in features)]
    rows = []
    for one in features:
        loss, (low, high) = _number(one["loss"]), map(_number, one["interval"] or (None, None))
        verdict = 1 if low > 0 else -1 if high < 0 else 0
        picture = "" if math.isnan(loss) else plots.interval_picture(loss, low, high, span, verdict)
        rows.append(
            (
                Cell(one["feature"], one["feature"]),
                Cell("–" if math.isnan(loss) else f"{loss:+.4f}", loss),
                Cell("", loss, picture=picture),
                Cell("–" if math.isnan(low) else tables.interval_text(low, high, "+"), low),
                *(Cell(_share(one[name]), one[name]) for name in shares),
            )
        )
    heading = f"loss of {comparison.headings[comparison.headline]}"
    head = ("feature", heading, "plot", f"{tables.percent(comparison.level)} interval", *shares)
    table = Table(f"Importance of features to {label}", head, tuple(rows))
    return html_table(table, sortable=True, highest_first=1)


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _share(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"


# -- cost, parameters, about -------------------------------------------------------------------------------------------


def cost(comparison: Comparison, facts: Facts) -> str:
    entries = facts["rankers"]
    if not comparison.trained:
        return ""
    longest = max(r["fit_seconds"] for r in entries.values()) or 1.0
    largest = max(MEMORY_NOISE, *(r["memory_bytes"] or 0 for r in entries.values()))
    rows = [
        (
            Cell(label, label),
            *([tables.spent_cell(r["tuning_seconds"], r["models_tried"] > 0)] if comparison.tuned else []),
            *([Cell(f"{r['models_tried']:,}", r["models_tried"])] if comparison.tuned else []),
            replace(tables.spent_cell(r["fit_seconds"], r["trained"]), picture=_bar(r["fit_seconds"] / longest)),
            Cell(tables.seconds(r["predict_seconds"]), r["predict_seconds"]),
            Cell(
                tables.mebibytes(r["memory_bytes"]), r["memory_bytes"], picture=_bar((r["memory_bytes"] or 0) / largest)
            ),
            Cell(tables.range_text(r["iterations"]) if any(r["iterations"]) else "–", max(r["iterations"])),
        )
        for label, r in ((label, entries[label]) for label in comparison.by_mean)
    ]
    tuning = ("tuning", "models tried") if comparison.tuned else ()
    table = Table("Time and memory", ("ranker", *tuning, "fit", "predict", "memory", "iterations"), tuple(rows))
    note = (
        ("Tuning: total time of all trials, and the models trained in them. " if comparison.tuned else "")
        + "Fit and predict: wall-clock time over all folds; it depends on the machine and its load. Memory: peak "
        "growth of the process during training, as the operating system reports it (the largest of the folds). It "
        "includes libraries and kernels loaded for the first time, so differences of about 10 MiB mean nothing."
    )
    return f"{html_table(table, sortable=True, name='costs')}<p>{escape(note)}</p>"


def _bar(share: float) -> str:
    return f'<span class="bar" style="width:{6 * share:.2f}rem" aria-hidden="true"></span>'


def parameters(comparison: Comparison, facts: Facts) -> str:
    """The parameters of each ranker, and how they were found."""
    entries = facts["rankers"]
    if not comparison.trained:
        return ""
    rows = [
        (Cell(label, label), Cell(_settings(entries[label]["params"]) or "–", folded=True))
        for label in comparison.by_mean
    ]
    tuned = [
        (label, fold, trials)
        for label in comparison.by_mean
        for fold, trials in enumerate(entries[label].get("trials", ()), start=1)
        if trials
    ]
    head = "parameters of the first fold" if comparison.data["folds"] > 1 and tuned else "parameters"
    table = html_table(Table("Parameters", ("ranker", head), tuple(rows)), sortable=True, name="params")
    limit = max(3, TRIAL_BUDGET // max(len(tuned), 1))
    blocks = [_tuning(comparison, entries[label], label, fold, trials, limit) for label, fold, trials in tuned]
    found = f"<h3>Tuning</h3>{_chosen_table(comparison, entries)}{''.join(blocks)}" if blocks else ""
    return f'<div class="prose">{table}</div>{found}'


def _chosen_table(comparison: Comparison, entries: Facts) -> str:
    """What tuning chose, with a row per parameter and a column per fold, to show how far the folds agree."""
    folds = range(comparison.data["folds"])
    rows = []
    for label in comparison.by_mean:
        chosen = entries[label].get("chosen") or []
        for name in dict.fromkeys(name for one in chosen for name in one or ()):
            values = [(chosen[fold] or {}).get(name) for fold in folds]
            cells = (Cell(_short(v), v if isinstance(v, (int, float)) else str(v)) for v in values)
            rows.append((Cell(label, label), Cell(name, name), *cells))
    if not rows:
        return ""
    head = ("ranker", "parameter", *(f"fold {fold + 1}" for fold in folds)) if len(folds) > 1 else _ONE_FOLD
    return html_table(Table("Chosen, by fold", head, tuple(rows)), sortable=True, name="chosen")


_ONE_FOLD = ("ranker", "parameter", "chosen")


def _tuning(
    comparison: Comparison, entry: Facts, label: str, fold: int, trials: Sequence[Facts], limit: int
) -> str:  # fmt: skip
    """The trials of one ranker on one fold (the best ones if there are many), and the parameters chosen."""
    name = f"{label}, fold {fold}" if comparison.data["folds"] > 1 else label
    best = sorted(trials, key=lambda t: t["value"] if t.get("value") is not None else -math.inf, reverse=True)[:limit]
    shown = trials if len(trials) <= limit else best
    chosen = entry["chosen"][fold - 1] if entry.get("chosen") else None
    note = f"Chosen on the validation data: {_settings(chosen)}." if chosen else ""
    if len(shown) < len(trials):
        note += f" Only the best {len(shown)} trials are shown; comparison.json has all."
    head = ("trial", "params", "state", "value", "iterations", "seconds")
    rows = tuple(
        (
            Cell(str(t.get("trial", "")), t.get("trial")),
            Cell(_settings(t.get("params", {}))),
            Cell(str(t.get("state", ""))),
            Cell(rounded(t.get("value")), t.get("value")),
            Cell(str(t.get("iterations", "")), t.get("iterations")),
            Cell(tables.seconds(t.get("seconds", 0.0)), t.get("seconds")),
        )
        for t in shown
    )
    table = html_table(Table(f"Trials of {name}", head, rows), sortable=True)
    return details(f"{name}: {plural(len(trials), 'trial')}", f'<p>{escape(note)}</p><div class="trials">{table}</div>')


def _settings(params: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={_short(value)}" for name, value in params.items())


def _short(value: Any) -> str:
    if isinstance(value, list) and len(value) > 6:
        return f"[{', '.join(_short(v) for v in value[:3])}, …, {_short(value[-1])}]"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def blends(comparison: Comparison, facts: Facts) -> str:
    """The leaderboard of each blend, fold by fold."""
    several = comparison.data["folds"] > 1
    blocks: list[str] = []
    for label in comparison.by_mean:
        for fold, found in enumerate(facts["rankers"][label]["facts"], start=1):
            if "leaderboard" in found:
                board = Leaderboard.from_dict(found["leaderboard"])
                name = f"{label}, fold {fold}" if several else label
                blocks.append(details(name, _leaderboard(board, name), opened=not blocks))
    note = (
        "Each member was trained on query folds of the training data; these figures come from the queries that its "
        "models were not trained on, not from the test queries."
    )
    return f"<p>{escape(note)}</p>{''.join(blocks)}" if blocks else ""


def _leaderboard(board: Leaderboard, name: str) -> str:
    head, *lines = board.cells()
    rows = []
    for line, row in zip(lines, board, strict=True):
        first, *texts, note = line
        figures = (row.mean, row.error, row.difference, row.difference_error, row.weight, row.models, row.seconds)
        rows.append((Cell(first, first), *map(Cell, texts, figures), Cell(note, note)))
    table = html_table(Table(f"Members of {name}", (*head[:-1], "note"), tuple(rows)), sortable=True)
    return f"<p>{escape(board.sentence)}</p>{table}"


def about(comparison: Comparison, facts: Facts) -> str:
    data, per = facts["data"], facts["data"]["documents_per_query"]
    low, high = data["grade_range"]
    counts = [f"{plural(n, 'document')} of grade {g}" for g, n in data["grades"].items()] if data["grades"] else []
    rows = {
        "Data": tables.data_note(comparison),
        "Queries" if "runs" in facts["protocol"] else "Division": _division_text(facts["protocol"]),
        "Tuning": _tuning_text(facts["protocol"].get("tuning")) if comparison.trained else "",
        "Documents per test query": f"{per['min']:,} to {per['max']:,}, median {per['median']:,g}",
        "Grades of the test documents": ", ".join(counts) or f"{low:g} to {high:g}",
        "Test queries without a relevant document": f"{data['queries_without_relevant']:,}",
        "Metrics": "; ".join(tables.conventions(comparison.metrics)),
        "Curve": "; ".join(tables.conventions(comparison.curve)),
        "Tests": tables.tests_note(comparison) if comparison.tests else "none",
        "Seed": str(facts["seed"]),
        "Versions": ", ".join(f"{name} {version}" for name, version in facts["versions"].items()),
    }
    return definitions(rows)


def _division_text(protocol: Facts) -> str:
    """How the data was divided, or which queries the runs were judged on."""
    if "runs" in protocol:
        whole = "every query of the qrels; one that a run lacks counts as an empty list"
        return whole if protocol["queries"] == "all" else "the queries of the qrels that some run has"
    kind = protocol.get("division", "")
    found = [f"{protocol['folds']} {kind}" if "folds" in kind else kind]
    if "time" in protocol:
        found.append(f"{'feature' if isinstance(protocol['time'], int) else 'column'} {protocol['time']}")
    if "sizes" in protocol:
        found.append(f"shares {' : '.join(f'{share:g}' for share in protocol['sizes'])}")
    if "seed" in protocol:
        found.append(f"seed {protocol['seed']}")
    return ", ".join(found)


def _tuning_text(plan: Facts | None) -> str:
    if plan is None:
        return "none (parameters as given)"
    limits = [plural(plan["trials"], "trial")] if plan["trials"] else []
    limits += [f"{plan['seconds']:g} s"] if plan["seconds"] else []
    refit = ", final model trained on training and validation data" if plan["refit"] == "all" else ""
    pruned = ", poor trials stopped early" if plan["prune"] else ""
    metric = plan["metric"].partition("(")[0]
    found = f"{plan['search']} search for the best {metric}, at most {' and '.join(limits)} per ranker and fold"
    return f"{found}{pruned}{refit}, seed {plan['seed']}"


# -- small things ------------------------------------------------------------------------------------------------------


def rounded(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"
