"""Every ranker of the registry can be tuned: its space holds values that it takes and trains with."""

from __future__ import annotations

import math

import pytest

import gainful
from gainful.parameters.space import Values
from gainful.tuning.tune import search_space

# What bounds the time of one fit; not what is tuned.
SHORT = {"n_trees": 4, "n_rounds": 4, "epochs": 2, "max_iter": 20, "n_restarts": 1, "n_landmarks": 20}
NAMES = [name for name, entry in gainful.RANKERS.items() if entry.kind != "blend"]  # blends choose settings themselves


def short(name):
    entry = gainful.RANKERS[name]
    return gainful.ranker(
        name, **{k: v for k, v in SHORT.items() if k in entry.cls.parameters and k not in entry.params}
    )


@pytest.mark.parametrize("name", NAMES)
def test_values_of_the_space_are_taken(name):
    model = gainful.ranker(name)
    space = search_space(model, None, ())
    assert space, f"{name} has nothing to tune; give its class a space"
    for parameter, dimension in space.items():
        assert dimension.why, f"{parameter} of {name} does not say why it has this range"
        constraint = model.parameters[parameter]
        values = [*dimension.points(5), *(dimension.at(u) for u in (0.0, 0.3, math.nextafter(1.0, 0.0)))]
        assert all(constraint.accepts(value) for value in values)
        assert isinstance(dimension, Values) or len(set(values)) > 2
    assert set(model.space) <= set(model.parameters)


@pytest.mark.parametrize("name", NAMES)
def test_draws_can_be_trained_and_workers_change_nothing(name):
    data = gainful.make_artificial(24, n_docs=10, n_features=5, seed=1)
    one, four = (gainful.tune(short(name), data, trials=4, n_jobs=n, refit=False, prune=False).trials for n in (1, 4))
    assert [row.get("reason") for row in one] == [None] * 4
    assert all(0 < row["value"] <= 1 for row in one)
    clock = ("seconds", "elapsed")
    bare = [[{k: v for k, v in row.items() if k not in clock} for row in rows] for rows in (one, four)]
    assert bare[0] == bare[1]
