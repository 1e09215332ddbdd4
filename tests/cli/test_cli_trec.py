"""TREC runs and qrels on the command line."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest
from commands import call, refused

import gainful
from gainful.metrics import metric


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """a.run, b.run.gz and judged.qrels, with ties and documents that are not judged; data with document ids."""
    folder = tmp_path_factory.mktemp("trec")
    rng = np.random.default_rng(4)
    queries = [str(300 + i) for i in range(20)]
    grades = {query: {f"D{i}": int(rng.integers(0, 3)) for i in range(30)} for query in queries}
    gainful.write_qrels(grades, folder / "judged.qrels")
    for name, path, push in (("first", "a.run", 0.0), ("second", "b.run.gz", 2.0)):
        scores = {
            query: {f"D{i}": round(push * grades[query].get(f"D{i}", 0) + float(rng.normal()), 0) for i in range(3, 38)}
            for query in queries
        }
        gainful.write_run(scores, folder / path, name=name)
    data = gainful.make_artificial(6, n_docs=5, n_features=3, seed=1)
    ids = [f"D{i}" for i in range(data.n_rows)]
    gainful.write(gainful.RankingData.from_rows(data.X, data.y, data.qid, doc_ids=ids), folder / "data.txt")
    return folder


@pytest.mark.parametrize("command", ["evaluate", "compare"])
@pytest.mark.parametrize(("convention", "version"), [(None, 9), ("trec", 9), ("trec_eval-10", 10)])
def test_every_print_says_whose_version_of_trec_eval_it_follows(command, convention, version, capsys, home):
    runs = [home / "a.run"] if command == "evaluate" else [home / "a.run", home / "b.run.gz"]
    named = [] if convention is None else ["--convention", convention]
    code, out, err = call(capsys, command, *runs, "--qrels", home / "judged.qrels", "--metrics", "iprec@0.1", *named)
    assert code in (0, None)
    assert f"Metrics follow trec_eval-{version} where" in " ".join((out + err).split())


def test_a_run_is_evaluated_by_trec_eval_s_conventions(capsys, home):
    arguments = ["evaluate", home / "a.run", "--qrels", home / "judged.qrels"]
    code, out, err = call(capsys, *arguments, "--metrics", "map,recall@5,bpref", "--json", "--per-query")
    found = json.loads(out)
    judged = gainful.read_qrels(home / "judged.qrels").judge(gainful.read_run(home / "a.run"))
    for spec in ("map", "recall@5", "bpref"):
        values = metric(spec, convention="trec").per_query(judged)
        assert found["per_query"][spec] == values.tolist()
        assert found["means"][spec] == pytest.approx(values.mean())
    assert found["queries"] == 20
    assert (code, found["metrics"]["map"]) == (0, "map(ties=docid, empty=0, relevant=1)")
    assert "note: Not judged among the top 10, and counted as not relevant (unjudged=zero):" in err
    _, out, _ = call(capsys, *arguments)
    assert "judged@10" in out
    assert "first: 20 queries, 700 documents, " in out
    _, out, _ = call(capsys, *arguments, "--metrics", "trec", "--json")
    assert len(json.loads(out)["means"]) == 24
    _, out, _ = call(capsys, *arguments, "--metrics", "map", "--convention", "sklearn", "--relevant", "2", "--json")
    assert json.loads(out)["metrics"]["map"] == "map(ties=average, empty=0, relevant=2)"


def test_values_of_queries_are_written_as_csv(capsys, home, tmp_path):
    out = tmp_path / "values.csv"
    code, _, _ = call(
        capsys,
        "evaluate",
        home / "a.run",
        "--qrels",
        home / "judged.qrels",
        "--metrics",
        "map,p@5",
        "--per-query-csv",
        out,
    )
    rows = list(csv.DictReader(io.StringIO(out.read_text())))
    assert code == 0
    assert [row["query"] for row in rows] == [str(300 + i) for i in range(20)]
    judged = gainful.read_qrels(home / "judged.qrels").judge(gainful.read_run(home / "a.run"))
    assert [float(row["map"]) for row in rows] == metric("map", convention="trec").per_query(judged).tolist()
    arguments = ["compare", home / "a.run", home / "b.run.gz", "--qrels", home / "judged.qrels"]
    assert call(capsys, *arguments, "--metrics", "map", "--per-query-csv", out)[0] == 0
    assert len(out.read_text().splitlines()) == 41


def test_runs_are_compared(capsys, home, tmp_path):
    arguments = ["compare", home / "a.run", home / "b.run.gz", "--qrels", home / "judged.qrels"]
    code, out, _ = call(capsys, *arguments, "--report", tmp_path / "report")
    assert code == 0
    assert "first (baseline)" in out
    assert "against first" in out
    assert (tmp_path / "report" / "report.html").is_file()
    _, out, _ = call(capsys, *arguments, "--metrics", "trec", "--baseline", "second", "--json")
    found = json.loads(out)
    assert found["baseline"] == "second"
    expected = gainful.compare_runs([home / "a.run", home / "b.run.gz"], home / "judged.qrels", metrics="trec")
    assert found["rankers"]["first"]["means"]["map"] == pytest.approx(expected.mean("first", "map"))


def test_queries_of_the_run_only(capsys, home, tmp_path):
    whole = gainful.read_run(home / "a.run")
    gainful.write_run({query: whole[query] for query in list(whole)[:5]}, tmp_path / "short.run")
    arguments = ["evaluate", tmp_path / "short.run", "--qrels", home / "judged.qrels", "--metrics", "map", "--json"]
    _, out, err = call(capsys, *arguments)
    assert json.loads(out)["queries"] == 20
    assert "note: run has no documents for 15 queries, which count as empty lists." in err
    assert json.loads(call(capsys, *arguments, "--queries", "run")[1])["queries"] == 5


def test_a_model_writes_a_run(capsys, home, tmp_path):
    path = tmp_path / "m.gainful"
    data = gainful.read(home / "data.txt")
    model = gainful.RegressionRanker().fit(data)
    gainful.save(model, path)
    assert call(capsys, "predict", path, home / "data.txt", "--run", "mine", "-o", tmp_path / "x.run")[0] == 0
    run_of_model = gainful.read_run(tmp_path / "x.run")
    assert run_of_model.name == "mine"
    assert {q: dict(run_of_model[q]) for q in run_of_model} == {
        q: dict(held) for q, held in gainful.Run.from_scores(model.predict(data), data).items()
    }
    _, out, _ = call(capsys, "predict", path, home / "data.txt", "--run", "mine")
    assert out == (tmp_path / "x.run").read_text()
    gainful.write_qrels(gainful.Qrels.from_data(data), tmp_path / "x.qrels")
    means = [
        json.loads(call(capsys, "evaluate", *more, "--metrics", "ndcg@3(convention=trec)", "--json")[1])["means"]
        for more in ([tmp_path / "x.run", "--qrels", tmp_path / "x.qrels"], [path, home / "data.txt"])
    ]
    assert means[0]["ndcg@3"] == pytest.approx(means[1]["ndcg@3"])
    bare = gainful.RankingData.from_rows(data.X, data.y, data.qid)
    gainful.write(bare, tmp_path / "bare.txt")
    assert "has no document ids, which a run needs" in refused(
        capsys, "predict", path, tmp_path / "bare.txt", "--run", "m"
    )
    assert "leave out one of them" in refused(capsys, "predict", path, home / "data.txt", "--run", "m", "--json")


def test_mistakes_are_told_in_one_line(capsys, home):
    qrels = home / "judged.qrels"
    assert "DATA is missing" in refused(capsys, "evaluate", home / "a.run")
    assert "--qrels judges a run without other data" in refused(
        capsys, "evaluate", home / "a.run", home / "data.txt", "--qrels", qrels
    )
    assert "expected 6 columns" in refused(capsys, "evaluate", qrels, "--qrels", qrels)
    assert "expected 4 columns" in refused(capsys, "evaluate", home / "a.run", "--qrels", home / "a.run")
    assert "there is no run to compare" in refused(capsys, "compare", "--qrels", qrels)
    assert "compare takes one data file or folder, was given 2" in refused(
        capsys, "compare", home / "data.txt", home / "data.txt"
    )
    assert "--qrels compares runs and trains nothing; leave out --folds" in refused(
        capsys, "compare", home / "a.run", "--qrels", qrels, "--folds", "5"
    )
    assert "--queries is for runs; it needs --qrels" in refused(
        capsys, "evaluate", home / "a.run", home / "data.txt", "--queries", "run"
    )
    assert "queries of judge must be 'all', 'run'" in refused(
        capsys, "evaluate", home / "a.run", "--qrels", qrels, "--queries", "some"
    )
