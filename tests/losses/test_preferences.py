"""Losses on preferences: against sums over explicit pairs, finite differences, and the same losses on grades."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gainful
from gainful import RankingData
from gainful.compute.query_loop import gradient_and_curvature, values_and_gradient
from gainful.errors import ParameterError
from gainful.losses.preferences import PairFill, WeighedPairs
from graded_pairs import pairs_of_grades

COSTS = {
    "pairwise-hinge": lambda d: max(0.0, 1.0 - d),
    "pairwise-squared-hinge": lambda d: max(0.0, 1.0 - d) ** 2,
    "ranknet": lambda d: math.log1p(math.exp(-d)),
    "ranknet(sigma=2.5)": lambda d: math.log1p(math.exp(-2.5 * d)),
    "weighted-huber": lambda d: -4.0 * d if d < -1.0 else max(0.0, 1.0 - d) ** 2,
}
SUMS = [name for name in COSTS if name != "weighted-huber"]  # whose pairs of grades all weigh the same


def random_data(seed, *, weighted=False):
    """Queries of 1 to 8 documents with random pairs: repeated, contradictory, in cycles; some queries have none."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 9, 15)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    pairs = []
    for a, n in zip(offsets[:-1].tolist(), sizes.tolist(), strict=True):
        for _ in range(int(rng.integers(0, 12)) if n > 1 else 0):
            i, j = rng.choice(n, 2, replace=False)
            pairs.append((a + i, a + j, rng.random() + 0.1))
    weights = rng.random(offsets[-1]) if weighted else None
    qid = np.repeat(np.arange(15), sizes)
    data = RankingData.from_rows(rng.normal(size=(offsets[-1], 3)), qid=qid, pairs=pairs, sample_weight=weights)
    return data, pairs, rng.normal(size=offsets[-1]) * 2.0


def value_by_definition(cost, data, pairs, scores, q):
    """The weighted mean of the costs of a query's pairs; documents multiply the weights of their pairs."""
    own = np.ones(data.n_rows) if data.relative_weights is None else data.relative_weights
    inside = [(i, j, w * own[i] * own[j]) for i, j, w in pairs if data.offsets[q] <= i < data.offsets[q + 1]]
    total = sum(w for *_, w in inside)
    return sum(w * cost(scores[i] - scores[j]) for i, j, w in inside) / total if inside else 0.0


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", COSTS)
def test_the_value_is_the_weighted_mean_over_the_pairs(name, weighted):
    for seed in range(5):
        data, pairs, scores = random_data(seed, weighted=weighted)
        values, _ = values_and_gradient(gainful.loss(name).bind_to(data), data.offsets, scores)
        expected = [value_by_definition(COSTS[name], data, pairs, scores, q) for q in range(data.n_queries)]
        assert values == pytest.approx(expected, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("name", COSTS)
def test_the_gradient_is_the_derivative_of_the_value(name):
    data, _, scores = random_data(7, weighted=True)
    fill, step = gainful.loss(name).bind_to(data), 1e-6
    _, gradient = values_and_gradient(fill, data.offsets, scores)
    for row in range(data.n_rows):
        moved = [scores + sign * step * (np.arange(data.n_rows) == row) for sign in (1.0, -1.0)]
        up, down = (values_and_gradient(fill, data.offsets, s)[0].sum() for s in moved)
        assert gradient[row] == pytest.approx((up - down) / (2 * step), abs=1e-7)


@pytest.mark.parametrize("name", [name for name in COSTS if name != "pairwise-hinge"])
def test_the_curvature_is_the_derivative_of_the_gradient(name):
    data, _, scores = random_data(8, weighted=True)
    fill, step = gainful.loss(name).bind_newton_judgments(data), 1e-6
    gradient, curvature = gradient_and_curvature(fill, data.offsets, scores)
    assert gradient == pytest.approx(values_and_gradient(gainful.loss(name).bind_to(data), data.offsets, scores)[1])
    for row in range(data.n_rows):
        moved = [scores + sign * step * (np.arange(data.n_rows) == row) for sign in (1.0, -1.0)]
        up, down = (gradient_and_curvature(fill, data.offsets, s)[0][row] for s in moved)
        assert curvature[row] == pytest.approx((up - down) / (2 * step), abs=1e-6)


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("weighted", [False, True])
def test_all_pairs_of_the_grades_give_the_loss_on_grades(name, weighted):
    graded = gainful.make_artificial(30, n_docs=12, n_features=3, seed=5)
    if weighted:
        graded = graded.replace(document_weights=np.random.default_rng(2).random(graded.n_rows))
    data = graded.with_pairs(pairs_of_grades(graded.y, graded.offsets))
    chosen, scores = gainful.loss(name), np.random.default_rng(1).normal(size=data.n_rows)
    pairs, grades = (values_and_gradient(chosen.bind_to(one), one.offsets, scores) for one in (data, graded))
    for ours, theirs in zip(pairs, grades, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-10, abs=1e-13)
    if not chosen.entry.newton:
        assert chosen.bind_newton_judgments(data) is None
        return
    pairs, grades = (
        gradient_and_curvature(chosen.bind_newton_judgments(one), one.offsets, scores) for one in (data, graded)
    )
    for ours, theirs in zip(pairs, grades, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-10, abs=1e-13)


def test_the_exponential_cost_stays_finite_however_far_apart_scores_are():
    data, _, scores = random_data(3)
    fill = PairFill("exponential", 1.0, WeighedPairs.mean_of(data))
    values, gradient = values_and_gradient(fill, data.offsets, scores * 1e6)
    assert np.isfinite(values).all()
    assert np.isfinite(gradient).all()


def test_scores_far_apart_keep_logistic_costs_exact():
    data = RankingData.from_rows(np.eye(2), qid=[1, 1], pairs=[(0, 1)])
    for lead in (-1e6, -800.0, 800.0, 1e6):
        values, gradient = values_and_gradient(gainful.loss("ranknet").bind_to(data), data.offsets, np.array([lead, 0]))
        assert values.tolist() == [max(0.0, -lead)]
        assert gradient.tolist() == ([-1.0, 1.0] if lead < 0 else [0.0, 0.0])


def test_other_losses_say_that_they_need_grades():
    data, *_ = random_data(1)
    assert {name for name, entry in gainful.LOSSES.items() if entry.preferences} == {
        "pairwise-hinge", "pairwise-squared-hinge", "ranknet", "weighted-huber"
    }  # fmt: skip
    with pytest.raises(ParameterError, match="the loss listnet needs grades, but the data has preferences"):
        gainful.loss("listnet").bind_to(data)
