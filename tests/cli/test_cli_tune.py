"""``gainful tune`` and the tuning of ``gainful compare``, as a user meets them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

import gainful
from gainful.cli import run

TREES = ["--set", "n_trees=8", "--set", "early_stopping=4"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "d.txt"
    gainful.write(gainful.make_artificial(30, n_docs=10, n_features=5, seed=2), path)
    return path


def call(capsys, *arguments):
    capsys.readouterr()
    code = run([str(a) for a in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_tune_prints_a_table_and_writes_a_model(capsys, data, tmp_path):
    model = tmp_path / "m.gainful"
    code, out, err = call(capsys, "tune", "lambdamart", data, *TREES, "--trials", 3, "-o", model, "--jobs", 2)
    assert code == 0
    assert "learning_rate" in out
    assert "as given" in out
    assert "3 of 3 trials, best" in err
    train, valid = gainful.split(gainful.read(data), (0.75, 0.25))
    alone = gainful.tune("lambdamart:n_trees=8:early_stopping=4", train, valid=valid, trials=3)
    assert (gainful.load(model).predict(valid) == alone.model.predict(valid)).all()


def test_json_space_and_store(capsys, data, tmp_path):
    arguments = ["tune", "ranksvm", data, "--space", "C=0.01..100:log", "--search", "grid", "--trials", 5, "--json"]
    code, out, _ = call(capsys, *arguments, "--store", tmp_path)
    found = json.loads(out)
    assert code == 0
    assert [row["params"]["C"] for row in found["trials"]] == [10.0, 0.01, 0.1, 1.0, 100.0]
    assert found["space"] == {"C": "0.01..100:log"}
    again = json.loads(call(capsys, *arguments, "--store", tmp_path)[1])
    assert again["trials"] == found["trials"]


def test_a_folder_needs_no_test_file_to_tune_on(capsys, data, tmp_path):
    train, valid = gainful.split(gainful.read(data), (0.7, 0.3))
    gainful.write(train, tmp_path / "train.txt")
    gainful.write(valid, tmp_path / "vali.txt")
    code, out, _ = call(capsys, "tune", "regression", tmp_path, "--trials", 2, "--json")
    assert code == 0
    alone = gainful.tune("regression", train, valid=valid, trials=2)
    assert json.loads(out)["best_value"] == alone.best_value
    code, _, err = call(capsys, "compare", tmp_path, "--rankers", "regression")
    assert code == 2
    assert "no test file" in err


def test_a_folder_of_folds_is_tuned_on_all_of_them(capsys, tmp_path):
    parts = gainful.folds(gainful.make_artificial(12, n_docs=8, n_features=4, seed=1), 3)
    for i, part in enumerate(parts, start=1):
        (tmp_path / f"Fold{i}").mkdir()
        for name, some in (("train", part.train), ("vali", part.valid), ("test", part.test)):
            gainful.write(some, tmp_path / f"Fold{i}" / f"{name}.txt")
    code, out, _ = call(capsys, "tune", "regression", tmp_path, "--trials", 3, "--json")
    assert code == 0
    assert len(json.loads(out)["trials"]) == 3
    code, _, err = call(capsys, "tune", "regression", tmp_path, "-o", tmp_path / "m.gainful")
    assert code == 2
    assert "has several folds, so there is no one model to write" in err
    arguments = [
        "compare",
        tmp_path,
        "--rankers",
        "regression,ranksvm",
        "--tune",
        2,
        "--store",
        tmp_path / "s",
        "--json",
    ]
    code, out, _ = call(capsys, *arguments)
    assert code == 0
    first = json.loads(out)["rankers"]
    code, out, _ = call(capsys, *arguments)
    assert {k: v["means"] for k, v in json.loads(out)["rankers"].items()} == {k: v["means"] for k, v in first.items()}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["lamdamart"], "did you mean 'lambdamart'"),
        (["ranksvm", "--set", "C=-1"], "C of ranksvm must be"),
        (["ranksvm", "--space", "C=2..1"], "low < high"),
        (["ranksvm", "--space", "C=1..2", "--set", "C=1"], "C of RankSVM is both set and searched"),
        (["ranksvm", "--search", "grd"], "did you mean 'grid'"),
        (["ranksvm", "--trials", "0"], "trials of tune must be an integer ≥ 1"),
        (["ranksvm", "--seconds", "-2"], "seconds of tune must be a number > 0"),
        (["ranksvm", "--search", "grid", "--seconds", "2"], "a grid needs a number of trials"),
        (["ranksvm", "--metric", "ndcg@5,map"], "metric of tune must be one metric"),
        (["ranksvm", "--jobs", "0"], "n_jobs of tune must be an integer ≥ 1"),
        (["ranksvm", "-o", "no/such/folder/m.gainful"], "does not exist"),
    ],
)
def test_mistakes_are_one_line(capsys, arguments, message):
    """The data file does not exist: all of these are found before it is opened."""
    code, out, err = call(capsys, "tune", arguments[0], "no-such-file.txt", *arguments[1:])
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert message in err


def test_compare_refuses_before_reading(capsys):
    for arguments, message in (
        (["--tune", "0"], "trials of tune"),
        (["--refit-all"], "--refit-all needs tuning; give --tune or --tune-seconds"),
        (["--tune", "3", "--search", "x"], "no search 'x'"),
    ):
        code, out, err = call(capsys, "compare", "no-such-file.txt", "--rankers", "regression", *arguments)
        assert (code, out, len(err.splitlines())) == (2, "", 1)
        assert message in err


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_shows_the_best_so_far(data, tmp_path):
    arguments = ["tune", "lambdamart", str(data), "--set", "n_trees=30", "--trials", "100000", "--store", str(tmp_path)]
    child = subprocess.Popen(
        [sys.executable, "-m", "gainful", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    path = tmp_path / "lambdamart.jsonl"
    deadline = time.monotonic() + 120
    while (not path.exists() or path.read_bytes().count(b"\n") < 4) and time.monotonic() < deadline:
        time.sleep(0.02)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=120)
    assert child.returncode == 130, err
    assert "as given" in out
    assert "Interrupted: the best so far." in " ".join(out.split())
    assert "Traceback" not in err


def test_a_report_that_cannot_be_written_is_refused_before_training(capsys, data, tmp_path):
    (tmp_path / "file").write_text("")
    code, out, err = call(capsys, "compare", data, "--rankers", "regression", "--report", tmp_path / "file" / "r")
    assert code == 2
    assert "cannot be written to" in err
    assert "training" not in err
    assert out == ""


def test_a_report_that_fails_does_not_take_the_table_with_it(capsys, data, tmp_path, monkeypatch):
    def fail(self, folder):
        raise gainful.FormatError("cannot be written: no space left", path=folder)

    monkeypatch.setattr(gainful.Comparison, "to_report", fail)
    code, out, err = call(capsys, "compare", data, "--rankers", "regression", "--report", tmp_path / "r")
    assert code == 2
    assert "no space left" in err
    assert "ndcg@10" in out
