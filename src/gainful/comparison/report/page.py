"""The report of a comparison: one self-contained HTML page, which includes its figures as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gainful.comparison.report import figures, sections
from gainful.comparison.report.explorer import EXPLORER, explore
from gainful.comparison.result import CURVE_SUM
from gainful.comparison.to_dict import to_dict
from gainful.errors import plural
from gainful.report.page import Section, html_page, read_asset

if TYPE_CHECKING:
    from gainful.comparison.result import Comparison

BULKY = ("history", "means_of_folds", "trials")  # of each ranker: not in the JSON of the page


def page(comparison: Comparison) -> str:
    """The page as HTML."""
    facts = to_dict(comparison, per_query=False)
    several = len(comparison.labels) > 1
    return html_page(
        f"Comparison of {plural(len(comparison.labels), comparison.noun)}",
        comparison.created,
        sections.answer(comparison),
        _sections(comparison, facts),
        "comparison",
        _page_data(facts, _judged_by(comparison)) | {"explorer": explore(comparison) if several else None},
        read_asset("gainful.comparison.report", "explorer.js") if several else "",
    )


def _sections(comparison: Comparison, facts: dict[str, Any]) -> list[Section]:
    """Name, title and content of each section, in reading order; the content may be empty."""
    return [
        ("summary", "Means", sections.summary(comparison)),
        ("differences", "Differences", sections.differences(comparison)),
        ("quality", "Quality against time", figures.quality(comparison)),
        ("further", "All pairs, practical equality", sections.further(comparison)),
        ("segments-of-queries", "Segments", sections.segments(comparison)),
        ("curves", "NDCG by depth", figures.curves(comparison, facts)),
        ("queries", "Query by query", EXPLORER if len(comparison.labels) > 1 else ""),
        ("importances", "Features", sections.importances(comparison, facts)),
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


def _page_data(facts: dict[str, Any], tested: list[str]) -> dict[str, Any]:
    """The figures of the page, without what fills megabytes."""
    rankers = {
        label: {name: value for name, value in entry.items() if name not in BULKY}
        for label, entry in facts["rankers"].items()
    }
    against = [t for t in facts["against_baseline"] if t["measure"] in tested]
    pair = {name: value for name, value in (facts["best_two"] or {}).items() if name != "sorted"} or None
    kept = {name: value for name, value in facts.items() if name not in ("queries", "importances")}
    return kept | {"rankers": rankers, "against_baseline": against, "best_two": pair}
