"""``booster_`` is the model: no tree stands behind the best iteration, however the training came about."""

from __future__ import annotations

import numpy as np
import pytest

import gainful
from gainful import InterruptedFitWarning, LambdaMART

TREES = [name for name, entry in gainful.RANKERS.items() if entry.kind == "trees"]
QUICK = {"n_trees": 12, "n_leaves": 7, "min_docs_in_leaf": 3, "n_jobs": 1, "early_stopping": 5}


@pytest.fixture
def upside_down(parts):
    """Validation data with the grades turned over: more trees only make it worse."""
    valid = parts[1]
    return valid.replace(y=valid.y.max() - valid.y)


def assert_is_the_model(model, data, models=1):
    iterations = model.booster_.current_iteration()
    assert iterations == model.best_iteration_ == model.booster_.num_trees() / models
    own = model._to_scores(model.booster_.predict(data.X)) * (model._factor() if hasattr(model, "_factor") else 1.0)
    np.testing.assert_array_equal(own, model.predict(data))


@pytest.mark.parametrize("name", TREES)
def test_trees_after_the_best_are_dropped(name, parts, upside_down, tmp_path):
    train, _, test = parts
    extra = {"max_classes": 5} if name.startswith("mcrank") else {}
    model = gainful.ranker(name, **QUICK, **extra).fit(train, eval_set=upside_down)
    models = model.booster_.num_model_per_iteration()
    assert model.best_iteration_ < model.n_iter_
    assert_is_the_model(model, test, models)
    gainful.save(model, tmp_path / "model.gainful")
    assert_is_the_model(gainful.load(tmp_path / "model.gainful"), test, models)


def test_going_on_and_resuming_drop_them_too(parts, upside_down, tmp_path):
    train, valid, test = parts
    model = LambdaMART(**QUICK, warm_start=True).fit(train, eval_set=valid)
    model.set_params(n_trees=30).fit(train, eval_set=upside_down)
    assert_is_the_model(model, test)
    resumed, file = LambdaMART(**QUICK), tmp_path / "training.check"
    with pytest.warns(InterruptedFitWarning):
        resumed.fit(train, eval_set=upside_down, checkpoint=file, progress=lambda now: now.iteration == 3)
    assert_is_the_model(resumed, test)
    resumed = LambdaMART(**QUICK).fit(train, eval_set=upside_down, checkpoint=file)
    assert_is_the_model(resumed, test)


def test_a_model_file_with_more_trees_than_the_best_is_cut_on_loading(parts):
    train, _, test = parts
    whole, model = (LambdaMART(**{**QUICK, "n_trees": n}).fit(train) for n in (12, 5))
    model._unpack({"booster": whole.booster_.model_to_string(), "best_iteration": 5, "monotone": None})
    assert_is_the_model(model, test)
