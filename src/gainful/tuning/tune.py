"""``gainful.tune``: choose the parameters of one ranker on validation data."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from gainful.compute.estimators import clone
from gainful.data.checks import skip_checks, warn_about_clicks, warn_about_data
from gainful.data.dataset import RankingData
from gainful.data.splits import Split, first_look, folds, split
from gainful.display.progress import callback_of
from gainful.errors import GainfulError, ParameterError, UnknownNameError, read_options_words, wording
from gainful.errors.kept import show_kept
from gainful.errors.keywords import explain_keywords
from gainful.inputs.parts import open_parts
from gainful.metrics import Metric, metric, refuse_storing
from gainful.metrics.conventions import PAIR_METRIC
from gainful.parameters.constraints import Real
from gainful.parameters.space import Dimension, Space
from gainful.rankers.base import USUAL_METRIC, Ranker
from gainful.rankers.specs import ranker_from_spec, settings_of
from gainful.training.monitor import Progress
from gainful.tuning.result import TuneResult
from gainful.tuning.search import DRAWS, Search
from gainful.tuning.store import Store, file_name, fingerprint, libraries, version
from gainful.tuning.trials import Budget, ProgressCallback, Trials

HELD_OUT = 0.25  # of the queries, without validation data or folds
LENGTHS = ("n_trees", "n_rounds", "epochs", "max_iter")  # parameters that limit the iterations
REFITS = (True, False, "all")


@explain_keywords
def tune(
    ranker: str | Ranker,
    data: Any,
    *,
    valid: Any = None,
    folds: int | None = None,
    space: Space | None = None,
    fixed: Collection[str] = (),
    search: str = "random",
    trials: int | None = 20,
    seconds: float | None = None,
    metric: Any = None,
    refit: bool | str = True,
    n_jobs: int = 1,
    prune: bool = True,
    store: str | Path | None = None,
    seed: int = 0,
    label: str | None = None,
    read_options: Mapping[str, Any] | None = None,
    progress: ProgressCallback | bool | None = None,
) -> TuneResult:
    """Try parameters of a ranker and keep those that do best on the validation queries.

    Parameters
    ----------
    ranker : a name (``"lambdamart:n_trees=100"`` fixes parameters) or an estimator, whose own parameters are the first
        trial
    data : a RankingData; a Split or a list of Splits, whose test parts are not used; or the path of a data file, or
        of a folder with train and validation files
    valid : validation data; without it and without ``folds``, a quarter of the queries is held out
    folds : number of folds for cross-validation; a trial's value is the mean over the folds
    space : dimensions by parameter; by default the ranker's own ``space``
    fixed : parameters of that space to leave unchanged
    search : "random" (evenly spread draws), "grid", or "optuna" (TPE; needs the extra ``tune``)
    trials, seconds : budget; the search ends at whichever comes first. ``trials=None`` for seconds alone
    metric : what is compared on the validation data, a function too (see :func:`gainful.metric`); the ranker's early
        stopping uses it as well. By default "ndcg@10", on preferences "pair-accuracy"
    refit : train a final model with the best parameters on the training part, with the validation part as ``eval_set``;
        "all" to train on both parts together; False for no model
    n_jobs : trials run at once, in threads. A ranker without its own ``n_jobs`` uses one thread per trial
    prune : stop trials that fall hopelessly behind
    store : folder for trials as they finish; a killed run resumes from there
    seed : for the search and for dividing the data
    label : name of the ranker in the result; by default the name given, or the estimator as text
    read_options : keywords of :func:`gainful.read`, if the data is given as paths
    progress : True for progress bars, in notebooks too; or a function, called with a ``TuneProgress`` during the
        trials and the final training: returning True ends the search, or the final training with the best model so far

    The data is checked once, not in each trial: see :func:`gainful.check_data`.

    The same call gives the same result for any ``n_jobs``, and whether or not it was killed and resumed; with a budget
    in seconds, the number of trials depends on the machine.
    """
    name, model, set_by_name = identify(ranker)
    if model.joins_validation:
        raise ParameterError(
            f"{name} has nothing to tune: it trains on validation queries too, and measures itself on queries left "
            "out; train it instead"
        )
    plan = TuningPlan(
        metric=_metric(USUAL_METRIC if metric is None else metric),
        search=search,
        budget=Budget(trials, seconds, n_jobs, prune),
        refit=refit,
        seed=seed,
        store=None if store is None else Path(store),
    )
    if store is not None:
        refuse_storing([plan.metric], "store")
    settings: dict[str, Any] = {"space": space, "fixed": {*fixed, *set_by_name}}
    job = TuningJob(plan, label or name, model, **settings)
    with read_options_words():
        given = {"valid": None, **open_parts(data, valid=valid, needs_test=False, **(read_options or {}))}
    parts, whole = training_parts(**given, n_folds=folds, seed=seed)
    if refit == "all" and len(parts) > 1 and whole is None:
        raise ParameterError("several splits have no common training set to refit on; leave out refit")
    look = first_look(**given)
    warn_about_data(*look)
    if parts[0].valid is not None:
        warn_about_clicks(parts[0].valid)
    has_pairs = (look[0] if look[1] is None else look[1]).has_pairs
    del look  # which may be parts of a folder, read again when their fold begins
    if has_pairs:
        if metric is None:
            plan = replace(plan, metric=_metric(PAIR_METRIC))
            job = TuningJob(plan, label or name, model, **settings)
        plan.metric.refuse_pairs()
    with callback_of(progress, "tune") as callback:
        job.run(parts, callback)
        found = job.result()
        if refit is not False and not found.interrupted:
            found.model = plan.final_model(found, parts, whole, None if callback is None else job.report_refit)
    if found.model is None:  # whose training repeats the warnings about the chosen parameters
        show_kept(f"{found.ranker} with the best parameters", found.trials_by_number[found.best_trial]["warnings"], 3)
    return found


@dataclass(frozen=True)
class TuningPlan:
    """How to choose parameters; the same for every ranker of a comparison."""

    metric: Metric
    search: str = "random"
    budget: Budget = field(default_factory=Budget)
    refit: bool | str = True
    seed: int = 0
    store: Path | None = None

    def __post_init__(self) -> None:
        check_budget(self.budget)
        if not isinstance(self.seed, (int, np.integer)) or isinstance(self.seed, bool) or self.seed < 0:
            raise ParameterError.of("tune", "seed", "an integer ≥ 0", self.seed)
        if self.refit not in REFITS:
            raise ParameterError.of("tune", "refit", "True, False or 'all'", self.refit)
        Search(self.search, {}, {}, most=self.budget.trials)

    def run(
        self,
        label: str,
        model: Ranker,
        parts: Sequence[Split],
        progress: ProgressCallback | None = None,
        **settings: Any,
    ) -> TuneResult:
        """Find the best parameters of one ranker on the training and validation parts, without a final model."""
        job = TuningJob(self, label, model, **settings)
        job.run(parts, progress)
        return job.result()

    def make_search(self, base: Ranker, dimensions: Space) -> Search:
        now = base.get_params(deep=False)
        return Search(self.search, dimensions, {name: now[name] for name in dimensions}, self.seed, self.budget.trials)

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain values."""
        budget = self.budget
        return {"search": self.search, "trials": budget.trials, "seconds": budget.seconds, "metric": str(self.metric),
                "refit": self.refit, "prune": budget.prune, "seed": self.seed}  # fmt: skip

    def key(self, label: str, base: Ranker, search: Search, data: str) -> dict[str, Any]:
        """What stored trials belong to; ``data`` is the fingerprint of the training and validation parts."""
        return {
            "version": version(),
            "libraries": libraries(),
            "data": data,
            "metric": str(self.metric),
            "ranker": fingerprint(label, type(base).__name__, base.get_params(deep=False)),
            "space": {name: str(dimension) for name, dimension in search.space.items()},
            "search": f"{self.search} ({DRAWS})" if self.search != "grid" else f"grid of {self.budget.trials}",
            "seed": self.seed,
            "pruning": self.budget.prune,
        }

    def final_training(self, found: TuneResult, part: Split) -> tuple[Ranker, RankingData, RankingData | None]:
        """The ranker with the best parameters, its training data and its validation data."""
        model: Ranker = clone(found.estimator).set_params(**found.best_params)
        if self.refit != "all":
            return model, part.train, part.valid
        assert part.valid is not None
        return _settle(model, found), join_parts(part.train, part.valid), None

    def final_model(
        self,
        found: TuneResult,
        parts: Sequence[Split],
        whole: RankingData | None,
        progress: Callable[[Progress], object] | None = None,
    ) -> Ranker | None:
        """The final model; None for several splits, which have no common training set."""
        if len(parts) > 1 and whole is None:
            return None
        with skip_checks():
            if len(parts) == 1:
                model, train, valid = self.final_training(found, parts[0])
                return model.fit(train, eval_set=valid, progress=progress)
            model = _settle(clone(found.estimator).set_params(**found.best_params), found)
            return model.fit(whole, progress=progress)


class InterruptedSearchError(GainfulError):
    """A search was interrupted before any trial had finished."""


class TuningJob:
    """A running search for one ranker. :meth:`result` works at any time, on the trials finished by then.

    ``store`` is an open file for the trials; without it the folder of ``plan`` is used, if there is one.
    """

    def __init__(
        self,
        plan: TuningPlan,
        label: str,
        model: Ranker,
        *,
        space: Space | None = None,
        fixed: Collection[str] = (),
        store: Store | None = None,
    ):
        self.plan, self.label = plan, label
        dimensions = search_space(model, space, fixed)
        self.base = base_ranker(model, plan.metric, fixed)
        self.base._check_parameters()
        self.search = plan.make_search(self.base, dimensions)
        if self.search.unvaried:
            enough = math.prod(len(dimension.points(2)) for dimension in dimensions.values()) + 1
            warnings.warn(
                f"a grid of {plan.budget.trials} trials leaves {', '.join(self.search.unvaried)} of {label} unchanged: "
                f"give {enough} trials to vary every parameter, or fix some",
                UserWarning,
                stacklevel=3,
            )
        self._store = store
        self.trials: Trials | None = None

    def run(self, parts: Sequence[Split], progress: ProgressCallback | None = None) -> None:
        """Run what is left of the budget on the training and validation data of these splits."""
        store, plan = self._store, self.plan
        if plan.refit == "all" and len(parts) == 1:
            train, valid = parts[0].train, parts[0].valid
            assert valid is not None
            join_parts(train[:1], valid[:1])  # refuse what cannot be joined before the search
        if store is None and plan.store is not None:
            data = fingerprint(*(one for part in parts for one in (part.train, part.valid)))
            key = plan.key(self.label, self.base, self.search, data)
            store = Store(plan.store / file_name(self.label), key)
        try:
            report = None if progress is None else self._report(progress)
            self.trials = Trials(self.base, parts, self.search, plan.metric, plan.budget, store, report)
            self.trials.run()
        finally:
            if store is not None and store is not self._store:
                store.close()

    def _report(self, progress: ProgressCallback) -> ProgressCallback:
        return lambda event: progress(replace(event, job=self))

    def report_refit(self, training: Progress) -> bool:
        """The progress callback of the final training."""
        assert self.trials is not None
        assert self.trials.best is not None
        return self.trials.report(self.trials.best["trial"], training, refit=True)

    def result(self, *, interrupted: bool = False) -> TuneResult:
        """The best of the finished trials; ``interrupted`` if the caller knows that more were planned."""
        rows = [] if self.trials is None else self.trials.in_order()
        best = None if self.trials is None else self.trials.best
        interrupted = interrupted or (self.trials is not None and self.trials.interrupted)
        if best is None:
            if interrupted:
                raise InterruptedSearchError("interrupted before any trial had finished")
            reasons = [row["reason"] for row in rows if row.get("reason")]
            raise GainfulError(f"no trial of {self.label} could be trained: {reasons[0] if reasons else 'none ended'}")
        return TuneResult(
            ranker=self.label,
            estimator=self.base,
            metric=self.plan.metric,
            space=self.search.space,
            search=self.plan.search,
            seed=self.plan.seed,
            # The ranker's own value need not be plain (a list of C, a function); drawn values are.
            best_params=dict(self.search.first if best["trial"] == 0 else best["params"]),
            best_value=float(best["value"]),
            best_trial=int(best["trial"]),
            trials=tuple(rows),
            interrupted=interrupted,
            workers=None if self.trials is None else self.trials.workers,
        )


def identify(ranker: Any) -> tuple[str, Ranker, frozenset[str]]:
    """The label, the estimator, and the parameters that its text sets, which are not tuned."""
    if isinstance(ranker, str):
        return ranker, ranker_from_spec(ranker), frozenset(settings_of(ranker)[1])
    if isinstance(ranker, Ranker):
        return " ".join(str(ranker).split()), ranker, frozenset()
    raise ParameterError.of("tune", "ranker", "a name or an estimator", ranker)


def base_ranker(model: Ranker, measure: Metric, fixed: Collection[str]) -> Ranker:
    """A copy of the ranker as all trials use it.

    Early stopping uses the metric that chooses the parameters. The number of threads is one unless set: LightGBM grows
    different trees with a different number of threads, and the choice must not depend on the number of workers.
    """
    copy: Ranker = clone(model)
    now = copy.get_params(deep=False)
    if model.validation_parameter in now and model.validation_parameter not in fixed:
        copy.set_params(**{model.validation_parameter: measure})
    if "n_jobs" in now and now["n_jobs"] is None and "seconds" not in now:
        copy.set_params(n_jobs=1)
    return copy


def search_space(model: Ranker, space: Space | None, fixed: Collection[str]) -> dict[str, Dimension]:
    """The dimensions to search: those given, or the ranker's own without the parameters in ``fixed``.

    A parameter that the ranker's name presets to a value outside its dimension (``l1="auto"``) is not tuned.
    """
    table, now = model.parameters, model.get_params(deep=False)
    owner = type(model).__name__
    for name in (*fixed, *(space or ())):
        if name not in table:
            raise UnknownNameError.among("parameter", name, table, owner=owner)
    if space is None:
        defaults = {name: p.default for name, p in inspect.signature(type(model)).parameters.items()}
        return {
            name: dimension
            for name, dimension in model._search_space().items()
            if name not in fixed and (_is_same(now[name], defaults[name]) or dimension.contains(now[name]))
        }
    for name, dimension in space.items():
        if name in fixed:
            raise ParameterError(f"{name} of {owner} is both set and searched; leave out one of the two")
        if not isinstance(dimension, Dimension):
            raise ParameterError.of(owner, f"space[{name!r}]", "a Range, an IntRange or Values", dimension)
        for value in dimension.points(2):
            if not table[name].accepts(value):
                raise ParameterError.of(owner, name, table[name].expected(), value)
    return dict(space)


def training_parts(
    data: Any, valid: RankingData | None, n_folds: int | None, seed: int
) -> tuple[list[Split], RankingData | None]:
    """What trials train and validate on, and the whole data if the final model is to be trained on it."""
    if isinstance(data, Split):
        data = [data]
    if isinstance(data, (list, tuple)) and data and all(isinstance(part, Split) for part in data):
        if valid is not None or n_folds is not None:
            others = wording("valid and folds", "--valid and --folds")
            raise ParameterError(f"data is already divided; leave out {others}")
        parts, whole = list(data), None
    elif not isinstance(data, RankingData):
        raise ParameterError.of(
            "tune", "data", "a path, a RankingData, a Split or a list of Splits", type(data).__name__
        )
    elif valid is not None:
        if n_folds is not None:
            raise ParameterError("give validation data or folds, not both")
        if valid.n_features != data.n_features:
            raise ParameterError(
                f"the validation data has {valid.n_features} features, the training data has {data.n_features}"
            )
        parts, whole = [Split(data, valid, valid)], None
    elif n_folds is not None:
        # Every query is in one validation part. The test parts of these folds are training data here.
        parts, whole = [_with_test_in_training(data, part) for part in folds(data, n_folds, seed=seed)], data
    else:
        train, held = split(data, (1 - HELD_OUT, HELD_OUT), seed=seed)
        parts, whole = [Split(train, held, held)], None
    for part in parts:
        refuse_without_validation(part)
    return parts, whole


def _with_test_in_training(data: RankingData, part: Split) -> Split:
    def train() -> RankingData:
        held = part.valid
        assert held is not None
        return data[~np.isin(data.query_ids, held.query_ids)]

    return Split(train, part._valid, part._test, name=part.name)


def refuse_without_validation(part: Split) -> None:
    if part._valid is None:
        where = f"{part.name} has no validation data" if part.name else "there is no validation data"
        ways = wording("give valid, or three sizes, or folds", "give --valid, or three --sizes, or --folds")
        raise ParameterError(f"{where} to choose parameters on; {ways}")


def check_budget(budget: Budget) -> None:
    trials, seconds, n_jobs = budget.trials, budget.seconds, budget.n_jobs
    if trials is not None and (not isinstance(trials, (int, np.integer)) or isinstance(trials, bool) or trials < 1):
        raise ParameterError.of("tune", "trials", "an integer ≥ 1, or None", trials)
    if seconds is not None and not Real(low=0.0, open_low=True).accepts(seconds):
        raise ParameterError.of("tune", "seconds", "a number > 0, or None", seconds)
    if trials is None and seconds is None:
        raise ParameterError("a search needs a limit; give trials or seconds")
    check_jobs("tune", n_jobs)


def check_jobs(owner: str, n_jobs: Any) -> None:
    if not isinstance(n_jobs, (int, np.integer)) or isinstance(n_jobs, bool) or n_jobs < 1:
        raise ParameterError.of(owner, "n_jobs", "an integer ≥ 1", n_jobs)


def join_parts(train: RankingData, valid: RankingData) -> RankingData:
    """Both parts as one data set; queries are renumbered if the parts share ids."""
    parts = [train, valid]
    if set(train.query_ids.tolist()) & set(valid.query_ids.tolist()):
        starts = (0, train.n_queries)
        parts = [p.replace(query_ids=np.arange(s, s + p.n_queries)) for p, s in zip(parts, starts, strict=True)]
    return RankingData.concatenate(parts)


def _settle(model: Ranker, found: TuneResult) -> Ranker:
    """Fix the number of iterations, and the one of several C or l1, to what validation chose.

    Without validation data the ranker could not choose them itself.
    """
    best = found.trials_by_number[found.best_trial]
    model.set_params(**best["kept"])
    now = model.get_params(deep=False)
    length = best["best_iteration"]
    name = next((name for name in LENGTHS if name in now), None)
    if length is not None and name is not None and now.get("early_stopping") is not None and now[name] is not None:
        model.set_params(**{name: min(int(length), now[name])})
    return model


def _metric(spec: Any) -> Metric:
    return metric(spec)


def _is_same(one: Any, other: Any) -> bool:
    return one is other or (type(one) is type(other) and not hasattr(one, "__array__") and bool(one == other))
