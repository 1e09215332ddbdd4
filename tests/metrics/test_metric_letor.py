"""LETOR's own evaluation, transcribed here from its rules, on OHSUMED's single features and on random lists."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import pytest

from gainful.metrics import metric

HERE = Path(__file__).resolve()
OHSUMED = Path(os.environ.get("GAINFUL_OHSUMED", HERE.parents[2].parent / "shared" / "data" / "ohsumed"))


def letor_of_query(scores, labels, version):
    """Precision and NDCG at 1…10 and average precision of one query, by LETOR's rules and nothing else."""
    ranked = [label for _, label in sorted(zip(scores, labels, strict=True), key=lambda pair: -pair[0])]  # stable
    precision, hits, precisions = [], 0, []
    for position in range(max(10, len(ranked))):
        if position < len(ranked) and ranked[position] > 0:
            hits += 1
            precisions.append(hits / (position + 1))
        precision.append(hits / (position + 1))

    def dcg(labels_in_order):
        total, sums = 0.0, []
        for position, label in enumerate(labels_in_order, 1):
            total += (2**label - 1) * (1 if position <= 2 else 1 / math.log2(position))
            sums.append(total)
        if version == 3:
            sums += [total] * (10 - len(sums))
        return sums

    real, best = dcg(ranked), dcg(sorted(labels, reverse=True))
    ndcg = [a / b if b > 0 else 0.0 for a, b in zip(real, best, strict=True)]
    ndcg += [0.0] * (10 - len(ndcg))
    return {
        **{f"p@{k}": precision[k - 1] for k in range(1, 11)},
        **{f"ndcg@{k}": ndcg[k - 1] for k in range(1, 11)},
        "map": sum(precisions) / hits if hits else 0.0,
    }


def assert_same(scores, y, qid, version):
    queries = list(dict.fromkeys(qid.tolist()))
    expected = [letor_of_query(scores[qid == q].tolist(), y[qid == q].tolist(), version) for q in queries]
    for spec in expected[0]:
        m = metric(spec, convention=f"letor{version}")
        values = [query[spec] for query in expected]
        np.testing.assert_allclose(m.per_query(scores, y, qid=qid), values, rtol=1e-12, atol=0, err_msg=spec)
        assert m(scores, y, qid=qid) == pytest.approx(sum(values) / len(values), rel=1e-12)


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("n_scores", [1, 3, 1000])
def test_random_short_lists(version, n_scores):
    rng = np.random.default_rng(n_scores)
    sizes = np.concatenate([np.arange(1, 14), rng.integers(1, 30, 20)])
    qid = np.repeat(np.arange(len(sizes)), sizes)
    y = rng.integers(0, 3, len(qid)) * (qid % 5 > 0)
    assert_same(rng.integers(0, n_scores, len(qid)).astype(float), y, qid, version)


def test_short_lists_are_the_difference_between_3_and_4():
    scores, y, qid = np.array([3.0, 2, 1]), np.array([2, 0, 1]), np.zeros(3)
    assert metric("ndcg@4", convention="letor4")(scores, y, qid=qid) == 0
    assert metric("ndcg@4", convention="letor3")(scores, y, qid=qid) == pytest.approx((3 + 1 / math.log2(3)) / 4)
    assert metric("ndcg@3", convention="letor4")(scores, y, qid=qid) == pytest.approx((3 + 1 / math.log2(3)) / 4)
    assert metric("p@4", convention="letor4")(scores, y, qid=qid) == 2 / 4
    assert metric("map", convention="letor4")(scores, y, qid=qid) == pytest.approx((1 + 2 / 3) / 2)


@pytest.fixture(scope="module")
def fold1():
    path = OHSUMED / "Fold1" / "test.txt"
    if not path.exists():
        pytest.skip(f"OHSUMED is not at {OHSUMED}; set GAINFUL_OHSUMED to its folder")
    rows = [line.partition("#")[0].split() for line in path.read_text().splitlines() if line.strip()]
    y = np.array([int(row[0]) for row in rows])
    qid = np.array([int(row[1].removeprefix("qid:")) for row in rows])
    X = np.array([[float(value.partition(":")[2]) for value in row[2:]] for row in rows])
    return X, y, qid


@pytest.mark.parametrize("feature", [1, 5, 11, 12, 25, 40, 45])
@pytest.mark.parametrize("version", [3, 4])
def test_single_features_of_ohsumed(fold1, feature, version):
    """Feature 5 is 0 everywhere: the file's own order."""
    X, y, qid = fold1
    assert X.shape[1] == 45
    assert_same(X[:, feature - 1], y, qid, version)
