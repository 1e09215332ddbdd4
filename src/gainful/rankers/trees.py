"""What all rankers of boosted trees share: parameters, scores, importances, contributions, warm starts, model files."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from gainful.compute.memory import size_text
from gainful.data.categories import unordered
from gainful.data.dataset import Dataset, RankingData
from gainful.data.rows import Array, FeatureFacts
from gainful.data.size import DataSize
from gainful.debiasing.debias import Correction
from gainful.errors import DataError, ParameterError, UnknownNameError, wording
from gainful.metrics.value import measure_blocks
from gainful.parameters.constraints import (
    THREADS,
    Choice,
    Either,
    Flag,
    Integer,
    ListOf,
    Maybe,
    MetricSpec,
    Name,
    Real,
    Seed,
    Settings,
    parameter,
    patience,
)
from gainful.parameters.space import Space
from gainful.rankers.base import LinearScores, Ranker
from gainful.rankers.first_model import (
    RankerSpec,
    add_scores,
    check_first_ranker,
    first_ranker,
    fit_first,
    pack_first,
    text_of,
    unpack_first,
    with_signs,
)
from gainful.rankers.scorers import Scorer, Sum, Trees
from gainful.rankers.spaces import TREE_SPACE
from gainful.solvers.certificate import ConvergenceWarning
from gainful.training.monitor import Monitor
from gainful.trees.booster_text import check_booster_text
from gainful.trees.grow import (
    LINEAR_LEAVES,
    NO_CONTRIBUTIONS,
    first_iterations,
    grow_trees,
    lightgbm_params,
    predict_rows,
    release_data,
    training_threads,
)
from gainful.trees.memory import tree_bytes
from gainful.trees.objective_factory import Labels, ObjectiveFactory
from gainful.trees.query_sampling import refuse_unresumable
from gainful.trees.row_chunks import join_blocks

OBJECTIVE_NAMES = ("objective", "objective_type", "app", "application", "loss", "num_class", "num_classes")
FEATURE = Either(of=(Integer(low=0), Name()))


@dataclass(repr=False, eq=False)
class TreeRanker(Ranker):
    """Base of the rankers that LightGBM grows. A subclass says what the trees fit.

    Parameters
    ----------
    n_trees : maximum number of trees; ``early_stopping`` on ``eval_set`` keeps fewer
    n_leaves, learning_rate, min_docs_in_leaf : size of a tree, shrinkage, minimum documents per leaf
    subsample : share of the queries each tree sees
    colsample : share of the features each tree sees
    l2 : l2 penalty on leaf values
    bins : histogram bins per feature; "exact" gives every distinct value its own bin
    monotone : −1, 0 or 1 for each feature, or a mapping from features (number or name) to signs: scores never fall, or
        never rise, as the feature grows. With ``init``, a linear ranker, whose weights of another sign become 0
    categorical : features that hold categories (whole numbers ≥ 0), by number or name; features of text always do
    early_stopping : stop when ``eval_metric`` on ``eval_set`` has not improved for this many trees, and keep the best
        iteration; None keeps all trees. Losses with a schedule (reg-shf-sdcg) grow all of them and keep the best
    eval_metric : metric on ``eval_set``, by which the best iteration is chosen
    init : a ranker to train first, such as "listnet": the trees start from its scores, and the model is the sum of
        both. It must suit what the trees fit: "regression" for squared errors, "listnet" for most ranking losses
    warm_start : another ``fit`` continues from the trees of the best iteration, up to ``n_trees`` in all
    engine_params : LightGBM parameters, passed on unchanged (extra_trees, max_depth, …)
    n_jobs : threads; None for as many as are useful, -1 for all cores that this process may use
    random_state : seed; the same seed gives the same model

    Attributes
    ----------
    booster_ : the ``lightgbm.Booster`` of the model, which ends with the best iteration; with ``init``, its scores are
        added to those of ``init_``
    init_ : the fitted ranker of ``init``
    monotone_ : the sign of each feature that the trees keep to, or None
    best_iteration_ : iterations in ``booster_``; ``n_iter_`` also counts those grown after the best one and dropped
    feature_importances_ : total gain of the splits on each feature; the part of ``init_`` is not in it
    """

    accepts_missing: ClassVar[bool] = True
    accepts_categories: ClassVar[bool] = True
    accepts_codes: ClassVar[bool] = True
    accepts_shards: ClassVar[bool] = True
    weighs_documents: ClassVar[bool] = True
    accepts_init_scores: ClassVar[bool] = True
    resumes: ClassVar[bool] = True
    cost_without_validation: ClassVar[str | None] = ".02"
    space: ClassVar[Space] = TREE_SPACE
    _keeps_all_trees: ClassVar[bool] = False  # set by those who decide later where the model ends, by ``_end_with``
    _init_spec: ClassVar[str | None] = None  # ``init`` of the fitted model

    _: KW_ONLY
    n_trees: int = parameter(300, Integer(low=1, help="maximum number of trees"))
    n_leaves: int = parameter(31, Integer(low=2, high=131072, help="leaves per tree"))
    learning_rate: float = parameter(0.1, Real(low=0, open_low=True, help="shrinkage of each tree"))
    min_docs_in_leaf: int = parameter(20, Integer(low=0, help="minimum documents per leaf"))
    subsample: float = parameter(1.0, Real(low=0, high=1, open_low=True, help="share of the queries each tree sees"))
    colsample: float = parameter(1.0, Real(low=0, high=1, open_low=True, help="share of the features each tree sees"))
    l2: float = parameter(0.0, Real(low=0, help="l2 penalty on leaf values"))
    bins: int | str = parameter(
        255,
        Either(
            of=(Integer(low=2, high=65535), Choice(of=("exact",))),
            help='histogram bins per feature; "exact": one per distinct value',
        ),
    )
    monotone: Sequence[int] | Mapping[Any, int] | None = parameter(
        None,
        Maybe(
            inner=Either(of=(ListOf(inner=Integer(low=-1, high=1)), Settings(numbers=True))),
            help="−1, 0 or 1 per feature, or a mapping from feature to sign: scores fall or rise with it",
        ),
    )
    categorical: Sequence[int | str] | None = parameter(
        None, Maybe(inner=ListOf(inner=FEATURE), help="features that hold categories: numbers or names")
    )
    early_stopping: int | None = parameter(50, patience("trees"))
    eval_metric: Any = parameter("ndcg@10", MetricSpec(help="metric on eval_set that chooses the best iteration"))
    init: Any = parameter(None, Maybe(inner=RankerSpec(), help="ranker whose scores the trees start from"))
    warm_start: bool = parameter(False, Flag(help="another fit continues the trees so far, up to n_trees in all"))
    engine_params: Mapping[str, Any] | None = parameter(
        None, Maybe(inner=Settings(), help="LightGBM parameters, passed on unchanged")
    )
    n_jobs: int | None = parameter(
        None, Maybe(inner=THREADS, help="threads; None: as many as are useful, -1: all allowed cores")
    )
    random_state: Any = parameter(0, Maybe(inner=Seed(), help="seed"))

    @property
    def _engine(self) -> str:
        """What grows the trees."""
        return getattr(self, "engine", "lightgbm")

    # -- memory --------------------------------------------------------------------------------------------------------

    def _training_bytes(self, size: DataSize) -> float:
        return tree_bytes(size, self._lightgbm_params(), exact_bins=self.bins == "exact", models=self._n_models(size))

    def _n_models(self, size: DataSize) -> float:
        """Trees per iteration, each with scores and gradients of its own."""
        return 1

    def _smaller_trainings(self, size: DataSize, room: float) -> Iterator[tuple[str, float]]:
        params = self._lightgbm_params()
        if "force_col_wise" not in params and not size.is_sparse:
            by_column = {**params, "force_col_wise": True}
            needed = tree_bytes(size, by_column, exact_bins=self.bins == "exact", models=self._n_models(size))
            setting = wording(
                "engine_params={'force_col_wise': True}", "--set 'engine_params={\"force_col_wise\": true}'"
            )
            yield f"{setting} needs {size_text(needed)}", needed

    def _why_no_contributions(self) -> str | None:
        if any((self.engine_params or {}).get(name) for name in LINEAR_LEAVES):
            return NO_CONTRIBUTIONS
        first = getattr(self, "init_", None)
        if first is not None and first._why_no_contributions() is not None:
            return f"init: {first._why_no_contributions()}"
        return super()._why_no_contributions()

    # -- for subclasses ------------------------------------------------------------------------------------------------

    def _own_lightgbm_names(self) -> dict[str, tuple[str, ...]]:
        """LightGBM's names for additional parameters that this ranker sets itself."""
        return {}

    def _threads(self) -> int | None:
        """``n_jobs`` for our own kernels: None for as many as suit the data."""
        return self.n_jobs if self.n_jobs is not None and self.n_jobs > 0 else None

    def _lightgbm_params(self) -> dict[str, Any]:
        return lightgbm_params(
            n_leaves=self.n_leaves,
            learning_rate=self.learning_rate,
            min_docs_in_leaf=self.min_docs_in_leaf,
            subsample=self.subsample,
            colsample=self.colsample,
            l2=self.l2,
            bins=self.bins,
            n_jobs=self.n_jobs,
            random_state=self.random_state,
            owner=type(self).__name__,
            also_owned={**self._own_lightgbm_names(), "another ranker": OBJECTIVE_NAMES},
            engine_params=self._lightgbm_engine_params(),
        )

    def _lightgbm_engine_params(self) -> Mapping[str, Any] | None:
        """Those of ``engine_params`` that are LightGBM's."""
        return self.engine_params

    def _patience(self) -> int | None:
        """The trees without improvement that end training; None keeps all trees."""
        return self.early_stopping

    def _grow(
        self,
        data: Dataset,
        labels: Labels,
        monitor: Monitor,
        *,
        params: Mapping[str, Any] | None = None,
        factory: ObjectiveFactory | None = None,
    ) -> float | None:
        """Grow ``booster_``: with an objective of ours, or with LightGBM's named in ``params``.

        Returns the scale of the gradients, if the objective has one and a tree used it.
        """
        monitor.stop_early(self._patience())
        if monitor.valid is not None and monitor.valid.whole is None and data.whole is not None:
            raise DataError("eval_set is on a cluster and X is not; put both on the cluster, or neither")
        constraints = self._constraints(data)
        data = self._start_from_init(data, monitor, constraints.get("monotone_constraints"))
        start = self._trees_to_continue(data, monitor)
        settings = {**self._lightgbm_params(), **constraints, **(params or {})}
        about: dict[str, Any] = {
            "categorical": self._categories(data),
            "exact_bins": self.bins == "exact",
            "start": start,
            "to_scores": self._to_scores,
        }
        scale: float | None
        if self._engine == "xgboost":
            booster, scale = self._grow_by_xgboost(data, start, monitor, factory)
        elif data.whole is None:
            from gainful.trees.cluster.train import grow_on_cluster

            about |= {"factory": factory, "threads": self._threads()}
            booster, scale = grow_on_cluster(data, labels, self.n_trees, settings, monitor, **about)
        else:
            objective = None if factory is None else factory.make(data.whole, threads=self._threads())
            booster = grow_trees(
                data.whole,
                labels(data.whole),
                self.n_trees,
                settings,
                monitor,
                objective=objective,
                n_jobs=self.n_jobs,
                **about,
            )
            scale = getattr(objective, "scale", None)
        self.best_iteration_ = monitor.best_iteration
        self.booster_ = booster if self._keeps_all_trees else first_iterations(booster, self.best_iteration_)
        self.monotone_ = constraints.get("monotone_constraints")
        if not self._keeps_all_trees and not booster.feature_importance("split", self.best_iteration_).any():
            self._warn_of_no_split(data)
        return scale

    def _warn_of_no_split(self, data: Dataset) -> None:
        if data.lowest_grade == data.highest_grade and not data.has_pairs:
            return  # which check_data says
        cause = "none lowers the loss: features may be constant, or the loss flat at the start"
        if data.n_rows < 2 * self.min_docs_in_leaf:
            cause = f"min_docs_in_leaf={self.min_docs_in_leaf} leaves no room for a split among {data.n_rows} documents"
        told = f"{type(self).__name__}: no tree has a split, so all scores are equal; {cause}; lower min_docs_in_leaf"
        warnings.warn(told, ConvergenceWarning, stacklevel=5)

    def _end_with(self, iteration: int, *, cut: bool = True) -> None:
        """Let the fitted model end with this iteration; without ``cut``, later trees stay in ``booster_``."""
        self.best_iteration_ = iteration
        if "validation" in self.training_ and 0 < iteration <= len(self.history_):
            best = float(self.history_[iteration - 1]["validation"])
            self.training_["validation"] |= {"iteration": iteration, "best": best if np.isfinite(best) else None}
        if cut:
            self.booster_ = first_iterations(self.booster_, iteration)
            self.__dict__.pop("_keeps_all_trees", None)

    def _release_data(self) -> None:
        """Let go of the data the trees were grown on, which LightGBM keeps."""
        if hasattr(self, "booster_"):
            self.booster_ = release_data(self.booster_)

    def _start_from_init(self, data: Dataset, monitor: Monitor, signs: Sequence[int] | None) -> Dataset:
        """The data with the scores of ``init`` as its initial scores; the same for the validation data."""
        goes_on = self.warm_start and hasattr(self, "booster_")
        spec = text_of(self.init)
        if goes_on and spec != self._init_spec:
            raise ParameterError(
                f"the trees to continue started from init={self._init_spec}; keep that, or set warm_start=False"
            )
        if spec is None:
            self._forget_init()
            return data
        if data.whole is None:
            raise DataError(f"{type(self).__name__} with init cannot train on a cluster; leave out init or the cluster")
        if not goes_on:
            first = fit_first(self.init, self.eval_metric, data.whole, monitor)
            self._keep_init(first if signs is None else with_signs(first, signs))
        if monitor.valid is not None:
            monitor.valid = add_scores(self.init_, monitor.valid.whole)
        return add_scores(self.init_, data.whole)

    def _keep_init(self, first: Ranker) -> None:
        """From now on the model takes missing values only if this one does."""
        self.init_ = first
        self.__dict__ |= {"_init_spec": text_of(self.init), "accepts_missing": first.accepts_missing}

    def _forget_init(self) -> None:
        for name in ("init_", "_init_spec", "accepts_missing"):
            self.__dict__.pop(name, None)

    def _grow_by_xgboost(
        self, data: Dataset, start: Any, monitor: Monitor, factory: ObjectiveFactory | None
    ) -> tuple[Any, float | None]:
        raise NotImplementedError  # only with a choice of engine

    def _trees_to_continue(self, data: Dataset, monitor: Monitor) -> Any:
        """With ``warm_start``, the trees of the best iteration so far; the monitor continues its count from them."""
        if not self.warm_start or not hasattr(self, "booster_"):
            return None
        from gainful.trees.lightgbm_library import lgb

        if data.n_features != self.booster_.num_feature():
            raise DataError(
                f"X has {data.n_features} features, but the trees to continue were grown with "
                f"{self.booster_.num_feature()}; set warm_start=False to start afresh"
            )
        if data.categories != getattr(self, "categories_", None):
            raise DataError(
                "X has other categories in its features of text than the trees to continue; set warm_start=False to "
                "start afresh"
            )
        if self._constraints(data).get("monotone_constraints") != self.monotone_:
            raise ParameterError(
                f"the trees to continue grew with monotone={self.monotone_}; keep that, or set warm_start=False"
            )
        start = lgb.Booster(model_str=self.booster_.model_to_string(num_iteration=self.best_iteration_))
        grown = start.current_iteration()
        if grown >= self.n_trees:
            raise ParameterError(
                f"n_trees of {type(self).__name__} must be above the {grown} trees to continue, was "
                f"{self.n_trees}; it counts all trees"
            )
        value = None
        if monitor.valid is not None:
            value = self._measure(start, monitor)
        monitor.resume(getattr(self, "history_", []), grown, value)
        return start

    def _measure(self, trees: Any, monitor: Monitor) -> float:
        """The validation metric of these trees."""
        if monitor.valid.whole is None:
            text = trees.model_to_string()
            return measure_blocks(monitor.metric, monitor.valid, _scores_by, text, self._to_scores)
        return monitor.evaluate(self._to_scores(predict_rows(trees, monitor.valid.X, trees.current_iteration())))

    def _start_facts(self, data: Dataset) -> dict[str, Any]:
        # the trees depend on the number of threads; on a cluster the workers decide it
        threads = self._threads() if data.whole is None else training_threads(self.n_jobs, data.whole)
        facts = {"number of threads": threads}
        if not self.warm_start or not hasattr(self, "booster_"):
            return facts
        trees: str = self.booster_.model_to_string(num_iteration=self.best_iteration_)
        return facts | {"trees to go on from": zlib.crc32(trees.encode())}

    def _refuse_checkpoint(self) -> None:
        super()._refuse_checkpoint()
        first = None if self.init is None else first_ranker(self.init, self.eval_metric)
        if getattr(first, "random_state", 0) is None:  # it is trained again when training resumes
            raise ParameterError(f"init of {type(self).__name__} needs a random_state, to resume from a checkpoint")
        refuse_unresumable(self.engine_params, type(self).__name__)

    def _refuse_missing(self, facts: FeatureFacts, what: str) -> None:
        if facts.has_missing and text_of(self.init) == self._init_spec:  # otherwise another training begins
            super()._refuse_missing(facts, what)

    def _refuse_columns(self, data: Dataset) -> None:
        super()._refuse_columns(data)
        if data.has_init_scores and not data.is_local:
            raise DataError(
                f"{type(self).__name__} cannot start from initial scores on a cluster; train it without a cluster"
            )

    def _in_one_block(self, data: Dataset) -> Dataset:
        # LightGBM reads the blocks of this process one after another
        return join_blocks(data) if data.is_local else data

    def _to_scores(self, predicted: Array) -> Array:
        """Scores from LightGBM's predictions: the same unless a subclass overrides it."""
        return predicted

    # -- features by name ----------------------------------------------------------------------------------------------

    def _constraints(self, data: Dataset) -> dict[str, Any]:
        if self.monotone is None:
            return {}
        if isinstance(self.monotone, Mapping):
            signs = [0] * data.n_features
            for feature, sign in self.monotone.items():
                if sign not in (-1, 0, 1):
                    raise ParameterError.of(type(self).__name__, f"monotone[{feature!r}]", "−1, 0 or 1", sign)
                signs[self._place(feature, data, "monotone")] = int(sign)
        else:
            signs = [int(sign) for sign in self.monotone]
            if len(signs) != data.n_features:
                raise ParameterError(
                    f"monotone of {type(self).__name__} must have one sign for each of the {data.n_features} features, "
                    f"had {len(signs)}"
                )
        for j in self._categories(data):
            if signs[j]:
                name = j if data.feature_names is None else data.feature_names[j]
                raise ParameterError(
                    f"monotone of {type(self).__name__} has a sign for feature {name!r}, which holds categories; leave "
                    "out the sign, or give the feature as a number"
                )
        return {"monotone_constraints": signs} if any(signs) else {}

    def _categories(self, data: Dataset) -> list[int]:
        named = {self._place(feature, data, "categorical") for feature in self.categorical or ()}
        return sorted({*named, *unordered(data.categories)})

    def _place(self, feature: Any, data: Dataset, parameter: str) -> int:
        """The column of a feature given by number or name."""
        names = data.feature_names
        if isinstance(feature, str) and names is not None and feature in names:
            return names.index(feature)
        if isinstance(feature, str) and feature.isdigit():  # a JSON key
            feature = int(feature)
        if not isinstance(feature, str) and 0 <= int(feature) < data.n_features:
            return int(feature)
        if isinstance(feature, str) and names is not None:
            raise UnknownNameError.among(
                "feature", feature, names, owner=f"{parameter} of {type(self).__name__}: the data"
            )
        raise ParameterError.of(
            type(self).__name__, parameter, f"features 0 … {data.n_features - 1}"
            + (" or their names" if names is not None else " (the data has no feature names)"), feature,
        )  # fmt: skip

    # -- use -----------------------------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._lightgbm_params()
        if self.init is not None:
            if not self._accepts_init_scores():
                raise ParameterError(
                    f"{self._name_for_errors()} cannot start from another ranker's scores; leave out init"
                )
            check_first_ranker(type(self).__name__, self.init)
        if self.monotone is not None and (why := self._why_not_monotone()):
            raise ParameterError(f"monotone of {self._name_for_errors()} does not hold {why}")

    def _why_not_monotone(self) -> str | None:
        """When ``monotone`` would not hold, and what to use."""
        if self.init is not None and not isinstance(first_ranker(self.init, self.eval_metric), LinearScores):
            return f"with init={text_of(self.init)}; use a linear ranker such as listnet, or leave out init"
        if any((self.engine_params or {}).get(name) for name in LINEAR_LEAVES):
            return "with linear leaves; leave them out of engine_params"
        return None

    def _find_correction(self, data: Dataset, debias: Any, max_bytes: int | str | None) -> Correction | None:
        correction = super()._find_correction(data, debias, max_bytes)
        if correction is not None and self.init is not None:
            raise DataError(f"{type(self).__name__} with init cannot learn from clicks; leave out init")
        return correction

    def _scorer(self) -> Scorer:
        trees = self._tree_scorer()
        return Sum.of([trees, self.init_._scorer()], [1.0, 1.0]) if hasattr(self, "init_") else trees

    def _tree_scorer(self) -> Scorer:
        """How the trees score."""
        return Trees(self.booster_, self.best_iteration_, self.n_jobs)

    @property
    def feature_importances_(self) -> Array:
        self._check_fitted()
        return np.asarray(
            self.booster_.feature_importance(importance_type="gain", iteration=self.best_iteration_), dtype=np.float64
        )

    # -- model files ---------------------------------------------------------------------------------------------------

    def _file_params(self) -> dict[str, Any]:
        return super()._file_params() | {"init": text_of(self.init)}

    def _pack(self) -> dict[str, Any]:
        return {
            **(pack_first(self.init_) if hasattr(self, "init_") else {}),
            "booster": self.booster_.model_to_string(num_iteration=self.best_iteration_, importance_type="gain"),
            "best_iteration": self.best_iteration_,
            "monotone": self.monotone_,
        }

    def _unpack(self, state: Mapping[str, Any]) -> None:
        from gainful.trees.lightgbm_library import lgb

        self.best_iteration_ = int(state["best_iteration"])
        if not 0 <= self.best_iteration_ <= check_booster_text(state["booster"], self.n_features_in_):
            raise ValueError("best_iteration is not one of the iterations")
        self.booster_ = first_iterations(lgb.Booster(model_str=state["booster"]), self.best_iteration_)
        signs = state["monotone"]
        if signs is not None and (len(signs) != self.n_features_in_ or any(sign not in (-1, 0, 1) for sign in signs)):
            raise ValueError("monotone is not a sign for each feature")
        self.monotone_ = signs
        if "init" in state:
            self._keep_init(unpack_first(state, self.n_features_in_, self.categories_))


def _scores_by(data: RankingData, trees: str, to_scores: Callable[[Array], Array]) -> Array:
    from gainful.trees.lightgbm_library import lgb

    return to_scores(predict_rows(lgb.Booster(model_str=trees), data.X, -1))
