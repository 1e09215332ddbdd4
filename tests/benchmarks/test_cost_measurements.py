"""Measuring the cost of training: exponents and constants are recovered, and a killed run resumes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from slow_scripts import slow

import gainful
from gainful.costs import model as costs
from gainful.costs.model import TERMS

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import bench_cost
import cost_fits
import cost_model
import cost_plots
import cost_report
from cost_fits import Shape


def made(name, seconds, each):
    """Measurements of every sweep, as a ranker of these costs would give them; both are functions of (n, d, q)."""
    found = []
    for sweep in bench_cost.sweeps(name, 10**6):
        for _, s in sweep:
            sizes, iterations = (s.rows, s.features, s.docs), 8
            whole = seconds(*sizes) + iterations * each(*sizes)
            found.append({"ranker": name, "work": "fixed", "rows": s.rows, "features": s.features, "docs": s.docs,
                          "threads": 1, "seconds": whole, "each": each(*sizes), "iterations": iterations,
                          "bytes": 5e6 + 24.0 * s.rows})  # fmt: skip
    return list({bench_cost.key_of(m): m for m in found}.values())


@pytest.fixture
def ranknet():
    return made("ranknet", lambda n, d, q: 1e-3 + 2e-9 * n * d, lambda n, d, q: 4e-10 * n * d + 5e-10 * n * q)


def test_constants_are_found_again(ranknet):
    model = cost_model.model_of(ranknet)
    assert model["setup"] == pytest.approx({"one": 1e-3, "values": 2e-9}, rel=1e-3)
    assert model["iteration"] == pytest.approx({"values": 4e-10, "pairs": 5e-10}, rel=1e-3)
    assert model["bytes"] == pytest.approx({"one": 5e6, "rows": 24.0}, rel=1e-3)
    assert cost_model.worst(model, ranknet) == pytest.approx(1.0, abs=1e-3)
    checks = cost_model.checks(model, ranknet)
    assert [row["rows"] for row in checks] == [shape.rows for shape in bench_cost.UNSEEN]
    assert all(row["seconds"] == row["bytes"] == 1.0 for row in checks)


def test_exponents_of_powers():
    found = made("ranknet", lambda n, d, q: 0.0, lambda n, d, q: n**1.3 * d**0.5 * q**0.7)
    told = {"rows": 1.3, "last decade": 1.3, "features": 0.5, "docs": 0.7, "docs, last decade": 0.7}
    assert cost_model.exponents(found) == told
    assert "above 1.1 in rows" in cost_report.exponent_table(found)


def test_a_fit_of_fewer_iterations_counts_as_if_it_had_all(ranknet):
    whole = cost_model.sweep(ranknet, "rows")
    first = min(ranknet, key=lambda m: m["rows"])
    first |= {"iterations": 5, "seconds": first["seconds"] - 3 * first["each"]}
    np.testing.assert_allclose(cost_model.sweep(ranknet, "rows"), whole)


def test_the_parallel_part():
    def measured(threads, seconds, rows=1000):
        return {"work": "fixed", "rows": rows, "features": 5, "docs": 10, "threads": threads, "seconds": seconds}

    def of(seconds):
        return cost_model.parallel_part([measured(1, 4.0), measured(1, 9.0, 500), measured(2, seconds)])

    assert (of(2.0), of(3.0), of(4.0), of(9.0)) == (1.0, 0.5, 0.0, 0.0)
    assert cost_model.parallel_part([measured(1, 4.0)]) is None
    assert cost_model.parallel_part([measured(1, 4.0), measured(2, 2.0, 500)]) is None


def test_what_was_not_measured_is_left_out(ranknet):
    assert cost_model.model_of(ranknet)["parallel"] is None
    line = cost_report.model_lines({"ranknet": ranknet}, {"ranknet": cost_model.model_of(ranknet)})[-1]
    assert line.endswith("|  |")
    both = [*ranknet, next(m for m in ranknet if m["rows"] == 100_000) | {"threads": 2}]
    both[-1]["seconds"] *= 0.6
    assert cost_model.model_of(both)["parallel"] == 0.8
    line = cost_report.model_lines({"ranknet": both}, {"ranknet": cost_model.model_of(both)})[-1]
    assert line.endswith("| 1.67 |")


def test_fixed_work_and_terms_are_given_for_the_same_rankers():
    assert set(cost_fits.WORK) == set(cost_model.FAMILIES) <= set(gainful.RANKERS)
    for setup, each in cost_model.FAMILIES.values():
        assert {*setup, *each} <= set(TERMS)


def test_what_would_take_too_long_is_left_out():
    budget = bench_cost.Budget(10.0)
    assert budget.allows(1e9)
    budget.spent(100, 2.0)
    assert budget.allows(500)
    assert not budget.allows(501)


def test_generated_data_have_the_shape_asked_for():
    data = cost_fits.generated(Shape(1050, 7, 100))
    assert data.X.shape == (1050, 7)
    assert data.X.dtype == np.float32
    assert data.counts.tolist() == [100] * 10 + [50]
    assert np.bincount(data.y.astype(int)).tolist() == [210] * 5


def test_the_network_of_a_billion_rows():
    params = gainful.ranker("gbrank").get_params(deep=False)
    problem = cost_report.Problem(1e7, 136, 120, 5, params)
    blocks, each = 256, 8 * (136 + 136 + 1)
    sent, seconds = cost_report.network("ranksvm", problem, 100)
    assert sent == blocks * each / 100
    assert seconds == pytest.approx(blocks * each / 1.25e9 + blocks * 4.7 * 1e-3 + 2e-4)
    sent, seconds = cost_report.network("gbrank", problem, 100)
    assert sent == 2 * 31 * 255 * 136 * 2 * 8
    assert seconds == pytest.approx(31 * 255 * 136 * 16 / 1.25e9 + 31 * 14 * 1e-4)


def test_whole_trainings_show_their_iterations(monkeypatch):
    lines = cost_report.cluster_lines()
    assert all("(a guess)" in line for line in lines if "`ranksvm`" in line or "`rankmm-1`" in line)
    assert not any("(a guess)" in line for line in lines if "`lambdamart-plain`" in line)
    monkeypatch.setitem(costs.costs()["ranksvm"], "parallel", None)
    assert "| not measured |" in next(line for line in cost_report.cluster_lines() if "`ranksvm`" in line)
    monkeypatch.setitem(costs.costs()["ranksvm"], "parallel", 0.9)
    assert "not measured" not in next(line for line in cost_report.cluster_lines() if "`ranksvm`" in line)


def test_plots_are_drawings_with_a_panel_for_each(ranknet):
    models = {"ranknet": cost_model.model_of(ranknet)}
    panels = cost_plots.panels({"ranknet": ranknet}, models, "docs")
    drawing = ElementTree.fromstring(cost_plots.plot(panels, "documents per query", "Seconds"))
    dots = [e for e in drawing.iter() if e.tag.endswith("circle")]
    assert len(dots) == len(bench_cost.DOCS)
    assert all(0 < float(dot.get("cx")) < 168 and 0 < float(dot.get("cy")) < 122 for dot in dots)


@slow
def test_a_killed_run_goes_on_from_its_file(tmp_path, capsys, monkeypatch):
    kept = tmp_path / "costs.jsonl"
    command = ["bench_cost.py", "--rankers", "listnet", "--max-rows", "10000", "--resume", str(kept)]
    monkeypatch.setattr(sys, "argv", command)
    assert bench_cost.main() == 0
    first = [json.loads(line) for line in kept.read_text().splitlines()]
    assert [(m["work"], m["rows"], m["threads"]) for m in first] == [
        ("fixed", 10_000, 1), ("default", 10_000, 1), ("fixed", 10_000, 2)
    ]  # fmt: skip
    assert all(m["seconds"] > 0 and m["iterations"] >= 1 for m in first)
    assert first[0]["each"] * (first[0]["iterations"] - 1) < first[0]["seconds"]
    kept.write_text(kept.read_text().splitlines()[0] + '\n{"ranker": "list')  # killed while it wrote
    assert bench_cost.main() == 0
    again = bench_cost.read_known(kept)
    assert set(again) == {bench_cost.key_of(m) for m in first}
    assert again[bench_cost.key_of(first[0])] == first[0]
    assert "listnet" in capsys.readouterr().out
