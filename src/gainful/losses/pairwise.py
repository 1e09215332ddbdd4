"""Losses that are a mean over the pairs of documents of different grades."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from gainful.losses.base import ByGrade, LossEntry, Parameter
from gainful.parameters import Real
from gainful.rows import Array
from gainful.streams import Fill, NewtonFill, read_only


def _bind(kind: str, params: Mapping[str, Any], y: Array, offsets: Array) -> Fill:
    from gainful.losses import pairwise_kernels as kernels

    rows, code = ByGrade(y, offsets), int(getattr(kernels, kind))
    return rows.fill(partial(kernels.run, code), _numbers(params))


def _bind_newton(kind: str, params: Mapping[str, Any], y: Array, offsets: Array) -> NewtonFill:
    from gainful.losses import pairwise_kernels as kernels

    rows, code = ByGrade(y, offsets), int(getattr(kernels, kind))
    return rows.newton(partial(kernels.newton, code), _numbers(params))


def _numbers(params: Mapping[str, Any]) -> Array:
    return read_only(np.array([float(params.get("sigma", 1.0))]))


PAIRWISE = (
    LossEntry(
        "pairwise-hinge",
        "Mean over the pairs of [1 − (s_i − s_j)]₊, g_i > g_j.",
        partial(_bind, "HINGE"),
        convex=True,
        paper="Joachims 2002, Optimizing search engines using clickthrough data",
    ),
    LossEntry(
        "pairwise-squared-hinge",
        "Mean over the pairs of [1 − (s_i − s_j)]₊².",
        partial(_bind, "SQUARED_HINGE"),
        newton=partial(_bind_newton, "SQUARED_HINGE"),
        convex=True,
        smooth=True,
        paper="Chapelle and Keerthi 2010, Efficient algorithms for ranking with SVMs",
    ),
    LossEntry(
        "ranknet",
        "Mean over the pairs of log(1 + exp(−σ(s_i − s_j))).",
        partial(_bind, "LOGISTIC"),
        newton=partial(_bind_newton, "LOGISTIC"),
        convex=True,
        smooth=True,
        parameters={"sigma": Parameter(Real(low=0, open_low=True), 1.0)},
        paper="Burges et al. 2005, Learning to rank using gradient descent",
    ),
)
