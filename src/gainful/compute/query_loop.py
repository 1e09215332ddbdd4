"""One pass over queries: runs of queries per thread, chunks of features that fit in the cache.

Every loss that is a sum over queries runs here, whatever it computes inside a query. It provides a *fill*:
``fill(scores, first, last, values, gradient)`` takes the scores of the rows of the queries ``first`` to ``last − 1``,
and writes the value of each of these queries to ``values[q]`` and, for these rows, the gradient by score. It must be
safe to call from several threads for different queries.

The queries are split into one run per thread, a run into chunks whose features fit in the cache. Each chunk goes
through scores, loss and the product of features and coefficients in turn, so every feature is read from memory once.
Each thread sums a gradient of its own; these are added in the order of the queries, so only the last digits of a result
depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from gainful.compute.threads import thread_count
from gainful.data.rows import Array, chunks, read_only

if TYPE_CHECKING:
    from gainful.compute.features import Features

CHUNK_BYTES = 1 << 21  # features of one chunk: fewer calls, and still in the last-level cache
CHUNK_ROWS = 1 << 14  # and its rows at most
ROWS_PER_THREAD = 5_000  # fewer rows than this are not worth a thread

Fill = Callable[[Array, int, int, Array, Array], None]
NewtonFill = Callable[[Array, int, int, Array, Array], None]  # (scores, first, last, gradient, curvature)


def values_and_gradient(fill: Fill, offsets: Array, scores: Array, threads: int | None = None) -> tuple[Array, Array]:
    """The value of each query, and the gradient of each by the scores of its rows: (n_queries,), (n_rows,)."""
    values, c = np.empty(len(offsets) - 1), np.empty(int(offsets[-1]))

    def task(first: int, last: int) -> None:
        rows = slice(int(offsets[first]), int(offsets[last]))
        fill(scores[rows], first, last, values, c[rows])

    run_in_threads(offsets, threads, task)
    return values, c


def gradient_and_curvature(
    fill: NewtonFill, offsets: Array, scores: Array, threads: int | None = None
) -> tuple[Array, Array]:
    """The gradient by the score of each row, and the second derivative by the same score: (n_rows,), (n_rows,)."""
    gradient, curvature = np.empty(int(offsets[-1])), np.empty(int(offsets[-1]))

    def task(first: int, last: int) -> None:
        rows = slice(int(offsets[first]), int(offsets[last]))
        fill(scores[rows], first, last, gradient[rows], curvature[rows])

    run_in_threads(offsets, threads, task)
    return gradient, curvature


def risk_of_features(
    fill: Fill,
    offsets: Array,
    features: Features,
    w: Array,
    weights: Array | None = None,
    *,
    want_scores: bool = False,
    threads: int | None = None,
) -> tuple[float, Array, Array | None]:
    """Σ_q ω_q L_q(X_q w), a gradient (n_features,), and the scores (n_rows,) if wanted; one pass over X.

    Without weights ω = 1.
    """
    w = read_only(np.ascontiguousarray(w, dtype=np.float64))
    values = np.empty(len(offsets) - 1)
    scores = np.empty(int(offsets[-1])) if want_scores else None
    step = max(1, min(CHUNK_ROWS, int(CHUNK_BYTES / max(features.row_bytes, 1.0))))
    one = None if weights is None else common_value(weights)  # multiplies the sum, not every row

    def task(first: int, last: int) -> Array:
        cuts = chunks(offsets, first, last, step)
        longest = max(int(offsets[b] - offsets[a]) for a, b in pairwise(cuts))
        own_scores, own_c, gradient = np.empty(longest), np.empty(longest), np.zeros(features.n_features)
        for a, b in pairwise(cuts):
            lo, hi = int(offsets[a]), int(offsets[b])
            s = own_scores[: hi - lo] if scores is None else scores[lo:hi]
            c = own_c[: hi - lo]
            features.scores(w, lo, hi, s)
            fill(read_only(s), a, b, values, c)
            if weights is not None and one is None:
                c *= np.repeat(weights[a:b], np.diff(offsets[a : b + 1]))
            features.add_gradient(c, lo, hi, gradient)
        return gradient

    gradient = np.sum(run_in_threads(offsets, threads, task), axis=0)
    if one is not None:
        gradient *= one
    total = float(values.sum()) if weights is None else float(weights @ values)
    return total, gradient, scores


def common_value(weights: Array) -> float | None:
    """The weight that all queries have, or None if they differ."""
    return float(weights[0]) if len(weights) and (weights == weights[0]).all() else None


def risk_along(
    fill: Fill,
    offsets: Array,
    scores: Array,
    direction: Array,
    t: float,
    weights: Array | None = None,
    threads: int | None = None,
) -> tuple[float, float]:
    """Σ_q ω_q L_q at the scores s + t·d and its derivative by t, chunk by chunk, without arrays as long as the data."""
    values = np.empty(len(offsets) - 1)
    weights = np.ones(len(values)) if weights is None else weights

    def task(first: int, last: int) -> float:
        slope = 0.0
        cuts = chunks(offsets, first, last, CHUNK_ROWS)
        longest = max(int(offsets[b] - offsets[a]) for a, b in pairwise(cuts))
        own_scores, own_c = np.empty(longest), np.empty(longest)
        for a, b in pairwise(cuts):
            lo, hi = int(offsets[a]), int(offsets[b])
            here, c = own_scores[: hi - lo], own_c[: hi - lo]
            np.multiply(direction[lo:hi], t, out=here)
            here += scores[lo:hi]
            fill(read_only(here), a, b, values, c)
            c *= direction[lo:hi]
            slope += float(weights[a:b] @ np.add.reduceat(c, offsets[a:b] - lo))
        return slope

    slopes = run_in_threads(offsets, threads, task)
    return float(weights @ values), float(sum(slopes))


def apply_gradient(features: Features, coefficients: Array, *, threads: int | None = None) -> Array:
    """X'c in float64, (n_features,); rows where c is 0 are not read."""

    def task(lo: int, hi: int) -> Array:
        gradient = np.zeros(features.n_features)
        features.add_gradient(coefficients[lo:hi], lo, hi, gradient)
        return gradient

    cuts = even_cuts(features.n_rows, threads_for(features.n_rows, threads))
    return np.asarray(np.sum(run_each(task, cuts), axis=0))


# -- runs of queries ---------------------------------------------------------------------------------------------------


def threads_for(work: float, threads: int | None = None, per_thread: float = ROWS_PER_THREAD) -> int:
    """One thread per ``per_thread`` units of work (by default rows), at most all; or ``threads`` if given."""
    return max(1, int(min(thread_count(), work // per_thread) if threads is None else min(threads, work)))


def run_in_threads(offsets: Array, threads: int | None, task: Callable[[int, int], Any]) -> list[Any]:
    """``task(first, last)`` for runs of queries of about equally many rows, one per thread; results in order."""
    n_threads = threads_for(int(offsets[-1]), threads)
    return [task(0, len(offsets) - 1)] if n_threads == 1 else run_each(task, cuts_of_equal_work(offsets, n_threads))


def even_cuts(n: int, n_parts: int) -> list[int]:
    """0, …, n: at most ``n_parts`` runs of about equal length."""
    return sorted({n * i // n_parts for i in range(n_parts + 1)})


def cuts_of_equal_work(work: Array, n_parts: int) -> list[int]:
    """Runs of queries of about equal work, of which ``work[q]`` is done before query q."""
    cuts = np.searchsorted(work, np.linspace(0, work[-1], n_parts + 1)).tolist()
    cuts[0], cuts[-1] = 0, len(work) - 1
    return sorted(set(cuts))


def run_each(task: Callable[[int, int], Any], cuts: list[int]) -> list[Any]:
    """``task`` for every run between two cuts, each in a thread of its own."""
    runs = list(pairwise(cuts))
    if len(runs) == 1:
        return [task(*runs[0])]
    with ThreadPoolExecutor(len(runs) - 1) as pool:
        waiting = [pool.submit(task, *run) for run in runs[1:]]
        return [task(*runs[0]), *(future.result() for future in waiting)]
