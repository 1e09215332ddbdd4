"""Train several rankers on the same data and say which is better, query by query."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from gainful.comparison.contestants import contestants
from gainful.comparison.protocol import as_splits
from gainful.comparison.result import Comparison, Run
from gainful.comparison.statistics import TESTS
from gainful.data import RankingData
from gainful.errors import GainfulError, InterruptedFitWarning, ParameterError, UnknownNameError
from gainful.metrics import Metric, metric
from gainful.monitor import Progress
from gainful.rankers.base import Ranker
from gainful.selection.splits import Split

DEFAULT_METRICS = ("ndcg@10", "ndcg@1", "ndcg@5", "map")
CURVE = tuple(f"ndcg@{k}" for k in range(1, 11))


@dataclass(frozen=True)
class CompareProgress:
    """What a progress callback of :func:`compare` is told. Returning True from it ends the comparison early."""

    ranker: str
    fold: int
    n_folds: int
    n_rankers: int
    finished_runs: int
    training: Progress | None = None


ProgressCallback = Callable[[CompareProgress], object]


def compare(
    rankers: Any,
    data: Any,
    *,
    folds: int | None = None,
    valid: RankingData | None = None,
    test: RankingData | None = None,
    sizes: Sequence[float] = (0.6, 0.2, 0.2),
    metrics: str | Sequence[str | Metric] = DEFAULT_METRICS,
    convention: str | None = None,
    tests: Sequence[str] = tuple(TESTS),
    baseline: str | None = None,
    alpha: float = 0.05,
    seed: int = 0,
    progress: ProgressCallback | None = None,
) -> Comparison:
    """Train every ranker on the same queries, test on the same queries, and compare them query by query.

    Parameters
    ----------
    rankers : "all", names (``"lambdamart:n_trees=100"`` sets parameters), estimators, or a mapping from labels to them
    data : a RankingData, a Split or a list of Splits
    folds : cross-validation with so many folds; without it one split of ``sizes``, or the ``valid`` and ``test`` given
    metrics : the first one is the headline, on which differences are reported
    convention : whose metric conventions to follow, see :func:`gainful.metric`
    tests : of "wilcoxon", "t" and "randomization"; p-values are Holm-corrected over the rankers
    baseline : label of the ranker that the others are tested against; the first one by default
    alpha : level at which a difference is called significant
    seed : of the division and of the randomisation test
    progress : called as training goes on; returning True ends the comparison with what is finished

    A ranker that cannot take the data is reported as failed and does not stop the others. Ctrl-C ends the comparison
    with what is finished.
    """
    job = ComparisonJob(
        contestants(rankers),
        as_splits(data, n_folds=folds, valid=valid, test=test, sizes=sizes, seed=seed),
        metrics=tuple(metric(m, convention=convention) for m in ([metrics] if isinstance(metrics, str) else metrics)),
        curve=tuple(metric(name, convention=convention) for name in CURVE),
        tests=tuple(tests),
        baseline=baseline,
        alpha=alpha,
        seed=seed,
    )
    try:
        job.run(progress)
    except KeyboardInterrupt:
        job.interrupted = True
    return job.result()


def check_comparison(
    models: Mapping[str, Ranker], metrics: Sequence[Metric], tests: Sequence[str], baseline: str | None, alpha: float
) -> None:
    """Refuse what can be refused before any data is read."""
    if not metrics:
        raise ParameterError("there is no metric to compare by; name at least one")
    for name in tests:
        if name not in TESTS:
            raise UnknownNameError.among("test", name, TESTS)
    if baseline is not None and baseline not in models:
        raise UnknownNameError.among("ranker in this comparison", baseline, models)
    if not 0 < alpha < 1:
        raise ParameterError.of("compare", "alpha", "a number in (0, 1)", alpha)
    for model in models.values():
        model._check_parameters()


class ComparisonJob:
    """A comparison under way. :meth:`result` may be asked at any time and holds what is finished by then."""

    def __init__(
        self,
        models: dict[str, Ranker],
        splits: list[Split],
        *,
        metrics: tuple[Metric, ...],
        curve: tuple[Metric, ...],
        tests: tuple[str, ...],
        baseline: str | None,
        alpha: float,
        seed: int,
    ):
        check_comparison(models, metrics, tests, baseline, alpha)
        self.models, self.splits = models, splits
        self.metrics, self.curve = metrics, curve
        self.tests, self.baseline, self.alpha, self.seed = tests, baseline, alpha, seed
        self.runs: list[Run] = []
        self.failures: dict[str, str] = {}
        self.interrupted = False

    def run(self, progress: ProgressCallback | None = None) -> None:
        """Train and test every ranker on the first fold, then on the next.

        In this order the finished folds compare like with like whenever the job ends.
        """
        for m in (*self.metrics, *self.curve):  # the compiling and loading of kernels is no ranker's training time
            m.per_query(np.zeros(self.splits[0].test.n_rows), self.splits[0].test)
        for fold, part in enumerate(self.splits):
            for label, model in self.models.items():
                if label in self.failures:
                    continue
                report = self._reporter(label, fold, progress)
                if report(None):
                    self.interrupted = True
                    return
                try:
                    run = _run(label, fold, clone(model), part, (*self.metrics, *self.curve), report)
                except GainfulError as error:
                    self.failures[label] = str(error)
                    continue
                if run is None:
                    self.interrupted = True
                    return
                self.runs.append(run)

    def _reporter(
        self, label: str, fold: int, progress: ProgressCallback | None
    ) -> Callable[[Progress | None], object]:
        def report(training: Progress | None) -> object:
            if progress is None:
                return False
            return progress(CompareProgress(label, fold, len(self.splits), len(self.models), len(self.runs), training))

        return report

    def result(self) -> Comparison:
        """The comparison of what is finished."""
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
        )


def _run(
    label: str,
    fold: int,
    model: Ranker,
    part: Split,
    measures: Sequence[Metric],
    progress: Callable[[Progress], object],
) -> Run | None:
    """One ranker on one fold, or None when its training was interrupted: half a training is no result."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InterruptedFitWarning)
        model.fit(part.train, eval_set=part.valid, progress=progress)
    fitted = time.perf_counter()
    if model.interrupted_:
        return None
    scores = model.predict(part.test)
    predicted = time.perf_counter()
    return Run(
        label=label,
        fold=fold,
        values={m: np.asarray(m.per_query(scores, part.test)) for m in dict.fromkeys(measures)},
        fit_seconds=fitted - start,
        predict_seconds=predicted - fitted,
        n_iter=model.n_iter_,
        params=model.get_params(deep=False),
    )
