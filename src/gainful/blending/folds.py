"""Query folds: the queries to train, validate and test on, and one fit per fold."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Any

import numpy as np

from gainful.compute.estimators import clone
from gainful.compute.memory import allowed_memory
from gainful.compute.threads import limit_threads, one_blas_thread, threads_worth
from gainful.data.blocks import LocalBlocks
from gainful.data.checks import skip_checks
from gainful.data.dataset import Dataset, RankingData
from gainful.data.rows import Array, is_mapped, rows_of_queries
from gainful.data.sharded import ShardedData
from gainful.errors.kept import noted, warnings_withheld
from gainful.rankers.base import Ranker
from gainful.rankers.trees import TreeRanker
from gainful.training.monitor import Progress, part_of_a_fit
from gainful.training.shared_setup import SharedSetup

FOLDS = 6  # of queries, unless the user says otherwise: four train, one validates, one tests
KEPT_SHARE = 0.05  # of the free memory, for copies of the parts that all members share
BYTES_PER_VALUE = 12  # of one fit: a copy of the rows, and LightGBM's bins
LARGE = 50_000_000  # values; below, every fit has one thread, so that the result depends on no number of cores
WORTH = 0.7  # share of the expected time that must be left for a fit to begin
SMOOTHING = 8  # iterations on either side that a curve is averaged over
GRACE = 3.0  # seconds for running fits to notice that they are to end
CONSTANT = 1e-9  # spread within queries, relative to the largest score, below which a model is constant


def is_large(data: RankingData) -> bool:
    """Whether the data is too large to be copied for several fits at once."""
    return n_values(data) > LARGE


def n_values(data: RankingData) -> int:
    return int(data.X.nnz) if data.is_sparse else data.n_rows * data.n_features


class QueryFolds:
    """Queries dealt into folds, which change their parts as in LETOR's collections.

    Model ``k`` is tested on fold ``k``, validated on the next one (the first after the last) and trained on the others.
    So a figure on fold ``k`` owes nothing to its own grades: the next fold stops the model and weighs it there.
    Rows of large mapped files are not copied: a fold is a run of neighbouring queries.
    """

    def __init__(self, data: RankingData, n_folds: int, seed: int):
        self.data, self.n = data, min(n_folds, data.n_queries)
        self.trained = self.n  # models of a member: those of the first folds
        self.mapped = is_mapped(data.X) and is_large(data)
        if self.mapped:
            self._parts = np.array_split(np.arange(data.n_queries), self.n)
        else:
            order = np.random.default_rng(seed).permutation(data.n_queries)
            if data.query_weights is not None:  # those that count first: every fold has some
                order = order[np.argsort(data.query_weights[order] == 0.0, kind="stable")]
            self._parts = [np.sort(order[fold :: self.n]) for fold in range(self.n)]
        self._kept: dict[tuple[str, int], RankingData] = {}  # each fold, and what its model trains on
        self.setup = SharedSetup()  # of the members, which all train on these parts

    @cached_property
    def _keeps(self) -> bool:
        free = allowed_memory()
        size = (self.n - 1) * n_values(self.data) * 8
        return not self.mapped and free is not None and size < KEPT_SHARE * free

    def tested(self, fold: int) -> Array:
        """The queries that this model is tested on."""
        return self._parts[fold]

    def validated(self, fold: int) -> Array:
        """The queries that this model is validated on."""
        return self.tested((fold + 1) % self.n)

    def train(self, fold: int) -> Dataset:
        """All other queries."""
        mask = np.ones(self.data.n_queries, dtype=bool)
        mask[self.tested(fold)] = mask[self.validated(fold)] = False
        if not self.mapped:
            return self._part("train", fold, mask)
        ends = np.flatnonzero(np.diff(mask, prepend=False, append=False)).reshape(-1, 2)
        runs = [self.data[int(a) : int(b)] for a, b in ends]
        return runs[0] if len(runs) == 1 else ShardedData(LocalBlocks(runs))

    def valid(self, fold: int) -> RankingData | None:
        return self.test((fold + 1) % self.n)

    def test(self, fold: int) -> RankingData:
        return self._part("test", fold, self.tested(fold))

    def _part(self, name: str, fold: int, queries: Array) -> RankingData:
        if self.mapped:
            return self.data[int(queries[0]) : int(queries[-1]) + 1]
        if (name, fold) in self._kept:
            return self._kept[name, fold]
        part = self.data[queries]
        return self._kept.setdefault((name, fold), part) if self._keeps else part

    def rows(self, fold: int) -> Array:
        """The rows of the queries tested, in the order of ``test``."""
        return rows_of_queries(self.data.offsets, self.tested(fold))

    def pooled_curve(self, fits: Sequence[FoldFit]) -> Array:
        """The mean of the models' curves, by the weight of their queries; one that ended goes on level."""
        weights = self.data.query_weights
        longest = max(len(fit.curve) for fit in fits)
        curves = np.array([np.pad(fit.curve, (0, longest - len(fit.curve)), mode="edge") for fit in fits])
        queries = [self.validated(fit.fold) for fit in fits]
        shares = np.array([len(part) if weights is None else weights[part].sum() for part in queries])[:, None]
        shares = shares * np.isfinite(curves)
        sums, total = (shares * np.nan_to_num(curves)).sum(axis=0), shares.sum(axis=0)
        return np.asarray(np.divide(sums, total, out=np.full(longest, np.nan), where=total > 0.0))


@dataclass(frozen=True, eq=False)
class FoldFit:
    """The model of one fold, and its scores of the rows that it is tested and validated on.

    Trees score as they were when the validation queries stopped them, with the iteration that these find best: how far
    all folds together let them grow then, other queries have decided. ``curve`` has the metric after each tree.
    """

    fold: int
    model: Ranker
    scores: Array
    valid_scores: Array
    kept_scores: Array  # of the rows that it is tested on, by the model as it is now
    seconds: float
    complete: bool  # False if the deadline or an interruption ended training
    curve: Array = field(default_factory=lambda: np.empty(0))
    warnings: tuple[str, ...] = ()


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
    """A ranker to train on one fold, or trees of an earlier fit, to grow until there are ``until``."""

    ranker: Ranker
    fold: int
    seconds: float = 0.0  # expected; 0 if unknown
    before: FoldFit | None = None
    until: int = 0


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
    with warnings_withheld(), one_blas_thread() if threads == 1 else nullcontext():
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
    began, before = time.perf_counter(), job.before
    # a copy: a fit may outlive the time that is left for its end
    model = clone(job.ranker) if before is None else deepcopy(before.model)
    grows = isinstance(model, TreeRanker) and folds.trained > 1
    if grows:
        model._keeps_all_trees = True  # all folds together decide on their number
    grown = cut = False

    def watch(event: Progress) -> bool:
        nonlocal grown, cut
        grown, cut = event.iteration == job.until, clock.over
        return grown or cut

    fit = model.fit if before is None else partial(_grow_on, model)
    try:
        train, valid, test = folds.train(job.fold), folds.valid(job.fold), folds.test(job.fold)
        with limit_threads(n_threads), skip_checks(), part_of_a_fit(), folds.setup.use():
            with noted() as notes:
                fit(train, eval_set=valid, progress=watch)
            model.interrupted_ = model.interrupted_ and not grown
            curve = np.array([row["validation"] for row in model.history_] if grows else [], dtype=np.float64)
            if before is None:
                if grows:
                    model._end_with(_end_of(model, curve), cut=False)
                scores = _scores(model, test)
                valid_scores = scores if valid is None or valid is test else _scores(model, valid)
    except Exception as error:  # the caller decides whether one member's failure ends the training
        return error
    if isinstance(model, TreeRanker):
        model._release_data()
    seconds = time.perf_counter() - began
    if before is not None:
        return replace(before, model=model, curve=curve, seconds=before.seconds + seconds, complete=not cut)
    return FoldFit(job.fold, model, scores, valid_scores, scores, seconds, not cut, curve, tuple(notes))


def _scores(model: Ranker, data: RankingData) -> Array:
    return np.asarray(model.predict(data), dtype=np.float64)


def centred(scores: Array, offsets: Array) -> Array:
    """The scores less the mean of their query."""
    counts = np.diff(offsets)
    return scores - np.repeat(np.add.reduceat(scores, offsets[:-1]) / counts, counts)


def spread_within(scores: Array, offsets: Array) -> float:
    """The standard deviation within queries; 0 for what is left of a constant by rounding."""
    spread = float(np.sqrt(np.mean(centred(scores, offsets) ** 2)))
    return spread if spread > CONSTANT * float(np.abs(scores).max()) else 0.0


def _grow_on(model: TreeRanker, data: Dataset, **how: Any) -> None:
    """More trees for a model that has all of its trees."""
    patience = model.early_stopping
    model._end_with(model.n_iter_, cut=False)
    try:
        model.set_params(warm_start=True, early_stopping=None).fit(data, **how)
    finally:
        model.set_params(warm_start=False, early_stopping=patience)


def trees_left(folds: QueryFolds, fits: Sequence[FoldFit]) -> list[Job]:
    """What to grow until the curve of all folds together has not risen for as long as the trees' patience.

    That of one fold is noisy.
    """
    if len(fits) < 2 or not all(len(fit.curve) and fit.complete for fit in fits):
        return []
    ranker = fits[0].model
    if ranker.early_stopping is None:
        return []
    n = min(len(fit.curve) for fit in fits)
    pooled = folds.pooled_curve([replace(fit, curve=fit.curve[:n]) for fit in fits])
    needed = min(ranker.n_trees, _peak(pooled) + 1 + ranker.early_stopping)
    until = min(ranker.n_trees, max(needed, n + ranker.early_stopping // 2))  # not tree by tree
    short = [fit for fit in fits if len(fit.curve) < until and n < needed]
    return [Job(fit.model, fit.fold, before=fit, until=until) for fit in short]


def end_folds(folds: QueryFolds, fits: Sequence[FoldFit]) -> list[FoldFit]:
    """The fits of one ranker; trees end where the curve of all folds is highest."""
    if not any(len(fit.curve) for fit in fits):
        return list(fits)
    pooled, ended = folds.pooled_curve(fits), []
    for fit in fits:
        fit.model._end_with(min(_end_of(fit.model, pooled), len(fit.curve)))
        ended.append(replace(fit, kept_scores=_scores(fit.model, folds.test(fit.fold))))
    return ended


def _end_of(ranker: TreeRanker, curve: Array) -> int:
    return _peak(curve) + 1 if ranker.early_stopping is not None else len(curve)


def _peak(curve: Array) -> int:
    """The best iteration of a curve, or the last one if it has no values."""
    return int(np.nanargmax(smooth(curve))) if np.isfinite(curve).any() else len(curve) - 1


def smooth(curve: Array) -> Array:
    """The moving average; NaN values do not count."""
    padded = np.pad(curve, SMOOTHING, mode="edge")
    window, known = np.ones(2 * SMOOTHING + 1), np.isfinite(padded)
    counts = np.convolve(known, window, mode="valid")
    sums = np.convolve(np.where(known, padded, 0.0), window, mode="valid")
    return np.asarray(np.divide(sums, counts, out=np.full(len(curve), np.nan), where=counts > 0.0))
