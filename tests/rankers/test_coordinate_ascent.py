"""Coordinate ascent: the measure along a line, a measure that never falls, and the optimum of two features."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gainful
from gainful import RankingData
from gainful.rankers.coordinate_ascent import Ascent
from gainful.rankers.line_measure import LineMeasure

MEASURES = [
    "ndcg@3",
    "ndcg",
    "ndcg@10(gain=linear, ties=input)",
    "ndcg@4(convention=letor4)",
    "ndcg@2(gain=0|1|5|6)",
    "ndcg@2(empty=1, ties=worst)",
    "dcg@5(empty=skip)",
    "p@3",
    "p@9(divisor=min)",
    "wta(ties=worst)",
    "rbp(0.7)",
    "map",
    "map(ties=input)",
    "map(ties=worst, relevant=2)",
    "map@4",
    "map@4(divisor=all, empty=skip)",
    "mrr",
    "err@5",
    "ndcg@10(ties=docid)",
]


def drawn(seed, n_docs, coarse):
    """Queries of many shapes; coarse scores tie often."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, n_docs + 1, 7)
    n = int(counts.sum())
    y = rng.integers(0, 4, n).astype(float)
    y[: counts[0]] = 0.0  # nothing relevant
    draw = (lambda: rng.integers(0, 4, n).astype(float)) if coarse else (lambda: rng.normal(size=n))
    weights = None if seed % 2 else np.repeat(rng.random(7) + 0.1, counts)
    data = RankingData.from_rows(np.zeros((n, 1)), y, np.repeat(range(7), counts), sample_weight=weights)
    return data, draw(), draw()


@pytest.mark.parametrize("name", MEASURES)
@settings(max_examples=12)
@given(seed=st.integers(0, 10_000), n_docs=st.sampled_from([3, 12, 60]), coarse=st.booleans())
def test_along_a_line_is_the_metric_itself(name, seed, n_docs, coarse):
    data, s, x = drawn(seed, n_docs, coarse)
    measure = gainful.metric(name)
    steps = np.array([-40.0, -3.0, -1.0, -0.5, 0.0, 0.25, 1.0, 2.0, 100.0])
    expected = [measure(s + t * x, data) for t in steps]
    assert LineMeasure(data, measure).along(s, x, steps) == pytest.approx(expected, abs=1e-12)


def test_long_lists_and_many_relevant_documents(rng):
    n = 3000
    data = RankingData.from_rows(np.zeros((2 * n, 1)), rng.integers(0, 3, 2 * n), np.repeat([1, 2], n))
    s, x, steps = rng.normal(size=2 * n), rng.normal(size=2 * n), np.array([-9.0, -0.1, 0.0, 0.2, 50.0])
    for name in ("map", "ndcg@50", "ndcg", "ndcg@5000"):
        measure = gainful.metric(name)
        expected = [measure(s + t * x, data) for t in steps]
        assert LineMeasure(data, measure).along(s, x, steps) == pytest.approx(expected, abs=1e-12)


def test_large_grades_do_not_overflow(rng):
    data = RankingData.from_rows(np.zeros((8, 1)), [1500, 1499, 0, 3, 900, 1500, 2, 1], [1, 1, 1, 1, 2, 2, 2, 2])
    s = rng.normal(size=8)
    line = LineMeasure(data, gainful.metric("ndcg@3"))
    assert line.along(s, s, np.array([0.0]))[0] == pytest.approx(gainful.metric("ndcg@3")(s, data))


@pytest.mark.parametrize("name", ["ndcg@10", "map", "mrr"])
def test_the_training_measure_never_falls(parts, name):
    train = parts[0]
    model = gainful.CoordinateAscent(name, n_restarts=3, tol=0.0, n_sweeps=8).fit(train)
    for restart in range(3):
        values = [row["objective"] for row in model.history_ if row["restart"] == restart]
        assert values == sorted(values)
    best = max(row["objective"] for row in model.history_)
    assert gainful.metric(name)(model.predict(train), train) == pytest.approx(best, abs=1e-9)


def test_every_move_is_an_ascent(parts, rng):
    train, measure = parts[0], gainful.metric("ndcg@5")
    ascent = Ascent(train, measure, gainful.CoordinateAscent()._steps(), train.X.std(axis=0))
    ascent.start(np.ones(train.n_features))
    value = ascent.value
    for j in range(train.n_features):
        after = ascent._move(j, value)
        assert after >= value
        assert measure(train.X @ ascent.coef(), train) == pytest.approx(after, abs=1e-9)
        assert np.abs(ascent.coef() * train.X.std(axis=0)).sum() == pytest.approx(1.0)
        value = after


@pytest.mark.parametrize("name", ["ndcg@5", "map"])
def test_two_features_reach_the_optimum_of_a_grid(name):
    data = gainful.make_artificial(15, n_docs=12, n_features=2, seed=8)
    measure = gainful.metric(name)
    angles = np.linspace(0, 2 * np.pi, 4001)
    grid = max(measure(data.X @ np.array([np.cos(a), np.sin(a)]), data) for a in angles)
    model = gainful.CoordinateAscent(name, n_restarts=10, tol=0.0, step=0.001, growth=1.3, n_steps=40).fit(data)
    assert measure(model.predict(data), data) >= grid - 0.003


def test_units_of_features_do_not_matter(parts):
    train, _, test = parts
    units = 2.0 ** np.arange(-20, 28, 4)
    one = gainful.CoordinateAscent(n_restarts=2).fit(train)
    other = gainful.CoordinateAscent(n_restarts=2).fit(train.X * units, train.y, qid=train.qid)
    assert other.coef_ * units == pytest.approx(one.coef_, rel=1e-6)
    assert np.allclose(other.predict(test.X * units), one.predict(test.X))


@pytest.mark.filterwarnings("ignore::gainful.RedundantFeaturesWarning")
def test_features_that_never_vary_within_a_query_get_no_weight(parts):
    train = parts[0]
    of_query = np.repeat(np.arange(train.n_queries) % 7, train.counts)
    X = np.column_stack([train.X[:, :3], of_query, np.ones(train.n_rows)])
    model = gainful.CoordinateAscent(n_restarts=1).fit(X, train.y, qid=train.qid)
    assert model.coef_[3:].tolist() == [0.0, 0.0]


def test_validation_chooses_among_restarts_and_sweeps(parts):
    train, valid, _ = parts
    model = gainful.CoordinateAscent("map", n_restarts=4, eval_metric="ndcg@5").fit(train, eval_set=valid)
    best = max(row["validation"] for row in model.history_)
    assert gainful.metric("ndcg@5")(model.predict(valid), valid) == pytest.approx(best)


def test_random_starts_differ_by_seed(parts):
    coefs = [
        gainful.CoordinateAscent(init="random", n_restarts=1, random_state=seed).fit(parts[0]).coef_ for seed in (1, 2)
    ]
    assert not np.allclose(*coefs)


@pytest.mark.parametrize("name", ["coordinate-ascent", "adarank-map"])
def test_validation_data_far_beyond_the_training_data_is_not_an_overflow_warning(name, rng):
    X, y = rng.uniform(-1, 1, size=(200, 4)), rng.integers(0, 3, 200)
    far = (X * [1e149, 1, 1, 1], y, np.repeat(np.arange(90, 100), 20))
    model = gainful.ranker(name, **({"n_restarts": 2, "n_sweeps": 2} if "ascent" in name else {}))
    with pytest.warns(gainful.DataWarning, match="feature 1 has no value beyond"):
        model.fit(X * [1e-160, 1, 1, 1], y, qid=np.repeat(np.arange(10), 20), eval_set=far)
    assert np.isfinite(model.coef_).all()
