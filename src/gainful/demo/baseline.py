"""BM25 over weighted fields, tuned on validation queries: the baseline that learned rankings must beat."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from gainful.comparison.baselines import Baseline
from gainful.data.dataset import RankingData
from gainful.data.rows import Array
from gainful.demo.corpus import SearchCorpus
from gainful.demo.features import SEARCHED, USUAL_WEIGHTS, query_terms, weighted_bm25
from gainful.demo.index import K1, B
from gainful.errors import DataError
from gainful.metrics import metric

WEIGHTS = (0.0, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
K1_VALUES = (0.4, 0.6, 0.9, 1.2, 2.0, 3.0)
B_VALUES = (0.0, 0.3, 0.5, 0.75, 0.9)
ROUNDS = 3


class FieldBM25(Baseline):
    """BM25 with a weight per field (BM25F). ``fit`` chooses weights, k₁ and b that are best on the validation queries.

    The search changes one value at a time, from usual weights, as long as NDCG@10 rises.
    """

    trained_here = True

    def __init__(self, corpus: SearchCorpus):
        self.corpus = corpus
        self.weights = {field: USUAL_WEIGHTS.get(field, 1.0) for field in SEARCHED}
        self.k1, self.b = K1, B

    def fit(self, train: RankingData, eval_set: RankingData | None = None, progress: Any = None) -> Self:
        if eval_set is None:
            raise DataError("BM25 needs validation queries to choose the weights of its fields")
        parts, measure = [self._frequencies(eval_set, q) for q in range(eval_set.n_queries)], metric("ndcg@10")

        def value(setting: dict[str, float]) -> float:
            return float(measure(_scores(parts, setting), eval_set.y, qid=eval_set.qid))

        setting = self.setting
        best = value(setting)
        for _ in range(ROUNDS):
            before = best
            for name, values in {**dict.fromkeys(SEARCHED, WEIGHTS), "k1": K1_VALUES, "b": B_VALUES}.items():
                for one in values:
                    tried = setting | {name: one}
                    if tried != setting and any(tried[field] for field in SEARCHED) and value(tried) > best:
                        best, setting = value(tried), tried
            if best == before:
                break
        self.weights = {field: setting[field] for field in SEARCHED}
        self.k1, self.b = setting["k1"], setting["b"]
        return self

    @property
    def setting(self) -> dict[str, float]:
        return {**self.weights, "k1": self.k1, "b": self.b}

    def predict(self, data: RankingData) -> Array:
        return _scores([self._frequencies(data, q) for q in range(data.n_queries)], self.setting)

    def get_params(self, deep: bool = False) -> dict[str, Any]:
        return dict(self.setting)

    def score(self, text: str, documents: Array) -> Array:
        """The scores of these documents for a query."""
        return _scores([self.corpus.maker.frequencies(query_terms(text), documents)], self.setting)

    def _frequencies(self, data: RankingData, q: int) -> tuple[Array, Array, Array]:
        text = self.corpus.queries[str(data.query_ids[q])]
        assert data.doc_ids is not None
        names = data.doc_ids[data.offsets[q] : data.offsets[q + 1]]
        documents = np.array([self.corpus.place[str(name)] for name in names])
        return self.corpus.maker.frequencies(query_terms(text), documents)


def _scores(parts: list[tuple[Array, Array, Array]], setting: dict[str, float]) -> Array:
    weights = np.array([setting[field] for field in SEARCHED])
    return np.concatenate([weighted_bm25(*part, weights, setting["k1"], setting["b"]) for part in parts])
