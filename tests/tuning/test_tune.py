"""Tuning: the best is found, on validation data alone, whatever the number of workers and however often killed."""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from known_rankers import TRUE_ANGLE, Angle, Curve, Height, angle_data

import gainful
from gainful import GainfulError, InterruptedFitWarning, LambdaMART, ParameterError, Range, Split, Values
from gainful.compute.memory import memory_limit
from gainful.errors import install_command
from gainful.tuning.search import Search
from gainful.tuning.trials import Budget, Trials

TREES = "lambdamart:n_trees=15:early_stopping=6:n_leaves=8"


def bare(trials):
    """Trials without what the clock says."""
    return [{k: v for k, v in row.items() if k not in ("seconds", "elapsed")} for row in trials]


@pytest.fixture(scope="module")
def angles():
    return gainful.split(angle_data(), (0.5, 0.5))


class Clock:
    """Replaces the module ``time`` in tuning: it moves on request, and a little whenever it is read."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        self.now += 1e-3
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr("gainful.tuning.trials.time", made)
    return made


# -- finding the best --------------------------------------------------------------------------------------------------


def test_a_grid_finds_the_best_of_a_known_objective(angles):
    train, valid = angles
    found = gainful.tune(Angle(), train, valid=valid, search="grid", trials=6)
    assert [row["params"]["angle"] for row in found.trials] == [0.1, 0.0, 0.3, 0.6, 0.9, 1.2]
    assert found.best_params == {"angle": TRUE_ANGLE}
    assert found.best_value == 1.0
    assert found.model.angle == TRUE_ANGLE
    assert found.model.score(valid) == 1.0
    for row in found.trials:
        expected = gainful.metric("ndcg@10")(Angle(**row["params"])._predict(valid.X), valid)
        assert row["value"] == expected


def grid_of(values, most):
    space = {name: gainful.Values(*range(1, n + 1)) for name, n in zip("abc", values, strict=True)}
    return Search("grid", space, dict.fromkeys("abc", None), most=most)


@pytest.mark.parametrize("values", [(5, 5, 5), (3, 3, 1), (2, 4, 3)])
def test_a_grid_that_fits_its_trials_is_whole(values):
    """Every combination is tried, beside the ranker's own values."""
    found = grid_of(values, math.prod(values))
    rows = {tuple(found.propose(i).values()) for i in range(found.size)}
    assert rows == {(None, None, None), *itertools.product(*(range(1, n + 1) for n in values))}
    assert found.unvaried == []


def test_a_grid_that_is_too_small_says_which_parameters_stay(angles):
    assert grid_of((5, 5, 5), 124).unvaried == ["c"]
    train, valid = angles
    space = {"C": gainful.Values(1.0, 2.0), "tol": gainful.Values(1e-3, 1e-4), "max_iter": gainful.Values(5, 6, 7)}
    with pytest.warns(UserWarning, match=r"a grid of 5 trials leaves max_iter of ranksvm unchanged: give 13 trials"):
        gainful.tune("ranksvm", train, valid=valid, search="grid", trials=5, space=space, refit=False)


@pytest.mark.parametrize("search", ["random", "optuna"])
def test_searches_come_near_to_the_best(angles, search):
    train, valid = angles
    found = gainful.tune(Angle(), train, valid=valid, search=search, trials=25)
    assert found.best_params["angle"] == pytest.approx(TRUE_ANGLE, abs=0.06)
    assert found.trials[0]["params"] == {"angle": 0.1}
    assert found.gain == found.best_value - found.trials[0]["value"] > 0


def test_optuna_learns_from_what_it_has_seen(angles):
    """Its later trials lie nearer to the best than draws do."""
    train, valid = angles
    away = {}
    for search in ("random", "optuna"):
        rows = gainful.tune(Angle(), train, valid=valid, search=search, trials=40, refit=False).trials
        away[search] = np.median([abs(row["params"]["angle"] - TRUE_ANGLE) for row in rows[20:]])
    assert away["optuna"] < 0.7 * away["random"]


def test_what_stands_wins_ties(angles):
    train, valid = angles
    found = gainful.tune(Angle(angle=TRUE_ANGLE), train, valid=valid, space={"idle": Values(1, 2, 0)}, trials=6)
    assert found.best_trial == 0
    assert found.best_params == {"idle": 0}


def test_folds_validate_every_query_once(angles):
    data = angles[0]
    found = gainful.tune(Angle(), data, folds=3, trials=3)
    parts = gainful.folds(data, 3)
    for row in found.trials:
        model = Angle(**row["params"])
        values = [gainful.metric("ndcg@10")(model._predict(part.valid.X), part.valid) for part in parts]
        assert row["value"] == np.mean(values)
    assert found.model.n_features_in_ == 2


def test_folds_train_on_all_other_queries(artificial, monkeypatch):
    seen = []
    monkeypatch.setattr(Angle, "_fit", lambda self, data, monitor: (seen.append(data), monitor.step()))
    monkeypatch.setattr(Angle, "_predict", lambda self, X: X[:, 0])
    gainful.tune(Angle(), artificial, folds=4, trials=1)
    assert [len(data) for data in seen] == [90, 90, 90, 90, 120]  # the last is the final training


@pytest.mark.parametrize("seconds", [10**400, float("inf"), 0, True], ids=["huge", "inf", "0", "True"])
def test_seconds_are_a_number_that_a_clock_can_reach(angles, seconds):
    with pytest.raises(ParameterError, match=r"^seconds of tune must be a number > 0"):
        gainful.tune(Angle(), angles[0], valid=angles[1], seconds=seconds)
    with pytest.raises(ParameterError, match=r"^seconds of \w+ must be a number"):
        gainful.ranker("auto", seconds=seconds).fit(angles[0])


def test_seconds_end_a_search(angles, clock):
    train, valid = angles
    found = gainful.tune(Angle(), train, valid=valid, trials=None, seconds=0.05, refit=False)
    assert 0.05 <= clock.now < 0.06
    assert len(found.trials) > 2
    one = gainful.tune(Angle(), train, valid=valid, seconds=1e-9)  # the first trial is always run
    assert len(one.trials) == 1


def test_a_trial_that_runs_out_of_time_is_cut(parts, tmp_path, clock):
    def slow(event):
        clock.sleep(0.008)

    given = {"valid": parts[1], "refit": False, "prune": False, "store": tmp_path}
    found = gainful.tune(Curve(), parts[0], **given, trials=None, seconds=1.2, progress=slow)
    rows = [json.loads(line) for line in (tmp_path / os.listdir(tmp_path)[0]).read_text().splitlines()[1:]]
    assert [row["state"] for row in rows] == ["done"] * (len(rows) - 1) + ["cut"]
    assert rows[-1]["iterations"] < Curve.iterations
    assert len(found.trials) == len(rows) - 1
    again = gainful.tune(Curve(), parts[0], **given, trials=None, seconds=1.2)  # the time is spent
    assert bare(again.trials) == bare(found.trials)


def test_a_smaller_budget_of_seconds_keeps_what_it_would_have_had(parts, tmp_path, clock):
    def slow(event):
        clock.sleep(0.002)

    given = {"valid": parts[1], "refit": False, "prune": False, "store": tmp_path, "trials": None}
    many = gainful.tune(Curve(), parts[0], **given, seconds=2.5, progress=slow)
    few = gainful.tune(Curve(), parts[0], **given, seconds=1.2)
    assert 1 <= len(few.trials) < len(many.trials)
    assert bare(few.trials) == bare(many.trials[: len(few.trials)])
    assert all(row["elapsed"] < 1.2 for row in few.trials[1:])


def test_a_fit_that_ends_too_late_does_not_count(angles, clock, monkeypatch):
    def slow(self, data, monitor):
        clock.sleep(0.2)
        monitor.step()

    monkeypatch.setattr(Angle, "_fit", slow)
    found = gainful.tune(Angle(), angles[0], valid=angles[1], trials=None, seconds=0.3, refit=False)
    assert [row["trial"] for row in found.trials] == [0]


# -- what is tuned, and what is not ------------------------------------------------------------------------------------


def test_what_is_set_or_preset_outside_its_range_is_left_alone(parts):
    train, valid, _ = parts
    found = gainful.tune("rsrank-sparse:max_iter=10:truncate_every=2", train, valid=valid, trials=2)
    assert set(found.space) == {"init"}
    assert found.model.l1 == "auto"
    assert found.model.truncate_every == 2
    assert set(gainful.tune("structured-svm-tight", train, valid=valid, trials=1).space) == {
        "C",
        "position_weights",
        "start_alpha",
    }
    named = gainful.tune("regression", train, valid=valid, trials=2, fixed=["target"])
    assert set(named.space) == {"alpha"}


def test_early_stopping_looks_at_the_metric_that_is_tuned(parts):
    train, valid, _ = parts
    found = gainful.tune(TREES, train, valid=valid, metric="map", trials=2)
    assert found.model.eval_metric == gainful.metric("map")
    assert found.best_value == gainful.metric("map")(found.model.predict(valid), valid)
    kept = gainful.tune(TREES + ":eval_metric=ndcg@1", train, valid=valid, metric="map", trials=2)
    assert kept.model.eval_metric == "ndcg@1"


def test_refit_on_all_stops_where_validation_did(parts):
    train, valid, _ = parts
    one, both = (gainful.tune(TREES, train, valid=valid, trials=3, refit=refit) for refit in (True, "all"))
    assert one.best_params == both.best_params
    length = both.trials_by_number[both.best_trial]["best_iteration"]
    assert both.model.booster_.num_trees() == length == one.model.best_iteration_
    whole = gainful.RankingData.concatenate([train, valid])
    by_hand = LambdaMART(**both.model.get_params()).fit(whole)
    assert np.array_equal(by_hand.predict(valid), both.model.predict(valid))
    assert gainful.tune(TREES, train, valid=valid, trials=1, refit=False).model is None


def numbered(part):
    return part.replace(query_ids=np.arange(part.n_queries))


def test_refit_on_all_takes_parts_that_number_their_queries_alike(parts):
    train, valid, test = parts
    plain = gainful.tune("ranksvm", train, valid=valid, trials=2, refit="all")
    alike = gainful.tune("ranksvm", numbered(train), valid=numbered(valid), trials=2, refit="all")
    assert np.array_equal(plain.model.predict(test), alike.model.predict(test))


def test_refit_on_all_keeps_the_value_of_a_path_that_validation_chose(parts):
    train, valid, test = parts
    model = gainful.RankSVM(C=[0.01, 1.0, 100.0])
    found = gainful.tune(model, train, valid=valid, space={}, trials=1, refit="all")
    chosen = model.fit(train, eval_set=valid).C_
    assert found.trials[0]["kept"] == {"C": chosen}
    assert found.trials[0]["models"] == 3
    assert chosen == found.model.C
    whole = gainful.RankingData.concatenate([train, valid])
    assert np.array_equal(found.model.predict(test), gainful.RankSVM(C=chosen).fit(whole).predict(test))
    over_folds = gainful.tune(model, train, folds=3, space={}, trials=1)
    assert over_folds.model.C in model.C


def test_refit_on_all_draws_no_new_l1(parts):
    train, valid, _ = parts
    found = gainful.tune("rsrank-sparse:max_iter=10", train, valid=valid, space={}, trials=1, refit="all")
    once = gainful.ranker("rsrank-sparse", max_iter=10).fit(train, eval_set=valid)
    assert found.model.l1 == found.model.l1_ == once.l1_
    assert found.trials[0]["models"] == len(once.path_) > 10


def test_parts_that_cannot_be_joined_are_refused_before_the_search(parts):
    train, valid, _ = parts
    named = valid.replace(feature_names=[f"f{i}" for i in range(valid.n_features)])
    events = []
    with pytest.raises(GainfulError, match="different feature names"):
        gainful.tune("regression", train, valid=named, refit="all", trials=2, progress=events.append)
    assert events == []


def test_what_stands_may_be_more_than_a_number(parts, tmp_path):
    """A list of C is the first trial as it is, and is stored and resumed as well as any."""
    for _ in range(2):
        found = gainful.tune(
            gainful.RankSVM(C=[0.1, 1.0]),
            parts[0],
            valid=parts[1],
            space={"C": Range(1e-6, 2e-6)},
            trials=2,
            store=tmp_path,
        )
        assert found.best_params == {"C": [0.1, 1.0]}
        assert len(found.model.path_) == 2


def test_the_estimator_given_is_not_touched(parts):
    model = LambdaMART(n_trees=5, n_leaves=4)
    before = model.get_params()
    gainful.tune(model, parts[0], valid=parts[1], trials=2)
    assert model.get_params() == before
    assert not hasattr(model, "booster_")


def test_the_test_part_is_never_looked_at(parts):
    train, valid, test = parts

    def forbidden():
        raise AssertionError("the test data was asked for")

    clean = gainful.tune(TREES, Split(train, valid, test), trials=4)
    blind = gainful.tune(TREES, Split(train, valid, forbidden), trials=4)
    assert bare(clean.trials) == bare(blind.trials)


# -- the same result, always -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("search", ["random", "grid", "optuna"])
def test_workers_change_nothing(parts, search):
    train, valid, test = parts
    how = {"search": search, "trials": 11, "seed": 5, "fixed": ("subsample", "l2")}
    one, three = (gainful.tune(TREES, train, valid=valid, n_jobs=n, **how) for n in (1, 3))
    assert bare(one.trials) == bare(three.trials)
    assert one.best_params == three.best_params
    assert np.array_equal(one.model.predict(test), three.model.predict(test))


def test_workers_change_nothing_when_trials_are_pruned():
    data = gainful.make_artificial(4, n_docs=5, n_features=2, seed=0)
    found = []
    for n_jobs in (1, 2, 4, 9):
        search = Search("random", Curve.space, {"top": 0.5, "rate": 0.1}, seed=1)
        trials = Trials(Curve(), [Split(data, data, data)], search, Height(), Budget(30, n_jobs=n_jobs))
        trials.run()
        found.append(bare(trials.in_order()))
    assert found[0] == found[1] == found[2] == found[3]
    assert any(row["state"] == "pruned" for row in found[0])


def test_more_trials_begin_with_the_same(angles, tmp_path):
    train, valid = angles
    few = gainful.tune(Angle(), train, valid=valid, trials=4, store=tmp_path)
    many = gainful.tune(Angle(), train, valid=valid, trials=9, store=tmp_path)
    afresh = gainful.tune(Angle(), train, valid=valid, trials=9)
    assert many.trials[:4] == few.trials  # to the second: they were not run again
    assert bare(many.trials) == bare(afresh.trials)
    assert gainful.tune(Angle(), train, valid=valid, trials=4, store=tmp_path).trials == few.trials


CHILD = """
import os, pathlib, signal, sys, gainful
def stored():
    return sum(path.read_bytes().count(b"\\n") - 1 for path in pathlib.Path(sys.argv[2]).glob("*.jsonl"))
def die(event):
    if stored() >= int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
data = gainful.make_artificial(60, n_docs=12, n_features=6, seed=2)
train, valid, test = gainful.split(data)
if sys.argv[1] == "tune":
    gainful.tune({trees!r}, train, valid=valid, search="optuna", trials=14, store=sys.argv[2], n_jobs=2, progress=die)
else:
    gainful.compare(["regression", {trees!r}], data, folds=3, tune=6, store=sys.argv[2], progress=die)
"""


def killed_after(lines: int, job: str, folder: Path) -> int:
    """Run ``job`` in a process of its own that dies once ``lines`` results are on disk; how many there are then."""
    child = subprocess.run([sys.executable, "-c", CHILD.format(trees=TREES), job, str(folder), str(lines)])
    assert child.returncode == -signal.SIGKILL, "the child ended before it was killed"
    return sum(path.read_bytes().count(b"\n") - 1 for path in folder.glob("*.jsonl"))


def test_killed_and_resumed_a_search_is_the_same(tmp_path):
    data = gainful.make_artificial(60, n_docs=12, n_features=6, seed=2)
    train, valid, test = gainful.split(data)
    whole = gainful.tune(TREES, train, valid=valid, search="optuna", trials=14)
    done = killed_after(10, "tune", tmp_path)
    assert 10 <= done < 14
    events = []
    resumed = gainful.tune(
        TREES, train, valid=valid, search="optuna", trials=14, store=tmp_path, progress=events.append
    )
    assert len({event.trial for event in events if not event.refit}) == 14 - done
    assert bare(resumed.trials) == bare(whole.trials)
    assert resumed.best_params == whole.best_params
    assert np.array_equal(resumed.model.predict(test), whole.model.predict(test))


def test_killed_and_resumed_a_comparison_is_the_same(tmp_path):
    data = gainful.make_artificial(60, n_docs=12, n_features=6, seed=2)
    settings = {"folds": 3, "tune": 6}
    whole = gainful.compare(["regression", TREES], data, **settings)
    killed_after(18, "compare", tmp_path)
    tried = set()

    def note(event):
        if event.tuning is not None:
            tried.add((event.ranker, event.fold, event.tuning.trial))

    resumed = gainful.compare(["regression", TREES], data, **settings, store=tmp_path, progress=note)
    assert 0 < len(tried) <= 36 - 18 + 3  # what was on disk, but for up to three finished rankers, was not run again
    for label in whole.labels:
        for m in (*whole.metrics, *whole.curve):
            assert np.array_equal(whole.per_query(label, m), resumed.per_query(label, m))
        for one, other in zip(whole.runs[label], resumed.runs[label], strict=True):
            assert one.chosen == other.chosen
            assert one.params == other.params
            assert np.array_equal(one.scores, other.scores)
            assert bare(one.trials) == bare(other.trials)
    again = gainful.compare(["regression", TREES], data, **settings, store=tmp_path)
    assert again.table() == resumed.table()  # seconds and all: nothing was run again


def test_paths_are_read(parts, tmp_path):
    for name, part in zip(("train", "vali"), parts, strict=False):
        gainful.write(part, tmp_path / f"{name}.txt")
        gainful.write(part, tmp_path / f"{name}.rows", format="letor")
    alone = gainful.tune("regression", parts[0], valid=parts[1], trials=2)
    folder = gainful.tune("regression", tmp_path, trials=2)
    how = {"trials": 2, "read_options": {"format": "letor"}, "label": "ridge"}
    files = gainful.tune("regression", tmp_path / "train.rows", valid=tmp_path / "vali.rows", **how)
    assert files.ranker == "ridge"
    assert files.best_value == folder.best_value == alone.best_value


def test_settings_are_checked_before_the_data_is_read():
    with pytest.raises(ParameterError, match="trials of tune must be"):
        gainful.tune("regression", "no-such-file.txt", trials=0)
    with pytest.raises(GainfulError, match="no parameter"):
        gainful.tune("regression", "no-such-file.txt", fixed=["depth"])


# -- ends and failures -------------------------------------------------------------------------------------------------


def test_stopping_keeps_what_is_finished(parts):
    def stop(event):
        return event.finished == 3

    with warnings.catch_warnings():
        warnings.simplefilter("error", InterruptedFitWarning)
        found = gainful.tune(TREES, parts[0], valid=parts[1], progress=stop)
        threads = gainful.tune(TREES, parts[0], valid=parts[1], progress=stop, n_jobs=2)
    assert found.interrupted
    assert len(found.trials) == 3
    assert found.model is None
    assert "Interrupted: the best so far" in found.table()
    assert threads.interrupted
    assert len(threads.trials) >= 3
    with pytest.raises(GainfulError, match="interrupted before any trial had finished"):
        gainful.tune(TREES, parts[0], valid=parts[1], progress=lambda event: True)


def test_the_callback_sees_the_result_so_far_and_can_end_the_final_training(parts):
    seen = []

    def stop(event):
        if event.finished == 2:
            seen.append(len(event.job.result().trials))
        return event.refit and event.training.iteration == 3

    with pytest.warns(InterruptedFitWarning):
        found = gainful.tune(TREES, parts[0], valid=parts[1], trials=3, progress=stop)
    assert set(seen) == {2}
    assert not found.interrupted
    assert found.model.interrupted_
    assert found.model.n_iter_ <= 3


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_ctrl_c_in_a_trial_keeps_those_before(parts, n_jobs):
    def press(event):
        if event.finished >= 2 and event.training is not None and event.training.iteration == 3:
            raise KeyboardInterrupt

    found = gainful.tune(TREES, parts[0], valid=parts[1], n_jobs=n_jobs, progress=press)
    assert found.interrupted
    assert 2 <= len(found.trials) < 20


def test_failed_trials_are_recorded_and_do_not_end_the_search(parts):
    found = gainful.tune(Curve(fail_above=0.6), parts[0], valid=parts[1], trials=8, prune=False)
    states = {row["state"] for row in found.trials}
    assert states == {"done", "failed"}
    failed = next(row for row in found.trials if row["state"] == "failed")
    assert "cannot reach" in failed["reason"]
    assert "failed" in found.table()
    with pytest.raises(GainfulError, match=r"no trial of .* could be trained: cannot reach"):
        gainful.tune(Curve(fail_above=0.0), parts[0], valid=parts[1], trials=3)


def test_any_error_fails_its_trial_alone(angles, monkeypatch):
    fit = Angle._fit

    def broken(self, data, monitor):
        if self.angle > 0.6:
            raise ZeroDivisionError("too far")
        fit(self, data, monitor)

    monkeypatch.setattr(Angle, "_fit", broken)
    found = gainful.tune(Angle(), angles[0], valid=angles[1], trials=8, n_jobs=2)
    reasons = {row["reason"] for row in found.trials if row["state"] == "failed"}
    assert reasons == {"ZeroDivisionError: too far"}
    assert found.best_params["angle"] <= 0.6


def test_memory_decides_how_many_trials_run_at_once(parts, monkeypatch):
    from gainful.tuning import trials as module

    running, most = [], []

    def watch(event):
        running.append(event.trial) if event.training is None and event.trial not in running else None
        most.append(event)

    asked = []

    def room(wanted, each, free):
        asked.append((wanted, each, free))
        return 1

    monkeypatch.setattr(module, "workers_that_fit", room)
    found = gainful.tune(TREES, parts[0], valid=parts[1], trials=4, n_jobs=3, progress=watch)
    ((wanted, _, _),) = asked
    assert wanted == 3
    assert found.workers == 1
    assert "memory allowed 1 at a time" in found.table()
    alone = gainful.tune(TREES, parts[0], valid=parts[1], trials=4)
    assert alone.workers is None
    assert len(asked) == 1  # nothing to ask with one worker
    with memory_limit("3GB"):
        gainful.tune(TREES, parts[0], valid=parts[1], trials=2, n_jobs=2)
    assert asked[-1][2] == 3e9  # a limit that the user named, whole
    assert bare(alone.trials) == bare(found.trials)


def test_curves_of_another_metric_neither_prune_nor_teach(parts, tmp_path):
    """A ranker validates with NDCG@1 while MAP chooses: its curve does not show MAP."""
    name = "lambdamart:n_trees=40:n_leaves=4:early_stopping=none:eval_metric=ndcg@1"
    given = {"valid": parts[1], "metric": "map", "trials": 10, "refit": False}
    found = gainful.tune(name, parts[0], **given)
    assert all(row["state"] == "done" and row["curve"] == [] for row in found.trials)
    assert all(row["reached"] == row["value"] for row in found.trials)


def test_data_that_every_trial_refuses_gives_the_reason(parts):
    X = parts[0].X.copy()
    X[0, 0] = np.nan
    with pytest.raises(GainfulError, match="no trial of regression could be trained: X has missing values"):
        gainful.tune("regression", parts[0].replace(X=X), valid=parts[1], trials=3)


def test_table_and_json_tell_the_same(parts, tmp_path):
    found = gainful.tune("regression", parts[0], valid=parts[1], trials=5)
    found.to_json(tmp_path / "t.json")
    stored = json.loads((tmp_path / "t.json").read_text())
    assert stored["best_params"] == found.best_params
    assert [row["value"] for row in stored["trials"]] == [row["value"] for row in found.trials]
    shown = found.table(200)
    for row in found.trials:
        assert f"{row['value']:.4f}" in shown
    assert "as given" in shown
    assert "alpha" in repr(found)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ranker": "lamdamart"}, "did you mean 'lambdamart'"),
        ({"ranker": 3}, "ranker of tune must be a name or an estimator"),
        ({"data": 3}, "data of tune must be a path, a RankingData"),
        ({"search": "rndom"}, "no search 'rndom'; did you mean 'random'"),
        ({"trials": 0}, "trials of tune must be an integer ≥ 1"),
        ({"trials": 2.5}, "trials of tune must be an integer ≥ 1"),
        ({"trials": None}, "a search needs a limit; give trials or seconds"),
        ({"seconds": -1}, "seconds of tune must be a number > 0"),
        ({"seconds": float("nan")}, "seconds of tune must be a number > 0"),
        ({"search": "grid", "trials": None, "seconds": 3}, "a grid needs a number of trials"),
        ({"n_jobs": 0}, "n_jobs of tune must be an integer ≥ 1"),
        ({"seed": -1}, "seed of tune must be an integer ≥ 0"),
        ({"refit": "some"}, "refit of tune must be True, False or 'all'"),
        ({"metric": "ngcd"}, "ndcg"),
        ({"folds": 2}, "n_folds"),
        ({"folds": 3, "valid": angle_data(3)}, "validation data or folds, not both"),
        ({"space": {"alfa": Range(0, 1)}}, "did you mean 'alpha'"),
        ({"space": {"alpha": Range(-1, 1)}}, "alpha of RegressionRanker must be a number ≥ 0, was -1"),
        ({"space": {"alpha": (0, 1)}}, r"space\['alpha'\] of RegressionRanker must be a Range"),
        ({"space": {"alpha": Range(0, 1)}, "fixed": ["alpha"]}, "alpha of RegressionRanker is both set and searched"),
        ({"fixed": ["alfa"]}, "did you mean 'alpha'"),
        ({"data": Split(angle_data(3), None, angle_data(2))}, "there is no validation data"),
        ({"data": Split(angle_data(3), angle_data(3), angle_data(2)), "folds": 3}, "already divided"),
        ({"valid": gainful.make_artificial(2, n_features=3)}, "the validation data has 3 features"),
    ],
)
def test_bad_requests_are_refused(settings, message):
    with pytest.raises(ParameterError, match=message):
        gainful.tune(**{"ranker": "regression", "data": angle_data(9)} | settings)


def test_optuna_is_asked_for_by_name_when_it_is_missing(monkeypatch, angles):
    monkeypatch.setitem(sys.modules, "optuna", None)
    advice = re.escape(f"needs optuna, which is not installed; run: {install_command('tune')}")
    with pytest.raises(GainfulError, match=advice):
        gainful.tune(Angle(), angles[0], search="optuna")
