"""The base of all rankers: scikit-learn conventions, one query id per row, scores in row order."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from typing import Any, ClassVar, Self

import numpy as np

import gainful
from gainful.compute.estimators import BaseEstimator, NotFittedError, get_config
from gainful.compute.memory import memory_limit
from gainful.compute.threads import one_blas_thread
from gainful.data.categories import Categories, numbers_of_words, only_ordered, recode, unordered
from gainful.data.checks import skips_checks, warn_about_data
from gainful.data.dataset import Dataset, RankingData
from gainful.data.frames import features_of, refuse_dask, select_columns, without_codes
from gainful.data.limits import refuse_extremes, refuse_infinite_scores, refuse_large_features, refuse_tiny_features
from gainful.data.rows import Array, FeatureFacts, group_rows, query_of_rows, scan_features
from gainful.data.size import DataSize
from gainful.debiasing.debias import COPIES, LISTS, RATES, Correction, find_correction
from gainful.debiasing.settings import Debias
from gainful.display.progress import callback_of
from gainful.errors import (
    ClusterError,
    DataError,
    DataWarning,
    GainfulError,
    InterruptedFitWarning,
    ParameterError,
    UnknownNameError,
    ValidationWarning,
    brief,
    plural,
    wording,
)
from gainful.errors.keywords import explain_keywords
from gainful.inputs.arguments import as_dataset, as_validation_data, is_dask, open_path, with_init_scores
from gainful.losses import LOSSES
from gainful.metrics import Metric, metric
from gainful.metrics.conventions import PAIR_METRIC
from gainful.metrics.value import measure_blocks
from gainful.parameters.constraints import (
    DeclaredParameters,
    InitSignature,
    check_parameters,
    refuse_unknown_parameters,
)
from gainful.parameters.space import Space
from gainful.rankers.memory import check_click_memory, check_memory
from gainful.rankers.scorers import Linear, Scorer, scores_of_lists
from gainful.rankers.summary import html_of
from gainful.training.checkpoint import Checkpoint, data_facts
from gainful.training.history import History
from gainful.training.monitor import Monitor, ProgressCallback, call_after_fit, is_part_of_a_fit
from gainful.training.validation import NamedSets

FEW_QUERIES = 30  # to choose an iteration by: docs/trees.md has the simulation
USUAL_METRIC = "ndcg@10"  # where the user names none; PAIR_METRIC on preferences


class Ranker(BaseEstimator):  # type: ignore[misc]
    """Base of all rankers. A subclass is a dataclass of :func:`parameter` fields with ``_fit`` and ``_scorer``.

    ``_fit(data, monitor)`` trains on a :class:`RankingData` (on any :class:`Dataset` if ``accepts_shards``) and reports
    each iteration to the monitor, which also holds the validation data. ``_scorer()`` says how the fitted model scores
    (:mod:`gainful.rankers.scorers`); predictions, contributions and exports follow from it. ``_pack`` and ``_unpack``
    give a model file what it holds.
    """

    parameters: ClassVar[Any] = DeclaredParameters()  # the constraint of each parameter, by name
    space: ClassVar[Space] = {}  # the search space of tuning, by parameter
    accepts_missing: ClassVar[bool] = False
    accepts_categories: ClassVar[bool] = False  # features of text
    resumes: ClassVar[bool] = False  # whether ``_fit`` writes ``monitor.checkpoint`` and resumes from it
    validation_parameter: ClassVar[str] = "eval_metric"  # the name of the metric that stops training, if it has one
    joins_validation: ClassVar[bool] = False  # whether it trains on the queries of ``eval_set`` too
    budget_parameters: ClassVar[tuple[str, ...]] = ()  # which a training resumed from a checkpoint may change
    accepts_shards: ClassVar[bool] = False  # whether ``_fit`` accepts data in several blocks
    accepts_codes: ClassVar[bool] = False  # uint8 and uint16 unchanged; other rankers get float32
    weighs_documents: ClassVar[bool] = False  # rather than whole queries only; see ``_weighs_documents``
    accepts_init_scores: ClassVar[bool] = False  # scores that training starts from; see ``_accepts_init_scores``
    accepts_pairs: ClassVar[bool] = False  # preferences instead of grades; see ``_accepts_pairs``
    learns_clicks: ClassVar[bool] = True  # clicks with positions or propensities instead of grades
    settings_for_pairs: ClassVar[Mapping[str, str]] = {}  # what must be set to learn from preferences
    uses_blas: ClassVar[bool] = False  # for products of large matrices, on all its threads
    cost_without_validation: ClassVar[str | None] = None  # NDCG@10, of rankers that overfit unless they stop early
    needs_queries: ClassVar[bool] = False  # whether a score depends on the other documents of the query
    row_bytes: ClassVar[float] = 56  # that training keeps for each row: grades, order, scores, gradients

    # scikit-learn's pipelines and searches pass the query id along with the rows, without set-up by the user.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"qid": True}
    __metadata_request__score: ClassVar[dict[str, bool]] = {"qid": True}
    __metadata_request__predict: ClassVar[dict[str, bool]] = {"qid": True}

    __signature__: ClassVar[Any] = InitSignature()

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

    @explain_keywords
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        qid: Any = None,
        group: Any = None,
        sample_weight: Any = None,
        init_score: Any = None,
        pairs: Any = None,
        position: Any = None,
        propensity: Any = None,
        debias: str | Debias | None = None,
        eval_set: Any = None,
        eval_init_score: Any = None,
        progress: ProgressCallback | bool | None = None,
        checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
        checkpoint_every: float = 60.0,
        max_bytes: int | str | None = None,
    ) -> Self:
        """Train.

        Parameters
        ----------
        X : array, CSR matrix or frame of shape (n_rows, n_features); or a RankingData, then without y and qid; or the
            path of a data file. For data larger than memory or on a cluster: a ShardedData, a folder of shards, a list
            of files, or a Dask array or frame
        y : grades, (n_rows,); with a Dask frame also the name of a column, as for qid and sample_weight
        qid : query id of each row; rows of one query need not be adjacent
        group : instead of qid, the number of rows of each query, if rows of a query are adjacent
        sample_weight : one weight per row. Their mean is the weight of the query; their ratios within a query are the
            weights of its documents, which rankers refuse whose loss does not define them
        init_score : one score per row that training starts from. The model is what training adds: ``predict`` returns
            scores *without* these, so add them yourself
        pairs : instead of y, preferences: (better, worse) or (better, worse, weight) for each pair of rows of one
            query, as row numbers of X from 0; or a frame with these columns. For losses on pairs. Validation data
            with preferences is a RankingData; the default metric on it is "pair-accuracy"
        position : if y has clicks (0 or 1, or rates with impressions as sample_weight), the position in which each row
            was shown, from 1; 0 if it was not shown. Training learns how often positions are examined, and corrects
            for it
        propensity : if y has clicks, the probability that each row was examined; or a fitted click model, which has one
            for each position
        debias : how to correct clicks, such as "ipw(clip=0.05)", "em", "pairwise" or "naive"; see
            :class:`gainful.Debias`. By default "ipw" with ``propensity``, otherwise "em"
        eval_set : validation data, ``(X, y, qid)``, or ``(X, y, group)`` if the training data has group; a RankingData
            or a ShardedData; a path or paths as for X; or a mapping from names to such data. The first decides when
            training stops; ``history_`` has the metric on each. Its y are grades, also if the training data has clicks;
            to validate on clicks, give a RankingData with positions or propensities
        eval_init_score : the initial scores of ``eval_set``, needed if there is ``init_score``; for several sets a
            mapping. The metric is that of these plus what the model adds
        progress : True for a progress bar, in notebooks too; or a function, called with a ``Progress`` after each
            iteration: returning True stops training
        checkpoint : file that records the progress of training. If it exists, training resumes from it, with the same
            result as without the interruption; it is deleted when training succeeds. A :class:`gainful.Checkpoint` has
            more settings
        checkpoint_every : seconds between two writes of the checkpoint
        max_bytes : memory that training may take besides the data, such as "8GB"; "off" for no limit. By default
            what the process may still take. Training that needs clearly more is refused, with what would fit

        Data that gives nothing to learn, or that looks like a mistake, raises a :class:`gainful.DataWarning` for each
        finding of :func:`gainful.check_data`.
        """
        self._check_parameters()
        clicks = {"position": position, "propensity": propensity}
        given = self._as_data(X, y, qid, sample_weight, "X", group, init_score, pairs, clicks)
        by_group, correction = group is not None, self._find_correction(given, debias, max_bytes)
        data = given if correction is None else correction.apply_to_training(given, self._form_of_clicks())
        self._check_training_columns(data)
        eval_set = with_init_scores(eval_set, eval_init_score, by_group, data.feature_names)
        sets = self._named_sets(eval_set, data, by_group) if isinstance(eval_set, Mapping) else None
        monitor = Monitor(
            metric=self._validation_metric(),
            valid=self._validation_data(eval_set, data, by_group) if sets is None else sets.joined,
            sets=sets,
        )
        held = monitor.valid if sets is None else sets.first
        if monitor.valid is not None and monitor.valid.has_clicks:
            monitor.valid = self._correct_validation(monitor.valid, correction, sets)
        elif monitor.valid is not None and correction is not None:
            _warn_if_grades_may_be_clicks(monitor.valid)
        if monitor.valid is not None and monitor.valid.has_pairs:
            monitor.metric = self._metric_of_pairs(monitor.metric)
        if sets is not None and checkpoint is not None:
            raise ParameterError("a checkpoint holds one eval_set; give the first alone, or leave out checkpoint")
        check_memory(self, data, monitor.valid, max_bytes)
        monitor.checkpoint = self._checkpoint(checkpoint, checkpoint_every, data, monitor.valid)
        warn_about_data(given, held)
        idle = self._why_idle(data)
        if idle is not None:
            warnings.warn(idle, DataWarning, stacklevel=3)  # the caller of fit, behind its decorator
        try:
            blas = nullcontext() if self.uses_blas else one_blas_thread()
            with memory_limit(max_bytes), blas, callback_of(progress, "fit") as monitor.callback:
                self._fit(_without_equal_weights(data), monitor)  # both limits hold for trainings inside this one, too
        except ClusterError as error:
            monitor.save_journal()
            raise ClusterError(f"{error}; {_how_to_resume(monitor.checkpoint)}") from error
        except BaseException:  # the last chance to save: Ctrl-C before the first model, or an error
            monitor.save_journal()
            raise
        if monitor.interrupted:
            monitor.save_journal()
        self.n_features_in_ = data.n_features
        if data.feature_names is not None:
            self.feature_names_in_ = np.array(data.feature_names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.categories_ = data.categories
        self.history_ = History(monitor.history, metric=monitor.metric.name)
        self.n_iter_ = len(monitor.history)
        self.interrupted_ = monitor.interrupted
        self.training_ = training_facts(data, monitor) | ({} if correction is None else correction.facts())
        note = self._note_on_validation()
        if note is not None and not skips_checks():
            warnings.warn(note, ValidationWarning, stacklevel=3)  # the caller of fit, behind its decorator
        self.__dict__.pop("metrics_", None)  # the figures of a loaded model file are not those of this fit
        if monitor.interrupted:
            warnings.warn(
                f"{type(self).__name__}: training was interrupted after iteration {self.n_iter_}; the model kept is "
                f"that of iteration {monitor.best_iteration}",
                InterruptedFitWarning,
                stacklevel=3,  # the caller of fit, behind its decorator
            )
        if monitor.checkpoint is not None and not monitor.interrupted:
            monitor.checkpoint.finish()
        call_after_fit(self)
        return self

    def _checkpoint(self, where: Any, every: float, data: Any, valid: Any) -> Checkpoint | None:
        """The open checkpoint of this training, if one was requested."""
        if where is None:
            return None
        self._refuse_checkpoint()
        opened = where if isinstance(where, Checkpoint) else Checkpoint(where, every)
        # if the number of threads matters, _start_facts resolves None
        left_out = ("n_jobs", *self.budget_parameters)
        params = {name: value for name, value in self._file_params().items() if name not in left_out}
        facts: dict[str, Any] = {"class": type(self).__name__, "gainful": gainful.__version__, "params": params}
        facts |= {"data": data_facts(data), "validation data": None if valid is None else data_facts(valid)}
        opened.open(facts | self._start_facts(data))
        return opened

    def _note_on_validation(self) -> str | None:
        """What the fitted model lost for want of validation queries, if it is one that stops early by them."""
        patience, name = getattr(self, "early_stopping", None), type(self).__name__
        if patience is None or self.cost_without_validation is None or self.interrupted_:
            return None
        if "validation" not in self.training_:
            if self.n_iter_ <= patience:
                return None
            split = "train, valid = gainful.split(data, (0.8, 0.2)) and eval_set=valid"
            how = wording(split, "gainful data convert DATA FOLDER --split 0.8,0.2 and --valid")
            return (
                f"{name} kept all {self.n_iter_} iterations, which lost {self.cost_without_validation} NDCG@10 on real "
                f"data: early_stopping needs validation data; {how} hold a fifth of the queries out"
            )
        n = self.training_["validation"]["queries"]
        if n >= FEW_QUERIES or self.training_["validation"]["iteration"] == self.n_iter_:
            return None
        return (
            f"{plural(n, 'validation query', 'validation queries')} chose the iteration of {name}, largely by chance; "
            f"give {FEW_QUERIES} or more, choose it by gainful.tune with folds, or set early_stopping=None"
        )

    def _refuse_checkpoint(self) -> None:
        """Raise if training cannot resume from a checkpoint."""
        if self.resumes:
            return
        from gainful.rankers.registry import RANKERS

        able = ", ".join(name for name, entry in RANKERS.items() if entry.cls.resumes)
        raise ParameterError(
            f"{type(self).__name__} does not write checkpoints; leave out checkpoint, or use one of {able}"
        )

    def _start_facts(self, data: Any) -> dict[str, Any]:
        """What else the result depends on, such as the model that training continues from."""
        return {}

    def _weighs_documents(self) -> bool:
        """Whether training with these parameters takes weights that differ within a query."""
        return self.weighs_documents

    def _accepts_init_scores(self) -> bool:
        """Whether training with these parameters can start from given scores."""
        return self.accepts_init_scores

    def _accepts_pairs(self) -> bool:
        """Whether training with these parameters can use preferences instead of grades."""
        return self.accepts_pairs

    def _metric_of_pairs(self, chosen: Metric) -> Metric:
        """The metric on validation data with preferences: the one chosen, or another instead of the default."""
        if chosen.accepts_pairs:
            return chosen
        if chosen == metric(USUAL_METRIC):
            return metric(PAIR_METRIC)
        name = self.validation_parameter
        python, command_line = f"{name}='{PAIR_METRIC}'", f"--set {name}={PAIR_METRIC}"
        raise DataError(
            f"{chosen.name} needs grades, but {wording('eval_set', 'the validation data')} has preferences; pass "
            f"{wording(python, command_line)}"
        )

    def _why_idle(self, data: Dataset) -> str | None:
        """Why training on this data can learn nothing, if so, besides what ``check_data`` finds for all rankers."""
        return None

    def _validation_metric(self) -> Metric:
        """The metric on ``eval_set``."""
        return metric(getattr(self, "eval_metric", USUAL_METRIC))

    def _training_bytes(self, size: DataSize) -> float:
        """About what ``_fit`` needs besides the data, in bytes at its peak: by default a few numbers per row."""
        return self.row_bytes * (size.rows + size.valid_rows)

    def _smaller_trainings(self, size: DataSize, room: float) -> Iterator[tuple[str, float]]:
        """Parameters with which this ranker needs less memory, in words, and the bytes it then needs."""
        return iter(())

    def _fit(self, data: Any, monitor: Monitor) -> None:
        raise TypeError(f"{type(self).__name__} must define _fit")

    def _scorer(self) -> Scorer:
        """How the fitted model scores."""
        name = type(self).__name__
        raise GainfulError(f"{name} does not say how it scores; give it a method _scorer (see gainful.rankers.scorers)")

    def _predict(self, X: Any) -> Array:
        """Scores of the rows, each by itself."""
        return self._scorer().scores(X)

    # -- use -----------------------------------------------------------------------------------------------------------

    @explain_keywords
    def predict(self, X: Any, *, qid: Any = None, group: Any = None) -> Any:
        """Scores, higher is better, in row order; a Dask array for a Dask array or frame.

        X is what ``fit`` accepts, paths included. If the model knows its features by name, the columns of a frame are
        found by name: their order is free, and other columns do not matter. ``qid`` and ``group`` are as in
        :meth:`fit`. Rankers with ``needs_queries`` need one of them, unless X brings its queries; others score each row
        by itself, and ignore them.
        """
        self._check_fitted()
        X = open_path(X, self._trained_names())
        if is_dask(X):
            from gainful.cluster import predict_lazily

            if self.needs_queries:
                raise DataError(
                    f"{type(self).__name__} scores the documents of a query together, and a Dask array or frame may "
                    "divide a query; open the files with gainful.open_shards, or score one RankingData at a time"
                )
            return predict_lazily(self, X)
        if isinstance(X, Dataset) and (qid is not None or group is not None):
            raise ParameterError(f"X is a {type(X).__name__}, which brings its own qid; give it alone")
        if isinstance(X, Dataset) and X.whole is None:
            self._check_columns(X.n_features, X.feature_names)
            return np.concatenate(X.map(_scores_of, self))
        matrix = self._features_to_score(X)
        if matrix.shape[0] == 0:
            return np.empty(0)
        with np.errstate(over="ignore", invalid="ignore"):  # an overflow is reported for the score that it spoils
            lists = self._lists(X, qid, group, matrix.shape[0]) if self.needs_queries else None
            scores = np.asarray(self._predict(matrix) if lists is None else self._predict_lists(matrix, *lists))
        scores = scores.astype(np.float64, copy=False)
        refuse_infinite_scores(scores)
        return scores

    def _predict_lists(self, X: Any, order: Array | None, offsets: Array) -> Array:
        """Scores in row order of documents that are scored together; ``order`` and ``offsets`` of :meth:`_lists`."""
        if order is None:
            return scores_of_lists(self._scorer(), X, offsets)
        return _in_row_order(scores_of_lists(self._scorer(), X[order], offsets), order)

    def _lists(self, X: Any, qid: Any, group: Any, n_rows: int) -> tuple[Array | None, Array]:
        """The order that groups the rows by query (None: they are), and the offsets of the queries."""
        if isinstance(X, Dataset):
            assert X.whole is not None
            return None, X.whole.offsets
        if qid is None and group is None:
            raise DataError(
                f"qid is missing; {type(self).__name__} scores the documents of a query together, so it needs the "
                "query of each row: predict(X, qid=qid), or a RankingData"
            )
        order, offsets, _ = group_rows(query_of_rows(qid, group, n_rows), n_rows)
        return order, offsets

    def _features_to_score(self, X: Any, what: str = "X") -> Any:
        """The feature matrix of rows to score, checked."""
        trained = getattr(self, "categories_", None)
        whole = X.whole if isinstance(X, Dataset) else None
        if whole is not None:
            self._check_columns(whole.n_features, whole.feature_names)
            whole = self._own_columns(whole)
            own = self._own_categories(None, whole.feature_names) if whole.categories is None else None
            if own is not None:
                whole = whole.replace(categories=own)
            whole = whole.with_categories(trained, what)
            given, names = whole.X, whole.feature_names
        else:
            given, names, categories = features_of(self._named_columns(X, what), what)
            self._check_columns(given.shape[1], names)
            given = recode(given, self._own_categories(categories, names), trained, what, names)
        matrix = self._choose_columns(given, names)
        facts = scan_features(matrix) if whole is None or matrix is not given else whole.feature_facts
        refuse_large_features(facts, names if matrix is given else None, what)
        self._refuse_missing(facts, what)
        return matrix if self.accepts_codes else without_codes(matrix)

    def _trained_names(self) -> list[str] | None:
        """The features to read from a table, if training knew them by name."""
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else [str(name) for name in names]

    def _named_columns(self, X: Any, what: str = "X") -> Any:
        """The columns of a frame in memory that the model knows by name; anything else unchanged."""
        return X if is_dask(X) else select_columns(X, self._trained_names(), what, self._use_of_features())

    def _use_of_features(self) -> str:
        """The end of "X has no feature 'price', which …"."""
        return f"{type(self).__name__} was trained with"

    def _own_categories(self, found: Categories | None, names: tuple[str, ...] | None) -> Categories | None:
        """The categories of a frame; in one without text, a feature that held text in training is refused."""
        trained = getattr(self, "categories_", None)
        return (None,) * self.n_features_in_ if found is None and names is not None and trained is not None else found

    @explain_keywords
    def rank(self, X: Any, *, qid: Any = None, group: Any = None) -> Array:
        """The rank of each row within its query, 1 = top, in row order. Ties keep that order.

        ``qid`` and ``group`` as in :meth:`fit`.
        """
        refuse_dask(X, "X")
        X = open_path(X, self._trained_names())
        if isinstance(X, Dataset):
            if qid is not None or group is not None:
                raise ParameterError(f"X is a {type(X).__name__}, which brings its own qid; give it alone")
            if X.whole is None:
                self._check_fitted()
                return np.concatenate(X.map(_ranks_of, self))
            qid, scores = X.whole.qid, self.predict(X)
        else:
            scores = self.predict(X, qid=qid, group=group)
        order, offsets, _ = group_rows(query_of_rows(qid, group, len(scores)), len(scores))
        grouped = scores if order is None else scores[order]
        query = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        best_first = np.lexsort((-grouped, query))
        ranks = np.empty(len(scores), dtype=np.int64)
        ranks[best_first] = np.arange(len(scores)) - offsets[:-1][query] + 1
        return ranks if order is None else _in_row_order(ranks, order)

    @explain_keywords
    def score(self, X: Any, y: Any = None, sample_weight: Any = None, *, qid: Any = None, group: Any = None) -> float:
        """Mean NDCG@10 over the queries (gainful's default conventions). ``qid`` and ``group`` as in :meth:`fit`.

        A RankingData with preferences is measured by ``pair-accuracy`` instead.

        Weights of single documents do not count, only their mean, the weight of the query. A RankingData with
        ``init_scores`` is ranked by these plus the scores of the model.
        """
        self._check_fitted()
        data = as_dataset(self._named_columns(X), y, qid, sample_weight, "X", group, self._trained_names())
        return measure_blocks(usual_metric(data), data, _ranking_scores_of, self)

    # -- explanation ---------------------------------------------------------------------------------------------------

    def contributions(self, X: Any) -> Array:
        """What each feature adds to each score, (n_rows, n_features + 1); the last column is the base.

        Each row sums to the score from :meth:`predict`. Linear rankers: w_j x_j, and the intercept as base. Boosted
        trees: SHAP values, and the mean score as base. Sums of step functions: the steps of each feature, base 0.
        Other rankers raise an error.
        """
        self._check_fitted()
        reason = self._why_no_contributions()
        if reason is not None:
            raise GainfulError(reason)
        X = open_path(X, self._trained_names())
        if isinstance(X, Dataset) and X.whole is None:
            raise DataError("contributions are as large as the data; compute them for one block at a time")
        return np.asarray(self._scorer().contributions(self._features_to_score(X)), dtype=np.float64)

    def _why_no_contributions(self) -> str | None:
        """Why there are no contributions, in one line; None if there are."""
        if self._scorer().additive:
            return None
        return (
            f"a score of {type(self).__name__} is not a sum over features, so it has no contributions; linear rankers, "
            "boosted trees, RankBoost and FRank have them"
        )

    # -- checks --------------------------------------------------------------------------------------------------------

    def set_params(self, **params: Any) -> Self:
        known = self.get_params(deep=False)
        for name in params:
            if name.partition("__")[0] not in known:
                raise UnknownNameError.among("parameter", name, known, owner=type(self).__name__)
        super().set_params(**params)
        return self

    def _check_parameters(self) -> None:
        check_parameters(type(self).__name__, self.parameters, self.get_params(deep=False))

    def _search_space(self) -> Space:
        """The part of ``space`` that matters given the other parameters."""
        return self.space

    def _check_fitted(self) -> None:
        if not hasattr(self, "n_features_in_"):
            raise NotFittedError(f"this {type(self).__name__} is not trained yet; call fit first")

    def _own_columns(self, data: RankingData) -> RankingData:
        """The features of the data that the model uses: all."""
        return data

    def _choose_columns(self, X: Any, names: tuple[str, ...] | None) -> Any:
        """The columns of X that the model uses: all, which must be those of training."""
        self._check_columns(X.shape[1], names)
        return X

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

    def _as_data(
        self,
        X: Any,
        y: Any,
        qid: Any,
        sample_weight: Any,
        what: str,
        group: Any = None,
        init_score: Any = None,
        pairs: Any = None,
        clicks: Mapping[str, Any] | None = None,
    ) -> Dataset:
        """The training data, as blocks and values that ``_fit`` accepts."""
        more = {"init_score": init_score, "pairs": pairs, **(clicks or {})}
        given = as_dataset(X, y, qid, sample_weight, what, group, **more)
        data = self._check_values(self._in_one_block(given), what)
        if data.n_features == 0:
            raise DataError(f"{what} has no features; a ranker needs at least one")
        return data

    def _check_training_columns(self, data: Dataset) -> None:
        """Raise for columns that this ranker cannot use, and for weights that leave nothing."""
        self._refuse_columns(data)
        if data.query_weights is not None and not data.query_weights.any():
            raise DataError("all queries of X have weight 0; at least one weight must be positive")

    # -- clicks --------------------------------------------------------------------------------------------------------

    def _binds_clicks(self) -> bool:
        """Whether ``_fit`` meets the judgments only through a loss bound to the data."""
        return False

    def _fits_grades(self) -> bool:
        """Whether the gradient of what is minimised is an affine function of the grades, as of squared errors."""
        return False

    def _form_of_clicks(self) -> str:
        if self._fits_grades():
            return RATES
        return LISTS if self._binds_clicks() else COPIES

    def _find_correction(self, data: Dataset, debias: Any, max_bytes: int | str | None) -> Correction | None:
        """How to correct the clicks of the data; None if it has grades."""
        if not data.has_clicks:
            if debias is None:
                return None
            raise DataError(
                f"{wording('debias', '--debias')} is for clicks, but the data has neither positions nor propensities; "
                f"give {wording('position or propensity', '--position or --propensity')}"
            )
        how = Debias.of(debias)
        if data.has_pairs:
            raise DataError("the data has preferences, which are not corrected for positions; leave out the positions")
        if not self.learns_clicks:
            raise DataError(
                f"{type(self).__name__} trains other rankers on parts of the data, which clicks do not survive; train "
                "one of them, such as lambdamart, on the clicks"
            )
        if how.method == "pairwise" and (self._fits_grades() or not self._weighs_documents()):
            raise DataError(
                f"{self._name_for_errors()} cannot weigh the pairs of a click, which debias 'pairwise' needs; use "
                "'ipw' or 'em', or a ranker that weighs documents in pairs or lists, such as lambdamart or linear"
            )
        if self._form_of_clicks() != RATES:
            check_click_memory(data, self._form_of_clicks() == COPIES, max_bytes)
        return find_correction(data, how)

    def _correct_validation(self, valid: Dataset, correction: Correction | None, sets: NamedSets | None) -> Dataset:
        """Validation clicks as lists of clicked documents: the mean metric is the self-normalised estimate."""
        if sets is not None:
            raise DataError("several sets of validation data cannot have clicks; give one, or sets with grades")
        if correction is None:
            raise DataError(
                f"{wording('eval_set', 'the validation data')} has clicks and the training data has grades; leave out "
                "its positions and propensities"
            )
        return correction.apply(valid, COPIES)

    @property
    def propensities_(self) -> Array:
        """The learned probability that each position is examined, from position 1 on, relative to the first."""
        found = getattr(self, "training_", {}).get("propensities")
        if found is None:
            name = type(self).__name__
            raise AttributeError(f"{name} has learned no propensities; train it on clicks with positions")
        return np.array(found)

    def _validation_data(
        self, eval_set: Any, data: Dataset, by_group: bool = False, what: str = "eval_set"
    ) -> Dataset | None:
        if eval_set is None:
            return None
        valid = self._in_one_block(as_validation_data(eval_set, by_group, data.feature_names))
        if valid.n_features != data.n_features:
            raise DataError(f"{what} has {valid.n_features} features, the training data has {data.n_features}")
        if None not in (valid.feature_names, data.feature_names) and valid.feature_names != data.feature_names:
            raise DataError(f"the feature names of {what} differ from those of the training data")
        if valid.has_init_scores != data.has_init_scores:
            names = [wording(what, "the data of --valid"), "the training data"]
            have, lack = names if valid.has_init_scores else reversed(names)
            raise DataError(
                f"{have} has initial scores and {lack} does not; training adds to them, so give both "
                f"{wording('(init_score, eval_init_score)', '(--init-score, --valid-init-score)')} or neither"
            )
        if valid.whole is not None:
            valid = valid.whole.with_categories(data.categories, what)
        return self._check_values(valid, what)

    def _named_sets(self, eval_sets: Mapping[str, Any], data: Dataset, by_group: bool = False) -> NamedSets:
        """Several validation sets by name."""
        if not eval_sets or not all(isinstance(name, str) for name in eval_sets):
            raise ParameterError.of("fit", "eval_set", "a mapping from names to data, at least one", eval_sets)
        found: dict[str, RankingData] = {}
        for name, given in eval_sets.items():
            part = self._validation_data(given, data, by_group, f"eval_set {name!r}")
            if part is None or part.whole is None:
                kind = "nothing" if part is None else "in shards"
                raise DataError(f"eval_set {name!r} is {kind}; several sets must each be in one piece")
            found[name] = part.whole
        return NamedSets.of(found)

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
                f"{type(self).__name__} needs its data in one piece and cannot train on a cluster; train it from one "
                f"file without a cluster, or use one of {able}"
            )
        raise DataError(
            f"{type(self).__name__} needs its data in one piece, but it has {data.n_blocks} blocks; convert it to one "
            f".gnf file, which is mapped rather than read into memory, or use one of {able}"
        )

    def _check_values(self, data: Dataset, what: str) -> Dataset:
        """The data with values that this ranker supports, or an error."""
        refuse_extremes(data, what)
        if getattr(self, "scale", "standard") is None:
            refuse_tiny_features(data.feature_facts, what)
        if not self.accepts_categories and unordered(data.categories):
            data = self._categories_as_numbers(data, what)
        self._refuse_missing(data.feature_facts, what)
        return data if self.accepts_codes else data.without_codes()

    def _categories_as_numbers(self, data: Dataset, what: str) -> Dataset:
        """The data with the numbers of categories that are numbers, for a ranker without categories; text is refused.

        Models that are parts of another one score the same matrix, which has the codes.
        """
        assert data.whole is not None
        words, places = data.categories or (), unordered(data.categories)
        texts = [j for j in places if is_part_of_a_fit() or numbers_of_words(words[j] or ()) is None]
        name = (data.feature_names or ())[(texts or places)[0]]
        if texts:
            holds = "categories" if numbers_of_words(words[texts[0]] or ()) else "text"
            raise DataError(
                f"feature {name!r} of {what} holds {holds}, which {type(self).__name__} cannot use; encode it as "
                "numbers, leave it out, or use a tree ranker such as lambdamart"
            )
        if what == "X":
            warnings.warn(
                f"{type(self).__name__} has no categories, so it takes those of {name!r}"
                f"{'' if len(places) == 1 else f' and {len(places) - 1} more'} as the numbers they are; a tree ranker "
                "such as lambdamart splits by category",
                DataWarning,
                stacklevel=6,  # the caller of fit, behind its decorator
            )
        return data.whole.with_categories(only_ordered(data.categories), what)

    def _refuse_missing(self, facts: FeatureFacts, what: str) -> None:
        if facts.has_missing and not self.accepts_missing:
            raise DataError(
                f"{what} has missing values (NaN), which {type(self).__name__} cannot handle; fill them in, or use a "
                "tree ranker such as lambdamart"
            )

    def _refuse_columns(self, data: Dataset) -> None:
        """Raise for weights of documents, initial scores and preferences that this ranker cannot use."""
        if data.has_pairs:
            self._refuse_pairs(data)
        if data.has_document_weights and not self._weighs_documents():
            query = next(query for query in data.map(_first_mixed_query) if query is not None)
            raise DataError(
                f"{self._name_for_errors()} weighs whole queries, but {wording('sample_weight', 'the weight')} differs "
                f"between rows of query {brief(query)}; give every row of a query the same weight, or use a ranker "
                "that weighs documents, such as lambdamart"
            )
        if data.has_init_scores and not self._accepts_init_scores():
            python = "init_score (read files with sidecars=False, tables with init_score=False)"
            command_line = "--init-score (--read sidecars=false, of a table --read init_score=false)"
            raise DataError(
                f"{self._name_for_errors()} cannot start from initial scores; leave out "
                f"{wording(python, command_line)}, or use lambdamart, linear or another ranker that can"
            )

    def _refuse_pairs(self, data: Dataset) -> None:
        """Raise if this ranker cannot learn from preferences."""
        if not self._accepts_pairs():
            losses = ", ".join(name for name, entry in LOSSES.items() if entry.preferences is not None)
            raise DataError(
                f"{self._name_for_errors()} needs grades, but the data has preferences; use one of "
                f"{', '.join(_rankers_for_pairs())}, or linear, boosted, neural or list-net with one of the losses "
                f"{losses}"
            )
        if not data.is_local:
            raise DataError(
                f"{type(self).__name__} cannot learn from preferences on a cluster; train it without a cluster"
            )

    def _name_for_errors(self) -> str:
        """The class, and the parameters that decide what it can do."""
        return type(self).__name__

    def _facts(self) -> dict[str, Any]:
        """What to report after training, besides the figures."""
        return {}

    # -- notebooks -----------------------------------------------------------------------------------------------------

    def _repr_html_(self) -> str:
        return html_of(self)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """What IPython asks first; scikit-learn's setting ``display="text"`` holds."""
        found = {"text/plain": repr(self)}
        return found | ({"text/html": html_of(self)} if get_config()["display"] == "diagram" else {})

    # -- model files ---------------------------------------------------------------------------------------------------

    def _file_params(self) -> dict[str, Any]:
        """Parameters as a model file stores them; of a metric that is a function, the name."""
        found = dict(self.get_params(deep=False))
        for name in ("metric", "eval_metric"):
            if callable(found.get(name)):
                found[name] = str(metric(found[name]))
        return found

    def _preprocessing(self) -> dict[str, Any]:
        """What ``predict`` does to features before scoring: name → formula, for readers of a model file."""
        return {}

    def _pack(self) -> dict[str, Any]:
        """Fitted state by name: numbers, texts, lists (JSON) and arrays."""
        raise TypeError(f"{type(self).__name__} must define _pack")

    def _unpack(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`_pack` returned; ``n_features_in_`` is set. Inconsistent state raises."""
        raise TypeError(f"{type(self).__name__} must define _unpack")


class LinearScores:
    """Scores X·coef_ + intercept_, for rankers that are linear in the features."""

    coef_: Array
    intercept_: float
    n_features_in_: int

    def _scorer(self) -> Linear:
        return Linear(self.coef_, float(self.intercept_))

    def _pack(self) -> dict[str, Any]:
        return {"coef": self.coef_, "intercept": self.intercept_}

    def _unpack(self, state: Mapping[str, Any]) -> None:
        self.coef_ = stored_array(state, "coef", (self.n_features_in_,))
        self.intercept_ = float(state["intercept"])
        if not math.isfinite(self.intercept_):
            raise ValueError("the intercept is not a finite number")


def usual_metric(data: Dataset) -> Metric:
    """The metric by which a model is measured unless another is named."""
    return metric(PAIR_METRIC if data.has_pairs else USUAL_METRIC)


def _rankers_for_pairs() -> list[str]:
    """The rankers that learn from preferences whatever their loss, with what must be set."""
    from gainful.rankers.registry import RANKERS

    found = []
    for name, entry in RANKERS.items():
        if entry.accepts_pairs and name != "linear":
            needs = [
                wording(f"{one}={value!r}", f"--set {one}={value}")
                for one, value in entry.cls.settings_for_pairs.items()
            ]
            found.append(f"{name} with {' and '.join(needs)}" if needs else name)
    return found


def _in_row_order(values: Array, order: Array) -> Array:
    """Undo the grouping of rows by query."""
    restored = np.empty_like(values)
    restored[order] = values
    return restored


def _scores_of(data: RankingData, model: Ranker) -> Array:
    """The scores of one block."""
    scores: Array = model.predict(data)
    return scores


def _ranking_scores_of(data: RankingData, model: Ranker) -> Array:
    """The scores that rank the documents of one block."""
    return data.add_init_scores(_scores_of(data, model))


def _first_mixed_query(data: RankingData) -> Any:
    return data.first_mixed_query()


def _ranks_of(data: RankingData, model: Ranker) -> Array:
    """The ranks of one block."""
    return model.rank(data)


def _warn_if_grades_may_be_clicks(valid: Dataset) -> None:
    if valid.has_pairs or valid.highest_grade > 1.0:
        return
    warnings.warn(
        f"the training data has clicks, and {wording('eval_set', 'the validation data')} has neither positions nor "
        "propensities, so its 0 to 1 are taken as grades; if they are clicks, give their positions, too",
        DataWarning,
        stacklevel=4,  # the caller of fit, behind its decorator
    )


def _without_equal_weights(data: Dataset) -> Dataset:
    """The data without weights that say nothing, since only ratios count: not even rounding may tell."""
    whole, weights = data.whole, data.query_weights
    if whole is None or weights is None or whole.has_document_weights or weights.min() != weights.max():
        return data
    return whole.replace(query_weights=None)


def _how_to_resume(checkpoint: Checkpoint | None) -> str:
    """What to do after a cluster was lost."""
    if checkpoint is not None and checkpoint.path.exists():
        return f"the same call resumes from the checkpoint {checkpoint.path}"
    return "training has to start again; fit(…, checkpoint=FILE) saves its progress"


def training_facts(data: Dataset, monitor: Monitor) -> dict[str, Any]:
    """The training and validation data in numbers."""
    facts: dict[str, Any] = {
        "queries": data.n_queries,
        "rows": data.n_rows,
        "weighted": data.query_weights is not None,
        "weighted_documents": data.has_document_weights,
        "init_score": data.has_init_scores,
        "preferences": data.has_pairs,
        "lowest_grade": data.lowest_grade,
        "highest_grade": data.highest_grade,
    }
    if monitor.valid is not None:
        facts["validation"] = {
            "metric": str(monitor.metric),
            "queries": (monitor.valid if monitor.sets is None else monitor.sets.first).n_queries,
            "best": float(monitor.best_value) if np.isfinite(monitor.best_value) else None,
            "iteration": monitor.best_iteration,
        }
    return facts


def stored_array(state: Mapping[str, Any], name: str, shape: tuple[int | None, ...], dtype: Any = np.float64) -> Array:
    """A finite array from a model file, as ``dtype`` (None: unchanged) and of this shape (None: any length)."""
    array = np.asarray(state[name], dtype=dtype)
    fits = array.ndim == len(shape) and all(want in (None, had) for want, had in zip(shape, array.shape, strict=True))
    if array.dtype.kind not in "fiub" or not fits:
        raise ValueError(f"{name} does not have the shape that the model needs")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds infinite or missing numbers")
    return array
