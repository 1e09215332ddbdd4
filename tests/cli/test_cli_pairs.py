"""``--pairs``: preferences instead of grades on the command line."""

from __future__ import annotations

import json

import pytest
from commands import call, refused

import gainful
from graded_pairs import pairs_of_grades


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    data = gainful.make_artificial(60, n_docs=8, n_features=4, seed=2)
    data = data.with_pairs(pairs_of_grades(data.y, data.offsets))
    gainful.write(data, folder / "all.txt", pairs=folder / "all.csv")
    gainful.write(data[:40], folder / "train.txt", pairs=folder / "train.csv")
    gainful.write(data[40:], folder / "valid.txt", pairs=folder / "valid.csv")
    return folder


@pytest.fixture(autouse=True)
def _there(home, monkeypatch):
    monkeypatch.chdir(home)


def test_info_tells_of_preferences(capsys):
    code, out, _ = call(capsys, "data", "info", "all.txt", "--pairs", "all.csv", "--json")
    assert code == 0
    found = json.loads(out)
    assert found["preferences"]["queries"] == 60
    assert found["findings"] == []
    assert "preferences of weight" in call(capsys, "data", "info", "all.txt", "--pairs", "all.csv")[1]


def test_one_file_of_pairs_serves_training_and_validation_data(capsys, tmp_path):
    code, out, _ = call(
        capsys, "train", "gbrank", "train.txt", "--valid", "valid.txt", "--pairs", "all.csv", "-o",
        tmp_path / "m.gainful", "--set", "n_trees=20", "--json",
    )  # fmt: skip
    assert code == 0
    found = json.loads(out)
    train, valid = (gainful.read(f"{name}.txt", pairs="all.csv") for name in ("train", "valid"))
    model = gainful.ranker("gbrank", n_trees=20).fit(train, eval_set=valid)
    assert found["training pair-accuracy"] == model.score(train)
    assert found["validation pair-accuracy"] == model.score(valid)
    code, out, _ = call(
        capsys, "evaluate", tmp_path / "m.gainful", "valid.txt", "--pairs", "all.csv", "--metrics", "pair-accuracy",
        "--json",
    )  # fmt: skip
    assert code == 0
    assert json.loads(out)["means"]["pair-accuracy"] == model.score(valid)
    code, same, _ = call(capsys, "evaluate", tmp_path / "m.gainful", "valid.txt", "--pairs", "all.csv", "--json")
    assert code == 0
    assert json.loads(same)["means"] == json.loads(out)["means"]


def test_compare_and_tune_by_preferences(capsys, tmp_path):
    code, out, _ = call(
        capsys, "compare", "all.txt", "--pairs", "all.csv", "--rankers", "ranksvm,lambdamart,feature:1", "--metrics",
        "pair-accuracy", "--report", tmp_path / "report", "--json",
    )  # fmt: skip
    assert code == 0
    found = json.loads(out)
    assert set(found["rankers"]) == {"ranksvm", "feature:1"}
    assert "LambdaMART needs grades" in found["failures"]["lambdamart"]
    assert (tmp_path / "report" / "report.html").exists()
    code, out, _ = call(
        capsys,
        "tune",
        "ranksvm",
        "all.txt",
        "--pairs",
        "all.csv",
        "--metric",
        "pair-accuracy",
        "--trials",
        "2",
        "--json",
    )
    assert code == 0


def test_the_metric_of_preferences_is_the_default(capsys):
    code, out, _ = call(capsys, "compare", "all.txt", "--pairs", "all.csv", "--rankers", "ranksvm,feature:1", "--json")
    assert code == 0
    assert set(json.loads(out)["rankers"]["ranksvm"]["means"]) == {"pair-accuracy"}
    code, out, _ = call(capsys, "tune", "ranksvm", "all.txt", "--pairs", "all.csv", "--trials", "2", "--json")
    assert code == 0
    assert "pair-accuracy" in out
    code, out, _ = call(capsys, "evaluate", "feature:1", "all.txt", "--pairs", "all.csv", "--json")
    assert code == 0
    assert set(json.loads(out)["means"]) == {"pair-accuracy"}


def test_refusals_name_options(capsys, tmp_path):
    line = refused(capsys, "tune", "ranksvm", "all.txt", "--pairs", "all.csv", "--metric", "map", "--trials", "2")
    assert line.endswith("map needs grades, but the data has preferences; measure them by pair-accuracy")
    line = refused(capsys, "evaluate", "feature:1", "all.txt", "--pairs", "all.csv", "--metrics", "ndcg@10")
    assert "ndcg@10 needs grades, but the data has preferences; measure them by pair-accuracy" in line
    words = {
        "rsrank": "starts from the grades, but the data has preferences; use --set init=zeros",
        "lambdamart": "rsrank with --set init=zeros",
    }
    for name, expected in words.items():
        code, _, err = call(capsys, "train", name, "all.txt", "--pairs", "all.csv", "-o", tmp_path / "m.gainful")
        assert code != 0
        assert expected in err.splitlines()[-1]
    line = refused(capsys, "train", "ranksvm", "all.txt", "--pairs", "train.txt", "-o", tmp_path / "m.gainful")
    assert "train.txt, line 1: expected the columns query, better and worse" in line
    line = refused(capsys, "data", "convert", "all.txt", tmp_path / "all.csv", "--read", "pairs=all.csv")
    assert "reading in parts cannot use a file of preferences" in line
