"""Linear rankers go on from a checkpoint as if they had never stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import gainful
from gainful.engines.summed import SummedRisk
from gainful.errors import GainfulError, InterruptedFitWarning, ParameterError

CASES = {
    "ranksvm, bundle": lambda: gainful.RankSVM(C=1000.0, tol=1e-6),
    "ranknet, lbfgs": lambda: gainful.LinearRanker(loss="ranknet", tol=1e-10),
    "lambda, gradient": lambda: gainful.LinearRanker(loss="lambda", max_iter=40, standardize=True, init="regression"),
    "staged": lambda: gainful.LinearRanker(loss="reg-shf-sdcg", max_iter=30),
    "structured": lambda: gainful.StructuredSVM(C=100.0, tol=1e-5),
    "structured, subgradient": lambda: gainful.StructuredSVM(C=10.0, solver="subgradient", tol=1e-3),
    "structured, tight": lambda: gainful.StructuredSVM(C=10.0, bound="tight", tol=1e-6),
    "rankmm": lambda: gainful.RankMM(C=100.0, tol=1e-5),
    "a path of C": lambda: gainful.RankSVM(C=[1.0, 10.0, 100.0], tol=1e-5),
}


@pytest.fixture(scope="module")
def data():
    return gainful.make_artificial(60, n_docs=20, n_features=8, seed=3)


def stopping_after(n):
    seen = []

    def progress(event):
        seen.append(event.iteration)
        return len(seen) >= n

    return progress


@pytest.fixture
def passes(monkeypatch):
    """Counts the looks at the data."""
    counted = []
    for name in ("value_and_gradient", "objective", "along"):
        inner = getattr(SummedRisk, name)

        def counting(self, *arguments, inner=inner, name=name):
            counted.append(name)
            return inner(self, *arguments)

        monkeypatch.setattr(SummedRisk, name, counting)
    return counted


@pytest.mark.parametrize("case", CASES)
def test_a_resumed_fit_is_the_fit_never_stopped(case, data, tmp_path, passes):
    valid = gainful.make_artificial(20, n_docs=20, n_features=8, seed=4)
    whole = CASES[case]().fit(data, eval_set=valid)
    n_whole = len(passes)
    passes.clear()
    file = tmp_path / "c"
    with pytest.warns(InterruptedFitWarning):
        CASES[case]().fit(data, eval_set=valid, progress=stopping_after(7), checkpoint=file, checkpoint_every=0)
    n_before = len(passes)
    passes.clear()
    assert file.exists()
    found = CASES[case]().fit(data, eval_set=valid, checkpoint=file, checkpoint_every=0)
    np.testing.assert_allclose(found.coef_, whole.coef_, rtol=1e-9, atol=1e-12)
    assert found.n_iter_ == whole.n_iter_
    for row, other in zip(found.history_, whole.history_, strict=True):
        assert row["objective"] == pytest.approx(other["objective"], rel=1e-10)
    assert not file.exists()
    assert n_before > 5
    assert len(passes) <= n_whole - n_before + 3  # the scores of a point or two are computed again


def test_twice_interrupted(data, tmp_path):
    whole = gainful.RankSVM(C=1000.0, tol=1e-6).fit(data)
    file = tmp_path / "c"
    for n in (5, 9, 16):
        with pytest.warns(InterruptedFitWarning):
            gainful.RankSVM(C=1000.0, tol=1e-6).fit(
                data, progress=stopping_after(n), checkpoint=file, checkpoint_every=0
            )
    found = gainful.RankSVM(C=1000.0, tol=1e-6).fit(data, checkpoint=file)
    np.testing.assert_allclose(found.coef_, whole.coef_, rtol=1e-8)


def test_learned_position_weights_resume(data, tmp_path):
    model = {"position_weights": "learn", "C": 10.0}
    whole = gainful.StructuredSVM(**model).fit(data)
    file = tmp_path / "c"
    with pytest.warns(InterruptedFitWarning):
        gainful.StructuredSVM(**model).fit(data, progress=stopping_after(4), checkpoint=file, checkpoint_every=0)
    found = gainful.StructuredSVM(**model).fit(data, checkpoint=file)
    assert found.position_weights_search_ == pytest.approx(whole.position_weights_search_, abs=1e-9)
    np.testing.assert_allclose(found.coef_, whole.coef_, rtol=1e-8)


def test_an_error_of_the_data_leaves_the_checkpoint(data, tmp_path, monkeypatch):
    whole = gainful.LinearRanker().fit(data)
    calls, inner = [], SummedRisk.objective

    def failing(self, *arguments):
        calls.append(1)
        if len(calls) == 8:
            raise GainfulError("the cluster is gone")
        return inner(self, *arguments)

    monkeypatch.setattr(SummedRisk, "objective", failing)
    file = tmp_path / "c"
    with pytest.raises(GainfulError, match="the cluster is gone"):
        gainful.LinearRanker().fit(data, checkpoint=file, checkpoint_every=1e6)
    found = gainful.LinearRanker().fit(data, checkpoint=file)
    np.testing.assert_array_equal(found.coef_, whole.coef_)
    assert len(calls) < 8 + whole.n_iter_


def test_answers_to_other_questions_are_refused(data, tmp_path, monkeypatch):
    file = tmp_path / "c"
    with pytest.warns(InterruptedFitWarning):
        gainful.LinearRanker(init="regression").fit(
            data, progress=stopping_after(4), checkpoint=file, checkpoint_every=0
        )
    elsewhere = lambda data: (np.ones(data.n_features), 0.0, 0.0)  # noqa: E731
    monkeypatch.setattr("gainful.rankers.linear.solve_sharded_ridge", elsewhere)
    with pytest.raises(GainfulError, match="does not fit this training: step 1 asks something else"):
        gainful.LinearRanker(init="regression").fit(data, checkpoint=file)
    assert file.exists()


@pytest.mark.parametrize("model", [gainful.StructuredSVM(solver="cutting_plane"), gainful.RankMM(solver="stochastic")])
def test_solvers_without_checkpoints_say_so(model, data, tmp_path):
    with pytest.raises(ParameterError, match="writes no checkpoints with solver="):
        model.fit(data, checkpoint=tmp_path / "c")


SCRIPT = """
import sys, gainful
data = gainful.make_artificial(60, n_docs=20, n_features=8, seed=3)
def progress(event):
    print(event.iteration, flush=True)
gainful.RankSVM(C=1000.0, tol=1e-7).fit(data, progress=progress, checkpoint=sys.argv[1], checkpoint_every=0)
"""


def test_killed_and_resumed(data, tmp_path):
    file = tmp_path / "c"
    child = subprocess.Popen([sys.executable, "-c", SCRIPT, str(file)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    for line in child.stdout:
        if int(line) >= 15:
            break
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert file.exists()
    whole = gainful.RankSVM(C=1000.0, tol=1e-7).fit(data)
    found = gainful.RankSVM(C=1000.0, tol=1e-7).fit(data, checkpoint=file)
    np.testing.assert_allclose(found.coef_, whole.coef_, rtol=1e-8)
    assert found.n_iter_ == whole.n_iter_
