"""All pairs, practical equality and segments."""

from __future__ import annotations

import json
from itertools import combinations, product

import numpy as np
import pytest
from scipy import stats

import gainful
from gainful.errors import ParameterError
from gainful.statistics.paired import bootstrap_intervals, equivalences, holm, joint_randomizations

QUERIES = [f"q{i}" for i in range(40)]


def made_up(seed, quality):
    rng = np.random.default_rng(seed)
    return {q: {f"d{i}": quality * (i % 4 == 0) + float(rng.normal()) for i in range(20)} for q in QUERIES}


QRELS = {query: {f"d{i}": int(i % 4 == 0) for i in range(20)} for query in QUERIES}
RUNS = {"a": made_up(1, 0.5), "b": made_up(2, 0.5), "c": made_up(3, 3.0)}
COMPARED = gainful.compare_runs(RUNS, QRELS, metrics=["map", "p@5"])


# -- statistics --------------------------------------------------------------------------------------------------------


def columns(values):
    """Differences of every pair of columns."""
    return np.column_stack([values[:, i] - values[:, j] for i, j in combinations(range(values.shape[1]), 2)])


def test_joint_randomizations_equal_all_sign_flips():
    """With six queries every pattern of signs can be counted."""
    d = columns(np.random.default_rng(0).normal(size=(6, 3)))
    own = np.abs(d.sum(axis=0)) / np.sqrt((d**2).sum(axis=0))
    largest = []
    for signs in product((-1, 1), repeat=6):
        flipped = np.array(signs)[:, None] * d
        largest.append((np.abs(flipped.sum(axis=0)) / np.sqrt((d**2).sum(axis=0))).max())
    exact = [np.mean(np.array(largest) >= one - 1e-12) for one in own]
    np.testing.assert_allclose(joint_randomizations(d, seed=3), exact, atol=0.02)


@pytest.mark.parametrize("spread", [1.0, 10.0])
def test_joint_randomizations_keep_their_level_where_one_ranker_varies_more(spread):
    """With the range of means as statistic, the ranker that varies ten times as much is called different in .16."""
    rng = np.random.default_rng(5)
    alarms = []
    for i in range(150):
        values = rng.normal(size=(40, 10))
        values[:, -1] *= spread
        alarms.append(joint_randomizations(columns(values), seed=i).min() <= 0.1)
    assert 0.03 < np.mean(alarms) < 0.17


def test_joint_randomizations_of_nothing():
    assert joint_randomizations(np.empty((0, 2))).tolist() == [1.0, 1.0]
    assert joint_randomizations(np.zeros((5, 1))).tolist() == [1.0]
    d = columns(np.random.default_rng(1).normal(size=(20, 3)))
    same = np.column_stack([d, np.zeros(20)])
    np.testing.assert_array_equal(joint_randomizations(same)[:-1], joint_randomizations(d))


def test_equivalence_is_an_interval_within_delta():
    """p is the level at which both one-sided bounds of the studentised bootstrap reach ±δ."""
    d = np.random.default_rng(2).normal(0.01, 0.05, (60, 3)) ** np.array([1, 3, 2])
    p = equivalences(d, 0.03, seed=4)
    for i in range(3):
        t = [stats.ttest_1samp(d[:, i], s * 0.03, alternative=way).pvalue for s, way in ((-1, "greater"), (1, "less"))]
        assert p[i] >= max(t)
        if 1e-3 < p[i] < 0.4:
            for level, inside in ((1 - 2.2 * p[i], True), (1 - 1.8 * p[i], False)):
                low, high = bootstrap_intervals(d[:, [i]], level=level, seed=4)
                assert (low[0] > -0.03 and high[0] < 0.03) == inside


def test_equality_keeps_its_level_where_differences_are_skewed():
    """Two one-sided t tests claim equality in .09 of samples."""
    rng = np.random.default_rng(6)
    d = rng.exponential(size=(40, 600)) - 1.0
    claims = np.mean(equivalences(d + 0.8, 0.8, seed=1) <= 0.05)
    by_t = np.mean([stats.ttest_1samp(one, 0.0, alternative="less").pvalue <= 0.05 for one in d.T])
    assert claims < 0.075 < by_t


def test_equality_of_values_without_variation_needs_queries():
    """Differences that were never seen may be up to ``highest``: n queries miss them with the chance (1 − δ)ⁿ."""
    assert equivalences(np.zeros((5, 1)), 0.01, highest=1.0)[0] == pytest.approx(0.99**5)
    assert equivalences(np.zeros((500, 1)), 0.01, highest=1.0)[0] < 0.01
    assert equivalences(np.full((5, 1), 0.02), 0.01, highest=1.0)[0] == 1.0
    assert equivalences(np.zeros((1, 1)), 0.01, highest=1.0)[0] == 1.0
    assert equivalences(np.zeros((50, 1)), 0.01)[0] == 1.0


# -- a comparison ------------------------------------------------------------------------------------------------------


def test_all_pairs():
    pairs = COMPARED.all_pairs()
    assert len(pairs) == 3
    assert {frozenset((pair.first, pair.second)) for pair in pairs} == {frozenset(p) for p in ("ab", "ac", "bc")}
    assert all(pair.difference >= 0 for pair in pairs)
    for pair in pairs:
        expected = COMPARED.mean(pair.first, "map") - COMPARED.mean(pair.second, "map")
        assert pair.difference == pytest.approx(expected)
        assert pair.interval[0] < pair.difference < pair.interval[1]
        assert (pair.p_joint <= 0.05) == ("c" in (pair.first, pair.second))
    for test in COMPARED.tests:
        assert [pair.p_holm[test] for pair in pairs] == pytest.approx(holm([pair.p[test] for pair in pairs]))
    assert COMPARED.all_pairs("p@5")[0].measure == "p@5"


def test_practical_equality():
    found = {one.ranker: one for one in COMPARED.equalities(0.1)}
    assert found.keys() == {"b", "c"}
    assert found["b"].equal
    assert not found["c"].equal
    assert all(one.p > 0.4 for one in COMPARED.equalities(1e-6))
    with pytest.raises(ParameterError, match="delta of compare must be a number above 0, was 0"):
        COMPARED.equalities(0)


def test_segments_are_comparisons_of_their_own():
    head = set(QUERIES[:10])
    parts = COMPARED.by_segment(lambda query: "head" if query in head else "tail")
    assert [(name, len(part.query_ids)) for name, part in parts.items()] == [("tail", 30), ("head", 10)]
    kept = {query: QRELS[query] for query in QUERIES[:10]}
    alone = gainful.compare_runs(RUNS, kept, metrics=["map", "p@5"])
    for label in RUNS:
        assert parts["head"].mean(label, "map") == alone.mean(label, "map")
        assert parts["head"].interval(label, "map") == alone.interval(label, "map")
    assert parts["head"].paired_tests["c", "map"].p == alone.paired_tests["c", "map"].p
    by_name = COMPARED.by_segment({"q0": "one"})
    assert [(name, len(part.query_ids)) for name, part in by_name.items()] == [("other", 39), ("one", 1)]
    with pytest.raises(ParameterError, match="segments of compare must be a mapping from query ids to names"):
        COMPARED.by_segment(3)


def test_segments_of_folds_and_weights():
    data = gainful.make_artificial(30, n_docs=8, n_features=4, seed=1)
    weighted = gainful.RankingData.from_rows(data.X, data.y, data.qid, sample_weight=np.repeat(np.arange(1.0, 31.0), 8))
    found = gainful.compare(["regression", "ranksvm"], weighted, folds=3, segments=lambda query: f"part {query % 2}")
    parts = found.by_segment(found.choices.segments)
    odd = found.query_ids % 2 == 1
    assert parts["part 1"].mean("ranksvm", "map") == pytest.approx(
        np.average(found.per_query("ranksvm", "map")[odd], weights=found.query_weights[odd])
    )
    assert "part 1" in str(found)


def test_tables_reports_and_json(tmp_path):
    segments = dict.fromkeys(QUERIES[:10], "head")
    found = gainful.compare_runs(RUNS, QRELS, metrics=["map"], all_pairs=True, delta=0.1, segments=segments)
    text = found.table()
    for words in ("c − a", "p, all pairs at once", "within ±0.1", "head", "largest difference of any pair"):
        assert words in text
    page = found.to_report(tmp_path).read_text()
    assert 'id="further"' in page
    stored = json.loads((tmp_path / "comparison.json").read_text())
    assert len(stored["all_pairs"]) == 3
    assert stored["segments"]["head"]["means"]["c"] == pytest.approx(
        found.by_segment(segments)["head"].mean("c", "map")
    )
    assert {one["ranker"] for one in stored["equalities"]} == {"b", "c"}
    assert "all_pairs" not in COMPARED.to_dict()
    assert 'id="further"' not in COMPARED.to_html()


def test_the_command_line(tmp_path, capsys):
    from gainful.cli import run

    gainful.write_qrels(QRELS, tmp_path / "x.qrels")
    paths = []
    for name, scores in RUNS.items():
        paths.append(str(tmp_path / f"{name}.run"))
        gainful.write_run(scores, paths[-1], name=name)
    (tmp_path / "s.csv").write_text("query,segment\nq0,head\nq1,head\nq3,tail\n")
    how = ["--qrels", str(tmp_path / "x.qrels"), "--segments", str(tmp_path / "s.csv")]
    assert run(["compare", *paths, *how, "--all-pairs", "--delta", "0.05"]) == 0
    out = capsys.readouterr().out
    assert "c − a" in out
    assert "within ±0.05" in out
    assert "other" in out
    for text, message in {
        "q,s\n": "line 1: expected the columns query and segment, found q, s",
        "query,segment\nq1,\n": "line 2: expected a query and its segment",
        "query,segment\nq1,a\nq1,b\n": "line 3: query 'q1' has two segments",
    }.items():
        (tmp_path / "s.csv").write_text(text)
        assert run(["compare", *paths, *how]) == 2
        assert message in capsys.readouterr().err
