"""Losses on whole lists, and squared error on single documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from gainful.compute.query_loop import Fill
from gainful.data.rows import Array, read_only
from gainful.losses.base import ByGrade, LossEntry, Parameter, convex_loss
from gainful.parameters.constraints import Integer, Maybe, Real


def _per_query(values: Array, offsets: Array, of: Any) -> Array:
    return np.repeat(of.reduceat(values, offsets[:-1]), np.diff(offsets))


# parameters, grades, offsets, weights → a number per row
Target = Callable[[Mapping[str, Any], Array, Array, Array | None], Array]


def top_one(params: Mapping[str, Any], y: Array, offsets: Array, weights: Array | None = None) -> Array:
    """w_i exp(g_i) / Σ w_j exp(g_j); without weights w = 1."""
    chances = np.exp(y - _per_query(y, offsets, np.maximum))
    return _shares(chances if weights is None else weights * chances, offsets)


def gain_shares(params: Mapping[str, Any], y: Array, offsets: Array, weights: Array | None = None) -> Array:
    """w_i (2^g_i − γ) / Σ w_j (2^g_j − γ), all divided by a power of two to stay in range."""
    top = np.floor(_per_query(y, offsets, np.maximum))
    gains = np.exp2(y - top) - params["gamma"] * np.exp2(-top)
    return _shares(gains if weights is None else weights * gains, offsets)


def _shares(values: Array, offsets: Array) -> Array:
    """Each value over the sum of its query; 0 where that is 0."""
    total = _per_query(values, offsets, np.add)
    return np.asarray(np.divide(values, total, out=np.zeros_like(values), where=total > 0.0))


def copies(weights: Array, offsets: Array, least: float = 0.0) -> Array:
    """Weights as numbers of copies: over the smallest above 0 of the query, or ``least`` of their mean, 1, if that is
    more. So one document counts once, as it would without weights."""
    smallest = np.minimum.reduceat(np.where(weights > 0.0, weights, np.inf), offsets[:-1])
    return np.asarray(weights / np.repeat(np.maximum(smallest, least), np.diff(offsets)))


LEAST_COPY = 0.1  # of the mean weight: sums over documents grow as the smallest weight falls


def weighted_grades(params: Mapping[str, Any], y: Array, offsets: Array, weights: Array | None = None) -> Array:
    return y if weights is None else y * copies(weights, offsets, LEAST_COPY)


def _grades(params: Mapping[str, Any], y: Array, offsets: Array, weights: Array | None) -> Array:
    return y


def _chances(params: Mapping[str, Any], y: Array, offsets: Array, weights: Array | None) -> Array:
    return np.asarray(np.minimum(y / params["top"], 1.0))


def _own(name: str, rows: ByGrade, weights: Array | None) -> Array | None:
    """The weights by position as the kernel takes them: as copies where documents compete."""
    if weights is not None and name in ("softmax", "listmle"):
        weights = copies(weights, rows.offsets, LEAST_COPY if name == "listmle" else 0.0)
    return rows.take_optional(weights)


def _bind(
    name: str,
    target: Target,
    params: Mapping[str, Any],
    y: Array,
    offsets: Array,
    weights: Array | None = None,
    *,
    curved: bool = False,
) -> Fill:
    from gainful.losses import listwise_kernels as kernels

    rows = ByGrade(y, offsets)
    targets = rows.take(target(params, y, offsets, weights))
    return rows.fill(getattr(kernels, name), targets, _own(name, rows, weights), curved=curved)


def _bind_softrank(params: Mapping[str, Any], y: Array, offsets: Array) -> Fill:
    from gainful.losses import softrank_kernels as kernels

    rows, k, sigma = ByGrade(y, offsets), params["k"], float(params["sigma"])
    longest = int(np.diff(offsets).max())
    depth = min(longest, k or longest)
    gains, discounts = rows.gains(k), read_only(np.log(2.0) / np.log(np.arange(2.0, depth + 2.0)))

    def run(
        t: Array, ends: Array, blocks: Array, starts: Array, first: int, last: int, values: Array, g: Array, h: None
    ) -> None:
        n = int(np.diff(ends[first : last + 1]).max())
        rows, ranks = kernels.BATCH * (n + 1), kernels.BATCH * (depth + 2)
        room = np.empty(rows), np.empty(rows), np.empty(((n + 1) // 2 + 1) * ranks), np.empty(ranks)
        kernels.run(t, ends, blocks, starts, gains, sigma, discounts, *room, first, last, values, g)

    return rows.fill(run)


LISTWISE = (
    convex_loss(
        "listnet",
        "Cross entropy of the top-one probabilities: −Σ softmax(g)_i log softmax(s)_i.",
        partial(_bind, "softmax", top_one),
        paper="Cao, Qin, Liu, Tsai and Li 2007, Learning to rank: from pairwise approach to listwise approach",
    ),
    convex_loss(
        "listmle",
        "Negative log likelihood of the ranking by grade; documents of equal grade do not compete.",
        partial(_bind, "listmle", _grades),
        paper="Xia, Liu, Wang, Zhang and Li 2008, Listwise approach to learning to rank: theory and algorithm",
    ),
    convex_loss(
        "xendcg",
        "Cross entropy of softmax(s) with shares of 2^g − γ.",
        partial(_bind, "softmax", gain_shares),
        parameters={"gamma": Parameter(Real(low=0, high=1), 0.5)},
        paper="Bruch 2021, An alternative cross entropy loss for learning-to-rank",
    ),
    convex_loss(
        "softmax-cross-entropy",
        "−Σ g_i log softmax(s)_i: cross entropy with the grades as they are, so that queries with more count more.",
        partial(_bind, "softmax", weighted_grades),
        paper="Bruch et al. 2019, An analysis of the softmax cross entropy loss; the default of Rax and TF-Ranking",
    ),
    convex_loss(
        "sigmoid-cross-entropy",
        "Mean over the documents of log(1 + exp(s_i)) − t_i s_i, with the chance t_i = min(g_i/top, 1) to be relevant.",
        partial(_bind, "sigmoid", _chances),
        parameters={"top": Parameter(Real(low=0, open_low=True), 1.0)},
        paper="logistic regression; sigmoid cross entropy in Rax and TF-Ranking",
    ),
    LossEntry(
        "softrank",
        "1 − expected NDCG@k when every score has normal noise with standard deviation σ.",
        _bind_softrank,
        smooth=True,
        parameters={
            "k": Parameter(Maybe(inner=Integer(low=1)), 10),
            "sigma": Parameter(Real(low=0, open_low=True), 1.0),
        },
        paper="Taylor, Guiver, Robertson and Minka 2008, SoftRank: optimizing non-smooth rank metrics",
    ),
    convex_loss(
        "squared",
        "Mean over the documents of (s_i − g_i)².",
        partial(_bind, "squared", _grades),
        affine=True,
    ),
    convex_loss(
        "centred-squared",
        "Mean over the documents of ((s_i − mean s) − (g_i − mean g))²: squared error whatever the level of the query.",
        partial(_bind, "centred_squared", _grades),
        affine=True,
        paper="CatBoost's QueryRMSE",
    ),
)
