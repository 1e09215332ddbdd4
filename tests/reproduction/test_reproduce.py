"""``gainful reproduce``: the papers' figures, the command from end to end, and the same table after a kill."""

from __future__ import annotations

import inspect
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import gainful
from gainful.cli import run
from gainful.cli.jobs import seconds_left
from reproduction import command, selection
from reproduction.artificial import Artificial
from reproduction.ohsumed import Figure, Ohsumed
from reproduction.published import ARTIFICIAL, CLAIMS, OHSUMED, TABLE_1

QUICK = "regression,ranksvm,rsrank-sparse,lambdamart:n_trees=4"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three folds of artificial data in LETOR's layout, with three grades."""
    home = tmp_path_factory.mktemp("letor")
    data = gainful.make_artificial(24, n_docs=10, n_features=6, n_grades=3, seed=5)
    for i, part in enumerate(gainful.folds(data, 3), start=1):
        (home / f"Fold{i}").mkdir()
        for name, some in (("train", part.train), ("vali", part.valid), ("test", part.test)):
            gainful.write(some, home / f"Fold{i}" / f"{name}.txt")
    return home


def call(capsys, *arguments):
    capsys.readouterr()
    code = run(["reproduce", *(str(a) for a in arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def table_of(told):
    """What of the JSON must be the same whenever and however it was computed."""
    rankers = {label: {k: v for k, v in one.items() if k != "seconds"} for label, one in told["rankers"].items()}
    return {k: v for k, v in told.items() if k != "origin"} | {"rankers": rankers}


# -- published figures -------------------------------------------------------------------------------------------------


def test_published_figures_are_those_of_the_papers():
    assert OHSUMED["ranksvm"].values["ndcg@1"] == 0.4958
    assert OHSUMED["rankboost"].values["p@3"] == 0.5609
    assert OHSUMED["frank"].values["ndcg@2"] == 0.5008
    assert OHSUMED["listnet"].values["p@1"] == 0.6524
    assert OHSUMED["adarank-map"].values["ndcg@4"] == 0.4721
    assert OHSUMED["adarank-ndcg"].values["map"] == 0.4498
    assert OHSUMED["sdcg"].values["ndcg@5"] == 0.4420
    assert OHSUMED["shf-sdcg"].values["p@5"] == 0.5593
    assert OHSUMED["reg-shf-sdcg"].values["ndcg@1"] == 0.5517
    assert OHSUMED["rsrank"].values == {"ndcg@1": 0.5613}
    assert OHSUMED["rsrank-sparse"].kept == pytest.approx(0.369, abs=5e-4)
    assert [ARTIFICIAL[name].values["ndcg@10"] for name in ("mcrank-ordinal", "mcrank")] == [0.850, 0.837]


def test_published_figures_belong_to_rankers_and_are_in_order():
    for name, told in {**OHSUMED, **ARTIFICIAL}.items():
        assert name in gainful.RANKERS
        assert all(0 < value < 1 for value in told.values.values())
    for claim in CLAIMS:
        assert {claim.ranker, *claim.others} <= set(gainful.RANKERS)
    # P@1 of three grades is at least NDCG@1: a relevant document has at most the full gain.
    full = [told.values for told in OHSUMED.values() if set(TABLE_1) <= set(told.values)]
    assert len(full) == 9
    assert all(values["p@1"] >= values["ndcg@1"] for values in full)


@pytest.mark.parametrize(
    ("mean", "published", "verdict"), [(0.50, 0.52, 0), (0.50, 0.531, -1), (0.50, 0.469, 1), (0.50, None, 0)]
)
def test_a_figure_is_marked_beyond_one_standard_error(mean, published, verdict):
    figure = Figure(mean, 0.03, published)
    assert figure.verdict == verdict
    assert figure.to_dict().get("below", False) == (verdict < 0)


# -- OHSUMED -----------------------------------------------------------------------------------------------------------


def test_ohsumed_from_end_to_end(capsys, folder, tmp_path):
    arguments = ["ohsumed", "--data", folder, "--rankers", QUICK, "--trials", 2, "--store", tmp_path / "store"]
    written = ["--results", tmp_path / "results", "--report", tmp_path / "report"]
    code, out, err = call(capsys, *arguments, *written)
    assert code == 0
    assert "are not the full OHSUMED of LETOR 3.0" in " ".join(out.split())
    assert f"results are stored in {tmp_path / 'store'}" in err
    assert "left" in err
    assert "Δ MAP" in out
    assert (tmp_path / "report" / "report.html").is_file()
    page = (tmp_path / "results" / "ohsumed.md").read_text()
    assert "Command: `gainful reproduce ohsumed --data DIR --trials 2" in page
    assert "| RankSVM (Wu, Chang, Zheng and Zha 2009, table 1" in page
    told = json.loads((tmp_path / "results" / "ohsumed.json").read_text())
    # The same once more, from the store, as JSON.
    code, out, _ = call(capsys, *arguments, "--json")
    assert code == 0
    assert table_of(json.loads(out)) == table_of(told)
    assert "lambdamart" in told["rankers"]  # the yardstick, added
    assert told["rankers"]["ranksvm"]["trials"] == [2, 2, 2]


def test_no_single_query_is_in_the_results(folder, tmp_path):
    experiment = Ohsumed(folder, rankers="regression", trials=1, store=tmp_path)
    experiment.run()
    told = experiment.result().to_dict()

    def longest(value):
        if isinstance(value, dict):
            return max(map(longest, value.values()), default=0)
        return max([len(value), *map(longest, value)]) if isinstance(value, list) else 0

    assert longest(told) <= 3  # a value for each fold, never one for each of 24 queries
    assert told["data"]["test_queries"] == 24


def test_figures_are_letors(folder, tmp_path):
    """The mean of the folds' means, by LETOR 3's measure, of the setting that is best on validation."""
    experiment = Ohsumed(folder, rankers="ranksvm", trials=3, select="ndcg@10", store=tmp_path)
    experiment.run()
    result = experiment.result()
    from gainful.formats.layout import read_splits

    chooses, measure = (gainful.metric(name, convention="letor3") for name in ("ndcg@10", "map"))
    means, values = [], []
    for part in read_splits(folder):
        found = gainful.tune("ranksvm", part.train, valid=part.valid, trials=3, metric=chooses)
        scores = found.model.predict(part.test)
        means.append(measure(scores, part.test))
        values.extend(measure.per_query(scores, part.test))
    figure = result.figure("ranksvm", "map")
    assert figure.mean == pytest.approx(np.mean(means), abs=1e-12)
    assert figure.error == pytest.approx(np.std(values, ddof=1) / np.sqrt(24))
    assert figure.difference == pytest.approx(figure.mean - 0.4334)
    [(label, measure_name)] = [key for key in result.comparison.paired_tests if key == ("ranksvm", "map")]
    assert result.comparison.paired_tests[label, measure_name].difference == pytest.approx(
        np.mean(result.comparison.per_query("ranksvm", "map") - result.comparison.per_query("lambdamart", "map"))
    )


def test_the_dense_and_the_sparse_form(folder, tmp_path):
    experiment = Ohsumed(folder, rankers="rsrank,rsrank-sparse", trials=1, store=tmp_path)
    experiment.run()
    result = experiment.result()
    assert result.kept("rsrank") == 1.0
    assert 0 < result.kept("rsrank-sparse") <= 1.0
    assert result.kept("lambdamart") is None
    assert all("l1" not in run.chosen for run in result.comparison.runs["rsrank"])


def test_killed_and_resumed_it_gives_the_same_table(capsys, folder, tmp_path):
    arguments = ["ohsumed", "--data", folder, "--rankers", "frank,ranksvm", "--trials", 2, "--json"]
    whole = json.loads(call(capsys, *arguments, "--store", tmp_path / "whole")[1])
    command = [sys.executable, "-m", "gainful", "reproduce", *map(str, arguments), "--store", str(tmp_path / "killed")]
    command += ["--jobs", "2"]  # which changes nothing
    child = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    stored = tmp_path / "killed" / "frank.fold-2.jsonl"
    deadline = time.monotonic() + 120
    while (not stored.exists() or stored.read_bytes().count(b"\n") < 2) and time.monotonic() < deadline:
        time.sleep(0.005)
    child.send_signal(signal.SIGKILL)
    child.wait(timeout=60)
    assert child.returncode == -signal.SIGKILL
    assert not (tmp_path / "killed" / "lambdamart.fold-3.jsonl").exists()
    resumed = json.loads(call(capsys, *arguments, "--store", tmp_path / "killed")[1])
    assert table_of(resumed) == table_of(whole)


def test_the_default_store_is_in_the_cache_and_belongs_to_the_data(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    store = Ohsumed(folder, rankers="regression").store
    assert store.is_relative_to(tmp_path / "gainful" / "reproduce")
    assert store == Ohsumed(folder, rankers="ranksvm", trials=3, jobs=2).store
    assert store != Ohsumed(folder, rankers="regression", seed=1).store
    assert store != Ohsumed(folder, rankers="regression", select="ndcg@10").store
    assert store != Ohsumed(folder / "Fold1", rankers="regression").store


def test_time_left_counts_each_ranker_by_itself(folder, tmp_path):
    experiment = Ohsumed(folder, rankers="regression,ranksvm", trials=1, store=tmp_path)
    told = []
    experiment.run(lambda event: told.append((event.fold, seconds_left(experiment.job))) and False)
    assert all(left is None for fold, left in told if fold == 0)
    assert all(left > 0 for fold, left in told if fold > 0)
    assert seconds_left(experiment.job) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ohsumed", "--data", "no-such-folder"], "there is no such folder"),
        (["ohsumed", "--data", "EMPTY"], "the folder has no train file"),
        (["ohsumed", "--data", "no-such-folder", "--rankers", "ranksmv"], "did you mean 'ranksvm'"),
        (["ohsumed", "--data", "no-such-folder", "--select", "mpa"], "did you mean 'map'"),
        (["ohsumed", "--data", "no-such-folder", "--trials", "0"], "trials of tune must be an integer ≥ 1"),
        (["artificial", "--queries", "10,10"], "three numbers of queries"),
        (["artificial", "--queries", "10,x,10"], "--queries must be comma-separated numbers"),
        (["artificial", "--queries", "10,2.5,10"], "must be whole numbers"),
        (["artificial", "--full", "--queries", "1,1,1"], "leave out one"),
        (["artificial", "--trees", "0"], "n_trees"),
        (["artificial", "--queries", "9,9,9", "--shares", "0.5,0.5"], "grade_shares"),
    ],
)
def test_mistakes_are_one_line(capsys, tmp_path, arguments, message):
    code, out, err = call(capsys, *(tmp_path if a == "EMPTY" else a for a in arguments))
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert message in err


def test_the_installed_package_says_that_experiments_need_a_checkout(tmp_path):
    shutil.copytree(Path(gainful.__file__).parent, tmp_path / "gainful", ignore=shutil.ignore_patterns("__pycache__"))
    for arguments in (["ohsumed", "--data", "DIR"], ["artificial", "--full"], []):
        done = subprocess.run(
            [sys.executable, "-m", "gainful", "reproduce", *arguments],
            cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True,
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (2, "")
        assert len(done.stderr.splitlines()) == 1
        assert "run gainful reproduce from a checkout" in done.stderr


def test_a_folder_without_validation_data_is_refused(capsys, folder, tmp_path):
    for name in ("train", "test"):
        (tmp_path / f"{name}.txt").write_bytes((folder / "Fold1" / f"{name}.txt").read_bytes())
    code, _, err = call(capsys, "ohsumed", "--data", tmp_path, "--rankers", "regression", "--store", tmp_path / "s")
    assert code == 2
    assert "there is no validation data" in err


# -- artificial data ---------------------------------------------------------------------------------------------------


def test_artificial_from_end_to_end(capsys, tmp_path):
    rankers = "mcrank-ordinal,mcrank-regression,lambdarank,lambdamart"
    size = ["--queries", "30,10,30", "--trees", 6, "--shares", "0.4,0.3,0.1,0.1,0.1"]
    arguments = ["artificial", *size, "--rankers", rankers, "--store", tmp_path / "store"]
    code, out, err = call(capsys, *arguments, "--results", tmp_path)
    assert code == 0
    assert "training mcrank-ordinal" in err
    assert "0.4, 0.3, 0.1, 0.1, 0.1" in " ".join(out.split())
    told = json.loads((tmp_path / "artificial.json").read_text())
    again = json.loads(call(capsys, *arguments, "--json")[1])
    assert table_of(again) == table_of(told)
    assert told["rankers"]["mcrank-ordinal"]["ndcg@10"]["published"] == 0.85
    assert told["rankers"]["mcrank-ordinal"]["iterations"] <= 6
    assert "| mcrank-ordinal |" in (tmp_path / "artificial.md").read_text()


def test_artificial_figures_are_a_plain_fits(tmp_path):
    experiment = Artificial((30, 10, 20), rankers="lambdamart:n_leaves=5", trees=5, rate=0.1, seed=4, store=tmp_path)
    experiment.run()
    result = experiment.result()
    data = gainful.make_artificial(60, seed=4)
    settings = {"n_trees": 5, "n_leaves": 5, "learning_rate": 0.1, "early_stopping": 5, "n_jobs": 1}
    model = gainful.ranker("lambdamart", **settings).fit(data[:30], eval_set=data[30:40])
    values = gainful.metric("ndcg@10").per_query(model.predict(data[40:]), data[40:])
    figure = result.figure("lambdamart:n_leaves=5")
    assert figure.mean == pytest.approx(values.mean())
    assert figure.error == pytest.approx(values.std(ddof=1) / np.sqrt(20))


def test_the_commands_defaults_are_the_experiments():
    for called, experiment, names in (
        (command.ohsumed, Ohsumed, ("rankers", "trials", "select", "jobs", "seed")),
        (command.artificial, Artificial, ("trees", "leaves", "rate", "threads", "seed")),
    ):
        ours, theirs = inspect.signature(called).parameters, inspect.signature(experiment).parameters
        assert {n: ours[n].default for n in names} == {n: theirs[n].default for n in names}


# -- the papers' own selection -----------------------------------------------------------------------------------------


def test_the_papers_own_selection_prints_a_line_per_ranker(folder, capsys, monkeypatch):
    monkeypatch.setattr(selection, "RANKMM_STEPS", 20)
    monkeypatch.setattr(selection, "RSRANK_ITERATIONS", 5)
    selection.main(str(folder), "rankmm-1", "rsrank")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + 2 + 2 + 6
    assert all(line.count("|") == lines[0].count("|") for line in lines)
    chosen = [line.split("|")[2].strip() for line in lines[2:]]
    assert chosen == ["map"] * 4 + ["ndcg@10"] * 2 + ["ndcg@1"] * 2 + ["map"] * 2


def test_the_best_candidate_on_the_validation_queries_is_chosen(folder):
    split = selection.as_splits(selection.read_splits(folder))[0]
    by = gainful.metric("map", convention="letor3")
    candidates = [gainful.ranker("regression", alpha=alpha) for alpha in (1e5, 1.0, 100.0)]
    best = selection.choose(iter(candidates), split, by)
    values = [by(one.predict(split.valid), split.valid) for one in candidates]
    assert best is candidates[int(np.argmax(values))]
