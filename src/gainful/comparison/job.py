"""A running comparison: every ranker trained and tested on every fold, one by one or side by side."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from gainful.blending.blend import Blend
from gainful.blending.folds import worker_count
from gainful.comparison.baselines import Baseline, notes_on
from gainful.comparison.further import Choices
from gainful.comparison.result import Comparison, Run
from gainful.comparison.runs import Fingerprints, RunStore, train_and_test
from gainful.compute.estimators import clone
from gainful.data.dataset import RankingData
from gainful.data.splits import Split
from gainful.display.progress import Bar
from gainful.errors import InterruptedFitWarning, ParameterError, UnknownNameError
from gainful.metrics import Metric
from gainful.rankers.base import Ranker
from gainful.statistics.paired import TESTS
from gainful.training.monitor import Progress
from gainful.tuning import InterruptedSearchError, TuneProgress, TuneResult, TuningPlan
from gainful.tuning.store import StoreError
from gainful.tuning.trials import failure_reason
from gainful.tuning.tune import join_parts, refuse_without_validation


@dataclass(frozen=True)
class CompareProgress:
    """What the progress callback of :func:`compare` gets. If it returns True, the comparison ends early.

    ``job.result()`` is the comparison of what has finished so far.
    """

    ranker: str
    fold: int
    n_folds: int
    n_rankers: int
    finished_runs: int
    training: Progress | None = None
    tuning: TuneProgress | None = None  # while parameters are chosen
    job: ComparisonJob | None = field(default=None, repr=False, compare=False)

    def bars(self) -> tuple[Bar, ...]:
        """What progress bars show: all rankers, the trials of the current one, and the training in progress."""
        name = f"{self.ranker}, fold {self.fold + 1}" if self.n_folds > 1 else self.ranker
        whole = Bar("rankers", self.finished_runs, self.n_folds * self.n_rankers)
        if self.tuning is not None:
            return (whole, *self.tuning.bars(f"trials of {name}"))
        return (whole, Bar(name, 0, None)) if self.training is None else (whole, *self.training.bars(name))


ProgressCallback = Callable[[CompareProgress], object]


class ComparisonJob:
    """A running comparison. :meth:`result` works at any time, on what has finished by then."""

    def __init__(
        self,
        models: Mapping[str, Ranker | Baseline],
        splits: list[Split],
        *,
        metrics: tuple[Metric, ...],
        curve: tuple[Metric, ...],
        tests: tuple[str, ...],
        baseline: str | None,
        alpha: float,
        seed: int,
        plan: TuningPlan | None = None,
        n_jobs: int = 1,
        fixed: Mapping[str, Collection[str]] | None = None,
        store: str | Path | None = None,
        divided: Mapping[str, Any] | None = None,
        choices: Choices | None = None,
        explain: bool = False,
    ):
        check_comparison(models, metrics, tests, baseline, alpha, seed)
        self.models, self.splits = models, splits
        self.metrics, self.curve = tuple(dict.fromkeys(metrics)), curve
        self.tests, self.baseline, self.alpha, self.seed = tests, baseline, alpha, seed
        self.plan, self.n_jobs, self.fixed = plan, n_jobs, fixed or {}
        self.store = None if store is None else Path(store)
        self.divided = dict(divided or {})
        self.choices = choices or Choices()
        self.explain_seed = seed if explain else None
        if plan is not None:
            for part in splits:
                refuse_without_validation(part)
        self.runs: list[Run] = []
        self.failures: dict[str, str] = {}
        self.interrupted = False
        self.workers = 1  # rankers that train side by side
        self._finished = 0
        self._chosen: dict[str, TuneResult] = {}  # parameters of rankers that are tuned before they are trained
        self._callback_lock = threading.Lock()
        self._raised_by_callback: BaseException | None = None

    def run(self, progress: ProgressCallback | None = None) -> None:
        """Train and test every ranker on the first fold, then on the next.

        In this order, all rankers have the same finished folds whenever the job ends. An error in a ranker does not end
        the job; an error in the store or in the callback does.
        """
        fingerprints = self._check_store()
        # Set once: threads share the filters.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InterruptedFitWarning)
            for fold, split in enumerate(self.splits):
                part = Split(split.train, split.valid, split.test, name=split.name)  # read once for all rankers
                if fold == 0:
                    self._warm_up(part.test)
                self._run_fold(fold, part, fingerprints[fold], progress)
                if self.interrupted:
                    return

    def _run_fold(
        self, fold: int, part: Split, fingerprints: Fingerprints | None, progress: ProgressCallback | None
    ) -> None:
        """Every ranker on one fold: side by side as far as ``n_jobs`` and memory go, blends alone on all cores."""
        labels = [label for label in self.models if label not in self.failures]
        self._finished = (fold + 1) * len(self.models) - len(labels)
        together = [label for label in labels if not isinstance(self.models[label], Blend)]
        took = {run.label: run.fit_seconds for run in self.runs if run.fold == fold - 1}
        together.sort(key=lambda label: -took.get(label, 0.0))  # so that no worker ends long before the others
        self.workers = worker_count(part.train, self.n_jobs, len(together))[0] if self.n_jobs > 1 and together else 1

        def run(label: str) -> None:
            if not self.interrupted and label not in self.failures:
                self._run_and_keep(label, fold, part, fingerprints, progress)

        if self.workers == 1:
            for label in labels:
                run(label)
        else:
            if self.plan is not None:
                self._tune_together(fold, part, fingerprints, progress, together)
            self._run_together(run, together)
            self.workers = 1
            for label in labels:
                if label not in together:
                    run(label)
        places = {label: i for i, label in enumerate(self.models)}
        self.runs.sort(key=lambda one: (one.fold, places[one.label]))

    def _tune_together(
        self,
        fold: int,
        part: Split,
        fingerprints: Fingerprints | None,
        progress: ProgressCallback | None,
        labels: Sequence[str],
    ) -> None:
        """Choose the parameters of all rankers before any final training.

        Trials warn of nothing and final trainings do, but threads share the filters of warnings: so not at once.
        """
        self._chosen.clear()

        def tune(label: str) -> None:
            model, report = self.models[label], self._reporter(label, fold, progress)
            if self.interrupted or isinstance(model, Baseline) or report():
                return
            with self._attempt(label), self._open_store(label, fold, model, fingerprints) as store:
                if store.run is None:
                    self._chosen[label] = self._tune(label, model, part, store, report)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            self._run_together(tune, labels)

    def _run_together(self, run: Callable[[str], None], labels: Sequence[str]) -> None:
        with ThreadPoolExecutor(self.workers) as pool:
            running = [pool.submit(run, label) for label in labels]
            try:
                for one in as_completed(running):
                    one.result()
            except BaseException:  # an error that ends the job, or Ctrl-C: the others end at their next report
                self.interrupted = True
                pool.shutdown(cancel_futures=True)
                raise

    def _run_and_keep(
        self, label: str, fold: int, part: Split, fingerprints: Fingerprints | None, progress: ProgressCallback | None
    ) -> None:
        report = self._reporter(label, fold, progress)
        if report():
            return
        with self._attempt(label):
            run = self._run(label, fold, part, fingerprints, report)
            if run is None:
                self.interrupted = True
                return
            self.runs.append(run)
            self._finished += 1

    @contextmanager
    def _attempt(self, label: str) -> Iterator[None]:
        """An error inside fails this ranker alone; one of the store or of the callback ends the job."""
        try:
            yield
        except InterruptedSearchError:
            self.interrupted = True
        except Exception as error:
            # A warning raised here is one that the user turned into an error.
            if error is self._raised_by_callback or isinstance(error, (StoreError, Warning)):
                raise
            self.failures[label] = failure_reason(error)
            self._finished += 1

    def _warm_up(self, test: RankingData) -> None:
        """Compile and load the kernels of the metrics, so that no ranker's time includes it."""
        if test.has_pairs:
            self.curve = ()  # NDCG needs grades
        for m in (*self.metrics, *self.curve):
            m.per_query(np.zeros(test.n_rows), test)

    def _check_store(self) -> list[Fingerprints | None]:
        """The fingerprints of every fold, if results are stored. Refuses files of other results before any training."""
        if self.store is None:
            return [None] * len(self.splits)
        found: list[Fingerprints | None] = []
        for fold, part in enumerate(self.splits):
            fingerprints = Fingerprints.of(part)
            for label, model in self.rankers.items():
                RunStore.check(self.store, label, fold, model, fingerprints, self.plan, self.fixed.get(label, ()))
            found.append(fingerprints)
        return found

    @property
    def rankers(self) -> dict[str, Ranker]:
        """The models that are gainful's rankers: only these are tuned and stored."""
        return {label: model for label, model in self.models.items() if isinstance(model, Ranker)}

    def _run_as_given(
        self, label: str, fold: int, model: Baseline, part: Split, measures: Sequence[Metric], report: Any
    ) -> Run | None:
        """A system that is not tuned, on one fold; it gets the queries that tuned rankers are trained on in the end."""
        train, valid = part.train, part.valid
        if self.plan is not None and self.plan.refit == "all" and valid is not None and not model.stops_early:
            train, valid = join_parts(train, valid), None
        how = self.explain_seed, self.workers == 1
        return train_and_test(label, fold, clone(model), train, valid, part.test, measures, report, *how)

    def _run(
        self, label: str, fold: int, part: Split, fingerprints: Fingerprints | None, report: Callable[..., object]
    ) -> Run | None:
        """One ranker on one fold, taken from the store if it is there; None if interrupted."""
        model, measures, how = self.models[label], self._measures, (self.explain_seed, self.workers == 1)
        if isinstance(model, Baseline):
            return self._run_as_given(label, fold, model, part, measures, report)
        with self._open_store(label, fold, model, fingerprints) as store:
            if store.run is not None:
                return store.run
            if self.plan is None:
                parts = part.train, part.valid, part.test
                return store.keep(train_and_test(label, fold, clone(model), *parts, measures, report, *how))
            found = self._chosen.pop(label, None) or self._tune(label, model, part, store, report)
            if found.interrupted:
                return None
            final, train, valid = self.plan.final_training(found, part)
            run = train_and_test(label, fold, final, train, valid, part.test, measures, report, *how)
            if run is None:
                return None
            return store.keep(replace(run, trials=found.trials, chosen=found.best_params, workers=found.workers))

    def _open_store(self, label: str, fold: int, model: Ranker, fingerprints: Fingerprints | None) -> RunStore:
        of = self.plan, self.fixed.get(label, ()), self._measures
        return RunStore.open(self.store, label, fold, model, fingerprints, *of)

    def _tune(
        self, label: str, model: Ranker, part: Split, store: RunStore, report: Callable[..., object]
    ) -> TuneResult:
        assert self.plan is not None
        trials = replace(self.plan.budget, n_jobs=max(1, self.n_jobs // self.workers))
        fixed = self.fixed.get(label, ())
        return replace(self.plan, budget=trials).run(
            label, model, [part], fixed=fixed, store=store.file, progress=lambda event: report(tuning=event)
        )

    @property
    def _measures(self) -> tuple[Metric, ...]:
        return tuple(dict.fromkeys((*self.metrics, *self.curve)))

    def _reporter(self, label: str, fold: int, progress: ProgressCallback | None) -> Callable[..., bool]:
        def report(training: Progress | None = None, tuning: TuneProgress | None = None) -> bool:
            """Call the user's callback; True if the comparison is to end."""
            if progress is not None and not self.interrupted:
                counts = len(self.splits), len(self.models), self._finished
                with self._callback_lock:
                    try:
                        if progress(CompareProgress(label, fold, *counts, training, tuning, self)):
                            self.interrupted = True
                    except Exception as error:
                        self._raised_by_callback = error
                        raise
            return self.interrupted

        return report

    def result(self, *, interrupted: bool = False) -> Comparison:
        """The comparison of what has finished; ``interrupted`` if the caller knows that more was planned."""
        self.interrupted = self.interrupted or interrupted
        return Comparison.from_runs(
            list(self.runs),
            self.splits,
            failures=dict(self.failures),
            interrupted=self.interrupted,
            labels=tuple(self.models),
            metrics=self.metrics,
            curve=self.curve,
            tests=self.tests,
            baseline=self.baseline,
            alpha=self.alpha,
            seed=self.seed,
            choices=self.choices,
            notes=notes_on(
                {label: model for label, model in self.models.items() if label not in self.failures},
                tuned=self.plan is not None,
                validated=self.splits[0]._valid is not None,
            ),
            protocol=self.divided | {"tuning": None if self.plan is None else self.plan.to_dict()},
        )


def check_comparison(
    models: Mapping[str, Ranker | Baseline],
    metrics: Sequence[Metric],
    tests: Sequence[str],
    baseline: str | None,
    alpha: float,
    seed: int = 0,
) -> None:
    """Refuse wrong settings before any data is read."""
    check_settings(models, metrics, tests, baseline, alpha, seed)
    for model in models.values():
        model._check_parameters()


def check_settings(
    labels: Collection[str],
    metrics: Sequence[Metric],
    tests: Sequence[str],
    baseline: str | None,
    alpha: float,
    seed: int,
) -> None:
    """Refuse wrong settings of any comparison."""
    if not metrics:
        raise ParameterError("no metric to compare by; name at least one")
    for name in tests:
        if name not in TESTS:
            raise UnknownNameError.among("test", name, TESTS)
    if baseline is not None and baseline not in labels:
        raise UnknownNameError.among("ranker", baseline, labels, owner="this comparison")
    if isinstance(alpha, bool) or not isinstance(alpha, (int, float, np.number)) or not 0 < alpha < 1:
        raise ParameterError.of("compare", "alpha", "a number in (0, 1)", alpha)
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ParameterError.of("compare", "seed", "an integer ≥ 0", seed)
