"""The NDCG reduction: weighted pairs by brute force, drawing in proportion to weight, classifiers taken and refused."""

from __future__ import annotations

import numpy as np
import pytest
from importance import importance_weights
from scipy import sparse
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import gainful
from gainful import NDCGReduction, ParameterError, RankingData
from gainful.linear.weighted_pairs import WeightedPairs
from gainful.rankers.ndcg_reduction import differences


@pytest.fixture(scope="module")
def parts_of_artificial(artificial):
    return gainful.split(artificial, (0.6, 0.2, 0.2))


@pytest.fixture
def small():
    rng = np.random.default_rng(4)
    counts = [6, 1, 9, 4]
    y = np.concatenate([rng.integers(0, 3, 16), np.zeros(4)])
    return RankingData.from_rows(
        rng.normal(size=(20, 3)), y, np.repeat(range(4), counts), sample_weight=np.repeat([1.0, 1.0, 3.0, 1.0], counts)
    )


def plain_pairs(data, scores):
    """{(i, j): ω_q w_ij}"""
    shares, found = WeightedPairs(data).shares, {}
    for q in range(data.n_queries):
        lo, hi = data.offsets[q], data.offsets[q + 1]
        ranks = np.empty(hi - lo, dtype=int)
        ranks[np.argsort(-scores[lo:hi], kind="stable")] = np.arange(1, hi - lo + 1)
        weights = importance_weights(data.y[lo:hi], ranks)
        found |= {(lo + i, lo + j): shares[q] * weights[i, j] for i, j in zip(*np.nonzero(weights), strict=True)}
    return found


def test_all_pairs_with_their_weights(small, rng):
    scores = rng.normal(size=20)
    engine = WeightedPairs(small)
    better, worse, weight = engine.pairs(engine.rank_discounts(scores))
    found = dict(zip(zip(better.tolist(), worse.tolist(), strict=True), weight.tolist(), strict=True))
    assert found == pytest.approx(plain_pairs(small, scores))


def test_pairs_are_drawn_in_proportion_to_their_weights(small, rng):
    scores = rng.normal(size=20)
    engine, expected = WeightedPairs(small), plain_pairs(small, scores)
    D, n, total = engine.rank_discounts(scores), 15, sum(plain_pairs(small, scores).values())
    counts = dict.fromkeys(expected, 0.0)
    for _ in range(3000):
        better, worse, times = engine.draw(D, n, rng)
        assert len(better) <= n
        assert times.sum() in (n - 1, n, n + 1)
        for i, j, k in zip(better.tolist(), worse.tolist(), times, strict=True):
            wanted = expected[i, j] / total * n
            assert np.floor(wanted - 1e-9) <= k <= np.ceil(wanted + 1e-9)
            counts[i, j] += k / 3000
    for pair, weight in expected.items():
        assert counts[pair] == pytest.approx(weight / total * n, abs=0.06)


def test_differences(small):
    better, worse, label = np.array([0, 3]), np.array([1, 2]), np.array([1, -1])
    expected = np.stack([small.X[0] - small.X[1], small.X[2] - small.X[3]])
    assert np.allclose(differences(small.X, better, worse, label), expected)
    assert np.allclose(differences(sparse.csr_array(small.X), better, worse, label), expected)


def test_one_round_is_one_weighted_classification(parts_of_artificial):
    train, _, test = parts_of_artificial
    start = gainful.RegressionRanker(alpha=train.n_rows).fit(train)
    model = NDCGReduction(n_rounds=1, pairs="all", classifier=LogisticRegression(fit_intercept=False, tol=1e-8)).fit(
        train
    )
    expected = plain_pairs(train, start.predict(train))
    pairs = np.array(list(expected))
    Z = train.X[pairs[:, 0]] - train.X[pairs[:, 1]]
    scale = train.X.std(axis=0)
    weight = np.array(list(expected.values()))
    Z = np.vstack([Z, -Z]) / scale
    label = np.repeat([1, -1], len(pairs))
    weight = np.tile(weight / weight.mean() / 2, 2)
    plain = LogisticRegression(fit_intercept=False, tol=1e-8).fit(Z, label, sample_weight=weight)
    assert np.corrcoef(model.predict(test), test.X @ (plain.coef_[0] / scale))[0, 1] > 1 - 1e-9


def test_sampling_is_near_all_pairs(parts_of_artificial):
    train, _, test = parts_of_artificial
    everything = NDCGReduction(pairs="all").fit(train)
    some = NDCGReduction(max_pairs=3000).fit(train)
    assert max(row["n_pairs"] for row in some.history_) <= 3000 < everything.history_[0]["n_pairs"]
    assert some.score(test) == pytest.approx(everything.score(test), abs=0.05)


@pytest.mark.parametrize(
    "classifier",
    [LinearSVC(C=0.1), SGDClassifier(random_state=0), LogisticRegression(C=0.1)],
    ids=lambda c: type(c).__name__,
)
def test_linear_classifiers_are_taken_and_saved_by_their_weights(parts_of_artificial, classifier, tmp_path):
    train, _, test = parts_of_artificial
    model = NDCGReduction(classifier=classifier, n_rounds=2, max_pairs=4000).fit(train)
    noise = gainful.metric("ndcg@10")(np.random.default_rng(0).random(test.n_rows), test)
    assert model.score(test) > noise + 0.1
    assert not hasattr(classifier, "coef_")
    gainful.save(model, tmp_path / "m")
    again = gainful.load(tmp_path / "m")
    assert np.array_equal(again.predict(test), model.predict(test))
    assert again.classifier is None


def test_what_cannot_score_a_row_by_itself_is_refused(parts_of_artificial):
    with pytest.raises(ParameterError, match=r"classifier of NDCGReduction must be linear.*no score of its own"):
        NDCGReduction(classifier=DecisionTreeClassifier(max_depth=2), max_pairs=500).fit(parts_of_artificial[0])
    for wrong in (KNeighborsClassifier(), LogisticRegression, "logistic"):
        with pytest.raises(ParameterError, match="must be a scikit-learn classifier whose fit takes sample_weight"):
            NDCGReduction(classifier=wrong).fit(parts_of_artificial[0])


def test_the_refusal_comes_before_training(parts_of_artificial):
    seen = []

    class Tree(DecisionTreeClassifier):
        def fit(self, X, y, sample_weight=None):
            seen.append(len(X))
            return super().fit(X, y, sample_weight=sample_weight)

    with pytest.raises(ParameterError, match="must be linear"):
        NDCGReduction(classifier=Tree()).fit(parts_of_artificial[0])
    assert max(seen) <= 32


@pytest.mark.parametrize("max_pairs", [300, 50_000])
@pytest.mark.parametrize("binary", [False, True])
def test_the_order_of_the_rows_does_not_matter(parts_of_artificial, max_pairs, binary):
    train = parts_of_artificial[0]
    X = (np.median(train.X, axis=0) < train.X).astype(float) if binary else train.X
    model = NDCGReduction(max_pairs=max_pairs).fit(X, train.y, qid=train.qid)
    for seed in range(3):
        rows = np.random.default_rng(seed).permutation(train.n_rows)
        again = NDCGReduction(max_pairs=max_pairs).fit(X[rows], train.y[rows], qid=train.qid[rows])
        assert np.allclose(again.coef_, model.coef_, rtol=0, atol=1e-8)


def test_a_single_pair_is_enough():
    data = RankingData.from_rows([[0.0, 1.0], [1.0, 1.0]], [0, 1], [5, 5])
    model = NDCGReduction().fit(data)
    assert model.predict(data)[1] > model.predict(data)[0]
    assert model.coef_[1] == 0.0


def test_rounds_lower_the_weight_of_inverted_pairs(parts_of_artificial):
    train = parts_of_artificial[0]
    model = NDCGReduction(pairs="all").fit(train)
    engine = WeightedPairs(train)
    assert model.history_[-1]["objective"] == pytest.approx(
        float(engine.shares @ engine.inverted_weights(model.predict(train)))
    )
    assert model.history_[-1]["objective"] < float(engine.shares @ engine.inverted_weights(np.zeros(train.n_rows)))
