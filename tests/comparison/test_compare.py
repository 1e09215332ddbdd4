"""Comparisons: the same queries for all, honest p-values, what is finished survives."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.linear_model import LinearRegression

import gainful
from gainful import GainfulError, LambdaMART, ParameterError, RegressionRanker, Split
from gainful.comparison import job
from gainful.comparison.contestants import contestants, resolve_rankers
from gainful.comparison.result import CURVE_SUM
from gainful.rankers.registry import USEFUL_FEW

TREES = LambdaMART(n_trees=20, n_leaves=8, n_jobs=1)
DIVIDED = Split(*gainful.split(gainful.make_artificial(9)))
FRAME = pd.DataFrame({"qid": [1, 1], "grade": [0, 1], "a": [0.5, 1.5]})
RANKERS = {"ridge": RegressionRanker(), "trees": TREES}


@pytest.fixture(scope="module")
def found(parts):
    train, valid, test = parts
    return gainful.compare(RANKERS, train, valid=valid, test=test, metrics=("ndcg@5", "map"))


def test_values_are_those_of_training_by_hand(found, parts):
    train, valid, test = parts
    for label, model in RANKERS.items():
        scores = clone(model).fit(train, eval_set=valid).predict(test)
        expected = gainful.metric("ndcg@5").per_query(scores, test)
        assert np.array_equal(found.per_query(label, "ndcg@5"), expected)
        assert found.mean(label, "ndcg@5") == pytest.approx(expected.mean())
    assert found.query_ids.tolist() == test.query_ids.tolist()


def test_tests_are_paired_and_run_against_the_baseline(found):
    test = found.paired_tests["trees", "ndcg@5"]
    d = found.per_query("trees", "ndcg@5") - found.per_query("ridge", "ndcg@5")
    assert test.difference == pytest.approx(d.mean())
    assert (test.wins, test.losses) == ((d > 0).sum(), (d < 0).sum())
    assert set(test.p) == {"wilcoxon", "t", "randomization"}
    assert ("ridge", "ndcg@5") not in found.paired_tests


def test_wilcoxon_can_look_at_the_sum_of_ndcg_1_to_10(found, parts):
    from scipy import stats

    test = parts[2]
    sums = {}
    for label, model in RANKERS.items():
        scores = clone(model).fit(parts[0], eval_set=parts[1]).predict(test)
        sums[label] = sum(gainful.metric(f"ndcg@{k}").per_query(scores, test) for k in range(1, 11))
    expected = stats.wilcoxon(sums["trees"] - sums["ridge"]).pvalue
    assert found.paired_tests["trees", CURVE_SUM].p["wilcoxon"] == pytest.approx(expected)


def test_holm_runs_over_the_rankers(parts):
    train, _, test = parts
    rankers = {"base": RegressionRanker(), **{f"r{a}": RegressionRanker(alpha=a) for a in (1e2, 1e3, 1e4)}}
    found = gainful.compare(rankers, train, test=test, metrics=["ndcg@10"], tests=["t"])
    raw = [found.paired_tests[label, "ndcg@10"].p["t"] for label in found.labels[1:]]
    holm = [found.paired_tests[label, "ndcg@10"].p_holm["t"] for label in found.labels[1:]]
    assert min(holm) == pytest.approx(min(1.0, 3 * min(raw)))


def test_folds_test_every_query_once(artificial):
    found = gainful.compare(["regression"], artificial, folds=4, seed=2)
    assert sorted(found.query_ids.tolist()) == sorted(artificial.query_ids.tolist())
    assert np.bincount(found.fold_of_query).tolist() == [30] * 4
    per_fold = [found.per_query("regression", "map")[found.fold_of_query == f].mean() for f in range(4)]
    assert found.mean("regression", "map", average="folds") == pytest.approx(np.mean(per_fold))


def test_a_ranker_that_cannot_take_the_data_does_not_stop_the_others(parts):
    train, _, test = parts
    X = train.X.copy()
    X[0, 0] = np.nan
    found = gainful.compare(RANKERS, train.replace(X=X), test=test)
    assert found.labels == ("trees",)
    assert found.baseline == "trees"
    assert "missing values" in found.failures["ridge"]
    assert "ridge failed: X has missing values" in found.table()
    with pytest.raises(GainfulError, match="no ranker could be trained: ridge: X has missing"):
        gainful.compare({"ridge": RegressionRanker()}, train.replace(X=X), test=test)


def test_stopping_keeps_what_is_finished(artificial):
    def stop_in_third_run(event):
        return event.finished_runs == 2

    found = gainful.compare(RANKERS, artificial, folds=3, progress=stop_in_third_run)
    assert found.interrupted
    assert found.labels == ("ridge", "trees")
    assert found.data["folds"] == 1
    assert "Interrupted" in found.table()
    with pytest.raises(GainfulError, match="interrupted before any ranker"):
        gainful.compare(RANKERS, artificial, progress=lambda event: True)


def test_the_callback_sees_the_result_so_far(artificial):
    seen = []

    def look(event):
        if event.finished_runs == 1 and event.training is None:
            seen.append(event.job.result().labels)

    gainful.compare(RANKERS, artificial, progress=look)
    assert seen == [("ridge",)]


def test_paths_are_read_with_options_after_the_settings_are_checked(artificial, tmp_path):
    gainful.write(artificial, tmp_path / "d.rows", format="letor")
    found = gainful.compare("regression", tmp_path / "d.rows", read_options={"format": "letor"})
    assert found.mean("regression", "map") == gainful.compare("regression", artificial).mean("regression", "map")
    with pytest.raises(ParameterError, match="alpha of compare"):
        gainful.compare("regression", "no-such-file.txt", alpha=2)


def test_ctrl_c_in_the_second_ranker_keeps_the_first(artificial):
    def press(event):
        if event.ranker == "trees" and event.training is not None and event.training.iteration == 3:
            raise KeyboardInterrupt

    found = gainful.compare(RANKERS, artificial, progress=press)
    assert found.interrupted
    assert found.labels == ("ridge",)


def test_a_metric_that_skips_queries_is_tested_on_the_rest(parts):
    train, _, test = parts
    y = test.y.copy()
    y[: test.offsets[2]] = 0
    metrics = [gainful.metric("ndcg@5", empty="skip")]
    found = gainful.compare(RANKERS, train, test=test.replace(y=y), metrics=metrics)
    assert np.isnan(found.per_query("ridge", "ndcg@5")[:2]).all()
    assert found.paired_tests["trees", "ndcg@5"].n_queries == test.n_queries - 2
    assert 0 < found.mean("ridge", "ndcg@5") < 1


def test_table_json_and_page_tell_the_same(found, tmp_path):
    found.to_json(tmp_path / "c.json")
    found.to_html(tmp_path / "c.html")
    stored = json.loads((tmp_path / "c.json").read_text())
    page = (tmp_path / "c.html").read_text()
    for label in found.labels:
        shown = f"{stored['rankers'][label]['means']['ndcg@5']:.4f}"
        assert shown in found.table()
        assert shown in page
    assert stored["metrics"]["ndcg@5"] == str(gainful.metric("ndcg@5"))
    assert len(stored["rankers"]["trees"]["per_query"]["map"]) == len(found.query_ids)
    assert stored["against_baseline"][0]["ranker"] == "trees"
    assert "http://" not in page
    assert "https://" not in page
    assert "<td" in found._repr_html_()


def test_labels_are_escaped_on_the_page(parts):
    found = gainful.compare({"<b>x": RegressionRanker()}, parts[0], test=parts[2])
    assert "&lt;b&gt;x" in found._repr_html_()


def test_names_carry_settings(parts):
    found = gainful.compare("regression:alpha=5,regression:alpha=50:target=gain", parts[0], test=parts[2])
    assert found.labels == ("regression:alpha=5", "regression:alpha=50:target=gain")
    assert found.runs["regression:alpha=50:target=gain"][0].params["alpha"] == 50


def test_settings_may_hold_separators(parts):
    spec = 'lambdamart:n_trees=3:n_jobs=1:engine_params={"max_depth": 2, "extra_trees": true},regression'
    found = gainful.compare(spec, parts[0], test=parts[2])
    assert found.labels[1] == "regression"
    assert found.runs[found.labels[0]][0].params["engine_params"] == {"max_depth": 2, "extra_trees": True}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rankers": "lamdamart"}, "did you mean 'lambdamart'"),
        ({"rankers": []}, "no ranker to compare"),
        ({"rankers": [3]}, "rankers of compare must be"),
        ({"rankers": ["regression", "regression"]}, "given twice"),
        ({"rankers": "regression:alfa=3"}, "did you mean 'alpha'"),
        ({"rankers": "regression:alpha=-3"}, "alpha of regression must be a number ≥ 0"),
        ({"rankers": {"r": RegressionRanker(alpha=-1)}}, "alpha of RegressionRanker must be"),
        ({"metrics": ["ngcd@10"]}, "ndcg"),
        ({"metrics": []}, "no metric"),
        ({"tests": ["wilcoxn"]}, "did you mean 'wilcoxon'"),
        ({"baseline": "x"}, "this comparison has no ranker 'x'"),
        ({"alpha": 2}, "alpha of compare"),
        ({"alpha": "x"}, "alpha of compare must be a number in"),
        ({"seed": -1, "data": DIVIDED}, "seed of compare must be an integer ≥ 0"),
        ({"seed": 1.5, "data": DIVIDED}, "seed of compare must be an integer ≥ 0"),
        ({"folds": 2}, "n_folds"),
        ({"data": 5}, "data of compare must be"),
        ({"valid": gainful.make_artificial(2)}, "valid is given without test"),
        ({"data": None}, "compare needs rankers and data, as in compare"),
        ({"rankers": DIVIDED, "data": "regression"}, "rankers first and then the data"),
        ({"rankers": __file__, "data": "regression"}, "rankers first and then the data"),
        ({"rankers": FRAME, "data": "regression"}, "rankers first and then the data"),
        ({"rankers": [RegressionRanker]}, r"estimators, not classes; give RegressionRanker\(\)"),
        ({"rankers": [LinearRegression]}, r"estimators, not classes; give LinearRegression\(\)"),
    ],
)
def test_bad_requests_are_refused_before_training(settings, message, artificial):
    with pytest.raises(ParameterError, match=message):
        gainful.compare(**{"rankers": "regression", "data": artificial} | settings)


def test_data_may_be_paths(parts, tmp_path):
    names = ("train", "valid", "test")
    for name, part in zip(names, parts, strict=True):
        gainful.write(part, tmp_path / f"{name}.txt")
    whole = gainful.compare("regression", Split(*(gainful.read(tmp_path / f"{name}.txt") for name in names)))
    train, valid, test = (str(tmp_path / f"{name}.txt") for name in names)
    for found in (
        gainful.compare("regression", tmp_path),
        gainful.compare("regression", train, valid=valid, test=test),
        gainful.compare("regression", gainful.read(train), valid=valid, test=tmp_path / "test.txt"),
    ):
        assert found.mean("regression", "ndcg@10") == whole.mean("regression", "ndcg@10")
    assert gainful.compare("regression", train).data["folds"] == 1
    with pytest.raises(gainful.FormatError, match="there is no such file"):
        gainful.compare("regression", tmp_path / "none.txt")
    with pytest.raises(ParameterError, match="data is already divided; leave out folds, valid and test"):
        gainful.compare("regression", tmp_path, test=test)


def test_files_of_different_width_are_brought_to_the_widest(parts, tmp_path):
    gainful.write(parts[0], tmp_path / "train.txt")
    (tmp_path / "test.svm").write_text("1 qid:x 1:0.5\n0 qid:x 2:1\n2 qid:y 1:1\n0 qid:y 1:2\n")
    found = gainful.compare("regression", tmp_path / "train.txt", test=tmp_path / "test.svm")
    assert found.data["features"] == parts[0].n_features


def test_the_useful_few_are_of_different_families():
    few = contestants("few")
    assert tuple(few) == USEFUL_FEW
    assert 4 <= len(few) < 10
    assert len({type(model) for model in few.values()}) == len(few)
    assert {gainful.RANKERS[name].kind for name in few} >= {"linear", "trees"}
    assert len(contestants("all")) > 30


def test_a_group_may_be_one_of_several():
    more = contestants("feature:1,few,sdcg")
    assert tuple(more) == ("feature:1", *USEFUL_FEW, "sdcg")
    assert more["auto"].seconds == contestants("few")["auto"].seconds == 60  # not ten minutes
    assert tuple(contestants(["few", "regression"])) == (*USEFUL_FEW[1:], "regression")
    assert contestants("few,auto:trials=2")["auto:trials=2"].trials == 2


def test_training_on_the_test_queries_is_refused(parts):
    with pytest.raises(GainfulError, match="is in the training and in the test data"):
        gainful.compare("regression", Split(parts[0], None, parts[0]))


@pytest.mark.filterwarnings("ignore:.*the grade itself:gainful.DataWarning")
def test_rounding_is_not_a_difference(rng):
    """Two orders of documents of one grade are equally good, whatever the last digit of their sums says."""
    y = np.tile([2.0, 2.0, 2.0, 1.0, 1.0, 0.0, 0.0], 40)
    qid = np.repeat(np.arange(40), 7)
    X = np.column_stack([y, y + 1e-3 * rng.random(len(y))])
    data = gainful.RankingData.from_rows(X, y, qid)

    class First(RegressionRanker):
        def _predict(self, X):
            return X[:, 0]

    class Second(RegressionRanker):
        def _predict(self, X):
            return X[:, 1]

    found = gainful.compare({"a": First(), "b": Second()}, data, metrics=("ndcg@5", "dcg", "rbp", "err@5(max_grade=2)"))
    for measure in ("ndcg@5", "dcg", "rbp(0.8)", "err@5", CURVE_SUM):
        test = found.paired_tests["b", measure]
        assert (test.wins, test.losses) == (0, 0)
        assert set(test.p.values()) == {1.0}


def test_metrics_that_share_a_name_are_shown_in_full(parts):
    found = gainful.compare(
        RANKERS, parts[0], test=parts[2], metrics=("ndcg@10", "ndcg@10(gain=linear)", "map", "map(relevant=3)")
    )
    for text in ("ndcg@10(gain=exp2", "ndcg@10(gain=linear", "map(ties=average, empty=0, relevant=3)"):
        full = next(m for m in found.metrics if str(m).startswith(text))
        scores = clone(RANKERS["ridge"]).fit(parts[0]).predict(parts[2])
        assert found.mean("ridge", full) == pytest.approx(full(scores, parts[2]))
    assert len(found.to_dict()["metrics"]) == 4


def test_means_follow_the_weights_of_the_queries(parts):
    train, _, test = parts
    weighted = test.replace(query_weights=np.arange(1.0, test.n_queries + 1))
    found = gainful.compare(RANKERS, train, test=weighted, metrics="ndcg@5")
    scores = clone(RANKERS["ridge"]).fit(train).predict(test)
    assert found.mean("ridge", "ndcg@5") == pytest.approx(gainful.metric("ndcg@5")(scores, weighted))
    assert "weighted by query" in found.table()


def test_a_baseline_without_a_result_does_not_throw_the_others_away(artificial):
    def press(event):
        if event.ranker == "trees" and event.training is not None:
            raise KeyboardInterrupt

    found = gainful.compare(RANKERS, artificial, baseline="trees", progress=press)
    assert found.labels == ("ridge",)
    assert found.baseline == "ridge"
    assert "The baseline trees has no result" in found.table()


def test_the_iterations_kept_stand_beside_those_trained(parts):
    train, valid, test = parts
    made = gainful.LambdaMART(n_trees=60, learning_rate=0.5, early_stopping=4, n_jobs=1)
    found = gainful.compare({"trees": made, "ridge": gainful.RegressionRanker()}, train, valid=valid, test=test)
    told, model = found.to_dict()["rankers"], clone(made).fit(train, eval_set=valid)
    assert told["trees"]["iterations_kept"] == [model.best_iteration_]
    assert told["trees"]["iterations"] == [model.n_iter_]
    assert model.best_iteration_ < model.n_iter_


@pytest.mark.parametrize("sparse", [False, True])
def test_a_leaked_query_is_found_behind_other_scales(parts, sparse):
    """Features normalised by file or by query stay in the same order; another query of the same id does not."""
    train, _, test = parts
    inside = test.X[test.offsets[5] : test.offsets[6]]
    scaled = (test.X - inside.min(axis=0)) / (np.ptp(inside, axis=0) + 1.0)
    moved = test.replace(X=scipy.sparse.csr_matrix(scaled) if sparse else scaled)
    train = train.replace(X=scipy.sparse.csr_matrix(train.X)) if sparse else train
    leaky = gainful.RankingData.concatenate([train, moved[5]])
    with pytest.raises(
        GainfulError, match=f"query {test.query_ids[5]} is in the training and in the test data with resc"
    ):
        gainful.compare("regression", leaky, test=test)
    shuffled = moved[5].replace(X=moved[5].X[::-1])
    gainful.compare("regression", gainful.RankingData.concatenate([train, shuffled]), test=moved, metrics="ndcg@5")


def test_any_leaked_query_is_found(parts):
    train, _, test = parts
    leaky = gainful.RankingData.concatenate([train, test[5]])
    with pytest.raises(GainfulError, match=r"is in the training and in the test data"):
        gainful.compare("regression", leaky, test=test)
    with pytest.raises(GainfulError, match=r"is in the validation and in the test data"):
        gainful.compare("regression", train, valid=test, test=test)


def test_labels_that_look_like_markup_are_printed_as_they_are(parts):
    found = gainful.compare({"[/x] a": RegressionRanker(), "[bold]b": TREES}, parts[0], test=parts[2])
    assert "[/x] a (baseline)" in found.table()
    assert "[bold]b" in found.table()


def test_a_query_that_is_tested_twice_is_refused(parts):
    train, valid, test = parts
    part = Split(train, valid, test)
    with pytest.raises(GainfulError, match="is in the test data of split 1 and of split 2 with the same rows"):
        gainful.compare("regression", [part] * 2)
    with pytest.raises(GainfulError, match="the tests would count it twice"):
        gainful.compare("regression", [Split(train, valid, test[:6]), Split(train, valid, test[5:], name="second")])
    # Files that number their queries alike are not the same queries.
    anew = [part.replace(query_ids=np.arange(part.n_queries)) for part in (test[:10], test[10:])]
    found = gainful.compare("regression", [Split(train, valid, one) for one in anew])
    assert len(found.query_ids) == test.n_queries


def test_a_metric_named_twice_is_one_column(parts):
    found = gainful.compare("regression", parts[0], test=parts[2], metrics=("ndcg@5", "map", "ndcg@5"))
    assert [m.name for m in found.metrics] == ["ndcg@5", "map"]


class Broken(RegressionRanker):
    def _fit(self, data, monitor):
        raise ZeroDivisionError("no such\nthing")


def test_any_error_of_a_ranker_is_its_own_failure(parts):
    train, valid, test = parts
    for tuning in ({}, {"tune": 2}):
        events = []
        found = gainful.compare(
            {"broken": Broken(), "ridge": RegressionRanker()},
            Split(train, valid, test),
            progress=lambda event: events.append(event.finished_runs),  # noqa: B023
            **tuning,
        )
        assert found.labels == ("ridge",)
        assert "ZeroDivisionError: no such thing" in found.failures["broken"]
        assert events[-1] == 1  # what failed is over too, so that the bar reaches its end


def test_an_error_of_the_callback_is_the_callers(parts):
    def broken(event):
        if event.training is not None or event.tuning is not None:
            raise ZeroDivisionError("of the callback")

    for tuning in ({}, {"tune": 2}, {"tune": 3, "n_jobs": 2}):
        with pytest.raises(ZeroDivisionError, match="of the callback"):
            gainful.compare({"trees": TREES}, Split(*parts), progress=broken, **tuning)


def test_the_test_part_of_lazy_folds_is_made_once_for_training(parts):
    train, valid, test = parts
    made = []

    def lazy():
        made.append(1)
        return test

    from gainful.comparison.job import ComparisonJob

    job = ComparisonJob(
        {"ridge": RegressionRanker()},
        [Split(train, valid, lazy)],
        metrics=(gainful.metric("map"),),
        curve=tuple(gainful.metric(f"ndcg@{k}") for k in range(1, 11)),
        tests=(),
        baseline=None,
        alpha=0.05,
        seed=0,
    )
    job.run()
    assert len(made) == 1


def test_auto_by_name_optimises_the_headline():
    def metrics_of(rankers, headline):
        found = resolve_rankers(rankers, headline)
        given = {label: model.get_params().get("metric") for label, (model, _) in found.items()}
        return {label: one and gainful.metric(one).name for label, one in given.items()}

    by_name = ["auto:trials=2", "auto:trials=2:metric=p@5", "regression"]
    assert metrics_of(by_name, gainful.metric("map")) == {
        "auto:trials=2": "map",
        "auto:trials=2:metric=p@5": "p@5",
        "regression": None,
    }
    assert metrics_of({"a": gainful.Auto(trials=2)}, gainful.metric("map")) == {"a": "ndcg@10"}
    assert metrics_of("auto", None) == {"auto": "ndcg@10"}


def test_rankers_side_by_side_give_the_same_comparison():
    rankers = ["regression", "lambdamart:n_trees=5", "ranknet", "blend:members=regression,ranknet:folds=3"]
    data = gainful.make_artificial(400, n_docs=20, n_features=12, seed=2)  # enough for two threads per tree
    for tuning in ({}, {"tune": 2}):
        kept = rankers[:3] if tuning else rankers  # a blend has nothing to tune
        one, two = (gainful.compare(kept, data, n_jobs=n, **tuning) for n in (1, 2))
        assert list(one.runs) == list(two.runs) == kept
        for label in one.labels:
            for a, b in zip(one.runs[label], two.runs[label], strict=True):
                np.testing.assert_array_equal(a.scores, b.scores)


def test_the_slowest_of_the_last_fold_begins_first(parts, monkeypatch):
    """So that no worker waits long for the last one."""
    took, begun = {"regression": 1.0, "ranknet": 3.0, "ranksvm": 2.0}, []
    plain, together = job.train_and_test, job.ComparisonJob._run_together

    def train_and_test(label, *args):
        return replace(plain(label, *args), fit_seconds=took[label])

    def run_together(self, run, labels):
        begun.append(list(labels))
        together(self, run, labels)

    monkeypatch.setattr(job, "train_and_test", train_and_test)
    monkeypatch.setattr(job.ComparisonJob, "_run_together", run_together)
    found = gainful.compare(list(took), parts[0], folds=3, n_jobs=2)
    assert begun == [list(took), *2 * [["ranknet", "ranksvm", "regression"]]]
    assert list(found.runs) == list(took)


def test_a_failure_or_a_stop_side_by_side(parts):
    def stop(event):
        return event.finished_runs >= 2

    found = gainful.compare(["regression", "ranknet", "listnet", "ranksvm"], Split(*parts), n_jobs=2, progress=stop)
    assert found.interrupted
    assert 2 <= len(found.labels) <= 4

    def broken(event):
        raise ZeroDivisionError("of the callback")

    with pytest.raises(ZeroDivisionError, match="of the callback"):
        gainful.compare(["regression", "ranknet"], Split(*parts), n_jobs=2, progress=broken)
    with pytest.raises(ParameterError, match="n_jobs"):
        gainful.compare(["regression"], Split(*parts), n_jobs=0)


def test_a_ranker_that_cannot_be_explained_still_counts(parts, monkeypatch):
    linear = LambdaMART(n_trees=3, n_jobs=1, engine_params={"linear_tree": True})
    assert "linear_tree" in linear._why_no_contributions()
    found = gainful.compare({"leaves": linear, "ridge": RegressionRanker()}, Split(*parts), explain=True)
    assert set(found.labels) == {"leaves", "ridge"}

    def fail(*_):
        raise GainfulError("of the explanation")

    monkeypatch.setattr("gainful.comparison.runs.explain_model", fail)
    with pytest.warns(UserWarning, match="RegressionRanker is not explained: of the explanation"):
        found = gainful.compare({"ridge": RegressionRanker()}, Split(*parts), explain=True)
    assert list(found.labels) == ["ridge"]


def test_final_trainings_warn_side_by_side_too(parts):
    """Trials are quiet, final trainings are not: with threads too, which share the filters."""
    rankers = [f"ranknet:max_iter={n}:scale=standard" for n in (1, 2, 3)]
    with pytest.warns(UserWarning, match="stopped after"):
        gainful.compare(rankers, Split(*parts), tune=2, n_jobs=2)
