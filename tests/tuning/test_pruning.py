"""Giving up: never on what would have been best, early on what is far behind."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st
from known_rankers import Curve, Height

import gainful
from gainful.parameters.space import Values
from gainful.tuning.pruning import best_by, extend, is_hopeless
from gainful.tuning.search import Search
from gainful.tuning.trials import Budget, Trials

TOTAL = 100


def concave(gains):
    """A curve of at most TOTAL iterations whose gains never grow."""
    curve, height = [], 0.0
    for t, gain in enumerate(sorted(gains, reverse=True), start=1):
        height += gain
        extend(curve, t, height)
    return curve


GAINS = st.lists(st.floats(0, 1), min_size=1, max_size=TOTAL)


@given(ours=GAINS, others=st.lists(GAINS, min_size=1, max_size=6))
def test_a_concave_curve_that_ends_highest_is_never_given_up(ours, others):
    curve, known = concave(ours), [concave(gains) for gains in others]
    ends = [other[-1][1] if other else 0.0 for other in known]
    if not curve or curve[-1][1] * (1 - 1e-9) < max(ends):
        return
    for t in range(1, len(ours) + 1):
        assert not is_hopeless([point for point in curve if point[0] <= t], t, TOTAL, [c for c in known if c])


def test_the_rule_by_hand():
    others = [[(1, 0.5), (20, 0.8)], [(1, 0.6)], [(1, 0.4), (30, 0.7)]]
    slow = [(1, 0.1), (20, 0.2)]  # at 40: 0.2 since 20, no gain in the second half
    assert is_hopeless(slow, 40, TOTAL, others)
    assert not is_hopeless(slow, 20, TOTAL, others)  # 0.2 + 80·0.1/10 = 1.0 > 0.8
    assert not is_hopeless(slow, 9, TOTAL, others)  # too early to judge
    assert not is_hopeless(slow, 40, None, others)  # no last iteration, no forecast
    assert not is_hopeless(slow, 40, TOTAL, others[:2])  # too few to compare with
    assert not is_hopeless([(1, 0.7)], 40, TOTAL, others)  # not below their median at 40
    assert best_by([(3, 0.1), (8, 0.4)], 7) == 0.1
    assert best_by([(3, 0.1)], 2) is None


def trials(tops, prune, rates=None):
    data = gainful.make_artificial(4, n_docs=5, n_features=2, seed=0)
    part = gainful.Split(data, data, data)
    settings = list(zip(tops, rates or [0.1] * len(tops), strict=True))

    class Listed(Search):
        def propose(self, i, finished=()):
            return dict(zip(("top", "rate"), settings[i], strict=True))

    search = Listed("random", {"top": Values(*tops), "rate": Values(0.1)}, {"top": tops[0], "rate": 0.1})
    found = Trials(Curve(), [part], search, Height(), Budget(len(tops), prune=prune))
    found.run()
    return found


def test_the_winner_is_kept_and_iterations_are_saved():
    tops = [0.5, 0.6, 0.55, 0.4, 0.7, 0.3, 0.2, 0.8, 0.25, 0.9, 0.35, 0.1]
    pruned, full = trials(tops, True), trials(tops, False)
    assert pruned.best["params"]["top"] == full.best["params"]["top"] == 0.9
    assert pruned.best["value"] == full.best["value"] == 0.9 * (1 - math.exp(-0.1 * Curve.iterations))
    spent = [sum(row["iterations"] for row in t.in_order()) for t in (pruned, full)]
    assert spent[1] == Curve.iterations * len(tops)
    assert spent[0] < 0.8 * spent[1]
    given_up = [row for row in pruned.in_order() if row["state"] == "pruned"]
    assert {row["params"]["top"] for row in given_up} <= {0.3, 0.2, 0.25, 0.35, 0.1, 0.4}
    assert all(row["value"] is None and row["iterations"] < Curve.iterations for row in given_up)


def test_a_late_riser_survives():
    """Far behind for most of its course, and best in the end: slow gains that do not shrink are believed."""
    tops, rates = [0.4, 0.45, 0.5, 0.42, 0.44, 0.9], [0.5] * 5 + [0.012]
    found = trials(tops, True, rates)
    assert found.best["params"]["top"] == 0.9
    assert 0.9 * (1 - math.exp(-0.012 * 50)) < 0.41  # at half time it is below all others
