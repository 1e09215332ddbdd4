"""``compare`` and ``evaluate`` with what users have, ``--time``, and several ``--valid``."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from commands import call, refused

import gainful

NDCG = gainful.metric("ndcg@10")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Data with ids, and what today's system says about it."""
    folder = tmp_path_factory.mktemp("have")
    data = gainful.make_artificial(40, n_docs=6, n_features=4, seed=2)
    frame = pd.DataFrame(data.X, columns=["bm25", "price", "age", "clicks"])
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.repeat(np.arange(40)[::-1], data.counts), unit="D")
    ids = [f"d{i}" for i in range(data.n_rows)]
    frame = frame.assign(qid=data.qid, grade=data.y, doc_id=ids)
    frame.to_csv(folder / "all.csv", index=False)
    frame.assign(day=day.strftime("%Y-%m-%d")).to_csv(folder / "dated.csv", index=False)
    rows = gainful.read(folder / "all.csv")
    (folder / "today.txt").write_text("".join(f"{one!r}\n" for one in rows.X[:, 3].tolist()))
    gainful.write_run(gainful.Run.from_scores(rows.X[:, 3], rows), folder / "today.run")
    gainful.save(gainful.RegressionRanker().fit(rows), folder / "old.gainful")
    return folder


@pytest.fixture(autouse=True)
def _there(home, monkeypatch):
    monkeypatch.chdir(home)


def test_compare_sets_them_beside_the_rankers(capsys, tmp_path):
    specs = "regression,feature:bm25,feature:-price,scores:today.txt,run:today.run,model:old.gainful"
    code, out, err = call(
        capsys, "compare", "all.csv", "--rankers", specs, "--metrics", "ndcg@10", "--json", "--report", tmp_path / "r"
    )
    assert code == 0
    found = json.loads(out)
    same = gainful.compare(specs, "all.csv", metrics="ndcg@10")
    assert list(found["rankers"]) == specs.split(",")
    for label, entry in found["rankers"].items():
        assert entry["means"]["ndcg@10"] == same.mean(label, "ndcg@10")
        assert entry["trained"] is (label == "regression")
    means = {label: entry["means"]["ndcg@10"] for label, entry in found["rankers"].items()}
    assert means["scores:today.txt"] == means["run:today.run"] == same.mean("run:today.run", "ndcg@10")
    assert "scoring feature:bm25" in err
    assert "training regression" in err
    assert "Not trained here: feature:bm25" in (tmp_path / "r" / "report.html").read_text()


@pytest.mark.parametrize("spec", ["feature:clicks", "scores:today.txt", "run:today.run", "today.txt"])
def test_evaluate_takes_the_same(spec, capsys):
    code, out, err = call(capsys, "evaluate", spec, "all.csv", "--metrics", "ndcg@10", "--json")
    assert code == 0
    rows = gainful.read("all.csv")
    assert json.loads(out)["means"]["ndcg@10"] == pytest.approx(NDCG(rows.X[:, 3], rows))
    assert ("today.run has 240 of 240 test documents" in err) == spec.startswith("run:")


def test_what_predict_writes_is_read(capsys, tmp_path):
    for more in ([], ["--json"]):
        assert call(capsys, "predict", "old.gainful", "all.csv", "-o", tmp_path / "p", *more)[0] == 0
        rankers = f"model:old.gainful,scores:{tmp_path / 'p'}"
        code, out, _ = call(capsys, "compare", "all.csv", "--rankers", rankers, "--json")
        first, second = json.loads(out)["rankers"].values()
        assert code == 0
        assert first["means"] == second["means"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compare", "all.csv", "--rankers", "feature:bm52"], "the data has no feature 'bm52'; did you mean 'bm25'?"),
        (["compare", "all.csv", "--rankers", "scores:old.run"], "old.run: there is no such file"),
        (["compare", "all.csv", "--rankers", "model:today.txt"], "today.txt"),
        (["compare", "all.csv", "--time", "dya"], "there is no column (times) 'dya'"),
        (["compare", "all.csv", "--time", "bm25"], "feature 'bm25' is not a time of queries"),
        (["compare", "dated.csv"], "'day' must be numeric, but holds dates or times; drop it, read it as numbers with "
         "--read times=day"),
        (["compare", "dated.csv", "--time", "bm25"], "column 'day' must be numeric, but holds dates or times"),
        (["compare", "all.csv", "--test", "dated.csv", "--time", "age"], "already divided; leave out --time"),
        (["compare", "today.run", "--qrels", "today.run", "--time", "day"], "leave out --time"),
        (["evaluate", "today.run", "all.csv"], "this is a TREC run: judge it with --qrels QRELS and without "
         "DATA, or by the grades of the data as 'run:today.run'"),
        (["evaluate", "feature:bm25", "all.csv", "--cluster", "tcp://x:1"], "leave out --cluster"),
        (["train", "regression", "all.csv", "-o", "m", "--valid", "all.csv", "--valid", "all.csv"], "--valid NAME=all"),
        (["train", "regression", "all.csv", "-o", "m", "--valid", "=all.csv"], "--valid must be FILE or NAME=FILE"),
        (
            ["train", "lambdamart", "all.csv", "-o", "m", "--checkpoint", "c", "--valid", "all.csv", "--valid",
             "b=all.csv"],
            "a checkpoint holds one set of validation data; give --valid once",
        ),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(arguments, message, capsys):
    assert message in refused(capsys, *arguments)


def test_time_divides_by_a_column_of_dates(capsys):
    how = ["--rankers", "regression,feature:bm25", "--metrics", "ndcg@10", "--time", "day"]
    code, out, _ = call(capsys, "compare", "dated.csv", *how, "--json")
    assert code == 0
    found = json.loads(out)
    assert sorted(found["queries"]["id"]) == list(range(1, 9))  # the first queries are the latest
    assert found["data"]["features"] == 4
    code, out, _ = call(capsys, "compare", "dated.csv", *how, "--folds", "2")
    assert code == 0
    assert "2 folds" in out
    assert "divided by time" in out


def test_several_validation_files_are_all_measured(capsys, tmp_path):
    rows = gainful.read("all.csv")
    for name, part in (("train", rows[:20]), ("new", rows[20:30]), ("old", rows[30:])):
        gainful.write(part, tmp_path / f"{name}.csv")
    base = ["train", "lambdamart", tmp_path / "train.csv", "-o", tmp_path / "m", "--set", "n_trees=15", "--set",
            "n_jobs=1", "--json"]  # fmt: skip
    code, out, _ = call(capsys, *base, "--valid", tmp_path / "new.csv", "--valid", f"last year={tmp_path / 'old.csv'}")
    assert code == 0
    found = json.loads(out)
    model = gainful.load(tmp_path / "m")
    assert found["validation new ndcg@10"] == pytest.approx(NDCG(model.predict(rows[20:30]), rows[20:30]))
    assert found["validation last year ndcg@10"] == pytest.approx(NDCG(model.predict(rows[30:]), rows[30:]))
    alone = json.loads(call(capsys, *base, "--valid", tmp_path / "new.csv")[1])
    assert alone["validation ndcg@10"] == found["validation new ndcg@10"]
    assert alone["iterations"] == found["iterations"]
