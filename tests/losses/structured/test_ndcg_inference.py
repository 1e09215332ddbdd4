"""Loss-augmented ranking for NDCG: against all rankings, SciPy's assignment and the properties of the loss."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from definitions import NdcgQuery, families
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

import gainful
from gainful.losses.structured import RankingProblem, augmented_rankings, violations
from gainful.losses.structured.ndcg import fill_violations
from gainful.losses.structured.problem import COUNTS, PATHS
from gainful.losses.structured.violations import BOUNDS

FAMILIES = ("linear", "sqrt", "discount", "flat")
METHODS = ("automatic", "paths", "counts", "square")


def by_method(problem, scores, method, tight=False, prices=None):
    xi, c = np.empty(problem.n_queries), np.empty(problem.n_rows)
    locked = np.array(scores, dtype=float)
    locked.flags.writeable = False
    fill_violations(problem, locked, 0, problem.n_queries, tight, prices, xi, c, method)
    return xi, c


def random_problem(rng, *, n_queries=8, longest=12, n_grades=5, k=5, family="linear", **options):
    counts = rng.integers(1, longest + 1, n_queries)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    y = rng.integers(0, n_grades, offsets[-1]).astype(float)
    A = families(longest if k is None else k)[family]
    return RankingProblem.ndcg(y, offsets, k, position_weights=A, **options), y, offsets


def losses_of(problem, ranks):
    """1 − NDCG of the given ranks, 0 below the depth, one per query."""
    gain = np.empty(problem.n_rows)
    first = np.repeat(problem.offsets[:-1], np.diff(problem.offsets))
    gain[first + problem.order] = np.repeat(problem.gains, np.diff(problem.starts))
    D = np.append(problem.discounts, 0.0)
    return np.where(problem.active, 1.0 - np.add.reduceat(gain * D[ranks - 1], problem.offsets[:-1]), 0.0)


@st.composite
def queries(draw):
    n = draw(st.integers(1, 6))
    grades = draw(st.lists(st.sampled_from([0.0, 1.0, 2.0, 0.5, 4.0]), min_size=n, max_size=n))
    number = st.one_of(st.integers(-3, 3).map(float), st.floats(-1e3, 1e3), st.floats(-1e-3, 1e-3))
    scores = np.array(draw(st.lists(number, min_size=n, max_size=n)))
    k = draw(st.one_of(st.none(), st.integers(1, 8)))
    A = families(draw(st.integers(1, 8)))[draw(st.sampled_from(FAMILIES))]
    options = {
        "gain": draw(st.sampled_from(["exp2", "linear"])),
        "discount": draw(st.sampled_from([None, (1.0, 1.0, 0.63), (1.0,)])),
    }
    return grades, scores, k, A, options


@given(queries())
@settings(max_examples=100)
def test_every_method_finds_the_best_of_all_rankings(query):
    grades, s, k, A, options = query
    problem = RankingProblem.ndcg(grades, [0, len(grades)], k, position_weights=A, **options)
    by_hand = NdcgQuery(grades, k, A, **options)
    assert problem.active[0] == by_hand.is_active
    tolerance = 1e-12 * (1.0 + np.abs(s).max() * A.sum())
    convex, tight = (by_hand.convex(s), by_hand.tight(s)) if by_hand.is_active else (0.0, 0.0)
    for method in METHODS:
        assert by_method(problem, s, method)[0][0] == pytest.approx(convex, abs=tolerance)
        assert by_method(problem, s, method, tight=True)[0][0] == pytest.approx(tight, abs=tolerance)


@pytest.mark.parametrize("family", FAMILIES)
def test_seven_documents(rng, family):
    for _ in range(12):
        k = int(rng.integers(1, 9))
        A, grades, s = families(k)[family], rng.integers(0, 4, 7), np.round(rng.normal(size=7), 1)
        by_hand = NdcgQuery(grades, k, A)
        if by_hand.is_active:
            xi, _ = violations(RankingProblem.ndcg(grades, [0, 7], k, position_weights=A), s)
            assert xi[0] == pytest.approx(by_hand.convex(s), abs=1e-12)


@pytest.mark.parametrize("n_grades", [2, 3, 5, 60])
@pytest.mark.parametrize("k", [1, 7, 25, None])
def test_agrees_with_scipy(rng, n_grades, k):
    for scale in (1e-3, 0.1, 30.0):
        problem, y, offsets = random_problem(rng, longest=60, n_grades=n_grades, k=k, gain="linear")
        s = scale * (rng.normal(size=len(y)) + y / n_grades)
        xi, _ = violations(problem, s)
        for q, (lo, hi) in enumerate(pairwise(offsets)):
            m = min(problem.depth, hi - lo)
            A, D = problem.position_weights[:m], problem.discounts[:m]
            best = np.sort(y[lo:hi])[::-1][:m] @ D
            if not problem.active[q]:
                assert xi[q] == 0.0
                continue
            value = A[:, None] * s[lo:hi] - D[:, None] * y[lo:hi] / best
            at = linear_sum_assignment(value, maximize=True)
            expected = 1.0 + value[at].sum() - problem.target[lo:hi] @ s[lo:hi]
            assert xi[q] == pytest.approx(expected, abs=1e-11 * (1.0 + np.abs(s).max() * A.sum()))


@pytest.mark.parametrize("k", [3, 20, None])
def test_methods_agree_on_longer_lists(rng, k):
    problem, y, _ = random_problem(rng, n_queries=20, longest=40, n_grades=3, k=k, family="sqrt")
    for scale in (1e-4, 0.05, 5.0):
        s = scale * rng.normal(size=len(y))
        expected, _ = by_method(problem, s, "paths")
        for method in ("counts", "square", "automatic"):
            np.testing.assert_allclose(by_method(problem, s, method)[0], expected, atol=1e-11)


@pytest.mark.parametrize(("of_two_grades", "ways"), [(1, {PATHS}), (2, {PATHS, COUNTS}), (30, {COUNTS})])
def test_few_queries_of_two_grades_are_ranked_like_the_others(of_two_grades, ways):
    """Below one query in twenty, the kernel for two grades would take longer to compile than it saves."""
    n_queries, n_docs = 30, 6
    y = np.tile([0.0, 1.0, 2.0, 0.0, 1.0, 2.0], (n_queries, 1))
    y[:of_two_grades] = np.minimum(y[:of_two_grades], 1.0)
    offsets = np.arange(n_queries + 1) * n_docs
    problem = RankingProblem.ndcg(y.ravel(), offsets, 3, position_weights=families(3)["linear"])
    assert set(problem.ways[0]) == ways


@pytest.mark.parametrize("n_grades", [2, 5, 40])
def test_prices_kept_between_calls_change_no_value(rng, n_grades):
    problem, y, _ = random_problem(rng, n_queries=12, longest=80, n_grades=n_grades, k=None, gain="linear")
    prices, s = np.zeros(len(y)), rng.normal(size=len(y))
    for _ in range(6):
        cold, warm = violations(problem, s), violations(problem, s, prices=prices)
        np.testing.assert_allclose(warm[0], cold[0], atol=1e-11)
        s = s + 0.3 * rng.normal(size=len(y))
    prices[:] = 1e6 * rng.normal(size=len(y))  # however bad they are
    np.testing.assert_allclose(violations(problem, s, prices=prices)[0], violations(problem, s)[0], atol=1e-8)


@pytest.mark.parametrize("k", [1, 4, None])
@pytest.mark.parametrize("bound", ["convex", "tight"])
def test_value_ranking_and_coefficients_belong_together(rng, k, bound):
    problem, y, offsets = random_problem(rng, n_queries=40, k=k, family="discount")
    s = np.round(rng.normal(size=len(y)), 1)
    xi, c = violations(problem, s, bound)
    ranks = augmented_rankings(problem, s)
    loss = losses_of(problem, ranks)
    np.testing.assert_allclose(xi, loss + np.add.reduceat(c * s, offsets[:-1]), atol=1e-12)
    for lo, hi, active in zip(offsets, offsets[1:], problem.active, strict=False):
        placed = np.sort(ranks[lo:hi][ranks[lo:hi] > 0])
        expected = np.arange(1, min(problem.depth, hi - lo) + 1) if active else []
        np.testing.assert_array_equal(placed, expected)
    if bound == "convex":
        A = np.append(problem.position_weights, 0.0)
        expected = np.where(np.repeat(problem.active, np.diff(offsets)), A[ranks - 1] - problem.target, 0.0)
        np.testing.assert_allclose(c, expected, atol=1e-15)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_loss_is_below_the_tight_bound_is_below_the_convex_one(rng, family):
    problem, y, offsets = random_problem(rng, n_queries=60, k=4, family=family)
    for scale in (0.0, 0.01, 1.0, 100.0):
        s = scale * rng.normal(size=len(y))
        loss = 1.0 - gainful.metric("ndcg@4", empty=1).evaluate(s, y, offsets)
        tight, convex = violations(problem, s, "tight")[0], violations(problem, s)[0]
        assert np.all(convex >= tight - 1e-12 * (1 + scale))
        assert np.all(tight[problem.active] >= loss[problem.active] - 1e-12 * (1 + scale))


def test_convex_along_lines_and_above_its_tangents(rng):
    problem, y, offsets = random_problem(rng, n_queries=40, k=6)
    for _ in range(20):
        a, b = rng.normal(size=(2, len(y))) * 10.0 ** rng.uniform(-3, 1)
        t = rng.uniform()
        (xi_a, c_a), (xi_b, _) = violations(problem, a), violations(problem, b)
        between, _ = violations(problem, t * a + (1 - t) * b)
        assert np.all(between <= t * xi_a + (1 - t) * xi_b + 1e-12)
        assert np.all(xi_b >= xi_a + np.add.reduceat(c_a * (b - a), offsets[:-1]) - 1e-12)


def test_coefficients_are_the_gradient(rng):
    problem, y, _ = random_problem(rng, n_queries=10, k=4)
    s, direction, step = rng.normal(size=len(y)), rng.normal(size=len(y)), 1e-6
    for bound in ("convex", "tight"):
        _, c = violations(problem, s, bound)
        ahead, behind = (
            violations(problem, s + step * direction, bound)[0],
            violations(problem, s - step * direction, bound)[0],
        )
        assert (ahead.sum() - behind.sum()) / (2 * step) == pytest.approx(c @ direction, abs=1e-6)


def test_huge_scores_keep_their_digits(rng):
    problem, y, _ = random_problem(rng, n_queries=30, k=5)
    s = np.round(rng.normal(size=len(y)) * 8) / 8
    np.testing.assert_allclose(violations(problem, s + 2.0**40)[0], violations(problem, s)[0], atol=1e-9)
    for scale in (1e12, 1e150):
        xi, c = violations(problem, scale * s)
        assert np.all(np.isfinite(xi))
        assert np.all(np.isfinite(c))


def test_scores_that_are_not_finite_spoil_their_query_only(rng):
    problem, y, offsets = random_problem(rng, n_queries=12, longest=9, k=None)
    q = int(np.flatnonzero(problem.active)[0])
    s = rng.normal(size=len(y))
    expected = violations(problem, s)[0]
    for bad in (np.nan, np.inf, -np.inf, 1e305):
        spoilt = s.copy()
        spoilt[offsets[q]] = bad
        for method in METHODS:
            xi, c = by_method(problem, spoilt, method)
            assert np.isnan(xi[q])
            assert not c[offsets[q] : offsets[q + 1]].any()
            np.testing.assert_allclose(np.delete(xi, q), np.delete(expected, q), atol=1e-12)


def test_queries_without_a_loss_contribute_nothing():
    y = np.array([0.0, 0, 0, 2, 2, 1, 3, 0])  # none relevant, one grade, one document, an ordinary query
    problem = RankingProblem.ndcg(y, [0, 3, 5, 6, 8], 2, position_weights=[2.0, 1.0])
    np.testing.assert_array_equal(problem.active, [False, False, False, True])
    for bound in ("convex", "tight"):
        xi, c = violations(problem, np.arange(8.0), bound)
        np.testing.assert_array_equal(xi[:3], 0.0)
        np.testing.assert_array_equal(c[:6], 0.0)
        assert xi[3] > 0.0
    np.testing.assert_array_equal(augmented_rankings(problem, np.arange(8.0))[:6], 0)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=6), st.integers(1, 8), st.sampled_from(FAMILIES))
@settings(max_examples=40)
def test_targets(grades, k, family):
    A = families(k)[family]
    by_hand = NdcgQuery(grades, k, A)
    if not by_hand.is_active:
        return
    offsets = [0, len(grades)]
    mean = RankingProblem.ndcg(grades, offsets, k, position_weights=A).target
    np.testing.assert_allclose(mean, by_hand.target(), atol=1e-14)
    one = RankingProblem.ndcg(grades, offsets, k, position_weights=A, ties="random", seed=3).target
    assert (by_hand.A[by_hand.perfect()] == one).all(axis=1).any()


def test_random_targets_cover_all_perfect_rankings():
    drawn = [
        RankingProblem.ndcg([1, 1, 1, 0], [0, 4], 3, position_weights=[3, 2, 1], ties="random", seed=seed).target
        for seed in range(60)
    ]
    assert len({tuple(target) for target in drawn}) == 6


@pytest.mark.parametrize("top", [5.0, 60.0, 300.0, 1000.0, 5000.0])
def test_gains_do_not_overflow(rng, top):
    y = np.array([top, top - 1.0, top - 2.5, 1.0, 0.0, 0.25])
    problem = RankingProblem.ndcg(y, [0, 6], 4, position_weights=[4, 3, 2, 1])
    D = problem.discounts
    ratios = 2.0 ** (y - top) - 2.0**-top
    np.testing.assert_allclose(problem.gains, np.sort(ratios)[::-1] / (np.sort(ratios)[::-1][:4] @ D), rtol=1e-12)
    assert np.isfinite(violations(problem, rng.normal(size=6))[0]).all()


def test_the_same_call_gives_the_same_bits(rng):
    problem, y, _ = random_problem(rng, n_queries=300, longest=50, k=10)
    s = np.round(rng.normal(size=len(y)), 1)
    first, second = violations(problem, s, threads=1), violations(problem, s, threads=2)
    np.testing.assert_array_equal(first[0], second[0])
    np.testing.assert_array_equal(first[1], second[1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": 0}, "k of RankingProblem must be an integer ≥ 1, or None, was 0"),
        ({"k": True}, "k of RankingProblem"),
        ({"gain": "cubic"}, "gain of RankingProblem must be 'exp2' or 'linear', was 'cubic'"),
        ({"ties": "worst"}, "ties of RankingProblem"),
        ({"position_weights": []}, "position_weights of RankingProblem"),
        ({"position_weights": [1.0, 2.0]}, "numbers that never increase"),
        ({"position_weights": [1.0, -1.0]}, "non-negative numbers"),
        ({"position_weights": [0.0]}, "a first entry above 0"),
        ({"discount": [1.0, np.nan]}, "discount of RankingProblem"),
        ({"offsets": [0, 2]}, "offsets of RankingProblem"),
    ],
)
def test_mistakes(change, message):
    arguments = {"y": [1, 0, 2], "offsets": [0, 3], "k": 2, "position_weights": [2.0, 1.0]} | change
    with pytest.raises(gainful.ParameterError, match=message):
        RankingProblem.ndcg(**arguments)


def test_stages_read_only_what_stages_before_them_wrote(monkeypatch, rng):
    """Workspaces are not cleared: with other leftovers in memory the answers are the same."""
    counts = rng.integers(2, 40, 30)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    y, s = rng.integers(0, 4, offsets[-1]), rng.normal(size=offsets[-1])
    problems = [RankingProblem.ndcg(y, offsets, k, position_weights=np.arange(k, 0.0, -1.0)) for k in (5, 40)]
    ways = [partial(violations, problem, bound=bound) for problem in problems for bound in BOUNDS]
    expected = [way(s) for way in ways]

    def leftovers(shape, dtype=float):
        return np.full(shape, np.nan if np.dtype(dtype).kind == "f" else 1, dtype)

    monkeypatch.setattr(np, "empty", leftovers)
    for way, (xi, c) in zip(ways, expected, strict=True):
        found_xi, found_c = way(s)
        np.testing.assert_array_equal(found_xi, xi)
        np.testing.assert_array_equal(found_c, c)


# -- the guess at the candidates ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("bound", ["convex", "tight"])
def test_results_do_not_depend_on_earlier_calls(rng, ties, bound):
    problem, y, offsets = random_problem(rng, n_queries=20, longest=60, k=5)
    for _ in range(10):
        scores = rng.normal(size=len(y))
        scores = np.round(scores) if ties else scores
        fresh = RankingProblem.ndcg(y, offsets, 5, position_weights=problem.position_weights)
        for found, wanted in zip(violations(problem, scores, bound), violations(fresh, scores, bound), strict=True):
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("wrong", ["repeated", "random"])
def test_wrong_guesses_change_nothing(rng, wrong):
    problem, y, offsets = random_problem(rng, n_queries=20, longest=60, k=5)
    scores = rng.normal(size=len(y))
    wanted = violations(problem, scores)
    for _ in range(5):
        problem.guess[:] = rng.integers(0, np.repeat(np.diff(offsets), np.diff(offsets)))
        if wrong == "repeated":  # the best row of its query, everywhere: few rows score as high
            best = np.array([int(np.argmax(scores[a:b])) for a, b in pairwise(offsets)])
            problem.guess[:] = np.repeat(best, np.diff(offsets))
        for found, right in zip(violations(problem, scores), wanted, strict=True):
            np.testing.assert_array_equal(found, right)


def test_the_candidates_of_a_call_are_the_next_guess(rng):
    problem, y, offsets = random_problem(rng, n_queries=3, longest=40, n_grades=2, k=4)
    scores = rng.normal(size=len(y))
    violations(problem, scores, threads=1)
    for q in np.flatnonzero(problem.active):
        lo, b = int(offsets[q]), int(problem.blocks[q])
        rows = problem.order[int(problem.starts[b]) : int(problem.starts[b + 1])]
        best = rows[np.argsort(-scores[lo + rows], kind="stable")][:4]
        assert problem.guess[lo : lo + len(best)].tolist() == best.tolist()
