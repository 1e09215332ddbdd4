"""What the page knows of single queries: values, documents and contributions, for any two rankers.

All of it is bounded, so that a page stays a few megabytes whatever was compared. ``explorer.js`` shows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from gainful.comparison.further import segment_names
from gainful.comparison.to_dict import TOP, best_two, ranks_of
from gainful.data.rows import Array
from gainful.persistence.jsonable import plain

if TYPE_CHECKING:
    from gainful.comparison.result import Comparison

VALUE_CELLS = 100_000  # values, rankers × queries
DOCUMENT_CELLS = 100_000  # ranks and scores, rankers × documents
PART_CELLS = 100_000  # contributions, rankers × documents × features
MOST_DOCUMENTS = 40  # of a query
MOST_FEATURES = 10  # of a query; the others count together
PAIR_CELLS = 2_000_000  # queries × pairs, beyond which differences have no intervals

EXPLORER = """
<div id="explorer"><noscript><p>This part needs JavaScript; comparison.json has its figures.</p></noscript></div>
"""


def explore(comparison: Comparison) -> dict[str, Any]:
    """The values of the queries, the documents of some of them, and the contributions of fewer."""
    labels = comparison.by_mean
    values = np.column_stack([comparison.per_query(label, comparison.headline) for label in labels])
    order = _by_spread(comparison, values)
    kept = np.sort(order[: max(1, VALUE_CELLS // len(labels))])
    found: dict[str, Any] = {
        "measure": comparison.headings[comparison.headline],
        "noun": comparison.noun,
        "level": comparison.level,
        "top": TOP,
        "labels": labels,
        "n_queries": len(values),
        "grade": max(float(comparison.data["grade_range"][1]), 1.0),
        "ids": [str(one) for one in comparison.query_ids[kept].tolist()],
        "folds": (comparison.fold_of_query[kept] + 1).tolist() if comparison.data["folds"] > 1 else None,
        "segments": _segments(comparison, kept),
        "values": [[_rounded(v, 5) for v in column] for column in values[kept].T],
        "pairs": _pairs(comparison, labels),
    }
    place = {int(q): i for i, q in enumerate(kept.tolist())}
    explained = _Explained(comparison, labels)
    documents = _documents(comparison, labels, [int(q) for q in (*explained.queries(order), *order) if int(q) in place])
    parts = explained.parts({q: rows for q, (rows, _) in documents.items()})
    found["documents"] = {place[q]: entry for q, (_, entry) in documents.items()}
    found["features"] = explained.names
    found["parts"] = {place[q]: entry for q, entry in parts.items()}
    return plain(found)  # type: ignore[no-any-return]


def _by_spread(comparison: Comparison, values: Array) -> Array:
    """Positions of the queries: those on which the best two differ by most, then those on which any rankers do."""
    known = np.where(np.isnan(values), 0.0, values)
    spread = known.max(axis=1) - known.min(axis=1)
    extreme = best_two(comparison)
    if extreme is not None:
        named = {(one["query"], one["fold"]) for kind in ("won_most", "lost_most") for one in extreme[kind]}
        folds = (comparison.fold_of_query + 1).tolist()
        for q, key in enumerate(zip(comparison.query_ids.tolist(), folds, strict=True)):
            spread[q] += 1e9 if key in named else 0.0
    return np.argsort(-spread, kind="stable")


def _segments(comparison: Comparison, kept: Array) -> list[str] | None:
    chosen = comparison.choices.segments
    return None if chosen is None else segment_names(comparison.query_ids[kept], chosen).tolist()


def _pairs(comparison: Comparison, labels: Sequence[str]) -> list[list[float | None]]:
    """Of each pair (i, j), i < j: mean difference, its interval, and the queries won, tied and lost."""
    pairs = list(combinations(labels, 2))
    if not pairs:
        return []
    columns = comparison.weighted_differences(pairs, comparison.headline)
    low = high = np.full(len(pairs), np.nan)
    if columns.size <= PAIR_CELLS:
        low, high = comparison.difference_intervals(pairs, comparison.headline)
    found: list[list[float | None]] = []
    for i in range(len(pairs)):
        d = columns[~np.isnan(columns[:, i]), i]
        ends = [_rounded(v, 5) for v in (d.mean() if len(d) else np.nan, low[i], high[i])]
        found.append([*ends, int((d > 0).sum()), int((d == 0).sum()), int((d < 0).sum())])
    return found


def _documents(
    comparison: Comparison, labels: Sequence[str], order: Sequence[int]
) -> dict[int, tuple[Array, dict[str, Any]]]:
    """By query, as many as there is room for: the documents in the top ten of any ranker, with ranks and scores."""
    scores = [comparison.scores(label) for label in labels]
    if any(one is None for one in scores):
        return {}
    matrix = np.column_stack([one for one in scores if one is not None])
    rows, room, found = comparison.documents, DOCUMENT_CELLS, {}
    for q in dict.fromkeys(order):
        begin, end = int(rows.offsets[q]), int(rows.offsets[q + 1])
        ranks = np.column_stack([ranks_of(column) for column in matrix[begin:end].T])
        best = ranks.min(axis=1)
        shown = np.flatnonzero(best <= TOP)
        shown = np.sort(shown[np.argsort(best[shown], kind="stable")[:MOST_DOCUMENTS]])
        room -= len(shown) * len(labels)
        if room < 0:
            break
        found[q] = (
            shown,
            {
                "n": end - begin,
                "ids": [rows.name(q, int(i)) for i in shown],
                "grades": rows.grades[begin + shown].tolist(),
                "ranks": ranks[shown].T.tolist(),
                "scores": [[_rounded(v, 4, significant=True) for v in column] for column in matrix[begin + shown].T],
            },
        )
    return found


class _Explained:
    """The contributions that the runs kept, by test query."""

    def __init__(self, comparison: Comparison, labels: Sequence[str]):
        self.comparison, self.labels = comparison, labels
        explained = [run.explained for label in labels for run in comparison.runs[label] if run.explained is not None]
        held = [one for one in explained if one["parts"] is not None]
        self.names: list[str] = held[0]["features"] if held else []
        self.starts = self._starts()

    def queries(self, order: Array) -> list[int]:
        """The queries that some ranker has contributions of, in this order."""
        known = {q for starts in self.starts for q in starts}
        return [int(q) for q in order if int(q) in known]

    def parts(self, documents: dict[int, Array]) -> dict[int, dict[str, Any]]:
        """By query: the features that matter most there, and the contributions of each ranker, documents × features.

        The last column is the sum of all other features.
        """
        found, room = {}, PART_CELLS
        for q, shown in documents.items():
            held = [self._of_query(i, q, shown) for i in range(len(self.labels))]
            known = [one for one in held if one is not None]
            if not known:
                continue
            size = np.max([np.abs(one).mean(axis=0) for one in known], axis=0)
            chosen = np.argsort(-size, kind="stable")[:MOST_FEATURES]
            room -= len(known) * len(shown) * (len(chosen) + 1)
            if room < 0:
                break
            found[q] = {
                "features": chosen.tolist(),
                "rankers": [None if one is None else _first_and_rest(one, chosen) for one in held],
            }
        return found

    def _starts(self) -> list[dict[int, tuple[int, int]]]:
        """Of each ranker: test query → its fold, and the first of its rows in the contributions of that fold."""
        offsets, folds = self.comparison.documents.offsets, self.comparison.fold_of_query
        counts, first = np.diff(offsets), {int(f): int(np.flatnonzero(folds == f)[0]) for f in np.unique(folds)}
        found = []
        for label in self.labels:
            starts: dict[int, tuple[int, int]] = {}
            for i, run in enumerate(self.comparison.runs[label]):
                if run.explained is None or run.explained["parts"] is None or run.explained["features"] != self.names:
                    continue
                row = 0
                for q in (run.explained["queries"] + first[run.fold]).tolist():
                    starts[q] = i, row
                    row += int(counts[q])
            found.append(starts)
        return found

    def _of_query(self, ranker: int, q: int, shown: Array) -> Array | None:
        if q not in self.starts[ranker]:
            return None
        i, row = self.starts[ranker][q]
        explained = self.comparison.runs[self.labels[ranker]][i].explained
        return None if explained is None else np.asarray(explained["parts"][row + shown], dtype=np.float64)


def _first_and_rest(parts: Array, chosen: Array) -> list[list[float | None]]:
    columns = np.column_stack([parts[:, chosen], parts.sum(axis=1) - parts[:, chosen].sum(axis=1)])
    return [[_rounded(v, 3) for v in row] for row in columns]


def _rounded(value: float, digits: int, significant: bool = False) -> float | None:
    if value != value:
        return None
    return float(f"{value:.{digits}g}") if significant else round(float(value), digits)
