"""RankMM: losses against double loops, certificates against a general solver, and what a user does with it."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_pairs import plain_loss, plain_minimum, plain_objective
from scipy import sparse

import gainful
from gainful import InterruptedFitWarning, ParameterError, RankingData
from gainful.formats.layout import read_splits
from gainful.linear.risk import LinearRisk
from gainful.losses import margin_kernels as kernels
from gainful.solvers.certificate import ConvergenceWarning

CS = [0.01, 0.1, 1.0, 10.0, 100.0, 1000.0]
RankMM = partial(gainful.RankMM, scale=None)  # the objective of the paper, on the features as given
LOSSES = ("average", "maximum", "max-average")
level = st.floats(-10, 10, width=32)


@st.composite
def lists(draw):
    """Grades, scores and other scores of one query; grades are a few whole numbers or any."""
    n = draw(st.integers(1, 12))
    grade = draw(st.sampled_from([st.integers(0, 3).map(float), st.floats(0, 5, width=32)]))
    return tuple(np.array(draw(st.lists(kind, min_size=n, max_size=n))) for kind in (grade, level, level))


def losses_of(loss, scores, grades, offsets=None):
    offsets = [0, len(grades)] if offsets is None else offsets
    return gainful.loss(f"margin-{loss}").of_queries(scores, grades, offsets)


def small(seed=0, m=3, n=5, d=3, grades=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m * n, d))
    y = np.clip(np.round(X[:, 0] + rng.normal(size=m * n) + 1), 0, grades - 1)
    return RankingData.from_rows(X, y, np.repeat(np.arange(m), n))


# -- the losses --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
@given(lists())
def test_losses_are_the_double_loops_and_gradients_support_them(loss, query):
    grades, scores, others = query
    (value,), c = losses_of(loss, scores, grades)
    assert value == pytest.approx(plain_loss(loss, scores, grades), abs=1e-9)
    (elsewhere,), _ = losses_of(loss, others, grades)
    assert elsewhere >= value + c @ (others - scores) - 1e-9  # convex, and c a subgradient
    assert c.sum() == pytest.approx(0.0, abs=1e-12)  # a constant added to all scores changes nothing
    assert (losses_of(loss, scores + 1.0, grades)[0] - value) == pytest.approx(0.0, abs=1e-9)


@given(lists())
def test_the_three_losses_are_ordered(query):
    grades, scores, _ = query
    mean, worst, worst_mean = (losses_of(loss, scores, grades)[0][0] for loss in LOSSES)
    assert worst >= worst_mean - 1e-9  # a maximum is at least any mean
    assert worst >= mean - 1e-9
    assert worst_mean >= mean - 1e-9  # the mean over R is a mean of means over the P_k


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("grades", [3, 40, 0])
@pytest.mark.parametrize("n", [2, 30, 2100])
def test_sorted_and_listed_pairs_agree(rng, monkeypatch, n, grades, loss):
    y = rng.integers(0, grades, n + 5) / 8 if grades else rng.random(n + 5)
    scores = 2 * rng.normal(size=n + 5)
    found = []
    for sorted_from in (n + 1, n if n > 5 else 1, 1):  # none, the longer one, both queries
        monkeypatch.setattr(kernels, "SORTED_FROM", sorted_from)
        found.append(losses_of(loss, scores, y, [0, 5, n + 5]))
    for values, c in found[1:]:
        assert values == pytest.approx(found[0][0], rel=1e-12)
        assert np.array_equal(c, found[0][1])


def test_long_lists_take_the_sorted_way(rng):
    n = kernels.SORTED_FROM + 7
    grades, scores, d = rng.integers(0, 5, n).astype(float), rng.normal(size=n), 1e-6 * rng.normal(size=n)
    hinge = np.maximum(0, (grades[:, None] - grades) - (scores[:, None] - scores)) * (grades[:, None] > grades)
    means = hinge.sum(axis=0) / np.maximum(1, (grades[:, None] > grades).sum(axis=0))
    expected = {
        "average": hinge.sum() / (grades[:, None] > grades).sum(),
        "maximum": hinge.max(),
        "max-average": means.max(),
    }
    for loss in LOSSES:
        (value,), c = losses_of(loss, scores, grades)
        assert value == pytest.approx(expected[loss], rel=1e-12)
        up, down = (losses_of(loss, scores + sign * d, grades)[0][0] for sign in (1, -1))
        assert (up - down) / 2 == pytest.approx(c @ d, abs=1e-8 * np.abs(c).sum())


@pytest.mark.parametrize("loss", LOSSES)
def test_risk_sums_queries_in_any_number_of_threads(artificial, rng, loss):
    data, w, d = artificial, rng.normal(size=12), rng.normal(size=12)
    omega = rng.random(data.n_queries)
    results = []
    for threads in (1, 3):
        risk = LinearRisk.of(gainful.loss(f"margin-{loss}"), data, omega, threads=threads)
        results.append((*risk.value_and_gradient(w), *risk.along(data.X @ w, data.X @ d, 0.0)))
    for one, other in zip(*results, strict=True):
        assert np.allclose(one, other, rtol=1e-12)
    value, gradient, scores, on_line, slope = results[0]
    cuts = [slice(a, b) for a, b in zip(data.offsets[:-1], data.offsets[1:], strict=True)]
    assert value == pytest.approx(
        sum(o * plain_loss(loss, scores[c], data.y[c]) for o, c in zip(omega, cuts, strict=True))
    )
    assert on_line == pytest.approx(value)
    assert slope == pytest.approx(gradient @ d)


# -- certificates ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("C", [0.01, 1.0, 30.0, 1000.0])
@pytest.mark.parametrize("loss", LOSSES)
def test_certificate_encloses_the_minimum(loss, C, seed):
    data = small(seed, n=4 if loss == "max-average" else 5)
    best = plain_minimum(loss, data, C)
    for settings in ({"tol": 1e-6}, {"solver": "stochastic", "n_steps": 300}):
        model = RankMM(loss, C=C, **settings).fit(data)
        found = model.certificate_
        assert found.primal == pytest.approx(plain_objective(loss, model.coef_, data, C), rel=1e-12)
        assert found.dual <= best * (1 + 1e-7)
        assert found.primal >= best * (1 - 1e-7)
        if settings == {"tol": 1e-6}:
            assert found.relative_gap <= 1e-6


@pytest.mark.parametrize("loss", LOSSES)
def test_default_gap_for_every_C(parts, loss):
    for C in CS:
        model = RankMM(loss, C=C).fit(parts[0])
        assert model.certificate_.relative_gap <= 1e-3
        assert model.certificate_.primal == pytest.approx(plain_objective(loss, model.coef_, parts[0], C), rel=1e-10)


@pytest.mark.parametrize("loss", LOSSES)
def test_default_gap_on_ohsumed(ohsumed, loss):
    for split in read_splits(ohsumed):
        path = RankMM(loss).fit_path(split.train, C=CS, eval_set=split.valid).path_
        assert all(row["relative_gap"] <= 1e-3 for row in path)
        assert RankMM(loss, C=1000.0).fit(split.train).certificate_.relative_gap <= 1e-3


@pytest.mark.parametrize("scale", [1.0, 1e6, 1e-6])
@pytest.mark.parametrize("C", [1e-8, 1e8])
@pytest.mark.parametrize("loss", LOSSES)
def test_extreme_C_and_scales(parts, loss, C, scale):
    data = RankingData.from_rows(scale * parts[0].X, parts[0].y, parts[0].qid)
    model = RankMM(loss, C=C).fit(data)
    assert np.isfinite(model.coef_).all()
    assert model.certificate_.relative_gap <= 1e-3
    assert model.certificate_.primal == pytest.approx(plain_objective(loss, model.coef_, data, C), rel=1e-8)


@pytest.mark.filterwarnings("ignore::gainful.solvers.certificate.ConvergenceWarning")
@pytest.mark.parametrize("scale", [1.0, 1e6])
@pytest.mark.parametrize("C", [1e-8, 1e8])
@pytest.mark.parametrize("loss", LOSSES)
def test_stochastic_stays_finite_at_extremes(parts, loss, C, scale):
    data = RankingData.from_rows(scale * parts[0].X, parts[0].y, parts[0].qid)
    model = RankMM(loss, C=C, solver="stochastic").fit(data)
    assert np.isfinite(model.coef_).all()
    assert 0 <= model.certificate_.dual <= model.certificate_.primal < np.inf


@pytest.mark.parametrize("loss", LOSSES)
def test_both_solvers_meet(parts, loss):
    exact = RankMM(loss, C=1.0, tol=1e-6).fit(parts[0]).certificate_
    steps = {"average": 2_000, "maximum": 4_000, "max-average": 4_000}[loss]
    other = RankMM(loss, C=1.0, solver="stochastic", n_steps=steps).fit(parts[0]).certificate_
    assert other.dual <= exact.primal
    assert other.primal >= exact.dual
    assert other.relative_gap <= (0.15 if loss == "max-average" else 0.002)


@pytest.mark.filterwarnings("ignore::gainful.solvers.certificate.ConvergenceWarning")
@pytest.mark.parametrize("loss", LOSSES)
def test_a_thousand_documents_a_query(rng, loss):
    X = rng.normal(size=(3000, 5))
    y = np.clip(np.round(X @ [1.0, 1.0, 0.5, 0.0, 0.0]), 0, 4)
    data = RankingData.from_rows(X, y, np.repeat([1, 2, 3], 1000))
    noise = gainful.metric("ndcg@10")(rng.random(3000), data)
    for settings in ({}, {"solver": "stochastic", "n_steps": 12}):
        model = RankMM(loss, C=10.0, **settings).fit(data)
        assert model.score(data) > noise + 0.1
        assert model.certificate_.dual <= model.certificate_.primal


def test_query_weights_are_copies_of_queries(parts):
    data = small(3, m=4, n=6)
    weights = np.array([1.0, 2.0, 0.0, 3.0])
    rows = np.concatenate([np.arange(q * 6, q * 6 + 6) for q in range(4) for _ in range(int(weights[q]))])
    copies = RankingData.from_rows(data.X[rows], data.y[rows], np.repeat(np.arange(6), 6))
    for loss in LOSSES:
        weighted = RankMM(loss, C=5.0, tol=1e-6).fit(data.X, data.y, qid=data.qid, sample_weight=np.repeat(weights, 6))
        copied = RankMM(loss, C=5.0, tol=1e-6).fit(copies)
        assert weighted.certificate_.primal == pytest.approx(copied.certificate_.primal, rel=2e-6)
        steps = RankMM(loss, C=5.0, solver="stochastic", n_steps=500)
        found = steps.fit(data.X, data.y, qid=data.qid, sample_weight=np.repeat(weights, 6)).certificate_
        assert found.dual <= copied.certificate_.primal
        assert found.primal >= copied.certificate_.dual


@pytest.mark.parametrize("loss", LOSSES)
def test_order_of_rows_does_not_matter(parts, rng, loss):
    data = parts[0]
    order = np.concatenate(
        [rng.permutation(np.arange(a, b)) for a, b in zip(data.offsets, data.offsets[1:], strict=False)]
    )
    one = RankMM(loss, C=3.0, tol=1e-6).fit(data)
    other = RankMM(loss, C=3.0, tol=1e-6).fit(data.X[order], data.y[order], qid=data.qid[order])
    assert other.certificate_.primal == pytest.approx(one.certificate_.primal, rel=2e-6)
    away = np.linalg.norm(one.coef_ - other.coef_)
    assert away <= 2 * np.sqrt(2 * 1e-6 * one.certificate_.primal)  # the objective is 1-strongly convex
    steps = {"solver": "stochastic", "n_steps": 300, "C": 3.0}
    one, other = (
        RankMM(loss, **steps).fit(data),
        RankMM(loss, **steps).fit(data.X[order], data.y[order], qid=data.qid[order]),
    )
    assert np.allclose(one.coef_, other.coef_, rtol=1e-7, atol=1e-9)


# -- use ---------------------------------------------------------------------------------------------------------------


def test_names_preset_the_loss():
    assert [gainful.ranker(f"rankmm-{i}").loss for i in (1, 2, 3)] == list(LOSSES)


@pytest.mark.parametrize("solver", ["auto", "stochastic"])
@pytest.mark.parametrize("loss", LOSSES)
def test_path_keeps_the_best_on_the_validation_data(parts, loss, solver, tmp_path):
    train, valid, _ = parts
    settings = {"solver": solver, "n_steps": 200, "eval_metric": "map"}
    model = RankMM(loss, **settings).fit_path(train, C=[0.1, 1.0, 10.0], eval_set=valid)
    values = [row["validation"] for row in model.path_]
    assert [row["C"] for row in model.path_] == [0.1, 1.0, 10.0]
    assert model.path_[int(np.argmax(values))]["C"] == model.C_
    assert gainful.metric("map")(model.predict(valid), valid) == max(values)
    assert np.array_equal(RankMM(loss, C=[0.1, 1.0, 10.0], **settings).fit(train, eval_set=valid).coef_, model.coef_)
    gainful.save(model, tmp_path / "m")
    again = gainful.load(tmp_path / "m")
    assert again.certificate_ == model.certificate_
    assert again.path_ == model.path_
    with pytest.raises(ParameterError, match="RankMM: several values of C need eval_set"):
        RankMM(loss).fit_path(train, C=[1.0, 2.0])


def test_stochastic_chooses_the_number_of_steps_on_the_validation_data(parts):
    train, valid, _ = parts
    settings = {"loss": "max-average", "C": 100.0, "solver": "stochastic", "n_steps": 1000}
    chosen = RankMM(**settings).fit(train, eval_set=valid)
    last = RankMM(**settings).fit(train)
    value = gainful.metric("ndcg@10")
    assert value(chosen.predict(valid), valid) >= value(last.predict(valid), valid)
    assert chosen.n_iter_ == last.n_iter_
    assert chosen.certificate_.primal == pytest.approx(
        plain_objective("max-average", chosen.coef_, train, 100.0), rel=1e-10
    )


@pytest.mark.parametrize("how", ["callback", "ctrl-c"])
@pytest.mark.parametrize("loss", LOSSES)
def test_stochastic_stops_when_the_callback_says_so(parts, loss, how):
    train, valid, _ = parts

    def stop(event):
        if event.iteration == 3 and how == "ctrl-c":
            raise KeyboardInterrupt
        return event.iteration == 3

    model = RankMM(loss, C=100.0, solver="stochastic", n_steps=1000)
    with pytest.warns(InterruptedFitWarning, match="interrupted after iteration 3"):
        model.fit(train, eval_set=valid, progress=stop)
    assert model.n_iter_ == 3
    assert gainful.metric("ndcg@10")(model.predict(valid), valid) == model.path_[0]["validation"]


@pytest.mark.parametrize("loss", LOSSES)
def test_stochastic_seeds(parts, loss):
    settings = {"C": 10.0, "solver": "stochastic", "n_steps": 150}
    one, same, other = (RankMM(loss, random_state=s, **settings).fit(parts[0]).coef_ for s in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize("loss", LOSSES)
def test_stochastic_takes_sparse_and_float32(parts, loss):
    train = parts[0]
    settings = {"C": 1.0, "solver": "stochastic", "n_steps": 150}
    dense = RankMM(loss, **settings).fit(train).coef_
    for X in (sparse.csr_array(train.X), train.X.astype(np.float32)):
        assert np.allclose(RankMM(loss, **settings).fit(X, train.y, qid=train.qid).coef_, dense, rtol=1e-3, atol=1e-5)


def test_learning_rate_and_steps_count(parts):
    settings = {"C": 1.0, "solver": "stochastic"}
    short = RankMM(n_steps=100, learning_rate=1e-5, **settings).fit(parts[0])
    long = RankMM(n_steps=400, learning_rate=1e-5, **settings).fit(parts[0])
    assert len(short.history_) == 2  # 72 queries: a round of 72 steps, and the rest
    assert long.certificate_.gap < short.certificate_.gap
    with pytest.warns(ConvergenceWarning, match="minimize_dual_projection stopped after 1440 steps at a relative gap"):
        RankMM(learning_rate=1e-9, **settings).fit(parts[0])


@pytest.mark.parametrize("C", [1e-6, 10.0, 1e6])
@pytest.mark.parametrize("loss", ["maximum", "max-average"])
@pytest.mark.filterwarnings("ignore::gainful.RedundantFeaturesWarning")
def test_where_zero_is_best_the_model_still_ranks(rng, loss, C):
    X, y, qid = rng.normal(size=(60, 3)), rng.integers(0, 3, 60), np.repeat([1, 2, 3], 20)  # nothing to be learned
    data = RankingData.from_rows(X, y, qid)
    model = RankMM(loss, C=C).fit(data)
    at_zero = plain_objective(loss, np.zeros(3), data, C)
    assert model.coef_.any()
    assert model.certificate_.relative_gap <= 1e-3
    assert model.certificate_.primal == pytest.approx(plain_objective(loss, model.coef_, data, C), rel=1e-12)
    assert model.certificate_.dual <= at_zero
    if C > 1:
        assert model.certificate_.dual >= (1 - 1e-4) * at_zero  # 0 is as good as any
    same = RankMM(loss, C=C).fit(np.ones((60, 3)), y, qid=qid)
    assert np.ptp(same.predict(np.ones((60, 3)))) == 0
