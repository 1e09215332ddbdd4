"""Every loss against its formula and against finite differences, over the registry."""

from __future__ import annotations

import math
from itertools import pairwise, permutations

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loss_formulas import FORMULAS, FROZEN, discount, ideal, pairs, softplus, structured

import gainful
from gainful import DataError, ParameterError
from gainful.compute.query_loop import values_and_gradient
from gainful.losses import LOSSES, custom_loss, loss
from gainful.losses.pairwise import sweep_hinges

STRUCTURED = [name for name in LOSSES if name.startswith("structured-")]
WORST = [*STRUCTURED, "margin-maximum", "margin-max-average"]  # of several worst rankings or pairs they take one
POINTWISE = ("squared", "sigmoid-cross-entropy")  # of documents, not of orders
KINKED = [name for name, entry in LOSSES.items() if not (entry.smooth or entry.frozen)]
SMOOTH = [text for text in FORMULAS if loss(text).smooth]


@st.composite
def queries(draw, most=9):
    """Scores with ties and grades, whole or real."""
    n = draw(st.integers(1, most))
    grade = draw(st.sampled_from([st.integers(0, 3), st.sampled_from([0.0, 0.25, 1.5, 4.0]), st.just(1)]))
    score = st.one_of(st.sampled_from([-1.0, 0.0, 0.5, 2.0]), st.floats(-8, 8))
    scores = draw(st.lists(score, min_size=n, max_size=n))
    return np.array(scores), np.array(draw(st.lists(grade, min_size=n, max_size=n)), dtype=float)


def random_query(seed, n, spread=2.0, grades=4):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=n) * spread
    scores[rng.random(n) < 0.2] = 0.0  # ties
    return scores, rng.integers(0, grades, n).astype(float)


def test_every_loss_has_a_formula_here():
    assert {loss(text).name for text in FORMULAS} | set(STRUCTURED) == set(LOSSES)
    assert {loss(text).name for text in FROZEN} == {
        name for name, entry in LOSSES.items() if entry.frozen or entry.frozen_by
    }


# -- values ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", FORMULAS)
@settings(max_examples=25)
@given(query=queries())
def test_value_is_the_formula(text, query):
    scores, grades = query
    value, gradient = loss(text)(scores, grades)
    assert value == pytest.approx(FORMULAS[text](scores, grades), rel=1e-9, abs=1e-10)
    assert gradient.shape == scores.shape


@pytest.mark.parametrize("mu", [0.0, 10.0])
@settings(max_examples=30, deadline=None)
@given(query=queries(most=6))
def test_lambdaloss_is_the_mean_over_the_orders_of_equal_documents(mu, query):
    """Value, gradient and curvature; where all scores are equal, as at the start, too."""
    scores, grades = query
    for s in (scores, np.zeros(len(scores))):
        orders = [
            order
            for order in permutations(range(len(s)))
            if all((-s[a], grades[a]) <= (-s[b], grades[b]) for a, b in pairwise(order))
        ]
        best, value, slopes = ideal(grades, len(grades)), 0.0, np.zeros(len(s))
        for order in orders:
            rank = {i: r for r, i in enumerate(order, 1)}
            for i, j in pairs(grades):
                apart = abs(rank[i] - rank[j])
                change = abs(discount(rank[i]) - discount(rank[j])) + mu * (discount(apart) - discount(apart + 1))
                weight = (2.0 ** grades[i] - 2.0 ** grades[j]) / best * change / math.log(2.0) / len(orders)
                value += weight * softplus(s[j] - s[i])
                slopes[[i, j]] += np.array([-1.0, 1.0]) * weight / (1.0 + math.exp(s[i] - s[j]))
        found, gradient = loss("lambdaloss", mu=mu)(s, grades)
        assert found == pytest.approx(value, rel=1e-9, abs=1e-12)
        np.testing.assert_allclose(gradient, slopes, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", STRUCTURED)
@pytest.mark.parametrize("k", [1, 3, 10])
@settings(max_examples=25)
@given(query=queries(most=5))
def test_structured_bounds_by_trying_all_rankings(name, k, query):
    scores, grades = query
    value, _ = loss(name, **({} if "map" in name else {"k": k}))(scores, grades)
    assert value == pytest.approx(structured(name, scores, grades, k), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("name", LOSSES)
@settings(max_examples=25)
@given(query=queries())
def test_it_is_never_negative_and_ignores_the_order_of_the_rows(name, query):
    scores, grades = query
    value, gradient = loss(name)(scores, grades)
    assert value >= -1e-12
    order = np.random.default_rng(0).permutation(len(scores))
    again, moved = loss(name)(scores[order], grades[order])
    assert again == pytest.approx(value, rel=1e-12, abs=1e-12)
    if name not in WORST:
        np.testing.assert_allclose(moved, gradient[order], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", sorted(set(LOSSES) - set(POINTWISE)))
@settings(max_examples=25)
@given(query=queries(), shift=st.floats(-100, 100))
def test_adding_a_number_to_all_scores_changes_nothing(name, query, shift):
    scores, grades = np.round(query[0], 3), query[1]
    shift = round(shift)
    value, gradient = loss(name)(scores, grades)
    assert loss(name)(scores + shift, grades)[0] == pytest.approx(value, rel=1e-6, abs=1e-6)
    assert abs(gradient.sum()) <= 1e-9 * max(1.0, np.abs(gradient).sum())


@pytest.mark.parametrize("name", [name for name, entry in LOSSES.items() if entry.convex])
@settings(max_examples=25)
@given(query=queries(), seed=st.integers(0, 1000))
def test_convex_losses_lie_above_their_planes(name, query, seed):
    scores, grades = query
    value, gradient = loss(name)(scores, grades)
    other = np.random.default_rng(seed).normal(size=len(scores)) * 3
    assert loss(name)(other, grades)[0] >= value + gradient @ (other - scores) - 1e-9 * (1 + abs(value))


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("grades", [[2.0], [1.0, 1.0, 1.0], [0.0, 0.0]], ids=str)
def test_a_query_without_an_order_has_no_loss(name, grades):
    if name in (*POINTWISE, "centred-squared"):
        pytest.skip("it wants the grades themselves")
    value, gradient = loss(name)(np.arange(float(len(grades))), grades)
    assert value == 0.0
    assert not gradient.any()


# -- gradients ---------------------------------------------------------------------------------------------------------


def differences(function, scores, h=1e-5):
    steps = np.eye(len(scores)) * h
    return np.array([(function(scores + e) - function(scores - e)) / (2 * h) for e in steps])


@pytest.mark.parametrize("text", SMOOTH)
@pytest.mark.parametrize(("seed", "n"), [(0, 2), (1, 7), (2, 13), (3, 40)])
def test_gradients_of_smooth_losses_by_finite_differences(text, seed, n):
    scores, grades = random_query(seed, n)
    _, gradient = loss(text)(scores, grades)
    found = differences(lambda s: loss(text)(s, grades)[0], scores)
    np.testing.assert_allclose(gradient, found, rtol=1e-5, atol=1e-7 * max(1.0, np.abs(gradient).max()))


@pytest.mark.parametrize("text", FROZEN)
@pytest.mark.parametrize(("seed", "n"), [(0, 2), (1, 7), (2, 13), (3, 25)])
def test_gradients_with_frozen_weights_by_finite_differences(text, seed, n):
    scores, grades = random_query(seed, n)
    _, gradient = loss(text)(scores, grades)
    found = differences(FROZEN[text](scores, grades), scores)
    np.testing.assert_allclose(gradient, found, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("text", FROZEN)
@pytest.mark.parametrize("threads", [1, 3])
def test_frozen_losses_are_functions_of_the_scores_once_bound(text, threads):
    rng, offsets = np.random.default_rng(5), np.array([0, 7, 8, 20, 29])
    at, scores = rng.normal(size=(2, 29)) * 2
    grades = rng.integers(0, 4, 29).astype(float)
    frozen = loss(text).bind(grades, offsets).bind_frozen(at, threads)
    values, gradient = values_and_gradient(frozen, offsets, scores, threads)
    for a, b, value in zip(offsets[:-1], offsets[1:], values, strict=True):
        by_hand = FROZEN[text](at[a:b], grades[a:b])
        assert value == pytest.approx(by_hand(scores[a:b]), rel=1e-9)
        np.testing.assert_allclose(gradient[a:b], differences(by_hand, scores[a:b]), rtol=1e-5, atol=1e-7)
    here = values_and_gradient(frozen, offsets, at, threads)
    for found, expected in zip(here, loss(text).of_queries(at, grades, offsets), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", KINKED)
@pytest.mark.parametrize("n", [5, 30])
def test_gradients_of_kinked_losses_between_the_kinks(name, n):
    scores, grades = np.random.default_rng(n).normal(size=n), np.random.default_rng(n + 1).integers(0, 3, n)
    _, gradient = loss(name)(scores, grades)
    np.testing.assert_allclose(gradient, differences(lambda s: loss(name)(s, grades)[0], scores, 1e-7), atol=1e-5)


# -- long lists, large scores ------------------------------------------------------------------------------------------


def by_sorting(scores, grades, squared):
    """Value and gradient of the mean hinge by the sweep along the scores, which lists of few pairs do not choose."""
    order = np.argsort(-grades, kind="stable")
    cuts = np.concatenate([[0], np.flatnonzero(np.diff(grades[order])) + 1, [len(grades)]])
    slopes, gradient, n_pairs = np.zeros(len(grades)), np.empty(len(grades)), (grades[:, None] > grades).sum()
    value = sweep_hinges(scores[order], cuts, squared, slopes, np.zeros(len(grades)))
    gradient[order] = slopes
    return value / n_pairs, gradient / n_pairs


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("grades", ["few", "real", "one above", "equal scores"])
@pytest.mark.parametrize("spread", [0.1, 3.0, 1e3, 1e6])
def test_sorting_gives_what_all_pairs_give(squared, grades, spread):
    rng, n = np.random.default_rng(4), 1_000
    scores = np.round(rng.normal(size=n) * spread * 64) / 64  # margins of exactly 1 occur
    y = {
        "few": rng.integers(0, 5, n).astype(float),
        "real": rng.random(n),
        "one above": (np.arange(n) == 700).astype(float),
        "equal scores": rng.integers(0, 3, n).astype(float),
    }[grades]
    if grades == "equal scores":
        scores[:] = spread
    short = np.maximum(1.0 - (scores[:, None] - scores), 0.0) * (y[:, None] > y)
    n_pairs = (y[:, None] > y).sum()
    slopes = 2.0 * short if squared else (short > 0).astype(float)
    value, gradient = by_sorting(scores, y, squared)
    assert value == pytest.approx((short**2 if squared else short).sum() / n_pairs, rel=1e-9)
    expected = (slopes.sum(axis=0) - slopes.sum(axis=1)) / n_pairs
    np.testing.assert_allclose(gradient, expected, rtol=1e-9, atol=1e-11 * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("scale", [1.0, 1e3, 1e6, 1e9])
@pytest.mark.parametrize("separated", [False, True])
def test_long_lists_as_the_loop_over_pairs(squared, scale, separated):
    rng, n = np.random.default_rng(7), 400
    grades = np.sort(rng.integers(0, 5, n).astype(float))[::-1].copy()
    scores = np.round(rng.normal(size=n) * scale * 64) / 64
    if separated:
        scores = 2.0 * scale * grades + np.round(rng.random(n) * scale * 64) / 64
    total, expected = loss("pairwise-squared-hinge" if squared else "pairwise-hinge")(scores, grades)
    value, gradient = by_sorting(scores, grades, squared)
    assert value == pytest.approx(total, rel=1e-12, abs=0.0)
    np.testing.assert_allclose(gradient, expected, rtol=1e-9, atol=1e-12 * np.abs(expected).max())
    if separated and scale > 1.0:
        assert value == 0.0
        assert not gradient.any()


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("n", [2_000, 3_000], ids=["pair by pair", "sorted"])
def test_both_ways_to_the_hinge_of_a_list(squared, n):
    rng = np.random.default_rng(9)
    scores, grades = rng.normal(size=n), np.arange(n) % 5.0  # 0.4·n pairs a document: 800 and 1,200
    short = np.maximum(1.0 - (scores[:, None] - scores), 0.0) * (grades[:, None] > grades)
    value, gradient = loss("pairwise-squared-hinge" if squared else "pairwise-hinge")(scores, grades)
    slopes = 2.0 * short if squared else (short > 0).astype(float)
    n_pairs = 0.4 * n * n
    assert value == pytest.approx((short**2 if squared else short).sum() / n_pairs, rel=1e-9)
    np.testing.assert_allclose(gradient, (slopes.sum(axis=0) - slopes.sum(axis=1)) / n_pairs, rtol=1e-9, atol=1e-12)


def test_a_long_list_short_by_little_at_a_large_scale():
    grades = np.repeat(np.arange(200.0), 2)
    scores = 1e9 * grades
    scores[399] = scores[396] + 0.5  # short of two documents by ½
    value, gradient = by_sorting(scores, grades, False)
    n_pairs = (grades[:, None] > grades).sum()
    assert value * n_pairs == pytest.approx(1.0, rel=1e-12)
    assert gradient[399] * n_pairs == pytest.approx(-2.0)


@pytest.mark.parametrize("text", ["ranknet", "listnet", "listmle", "xendcg", "lambda", "lambdaloss", "weighted-huber"])
def test_a_thousand_documents(text):
    scores, grades = random_query(8, 1_000, spread=3.0, grades=5)
    value, gradient = loss(text)(scores, grades)
    if text in ("listnet", "xendcg"):
        assert value == pytest.approx(FORMULAS[text](scores, grades), rel=1e-9)
    if text == "ranknet":
        v = (scores[:, None] - scores)[grades[:, None] > grades]
        assert value == pytest.approx(np.logaddexp(0.0, -v).mean(), rel=1e-12)
    direction = np.random.default_rng(0).normal(size=1_000)
    if loss(text).smooth:
        up, down = (loss(text)(scores + h * direction, grades)[0] for h in (1e-5, -1e-5))
        assert gradient @ direction == pytest.approx((up - down) / 2e-5, rel=1e-5)
    assert np.isfinite(gradient).all()


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("n", [2, 60, 400])
@pytest.mark.parametrize("size", [0.0, 50.0, 1e3, 1e6])
def test_large_scores_neither_overflow_nor_vanish(name, n, size):
    n = min(n, 60) if name == "softrank" else n
    rng = np.random.default_rng(n)
    scores, grades = rng.choice([-size, size, 0.3], n), rng.permutation(np.arange(n) % 4).astype(float)
    with np.errstate(over="raise", invalid="raise"):
        value, gradient = loss(name)(scores, grades)
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()
    if name in ("ranknet", "listnet", "listmle", "lambda") and n == 60:
        assert value == pytest.approx(FORMULAS[name](scores, grades), rel=1e-9, abs=1e-12)
    huge = grades * 300.0  # gains of 2^900
    assert np.isfinite(loss(name)(scores, huge)[0])


# -- many queries ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LOSSES)
def test_queries_are_independent_whatever_the_threads(name):
    rng = np.random.default_rng(2)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 30, 40))])
    scores, y = rng.normal(size=offsets[-1]), rng.integers(0, 4, offsets[-1]).astype(float)
    values, gradient = loss(name).of_queries(scores, y, offsets)
    for q in range(40):
        rows = slice(offsets[q], offsets[q + 1])
        value, own = loss(name)(scores[rows], y[rows])
        assert value == pytest.approx(values[q], rel=1e-12)
        np.testing.assert_allclose(own, gradient[rows], atol=1e-13)
    for threads in (1, 3):
        again = values_and_gradient(loss(name).bind(y, offsets), offsets, scores, threads)
        assert np.array_equal(again[0], values)
        assert np.array_equal(again[1], gradient)


def test_mean_over_pairs_counts_pairs():
    grades = [2.0, 1.0, 1.0, 0.0]
    assert loss("pairwise-hinge")(np.zeros(4), grades)[0] == 1.0
    assert len(pairs(grades)) == 5


# -- as values ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [*FORMULAS, "structured-ndcg(k=3)", "structured-map(relevant=2)"])
def test_a_loss_prints_as_it_is_typed(text):
    assert loss(str(loss(text))) == loss(text)
    assert hash(loss(str(loss(text)))) == hash(loss(text))


@pytest.mark.parametrize(
    ("value", "shown"), [(10.0, "10"), (0.5, "0.5"), (1 / 3, "0.3333333333333333"), (np.float64(1e-7), "1e-07")]
)
def test_parameters_print_short_and_to_the_last_digit(value, shown):
    own = loss("ranknet", sigma=value)
    assert str(own) == f"ranknet(sigma={shown})"
    assert loss(str(own)).params == own.params


def test_defaults_are_not_printed():
    assert str(gainful.loss("lambda(k=10, sigma=1)")) == "lambda(k=10)"
    assert repr(gainful.loss("ranknet")) == "loss('ranknet')"
    assert gainful.loss(gainful.loss("lambda"), k=3) == gainful.loss("lambda(k=3)")


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("ranknett", "did you mean 'ranknet'"),
        ("lambda(kk=3)", "the loss lambda has no parameter 'kk'; did you mean 'k'"),
        ("lambda(k=0)", "k of lambda must be an integer ≥ 1, or None, was 0"),
        ("lambda(k=x)", "k of lambda must be an integer ≥ 1, or None, was 'x'"),
        ("lambda(k=3", "what of loss must be a name"),
        (7, "what of loss must be a name"),
    ],
)
def test_bad_losses_are_refused(what, message):
    with pytest.raises(ParameterError, match=message):
        loss(what)


# -- of one's own ------------------------------------------------------------------------------------------------------


def mean_hinge_at_zero(scores, grades):
    """Pointwise: relevant documents above 1, others below −1. A loop compiles sooner than functions of arrays."""
    value, gradient = 0.0, np.zeros(len(scores))
    for i in range(len(scores)):
        sign = 1.0 if grades[i] > 0 else -1.0
        if sign * scores[i] < 1.0:
            value += (1.0 - sign * scores[i]) / len(scores)
            gradient[i] = -sign / len(scores)
    return value, gradient


@pytest.mark.parametrize("compile_it", [False, True])
def test_functions_become_losses(compile_it):
    function = numba.njit(mean_hinge_at_zero) if compile_it else mean_hinge_at_zero
    own = gainful.loss(function, convex=True)
    assert own.convex
    assert not own.smooth
    assert str(own) == "custom:mean_hinge_at_zero"
    scores, grades = random_query(1, 12)
    value, gradient = own(scores, grades)
    expected = mean_hinge_at_zero(scores, grades)
    assert value == pytest.approx(expected[0])
    np.testing.assert_allclose(gradient, expected[1])


@pytest.mark.parametrize("answer", [3.0, (1.0, np.zeros(7)), ("a", "b"), None])
def test_functions_that_return_something_else_are_refused(answer):
    with pytest.raises(DataError, match=r"the loss \S+ must return a"):
        custom_loss(lambda scores, grades: answer)([0.1, 0.2], [1, 0])


def below_zero(scores, grades):
    return scores.sum() - 1.0, np.ones(len(scores))


def a_little_below_zero(scores, grades):
    return -1e-15, np.zeros(len(scores))


@pytest.mark.parametrize("compile_it", [False, True])
def test_convex_functions_must_not_be_negative(compile_it):
    made = numba.njit if compile_it else lambda function: function
    with pytest.raises(DataError, match="is declared convex and must not be negative, but its value was -1"):
        custom_loss(made(below_zero), convex=True)([0.0, 0.0], [1, 0])
    assert custom_loss(made(below_zero))([0.0, 0.0], [1, 0])[0] == -1.0
    assert custom_loss(made(a_little_below_zero), convex=True)([0.0, 0.0], [1, 0])[0] == 0.0


@numba.njit
def negative_where_scores_are(scores, grades):
    return scores.sum(), np.ones(len(scores))


def test_compiled_functions_are_checked_in_every_query():
    own = custom_loss(negative_where_scores_are, convex=True)
    with pytest.raises(DataError, match="must not be negative, but its value was -3"):
        own.of_queries([1.0, 1.0, -1.0, -2.0], [1, 0, 1, 0], [0, 2, 4])


@numba.njit
def over_relevant(scores, grades):
    n = 0
    for grade in grades:
        n += 1 if grade > 0 else 0
    return float(len(scores) // n), np.zeros(len(scores))


def test_compiled_functions_are_tried_on_a_real_query():
    assert custom_loss(over_relevant)([0.1, 0.2, 0.3], [0, 0, 1])[0] == 3.0


def test_compiled_functions_may_have_a_signature_and_write_to_what_they_get():
    @numba.njit("Tuple((f8, f8[::1]))(f8[::1], f8[::1])")
    def own(scores, grades):
        scores -= grades
        return (scores**2).sum(), 2.0 * scores

    scores, grades = np.array([0.5, 1.0]), np.array([1.0, 0.0])
    value, gradient = custom_loss(own)(scores, grades)
    assert value == 1.25
    assert gradient.tolist() == [-1.0, 2.0]
    assert scores.tolist() == [0.5, 1.0]


@numba.njit
def does_not_compile(scores, grades):
    return scores.no_such_thing, scores


@numba.njit
def complains(scores, grades):
    if len(scores) > 2:
        raise ValueError("too many")
    return 0.0, scores


@numba.njit
def too_long(scores, grades):
    return 0.0, np.zeros(2)


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (does_not_compile, ParameterError, "does_not_compile does not compile for"),
        (complains, DataError, "complains failed: too many"),
        (too_long, DataError, "too_long must return a gradient of 3 numbers, but did not for query 1"),
    ],
)
def test_compiled_functions_that_fail_raise_clear_errors(function, error, message):
    with pytest.raises(error, match=message):
        custom_loss(function).of_queries(np.zeros(5), np.arange(5.0), [0, 2, 5])
