"""Distillation: one model, small enough for any engine, that ranks as a larger one does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gainful.blending.folds import spread_within
from gainful.blending.weights import mean_and_error
from gainful.compute.estimators import clone
from gainful.data.checks import skip_checks
from gainful.data.dataset import Dataset, RankingData
from gainful.data.rows import Array
from gainful.errors import DataError, ParameterError, plural
from gainful.inputs.arguments import as_dataset
from gainful.metrics import metric
from gainful.rankers.base import Ranker
from gainful.rankers.specs import ranker_from_spec
from gainful.statistics.quality import Quality
from gainful.training.monitor import ProgressCallback

INTO, GRADES = "lambdamart", 0.5  # what lost least: docs/auto.md
STEPS_PER_GRADE = 256  # soft grades are rounded to this part of a grade


@dataclass(frozen=True)
class Distilled:
    """The small model and what it loses against the large one.

    ``teacher`` and ``student`` are means of the metric on the same queries; ``difference`` is student less teacher,
    paired by query, with its standard error. ``used_for`` says what else these queries were used for; "" if nothing.
    """

    model: Ranker
    metric: str
    queries: int
    teacher: float
    student: float
    difference: float
    error: float
    used_for: str

    @property
    def quality(self) -> Quality:
        return Quality(self.metric, self.student, plural(self.queries, "query", "queries"), self.used_for)

    def __str__(self) -> str:
        return (
            f"{self.metric} {self.student:.4f} against {self.teacher:.4f} of the model it was made from: "
            f"{self.difference:+.4f} ± {self.error:.4f} {self.quality.place}"
        )


def distill(
    model: Ranker,
    data: Any,
    into: Any = INTO,
    *,
    valid: Any = None,
    test: Any = None,
    grades: float = GRADES,
    measure: Any = None,
    progress: ProgressCallback | None = None,
) -> Distilled:
    """Train one ranker on the scores of another, usually a blend, so that every engine can take it.

    The student learns soft grades: the teacher's scores with the mean of the grades and their standard deviation within
    queries, so that any ranker and loss can learn from them.

    Parameters
    ----------
    model : a fitted ranker, the teacher
    data : rows to learn from, a RankingData or a path; their grades fix the range of the soft grades
    into : the student: a ranker, a name or a text such as "lambdamart:n_trees=300"
    valid : queries for early stopping; without them the student is trained to its end: the teacher's scores have no
        noise to be led astray by
    test : queries on which to measure both models; without them those of ``valid``, or of ``data``, and the result
        says that its figures are of queries that training has used
    grades : share of the true grades in the soft ones, from 0 to 1
    measure : the metric for early stopping and for the comparison; None for the teacher's
    """
    if not isinstance(model, Ranker):
        raise ParameterError.of("distill", "model", "a fitted ranker", model)
    model._check_fitted()
    if isinstance(grades, bool) or not isinstance(grades, (int, float)) or not 0.0 <= grades <= 1.0:
        raise ParameterError.of("distill", "grades", "a number in [0, 1]", grades)
    if not isinstance(into, (str, Ranker)):
        raise ParameterError.of("distill", "into", "a ranker, or a text such as 'lambdamart:n_trees=300'", into)
    student = ranker_from_spec(into) if isinstance(into, str) else clone(into)
    if student.joins_validation:
        raise ParameterError(f"the student cannot be {into}: it would be as large as the teacher; name a single ranker")
    goal = metric(getattr(model, model.validation_parameter, "ndcg@10") if measure is None else measure)
    if "eval_metric" in student.parameters and not (isinstance(into, str) and "eval_metric=" in into):
        student.set_params(eval_metric=goal.as_parameter())
    train = _whole(data, "data")
    if train.has_pairs:
        raise DataError(
            "distill puts scores on the scale of the grades, but data has preferences; give data with grades"
        )
    stop = None if valid is None else _whole(valid, "valid")
    soft = soft_grades(train.add_init_scores(model.predict(train)), train, float(grades))
    with skip_checks():
        student.fit(train.replace(y=soft), eval_set=stop, progress=progress)
    judge = _whole(test, "test") if test is not None else train if stop is None else stop
    theirs, ours = (goal.per_query(judge.add_init_scores(one.predict(judge)), judge) for one in (model, student))
    difference, error = mean_and_error(ours - theirs, judge.query_weights)
    before, after = (mean_and_error(values, judge.query_weights)[0] for values in (theirs, ours))
    purpose = "stopping the student" if stop is not None else "training the student"
    used_for = "" if test is not None else f"{purpose}, and the teacher may have been trained on them"
    return Distilled(student, goal.name, judge.n_queries, before, after, difference, error, used_for)


def soft_grades(scores: Array, data: RankingData, share: float = 0.0) -> Array:
    """Scores on the scale of the grades, ≥ 0; with ``share``, mixed with the grades themselves.

    They get the grades' mean, and the grades' standard deviation within queries.
    """
    grades, spread = data.y, spread_within(scores, data.offsets)
    slope = spread_within(grades, data.offsets) / spread if spread > 0.0 else 0.0
    soft = np.clip(grades.mean() + slope * (scores - scores.mean()), 0.0, max(data.highest_grade, 0.0) + 1.0)
    mixed = (1.0 - share) * soft + share * grades
    return np.asarray(np.round(mixed * STEPS_PER_GRADE) / STEPS_PER_GRADE)


def _whole(data: Any, what: str) -> RankingData:
    found: Dataset = as_dataset(data, None, None, None, what)
    if found.whole is None:
        raise DataError(f"{what} of distill must be in one piece; convert it to one .gnf file")
    return found.whole
