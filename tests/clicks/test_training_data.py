"""From a click log to ranking data: counted together, joined with features, and the same to train on."""

from __future__ import annotations

import numpy as np
import pytest

import gainful
from gainful import ClickLog
from gainful.errors import DataError, ParameterError


@pytest.fixture(scope="module")
def data():
    return gainful.make_artificial(8, n_docs=6, n_features=3, seed=1)


def small_log(**more):
    """A query with the pages ab (twice) and ba."""
    return ClickLog.from_rows(
        session=[1, 1, 2, 2, 3, 3], query=["q"] * 6, position=[1, 2] * 3, document=["a", "b", "a", "b", "b", "a"],
        clicked=[1, 0, 1, 1, 0, 1], **more,
    )  # fmt: skip


FEATURES = gainful.RankingData.from_rows([[1.0], [2.0], [3.0]], [0, 0, 0], ["q"] * 3, doc_ids=["b", "a", "c"])


def test_one_list_per_page_without_propensities():
    made = small_log().to_data(FEATURES)
    assert made.n_queries == 2
    pages = {tuple(one.doc_ids): one for one in made}
    both, other = pages["a", "b"], pages["b", "a"]
    assert both.y.tolist() == [1.0, 0.5]
    assert both.query_weights.tolist() == [2.0]
    assert both.positions.tolist() == [1, 2]
    assert both.X.ravel().tolist() == [2.0, 1.0]
    assert other.y.tolist() == [0.0, 1.0]
    assert other.query_weights.tolist() == [1.0]


def test_one_list_per_query_with_propensities():
    made = small_log(propensity=[1.0, 0.5] * 3).to_data(FEATURES)
    assert made.n_queries == 1
    assert made.query_ids.tolist() == ["q"]
    assert made.positions is None  # documents were in several
    clicks = made.y * made.row_weights
    assert dict(zip(made.doc_ids, clicks, strict=True)) == {"a": 3.0, "b": 1.0}
    assert dict(zip(made.doc_ids, clicks / made.propensities, strict=True)) == pytest.approx({"a": 4.0, "b": 2.0})


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("propensity", [None, False])
def test_counting_together_changes_no_model(temperature, propensity, data):
    log = gainful.simulate_clicks(data, "pbm", sessions=150, length=6, temperature=temperature, seed=3)
    merged, single = (log.to_data(data, propensity=propensity, merge=merge) for merge in (True, False))
    assert merged.n_rows < single.n_rows
    models = [gainful.ranker("ranknet", tol=1e-10).fit(one) for one in (merged, single)]
    assert models[0].coef_ == pytest.approx(models[1].coef_, rel=1e-5, abs=1e-7)


def test_features_that_change_are_not_merged():
    log = small_log(features=np.arange(6.0)[:, None])
    assert log.to_data().n_queries == 3
    log = small_log(features=np.array([5, 7, 5, 7, 7, 5.0])[:, None])
    assert log.to_data().n_queries == 2
    assert log.to_data().has_positions


def test_refusals(data):
    with pytest.raises(DataError, match="give data that has them"):
        small_log().to_data()
    with pytest.raises(DataError, match="no document of the log has features"):
        small_log().to_data(data)
    with pytest.raises(ParameterError, match="features of to_data must be a RankingData"):
        small_log().to_data(np.ones((6, 1)))
    with pytest.raises(DataError, match="propensity must have 6 entries"):
        small_log().to_data(FEATURES, propensity=[0.5])
