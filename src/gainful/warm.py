"""Compile every kernel by using it once on a tiny problem; numba keeps the machine code on disk."""

from __future__ import annotations

import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from gainful.data import RankingData
from gainful.formats import read
from gainful.metrics import metric
from gainful.rankers.structured_svm import StructuredSVM

METRICS = ("ndcg@10", "dcg", "p@5", "map", "mrr", "wta", "err@10", "rbp")
STRUCTURED: tuple[dict[str, Any], ...] = ({}, {"rescaling": "slack"}, {"solver": "cutting_plane"}, {"metric": "map"})


def warm_kernels() -> float:
    """Seconds it took: next to none when the machine code was on disk already."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tiny.txt")
        path.write_text("1 qid:1 1:0.5 2:0.25\n0 qid:1 1:0.125 2:NULL #docid = a\n2 qid:2 1:3 2:1\n")
        for sparse in (False, True):
            for dtype in ("float64", "float32"):
                data = read(path, sparse=sparse, dtype=dtype)
    for name in METRICS:
        metric(name)([0.3, 0.1, 0.2], data)
    _warm_structured()
    return time.perf_counter() - start


def _warm_structured() -> None:
    """The kernels are compiled for each way X is stored."""
    from scipy import sparse

    rng = np.random.default_rng(0)
    X, y, qid = rng.random((24, 3)), np.tile([0.0, 1.0, 2.0], 8), np.repeat([1, 2], 12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for stored in (X, X.astype(np.float32), sparse.csr_array(X), sparse.csr_array(X.astype(np.float32))):
            data = RankingData.from_rows(stored, y, qid)
            for settings in STRUCTURED:
                StructuredSVM(tol=0.1, max_iter=5, **settings).fit(data)
