"""What a data set looks like: counts and ranges that show whether it is the one you expect."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gainful.data.rows import value_chunks
from gainful.display import html

if TYPE_CHECKING:
    from gainful.data.dataset import RankingData

MOST_GRADES = 12  # with a bar each


@dataclass(frozen=True)
class Description:
    """The result of :meth:`RankingData.describe`. ``str`` gives a readable text, :meth:`to_dict` the values."""

    queries: int
    documents: int
    features: int
    documents_per_query: dict[str, float]
    grades: dict[str, int] | None
    grade_range: tuple[float, float]
    queries_without_relevant: int
    queries_of_one_grade: int
    missing_values: int
    constant_features: int
    storage: str
    density: float
    bytes: int
    weighted: bool
    weighted_documents: bool
    init_score_range: tuple[float, float] | None
    preferences: dict[str, float] | None  # pairs, their weight, and the queries that have any

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def rows(self) -> list[tuple[str, str]]:
        """Label and text of each fact, in reading order."""
        per = self.documents_per_query
        low, high = self.grade_range
        if self.preferences is not None:
            found = self.preferences
            grades = f"none; {found['pairs']:,.0f} preferences of weight {found['weight']:g}"
            grades += f" in {found['queries']:,.0f} queries"
        elif self.grades is not None:
            grades = ", ".join(f"{grade}: {count:,}" for grade, count in self.grades.items())
        else:
            grades = f"real-valued, {low:g} to {high:g}"
        storage = f"{self.storage}, {self.bytes / 2**20:,.1f} MiB"
        if self.density < 1:
            storage += f", {self.density:.1%} of the values are not zero"
        rows = [
            ("queries", f"{self.queries:,}" + (" (weighted)" if self.weighted else "")),
            ("documents", f"{self.documents:,}" + (" (weighted)" if self.weighted_documents else "")),
            (
                "documents per query",
                f"{per['min']:,.0f} to {per['max']:,.0f}, median {per['median']:,.0f}, mean {per['mean']:,.1f}",
            ),
            (
                "features",
                f"{self.features:,}" + (f" ({self.constant_features:,} constant)" if self.constant_features else ""),
            ),
            ("grades", grades),
            *(
                ()
                if self.init_score_range is None
                else [("initial scores", "{:g} to {:g}".format(*self.init_score_range))]
            ),
            ("missing values", f"{self.missing_values:,}"),
            ("storage", storage),
        ]
        if self.queries_without_relevant:
            rows.append(("queries without a relevant document", f"{self.queries_without_relevant:,}"))
        if self.queries_of_one_grade:
            rows.append(("queries whose grades are all equal", f"{self.queries_of_one_grade:,}"))
        return rows

    def __str__(self) -> str:
        rows = self.rows()
        width = max(len(label) for label, _ in rows)
        return "\n".join(f"{label:<{width}}  {text}" for label, text in rows)


def describe(data: RankingData) -> Description:
    """Describe the data in one pass."""
    values = np.unique(data.y)
    grades = None
    if len(values) <= 32:
        grades = {f"{value:.15g}": int((data.y == value).sum()) for value in values}
    low = np.minimum.reduceat(data.y, data.offsets[:-1])
    high = np.maximum.reduceat(data.y, data.offsets[:-1])
    init, pairs = data.init_scores, data.pairs
    size = data.X.nnz if data.is_sparse else data.n_rows * data.n_features
    n_bytes = data.X.data.nbytes + data.X.indices.nbytes + data.X.indptr.nbytes if data.is_sparse else data.X.nbytes
    return Description(
        queries=data.n_queries,
        documents=data.n_rows,
        features=data.n_features,
        documents_per_query={
            "min": float(data.counts.min()),
            "median": float(np.median(data.counts)),
            "mean": float(data.counts.mean()),
            "max": float(data.counts.max()),
        },
        grades=grades,
        grade_range=(float(values[0]), float(values[-1])),
        queries_without_relevant=0 if data.has_pairs else int((high <= 0).sum()),
        queries_of_one_grade=int(((low == high) & (high > 0)).sum()),
        missing_values=sum(int(np.isnan(block).sum()) for block in value_chunks(data.X)),
        constant_features=_count_constant(data.X),
        storage=f"{'sparse' if data.is_sparse else 'dense'} {data.X.dtype}",
        density=size / max(1, data.n_rows * data.n_features),
        bytes=int(n_bytes + data.y.nbytes),
        weighted=data.query_weights is not None,
        weighted_documents=data.has_document_weights,
        init_score_range=None if init is None else (float(init.min()), float(init.max())),
        preferences=None
        if pairs is None
        else {
            "pairs": len(pairs),
            "weight": float(pairs.weight.sum()),
            "queries": int((pairs.counts > 0).sum()),
        },
    )


def html_of(data: RankingData) -> str:
    """The data for a notebook, without a pass over its features, which may be in a file of any size."""
    sizes = f"{data.n_queries:,} queries, {data.n_rows:,} documents, {data.n_features:,} features"
    kind, names = "sparse" if data.is_sparse else "dense", data.feature_names
    shortest, longest = (int(size) for size in (data.counts.min(), data.counts.max()))
    rows: list[tuple[Any, Any]] = [
        ("documents per query", f"{shortest:,} to {longest:,}, mean {data.counts.mean():,.1f}"),
        ("features", f"{kind} {data.X.dtype}" + (f": {html.first_of(names)}" if names else "")),
    ]
    also = {
        "query weights": data.query_weights,
        "document weights": data.document_weights,
        "initial scores": data.init_scores,
        "document ids": data.doc_ids,
        "positions": data.positions,
        "propensities": data.propensities,
    }
    present = [name for name, value in also.items() if value is not None]
    rows += [("also", ", ".join(present))] if present else []
    if data.pairs is not None:
        return html.frame("RankingData", html.facts([*rows, ("preferences", f"{len(data.pairs):,}")]), about=sizes)
    values, counts = np.unique(data.y, return_counts=True)
    if len(values) > MOST_GRADES:
        rows.append(("grades", f"real-valued, {values[0]:g} to {values[-1]:g}"))
        return html.frame("RankingData", html.facts(rows), about=sizes)
    grades = [
        (f"{value:g}", f"{count:,}", html.bar(count / counts.max()))
        for value, count in zip(values.tolist(), counts.tolist(), strict=True)
    ]
    shown = html.table(("grade", "documents", ""), grades, left=(2,))
    return html.frame("RankingData", html.facts(rows), shown, about=sizes)


def _count_constant(X: Any) -> int:
    if not isinstance(X, np.ndarray):
        return int(X.shape[1]) - _count_varying(X)
    constant = np.ones(X.shape[1], dtype=bool)
    for block in value_chunks(X):
        constant &= (block == X[0]).all(axis=0)
        if not constant.any():
            break
    return int(constant.sum())


def _count_varying(X: Any) -> int:
    """Columns of a CSR matrix with at least two values, counting unstored zeros; no array is as wide as the matrix."""
    if X.nnz == 0:
        return 0
    order = np.argsort(X.indices, kind="stable")
    columns, values = X.indices[order], X.data[order]
    starts = np.concatenate([[0], np.flatnonzero(np.diff(columns)) + 1])
    low, high = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
    full = np.diff(np.append(starts, len(columns))) == X.shape[0]
    varies = np.where(full, low != high, (low != 0) | (high != 0))
    return int(varies.sum())
