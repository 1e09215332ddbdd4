"""Interleaving: two rankings on one page, and clicks that say which is better.

Every method gives a list to show and a credit per position: positive if a click there speaks for A, negative if for B.
The outcome of an impression is the sum of the credits of its clicks. Each method is fair: to users whose clicks do not
depend on the documents, the expected outcome is 0. Where all credits are ±1 or 0 (team draft), they also let each side
win as often. Elsewhere they do not: many small wins of A may stand beside a few large ones of B.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from gainful.clicks.intervals import share_intervals
from gainful.data.rows import Array, check_column, codes_by_first_appearance
from gainful.errors import DataError, DataWarning, ParameterError, brief, plural, wording
from gainful.parameters.constraints import Choice, Integer, Maybe, Real, check_parameters

METHODS = ("team-draft", "probabilistic", "optimised")
STEEPNESS = 3.0  # of probabilistic interleaving: a document is drawn with probability ~ rank^-3
LONGEST_OPTIMISED = 12  # 2^12 lists
UNFAIR = 1e3  # cost of a unit of unfairness, beside a sensitivity of at most 1
SETTINGS = {"method": Choice(of=METHODS), "length": Integer(low=1)}
TESTS = ("sign", "t")
LARGEST_UNFAIRNESS = 1e-6  # that rounding explains
DIGITS = 6  # of an outcome: 1/3 − 1/3 is a tie
SKEWED = 0.2  # skewness of outcomes over the root of their number, from which a t test errs more often than it says


@dataclass(frozen=True)
class Interleaved:
    """A list to show. ``credit`` says per position what a click is worth: positive for A, negative for B."""

    documents: tuple[Any, ...]
    credit: tuple[float, ...]
    method: str

    def outcome(self, clicked: Iterable[Any]) -> float:
        """The credit of the documents clicked: above 0 A wins the impression, below 0 B.

        >>> Interleaved(("x", "y"), (1.0, -1.0), "team-draft").outcome(["y"])
        -1.0
        """
        worth = dict(zip(self.documents, self.credit, strict=True))
        total = 0.0
        for one in set(clicked):
            if one not in worth:
                raise DataError(f"document {brief(one)} was clicked and is not on the interleaved list")
            total += worth[one]
        return total


def interleave(
    a: Sequence[Any],
    b: Sequence[Any],
    method: str = "team-draft",
    *,
    length: int = 10,
    seed: int | np.random.Generator | None = None,
) -> Interleaved:
    """One list from two rankings, each with the best document first.

    Parameters
    ----------
    method : "team-draft" (A and B pick their best document in turns, a coin decides who is first; Radlinski, Kurup and
        Joachims, 2008), "probabilistic" (in each position a coin chooses A or B, which draws a document with
        probability ~ rank^-3; credit is the expectation over coins; Hofmann, Whiteson and de Rijke, 2011) or
        "optimised" (the most sensitive of all fair choices of prefixes, by linear programming, with credit
        1/rank of A − 1/rank of B; Radlinski and Craswell, 2013)
    length : documents on the list, at most; 12 for "optimised"
    seed : a seed or generator; by default random

    >>> import gainful
    >>> shown = gainful.interleave(["x", "y", "z"], ["y", "z", "x"], seed=1, length=2)
    >>> len(shown.documents), sorted(shown.credit)
    (2, [-1.0, 1.0])
    """
    check_parameters("interleave", SETTINGS, {"method": method, "length": length})
    if method == "optimised" and length > LONGEST_OPTIMISED:
        raise ParameterError.of(
            "interleave", "length", f"at most {LONGEST_OPTIMISED} for method='optimised'", length, "or take team-draft"
        )
    names: dict[Hashable, int] = {}
    first, second = (_codes(name, ranking, names) for name, ranking in (("a", a), ("b", b)))
    if not names:
        raise DataError("both rankings are empty; interleaving needs a document")
    rng = seed if isinstance(seed, np.random.Generator) else np.random.default_rng(seed)
    length = min(length, len(names))
    if method == "team-draft":
        shown, credit = _team_draft(first, second, length, rng)
    elif method == "probabilistic":
        shown, credit = _probabilistic(first, second, length, rng)
    else:
        lists = fair_lists(first, second, length)
        if lists.unfairness > LARGEST_UNFAIRNESS:
            other = wording("method='team-draft'", "--method team-draft")
            warnings.warn(
                "no choice of lists of these two rankings is fair: users who click by position alone favour one of "
                f"them, by {lists.unfairness:.3g}; take {other}, or rankings of the same documents",
                DataWarning,
                stacklevel=2,
            )
        chosen = int(np.searchsorted(lists.reach, rng.random(), side="right"))
        shown, credit = list(lists.documents[chosen]), list(lists.credit[chosen])
    known = list(names)
    return Interleaved(tuple(known[one] for one in shown), tuple(credit), method)


def _codes(name: str, ranking: Sequence[Any], names: dict[Hashable, int]) -> tuple[int, ...]:
    if isinstance(ranking, str):
        raise ParameterError.of("interleave", name, "a list of documents", ranking)
    listed = ranking.tolist() if hasattr(ranking, "tolist") else ranking
    found = tuple(names.setdefault(one, len(names)) for one in listed)
    if len(set(found)) < len(found):
        raise DataError(f"ranking {name} has a document twice; the documents of a ranking must differ")
    return found


def _team_draft(
    a: tuple[int, ...], b: tuple[int, ...], length: int, rng: np.random.Generator
) -> tuple[list[int], list[float]]:
    shown: list[int] = []
    credit: list[float] = []
    while len(shown) < length:
        left = [[one for one in ranking if one not in shown] for ranking in (a, b)]
        # A pick counts only if the other team could have had its place; else the longer ranking would win by length.
        first = bool(left[0] and left[1])
        second = first and all(set(mine) - {theirs[0]} for mine, theirs in (left, left[::-1]))
        order = (0, 1) if rng.random() < 0.5 else (1, 0)
        for team in order:
            best = next((one for one in left[team] if one not in shown), None)
            if best is not None and len(shown) < length:
                counts = second if team == order[1] else first
                shown.append(best)
                credit.append((1.0, -1.0)[team] if counts else 0.0)
    return shown, credit


def _probabilistic(
    a: tuple[int, ...], b: tuple[int, ...], length: int, rng: np.random.Generator
) -> tuple[list[int], list[float]]:
    left = [{one: (i + 1.0) ** -STEEPNESS for i, one in enumerate(ranking)} for ranking in (a, b)]
    shown: list[int] = []
    credit: list[float] = []
    for _ in range(length):
        total = [sum(chances.values()) for chances in left]
        contested = bool(left[0] and left[1])  # else one ranking fills the page, and a click says nothing
        drawer = int(rng.random() < 0.5) if contested else int(not left[0])
        one = _draw(left[drawer], total[drawer] * rng.random())
        mine, theirs = (chances.pop(one, 0.0) / (whole or 1.0) for chances, whole in zip(left, total, strict=True))
        shown.append(one)
        credit.append((mine - theirs) / (mine + theirs) if contested else 0.0)
    return shown, credit


def _draw(chances: dict[int, float], reach: float) -> int:
    """The document at which the sum of chances passes ``reach``."""
    for one, chance in chances.items():
        reach -= chance
        if reach < 0.0:
            return one
    return one  # rounding


# -- optimised ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FairLists:
    """Lists to choose from, with the chance and the credits of each. ``unfairness`` is 0 if they are fair."""

    documents: tuple[tuple[int, ...], ...]
    credit: tuple[tuple[float, ...], ...]
    chance: tuple[float, ...]
    unfairness: float

    @cached_property
    def reach(self) -> Array:
        """Cumulative chances; the last one is left out, so that rounding cannot pass it."""
        return np.cumsum(self.chance)[:-1]


@lru_cache(maxsize=4096)
def fair_lists(a: tuple[int, ...], b: tuple[int, ...], length: int) -> FairLists:
    """The most sensitive distribution over lists of prefixes whose expected credit is 0 in every position.

    The sensitivity of a list is the entropy of whom a click credits, times the chance that it credits either; position
    r is clicked with probability ~ 1/r.
    """
    from scipy.optimize import linprog

    lists = _prefix_lists(a, b, length)
    missing = max(len(a), len(b)) + 1
    worth = _inverse_ranks(a, lists, missing) - _inverse_ranks(b, lists, missing)
    n = len(lists)
    # Credits that cannot be balanced are paid for by slack in both directions, as little as possible.
    slack = np.hstack([np.eye(length), -np.eye(length)])
    equal = np.vstack([np.hstack([worth.T, slack]), np.concatenate([np.ones(n), np.zeros(2 * length)])])
    cost = np.concatenate([-_sensitivity(worth), np.full(2 * length, UNFAIR)])
    solved = linprog(cost, A_eq=equal, b_eq=np.concatenate([np.zeros(length), [1.0]]), method="highs")
    chance = np.clip(solved.x[:n], 0.0, None)
    used = np.flatnonzero(chance > 1e-12)
    share = chance[used] / chance[used].sum()
    return FairLists(
        documents=tuple(lists[i] for i in used),
        credit=tuple(tuple(worth[i].tolist()) for i in used),
        chance=tuple(share.tolist()),
        unfairness=float(np.abs(share @ worth[used]).sum()),
    )


def _prefix_lists(a: tuple[int, ...], b: tuple[int, ...], length: int) -> list[tuple[int, ...]]:
    """All lists in which each document is the best one left of A or of B."""
    lists: list[tuple[int, ...]] = [()]
    for _ in range(length):
        longer: dict[tuple[int, ...], None] = {}
        for shown in lists:
            for ranking in (a, b):
                best = next((one for one in ranking if one not in shown), None)
                if best is not None:
                    longer[(*shown, best)] = None
        lists = list(longer)
    return lists


def _inverse_ranks(ranking: tuple[int, ...], lists: list[tuple[int, ...]], missing: int) -> Array:
    """1 / rank of each document of each list; documents that the ranking lacks have the rank ``missing``."""
    rank = {one: i + 1 for i, one in enumerate(ranking)}
    return np.array([[1.0 / rank.get(one, missing) for one in shown] for shown in lists])


def _sensitivity(worth: Array) -> Array:
    click = 1.0 / np.arange(1.0, worth.shape[1] + 1.0)
    click /= click.sum()
    up, down = (worth > 0) @ click, (worth < 0) @ click
    either = np.maximum(up + down, 1e-300)
    share = np.clip(up / either, 1e-300, 1.0), np.clip(down / either, 1e-300, 1.0)
    entropy = -(share[0] * np.log2(share[0]) + share[1] * np.log2(share[1]))
    return np.asarray(entropy * (up + down))


# -- analysis ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class InterleavingResult:
    """Who won. ``units`` are impressions, or sessions if they were given.

    ``share`` is the share of units won by A among those not tied, with an exact interval; ``mean`` the mean outcome,
    with the interval of the t distribution, and ``deviation`` the standard deviation of outcomes. ``p_value`` is that
    of the test chosen.
    """

    units: int
    wins_a: int
    wins_b: int
    ties: int
    share: float
    share_low: float
    share_high: float
    mean: float
    low: float
    high: float
    deviation: float
    p_value: float
    test: str
    level: float

    @property
    def effect(self) -> float:
        """The mean outcome in standard deviations, from which :func:`interleaving_sample_size` plans."""
        return self.mean / self.deviation if self.deviation else 0.0

    @property
    def winner(self) -> str | None:
        """ "A" or "B" if the test rejects that they are equal, else None."""
        if not self.p_value <= 1.0 - self.level:
            return None
        up = self.wins_a > self.wins_b if self.test == "sign" else self.mean > 0
        return "A" if up else "B"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"effect": self.effect, "winner": self.winner}

    def __str__(self) -> str:
        verdict = "no difference shown" if self.winner is None else f"{self.winner} is better"
        return (
            f"{verdict}: A wins {self.wins_a:,}, B wins {self.wins_b:,}, {self.ties:,} ties; "
            + (
                f"share of A {self.share:.3f} ({self.share_low:.3f} to {self.share_high:.3f})"
                if self.test == "sign"
                else f"mean outcome {self.mean:.4f} ({self.low:.4f} to {self.high:.4f})"
            )
            + f", p = {self.p_value:.3g}"
        )


def analyse_interleaving(
    outcomes: Any, *, session: Any = None, test: str | None = None, level: float = 0.95
) -> InterleavingResult:
    """Whether A or B is better, from the outcome of each impression (see :meth:`Interleaved.outcome`).

    Parameters
    ----------
    session : the session or user of each impression, whose outcomes are added up first: the clicks of one user are not
        independent
    test : "t" (of the mean outcome) or "sign" (exact; ties are left out), both two-sided. By default "sign" if all
        outcomes are whole numbers, as those of team draft are, and else "t": where credits differ from ±1, users who
        click blindly let one side win more often, and the sign test is refused

    >>> import gainful
    >>> found = gainful.analyse_interleaving([1, 1, 0, 2, 1, -1, 1, 1, 1, 1])
    >>> found.wins_a, found.wins_b, found.ties, round(found.p_value, 4)
    (8, 1, 1, 0.0391)
    """
    from scipy import special

    settings = {"test": Maybe(inner=Choice(of=TESTS)), "level": Real(low=0.0, high=1.0, open_low=True, open_high=True)}
    check_parameters("analyse_interleaving", settings, {"test": test, "level": level})
    values = check_column(outcomes, len(outcomes), "outcomes")
    if not len(values) or not np.isfinite(values).all():
        raise DataError("outcomes must be numbers, one per impression, and at least one")
    if session is not None:
        codes = codes_by_first_appearance(np.asarray(session))[0]
        if len(codes) != len(values):
            raise DataError(f"session has {len(codes)} entries for {len(values)} outcomes")
        values = np.bincount(codes, weights=values)
    values = values.round(DIGITS)
    is_fair = bool((values == values.round()).all())
    if test == "sign" and not is_fair:
        raise ParameterError(
            "the sign test is not fair here: the outcomes are not whole numbers, so credits differ from ±1 (methods "
            "optimised and probabilistic), and users who click by position alone let one side win more often; take "
            + wording("test='t'", "--test t")
        )
    test = test or ("sign" if is_fair else "t")
    n, up, down = len(values), int((values > 0).sum()), int((values < 0).sum())
    decided, tail = up + down, 0.5 - level / 2
    share_low, share_high = map(float, share_intervals(up, decided, level))
    p_sign = min(1.0, 2.0 * float(special.bdtr(min(up, down), decided, 0.5))) if decided else 1.0
    mean = float(values.mean())
    deviation = float(values.std(ddof=1)) if n > 1 else 0.0
    error = deviation / math.sqrt(n) if n > 1 else math.inf
    if test == "t" and deviation and abs(((values - mean) ** 3).mean()) / deviation**3 > SKEWED * math.sqrt(n):
        warnings.warn(
            f"{plural(n, 'outcome')} with a few far from the others are too few for the t test, which may err more "
            "often than it says; collect more",
            DataWarning,
            stacklevel=2,
        )
    freedom = max(n - 1, 1)
    reach = float(special.stdtrit(freedom, 1.0 - tail)) * error
    p_t = 1.0 if mean == 0 else 0.0 if error == 0 else 2.0 * float(special.stdtr(freedom, -abs(mean) / error))
    return InterleavingResult(
        units=n,
        wins_a=up,
        wins_b=down,
        ties=n - up - down,
        share=up / decided if decided else math.nan,
        share_low=share_low,
        share_high=share_high,
        mean=mean,
        low=mean - reach,
        high=mean + reach,
        deviation=deviation,
        p_value=p_sign if test == "sign" else p_t,
        test=test,
        level=level,
    )


def interleaving_sample_size(
    share: float | None = None,
    ties: float = 0.0,
    *,
    effect: float | None = None,
    power: float = 0.8,
    level: float = 0.95,
) -> int:
    """The impressions at which the better ranker is found with this ``power``.

    Of the sign test, give ``share`` and ``ties``; of the t test, ``effect``.

    Parameters
    ----------
    share : of impressions that are not ties, those won by the better ranker: the smallest share that matters, or that
        of a pilot
    ties : share of impressions without a winner, most of them without a click
    effect : the smallest mean outcome that matters, in standard deviations of outcomes; a pilot's result has ``effect``

    >>> import gainful
    >>> gainful.interleaving_sample_size(0.55, ties=0.6)
    1957
    """
    from scipy.special import ndtri

    inside = Real(low=0.0, high=1.0, open_low=True, open_high=True)
    settings = {"share": Maybe(inner=inside), "ties": Real(low=0.0, high=1.0, open_high=True)}
    settings |= {"effect": Maybe(inner=Real()), "power": inside, "level": inside}
    given = {"share": share, "ties": ties, "effect": effect, "power": power, "level": level}
    check_parameters("interleaving_sample_size", settings, given)
    if (share is None) == (effect is None):
        raise ParameterError(
            wording("give share=… (of the sign test) or effect=… (of the t test)", "give either --share or --effect")
        )
    if share is None:
        if not effect:
            raise ParameterError.of("interleaving_sample_size", "effect", "above or below 0", effect)
        return math.ceil(((float(ndtri(0.5 + level / 2)) + float(ndtri(power))) / effect) ** 2)
    if share == 0.5:
        raise ParameterError.of("interleaving_sample_size", "share", "above or below 0.5", share)
    reach = 0.5 * float(ndtri(0.5 + level / 2)) + float(ndtri(power)) * math.sqrt(share * (1.0 - share))
    return math.ceil((reach / (share - 0.5)) ** 2 / (1.0 - ties))
