"""The promises every ranker keeps: scikit-learn conventions, one query id per row, scores in the order of the rows."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

import gainful
from gainful.compute.estimators import BaseEstimator, NotFittedError
from gainful.data.checks import warn_of
from gainful.data.dataset import Dataset, RankingData
from gainful.data.frames import as_features, refuse_dask, without_codes
from gainful.data.rows import Array, group_rows, linear_scores, refuse_infinite, value_blocks
from gainful.errors import (
    ClusterError,
    DataError,
    GainfulError,
    InterruptedFitWarning,
    ParameterError,
    UnknownNameError,
)
from gainful.errors.keywords import explains_keywords
from gainful.inputs.arguments import as_dataset, as_validation_data, is_dask, open_path
from gainful.metrics import Metric, metric
from gainful.metrics.value import measure_blocks
from gainful.parameters.constraints import DeclaredParameters, check_parameters, refuse_unknown_parameters
from gainful.parameters.space import Space
from gainful.training.checkpoint import Checkpoint, data_facts
from gainful.training.monitor import AFTER_FIT, Monitor, ProgressCallback


class Ranker(BaseEstimator):  # type: ignore[misc]
    """Base of all rankers. A subclass is a dataclass of :func:`parameter` fields and writes ``_fit`` and ``_predict``.

    ``_fit(data, monitor)`` trains on a :class:`RankingData` (on any :class:`Dataset`, where ``accepts_shards``),
    reporting each iteration to the monitor, which also holds the validation data. ``_predict(X)`` gives one score per
    row of a checked feature matrix. ``_pack`` and ``_unpack`` name what a model file has to hold.
    """

    parameters: ClassVar[Any] = DeclaredParameters()  # the constraint of each parameter, by name
    space: ClassVar[Space] = {}  # where tuning looks, by parameter
    accepts_missing: ClassVar[bool] = False
    resumes: ClassVar[bool] = False  # whether ``_fit`` goes on from, and writes, ``monitor.checkpoint``
    accepts_shards: ClassVar[bool] = False  # whether ``_fit`` takes data in many blocks
    accepts_codes: ClassVar[bool] = False  # uint8 and uint16 as they are; others get them as float32

    # The query id travels with the rows through scikit-learn's pipelines and searches without set-up by the user.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"qid": True}
    __metadata_request__score: ClassVar[dict[str, bool]] = {"qid": True}

    def __new__(cls, *_: Any, **params: Any) -> Self:
        refuse_unknown_parameters(cls, cls._get_param_names(), params)
        made: Self = super().__new__(cls)
        return made

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.accepts_missing
        return tags

    # -- training ------------------------------------------------------------------------------------------------------

    @explains_keywords
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        qid: Any = None,
        sample_weight: Any = None,
        eval_set: Any = None,
        progress: ProgressCallback | None = None,
        checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
        checkpoint_every: float = 60.0,
    ) -> Self:
        """Train.

        Parameters
        ----------
        X : array, CSR matrix or frame of shape (n_rows, n_features); or a RankingData, then without y and qid; or the
            path of a data file. Larger than memory or on a cluster: a ShardedData, a folder of shards, a list of files,
            or a Dask array or frame
        y : grades, (n_rows,); beside a Dask frame also the name of its column, as qid and sample_weight may be
        qid : query id of each row; rows of one query need not be adjacent
        sample_weight : one weight per row, equal within a query
        eval_set : validation data, ``(X, y, qid)``, a RankingData or a ShardedData, or a path or paths as for X
        progress : called after each iteration with a ``Progress``; returning True stops training
        checkpoint : file that says how far training is. Where it exists, training goes on from it, with the same
            result as if it had never stopped; it is deleted when training ends well. A :class:`gainful.Checkpoint` may
            say more
        checkpoint_every : seconds between two writes of the checkpoint

        Data that nothing can be learned from, or that is likely a mistake, gives a :class:`gainful.DataWarning` for
        each of the findings of :func:`gainful.check_data`.
        """
        self._check_parameters()
        data = self._as_data(X, y, qid, sample_weight, "X")
        monitor = Monitor(
            metric=self._validation_metric(),
            valid=self._validation_data(eval_set, data),
            callback=progress,
        )
        monitor.checkpoint = self._checkpoint(checkpoint, checkpoint_every, data, monitor.valid)
        warn_of(data, monitor.valid)
        try:
            self._fit(data, monitor)
        except ClusterError as error:
            monitor.save_journal()
            raise ClusterError(f"{error}; {_how_to_go_on(monitor.checkpoint)}") from error
        except BaseException:  # the last chance to keep what is known: Ctrl-C before there is a model, an error
            monitor.save_journal()
            raise
        if monitor.interrupted:
            monitor.save_journal()
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
                stacklevel=3,  # the caller of fit, behind its decorator
            )
        if monitor.checkpoint is not None and not monitor.interrupted:
            monitor.checkpoint.finish()
        for told in tuple(AFTER_FIT):
            told(self)
        return self

    def _checkpoint(self, where: Any, every: float, data: Any, valid: Any) -> Checkpoint | None:
        """The checkpoint of this training, opened; None where there shall be none."""
        if where is None:
            return None
        self._refuse_checkpoint()
        opened = where if isinstance(where, Checkpoint) else Checkpoint(where, every)
        # where the number of threads matters, _start_facts says what None means here
        params = {name: value for name, value in self._file_params().items() if name != "n_jobs"}
        facts: dict[str, Any] = {"class": type(self).__name__, "gainful": gainful.__version__, "params": params}
        facts |= {"data": data_facts(data), "validation data": None if valid is None else data_facts(valid)}
        opened.open(facts | self._start_facts(data))
        return opened

    def _refuse_checkpoint(self) -> None:
        """Raise where training cannot go on from a checkpoint."""
        if self.resumes:
            return
        from gainful.rankers.registry import RANKERS

        able = ", ".join(name for name, entry in RANKERS.items() if entry.cls.resumes)
        raise ParameterError(f"{type(self).__name__} writes no checkpoints, so give none; rankers that do: {able}")

    def _start_facts(self, data: Any) -> dict[str, Any]:
        """What else the result depends on, such as a model that training goes on from."""
        return {}

    def _validation_metric(self) -> Metric:
        """What ``eval_set`` is measured by."""
        return metric(getattr(self, "eval_metric", "ndcg@10"))

    def _fit(self, data: Any, monitor: Monitor) -> None:
        raise TypeError(f"{type(self).__name__} must say how to fit")

    def _predict(self, X: Any) -> Array:
        raise TypeError(f"{type(self).__name__} must say how to score")

    # -- use -----------------------------------------------------------------------------------------------------------

    @explains_keywords
    def predict(self, X: Any) -> Any:
        """Scores, higher is better, in the order of the rows given; of a Dask array or frame, a Dask array.

        X as ``fit`` takes it, paths included.
        """
        self._check_fitted()
        X = open_path(X)
        if is_dask(X):
            from gainful.cluster import predict_lazily

            return predict_lazily(self, X)
        if isinstance(X, Dataset) and X.whole is None:
            self._check_columns(X.n_features, X.feature_names)
            return np.concatenate(X.map(_scores_of, self))
        return np.asarray(self._predict(self._features_to_score(X)), dtype=np.float64)

    def _features_to_score(self, X: Any) -> Any:
        """The checked feature matrix of rows to score."""
        if isinstance(X, Dataset) and X.whole is not None:
            matrix, names = X.whole.X, X.feature_names
        else:
            matrix, names = as_features(X)
            refuse_infinite(matrix)
        self._check_columns(matrix.shape[1], names)
        self._refuse_missing(matrix, "X")
        return matrix if self.accepts_codes else without_codes(matrix)

    @explains_keywords
    def rank(self, X: Any, *, qid: Any = None) -> Array:
        """The rank of each row within its query, 1 = top, in the order of the rows given. Ties keep that order."""
        refuse_dask(X, "X")
        X = open_path(X)
        if isinstance(X, Dataset):
            if qid is not None:
                raise ParameterError(f"X is a {type(X).__name__}, which brings its own qid; give it alone")
            if X.whole is None:
                self._check_fitted()
                return np.concatenate(X.map(_ranks_of, self))
            qid = X.whole.qid
        scores = self.predict(X)
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

    @explains_keywords
    def score(self, X: Any, y: Any = None, sample_weight: Any = None, *, qid: Any = None) -> float:
        """Mean NDCG@10 over the queries (gainful's default conventions)."""
        data = as_dataset(X, y, qid, sample_weight, "X")
        self._check_fitted()
        return measure_blocks(metric("ndcg@10"), data, _scores_of, self)

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
        X = open_path(X)
        if isinstance(X, Dataset) and X.whole is None:
            raise DataError("contributions are as large as the data; ask for those of one block at a time")
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

    def _as_data(self, X: Any, y: Any, qid: Any, sample_weight: Any, what: str) -> Dataset:
        """The training data, in the form ``_fit`` takes."""
        data = self._checked(self._in_one_block(as_dataset(X, y, qid, sample_weight, what)), what)
        if data.n_features == 0:
            raise DataError(f"{what} has no features; a ranker needs at least one")
        if data.query_weights is not None and not data.query_weights.any():
            raise DataError(f"all queries of {what} weigh 0; at least one must count")
        return data

    def _validation_data(self, eval_set: Any, data: Dataset) -> Dataset | None:
        if eval_set is None:
            return None
        valid = self._in_one_block(as_validation_data(eval_set))
        if valid.n_features != data.n_features:
            raise DataError(f"eval_set has {valid.n_features} features, the training data has {data.n_features}")
        if None not in (valid.feature_names, data.feature_names) and valid.feature_names != data.feature_names:
            raise DataError("eval_set has other feature names than the training data")
        return self._checked(valid, "eval_set")

    def _in_one_block(self, data: Dataset) -> Dataset:
        """The data as one RankingData, unless the ranker accepts shards."""
        if data.whole is not None:
            return data.whole
        if self.accepts_shards:
            return data
        from gainful.rankers.registry import RANKERS

        able = ", ".join(name for name, entry in RANKERS.items() if entry.cls.accepts_shards)
        if not data.is_local:
            raise DataError(
                f"{type(self).__name__} needs its data in one piece and does not train on a cluster; train it from one "
                f"file without a cluster, or take one of {able}"
            )
        raise DataError(
            f"{type(self).__name__} needs its data in one piece, and these are {data.n_blocks} blocks; convert them to "
            f"one .gnf file, which is mapped rather than read into memory, or take one of {able}"
        )

    def _checked(self, data: Dataset, what: str) -> Dataset:
        """The data with values this ranker can compute with, or an error."""
        self._refuse_missing(data, what)
        return data if self.accepts_codes else data.without_codes()

    def _refuse_missing(self, X: Any, what: str) -> None:
        if self.accepts_missing:
            return
        missing = X.has_missing if isinstance(X, Dataset) else has_missing(X)
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


def _scores_of(data: RankingData, model: Ranker) -> Array:
    """What a model says of one block."""
    scores: Array = model.predict(data)
    return scores


def _ranks_of(data: RankingData, model: Ranker) -> Array:
    """The ranks that a model gives to the rows of one block."""
    return model.rank(data)


def _how_to_go_on(checkpoint: Checkpoint | None) -> str:
    """What to do when a cluster is lost."""
    if checkpoint is not None and checkpoint.path.exists():
        return f"the same call goes on from the checkpoint {checkpoint.path}"
    return "training has to start again; fit(…, checkpoint=FILE) keeps what it has reached"


def training_facts(data: Dataset, monitor: Monitor) -> dict[str, Any]:
    """What a model was trained and validated on, in numbers."""
    facts: dict[str, Any] = {
        "queries": data.n_queries,
        "rows": data.n_rows,
        "weighted": data.query_weights is not None,
        "lowest_grade": data.lowest_grade,
        "highest_grade": data.highest_grade,
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
    return any(bool(np.isnan(block).any()) for block in value_blocks(X))
