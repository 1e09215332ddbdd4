"""SmoothDCG: its parameters reach the loss, and the loss the trees."""

from __future__ import annotations

import numpy as np
import pytest

import gainful
from gainful import BoostedRanker, SmoothDCG

TREES = {"n_leaves": 6, "learning_rate": 0.1, "min_docs_in_leaf": 20, "colsample": 1.0, "n_jobs": 1}
QUICK = {"n_trees": 12, **TREES}


@pytest.mark.parametrize(
    ("given", "loss"),
    [
        ({"variant": "sdcg", "alpha": 2.0, "start_trees": 4}, "sdcg(alpha=2.0, beta=1.0, k=10)"),
        ({"variant": "shf", "beta": 0.5, "k": 3}, "shf-sdcg(alpha=1.0, beta=0.5, k=3)"),
        ({"variant": "shf", "target": "dcg", "k": None}, "shf-sdcg(alpha=1.0, beta=1.0, k=None, target=dcg)"),
        ({"variant": "shf", "least_spread": 0.5}, "shf-sdcg(alpha=1.0, beta=1.0, k=10, least_spread=0.5)"),
        ({"variant": "shf", "step": "gradient"}, "shf-sdcg(alpha=1.0, beta=1.0, k=10)"),
        ({"variant": "reg-shf", "regression": 0.2}, "reg-shf-sdcg(alpha=1.0, beta=1.0, k=10, regression=0.2)"),
    ],
)
def test_it_is_the_loss_on_trees(given, loss, parts):
    train, _, test = parts
    plain = {"alpha": 1.0, "beta": 1.0, "k": 10, "target": "ndcg", "least_spread": None, "gradient_scale": 50.0}
    plain["grade_step"] = 1.0
    model = SmoothDCG(**QUICK, **{**plain, **given}).fit(train)
    start = given.get("start_trees", 0)
    step = given.get("step", "newton")
    same = BoostedRanker(loss=loss, step=step, gradient_scale=50.0, start_trees=start, **QUICK).fit(train)
    assert model.loss_ == same.loss_
    assert np.array_equal(model.predict(test), same.predict(test))


def test_the_regression_comes_first_and_the_measure_last(parts):
    train, _, _ = parts
    settings = {"n_trees": 40, **TREES}
    model = SmoothDCG("reg-shf", **settings, regression=1.0, grade_step=1.0).fit(train)
    squared = BoostedRanker("squared", "newton", gradient_scale=model.gradient_scale_, **settings).fit(train)

    def distance(trees):
        ours, theirs = (m.booster_.predict(train.X, num_iteration=trees) for m in (model, squared))
        return float(np.abs(ours - theirs).max() / np.abs(theirs).max())

    assert distance(5) < 1e-3
    assert distance(40) > 0.05


@pytest.mark.parametrize("name", ["sdcg", "shf-sdcg", "reg-shf-sdcg"])
def test_each_variant_raises_training_ndcg(name, parts):
    train, _, _ = parts
    model = gainful.ranker(name, **{**TREES, "n_trees": 80}).fit(train)
    assert model.score(train) > gainful.metric("ndcg@10")(np.zeros(train.n_rows), train) + 0.15
