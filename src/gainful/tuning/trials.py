"""Run trials one by one or several at once, within a budget, and store each as it ends.

Trial i sees the results of trials up to i − 4, whatever else has ended by then. So pruning and Optuna decide the same
with one worker or four, and after a kill. Trials run in threads: they share the data, and the training itself
(LightGBM, compiled kernels, linear algebra) releases Python's lock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from statistics import median_low
from typing import Any

import numpy as np

from gainful.compute.estimators import clone
from gainful.compute.memory import MOST, PeakGrowth, allowed_memory, workers_that_fit
from gainful.data.checks import skip_checks
from gainful.data.dataset import RankingData
from gainful.data.size import stored_values
from gainful.data.splits import Split
from gainful.display.progress import Bar
from gainful.errors import GainfulError
from gainful.errors.kept import noted, warnings_withheld
from gainful.metrics import Metric, metric
from gainful.persistence.jsonable import plain
from gainful.rankers.base import Ranker
from gainful.training.monitor import Progress
from gainful.training.shared_setup import SharedSetup, share
from gainful.tuning.pruning import Curve, extend, is_hopeless
from gainful.tuning.search import Search
from gainful.tuning.store import Store
from gainful.tuning.stored import FINISHED, PATHS, Trial, stored_trials

LAG = 4


@dataclass(frozen=True)
class TuneProgress:
    """What the progress callback of :func:`gainful.tune` gets. If it returns True, the search ends.

    ``training`` is None when a trial begins and when one has ended. ``refit`` marks the final training with the best
    parameters. ``job.result()`` is the result of the trials that have finished so far.
    """

    trial: int
    n_trials: int | None
    finished: int
    best: float | None
    seconds: float
    training: Progress | None = None
    refit: bool = False
    job: Any = field(default=None, repr=False, compare=False)  # a TuningJob

    @property
    def note(self) -> str:
        """The best value so far."""
        return "" if self.best is None else f"best {self.best:.4f}"

    def bars(self, name: str = "trials") -> tuple[Bar, ...]:
        """What progress bars show: all trials, and the training in progress."""
        whole = Bar(name, self.finished, self.n_trials, self.note)
        step = "training with the best parameters" if self.refit else f"trial {self.trial + 1}"
        return (whole,) if self.training is None else (whole, *self.training.bars(step))


ProgressCallback = Callable[[TuneProgress], object]


@dataclass(frozen=True)
class Budget:
    """When a search ends: after this many trials or seconds. The same for every ranker."""

    trials: int | None = 20
    seconds: float | None = None
    n_jobs: int = 1
    prune: bool = True


class Trials:
    """The trials of one ranker on one or several splits; test data is not used."""

    def __init__(
        self,
        model: Ranker,
        parts: Sequence[Split],
        search: Search,
        measure: Metric,
        budget: Budget,
        store: Store | None = None,
        progress: ProgressCallback | None = None,
    ):
        self.model, self.parts, self.search, self.measure = model, parts, search, measure
        self.budget, self._store, self._progress = budget, store, progress
        self.rows = stored_trials(store, search)
        self.interrupted = False
        self.workers: int | None = None  # trials run at once, if memory allowed fewer than requested
        self._stop = threading.Event()
        self._callback_lock = threading.Lock()
        self._raised_by_callback: BaseException | None = None
        # If a ranker validates with another metric, its curves say nothing about the one that chooses.
        self._curves_count = _training_metric(model) in (None, measure)
        spent = max((row["elapsed"] for row in self.rows.values()), default=0.0)
        self._started = time.perf_counter() - spent
        self.rows = {i: row for i, row in self.rows.items() if row["state"] in FINISHED}
        self._waits = search.kind == "optuna" or self._prunes
        self._setup = SharedSetup()

    # -- results -------------------------------------------------------------------------------------------------------

    @property
    def best(self) -> Trial | None:
        """The finished trial with the highest value, the first one of equals."""
        done = [row for row in self.in_order() if row["state"] == "done" and row["value"] is not None]
        return max(done, key=lambda row: row["value"]) if done else None

    def in_order(self) -> list[Trial]:
        """The finished trials by number."""
        return [self.rows[i] for i in sorted(self.rows)]

    # -- the run -------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run what is left of the budget. Ctrl-C, or a callback that returns True, ends it early."""
        limit, seconds = self._limit(), self.budget.seconds  # the store may hold more trials, of a longer search
        self.rows = {
            i: row
            for i, row in self.rows.items()
            if (limit is None or i < limit) and (i == 0 or seconds is None or row["elapsed"] < seconds)
        }
        workers = min(self.budget.n_jobs, LAG) if self._waits else self.budget.n_jobs
        with warnings_withheld():
            try:
                numbers = self._numbers()
                if workers > 1:
                    workers = self._run_first_alone(numbers, workers)
                if workers == 1:
                    for i in numbers:
                        self._keep(self._run(i))
                else:
                    self._run_in_threads(numbers, workers)
            except KeyboardInterrupt:
                self._end()
            finally:
                self._setup.clear()

    def _run_first_alone(self, numbers: Iterator[int], workers: int) -> int:
        """Run one trial alone to measure its memory; return how many fit at once."""
        first = next(numbers, None)
        if first is None:
            return workers
        with PeakGrowth() as growth:
            self._keep(self._run(first))
        fitting = workers_that_fit(workers, growth.bytes, allowed_memory(share=MOST))
        if fitting < workers:
            self.workers = fitting
        return fitting

    def _run_in_threads(self, numbers: Iterator[int], workers: int) -> None:
        running: dict[Future[Trial], int] = {}
        following = next(numbers, None)
        with ThreadPoolExecutor(workers) as pool:
            try:
                while following is not None or running:
                    while following is not None and len(running) < workers and self._may_begin(following, running):
                        running[pool.submit(self._run, following)] = following
                        following = next(numbers, None)
                    ended, _ = wait(running, timeout=0.1, return_when=FIRST_COMPLETED)
                    for one in ended:
                        del running[one]
                        self._keep(one.result())
            except KeyboardInterrupt:
                self._end()
            finally:
                if running:
                    self._stop.set()
            for one in running:  # keep what ended while the search was stopping
                self._keep(one.result())

    def _numbers(self) -> Iterator[int]:
        """The numbers of the trials still to run, while the budget lasts and nobody stops the search."""
        limit, i = self._limit(), 0
        while (limit is None or i < limit) and not self._stop.is_set():
            if i not in self.rows:
                if i > 0 and self._is_late():
                    return
                yield i
            i += 1

    def _may_begin(self, i: int, running: Mapping[Future[Trial], int]) -> bool:
        return not self._waits or all(j > i - LAG for j in running.values())

    def _limit(self) -> int | None:
        if self.search.kind == "grid":  # which the budget has bounded
            return self.search.size
        sizes = [n for n in (self.budget.trials, self.search.size) if n is not None]
        return min(sizes) if sizes else None

    def _is_late(self) -> bool:
        return self.budget.seconds is not None and self._elapsed() >= self.budget.seconds

    def _elapsed(self) -> float:
        return time.perf_counter() - self._started

    @property
    def _prunes(self) -> bool:
        # With several parts, a trial behind on the first may be ahead on the rest.
        return self.budget.prune and len(self.parts) == 1 and self._curves_count

    def _end(self) -> None:
        self.interrupted = True
        self._stop.set()

    # -- one trial -----------------------------------------------------------------------------------------------------

    def _run(self, i: int) -> Trial:
        known = [self.rows[j] for j in range(i - LAG + 1) if j in self.rows]
        params = self.search.propose(
            i, [(row["params"], row["reached"]) for row in known if row["reached"] is not None]
        )
        began = time.perf_counter()
        watch = _Watch(self, i, [row["curve"] for row in known if row["curve"]])
        row: Trial = {"trial": i, "params": plain(params), "state": "done", "value": None}
        if self.report(i, None):
            return row | {"state": "stopped"}
        fits = _Fits()
        try:
            with noted() as notes:
                self._fit_and_measure(params, watch, fits)
        except KeyboardInterrupt:
            self._end()
            return row | {"state": "stopped"}
        except Exception as error:
            # A warning raised here is one that the user turned into an error.
            if error is self._raised_by_callback or isinstance(error, Warning):
                raise
            row |= {"state": "failed", "reason": failure_reason(error)}
            fits = _Fits(models=fits.models)
        if i > 0 and watch.verdict is None and self._is_late():
            watch.verdict = "cut"  # a fit that reports no progress ended too late
        if watch.verdict is not None:
            row["state"] = watch.verdict
        elif fits.values:
            row["value"] = float(np.mean(fits.values))
            if np.isnan(row["value"]):
                row |= {"state": "failed", "value": None, "reason": f"{self.measure.name} is undefined on every query"}
        curve = watch.curve if len(self.parts) == 1 and self._curves_count else []
        return row | {
            "reached": row["value"] if watch.verdict is None else (curve[-1][1] if curve else None),
            "iterations": watch.iterations,
            "best_iteration": max(1, round(float(np.mean(fits.lengths)))) if fits.lengths else None,
            "models": fits.models,
            "kept": {name: median_low(values) for name, values in fits.kept.items()},
            "curve": [list(point) for point in curve],
            "seconds": time.perf_counter() - began,
            "elapsed": self._elapsed(),
            "warnings": notes,
        }

    def _fit_and_measure(self, params: Mapping[str, Any], watch: _Watch, fits: _Fits) -> None:
        for part in self.parts:
            model = clone(self.model).set_params(**params)
            with skip_checks(), self._setup.use():
                train, valid = _data_of(part)
                model.fit(train, eval_set=valid, progress=watch)
            if model.interrupted_ or self._stop.is_set():
                watch.verdict = watch.verdict or "stopped"
                if watch.verdict == "stopped":
                    self._end()
                break
            fits.add(model, self.measure(valid.add_init_scores(model.predict(valid)), valid))

    def _keep(self, row: Trial) -> None:
        if row["state"] == "stopped":
            return
        if self._store is not None:
            self._store.append({"kind": "trial", **row})
        if row["state"] in FINISHED:
            self.rows[row["trial"]] = row
            self.report(row["trial"], None)

    def report(self, i: int, training: Progress | None, refit: bool = False) -> bool:
        """Call the user's callback; True if the search is to end."""
        if self._progress is not None and not self._stop.is_set():
            best = self.best
            event = TuneProgress(
                i,
                self._limit(),
                len(self.rows),
                None if best is None else best["value"],
                self._elapsed(),
                training,
                refit,
            )
            with self._callback_lock:
                try:
                    if self._progress(event):
                        self._end()
                except Exception as error:
                    self._raised_by_callback = error
                    raise
        return self._stop.is_set()


@dataclass
class _Fits:
    """Results of the fits of one trial, one per part."""

    values: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    models: int = 0
    kept: dict[str, list[float]] = field(default_factory=dict)  # of parameters with several values

    def add(self, model: Ranker, value: float) -> None:
        self.values.append(value)
        self.lengths.append(kept_iteration(model))
        self.models += len(getattr(model, "path_", None) or (0,))
        for name, attribute in PATHS.items():
            if hasattr(model, attribute) and not isinstance(getattr(model, name, 0.0), (int, float)):
                self.kept.setdefault(name, []).append(float(getattr(model, attribute)))


class _Watch:
    """The progress callback of one trial's fits: records the curve and decides when to stop the trial, and why."""

    def __init__(self, trials: Trials, i: int, others: Sequence[Curve]):
        self._trials, self._i, self._others = trials, i, others
        self.curve: Curve = []
        self.iterations = 0
        self.verdict: str | None = None

    def __call__(self, event: Progress) -> bool:
        self.iterations += 1
        extend(self.curve, event.iteration, event.validation)
        if self._trials.report(self._i, event):
            self.verdict = "stopped"
        elif self._i > 0 and self._trials._is_late():
            self.verdict = "cut"
        elif self._trials._prunes and is_hopeless(self.curve, event.iteration, event.total, self._others):
            self.verdict = "pruned"
        return self.verdict is not None


def _data_of(part: Split) -> tuple[RankingData, RankingData]:
    """Training and validation data; copies and files, which a part makes or reads each time, are kept."""

    def load() -> tuple[RankingData, RankingData]:
        valid = part.valid
        assert valid is not None
        return part.train, valid

    if isinstance(part._train, RankingData):
        return load()
    return share(part, "data", load, lambda made: sum(stored_values(data) * data.X.dtype.itemsize for data in made))


def failure_reason(error: BaseException) -> str:
    """The reason for a failure in one line, with the type unless it is an error of this package."""
    text = " ".join(str(error).split())
    return text if isinstance(error, GainfulError) else f"{type(error).__name__}{': ' + text if text else ''}"


def _training_metric(model: Ranker) -> Metric | None:
    """The metric that a ranker validates with in training; None if it does not name one."""
    now = model.get_params(deep=False)
    named = now.get("eval_metric") or (now.get("metric") if "eval_metric" in now else None)
    return None if named is None else metric(named)


def kept_iteration(model: Ranker) -> int:
    """The iteration a fitted ranker kept."""
    facts = getattr(model, "training_", {}).get("validation")
    return int(model.n_iter_ if facts is None else facts["iteration"])
