"""GBRank: what pairs ask for by brute force, and both ways a tree joins the others."""

from __future__ import annotations

from itertools import pairwise

import lightgbm as lgb
import numpy as np
import pytest

import gainful
from gainful import GBRank, ParameterError
from gainful.rankers.gbrank import PullingPairs

QUICK = {"n_trees": 9, "n_leaves": 6, "n_jobs": 1}
PLAIN = {"num_leaves": 6, "num_threads": 1, "verbosity": -1, "seed": 0, "deterministic": True, "force_row_wise": True,
         "objective": "none", "learning_rate": 0.1}  # fmt: skip


def asked_for(h, data, tau):
    """Σ of what the pairs ask each document to be, and how many pairs ask."""
    total, count = np.zeros(len(h)), np.zeros(len(h))
    for a, b in pairwise(data.offsets):
        for i in range(a, b):
            for j in range(a, b):
                if data.y[i] > data.y[j] and h[i] < h[j] + tau:
                    total[i] += h[j] + tau
                    total[j] += h[i] - tau
                    count[i] += 1
                    count[j] += 1
    return total, count


@pytest.mark.parametrize("tau", [0.3, 1.0, 4.0])
def test_gradients_are_the_distances_to_what_pairs_ask_for(tau, parts, rng):
    data = parts[0][:6]
    h = rng.normal(size=data.n_rows)
    total, count = asked_for(h, data, tau)
    gradient, curvature = PullingPairs(data, tau, "gradient", 1)(h, 3)
    assert np.allclose(curvature, count)
    assert np.allclose(gradient, count * h - total)
    gradient, curvature = PullingPairs(data, tau, "average", 1)(3.0 * h, 3)  # the booster holds 3·h before tree 3
    assert np.allclose(curvature, count)
    assert np.allclose(gradient, -total)


def test_the_average_is_the_papers_recursion(parts):
    """h_m = (m·h_{m−1} + η·t_m)/(m + 1), with every t_m a tree fitted alone to what the pairs ask for."""
    data = parts[0][:20]
    train = lgb.Dataset(data.X, label=data.y, group=data.counts, params=PLAIN).construct()
    h = np.zeros(data.n_rows)
    for m in range(1, 6):
        total, count = asked_for(h, data, 1.0)
        tree = lgb.Booster(PLAIN, train)
        tree.update(fobj=lambda scores, _, total=total, count=count: (-total, count))
        h = (m * h + tree.predict(data.X)) / (m + 1)
    model = GBRank(update="average", **{**QUICK, "n_trees": 5}).fit(data)
    assert np.allclose(model.predict(data), h, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("update", ["gradient", "average"])
def test_pairs_are_put_in_order(update, parts):
    train, valid, test = parts
    model = GBRank(update=update, n_trees=60, n_leaves=8, n_jobs=1).fit(train, eval_set=valid)
    assert model.score(test) > gainful.metric("ndcg@10")(np.zeros(test.n_rows), test) + 0.05


def test_the_file_knows_the_update(parts, tmp_path):
    model = GBRank(update="average", **QUICK).fit(parts[0])
    gainful.save(model, tmp_path / "m.gainful")
    assert np.allclose(gainful.load(tmp_path / "m.gainful").predict(parts[2]), model.predict(parts[2]))


def test_going_on_with_another_update_is_refused(parts):
    model = GBRank(warm_start=True, **QUICK).fit(parts[0])
    with pytest.raises(ParameterError, match="were grown with update='gradient'"):
        model.set_params(update="average", n_trees=20).fit(parts[0])
