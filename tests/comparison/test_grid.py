"""Every loss on every model: a grid of contestants, and the matrix it fills."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from typer.testing import CliRunner

import gainful
from gainful.cli.app import app
from gainful.comparison.grid import MODELS

QUICK = {
    "linear": {"max_iter": 60},
    "trees": {"n_trees": 12, "n_leaves": 6, "n_jobs": 1},
    "net": {"epochs": 6, "hidden": (8,), "device": "cpu", "learning_rate": 0.02},
}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("loss", list(gainful.LOSSES))
def test_every_loss_trains_every_model(loss, model, parts):
    """Any loss on any model: scores are finite, differ, and rank better than no ranking."""
    train, valid, test = parts
    ((label, ranker),) = gainful.loss_grid(loss, model, QUICK).items()
    assert label == f"{loss} on {model}"
    scores = ranker.fit(train, eval_set=valid).predict(test)
    assert np.isfinite(scores).all()
    measure = gainful.metric("ndcg@10")
    assert measure(ranker.predict(train), train) > measure(np.zeros(train.n_rows), train) + 0.01


def test_losses_keep_their_parameters_and_none_comes_twice():
    grid = gainful.loss_grid("lambda(k=5), ranknet, lambda(k=5)", "trees")
    assert list(grid) == ["lambda(k=5) on trees", "ranknet on trees"]
    assert grid["lambda(k=5) on trees"].get_params()["loss"] == "lambda(k=5)"


def test_a_loss_of_ones_own_goes_in_as_it_is(parts):
    train, _, test = parts

    def twice(scores, grades):
        return float(((scores - grades) ** 2).sum()), 2.0 * (scores - grades)

    grid = gainful.loss_grid([gainful.loss(twice, convex=True, smooth=True)], "linear", QUICK)
    assert list(grid) == ["custom:twice on linear"]
    assert np.ptp(grid["custom:twice on linear"].fit(train).predict(test)) > 0


def test_a_loss_that_is_flat_at_the_start_starts_elsewhere():
    grid = gainful.loss_grid("sdcg", "linear,trees")
    assert grid["sdcg on linear"].init == "regression"
    assert grid["sdcg on trees"].start_trees > 0


def test_empty_entries_between_commas_are_ignored():
    assert list(gainful.loss_grid("ranknet, lambda(k=5),", "linear,,trees, ")) == [
        "ranknet on linear", "ranknet on trees", "lambda(k=5) on linear", "lambda(k=5) on trees",
    ]  # fmt: skip
    for losses, models in (("", "linear"), (" , ", "linear"), ("ranknet", ","), ([], "linear")):
        with pytest.raises(gainful.GainfulError, match="the grid is empty"):
            gainful.loss_grid(losses, models)


def test_what_is_not_known_is_refused_with_the_nearest():
    with pytest.raises(gainful.GainfulError, match="did you mean 'trees'"):
        gainful.loss_grid("ranknet", "tree")
    with pytest.raises(gainful.GainfulError, match="did you mean 'ranknet'"):
        gainful.loss_grid("rank-net", "trees")


def test_the_matrix_holds_the_means_of_the_comparison(parts):
    train, valid, test = parts
    grid = gainful.loss_grid("ranknet,squared", "linear,trees", QUICK)
    result = gainful.compare(grid, train, valid=valid, test=test, metrics=["ndcg@5", "map"])
    matrix = gainful.LossMatrix.of(result)
    assert matrix is not None
    assert (matrix.losses, matrix.models) == (("ranknet", "squared"), ("linear", "trees"))
    for i, loss in enumerate(matrix.losses):
        for j, model in enumerate(matrix.models):
            assert matrix.values[i, j] == result.mean(f"{loss} on {model}", "ndcg@5")
    lines = result.table().splitlines()
    assert any(line.split()[:5] == ["loss", "ndcg@5", "linear", "fit", "ndcg@5"] for line in lines)
    assert "Every loss on every model" in result.to_html()
    plain = gainful.compare("regression", train, valid=valid, test=test)
    assert gainful.LossMatrix.of(plain) is None


def test_the_command_line_prints_the_matrix(parts, tmp_path):
    gainful.write(parts[0], tmp_path / "data.txt")
    given = ["compare", str(tmp_path / "data.txt"), "--losses", "squared,listnet", "--models", "linear", "--json"]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)["grid"]
    assert told["losses"] == ["squared", "listnet"]
    assert all(math.isfinite(row[0]) for row in told["values"])
    done = CliRunner().invoke(app, [*given[:-1], "--rankers", "regression"])
    assert done.exit_code != 0
