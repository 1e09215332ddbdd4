"""Pairwise debiasing: a ratio for clicked and one for unclicked documents of each position.

A pair of a clicked document in position k and an unclicked one in position l counts 1/(t⁺_k t⁻_l). The ratios are those
of the mean losses that positions cause, relative to the first position, under a linear ranker for ``ranknet`` that is
trained with the ratios found so far. (Hu, Wang, Peng and Li 2019, Unbiased LambdaMART: an unbiased pairwise
learning-to-rank algorithm.)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gainful.data.dataset import Dataset, RankingData
from gainful.data.rows import Array, linear_scores
from gainful.linear.blockwise import linear_risk
from gainful.linear.scaling import ScaledRisk, Scaling
from gainful.losses import loss
from gainful.losses.click_lists import ClickLists
from gainful.solvers.lbfgs import minimize_lbfgs

ROUNDS = 5
C = 1.0  # a weak fit, as early in boosting: a close one explains positions by features, and its losses feed that back
LEAST = 1e-3  # of a ratio

Weigh = Callable[[Dataset, Array, Array], Dataset]  # the data as lists of clicked documents, given both ratios


def learn_ratios(data: Dataset, weigh: Weigh) -> tuple[Array, Array]:
    """t⁺ and t⁻ by position, from 1 on."""
    last = max(data.map(_last_position))
    plus, minus = np.ones(last + 1), np.ones(last + 1)
    shown = np.maximum(np.sum(data.map(_shown_by_position, last), axis=0), 1e-300)  # lists may be of any length
    scales, v = Scaling(data, "standard").scales, np.zeros(data.n_features)
    for _ in range(ROUNDS):
        lists = weigh(data, plus, minus)
        risk = ScaledRisk(linear_risk(loss("ranknet"), lists), scales)
        v = minimize_lbfgs(lambda v, risk=risk: risk.objective(v, C), v, tol=1e-3, max_iter=50).w  # type: ignore[misc]
        sums = np.sum(lists.map(_losses_by_position, data.source.data, v / scales, last), axis=0)
        # a list already counts by both ratios; each side is to count by that of the other side alone
        plus, minus = (_relative(total * own / shown) for total, own in zip(sums, (plus, minus), strict=True))
    return plus[1:], minus[1:]


def _relative(total: Array) -> Array:
    """Over the first position that has any; 1 where there is none, as for documents that were not shown."""
    known = np.flatnonzero(total[1:] > 0.0) + 1
    ratios = np.ones(len(total))
    if len(known):
        ratios[known] = np.clip(total[known] / total[known[0]], LEAST, None)
    return ratios


# -- tasks -------------------------------------------------------------------------------------------------------------


def _last_position(data: RankingData) -> int:
    assert data.positions is not None
    return int(data.positions.max())


def _shown_by_position(data: RankingData, last: int) -> Array:
    return np.bincount(data.positions, data.row_weights, minlength=last + 1)  # type: ignore[arg-type]


def _losses_by_position(data: RankingData, shown: RankingData, w: Array, last: int) -> Array:
    """(2, last + 1): the losses of all pairs, summed by the position of the clicked and of the other document."""
    lists, s = ClickLists(data), linear_scores(data.X, w)
    assert shown.positions is not None
    assert lists.documents is not None
    other = lists.grades == 0.0
    clicked, rival = np.repeat(lists.clicked, lists.counts)[other], lists.rows[other]
    weights = lists.documents * other
    if not len(lists.clicked):
        return np.zeros((2, last + 1))
    totals = np.add.reduceat(weights, lists.offsets[:-1])
    share = np.divide(lists.weight, totals, out=np.zeros(len(totals)), where=totals > 0.0)
    cost = np.logaddexp(0.0, s[rival] - s[clicked]) * (np.repeat(share, lists.counts) * weights)[other]
    sides = (clicked, rival)
    return np.stack([np.bincount(shown.positions[side], cost, minlength=last + 1) for side in sides])
