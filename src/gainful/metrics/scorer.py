"""Metrics for scikit-learn's ``scoring=``, which always know the query of every row."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from gainful.compute.estimators import BaseEstimator, predict_lists
from gainful.data.rows import check_row_weights, group_rows, split_weights
from gainful.errors import DataError, ParameterError
from gainful.metrics import Metric, metric

MISSING = (
    "qid is missing; a ranking metric needs the query of every row: enable scikit-learn's metadata routing and pass "
    "qid with the rows, or bind it, gainful.scorer({name!r}, qid=series), where X or y is of pandas"
)


class QueryScorer(BaseEstimator):  # type: ignore[misc]
    """A metric as a scorer: ``scorer(estimator, X, y, qid=qid)`` gives its mean over the queries. See :func:`scorer`.

    With metadata routing it requests ``qid`` by itself; ``set_score_request(sample_weight=True)`` makes it request
    weights too.
    """

    __metadata_request__score: ClassVar[dict[str, Any]] = {"qid": True, "sample_weight": None}

    def __init__(self, metric: Metric, qid: Any = None):
        self.metric = metric
        self.qid = qid

    def score(self, estimator: Any, X: Any, y: Any, *, qid: Any = None, sample_weight: Any = None) -> float:
        """The metric's mean over the queries of the rows, as ``estimator`` scores them."""
        qid = self._queries(X, y) if qid is None else qid
        scores = predict_lists(estimator, X, qid)
        weights = None if sample_weight is None else self._weights(sample_weight, qid, len(scores))
        return self.metric(scores, y, qid=qid, query_weights=weights)

    __call__ = score  # scikit-learn calls a scorer, but reads its metadata requests from a method of this name

    def __repr__(self) -> str:
        bound = "" if self.qid is None else ", qid=…"
        return f"scorer({str(self.metric)!r}{bound})"

    def _queries(self, X: Any, y: Any) -> Any:
        """The queries bound to the scorer, of the rows that pandas labels."""
        if self.qid is None:
            raise DataError(MISSING.format(name=self.metric.name))
        labels = [part.index for part in (X, y) if hasattr(part, "iloc")]
        if not labels:
            raise DataError(
                "qid is bound by the labels of rows, but neither X nor y is a pandas object, so there are none"
            )
        index = labels[0]
        if not index.equals(labels[-1]):
            raise DataError("X and y have different row labels, so the query of a row is not known; give both the same")
        found = self.qid.index.get_indexer(index)
        if (found < 0).any():
            raise DataError(f"row {index[int(np.flatnonzero(found < 0)[0])]!r} has no query in the qid of the scorer")
        return self.qid.to_numpy()[found]

    @staticmethod
    def _weights(sample_weight: Any, qid: Any, n_rows: int) -> Any:
        weights = check_row_weights(sample_weight, n_rows)
        order, offsets, _ = group_rows(qid, n_rows)
        return split_weights(weights if order is None else weights[order], offsets)[0]


def scorer(spec: str | Metric, *, qid: Any = None, **conventions: Any) -> QueryScorer:
    """A metric for ``scoring=`` of scikit-learn's searches and validations.

    Parameters
    ----------
    spec, conventions : as of :func:`gainful.metric`
    qid : leave it out where metadata routing carries it. Without routing, a pandas Series of query ids, whose labels
        are those of the rows of X or y: scikit-learn keeps the labels when it divides the rows

    A row whose query is not known is an error, never a guess.

    >>> import gainful
    >>> gainful.scorer("ndcg@10", ties="input").metric.ties
    'input'
    """
    if qid is not None:
        if not (hasattr(qid, "iloc") and hasattr(qid, "index") and getattr(qid, "ndim", 0) == 1):
            raise ParameterError.of("scorer", "qid", "a pandas Series with the labels of the rows", type(qid).__name__)
        if not qid.index.is_unique:
            raise ParameterError("qid of scorer must have unique row labels, had duplicates")
    return QueryScorer(metric(spec, **conventions), qid)
