"""The report of a comparison: one self-contained HTML page, which includes its figures as JSON."""

from __future__ import annotations

import json
from html import escape
from importlib import resources
from string import Template
from typing import TYPE_CHECKING, Any

from gainful.comparison.report import figures, sections
from gainful.comparison.result import CURVE_SUM
from gainful.comparison.to_dict import to_dict
from gainful.errors import plural

if TYPE_CHECKING:
    from gainful.comparison.result import Comparison

BULKY = ("history", "means_of_folds", "trials")  # of each ranker: not in the JSON of the page


def page(comparison: Comparison) -> str:
    """The page as HTML."""
    facts = to_dict(comparison, per_query=False)
    shown = [(name, title, html) for name, title, html in _sections(comparison, facts) if html]
    links = "".join(f'<li><a href="#{name}">{title}</a></li>' for name, title, _ in shown)
    main = "".join(
        f'<section id="{name}" aria-labelledby="{name}-title"><h2 id="{name}-title">{title}</h2>{html}</section>'
        for name, title, html in shown
    )
    return Template(_asset("report.html")).substitute(
        title=escape(f"Comparison of {plural(len(comparison.labels), comparison.noun)}"),
        created=escape(f"{comparison.created[:10]}, {comparison.created[11:16]} UTC"),
        answer=sections.answer(comparison),
        links=links,
        main=main,
        data=_page_data(facts, _judged_by(comparison)),
        style=_asset("report.css"),
        script=_asset("report.js"),
    )


def _sections(comparison: Comparison, facts: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Name, title and content of each section, in reading order; the content may be empty."""
    return [
        ("summary", "Means", sections.summary(comparison)),
        ("differences", "Differences", sections.differences(comparison)),
        ("further", "Pairs and parts", sections.further(comparison)),
        ("curves", "Down the list", figures.curves(comparison, facts)),
        ("queries", "Query by query", figures.queries(comparison, facts)),
        ("training", "Training", figures.training(comparison, facts)),
        ("blends", "What the blends are made of", sections.blends(comparison, facts)),
        ("paths", "Regularisation paths", figures.paths(comparison, facts)),
        ("cost", "Time and memory", sections.cost(comparison, facts)),
        ("parameters", "Parameters", sections.parameters(comparison, facts)),
        ("about", "Data, metrics, tests", sections.about(comparison, facts)),
    ]


def _judged_by(comparison: Comparison) -> list[str]:
    """The measures whose tests the page shows."""
    return [comparison.headings[comparison.headline], *([CURVE_SUM] if comparison.curve else [])]


def _page_data(facts: dict[str, Any], tested: list[str]) -> str:
    """The figures of the page as JSON, escaped so that they cannot close their script element."""
    rankers = {
        label: {name: value for name, value in entry.items() if name not in BULKY}
        for label, entry in facts["rankers"].items()
    }
    against = [t for t in facts["against_baseline"] if t["measure"] in tested]
    pair = {name: value for name, value in (facts["best_two"] or {}).items() if name != "sorted"} or None
    kept = {name: value for name, value in facts.items() if name != "queries"}
    text = json.dumps(kept | {"rankers": rankers, "against_baseline": against, "best_two": pair})
    return text.replace("<", "\\u003c").replace("&", "\\u0026")


def _asset(name: str) -> str:
    return (resources.files("gainful.comparison.report") / "assets" / name).read_text(encoding="utf-8")
