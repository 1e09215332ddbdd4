"""Structured bounds of 1 − NDCG@k and of 1 − AP, from loss-augmented ranking."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from gainful.compute.query_loop import Fill
from gainful.data.rows import Array
from gainful.losses.base import LossEntry, Parameter
from gainful.losses.structured import RankingProblem, fill_bound
from gainful.parameters.constraints import Integer, Real


def _bind_ndcg(bound: str, params: Mapping[str, Any], y: Array, offsets: Array) -> Fill:
    k = int(params["k"])
    A = params["weight"] * np.arange(float(k), 0.0, -1.0)
    return fill_bound(RankingProblem.ndcg(y, offsets, k, position_weights=A), bound)


def _bind_map(bound: str, params: Mapping[str, Any], y: Array, offsets: Array) -> Fill:
    return fill_bound(RankingProblem.average_precision(y, offsets, relevant=float(params["relevant"])), bound)


NDCG_PAPER = "Chapelle, Le and Smola 2007, Large margin optimization of ranking measures"
MAP_PAPER = "Yue, Finley, Radlinski and Joachims 2007, A support vector method for optimizing average precision"
# Δ is at most 1: a larger A(r) = weight·(k + 1 − r) lets smaller scores satisfy the bound.
NDCG = {"k": Parameter(Integer(low=1), 10), "weight": Parameter(Real(low=0, open_low=True), 1.0)}
MAP = {"relevant": Parameter(Real(), 1.0)}
STRUCTURED = (
    LossEntry(
        "structured-ndcg",
        "Structured hinge: max over rankings y of 1 − NDCG@k(y) + Ψ(y)·s − Ψ(perfect)·s.",
        partial(_bind_ndcg, "convex"),
        convex=True,
        parameters=NDCG,
        paper=NDCG_PAPER,
    ),
    LossEntry(
        "structured-ndcg-tight",
        "The tighter bound: max over rankings y of 1 − NDCG@k(y) + Ψ(y)·s, minus max over y of Ψ(y)·s.",
        partial(_bind_ndcg, "tight"),
        parameters=NDCG,
        paper=NDCG_PAPER,
    ),
    LossEntry(
        "structured-ndcg-slack",
        "Rescaled slack: max over rankings y of (1 − NDCG@k(y))·(1 + Ψ(y)·s − Ψ(perfect)·s), by a local search.",
        partial(_bind_ndcg, "slack"),
        # The maximum is convex, but a local search that misses it returns less: such values need not be convex.
        convex=False,
        parameters=NDCG,
        paper=NDCG_PAPER,
    ),
    LossEntry(
        "structured-map",
        "Structured hinge: max over rankings y of 1 − AP(y) + Ψ(y)·s − Ψ(perfect)·s.",
        partial(_bind_map, "convex"),
        convex=True,
        parameters=MAP,
        paper=MAP_PAPER,
    ),
    LossEntry(
        "structured-map-tight",
        "The tighter bound: max over rankings y of 1 − AP(y) + Ψ(y)·s, minus max over y of Ψ(y)·s.",
        partial(_bind_map, "tight"),
        parameters=MAP,
        paper=MAP_PAPER,
    ),
)
