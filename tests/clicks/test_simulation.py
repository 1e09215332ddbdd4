"""Simulated users: pages, clicks as the models say, and parameters that can be recovered."""

from __future__ import annotations

import numpy as np
import pytest
from slow_models import STORIES, pages_of, theta_of

import gainful
from gainful import CLICK_MODELS, DataError, ParameterError, RankingData, click_model, make_click_model, simulate_clicks


@pytest.fixture(scope="module")
def data():
    return gainful.make_artificial(8, n_docs=6, n_features=3, n_grades=4, seed=3)


def one_query(grades=(1, 3, 0)):
    n = len(grades)
    return RankingData.from_rows(np.arange(n, dtype=float)[:, None], grades, np.zeros(n), doc_ids=list("abcdef")[:n])


def same(one, other):
    names = ("offsets", "session", "query", "document", "position", "clicked", "propensity")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


@pytest.mark.parametrize("temperature", [0.0, 2.0])
def test_a_seed_settles_everything(data, temperature):
    logs = [simulate_clicks(data, "ubm", sessions=300, temperature=temperature, seed=s) for s in (5, 5, 6)]
    assert same(logs[0], logs[1])
    assert not same(logs[0], logs[2])


def test_pages_have_the_order_of_the_ranker(data):
    model = gainful.ranker("regression").fit(data)
    scores = model.predict(data)
    for ranker in (model, scores, model.predict):
        log = simulate_clicks(data, "pbm", ranker=ranker, sessions=50, length=4)
        assert (log.counts == 4).all()
        for i in range(log.n_pages):
            shown = log.document_ids[log.document[log.offsets[i] : log.offsets[i + 1]]]
            q = int(log.query[i])
            rows = np.arange(data.offsets[q], data.offsets[q + 1])
            assert shown.tolist() == rows[np.argsort(-scores[rows], kind="stable")][:4].tolist()


def test_without_a_ranker_pages_have_the_order_of_the_data():
    log = simulate_clicks(one_query(), "pbm", sessions=3)
    assert log.document_ids[log.document].tolist() == ["a", "b", "c"] * 3
    assert log.position.tolist() == [1, 2, 3] * 3


def test_a_high_temperature_shuffles():
    log = simulate_clicks(one_query(), "pbm", sessions=3000, temperature=1e6)
    first = log.document[log.position == 1]
    np.testing.assert_allclose(np.bincount(first) / 3000, 1 / 3, atol=0.04)


def test_a_low_temperature_follows_plackett_luce(monkeypatch):
    monkeypatch.setattr("gainful.clicks.simulation.DRAWS_AT_ONCE", 100)
    scores = np.log([1.0, 2.0, 3.0])
    log = simulate_clicks(one_query(), "pbm", ranker=scores, sessions=6000, temperature=1.0)
    np.testing.assert_allclose(np.bincount(log.document[log.position == 1]) / 6000, [1 / 6, 2 / 6, 3 / 6], atol=0.03)


def test_queries_are_asked_as_often_as_they_weigh(data):
    weighted = data.replace(query_weights=np.arange(8.0))
    log = simulate_clicks(weighted, "pbm", sessions=8000)
    np.testing.assert_allclose(np.bincount(log.query, minlength=8) / 8000, np.arange(8) / 28, atol=0.02)


def test_features_come_along(data):
    log = simulate_clicks(data, "pbm", sessions=20, features=True)
    assert (log.features == data.X[log.document_ids[log.document]]).all()
    assert log.to_data(merge=False).n_queries == 20


@pytest.mark.parametrize("name", STORIES)
def test_every_course_of_a_page_has_its_probability(name):
    data, n = one_query(), 40_000
    log = simulate_clicks(data, name, sessions=n, eta=0.7, continuation=0.8, seed=1)
    truth = make_click_model(name, data, eta=0.7, continuation=0.8, depth=10)
    page, _ = next(pages_of(log))
    chances: dict[tuple[int, ...], float] = {}
    for chance, clicks, _ in STORIES[name](theta_of(truth), page):
        chances[clicks] = chances.get(clicks, 0.0) + chance
    patterns = log.clicked.reshape(n, 3).astype(int)
    for clicks, chance in chances.items():
        seen = (patterns == clicks).all(axis=1).mean()
        assert abs(seen - chance) < 5 * np.sqrt(chance * (1 - chance) / n) + 1e-4, clicks


def test_coec_clicks_by_position_and_pair():
    data, n = one_query(), 20_000
    log = simulate_clicks(data, "coec", sessions=n)
    expected = make_click_model("coec", data).attractiveness_ * np.array([1, 1 / 2, 1 / 3])
    np.testing.assert_allclose(log.clicked.reshape(n, 3).mean(axis=0), expected, atol=0.02)


def test_noise_and_trust():
    data, n = one_query((0, 1, 0)), 20_000
    noisy = simulate_clicks(data, "document-ctr", sessions=n, noise=0.2).clicked.reshape(n, 3).mean(axis=0)
    np.testing.assert_allclose(noisy, [0.2, 1.0, 0.2], atol=0.02)
    trusting = (
        simulate_clicks(data, "document-ctr", sessions=n, noise=0.0, trust=0.6).clicked.reshape(n, 3).mean(axis=0)
    )
    np.testing.assert_allclose(trusting, [0.6, 1.0, 0.2], atol=0.02)


def test_the_propensity_is_the_true_examination(data):
    log = simulate_clicks(data, "pbm", sessions=10, eta=2.0)
    np.testing.assert_allclose(log.propensity, log.position.astype(float) ** -2)


@pytest.mark.parametrize("name", CLICK_MODELS)
def test_parameters_are_recovered(name, data):
    """More sessions, smaller errors; and at the end small ones."""
    truth = make_click_model(name, data, depth=6)
    errors = []
    for sessions in (1_000, 30_000):
        log = simulate_clicks(data, name, sessions=sessions, length=6, temperature=1e6, seed=11)
        model = click_model(name).fit(log)
        place = model.pairs_.places(
            data.query_ids, truth.pairs_.document_ids, truth.pairs_.query, truth.pairs_.document
        )
        off = model.theta_["attractiveness"][place] - truth.attractiveness_
        by_position = np.bincount(log.position, weights=model.propensities(log) - log.propensity)[1:] / sessions
        errors.append((np.sqrt(np.mean(off**2)), np.abs(by_position).max()))
    assert errors[1][0] < 0.03
    assert errors[1][1] < 0.02
    assert errors[1][0] < 0.5 * errors[0][0] or errors[1][0] < 0.005


@pytest.mark.parametrize("name", ["pbm", "dbn", "ubm", "sdbn"])
def test_errors_cover_the_truth(name, data):
    truth = make_click_model(name, data, depth=6)
    log = simulate_clicks(data, name, sessions=20_000, length=6, temperature=1e6, seed=12)
    model = click_model(name).fit(log)
    place = model.pairs_.places(data.query_ids, truth.pairs_.document_ids, truth.pairs_.query, truth.pairs_.document)
    inside = truth.attractiveness_ < 0.95  # at the edge, an estimate is not normal
    z = (model.theta_["attractiveness"][place] - truth.attractiveness_) / model.errors_["attractiveness"][place]
    assert (np.abs(z[inside]) < 2).mean() > 0.85


def test_a_fitted_model_clicks_on_the_pages_of_a_log(data):
    log = simulate_clicks(data, "dbn", sessions=2000, temperature=1.0, seed=2)
    model = click_model("dbn").fit(log)
    again = simulate_clicks(log, model, seed=4)
    assert np.array_equal(again.document, log.document)
    assert again.clicks_by_position[0] == pytest.approx(log.clicks_by_position[0], rel=0.15)
    assert simulate_clicks(log, model, sessions=7).n_pages == 7
    assert simulate_clicks(data, model, sessions=7).n_pages == 7
    noisy = simulate_clicks(log, model, seed=4, noise=0.5)
    assert noisy.n_clicks > again.n_clicks


def test_wrong_use_is_refused(data):
    log = simulate_clicks(data, sessions=50, temperature=1.0)
    with pytest.raises(ParameterError, match="data of simulate_clicks must be a RankingData or a ClickLog"):
        simulate_clicks([1])
    with pytest.raises(ParameterError, match="there is no click model 'pmb'"):
        simulate_clicks(data, "pmb")
    with pytest.raises(ParameterError, match="model of simulate_clicks must be a fitted click model"):
        simulate_clicks(log, "pbm")
    with pytest.raises(ParameterError, match="leave out ranker"):
        simulate_clicks(log, click_model("pbm").fit(log), ranker=[1])
    with pytest.raises(ParameterError, match="ranker of simulate_clicks must be a fitted model"):
        simulate_clicks(data, ranker="lambdamart")
    with pytest.raises(ParameterError, match="eta of simulate_clicks must be a number ≥ 0, was -1"):
        simulate_clicks(data, eta=-1)
    with pytest.raises(DataError, match="the scores of the ranker must have 48 entries"):
        simulate_clicks(data, ranker=[1.0])
    with pytest.raises(DataError, match="the score of row 0 is not finite"):
        simulate_clicks(data, ranker=np.full(48, np.nan))
    with pytest.raises(DataError, match="all grades are 0"):
        simulate_clicks(one_query((0, 0)))
    with pytest.raises(DataError, match="has a document id twice"):
        simulate_clicks(RankingData.from_rows(np.ones((2, 1)), [0, 1], [1, 1], doc_ids=["a", "a"]))
