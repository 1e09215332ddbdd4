"""Runs compared by qrels: trec_eval's means, with intervals and tests."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest

import gainful
from gainful.errors import DataError, ParameterError

QUERIES = [f"q{i}" for i in range(30)]


def made_up(seed, quality):
    """A run that finds relevant documents the better the higher ``quality``; some documents are not judged."""
    rng = np.random.default_rng(seed)
    return {
        query: {f"d{i}": round(quality * (i % 4 == 0) + float(rng.normal()), 1) for i in rng.permutation(50)[:30]}
        for query in QUERIES
    }


QRELS = {query: {f"d{i}": int(i % 4 == 0) * (1 + i % 3) for i in range(40)} for query in QUERIES}
RUNS = {"weak": made_up(1, 0.2), "strong": made_up(2, 2.0), "weak too": made_up(3, 0.2)}


def test_means_are_those_of_trec_eval():
    pytrec_eval = pytest.importorskip("pytrec_eval")
    found = gainful.compare_runs(RUNS, QRELS, metrics="trec")
    names = {"map": "map", "rprec": "Rprec", "bpref": "bpref", "mrr": "recip_rank", "p@10": "P_10"}
    names |= {f"iprec@{i / 10:g}": f"iprec_at_recall_{i / 10:.2f}" for i in range(11)}
    for label, run in RUNS.items():
        theirs = pytrec_eval.RelevanceEvaluator(QRELS, pytrec_eval.supported_measures).evaluate(run)
        for ours, name in names.items():
            assert found.mean(label, ours) == pytest.approx(np.mean([theirs[q][name] for q in QUERIES]), abs=1e-9)
    assert len(found.metrics) == 24


def test_differences_are_tested():
    found = gainful.compare_runs(RUNS, QRELS)
    assert found.baseline == "weak"
    assert found.by_mean[0] == "strong"
    assert found.verdict("strong", "map") == 1
    assert found.verdict("weak", "map") == 0
    text = found.table()
    assert "▲ better, ▼ worse than weak" in text
    assert "over the runs" in text
    assert "30 queries, 1,200 judgments, 900 documents per run." in text
    assert "Not judged among the top 10, and counted as not relevant (unjudged=zero):" in text
    assert " fit" not in text


def test_reports_and_files(tmp_path):
    found = gainful.compare_runs(RUNS, QRELS, metrics="map,p@5")
    page = found.to_report(tmp_path).read_text()
    assert "Comparison of 3 runs" in page
    assert 'id="cost"' not in page
    stored = json.loads((tmp_path / "comparison.json").read_text())
    assert stored["rankers"]["strong"]["means"]["map"] == found.mean("strong", "map")
    rows = list(csv.DictReader(io.StringIO(found.to_csv(tmp_path / "q.csv"))))
    assert len(rows) == 90
    assert rows[0].keys() == {"run", "fold", "query", "map", "p@5"}
    values = [float(row["map"]) for row in rows if row["run"] == "strong"]
    np.testing.assert_array_equal(values, found.per_query("strong", "map"))
    assert (tmp_path / "q.csv").read_text() == found.to_csv()


def test_files_and_labels(tmp_path):
    gainful.write_qrels(QRELS, tmp_path / "x.qrels.gz")
    for name, run in RUNS.items():
        gainful.write_run(run, tmp_path / f"{name}.run", name=name.split()[0])
    found = gainful.compare_runs(sorted(map(str, tmp_path.glob("*.run"))), tmp_path / "x.qrels.gz")
    assert found.labels == ("strong", "weak", "weak 2")  # "weak too.run" comes before "weak.run"
    expected = gainful.compare_runs(RUNS, QRELS)
    assert found.mean("weak", "map") == expected.mean("weak too", "map")


def test_queries_that_are_missing_are_told():
    short = {query: RUNS["strong"][query] for query in QUERIES[:20]}
    all_of_them = gainful.compare_runs({"whole": RUNS["weak"], "short": short}, QRELS, metrics=["map"])
    assert "short has no documents for 10 queries, which count as empty lists." in all_of_them.remarks
    assert all_of_them.per_query("short", "map")[20:].tolist() == [0.0] * 10
    only = gainful.compare_runs({"short": short}, QRELS, metrics=["map"], queries="run")
    assert len(only.query_ids) == 20
    more = {**QRELS, "other": {"d": 1}}
    found = gainful.compare_runs({"run": RUNS["weak"]}, {query: more[query] for query in QUERIES[:5]}, metrics=["map"])
    assert "run has 25 queries that the qrels lack; they are left out." in found.remarks


def test_mistakes_are_told():
    with pytest.raises(ParameterError, match="runs of compare_runs must be a list of runs"):
        gainful.compare_runs([], QRELS)
    with pytest.raises(ParameterError, match="queries of compare_runs must be 'all' or 'run'"):
        gainful.compare_runs(RUNS, QRELS, queries="some")
    with pytest.raises(ParameterError, match="this comparison has no ranker 'none'"):
        gainful.compare_runs(RUNS, QRELS, baseline="none")
    with pytest.raises(DataError, match="no query in common"):
        gainful.compare_runs({"a": {"x": {"d": 1.0}}}, QRELS)


def test_means_of_any_sign_have_intervals():
    found = gainful.compare_runs(RUNS, QRELS, metrics=["utility"])
    low, high = found.interval("weak", "utility")
    assert low < found.mean("weak", "utility") < high < 0
