"""scikit-learn's own checks of estimators, for one ranker of each family, and the list of those that cannot apply.

The checks know nothing of queries. They run on rankers whose ``fit`` and ``score`` take all rows for one query when no
qid comes; nothing else about them is changed.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.utils.estimator_checks import check_estimator

import gainful

OWN_WORDS = "refused as scikit-learn wants it, but in gainful's words"
CANNOT_APPLY = {
    "check_n_features_in_after_fitting": OWN_WORDS,
    "check_all_zero_sample_weights_error": OWN_WORDS,
    "check_complex_data": OWN_WORDS,
    "check_dtype_object": OWN_WORDS + ", and as a ValueError rather than a TypeError",
    "check_estimators_empty_data_messages": OWN_WORDS,
    "check_fit2d_predict1d": OWN_WORDS,
    "check_requires_y_none": OWN_WORDS,
}
WHOLE_QUERIES = "the loss weighs whole queries, so rows of one query cannot have different weights"
COPIES = {
    "check_sample_weight_equivalence_on_dense_data": "ranks, thresholds and batches count every row once",
    "check_sample_weight_equivalence_on_sparse_data": "ranks, thresholds and batches count every row once",
}
PENALTY = "the penalty is alpha times the mean weight; see test_document_weights.py, and alpha=0 below"


class OneQuery:
    """All rows are one query where nobody says otherwise."""

    def fit(self, X, y=None, *, qid=None, sample_weight=None):
        return super().fit(X, y, qid=one_query(X) if qid is None else qid, sample_weight=sample_weight)

    def score(self, X, y=None, sample_weight=None, *, qid=None):
        return super().score(X, y, sample_weight, qid=one_query(X) if qid is None else qid)


def one_query(X):
    return np.zeros(X.shape[0] if hasattr(X, "shape") else len(np.asarray(X)), dtype=int)


class Linear(OneQuery, gainful.RegressionRanker):
    pass


class Kernel(OneQuery, gainful.KernelStructuredSVM):
    pass


class Selecting(OneQuery, gainful.RSRank):
    pass


class StepSum(OneQuery, gainful.RankBoost):
    pass


class Trees(OneQuery, gainful.LambdaMART):
    pass


class Net(OneQuery, gainful.NeuralRanker):
    pass


class Classes(OneQuery, gainful.McRank):
    pass


# each with the checks of weights that cannot apply to it
FAMILIES = [
    (Linear(), dict.fromkeys(COPIES, PENALTY)),
    (Linear(alpha=0.0), {}),
    (Kernel(n_landmarks=5), dict.fromkeys(("check_sample_weights_not_overwritten", *COPIES), WHOLE_QUERIES)),
    (Selecting(), COPIES),
    (StepSum(n_rounds=3), COPIES),
    (Trees(n_trees=3, n_jobs=1), {}),
    (Classes(n_trees=3, n_jobs=1), {}),
    (Classes("ordinal", n_trees=3, n_jobs=1), {}),
    (Classes("regression", n_trees=3, n_jobs=1), {}),
    (Net(epochs=2, hidden=(4,), device="cpu"), COPIES),
]


@pytest.mark.filterwarnings("ignore::Warning")  # the checks bring their own data, on which some solvers stop early
@pytest.mark.parametrize(("model", "weights"), FAMILIES, ids=[repr(model) for model, _ in FAMILIES])
def test_scikit_learns_checks(model, weights):
    results = check_estimator(model, expected_failed_checks=CANNOT_APPLY | weights, on_fail=None, on_skip=None)
    failed = {r["check_name"]: str(r["exception"]) for r in results if r["status"] == "failed"}
    assert not failed
    assert sum(r["status"] == "passed" for r in results) > 30
    # the list holds nothing that would pass
    assert {r["check_name"] for r in results if r["expected_to_fail"] and r["status"] == "passed"} == set()


@pytest.mark.filterwarnings("ignore::Warning")
def test_a_ranker_as_it_is_fails_only_for_want_of_queries():
    results = check_estimator(gainful.RegressionRanker(), on_fail=None, on_skip=None)
    failed = [r for r in results if r["status"] == "failed" and r["check_name"] not in CANNOT_APPLY]
    assert failed
    for result in failed:
        chain, error = [], result["exception"]
        while error is not None:
            chain.append(str(error))
            error = error.__cause__ or error.__context__
        assert any("qid is missing" in text for text in chain), f"{result['check_name']}: {chain[0]}"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, X, y: m.fit(X, y).predict(X[:, :1]), "X has 1 features, but Linear was trained with 3"),
        (lambda m, X, y: m.fit(X, y, sample_weight=np.zeros(20)), "all query weights are 0"),
        (lambda m, X, y: m.fit(X + 1j, y), "X must be numeric, was complex128"),
        (lambda m, X, y: m.fit(np.array([[{}]] * 20, dtype=object), y), "X must be numeric: "),
        (lambda m, X, y: m.fit(X[:, :0], y), "X has no features; a ranker needs at least one"),
        (lambda m, X, y: m.fit(X), "y is missing; ranking needs the grade of every row"),
        (lambda m, X, y: m.fit(X, y).predict(X[0]), "X must have two dimensions"),
        (lambda m, X, y: m.fit(X, y, sample_weight=1 - np.arange(20)), "sample_weight of row 2 must be .* was -1"),
    ],
)
def test_what_those_checks_ask_for_is_refused_in_our_words(call, message, rng):
    with pytest.raises(gainful.DataError, match=message):
        call(Linear(), rng.random((20, 3)), rng.integers(0, 3, 20))
