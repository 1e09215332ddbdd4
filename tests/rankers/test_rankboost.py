"""RankBoost and the thresholds it shares with FRank, against explicit pairs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

import gainful
from gainful import RankingData
from gainful.data.query_weights import query_shares
from gainful.data.rows import Columns
from gainful.rankers.rankboost import exponential_loss
from gainful.rankers.thresholds import Codes, CriticalPairs, cuts_of


def explicit_pairs(data):
    """(better row, worse row, query) of every critical pair."""
    found = []
    for q in range(data.n_queries):
        rows = range(data.offsets[q], data.offsets[q + 1])
        found += [(i, j, q) for i in rows for j in rows if data.y[i] > data.y[j]]
    return found


def first_distribution(data, per_query):
    """{(i, j): D₁}, by the definition."""
    pairs, shares = explicit_pairs(data), query_shares(data)
    n_pairs = np.bincount([q for *_, q in pairs], minlength=data.n_queries)
    raw = {(i, j): shares[q] / (n_pairs[q] if per_query else 1.0) for i, j, q in pairs}
    total = sum(raw.values())
    return {pair: value / total for pair, value in raw.items()}


def plain_rankboost(data, rounds, per_query):
    """Round by round with every pair and every threshold between two values: feature, α, r, loss."""
    D, s = first_distribution(data, per_query), np.zeros(data.n_rows)
    start, found = dict(D), []
    for _ in range(rounds):
        best = (0.0, 0, 0.0)
        for f in range(data.n_features):
            values = np.unique(data.X[:, f])
            for theta in (values[1:] + values[:-1]) / 2:
                h = data.X[:, f] >= theta
                r = sum(d * (float(h[i]) - float(h[j])) for (i, j), d in D.items())
                if abs(r) > abs(best[0]) + 1e-12:
                    best = (r, f, theta)
        r, f, theta = best
        alpha = 0.5 * math.log((1 + r) / (1 - r))
        h = (data.X[:, f] >= theta).astype(float)
        s = s + alpha * h
        D = {(i, j): d * math.exp(alpha * (h[j] - h[i])) for (i, j), d in D.items()}
        Z = sum(D.values())
        D = {pair: d / Z for pair, d in D.items()}
        found.append((f, alpha, r, sum(d * math.exp(s[j] - s[i]) for (i, j), d in start.items())))
    return found


@pytest.fixture(scope="module")
def small():
    return gainful.make_artificial(6, n_docs=9, n_features=3, seed=2)


@pytest.mark.parametrize("pairs", ["all", "query"])
def test_r_and_alpha_are_those_of_the_pairs(small, pairs):
    weights = np.repeat([1.0, 2.0, 1.0, 0.5, 1.0, 3.0], small.counts)
    data = RankingData.from_rows(small.X, small.y, small.qid, sample_weight=weights)
    model = gainful.RankBoost(n_rounds=6, n_thresholds="all", pairs=pairs).fit(data)
    expected = plain_rankboost(data, 6, pairs == "query")
    for row, (feature, alpha, r, loss) in zip(model.history_, expected, strict=True):
        assert row["r"] == pytest.approx(r)
        assert row["alpha"] == pytest.approx(alpha)
        assert row["feature"] == feature
        assert row["objective"] == pytest.approx(loss)


def test_every_round_lowers_the_exponential_loss_by_its_bound(parts):
    history = gainful.RankBoost(n_rounds=60).fit(parts[0]).history_
    before = 1.0
    for row in history:
        assert row["objective"] <= before * math.sqrt(1 - row["r"] ** 2) * (1 + 1e-9)
        before = row["objective"]


def test_the_loss_bounds_the_share_of_pairs_in_the_wrong_order(parts):
    train = parts[0]
    model = gainful.RankBoost(n_rounds=40).fit(train)
    D, s = first_distribution(train, per_query=False), model.predict(train)
    wrong = sum(d for (i, j), d in D.items() if s[i] <= s[j])
    assert wrong <= model.history_[-1]["objective"] + 1e-12


@given(st.data())
def test_potentials_are_sums_over_pairs(data):
    n = data.draw(st.integers(2, 12))
    y = data.draw(hnp.arrays(float, n, elements=st.integers(0, 3)))
    s = data.draw(hnp.arrays(float, n, elements=st.floats(-20, 20)))
    qid = np.sort(data.draw(hnp.arrays(int, n, elements=st.integers(0, 2))))
    per_query = data.draw(st.booleans())
    found = RankingData.from_rows(np.zeros((n, 1)), y, qid)
    pairs = CriticalPairs.of(found, query_shares(found), per_query)
    loss, potentials = exponential_loss(pairs, s)
    expected, total = np.zeros(n), 0.0
    if pairs.empty:
        assert loss == 0.0
        assert not potentials.any()
        return
    for (i, j), d in first_distribution(found, per_query).items():
        part = d * math.exp(s[j] - s[i])
        total += part
        expected[i] += part
        expected[j] -= part
    assert loss == pytest.approx(total, rel=1e-9)
    assert np.allclose(potentials, expected, rtol=1e-9, atol=1e-9 * total)


@given(hnp.arrays(float, st.integers(1, 60), elements=st.floats(-5, 5)), st.one_of(st.none(), st.integers(1, 8)))
def test_cuts_lie_between_values(column, most):
    cuts, values = cuts_of(column, most), np.unique(column)
    assert len(cuts) <= (len(values) - 1 if most is None else min(most, len(values) - 1))
    assert (np.diff(cuts) > 0).all()
    places = np.searchsorted(values, cuts, side="left")  # values from here on are above
    assert len(np.unique(places)) == len(cuts)
    assert ((places > 0) & (places < len(values))).all()
    if most is None or len(values) - 1 <= most:
        assert len(cuts) == len(values) - 1


def test_codes_are_the_same_for_dense_and_sparse(small):
    dense, csr = Codes.of(small.X, 4), Codes.of(sparse.csr_array(small.X), 4)
    assert np.array_equal(dense.codes, csr.codes)
    for j, cuts in enumerate(dense.cuts):
        for t, cut in enumerate(cuts):
            assert np.array_equal(dense.above(j, t), small.X[:, j] >= cut)
    assert Codes.of(np.arange(70_000.0)[:, None], "all").codes.dtype == np.int32
    assert np.array_equal(Columns(sparse.csr_array(small.X))[1], small.X[:, 1])


def test_the_best_threshold_is_found_by_trying_all(small, rng):
    codes, p = Codes.of(small.X, "all"), rng.normal(size=small.n_rows)
    for both in (True, False):
        sums, places = codes.best(p, both)
        for j, cuts in enumerate(codes.cuts):
            tried = np.array([p[small.X[:, j] >= cut].sum() for cut in cuts])
            best = np.abs(tried).max() if both else max(tried.max(), 0.0)
            assert abs(sums[j]) == pytest.approx(best)
            assert sums[j] == 0.0 or tried[places[j]] == pytest.approx(sums[j])


def test_scores_are_the_sum_of_the_steps(parts):
    model = gainful.RankBoost(n_rounds=25).fit(parts[0])
    X = parts[2].X
    steps = zip(model.features_, model.thresholds_, model.weights_, strict=True)
    assert model.predict(X) == pytest.approx(sum(w * (X[:, f] >= theta) for f, theta, w in steps))
    assert model.feature_importances_.sum() == pytest.approx(np.abs(model.weights_).sum())


def test_up_only_never_falls_with_a_feature(parts):
    model = gainful.RankBoost(n_rounds=40, directions="up").fit(parts[0])
    assert (model.weights_ > 0).all()
    assert (model.predict(parts[2].X + 0.3) >= model.predict(parts[2].X)).all()


def test_perfect_data_stops_by_itself():
    X = np.tile(np.arange(4.0), 5)[:, None]
    model = gainful.RankBoost(n_rounds=500, n_thresholds="all").fit(
        X, np.tile([0, 0, 1, 1], 5), qid=np.repeat(range(5), 4)
    )
    assert model.n_iter_ < 20
    assert np.isfinite(model.weights_).all()


def test_early_stopping_keeps_the_best_round(parts):
    train, valid, _ = parts
    model = gainful.RankBoost(n_rounds=400, early_stopping=10).fit(train, eval_set=valid)
    validations = [row["validation"] for row in model.history_]
    assert model.n_iter_ < 400
    assert len(model.weights_) == int(np.argmax(validations)) + 1
    assert gainful.metric("ndcg@10")(model.predict(valid), valid) == pytest.approx(max(validations))
