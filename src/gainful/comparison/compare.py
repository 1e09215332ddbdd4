"""Train several rankers on the same data and compare them query by query."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from gainful.comparison.baselines import Baseline, TestedRows, notes_on
from gainful.comparison.contestants import refuse_data_as_rankers, resolve_rankers
from gainful.comparison.further import Choices
from gainful.comparison.protocol import as_splits, division, take_times_out
from gainful.comparison.result import Comparison, Run
from gainful.comparison.runs import Fingerprints, RunStore, train_and_test
from gainful.comparison.segments import take_segments_out
from gainful.compute.estimators import clone
from gainful.data.checks import warn_about_clicks, warn_about_data
from gainful.data.dataset import RankingData
from gainful.data.splits import Split, first_look
from gainful.display.progress import Bar, callback_of
from gainful.errors import ParameterError, UnknownNameError, read_options_words, wording
from gainful.errors.keywords import explain_keywords
from gainful.inputs.parts import open_parts, why_absent
from gainful.metrics import Metric, metric, refuse_storing
from gainful.metrics.conventions import PAIR_METRIC
from gainful.parameters.constraints import split_outside_brackets
from gainful.rankers.base import Ranker
from gainful.statistics.paired import TESTS
from gainful.training.monitor import Progress
from gainful.tuning import Budget, InterruptedSearchError, TuneProgress, TuningPlan
from gainful.tuning.store import StoreError
from gainful.tuning.trials import failure_reason
from gainful.tuning.tune import join_parts, refuse_without_validation

DEFAULT_METRICS = ("ndcg@10", "ndcg@1", "ndcg@5", "map")
CURVE = tuple(f"ndcg@{k}" for k in range(1, 11))


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


@explain_keywords
def compare(
    rankers: Any,
    data: Any = None,
    *,
    folds: int | None = None,
    valid: Any = None,
    test: Any = None,
    sizes: Sequence[float] = (0.6, 0.2, 0.2),
    time: Any = None,
    metrics: str | Sequence[Any] | None = None,
    convention: str | None = None,
    tests: Sequence[str] = tuple(TESTS),
    baseline: str | None = None,
    alpha: float = 0.05,
    seed: int = 0,
    all_pairs: bool = False,
    delta: float | None = None,
    segments: Any = None,
    explain: bool = False,
    tune: int | None = None,
    tune_seconds: float | None = None,
    search: str = "random",
    refit: bool | str = True,
    prune: bool = True,
    n_jobs: int = 1,
    store: str | Path | None = None,
    read_options: Mapping[str, Any] | None = None,
    progress: ProgressCallback | bool | None = None,
) -> Comparison:
    """Train every ranker on the same queries, test on the same queries, and compare them query by query.

    Parameters
    ----------
    rankers : "few" (quick ones of different families), "all", names (``"lambdamart:n_trees=100"`` sets parameters),
        estimators, or a mapping from labels to them; or a list of these, where (label, estimator) is a pair. Beside
        gainful's rankers: estimators of LightGBM, XGBoost, CatBoost and scikit-learn; ``"feature:NAME"`` or
        ``"feature:NUMBER"`` (from 1; ``"feature:-NAME"`` ranks the lowest first); ``"scores:FILE"``, one score per row;
        ``"run:FILE"``, a TREC run; ``"model:FILE"``, a model of any maker, not trained again; and functions of X, or of
        the data set if their parameter is called ``data``
    data : a RankingData, a data frame, a Split or a list of Splits; or the path of a data file, of a folder with train,
        validation and test files, or a folder or pattern of files that are joined
    folds : number of folds for cross-validation; without it, one split by ``sizes``, or ``valid`` and ``test``
    time : divide by time instead of at random: a feature with the time of the query, which is then not a feature, or
        other times that :func:`gainful.split` takes. Training has the earliest queries and testing the latest; with
        ``folds``, they roll forward
    metrics : what :func:`gainful.metric` takes, functions included. The first one is the headline: it sorts the table,
        differences are reported on it, and ``auto`` and blends given by name optimise it. By default
        "ndcg@10,ndcg@1,ndcg@5,map", on preferences "pair-accuracy"
    convention : whose metric conventions to follow, see :func:`gainful.metric`
    tests : some of "wilcoxon", "t" and "randomization"; p-values are Holm-corrected over the rankers
    baseline : label of the ranker that the others are tested against; the first one by default
    alpha : significance level
    seed : for dividing the data, for the search and for the randomisation test
    all_pairs : also test every pair of rankers, with p-values that hold over all pairs
    delta : also test whether each ranker is practically the same as the baseline, within ±delta of the first metric
    segments : also show results by segment: the name of a column with one value per query, which is then not a feature
        unless ``read_options`` names it; a mapping from query ids to names; or a function of the query id
    explain : also keep what each feature is worth to each ranker (gain, contributions, loss of the first metric when it
        is shuffled within queries) and the contributions on some test queries, for the report and ``importances``
    tune, tune_seconds : trials or seconds per ranker and fold to choose parameters, by the first metric on the
        validation queries; see :func:`gainful.tune`. Parameters set in a name are not tuned
    search, prune, n_jobs : settings of the tuning
    refit : train the best parameters on the training part (True), or on training and validation part ("all")
    store : folder for trials and finished rankers; a killed comparison resumes from there
    read_options : keywords of :func:`gainful.read` or :func:`gainful.from_frame`, if the data is paths or frames
    progress : True for progress bars, in notebooks too; or a function, called with a ``CompareProgress`` during
        training: returning True ends the comparison with what has finished

    The data is checked once, not for each ranker and fold: see :func:`gainful.check_data`.

    A ranker that fails is reported with its error and does not stop the others. Ctrl-C ends the comparison with what
    has finished.
    """
    measures = metrics_of(metrics, convention)
    column = segments if isinstance(segments, str) else None
    choices = Choices(all_pairs, delta, segments if column is None else None)
    if store is not None:
        refuse_storing(measures, "store")
    plan = tuning_plan(measures, tune, tune_seconds, search, refit, prune, n_jobs, seed)
    refuse_data_as_rankers(rankers, data)
    entered = resolve_rankers(rankers, measures[0] if measures else None)
    models = {label: model for label, (model, _) in entered.items()}
    check_comparison(models, measures, tests, baseline, alpha, seed)
    options = read_options or {}
    with read_options_words():
        parts = open_parts(data, valid=valid, test=test, time=time, segments=column, **options)
    if column is not None:
        named = column in (*(options.get("features") or ()), *options.get("keep", ()))
        parts, names = take_segments_out(parts, column, named)
        choices = replace(choices, segments=names)
    parts["data"], times = take_times_out(parts["data"], parts.get("test"), time)
    how: dict[str, Any] = {"n_folds": folds, "sizes": sizes, "seed": seed, **parts}
    splits = as_splits(**how, time=times)
    divided = division(**how, time=time)
    rows = TestedRows(
        how["data"] if divided["division"] != "as given" else None, splits, lambda name: why_absent(data, name, options)
    )
    with read_options_words():
        for model in models.values():
            if isinstance(model, Baseline):
                model.prepare(rows)
    look = first_look(how["data"], how.get("valid"))
    warn_about_data(*look)
    warn_about_clicks(splits[0].test)
    if metrics is None and (look[0] if how.get("test") is None else how["test"]).has_pairs:
        measures = (metric(PAIR_METRIC),)
        plan = None if plan is None else replace(plan, metric=measures[0])
    del look  # which may be parts of a folder, read again when their fold begins
    job = ComparisonJob(
        models,
        splits,
        metrics=measures,
        curve=tuple(metric(name, convention=convention) for name in CURVE),
        tests=tuple(tests),
        baseline=baseline,
        alpha=alpha,
        seed=seed,
        plan=plan,
        fixed={label: fixed for label, (_, fixed) in entered.items()},
        store=store,
        divided=divided,
        choices=choices,
        explain=explain,
    )
    try:
        with callback_of(progress, "compare") as callback:
            job.run(callback)
    except KeyboardInterrupt:
        job.interrupted = True
    return job.result()


def metrics_of(specs: str | Sequence[Any] | None, convention: str | None) -> tuple[Metric, ...]:
    """The metrics named, or those for data with grades."""
    if specs is None:
        specs = DEFAULT_METRICS
    named = split_outside_brackets(specs, ",") if isinstance(specs, str) else specs
    return tuple(metric(one, convention=convention) for one in named)


def tuning_plan(
    metrics: Sequence[Metric],
    trials: int | None,
    seconds: float | None,
    search: str = "random",
    refit: bool | str = True,
    prune: bool = True,
    n_jobs: int = 1,
    seed: int = 0,
) -> TuningPlan | None:
    """How a comparison chooses parameters, the same for every ranker; None without tuning."""
    if refit is False:
        raise ParameterError.of("compare", "refit", "True or 'all'", refit)
    if trials is None and seconds is None:
        if refit == "all":
            raise ParameterError(
                wording(
                    "refit='all' needs tuning; give tune or tune_seconds, or leave out refit",
                    "--refit-all needs tuning; give --tune or --tune-seconds, or leave out --refit-all",
                )
            )
        return None
    if not metrics:
        raise ParameterError("no metric to compare by; name at least one")
    return TuningPlan(metrics[0], search, Budget(trials, seconds, n_jobs, prune), refit, seed)


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
        self.plan, self.fixed = plan, fixed or {}
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
        self._raised_by_callback: BaseException | None = None

    def run(self, progress: ProgressCallback | None = None) -> None:
        """Train and test every ranker on the first fold, then on the next.

        In this order, all rankers have the same finished folds whenever the job ends. An error in a ranker does not end
        the job; an error in the store or in the callback does.
        """
        fingerprints = self._check_store()
        for fold, split in enumerate(self.splits):
            part = Split(split.train, split.valid, split.test, name=split.name)  # read once for all rankers
            if fold == 0:
                self._warm_up(part.test)
            for label in self.models:
                if label in self.failures:
                    continue
                report = self._reporter(label, fold, progress)
                if report():
                    self.interrupted = True
                    return
                try:
                    run = self._run(label, fold, part, fingerprints[fold], report)
                except InterruptedSearchError:
                    run = None
                except Exception as error:
                    # A warning raised here is one that the user turned into an error.
                    if error is self._raised_by_callback or isinstance(error, (StoreError, Warning)):
                        raise
                    self.failures[label] = failure_reason(error)
                    continue
                if run is None:
                    self.interrupted = True
                    return
                self.runs.append(run)

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
        return train_and_test(label, fold, clone(model), train, valid, part.test, measures, report, self.explain_seed)

    def _run(
        self, label: str, fold: int, part: Split, fingerprints: Fingerprints | None, report: Callable[..., object]
    ) -> Run | None:
        """One ranker on one fold, taken from the store if it is there; None if interrupted."""
        model, fixed = self.models[label], self.fixed.get(label, ())
        measures = tuple(dict.fromkeys((*self.metrics, *self.curve)))
        if isinstance(model, Baseline):
            return self._run_as_given(label, fold, model, part, measures, report)
        with RunStore.open(self.store, label, fold, model, fingerprints, self.plan, fixed, measures) as store:
            if store.run is not None:
                return store.run
            if self.plan is None:
                run = train_and_test(
                    label, fold, clone(model), part.train, part.valid, part.test, measures, report, self.explain_seed
                )
                return store.keep(run)
            found = self.plan.run(
                label, model, [part], fixed=fixed, store=store.file, progress=lambda event: report(tuning=event)
            )
            if found.interrupted:
                return None
            final, train, valid = self.plan.final_training(found, part)
            run = train_and_test(label, fold, final, train, valid, part.test, measures, report, self.explain_seed)
            if run is None:
                return None
            return store.keep(replace(run, trials=found.trials, chosen=found.best_params, workers=found.workers))

    def _reporter(self, label: str, fold: int, progress: ProgressCallback | None) -> Callable[..., object]:
        # By position: a ranker that failed counts as finished too.
        counts = len(self.splits), len(self.models), fold * len(self.models) + list(self.models).index(label)

        def report(training: Progress | None = None, tuning: TuneProgress | None = None) -> object:
            if progress is None:
                return False
            try:
                return progress(CompareProgress(label, fold, *counts, training, tuning, self))
            except Exception as error:
                self._raised_by_callback = error
                raise

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
            ),
            protocol=self.divided | {"tuning": None if self.plan is None else self.plan.to_dict()},
        )
