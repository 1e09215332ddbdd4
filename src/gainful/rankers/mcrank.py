"""McRank: ranking by classification into grades (Li, Burges and Wu 2007), and regression trees on grades or gains."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

import numpy as np

from gainful.data.dataset import Dataset, RankingData
from gainful.data.rows import Array
from gainful.data.size import DataSize
from gainful.errors import DataError, NoAttributeError, ParameterError
from gainful.parameters.constraints import Choice, Integer, Maybe, parameter
from gainful.rankers.scorers import Constant, Expectation, Scorer, Trees
from gainful.rankers.trees import TreeRanker
from gainful.training.monitor import Monitor
from gainful.trees.grades import Grades, Tally, cumulative_logits, proper_probabilities, relevance_of
from gainful.trees.grow import predict_rows
from gainful.trees.objective_factory import ObjectiveFactory, grades

MOST_CLASSES = 500  # trees per iteration; with more classes, regression is as good and faster


@dataclass(repr=False, eq=False)
class McRank(TreeRanker):
    """Boosted classification into grades; documents are ranked by expected relevance Σ_k Pr(g = k) T(k).

    ``mode`` says how the K distinct grades of the training data are learnt:

    - "classification": K trees per iteration on the softmax of K scores. This is LightGBM's ``multiclass``, whose
      leaves are the paper's: (K − 1)/K · Σ(y − p) / Σp(1 − p).
    - "ordinal": K − 1 trees per iteration, each fitting Pr(g ≥ k) by a logistic model of its own. The score is
      T(1) + Σ_{k ≥ 2} (T(k) − T(k − 1)) Pr(g ≥ k): the same expectation, defined even where the curves cross.
    - "regression": one tree per iteration, least squares on T(g).

    Grades may be any non-negative numbers: the classes depend only on their order, and T on their values. A grade that
    does not occur is not a class. One distinct grade gives constant scores.

    In addition to the parameters and attributes of every :class:`TreeRanker`:

    Parameters
    ----------
    mode : "classification", "ordinal" or "regression"
    relevance : T: "grade" (the grade itself) or "gain" (2^g − 1). If the highest grade is above 30, gains are divided
        by 2 to that power, which changes no ranking.
    max_classes : maximum number of classes; more grades are merged with their neighbours into classes of about equal
        size, whose grade and T are the means over their training rows. None keeps all distinct grades and refuses
        more than 500.
    n_trees : iterations; the mode sets the number of trees in each

    Attributes
    ----------
    classes_ : (K,), the grades in ascending order: the columns of :meth:`predict_proba`
    """

    mode: str = parameter(
        "classification", Choice(of=("classification", "ordinal", "regression"), help="how grades are learnt")
    )
    relevance: str = parameter(
        "grade", Choice(of=("grade", "gain"), help="what the expectation is taken of: g or 2^g − 1")
    )
    max_classes: int | None = parameter(
        None, Maybe(inner=Integer(low=2, high=MOST_CLASSES), help="maximum number of classes; more grades are merged")
    )
    _: KW_ONLY
    # the paper's settings for its artificial data and its first set of web data
    n_trees: int = 1000
    n_leaves: int = 10
    learning_rate: float = 0.05

    def _own_lightgbm_names(self) -> dict[str, tuple[str, ...]]:
        return {"max_classes": ("num_class", "num_classes")}

    def _accepts_init_scores(self) -> bool:
        return self.mode == "regression"  # classes have one score each

    def _why_not_monotone(self) -> str | None:
        if self.mode == "classification":
            return "(the odds of one grade fall where another's rise); use mode='ordinal' or mode='regression'"
        return super()._why_not_monotone()

    def _fits_grades(self) -> bool:
        return self.mode == "regression" and self.relevance == "grade"

    def _name_for_errors(self) -> str:
        return f"McRank with mode={self.mode!r}"

    def _n_models(self, size: DataSize) -> float:
        most = MOST_CLASSES if self.max_classes is None else self.max_classes
        return 1 if self.mode == "regression" else min(size.grades, most)

    # -- training ------------------------------------------------------------------------------------------------------

    def _fit(self, data: Dataset, monitor: Monitor) -> None:
        before: str = getattr(self, "mode_", self.mode)
        if self.warm_start and hasattr(self, "booster_") and before != self.mode:
            raise ParameterError(
                f"the trees to continue were grown with mode={before!r}; keep that, or set warm_start=False"
            )
        self._fit_mode(data, monitor)
        self.mode_ = self.mode

    def _fit_mode(self, data: Dataset, monitor: Monitor) -> None:
        if self.mode == "regression":
            labels = partial(_relevance, self.relevance, data.highest_grade)
            self._grow(data, labels, monitor, params={"objective": "regression"})
            return
        self._grades = self._grades_of(data)
        if self._grades.n == 1:
            self._forget_trees()
        elif self.mode == "classification":
            params = {"objective": "multiclass", "num_class": self._grades.n}
            self._grow(data, partial(_classes, self._grades), monitor, params=params)
        else:
            factory = ObjectiveFactory(partial(cumulative_logits, self._grades))
            params = {"num_class": self._grades.n - 1}
            self._grow(data, grades, monitor, params=params, factory=factory)

    def _grades_of(self, data: Dataset) -> Grades:
        """The classes of these grades; with a warm start, those of the existing trees."""
        tally = Tally.of_data(data)
        if self.warm_start and hasattr(self, "booster_"):
            strange = self._grades.stranger(tally.grades)
            if strange is not None:
                raise DataError(
                    f"grade {strange:g} is not among those the trees to continue were grown with; set "
                    "warm_start=False to start afresh"
                )
            return self._grades
        n_distinct = len(tally.grades)
        if self.max_classes is None and n_distinct > MOST_CLASSES:
            raise DataError(
                f"y has {n_distinct:,} distinct grades, and {self.mode} grows a tree for each of them per iteration; "
                'merge neighbouring ones with max_classes=20, or choose mode="regression"'
            )
        return Grades.of_tally(tally, self.relevance, self.max_classes)

    def _forget_trees(self) -> None:
        if hasattr(self, "booster_"):
            del self.booster_
        self.best_iteration_ = 0

    # -- use -----------------------------------------------------------------------------------------------------------

    @property
    def classes_(self) -> Array:
        self._check_fitted()
        self._refuse_regression("classes_")
        return self._grades.grades

    def _link(self) -> Expectation | None:
        """Turns LightGBM's predictions into scores; None if they are the scores."""
        if self.mode == "regression":
            return None
        kind = "softmax" if self.mode == "classification" else "cumulative"
        return Expectation(kind, self._grades.relevance, self._grades.start)

    def _to_scores(self, predicted: Array) -> Array:
        link = self._link()
        return predicted if link is None else link(predicted)

    def _tree_scorer(self) -> Scorer:
        if self._is_constant:
            return Constant(float(self._grades.relevance[0]))
        return Trees(self.booster_, self.best_iteration_, self.n_jobs, link=self._link())

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags

        tags = super().__sklearn_tags__()
        if self.mode != "regression":  # it has predict_proba, though predict gives scores
            tags.classifier_tags = ClassifierTags()
        return tags

    @property
    def predict_proba(self) -> Callable[[Any], Array]:
        """Pr(g = k) of each row, (n_rows, K), in the order of ``classes_``; rows sum to 1.

        In ordinal mode these are differences of Pr(g ≥ k). Curves that cross are first replaced by the nearest ones
        that do not (least squares, weighted by T(k) − T(k − 1)), which preserves every row's expected relevance:
        ``predict_proba(X) @ T`` is ``predict(X)`` in both modes.
        """
        self._refuse_regression("predict_proba")
        return self._predict_proba

    def _predict_proba(self, X: Any) -> Array:
        self._check_fitted()
        matrix = self._features_to_score(X)
        if self._is_constant:
            return np.ones((matrix.shape[0], 1))
        predicted = predict_rows(self.booster_, matrix, self.best_iteration_)
        if self.mode == "classification":
            return predicted
        return proper_probabilities(self._grades.at_least(predicted), np.diff(self._grades.relevance))

    def class_contributions(self, X: Any) -> Array:
        """SHAP values of the classes' raw scores, (n_rows, models, n_features + 1), base last.

        Classification has one model per class of ``classes_``, whose raw scores go into the softmax. Ordinal has one
        per class except the lowest, whose raw score is the log odds of Pr(g ≥ k).
        """
        self._check_fitted()
        self._refuse_regression("class_contributions")
        matrix = self._features_to_score(X)
        if self._is_constant:
            return np.zeros((matrix.shape[0], 0, matrix.shape[1] + 1))
        values = Trees(self.booster_, self.best_iteration_, self.n_jobs).contributions_to_sums(matrix)
        if self.mode == "ordinal":
            values[:, :, -1] += self._grades.start
        return values

    @property
    def feature_importances_(self) -> Array:
        self._check_fitted()
        if self._is_constant:
            return np.zeros(self.n_features_in_)
        return super().feature_importances_

    @property
    def _is_constant(self) -> bool:
        return self.mode != "regression" and self._grades.n == 1

    def _refuse_regression(self, what: str) -> None:
        if self.mode == "regression":
            raise NoAttributeError(f'McRank with mode="regression" has no {what}; choose "classification" or "ordinal"')

    # -- model files ---------------------------------------------------------------------------------------------------

    def _pack(self) -> dict[str, Any]:
        trees = {} if self._is_constant else super()._pack()
        return trees if self.mode == "regression" else trees | self._grades.pack()

    def _unpack(self, state: Mapping[str, Any]) -> None:
        if self.mode != "regression":
            self._grades = Grades.unpack(state)
        if self._is_constant:
            self.best_iteration_ = 0
        else:
            super()._unpack(state)
            models = 1 if self.mode == "regression" else self._grades.n - (self.mode == "ordinal")
            if self.booster_.num_model_per_iteration() != models:
                raise ValueError("the trees do not fit the classes")


def _relevance(kind: str, highest: float, data: RankingData) -> Array:
    return relevance_of(data.y, kind, highest)


def _classes(classes: Grades, data: RankingData) -> Array:
    return classes.labels(data.y).astype(np.float64)
