"""Query folds: the queries to train on and those left out, and one fit per fold."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread
from typing import Any

import numpy as np

from gainful.compute.estimators import clone
from gainful.compute.memory import allowed_memory
from gainful.compute.threads import limit_threads, one_blas_thread, threads_worth
from gainful.data.blocks import LocalBlocks
from gainful.data.checks import skip_checks
from gainful.data.dataset import Dataset, RankingData
from gainful.data.rows import Array, is_mapped
from gainful.data.sharded import ShardedData
from gainful.errors import GainfulError
from gainful.errors.kept import noted, warnings_withheld
from gainful.metrics import Metric, metric
from gainful.rankers.base import Ranker
from gainful.rankers.first_model import first_ranker, text_of
from gainful.rankers.trees import TreeRanker
from gainful.training.judge import Judge, script_of_first
from gainful.training.monitor import Progress, part_of_a_fit
from gainful.training.shared_setup import SharedSetup

KEPT_SHARE = 0.05  # of the free memory, for copies of the training parts that all members share
BYTES_PER_VALUE = 12  # of one fit: a copy of the rows, and LightGBM's bins
LARGE = 50_000_000  # values; below, every fit has one thread, so that the result depends on no number of cores
WORTH = 0.7  # share of the expected time that must be left for a fit to begin
SMOOTHING = 8  # iterations on either side that a curve is averaged over
GROUPS = 5  # of queries, each of which is weighed by what the others say
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
        self._kept_valid: dict[int, RankingData] = {}
        self._scripts: dict[tuple[str | None, Metric], list[Array | None]] = {}
        self._lock = Lock()
        self.setup = SharedSetup()  # of the members, which all train on these parts

    @cached_property
    def _keeps(self) -> bool:
        free = allowed_memory()
        size = self.n * n_values(self.data) * 8
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
        if self.mapped:
            return self.data[int(out[0]) : int(out[-1]) + 1]
        if fold in self._kept_valid:
            return self._kept_valid[fold]
        return self._kept_valid.setdefault(fold, self.data[out]) if self._keeps else self.data[out]

    def weight(self, fold: int) -> float:
        """What the queries left out count, together."""
        out, weights = self.left_out[fold], self.data.query_weights
        return float(len(out) if weights is None else weights[out].sum())

    def rows(self, fold: int) -> Array:
        """The rows of the queries left out, in the order of ``valid``."""
        return self.rows_of(self.left_out[fold])

    def rows_of(self, queries: Array) -> Array:
        """The rows of these queries."""
        starts, ends = self.data.offsets[queries], self.data.offsets[queries + 1]
        return np.concatenate([np.arange(a, b) for a, b in zip(starts, ends, strict=True)])

    @cached_property
    def groups(self) -> list[Array]:
        """The queries dealt into groups across the folds."""
        order = np.concatenate(self.left_out)
        return [order[i::GROUPS] for i in range(min(GROUPS, len(order)))]

    def others_curve(self, curves: Mapping[int, Array], fold: int) -> Array:
        """The mean over the other folds of these curves by fold; one that ended goes on level. NaN where none is known.

        By it the iteration of a fold is chosen: its own queries are to measure what was chosen.
        """
        others = [(self.weight(other), curve) for other, curve in curves.items() if other != fold and len(curve)]
        if not others:
            return np.empty(0)
        longest = max(len(curve) for _, curve in others)
        table = np.array([np.pad(curve, (0, longest - len(curve)), mode="edge") for _, curve in others])
        weights = np.array([weight for weight, _ in others])[:, None] * np.isfinite(table)
        total = weights.sum(axis=0)
        sums = (weights * np.nan_to_num(table)).sum(axis=0)
        return np.asarray(np.divide(sums, total, out=np.full(longest, np.nan), where=total > 0.0))

    def script_of_first(self, ranker: TreeRanker, fold: int, progress: Callable[[Progress], bool]) -> Array | None:
        """What decides how long the ranker is trained that these trees start from; None if nothing is chosen there."""
        key = text_of(ranker.init), metric(ranker.eval_metric)
        with self._lock:  # the first to ask trains it on all folds, the others wait
            if key not in self._scripts:
                curves: dict[int, Array] = {}
                for other in range(self.n):
                    judge, first = Judge(), first_ranker(ranker.init, ranker.eval_metric)
                    with judge.use(), suppress(GainfulError):  # the training that starts from it says so better
                        first.fit(self.train(other), eval_set=self.valid(other), progress=progress)
                    curves[other] = np.array(judge.values)
                chooses = max(map(len, curves.values())) > 1
                self._scripts[key] = [self.others_curve(curves, k) if chooses else None for k in range(self.n)]
        return self._scripts[key][fold]


@dataclass(frozen=True, eq=False)
class FoldFit:
    """One model trained without the queries of one fold, and its scores of these queries' rows.

    ``curve`` has the metric on these queries as training learned it: after each tree, or at each validation.
    """

    fold: int
    model: Ranker
    scores: Array
    seconds: float
    complete: bool  # False if the deadline or an interruption ended training
    curve: Array = field(default_factory=lambda: np.empty(0))
    peeked: bool = False  # whether these queries chose which iteration it keeps
    all_trees: bool = False  # whether the model still has the trees after its best iteration
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
    """A ranker to train on one fold, or an earlier fit to go on with.

    Trees of an earlier fit grow until there are ``until``; any other ranker is trained again, with ``script`` in place
    of its figures on the queries left out.
    """

    ranker: Ranker
    fold: int
    seconds: float = 0.0  # expected; 0 if unknown
    before: FoldFit | None = None
    until: int = 0
    script: Array | None = None


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
    began = time.perf_counter()
    model = job.before.model if job.until and job.before else clone(job.ranker)
    grows = isinstance(model, TreeRanker) and folds.trained > 1
    if grows and not job.until:
        model._keeps_all_trees = True  # all folds together decide on their number
    judge, ended, cut = Judge(job.script), False, False

    def watch(event: Progress) -> bool:
        nonlocal ended, cut
        ended, cut = judge.is_done or event.iteration == job.until, clock.over
        return ended or cut

    try:
        valid = folds.valid(job.fold)
        with limit_threads(n_threads), skip_checks(), part_of_a_fit(), folds.setup.use():
            starts = grows and model.init is not None and not job.until
            script_of_first.set(folds.script_of_first(model, job.fold, lambda _: clock.over) if starts else None)
            fit = partial(_grow_on, model) if job.until else model.fit
            with judge.use(), noted() as notes:
                fit(folds.train(job.fold), eval_set=valid, progress=watch)
            rows = folds.train(job.fold) if valid is None else valid
            scores = np.asarray(model.predict(rows), dtype=np.float64)
    except Exception as error:  # the caller decides whether one member's failure ends the training
        return error
    model.interrupted_ = model.interrupted_ and not ended
    if job.script is not None:  # the figures are those of other queries
        model.training_["validation"]["best"] = None
        model.history_[:] = [row | {"validation": None} for row in model.history_]
    if isinstance(model, TreeRanker):
        model._release_data()
    seconds, before = time.perf_counter() - began, job.before
    values = [row["validation"] for row in model.history_] if isinstance(model, TreeRanker) else judge.values
    curve = np.array(values, dtype=np.float64) if job.script is None or before is None else before.curve
    peeked = job.script is None and int(np.isfinite(curve).sum()) > 1
    complete = not cut if before is None else before.complete
    seconds += before.seconds if before else 0.0
    return FoldFit(job.fold, model, scores, seconds, complete, curve, peeked, grows, tuple(notes))


def _grow_on(model: TreeRanker, data: Dataset, **how: Any) -> None:
    """More trees for a model that has all of its trees."""
    patience = model.early_stopping
    model._end_with(model.n_iter_, cut=False)
    try:
        model.set_params(warm_start=True, early_stopping=None).fit(data, **how)
    finally:
        model.set_params(warm_start=False, early_stopping=patience)


def what_is_left(folds: QueryFolds, ranker: Ranker, fits: Sequence[FoldFit]) -> list[Job]:
    """What to train until the other folds can choose the iteration of each fold.

    Patience belongs to the curve of all folds together: trees grow until it has not risen for as long, since that of
    one fold is noisy. Other rankers are trained again by the curve of the other folds, unless it chooses what the own
    one has chosen.
    """
    curves = {fit.fold: fit.curve for fit in fits if len(fit.curve)}
    if len(fits) < 2 or len(curves) < len(fits):
        return []
    if not isinstance(ranker, TreeRanker):
        scripts = [(fit, folds.others_curve(curves, fit.fold)) for fit in fits if fit.peeked]
        again = [(fit, script) for fit, script in scripts if not _agree(script, fit.curve)]
        return [Job(ranker, fit.fold, before=fit, script=script) for fit, script in again]
    patience = ranker.early_stopping
    if patience is None or not all(fit.all_trees and fit.complete for fit in fits):
        return []
    n = min(map(len, curves.values()))
    needed = _peak(folds.others_curve({k: curve[:n] for k, curve in curves.items()}, fold=-1)) + 1 + patience
    until = min(ranker.n_trees, max(needed, n + patience // 2))  # not tree by tree
    short = [fit for fit in fits if len(fit.curve) < until and n < min(ranker.n_trees, needed)]
    return [Job(ranker, fit.fold, before=fit, until=until) for fit in short]


def _agree(script: Array, curve: Array) -> bool:
    return bool(np.isfinite(script).any() and np.isfinite(curve).all() and np.nanargmax(script) == np.argmax(curve))


def end_folds(folds: QueryFolds, fits: Sequence[FoldFit]) -> list[FoldFit]:
    """The fits of one ranker; if they are trees, each ends with the iteration that is best for the other folds."""
    curves = {fit.fold: fit.curve for fit in fits}
    ended = []
    for fit in fits:
        model, others = fit.model, folds.others_curve(curves, fit.fold)
        if not fit.all_trees:
            fit = replace(fit, peeked=fit.peeked and not _agree(others, fit.curve))
        elif len(fit.curve) == 0:
            model._end_with(model.best_iteration_)
        else:
            best = min(_peak(others), len(fit.curve) - 1) + 1 if len(others) else model.best_iteration_
            model._end_with(best if model.early_stopping is not None else len(fit.curve))
            scores = np.asarray(model.predict(folds.valid(fit.fold)), dtype=np.float64)
            peeked = fit.peeked and not len(others) and model.early_stopping is not None
            fit = replace(fit, scores=scores, all_trees=False, peeked=peeked)
        ended.append(fit)
    return ended


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
