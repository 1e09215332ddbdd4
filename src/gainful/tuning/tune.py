"""``gainful.tune``: the parameters of one ranker, chosen on validation data."""

from __future__ import annotations

import inspect
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from gainful.data.checks import skip_checks, warn_of
from gainful.data.dataset import RankingData
from gainful.data.splits import Split, first_look, folds, split
from gainful.errors import GainfulError, ParameterError, UnknownNameError
from gainful.metrics import Metric, metric
from gainful.parameters.constraints import explains_keywords
from gainful.parameters.space import Dimension, Space
from gainful.rankers.base import Ranker
from gainful.rankers.specs import ranker_from_spec, settings_of
from gainful.tuning.result import TuneResult
from gainful.tuning.search import DRAWS, Search
from gainful.tuning.store import Store, file_name, fingerprint, libraries, version
from gainful.tuning.trials import Budget, ProgressCallback, Trials

HELD_OUT = 0.25  # of the queries, where nothing else is said
LENGTHS = ("n_trees", "n_rounds", "epochs", "max_iter")  # parameters that bound the iterations
REFITS = (True, False, "all")


@explains_keywords
def tune(
    ranker: str | Ranker,
    data: Any,
    *,
    valid: RankingData | None = None,
    folds: int | None = None,
    space: Space | None = None,
    fixed: Collection[str] = (),
    search: str = "random",
    trials: int | None = 20,
    seconds: float | None = None,
    metric: str | Metric = "ndcg@10",
    refit: bool | str = True,
    n_jobs: int = 1,
    prune: bool = True,
    store: str | Path | None = None,
    seed: int = 0,
    progress: ProgressCallback | None = None,
) -> TuneResult:
    """Try parameters of a ranker and keep those that do best on validation queries.

    Parameters
    ----------
    ranker : a name (``"lambdamart:n_trees=100"`` fixes parameters) or an estimator, whose own parameters are the first
        trial
    data : a RankingData; a Split or a list of Splits, of which the test parts are not looked at
    valid : validation data; without it and without ``folds`` a quarter of the queries is held out
    folds : cross-validate with so many folds; a trial's value is the mean over the folds
    space : dimensions by parameter; by default the ranker's own ``space``
    fixed : parameters of that space to leave as they are
    search : "random" (evenly spread draws), "grid", or "optuna" (TPE; needs the extra ``tune``)
    trials, seconds : budget; whichever ends first. ``trials=None`` for seconds alone
    metric : what is compared on the validation data; also what the ranker's early stopping looks at
    refit : train the chosen parameters once more on the training part, with the validation part as ``eval_set``; "all"
        for training and validation part together; False for no model
    n_jobs : trials run at once, in threads. A ranker that leaves its own ``n_jobs`` open uses one thread a trial
    prune : give up trials that fall hopelessly behind
    store : folder in which trials are kept as they finish; a run that was killed goes on from there
    seed : of the search, and of the division of the data
    progress : called as trials go on with a ``TuneProgress``; returning True ends the search

    The data is checked once, not for each trial: see :func:`gainful.check_data`.

    The same call gives the same result whatever ``n_jobs`` is, and whether or not it was killed and resumed; with a
    budget in seconds the number of trials depends on the machine.
    """
    label, model, set_by_name = named(ranker)
    chosen = TuningPlan(
        metric=_metric(metric),
        search=search,
        budget=Budget(trials, seconds, n_jobs, prune),
        refit=refit,
        seed=seed,
        store=None if store is None else Path(store),
    )
    parts, whole = training_parts(data, valid, folds, seed)
    check_refit(refit, parts, whole)
    warn_of(*first_look(data, valid))
    found = chosen.run(label, model, parts, space=space, fixed={*fixed, *set_by_name}, progress=progress)
    if refit is not False and not found.interrupted:
        found.model = chosen.refitted(found, parts, whole)
    return found


@dataclass(frozen=True)
class TuningPlan:
    """How parameters are chosen: the same for every ranker of a comparison."""

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
        """The best parameters of one ranker on the training and validation parts, without a model."""
        job = TuningJob(self, label, model, parts, **settings)
        job.run(progress)
        return job.result()

    def searching(self, base: Ranker, dimensions: Space) -> Search:
        now = base.get_params(deep=False)
        return Search(self.search, dimensions, {name: now[name] for name in dimensions}, self.seed, self.budget.trials)

    def described(self) -> dict[str, Any]:
        """How parameters are chosen, for the record."""
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

    def final(self, found: TuneResult, part: Split) -> tuple[Ranker, RankingData, RankingData | None]:
        """The ranker with the chosen parameters, and what it is trained and validated on."""
        model: Ranker = clone(found.estimator).set_params(**found.best_params)
        if self.refit != "all":
            return model, part.train, part.valid
        assert part.valid is not None
        return _settled(model, found), together(part.train, part.valid), None

    def refitted(self, found: TuneResult, parts: Sequence[Split], whole: RankingData | None) -> Ranker | None:
        """The final model; None where there are several splits and so no one training set."""
        if len(parts) > 1 and whole is None:
            return None
        with skip_checks():
            if len(parts) == 1:
                model, train, valid = self.final(found, parts[0])
                return model.fit(train, eval_set=valid)
            return _settled(clone(found.estimator).set_params(**found.best_params), found).fit(whole)


class InterruptedSearchError(GainfulError):
    """A search was interrupted before any trial had finished."""


class TuningJob:
    """The search for one ranker, under way. :meth:`result` may be asked at any time and holds what is finished by then.

    ``store`` is an open file to keep trials in; without it the folder of ``choosing`` is used, if there is one.
    """

    def __init__(
        self,
        choosing: TuningPlan,
        label: str,
        model: Ranker,
        parts: Sequence[Split],
        *,
        space: Space | None = None,
        fixed: Collection[str] = (),
        store: Store | None = None,
    ):
        self.choosing, self.label, self.parts = choosing, label, parts
        dimensions = tuned_space(model, space, fixed)
        self.base = prepared(model, choosing.metric, fixed)
        self.base._check_parameters()
        self.search = choosing.searching(self.base, dimensions)
        self._store = store
        self.trials: Trials | None = None

    def run(self, progress: ProgressCallback | None = None) -> None:
        """Run what is left of the budget."""
        store, choosing = self._store, self.choosing
        if choosing.refit == "all" and len(self.parts) == 1:
            train, valid = self.parts[0].train, self.parts[0].valid
            assert valid is not None
            together(train[:1], valid[:1])  # what cannot be joined is refused before the search
        if store is None and choosing.store is not None:
            data = fingerprint(*(one for part in self.parts for one in (part.train, part.valid)))
            key = choosing.key(self.label, self.base, self.search, data)
            store = Store(choosing.store / file_name(self.label), key)
        try:
            budget = choosing.budget
            self.trials = Trials(self.base, self.parts, self.search, choosing.metric, budget, store, progress)
            self.trials.run()
        finally:
            if store is not None and store is not self._store:
                store.close()

    def result(self, *, interrupted: bool = False) -> TuneResult:
        """The best of what is finished; ``interrupted`` where the caller knows that there would have been more."""
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
            metric=self.choosing.metric,
            space=self.search.space,
            search=self.choosing.search,
            seed=self.choosing.seed,
            # What stands may be no plain value, a list of C or a function say; what was drawn is.
            best_params=dict(self.search.first if best["trial"] == 0 else best["params"]),
            best_value=float(best["value"]),
            best_trial=int(best["trial"]),
            trials=tuple(rows),
            interrupted=interrupted,
            workers=None if self.trials is None else self.trials.workers,
        )


def named(ranker: Any) -> tuple[str, Ranker, frozenset[str]]:
    """Label, estimator, and the parameters that the text itself sets, which are not tuned."""
    if isinstance(ranker, str):
        return ranker, ranker_from_spec(ranker), frozenset(settings_of(ranker)[1])
    if isinstance(ranker, Ranker):
        return " ".join(str(ranker).split()), ranker, frozenset()
    raise ParameterError.of("tune", "ranker", "a name or an estimator", ranker)


def prepared(model: Ranker, measure: Metric, fixed: Collection[str]) -> Ranker:
    """A copy of the ranker as all trials have it.

    Early stopping looks at the metric that parameters are chosen by. One thread is used where the number was left open:
    LightGBM grows other trees with another number of threads, and a choice must not depend on how many workers ran.
    """
    copy: Ranker = clone(model)
    now = copy.get_params(deep=False)
    if "eval_metric" in now and "eval_metric" not in fixed:
        copy.set_params(eval_metric=measure)
    if "n_jobs" in now and now["n_jobs"] is None:
        copy.set_params(n_jobs=1)
    return copy


def tuned_space(model: Ranker, space: Space | None, fixed: Collection[str]) -> dict[str, Dimension]:
    """The dimensions to search: those asked for, or the ranker's own less what was set.

    A parameter that a name presets to something outside of its dimension (``l1="auto"``) is no matter of tuning.
    """
    table, now = model.parameters, model.get_params(deep=False)
    owner = type(model).__name__
    for name in (*fixed, *(space or ())):
        if name not in table:
            raise UnknownNameError.among(f"parameter of {owner}", name, table)
    if space is None:
        defaults = {name: p.default for name, p in inspect.signature(type(model)).parameters.items()}
        return {
            name: dimension
            for name, dimension in model._search_space().items()
            if name not in fixed and (_same(now[name], defaults[name]) or dimension.contains(now[name]))
        }
    for name, dimension in space.items():
        if name in fixed:
            raise ParameterError(f"{name} of {owner} is set and searched; leave out one of the two")
        if not isinstance(dimension, Dimension):
            raise ParameterError.of(owner, f"space[{name!r}]", "a Range, an IntRange or Values", dimension)
        for value in dimension.points(2):
            if not table[name].accepts(value):
                raise ParameterError.of(owner, name, table[name].expected(), value)
    return dict(space)


def training_parts(
    data: Any, valid: RankingData | None, n_folds: int | None, seed: int
) -> tuple[list[Split], RankingData | None]:
    """What trials train and validate on, and all of the data where a final model may be trained on all of it."""
    if isinstance(data, Split):
        data = [data]
    if isinstance(data, (list, tuple)) and data and all(isinstance(part, Split) for part in data):
        if valid is not None or n_folds is not None:
            raise ParameterError("data is divided already; leave out valid and folds")
        parts, whole = list(data), None
    elif not isinstance(data, RankingData):
        raise ParameterError.of("tune", "data", "a RankingData, a Split or a list of Splits", type(data).__name__)
    elif valid is not None:
        if n_folds is not None:
            raise ParameterError("give validation data or folds, not both")
        if valid.n_features != data.n_features:
            raise ParameterError(
                f"the validation data has {valid.n_features} features, the training data has {data.n_features}"
            )
        parts, whole = [Split(data, valid, valid)], None
    elif n_folds is not None:
        # Every query is validated on once. The test parts of these folds belong to the training here.
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
        raise ParameterError(f"{where}, which parameters are chosen on; give valid, or three sizes, or folds")


def check_refit(refit: bool | str, parts: Sequence[Split], whole: RankingData | None) -> None:
    if refit == "all" and len(parts) > 1 and whole is None:
        raise ParameterError("several splits have no one training set to refit on; leave refit out")


def check_budget(budget: Budget) -> None:
    trials, seconds, n_jobs = budget.trials, budget.seconds, budget.n_jobs
    if trials is not None and (not isinstance(trials, (int, np.integer)) or isinstance(trials, bool) or trials < 1):
        raise ParameterError.of("tune", "trials", "an integer ≥ 1, or None", trials)
    number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    if seconds is not None and not (number and math.isfinite(seconds) and seconds > 0):
        raise ParameterError.of("tune", "seconds", "a number > 0, or None", seconds)
    if trials is None and seconds is None:
        raise ParameterError("a search needs an end; give trials or seconds")
    if not isinstance(n_jobs, (int, np.integer)) or isinstance(n_jobs, bool) or n_jobs < 1:
        raise ParameterError.of("tune", "n_jobs", "an integer ≥ 1", n_jobs)


def together(train: RankingData, valid: RankingData) -> RankingData:
    """Both parts as one data set; the queries are numbered anew where the parts share ids."""
    parts = [train, valid]
    if set(train.query_ids.tolist()) & set(valid.query_ids.tolist()):
        starts = (0, train.n_queries)
        parts = [p.replace(query_ids=np.arange(s, s + p.n_queries)) for p, s in zip(parts, starts, strict=True)]
    return RankingData.concatenate(parts)


def _settled(model: Ranker, found: TuneResult) -> Ranker:
    """The ranker bounded to the iterations, and set to the one of several C or l1, that validation chose.

    Without validation data it could not choose them itself.
    """
    best = found.trials_by_number[found.best_trial]
    model.set_params(**best["kept"])
    now = model.get_params(deep=False)
    length = best["best_iteration"]
    name = next((name for name in LENGTHS if name in now), None)
    if length is not None and name is not None and now.get("early_stopping") is not None and now[name] is not None:
        model.set_params(**{name: min(int(length), now[name])})
    return model


def _metric(spec: str | Metric) -> Metric:
    return metric(spec)


def _same(one: Any, other: Any) -> bool:
    return one is other or (type(one) is type(other) and not hasattr(one, "__array__") and bool(one == other))
