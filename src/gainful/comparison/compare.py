"""Train several rankers on the same data and compare them query by query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gainful.comparison.baselines import Baseline, TestedRows
from gainful.comparison.contestants import refuse_data_as_rankers, resolve_rankers
from gainful.comparison.further import Choices
from gainful.comparison.job import ComparisonJob, ProgressCallback, check_comparison
from gainful.comparison.protocol import as_splits, division, take_times_out, without_idle_queries
from gainful.comparison.result import Comparison
from gainful.comparison.segments import take_segments_out
from gainful.data.checks import warn_about_clicks, warn_about_data
from gainful.data.splits import first_look
from gainful.display.progress import callback_of
from gainful.errors import ParameterError, read_options_words, wording
from gainful.errors.keywords import explain_keywords
from gainful.inputs.parts import open_parts, why_absent
from gainful.metrics import Metric, metric, refuse_storing
from gainful.metrics.conventions import PAIR_METRIC
from gainful.parameters.constraints import split_outside_brackets
from gainful.statistics.paired import TESTS
from gainful.tuning import Budget, TuningPlan
from gainful.tuning.tune import check_jobs

DEFAULT_METRICS = ("ndcg@10", "ndcg@1", "ndcg@5", "map")
CURVE = tuple(f"ndcg@{k}" for k in range(1, 11))


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
    search, prune : settings of the tuning
    n_jobs : rankers that train side by side, in threads, as far as memory goes; with fewer rankers, trials of each. The
        result is the same, but times are those of shared cores, and memory is not measured
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
    check_jobs("compare", n_jobs)
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
        [without_idle_queries(part) for part in splits],
        metrics=measures,
        curve=tuple(metric(name, convention=convention) for name in CURVE),
        tests=tuple(tests),
        baseline=baseline,
        alpha=alpha,
        seed=seed,
        plan=plan,
        n_jobs=n_jobs,
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
