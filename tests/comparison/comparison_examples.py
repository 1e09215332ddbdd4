"""Comparisons of made-up rankers, without training."""

from __future__ import annotations

import numpy as np

import gainful
from gainful.comparison.result import Comparison, Run
from gainful.data.splits import Split

METRICS = tuple(gainful.metric(name) for name in ("ndcg@10", "ndcg@1", "map"))
CURVE = tuple(gainful.metric(f"ndcg@{k}") for k in range(1, 11))


def made_up(labels, *, n_queries=40, n_folds=1, noise=1.0, gain=2.0, seed=0, doc_ids=None, **settings) -> Comparison:
    """Rankers whose scores are the grades and noise, the later the less of it (by ``gain``)."""
    rng = np.random.default_rng(seed)
    splits, runs = [], []
    for fold in range(n_folds):
        n = 12 * n_queries
        qid = np.repeat([f"q{fold}-{i}" for i in range(n_queries)], 12)
        data = gainful.RankingData.from_rows(
            rng.normal(size=(n, 2)), rng.integers(0, 4, n), qid, doc_ids=None if doc_ids is None else doc_ids[:n]
        )
        splits.append(Split(data, None, data))
        for i, label in enumerate(labels):
            scores = data.y + rng.normal(0, noise * (3.0 - gain * i / len(labels)), n)
            runs.append(_run(label, fold, i, scores, data))
    return Comparison.from_runs(
        runs,
        splits,
        **{
            "failures": {}, "interrupted": False, "labels": tuple(labels), "metrics": METRICS, "curve": CURVE,
            "tests": ("wilcoxon", "t", "randomization"), "baseline": None, "alpha": 0.05, "seed": 0,
        } | settings,
    )  # fmt: skip


def _run(label, fold, i, scores, data) -> Run:
    history = [
        {"iteration": t, "objective": 1 / t, "gap": 10.0**-t, "validation": 0.5 + 0.01 * t, "seconds": 0.1 * t}
        for t in range(1, 6)
    ]
    path = [{"l1": 0.1 * s, "n_features": 5 - s, "validation": 0.5 - 0.01 * s} for s in range(4)]
    return Run(
        label=label,
        fold=fold,
        values={m: np.asarray(m.per_query(scores, data)) for m in (*METRICS, *CURVE)},
        fit_seconds=0.5 + i,
        predict_seconds=0.01,
        n_iter=5,
        params={"alpha": 1.0 + i},
        scores=scores,
        history=history,
        memory=(i + 1) << 20,
        facts={"path": path, "kept": 0.1} if i == 0 else {},
    )
