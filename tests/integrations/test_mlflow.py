"""MLflow, replaced by a fake that records every call and refuses what MLflow refuses."""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager
from types import ModuleType

import numpy as np
import pytest

import gainful
from gainful.errors import MissingExtraError
from gainful.integrations import mlflow as logging


class StandIn(ModuleType):
    """The functions of MLflow that are used."""

    def __init__(self):
        super().__init__("mlflow")
        self.runs, self.open = [], []

    def active_run(self):
        return self.open[-1] if self.open else None

    @contextmanager
    def start_run(self, run_name=None, nested=False):
        assert nested or not self.open
        run = {"name": run_name, "nested": nested, "params": {}, "metrics": [], "tags": {}, "models": []}
        self.runs.append(run)
        self.open.append(run)
        yield run
        self.open.pop()

    def run(self):
        if not self.runs:
            self.runs.append({"params": {}, "metrics": [], "tags": {}, "models": []})
        return self.active_run() or self.runs[-1]

    def set_tags(self, tags):
        self.run()["tags"] |= tags

    def log_params(self, params):
        assert all(len(str(value)) <= 250 for value in params.values())
        self.run()["params"] |= params

    def log_metrics(self, metrics, step=None):
        for name, value in metrics.items():
            assert re.fullmatch(r"[\w./: -]+", name), f"MLflow refuses the name {name!r}"
            assert isinstance(value, float)
            self.run()["metrics"].append((name, value, step))

    def log_artifact(self, path):
        self.run()["models"].append((path.rsplit("/", 1)[1], gainful.load(path)))


@pytest.fixture
def mlflow(monkeypatch):
    module = StandIn()
    monkeypatch.setitem(sys.modules, "mlflow", module)
    return module


def test_a_fit_is_logged_whole(mlflow, parts):
    train, valid, test = parts
    model = gainful.LambdaMART(n_trees=4, n_jobs=1).fit(train, eval_set=valid)
    logging.log_fit(model, metrics={"test ndcg@10": model.score(test)})
    (run,) = mlflow.runs
    assert run["params"]["n_trees"] == "4"
    assert run["tags"] == {"gainful.version": gainful.__version__, "gainful.class": "LambdaMART"}
    by_step = [(value, step) for name, value, step in run["metrics"] if name == "validation"]
    assert by_step == [(row["validation"], row["iteration"]) for row in model.history_]
    figures = {name: value for name, value, step in run["metrics"] if step is None}
    assert figures == {
        "training_queries": train.n_queries, "training_rows": train.n_rows, "iterations": 4.0,
        "best_validation": max(value for value, _ in by_step), "test_ndcg_at_10": model.score(test),
    }  # fmt: skip
    ((name, logged),) = run["models"]
    assert name == "model.gainful"
    assert np.array_equal(logged.predict(test), model.predict(test))


def test_within_the_block_every_fit_is_logged_in_a_run_of_its_own(mlflow, parts):
    model = gainful.RegressionRanker()
    with logging.autolog(model_file=False):
        model.fit(parts[0])
        with mlflow.start_run("mine"):
            model.fit(parts[1])
        with pytest.raises(gainful.DataError):
            model.fit(parts[0].X, parts[0].y)
    model.fit(parts[2])
    assert [(run["name"], run["nested"]) for run in mlflow.runs] == [
        ("RegressionRanker", False), ("mine", False), ("RegressionRanker", True),
    ]  # fmt: skip
    assert not any(run["models"] for run in mlflow.runs)


def test_a_class_of_ones_own_is_logged_without_its_file(mlflow, parts):
    class Mine(gainful.RegressionRanker):
        pass

    with logging.autolog(), pytest.warns(UserWarning, match=r"without the model file: Mine is not one of gainful's"):
        model = Mine().fit(parts[0])
    assert model.predict(parts[0]).shape == (parts[0].n_rows,)
    (run,) = mlflow.runs
    assert run["tags"]["gainful.class"] == "Mine"
    assert not run["models"]
    with logging.autolog():
        gainful.RegressionRanker().fit(parts[0])
    assert len(mlflow.runs[1]["models"]) == 1


def test_without_mlflow_it_says_so(monkeypatch, parts):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(MissingExtraError, match="needs mlflow, which is not installed; run: pip install mlflow"):
        logging.log_fit(gainful.RegressionRanker().fit(parts[0]))
    with pytest.raises(MissingExtraError), logging.autolog():
        pass


def test_only_fitted_rankers_are_logged(mlflow):
    with pytest.raises(gainful.ParameterError, match="model of log_fit must be a fitted ranker"):
        logging.log_fit("model")
    with pytest.raises(Exception, match="call fit first"):
        logging.log_fit(gainful.RegressionRanker())
    assert not mlflow.runs
