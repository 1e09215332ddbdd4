"""Hostile numbers: does every ranker refuse them in one line, or give finite scores?

    python benchmarks/hostile.py                      # all rankers, metrics and compare
    python benchmarks/hostile.py --targets ranksvm,metrics --cases x1e155,grades-masked

Every target (a ranker of the registry, ``metrics``, ``compare``) meets every case that applies to it. A ranker is
trained, scores the rows, is saved, loaded and scores them again. The outcome is one of three: *refused* (a
:class:`gainful.GainfulError` of one line), *scored* (finite numbers of the right shape, warnings of gainful only), or
a *failure*: any other exception or warning, NaN, infinity, a crash, a hang, a refusal of harmless numbers, or a silent
fit of numbers that must be refused. Cases run in child processes, so that a crash or a hang counts as one failure.
"""

from __future__ import annotations

import argparse
import datetime
import fractions
import json
import multiprocessing
import os
import re
import resource
import sys
import tempfile
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
import polars as pl
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import gainful
from gainful.formats.binary.writer import CHECKED_BYTES, PREFIX

N_QUERIES, N_DOCS, N_FEATURES = 8, 5, 4
TIMEOUT = 60.0  # seconds per case; the slowest takes about one
OURS = (gainful.DataWarning, ConvergenceWarning)  # warnings in our words
METRICS = ("ndcg@10", "ndcg", "dcg@5", "p@3", "map", "map@5", "mrr", "wta", "err@5(max_grade=4)", "rbp(0.8)",
           "ndcg@5(gain=linear)", "ndcg@5(ties=input)", "ndcg@5(convention=trec)")  # fmt: skip

TREES = {"n_trees": 4, "n_leaves": 3, "min_docs_in_leaf": 2, "n_jobs": 1}
NET = {"epochs": 3, "hidden": (4,), "device": "cpu"}
BY_KIND = {"trees": TREES, "net": NET}
BY_NAME: dict[str, dict[str, Any]] = {
    "structured-svm-kernel": {"n_landmarks": 10},
    "rankboost": {"n_rounds": 5},
    "frank": {"n_rounds": 5},
    "rsrank-sparse": {"l1": (0.0, 0.1), "max_iter": 20},
    "blend": {"members": ["regression", "tree-regression:n_trees=3:n_jobs=1"], "folds": 3, "n_jobs": 1},
    "auto": {"trials": 2, "folds": 3, "n_jobs": 1, "rankers": ["regression", "tree-regression"]},
}


# -- the inputs --------------------------------------------------------------------------------------------------------


@dataclass
class Rows:
    """What ``fit`` gets, what ``predict`` gets if that differs, and validation data."""

    X: Any
    y: Any
    qid: Any
    weights: Any = None
    scored: Any = None
    eval_set: Any = None
    params: dict[str, Any] = field(default_factory=dict)

    @property
    def to_score(self) -> Any:
        return self.X if self.scored is None else self.scored


@dataclass(frozen=True)
class Case:
    """A named change of harmless rows. ``expected``: "fit", "refuse", or "either"; "missing" is refused as missing."""

    name: str
    change: Callable[[Rows, Path], Any]
    expected: str = "either"
    twin: Callable[[Any], Any] | None = None


def harmless() -> Rows:
    rng = np.random.default_rng(0)
    n = N_QUERIES * N_DOCS
    X = rng.normal(size=(n, N_FEATURES))
    y = np.tile([0.0, 1.0, 2.0, 1.0, 0.0], N_QUERIES)
    X[:, 0] += 0.7 * y
    return Rows(X, y, np.repeat(np.arange(N_QUERIES), N_DOCS) + 100)


CASES: dict[str, Case] = {}


def case(name: str, expected: str = "either", twin: Any = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register ``change(rows)`` or ``change(rows, folder)``; it changes ``rows`` or returns a new X."""

    def add(change: Callable[..., Any]) -> Callable[..., Any]:
        takes_folder = "folder" in change.__code__.co_varnames[: change.__code__.co_argcount]
        wrapped = change if takes_folder else (lambda rows, _: change(rows))
        assert name not in CASES, name
        CASES[name] = Case(name, wrapped, expected, twin)
        return change

    return add


def features(name: str, make: Callable[[Any], Any], expected: str = "either", twin: Any = None) -> None:
    """A case whose features, for training and scoring, are ``make`` of harmless ones."""
    case(name, expected, twin)(lambda rows: make(rows.X))


def masked(name: str, make: Callable[[Any], Any]) -> None:
    """A case of a masked array, which must count as missing values."""
    features(name, make, "missing", lambda X: make(X).astype(np.float64).filled(np.nan))


def with_value(X: Any, value: Any, row: int = 7, column: int = 1) -> Any:
    X = X.copy()
    X[row, column] = value
    return X


def with_column(X: Any, column: Any) -> Any:
    X = X.copy()
    X[:, 1] = column
    return X


# magnitudes
for power in (155, 200, 300, 307):
    features(f"x1e{power}", lambda X, p=power: X * 10.0**p / 4.0)
    features(f"column-x1e{power}", lambda X, p=power: with_column(X, X[:, 1] * 10.0**p / 4.0))
for power in (20, 38, 100, 149):
    features(f"x1e{power}", lambda X, p=power: X * 10.0**p, "fit")
    features(f"column-x1e{power}", lambda X, p=power: with_column(X, X[:, 1] * 10.0**p), "fit")
for power in (-20, -100, -155, -200, -300, -310, -323):
    features(f"x1e{power}", lambda X, p=power: X * float(f"1e{p}"), "fit")
    features(f"column-x1e{power}", lambda X, p=power: with_column(X, X[:, 1] * float(f"1e{p}")), "fit")
features("one-value-1e155", lambda X: with_value(X, 1e155))
features("one-value-max", lambda X: with_value(X, np.finfo(float).max))
features("one-value-minus-max", lambda X: with_value(X, -np.finfo(float).max))
features("one-value-1e140", lambda X: with_value(X, 1e140), "fit")
features("one-value-subnormal", lambda X: with_value(X, 5e-324), "fit")
features("both-ends-of-double", lambda X: with_column(X, np.where(X[:, 1] > 0, 1.7e308, -1.7e308)))
features("columns-1e-300-to-1e149", lambda X: X * [1e-300, 1e-100, 1e100, 1e149], "fit")
features("columns-1e-30-to-1e30", lambda X: X * [1e-30, 1e-10, 1e10, 1e30], "fit")
features("offset-1e9", lambda X: X + 1e9, "fit")
features("offset-1e15", lambda X: X + 1e15, "fit")
features("offset-1e17", lambda X: X + 1e17, "fit")
features("offset-1e149", lambda X: X + 1e149, "fit")
features("float32-x3e37", lambda X: (X * 3e37).astype(np.float32), "fit")
features("float32-x1e20", lambda X: (X * 1e20).astype(np.float32), "fit")
features("float32-subnormal", lambda X: (X * 1e-44).astype(np.float32), "fit")
features("negative-zero", lambda X: with_column(X, -0.0), "fit")
for scaled in ("x1e149", "x1e100", "x1e-310", "x1e-155", "columns-1e-30-to-1e30", "offset-1e149"):

    @case(f"unscaled-{scaled}")
    def _(rows: Rows, folder: Path, scaled: str = scaled) -> Any:
        rows.params = {"scale": None}
        return CASES[scaled].change(rows, folder)


# not finite
features("inf", lambda X: with_value(X, np.inf), "refuse")
features("minus-inf", lambda X: with_value(X, -np.inf), "refuse")
features("inf-and-nan", lambda X: with_value(with_value(X, np.inf), np.nan, 3), "refuse")
features("float32-inf", lambda X: with_value(X, np.inf).astype(np.float32), "refuse")
features("inf-in-a-list", lambda X: with_value(X, np.inf).tolist(), "refuse")
features("nan", lambda X: with_value(X, np.nan), "missing")
features("nan-column", lambda X: with_column(X, np.nan), "missing")
features("nan-everywhere", lambda X: X * np.nan, "missing")
features("nan-and-1e155", lambda X: with_value(with_value(X, 1e155), np.nan, 3))

# types
features("big-endian-f8", lambda X: X.astype(">f8"), "fit")
features("big-endian-f4", lambda X: X.astype(">f4"), "fit")
features("big-endian-i4", lambda X: (9 * X).astype(">i4"), "fit")
features("float16", lambda X: X.astype(np.float16), "fit")
features("float16-inf", lambda X: with_value(X, np.inf).astype(np.float16), "refuse")
features("longdouble", lambda X: X.astype(np.longdouble))
features("longdouble-1e4000", lambda X: with_value(X.astype(np.longdouble), np.longdouble("1e4000")), "refuse")
features("complex", lambda X: X + 1j, "refuse")
features("complex-without-imaginary-part", lambda X: X + 0j, "refuse")
features("bool", lambda X: X > 0, "fit")
features("int8", lambda X: (9 * X).astype(np.int8), "fit")
features("uint8", lambda X: (9 * X + 60).astype(np.uint8), "fit")
features("uint16", lambda X: (9 * X + 60).astype(np.uint16), "fit")
features("int64-beyond-2^53", lambda X: (X * 10).astype(np.int64) + (1 << 60), "fit")
features("uint64-largest", lambda X: with_value((X * 10 + 99).astype(np.uint64), 2**64 - 1), "fit")
features("python-ints-10^50", lambda X: [[int(10 * v) * 10**50 for v in row] for row in X], "fit")
features("python-ints-10^400", lambda X: with_value(X.astype(object), 10**400))
features("objects", lambda X: X.astype(object), "fit")
features("objects-none", lambda X: with_value(X.astype(object), None), "missing")
features("objects-text", lambda X: with_value(X.astype(object), "1.5"))
features("objects-word", lambda X: with_value(X.astype(object), "many"), "refuse")
features("objects-complex", lambda X: with_value(X.astype(object), 1 + 2j), "refuse")
features("objects-list", lambda X: with_value(X.astype(object), [1.0]), "refuse")
features("objects-decimal", lambda X: with_value(X.astype(object), Decimal("1.5")), "fit")
features("objects-fraction", lambda X: with_value(X.astype(object), fractions.Fraction(1, 3)), "fit")
features("objects-date", lambda X: with_value(X.astype(object), datetime.date(2020, 1, 1)), "refuse")
features("text-digits", lambda X: X.astype(str))
features("bytes-digits", lambda X: X.astype("S8"))
features("text-in-lists", lambda X: X.astype(str).tolist())
features("datetime", lambda X: (9 * X).astype("datetime64[s]"), "refuse")
features("timedelta", lambda X: (9 * X).astype("timedelta64[s]"), "refuse")
features("structured", lambda X: X.view([("a", "f8"), ("b", "f8")]), "refuse")
features("void", lambda X: X.view("V8"), "refuse")

# masks
masked("masked", lambda X: np.ma.masked_array(X, X > 1))
masked("masked-float32", lambda X: np.ma.masked_array(X.astype(np.float32), X > 1))
masked("masked-integers", lambda X: np.ma.masked_array((9 * X).astype(int), X > 1))
masked("masked-codes", lambda X: np.ma.masked_array((9 * X + 60).astype(np.uint8), X > 1))
masked("masked-everywhere", lambda X: np.ma.masked_array(X, True))
features("masked-infinity", lambda X: np.ma.masked_invalid(with_value(X, np.inf)), "missing")
features("masked-nowhere", np.ma.masked_array, "fit")
features("mask-hides-no-inf", lambda X: np.ma.masked_array(with_value(X, np.inf), X > 99), "refuse")

# memory
features("fortran", np.asfortranarray, "fit")
features("every-other-column", lambda X: np.repeat(X, 2, axis=1)[:, ::2], "fit")
features("backwards", lambda X: X[::-1][::-1], "fit")
features("transposed", lambda X: X.T.copy().T, "fit")
features("zero-strides", lambda X: np.broadcast_to(X[:1], X.shape), "fit")
features("np.matrix", lambda X: np.asmatrix(X), "fit")
features("lists", lambda X: X.tolist(), "fit")
features("tuples", lambda X: tuple(map(tuple, X.tolist())), "fit")
features("unaligned", lambda X: np.frombuffer(b"x" + X.tobytes(), dtype=np.uint8)[1:].view(X.dtype).reshape(X.shape))


@case("read-only", "fit")
def _(rows: Rows) -> Any:
    for array in (rows.X, rows.y, rows.qid):
        array.flags.writeable = False
    return rows.X


@case("memory-mapped", "fit")
def _(rows: Rows, folder: Path) -> Any:
    mapped = np.memmap(folder / "x.bin", dtype=float, mode="w+", shape=rows.X.shape)
    mapped[:] = rows.X
    return mapped


# shapes
features("no-columns", lambda X: X[:, :0], "refuse")
features("one-dimension", lambda X: X[:, 0], "refuse")
features("three-dimensions", lambda X: X[:, :, None], "refuse")
features("one-column", lambda X: X[:, :1], "fit")
features("a-number", lambda X: 3.0, "refuse")
features("ragged", lambda X: [*X.tolist()[:-1], [1.0]], "refuse")
features("identical-rows", lambda X: np.ones_like(X), "fit")
features("constant-columns", lambda X: with_column(X, 3.0), "fit")
features("constant-column-1e149", lambda X: with_column(X, 1e149), "fit")
features("constant-column-1e155", lambda X: with_column(X, 1e155))
features("constant-but-for-rounding", lambda X: with_column(X, 0.1 + 1e-17 * np.arange(len(X))), "fit")
features("equal-columns", lambda X: np.repeat(X[:, :1], 4, axis=1), "fit")
features("more-columns-than-rows", lambda X: np.tile(X, (1, 20)), "fit")
features("one-row-differs", lambda X: with_value(np.zeros_like(X), 1.0), "fit")


@case("no-rows", "refuse")
def _(rows: Rows) -> None:
    rows.X, rows.y, rows.qid = rows.X[:0], rows.y[:0], rows.qid[:0]


@case("one-row", "fit")
def _(rows: Rows) -> None:
    rows.X, rows.y, rows.qid = rows.X[:1], rows.y[:1], rows.qid[:1]


@case("two-rows", "fit")
def _(rows: Rows) -> None:
    rows.X, rows.y, rows.qid = rows.X[:2], rows.y[:2], rows.qid[:2]


@case("one-query", "fit")
def _(rows: Rows) -> None:
    rows.qid = np.zeros_like(rows.qid)


@case("one-row-per-query", "fit")
def _(rows: Rows) -> None:
    rows.qid = np.arange(len(rows.qid))


# sparse matrices
def canonical(X: Any) -> Any:
    return sparse.csr_array(np.where(X > 0, X, 0.0))


def unsorted_csr(X: Any) -> Any:
    csr = canonical(X)
    for lo, hi in zip(csr.indptr, csr.indptr[1:], strict=False):
        csr.indices[lo:hi], csr.data[lo:hi] = csr.indices[lo:hi][::-1].copy(), csr.data[lo:hi][::-1].copy()
    return sparse.csr_array((csr.data, csr.indices, csr.indptr), shape=csr.shape)


def doubled(X: Any, value: float | None = None) -> Any:
    coo = canonical(X).tocoo()
    data = np.concatenate([coo.data, coo.data])
    if value is not None:
        data[0] = data[len(coo.data)] = value
    both = lambda at: np.concatenate([at, at])  # noqa: E731
    return sparse.coo_array((data, (both(coo.row), both(coo.col))), shape=X.shape)


def stored(X: Any, value: float) -> Any:
    csr = canonical(X)
    csr.data[3] = value
    return csr


def damaged_csr(X: Any, **parts: Any) -> Any:
    csr = canonical(X)
    for name, change in parts.items():
        array = getattr(csr, name).copy()
        change(array)
        setattr(csr, name, array)
    return csr


def big_endian_csr(X: Any) -> Any:
    csr = canonical(X)
    csr.data = csr.data.astype(">f8")
    return csr


def wide_indices(X: Any) -> Any:
    csr = canonical(X)
    csr.indices, csr.indptr = csr.indices.astype(np.int64), csr.indptr.astype(np.int64)
    return csr


for kind in ("csr", "csc", "coo", "lil", "dok", "bsr", "dia"):
    features(f"sparse-{kind}", lambda X, k=kind: canonical(X).asformat(k), "fit")
features("sparse-csr-matrix", lambda X: sparse.csr_matrix(canonical(X)), "fit")
features("sparse-explicit-zeros", lambda X: stored(X, 0.0), "fit")
features("sparse-unsorted", unsorted_csr, "fit")
features("sparse-duplicates", doubled, "fit")
features("sparse-duplicates-csc", lambda X: doubled(X).tocsc(), "fit")
features("sparse-duplicates-sum-to-inf", lambda X: doubled(X, 1.7e308), "refuse")
features("sparse-int64-indices", wide_indices, "fit")
features("sparse-empty", lambda X: sparse.csr_array(X.shape), "fit")
features("sparse-inf", lambda X: stored(X, np.inf), "refuse")
features("sparse-nan", lambda X: stored(X, np.nan), "missing")
features("sparse-1e155", lambda X: stored(X, 1e155))
features("sparse-x1e149", lambda X: canonical(X) * 1e149, "fit")
features("sparse-x1e-310", lambda X: canonical(X) * 1e-310, "fit")
features("sparse-subnormal", lambda X: stored(X, 5e-324), "fit")
features("sparse-integers", lambda X: canonical(9 * X).astype(np.int32), "fit")
features("sparse-bool", lambda X: canonical(X).astype(bool), "fit")
features("sparse-float32", lambda X: canonical(X).astype(np.float32), "fit")
features("sparse-big-endian", big_endian_csr, "fit")
features("sparse-complex", lambda X: canonical(X).astype(complex), "refuse")
features("sparse-longdouble", lambda X: canonical(X).astype(np.longdouble))
features("sparse-no-columns", lambda X: sparse.csr_array((len(X), 0)), "refuse")
features("sparse-column-out-of-range", lambda X: damaged_csr(X, indices=lambda a: a.__setitem__(2, 10**6)), "refuse")
features("sparse-negative-column", lambda X: damaged_csr(X, indices=lambda a: a.__setitem__(2, -5)), "refuse")
features("sparse-rows-out-of-order", lambda X: damaged_csr(X, indptr=lambda a: a.__setitem__(5, 10**6)), "refuse")

# frames
COLUMNS = list("abcd")
features("pandas-nullable", lambda X: pd.DataFrame(X, columns=COLUMNS).astype("Float64").mask(X > 1), "missing")
features("pandas-object", lambda X: pd.DataFrame(X, columns=COLUMNS).astype(object))
features("pandas-text", lambda X: pd.DataFrame(X, columns=COLUMNS).astype(str))  # words, which trees take
features("pandas-dates", lambda X: pd.DataFrame({"a": pd.to_datetime((9 * X[:, 0]).astype(int))}), "refuse")
features("pandas-1e155", lambda X: pd.DataFrame(X * 1e155, columns=COLUMNS))
features("pandas-sparse", lambda X: pd.DataFrame(canonical(X).toarray(), columns=COLUMNS).astype("Sparse[float]"))
features("polars-nulls", lambda X: pl.DataFrame({"a": X[:, 0], "b": [None, *X[1:, 1]]}), "missing")
features("polars-inf", lambda X: pl.DataFrame({"a": X[:, 0], "b": [np.inf, *X[1:, 1]]}), "refuse")


# grades
def grades(name: str, make: Callable[[Any], Any], expected: str = "either") -> None:
    def change(rows: Rows) -> None:
        rows.y = make(rows.y)

    case(f"grades-{name}", expected)(change)


for top in (31.0, 100.0, 1e3, 1e4, 1e6, 1e9, 1e15):
    grades(f"to-{top:g}", lambda y, t=top: y * t / 2)
    grades(f"{top:g}-and-more", lambda y, t=top: y + t)
for top in (1e160, 1e300):
    grades(f"to-{top:g}", lambda y, t=top: y * t / 2)
grades("to-1e100", lambda y: y * 1e100 / 2)
grades("x1e-5", lambda y: y * 1e-5, "fit")
grades("x1e-17", lambda y: y * 1e-17, "fit")
grades("x1e-160", lambda y: y * 1e-160)
grades("x1e-310", lambda y: y * 1e-310)
grades("nearly-equal", lambda y: 1.0 + y * 2.3e-16)
grades("thirds", lambda y: y / 3.0, "fit")
grades("one-large", lambda y: with_value(y[:, None], 1e6, 7, 0)[:, 0])
grades("negative", lambda y: y - 1, "refuse")
grades("minus-1e-300", lambda y: np.where(y == 0, -1e-300, y), "refuse")
grades("negative-zero", lambda y: np.where(y == 0, -0.0, y), "fit")
grades("nan", lambda y: np.where(y == 2, np.nan, y), "refuse")
grades("inf", lambda y: np.where(y == 2, np.inf, y), "refuse")
grades("all-0", np.zeros_like, "fit")
grades("all-1e6", lambda y: np.full_like(y, 1e6))
grades("bool", lambda y: y > 0, "fit")
grades("uint8", lambda y: y.astype(np.uint8), "fit")
grades("big-endian", lambda y: y.astype(">f8"), "fit")
grades("float16", lambda y: y.astype(np.float16), "fit")
grades("longdouble", lambda y: y.astype(np.longdouble))
grades("longdouble-1e4000", lambda y: y.astype(np.longdouble) * np.longdouble("1e4000"), "refuse")
grades("complex", lambda y: y + 0j, "refuse")
grades("text", lambda y: y.astype(str))
grades("text-in-a-list", lambda y: y.astype(str).tolist())
grades("objects", lambda y: y.astype(object), "fit")
grades("objects-none", lambda y: np.array([None, *y[1:]], dtype=object), "refuse")
grades("objects-text", lambda y: np.array(["1", *y[1:]], dtype=object))
grades("python-int-10^400", lambda y: [10**400, *y[1:].tolist()])
grades("dates", lambda y: y.astype("datetime64[D]"), "refuse")
grades("timedeltas", lambda y: y.astype("timedelta64[D]"), "refuse")
grades("masked", lambda y: np.ma.masked_array(y, y == 2), "refuse")
grades("masked-nowhere", np.ma.masked_array, "fit")
grades("backwards", lambda y: y[::-1][::-1], "fit")
grades("pandas-missing", lambda y: pd.Series(y).mask(y == 2).astype("Float64"), "refuse")
grades("two-dimensions", lambda y: y[:, None], "refuse")
grades("too-few", lambda y: y[:-1], "refuse")


# weights
def weights(name: str, make: Callable[[Any], Any], expected: str = "either") -> None:
    """Weights of each row, from the number of its query."""

    def change(rows: Rows) -> None:
        rows.weights = make(rows.qid - 100)

    case(f"weights-{name}", expected)(change)


for power in (20, 30, 100, 200, 300, 308):
    weights(f"1e{power}", lambda q, p=power: np.full(len(q), float(f"1e{p}")))
    weights(f"1e-{power}", lambda q, p=power: np.full(len(q), float(f"1e-{p}")))
    weights(f"one-1e{power}", lambda q, p=power: np.where(q == 2, float(f"1e{p}"), 1.0))
    weights(f"one-1e-{power}", lambda q, p=power: np.where(q == 2, float(f"1e-{p}"), 1.0))
weights("subnormal", lambda q: np.full(len(q), 5e-324))
weights("one-subnormal", lambda q: np.where(q == 2, 5e-324, 1.0))
weights("only-one-query", lambda q: np.where(q == 2, 1.0, 0.0), "fit")
weights("only-one-query-tiny", lambda q: np.where(q == 2, 1e-8, 0.0), "fit")
weights("ratio-1e30", lambda q: 10.0 ** np.linspace(-15, 15, N_QUERIES)[q])
weights("all-0", lambda q: np.zeros(len(q)), "refuse")
weights("negative", lambda q: np.where(q == 2, -1.0, 1.0), "refuse")
weights("nan", lambda q: np.where(q == 2, np.nan, 1.0), "refuse")
weights("inf", lambda q: np.where(q == 2, np.inf, 1.0), "refuse")
weights("by-row", lambda q: np.arange(len(q)) + 1.0, "either")  # of documents, where the ranker defines them
weights("integers", lambda q: q + 1, "fit")
weights("bool", lambda q: q > 1, "fit")
weights("big-endian", lambda q: (q + 1).astype(">f8"), "fit")
weights("text", lambda q: (q + 1).astype(str))
weights("complex", lambda q: q + 1j, "refuse")
weights("masked", lambda q: np.ma.masked_array(q + 1.0, q == 2), "refuse")
weights("too-few", lambda q: np.ones(len(q) - 1), "refuse")


@case("weight-on-equal-grades-only")  # blends need two queries
def _(rows: Rows) -> None:
    first = rows.qid == 100
    rows.y, rows.weights = np.where(first, 1.0, rows.y), np.where(first, 1.0, 0.0)


@case("qid-masked", "refuse")
def _(rows: Rows) -> None:
    rows.qid = np.ma.masked_array(rows.qid, rows.qid == 102)


@case("qid-nan", "refuse")
def _(rows: Rows) -> None:
    rows.qid = np.where(rows.qid == 102, np.nan, rows.qid)


# what is scored, and validation data
HOSTILE_ROWS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "1e155": (lambda X: with_value(X, 1e155), "either"),
    "x1e307": (lambda X: X * 1e307 / 4.0, "either"),
    "x1e149": (lambda X: X * 1e149, "either"),
    "x1e-310": (lambda X: X * 1e-310, "fit"),
    "inf": (lambda X: with_value(X, np.inf), "refuse"),
    "nan": (lambda X: with_value(X, np.nan), "missing"),
    "masked": (lambda X: np.ma.masked_array(X, X > 1), "missing"),
    "big-endian": (lambda X: X.astype(">f8"), "fit"),
    "text": (lambda X: X.astype(str), "either"),
    "complex": (lambda X: X + 1j, "refuse"),
    "objects": (lambda X: X.astype(object), "fit"),
    "sparse-inf": (lambda X: stored(X, np.inf), "refuse"),
    "sparse-1e155": (lambda X: stored(X, 1e155), "either"),
    "float16": (lambda X: X.astype(np.float16), "fit"),
}
for what, (make_rows, outcome) in HOSTILE_ROWS.items():

    @case(f"predict-{what}", outcome)
    def _(rows: Rows, folder: Path, make: Any = make_rows) -> None:
        rows.scored = make(rows.X)

    @case(f"eval-set-{what}", outcome)
    def _(rows: Rows, folder: Path, make: Any = make_rows) -> None:
        rows.scored, rows.eval_set = rows.X, (make(rows.X), rows.y, rows.qid + 1000)


features_scored_only = {
    "one-row": lambda X: X[:1],
    "narrow-training-wide-scoring": lambda X: X * 1e140,
}
for what, make_scored in features_scored_only.items():

    @case(f"predict-{what}")
    def _(rows: Rows, folder: Path, make: Any = make_scored) -> None:
        rows.scored = make(rows.X)


@case("predict-no-rows")
def _(rows: Rows) -> None:
    rows.scored = rows.X[:0]


@case("predict-1e149-after-training-on-1e-149")
def _(rows: Rows) -> Any:
    rows.scored = rows.X * 1e149
    return rows.X * 1e-149


@case("eval-set-grades-1e300")
def _(rows: Rows) -> None:
    rows.eval_set = (rows.X, rows.y * 1e300, rows.qid + 1000)


@case("eval-set-grades-masked", "refuse")
def _(rows: Rows) -> None:
    rows.eval_set = (rows.X, np.ma.masked_array(rows.y, rows.y == 2), rows.qid + 1000)


# files: the writers refuse what the readers must not take, so it is written into the file afterwards
MARK = 0.7654321


def with_checksums(raw: bytes) -> bytes:
    """A binary file with correct checksums, so that its values are refused for what they are, not for a wrong sum."""
    magic, version, length, _, rest = PREFIX.unpack(raw[: PREFIX.size])
    start = PREFIX.size + length
    header = json.loads(raw[PREFIX.size : start])
    place = header["arrays"]["checksums"]
    end = start + place["at"]
    stretches = (raw[at : min(at + CHECKED_BYTES, end)] for at in range(start, end, CHECKED_BYTES))
    sums = np.array([zlib.crc32(one) for one in stretches], dtype="<u4").tobytes()
    place["crc"] = zlib.crc32(sums)
    text = json.dumps(header).encode().ljust(length)
    assert len(text) == length
    head = PREFIX.pack(magic, version, length, zlib.crc32(text), rest)
    return head + text + raw[start:end] + sums + raw[end + len(sums) :]


def binary_file(rows: Rows, folder: Path, value: float, is_sparse: bool = False) -> None:
    data = gainful.RankingData.from_rows(rows.X, rows.y, rows.qid)
    X = with_value(data.X, MARK)
    path = folder / "data.gnf"
    gainful.write(data.replace(X=canonical(X) if is_sparse else X), path)
    raw, mark = path.read_bytes(), np.float64(MARK).tobytes()
    assert raw.count(mark) == 1
    path.write_bytes(with_checksums(raw.replace(mark, np.float64(value).tobytes())))
    rows.scored, rows.X, rows.y, rows.qid = rows.X, path, None, None


for what, stored_value, outcome in (
    ("inf", np.inf, "refuse"), ("nan", np.nan, "missing"), ("1e155", 1e155, "either"), ("plain", 1.0, "fit"),
):  # fmt: skip

    @case(f"file-{what}", outcome)
    def _(rows: Rows, folder: Path, value: float = stored_value) -> None:
        binary_file(rows, folder, value)

    @case(f"file-sparse-{what}", outcome)
    def _(rows: Rows, folder: Path, value: float = stored_value) -> None:
        binary_file(rows, folder, value, is_sparse=True)

    @case(f"file-scored-{what}", outcome)
    def _(rows: Rows, folder: Path, value: float = stored_value) -> None:
        X, y, qid = rows.X, rows.y, rows.qid
        binary_file(rows, folder, value)
        rows.X, rows.y, rows.qid, rows.scored = X, y, qid, rows.X


@case("text-file-1e155")
def _(rows: Rows, folder: Path) -> None:
    path = folder / "data.txt"
    gainful.write(gainful.RankingData.from_rows(with_value(rows.X, MARK), rows.y, rows.qid), path)
    path.write_text(path.read_text().replace(str(MARK), "1e155"))
    rows.scored, rows.X, rows.y, rows.qid = rows.X, path, None, None


# -- scores, for metrics -----------------------------------------------------------------------------------------------

SCORES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "plain": (lambda s: s, "fit"),
    "nan": (lambda s: np.where(s > 0, np.nan, s), "refuse"),
    "inf": (lambda s: np.where(s > 0, np.inf, s), "either"),  # it still gives an order
    "minus-inf": (lambda s: np.where(s > 0, -np.inf, s), "either"),
    "x1e307": (lambda s: s * 1e307, "fit"),
    "x1e-310": (lambda s: s * 1e-310, "fit"),
    "max": (lambda s: np.where(s > 0, 1.7e308, -1.7e308), "fit"),
    "masked": (lambda s: np.ma.masked_array(s, s > 0), "refuse"),
    "masked-nowhere": (np.ma.masked_array, "fit"),
    "big-endian": (lambda s: s.astype(">f8"), "fit"),
    "float16": (lambda s: s.astype(np.float16), "fit"),
    "longdouble-1e4000": (lambda s: s.astype(np.longdouble) * np.longdouble("1e4000"), "either"),
    "complex": (lambda s: s + 1j, "refuse"),
    "complex-without-imaginary-part": (lambda s: s + 0j, "refuse"),
    "text": (lambda s: s.astype(str), "either"),
    "dates": (lambda s: (9 * s).astype("datetime64[D]"), "refuse"),
    "timedeltas": (lambda s: (9 * s).astype("timedelta64[D]"), "refuse"),
    "objects": (lambda s: s.astype(object), "fit"),
    "objects-none": (lambda s: np.array([None, *s[1:]], dtype=object), "refuse"),
    "python-int-10^400": (lambda s: [10**400, *s[1:].tolist()], "either"),
    "integers": (lambda s: (9 * s).astype(int), "fit"),
    "int64-beyond-2^53": (lambda s: (9 * s).astype(int) + (1 << 60), "fit"),
    "bool": (lambda s: s > 0, "fit"),
    "two-dimensions": (lambda s: s[:, None], "refuse"),
    "too-few": (lambda s: s[:-1], "refuse"),
    "all-equal": (np.zeros_like, "fit"),
}
FOR_METRICS = [name for name in CASES if name.startswith(("grades-", "qid-"))]
FOR_COMPARE = (
    *("inf", "x1e155", "nan", "masked", "big-endian-f8", "grades-masked", "grades-to-1e+06", "grades-to-1e+300"),
    *("grades-x1e-310", "weights-1e300", "weights-only-one-query", "text-digits", "x1e-310"),
)


# -- outcomes ----------------------------------------------------------------------------------------------------------


def make_ranker(name: str, **params: Any) -> Any:
    entry = gainful.RANKERS[name]
    known = entry.cls.parameters
    return gainful.ranker(
        name,
        **{**BY_KIND.get(entry.kind, {}), **BY_NAME.get(name, {}), **{k: v for k, v in params.items() if k in known}},
    )


def train_and_score(name: str, rows: Rows, folder: Path) -> Any:
    """The scores, after a model file has given the same ones."""
    model = make_ranker(name, **rows.params)
    model.fit(rows.X, rows.y, qid=rows.qid, sample_weight=rows.weights, eval_set=rows.eval_set)
    gainful.save(model, folder / "m.gainful")
    queries = {}
    if model.needs_queries and not isinstance(rows.to_score, Path):  # a file brings its queries
        queries = {"qid": rows.qid[: n_rows(rows.to_score)]}
    scores = model.predict(rows.to_score, **queries)
    again = gainful.load(folder / "m.gainful").predict(rows.to_score, **queries)
    close = np.allclose(again, scores, rtol=1e-9, atol=1e-12 * np.abs(scores).max(initial=0.0))
    assert close, "the saved model scores differently"
    return scores


def n_rows(X: Any) -> int:
    if isinstance(X, Path):
        return N_QUERIES * N_DOCS
    return X.shape[0] if hasattr(X, "shape") else len(X)


def judge(expected: str, run: Callable[[], str | None]) -> str:
    """ "refused", "scored", or what went wrong. ``run`` says what is wrong with the values, if anything."""
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        try:
            wrong = run()
        except gainful.GainfulError as error:
            if len(str(error).splitlines()) != 1:
                return f"a message of several lines: {error}"
            if expected == "fit":
                return f"refused though harmless: {error}"
            outcome = "refused"
        except Exception as error:
            return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
        else:
            outcome = wrong or ("trained, should have been refused" if expected == "refuse" else "scored")
    foreign = [one for one in raised if not issubclass(one.category, OURS)]
    if foreign:
        return f"{foreign[0].category.__name__}: {' '.join(str(foreign[0].message).split())[:160]}"
    return outcome


def changed_rows(case: Case, folder: Path) -> Rows:
    rows = harmless()
    with np.errstate(all="ignore"):
        X = case.change(rows, folder)
    rows.X = rows.X if X is None else X
    return rows


ONE_QUERY = ("one-row", "two-rows", "one-query", "weights-only-one-query", "weights-only-one-query-tiny")


def expected_of(case: Case, name: str) -> str:
    """What is expected of a ranker, which takes missing values or refuses them; blends leave queries out."""
    if gainful.RANKERS[name].kind == "blend" and case.name in ONE_QUERY:
        return "refuse"
    if case.expected != "missing":
        return case.expected
    if gainful.RANKERS[name].kind == "blend":
        return "either"  # as its members do
    return "fit" if gainful.RANKERS[name].cls.accepts_missing else "refuse"


def of_ranker(name: str, case: Case, folder: Path) -> str:
    rows, expected = changed_rows(case, folder), expected_of(case, name)

    def run() -> str | None:
        scores = train_and_score(name, rows, folder)
        if scores.shape != (n_rows(rows.to_score),):
            return f"scores of shape {scores.shape}"
        if not np.isfinite(scores).all():
            return "scores are not finite"
        if case.twin is not None and expected == "fit":
            twin = case.twin(harmless().X)
            if not np.array_equal(scores, train_and_score(name, Rows(twin, rows.y, rows.qid), folder)):
                return "masked values counted"
        return None

    return judge(expected, run)


def of_metrics(spec: str, what: str, folder: Path) -> str:
    rows = harmless()
    scores: Any = np.random.default_rng(1).normal(size=len(rows.y))
    metric = gainful.metric(spec)
    if what in CASES:
        CASES[what].change(rows, folder)
        expected = CASES[what].expected
        if spec.startswith("err") and expected == "fit":
            expected = "either"  # its scale of grades ends
    else:
        make, expected = SCORES[what.removeprefix("scores-")]
        with np.errstate(all="ignore"):
            scores = make(scores)

    def run() -> str | None:
        values = metric.per_query(scores, rows.y, qid=rows.qid)
        return None if np.isfinite(values).all() else "values are not finite"

    return judge(expected, run)


def of_compare(what: str, folder: Path) -> str:
    case = CASES[what]
    rows = changed_rows(case, folder)

    def run() -> str | None:
        data = gainful.RankingData.from_rows(rows.X, rows.y, rows.qid, sample_weight=rows.weights)
        found = gainful.compare(["regression", "rankboost"], data, folds=3, seed=0)
        values = np.concatenate([found.per_query(label, "ndcg@10") for label in found.labels])
        return None if np.isfinite(values).all() else "values are not finite"

    expected = expected_of(case, "regression")
    return judge("either" if case.name.startswith("weights") else expected, run)  # a fold may be without weight


# Cases that differ from another only in degree or in kind of storage.
SIMILAR = re.compile(
    r"(column-)?x1e-?(20|38|100|200|300|323)|column-x1e.*|sparse-(csc|lil|dok|bsr|dia)|weights-(one-)?1e-?(20|30|200)"
    r"|grades-.*(31|100|1000|1e\+09|1e\+15).*|eval-set-.*|predict-(big|text|complex|objects|float).*|file-.*plain"
    r"|objects-(word|list|fraction|date)|text-in.*|bytes-digits|int8|void|transposed|tuples|lists|offset-1e(9|17)"
)


def cases_of(target: str, quick: bool = False, chosen: set[str] | None = None) -> list[str]:
    if target == "metrics":
        names = [f"{spec} {what}" for spec in METRICS for what in [*(f"scores-{s}" for s in SCORES), *FOR_METRICS]]
    else:
        names = list(FOR_COMPARE) if target == "compare" else [n for n in CASES if not (quick and SIMILAR.fullmatch(n))]
    return [name for name in names if chosen is None or name.split()[-1] in chosen]


def outcome_of(target: str, name: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        if target == "metrics":
            spec, _, what = name.rpartition(" ")
            return of_metrics(spec, what, Path(folder))
        if target == "compare":
            return of_compare(name, Path(folder))
        return of_ranker(target, CASES[name], Path(folder))


# -- processes ---------------------------------------------------------------------------------------------------------


def work(pairs: list[tuple[str, str]], results: Any) -> None:
    """In a child process: one outcome per target and case."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for target, name in pairs:
        results.send(outcome_of(target, name))
    results.close()


def outcomes(pairs: list[tuple[str, str]], timeout: float) -> Iterator[tuple[str, str, str]]:
    """(target, case, outcome) of each; a crash or a hang ends a child, and the next child goes on after it."""
    context = multiprocessing.get_context("spawn")
    left = list(pairs)
    while left:
        mine, its = context.Pipe(duplex=False)
        child = context.Process(target=work, args=(left, its))
        child.start()
        its.close()
        wait = timeout + 300.0  # the first case waits for imports
        while left:
            try:
                outcome = mine.recv() if mine.poll(wait) else "hang"
            except EOFError:
                child.join()
                outcome = f"crash (exit status {child.exitcode})"
            yield *left.pop(0), outcome
            wait = timeout
            if outcome == "hang" or outcome.startswith("crash"):
                break
        child.kill()
        child.join()


def table_row(target: str, found: dict[str, str]) -> str:
    counts = Counter(o if o in ("refused", "scored") else "failed" for o in found.values())
    return f"{target:24}{len(found):7}{counts['refused']:9}{counts['scored']:8}{counts['failed']:8}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--targets", default=",".join([*gainful.RANKERS, "metrics", "compare"]))
    parser.add_argument("--cases", help="names of cases, with commas; all by default")
    parser.add_argument("--quick", action="store_true", help="leave out cases that differ from another only in degree")
    parser.add_argument("--timeout", type=float, default=TIMEOUT, help="seconds per case")
    parser.add_argument("--json", type=Path, help="write all outcomes to this file")
    given = parser.parse_args()
    chosen = set(given.cases.split(",")) if given.cases else None
    pairs = [(t, n) for t in given.targets.split(",") for n in cases_of(t, given.quick, chosen)]
    print(f"{len(CASES)} cases; gainful from {Path(gainful.__file__).parent}")
    print(f"{'target':24}{'cases':>7}{'refused':>9}{'scored':>8}{'failed':>8}", flush=True)
    everything: dict[str, dict[str, str]] = {}
    for target, name, outcome in outcomes(pairs, given.timeout):
        found = everything.setdefault(target, {})
        found[name] = outcome
        if len(found) == sum(t == target for t, _ in pairs):
            print(table_row(target, found), flush=True)
            if given.json:
                given.json.write_text(json.dumps(everything, indent=1))
    failures = [
        (t, n, o) for t, found in everything.items() for n, o in found.items() if o not in ("refused", "scored")
    ]
    print(f"{sum(map(len, everything.values()))} outcomes, {len(failures)} failures")
    for target, name, outcome in failures:
        print(f"  {target:24} {name:36} {outcome}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
