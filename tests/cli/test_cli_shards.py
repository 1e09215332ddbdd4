"""Folders of shards on the command line, opened here and by the workers of a cluster."""

from __future__ import annotations

import json

import numpy as np
import pytest

import gainful
from gainful.cli import run
from local_cluster import local_cluster

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def data():
    return gainful.make_artificial(30, n_docs=10, n_features=5, seed=4)


@pytest.fixture(scope="module")
def home(data, tmp_path_factory):
    """train/ and valid/ in shards, and train.gnf with the same rows as train/."""
    made = tmp_path_factory.mktemp("home")
    for name, cuts in {"train": ((0, 8), (8, 20)), "valid": ((20, 23), (23, 30))}.items():
        (made / name).mkdir()
        for a, b in cuts:
            gainful.write(data[a:b], made / name / f"{a:02d}.gnf")
    gainful.write(data[:20], made / "train.gnf")
    return made


@pytest.fixture(scope="module")
def address():
    with local_cluster() as made:
        yield made.scheduler_address


def call(capsys, *arguments):
    capsys.readouterr()
    code = run([str(a) for a in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize("where", ["here", "cluster"])
def test_train_predict_and_evaluate_a_folder(where, capsys, data, home, address, tmp_path):
    there = ["--cluster", address] if where == "cluster" else []
    file = tmp_path / "m.gainful"
    train = ["train", "ranksvm", home / "train", "-o", file, "--valid", home / "valid", *there, "--json"]
    code, out, err = call(capsys, *train)
    assert code == 0, err
    whole = gainful.RankSVM().fit(data[:20], eval_set=data[20:])
    np.testing.assert_allclose(gainful.load(file).coef_, whole.coef_, rtol=1e-6)
    assert json.loads(out)["validation ndcg@10"] == pytest.approx(whole.history_[-1]["validation"], abs=1e-9)

    model = gainful.load(file)
    code, out, _ = call(capsys, "predict", file, home / "train", *there)
    assert code == 0
    np.testing.assert_allclose(np.array(out.split(), dtype=float), model.predict(data[:20]), rtol=1e-12)
    assert call(capsys, "predict", file, home / "train", *there, "-o", tmp_path / "s.txt")[0] == 0
    assert (tmp_path / "s.txt").read_text() == out
    code, out, _ = call(capsys, "predict", file, home / "train", *there, "--json")
    assert json.loads(out)["qid"] == data[:20].qid.tolist()

    ndcg = gainful.metric("ndcg@10")
    for scores in (file, tmp_path / "s.txt"):
        code, out, _ = call(capsys, "evaluate", scores, home / "train", *there, "--per-query", "--json")
        assert code == 0
        found = json.loads(out)
        assert found["means"]["ndcg@10"] == pytest.approx(ndcg(model.predict(data[:20]), data[:20]), abs=1e-9)
        assert found["per_query"]["qid"] == data[:20].query_ids.tolist()


def test_one_file_goes_to_a_cluster_too(capsys, data, home, address, tmp_path):
    code, _, err = call(
        capsys, "train", "regression", home / "train.gnf", "-o", tmp_path / "m.gainful", "--cluster", address
    )
    assert code == 0, err
    whole = gainful.RegressionRanker().fit(data[:20])
    np.testing.assert_allclose(gainful.load(tmp_path / "m.gainful").coef_, whole.coef_, rtol=1e-6)


def test_incomplete_scores_leave_no_file(capsys, data, home, tmp_path):
    gainful.save(gainful.RegressionRanker().fit(data[:20]), tmp_path / "m.gainful")
    folder = tmp_path / "broken"
    folder.mkdir()
    gainful.write(data[:5], folder / "a.gnf")
    (folder / "b.gnf").write_bytes((folder / "a.gnf").read_bytes()[:200])
    code, _, err = call(capsys, "predict", tmp_path / "m.gainful", folder, "-o", tmp_path / "s.txt")
    assert code == 2
    assert "b.gnf: the file is cut short" in err
    assert not (tmp_path / "s.txt").exists()


def test_a_cluster_that_is_not_there_is_one_line(capsys, home, tmp_path, monkeypatch):
    monkeypatch.setattr("gainful.cluster.clients.CONNECT_SECONDS", 0.5)
    code, out, err = call(
        capsys, "train", "ranksvm", home / "train", "-o", tmp_path / "m.gainful", "--cluster", "tcp://127.0.0.1:1"
    )
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith("gainful: no Dask scheduler answers at tcp://127.0.0.1:1")
