"""Rank fusion: one ranking from several, without the models that made them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from gainful.data.judgments import Run
from gainful.data.rows import Array, check_column, group_rows
from gainful.errors import ParameterError, UnknownNameError

AnyRun = Mapping[Any, Mapping[Any, float]]  # query → document → score
METHODS = ("rrf", "combsum", "combmnz", "borda")


def fuse(
    rankings: Sequence[Any],
    *,
    qid: Any = None,
    method: str = "rrf",
    k: float = 60.0,
    weights: Sequence[float] | None = None,
) -> Any:
    """One ranking from several.

    ``rankings`` are arrays of scores, one per row, with ``qid``; or runs, mappings query → document → score such as
    :func:`gainful.read_run` returns, which may hold different documents. The result has the form of the input, higher
    is better.

    Parameters
    ----------
    method : "rrf": reciprocal ranks, Σ 1/(k + rank); "combsum": sum of scores that run from 0 to 1 in each query;
        "combmnz": that sum times the number of rankings that hold the document; "borda": sum of the share of documents
        ranked below. Tied scores share their mean rank
    k : constant of "rrf"
    weights : one per ranking; None for equal ones

    >>> import gainful
    >>> gainful.fuse([[3.0, 2.0, 1.0], [1.0, 3.0, 2.0]], qid=[1, 1, 1], method="borda").tolist()
    [1.0, 1.5, 0.5]
    """
    if method not in METHODS:
        raise UnknownNameError.among("fusion method", method, METHODS)
    if isinstance(rankings, (str, Mapping)) or not isinstance(rankings, Sequence) or not len(rankings):
        raise ParameterError.of("fuse", "rankings", "a list of score arrays or of runs", rankings)
    if isinstance(k, bool) or not isinstance(k, (int, float)) or not k > 0:
        raise ParameterError.of("fuse", "k", "a number > 0", k)
    try:
        shares = np.ones(len(rankings)) if weights is None else np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        shares = np.zeros(0)
    if shares.shape != (len(rankings),) or not np.isfinite(shares).all():
        raise ParameterError.of("fuse", "weights", f"one number for each of the {len(rankings)} rankings", weights)
    if all(isinstance(one, Mapping) for one in rankings):
        if qid is not None:
            raise ParameterError("qid of fuse is for arrays of scores; a run has its own queries")
        fused_runs = _fuse_runs(rankings, method, float(k), shares)
        return Run(fused_runs, name=method) if all(isinstance(one, Run) for one in rankings) else fused_runs
    if any(isinstance(one, Mapping) for one in rankings):
        raise ParameterError("rankings of fuse must be all arrays of scores or all runs, not both")
    first = np.atleast_1d(np.asarray(rankings[0]))
    columns = np.array([check_column(one, len(first), "scores") for one in rankings])
    order, offsets, _ = group_rows(qid, len(first))
    if order is not None:
        columns = columns[:, order]
    fused = np.empty(len(first))
    for a, b in pairwise(offsets):
        fused[a:b] = _fuse_query(columns[:, a:b], method, float(k), shares)
    if order is None:
        return fused
    restored = np.empty_like(fused)
    restored[order] = fused
    return restored


def _fuse_runs(runs: Sequence[AnyRun], method: str, k: float, weights: Array) -> dict[Any, dict[Any, float]]:
    fused: dict[Any, dict[Any, float]] = {}
    for run in runs:
        for query, held in run.items():
            if not isinstance(held, Mapping):
                raise ParameterError(f"a run must map each query to its documents' scores; query {query!r} does not")
    for query in dict.fromkeys(query for run in runs for query in run):
        lists = [run.get(query, {}) for run in runs]
        documents = list(dict.fromkeys(document for held in lists for document in held))
        scores = np.array([[held.get(document, np.nan) for document in documents] for held in lists])
        fused[query] = dict(zip(documents, _fuse_query(scores, method, k, weights).tolist(), strict=True))
    return fused


def _fuse_query(scores: Array, method: str, k: float, weights: Array) -> Array:
    """The fused scores of one query from (n_rankings, n_documents) scores; NaN where a ranking lacks a document."""
    parts = np.array([_points(row, method, k) for row in scores])
    total = weights @ parts
    return total * np.isfinite(scores).sum(axis=0) if method == "combmnz" else np.asarray(total)


def _points(scores: Array, method: str, k: float) -> Array:
    """What one ranking adds to each document; nothing where it lacks it."""
    held = np.isfinite(scores)
    points, own = np.zeros(len(scores)), scores[held]
    if not len(own):
        return points
    if method in ("combsum", "combmnz"):
        low, high = own.min(), own.max()
        points[held] = (own - low) / (high - low) if high > low else 1.0
        return points
    ranks = _mean_ranks(own)
    points[held] = 1.0 / (k + ranks) if method == "rrf" else (len(own) - ranks) / max(len(own) - 1, 1)
    return points


def _mean_ranks(scores: Array) -> Array:
    """Ranks from 1 for the highest score; tied scores share their mean."""
    _, place, counts = np.unique(-scores, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2.0)[place.ravel()])
