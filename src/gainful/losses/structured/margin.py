"""The structured hinge on NDCG@k, from loss-augmented ranking."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from gainful.compute.query_loop import Fill
from gainful.data.rows import Array
from gainful.losses.base import LossEntry, Parameter
from gainful.losses.structured import RankingProblem
from gainful.parameters.constraints import Integer, Real


def _bind(tight: bool, params: Mapping[str, Any], y: Array, offsets: Array) -> Fill:
    from gainful.losses.structured import ndcg

    k = int(params["k"])
    problem = RankingProblem.ndcg(y, offsets, k, position_weights=params["weight"] * np.arange(float(k), 0.0, -1.0))
    return lambda s, a, b, values, c: ndcg.fill_violations(problem, s, a, b, tight, None, values, c)


PAPER = "Chapelle, Le and Smola 2007, Large margin optimization of ranking measures"
# Δ is at most 1: the larger A(r) = weight·(k + 1 − r), the smaller the scores that satisfy the bound.
PARAMETERS = {"k": Parameter(Integer(low=1), 10), "weight": Parameter(Real(low=0, open_low=True), 1.0)}
STRUCTURED = (
    LossEntry(
        "structured-ndcg",
        "Structured hinge: max over rankings y of 1 − NDCG@k(y) + Ψ(y)·s − Ψ(perfect)·s.",
        partial(_bind, False),
        convex=True,
        parameters=PARAMETERS,
        paper=PAPER,
    ),
    LossEntry(
        "structured-ndcg-tight",
        "The tighter bound: max over rankings y of 1 − NDCG@k(y) + Ψ(y)·s, less max over y of Ψ(y)·s.",
        partial(_bind, True),
        parameters=PARAMETERS,
        paper=PAPER,
    ),
)
