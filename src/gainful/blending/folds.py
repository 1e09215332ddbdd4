"""Query folds: the queries to train on and those left out, and one fit per fold."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from queue import Empty, SimpleQueue
from threading import Event, Thread

import numpy as np

from gainful.compute.estimators import clone
from gainful.compute.memory import allowed_memory
from gainful.compute.threads import limit_threads, one_blas_thread, threads_worth
from gainful.data.blocks import LocalBlocks
from gainful.data.checks import skip_checks
from gainful.data.dataset import Dataset, RankingData
from gainful.data.rows import Array, is_mapped
from gainful.data.sharded import ShardedData
from gainful.rankers.base import Ranker
from gainful.rankers.trees import TreeRanker
from gainful.training.monitor import Progress, part_of_a_fit
from gainful.training.shared_setup import SharedSetup

KEPT_SHARE = 0.05  # of the free memory, for copies of the training parts that all members share
BYTES_PER_VALUE = 12  # of one fit: a copy of the rows, and LightGBM's bins
LARGE = 50_000_000  # values; below, every fit has one thread, so that the result depends on no number of cores
WORTH = 0.7  # share of the expected time that must be left for a fit to begin
SMOOTHING = 8  # iterations on either side that a curve is averaged over
GRACE = 3.0  # seconds for running fits to notice that they are to end


def is_large(data: RankingData) -> bool:
    """Whether the data is too large to be copied for several fits at once."""
    return n_values(data) > LARGE


def n_values(data: RankingData) -> int:
    return int(data.X.nnz) if data.is_sparse else data.n_rows * data.n_features


class QueryFolds:
    """Queries dealt into folds. Rows of large mapped files are not copied: a fold is a run of neighbouring queries."""

    def __init__(self, data: RankingData, n_folds: int, seed: int):
        self.data, self.n = data, min(n_folds, data.n_queries)
        self.trained = self.n  # folds that members are trained on, the first ones
        self.mapped = is_mapped(data.X) and is_large(data)
        order = np.arange(data.n_queries) if self.mapped else np.random.default_rng(seed).permutation(data.n_queries)
        self.left_out = [np.sort(part) for part in np.array_split(order, self.n)]
        self._kept: dict[int, RankingData] = {}
        self.setup = SharedSetup()  # of the members, which all train on these parts

    @cached_property
    def _keeps(self) -> bool:
        free = allowed_memory()
        size = (self.n - 1) * n_values(self.data) * 8
        return not self.mapped and free is not None and size < KEPT_SHARE * free

    def train(self, fold: int) -> Dataset:
        """All queries but those left out."""
        if fold in self._kept:
            return self._kept[fold]
        out = self.left_out[fold]
        if self.mapped:
            ends = [self.data[: int(out[0])]] if out[0] > 0 else []
            ends += [self.data[int(out[-1]) + 1 :]] if out[-1] + 1 < self.data.n_queries else []
            return ends[0] if len(ends) == 1 else ShardedData(LocalBlocks(ends))
        mask = np.ones(self.data.n_queries, dtype=bool)
        mask[out] = False
        part = self.data[mask]
        if self._keeps:
            self._kept[fold] = part
        return part

    def valid(self, fold: int) -> RankingData | None:
        """The queries left out."""
        out = self.left_out[fold]
        return self.data[int(out[0]) : int(out[-1]) + 1] if self.mapped else self.data[out]

    def weight(self, fold: int) -> float:
        """What the queries left out count, together."""
        out, weights = self.left_out[fold], self.data.query_weights
        return float(len(out) if weights is None else weights[out].sum())

    def rows(self, fold: int) -> Array:
        """The rows of the queries left out, in the order of ``valid``."""
        starts, ends = self.data.offsets[self.left_out[fold]], self.data.offsets[self.left_out[fold] + 1]
        return np.concatenate([np.arange(a, b) for a, b in zip(starts, ends, strict=True)])


@dataclass(frozen=True)
class FoldFit:
    """One model trained without the queries of one fold, and its scores of these queries' rows."""

    fold: int
    model: Ranker
    scores: Array
    seconds: float
    complete: bool  # False if the deadline or an interruption ended training
    curve: Array = field(default_factory=lambda: np.empty(0))  # of trees: the metric on these queries after each


@dataclass
class Clock:
    """When to stop: at the deadline, or when ``stop`` is set."""

    deadline: float | None = None
    stop: Event = field(default_factory=Event)
    now: Callable[[], float] = time.perf_counter

    @property
    def left(self) -> float:
        """Seconds until the deadline."""
        return float("inf") if self.deadline is None else self.deadline - self.now()

    @property
    def over(self) -> bool:
        return self.stop.is_set() or self.left <= 0.0

    def too_late_for(self, seconds: float) -> bool:
        """Whether a fit that is expected to take this long would be cut well before its end."""
        return self.over or self.left <= WORTH * seconds


@dataclass(frozen=True)
class Job:
    """A ranker to train on one fold."""

    ranker: Ranker
    fold: int
    seconds: float = 0.0  # expected; 0 if unknown


def fit_folds(
    folds: QueryFolds, jobs: Sequence[Job], clock: Clock, n_jobs: int | None = None
) -> list[FoldFit | Exception | None]:
    """The results of all jobs, in order; None for those that did not end, the error of those that failed.

    Fits run side by side, each on one thread; with large data one after the other, on all cores.
    """
    results: list[FoldFit | Exception | None] = [None] * len(jobs)
    todo: SimpleQueue[int] = SimpleQueue()
    ended: SimpleQueue[tuple[int, FoldFit | Exception | None]] = SimpleQueue()
    for i in range(len(jobs)):
        todo.put(i)
    workers, threads = worker_count(folds.data, n_jobs, len(jobs))

    def work() -> None:
        while True:
            try:
                i = todo.get_nowait()
            except Empty:
                return
            ended.put((i, _fit_one(folds, jobs[i], clock, threads)))

    # set once, since all threads share the filters and BLAS; the caller warns about an interruption itself
    with warnings.catch_warnings(), one_blas_thread() if threads == 1 else nullcontext():
        warnings.simplefilter("ignore", UserWarning)
        for _ in range(workers):  # daemons: a fit that does not notice the end must not hold up the process
            Thread(target=work, daemon=True).start()
        left, until = len(jobs), float("inf")
        while left and time.perf_counter() < until:
            try:
                i, result = ended.get(timeout=0.2)
                results[i] = result
                left -= 1
            except Empty:
                pass
            except KeyboardInterrupt:
                clock.stop.set()
            if clock.over and until == float("inf"):
                until = time.perf_counter() + GRACE
    return results


def worker_count(data: RankingData, n_jobs: int | None, n_tasks: int) -> tuple[int, int]:
    """Fits that run side by side, as far as memory goes, and threads for each."""
    cores = threads_worth(n_jobs if n_jobs is not None and n_jobs > 0 else None, float("inf"))
    if is_large(data):
        return 1, cores
    allowed = allowed_memory()
    fitting = cores if allowed is None else int(0.5 * allowed / max(1, n_values(data) * BYTES_PER_VALUE))
    return max(1, min(cores, fitting, n_tasks)), 1


def _fit_one(folds: QueryFolds, job: Job, clock: Clock, n_threads: int) -> FoldFit | Exception | None:
    if clock.too_late_for(job.seconds):
        return None
    began = time.perf_counter()
    model = clone(job.ranker)
    grows = isinstance(model, TreeRanker) and folds.trained > 1
    if grows:
        model._keeps_all_trees = True  # all folds together decide on their number
    cut = False

    def watch(_: Progress) -> bool:
        nonlocal cut
        cut = clock.over
        return cut

    try:
        valid = folds.valid(job.fold)
        with limit_threads(n_threads), skip_checks(), part_of_a_fit(), folds.setup.use():
            model.fit(folds.train(job.fold), eval_set=valid, progress=watch)
            rows = folds.train(job.fold) if valid is None else valid
            scores = np.asarray(model.predict(rows), dtype=np.float64)
    except Exception as error:  # the caller decides whether one member's failure ends the training
        return error
    if isinstance(model, TreeRanker):
        model._release_data()
    curve = np.array([row["validation"] for row in model.history_], dtype=np.float64) if grows else np.empty(0)
    return FoldFit(job.fold, model, scores, time.perf_counter() - began, not cut, curve)


def end_together(folds: QueryFolds, fits: Sequence[FoldFit]) -> list[FoldFit]:
    """The fits of one ranker; if they are trees, all end with the iteration that is best for all queries left out.

    The queries of one fold are few: the best iteration for them alone is largely chance, and makes their metric look
    better than it is.
    """
    shortest = min((len(fit.curve) for fit in fits), default=0)
    together = len(fits) > 1 and shortest > 0 and all(fit.complete for fit in fits)
    best = _common_peak(folds, fits, shortest) if together else 0
    ended = []
    for fit in fits:
        model = fit.model
        if len(fit.curve):
            assert isinstance(model, TreeRanker)
            model._end_with(best + 1 if together else model.best_iteration_)
            if together:
                fit = replace(fit, scores=np.asarray(model.predict(folds.valid(fit.fold)), dtype=np.float64))
        ended.append(fit)
    return ended


def _common_peak(folds: QueryFolds, fits: Sequence[FoldFit], n: int) -> int:
    """The best of the first ``n`` iterations for the queries left out of all folds that have a value; else the last."""
    curves = np.array([fit.curve[:n] for fit in fits])
    weights = np.array([folds.weight(fit.fold) for fit in fits])[:, None] * np.isfinite(curves)
    total = weights.sum(axis=0)
    means = np.divide((weights * np.nan_to_num(curves)).sum(axis=0), total, out=np.full(n, np.nan), where=total > 0.0)
    return int(np.nanargmax(smooth(means))) if np.isfinite(means).any() else n - 1


def smooth(curve: Array) -> Array:
    """The moving average; NaN values do not count."""
    padded = np.pad(curve, SMOOTHING, mode="edge")
    window, known = np.ones(2 * SMOOTHING + 1), np.isfinite(padded)
    counts = np.convolve(known, window, mode="valid")
    sums = np.convolve(np.where(known, padded, 0.0), window, mode="valid")
    return np.asarray(np.divide(sums, counts, out=np.full(len(curve), np.nan), where=counts > 0.0))
