"""The promises every ranker keeps: scikit-learn conventions, one query id per row, scores in the order of the rows."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from gainful.data import RankingData
from gainful.errors import DataError, GainfulError, InterruptedFitWarning, ParameterError, UnknownNameError
from gainful.frames import as_features, without_codes
from gainful.metrics import Metric, metric
from gainful.monitor import AFTER_FIT, Monitor, ProgressCallback
from gainful.parameters import Constraint, check_parameters
from gainful.rows import Array, group_rows, linear_scores, refuse_infinite
from gainful.space import Space


class Ranker(BaseEstimator):  # type: ignore[misc]
    """Base of all rankers. A subclass declares ``parameters`` and writes ``_fit`` and ``_predict``.

    ``_fit(data, monitor)`` trains on a :class:`RankingData`, reporting each iteration to the monitor, which also holds
    the validation data. ``_predict(X)`` gives one score per row of a checked feature matrix. ``_pack`` and ``_unpack``
    name what a model file has to hold.
    """

    parameters: ClassVar[Mapping[str, Constraint]] = {}
    space: ClassVar[Space] = {}  # where tuning looks, by parameter
    accepts_missing: ClassVar[bool] = False
    accepts_codes: ClassVar[bool] = False  # uint8 and uint16 as they are; others get them as float32

    # The query id travels with the rows through scikit-learn's pipelines and searches without set-up by the user.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"qid": True}
    __metadata_request__score: ClassVar[dict[str, bool]] = {"qid": True}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.accepts_missing
        return tags

    # -- training ------------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        qid: Any = None,
        sample_weight: Any = None,
        eval_set: Any = None,
        progress: ProgressCallback | None = None,
    ) -> Self:
        """Train.

        Parameters
        ----------
        X : array, CSR matrix or frame of shape (n_rows, n_features); or a RankingData, then without y and qid
        y : grades, (n_rows,)
        qid : query id of each row; rows of one query need not be adjacent
        sample_weight : one weight per row, equal within a query
        eval_set : validation data, ``(X, y, qid)`` or a RankingData
        progress : called after each iteration with a ``Progress``; returning True stops training
        """
        self._check_parameters()
        data = self._as_data(X, y, qid, sample_weight, "X")
        monitor = Monitor(
            metric=self._validation_metric(),
            valid=self._validation_data(eval_set, data),
            callback=progress,
        )
        self._fit(data, monitor)
        self.n_features_in_ = data.n_features
        if data.feature_names is not None:
            self.feature_names_in_ = np.array(data.feature_names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.history_ = monitor.history
        self.n_iter_ = len(monitor.history)
        self.interrupted_ = monitor.interrupted
        self.training_ = training_facts(data, monitor)
        self.__dict__.pop("metrics_", None)  # figures kept with a model file are those of that model
        if monitor.interrupted:
            warnings.warn(
                f"{type(self).__name__}: training was interrupted after iteration {self.n_iter_}; the model kept is "
                f"that of iteration {monitor.best_iteration}",
                InterruptedFitWarning,
                stacklevel=2,
            )
        for told in tuple(AFTER_FIT):
            told(self)
        return self

    def _validation_metric(self) -> Metric:
        """What ``eval_set`` is measured by."""
        return metric(getattr(self, "eval_metric", "ndcg@10"))

    def _fit(self, data: RankingData, monitor: Monitor) -> None:
        raise TypeError(f"{type(self).__name__} must say how to fit")

    def _predict(self, X: Any) -> Array:
        raise TypeError(f"{type(self).__name__} must say how to score")

    # -- use -----------------------------------------------------------------------------------------------------------

    def predict(self, X: Any) -> Array:
        """Scores, higher is better, in the order of the rows given."""
        self._check_fitted()
        return np.asarray(self._predict(self._features_to_score(X)), dtype=np.float64)

    def _features_to_score(self, X: Any) -> Any:
        """The checked feature matrix of rows to score."""
        if isinstance(X, RankingData):
            matrix, names = X.X, X.feature_names
        else:
            matrix, names = as_features(X)
            refuse_infinite(matrix)
        self._check_columns(matrix.shape[1], names)
        self._refuse_missing(matrix, "X")
        return matrix if self.accepts_codes else without_codes(matrix)

    def rank(self, X: Any, *, qid: Any = None) -> Array:
        """The rank of each row within its query, 1 = top, in the order of the rows given. Ties keep that order."""
        scores = self.predict(X)
        if isinstance(X, RankingData):
            if qid is not None:
                raise ParameterError("X is a RankingData, which brings its own qid; give it alone")
            qid = X.qid
        order, offsets, _ = group_rows(qid, len(scores))
        grouped = scores if order is None else scores[order]
        query = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        best_first = np.lexsort((-grouped, query))
        ranks = np.empty(len(scores), dtype=np.int64)
        ranks[best_first] = np.arange(len(scores)) - offsets[:-1][query] + 1
        if order is None:
            return ranks
        restored = np.empty_like(ranks)
        restored[order] = ranks
        return restored

    def score(self, X: Any, y: Any = None, sample_weight: Any = None, *, qid: Any = None) -> float:
        """Mean NDCG@10 over the queries (gainful's default conventions)."""
        data = self._as_data(X, y, qid, sample_weight, "X")
        return metric("ndcg@10")(self.predict(data), data)

    # -- explanation ---------------------------------------------------------------------------------------------------

    def contributions(self, X: Any) -> Array:
        """What each feature adds to each score, (n_rows, n_features + 1); the last column is the base.

        A row sums to the score that :meth:`predict` gives. Linear rankers: w_j x_j, base the intercept. Boosted trees:
        SHAP values, base the mean score. Sums of step functions: the steps of each feature, base 0. Other rankers
        refuse.
        """
        self._check_fitted()
        reason = self._why_no_contributions()
        if reason is not None:
            raise GainfulError(reason)
        return np.asarray(self._contributions(self._features_to_score(X)), dtype=np.float64)

    def _why_no_contributions(self) -> str | None:
        """The line that refuses contributions; None where there are some."""
        return (
            f"a score of {type(self).__name__} is no sum over features, so it has no contributions; linear rankers, "
            "boosted trees, RankBoost and FRank have them"
        )

    def _contributions(self, X: Any) -> Any:
        raise TypeError(f"{type(self).__name__} must say what its features contribute")

    # -- checks --------------------------------------------------------------------------------------------------------

    def set_params(self, **params: Any) -> Self:
        known = self.get_params(deep=False)
        for name in params:
            if name.partition("__")[0] not in known:
                raise UnknownNameError.among(f"parameter of {type(self).__name__}", name, known)
        super().set_params(**params)
        return self

    def _check_parameters(self) -> None:
        check_parameters(type(self).__name__, self.parameters, self.get_params(deep=False))

    def _search_space(self) -> Space:
        """The part of ``space`` that matters with the other parameters as they are."""
        return self.space

    def _check_fitted(self) -> None:
        if not hasattr(self, "n_features_in_"):
            raise NotFittedError(f"this {type(self).__name__} is not trained yet; call fit first")

    def _check_columns(self, n_features: int, names: tuple[str, ...] | None) -> None:
        if n_features != self.n_features_in_:
            raise DataError(
                f"X has {n_features} features, but {type(self).__name__} was trained with {self.n_features_in_}"
            )
        trained = getattr(self, "feature_names_in_", None)
        if names is None or trained is None or tuple(trained) == names:
            return
        place = next(i for i, (a, b) in enumerate(zip(trained, names, strict=True)) if a != b)
        raise DataError(
            f"feature {place + 1} of X is {names[place]!r}, but {type(self).__name__} was trained with "
            f"{trained[place]!r} there; give the columns in the order of training"
        )

    def _as_data(self, X: Any, y: Any, qid: Any, sample_weight: Any, what: str) -> RankingData:
        if isinstance(X, RankingData):
            if y is not None or qid is not None or sample_weight is not None:
                raise ParameterError(f"{what} is a RankingData, which brings its own y, qid and weights; give it alone")
            data = X
        else:
            if y is None:
                raise DataError("y is missing; ranking needs the grade of every row")
            data = RankingData.from_rows(X, y, qid, sample_weight=sample_weight)
        if data.n_features == 0:
            raise DataError(f"{what} has no features; a ranker needs at least one")
        self._refuse_missing(data, what)
        return self._as_stored(data)

    def _as_stored(self, data: RankingData) -> RankingData:
        X = data.X if self.accepts_codes else without_codes(data.X)
        return data if X is data.X else data.replace(X=X)

    def _validation_data(self, eval_set: Any, data: RankingData) -> RankingData | None:
        if eval_set is None:
            return None
        if isinstance(eval_set, list) and len(eval_set) == 1:
            eval_set = eval_set[0]
        if isinstance(eval_set, RankingData):
            valid = eval_set
        elif isinstance(eval_set, (tuple, list)) and len(eval_set) == 3:
            valid = RankingData.from_rows(*eval_set)
        else:
            raise ParameterError.of("fit", "eval_set", "(X, y, qid) or a RankingData", type(eval_set).__name__)
        if valid.n_features != data.n_features:
            raise DataError(f"eval_set has {valid.n_features} features, the training data has {data.n_features}")
        if None not in (valid.feature_names, data.feature_names) and valid.feature_names != data.feature_names:
            raise DataError("eval_set has other feature names than the training data")
        self._refuse_missing(valid, "eval_set")
        return self._as_stored(valid)

    def _refuse_missing(self, X: Any, what: str) -> None:
        if self.accepts_missing:
            return
        missing = X.has_missing if isinstance(X, RankingData) else has_missing(X)
        if missing:
            raise DataError(
                f"{what} has missing values (NaN), which {type(self).__name__} cannot take; fill them in, or choose a "
                "tree ranker such as lambdamart"
            )

    def _facts(self) -> dict[str, Any]:
        """What a person who trained this would like to be told, beside the figures."""
        return {}

    # -- model files ---------------------------------------------------------------------------------------------------

    def _file_params(self) -> dict[str, Any]:
        """Parameters as a model file holds them."""
        return dict(self.get_params(deep=False))

    def _preprocessing(self) -> dict[str, Any]:
        """What ``predict`` does to features before it scores them: name → formula; a model file tells it to people."""
        return {}

    def _pack(self) -> dict[str, Any]:
        """Fitted state by name: numbers, texts, lists (JSON) and arrays."""
        raise TypeError(f"{type(self).__name__} must say what a model file holds")

    def _unpack(self, state: Mapping[str, Any]) -> None:
        """Take back what :meth:`_pack` gave; ``n_features_in_`` is known. What does not fit together raises."""
        raise TypeError(f"{type(self).__name__} must say how to read a model file")


class LinearScores:
    """Scores X·coef_ + intercept_, for rankers that are linear in the features."""

    coef_: Array
    intercept_: float
    n_features_in_: int

    def _predict(self, X: Any) -> Array:
        return linear_scores(X, self.coef_) + self.intercept_

    def _why_no_contributions(self) -> str | None:
        return None

    def _contributions(self, X: Any) -> Array:
        parts = np.empty((X.shape[0], len(self.coef_) + 1))
        parts[:, :-1] = X if isinstance(X, np.ndarray) else X.toarray()
        parts[:, :-1] *= self.coef_
        parts[:, -1] = self.intercept_
        return parts

    def _pack(self) -> dict[str, Any]:
        return {"coef": self.coef_, "intercept": self.intercept_}

    def _unpack(self, state: Mapping[str, Any]) -> None:
        self.coef_ = stored_array(state, "coef", (self.n_features_in_,))
        self.intercept_ = float(state["intercept"])


def training_facts(data: RankingData, monitor: Monitor) -> dict[str, Any]:
    """What a model was trained and validated on, in numbers."""
    facts: dict[str, Any] = {
        "queries": data.n_queries,
        "rows": data.n_rows,
        "weighted": data.query_weights is not None,
        "lowest_grade": float(data.y.min()),
        "highest_grade": float(data.y.max()),
    }
    if monitor.valid is not None:
        facts["validation"] = {
            "metric": str(monitor.metric),
            "queries": monitor.valid.n_queries,
            "best": float(monitor.best_value) if np.isfinite(monitor.best_value) else None,
            "iteration": monitor.best_iteration,
        }
    return facts


def stored_array(state: Mapping[str, Any], name: str, shape: tuple[int | None, ...], dtype: Any = np.float64) -> Array:
    """An array of a model file as ``dtype`` (None: as it is), of this shape (None: any length), all of it finite."""
    array = np.asarray(state[name], dtype=dtype)
    fits = array.ndim == len(shape) and all(want in (None, had) for want, had in zip(shape, array.shape, strict=True))
    if array.dtype.kind not in "fiub" or not fits:
        raise ValueError(f"{name} has not the shape that the model needs")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds numbers that are infinite or none")
    return array


def has_missing(X: Any) -> bool:
    """Whether a checked feature matrix holds NaN."""
    values = X if isinstance(X, np.ndarray) else X.data
    with np.errstate(over="ignore", invalid="ignore"):
        total = values.sum()
    return bool(np.isnan(total)) and bool(np.isnan(values).any())
