"""What notebooks show: HTML that is whole, short, escaped and names what matters; plots with the right shapes."""

from __future__ import annotations

import io
import pickle
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn import config_context

import gainful
from gainful.blending.leaderboard import Leaderboard, Row
from gainful.display import html
from gainful.errors import GainfulError, MissingExtraError
from gainful.training.history import History
from tests.comparison.comparison_examples import made_up

HOSTILE = "<script>alert('x')</script>&\u202e$"
ESCAPED = "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;&amp;\\u202e$"
EMPTY = {"meta", "br", "hr", "img", "wbr"}


class Whole(HTMLParser):
    """Reads a fragment and remembers its text; tags that do not close each other are an error."""

    def __init__(self, page: str):
        super().__init__()
        self.open, self.tags, self.words = [], [], []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def data():
    made = gainful.make_artificial(12, n_docs=8, n_features=14, seed=1)
    return made.replace(feature_names=(HOSTILE, *(f"signal {j}" for j in range(1, 14))))


@pytest.fixture(scope="module")
def trees(data):
    return gainful.LambdaMART(n_trees=5, n_leaves=4, n_jobs=1).fit(
        data[:8], eval_set={"one": data[8:], "two": data[:8]}
    )


@pytest.fixture(scope="module")
def linear(data):
    return gainful.RankSVM().fit_path(data[:8], C=[0.1, 1.0, 10.0], eval_set=data[8:])


@pytest.fixture(scope="module")
def tuned(data):
    return gainful.tune(gainful.RegressionRanker(), data[:8], valid=data[8:], trials=12, label=HOSTILE)


@pytest.fixture(scope="module")
def board():
    rng = np.random.default_rng(0)
    rows = [
        (Row(name, 0.0, 0.0, 0.5, 1.0, 1, note=HOSTILE), rng.uniform(size=20)) for name in ("regression", "ranksvm")
    ]
    rows.append((Row("frank", 0.0, 0.0, 0.0, 1.0, 0), np.append(np.ones(10), np.full(10, np.nan))))
    return Leaderboard.of_values("ndcg@10", rng.uniform(size=20), rows, None, 2, "choosing weights")


@pytest.fixture(scope="module")
def things(data, trees, linear, tuned, board):
    """Name → (what a notebook shows, words that must be there)."""
    explained = gainful.explain(trees, data[:1])
    return {
        "trained": (trees, ["LambdaMART", "n_trees=5", "8 queries, 64 documents", "14", "ndcg@10", HOSTILE]),
        "certified": (linear, ["RankSVM", "certificate", f"{linear.certificate_.gap:.3g} above the minimum", "C"]),
        "untrained": (gainful.ranker("rankmm-2"), ["RankMM", "not trained yet", "loss='maximum'"]),
        "data": (data, ["12 queries, 96 documents, 14 features", "grade", HOSTILE]),
        "preferences": (gainful.RankingData.from_rows(data.X, None, data.qid, pairs=[(0, 1)]), ["preferences", "1"]),
        "metric": (gainful.metric("ndcg@10"), ["ndcg@10", "gain", "exp2", "ties", "average"]),
        "estimate": (gainful.estimate("lambdamart", rows=1e6, features=136), ["lambdamart", "time", "memory"]),
        "certificate": (linear.certificate_, ["objective", "gap", f"{linear.certificate_.primal:.6g}"]),
        "history": (trees.history_, ["5 iterations", "validation one", "validation two"]),
        "path": (linear.path_, ["3 models", "C", "validation"]),
        "explanation": (explained[0], [f"score {explained[0].score:.6g}", explained[0].shares[0].feature]),
        "explanations": (explained, ["8 explanations", "and 5 more"]),
        "pair": (gainful.explain_pair(trees, data.X[0], data.X[1]), ["a is", "adds to a − b"]),
        "tuning": (tuned, [HOSTILE, "ndcg@10", "alpha", f"{tuned.best_value:.4f}"]),
        "comparison": (made_up(["best", HOSTILE]), ["2 rankers on 40 test queries", HOSTILE, "ndcg@10", "Δ"]),
        "leaderboard": (board, ["blend", "ranksvm", HOSTILE, "20 queries"]),
    }


NAMES = ["trained", "certified", "untrained", "data", "preferences", "metric", "estimate", "certificate", "history",
         "path", "explanation", "explanations", "pair", "tuning", "comparison", "leaderboard"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_html_is_whole_escaped_short_and_names_what_matters(name, things):
    shown, words = things[name]
    page = shown._repr_html_()
    found = Whole(page)
    assert "script" not in found.tags
    assert "//" not in page  # nothing from the network
    assert len(page) < 8000 * (3 if name == "explanations" else 1)
    for word in words:
        assert word.replace(HOSTILE[-2], "\\u202e") in found.text
    assert ESCAPED in page or HOSTILE not in words
    assert HOSTILE not in page


def test_text_stays_as_it_was(things, trees):
    for shown, _ in things.values():
        assert "<table" not in repr(shown) + str(shown)
    with config_context(display="text"):
        assert set(trees._repr_mimebundle_()) == {"text/plain"}


def test_bars_go_left_and_right_of_zero():
    left, right = html.signed_bar(-1.0), html.signed_bar(0.5)
    assert f"width:{html.HALF:.2f}em;height:.7em;background:{html.LESS}" in left
    assert f"width:{html.HALF / 2:.2f}em;height:.7em;background:{html.MORE}" in right
    assert f"width:0.00em;height:.7em;background:{html.LESS}" in right


def test_history_and_path_are_lists(trees, linear):
    for rows in (trees.history_, linear.path_):
        assert rows == [dict(row) for row in rows]
        assert pickle.loads(pickle.dumps(rows)).metric == "ndcg@10"


# -- plots -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def ax():
    figure = pytest.importorskip("matplotlib.figure").Figure()
    yield figure.subplots()
    figure.savefig(io.BytesIO(), format="png")  # every label can be drawn


def texts(ax):
    return [text.get_text() for text in ax.texts]


def test_a_history_has_a_line_per_validation_set(trees, ax):
    assert trees.history_.plot(ax) is ax
    first, second, best = ax.lines
    assert first.get_ydata() == pytest.approx([row["validation one"] for row in trees.history_])
    assert len(second.get_xdata()) == 5
    assert best.get_ydata()[0] == max(first.get_ydata())
    assert texts(ax)[:2] == ["one", "two"]
    assert ax.get_ylabel() == "ndcg@10 on the validation data"


def test_a_history_without_validation_data_shows_the_objective(data, ax):
    model = gainful.RankSVM().fit(data)
    model.history_.plot(ax)
    assert ax.get_ylabel() == "objective"
    assert len(ax.lines[0].get_xdata()) == model.n_iter_
    with pytest.raises(GainfulError, match="nothing to plot"):
        History().plot(ax)


def test_a_path_has_a_point_per_C(linear, ax):
    linear.path_.plot(ax)
    assert ax.lines[0].get_xdata().tolist() == [0.1, 1.0, 10.0]
    assert ax.get_xscale() == "log"
    assert texts(ax)[0].endswith(f"at C={linear.C_:.3g}")


def test_explanations_have_a_bar_per_feature_and_one_for_the_rest(data, trees, ax):
    one = gainful.explain(trees, data[:1])[0]
    assert one.plot(ax, top=4) is ax
    widths = [bar.get_width() for bar in ax.patches]
    assert len(widths) == 5
    assert sum(widths) + one.base == pytest.approx(one.score)
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names[-1] == "10 other features"


def test_a_pair_has_the_difference_as_bars(data, trees, ax):
    pair = gainful.explain_pair(trees, data.X[0], data.X[1])
    pair.plot(ax, top=None)
    assert sum(bar.get_width() for bar in ax.patches) == pytest.approx(pair.difference)
    with pytest.raises(gainful.ParameterError, match="top of plot must be 1 or more"):
        pair.plot(ax, top=0)


def test_a_search_has_a_point_per_trial(tuned, ax):
    tuned.plot(ax)
    points, best, _ = ax.lines
    assert points.get_ydata() == pytest.approx([row["value"] for row in sorted(tuned.trials, key=lambda r: r["trial"])])
    assert best.get_ydata()[-1] == tuned.best_value


def test_rankers_have_intervals(board, ax):
    found = made_up(["low", HOSTILE, "high"])
    found.plot(ax, measure="map")
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert len(labels) == 3
    assert "low (baseline)" in labels
    (segments,) = [one for one in ax.collections if len(one.get_segments()) == 3]
    low, high = found.interval(found.by_mean[0], "map")
    assert segments.get_segments()[0][:, 0] == pytest.approx([low, high])
    ax.clear()
    board.plot(ax)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["blend", *(row.name for row in board.members[:2])]


def test_a_click_model_shows_how_often_positions_are_examined(data, ax):
    log = gainful.simulate_clicks(
        data, ranker=gainful.RegressionRanker().fit(data), sessions=50, temperature=1.0, seed=1
    )
    model = gainful.click_model("pbm", max_iter=3).fit(log)
    model.plot(ax)
    assert ax.lines[0].get_ydata() == pytest.approx(model.examination_)


def test_without_axes_a_plot_makes_its_own(linear):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    made = linear.path_.plot()
    assert made.figure.axes == [made]
    pyplot.close(made.figure)


def test_without_matplotlib_one_line_says_what_to_install(linear, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"plot\(\) needs Matplotlib, which is not installed; run: pip install"):
        linear.path_.plot()
