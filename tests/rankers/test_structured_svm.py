"""The structured SVM against its objective written out over all rankings."""

from __future__ import annotations

import warnings
from functools import cache, partial
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import gainful
from gainful import ParameterError, RankingData
from gainful.linear.risk import LinearRisk
from gainful.losses.structured import RankingProblem, fill_bound, violations
from gainful.rankers import structured_svm
from gainful.solvers.certificate import ConvergenceWarning

StructuredSVM = partial(gainful.StructuredSVM, scale=None)  # the objectives of the paper, on the features as given

# -- the definitions ---------------------------------------------------------------------------------------------------


@cache
def all_ranks(n):
    """(n!, n): the rank, from 0, of every document in every ranking."""
    return np.array(list(permutations(range(n))))


class Ndcg:
    """1 − NDCG@k and Ψ = Σ A(rank) x. ``A`` is a function of the rank (from 1) and k."""

    def __init__(self, k=None, gain="exp2", discount="log2", A=lambda r, k: k + 1.0 - r):
        self.k, self.gain, self.discount, self.A = k, gain, discount, A

    @property
    def text(self):
        table = self.gain if isinstance(self.gain, str) else "|".join(map(str, self.gain))
        return f"ndcg{'' if self.k is None else f'@{self.k}'}(gain={table}, discount={self.discount})"

    def gains(self, grades):
        if self.gain == "exp2":
            return 2.0 ** np.asarray(grades) - 1.0
        return np.asarray(grades, dtype=float) if self.gain == "linear" else np.array(self.gain)[grades.astype(int)]

    def discounts(self, n, longest):
        r = np.arange(1, n + 1)
        D = 1 / np.log2(1 + r) if self.discount == "log2" else 1 / np.maximum(1, np.log2(r))
        return np.where(r <= (self.k or longest), D, 0.0)

    def query(self, grades, longest):
        """(Δ (n!,), weight of each document in Ψ (n!, n), the weights of all perfect rankings), or None."""
        ranks, gains = all_ranks(len(grades)), self.gains(grades)
        D = self.discounts(len(grades), longest)
        best = np.sort(gains)[::-1] @ D
        if best == 0 or len(set(gains)) == 1:
            return None
        k = self.k or longest
        A = np.array([self.A(r, k) if r <= k else 0.0 for r in range(1, len(grades) + 1)])
        falling = np.argsort(ranks, axis=1)
        perfect = (np.diff(gains[falling], axis=1) <= 0).all(axis=1)
        return 1 - D[ranks] @ gains / best, A[ranks], A[ranks[perfect]]


class AveragePrecision:
    """1 − AP and Ψ = Σ ±(x_relevant − x_other) / (number of such pairs)."""

    text = "map"

    def query(self, grades, longest):
        relevant = np.asarray(grades) >= 1
        R, N = relevant.sum(), (~relevant).sum()
        if R == 0 or N == 0:
            return None
        ranks = all_ranks(len(grades))
        hits = relevant[np.argsort(ranks, axis=1)]
        precision = np.cumsum(hits, axis=1) / np.arange(1, len(grades) + 1)
        weights = np.zeros(ranks.shape)
        for i, j in product(np.flatnonzero(relevant), np.flatnonzero(~relevant)):
            sign = np.where(ranks[:, i] < ranks[:, j], 1.0, -1.0) / (R * N)
            weights[:, i] += sign
            weights[:, j] -= sign
        return 1 - (precision * hits).sum(axis=1) / R, weights, np.where(relevant, 1 / R, -1 / N)[None]


class Written:
    """The objective of a small problem, with nothing left out."""

    def __init__(self, data, measure):
        longest = int(data.counts.max())
        weights = np.ones(data.n_queries) if data.query_weights is None else np.asarray(data.query_weights)
        self.omega = weights / weights.sum()
        self.X = [np.asarray(data.X[a:b], dtype=float) for a, b in zip(data.offsets, data.offsets[1:], strict=False)]
        self.queries = [
            measure.query(data.y[a:b], longest) for a, b in zip(data.offsets, data.offsets[1:], strict=False)
        ]

    def losses(self, w, bound="convex", targets=None):
        """The loss of each query; ``targets`` picks a perfect ranking for each, else their mean counts."""
        found = np.zeros(len(self.X))
        for q, (X, query) in enumerate(zip(self.X, self.queries, strict=True)):
            if query is None:
                continue
            delta, weights, perfect = query
            target = perfect.mean(axis=0) if targets is None else perfect[targets[q]]
            s = X @ w
            values = weights @ s
            if bound == "convex":
                found[q] = (delta + values - target @ s).max()
            elif bound == "tight":
                found[q] = (delta + values).max() - values.max()
            else:
                found[q] = max(0.0, (delta * (1 + values - target @ s)).max())
        return found

    def objective(self, w, C, bound="convex", targets=None, w0=0.0):
        away = w - w0
        return 0.5 * float(away @ away) + C * float(self.omega @ self.losses(w, bound, targets))

    def minimum(self, C, start):
        """Of the convex objective, by a general solver on the constraints of all rankings."""
        active = [q for q, query in enumerate(self.queries) if query is not None]
        if not active:
            return 0.0
        d, m = len(start), len(active)
        V = np.vstack([(self.queries[q][2].mean(axis=0) - self.queries[q][1]) @ self.X[q] for q in active])
        b = np.concatenate([self.queries[q][0] for q in active])
        owner = np.repeat(np.arange(m), [len(self.queries[q][0]) for q in active])
        rows, unit = np.unique(np.column_stack([V, b, owner]).round(12), axis=0), 1 / max(C, 1.0)
        A = np.hstack([rows[:, :d], np.eye(m)[rows[:, -1].astype(int)]])
        cost = unit * C * self.omega[active]
        result = minimize(
            lambda x: 0.5 * unit * x[:d] @ x[:d] + cost @ x[d:],
            np.concatenate([start, self.losses(start)[active]]),
            jac=lambda x: np.concatenate([unit * x[:d], cost]),
            constraints={"type": "ineq", "fun": lambda x: A @ x - rows[:, d], "jac": lambda x: A},
            method="SLSQP",
            options={"maxiter": 300, "ftol": 1e-14},
        )
        return min(self.objective(result.x[:d], C), self.objective(start, C))


def problem(seed, m=3, n=5, d=3, n_grades=4, weights=False, scale=1.0):
    """m queries of 1…n documents (n for the first), normal features and grades that lean on them."""
    rng = np.random.default_rng(seed)
    counts = np.append(n, rng.integers(1, n + 1, m - 1))
    X = rng.normal(size=(counts.sum(), d)) * scale
    noise = X[:, 0] / scale + rng.normal(size=len(X))
    y = np.clip(np.round((noise + 2) * n_grades / 4), 0, n_grades - 1)
    qid = np.repeat(np.arange(m), counts)
    sample_weight = np.repeat(rng.uniform(0.2, 3, m), counts) if weights else None
    return RankingData.from_rows(X, y, qid, sample_weight=sample_weight)


FAMILIES = {
    "linear": lambda r, k: k + 1.0 - r,
    "sqrt": lambda r, k: r**-0.5,
    "discount": lambda r, k: 1 / np.log2(1 + r),
}
ARRAY = [2.0, 1.5, 1.5, 0.25]


def position_weights(name):
    """What the estimator is given, and A(r, k)."""
    if name == "array":
        return ARRAY, lambda r, k: ARRAY[r - 1] if r <= len(ARRAY) else 0.0
    if name == "callable":
        return (lambda r: np.exp(-r / 3)), lambda r, k: np.exp(-r / 3)
    return name, FAMILIES[name]


settings_of_ndcg = st.fixed_dictionaries(
    {
        "k": st.sampled_from([1, 2, 3, 5, 6, 9, None]),
        "gain": st.sampled_from(["exp2", "linear", (0, 0.5, 0.5, 3, 8)]),
        "discount": st.sampled_from(["log2", "letor"]),
        "A": st.sampled_from([*FAMILIES, "array", "callable"]),
    }
)
problems = st.builds(
    problem,
    seed=st.integers(0, 10**6),
    m=st.integers(1, 4),
    n=st.integers(2, 6),
    d=st.integers(2, 4),
    n_grades=st.integers(3, 5),
    weights=st.booleans(),
)


def check_certificate(model, written, C, tol):
    """The primal value is the objective, and the dual value a lower bound within the tolerance."""
    found = model.certificate_
    assert found.primal == pytest.approx(written.objective(model.coef_, C), rel=1e-9, abs=1e-12)
    lowest = written.minimum(C, model.coef_)
    assert found.dual <= lowest * (1 + 1e-9) + 1e-12
    assert lowest <= found.primal * (1 + 1e-9) + 1e-12
    assert found.relative_gap <= tol


# -- the convex bound --------------------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(problems, settings_of_ndcg, st.sampled_from([0.01, 1.0, 30.0]), st.sampled_from(["bundle", "cutting_plane"]))
@pytest.mark.filterwarnings("ignore:no query has rows of two:gainful.DataWarning")
def test_certificate_is_that_of_the_objective_written_out(data, of, C, solver):
    given_weights, A = position_weights(of["A"])
    measure = Ndcg(of["k"], of["gain"], of["discount"], A)
    model = StructuredSVM(measure.text, C=C, position_weights=given_weights, solver=solver, tol=1e-4).fit(data)
    check_certificate(model, Written(data, measure), C, 1e-4)


@settings(max_examples=30)
@given(problems, st.sampled_from([0.01, 1.0, 30.0, 1e4]), st.sampled_from(["bundle", "cutting_plane"]))
@pytest.mark.filterwarnings("ignore:no query has rows of two:gainful.DataWarning")
def test_svmmap_certificate_is_that_of_the_objective_written_out(data, C, solver):
    model = StructuredSVM("map", C=C, solver=solver, tol=1e-4).fit(data)
    check_certificate(model, Written(data, AveragePrecision()), C, 1e-4)


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0, 1e5])
@pytest.mark.parametrize("solver", ["bundle", "cutting_plane"])
@pytest.mark.parametrize("measure", [Ndcg(3), AveragePrecision()], ids=["ndcg", "map"])
def test_certified_for_any_weight_of_the_loss(measure, solver, C):
    for seed in range(4):
        data = problem(seed, m=4, n=6, d=4)
        model = StructuredSVM(measure.text, C=C, solver=solver, tol=1e-4).fit(data)
        check_certificate(model, Written(data, measure), C, 1e-4)


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(2, 5), st.sampled_from([1, 2, 4]), st.integers(0, 5))
@pytest.mark.filterwarnings("ignore:no query has rows of two:gainful.DataWarning")
def test_random_ties_take_one_perfect_ranking(seed, n, k, random_state):
    data, measure, C = problem(seed, m=2, n=n, n_grades=3), Ndcg(k), 2.0
    model = StructuredSVM(measure.text, C=C, ties="random", random_state=random_state, tol=1e-4).fit(data)
    written = Written(data, measure)
    choices = [range(1 if query is None else len(query[2])) for query in written.queries]
    values = [written.objective(model.coef_, C, targets=targets) for targets in product(*choices)]
    assert np.abs(np.array(values) - model.certificate_.primal).min() <= 1e-9 * model.certificate_.primal


def test_random_ties_follow_the_seed():
    data = problem(3, m=6, n=6, n_grades=2)
    fits = [StructuredSVM("ndcg@3", C=5.0, ties="random", random_state=seed).fit(data).coef_ for seed in (0, 0, 1)]
    assert np.array_equal(fits[0], fits[1])
    assert not np.allclose(fits[0], fits[2])


@pytest.mark.filterwarnings("ignore:subgradient descent stopped")  # it says so where it ends on a kink
@pytest.mark.parametrize("C", [0.1, 3.0, 50.0])
@pytest.mark.parametrize("measure", [Ndcg(3), AveragePrecision()], ids=["ndcg", "map"])
def test_solvers_agree(measure, C):
    for seed in range(5):
        data = problem(seed, m=6, n=6, d=3)
        exact, planes, descent, conjugate = (
            StructuredSVM(measure.text, C=C, tol=1e-5, **of).fit(data)
            for of in (
                {},
                {"solver": "cutting_plane"},
                {"solver": "subgradient"},
                {"solver": "subgradient", "conjugate": True},
            )
        )
        assert planes.certificate_.primal == pytest.approx(exact.certificate_.primal, rel=2e-5)
        assert np.allclose(planes.coef_, exact.coef_, atol=0.01 * np.sqrt(exact.certificate_.primal))
        written = Written(data, measure)
        for model in (descent, conjugate):
            found = model.certificate_
            assert found.primal == pytest.approx(written.objective(model.coef_, C), rel=1e-9)
            assert found.dual <= exact.certificate_.primal * (1 + 1e-9)
            assert exact.certificate_.dual <= found.primal * (1 + 1e-9)
            if C <= 3:  # where the queries can be satisfied, a large C leads descent to a kink far from the minimum
                assert found.primal <= 1.05 * exact.certificate_.primal


@pytest.mark.parametrize(
    "tricks",
    [
        {"schedule": "query"},
        {"schedule": 2},
        {"drop_inactive": False},
        {"active_set": False},
        {"single_variable_update": False},
        {"schedule": "query", "single_variable_update": False},
    ],
    ids=lambda tricks: ",".join(f"{name}={value}" for name, value in tricks.items()),
)
def test_tricks_of_cutting_planes_change_no_optimum(tricks):
    data, measure = problem(1, m=5, n=6), Ndcg(3)
    model = StructuredSVM(measure.text, C=20.0, solver="cutting_plane", tol=1e-4, **tricks).fit(data)
    check_certificate(model, Written(data, measure), 20.0, 1e-4)


@settings(max_examples=20)
@given(problems, settings_of_ndcg)
@pytest.mark.filterwarnings("ignore:no query has rows of two:gainful.DataWarning")
def test_loss_is_an_upper_bound_of_one_minus_the_measure(data, of):
    given_weights, A = position_weights(of["A"])
    measure = Ndcg(of["k"], of["gain"], of["discount"], A)
    model = StructuredSVM(measure.text, C=3.0, position_weights=given_weights).fit(data)
    values = gainful.metric(measure.text, ties="worst").per_query(model.predict(data), data)
    active = np.array([query is not None for query in Written(data, measure).queries])
    losses = Written(data, measure).losses(model.coef_)
    assert (losses[active] >= (1 - values)[active] - 1e-9).all()


def test_weights_repeat_queries():
    data = problem(5, m=3, n=5)
    twice = np.concatenate([np.arange(data.n_rows), np.arange(data.offsets[1])])
    repeated = RankingData.from_rows(
        data.X[twice], data.y[twice], np.concatenate([data.qid, np.full(data.offsets[1], 99)])
    )
    weighted = StructuredSVM("ndcg@3", C=4.0, tol=1e-6).fit(
        data.X, data.y, qid=data.qid, sample_weight=np.where(data.qid == data.qid[0], 2.0, 1.0)
    )
    assert np.allclose(weighted.coef_, StructuredSVM("ndcg@3", C=4.0, tol=1e-6).fit(repeated).coef_, atol=5e-3)


@pytest.mark.filterwarnings("ignore:subgradient descent stopped")
def test_history_falls_and_ends_at_the_certificate(parts):
    for solver in ("bundle", "cutting_plane", "subgradient"):
        model = StructuredSVM(solver=solver).fit(parts[0])
        objectives = [row["objective"] for row in model.history_]
        assert np.diff(objectives).max() <= 1e-14 * objectives[0]  # but for rounding
        assert objectives[-1] == pytest.approx(model.certificate_.primal, rel=1e-12)


def test_a_descent_that_ends_far_from_the_minimum_says_so():
    with pytest.warns(ConvergenceWarning, match="no step decreased the objective"):
        model = StructuredSVM("ndcg@3", C=50.0, solver="subgradient", tol=1e-6).fit(problem(0, m=6, n=6, d=3))
    assert model.certificate_.relative_gap > 1e-6


def test_few_iterations_leave_a_warning_and_an_honest_certificate():
    data, measure = problem(2, m=4, n=6), Ndcg(3)
    written = Written(data, measure)
    for solver in ("bundle", "cutting_plane"):
        with pytest.warns(ConvergenceWarning, match="stopped after 2 "):
            model = StructuredSVM(measure.text, C=100.0, solver=solver, max_iter=2, tol=1e-6).fit(data)
        found = model.certificate_
        assert found.primal == pytest.approx(written.objective(model.coef_, 100.0), rel=1e-9)
        assert found.dual <= written.minimum(100.0, model.coef_)


# -- the tight bound ---------------------------------------------------------------------------------------------------


def ridge_start(data, start_alpha=1.0):
    """w0: ridge regression with an intercept, the penalty in units of the features' mean sum of squares."""
    X, y = np.asarray(data.X, dtype=float), np.asarray(data.y, dtype=float)
    omega = np.ones(len(y)) if data.query_weights is None else np.repeat(data.query_weights, data.counts)
    X = X - np.average(X, axis=0, weights=omega)
    y = y - np.average(y, weights=omega)
    alpha = start_alpha * (omega @ X**2).sum() / X.shape[1]
    return np.linalg.solve((X.T * omega) @ X + alpha * np.eye(X.shape[1]), (X.T * omega) @ y)


@settings(max_examples=30)
@given(problems, settings_of_ndcg, st.sampled_from(["gradient", "cccp"]), st.sampled_from([0.1, 10.0]))
@pytest.mark.filterwarnings("ignore:no query has rows of two:gainful.DataWarning")
def test_tight_fit_is_not_above_its_start(data, of, method, C):
    given_weights, A = position_weights(of["A"])
    measure = Ndcg(of["k"], of["gain"], of["discount"], A)
    model = StructuredSVM(measure.text, C=C, bound="tight", tight_method=method, position_weights=given_weights).fit(
        data
    )
    written, w0 = Written(data, measure), ridge_start(data)
    at_start = written.objective(w0, C, "tight", w0=w0)
    found = written.objective(model.coef_, C, "tight", w0=w0)
    assert found <= at_start * (1 + 1e-9) + 1e-12
    assert found == pytest.approx(min(row["objective"] for row in model.history_), rel=1e-9)
    assert not hasattr(model, "certificate_")
    again = StructuredSVM(measure.text, C=C, bound="tight", tight_method=method, position_weights=given_weights)
    assert np.array_equal(again.fit(data).coef_, model.coef_)


@pytest.mark.parametrize("method", ["gradient", "cccp"])
def test_tight_bound_of_average_precision(method):
    for seed in range(5):
        data = problem(seed, m=5, n=6)
        model = StructuredSVM("map", bound="tight", tight_method=method, C=10.0).fit(data)
        written, w0 = Written(data, AveragePrecision()), ridge_start(data)
        at_start = written.objective(w0, 10.0, "tight", w0=w0)
        assert written.objective(model.coef_, 10.0, "tight", w0=w0) <= at_start + 1e-12


def test_gradient_and_cccp_get_about_as_low():
    for seed in range(5):
        data, measure = problem(seed, m=8, n=6), Ndcg(3)
        written, w0 = Written(data, measure), ridge_start(data)
        found = [
            written.objective(
                StructuredSVM(measure.text, C=10.0, bound="tight", tight_method=method).fit(data).coef_,
                10.0,
                "tight",
                w0=w0,
            )
            for method in ("gradient", "cccp")
        ]
        assert max(found) <= 1.5 * min(found)


@settings(max_examples=40)
@given(problems, settings_of_ndcg, st.integers(0, 10**6))
def test_tight_is_between_the_loss_and_the_convex_bound(data, of, seed):
    _, A = position_weights(of["A"])
    measure = Ndcg(of["k"], of["gain"], of["discount"], A)
    w = np.random.default_rng(seed).normal(size=data.n_features)
    written = Written(data, measure)
    values = gainful.metric(measure.text).per_query(data.X @ w, data)
    active = np.array([query is not None for query in written.queries])
    tight, convex = written.losses(w, "tight"), written.losses(w)
    assert (tight <= convex + 1e-9).all()
    assert (tight[active] >= (1 - values)[active] - 1e-9).all()
    inner = _inner_problem(data, measure)
    assert np.allclose(violations(inner, data.X @ w, "tight")[0], tight, atol=1e-9)
    assert np.allclose(violations(inner, data.X @ w)[0], convex, atol=1e-9)


def _inner_problem(data, measure):
    longest = int(data.counts.max())
    k = measure.k or longest
    gains = measure.gains(data.y)
    A = [measure.A(r, k) for r in range(1, k + 1)]
    return RankingProblem.ndcg(
        gains, data.offsets, k, gain="linear", discount=measure.discounts(longest, longest), position_weights=A
    )


def differences(fun, w, h=1e-6):
    """One-sided derivatives of fun by every coordinate: (forward, backward)."""
    base, steps = fun(w), h * np.eye(len(w))
    return (
        np.array([(fun(w + step) - base) / h for step in steps]),
        np.array([(base - fun(w - step)) / h for step in steps]),
    )


@pytest.mark.parametrize("measure", [Ndcg(2), Ndcg(4, A=FAMILIES["sqrt"]), Ndcg(None, "linear", "letor")])
def test_gradient_of_the_tight_bound_by_differences(measure):
    smooth = 0
    for seed in range(12):
        data = problem(seed, m=4, n=6, d=4, weights=True)
        written, inner = Written(data, measure), _inner_problem(data, measure)
        w = np.random.default_rng(seed).normal(size=4)
        risk = LinearRisk(fill_bound(inner, "tight"), data.X, data.offsets, written.omega)
        value, gradient, _ = risk.value_and_gradient(w)
        assert value == pytest.approx(written.omega @ written.losses(w, "tight"), abs=1e-12)
        forward, backward = differences(lambda v, at=written: at.omega @ at.losses(v, "tight"), w)
        if np.allclose(forward, backward, atol=1e-6):
            smooth += 1
            assert np.allclose(gradient, forward, atol=1e-6)
    assert smooth >= 10


def test_the_tight_fit_descends_the_objective_written_out(monkeypatch):
    seen = []

    def spy(fun, w0, **rest):
        seen.append((fun, w0))
        return minimize_subgradient(fun, w0, **rest)

    minimize_subgradient = structured_svm.minimize_subgradient
    monkeypatch.setattr(structured_svm, "minimize_subgradient", spy)
    data, measure, C = problem(4, m=4, n=6, d=4, weights=True), Ndcg(3), 7.0
    StructuredSVM(measure.text, C=C, bound="tight", start_alpha=0.5).fit(data)
    written, (fun, w0) = Written(data, measure), seen[0]
    assert np.allclose(w0, ridge_start(data, 0.5), rtol=1e-8)
    rng = np.random.default_rng(0)
    for _ in range(10):
        w = w0 + rng.normal(size=4)
        value, gradient = fun(w)
        assert value == pytest.approx(written.objective(w, C, "tight", w0=w0), rel=1e-12)
        forward, backward = differences(lambda v: written.objective(v, C, "tight", w0=w0), w)
        if np.allclose(forward, backward, atol=1e-4):
            assert np.allclose(gradient, 0.5 * (forward + backward), atol=1e-5)


def test_start_is_kept_where_the_loss_weighs_nothing():
    data = problem(6, m=6, n=6)
    model = StructuredSVM("ndcg@3", C=1e-9, bound="tight").fit(data)
    assert np.allclose(model.coef_, ridge_start(data), atol=1e-7)


# -- rescaled slacks ---------------------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(problems, st.sampled_from([1, 3, 6]), st.sampled_from([0.1, 2.0, 50.0]))
@pytest.mark.filterwarnings("ignore:no query has rows of two:gainful.DataWarning")
def test_rescaled_slack_stays_below_the_objective_written_out(data, k, C):
    measure = Ndcg(k)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = StructuredSVM(measure.text, C=C, rescaling="slack").fit(data)
    written, found = Written(data, measure), model.certificate_
    true = written.objective(model.coef_, C, "slack")
    assert found.dual <= found.primal <= true * (1 + 1e-9) + 1e-12
    # The search misses the maximum of a query in about one of six thousand, by a little.
    assert found.primal >= 0.9 * true - 1e-12
    # Each plane is that of a ranking, be it the best one or not: the lower bound is one of the whole objective.
    with_margin = StructuredSVM(measure.text, C=C).fit(data).coef_
    for w in (np.zeros(data.n_features), model.coef_, 2 * model.coef_, with_margin):
        assert found.dual <= written.objective(w, C, "slack") * (1 + 1e-9) + 1e-12


def test_rescaled_slack_ranks_well(parts):
    train, _, test = parts
    slack = gainful.ranker("structured-svm-slack").fit(train)
    assert slack.score(test) > 0.65
    assert slack.certificate_.relative_gap <= 1e-3


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "of",
    [
        {"rescaling": "slack", "metric": "map"},
        {"rescaling": "slack", "bound": "tight"},
        {"rescaling": "slack", "solver": "cutting_plane"},
        {"rescaling": "slack", "solver": "subgradient"},
        {"bound": "tight", "solver": "cutting_plane"},
        {"bound": "tight", "solver": "subgradient"},
        {"C": [1.0, 2.0]},
    ],
    ids=str,
)
def test_combinations_that_mean_nothing_are_refused(parts, of):
    with pytest.raises(ParameterError, match=r"^StructuredSVM: "):
        StructuredSVM(**of).fit(parts[0])


@pytest.mark.parametrize("name", ["map@10", "mrr", "dcg@10", "err@5", "p@3"])
def test_measures_without_a_structured_loss_are_refused(parts, name):
    expected = rf"^metric of StructuredSVM must be 'ndcg@k', 'ndcg' or 'map', was '{name}'"
    with pytest.raises(ParameterError, match=expected):
        StructuredSVM(name).fit(parts[0])


@pytest.mark.parametrize("grade", [3.0, 1.5])
def test_grades_without_a_gain_in_the_table_are_refused(grade):
    data = RankingData.from_rows(np.eye(3), [0, 1, grade], [1, 1, 1])
    with pytest.raises(
        gainful.DataError, match=r"grade of row 2 must be an integer from 0 to 2, because gain is a table"
    ):
        StructuredSVM("ndcg@3(gain=0|1|3)").fit(data)


# -- degenerate problems -----------------------------------------------------------------------------------------------


def stacked(*queries, seed=0, d=3):
    """One query for each list of grades, normal features."""
    y = np.concatenate([np.asarray(grades, dtype=float) for grades in queries])
    qid = np.repeat(np.arange(len(queries)), [len(grades) for grades in queries])
    return RankingData.from_rows(np.random.default_rng(seed).normal(size=(len(y), d)), y, qid)


def changed(data, change):
    X = np.array(data.X)
    change(X)
    return RankingData.from_rows(X, data.y, data.qid)


def constant_and_duplicate(X):
    X[:, 0] = 5.0
    X[:, 2] = X[:, 1]


def scaled(X):
    X[:, 0] *= 1e6
    X[:, 1] *= 1e-6


ORDINARY = ([0, 1, 2, 0, 1], [2, 0, 0, 1], [1, 0, 3])
DEGENERATE = {
    "one document": stacked([2], *ORDINARY, [0]),
    "equal grades": stacked([1, 1, 1], *ORDINARY, [2, 2]),
    "nothing relevant": stacked([0, 0, 0], *ORDINARY),
    "only these": stacked([1], [0, 0], [2, 2, 2]),
    "constant and duplicate": changed(stacked(*ORDINARY), constant_and_duplicate),
    "all constant": changed(stacked(*ORDINARY), lambda X: X.fill(2.0)),
    "all zero": changed(stacked(*ORDINARY), lambda X: X.fill(0.0)),
    "scales": changed(stacked(*ORDINARY), scaled),
    "large": changed(stacked(*ORDINARY), lambda X: np.multiply(X, 1e6, out=X)),
    "small": changed(stacked(*ORDINARY), lambda X: np.multiply(X, 1e-6, out=X)),
    "far from zero": changed(stacked(*ORDINARY), lambda X: np.add(X, 1e6, out=X)),
    "real grades": stacked([0.3, 1.7, 0.31, 2.2], [0.0, 1e-9, 1.0], [4.4, 3.3, 2.2, 1.1, 0.0]),
    "high grades": stacked([49, 0, 48, 3, 17], [1, 49, 30]),
}


@pytest.mark.parametrize("name", DEGENERATE)
@pytest.mark.parametrize("C", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize(
    "of",
    [{}, {"metric": "ndcg"}, {"solver": "cutting_plane"}, {"solver": "subgradient"}, {"metric": "map"}],
    ids=lambda of: ",".join(of.values()) or "bundle",
)
@pytest.mark.filterwarnings("ignore:the highest grade is:gainful.DataWarning")
@pytest.mark.filterwarnings("ignore:no query has rows of two:gainful.DataWarning")
@pytest.mark.filterwarnings("ignore::gainful.RedundantFeaturesWarning")
def test_degenerate_problems_have_an_honest_certificate(name, C, of):
    data = DEGENERATE[name]
    measure = {"map": AveragePrecision(), "ndcg": Ndcg(None)}.get(of.get("metric"), Ndcg(10))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = StructuredSVM(**{"metric": measure.text, **of, "C": C, "max_iter": 200}).fit(data)
    found = model.certificate_
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.predict(data)).all()
    assert 0 <= found.dual <= found.primal < np.inf
    rounding = C * 1e-13 * np.abs(data.X @ np.diag(model.coef_)).sum() * 11
    written = Written(data, measure)
    assert found.primal == pytest.approx(written.objective(model.coef_, C), rel=1e-7, abs=rounding + 1e-300)


@pytest.mark.parametrize("name", DEGENERATE)
@pytest.mark.parametrize("C", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize(
    "of",
    [
        {"tight_method": "gradient"},
        {"tight_method": "cccp"},
        {"tight_method": "gradient", "start_alpha": 0.0},
        {"tight_method": "gradient", "metric": "map"},
    ],
    ids=lambda of: ",".join(map(str, of.values())),
)
@pytest.mark.filterwarnings("ignore:the highest grade is:gainful.DataWarning")
@pytest.mark.filterwarnings("ignore:no query has rows of two:gainful.DataWarning")
@pytest.mark.filterwarnings("ignore::gainful.RedundantFeaturesWarning")
def test_degenerate_problems_with_the_tight_bound(name, C, of):
    data = DEGENERATE[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = StructuredSVM(bound="tight", C=C, max_iter=200, **of).fit(data)
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.predict(data)).all()


@pytest.mark.parametrize("name", DEGENERATE)
@pytest.mark.parametrize("C", [1e-8, 1.0, 1e8])
@pytest.mark.filterwarnings("ignore:the highest grade is:gainful.DataWarning")
@pytest.mark.filterwarnings("ignore:no query has rows of two:gainful.DataWarning")
@pytest.mark.filterwarnings("ignore::gainful.RedundantFeaturesWarning")
def test_degenerate_problems_with_rescaled_slack(name, C):
    data = DEGENERATE[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = StructuredSVM(rescaling="slack", C=C, max_iter=200).fit(data)
    assert np.isfinite(model.coef_).all()
    assert 0 <= model.certificate_.dual <= model.certificate_.primal < np.inf


@pytest.mark.filterwarnings("ignore:the highest grade is:gainful.DataWarning")
@pytest.mark.filterwarnings("ignore:the convex bound is lowest at w = 0:gainful.DataWarning")
def test_fifty_grades_and_no_cut_off(rng):
    X = rng.normal(size=(200, 4))
    y = np.concatenate([rng.permutation(50) for _ in range(4)]).astype(float)
    for of in ({"metric": "ndcg"}, {"metric": "ndcg(gain=linear)"}, {"bound": "tight"}, {"metric": "map"}):
        model = StructuredSVM(**of).fit(X, y, qid=np.repeat(np.arange(4), 50))
        assert np.isfinite(model.coef_).all()


def test_tiny_weight_of_the_loss_still_ranks(parts):
    train, _, test = parts
    assert StructuredSVM(C=1e-8).fit(train).score(test) > 0.65


# -- where the convex bound is lowest at 0 -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def noise():
    """Features that say nothing about the grades."""
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(900, 4)), rng.integers(0, 3, size=900).astype(float)
    return RankingData.from_rows(X, y, np.repeat(np.arange(30), 30))


@pytest.mark.parametrize("C", [1e-6, 1e-2, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("of", [{}, {"rescaling": "slack"}, {"scale": "standard"}], ids=str)
def test_a_minimum_at_zero_is_reported_for_every_c(noise, C, of):
    with pytest.warns(gainful.DataWarning, match="lowest at w = 0 .*structured-svm-tight"):
        model = StructuredSVM(C=C, **of).fit(noise)
    problem = RankingProblem.ndcg(noise.y, noise.offsets, 10, position_weights=np.arange(10.0, 0.0, -1.0))
    at_zero = C * violations(problem, np.zeros(noise.n_rows))[0].mean()
    assert model.certificate_.dual == pytest.approx(at_zero, rel=1e-4)
    assert np.abs(model.coef_).max() < 1e-12


@pytest.mark.parametrize("factor", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("C", [1e-8, 1.0, 1e6])
def test_short_weights_that_rank_are_not_reported(parts, factor, C):
    train, _, test = parts
    scaled = RankingData.from_rows(train.X * factor, train.y, train.qid)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = StructuredSVM(C=C / factor**2, max_iter=100).fit(scaled)
    assert model.score(test) > 0.65


def test_learning_position_weights_reports_a_minimum_at_zero_once(noise):
    with pytest.warns(gainful.DataWarning, match="lowest at w = 0") as found:
        StructuredSVM(position_weights="learn").fit(noise)
    assert len(found) == 1


def test_the_tight_bound_is_not_at_zero_there(noise):
    assert np.abs(gainful.ranker("structured-svm-tight").fit(noise).coef_).max() > 1e-3
