"""``RankingProblem``: everything about loss-augmented ranking that does not depend on the scores.

Conventions
-----------
Query ``q`` owns the rows ``offsets[q]:offsets[q + 1]``. Its rows, best grade first and in row order inside a grade,
are ``offsets[q] + order[offsets[q]:offsets[q + 1]]``. Its grades are the blocks ``blocks[q]:blocks[q + 1]``; block b
holds the positions ``starts[b]:starts[b + 1]`` of ``order``, all with the gain ``gains[b]``.

====================  ======================  ===================================================================
``offsets``           (n_queries + 1,) int64
``order``             (n_rows,) int32         rows by grade, counted from the first row of their query
``blocks``            (n_queries + 1,) int64
``starts``            (n_blocks + 1,) int64
``gains``             (n_blocks,) float64     φ(g) / N_q
``target``            (n_rows,) float64       weight of each row in the Ψ of the target
``active``            (n_queries,) bool       whether the query contributes
``position_weights``  (depth,) float64        A(1), …, A(depth); 0 further down
``discounts``         (depth,) float64        D(1), …, D(depth); 0 further down
====================  ======================  ===================================================================
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal

import numpy as np

from gainful.data.grades import by_grade
from gainful.data.rows import Array, check_grades, read_only
from gainful.errors import ParameterError
from gainful.losses.gains import exponential_gain, linear_gain, perfect_sums

OWNER = "RankingProblem"
Measure = Literal["ndcg", "average_precision"]
NO_WAY, PATHS, COUNTS, SQUARE = 0, 1, 2, 3  # ways to rank a query for NDCG: see ndcg_kernels
MOST_STATES = 1 << 20  # maximum states of rank_by_counts; beyond that, rank_by_paths
FEWEST_BY_COUNTS = 0.05  # of the queries: rank_by_counts takes half the time of rank_by_paths, and 0.6 s to compile


@dataclass(frozen=True, eq=False, repr=False)
class RankingProblem:
    """The rankings of a training set, the loss of each, and the target: built once, read by every inference.

    Build it with :meth:`ndcg` or :meth:`average_precision`. All arrays are read-only; the conventions are at the top
    of this module.
    """

    measure: Measure
    offsets: Array
    order: Array
    blocks: Array
    starts: Array
    gains: Array
    target: Array
    active: Array
    position_weights: Array
    discounts: Array

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                object.__setattr__(self, field.name, read_only(np.ascontiguousarray(value)))

    @classmethod
    def ndcg(
        cls,
        y: Any,
        offsets: Any,
        k: int | None,
        *,
        gain: str = "exp2",
        discount: Any = None,
        position_weights: Any,
        ties: str = "average",
        seed: int = 0,
        first_row: int = 0,
    ) -> RankingProblem:
        """Δ(y) = 1 − NDCG@k and Ψ(x, y) = Σ_i A(y_i) x_i, with A = ``position_weights``.

        ``discount`` gives D(1), D(2), …, 0 beyond its end and beyond k; None means 1/log2(1 + r). ``k=None`` is the
        length of the longest list. ``gain`` is ``"exp2"``, 2^g − 1, or ``"linear"``, g.

        If grades repeat, many rankings are perfect. With ``ties="average"`` the target is the mean of Ψ over all of
        them; with ``ties="random"`` it is the Ψ of one, drawn with ``seed``. A block whose rows start at ``first_row``
        draws the same as it would within all rows. A query without gain, or with a single grade, has no loss: it is
        inactive, and its violation and coefficients are 0.

        Chapelle, Le and Smola, "Large margin optimization of ranking measures", 2007.
        """
        if gain not in ("exp2", "linear"):
            raise ParameterError.of(OWNER, "gain", "'exp2' or 'linear'", gain)
        if ties not in ("average", "random"):
            raise ParameterError.of(OWNER, "ties", "'average' or 'random'", ties)
        grades = check_grades(y)
        ends = check_offsets(offsets, len(grades))
        longest = int(np.diff(ends).max())
        depth = longest if k is None else check_k(k)
        D = (
            1.0 / np.log2(np.arange(2.0, min(depth, longest) + 2.0))
            if discount is None
            else check_steps(discount, "discount")
        )
        A = check_steps(position_weights, "position_weights")
        A, D = pad_to_same_length(A[:longest], D[: min(depth, longest)])
        order, blocks, starts = by_grade(grades, ends)
        values = (exponential_gain if gain == "exp2" else linear_gain)(grades, ends)
        best = perfect_sums(values, order, ends, D)
        active = (best > 0.0) & (np.diff(blocks) > 1)
        query = np.repeat(np.arange(len(ends) - 1), np.diff(blocks))
        head = ends[query] + order[starts[:-1]]
        with np.errstate(divide="ignore", invalid="ignore"):
            gains = np.where(active[query], values[head] / best[query], 0.0)
        target = target_weights(A, order, ends, starts, None if ties == "average" else seed, first_row)
        target[~np.repeat(active, np.diff(ends))] = 0.0
        return cls("ndcg", ends, order, blocks, starts, gains, target, active, A, D)

    @classmethod
    def average_precision(cls, y: Any, offsets: Any, relevant: float = 1.0) -> RankingProblem:
        """Δ(y) = 1 − AP; a document is relevant when its grade is at least ``relevant``.

        Ψ(x, y) = Σ over relevant i and other j of ±(x_i − x_j) / (n_relevant · n_other), + if i comes before j.
        The target has every relevant document before every other one. A query in which all or no documents are
        relevant is inactive.

        Yue, Finley, Radlinski and Joachims, "A support vector method for optimizing average precision", SIGIR 2007.
        """
        if not np.isscalar(relevant) or not np.isfinite(relevant):
            raise ParameterError.of(OWNER, "relevant", "a finite grade", relevant)
        grades = check_grades(y)
        ends = check_offsets(offsets, len(grades))
        is_relevant = (grades >= relevant).astype(np.float64)
        order, blocks, starts = by_grade(is_relevant, ends)
        active = np.diff(blocks) > 1
        query = np.repeat(np.arange(len(ends) - 1), np.diff(blocks))
        gains = is_relevant[ends[query] + order[starts[:-1]]]
        counts = np.diff(ends)
        n_relevant = np.repeat(np.add.reduceat(is_relevant, ends[:-1]), counts)
        n_other = np.repeat(counts, counts) - n_relevant
        target = np.where(is_relevant > 0.0, 1.0 / np.maximum(n_relevant, 1.0), -1.0 / np.maximum(n_other, 1.0))
        target[~np.repeat(active, counts)] = 0.0
        return cls("average_precision", ends, order, blocks, starts, gains, target, active, np.ones(1), np.ones(1))

    @property
    def n_queries(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_rows(self) -> int:
        return int(self.offsets[-1])

    @property
    def depth(self) -> int:
        """The number of ranks that affect the loss or the score."""
        return len(self.position_weights)

    @cached_property
    def parts(self) -> dict[Any, Any]:
        """What inference caches for runs of queries between calls."""
        return {}

    @cached_property
    def guess(self) -> Array:
        """Where inference keeps the candidates of its last call: a guess at the next ones, which changes no result."""
        return np.zeros(self.n_rows, dtype=np.int32)

    @cached_property
    def ways(self) -> tuple[Array, Array]:
        """How to rank each query for NDCG (NO_WAY if inactive), and the number of states of rank_by_counts."""
        return self.ways_by(None)

    def ways_by(self, wanted: int | None) -> tuple[Array, Array]:
        """The ``wanted`` way where it applies (COUNTS to two grades, SQUARE to whole lists), else PATHS."""
        n, n_grades = np.diff(self.offsets), np.diff(self.blocks)
        m = np.minimum(n, self.depth)
        candidates = np.minimum(np.diff(self.starts), np.repeat(m, n_grades))
        with np.errstate(over="ignore"):
            states = np.multiply.reduceat(candidates + 1.0, self.blocks[:-1])
        by_counts = (n_grades == 2) & (states <= MOST_STATES) & (wanted in (None, COUNTS))
        if wanted is None and np.sum(by_counts & self.active) < FEWEST_BY_COUNTS * np.sum(self.active):
            by_counts[:] = False
        whole = (m == n) & (wanted in (None, SQUARE))
        way = np.where(by_counts, COUNTS, np.where(whole, SQUARE, PATHS))
        return np.where(self.active, way, NO_WAY), np.where(by_counts, states, 1.0)

    def __repr__(self) -> str:
        return (
            f"RankingProblem({self.measure}, {self.n_queries:,} queries, {int(self.active.sum()):,} active, "
            f"{self.n_rows:,} documents)"
        )


# -- checks ------------------------------------------------------------------------------------------------------------


def check_offsets(offsets: Any, n_rows: int) -> Array:
    ends = np.ascontiguousarray(offsets, dtype=np.int64)
    if ends.ndim != 1 or len(ends) < 2 or ends[0] != 0 or ends[-1] != n_rows or np.any(np.diff(ends) <= 0):
        raise ParameterError.of(OWNER, "offsets", f"increasing from 0 to the number of rows ({n_rows})", offsets)
    return ends


def check_k(k: Any) -> int:
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
        raise ParameterError.of(OWNER, "k", "an integer ≥ 1, or None", k)
    return int(k)


def check_steps(values: Any, name: str) -> Array:
    """A finite, non-negative, non-increasing array of at least one entry."""
    expected = "a non-empty array of finite, non-negative numbers that never increase"
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ParameterError.of(OWNER, name, expected, values) from None
    if array.ndim != 1 or not len(array) or not np.isfinite(array).all() or array[-1] < 0 or np.any(np.diff(array) > 0):
        raise ParameterError.of(OWNER, name, expected, values)
    if array[0] <= 0.0:
        raise ParameterError.of(OWNER, name, "a first entry above 0", array[0])
    return array


def pad_to_same_length(A: Array, D: Array) -> tuple[Array, Array]:
    """Both cut or padded with zeros to the last rank at which either is above 0."""
    depth = max(int(np.flatnonzero(A)[-1]), int(np.flatnonzero(D)[-1])) + 1
    longer = [np.zeros(depth), np.zeros(depth)]
    for to, values in zip(longer, (A, D), strict=True):
        to[: min(depth, len(values))] = values[:depth]
    return longer[0], longer[1]


# -- the target --------------------------------------------------------------------------------------------------------


def target_weights(
    A: Array, order: Array, offsets: Array, starts: Array, seed: int | None, first_row: int = 0
) -> Array:
    """A at the perfect ranking of each row: the mean over its block, or A at one shuffle of each block."""
    counts = np.diff(offsets)
    first = np.repeat(offsets[:-1], counts)
    rank = np.arange(len(order)) - first
    weights = np.append(A, 0.0)[np.minimum(rank, len(A))]
    sizes = np.diff(starts)
    if seed is None:
        weights = np.repeat(np.add.reduceat(weights, starts[:-1]) / sizes, sizes)
    else:
        keys = np.random.Generator(np.random.PCG64(seed).advance(first_row)).random(len(order))
        weights = weights[np.lexsort((keys, np.repeat(np.arange(len(sizes)), sizes)))]
    target = np.empty(len(order))
    target[first + order] = weights
    return target
