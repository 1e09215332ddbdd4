"""What becomes of clicks before training: by hand."""

from __future__ import annotations

import numpy as np
import pytest

import gainful
from gainful import Debias, RankingData
from gainful.data.blocks import LocalBlocks
from gainful.data.sharded import ShardedData
from gainful.debiasing.debias import COPIES, LISTS, RATES, Correction, find_correction
from gainful.debiasing.pair_ratios import learn_ratios
from gainful.debiasing.regression_em import learn_propensities
from gainful.errors import DataError, ParameterError, UnknownNameError


def rows(y=(1, 0, 1, 1, 0), **more):
    X = np.arange(10.0).reshape(5, 2)
    return RankingData.from_rows(X, np.array(y, dtype=float), [7, 7, 7, 8, 8], **more)


def test_clicks_count_by_their_propensities_and_impressions():
    data = rows(propensity=[1.0, 0.5, 0.25, 0.5, 0.1], sample_weight=[1, 1, 3, 2, 1])
    lists = Correction(Debias("ipw", clip=0.0)).apply(data, LISTS)
    assert lists.click_weights.tolist() == [1.0, 0.0, 12.0, 4.0, 0.0]
    assert lists.query_weights.tolist() == [13.0, 4.0]
    assert not lists.has_clicks
    assert not lists.has_document_weights


def test_clipping():
    data = rows(propensity=[1.0, 0.5, 0.25, 0.5, 0.1])
    lists = Correction(Debias("ipw", clip=0.4)).apply(data, LISTS)
    assert lists.click_weights.tolist() == [1.0, 0.0, 2.5, 2.0, 0.0]


def test_self_normalised_queries_count_by_their_clicks():
    data = rows(propensity=[1.0, 0.5, 0.25, 0.5, 0.1])
    lists = Correction(Debias("ipw", self_normalise=True)).apply(data, LISTS)
    assert lists.click_weights.tolist() == [0.4, 0.0, 1.6, 1.0, 0.0]
    assert lists.query_weights.tolist() == [2.0, 1.0]


def test_rates_and_documents_that_were_not_shown():
    data = rows(propensity=[1.0, 0.5, 0.25, 0.5, 0.1], position=[1, 0, 2, 1, 2], sample_weight=[2, 2, 2, 1, 1])
    rates = Correction(Debias("ipw")).apply(data, RATES)
    assert rates.y.tolist() == [1.0, 0.0, 4.0, 2.0, 0.0]
    assert rates.row_weights.tolist() == [2.0, 0.0, 2.0, 1.0, 1.0]


def test_pairs_count_by_both_ratios():
    data = rows(position=[1, 2, 3, 1, 2])
    correction = Correction(Debias("pairwise"), np.array([1.0, 0.5, 0.25]), np.array([1.0, 2.0, 4.0]))
    copies = correction.apply(data, COPIES)
    # lists of rows 0, 2 and 3; in the first two, only row 1 was not clicked: ½, the mean over two rivals is ¼
    assert copies.query_weights == pytest.approx([1.0 * 0.25, 4.0 * 0.25, 1.0 * 0.5])
    assert copies.document_weights.tolist() == [1.0, 0.5, 0.0, 0.0, 0.5, 1.0, 1.0, 0.5]
    assert copies.y.tolist() == [1, 0, 0, 0, 0, 1, 1, 0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, Debias()),
        ("ipw", Debias("ipw")),
        ("em(clip=0.05)", Debias("em", clip=0.05)),
        (" pairwise ( clip=0 , self_normalise=true ) ", Debias("pairwise", 0.0, True)),
    ],
)
def test_settings_as_text(text, expected):
    assert Debias.of(text) == expected
    assert Debias.of(str(expected)) == expected


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("imp", UnknownNameError, "there is no method of debiasing 'imp'"),
        ("ipw(least=1)", UnknownNameError, "Debias has no parameter 'least'"),
        ("ipw(clip=x)", ParameterError, "clip of Debias must be"),
        ("ipw(clip=1)", ParameterError, "clip of Debias must be"),
        (3, ParameterError, "debias of fit must be"),
    ],
)
def test_wrong_settings(text, error, message):
    with pytest.raises(error, match=message):
        Debias.of(text)


@pytest.mark.parametrize(
    ("data", "debias", "message"),
    [
        (rows(position=[1, 2, 3, 1, 2]), "ipw", "'ipw' needs the propensity of each row"),
        (rows(propensity=[1, 1, 1, 1, 1]), "em", "'em' needs the position of each row"),
        (rows((2, 0, 0, 0, 0), position=[1, 2, 3, 1, 2]), "em", "but y goes up to 2"),
        (rows((0, 0, 0, 0, 0), position=[1, 2, 3, 1, 2]), "em", "there is no click in the data"),
    ],
)
def test_what_a_method_needs(data, debias, message):
    with pytest.raises(DataError, match=message):
        find_correction(data, Debias.of(debias))


# -- learned propensities ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shown():
    """Clicks of PBM users whose wishes are a logistic function of the features, and pages in several orders."""
    rng = np.random.default_rng(3)
    n, length = 4000, 6
    X = rng.normal(size=(n * length, 2))
    wanted = 1.0 / (1.0 + np.exp(-(X @ [2.0, -1.0] - 0.5)))
    position = np.tile(np.arange(1, length + 1), n)
    y = rng.random(n * length) < wanted / position
    return RankingData.from_rows(X, y, np.repeat(np.arange(n), length), position=position)


def test_em_recovers_propensities_and_never_lowers_the_likelihood(shown):
    found = learn_propensities(shown)
    assert found.propensities == pytest.approx(1.0 / np.arange(1, 7), abs=0.03)
    assert found.coef == pytest.approx([2.0, -1.0], abs=0.2)
    assert (np.diff(found.objectives) >= -1e-9 * abs(found.objectives[-1])).all()
    halves = ShardedData(LocalBlocks([shown[:1000], shown[1000:]]))
    assert learn_propensities(halves).propensities == pytest.approx(found.propensities, abs=1e-5)


def test_ratios_of_pairs_fall_with_the_position(shown):
    def weigh(data, plus, minus):
        return Correction(Debias("pairwise"), plus[1:], minus[1:]).apply(data, LISTS)

    plus, minus = learn_ratios(shown, weigh)
    assert plus == pytest.approx(1.0 / np.arange(1, 7), abs=0.1)
    assert (minus[1:] > 1.0).all()  # an unclicked document further down says less


def test_missing_values_and_unseen_positions(shown):
    X = np.array(shown.X[:600])
    X[::7, 0] = np.nan
    data = RankingData.from_rows(X, shown.y[:600], shown.qid[:600], position=shown.positions[:600])
    correction = find_correction(data, Debias())
    assert correction.how.method == "em"
    assert np.isfinite(correction.propensities).all()
    further = rows(position=[9, 2, 1, 1, 2])  # beyond what was seen: as the last position
    assert correction.propensities_of(further)[0] == correction.propensities[-1]


def test_a_click_model_gives_propensities():
    data = gainful.make_artificial(10, n_docs=5, n_features=3, seed=1)
    users = gainful.make_click_model("pbm", data, eta=2.0, depth=5)
    log = gainful.simulate_clicks(data, users, sessions=300, seed=2)
    lists = log.to_data(data, propensity=False)
    by_model = gainful.ranker("ranknet").fit(lists, propensity=users)
    by_log = gainful.ranker("ranknet").fit(log.to_data(data))
    assert by_model.coef_ == pytest.approx(by_log.coef_, rel=1e-6)
    with pytest.raises(ParameterError, match="give position, too"):
        gainful.ranker("ranknet").fit(data, propensity=users)
