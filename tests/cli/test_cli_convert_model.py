"""``gainful convert-model``, and models of other makers in the other commands."""

from __future__ import annotations

import json
import os

import lightgbm as lgb
import numpy as np
import pytest

import gainful
from gainful.cli import run

WEIGHTS = {"f1": 0.5, "f3": -2.0, "intercept": 1.0}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """test.txt; booster.txt of LightGBM, weights.json, ascent.txt of RankLib."""
    home = tmp_path_factory.mktemp("convert")
    data = gainful.make_artificial(20, n_docs=10, n_features=5, seed=3)
    gainful.write(data, home / "test.txt")
    train = lgb.Dataset(data.X, data.y > 1)
    params = {"objective": "binary", "verbosity": -1, "num_threads": 1, "num_leaves": 5}
    lgb.train(params, train, 4).save_model(home / "booster.txt")
    (home / "weights.json").write_text(json.dumps(WEIGHTS))
    (home / "ascent.txt").write_text("## Coordinate Ascent\n1:1.0 2:0.5\n")
    return home


def call(capsys, *arguments):
    capsys.readouterr()
    code = run([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_model_is_converted_and_described(home, capsys, tmp_path):
    code, out, err = call(capsys, "convert-model", home / "booster.txt", "-o", tmp_path / "m.gainful")
    assert code == 0
    assert ("maker", "LightGBM") in [tuple(line.split(maxsplit=1)) for line in map(str.strip, out.splitlines())]
    assert "note: scores are LightGBM's raw scores" in err
    code, out, _ = call(capsys, "convert-model", home / "booster.txt", "-o", tmp_path / "m.gainful", "--json")
    facts = json.loads(out)
    assert (facts["ranker"], facts["trees"], facts["features"]) == ("ImportedTrees", 4, 5)
    assert facts["objective"].startswith("binary")
    data = gainful.read(home / "test.txt")
    raw = lgb.Booster(model_file=home / "booster.txt").predict(data.X, raw_score=True)
    assert np.array_equal(gainful.load(tmp_path / "m.gainful").predict(data), raw)


def test_other_commands_take_such_models_as_they_are(home, capsys, tmp_path):
    code, out, _ = call(capsys, "evaluate", home / "booster.txt", home / "test.txt", "--json")
    assert code == 0
    model, data = gainful.load(home / "booster.txt"), gainful.read(home / "test.txt")
    assert json.loads(out)["means"]["ndcg@10"] == pytest.approx(model.score(data))
    code, out, _ = call(capsys, "predict", home / "ascent.txt", home / "test.txt")
    assert code == 0
    assert np.array(out.split(), dtype=float) == pytest.approx(np.asarray(data.X)[:, :2] @ [1.0, 0.5])
    code, out, _ = call(capsys, "explain", home / "booster.txt", home / "test.txt", "--documents", "1", "--json")
    assert code == 0
    assert json.loads(out)["documents"][0]["rank"] == 1
    code, _, _ = call(capsys, "export", home / "booster.txt", "--to", "xgboost", "-o", tmp_path / "m.ubj")
    assert code == 0
    assert np.allclose(
        gainful.load(tmp_path / "m.ubj").predict(data.X.astype(np.float32)), model.predict(data.X), atol=1e-6
    )


def test_explanations_name_the_right_columns(capsys, tmp_path):
    """The weights name two of the columns, in another order."""
    (tmp_path / "data.csv").write_text("qid,grade,clicks,age,bm25\n1,1,5,100,2\n1,0,7,200,3\n")
    (tmp_path / "weights.csv").write_text("bm25,10\nclicks,1\n")
    for more in ([], ["--pair", "1", "2"]):
        code, out, err = call(capsys, "explain", tmp_path / "weights.csv", tmp_path / "data.csv", "--json", *more)
        assert code == 0, err
        found = json.loads(out)
        if more:
            shares = {one["feature"]: (one["value_a"], one["difference"]) for one in found["features"]}
            assert shares == {"bm25": (2.0, -10.0), "clicks": (5.0, -2.0)}
        else:
            best = {one["feature"]: (one["value"], one["contribution"]) for one in found["documents"][0]["features"]}
            assert best == {"bm25": (3.0, 30.0), "clicks": (7.0, 7.0)}


def test_mistakes_are_one_line_and_write_nothing(home, capsys, tmp_path):
    target = tmp_path / "m.gainful"
    (tmp_path / "bad.json").write_text("{}")
    cases = [
        (home / "absent.txt", target, "there is no such file"),
        (tmp_path / "bad.json", target, "not a model of LightGBM"),
        (home / "test.txt", target, "not a readable gainful model file"),
        (home / "booster.txt", home / "booster.txt", "--output and MODEL are the same file"),
    ]
    for model, output, message in cases:
        code, out, err = call(capsys, "convert-model", model, "-o", output)
        assert (code, out) == (2, "")
        assert message in err
        assert len(err.splitlines()) == 1
    assert not os.path.exists(target)


def test_text_of_lightgbm_counts_features_from_0(home, capsys, tmp_path):
    data = gainful.read(home / "test.txt")
    rows = np.column_stack([np.zeros(data.n_rows), data.X])  # as LightGBM reads a file that starts with 1:
    params = {"objective": "regression", "verbosity": -1, "num_threads": 1, "num_leaves": 5}
    booster = lgb.train(params, lgb.Dataset(rows, data.y), 4)
    booster.save_model(tmp_path / "from_text.txt")
    code, _, err = call(capsys, "evaluate", tmp_path / "from_text.txt", home / "test.txt")
    assert code == 2
    assert "has 5 features, but the model has 6: LightGBM counts the features of text from 0" in err
    assert "pass --read zero_based=true" in err
    how = ["--read", "zero_based=true", "--metrics", "ndcg@10", "--json"]
    _, out, _ = call(capsys, "evaluate", tmp_path / "from_text.txt", home / "test.txt", *how)
    ndcg = gainful.metric("ndcg@10")(booster.predict(rows), data)
    assert f"{ndcg:.6f}"[:7] in out
