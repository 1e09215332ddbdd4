"""Linear rankers resume from a checkpoint as if they had never stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import gainful
from gainful.errors import GainfulError, InterruptedFitWarning, ParameterError
from gainful.linear.blockwise import BlockwiseRisk

CASES = {
    "ranksvm, bundle": lambda: gainful.RankSVM(C=1000.0, tol=1e-6),
    "ranknet, lbfgs": lambda: gainful.LinearRanker(loss="ranknet", tol=1e-10),
    "lambda, gradient": lambda: gainful.LinearRanker(loss="lambda", max_iter=40, init="regression"),
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
    for name in ("value_and_gradient", "without_scores", "along"):
        inner = getattr(BlockwiseRisk, name)

        def counting(self, *arguments, inner=inner, name=name):
            counted.append(name)
            return inner(self, *arguments)

        monkeypatch.setattr(BlockwiseRisk, name, counting)
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


def test_ctrl_c_while_position_weights_are_learned(data, tmp_path, monkeypatch):
    model = {"position_weights": "learn", "C": 10.0}
    whole = gainful.StructuredSVM(**model).fit(data)
    file, calls, inner = tmp_path / "c", [], BlockwiseRisk.value_and_gradient

    def interrupted(self, w):
        calls.append(1)
        if len(calls) == 20:
            raise KeyboardInterrupt
        return inner(self, w)

    monkeypatch.setattr(BlockwiseRisk, "value_and_gradient", interrupted)
    with pytest.raises(KeyboardInterrupt):
        gainful.StructuredSVM(**model).fit(data, checkpoint=file, checkpoint_every=1e6)
    calls[:] = [1] * 100
    found = gainful.StructuredSVM(**model).fit(data, checkpoint=file)
    assert found.position_weights_search_ == pytest.approx(whole.position_weights_search_, abs=1e-9)
    np.testing.assert_allclose(found.coef_, whole.coef_, rtol=1e-8)


def test_an_error_of_the_data_leaves_the_checkpoint(data, tmp_path, monkeypatch):
    whole = gainful.LinearRanker().fit(data)
    calls, inner = [], BlockwiseRisk.without_scores

    def failing(self, *arguments):
        calls.append(1)
        if len(calls) == 8:
            raise GainfulError("the cluster is gone")
        return inner(self, *arguments)

    monkeypatch.setattr(BlockwiseRisk, "without_scores", failing)
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
    elsewhere = lambda journal, name, ask: journal.vector(name, ask) + 1.0  # noqa: E731
    monkeypatch.setattr("gainful.linear.scaling.record_vector", elsewhere)
    with pytest.raises(GainfulError, match="does not fit this training: step 3 asks something else"):
        gainful.LinearRanker(init="regression").fit(data, checkpoint=file)
    assert file.exists()


@pytest.mark.parametrize("case", CASES)
def test_a_stop_brings_the_checkpoint_up_to_date(case, data, tmp_path, passes):
    valid = gainful.make_artificial(20, n_docs=20, n_features=8, seed=4)
    whole = CASES[case]().fit(data, eval_set=valid)
    n_whole, file = len(passes), tmp_path / "c"
    passes.clear()
    with pytest.warns(InterruptedFitWarning):  # long before a write is due
        CASES[case]().fit(data, eval_set=valid, progress=stopping_after(7), checkpoint=file, checkpoint_every=1e6)
    n_before = len(passes)
    passes.clear()
    found = CASES[case]().fit(data, eval_set=valid, checkpoint=file, checkpoint_every=1e6)
    np.testing.assert_allclose(found.coef_, whole.coef_, rtol=1e-9, atol=1e-12)
    assert found.n_iter_ == whole.n_iter_
    assert len(passes) <= n_whole - n_before + 3


def test_ctrl_c_between_two_questions(data, tmp_path):
    """Before there is a model to keep, and at a moment when the data are not asked."""
    file = tmp_path / "c"

    def interrupt(event):
        raise KeyboardInterrupt

    with pytest.warns(InterruptedFitWarning):
        gainful.RankSVM().fit(data, progress=interrupt, checkpoint=file, checkpoint_every=1e6)
    assert file.exists()
    file.unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gainful.rankers.linear.minimize_lbfgs", lambda objective, v, **_: objective(v) and interrupt(0))
        with pytest.raises(KeyboardInterrupt):
            gainful.LinearRanker().fit(data, checkpoint=file, checkpoint_every=1e6)
    assert file.exists()


def test_old_rows_keep_seconds_and_validation(data, tmp_path, monkeypatch):
    valid = gainful.make_artificial(20, n_docs=20, n_features=8, seed=4)
    file, make = tmp_path / "c", lambda: gainful.RankSVM(C=[1.0, 10.0, 100.0], scale=None, tol=1e-5)
    with pytest.warns(InterruptedFitWarning):
        stopped = make().fit(data, eval_set=valid, progress=stopping_after(20), checkpoint=file, checkpoint_every=1e6)
    assert len(stopped.path_) > 1
    measured, inner = [], gainful.metrics.Metric.per_query
    monkeypatch.setattr(gainful.metrics.Metric, "per_query", lambda *a, **k: measured.append(1) or inner(*a, **k))
    found = make().fit(data, eval_set=valid, checkpoint=file)
    assert len(measured) == 3 - (len(stopped.path_) - 1)  # what was measured is known
    # the time of a row is that of the last answer before it: behind the row before
    old = [row["seconds"] for row in stopped.history_]
    for i, (known, row) in enumerate(zip(stopped.history_[:-1], found.history_, strict=False)):
        assert row["validation"] == known["validation"]
        assert (old[i - 1] if i else 0.0) < row["seconds"] <= old[i]
    n = stopped.path_[0]["iterations"]
    assert stopped.path_[0]["validation"] == found.path_[0]["validation"]
    assert old[n - 2] < found.path_[0]["seconds"] <= old[n]
    seconds = [row["seconds"] for row in found.history_]
    assert seconds == sorted(seconds)


@pytest.mark.parametrize(
    ("model", "where"),
    [
        ({"init": "regression"}, "linear"),
        ({"bound": "tight", "C": 10.0}, "structured_svm"),
    ],
)
def test_what_comes_before_the_first_step_is_not_computed_again(model, where, data, tmp_path, monkeypatch):
    """It rounds with the number of threads, and costs passes over the data."""
    make = lambda: (gainful.LinearRanker if where == "linear" else gainful.StructuredSVM)(**model)  # noqa: E731
    whole, file = make().fit(data), tmp_path / "c"
    with pytest.warns(InterruptedFitWarning):
        make().fit(data, progress=stopping_after(3), checkpoint=file, checkpoint_every=1e6)

    def refuse(*_):
        raise AssertionError("asked again")

    for name in ("solve_ridge", "spread_of_blocks"):
        monkeypatch.setattr(f"gainful.linear.scaling.{name}", refuse)
    found = make().fit(data, checkpoint=file)
    np.testing.assert_allclose(found.coef_, whole.coef_, rtol=1e-8)


def test_a_path_of_C_takes_a_checkpoint(data, tmp_path):
    valid, file = gainful.make_artificial(20, n_docs=20, n_features=8, seed=4), tmp_path / "c"
    how = {"C": [1.0, 10.0], "eval_set": valid, "checkpoint": file}
    with pytest.warns(InterruptedFitWarning):
        gainful.RankSVM().fit_path(data, **how, progress=stopping_after(5), checkpoint_every=1e6)
    assert file.exists()
    found = gainful.RankSVM().fit_path(data, **how)
    np.testing.assert_allclose(found.coef_, gainful.RankSVM(C=[1.0, 10.0]).fit(data, eval_set=valid).coef_, rtol=1e-8)


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
