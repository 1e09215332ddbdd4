"""Distillation: a student of the teacher's scores, and what it loses."""

from __future__ import annotations

import numpy as np
import pytest

import gainful
from gainful import Blend, ParameterError
from gainful.blending.distillation import soft_grades
from gainful.data.checks import skip_checks
from gainful.rankers.specs import ranker_from_spec

SMALL = "n_trees=60:n_leaves=7:min_docs_in_leaf=3:n_jobs=1"


@pytest.fixture(scope="module")
def teacher(parts):
    return Blend(["regression", f"lambdamart:{SMALL}", f"tree-regression:{SMALL}"], folds=3, n_jobs=1).fit(parts[0])


@pytest.mark.parametrize("into", [f"lambdamart:{SMALL}", f"tree-regression:{SMALL}", "regression"])
def test_the_student_ranks_as_the_teacher_does(teacher, parts, into):
    train, valid, test = parts
    found = gainful.distill(teacher, train, into, valid=valid, test=test, grades=0.0)
    ndcg = gainful.metric("ndcg@10")
    assert found.student == pytest.approx(ndcg(found.model.predict(test), test))
    assert found.teacher == pytest.approx(ndcg(teacher.predict(test), test))
    assert found.difference == pytest.approx(found.student - found.teacher)
    assert np.corrcoef(found.model.predict(test), teacher.predict(test))[0, 1] > 0.8
    assert f"{found.student:.4f} against {found.teacher:.4f}" in str(found)


def test_without_validation_queries_the_student_is_trained_to_its_end_on_all(teacher, parts):
    found = gainful.distill(teacher, parts[0], f"tree-regression:{SMALL}", test=parts[2], grades=0.0)
    assert found.model.n_iter_ == 60
    soft = parts[0].replace(y=soft_grades(teacher.predict(parts[0]), parts[0]))
    with skip_checks():
        same = ranker_from_spec(f"tree-regression:{SMALL}").fit(soft)
    assert np.array_equal(found.model.predict(parts[2]), same.predict(parts[2]))
    assert gainful.distill(teacher, parts[0], "regression").queries == parts[0].n_queries


def test_the_metric_is_the_teachers_unless_named(parts):
    teacher = Blend(["regression", "listnet"], folds=3, metric="map", n_jobs=1).fit(parts[0])
    assert gainful.distill(teacher, parts[0], "regression").metric == "map"
    assert gainful.distill(teacher, parts[0], "regression", measure="mrr").metric == "mrr"


def test_soft_grades_keep_the_order_and_the_spread(parts, rng):
    data = parts[0]
    scores = 3.0 * data.y + rng.standard_normal(data.n_rows) - 7.0
    soft = soft_grades(scores, data)
    assert (soft >= 0).all()
    assert (np.diff(soft[np.argsort(scores)]) >= 0).all()
    assert soft.mean() == pytest.approx(data.y.mean(), abs=0.2)
    assert soft.std() == pytest.approx(data.y.std(), rel=0.2)
    assert np.array_equal(soft_grades(scores, data, 1.0), data.y)
    assert np.array_equal(
        soft_grades(np.zeros(data.n_rows), data), np.full(data.n_rows, round(data.y.mean() * 256) / 256)
    )


def test_mistakes_are_refused(teacher, parts):
    with pytest.raises(ParameterError, match=r"grades of distill must be a number in \[0, 1\]"):
        gainful.distill(teacher, parts[0], grades=2.0)
    with pytest.raises(ParameterError, match="model of distill must be a fitted ranker"):
        gainful.distill("model", parts[0])
    with pytest.raises(ParameterError, match="into of distill must be"):
        gainful.distill(teacher, parts[0], into=np.ones(3))
    with pytest.raises(ParameterError, match="the student cannot be auto"):
        gainful.distill(teacher, parts[0], into="auto")
