"""Ranges: what is drawn lies in them, evenly; what is written reads back."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gainful
from gainful import IntRange, ParameterError, Range, Values
from gainful.parameters.space import parse_dimension
from gainful.tuning.search import Search, grid, sobol_draw

DIMENSIONS = [
    Range(0.0, 2.0),
    Range(1e-3, 1e3, log=True),
    IntRange(1, 5),
    IntRange(3, 300, log=True),
    Values(1, "a", None),
]


@pytest.mark.parametrize("dimension", DIMENSIONS, ids=str)
@given(u=st.floats(0, 1, exclude_max=True), n=st.integers(2, 9))
def test_draws_and_points_lie_inside(dimension, u, n):
    values = [dimension.at(u), *dimension.points(n)]
    if isinstance(dimension, Values):
        assert all(value in dimension.of for value in values)
    else:
        assert all(dimension.low <= value <= dimension.high for value in values)
        assert {dimension.low, dimension.high} <= set(dimension.points(n))


def test_draws_are_uniform_or_uniform_in_the_logarithm():
    shares = (np.arange(10_000) + 0.5) / 10_000
    assert np.mean([Range(0.0, 2.0).at(u) < 0.5 for u in shares]) == pytest.approx(0.25, abs=1e-3)
    assert np.mean([Range(1e-2, 1e2, log=True).at(u) < 1e-1 for u in shares]) == pytest.approx(0.25, abs=1e-3)
    assert np.bincount([IntRange(1, 5).at(u) for u in shares])[1:].tolist() == [2000] * 5
    assert np.mean([IntRange(2, 5).at(u) == 5 for u in shares]) == pytest.approx(0.25, abs=1e-3)


def test_every_beginning_of_the_sequence_covers_a_dimension():
    """With n draws no gap on the logarithmic scale is wider than 4/n; independent draws leave about ln(n)/n."""
    space = {"C": Range(1e-4, 1e4, log=True)}
    for seed in range(5):
        for n in (5, 12, 40):
            places = np.sort([math.log10(sobol_draw(space, seed, i)["C"]) / 8 + 0.5 for i in range(1, n + 1)])
            assert np.diff(np.concatenate([[0.0], places, [1.0]])).max() < 4 / n


def test_draws_depend_on_the_seed_and_the_number_alone():
    space = {"a": Range(0, 1), "b": IntRange(0, 9)}
    search = Search("random", space, {"a": 5.0, "b": 3}, seed=4)
    assert search.propose(0) == {"a": 5.0, "b": 3}
    assert search.propose(7) == search.propose(7, [({"a": 0.1, "b": 1}, 0.9)]) == sobol_draw(space, 4, 7)
    assert sobol_draw(space, 5, 7) != sobol_draw(space, 4, 7)


def test_grids_keep_to_the_budget_and_begin_with_what_stands():
    space = {"C": Range(0.01, 100, log=True), "loss": Values("a", "b"), "n": IntRange(1, 3)}
    first = {"C": 7.0, "loss": "a", "n": 1}
    for most in range(1, 60):
        rows = grid(space, first, most)
        assert rows[0] == first
        assert len(rows) <= most + (most > 1)  # first may be none of the combinations
        assert len({str(row) for row in rows}) == len(rows)
    assert [row["C"] for row in grid({"C": space["C"]}, {"C": 1.0}, 5)] == [1.0, 0.01, 0.1, 10.0, 100.0]
    assert len(grid(space, first, 13)) == 13  # 2 × 2 × 3 and what stands


def test_an_endless_grid_is_refused():
    with pytest.raises(ParameterError, match="a grid needs a number of trials"):
        Search("grid", {}, {})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("C=0.01..100:log", Range(0.01, 100.0, log=True)),
        ("C=1..5", Range(1.0, 5.0)),
        ("max_iter=10..99", IntRange(10, 99)),
        ("loss=hinge,squared-hinge", Values("hinge", "squared-hinge")),
        ("max_iter=10,20", Values(10, 20)),
    ],
)
def test_dimensions_are_read_as_they_are_written(text, expected):
    name, dimension = parse_dimension("ranksvm", gainful.RankSVM.parameters, text)
    assert dimension == expected
    assert parse_dimension("ranksvm", gainful.RankSVM.parameters, f"{name}={dimension}") == (name, dimension)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("C", "a dimension must read NAME=LOW..HIGH"),
        ("D=1..2", "ranksvm has no parameter 'D'"),
        ("C=a..2", "C of --space must be LOW..HIGH"),
        ("C=1..2:lg", "C of --space must be LOW..HIGH"),
        ("C=2..1", "low < high"),
        ("C=0..1:log", "low of Range must be a number > 0 if log=True, was 0"),
        ("C=-1..1", "C of ranksvm must be a number > 0"),
        ("max_iter=1..2.5", "max_iter of ranksvm must be an integer ≥ 1, was 2.5"),
        ("loss=hinge,hing", "loss of ranksvm must be 'hinge'"),
        ("max_iter=1,x", "max_iter of ranksvm must be an integer"),
    ],
)
def test_bad_dimensions_are_refused_in_words(text, message):
    with pytest.raises(ParameterError, match=message):
        parse_dimension("ranksvm", gainful.RankSVM.parameters, text)


def test_values_that_cannot_be_written_down_are_refused():
    with pytest.raises(ParameterError, match="of of Values must be"):
        Values([1, 2])


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 6])
def test_draws_are_spread_evenly_in_any_number_of_dimensions(d):
    """Every dimension by itself is as even as can be; together they come nearer to uniform than independent draws do.

    Nearness is the centred L2 discrepancy, whose mean over independent draws is known by simulation.
    """
    from scipy.stats import qmc

    space = {f"x{i}": Range(0.0, 1.0) for i in range(d)}
    independent = np.mean([qmc.discrepancy(np.random.default_rng(s).random((16, d))) for s in range(20)])
    for seed in range(5):
        points = np.array([list(sobol_draw(space, seed, i).values()) for i in range(1, 17)])
        for column in points.T:
            assert sorted(np.minimum(15, (16 * column).astype(int)).tolist()) == list(range(16))
        assert qmc.discrepancy(points) < 0.6 * independent


def test_no_ranker_searches_what_changes_nothing():
    from gainful.rankers.registry import ranker
    from gainful.tuning.tune import search_space

    def searched(name, **settings):
        return set(search_space(ranker(name, **settings), None, ()))

    assert searched("svmmap") == {"C"}
    assert "position_weights" in searched("structured-svm")
    assert "tau" in searched("gbrank")
    assert {"alpha", "k", "learning_rate"} <= searched("shf-sdcg") - {"regression"} == searched("shf-sdcg")
    assert "regression" in searched("reg-shf-sdcg")
    assert searched("ndcg-reduction") == {"max_pairs"}
    assert searched("rankmm-1") == searched("rankmm-2", solver="stochastic") == {"C"}
    assert searched("rankmm-2") == searched("rankmm-3") == {"solver", "C"}  # every C has the same minimum


def test_nets_without_hidden_units_have_no_dropout_to_tune():
    pytest.importorskip("torch")
    from gainful.tuning.tune import search_space

    assert "dropout" in search_space(gainful.NeuralRanker(), None, ())
    assert "dropout" not in search_space(gainful.NeuralRanker(hidden=()), None, ())


def test_every_space_lies_within_what_its_ranker_takes():
    from gainful.rankers.registry import RANKERS, ranker

    for name, entry in RANKERS.items():
        if entry.installed:
            model = ranker(name)
            for parameter, dimension in model._search_space().items():
                assert all(model.parameters[parameter].accepts(v) for v in dimension.points(3)), (name, parameter)
                assert dimension.why, (name, parameter)
