"""gainful compared with its peers: reading learning curves, the adapters, and a whole run at a tiny size."""

from __future__ import annotations

import doctest
import json
import re
import subprocess
import sys
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from slow_scripts import slow

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import gainful  # noqa: E402
from peers import plots, report, snapshots  # noqa: E402
from peers import run as runner  # noqa: E402
from peers.contestants import CONTESTANTS, GROUPS, REFERENCE, Contestant  # noqa: E402
from peers.curves import Curve, Point, mean_of_folds, median_of_repeats, standings, yardstick  # noqa: E402
from peers.datasets import SIZES, searched  # noqa: E402
from peers.snapshots import Budget, checkpoints, refitted  # noqa: E402

qualities = st.floats(0.0, 1.0, allow_nan=False)


@st.composite
def curves(draw, n=None):
    many = draw(st.integers(1, 8)) if n is None else n
    seconds = sorted(draw(st.lists(st.floats(0.01, 10.0), min_size=many, max_size=many)))
    return Curve(tuple(Point(i + 1, at, draw(qualities), draw(qualities)) for i, at in enumerate(seconds)))


# -- reading curves ----------------------------------------------------------------------------------------------------


@given(curves(), st.floats(0.0, 12.0))
def test_quality_at_a_time_is_that_of_the_first_best_on_validation_finished_by_then(curve, seconds):
    done = [p for p in curve.points if p.seconds <= seconds]
    expected = next((p.test for p in done if p.valid == max(q.valid for q in done)), None)
    assert curve.quality_at(seconds) == expected


@given(curves(), qualities)
def test_time_to_a_quality_is_the_first_time_at_which_the_model_in_hand_has_it(curve, quality):
    times = [p.seconds for p in curve.points if curve.quality_at(p.seconds) >= quality]
    assert curve.time_to(quality) == (min(times) if times else None)


def test_a_model_that_looks_good_on_test_alone_is_not_kept():
    curve = Curve((Point(1, 1.0, 0.5, 0.4), Point(2, 2.0, 0.3, 0.9), Point(3, 3.0, 0.6, 0.5)))
    assert curve.kept() == [(1.0, 0.4), (3.0, 0.5)]
    assert curve.time_to(0.9) is None


@given(st.lists(curves(n=4), min_size=1, max_size=5))
def test_repeats_and_folds_are_merged_point_by_point(several):
    for merged, middle in ((median_of_repeats(several), median), (mean_of_folds(several), fmean)):
        for i, point in enumerate(merged.points):
            assert point == (i + 1, *(middle([c.points[i][k] for c in several]) for k in (1, 2, 3)))


def test_merging_ends_where_the_first_was_stopped_and_goes_on_where_it_was_final():
    short = tuple(Point(n, float(n), 0.1 * n, 0.1) for n in (1, 2))
    long = tuple(Point(n, float(n), 0.1 * n, 0.3) for n in (1, 2, 4))
    assert [p.iterations for p in mean_of_folds([Curve(short), Curve(long)]).points] == [1, 2]
    merged = mean_of_folds([Curve(short, final=True), Curve(long)])
    assert merged.points[-1] == (4, 3.0, pytest.approx(0.3), 0.2)
    assert not merged.final


def result(name, points, ours=False, group="trees"):
    curve = Curve(tuple(Point(*p) for p in points))
    return {"name": name, "group": group, "ours": ours, "curve": curve.to_dict(), "added_mib": 1.0, "peak_mib": 2.0}


REFERENCE_POINTS = [(1, 1.0, 0.5, 0.5), (10, 4.0, 0.8, 0.8), (20, 8.0, 0.9, 0.85)]


def made_results(ours_points):
    return [result(REFERENCE["trees"], REFERENCE_POINTS), result("gainful x", ours_points, ours=True)]


def test_standings_are_ratios_to_the_reference_at_its_own_number_of_iterations():
    ours = [(1, 0.5, 0.6, 0.6), (5, 2.0, 0.7, 0.795), (6, 3.0, 0.8, 0.81), (9, 5.0, 0.9, 0.9)]
    by = yardstick("r", Curve(tuple(Point(*p) for p in REFERENCE_POINTS)), 10)
    assert (by.quality, by.seconds) == (0.8, 4.0)
    best, reference = standings(made_results(ours), REFERENCE["trees"], 10)
    assert (best.name, best.quality, best.best) == ("gainful x", 0.81, 0.9)
    assert best.times == {"0.95": 2.0, "0.99": 2.0, "1": 3.0}  # 0.795 ≥ 0.99 · 0.8
    assert best.ratios == {"0.95": 4.0 / 2.0, "0.99": 4.0 / 2.0, "1": 4.0 / 3.0}
    assert reference.ratios == {"0.95": 1.0, "0.99": 1.0, "1": 1.0}


def test_a_ranker_that_never_reaches_the_quality_has_no_time_and_comes_last():
    late = [(1, 5.0, 0.6, 0.6)]
    table = standings(made_results(late), REFERENCE["trees"], 10)
    assert table[-1].name == "gainful x"
    assert table[-1].quality is None
    assert set(table[-1].ratios.values()) == {None}


@pytest.mark.parametrize(
    ("ours", "words"),
    [
        ([(1, 1.0, 0.9, 0.9)], ["is better than", "is quicker than"]),
        ([(1, 1.0, 0.1, 0.1)], ["**worse than**", "**none of ours reaches it**"]),
        ([(1, 4.0, 0.9, 0.8005)], ["is about as good as", "is about as quick as"]),
        ([(1, 1.0, 0.5, 0.5), (2, 7.0, 0.9, 0.9)], ["**worse than**", "**slower than**"]),
    ],
)
def test_the_verdict_says_who_wins(ours, words):
    results = made_results(ours)
    by = yardstick(REFERENCE["trees"], Curve.from_dict(results[0]["curve"]), 10)
    lines = list(report.verdict(standings(results, REFERENCE["trees"], 10), by))
    assert [word in line for word, line in zip(words, lines, strict=False)] == [True, True]


def test_who_stands_for_a_side_is_chosen_on_validation():
    """The ranker that is best on test, and first there, is not ours to name before the test."""
    lucky = result("gainful lucky", [(1, 1.0, 0.795, 0.95)], ours=True)
    chosen = result("gainful chosen", [(1, 0.5, 0.81, 0.7), (2, 3.0, 0.85, 0.84)], ours=True)
    results = [result(REFERENCE["trees"], REFERENCE_POINTS), lucky, chosen]
    by = yardstick(REFERENCE["trees"], Curve.from_dict(results[0]["curve"]), 10)
    assert by.valid == 0.8
    time, quality, *_ = report.verdict(standings(results, REFERENCE["trees"], 10), by)
    assert "our best, gainful chosen (0.8400), is better than" in time
    assert "our quickest, gainful chosen (3 s)" in quality
    only_valid = [results[0], result("gainful over", [(1, 0.5, 0.9, 0.6)], ours=True)]
    _, quality, *_ = report.verdict(standings(only_valid, REFERENCE["trees"], 10), by)
    assert "our quickest on validation, gainful over, **does not reach it** on test" in quality


# -- the report --------------------------------------------------------------------------------------------------------


def test_the_page_and_the_plot_show_every_ranker():
    ours = [(1, 0.5, 0.6, 0.6), (5, 2.0, 0.7, 0.79)]
    entry = {"title": "a shape", "rows": "few rows", "metric": "ndcg@10", "iterations": 10, "seconds": 9.0,
             "threads": 2, "clock": "wall", "busy": ["gainful x"], "when": "today", "results": made_results(ours),
             "failed": {"pyltr LambdaMART": "not installed"}, "command": "make bench-peers"}  # fmt: skip
    kept = {"machine": "here", "cores": 2, "versions": {"gainful": "1"},
            "data": {"shape": entry | {"threads": 1}, "shape-2": entry}}  # fmt: skip
    text = report.page(kept)
    assert text.index("## A shape, one thread") < text.index("## A shape, 2 threads")
    first, behind = text.index("## A shape"), text.index("## Where ours are behind")
    assert behind < text.index("a shape, 2 threads. Equal time (4 s): our best, gainful x (0.7900), is **worse") < first
    assert "| **gainful x** | 0.7900 | -0.0100 |" in text
    assert "pyltr LambdaMART: not installed" in text
    assert "measures them again: gainful x." in text
    groups = report.groups_of(entry)
    assert list(groups) == ["trees"]  # the linear reference is not there
    picture = ElementTree.fromstring(plots.picture("a shape", groups, {"trees": 4.0}))
    words = [element.text for element in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert {"gainful x 0.790", f"{REFERENCE['trees']} 0.850"} <= set(words)


@given(st.lists(st.floats(0.0, 100.0), min_size=1, max_size=9))
def test_labels_keep_their_order_and_distance(wanted):
    wanted = sorted(wanted)
    places = plots.spread(wanted, 10.0, 0.0, 100.0)
    assert all(b - a >= 10.0 - 1e-9 for a, b in pairwise(places))
    assert places[0] >= -1e-9
    assert places[-1] <= 100.0


@pytest.mark.parametrize("module", [plots, report, snapshots], ids=lambda m: m.__name__)
def test_examples(module):
    found = doctest.testmod(module)
    assert found.attempted > 0
    assert found.failed == 0


# -- snapshots ---------------------------------------------------------------------------------------------------------


@given(st.integers(1, 5000))
def test_checkpoints_are_dense(n):
    found = checkpoints(n)
    assert found[0] == 1
    assert found[-1] == n
    assert all(a < b <= 1.1 * a + 1.1 for a, b in pairwise(found))


def test_trainings_of_growing_size_end_at_convergence_or_before_the_time_is_over(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(snapshots, "time", SimpleNamespace(perf_counter=lambda: now[0]))

    def fit(n, final_at=None):
        now[0] += n
        return (lambda data: data), n == final_at

    assert [s.iterations for s in refitted(fit, (1, 2, 4, 8, 16), Budget(99, 8.0, 1))] == [1, 2, 4, 8]
    found = refitted(lambda n: fit(n, final_at=4), (1, 2, 4, 8, 16), Budget(99, 8.0, 1))
    assert [(s.iterations, s.seconds, s.final) for s in found] == [(1, 1.0, False), (2, 2.0, False), (4, 4.0, True)]


@pytest.fixture(scope="module")
def small():
    data = gainful.make_artificial(30, n_docs=20, n_features=6, seed=3)
    return data.replace(X=data.X.astype(np.float32))


STAGED = [
    one for one in CONTESTANTS if one.group == "trees" and one.maker in ("ours", "lightgbm", "xgboost", "catboost")
]


@pytest.mark.parametrize("one", [c for c in STAGED if c.maker != "ours" or c.smoke], ids=lambda c: c.key)
def test_a_snapshot_is_the_model_of_a_training_stopped_there(one, small):
    pytest.importorskip("lightgbm" if one.maker == "ours" else one.maker)
    module = pytest.importorskip(f"peers.adapters.{one.maker}")
    fit = getattr(module, one.function)
    long = {s.iterations: s for s in fit(small, Budget(8, 60.0, 1), **one.settings)}
    short = fit(small, Budget(5, 60.0, 1), **one.settings)[-1]
    assert max(long) == 8
    assert short.iterations == 5
    np.testing.assert_allclose(long[5].scores(small), short.scores(small), atol=1e-6)
    assert not np.allclose(long[8].scores(small), short.scores(small), atol=1e-6)


@pytest.mark.parametrize("one", STAGED, ids=lambda c: c.key)
@pytest.mark.filterwarnings("ignore::gainful.errors.InterruptedFitWarning")
def test_training_stops_when_the_time_is_over(one, small):
    module = pytest.importorskip(f"peers.adapters.{one.maker}")
    found = getattr(module, one.function)(small, Budget(50, 0.0, 1), **one.settings)
    assert found[-1].iterations <= 2


def test_pairs_are_all_pairs_of_different_grade(small):
    from peers.adapters.sklearn import pair_differences

    few = small[:2]
    differences, signs = pair_differences(few, most=10**6)
    expected = {
        tuple(few.X[i] - few.X[j])
        for a, b in zip(few.offsets[:-1], few.offsets[1:], strict=True)
        for i in range(a, b)
        for j in range(a, b)
        if few.y[i] > few.y[j]
    }
    assert {tuple(row) for row in (differences * signs[:, None]).astype(np.float32)} == expected
    assert set(signs) == {-1.0, 1.0}
    assert len(pair_differences(few, most=17)[0]) == 17


# -- data and contestants ----------------------------------------------------------------------------------------------


def test_searched_data_has_the_shape_asked_for():
    shares = (0.7, 0.2, 0.1)
    data = searched(200, 40, 9, shares=shares, noise=1.0)
    np.testing.assert_allclose([np.mean(data.y == g) for g in range(3)], shares, atol=0.01)
    assert 35 < data.n_rows / data.n_queries < 45
    assert len(np.unique(data.counts)) > 5
    assert np.array_equal(data.X, searched(200, 40, 9, shares=shares, noise=1.0).X)


def test_searched_data_can_be_learned_and_trees_learn_more():
    data = searched(400, 40, 20, shares=(0.7, 0.2, 0.1), noise=0.5)
    train, test = data[:300], data[300:]
    ndcg = gainful.metric("ndcg@10")
    chance = ndcg(np.random.default_rng(0).random(test.n_rows), test)
    linear = ndcg(gainful.ranker("regression").fit(train).predict(test), test)
    trees = ndcg(gainful.ranker("tree-regression", n_trees=150, n_jobs=1).fit(train).predict(test), test)
    assert chance + 0.1 < linear < trees


def test_every_group_has_its_reference_and_every_maker_a_part_in_the_smoke_run():
    assert set(GROUPS) == {one.group for one in CONTESTANTS}
    assert {name: one.group for one in CONTESTANTS for name in REFERENCE.values() if one.name == name} == {
        name: group for group, name in REFERENCE.items()
    }
    assert {one.maker for one in CONTESTANTS} == {one.maker for one in CONTESTANTS if one.smoke}
    assert len({one.key for one in CONTESTANTS}) == len(CONTESTANTS)
    assert [one.name for one in SIZES["full"]] == [one.name for one in SIZES["usual"]]


def test_the_peers_are_pinned_as_elsewhere():
    def pins(path):
        return dict(re.findall(r"^([\w.-]+)==(\S+)$", path.read_text(), re.MULTILINE))

    ours = pins(ROOT / "constraints.txt")
    peers = pins(ROOT / "benchmarks" / "peers" / "requirements.txt")
    assert {one.maker for one in CONTESTANTS} - {"ours"} <= {
        name.split("-cpu")[0].replace("scikit-learn", "sklearn") for name in peers
    }
    assert {name: ours[name] for name in peers if name in ours} == {n: v for n, v in peers.items() if n in ours}


def test_what_was_measured_on_a_busy_machine_is_known():
    results = [{"name": "a", "pace": 0.2}, {"name": "b", "pace": 0.24}, {"name": "c", "pace": 0.3}, {"failed": "why"}]
    assert runner.busy(results, "wall") == {"c"}
    assert runner.busy(results, "cpu") == set()  # which others do not change
    assert runner.busy([], "wall") == set()


def test_a_contestant_that_breaks_ends_alone():
    nobody = Contestant("nobody", "ours", "trees", "trees")
    options = SimpleNamespace(threads=1, repeats=1, clock="wall")
    found = runner.job(nobody, SIZES["smoke"][0], "smoke", options)
    assert "invalid choice: 'nobody'" in found["failed"]
    absent = Contestant("absent", "no_such_library", "trees", "trees")
    assert runner.job(absent, SIZES["smoke"][0], "smoke", options) == {"failed": "not installed"}


# -- the whole ---------------------------------------------------------------------------------------------------------


def run(folder, *options):
    command = [sys.executable, "benchmarks/peers/run.py", "--smoke", "--threads", "1", "--repeats", "1",
               "--clock", "cpu",  # whether the machine is busy must not matter here
               "--out", str(folder), "--kept", str(folder / "kept"), *options]  # fmt: skip
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


@slow
def test_a_run_is_reported_and_can_be_resumed(tmp_path):
    first = run(tmp_path, "--only", "gainful-lambdamart")
    assert first.returncode == 0, first.stderr
    kept = json.loads((tmp_path / "peers.json").read_text())["data"]["artificial"]
    assert [r["name"] for r in kept["results"]] == [
        "LightGBM lambdarank", "gainful lambdamart", "scikit-learn LinearSVC on pairs",
    ]  # fmt: skip
    theirs, ours = (kept["results"][i]["curve"]["points"] for i in (0, 1))
    assert [p[2:] for p in ours] == [p[2:] for p in theirs]  # the same trees
    assert "gainful lambdamart" in (tmp_path / "peers.md").read_text()
    assert (tmp_path / "peers-artificial.svg").exists()
    again = run(tmp_path, "--only", "gainful-lambdamart")
    assert again.returncode == 0
    assert "LightGBM" not in again.stdout  # nothing was measured again
    assert json.loads((tmp_path / "peers.json").read_text())["data"]["artificial"] == kept


@pytest.mark.parametrize(
    "missing", [[name for name in ("xgboost", "catboost", "fastrank", "pyltr") if not find_spec(name)]]
)
def test_the_smoke_run_of_all_peers(tmp_path, missing):
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}; make bench-peers installs them into .venv-peers")
    done = run(tmp_path)
    assert done.returncode == 0, done.stderr
    kept = json.loads((tmp_path / "peers.json").read_text())["data"]["artificial"]
    assert {r["name"] for r in kept["results"]} == {one.name for one in CONTESTANTS if one.smoke}
    assert kept["failed"] == {}
