"""The page about a click log: its figures are those of the models, and it fits on a phone and a laptop."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import gainful
from browser import LAYOUT
from gainful.cli import run
from gainful.clicks.report import RESAMPLED_PAGES, _bins, _examination_deviation
from gainful.errors import DataError, ParameterError

TITLES = ("Clicks by position", "Examination", "Click models", "Perplexity by position", "Calibration", "About")


@pytest.fixture(scope="module")
def data():
    return gainful.make_artificial(10, n_docs=8, seed=1)


@pytest.fixture(scope="module")
def truth(data):
    return gainful.make_click_model("pbm", data, eta=1.0, depth=6)


@pytest.fixture(scope="module")
def log(data, truth):
    return gainful.simulate_clicks(data, truth, sessions=3000, length=6, temperature=1e6, seed=2)


@pytest.fixture(scope="module")
def report(log):
    return gainful.report_clicks(log, ["rank-ctr", "pbm", "dbn", "cascade"], seed=3)


def test_models_are_fitted_and_evaluated_apart(log, report):
    assert (report.fitted_pages, report.held_pages) == (2400, 600)
    held = np.isin(log.session, np.random.default_rng(3).permutation(np.unique(log.session))[:600])
    pbm = gainful.click_model("pbm").fit(log.pages(~held))
    found = report.models[1]
    expected = pbm.evaluate(log.pages(held))
    assert found.evaluation.log_likelihood == pytest.approx(expected.log_likelihood)
    assert found.evaluation.perplexity_by_rank == pytest.approx(expected.perplexity_by_rank)
    assert found.examination == pytest.approx(pbm.examination_)
    assert report.best is found
    assert len(report.models[0].examination) == 0  # a rate has none
    assert report.models[3].steps == 1


def test_intervals_of_examination_hold_the_truth(truth, report):
    found = report.models[1]
    width = found.examination_high - found.examination_low
    assert width[0] == 0.0  # set to 1
    assert (width[1:] > 0.01).all()
    assert (width < 0.3).all()
    inside = (found.examination_low <= truth.examination_) & (truth.examination_ <= found.examination_high)
    assert inside.sum() >= 5


def test_deviations_of_a_long_log_come_from_a_part(log, monkeypatch):
    """Scaled by the root of the share, they are those of the whole log."""
    model = gainful.click_model("rank-ctr").fit(log)
    whole = _examination_deviation(model, log, 60, np.random.default_rng(0))
    assert log.n_pages < RESAMPLED_PAGES
    monkeypatch.setattr("gainful.clicks.report.RESAMPLED_PAGES", 750)
    part = _examination_deviation(model, log, 60, np.random.default_rng(0))
    assert part[1:4] == pytest.approx(whole[1:4], rel=0.4)


def test_a_refit_ends_where_a_fit_ends(log):
    for name in ("pbm", "dbn", "ubm", "coec"):
        model = gainful.click_model(name, tol=1e-9, max_iter=2000).fit(log)
        part = log.pages(np.arange(0, 3000, 2))
        fresh, again = gainful.click_model(name, tol=1e-9, max_iter=2000).fit(part), model.refit(part)
        assert again.examination_ == pytest.approx(fresh.examination_, abs=2e-3)
        assert again.n_iter_ <= fresh.n_iter_
        assert model.refit(log).n_iter_ <= max(3, 0.6 * model.n_iter_)


def test_bins_have_equal_predictions_together():
    predicted = np.repeat([0.1, 0.2, 0.3], [70, 20, 10])
    clicked = np.arange(100) % 10 == 0
    found = _bins(predicted, clicked, 0.95)
    assert [one.rows for one in found] == [70, 20, 10]
    assert [one.predicted for one in found] == pytest.approx([0.1, 0.2, 0.3])
    assert [one.observed for one in found] == pytest.approx([0.1, 0.1, 0.1])
    assert all(one.low < 0.1 < one.high for one in found)


def test_the_page_has_its_figures(report):
    page = report.to_html()
    stored = json.loads(re.search(r'<script type="application/json" id="clicks-data">(.*?)</script>', page, re.S)[1])
    assert stored == report.to_dict()
    for title in TITLES:
        assert f">{title}</h2>" in page
    assert page.count('role="img"') == 4
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page
    pbm = stored["models"]["pbm"]
    assert f"{pbm['perplexity']:.4f}" in page
    assert f'data-value="{pbm["calibration"][0]["observed"]}"' in page
    assert "Nothing: every row" in page
    assert "not converged" not in page


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_overflows(browse, report, width):
    overflow, wide, small, cut, reachable, seen = browse(report.to_html(), LAYOUT, width)
    assert seen == width
    assert overflow <= 0, wide
    assert (wide, small, cut) == ([], [], [])
    assert reachable


def test_the_command(log, tmp_path, capsys):
    gainful.write_clicks(log.pages(np.arange(300)), tmp_path / "log.csv")
    with (tmp_path / "log.csv").open("a") as file:
        file.write((tmp_path / "log.csv").read_text().splitlines()[1] + "\n")  # a document twice
    options = ["--model", "pbm", "--resamples", "2", "-o", str(tmp_path / "clicks.html")]
    assert run(["clicks", "report", str(tmp_path / "log.csv"), *options]) == 0
    assert "300 pages" in capsys.readouterr().err
    page = (tmp_path / "clicks.html").read_text()
    assert "1 row with a document shown before on the same page was merged with the first" in page
    assert "held-out pages have" in page  # fewer than 100 clicks
    assert run(["clicks", "report", str(tmp_path / "log.csv"), "--model", "pmb", *options[2:]]) == 2
    assert "did you mean 'pbm'" in capsys.readouterr().err


def test_mistakes_are_one_clear_line(log):
    with pytest.raises(DataError, match="has 1 session, too few to hold 20% out; give another log to test on"):
        gainful.report_clicks(log.pages([0]), ["pbm"])
    with pytest.raises(ParameterError, match="log of report_clicks must be a ClickLog"):
        gainful.report_clicks("log.csv")
    with pytest.raises(ParameterError, match="held_out of report_clicks must be"):
        gainful.report_clicks(log, held_out=1.0)
