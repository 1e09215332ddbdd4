"""λ of any metric: the change by a swap against brute force over all orders, and what is refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import gainful
from gainful import DataError, ParameterError
from gainful.losses.swaps import can_change

METRICS = [
    "ndcg", "ndcg@3", "ndcg@3(gain=linear, discount=letor)", "ndcg@2(gain=0|1|3|7|15)", "ndcg@4(short=zero)",
    "dcg@4", "p@3", "p@3(divisor=min)", "p@3(divisor=relevant)", "recall@2", "rbp(0.8)", "wta", "map", "map@3",
    "map@3(divisor=all)", "map(relevant=2)", "mrr", "mrr@3", "hit@2", "hit@9", "err", "err@3", "err@3(max_grade=7)",
]  # fmt: skip
WITH_FORMS = ["map@3", "mrr", "hit@2", "err@3"]
N = 6


def brute_force(spec, scores, grades):
    """The mean of |change by a swap| of each pair over the orders: lower grades first among equal scores."""
    measure, n = gainful.metric(spec), len(grades)

    def value(order):
        places = np.empty(n)
        places[list(order)] = np.arange(n)
        return measure.per_query(-places, grades, qid=np.zeros(n, dtype=int))[0]

    ranked = sorted(range(n), key=lambda i: (-scores[i], grades[i]))
    groups = [tuple(one) for _, one in itertools.groupby(ranked, key=lambda i: (scores[i], grades[i]))]
    orders = [sum(each, ()) for each in itertools.product(*map(itertools.permutations, groups))]
    changes = np.zeros((n, n))
    for order in orders:
        before = value(order)
        places = {document: place for place, document in enumerate(order)}
        for i, j in zip(*np.nonzero(grades[:, None] > grades[None, :]), strict=True):
            other = list(order)
            other[places[i]], other[places[j]] = j, i
            changes[i, j] += abs(value(other) - before)
    return changes / len(orders)


def random_queries(spec, n_queries):
    rng = np.random.default_rng(len(spec))
    for number in range(n_queries):
        n = int(rng.integers(2, N + 1))
        real = number % 3 == 0 and "|" not in spec
        grades = rng.random(n) * 4.0 if real else rng.integers(0, 5, n).astype(float)
        yield rng.integers(0, 4, n).astype(float) if number % 2 else rng.normal(size=n), grades


@pytest.mark.parametrize("spec", METRICS)
def test_pairs_count_by_what_their_swap_changes(spec):
    for scores, grades in random_queries(spec, 9):
        changes, apart = brute_force(spec, scores, grades), scores[:, None] - scores[None, :]
        pulls = changes / (1.0 + np.exp(apart))
        value, gradient = gainful.loss("lambda", metric=spec)(scores, grades)
        assert value == pytest.approx((changes * np.log1p(np.exp(-apart))).sum(), abs=1e-12)
        assert gradient == pytest.approx(pulls.sum(axis=0) - pulls.sum(axis=1), abs=1e-12)


@pytest.mark.parametrize("spec", WITH_FORMS)
def test_gradient_and_curvature_with_fixed_weights(spec, rng):
    scores, grades, ends = rng.normal(size=12), rng.integers(0, 4, 12).astype(float), np.array([0, 5, 12])
    loss, step = gainful.loss("lambda", metric=spec, sigma=1.5), 1e-6
    fixed = loss.bind(grades, ends).bind_frozen(scores)

    def at(scores):
        values, gradient = np.empty(2), np.empty(12)
        fixed(scores, 0, 2, values, gradient)
        return values.sum(), gradient

    slopes, bends = np.zeros(12), np.zeros(12)
    loss.bind_newton(grades, ends)(scores, 0, 2, slopes, bends)
    assert slopes == pytest.approx(at(scores)[1], abs=1e-13)
    for i, move in enumerate(np.eye(12) * step):
        up, down = at(scores + move), at(scores - move)
        assert (up[0] - down[0]) / (2 * step) == pytest.approx(slopes[i], abs=1e-8)
        assert (up[1][i] - down[1][i]) / (2 * step) == pytest.approx(bends[i], abs=1e-7)


@pytest.mark.parametrize("spec", WITH_FORMS)
@pytest.mark.parametrize("spread", [1.0, 1e4])
def test_long_lists_and_far_scores(spec, spread, rng):
    """Long lists are ranked by sorting; scores that are far apart have no exponentials."""
    grades = np.zeros(510)
    grades[[7, 200, 400]] = 3.0, 2.0, 1.0
    scores = rng.permutation(510) * spread
    changes, apart = brute_force(spec, scores, grades), scores[:, None] - scores[None, :]
    value, gradient = gainful.loss("lambda", metric=spec)(scores, grades)
    pulls = changes * np.exp(-np.logaddexp(0.0, apart))
    assert value == pytest.approx((changes * np.logaddexp(0.0, -apart)).sum(), rel=1e-10, abs=1e-12)
    assert gradient == pytest.approx(pulls.sum(axis=0) - pulls.sum(axis=1), rel=1e-9, abs=1e-12)


def test_ndcg_as_a_metric_is_the_loss_by_k(rng):
    assert gainful.loss("lambda", metric="ndcg@3") == gainful.loss("lambda(k=3)")
    assert gainful.loss("lambda", metric="ndcg") == gainful.loss("lambda")
    scores, grades = rng.normal(size=9), rng.integers(0, 4, 9).astype(float)
    spelled = gainful.loss("lambda(metric=ndcg@3(short=zero))")  # differs for shorter lists alone, and goes another way
    assert spelled(scores, grades)[0] == pytest.approx(gainful.loss("lambda(k=3)")(scores, grades)[0], rel=1e-13)


def test_as_text():
    loss = gainful.loss("lambda", metric=gainful.metric("map"))
    assert str(loss) == "lambda(metric=map)"
    assert gainful.loss(str(loss)) == loss == gainful.loss("lambda(metric=map(relevant=1))")
    with_conventions = gainful.loss("lambda(metric=map@5(relevant=2), sigma=2)")
    assert gainful.loss(str(with_conventions)) == with_conventions


@pytest.mark.parametrize("spec", ["bpref", "recall", "rprec", lambda scores, grades: 0.0])
def test_other_metrics_are_refused_with_what_to_use(spec):
    with pytest.raises(ParameterError, match=r"metric of lambda must be one of .*map.*coordinate-ascent"):
        gainful.loss("lambda", metric=spec)


@pytest.mark.parametrize("spec", ["lambda(metric=bpref)", "lambda(k=10, metric=map)", "lambda(metrik=map)"])
def test_rankers_refuse_a_setting_with_the_reason_that_the_loss_gives(spec):
    with pytest.raises(gainful.GainfulError) as reason:
        gainful.loss(spec)
    with pytest.raises(ParameterError, match="loss of BoostedRanker: ") as refused:
        gainful.BoostedRanker(loss=spec).fit(gainful.make_artificial(5, seed=0))
    assert str(reason.value) in str(refused.value)


def test_err_of_a_scale_that_rounds_to_certainty_is_refused():
    with pytest.raises(ParameterError, match="err"):
        gainful.loss("lambda(metric=err(max_grade=54))")
    assert gainful.loss("lambda(metric=err(max_grade=50))") is not None


def test_a_cut_off_given_twice_is_refused():
    with pytest.raises(ParameterError, match=r"k of the loss lambda is short for metric='ndcg@5'.*leave one"):
        gainful.loss("lambda", metric="map", k=5)


def test_grades_above_the_scale_are_refused():
    with pytest.raises(DataError, match=r"at most max_grade=4, one is 7; write err\(max_grade=7\)"):
        gainful.loss("lambda(metric=err@5)")([0.0, 1.0], [7, 0])
    with pytest.raises(DataError, match=r"are for the grades 0 to 2"):
        gainful.loss("lambda", metric="ndcg(gain=0|1|3)")([0.0, 1.0], [3, 0])


@pytest.mark.parametrize("name", ["linear", "boosted", "neural"])
def test_rankers_learn_by_any_metric(name):
    data = gainful.make_artificial(60, n_docs=12, n_features=6, seed=3)
    ranker = gainful.ranker(name, loss="lambda(metric=map(relevant=3))")
    found = gainful.metric("map(relevant=3)")(ranker.fit(data).predict(data.X), data)
    assert found > gainful.metric("map(relevant=3)")(np.zeros(data.n_rows), data) + 0.1


@pytest.mark.parametrize("spec", [*METRICS, "recall@4", "hit@4(relevant=2)", "map(relevant=4)"])
def test_whether_any_swap_changes_a_metric(spec):
    measure = gainful.metric(spec)
    for _, grades in random_queries(spec, 12):
        n = len(grades)
        every = itertools.permutations(range(n))
        values = [measure.per_query(np.array(order), grades, qid=np.zeros(n, dtype=int))[0] for order in every]
        assert can_change(spec, grades, np.array([0, n])) == (np.ptp(values) > 1e-12)


@pytest.mark.filterwarnings("ignore:.*(next to no gradient|no tree has a split|has learned nothing)")  # said as well
@pytest.mark.parametrize("name", ["linear", "boosted", "neural"])
def test_rankers_warn_of_a_metric_that_no_swap_changes(name):
    data = gainful.make_artificial(8, n_docs=10, n_features=3, seed=0)
    idle = gainful.ranker(name, loss="lambda(metric=recall@10)")
    with pytest.warns(gainful.DataWarning, match=r"no swap of two documents changes recall@10.*learns nothing"):
        idle.fit(data)
