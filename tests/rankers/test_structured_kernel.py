"""The structured SVM in the feature space of a kernel."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics.pairwise import pairwise_kernels

import gainful
from gainful import DataError, ParameterError, RankingData
from gainful.rankers import structured_kernel
from gainful.rankers.scorers import scale_rows
from gainful.rankers.structured_kernel import KERNELS, KernelStructuredSVM
from gainful.rankers.structured_svm import StructuredSVM


@pytest.fixture(scope="module")
def small():
    """Training and test part of 30 queries with 8 documents."""
    return gainful.split(gainful.make_artificial(30, n_docs=8, n_features=4, seed=6), (0.6, 0.4), seed=0)


@pytest.fixture(scope="module")
def crossed():
    """Training and test part of a problem whose grade is the sign of a product: no linear ranker beats chance."""
    X = np.random.default_rng(2).uniform(-1, 1, (400, 2))
    data = RankingData.from_rows(X, (X[:, 0] * X[:, 1] > 0).astype(float), np.repeat(np.arange(40), 10))
    return gainful.split(data, (0.6, 0.4), seed=0)


def as_seen(X, train, scale):
    """Features as the kernel sees them."""
    return X if scale is None else (X - train.X.mean(axis=0)) / train.X.std(axis=0)


@pytest.mark.parametrize("C", [0.1, 5.0, 500.0])
@pytest.mark.parametrize("metric", ["ndcg@5", "map"])
@pytest.mark.parametrize("scale", [None, "standard"])
def test_linear_kernel_is_the_linear_ranker(small, metric, C, scale):
    train, test = small
    linear = StructuredSVM(metric, C=C, scale=scale, tol=1e-6).fit(train)
    kernel = KernelStructuredSVM("linear", metric=metric, C=C, scale=scale, tol=1e-6).fit(train)
    assert kernel.certificate_.primal == pytest.approx(linear.certificate_.primal, rel=2e-6)
    assert kernel.certificate_.scale == linear.certificate_.scale == scale
    # A gap of ε leaves the weights within √(2ε) of the optimum, for either of them.
    away = 2 * np.sqrt(2e-6 * linear.certificate_.primal)
    close = away * np.linalg.norm(as_seen(test.X, train, scale), axis=1) + 1e-9
    mean = 0.0 if scale is None else train.X.mean(axis=0) @ linear.coef_
    assert (np.abs(kernel.predict(test) - (linear.predict(test) - mean)) <= close).all()


@pytest.mark.parametrize("scale", [None, "standard"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_objective_is_that_of_the_dual_expansion(small, kernel, scale):
    """‖w‖² = β'Kβ, and the loss is that of the scores Kβ."""
    train, _ = small
    model = KernelStructuredSVM(
        kernel, scale=scale, gamma=0.5, degree=2, C=3.0, metric="ndcg@1", position_weights=[1.0]
    ).fit(train)
    settings = {"gamma": 0.5} if kernel in ("rbf", "laplacian", "polynomial") else {}
    settings |= {"degree": 2} if kernel == "polynomial" else {}
    K = pairwise_kernels(as_seen(train.X, train, scale), metric=kernel, **settings)
    beta, scores = model.dual_coef_, K @ model.dual_coef_
    losses = []
    for a, b in zip(train.offsets, train.offsets[1:], strict=False):  # at k = 1 a ranking is its first document
        gains, s = 2.0 ** train.y[a:b] - 1, scores[a:b]
        varied = gains.max() > 0 and len(set(gains)) > 1
        losses.append((1 - gains / gains.max() + s).max() - s[gains == gains.max()].mean() if varied else 0.0)
    assert model.certificate_.primal == pytest.approx(0.5 * beta @ K @ beta + 3.0 * np.mean(losses), rel=1e-6)
    assert 0 <= model.certificate_.dual <= model.certificate_.primal
    assert model.certificate_.relative_gap <= 1e-3
    assert np.allclose(model.predict(train), scores, atol=1e-9 * np.abs(scores).max())


@pytest.mark.parametrize("kernel", KERNELS)
def test_similarities_are_those_of_scikit_learn_to_the_last_digit(small, kernel):
    train, test = small
    scorer = KernelStructuredSVM(kernel=kernel).fit(train)._kernel(np.zeros(train.n_rows))
    seen = scale_rows(test.X, scorer.shift, scorer.factor)
    expected = pairwise_kernels(seen, scorer.landmarks, metric=kernel, **scorer.settings)
    np.testing.assert_array_equal(scorer.similarities(test.X), expected)


@pytest.mark.filterwarnings("ignore:the convex bound is lowest at w = 0:gainful.DataWarning")
def test_rbf_learns_what_no_linear_ranker_can(crossed):
    train, test = crossed
    assert StructuredSVM("ndcg@5", C=100.0).fit(train).score(test) < 0.8
    assert KernelStructuredSVM("rbf", gamma=1.0, metric="ndcg@5", C=100.0).fit(train).score(test) > 0.95
    assert (
        KernelStructuredSVM("polynomial", gamma=1.0, degree=2, metric="ndcg@5", C=100.0).fit(train).score(test) > 0.95
    )


def test_all_documents_as_landmarks_is_exact(small):
    train, test = small
    exact = KernelStructuredSVM(C=5.0).fit(train)
    for n in (train.n_rows, train.n_rows + 50):
        assert np.array_equal(KernelStructuredSVM(C=5.0, n_landmarks=n).fit(train).predict(test), exact.predict(test))


def test_more_landmarks_come_closer(small):
    train, test = small
    exact = KernelStructuredSVM(C=5.0, tol=1e-5).fit(train)
    found = [KernelStructuredSVM(C=5.0, n_landmarks=n, tol=1e-5).fit(train) for n in (5, 40, 120)]
    likeness = [np.corrcoef(model.predict(test), exact.predict(test))[0, 1] for model in found]
    assert likeness == sorted(likeness)
    assert likeness[-1] > 0.98
    # Fewer landmarks are fewer directions, so the minimum can only be higher.
    assert all(model.certificate_.primal >= exact.certificate_.dual for model in found)
    assert [len(model.dual_coef_) for model in found] == [5, 40, 120]


def test_landmarks_follow_the_seed(small):
    train, test = small
    one, same, other = (KernelStructuredSVM(n_landmarks=10, random_state=seed).fit(train) for seed in (0, 0, 1))
    assert np.array_equal(one.predict(test), same.predict(test))
    assert not np.array_equal(one.landmarks_, other.landmarks_)


def test_gamma_scale_is_that_of_the_features(small):
    train, _ = small
    for scale, expected in ((None, 1 / (train.n_features * np.var(train.X))), ("standard", 1 / train.n_features)):
        assert KernelStructuredSVM(scale=scale).fit(train).gamma_ == pytest.approx(expected, rel=1e-12)
        csr = KernelStructuredSVM(scale=scale).fit(sparse.csr_array(train.X), train.y, qid=train.qid)
        assert csr.gamma_ == pytest.approx(expected, rel=1e-9)
    constant = RankingData.from_rows(np.ones((6, 2)), [0, 1, 2, 0, 1, 2], [1, 1, 1, 2, 2, 2])
    assert np.isfinite(KernelStructuredSVM().fit(constant).predict(constant)).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_variance_by_blocks(dtype):
    rng = np.random.default_rng(3)
    X = (rng.normal(size=(2 * structured_kernel.BLOCK_ROWS + 711, 3)) * 2.0 + np.array([0.0, 1e3, -5.0])).astype(dtype)
    assert structured_kernel._variance(X) == pytest.approx(np.var(X.astype(np.float64)), rel=1e-12)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.filterwarnings("ignore:the convex bound is lowest at w = 0:gainful.DataWarning")
def test_zero_rows_and_duplicates_give_finite_scores(kernel):
    X = np.repeat([[0.0, 0.0], [1.0, 2.0], [-1.0, 0.5]], 4, axis=0)
    data = RankingData.from_rows(X, np.tile([0, 1], 6), np.repeat([1, 2], 6))
    assert np.isfinite(KernelStructuredSVM(kernel).fit(data).predict(data)).all()
    zero = RankingData.from_rows(np.zeros((6, 2)), [0, 1, 2, 0, 1, 2], [1, 1, 1, 2, 2, 2])
    assert np.isfinite(KernelStructuredSVM(kernel, coef0=0.0).fit(zero).predict(zero)).all()


@pytest.mark.parametrize(
    ("kernel", "scale"), [*((kernel, None) for kernel in KERNELS), ("rbf", "standard"), ("laplacian", "standard")]
)
def test_single_precision_and_sparse_features_score_the_same(small, kernel, scale):
    """With a scale, sparse features are not centred, which kernels of differences do not see."""
    train, test = small
    X, T = train.X.astype(np.float32), test.X.astype(np.float32)
    make = lambda **of: KernelStructuredSVM(kernel, scale=scale, C=5.0, **of)  # noqa: E731
    exact = make().fit(X.astype(np.float64), train.y, qid=train.qid)
    for A, B in ((X, T), (sparse.csr_array(X), sparse.csr_array(T))):
        scores = make(gamma=exact.gamma_).fit(A, train.y, qid=train.qid).predict(B)
        assert np.allclose(scores, exact.predict(T.astype(np.float64)), atol=1e-3 * np.ptp(scores))


def test_too_many_rows_are_refused_with_a_hint(small, monkeypatch):
    train, test = small
    monkeypatch.setattr(structured_kernel, "MOST_EXACT_ROWS", 100)
    expected = r"an exact kernel over 144 documents needs 166 kB; set n_landmarks, for example to 1000"
    for n in (None, 1000):
        with pytest.raises(DataError, match=expected):
            KernelStructuredSVM(n_landmarks=n).fit(train)
    assert np.isfinite(KernelStructuredSVM(n_landmarks=50).fit(train).predict(test)).all()


@pytest.mark.parametrize(
    ("params", "name"),
    [
        ({"kernel": "sigmoid"}, "kernel"),
        ({"gamma": 0.0}, "gamma"),
        ({"degree": 2.5}, "degree"),
        ({"coef0": -1.0}, "coef0"),
        ({"n_landmarks": 0}, "n_landmarks"),
    ],
)
def test_bad_parameters_are_refused(small, params, name):
    with pytest.raises(ParameterError, match=rf"^{name} of KernelStructuredSVM must be .*, was "):
        KernelStructuredSVM(**params).fit(small[0])


def test_path_of_C_is_chosen_on_the_validation_data(small):
    train, valid = small
    model = KernelStructuredSVM(C=[0.1, 1.0, 10.0]).fit(train, eval_set=valid)
    values = [row["validation"] for row in model.path_]
    assert model.path_[int(np.argmax(values))]["C"] == model.C_
    assert model._validation_metric()(model.predict(valid), valid) == pytest.approx(max(values))
    with pytest.raises(ParameterError, match="several values of C need eval_set"):
        KernelStructuredSVM(C=[0.1, 1.0]).fit(train)


@pytest.mark.parametrize("stored", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_saved_models_score_the_same(small, tmp_path, kernel, stored):
    train, test = small
    model = KernelStructuredSVM(kernel, n_landmarks=40, metric="ndcg@3", position_weights=lambda r: 1 / r)
    model.fit(stored(train.X), train.y, qid=train.qid)
    gainful.save(model, tmp_path / "m")
    again = gainful.load(tmp_path / "m")
    assert np.array_equal(again.predict(stored(test.X)), model.predict(stored(test.X)))
    assert again.certificate_ == model.certificate_
    assert again.path_ == model.path_
    assert again.position_weights == again.position_weights_.tolist() == [1, 1 / 2, 1 / 3]
