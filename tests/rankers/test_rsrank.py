"""RSRank: theorem 1, the loss and its gradient, truncation, the path of l1 and the feature selector."""

from __future__ import annotations

import warnings
from itertools import islice

import numpy as np
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from importance import importance_weights
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import gainful
from gainful import ParameterError, RankingData, RSRank
from gainful.compute.query_loop import values_and_gradient
from gainful.formats.layout import read_splits
from gainful.linear.frozen_risk import FrozenRisk
from gainful.linear.weighted_pairs import WeightedPairs, varies_within_queries
from gainful.solvers.truncated_gradient import descend_fixed, descend_safeguarded, truncate


def dcg(grades, order):
    return sum((2.0 ** grades[i] - 1.0) / np.log2(2.0 + r) for r, i in enumerate(order))


def huber(v):
    return -4.0 * v if v < -1 else (1.0 - v) ** 2 if v <= 1 else 0.0


def ranks_of(scores):
    ranks = np.empty(len(scores), dtype=int)
    ranks[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
    return ranks


def shared_ranks(scores, grades):
    """Ranks with the discounts that ties share: lower grades first, the mean where score and grade are equal."""
    order = np.lexsort((grades, -scores))
    D = np.empty(len(scores))
    D[order] = 1.0 / np.log2(np.arange(2.0, len(scores) + 2.0))
    D = np.array([D[(scores == s) & (grades == g)].mean() for s, g in zip(scores, grades, strict=True)])
    return 2.0 ** (1.0 / D) - 1.0


def plain_loss(scores, data, shares, ranked_by=None):
    total = 0.0
    for q in range(data.n_queries):
        rows = slice(data.offsets[q], data.offsets[q + 1])
        s = scores[rows]
        w = importance_weights(
            data.y[rows], shared_ranks((scores if ranked_by is None else ranked_by)[rows], data.y[rows])
        )
        total += shares[q] * sum(w[i, j] * huber(s[i] - s[j]) for i in range(len(s)) for j in range(len(s)))
    return total


def rankings(most=7):
    grades = st.lists(st.integers(0, 4), min_size=1, max_size=most)
    return grades.flatmap(lambda g: st.tuples(st.just(g), st.permutations(range(len(g)))))


# -- the reduction -----------------------------------------------------------------------------------------------------


@given(rankings())
def test_theorem_1_one_minus_ndcg_is_at_most_the_weight_of_inverted_pairs(case):
    grades, order = case
    ranks = np.empty(len(order), dtype=int)
    ranks[list(order)] = np.arange(1, len(order) + 1)
    weights = importance_weights(grades, ranks)
    inverted = sum(weights[i, j] for i in range(len(order)) for j in range(len(order)) if ranks[i] > ranks[j])
    best = dcg(grades, sorted(range(len(grades)), key=lambda i: -grades[i]))
    loss = 1.0 - dcg(grades, order) / best if best > 0 else 0.0
    assert loss <= inverted + 1e-12
    data = RankingData.from_rows(np.ones((len(grades), 1)), grades, np.zeros(len(grades)))
    assert WeightedPairs(data).inverted_weights(-ranks.astype(float))[0] == pytest.approx(inverted, abs=1e-12)


@given(rankings())
def test_equation_1_exchanging_a_pair_changes_ndcg_by_its_weight(case):
    grades, order = case
    order = list(order)
    best = dcg(grades, sorted(range(len(grades)), key=lambda i: -grades[i]))
    if best == 0:
        return
    data = RankingData.from_rows(np.ones((len(grades), 1)), grades, np.zeros(len(grades)))
    scores = np.empty(len(order))
    scores[order] = -np.arange(len(order))
    ndcg = dcg(grades, order) / best
    assert gainful.metric("ndcg")(scores, data) == pytest.approx(ndcg)
    weights = importance_weights(grades, ranks_of(scores))
    for a in range(len(order)):
        for b in range(a):
            swapped = order.copy()
            swapped[a], swapped[b] = order[b], order[a]
            change = abs(dcg(grades, swapped) / best - ndcg)
            assert max(weights[order[a], order[b]], weights[order[b], order[a]]) == pytest.approx(change, abs=1e-12)


@given(rankings(), st.integers(0, 1000))
def test_the_loss_is_above_one_minus_ndcg(case, seed):
    grades, _ = case
    scores = np.random.default_rng(seed).normal(size=len(grades)).round(1)
    value, _ = gainful.loss("weighted-huber")(scores, grades)
    order = np.argsort(-scores, kind="stable")
    best = dcg(grades, sorted(range(len(grades)), key=lambda i: -grades[i]))
    assert value >= (1.0 - dcg(grades, order) / best if best > 0 else 0.0) - 1e-12


# -- loss and gradient -------------------------------------------------------------------------------------------------


@pytest.fixture
def odd():
    """Queries of 1, 9, 5 and 12 documents; ties in the scores, real grades, one query of equal grades."""
    rng = np.random.default_rng(2)
    counts = [1, 9, 5, 12]
    y = np.concatenate([[2.0], rng.integers(0, 3, 9), np.ones(5), rng.integers(0, 4, 12) + rng.random(12).round(1)])
    X = rng.normal(size=(27, 4)) * [1.0, 10.0, 0.1, 1.0] + 5.0
    X[:, 3] = 7.0
    weights = np.repeat([1.0, 2.0, 1.0, 0.5], counts)
    return RankingData.from_rows(X, y, np.repeat(range(4), counts), sample_weight=weights)


@pytest.mark.parametrize("threads", [1, 3])
def test_values_are_those_of_the_definition(odd, threads, rng):
    pairs = WeightedPairs(odd, threads=threads)
    assert pairs.n_pairs == sum(int(np.sum(g[:, None] > g[None, :])) for g in np.split(odd.y, odd.offsets[1:-1]))
    for width in (0.0, 0.3, 3.0):
        scores, other = rng.normal(size=(2, odd.n_rows)).round(1) * width
        expected = plain_loss(other, odd, pairs.shares, ranked_by=scores)
        frozen = gainful.loss("weighted-huber").bind(odd.y, odd.offsets).bind_frozen(scores, threads)
        values, _ = values_and_gradient(frozen, odd.offsets, other, threads)
        assert pairs.shares @ values == pytest.approx(expected, rel=1e-12)


def test_gradient_with_frozen_weights_by_finite_differences(odd, rng):
    loss = FrozenRisk(gainful.loss("weighted-huber"), odd, odd.X.std(axis=0))
    u = rng.normal(size=4)
    u[3] = 0.0
    look = loss.at(loss.scores(u))
    for j in range(4):
        step = np.zeros(4)
        step[j] = 1e-6
        numeric = (loss.frozen_loss(look, loss.scores(u + step)) - loss.frozen_loss(look, loss.scores(u - step))) / 2e-6
        assert look.gradient[j] == pytest.approx(numeric, rel=1e-5, abs=1e-7)
    assert look.gradient[3] == 0.0  # constant within every query


@pytest.mark.parametrize(
    "stored", [np.asarray, lambda X: X.astype(np.float32), sparse.csr_array], ids=["64", "32", "csr"]
)
def test_features_that_vary_within_queries(stored):
    x = np.array([[1.0, 0.0, 5.0, 0.1 + 0.2, 0.0], [1.0, 2.0, 5.0, 0.3, 0.0], [7.0, 2.0, 6.0, 0.3, -1.0]])
    X = np.vstack([x, [[7.0, 2.0, 6.0, 0.3, -1.0]], x[:2, ::-1]])
    data = RankingData.from_rows(
        stored(X), [1.0, 0.0, 1.0, 0.0, 1.0, 0.0], [1, 1, 2, 2, 3, 3], sample_weight=[1, 1, 1, 1, 0, 0]
    )
    for threads in (None, 2):
        assert varies_within_queries(data, threads).tolist() == [False, True, False, False, False]


# -- descent -----------------------------------------------------------------------------------------------------------


def test_fixed_steps_are_the_papers_update(odd):
    loss = FrozenRisk(gainful.loss("weighted-huber"), odd, np.ones(4))
    u = np.array([0.3, -0.2, 0.1, 0.0])
    found = [it.u for it in islice(descend_fixed(loss, u, step=0.01, l1=0.5, truncate_every=2), 3)]
    for expected in found:
        for k in (1, 2):
            u = u - 0.01 * loss.at(loss.scores(u)).gradient
            if k == 2:
                u = np.where(u > 0, np.maximum(u - 0.005, 0), np.minimum(u + 0.005, 0))
        assert np.allclose(u, expected, rtol=1e-13, atol=1e-15)


@given(st.lists(st.floats(-5, 5), min_size=1), st.floats(0, 3))
def test_truncation_stops_at_zero(values, by):
    u = np.array(values)
    cut = truncate(u, by)
    assert (np.abs(cut) <= np.abs(u)).all()
    assert (cut * u >= 0).all()
    assert (cut[np.abs(u) <= by] == 0).all()
    assert np.allclose(np.abs(u - cut)[np.abs(u) > by], by)


def test_safeguarded_steps_lower_the_frozen_objective_and_end(artificial):
    loss = FrozenRisk(gainful.loss("weighted-huber"), artificial, artificial.X.std(axis=0))
    start = np.zeros(artificial.n_features)
    points = list(islice(descend_safeguarded(loss, start, l1=0.01), 1000))
    assert points[-1].converged
    assert min(p.objective for p in points) < loss.at(loss.scores(start)).loss
    u = start
    for point in points[:20]:
        look = loss.at(loss.scores(u))
        before = look.loss + 0.01 * np.abs(u).sum()
        after = loss.frozen_loss(look, loss.scores(point.u)) + 0.01 * np.abs(point.u).sum()
        assert after <= before + 1e-9
        u = point.u


def test_units_of_the_features_do_not_matter(parts_of_artificial):
    train, valid, _ = parts_of_artificial
    units = 2.0 ** np.arange(-20, 22, 42 / train.n_features).round()[: train.n_features]
    one = RSRank(l1=0.02, init="zeros").fit(train, eval_set=valid)
    scaled = RankingData.from_rows(train.X * units, train.y, train.qid)
    other = RSRank(l1=0.02, init="zeros").fit(scaled, eval_set=(valid.X * units, valid.y, valid.qid))
    assert np.allclose(one.coef_, other.coef_ * units, rtol=1e-9)


@pytest.fixture(scope="module")
def parts_of_artificial(artificial):
    return gainful.split(artificial, (0.6, 0.2, 0.2))


@pytest.mark.parametrize("settings", [{}, {"truncate_every": 3}, {"step": "fixed", "max_iter": 100}])
def test_more_l1_means_fewer_features(parts_of_artificial, settings):
    counts = []
    for l1 in (0.0, 0.05, 0.5, 5.0, 1e4):
        model = RSRank(l1=l1, **settings).fit(parts_of_artificial[0])
        counts.append(int((model.coef_ != 0).sum()))
        assert np.array_equal(model.support_, model.coef_ != 0)
    assert counts[0] == 12
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] == 0


def test_starts(parts_of_artificial):
    train, _, test = parts_of_artificial
    given_start = RSRank(init=np.ones(12), max_iter=1, step="fixed", learning_rate=1e-12).fit(train)
    assert np.allclose(given_start.coef_, 1.0, atol=1e-6)
    with pytest.raises(ParameterError, match="init of RSRank must be 12 weights, was"):
        RSRank(init=[1.0, 2.0]).fit(train)
    scores = [RSRank(init=init).fit(train).score(test) for init in ("zeros", "regression")]
    assert scores[0] == pytest.approx(scores[1], abs=0.03)


def test_best_iterate_on_validation_is_kept(parts_of_artificial):
    train, valid, _ = parts_of_artificial
    model = RSRank(early_stopping=5).fit(train, eval_set=valid)
    assert model.score(valid) == max(row["validation"] for row in model.history_)


# -- order of the rows -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def binary():
    """0/1 features: many documents tie."""
    rng = np.random.default_rng(8)
    X = rng.integers(0, 2, size=(480, 5)).astype(float)
    y = np.clip(X @ [1, 1, 0.5, 0, 0] + rng.normal(size=480), 0, 3).round()
    return X, y, np.repeat([f"q{i}" for i in range(40)], 12)


@pytest.mark.parametrize("settings", [{}, {"init": "zeros"}, {"l1": 0.05}], ids=str)
def test_the_order_of_the_rows_does_not_matter(binary, settings):
    X, y, qid = binary
    model = gainful.ranker("rsrank", **settings).fit(X, y, qid=qid)
    assert model.coef_.any()
    for seed in range(3):
        rows = np.random.default_rng(seed).permutation(len(y))
        again = gainful.ranker("rsrank", **settings).fit(X[rows], y[rows], qid=qid[rows])
        assert np.allclose(again.coef_, model.coef_, rtol=0, atol=1e-8)


def test_nor_for_the_queries_held_out(binary):
    X, y, qid = binary
    for ids in (qid, np.array([int(q[1:]) if int(q[1:]) % 2 else q for q in qid], dtype=object)):
        model = gainful.ranker("rsrank-sparse").fit(X, y, qid=ids)
        for seed in range(3):
            rows = np.random.default_rng(seed).permutation(len(y))
            again = gainful.ranker("rsrank-sparse").fit(X[rows], y[rows], qid=ids[rows])
            assert again.l1_ == pytest.approx(model.l1_, rel=1e-9)
            assert np.allclose(again.coef_, model.coef_, rtol=0, atol=1e-8)


# -- path and selection ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tolerance", [0.0, 0.05])
def test_the_path_chooses_the_fewest_features_within_the_tolerance(parts_of_artificial, tolerance):
    train, valid, _ = parts_of_artificial
    model = RSRank(tolerance=tolerance)
    model.fit_path(train, l1=[1.0, 0.01, 0.1, 0.3], eval_set=valid)
    assert model.l1 == 0.0
    assert [row["l1"] for row in model.path_] == [0.01, 0.1, 0.3, 1.0]
    best = max(row["validation"] for row in model.path_)
    near = [row for row in model.path_ if row["validation"] >= (1 - tolerance) * best]
    chosen = next(row for row in model.path_ if row["l1"] == model.l1_)
    assert chosen["n_features"] == min(row["n_features"] for row in near) == model.support_.sum()
    assert model.score(valid) == pytest.approx(chosen["validation"])


def test_without_validation_data_queries_are_held_out_to_choose(parts_of_artificial, tmp_path):
    train, _, test = parts_of_artificial
    model = gainful.ranker("rsrank-sparse", tolerance=0.03).fit(train)
    assert len(model.path_) == 17
    assert all(row["validation"] is not None for row in model.path_)
    assert 0 < model.support_.sum() <= 12
    gainful.save(model, tmp_path / "m")
    again = gainful.load(tmp_path / "m")
    assert again.l1_ == model.l1_
    assert again.path_ == model.path_
    assert np.array_equal(again.transform(test.X), model.transform(test.X))


def test_it_selects_features_as_scikit_learn_does(parts_of_artificial):
    train, _, test = parts_of_artificial
    model = RSRank(l1=1.0).fit(train.X, train.y, qid=train.qid)
    kept = np.flatnonzero(model.support_)
    assert 0 < len(kept) < 12
    assert model.get_support(indices=True).tolist() == kept.tolist()
    assert np.array_equal(model.transform(test.X), test.X[:, kept])
    assert (model.transform(sparse.csr_array(test.X)) != sparse.csr_array(test.X[:, kept])).nnz == 0
    assert model.get_feature_names_out().tolist() == [f"x{j}" for j in kept]
    assert model.inverse_transform(model.transform(test.X)).shape == test.X.shape


def test_it_selects_features_for_another_ranker_in_a_pipeline(parts_of_artificial):
    train, _, test = parts_of_artificial
    with sklearn.config_context(enable_metadata_routing=True):
        chain = make_pipeline(RSRank(l1=1.0), gainful.RegressionRanker())
        chain.fit(train.X, train.y, qid=train.qid)
        kept = chain[0].support_
        alone = gainful.RegressionRanker().fit(train.X[:, kept], train.y, qid=train.qid)
        assert np.allclose(chain.predict(test.X), alone.predict(test.X[:, kept]))
        assert chain.score(test.X, test.y, qid=test.qid) == pytest.approx(
            alone.score(test.X[:, kept], test.y, qid=test.qid)
        )
        assert not hasattr(clone(chain)[0], "coef_")


def test_selecting_no_feature_warns(parts_of_artificial):
    model = RSRank(l1=1e6).fit(parts_of_artificial[0])
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert model.transform(parts_of_artificial[0].X).shape[1] == 0
    assert any("No features were selected" in str(w.message) for w in seen)


def test_ohsumed_keeps_few_features_at_little_loss(ohsumed):
    fold = read_splits(ohsumed)[3]
    dense = gainful.ranker("rsrank").fit(fold.train, eval_set=fold.valid)
    few = gainful.ranker("rsrank-sparse").fit(fold.train, eval_set=fold.valid)
    assert few.support_.mean() <= 0.4
    assert few.score(fold.valid) >= 0.95 * dense.score(fold.valid)
