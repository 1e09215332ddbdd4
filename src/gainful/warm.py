"""Compile every kernel by using it once on a tiny problem; numba keeps the machine code on disk."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gainful.binning import AdaptiveBinner
from gainful.comparison.statistics import bootstrap_intervals, randomization
from gainful.data import RankingData
from gainful.formats import read
from gainful.losses import LOSSES
from gainful.metrics import metric
from gainful.rankers.linear import LinearRanker
from gainful.rankers.mcrank import McRank
from gainful.rankers.registry import RANKERS
from gainful.rankers.structured_svm import StructuredSVM

METRICS = ("ndcg@10", "dcg", "p@5", "map", "mrr", "wta", "err@10", "rbp")


def warm_kernels(tell: Callable[[str], object] = lambda name: None) -> float:
    """Use every kernel once; seconds it took, next to none when the machine code was on disk already."""
    start = time.perf_counter()
    tell("reading and metrics")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tiny.txt")
        path.write_text("1 qid:1 1:0.5 2:0.25\n0 qid:1 1:0.125 2:NULL #docid = a\n2 qid:2 1:3 2:1\n")
        for sparse in (False, True):
            for dtype in ("float64", "float32"):
                data = read(path, sparse=sparse, dtype=dtype)
    for name in METRICS:
        metric(name)([0.3, 0.1, 0.2], data)
    randomization(np.ones(2))
    bootstrap_intervals(np.ones((2, 1)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _warm_rankers(tell)
    return time.perf_counter() - start


def _warm_rankers(tell: Callable[[str], object]) -> None:
    from scipy import sparse

    rng = np.random.default_rng(0)
    X, y, qid = rng.random((48, 3)), np.tile([0.0, 1.0, 2.0], 16), np.repeat([1, 2, 3, 4], 12)
    data = RankingData.from_rows(X, y, qid)
    for name in (name for name, entry in RANKERS.items() if entry.installed):
        tell(name)
        RANKERS[name].create(**_short(name)).fit(data, eval_set=data).predict(data)
    for loss in LOSSES:
        tell(loss)
        LinearRanker(loss=loss, max_iter=2).fit(data)
    tell("other ways to store features")
    for stored in (X.astype(np.float32), sparse.csr_array(X), sparse.csr_array(X.astype(np.float32))):
        StructuredSVM(tol=0.1, max_iter=3).fit(RankingData.from_rows(stored, y, qid))
        AdaptiveBinner().fit(stored).transform(stored)
    AdaptiveBinner().fit(data).transform(data)
    McRank("ordinal", n_trees=1).fit(data).predict_proba(data)
    StructuredSVM(solver="cutting_plane", tol=0.1, max_iter=3).fit(data)


def _short(name: str) -> dict[str, Any]:
    """Settings that end a training early, of those the ranker has."""
    few = {"max_iter": 3, "n_rounds": 2, "n_trees": 2, "n_restarts": 1, "n_sweeps": 1, "epochs": 2, "n_landmarks": 10}
    return {parameter: value for parameter, value in few.items() if parameter in RANKERS[name].cls.parameters}
