"""LinearRanker and RankSVM: objectives, certificates, solvers, losses of one's own."""

from __future__ import annotations

from functools import partial

import numba
import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linprog
from sklearn.svm import LinearSVC

import gainful
from gainful import LinearRanker, ParameterError
from gainful.data.query_weights import pair_counts, pair_shares, query_shares
from gainful.linear.risk import LinearRisk
from gainful.losses import LOSSES, loss
from gainful.solvers.certificate import ConvergenceWarning

CS = [0.01, 1.0, 100.0, 1000.0]
RankSVM = partial(gainful.RankSVM, scale=None)  # the objective of the paper, on the features as given


def differences(data):
    """x_i − x_j of every pair, the query of each."""
    X = data.X.toarray() if hasattr(data.X, "toarray") else np.asarray(data.X, dtype=float)
    rows, owner = [], []
    for q in range(data.n_queries):
        lo, hi = data.offsets[q], data.offsets[q + 1]
        for i in range(lo, hi):
            below = np.flatnonzero(data.y[lo:hi] < data.y[i]) + lo
            rows.append(X[i] - X[below])
            owner += [q] * len(below)
    return np.concatenate(rows), np.array(owner)


@pytest.fixture(scope="module")
def small():
    return gainful.make_artificial(12, n_docs=9, n_features=4, seed=5)


# -- the risk ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("stored", ["float64", "float32", "csr"])
def test_the_risk_is_the_weighted_sum_over_queries(small, name, stored, rng, monkeypatch):
    monkeypatch.setattr("gainful.compute.query_loop.CHUNK_BYTES", 500)
    X = {"float64": small.X, "float32": small.X.astype(np.float32), "csr": sparse.csr_array(small.X)}[stored]
    data = gainful.RankingData.from_rows(X, small.y, small.qid)
    weights, w = rng.random(data.n_queries), rng.normal(size=data.n_features)
    value, gradient, scores = LinearRisk.of(loss(name), data, weights).value_and_gradient(w)
    plain = (X.toarray() if stored == "csr" else X.astype(np.float64)) @ w
    values, c = loss(name).of_queries(plain, data.y, data.offsets)
    np.testing.assert_allclose(scores, plain, atol=1e-12)
    assert value == pytest.approx(weights @ values, rel=1e-9)
    expected = (X.astype(np.float64)).T @ (c * np.repeat(weights, data.counts))
    np.testing.assert_allclose(gradient, expected, rtol=1e-7, atol=1e-9)
    along, slope = LinearRisk.of(loss(name), data, weights).along(scores, plain, 0.5)
    values, c = loss(name).of_queries(1.5 * plain, data.y, data.offsets)
    assert along == pytest.approx(weights @ values, rel=1e-9)
    assert slope == pytest.approx((c * np.repeat(weights, data.counts)) @ plain, rel=1e-6, abs=1e-9)


def test_pairs_are_counted(small):
    _, owner = differences(small)
    assert pair_counts(small).tolist() == np.bincount(owner, minlength=small.n_queries).tolist()
    assert pair_shares(small).sum() == pytest.approx(1.0)


# -- RankSVM -----------------------------------------------------------------------------------------------------------


def svm_objective(data, w, C, squared):
    D, _ = differences(data)
    short = np.maximum(0.0, 1.0 - D @ w)
    return 0.5 * w @ w + C * (short**2 if squared else short).mean()


@pytest.mark.parametrize("C", CS)
@pytest.mark.parametrize("kind", ["hinge", "squared-hinge"])
def test_ranksvm_is_certified_for_every_C(small, C, kind):
    model = RankSVM(loss=kind, C=C).fit(small)
    certificate = model.certificate_
    assert certificate.relative_gap <= 1e-3
    assert certificate.primal == pytest.approx(svm_objective(small, model.coef_, C, kind != "hinge"), rel=1e-9)
    exact = RankSVM(loss=kind, C=C, tol=1e-7).fit(small)
    assert certificate.dual <= svm_objective(small, exact.coef_, C, kind != "hinge") * (1 + 1e-9)


@pytest.mark.parametrize("C", CS)
def test_the_lower_bound_holds_against_the_dual_of_all_pairs(small, C):
    """Any α in [0, C/n] gives the lower bound Σα − ½‖Σα d‖²; that of a good α must not pass the primal value."""
    D, _ = differences(small)
    model = RankSVM(C=C, tol=1e-6).fit(small)
    margins, top = D @ model.coef_, C / len(D)
    alpha = np.where(margins < 1 - 1e-3, top, 0.0)
    edge = np.abs(margins - 1) <= 1e-3
    rest = model.coef_ - alpha @ D
    if edge.any():  # the pairs on the margin make up what is missing of w, as well as they can
        E = D[edge].T
        n = edge.sum()
        found = linprog(
            np.r_[np.zeros(n), 1.0], bounds=[(0, top)] * n + [(0, None)],
            A_ub=np.block([[E, -np.ones((4, 1))], [-E, -np.ones((4, 1))]]), b_ub=np.r_[rest, -rest],
        )  # fmt: skip
        alpha[edge] = np.clip(found.x[:n], 0, top)
    w = alpha @ D
    assert alpha.sum() - 0.5 * w @ w == pytest.approx(model.certificate_.dual, rel=1e-2)
    assert alpha.sum() - 0.5 * w @ w <= model.certificate_.primal * (1 + 1e-9)


@pytest.mark.parametrize(("kind", "name"), [("hinge", "hinge"), ("squared-hinge", "squared_hinge")])
def test_ranksvm_finds_what_linear_svc_finds_on_explicit_pairs(small, kind, name):
    D, _ = differences(small)
    sign = np.where(np.arange(len(D)) % 2 == 0, 1.0, -1.0)
    C = 20.0
    peer = LinearSVC(loss=name, C=C / len(D), fit_intercept=False, tol=1e-8, max_iter=200_000, dual=kind == "hinge")
    peer.fit(D * sign[:, None], sign)
    ours = RankSVM(loss=kind, C=C, tol=1e-7).fit(small)
    reached = svm_objective(small, ours.coef_, C, kind != "hinge")
    assert reached <= svm_objective(small, peer.coef_[0], C, kind != "hinge") * (1 + 1e-6)
    np.testing.assert_allclose(ours.coef_, peer.coef_[0], atol=5e-3)


def test_weights_multiply_the_pairs(small):
    weights = np.arange(1.0, small.n_queries + 1)
    rows = np.repeat(weights, small.counts)
    model = RankSVM(loss="squared-hinge", C=10.0, tol=1e-10).fit(small.X, small.y, qid=small.qid, sample_weight=rows)
    D, owner = differences(small)
    pair = weights[owner] / weights[owner].sum()
    gradient = model.coef_ - 10.0 * (2 * pair * np.maximum(0.0, 1.0 - D @ model.coef_)) @ D
    assert np.abs(gradient).max() < 1e-3


@pytest.mark.filterwarnings("ignore:the grades have:gainful.DataWarning")
def test_long_lists_and_real_grades(rng):
    X = rng.normal(size=(1_500, 5))
    y = np.maximum(X @ [1.0, -2.0, 0.5, 0.0, 0.0] + 0.3 * rng.normal(size=1_500), 0.0)
    model = RankSVM(C=100.0).fit(X, y, qid=np.repeat([1, 2], [1_000, 500]))
    assert model.certificate_.relative_gap <= 1e-3
    assert model.coef_[1] < 0 < model.coef_[0]


def test_a_path_of_C_keeps_the_best_on_validation(parts):
    train, valid, _ = parts
    model = RankSVM(C=CS).fit(train, eval_set=valid)
    assert [row["C"] for row in model.path_] == CS
    best = max(row["validation"] for row in model.path_)
    assert model._validation_metric()(model.predict(valid), valid) == best
    assert all(row["relative_gap"] <= 1e-3 for row in model.path_)


# -- LinearRanker ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_can_be_trained_with(name, parts, rng):
    train, _, test = parts
    model = LinearRanker(loss=name, scale=None, max_iter=60, tol=1e-3).fit(train)
    nothing = 1e-9 * rng.normal(size=train.n_features)  # no ties, which losses on ranks treat apart
    start = LinearRisk.of(loss(name), train).value_and_gradient(nothing)[0]
    ended = LinearRisk.of(loss(name), train).value_and_gradient(model.coef_)[0]
    assert 0.5 * model.coef_ @ model.coef_ + model.C_ * ended <= model.C_ * start
    if name != "structured-ndcg":  # whose minimum is near 0
        assert model.score(test) > 0.6
    assert hasattr(model, "certificate_") == LOSSES[name].convex


@pytest.mark.parametrize("name", [name for name, entry in LOSSES.items() if entry.convex and entry.smooth])
def test_solvers_agree_where_both_take_a_loss(name, small):
    models = [
        LinearRanker(loss=name, solver=solver, C=5.0, scale=None, tol=1e-6).fit(small) for solver in ("lbfgs", "bundle")
    ]
    values = [model.certificate_.primal for model in models]
    assert values[0] == pytest.approx(values[1], rel=3e-6)
    np.testing.assert_allclose(models[0].coef_, models[1].coef_, atol=2e-2)
    loose = LinearRanker(loss=name, solver="gradient", C=5.0, scale=None, tol=1e-6).fit(small)
    value = LinearRisk.of(loss(name), small).value_and_gradient(loose.coef_)[0]
    assert 0.5 * loose.coef_ @ loose.coef_ + 5.0 * value == pytest.approx(values[0], rel=1e-3)


def test_early_stopping_keeps_the_best_iteration(parts):
    train, valid, _ = parts
    model = LinearRanker(loss="lambda", early_stopping=5, max_iter=100).fit(train, eval_set=valid)
    validated = [row["validation"] for row in model.history_]
    assert None not in validated
    assert model._validation_metric()(model.predict(valid), valid) == max(validated)
    assert len(validated) - (int(np.argmax(validated)) + 1) <= 5
    assert not hasattr(model, "certificate_")


def test_starting_from_regression(parts):
    model = LinearRanker(loss="softrank", init="regression", max_iter=30).fit(parts[0])
    assert model.score(parts[2]) > 0.65


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": "lambda", "solver": "bundle"}, "solver='bundle' needs a convex loss, but lambda is not convex; use"),
        ({"loss": "pairwise-hinge", "solver": "lbfgs"}, "needs a smooth loss, but pairwise-hinge is not smooth"),
        ({"loss": "softrank(k=3)", "solver": "bundle"}, r"softrank\(k=3\) is not convex; use solver='lbfgs' or"),
        ({"solver": "bundle", "early_stopping": 3}, "early_stopping needs solver='lbfgs' or 'gradient'"),
        (
            {"loss": "pairwise-hinge", "early_stopping": 3},
            "needs solver='gradient'; the bundle",
        ),
        ({"C": [1.0, 2.0]}, "several values of C need eval_set"),
        ({"loss": "nonsense"}, "loss of LinearRanker must be a loss"),
    ],
)
def test_what_does_not_go_together_is_refused(parts, settings, message):
    with pytest.raises(ParameterError, match=message):
        LinearRanker(**settings).fit(parts[0])


# -- losses of one's own -----------------------------------------------------------------------------------------------


def pair_logistic(scores, grades):
    """RankNet written by hand."""
    value, gradient, n = 0.0, np.zeros(len(scores)), 0
    for i in range(len(scores)):
        for j in range(len(scores)):
            if grades[i] > grades[j]:
                n += 1
                value += np.log1p(np.exp(scores[j] - scores[i]))
                slope = 1.0 / (1.0 + np.exp(scores[i] - scores[j]))
                gradient[i] -= slope
                gradient[j] += slope
    return value / max(n, 1), gradient / max(n, 1)


@pytest.mark.parametrize("function", [pair_logistic, numba.njit(pair_logistic)], ids=["python", "numba"])
def test_a_function_works_in_the_place_of_a_name(small, function, tmp_path):
    built_in = LinearRanker(loss="ranknet", C=10.0).fit(small)
    own = LinearRanker(loss=gainful.loss(function, convex=True, smooth=True), C=10.0).fit(small)
    np.testing.assert_allclose(own.coef_, built_in.coef_, atol=1e-3)
    assert own.solver_ == "lbfgs"
    bare = LinearRanker(loss=function, C=10.0, max_iter=200).fit(small)
    assert bare.solver_ == "gradient"
    assert bare.score(small) == pytest.approx(built_in.score(small), abs=0.02)

    gainful.save(bare, tmp_path / "own.gainful")
    again = gainful.load(tmp_path / "own.gainful")
    assert np.array_equal(again.predict(small), bare.predict(small))
    assert again.loss == "custom:pair_logistic"
    with pytest.raises(ParameterError, match="was a Python function when this model was trained"):
        again.fit(small)


@pytest.mark.parametrize("name", ["ranksvm", "ranknet", "listnet", "lambdarank", "softrank"])
def test_shuffled_rows_change_rounding_only(name, parts, rng):
    train = parts[0]
    order = rng.permutation(train.n_rows)
    one = gainful.ranker(name).fit(train)
    other = gainful.ranker(name).fit(train.X[order], train.y[order], qid=train.qid[order])
    if name == "lambdarank":  # a tie or a rank may tip over
        assert other.score(train) == pytest.approx(one.score(train), abs=0.02)
    else:
        np.testing.assert_allclose(other.coef_, one.coef_, rtol=0.02, atol=0.02 * np.abs(one.coef_).max())


def test_shares_of_queries_sum_to_one(small):
    assert query_shares(small).sum() == pytest.approx(1.0)


@pytest.mark.parametrize("init", ["zeros", "regression"])
def test_a_loss_that_is_flat_where_training_starts_says_so(rng, init):
    """With 400 documents, none of which stands out, a place among the first ten has no chance and so no slope."""
    X = rng.normal(size=(800, 3))
    y = (X[:, 0] > 1.5).astype(float)
    with pytest.warns(ConvergenceWarning, match=r"loss softrank.* has learned nothing: no weight left 0") as told:
        model = gainful.ranker("softrank", init=init).fit(X, y, group=[400, 400])
    assert np.abs(model.coef_).max() < 1e-9
    assert len(told) == 1
    gainful.ranker("softrank").fit(X[:200], y[:200], group=[20] * 10)
