"""Judgments from clicks: grades, confidence, qrels, ranking data."""

from __future__ import annotations

import numpy as np
import pytest
from test_click_models import random_log

import gainful
from gainful import ClickLog, DataError, ParameterError, RankingData, click_model
from gainful.clicks.judging import grade_levels, grade_pairs


def graded(relevance, error, grades=5):
    n = len(relevance)
    return grade_pairs(np.arange(n), np.arange(n), np.array(relevance), np.array(error), grades)


def test_grades_stand_for_the_relevance_of_err():
    assert grade_levels(5).tolist() == [0, 1 / 16, 3 / 16, 7 / 16, 15 / 16]
    assert graded(grade_levels(5), np.full(5, 0.01)).grades.tolist() == [0, 1, 2, 3, 4]
    assert graded([0.0, 0.24, 0.26, 1.0], np.full(4, 0.1), grades=2).grades.tolist() == [0, 0, 1, 1]


def test_confidence_is_the_probability_of_the_grade():
    rng = np.random.default_rng(0)
    found = graded([0.02, 0.2, 0.7], [0.01, 0.1, 0.3])
    for i in range(3):
        mean = found.relevance[i]
        strength = mean * (1 - mean) / found.error[i] ** 2 - 1  # of the Beta distribution with that error
        drawn = rng.beta(mean * strength, (1 - mean) * strength, 100_000)
        draws = graded(drawn, np.ones(100_000)).grades
        assert found.confidence[i] == pytest.approx((draws == found.grades[i]).mean(), abs=0.01)


def test_better_documents_get_higher_grades():
    rng = np.random.default_rng(1)
    n = 3000
    document = np.tile(np.arange(3), n)
    clicked = rng.random(3 * n) < np.array([0.02, 0.2, 0.8])[document]
    log = ClickLog.from_rows(
        session=np.repeat(np.arange(n), 3), query=np.zeros(3 * n), position=document + 1, document=document,
        clicked=clicked,
    )  # fmt: skip
    judged = click_model("document-ctr").fit(log).judge()
    assert judged.grades.tolist() == [0, 2, 4]
    assert (judged.confidence > 0.9).all()


def test_all_ways_to_say_which_pairs():
    log = random_log(n_pages=100)
    model = click_model("pbm").fit(log)
    everything = model.judge()
    assert len(everything) == len(model.pairs_)
    some = log.pages([0])
    assert {d for _, d, _ in model.judge(some)} == set(some.document_ids[some.document].tolist())
    pairs = [(q, d) for q, d, _ in everything][:3]
    assert [*model.judge(pairs)] == [*everything][:3]
    data = RankingData.from_rows(np.ones((3, 1)), np.zeros(3), [q for q, _ in pairs], doc_ids=[d for _, d in pairs])
    assert [*model.judge(data)] == [*everything][:3]


def test_unknown_pairs_are_judged_with_little_confidence():
    model = click_model("dbn").fit(random_log(n_pages=100))
    found = model.judge([("never", "seen")])
    average = model.priors_["attractiveness"].mean * model.priors_["satisfaction"].mean
    assert found.relevance[0] == pytest.approx(average)
    assert found.confidence[0] < 0.9


def test_qrels_and_confident_judgments(tmp_path):
    judged = click_model("ubm").fit(random_log(n_pages=100)).judge()
    qrels = judged.to_qrels()
    query, document, grade = next(iter(judged))
    assert qrels[str(query)][str(document)] == grade
    gainful.write_qrels(qrels, tmp_path / "clicks.qrels")
    assert gainful.read_qrels(tmp_path / "clicks.qrels") == qrels
    middle = float(np.median(judged.confidence))
    assert (judged.confident(middle).confidence >= middle).all()
    with pytest.raises(DataError, match=r"no judgment has a confidence of 1\.1"):
        judged.confident(1.1)


def test_ranking_data_from_the_features_of_a_log():
    log = random_log(n_pages=100)
    X = np.column_stack([np.repeat(log.query, log.counts), log.document]).astype(float)
    log = log.replace(features=X, feature_names=("query", "document"))
    model = click_model("pbm").fit(log)
    judged = model.judge()
    data = judged.to_data(log)
    assert data.n_rows == len(judged)
    assert data.feature_names == ("query", "document")
    for row, query, document in zip(data.X.tolist(), data.qid.tolist(), data.doc_ids.tolist(), strict=True):
        assert [log.query_ids[int(row[0])], log.document_ids[int(row[1])]] == [query, document]
    assert judged.to_data(data).y.tolist() == data.y.tolist()


def test_wrong_use_is_refused():
    model = click_model("pbm").fit(random_log())
    with pytest.raises(ParameterError, match="grades of judge must be a number of grades from 2 to 32, was 1"):
        model.judge(grades=1)
    with pytest.raises(ParameterError, match="of of judge must be a ClickLog, a RankingData or"):
        model.judge(7)
    with pytest.raises(DataError, match="there are no pairs to judge"):
        model.judge([])
    with pytest.raises(DataError, match="the click log has no features"):
        model.judge().to_data(random_log())
    with pytest.raises(DataError, match="no judged pair has features"):
        model.judge().to_data(RankingData.from_rows([[1.0]], [0], ["x"], doc_ids=["y"]))
    with pytest.raises(DataError, match="no document ids"):
        model.judge(RankingData.from_rows([[1.0]], [0], ["x"]))
