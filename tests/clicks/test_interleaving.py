"""Interleaving: fair by enumeration, right by hand, and tests that keep their level."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gainful
from gainful.clicks.interleaving import METHODS, _team_draft, fair_lists
from gainful.errors import DataError, ParameterError

rankings = st.permutations(range(6)).flatmap(lambda p: st.integers(1, 6).map(lambda n: p[:n]))


class Coins:
    """A generator whose coins are known."""

    def __init__(self, coins):
        self.coins = iter(coins)

    def random(self):
        return next(self.coins)


def team_drafts(a, b, length):
    """Every course of team draft, each with the same chance."""
    return [_team_draft(a, b, length, Coins(coins)) for coins in itertools.product((0.0, 1.0), repeat=len(a) + len(b))]


# -- lists -------------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:no choice of lists of these two rankings is fair")
@settings(max_examples=30, deadline=None)
@given(rankings, rankings, st.sampled_from(METHODS), st.integers(1, 8), st.integers(0, 99))
def test_lists_are_made_of_both_rankings(a, b, method, length, seed):
    found = gainful.interleave(a, b, method, length=length, seed=seed)
    assert len(found.documents) == len(set(found.documents)) == min(length, len(set(a) | set(b)))
    assert set(found.documents) <= set(a) | set(b)
    assert len(found.credit) == len(found.documents)
    assert found == gainful.interleave(a, b, method, length=length, seed=seed)
    if method != "probabilistic":
        assert found.documents[0] in (a[0], b[0])


@settings(max_examples=30, deadline=None)
@given(rankings, rankings)
def test_swapping_the_rankings_swaps_the_credit_of_team_draft(a, b):
    a, b = tuple(a[:3]), tuple(b[:3])
    length = min(3, len(set(a) | set(b)))
    drawn = {(tuple(shown), tuple(credit)) for shown, credit in team_drafts(a, b, length)}
    swapped = {(tuple(shown), tuple(-one for one in credit)) for shown, credit in team_drafts(b, a, length)}
    assert drawn == swapped


@pytest.mark.filterwarnings("ignore:no choice of lists of these two rankings is fair")
@settings(max_examples=30, deadline=None)
@given(rankings, rankings, st.integers(0, 99))
def test_optimised_credit_is_the_difference_of_inverse_ranks(a, b, seed):
    found = gainful.interleave(a, b, "optimised", length=4, seed=seed)
    ranks = [{one: i + 1 for i, one in enumerate(ranking)} for ranking in (a, b)]
    missing = max(len(a), len(b)) + 1
    worth = [1 / ranks[0].get(d, missing) - 1 / ranks[1].get(d, missing) for d in found.documents]
    assert found.credit == pytest.approx(worth)


@pytest.mark.filterwarnings("ignore:no choice of lists of these two rankings is fair")
@settings(max_examples=50, deadline=None)
@given(rankings, rankings, st.integers(1, 8))
def test_optimised_credits_a_ranking_with_what_it_alone_has(a, b, length):
    """However many documents each has."""
    for shown, credit in zip(*listed(a, b, length), strict=True):
        for document, worth in zip(shown, credit, strict=True):
            if document not in a or document not in b:
                assert worth > 0 if document in a else worth < 0


def listed(a, b, length):
    found = fair_lists(tuple(a), tuple(b), min(length, len(set(a) | set(b))))
    return found.documents, found.credit


@pytest.mark.filterwarnings("ignore:no choice of lists of these two rankings is fair")
@settings(max_examples=30, deadline=None)
@given(rankings, rankings, st.integers(1, 8))
def test_lists_that_cannot_be_fair_are_warned_about(a, b, length):
    """Whether users who click by position alone favour a side, over all lists with their chances."""
    found = fair_lists(tuple(a), tuple(b), min(length, len(set(a) | set(b))))
    is_fair = np.abs(np.array(found.chance) @ np.array(found.credit)).max() < 1e-7
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gainful.interleave(a, b, "optimised", length=length, seed=0)
    assert bool(caught) is not is_fair
    assert is_fair or "take method='team-draft'" in str(caught[0].message)


def test_rankings_of_any_ids():
    """As they were given: tuples, and numbers beside texts."""
    for ids in ([("q", 1), ("q", 2)], [1, 2.5], [1, "one"], np.array([3, 4])):
        found = gainful.interleave(ids, ids[::-1], seed=1)
        assert sorted(map(repr, found.documents)) == sorted(map(repr, ids if isinstance(ids, list) else ids.tolist()))


def test_team_draft_by_hand():
    a, b = (0, 1, 2), (1, 2, 0)
    assert _team_draft(a, b, 3, Coins([0.0, 0.0])) == ([0, 1, 2], [1.0, -1.0, 1.0])
    assert _team_draft(a, b, 3, Coins([1.0, 1.0])) == ([1, 0, 2], [-1.0, 1.0, -1.0])


@settings(max_examples=30, deadline=None)
@given(rankings, rankings, st.integers(1, 5))
def test_team_draft_is_fair_by_enumeration(a, b, length):
    """Over all coins, the mean credit is 0 in every position, also if one ranking is shorter."""
    a, b = tuple(a[:4]), tuple(b[:4])
    length = min(length, len(set(a) | set(b)))
    credits = np.array([credit for _, credit in team_drafts(a, b, length)])
    assert credits.mean(axis=0) == pytest.approx(np.zeros(length), abs=1e-12)


def test_probabilistic_by_hand():
    """Two documents in opposite orders: each ranking draws its best with probability 8/9."""
    first = [gainful.interleave(["x", "y"], ["y", "x"], "probabilistic", seed=seed) for seed in range(400)]
    for one in first:
        best = 1.0 if one.documents[0] == "x" else -1.0
        assert one.credit == pytest.approx((best * (8 / 9 - 1 / 9), 0.0))
    assert 150 < sum(one.documents[0] == "x" for one in first) < 250


def test_probabilistic_is_fair():
    rng = np.random.default_rng(1)
    credits = np.array(
        [gainful.interleave([0, 1, 2, 3], [3, 1, 4], "probabilistic", length=4, seed=rng).credit for _ in range(3000)]
    )
    error = credits.std(axis=0) / math.sqrt(len(credits))
    assert (np.abs(credits.mean(axis=0)) <= 4 * error + 1e-12).all()


@pytest.mark.parametrize("length", [2, 3, 4])
def test_optimised_is_fair_for_all_rankings_of_four(length):
    for b in itertools.permutations(range(4)):
        found = fair_lists((0, 1, 2, 3), b, length)
        assert sum(found.chance) == pytest.approx(1.0)
        assert np.array(found.chance) @ np.array(found.credit) == pytest.approx(np.zeros(length), abs=1e-9)


def test_optimised_takes_the_most_sensitive_of_fair_lists():
    """A = 0 1, B = 1 0: both lists have credits ±½; only an even chance is fair."""
    found = fair_lists((0, 1), (1, 0), 2)
    assert dict(zip(found.documents, found.chance, strict=True)) == pytest.approx({(0, 1): 0.5, (1, 0): 0.5})
    assert dict(zip(found.documents, found.credit, strict=True)) == {(0, 1): (0.5, -0.5), (1, 0): (-0.5, 0.5)}


def test_outcome_adds_the_credit_of_clicks():
    shown = gainful.Interleaved(("x", "y", "z"), (1.0, -1.0, 1.0), "team-draft")
    assert shown.outcome([]) == 0.0
    assert shown.outcome(["x", "z", "z"]) == 2.0
    with pytest.raises(DataError, match="document w was clicked and is not on"):
        shown.outcome(["w"])


# -- analysis ----------------------------------------------------------------------------------------------------------


def test_sign_test_by_hand():
    found = gainful.analyse_interleaving([1] * 8 + [-1] + [0])
    assert found.p_value == pytest.approx(2 * (1 + 9) / 2**9)
    assert (found.wins_a, found.wins_b, found.ties, found.winner) == (8, 1, 1, "A")
    assert found.share == pytest.approx(8 / 9)
    assert found.share_low == pytest.approx(0.5175, abs=1e-4)  # Clopper and Pearson
    assert gainful.analyse_interleaving([-1] * 8 + [1]).winner == "B"


def test_t_test_by_hand():
    found = gainful.analyse_interleaving([1.0, 2.0, 3.0], test="t")
    assert found.mean == 2.0
    assert found.high - found.mean == pytest.approx(4.302653 / math.sqrt(3), rel=1e-6)
    assert found.p_value == pytest.approx(0.0741799, rel=1e-5)
    assert found.winner is None


def test_sessions_are_added_first():
    found = gainful.analyse_interleaving([1, 1, 1, -1, -1], session=["u", "u", "u", "v", "w"])
    assert (found.units, found.wins_a, found.wins_b) == (3, 1, 2)


def test_nothing_but_ties():
    found = gainful.analyse_interleaving([0, 0, 0])
    assert found.winner is None
    assert found.p_value == 1.0
    assert math.isnan(found.share)
    assert "no difference shown" in str(found)


def test_false_alarms_are_at_most_the_level():
    rng = np.random.default_rng(3)
    outcomes = rng.choice([-1, 0, 1], size=(2000, 150))
    for test in (None, "sign", "t"):
        alarms = sum(gainful.analyse_interleaving(one, test=test).winner is not None for one in outcomes[:600])
        assert alarms <= 600 * 0.05 + 3 * math.sqrt(600 * 0.05 * 0.95)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("clicks", ["top", "all"])
def test_blind_users_raise_few_alarms(method, clicks):
    """Users who click by position alone, where B differs in one document that it shows on top: the hardest for a test
    that counts wins, which A has many of where B has few large ones."""
    rng = np.random.default_rng(6)
    a, b = list(range(10)), [9, *range(9)]
    credits = np.array([gainful.interleave(a, b, method, seed=rng).credit for _ in range(2000)])
    clicked = rng.random((400_000, 10)) < (1 / np.arange(2, 12) if clicks == "top" else 1.0)
    outcomes = (clicked * credits[rng.integers(len(credits), size=len(clicked))]).sum(axis=1)
    if method == "probabilistic":  # its lists are drawn, so their mean credit is 0 only nearly
        outcomes -= outcomes.mean()
    alarms = sum(gainful.analyse_interleaving(one).winner is not None for one in outcomes.reshape(400, 1000))
    assert alarms <= 400 * 0.05 + 3 * math.sqrt(400 * 0.05 * 0.95)


def test_the_sign_test_is_refused_where_it_is_not_fair():
    with pytest.raises(ParameterError, match=r"the sign test is not fair here.*take test='t'"):
        gainful.analyse_interleaving([0.5, -1.0, 0.0], test="sign")
    assert gainful.analyse_interleaving([0.5, -1.0, 0.0]).test == "t"
    assert gainful.analyse_interleaving([1.0, -1.0, 2.0]).test == "sign"


def test_clicks_on_everything_are_a_tie():
    """Of all documents of both rankings, the credits add up to 0, and rounding makes no winner."""
    rng = np.random.default_rng(7)
    for _ in range(50):
        shown = gainful.interleave(range(6), rng.permutation(6), "optimised", seed=rng)
        assert gainful.analyse_interleaving([shown.outcome(shown.documents)]).ties == 1


def test_few_outcomes_far_from_each_other_are_warned_about():
    with pytest.warns(gainful.DataWarning, match="30 outcomes with a few far from the others are too few"):
        gainful.analyse_interleaving([0.1] * 29 + [-3.0])


def test_the_sample_size_of_the_t_test_gives_the_power():
    rng = np.random.default_rng(8)
    outcomes = rng.choice([0.5, 0.2, 0.0, -0.3], size=400_000, p=[0.2, 0.2, 0.3, 0.3])
    n = gainful.interleaving_sample_size(effect=gainful.analyse_interleaving(outcomes).effect)
    won = sum(gainful.analyse_interleaving(rng.choice(outcomes, n)).winner == "A" for _ in range(400))
    assert won / 400 == pytest.approx(0.8, abs=0.07)
    with pytest.raises(ParameterError, match=r"give share=… \(of the sign test\) or effect=…"):
        gainful.interleaving_sample_size()


def test_the_sample_size_gives_the_power():
    n = gainful.interleaving_sample_size(0.6, ties=0.3)
    rng = np.random.default_rng(4)
    chances = [0.7 * 0.6, 0.3, 0.7 * 0.4]
    won = sum(gainful.analyse_interleaving(rng.choice([1, 0, -1], size=n, p=chances)).winner == "A" for _ in range(400))
    assert won / 400 == pytest.approx(0.8, abs=0.07)
    assert gainful.interleaving_sample_size(0.4, ties=0.3) == n


def test_mistakes_are_one_clear_line():
    with pytest.raises(ParameterError, match="method of interleave must be 'team-draft' or"):
        gainful.interleave([1], [2], "fancy")
    with pytest.raises(DataError, match="ranking b has a document twice"):
        gainful.interleave([1, 2], [2, 2])
    with pytest.raises(DataError, match="both rankings are empty"):
        gainful.interleave([], [])
    with pytest.raises(ParameterError, match="a list of documents, was 'abc'"):
        gainful.interleave("abc", ["a"])
    with pytest.raises(ParameterError, match="at most 12 for method='optimised'"):
        gainful.interleave([1, 2], [2, 1], "optimised", length=20)
    with pytest.raises(ParameterError, match="share of interleaving_sample_size must be above or below"):
        gainful.interleaving_sample_size(0.5)
    with pytest.raises(DataError, match="outcomes must be numbers"):
        gainful.analyse_interleaving([])
    with pytest.raises(DataError, match="session has 1 entries for 2 outcomes"):
        gainful.analyse_interleaving([1, 0], session=["u"])
