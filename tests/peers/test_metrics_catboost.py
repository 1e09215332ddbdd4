"""The ranking metrics of CatBoost."""

from __future__ import annotations

import numpy as np
import pytest

from gainful.metrics import metric

utils = pytest.importorskip("catboost.utils")


def reported(scores, y, qid, name):
    return utils.eval_metric(y, scores, name, group_id=qid, thread_count=1)[0]


def rows(seed, n_grades, n_scores=6):
    rng = np.random.default_rng(seed)
    sizes = np.concatenate([[1, 1, 2, 9, 10, 11], rng.integers(1, 40, 40)])
    qid = np.repeat(np.arange(len(sizes)), sizes)
    y = rng.integers(0, n_grades, len(qid)) * rng.integers(0, 2, len(qid))
    y[(qid % 7 == 0)] = 0
    return rng.integers(0, n_scores, len(qid)) / 4, y.astype(float), qid


@pytest.mark.parametrize("n_scores", [1, 6, 10**6])
@pytest.mark.parametrize("k", [1, 3, 10, 100])
@pytest.mark.parametrize("name", ["ndcg", "dcg"])
def test_discounted_gain(name, k, n_scores):
    scores, y, qid = rows(k, 5, n_scores)
    m = metric(f"{name}@{k}", convention="catboost")
    assert m(scores, y, qid=qid) == pytest.approx(reported(scores, y, qid, f"{name.upper()}:top={k}"), rel=1e-9)
    theirs = reported(scores, y, qid, f"{name.upper()}:top={k};type=Exp")
    assert metric(m, gain="exp2")(scores, y, qid=qid) == pytest.approx(theirs, rel=1e-9)


@pytest.mark.parametrize("n_scores", [1, 6, 10**6])
@pytest.mark.parametrize("k", [1, 3, 10, 100])
@pytest.mark.parametrize(
    ("name", "theirs"), [("map", "MAP"), ("p", "PrecisionAt"), ("mrr", "MRR"), ("recall", "RecallAt")]
)
def test_binary_relevance(name, theirs, k, n_scores):
    scores, y, qid = rows(k, 2, n_scores)
    m = metric(f"{name}@{k}", convention="catboost")
    assert m(scores, y, qid=qid) == pytest.approx(reported(scores, y, qid, f"{theirs}:top={k}"), rel=1e-9)


@pytest.mark.parametrize("k", [1, 3, 10, 100])
def test_err_with_stop_probabilities_as_targets(k):
    """CatBoost takes the probability to stop itself as the target, so it is given ours."""
    scores, y, qid = rows(k, 5)
    m = metric(f"err@{k}", convention="catboost")
    assert m(scores, y, qid=qid) == pytest.approx(reported(scores, (2**y - 1) / 16, qid, f"ERR:top={k}"), rel=1e-6)
