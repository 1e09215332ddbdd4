"""Running trials: one after the other or several at once, within a budget, each stored as it ends.

What a trial may know of others is fixed by its number: trial i is shown the trials up to i − 4, whatever else has ended
by then. So pruning and Optuna decide the same with one worker or four, and after a kill. Trials run in threads: they
share the data, and the training itself (LightGBM, compiled kernels, linear algebra) runs outside of Python's lock.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from gainful.errors import GainfulError
from gainful.jsonable import plain
from gainful.metrics import Metric
from gainful.monitor import Progress
from gainful.rankers.base import Ranker
from gainful.selection.splits import Split
from gainful.tuning.pruning import Curve, extend, hopeless
from gainful.tuning.search import Search
from gainful.tuning.store import Store

LAG = 4
Trial = dict[str, Any]
FINISHED = ("done", "pruned", "failed")


@dataclass(frozen=True)
class TuneProgress:
    """What a progress callback of :func:`gainful.tune` is told. Returning True from it ends the search.

    ``training`` is None when a trial begins and when one has ended.
    """

    trial: int
    n_trials: int | None
    finished: int
    best: float | None
    seconds: float
    training: Progress | None = None


ProgressCallback = Callable[[TuneProgress], object]


@dataclass(frozen=True)
class Budget:
    """When to end: after so many trials, or when so many seconds are over. The same for every ranker."""

    trials: int | None = 20
    seconds: float | None = None
    n_jobs: int = 1
    prune: bool = True


class Trials:
    """The trials of one ranker on one or several splits, of which only train and valid are looked at."""

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
        self.rows: dict[int, Trial] = {row["trial"]: row for row in _stored_trials(store)}
        self.interrupted = False
        self._stop = threading.Event()
        self._told = threading.Lock()
        spent = max((row["elapsed"] for row in self.rows.values()), default=0.0)
        self._started = time.perf_counter() - spent
        self.rows = {i: row for i, row in self.rows.items() if row["state"] in FINISHED}
        self._waits = search.kind == "optuna" or self._prunes

    # -- results -------------------------------------------------------------------------------------------------------

    @property
    def best(self) -> Trial | None:
        """The finished trial of the highest value; of equals the first."""
        done = [row for row in self.in_order() if row["state"] == "done" and row["value"] is not None]
        return max(done, key=lambda row: row["value"]) if done else None

    def in_order(self) -> list[Trial]:
        """The finished trials by number."""
        return [self.rows[i] for i in sorted(self.rows)]

    # -- the run -------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run what is left of the budget. Ctrl-C, or a callback that says so, ends it with what is finished."""
        limit = self._limit()  # the store may hold more, of a longer search
        self.rows = {i: row for i, row in self.rows.items() if limit is None or i < limit}
        workers = min(self.budget.n_jobs, LAG) if self._waits else self.budget.n_jobs
        # The final training says again what concerns the parameters chosen. Set once: all threads share the filters.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            try:
                if workers == 1:
                    for i in self._numbers():
                        self._keep(self._run(i))
                else:
                    self._run_in_threads(workers)
            except KeyboardInterrupt:
                self._end()

    def _run_in_threads(self, workers: int) -> None:
        running: dict[Future[Trial], int] = {}
        numbers = self._numbers()
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
            for one in running:  # what ended while we were told to stop is kept as well
                self._keep(one.result())

    def _numbers(self) -> Iterator[int]:
        """The numbers of the trials still to run, as long as the budget and the user allow."""
        limit, i = self._limit(), 0
        while (limit is None or i < limit) and not self._stop.is_set():
            if i not in self.rows:
                if i > 0 and self._late():
                    return
                yield i
            i += 1

    def _may_begin(self, i: int, running: Mapping[Future[Trial], int]) -> bool:
        return not self._waits or all(j > i - LAG for j in running.values())

    def _limit(self) -> int | None:
        sizes = [n for n in (self.budget.trials, self.search.size) if n is not None]
        return min(sizes) if sizes else None

    def _late(self) -> bool:
        return self.budget.seconds is not None and self._elapsed() >= self.budget.seconds

    def _elapsed(self) -> float:
        return time.perf_counter() - self._started

    @property
    def _prunes(self) -> bool:
        # On several parts a trial that is behind on the first may be ahead on the rest.
        return self.budget.prune and len(self.parts) == 1

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
        if self._tell(i, None):
            return row | {"state": "stopped"}
        try:
            values, lengths = self._fit_and_measure(params, watch)
        except GainfulError as error:
            row |= {"state": "failed", "reason": str(error)}
            values, lengths = [], []
        except KeyboardInterrupt:
            self._end()
            return row | {"state": "stopped"}
        if watch.verdict is not None:
            row["state"] = watch.verdict
        elif values:
            row["value"] = float(np.mean(values))
            if np.isnan(row["value"]):
                row |= {"state": "failed", "value": None, "reason": f"{self.measure.name} is undefined on every query"}
        reached = row["value"] if watch.verdict is None else (watch.curve[-1][1] if watch.curve else None)
        return row | {
            "reached": reached,
            "iterations": watch.iterations,
            "best_iteration": max(1, round(float(np.mean(lengths)))) if lengths else None,
            "curve": [list(point) for point in watch.curve] if len(self.parts) == 1 else [],
            "seconds": time.perf_counter() - began,
            "elapsed": self._elapsed(),
        }

    def _fit_and_measure(self, params: Mapping[str, Any], watch: _Watch) -> tuple[list[float], list[int]]:
        values, lengths = [], []
        for part in self.parts:
            valid = part.valid
            assert valid is not None
            model = clone(self.model).set_params(**params)
            model.fit(part.train, eval_set=valid, progress=watch)
            if model.interrupted_ or self._stop.is_set():
                watch.verdict = watch.verdict or "stopped"
                if watch.verdict == "stopped":
                    self._end()
                break
            values.append(self.measure(model.predict(valid), valid))
            lengths.append(length_of(model))
        return values, lengths

    def _keep(self, row: Trial) -> None:
        if row["state"] == "stopped":
            return
        if self._store is not None:
            self._store.append({"kind": "trial", **row})
        if row["state"] in FINISHED:
            self.rows[row["trial"]] = row
            self._tell(row["trial"], None)

    def _tell(self, i: int, training: Progress | None) -> bool:
        """Tell the user's callback; True when the search is to end."""
        if self._progress is not None and not self._stop.is_set():
            best = self.best
            event = TuneProgress(
                i,
                self._limit(),
                len(self.rows),
                None if best is None else best["value"],
                self._elapsed(),
                training,
            )
            with self._told:
                if self._progress(event):
                    self._end()
        return self._stop.is_set()


class _Watch:
    """The progress callback of one trial's fits: notes the curve, and says when to give the trial up and why."""

    def __init__(self, trials: Trials, i: int, others: Sequence[Curve]):
        self._trials, self._i, self._others = trials, i, others
        self.curve: Curve = []
        self.iterations = 0
        self.verdict: str | None = None

    def __call__(self, event: Progress) -> bool:
        self.iterations += 1
        extend(self.curve, event.iteration, event.validation)
        if self._trials._tell(self._i, event):
            self.verdict = "stopped"
        elif self._i > 0 and self._trials._late():
            self.verdict = "cut"
        elif self._trials._prunes and hopeless(self.curve, event.iteration, event.total, self._others):
            self.verdict = "pruned"
        return self.verdict is not None


def length_of(model: Ranker) -> int:
    """The iteration a fitted ranker kept: the best on its validation data where it looked, else its last."""
    scored = [-np.inf if row["validation"] is None else row["validation"] for row in model.history_]
    if np.count_nonzero(np.isfinite(scored)) < 2:
        return int(model.n_iter_)
    return int(np.nanargmax(scored)) + 1


def _stored_trials(store: Store | None) -> list[Trial]:
    rows = [] if store is None else [row for row in store.rows if row.get("kind") == "trial"]
    return [{name: value for name, value in row.items() if name != "kind"} for row in rows]
