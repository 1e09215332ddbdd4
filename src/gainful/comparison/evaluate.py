"""``gainful.evaluate``: the metrics of anything that scores rows, on data that has grades."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gainful.comparison.baselines import (
    KINDS,
    Baseline,
    Fixed,
    ModelFile,
    ScoresFile,
    TestedRows,
    baseline_from_text,
    checked_scores,
)
from gainful.comparison.compare import metrics_of
from gainful.comparison.contestants import as_system
from gainful.data.dataset import RankingData
from gainful.data.rows import Array
from gainful.data.splits import Split
from gainful.errors import ParameterError, read_options_words
from gainful.errors.keywords import explain_keywords
from gainful.foreign.loading import is_model
from gainful.formats.files import check_readable
from gainful.inputs.parts import open_parts
from gainful.metrics import headings, mean_over_queries
from gainful.rankers.base import usual_metric

EXPECTED = "a trained ranker or estimator, scores, a function of X, a file, or text such as 'feature:bm25'"


@explain_keywords
def evaluate(
    model: Any,
    data: Any,
    *,
    metrics: str | Sequence[Any] | None = None,
    convention: str | None = None,
    read_options: Mapping[str, Any] | None = None,
) -> dict[str, float]:
    """The mean of each metric over the queries, by name. Nothing is trained.

    Parameters
    ----------
    model : a trained ranker or an estimator of another library; the path of a model file or of a file of scores; what
        :func:`gainful.compare` takes as text (``"feature:bm25"``, ``"scores:FILE"``, ``"run:FILE"``, ``"model:FILE"``);
        one score per row of ``data``; or a function of X, or of the data set if its parameter is called ``data``
    data : a RankingData, a data frame, or the path of a file, or of a folder or pattern of files that are joined
    metrics, convention : as in :func:`gainful.compare`
    read_options : keywords of :func:`gainful.read` or :func:`gainful.from_frame`, if the data is a path or a frame

    >>> import gainful
    >>> data = gainful.make_artificial(10)
    >>> gainful.evaluate("feature:1", data, metrics="ndcg@5")["ndcg@5"] == gainful.metric("ndcg@5")(data.X[:, 0], data)
    True
    """
    names = headings(metrics_of(metrics, convention))
    with read_options_words():
        rows = open_parts(data, needs_test=False, **(read_options or {}))["data"]
    if not isinstance(rows, RankingData):
        what = "a folder with its own division" if isinstance(data, (str, os.PathLike)) else type(data).__name__
        raise ParameterError.of("evaluate", "data", "a RankingData, a frame, or the path of a file", what)
    if metrics is None and rows.has_pairs:
        names = headings([usual_metric(rows)])
    scores, _ = scores_of_system(_in_order_of(rows, model) if rows is not data else model, rows)
    return {name: mean_over_queries(one.per_query(scores, rows), rows.query_weights) for one, name in names.items()}


def scores_of_system(model: Any, data: RankingData) -> tuple[Array, list[str]]:
    """The scores of all rows by a system as :func:`evaluate` takes it, and remarks on it."""
    system = _system(model)
    if not isinstance(system, Baseline):
        return data.add_init_scores(checked_scores(system.predict(data), data)), []
    system.prepare(TestedRows(data, [Split(data, None, data)]))
    return checked_scores(system.predict(data), data), system.remarks()


def _system(model: Any) -> Any:
    if isinstance(model, (str, os.PathLike)):
        text = os.fspath(model)
        if text.partition(":")[0] not in KINDS:
            check_readable(text)
            return ModelFile(text) if is_model(Path(text)) else ScoresFile(text)
        return baseline_from_text(text)
    if _is_scores(model):
        return Fixed(lambda data: model)
    if callable(model) or hasattr(model, "predict"):
        return as_system(model)
    raise ParameterError.of("evaluate", "model", EXPECTED, model)


def _is_scores(model: Any) -> bool:
    return isinstance(model, (list, np.ndarray)) or hasattr(model, "to_numpy")


def _in_order_of(rows: RankingData, model: Any) -> Any:
    """Scores of a frame or file, which are in its order, in the order of the rows; anything else as it is."""
    if not _is_scores(model) or rows.input_order is None or len(model) != rows.n_rows:
        return model
    return np.asarray(model)[rows.input_order]
