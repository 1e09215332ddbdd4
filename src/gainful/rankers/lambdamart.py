"""LambdaMART on LightGBM."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from gainful.data import RankingData
from gainful.engines.trees import as_lightgbm, grow_trees, lightgbm_params
from gainful.errors import DataError
from gainful.monitor import Monitor
from gainful.parameters import Choice, Constraint, Flag, Integer, Maybe, MetricSpec, Real, Seed, Settings
from gainful.rankers.base import Ranker
from gainful.rows import Array

OBJECTIVE_NAMES = ("objective", "objective_type", "app", "application", "loss")
LARGEST_PLAIN_GRADE = 100.0
MOST_DOCUMENTS = 10_000  # LightGBM's own limit for its built-in ranking objectives


class LambdaMART(Ranker):
    """Gradient boosting on lambdarank gradients, grown by LightGBM.

    Each tree fits, for every pair of documents of different grade, the gradient of the logistic pair loss times the
    change of NDCG that swapping the two would make. This is LightGBM's ``lambdarank`` objective: pairs whose better
    document is below ``truncation`` are left out; with ``normalize`` lambdas are scaled by score distance and query.

    Grades may be any non-negative numbers, in any number: LightGBM sees the rank of a grade among the grades of the
    training data together with its gain, so its limits of 31 grades and of integers do not apply. It takes at most
    10,000 documents a query.

    Parameters
    ----------
    n_trees : most trees grown; with ``eval_set`` and ``early_stopping`` fewer
    n_leaves, learning_rate, min_docs_in_leaf : size of a tree, shrinkage, documents a leaf must hold
    subsample : share of the queries each tree sees
    colsample : share of the features each tree sees
    l2 : l2 penalty on leaf values
    bins : histogram bins a feature is cut into
    gain : "exp2" (2^g − 1) or "linear", in the NDCG that the gradients are weighted by
    truncation : lambdarank's truncation level
    sigmoid : steepness of the pair loss
    normalize : LightGBM's normalisation of the lambdas
    early_stopping : stop when ``eval_metric`` on ``eval_set`` has not improved for so many trees; None never stops
    eval_metric : metric on ``eval_set``, by which the best iteration is chosen
    engine_params : LightGBM parameters handed on as they are (monotone_constraints, extra_trees, …)
    n_jobs : threads; None or -1 for all cores
    random_state : seed; the same seed gives the same model

    Attributes
    ----------
    booster_ : the ``lightgbm.Booster``
    best_iteration_ : trees that ``predict`` uses
    feature_importances_ : total gain of the splits on each feature
    """

    accepts_missing: ClassVar[bool] = True
    parameters: ClassVar[dict[str, Constraint]] = {
        "n_trees": Integer(low=1, help="most trees grown"),
        "n_leaves": Integer(low=2, high=131072, help="leaves a tree"),
        "learning_rate": Real(low=0, open_low=True, help="shrinkage of each tree"),
        "min_docs_in_leaf": Integer(low=0, help="documents a leaf must hold"),
        "subsample": Real(low=0, high=1, open_low=True, help="share of the queries each tree sees"),
        "colsample": Real(low=0, high=1, open_low=True, help="share of the features each tree sees"),
        "l2": Real(low=0, help="l2 penalty on leaf values"),
        "bins": Integer(low=2, high=65535, help="histogram bins a feature is cut into"),
        "gain": Choice(of=("exp2", "linear"), help="gain of a grade: 2^g − 1 or g"),
        "truncation": Integer(low=1, help="pairs whose better document ranks below this are left out"),
        "sigmoid": Real(low=0, open_low=True, help="steepness of the pair loss"),
        "normalize": Flag(help="LightGBM's normalisation of the lambdas"),
        "early_stopping": Maybe(inner=Integer(low=1), help="trees without improvement on eval_set before stopping"),
        "eval_metric": MetricSpec(help="metric on eval_set that chooses the best iteration"),
        "engine_params": Maybe(inner=Settings(), help="LightGBM parameters handed on as they are"),
        "n_jobs": Maybe(inner=Integer(low=-1), help="threads; None or -1 for all cores"),
        "random_state": Maybe(inner=Seed(), help="seed"),
    }

    def __init__(
        self,
        n_trees: int = 300,
        n_leaves: int = 31,
        learning_rate: float = 0.1,
        min_docs_in_leaf: int = 20,
        subsample: float = 1.0,
        colsample: float = 1.0,
        l2: float = 0.0,
        bins: int = 255,
        gain: str = "exp2",
        truncation: int = 30,
        sigmoid: float = 1.0,
        normalize: bool = True,
        early_stopping: int | None = 50,
        eval_metric: Any = "ndcg@10",
        engine_params: Mapping[str, Any] | None = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ):
        self.n_trees = n_trees
        self.n_leaves = n_leaves
        self.learning_rate = learning_rate
        self.min_docs_in_leaf = min_docs_in_leaf
        self.subsample = subsample
        self.colsample = colsample
        self.l2 = l2
        self.bins = bins
        self.gain = gain
        self.truncation = truncation
        self.sigmoid = sigmoid
        self.normalize = normalize
        self.early_stopping = early_stopping
        self.eval_metric = eval_metric
        self.engine_params = engine_params
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._engine_params(np.zeros(1))

    def _fit(self, data: RankingData, monitor: Monitor) -> None:
        self._refuse_long_queries(data)
        labels, gains = ranks_of_grades(data.y, self.gain)
        if monitor.valid is not None:
            monitor.patience = self.early_stopping
        self.booster_ = grow_trees(data, labels, self.n_trees, self._engine_params(gains), monitor)
        self.best_iteration_ = monitor.best_iteration

    def _engine_params(self, gains: Array) -> dict[str, Any]:
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
            also_owned={"gain": ("label_gain",), "another ranker": OBJECTIVE_NAMES,
                         "truncation": ("lambdarank_truncation_level",),
                        "sigmoid": ("sigmoid",), "normalize": ("lambdarank_norm",)},
            engine_params=self.engine_params,
        ) | {
            "objective": "lambdarank",
            "label_gain": gains.tolist(),
            "lambdarank_truncation_level": self.truncation,
            "sigmoid": float(self.sigmoid),
            "lambdarank_norm": bool(self.normalize),
        }  # fmt: skip

    def _predict(self, X: Any) -> Array:
        return np.asarray(self.booster_.predict(as_lightgbm(X), num_iteration=self.best_iteration_, raw_score=True))

    @property
    def feature_importances_(self) -> Array:
        self._check_fitted()
        return np.asarray(
            self.booster_.feature_importance(importance_type="gain", iteration=self.best_iteration_), dtype=np.float64
        )

    @staticmethod
    def _refuse_long_queries(data: RankingData) -> None:
        longest = int(np.argmax(data.counts))
        if data.counts[longest] > MOST_DOCUMENTS:
            raise DataError(
                f"query {data.query_ids[longest]} has {data.counts[longest]:,} documents; LightGBM's lambdarank takes "
                f"at most {MOST_DOCUMENTS:,} a query, so leave out those that never rank high"
            )

    def _pack(self) -> dict[str, Any]:
        return {
            "booster": self.booster_.model_to_string(num_iteration=self.best_iteration_, importance_type="gain"),
            "best_iteration": self.best_iteration_,
        }

    def _unpack(self, state: Mapping[str, Any]) -> None:
        import lightgbm as lgb

        self.booster_ = lgb.Booster(model_str=state["booster"])
        self.best_iteration_ = int(state["best_iteration"])


def ranks_of_grades(y: Array, gain: str) -> tuple[Array, Array]:
    """Labels 0, 1, … for the distinct grades in order, and the gain of each: all lambdarank looks at."""
    grades, labels = np.unique(y, return_inverse=True)
    if gain == "linear":
        gains = grades
    elif grades[-1] <= LARGEST_PLAIN_GRADE:
        gains = np.exp2(grades) - 1.0
    else:  # NDCG looks at ratios of gains only, so all may be divided by 2^(highest grade)
        gains = np.exp2(grades - grades[-1]) - np.exp2(-grades[-1])
    return labels.astype(np.float64), gains
