"""NDCG@10 of every query: 10,000 queries × 120 documents with continuous scores and grades 0–4."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import numpy as np
import pytrec_eval
from sklearn.metrics import ndcg_score

from gainful.metrics import Metric, metric
from harness import Row, best_time, main

N_QUERIES, N_DOCS = 10_000, 120
SUBJECT = f"NDCG@10 per query, {N_QUERIES:,} × {N_DOCS}"
FIRST_CALL = """
import time
start = time.perf_counter()
from gainful.metrics import metric
metric("ndcg@10")([0.1, 0.2], [0, 1], qid=[1, 1])
print(time.perf_counter() - start)
"""


def judged() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.choice(5, size=N_QUERIES * N_DOCS, p=[0.5, 0.25, 0.15, 0.07, 0.03]).astype(np.float64)
    scores = rng.normal(size=len(y)).astype(np.float32).astype(np.float64)  # trec_eval keeps scores in float32
    return scores, y, np.repeat(np.arange(N_QUERIES), N_DOCS)


def ours(m: Metric, scores: np.ndarray, y: np.ndarray, qid: np.ndarray) -> tuple[np.ndarray, float]:
    values = m.per_query(scores, y, qid=qid)  # compiles
    return values, best_time(lambda: m.per_query(scores, y, qid=qid), repeat=15)


def against_trec(scores: np.ndarray, y: np.ndarray, qid: np.ndarray) -> Row:
    """Times only ``evaluate``: the dictionaries it needs are built beforehand."""
    documents = [f"d{i}" for i in range(N_DOCS)]
    names = [str(q) for q in range(N_QUERIES)]

    def nested(values: np.ndarray) -> dict[str, dict[str, float]]:
        table = values.reshape(N_QUERIES, N_DOCS).tolist()
        return {name: dict(zip(documents, row, strict=True)) for name, row in zip(names, table, strict=True)}

    evaluator = pytrec_eval.RelevanceEvaluator(nested(y.astype(int)), {"ndcg_cut.10"})
    run = nested(scores)
    found = evaluator.evaluate(run)
    values, seconds = ours(metric("ndcg@10", convention="trec", ties="input"), scores, y, qid)
    np.testing.assert_allclose(values, [found[name]["ndcg_cut_10"] for name in names], rtol=1e-9)
    theirs = best_time(lambda: evaluator.evaluate(run), repeat=2)
    return Row(SUBJECT, "time", seconds, "pytrec-eval-terrier", theirs, "s", wanted=20)


def against_sklearn(scores: np.ndarray, y: np.ndarray, qid: np.ndarray) -> Row:
    table = list(zip(y.reshape(N_QUERIES, 1, N_DOCS), scores.reshape(N_QUERIES, 1, N_DOCS), strict=True))
    found: list[float] = []
    theirs = best_time(lambda: found.extend(ndcg_score(g, s, k=10) for g, s in table), repeat=1)
    values, seconds = ours(metric("ndcg@10", convention="sklearn"), scores, y, qid)
    np.testing.assert_allclose(values, found, rtol=1e-9)
    return Row(SUBJECT, "time", seconds, "scikit-learn, a loop", theirs, "s", wanted=100)


def first_call() -> tuple[Row, Row]:
    """Seconds from import to the first value in a fresh process, with a warm compiler cache and with an empty one."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"NUMBA_CACHE_DIR": folder}

        def seconds() -> float:
            command = [sys.executable, "-c", FIRST_CALL]
            return float(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)

        cold = seconds()
        warm = min(seconds() for _ in range(3))
    return (
        Row("first NDCG@10 in a fresh process, warm cache", "time", warm, "2 s", 2.0, "s", wanted=1),
        Row("first NDCG@10 in a fresh process, compiling", "time", cold, "20 s", 20.0, "s", wanted=1),
    )


def rows() -> Iterator[Row]:
    data = judged()
    yield against_trec(*data)
    yield against_sklearn(*data)
    yield from first_call()


if __name__ == "__main__":
    main(rows)
