"""auto: which rankers it tries, its budget, interruption and resumption."""

from __future__ import annotations

import _thread
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

import gainful
from few_trees import few_trees
from gainful import Auto, DataError, InterruptedFitWarning, ParameterError
from gainful.blending import auto as auto_module
from gainful.blending import blend as blend_module
from gainful.blending import folds as folds_module
from gainful.blending.folds import Clock, QueryFolds, smooth
from gainful.blending.growth import Growth, Pace, Stopwatch, find_size
from gainful.blending.portfolio import (
    EARLY,
    ORDER,
    DataFacts,
    centre_of,
    draw,
    families,
    first_guess,
    large_trees,
    small_trees,
    space_around,
)
from gainful.rankers.specs import ranker_from_spec

FACTS = DataFacts(50_000, 46, 3, 300, missing=False, blockwise=False)


@pytest.fixture
def quick_trees():
    with few_trees():
        yield


def names_for(**facts):
    return [family.name for family in families(DataFacts(**{**FACTS.__dict__, **facts}))]


def test_the_choice_follows_the_data():
    assert len(names_for()) == len(ORDER)
    assert "structured-svm" not in names_for()  # its convex bound is lowest at w = 0 on noisy grades
    assert all(gainful.RANKERS[name].cls.accepts_missing for name in names_for(missing=True))
    assert all(gainful.RANKERS[name].cls.accepts_shards for name in names_for(blockwise=True))
    assert "mcrank" not in names_for(n_grades=100)
    assert "lambdamart" not in names_for(longest=20_000)
    assert "ranksvm" not in names_for(n_features=50_000)
    for facts in ({}, {"missing": True}, {"blockwise": True}, {"n_grades": 100}, {"n_features": 50_000}):
        assert len(names_for(**facts)) >= 3


@pytest.mark.parametrize("trees", [small_trees, large_trees])
def test_trees_grow_with_the_data(trees):
    sizes = [trees(DataFacts(**{**FACTS.__dict__, "n_rows": n}))["n_leaves"] for n in (10**3, 10**5, 10**7)]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]


@pytest.mark.usefixtures("quick_trees")
def test_small_and_large_trees_are_tried_and_later_ones_follow_the_better(parts):
    model = Auto(trials=8, folds=3, n_jobs=1, rankers=["tree-regression", "lambdamart", "gbrank"]).fit(parts[0])
    facts = DataFacts.of(parts[0], blockwise=False)
    rankers = [ranker_from_spec(row.name) for row in model.leaderboard_.members]
    assert {small_trees(facts)["n_leaves"], large_trees(facts)["n_leaves"]} < {one.n_leaves for one in rankers}
    assert centre_of(model.members_, None)["n_leaves"] == rankers[0].n_leaves  # the leaderboard has the best first


def test_settings_are_drawn_around_the_best():
    generator, centre = np.random.default_rng(0), large_trees(FACTS)
    drawn = [draw(ORDER[1], FACTS, Growth(), generator, centre) for _ in range(40)]
    assert all(centre["n_leaves"] // 2 <= one["n_leaves"] <= 2 * centre["n_leaves"] for one in drawn)
    assert len({one["n_leaves"] for one in drawn}) > 10
    rates = [one["learning_rate"] for one in drawn]
    assert 0.06 <= min(rates) < max(rates) <= 0.16
    assert set(space_around(centre)) == set(centre)
    guess = first_guess(ORDER[4], FACTS, Growth(), centre)
    assert {name: guess[name] for name in centre} == centre


def test_trees_fit_into_the_time():
    pace = Pace(start=1.0, tree=0.1)
    plenty, some, little = (Growth.within(seconds, pace) for seconds in (10_000.0, 400.0, 60.0))
    assert plenty == Growth()
    assert some == Growth(roomy=False)
    assert (little.n_trees, little.bagged) == (140, False)
    assert 4 * pace.seconds(little.n_trees) == pytest.approx(60.0)
    assert little.first(0.02)["learning_rate"] == pytest.approx(0.02 * 2.5 * 600 / 140)
    assert Growth.within(0.1, pace).first(0.06) == {"learning_rate": 0.3, "n_trees": 30, "early_stopping": 30}
    assert "mcrank" not in [family.name for family in families(FACTS, None, little)]
    assert "mcrank" in [family.name for family in families(FACTS, ["mcrank"], little)]


def test_trees_start_only_from_rankers_that_suit_the_data_and_are_named():
    def starts(facts, names=None):
        return {family.settings["init"] for family in families(facts, names) if "init" in family.settings}

    assert starts(FACTS) == {"listnet", "regression"}
    assert starts(FACTS, ["lambdamart", "tree-regression"]) == set()
    assert starts(FACTS, ["lambdamart", "tree-regression", "regression"]) == {"regression"}
    assert starts(replace(FACTS, missing=True)) == starts(replace(FACTS, blockwise=True)) == set()
    assert [family.key for family in families(FACTS, None, Growth(bagged=False))][1:3] == [
        "boosted:loss=centred-squared",
        "boosted:loss=ranknet",
    ]


def rows_with(relevance, n_queries=90, noise=0.0):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((20 * n_queries, 4))
    value = relevance(X) + noise * rng.standard_normal(len(X))
    grades = np.searchsorted(np.quantile(value, (0.6, 0.85)), value)
    return gainful.RankingData.from_rows(X, grades, qid=np.repeat(np.arange(n_queries), 20))


@pytest.mark.parametrize(
    ("data", "best"),
    [
        (rows_with(lambda X: X.sum(axis=1), n_queries=240, noise=3.0), 2),  # additive and noisy: stumps
        (rows_with(lambda X: X[:, 0] * X[:, 1] * X[:, 2]), 16),  # nothing to see in two features alone
    ],
)
def test_the_size_of_trees_follows_the_data(data, best):
    settings = {"min_docs_in_leaf": 5, "n_jobs": 1}
    given = Pace(start=0.0, tree=1e-3)
    size, pace = find_size(QueryFolds(data, 6, 0), (2, 16), settings, 1000.0, given, 1)
    assert size == best
    assert pace.start == 0.0
    assert pace.tree > 0.0
    assert find_size(QueryFolds(data, 6, 0), (2, 16), settings, 0.1, given, 1) == (None, given)  # no time to find out


def test_the_size_of_trees_is_chosen_by_the_users_metric(parts, monkeypatch):
    asked = []
    monkeypatch.setattr(auto_module, "measure_pace", lambda *_: Pace(start=1.0, tree=0.1))
    monkeypatch.setattr(
        auto_module, "find_size", lambda *given: asked.append(given[2]["eval_metric"]) or (5, Pace(1.0, 0.1))
    )
    fitted = Auto(seconds=30, trials=2, folds=3, n_jobs=1, rankers=["tree-regression"], metric="map").fit(parts[0])
    assert [gainful.metric(one) for one in asked] == [gainful.metric("map")]
    assert ":n_leaves=5:" in fitted.members_[0].spec


def test_ctrl_c_while_the_size_of_trees_is_sought_ends_the_search(monkeypatch):
    def press(watch, progress):
        watch.times.append(0.0)
        if len(watch.times) == 3:
            raise KeyboardInterrupt
        return False

    monkeypatch.setattr(Stopwatch, "__call__", press)
    folds = QueryFolds(rows_with(lambda X: X.sum(axis=1)), 6, 0)
    with pytest.raises(KeyboardInterrupt):
        find_size(folds, (2, 16), {"n_jobs": 1}, 1e6, Pace(0.0, 1e-3), 1)


@pytest.mark.filterwarnings("ignore:.*no tree has a split")  # auto shows those of the fits it keeps
def test_where_no_tree_can_split_there_is_no_size():
    data = gainful.make_artificial(80, n_docs=6, n_features=3, seed=0)
    data, given = data.replace(X=np.ones_like(data.X)), Pace(0.0, 1e-3)
    assert find_size(QueryFolds(data, 6, 0), (2, 16), {"n_jobs": 1}, 1e6, given, 1) == (None, given)


def test_the_peak_of_a_curve_is_not_its_highest_spike():
    curve = np.concatenate([np.linspace(0.0, 1.0, 50), np.linspace(1.0, 0.5, 50)])
    curve[90] = 2.0
    assert np.argmax(smooth(curve)) in range(46, 54)
    short = np.array([0.1, 0.2, np.nan, 0.3])
    assert smooth(short)[0] == pytest.approx((9 * 0.1 + 0.2 + 0.3 + 5 * 0.3) / 16)  # ends go on, NaN does not count
    assert np.isnan(smooth(np.full(7, np.nan))).all()


def test_some_families_then_by_turns_the_leading_ones_and_the_others():
    places = [auto_module.place_of_guess(i, EARLY + 3) for i in range(EARLY + 8)]
    assert places == [*range(EARLY), None, EARLY, None, EARLY + 1, None, EARLY + 2, None, None]
    assert auto_module.trials_to_meet(EARLY + 3) == EARLY + 6
    assert [auto_module.place_of_guess(i, 3) for i in range(5)] == [0, 1, 2, None, None]
    assert auto_module.trials_to_meet(3) == 3


def test_a_useless_metric_is_refused_before_training(parts):
    def nothing(scores, grades):
        return float("nan")

    def broken(scores, grades):
        raise ZeroDivisionError("my own mistake")

    with pytest.raises(DataError, match="not a finite number for any training query"):
        Auto(trials=2, metric=nothing).fit(parts[0])
    with pytest.raises((ZeroDivisionError, gainful.GainfulError), match="my own mistake"):
        Auto(trials=2, metric=broken).fit(parts[0])


def test_a_search_in_which_everything_fails_ends_soon(parts, monkeypatch):
    def fail(self, data, monitor):
        raise DataError("no such luck")

    monkeypatch.setattr(gainful.RegressionRanker, "_fit", fail)
    model = Auto(seconds=600.0, rankers=["regression"], folds=3, n_jobs=1)
    with pytest.raises(DataError, match=r"could train no member \(regression.*: no such luck\)$"):
        model.fit(parts[0])


def test_it_cannot_be_tuned(parts):
    with pytest.raises(ParameterError, match="auto:trials=2 has nothing to tune"):
        gainful.tune("auto:trials=2", parts[0])


def test_text_columns_are_left_to_those_that_take_them():
    assert all(gainful.RANKERS[name].cls.accepts_categories for name in names_for(categories=True))


def test_larger_steps_where_early_stopping_played_no_part(parts):
    how = {"folds": 3, "weights": "uniform", "n_jobs": 1}
    capped = gainful.Blend(["regression", "tree-regression:n_trees=5"], **how).fit(parts[0])
    assert Growth().after(capped.members_).longer == 2.0
    assert Growth(bagged=False).after(capped.members_).longer == 1.0
    few = "tree-regression:n_trees=300:early_stopping=5"
    stopped = gainful.Blend(["regression", few], **how).fit(parts[0])
    assert Growth().after(stopped.members_).longer == 1.0
    assert Growth().after([]).longer == 1.0


@pytest.mark.parametrize("family", ORDER, ids=lambda family: family.key + " large" * family.large)
def test_settings_are_those_of_the_ranker(family):
    generator = np.random.default_rng(0)
    for settings in (
        first_guess(family, FACTS, Growth()),
        *(draw(family, FACTS, Growth(), generator) for _ in range(2)),
    ):
        gainful.ranker(family.name, **settings)._check_parameters()


@pytest.mark.usefixtures("quick_trees")
def test_same_seed_and_trials_same_bits_whatever_the_cores(parts):
    train, test = parts[0][:30], parts[2]
    one = Auto(trials=4, folds=3, n_jobs=1, random_state=3).fit(train)
    two = Auto(trials=4, folds=3, n_jobs=2, random_state=3).fit(train)
    assert np.array_equal(one.predict(test), two.predict(test))
    assert [row.name for row in one.leaderboard_.members] == [row.name for row in two.leaderboard_.members]
    assert len(one.leaderboard_.members) == 4
    assert not np.array_equal(
        Auto(trials=4, folds=3, n_jobs=1, random_state=4).fit(train).predict(test), one.predict(test)
    )


@pytest.mark.usefixtures("quick_trees")
def test_seconds_are_kept(parts):
    train = parts[0][:20]
    Auto(trials=3, folds=3, n_jobs=1).fit(train)  # imports and compiles, which may take longer than the seconds given
    began = time.perf_counter()
    model = Auto(seconds=2.0, folds=3, n_jobs=1).fit(train)
    assert model.leaderboard_.members
    assert time.perf_counter() - began < 60.0  # it was over in good time, on however slow a machine


def test_no_time_at_all_is_an_error(parts):
    model = Auto(seconds=1e-3, folds=5, n_jobs=1, rankers=["lambdamart"])
    with pytest.raises(DataError, match="could train no member"):
        model.fit(parts[0])


def test_members_cut_short_count_with_the_folds_they_have(parts, monkeypatch):
    fits = []

    class OverAfterThree(Clock):
        @property
        def over(self):
            return len(fits) >= 3

    original = gainful.LambdaMART.fit
    monkeypatch.setattr(gainful.LambdaMART, "fit", lambda *a, **k: fits.append(1) or original(*a, **k))
    monkeypatch.setattr(auto_module, "Clock", OverAfterThree)
    model = Auto(seconds=100, folds=5, n_jobs=1, rankers=["lambdamart"]).fit(parts[0])
    assert "ended after 1 of 5 folds" in {row.note for row in model.leaderboard_.members}
    assert "reaches ndcg@10" in str(model.leaderboard_)
    assert np.isfinite(model.predict(parts[2])).all()


def test_the_figure_is_of_the_members_kept_where_time_ends_inside_another(parts, monkeypatch):
    """The second member has been trained on three of six folds, and does not count; the first has been on all."""
    clock, trained, fit_one = Clock(), [], folds_module._fit_one

    def fit_until_the_ninth(*arguments):
        fit = fit_one(*arguments)
        trained.append(fit)
        if len(trained) == 9:
            clock.stop.set()
        return fit

    monkeypatch.setattr(folds_module, "_fit_one", fit_until_the_ninth)
    monkeypatch.setattr(gainful.Blend, "_clock", lambda *_: clock)
    with pytest.warns(InterruptedFitWarning):
        model = gainful.Blend(["ranksvm", "regression"], weights="shrunk", folds=6, n_jobs=1).fit(parts[0])
    assert [member.spec for member in model.members_] == ["ranksvm"]
    board = model.leaderboard_
    assert [row.queries for row in board.members] == [72, 36]
    assert (board.blend.mean, board.blend.error) == pytest.approx((board.members[0].mean, board.members[0].error))


def test_with_little_time_each_ranker_is_trained_once(parts, monkeypatch):
    monkeypatch.setattr(auto_module, "measure_pace", lambda *_: Pace(start=1.0, tree=0.1))
    monkeypatch.setattr(auto_module, "PATIENCE", 0)
    model = Auto(seconds=60, folds=3, n_jobs=1, rankers=["regression", "listnet"]).fit(parts[0])
    assert [row.models for row in model.leaderboard_.members if row.weight] == [1] * len(model.members_)
    known = np.isfinite(model.out_of_fold_scores_)
    assert 0 < known.sum() < parts[0].n_rows  # those of the first fold
    assert f"on {-(-parts[0].n_queries // 3)} queries left out" in model.leaderboard_.sentence
    assert model.leaderboard_.used_for == ""  # the second fold stopped and weighed them
    assert np.isfinite(model.predict(parts[2])).all()


def test_trees_fit_into_the_time_on_many_cores():
    pace = Pace(start=1.0, tree=0.1)
    two, four = (Growth.within(60.0, pace, workers) for workers in (2, 4))
    assert not two.bagged
    assert not four.bagged
    assert pace.seconds(two.n_trees) == pytest.approx(30.0)  # four rankers, two by two
    assert pace.seconds(four.n_trees) == pytest.approx(30.0)  # two rounds at least


def test_rankers_that_are_trained_once_are_trained_side_by_side(parts, monkeypatch):
    jobs = []
    original = blend_module.fit_folds
    monkeypatch.setattr(auto_module, "measure_pace", lambda *_: Pace(start=1.0, tree=0.1))
    monkeypatch.setattr(auto_module, "worker_count", lambda *_: (2, 1))
    monkeypatch.setattr(blend_module, "fit_folds", lambda f, todo, *a: jobs.append(len(todo)) or original(f, todo, *a))
    Auto(seconds=30, trials=3, folds=3, n_jobs=1, rankers=["regression", "listnet", "adarank-ndcg"]).fit(parts[0])
    assert [n for n in jobs if n] == [2, 1]


def test_a_resumed_training_whose_members_all_failed_still_uses_all_folds(parts, monkeypatch, tmp_path):
    def fail(*_, **__):
        raise MemoryError("no more")

    settings = {"folds": 3, "n_jobs": 1, "rankers": ["regression", "adarank-ndcg"]}
    with monkeypatch.context() as failing:
        failing.setattr(gainful.RegressionRanker, "_fit", fail)
        kept = gainful.Checkpoint(tmp_path / "auto", every=0, keep=True)
        with pytest.raises(DataError, match="no more"):
            Auto(trials=1, **settings).fit(parts[0], checkpoint=kept)
    model = Auto(trials=2, **settings).fit(parts[0], checkpoint=tmp_path / "auto")
    assert [len(member.models) for member in model.members_] == [3]


def test_a_resumed_training_goes_on_with_the_folds_it_began_with(parts, monkeypatch, tmp_path):
    monkeypatch.setattr(auto_module, "measure_pace", lambda *_: Pace(start=1.0, tree=0.1))
    settings = {"folds": 3, "n_jobs": 1, "rankers": ["regression", "listnet", "adarank-ndcg"]}
    kept = gainful.Checkpoint(tmp_path / "auto", every=0, keep=True)
    Auto(trials=2, seconds=1e6, **settings).fit(parts[0], checkpoint=kept)
    model = Auto(trials=3, seconds=60, **settings).fit(parts[0], checkpoint=tmp_path / "auto")
    assert {len(member.models) for member in model.members_} == {3}


def test_rankers_without_settings_are_tried_once(parts):
    model = Auto(trials=5, folds=3, n_jobs=1, rankers=["adarank-ndcg"]).fit(parts[0])
    assert len(model.leaderboard_.members) == 1


def test_one_member_that_breaks_does_not_end_the_others(parts, monkeypatch):
    def fail(*_, **__):
        raise MemoryError("no more")

    monkeypatch.setattr(gainful.RegressionRanker, "_fit", fail)
    model = Auto(trials=2, folds=3, n_jobs=1, rankers=["regression", "adarank-ndcg"]).fit(parts[0])
    notes = {row.name: row.note for row in model.leaderboard_.members}
    assert notes["regression"] == "MemoryError: no more"


@pytest.mark.usefixtures("quick_trees")
def test_a_drawn_seed_is_kept_in_the_checkpoint(parts, tmp_path):
    def die(event):
        if event.iteration == 5:
            raise RuntimeError("killed")

    train = parts[0][:20]
    settings = {"trials": 6, "folds": 3, "n_jobs": 1, "random_state": None, "rankers": ["tree-regression"]}
    path = tmp_path / "auto.checkpoint"
    first = Auto(**settings)
    with pytest.raises(RuntimeError, match="killed"):
        first.fit(train, checkpoint=path, checkpoint_every=0, progress=die)
    again = Auto(**settings).fit(train, checkpoint=path, checkpoint_every=0)
    assert again._seed == first._seed


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_gives_the_blend_so_far(parts):
    def press(event):
        if event.iteration == 4:
            threading.Timer(0.05, _thread.interrupt_main).start()
        return False

    with pytest.warns(InterruptedFitWarning, match="Auto: training was interrupted"):
        model = Auto(trials=100_000, folds=3, n_jobs=2).fit(parts[0], progress=press)
    assert model.interrupted_
    assert len(model.leaderboard_.members) >= 4
    assert np.isfinite(model.predict(parts[2])).all()


@pytest.mark.usefixtures("quick_trees")
def test_it_resumes_after_a_kill(parts, tmp_path):
    train, test = parts[0][:30], parts[2]
    whole = Auto(trials=9, folds=3, n_jobs=1).fit(train)

    def die(event):
        if event.iteration == 7:
            raise RuntimeError("killed")

    path = tmp_path / "auto.checkpoint"
    with pytest.raises(RuntimeError, match="killed"):
        Auto(trials=9, folds=3, n_jobs=1).fit(train, checkpoint=path, checkpoint_every=0, progress=die)
    again = Auto(trials=9, folds=3, n_jobs=1).fit(train, checkpoint=path, checkpoint_every=0)
    assert np.array_equal(again.predict(test), whole.predict(test))


@pytest.mark.usefixtures("quick_trees")
def test_missing_values_and_sparse_rows_are_taken(parts):
    train = parts[0][:30]
    X = train.X.copy()
    X[::5, 2] = np.nan
    model = Auto(trials=4, folds=3, n_jobs=1).fit(X, train.y, qid=train.qid)
    assert np.isfinite(model.predict(X)).all()
    csr = sparse.csr_array(np.where(np.median(train.X) < train.X, train.X, 0.0))
    assert np.isfinite(Auto(trials=4, folds=3, n_jobs=1).fit(csr, train.y, qid=train.qid).predict(csr)).all()


def test_members_that_cannot_train_are_left_out_with_the_reason(parts):
    model = Auto(trials=2, folds=3, n_jobs=1, rankers=["mcrank", "regression"])
    y = parts[0].y + np.random.default_rng(0).random(parts[0].n_rows)  # every grade differs
    with pytest.warns(gainful.DataWarning):
        model.fit(parts[0].X, y, qid=parts[0].qid)
    notes = {row.name.partition(":")[0]: row.note for row in model.leaderboard_.members}
    assert "distinct grades" in notes.get("mcrank", "distinct grades")
    assert notes["regression"] == ""


@pytest.mark.parametrize("text", ["regression,listnet", '["regression", "listnet"]'])
def test_rankers_on_the_command_line(text):
    assert Auto.parameters["rankers"].parse(text) == ["regression", "listnet"]


def test_mistakes_are_refused(parts):
    with pytest.raises(ParameterError, match="no ranker 'lambdamat'"):
        Auto(rankers=["lambdamat"]).fit(parts[0])
    with pytest.raises(ParameterError, match="cannot hold 'blend'"):
        Auto(rankers=["blend"]).fit(parts[0])
    with pytest.raises(ParameterError, match="seconds of Auto must be a number > 0"):
        Auto(seconds=0).fit(parts[0])
    with pytest.raises(ParameterError, match="folds of Auto must be an integer ≥ 3"):
        Auto(folds=None).fit(parts[0])
