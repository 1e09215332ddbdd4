"""Estimators of other libraries in a comparison, each with its own idea of queries.

LightGBM takes the sizes of the queries (``group``), XGBoost a query id per row (``qid``), CatBoost too (``group_id``);
scikit-learn knows no queries. The names of the parameters of ``fit`` tell them apart, so that anything with the same
interface is trained the same way.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import numpy as np

from gainful.comparison.baselines import Baseline, checked_scores, numbers_of
from gainful.compute.estimators import clone, predict_lists
from gainful.data.categories import unordered, words_of_codes
from gainful.data.dataset import RankingData
from gainful.data.rows import Array
from gainful.errors import DataError, GainfulError, brief

# Parameters of LightGBM, XGBoost and CatBoost that make training stop early
STOPPING = (
    "early_stopping_rounds",
    "early_stopping_round",
    "early_stopping",
    "n_iter_no_change",
    "od_wait",
    "od_pval",
    "use_best_model",
)


CATBOOST_PAIRWISE = ("YetiRank", "YetiRankPairwise", "PairLogit", "PairLogitPairwise")  # no weights of documents


class OtherEstimator(Baseline):
    """An estimator of another library: trained on each fold, with queries and validation data as it takes them."""

    trained_here = True
    scores_features = True

    def __init__(self, estimator: Any):
        self.estimator = estimator

    def __sklearn_clone__(self) -> OtherEstimator:
        return OtherEstimator(_unfitted(self.estimator))

    @property
    def stops_early(self) -> bool:  # type: ignore[override]
        """Whether it needs validation data to stop training."""
        params = _params(self.estimator)
        callbacks = params.get("callbacks") or ()
        return bool({"eval_set", "eval_X"} & _fit_parameters(self.estimator)) and (
            any(params.get(name) for name in STOPPING) or any("EarlyStop" in type(one).__name__ for one in callbacks)
        )

    def fit(self, train: RankingData, eval_set: RankingData | None = None, progress: Any = None) -> OtherEstimator:
        if train.has_init_scores:
            raise DataError(f"the data has initial scores, which compare does not pass to {_name(self.estimator)}")
        if train.has_pairs:
            raise DataError(f"the data has preferences, which compare does not pass to {_name(self.estimator)}")
        valid = eval_set if self.stops_early else None
        steps = getattr(self.estimator, "steps", None)  # of a pipeline: the last step is the model
        prefix, last = (f"{steps[-1][0]}__", steps[-1][1]) if steps else ("", self.estimator)
        given = {}
        if train.categories is not None:
            given = category_arguments(self.estimator, train)
            valid = None if valid is None else valid.with_categories(train.categories)
            self._categories = train.categories
        given |= fit_arguments(last, train, valid)
        X = features_for(last, train)
        self.estimator.fit(X, train.y, **{f"{prefix}{name}": value for name, value in given.items()})
        return self

    def predict(self, data: RankingData) -> Array:
        known = getattr(self, "_categories", None)
        X = numbers_of(data) if known is None else features_for(self.estimator, data.with_categories(known))
        return checked_scores(scores_of(self.estimator, X, _query_numbers(data)), data)

    def get_params(self, deep: bool = False) -> dict[str, Any]:
        return {name: value for name, value in _params(self.estimator).items() if value is not None}


def category_arguments(estimator: Any, train: RankingData) -> dict[str, Any]:
    """What tells ``fit`` of an estimator which features are categories; XGBoost has a parameter for that instead."""
    places = unordered(train.categories)
    names = _fit_parameters(estimator)
    if "cat_features" in names:  # CatBoost
        return {"cat_features": places}
    if "categorical_feature" in names:  # LightGBM
        return {"categorical_feature": places}
    if "feature_types" in _params(estimator):  # XGBoost
        types = ["c" if j in places else "float" for j in range(train.n_features)]
        estimator.set_params(feature_types=types, enable_categorical=True)
        return {}
    name = (train.feature_names or ())[places[0]]
    raise DataError(f"feature {name!r} holds text, which compare does not pass to {_name(estimator)}")


def features_for(estimator: Any, data: RankingData) -> Any:
    """The features as an estimator takes them: CatBoost wants words, LightGBM and XGBoost their numbers."""
    if data.categories is None or "cat_features" not in _fit_parameters(estimator):
        return data.X
    X = data.X.astype(object)
    for j in unordered(data.categories):
        words = data.categories[j]
        assert words is not None
        X[:, j] = ["" if word is None else word for word in words_of_codes(data.X[:, j], words)]
    return X


def fit_arguments(estimator: Any, train: RankingData, valid: RankingData | None) -> dict[str, Any]:
    """What ``fit`` of an estimator takes besides X and y: queries, weights and validation data."""
    names = _fit_parameters(estimator)
    if "group_id" in names:
        _refuse_object_weights(estimator, train)
        return _as_catboost(estimator, train, valid)
    given: dict[str, Any] = {"sample_weight": train.row_weights} if "sample_weight" in names else {}
    if valid is not None:
        newer = "eval_X" in names  # LightGBM from 4.7
        given |= {"eval_X": valid.X, "eval_y": valid.y} if newer else {"eval_set": [(valid.X, valid.y)]}
    if "qid" in names:
        given |= _as_xgboost(train, valid, "eval_qid" in names)
    elif "group" in names:
        given |= _as_lightgbm(train, valid)
    return given


def _as_lightgbm(train: RankingData, valid: RankingData | None) -> dict[str, Any]:
    if valid is None:
        return {"group": train.counts}
    weights = {} if valid.row_weights is None else {"eval_sample_weight": [valid.row_weights]}
    return {"group": train.counts, "eval_group": [valid.counts], **weights}


def _as_xgboost(train: RankingData, valid: RankingData | None, weighs_queries: bool) -> dict[str, Any]:
    given: dict[str, Any] = {"qid": _query_numbers(train)}
    if weighs_queries:  # XGBoost has one weight per query
        if train.has_document_weights:
            query = brief(train.first_mixed_query())
            raise DataError(
                f"XGBoost weighs whole queries, but the weight differs between rows of query {query}; leave it out"
            )
        given["sample_weight"] = train.query_weights
    if valid is not None:
        weights = {} if valid.query_weights is None else {"sample_weight_eval_set": [valid.query_weights]}
        given |= {"eval_qid": [_query_numbers(valid)], **weights}
    return given


def _refuse_object_weights(estimator: Any, train: RankingData) -> None:
    """Raise for weights of documents that CatBoost would leave out of the loss."""
    loss = str(_params(estimator).get("loss_function", "")).partition(":")[0]
    if train.has_document_weights and loss in CATBOOST_PAIRWISE:
        raise DataError(
            f"CatBoost's {loss} weighs whole queries, but the weight differs between rows of query "
            f"{brief(train.first_mixed_query())}; leave it out, or set loss_function to QueryRMSE or QuerySoftMax"
        )


def _as_catboost(estimator: Any, train: RankingData, valid: RankingData | None) -> dict[str, Any]:
    weight = "sample_weight" if train.has_document_weights else "group_weight"  # those of a group are equal
    given: dict[str, Any] = {"group_id": _query_numbers(train), weight: train.row_weights}
    if valid is not None:  # only a pool of its own can hold the queries of validation data
        pool = import_module("catboost").Pool
        held = {} if valid.categories is None else {"cat_features": unordered(valid.categories)}
        given["eval_set"] = pool(
            features_for(estimator, valid), valid.y, group_id=_query_numbers(valid), **held,
            **{"weight" if valid.has_document_weights else "group_weight": valid.row_weights},
        )  # fmt: skip
    return given


def scores_of(estimator: Any, X: Any, qid: Array) -> Any:
    """The scores of an estimator: its predictions; of a classifier its decision values or the expected grade."""
    if hasattr(estimator, "decision_function"):
        decided = np.asarray(estimator.decision_function(X))
        if decided.ndim == 1:  # two classes
            return decided
    if hasattr(estimator, "predict_proba"):
        return np.asarray(estimator.predict_proba(X)) @ np.asarray(estimator.classes_, dtype=np.float64)
    if hasattr(estimator, "decision_function"):
        raise GainfulError(
            f"{_name(estimator)} separates several grades without probabilities, which gives no score; wrap it in "
            "sklearn.calibration.CalibratedClassifierCV, or use a regressor"
        )
    return predict_lists(estimator, X, qid)


def is_estimator(found: Any) -> bool:
    """Whether it can be trained and asked for scores."""
    return not isinstance(found, type) and hasattr(found, "fit") and hasattr(found, "predict")


def _query_numbers(data: RankingData) -> Array:
    """The number of each row's query."""
    return np.repeat(np.arange(data.n_queries), data.counts)


def _unfitted(estimator: Any) -> Any:
    """A copy with the same parameters, as scikit-learn makes it where that works."""
    try:
        return clone(estimator)
    except (TypeError, RuntimeError):  # no get_params, or parameters that change when they are set
        return copy.deepcopy(estimator)


def _params(estimator: Any) -> Mapping[str, Any]:
    found: Callable[..., Any] | None = getattr(estimator, "get_params", None)
    return {} if found is None else found(deep=False) if "deep" in inspect.signature(found).parameters else found()


def _fit_parameters(estimator: Any) -> frozenset[str]:
    return frozenset(inspect.signature(estimator.fit).parameters)


def _name(estimator: Any) -> str:
    return type(estimator).__name__
