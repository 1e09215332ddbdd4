"""Permutation importance: the definition by brute force, known cases, every kind of data, and the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import sparse

import gainful
from gainful import ParameterError
from gainful.cli import run
from gainful.explanation.importance import query_losses

NAMES = ("useful", "useless", "weak")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    qid = np.repeat(np.arange(40), 8)
    X = rng.normal(size=(320, 3))
    y = np.clip(np.round(2 * X[:, 0] + 0.3 * X[:, 2] + 1.0), 0, 4)
    X[:, 1] = rng.normal(size=40)[qid]  # the same within each query
    return gainful.RankingData.from_rows(X, y, qid, feature_names=NAMES)


@pytest.fixture(scope="module")
def model(data):
    return gainful.RegressionRanker().fit(data)


@pytest.fixture(scope="module")
def found(model, data):
    return gainful.permutation_importance(model, data, seed=1)


def test_a_feature_that_decides_loses_most_and_one_that_cannot_loses_nothing(found, model, data):
    losses = {one.feature: one for one in found.losses}
    assert found.losses[0].feature == "useful"
    assert losses["useful"].low > 0.1
    assert (losses["useless"].loss, losses["useless"].low, losses["useless"].high) == (0.0, 0.0, 0.0)
    assert found.value == gainful.evaluate(model, data)["ndcg@10"]
    assert [one.loss for one in found.losses] == pytest.approx(found.per_query.mean(axis=0).tolist())
    for one in found.losses:
        assert one.low <= one.loss <= one.high


def test_the_mean_over_many_repeats_is_the_mean_over_all_permutations():
    """One query of two documents: half of the permutations swap, so half of the repeats lose what a swap costs."""
    data = gainful.RankingData.from_rows([[2.0], [1.0]], [1, 0], [7, 7])
    ndcg = gainful.metric("ndcg@10")
    values, losses = query_losses(lambda rows: rows.X[:, 0], data, ndcg, None, 400, 0)
    swap = 1.0 - 1.0 / np.log2(3.0)
    assert values.tolist() == [1.0]
    assert losses[0, 0] == pytest.approx(0.5 * swap, abs=4 * 0.5 * swap / np.sqrt(400))


def test_losses_by_definition(model, data):
    """Every permuted matrix keeps the values of each query and all other columns; losses follow from its scores."""
    ndcg, seen = gainful.metric("ndcg@10"), []

    def predict(rows):
        seen.append(np.array(rows.X))
        return model.predict(rows)

    values, losses = query_losses(predict, data, ndcg, [0, 2], 2, 5)
    assert len(seen) == 1 + 2 * 2
    for i, place in enumerate((0, 2)):
        told = []
        for X in seen[1 + 2 * i : 3 + 2 * i]:
            assert np.array_equal(np.delete(X, place, 1), np.delete(data.X, place, 1))
            assert not np.array_equal(X, data.X)
            for q in range(data.n_queries):
                part = slice(*data.offsets[q : q + 2])
                assert sorted(X[part, place]) == sorted(data.X[part, place])
            told.append(values - ndcg.per_query(model.predict(X), data))
        assert losses[:, i] == pytest.approx(np.mean(told, axis=0))


def test_sparse_and_dense_data_have_the_same_losses(model, data, found):
    thin = data.replace(X=sparse.csr_matrix(data.X))
    again = gainful.permutation_importance(model, thin, seed=1)
    assert again.per_query == pytest.approx(found.per_query, abs=1e-9)


def test_features_are_chosen_by_name_or_number_without_changing_their_losses(model, data, found):
    one = gainful.permutation_importance(model, data, features=["weak", 1], seed=1)
    whole = {each.feature: each.loss for each in found.losses}
    assert {each.feature: each.loss for each in one.losses} == {name: whole[name] for name in ("weak", "useful")}


def test_a_model_without_contributions_has_losses(data):
    kernel = gainful.KernelStructuredSVM(n_landmarks=10, tol=0.1).fit(data)
    assert gainful.permutation_importance(kernel, data, repeats=1).losses[0].feature == "useful"


def test_it_can_be_read_and_plotted(found):
    assert found.to_dict(2)["features"][0]["feature"] == "useful"
    assert len(found.to_dict(2)["features"]) == 2
    assert "useful" in str(found)
    assert "useful" in found._repr_html_()
    assert len(found.plot(top=2).get_yticklabels()) == 2


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"repeats": 0}, "repeats"),
        ({"level": 1.0}, "level"),
        ({"features": ["odd"]}, "odd"),
        ({"metric": "dcg!"}, "dcg"),
    ],
)
def test_wrong_settings_are_refused(model, data, given, told):
    with pytest.raises(gainful.GainfulError, match=told):
        gainful.permutation_importance(model, data, **given)


def test_only_a_ranker_and_data_in_memory(model, data):
    with pytest.raises(ParameterError, match="a fitted ranker"):
        gainful.permutation_importance(len, data)
    with pytest.raises(ParameterError, match="RankingData"):
        gainful.permutation_importance(model, data.X)


@pytest.fixture(scope="module")
def files(tmp_path_factory, model, data):
    folder = tmp_path_factory.mktemp("importance")
    gainful.save(model, folder / "model.gainful")
    gainful.write(data, folder / "data.csv")
    return str(folder / "model.gainful"), str(folder / "data.csv")


def test_the_command_line_has_the_same_losses(files, found, capsys):
    assert run(["explain", *files, "--importance", "--seed", "1", "--json", "--top", "2"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["features"] == found.to_dict(2)["features"]
    assert run(["explain", *files, "--importance", "--metric", "map", "--repeats", "1", "--top", "1"]) == 0
    shown = capsys.readouterr().out
    assert "map" in shown
    assert "2 more" in shown


@pytest.mark.parametrize("more", [["--importance", "--query", "3"], ["--repeats", "3"], ["--metric", "map"]])
def test_options_that_would_change_nothing_are_refused(files, capsys, more):
    assert run(["explain", *files, *more]) == 2
    assert "--importance" in capsys.readouterr().err
