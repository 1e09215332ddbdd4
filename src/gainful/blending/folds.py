"""Query folds: the queries to train on and those left out, and one fit per fold."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cached_property
from threading import Event

import numpy as np

from gainful.compute.estimators import clone
from gainful.compute.memory import available
from gainful.compute.threads import allowed_cores, limit_threads
from gainful.data.blocks import LocalBlocks
from gainful.data.checks import skip_checks
from gainful.data.dataset import Dataset, RankingData
from gainful.data.rows import Array, is_mapped
from gainful.data.sharded import ShardedData
from gainful.errors import GainfulError
from gainful.rankers.base import Ranker
from gainful.training.monitor import Progress

KEPT_SHARE = 0.05  # of the free memory, for copies of the training parts that all members share
BYTES_PER_VALUE = 12  # of one fit: a copy of the rows, and LightGBM's bins
PATIENCE_AFTER_STOP = 3.0  # seconds for running fits to notice that they are to end


class QueryFolds:
    """Queries dealt into folds. Rows of mapped files are not copied: there a fold is a run of neighbouring queries."""

    def __init__(self, data: RankingData, n_folds: int, seed: int):
        self.data, self.n = data, min(n_folds, data.n_queries)
        self.mapped = is_mapped(data.X)
        order = np.arange(data.n_queries) if self.mapped else np.random.default_rng(seed).permutation(data.n_queries)
        self.left_out = [np.sort(part) for part in np.array_split(order, self.n)]
        self._kept: dict[int, RankingData] = {}

    @cached_property
    def _keeps(self) -> bool:
        free = available()
        size = (self.n - 1) * self.data.n_rows * self.data.n_features * 8
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

    def valid(self, fold: int) -> RankingData:
        out = self.left_out[fold]
        return self.data[int(out[0]) : int(out[-1]) + 1] if self.mapped else self.data[out]

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


@dataclass
class Clock:
    """When to stop: at the deadline (of ``time.perf_counter``), or when ``stop`` is set."""

    deadline: float | None = None
    stop: Event = field(default_factory=Event)

    @property
    def over(self) -> bool:
        return self.stop.is_set() or (self.deadline is not None and time.perf_counter() >= self.deadline)


@dataclass(frozen=True)
class Job:
    """A ranker to train on one fold."""

    ranker: Ranker
    fold: int


def fit_folds(
    folds: QueryFolds, jobs: Sequence[Job], clock: Clock, n_jobs: int | None = None
) -> list[FoldFit | GainfulError | None]:
    """The results of all jobs, in order; None for those that did not begin, an error for those that were refused.

    Jobs run side by side on as many threads as there are cores, each fit on its share of them, as far as memory goes.
    """
    workers = worker_count(folds.data, n_jobs, len(jobs))
    share = max(1, (allowed_cores() if n_jobs is None or n_jobs < 0 else n_jobs) // workers)
    results: list[FoldFit | GainfulError | None] = [None] * len(jobs)
    pool = ThreadPoolExecutor(workers)
    running: dict[Future[FoldFit | GainfulError | None], int] = {}

    def collect(timeout: float | None) -> None:
        ended, _ = wait(running, timeout=timeout, return_when=FIRST_COMPLETED)
        for one in ended:
            results[running.pop(one)] = one.result()

    # set once, since all threads share the filters; the caller warns about an interruption itself
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            for i, job in enumerate(jobs):
                running[pool.submit(_fit_one, folds, job, clock, share)] = i
            while running:
                collect(0.2)
        except KeyboardInterrupt:
            clock.stop.set()
            until = time.perf_counter() + PATIENCE_AFTER_STOP
            while running and time.perf_counter() < until:
                collect(0.1)
        finally:
            pool.shutdown(wait=not clock.stop.is_set(), cancel_futures=True)
    return results


def worker_count(data: RankingData, n_jobs: int | None, n_tasks: int) -> int:
    """Fits that run side by side: one per core, as far as memory goes."""
    cores = allowed_cores() if n_jobs is None or n_jobs < 0 else n_jobs
    free = available()
    each = data.n_rows * data.n_features * BYTES_PER_VALUE
    fitting = cores if free is None else max(1, int(0.5 * free / max(each, 1)))
    return max(1, min(cores, fitting, n_tasks))


def _fit_one(folds: QueryFolds, job: Job, clock: Clock, n_threads: int) -> FoldFit | GainfulError | None:
    if clock.over:
        return None
    began = time.perf_counter()
    model = clone(job.ranker)
    valid = folds.valid(job.fold)
    cut = False

    def watch(_: Progress) -> bool:
        nonlocal cut
        cut = clock.over
        return cut

    try:
        with limit_threads(n_threads), skip_checks():
            model.fit(folds.train(job.fold), eval_set=valid, progress=watch)
            scores = np.asarray(model.predict(valid), dtype=np.float64)
    except GainfulError as error:
        return error
    return FoldFit(job.fold, model, scores, time.perf_counter() - began, complete=not cut)
