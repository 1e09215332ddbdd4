"""Comparisons with tuning: parameters chosen per fold on validation data alone, every choice on record."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.base import clone

import gainful
from gainful import ParameterError, Split
from gainful.comparison.report.figures import _training_note
from gainful.tuning.store import Store

TREES = "lambdamart:n_trees=12:early_stopping=5"
RANKERS = ["regression", TREES]


@pytest.fixture(scope="module")
def tuned(artificial):
    return gainful.compare(RANKERS, artificial, folds=3, seed=1, tune=4)


def test_each_fold_is_what_tune_finds_there(tuned, artificial):
    for fold, part in enumerate(gainful.folds(artificial, 3, seed=1)):
        for label in RANKERS:
            run = tuned.runs[label][fold]
            alone = gainful.tune(label, part, trials=4, seed=1)
            assert run.chosen == alone.best_params
            assert [row["value"] for row in run.trials] == [row["value"] for row in alone.trials]
            assert np.array_equal(run.scores, alone.model.predict(part.test))
            assert run.params["eval_metric"] == str(gainful.metric("ndcg@10"))
    assert len({json.dumps(run.chosen) for run in tuned.runs["regression"]}) > 1


def test_the_choices_are_on_record(tuned, artificial, tmp_path):
    assert tuned.protocol["division"] == "folds by query"
    assert tuned.protocol["seed"] == 1
    expected = {"search": "random", "trials": 4, "seconds": None, "refit": True, "prune": True, "seed": 1}
    assert tuned.protocol["tuning"] == expected | {"metric": str(gainful.metric("ndcg@10"))}
    plain = gainful.compare("regression", artificial)
    assert plain.protocol["tuning"] is None
    assert plain.protocol["sizes"] == [0.6, 0.2, 0.2]
    assert plain.runs["regression"][0].chosen is None


def test_test_labels_change_no_choice(tuned, artificial):
    """With new random labels in every test part, all trials, choices and scores stay the same."""
    rng = np.random.default_rng(0)
    splits = gainful.folds(artificial, 3, seed=1)
    poisoned = [Split(p.train, p.valid, p.test.replace(y=rng.permutation(p.test.y))) for p in splits]
    found = gainful.compare(RANKERS, poisoned, seed=1, tune=4)
    for label in RANKERS:
        for one, other in zip(tuned.runs[label], found.runs[label], strict=True):
            assert one.chosen == other.chosen
            assert [row["value"] for row in one.trials] == [row["value"] for row in other.trials]
            assert np.array_equal(one.scores, other.scores)
    assert tuned.mean(TREES, "ndcg@10") > found.mean(TREES, "ndcg@10") + 0.05
    assert found.protocol["division"] == "as given"


def test_the_first_metric_chooses(artificial):
    found = gainful.compare("regression", artificial, metrics=("map", "ndcg@10"), tune=5)
    train, valid, _ = gainful.split(artificial)
    alone = gainful.tune("regression", train, valid=valid, metric="map", trials=5)
    assert found.runs["regression"][0].chosen == alone.best_params


def test_refit_on_all_trains_on_both_parts(artificial, parts):
    train, valid, test = parts
    found = gainful.compare(TREES, Split(train, valid, test), tune=3, refit="all")
    run = found.runs[TREES][0]
    alone = gainful.tune(TREES, train, valid=valid, trials=3, refit="all")
    assert np.array_equal(run.scores, alone.model.predict(test))
    assert found.protocol["tuning"]["refit"] == "all"


def test_workers_change_nothing(tuned, artificial):
    found = gainful.compare(RANKERS, artificial, folds=3, seed=1, tune=4, n_jobs=3)
    for label in RANKERS:
        assert np.array_equal(found.per_query(label, "ndcg@10"), tuned.per_query(label, "ndcg@10"))


def test_a_store_holds_results_without_tuning_too(artificial, tmp_path):
    first = gainful.compare(RANKERS, artificial, store=tmp_path)
    trained = []
    again = gainful.compare(RANKERS, artificial, store=tmp_path, progress=lambda e: trained.append(e.training))
    assert trained == [None, None]
    assert again.table() == first.table()
    for label in RANKERS:
        one, other = first.runs[label][0], again.runs[label][0]
        assert np.array_equal(one.scores, other.scores)
        assert one.history == other.history
        assert one.params == other.params


def test_a_metric_that_skips_queries_survives_the_store(artificial, tmp_path):
    train, valid, test = gainful.split(artificial)
    y = test.y.copy()
    y[: test.offsets[2]] = 0
    part = Split(train, valid, test.replace(y=y))
    metrics = [gainful.metric("ndcg@5", empty="skip")]
    for _ in range(2):
        found = gainful.compare("regression", part, metrics=metrics, store=tmp_path)
        assert np.isnan(found.per_query("regression", "ndcg@5")[:2]).all()


def test_other_test_data_is_tested_again_with_the_stored_trials(artificial, tmp_path):
    train, valid, test = gainful.split(artificial)
    gainful.compare("regression", Split(train, valid, test), tune=4, store=tmp_path)
    tried = []

    def note(event):
        if event.tuning is not None:
            tried.append(event.tuning.trial)

    found = gainful.compare("regression", Split(train, valid, test[:10]), tune=4, store=tmp_path, progress=note)
    assert tried == []
    assert len(found.query_ids) == 10
    more = gainful.compare("regression", Split(train, valid, test), tune=6, store=tmp_path, progress=note)
    assert set(tried) == {4, 5}
    assert len(more.runs["regression"][0].trials) == 6


def test_a_store_of_other_data_fails_in_words(artificial, tmp_path):
    gainful.compare("regression", artificial, store=tmp_path)
    with pytest.raises(gainful.GainfulError, match=r"regression\.fold-1\.jsonl: holds results of other data"):
        gainful.compare("regression", artificial, store=tmp_path, seed=5)


@pytest.mark.parametrize("tune", [None, 2])
def test_a_store_that_does_not_fit_ends_the_comparison_before_any_training(artificial, tmp_path, tune):
    """Also where it is the last fold of the last ranker that does not fit."""
    settings = {"folds": 3, "tune": tune, "store": tmp_path}
    gainful.compare({"last": gainful.RegressionRanker()}, artificial, **settings)
    other = gainful.make_artificial(artificial.n_queries, n_docs=10, n_features=4, seed=9)
    gainful.compare({"last": gainful.RegressionRanker()}, other, **settings | {"store": tmp_path / "other"})
    (tmp_path / "other" / "last.fold-3.jsonl").replace(tmp_path / "last.fold-3.jsonl")
    events = []
    rankers = {"first": gainful.RegressionRanker(), "last": gainful.RegressionRanker()}
    with pytest.raises(gainful.GainfulError, match=r"last\.fold-3\.jsonl: holds results of other data"):
        gainful.compare(rankers, artificial, **settings, progress=events.append)
    assert events == []


def edit_store(path, change):
    """Change each row of a store, with sums that match."""
    head, *rows = [json.loads(line) for line in path.read_text().splitlines()]
    path.unlink()
    with Store(
        path, {name: value for name, value in head.items() if name not in ("gainful", "format", "sum")}
    ) as store:
        for row in rows:
            del row["sum"]
            change(row)
            store.append(row)


@pytest.mark.parametrize(
    ("kind", "change", "line"),
    [
        ("trial", lambda row: row.pop("value"), 2),
        ("trial", lambda row: row.update(trial="0"), 2),
        ("trial", lambda row: row.update(curve=None), 2),
        ("run", lambda row: row.pop("values"), 5),
        ("run", lambda row: row.update(label="regressiom"), 5),
        ("run", lambda row: row.update(values=[]), 5),
        ("run", lambda row: row.update(scores="high"), 5),
        ("run", lambda row: row.update(scores=[10**400] * len(row["scores"])), 5),
        ("run", lambda row: row["values"][0].pop(), 5),
        ("run", lambda row: row["values"][0].__setitem__(0, 10**400), 5),
        ("run", lambda row: row["values"][0].__setitem__(0, "1.0"), 5),
        ("run", lambda row: row["values"][0].__setitem__(0, float("inf")), 5),
        ("run", lambda row: row.update(fit_seconds=float("nan")), 5),
        ("run", lambda row: row.update(fold=False), 5),
        ("run", lambda row: row.update(n_iter="many"), 5),
        ("run", lambda row: row.update(history=[3]), 5),
        ("run", lambda row: row.update(trials=[{}]), 5),
        ("run", lambda row: row.update(chosen=[1]), 5),
        ("run", lambda row: row["facts"].update(leaderboard={"metric": "ndcg@10", "queries": 3, "rows": [{}]}), 5),
        ("run", lambda row: row["facts"].update(leaderboard=[1]), 5),
    ],
)
def test_rows_that_lack_something_are_refused_by_line(artificial, tmp_path, kind, change, line):
    gainful.compare("regression", artificial, tune=3, store=tmp_path)
    path = tmp_path / "regression.fold-1.jsonl"
    edit_store(path, lambda row: change(row) if row["kind"] == kind else None)
    trials = 4 if kind == "trial" else 3  # with another budget the result is computed again, from the stored trials
    with pytest.raises(gainful.GainfulError, match=rf"fold-1\.jsonl, line {line}: is damaged; remove this line"):
        gainful.compare("regression", artificial, tune=trials, store=tmp_path)


def test_a_store_that_fails_later_is_not_a_failure_of_the_ranker(artificial, tmp_path, monkeypatch):
    from gainful.tuning.store import Store, StoreError

    def full(self, row):
        raise StoreError("cannot be written: no space left", path=self.path)

    monkeypatch.setattr(Store, "append", full)
    for tune in (None, 2):
        with pytest.raises(gainful.GainfulError, match="no space left"):
            gainful.compare(["regression"], artificial, tune=tune, store=tmp_path / str(tune))


def test_the_cost_of_tuning_is_shown(tuned, artificial):
    spent = sum(row["seconds"] for run in tuned.runs[TREES] for row in run.trials)
    assert tuned.tuning_seconds(TREES) == spent
    head, *_ = (line for line in tuned.table().splitlines() if "ndcg@10" in line)
    assert head.split()[-2:] == ["tuning", "fit"]
    assert "Trials differ in work" not in tuned.table()
    assert "tuning" not in gainful.compare("regression", artificial).table()
    paths = gainful.compare({"svm": gainful.RankSVM(C=[0.1, 1.0, 10.0])}, artificial, tune=1)
    assert paths.models_tried("svm") == 3
    assert "Trials differ in work: svm trained 3 models in 1 trial." in " ".join(paths.table().split())
    page = tuned.to_html()
    assert 'id="chosen"' in page
    assert "Objectives are from the first fold only" not in page  # none of these has an objective
    assert "Objectives are from the first fold only" in _training_note(tuned, {"objective"})
    chosen = page.split('id="chosen"')[1].split("</table>")[0]
    for run in tuned.runs["regression"]:
        assert f">{run.chosen['alpha']:.6g}<" in chosen


def test_fewer_workers_than_requested_are_reported(artificial, monkeypatch):
    from gainful.tuning import trials

    monkeypatch.setattr(trials, "workers_that_fit", lambda wanted, each, free: wanted - 1)
    found = gainful.compare(["regression"], artificial, tune=3, n_jobs=3)
    assert "Memory allowed fewer trials at once than requested: regression (2)." in found.table()
    assert found.runs["regression"][0].workers == 2
    alone = gainful.compare(["regression"], artificial, tune=3)
    assert "Memory allowed" not in alone.table()


def test_stopping_within_a_search_keeps_finished_rankers(artificial, tmp_path):
    def stop(event):
        return event.ranker == TREES and event.tuning is not None and event.tuning.finished == 2

    found = gainful.compare(RANKERS, artificial, tune=5, progress=stop, store=tmp_path)
    assert found.interrupted
    assert found.labels == ("regression",)
    resumed = gainful.compare(RANKERS, artificial, tune=5, store=tmp_path)
    whole = gainful.compare(RANKERS, artificial, tune=5)
    for label in RANKERS:
        assert np.array_equal(resumed.per_query(label, "map"), whole.per_query(label, "map"))


def test_ctrl_c_within_the_first_trial_is_an_interruption(artificial):
    def press(event):
        if event.tuning is not None and event.tuning.training is not None:
            raise KeyboardInterrupt

    with pytest.raises(gainful.GainfulError, match="interrupted before any ranker had finished"):
        gainful.compare([TREES], artificial, tune=5, progress=press)


def test_estimators_are_tuned_from_where_they_stand(parts):
    train, valid, test = parts
    model = gainful.RegressionRanker(alpha=3.0)
    found = gainful.compare({"ridge": model}, Split(train, valid, test), tune=3)
    assert found.runs["ridge"][0].trials[0]["params"] == {"alpha": 3.0, "target": "grade"}
    assert clone(model).get_params() == model.get_params()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tune": 0}, "trials of tune must be an integer ≥ 1"),
        ({"tune_seconds": 0}, "seconds of tune must be a number > 0"),
        ({"tune": 3, "search": "grd"}, "did you mean 'grid'"),
        ({"tune": 3, "refit": False}, "refit of compare must be True or 'all'"),
        ({"refit": "all"}, "refit='all' needs tuning"),
        ({"tune": 3, "n_jobs": 0}, "n_jobs of compare"),
        ({"tune": 3, "sizes": (0.6, 0.4)}, "there is no validation data"),
    ],
)
def test_bad_requests_are_refused_before_training(settings, message, artificial):
    with pytest.raises(ParameterError, match=message):
        gainful.compare("regression", artificial, **settings)


def test_few_trials_per_parameter_come_with_a_caution():
    data = gainful.make_artificial(40, n_docs=6, n_features=4, seed=1)
    few = gainful.compare("regression,lambdamart:n_trees=3", data, tune=4, metrics="ndcg@5")
    (sentence,) = (line for line in few.cautions if line.startswith("Few trials"))
    n = len(few.runs["lambdamart:n_trees=3"][0].trials[0]["params"])
    assert f"lambdamart:n_trees=3 (4 of {n} parameters)" in sentence
    assert sentence in " ".join(few.table().split())
    names = ("learning_rate", "n_leaves")
    fixed = ":".join(f"{name}={value}" for name, value in few.runs["lambdamart:n_trees=3"][0].chosen.items()
                     if name not in names and value is not None)  # fmt: skip
    enough = gainful.compare(f"regression:alpha=1,lambdamart:n_trees=3:{fixed}", data, tune=12, metrics="ndcg@5")
    assert not any(line.startswith("Few trials") for line in enough.cautions)
