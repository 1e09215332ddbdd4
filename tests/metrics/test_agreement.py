"""Two rankings compared: rank-biased overlap and Kendall's τ."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gainful
from gainful.errors import DataError, ParameterError

LISTS = st.lists(st.sampled_from("abcdefgh"), max_size=7, unique=True)


def extrapolated(first, second, p):
    """RBO_ext summed rank by rank, far down, with the overlap extrapolated."""
    short, long = sorted((first, second), key=len)
    s, n = len(short), len(long)
    agreement = []
    for d in range(1, 3000):
        common = len(set(short[:d]) & set(long[:d]))
        if d > s:  # the short list goes on with the share in common that it had at its end
            common = len(set(short) & set(long[:d])) + len(set(short) & set(long[:s])) / s * (min(d, n) - s)
        if d > n:
            agreement.append(agreement[n - 1])
        else:
            agreement.append(common / d)
    return (1 - p) * sum(share * p**i for i, share in enumerate(agreement))


@settings(max_examples=40, deadline=None)
@given(first=LISTS.filter(bool), second=LISTS.filter(bool), p=st.sampled_from([0.5, 0.8, 0.9]))
def test_overlap_by_definition(first, second, p):
    assert gainful.rbo(first, second, p=p) == pytest.approx(extrapolated(first, second, p), abs=1e-9)
    assert gainful.rbo(first, second, p=p) == pytest.approx(gainful.rbo(second, first, p=p), abs=1e-12)


def test_overlap_of_known_rankings():
    assert gainful.rbo(list("abc"), list("abc")) == pytest.approx(1.0)
    assert gainful.rbo(list("abc"), list("xyz")) == 0.0
    assert gainful.rbo([], []) == 1.0
    assert gainful.rbo([], ["a"]) == 0.0
    assert gainful.rbo({"a": 2.0, "b": 1.0}, {"b": 2.0, "a": 1.0}, p=0.9) == pytest.approx(0.9)
    assert gainful.rbo({"a": 1.0, "b": 1.0}, ["b", "a"]) == 1.0  # equal scores by falling id


@settings(max_examples=30, deadline=None)
@given(order=st.permutations(list("abcdef")))
def test_tau_by_definition(order):
    truth = list("abcdef")
    place = {one: i for i, one in enumerate(truth)}
    pairs = [np.sign(place[b] - place[a]) for a, b in combinations(order, 2)]
    assert gainful.kendall_tau(order, truth) == pytest.approx(np.mean(pairs))
    shares = [np.mean([place[a] < place[order[i]] for a in order[:i]]) for i in range(1, 6)]
    assert gainful.kendall_tau(order, truth, variant="ap") == pytest.approx(2 * np.mean(shares) - 1)


def test_tau_allows_equal_scores_and_the_top_counts_more_in_tau_ap():
    scipy_stats = pytest.importorskip("scipy.stats")
    ours, theirs = {"a": 1.0, "b": 1.0, "c": 3.0, "d": 0.0}, {"a": 4.0, "b": 2.0, "c": 2.0, "d": 1.0}
    expected = scipy_stats.kendalltau(list(ours.values()), list(theirs.values())).statistic
    assert gainful.kendall_tau(ours, theirs) == pytest.approx(expected)
    truth = list("abcd")
    top, bottom = list("bacd"), list("abdc")
    assert gainful.kendall_tau(top, truth) == gainful.kendall_tau(bottom, truth)
    assert gainful.kendall_tau(top, truth, variant="ap") < gainful.kendall_tau(bottom, truth, variant="ap")


def test_mistakes_are_told():
    with pytest.raises(ParameterError, match="p of rbo must be a number between 0 and 1, was 1"):
        gainful.rbo(["a"], ["a"], p=1)
    with pytest.raises(DataError, match="'a' is twice in a ranking"):
        gainful.rbo(["a", "a"], ["a"])
    with pytest.raises(DataError, match="a ranking holds documents, best first"):
        gainful.rbo("abc", ["a"])
    with pytest.raises(DataError, match="'c' is in only one of the rankings; τ needs the same things in both"):
        gainful.kendall_tau(["a", "b"], ["a", "b", "c"])
    with pytest.raises(DataError, match="τ needs at least two things to rank, had 1"):
        gainful.kendall_tau(["a"], ["a"])
    with pytest.raises(ParameterError, match="kendall_tau has no variant 'c'"):
        gainful.kendall_tau(["a", "b"], ["b", "a"], variant="c")
