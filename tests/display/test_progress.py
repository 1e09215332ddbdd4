"""Progress bars: HTML in a notebook, Rich on a terminal, a function as given, nothing else accepted."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace

import pytest

import gainful
from gainful.display import progress
from gainful.display.progress import Bar, TerminalDisplay, callback_of, html_of_bars
from gainful.errors.terminal import make_console


@pytest.fixture(scope="module")
def data():
    return gainful.make_artificial(12, n_docs=8, n_features=4, seed=1)


@pytest.fixture
def notebook(monkeypatch):
    """A stand-in for IPython in a kernel; the pages that its display handle has shown."""
    pages = []
    handle = SimpleNamespace(update=pages.append)
    shown = SimpleNamespace(HTML=str, display=lambda first, display_id: handle)
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell, display=shown))
    monkeypatch.setitem(sys.modules, "IPython.display", shown)
    monkeypatch.setattr(progress, "REDRAW_SECONDS", 0.0)
    return pages


def test_a_fit_in_a_notebook_shows_its_iterations_and_ends_in_one_line(data, notebook):
    gainful.LambdaMART(n_trees=3, n_leaves=4, n_jobs=1).fit(data[:8], eval_set=data[8:], progress=True)
    assert ["3 of 3" in page for page in notebook] == [False, False, True, False]
    assert "validation 0." in notebook[0]
    assert "done in" in notebook[-1]


def test_searches_and_comparisons_show_the_whole_and_the_part(data, notebook):
    gainful.tune("regression", data[:8], valid=data[8:], trials=2, progress=True)
    assert any("trials" in page and "trial 2" in page and "best 0." in page for page in notebook)
    assert any("training with the best parameters" in page for page in notebook)
    notebook.clear()
    gainful.compare(["regression", "regression:alpha=5"], data, folds=3, progress=True)
    assert any("regression:alpha=5, fold 3" in page and "5 of 6" in page for page in notebook)


def test_click_models_show_the_steps_of_em(data, notebook):
    log = gainful.simulate_clicks(
        data, ranker=gainful.RegressionRanker().fit(data), sessions=20, temperature=1.0, seed=1
    )
    gainful.click_model("pbm", max_iter=3, tol=0.0).fit(log, progress=True)
    assert any("3 of 3" in page for page in notebook)


def test_an_error_closes_the_bars(notebook):
    with pytest.raises(ValueError, match="lost"), callback_of(True, "fit"):
        raise ValueError("lost")
    assert "stopped after" in notebook[-1]


def test_names_are_escaped():
    page = html_of_bars([Bar("<b>x", 1, 4, "<i>"), Bar("y", 7, None)])
    assert "&lt;b&gt;x" in page
    assert "&lt;i&gt;" in page
    assert "<td" in page
    assert "7 of" not in page


def test_a_terminal_gets_bars_of_rich():
    console = make_console(file=io.StringIO(), force_terminal=True, width=100)
    display = TerminalDisplay(console)
    display.draw([Bar("rankers", 1, 4), Bar("lambdamart", 3, 9, "validation 0.5")])
    display.draw([Bar("rankers", 2, 4)])
    display._shown.refresh()
    display.close(True)
    assert "rankers" in console.file.getvalue()
    assert "2/4" in console.file.getvalue()


def test_elsewhere_nothing_is_shown_and_functions_are_called(data, capsys):
    gainful.RegressionRanker().fit(data, progress=True)
    gainful.RegressionRanker().fit(data, progress=False)
    assert capsys.readouterr() == ("", "")
    seen = []
    gainful.RegressionRanker().fit(data, progress=seen.append)
    assert len(seen) == 1
    with pytest.raises(gainful.ParameterError, match="progress of fit must be a function, or True for a bar, was"):
        gainful.RegressionRanker().fit(data, progress="yes")
