"""Losses on pairs weighted by |ΔNDCG|: what NDCG would change if the two documents were swapped."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from gainful.losses.base import ByGrade, LossEntry, Parameter
from gainful.parameters import Integer, Maybe, Real
from gainful.rows import Array
from gainful.streams import Fill, NewtonFill, read_only

SIGMA = Parameter(Real(low=0, open_low=True), 1.0)
DEPTH = Parameter(Maybe(inner=Integer(low=1)), None)


def _bind(kind: str, params: Mapping[str, Any], y: Array, offsets: Array) -> Fill:
    from gainful.losses import weighted_kernels as kernels

    rows = ByGrade(y, offsets)
    return rows.fill(partial(kernels.run, int(getattr(kernels, kind))), *_arguments(kind, params, rows))


def _bind_newton(kind: str, params: Mapping[str, Any], y: Array, offsets: Array) -> NewtonFill:
    from gainful.losses import weighted_kernels as kernels

    rows = ByGrade(y, offsets)
    return rows.newton(partial(kernels.newton, int(getattr(kernels, kind))), *_arguments(kind, params, rows))


def _arguments(kind: str, params: Mapping[str, Any], rows: ByGrade) -> tuple[Array, Array]:
    k = params.get("k")
    scale = 1.0 / float(np.log(2.0)) if kind == "LAMBDALOSS" else 1.0  # the one with a logarithm to base 2
    numbers = [float(params.get("sigma", 1.0)), float(k or 0), float(params.get("mu", 0.0))]
    return read_only(rows.gains(k) * scale), read_only(np.array(numbers))


WEIGHTED = (
    LossEntry(
        "lambda",
        "Σ over the pairs of |ΔNDCG@k| · log(1 + exp(−σ(s_i − s_j))).",
        partial(_bind, "LAMBDA"),
        newton=partial(_bind_newton, "LAMBDA"),
        frozen=True,
        parameters={"k": DEPTH, "sigma": SIGMA},
        paper="Burges, Ragno and Le 2006, Learning to rank with nonsmooth cost functions",
    ),
    LossEntry(
        "lambdaloss",
        "NDCG-Loss2++: Σ over the pairs of (ρ_ij + μ δ_ij)|G_i − G_j| · log2(1 + exp(−σ(s_i − s_j))).",
        partial(_bind, "LAMBDALOSS"),
        newton=partial(_bind_newton, "LAMBDALOSS"),
        frozen=True,
        parameters={"mu": Parameter(Real(low=0), 10.0), "sigma": SIGMA},
        paper="Wang, Li, Golbandi, Bendersky and Najork 2018, The LambdaLoss framework for ranking metric optimization",
    ),
    LossEntry(
        "weighted-huber",
        "Σ over the pairs of |ΔNDCG| · modified Huber of s_i − s_j.",
        partial(_bind, "HUBER"),
        newton=partial(_bind_newton, "HUBER"),
        frozen=True,
        paper="Sun, Qin, Tao and Wang 2009, Robust sparse rank learning for non-smooth ranking measures",
    ),
)
