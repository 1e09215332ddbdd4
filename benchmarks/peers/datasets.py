"""The three data sets: artificial, OHSUMED's shape (or OHSUMED itself), MSLR-WEB's shape.

Every process makes its own copy from the same seed, as float32 in memory. Synthetic sets have more validation and
test queries than a fold would have, so that differences are not noise.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import gainful
from gainful.formats.layout import read_splits

FACTORS = 8  # hidden properties of a document that its features reflect


@dataclass(frozen=True)
class Parts:
    """Training, validation and test queries."""

    train: gainful.RankingData
    valid: gainful.RankingData
    test: gainful.RankingData

    def rounded(self) -> Parts:
        return Parts(
            *(part.replace(X=part.X.astype(np.float32, copy=False)) for part in (self.train, self.valid, self.test))
        )


@dataclass(frozen=True)
class DataSet:
    """A shape, and how long to train on it.

    The reference time is what the reference needs for ``iterations``. All contestants may run to twice as many, so
    that a quicker one is not stopped before that time, or until ``seconds`` are over.
    """

    name: str
    title: str
    queries: tuple[int, int, int]  # training, validation, test
    documents: int
    features: int
    iterations: int
    seconds: float
    kind: str = "searched"
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> str:
        """What it is, for the head of a table."""
        return (
            f"about {self.queries[0] * self.documents:,} training rows: {self.queries[0]:,} queries of "
            f"{self.documents} documents, {self.features} features"
        )

    def parts(self) -> Parts:
        if self.kind == "artificial":
            data = gainful.make_artificial(sum(self.queries), n_docs=self.documents, n_features=self.features, seed=0)
        else:
            data = searched(sum(self.queries), self.documents, self.features, **self.options)
        first, second = self.queries[0], self.queries[0] + self.queries[1]
        return Parts(data[:first], data[first:second], data[second:]).rounded()


MSLR = {"shares": (0.52, 0.32, 0.13, 0.02, 0.01), "noise": 1.5}
USUAL = (
    DataSet("artificial", "artificial data", (1_000, 300, 1_000), 50, 50, 200, 15.0, kind="artificial"),
    DataSet("ohsumed", "OHSUMED's shape", (106, 100, 400), 152, 45, 150, 10.0,
            options={"shares": (0.7, 0.16, 0.14), "noise": 1.5}),
    DataSet("mslr", "MSLR-WEB's shape", (2_000, 200, 400), 120, 136, 50, 15.0, options=MSLR),
)  # fmt: skip
FULL = (*USUAL[:2], DataSet("mslr", "MSLR-WEB's shape", (6_000, 300, 600), 120, 136, 80, 75.0, options=MSLR))
SMOKE = (DataSet("artificial", "artificial data", (60, 30, 30), 20, 10, 6, 3.0, kind="artificial"),)
SIZES = {"usual": USUAL, "full": FULL, "smoke": SMOKE}


def data_set(size: str, name: str) -> DataSet:
    return next(one for one in SIZES[size] if one.name == name)


def ohsumed_folder() -> str | None:
    return os.environ.get("GAINFUL_OHSUMED") or None


def folds(one: DataSet) -> list[Parts]:
    """The parts of a data set: one, or OHSUMED's five folds if its folder is given."""
    folder = ohsumed_folder() if one.name == "ohsumed" else None
    if folder is None:
        return [one.parts()]
    return [Parts(split.train, split.valid, split.test).rounded() for split in read_splits(folder)]


def measure(one: DataSet) -> gainful.Metric:
    """NDCG@10; on OHSUMED itself by LETOR's rules, as in everything published about it."""
    if one.name == "ohsumed" and ohsumed_folder() is not None:
        return gainful.metric("ndcg@10", convention="letor3")
    return gainful.metric("ndcg@10")


def searched(
    n_queries: int, n_docs: int, n_features: int, *, shares: tuple[float, ...], noise: float, seed: int = 0
) -> gainful.RankingData:
    """Synthetic search results: correlated, skewed features, queries of varying length and difficulty.

    A few hidden factors of each document and one of its query make the features. Relevance is a linear part, products
    of two features and steps (variances 6 : 2 : 2), plus an offset per query and ``noise`` in standard deviations;
    grades are cut from it at the quantiles ``shares``.
    """
    rng = np.random.default_rng(seed)
    counts = np.clip(np.round(n_docs * rng.lognormal(-0.045, 0.3, n_queries)), 10, 4 * n_docs).astype(np.int64)
    n, query = int(counts.sum()), np.repeat(np.arange(n_queries), counts)
    loadings = rng.standard_normal((FACTORS, n_features), dtype=np.float32) / np.float32(np.sqrt(FACTORS))
    of_query = rng.standard_normal((n_queries, n_features), dtype=np.float32) / np.float32(2.0)
    X = rng.standard_normal((n, n_features), dtype=np.float32)
    X += rng.standard_normal((n, FACTORS), dtype=np.float32) @ loadings
    X += of_query[query]
    X = np.float32(1.0) / (np.float32(1.0) + np.exp(-X))
    skewed = np.flatnonzero(np.arange(n_features) % 3 == 0)
    X[:, skewed] **= 4
    target = np.sqrt(0.6) * _unit(X @ (rng.standard_normal(n_features) * (rng.random(n_features) < 0.5)))
    left, right, cut = (rng.choice(n_features, n_features // 3) for _ in range(3))
    products = (X[:, left] - X[:, left].mean(axis=0)) * (X[:, right] - X[:, right].mean(axis=0))
    target += np.sqrt(0.2) * _unit(products @ rng.standard_normal(len(left)))
    places = [np.quantile(X[::50, feature], rng.uniform(0.3, 0.9)) for feature in cut]
    target += np.sqrt(0.2) * _unit((X[:, cut] > places) @ rng.standard_normal(len(cut)))
    target += 0.5 * rng.standard_normal(n_queries)[query] + noise * rng.standard_normal(n)
    thresholds = np.quantile(target, np.cumsum(shares)[:-1])
    return gainful.RankingData.from_rows(X, np.searchsorted(thresholds, target, side="right").astype(float), query)


def _unit(values: np.ndarray) -> np.ndarray:
    return (values - values.mean()) / (values.std() or 1.0)
