"""The page: self-contained, escaped, its figures those of the JSON; and what Chromium makes of it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import escape, unescape
from html.parser import HTMLParser

import numpy as np
import pytest
from comparison_examples import METRICS, made_up

import gainful
from browser import LAYOUT
from gainful.comparison.report import figures
from gainful.report import plots
from gainful.report.parts import html_name

SCRIPT = '<script>alert("x")</script>'


@pytest.fixture(scope="module")
def found():
    ids = np.array([f"</td><img src=x onerror=alert({i})>" for i in range(12 * 40)])
    return made_up(["base", SCRIPT, "best"], n_folds=2, doc_ids=ids)


@pytest.fixture(scope="module")
def many():
    return made_up([f"ranker-{i}:with_a=long_name" for i in range(30)], n_queries=25)


class Tables(HTMLParser):
    """Rows of each table that has an id: (value, text) of every cell; and the ids of all elements."""

    def __init__(self, page):
        super().__init__()
        self.tables, self.ids, self.opened, self.cell = {}, [], [], None
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.ids += [given["id"]] if "id" in given else []
        if tag == "table":
            self.opened = self.tables.setdefault(given.get("id", len(self.tables)), [])
        elif tag == "tr":
            self.opened.append([])
        elif tag in ("td", "th"):
            self.cell = [given.get("data-value"), ""]
            self.opened[-1].append(self.cell)

    def handle_data(self, data):
        if self.cell is not None:
            self.cell[1] += data

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.cell = None


def embedded(page):
    return json.loads(re.search(r'<script type="application/json" id="comparison">(.*?)</script>', page, re.S).group(1))


def check_figures(page, stored):
    """The cells of the page against the JSON: the value behind each and the rounded text before the reader."""
    tables = Tables(page).tables
    for label, mean, *_ in tables["means"][1:]:
        told = stored["rankers"][label[0]]
        assert float(mean[0]) == told["means"]["ndcg@10"]
        assert mean[1].split()[0] == f"{told['means']['ndcg@10']:.4f}"
    for label, *cells in tables["curve-values"][1:]:
        means = stored["rankers"][label[0]]["means"]
        assert [float(cell[0]) for cell in cells] == [means[f"ndcg@{k}"] for k in range(1, 11)]
    tests = {t["ranker"]: t for t in stored["against_baseline"] if t["measure"] == "ndcg@10"}
    for label, difference, _, interval, effect, chance, won, _, t, random, least in tables["tests"][1:]:
        one = tests[label[0]]
        names = ("difference", "effect_size", "superiority", "detectable")
        for name, cell in zip(names, (difference, effect, chance, least), strict=True):
            assert float(cell[0]) == one[name]
        assert interval[1] == "[{:+.3f}, {:+.3f}]".format(*one["interval"])
        assert won[1] == f"{one['wins']}/{one['ties']}/{one['losses']}"
        assert [float(t[0]), float(random[0])] == [one["p_holm"]["t"], one["p_holm"]["randomization"]]
    for label, fit, _, memory, _ in tables["costs"][1:]:
        assert float(fit[0]) == stored["rankers"][label[0]]["fit_seconds"]
        assert float(memory[0]) == stored["rankers"][label[0]]["memory_bytes"]
    return tables


def test_the_page_shows_the_figures_of_the_json(found):
    page = found.to_html()
    tables = check_figures(page, found.to_dict())
    assert len(tables["means"]) == 1 + 3


def test_the_page_carries_its_figures(found):
    inside, stored = embedded(found.to_html()), found.to_dict()
    for label, told in inside["rankers"].items():
        assert told == {name: stored["rankers"][label][name] for name in told}
        assert {"means", "intervals", "params", "facts"} <= set(told)
    assert all(test in stored["against_baseline"] for test in inside["against_baseline"])
    assert inside["best_two"] == {name: stored["best_two"][name] for name in inside["best_two"]}
    for name in set(inside) - {"rankers", "against_baseline", "best_two", "explorer"}:
        assert inside[name] == stored[name]


def test_the_members_of_a_blend_are_shown_for_each_fold(artificial, tmp_path):
    blend = gainful.ranker("blend", members=["regression", "listnet:C=2"], folds=3)
    rankers, label = {"blend <2>": blend, "regression": "regression"}, "blend <2>"
    found = gainful.compare(rankers, artificial, folds=3, store=tmp_path)
    stored = [run.facts["leaderboard"] for run in found.runs[label]]
    page = found.to_html()
    for fold, board in enumerate(stored, start=1):
        rows = Tables(page[page.index(f"<summary>{escape(label)}, fold {fold}") :].partition("</details>")[0]).tables[0]
        assert rows[0][0][1] == "ranker"
        assert [float(row[1][0]) for row in rows[1:]] == [row["mean"] for row in board["rows"]]
        assert {row[0][1] for row in rows[1:]} == {"blend", "regression", "listnet"}
    assert "The blend of 6 models reaches" in page
    assert gainful.compare(rankers, artificial, folds=3, store=tmp_path).table() == found.table()
    assert "What the blends are made of" not in gainful.compare(["regression"], artificial).to_html()


def test_queries_won_and_lost_most(found):
    """By the definition: sort the differences of the best two, look at both ends, rank by score."""
    pair = found.to_dict()["best_two"]
    first, second = found.by_mean[:2]
    d = found.per_query(first, "ndcg@10") - found.per_query(second, "ndcg@10")
    assert pair["won_most"][0]["difference"] == d.max()
    assert pair["lost_most"][0]["difference"] == d.min()
    assert pair["sorted"]["difference"] == sorted(d.tolist(), reverse=True)
    assert (pair["wins"], pair["losses"]) == (int((d > 0).sum()), int((d < 0).sum()))
    q = int(d.argmax())
    begin, end = found.documents.offsets[q : q + 2]
    ranks = (-found.scores(first)[begin:end]).argsort().argsort() + 1
    shown = {doc["id"]: doc for doc in pair["won_most"][0]["documents"]}
    for i in np.flatnonzero(ranks <= 10):
        assert shown[found.documents.doc_ids[begin + i]]["ranks"][0] == ranks[i]


def test_text_from_outside_is_escaped(found):
    page = found.to_html()
    assert SCRIPT not in page
    assert "<img" not in page
    assert escape(SCRIPT) in page
    assert page.count("<script") == 2  # the figures and the code of the page
    assert page.count("</script>") == 2
    assert SCRIPT in embedded(page)["rankers"]


def test_the_page_needs_nothing_else(found):
    page = found.to_html()
    assert not re.search(r'(?:src|href)="(?!#|data:,)', page)
    assert "://" not in re.sub(r"<script.*?</script>", "", page, flags=re.S)
    assert "@import" not in page
    assert "default-src 'none'" in page
    assert not re.search(r"\$(?:title|style|main|data|links)\b", page)


def test_every_plot_is_described_and_every_table_sortable(found):
    page = found.to_html()
    pictures = re.findall(r"<svg[^>]*>", re.sub(r"<script.*?</script>", "", page, flags=re.S))
    assert len(pictures) > 10
    for picture in pictures:
        assert 'aria-hidden="true"' in picture or re.search(r'role="img" aria-label="[^"]{20,}"', picture)
    assert page.count("<table") == page.count('class="sortable"')
    ids = Tables(page).ids
    assert len(ids) == len(set(ids))
    for name in re.findall(r'href="#([\w-]+)"', page):
        assert name in ids


def test_every_section_is_there(found):
    page = unescape(found.to_html())
    for title in (
        "Means",
        "Differences",
        "Quality against time",
        "NDCG by depth",
        "Query by query",
        "Training",
        "Regularisation paths",
        "Time and memory",
    ):
        assert f">{title}</h2>" in page
    for text in ("gain=exp2", "numpy", "alpha=1", "documents", "features kept", "2 folds", "Seed"):
        assert text in page


@pytest.mark.parametrize(
    ("protocol", "told"),
    [
        ({"division": "folds by query", "folds": 5, "seed": 3}, "5 folds by query, seed 3"),
        (
            {"division": "one split by query", "folds": 1, "sizes": [0.6, 0.2, 0.2], "seed": 0},
            "one split by query, shares 0.6 : 0.2 : 0.2, seed 0",
        ),
        ({"division": "rolling folds by time", "folds": 3, "time": "year"}, "3 rolling folds by time, column year"),
        ({"division": "as given", "folds": 1}, "as given"),
    ],
)
def test_the_division_is_told_in_words(protocol, told):
    page = unescape(replace(made_up(["a", "b"]), protocol=protocol).to_html())
    assert f"<dd>{told}</dd>" in page


def test_tuning_is_told_in_words():
    plan = {"search": "random", "trials": 5, "seconds": None, "metric": "ndcg@10(gain=exp2)"}
    plan |= {"refit": True, "prune": True, "seed": 1}
    page = unescape(replace(made_up(["a", "b"]), protocol={"tuning": plan}).to_html())
    told = "random search for the best ndcg@10, at most 5 trials per ranker and fold, poor trials stopped early, seed 1"
    assert told in page


def test_training_notes_tell_only_what_is_plotted(found):
    note = figures._training_note(found, {"validation"})
    assert note.startswith("Validation: the metric on the validation queries")
    assert "Objective" not in note
    assert figures._training_note(found, {"objective", "gap"}).startswith("Objective: what training improves")


def test_thirty_rankers_stay_legible_and_small(many):
    page = many.to_html()
    assert len(page.encode()) < 500_000
    lines = re.findall(r'<g class="line (on c\d|off)"', page)
    assert len(lines) == 30
    assert sorted(kind for kind in lines if kind != "off") == [f"on c{i}" for i in range(6)]
    assert lines[-6:].count("off") == 0  # colours in front


def test_trials_and_choices_of_a_tuned_ranker_are_shown(found):
    trials = [
        {"trial": i, "params": {"alpha": 0.5 * i}, "state": "done", "value": 0.1 * i, "iterations": i, "seconds": 0.25}
        for i in range(500)
    ]
    trials[7] |= {"state": "failed", "value": None}
    runs = tuple(replace(run, trials=trials, chosen={"alpha": 249.5}) for run in found.runs["best"])
    page = replace(found, runs={**found.runs, "best": runs}).to_html()
    assert "best, fold 2: 500 trials" in page
    assert "Chosen on the validation data: alpha=249.5." in page
    assert "Only the best 200 trials are shown" in page  # 400 rows over two folds
    assert page.count(">done<") == 400


def test_one_ranker_has_a_page_too():
    page = made_up(["alone"]).to_html()
    assert "Comparison of 1 ranker<" in page
    assert ">Differences</h2>" not in page
    assert ">Query by query</h2>" not in page


def test_a_long_name_breaks_at_its_joints_but_not_in_a_number():
    assert html_name("tree:n_trees=30,C=0.5") == "tree:<wbr>n_<wbr>trees=<wbr>30,C=<wbr>0.5"
    assert html_name("os.path <b>") == "os.<wbr>path &lt;b&gt;"


def test_ticks_are_round_and_inside(rng):
    for low, width in zip(rng.normal(0, 3, 200), 10 ** rng.uniform(-4, 4, 200), strict=True):
        marks = plots.ticks(low, low + width)
        assert 2 <= len(marks) <= 10
        assert low - 1e-9 * width <= marks[0]
        assert marks[-1] <= low + width * (1 + 1e-9)
        assert np.ptp(np.diff(marks)) < 1e-6 * width


def test_a_few_points_have_their_names_and_many_only_the_frontier():
    def named(n):
        spots = [plots.Spot(f"r{i}", 10.0**i, 0.9 if i == 0 else 0.1 + 0.5 * i / n, 0.0, 1.0) for i in range(n)]
        picture = plots.scatter(spots, x_name="s", y_name="mean", title="t", description="d")
        return re.findall(r'name" [^>]*>(r\d+)</text>', picture)

    assert sorted(named(4)) == ["r0", "r1", "r2", "r3"]
    assert named(plots.MOST_NAMED + 1) == ["r0"]


def test_a_tick_at_the_edge_is_not_cut():
    for late in np.geomspace(0.022, 0.03, 50):  # 0.03 moves in over the edge
        spots = [plots.Spot("a", 0.001, 0.5, 0.4, 0.6), plots.Spot("b", late, 0.6, 0.5, 0.7)]
        picture = plots.scatter(spots, x_name="s", y_name="mean", title="t", description="d")
        ticks = re.findall(r'class="middle" x="([\d.]+)"[^>]*>([\d.]+)<', picture)
        assert len(ticks) >= 2
        assert all(float(x) + plots.LETTER / 2 * len(text) <= 400 for x, text in ticks)


def test_thinning_keeps_both_ends():
    points = [(float(i), 0.0) for i in range(1000)]
    kept = plots.thin(points, 30)
    assert len(kept) == 30
    assert (kept[0], kept[-1]) == (points[0], points[-1])
    assert plots.thin(points[:5], 30) == points[:5]


# -- in a browser ------------------------------------------------------------------------------------------------------


def test_chromium_shows_the_figures_of_the_json(browse, found):
    """The page as the browser holds it after its scripts have run."""
    told = browse(found.to_html(), "return page.documentElement.outerHTML;")
    check_figures(told, found.to_dict())


SORTING = """
const table = page.getElementById("means"), heads = [...table.tHead.rows[0].cells];
const column = (i) => [...table.tBodies[0].rows].map((row) => row.cells[i].dataset.value);
const told = [];
for (const i of [1, 0]) {
  const button = heads[i].querySelector("button");
  button.focus();
  for (let n = 0; n < 2; n++) {
    button.click();
    told.push([i, heads.map((head) => head.getAttribute("aria-sort")), column(i), page.activeElement === button]);
  }
}
return told;
"""


def test_tables_are_sorted_by_their_headings(browse, found):
    means = {label: found.mean(label, "ndcg@10") for label in found.labels}
    steps = browse(found.to_html(), SORTING)
    expected = [
        (1, "ascending", sorted(means.values())),  # they were sorted by the headline from the start
        (1, "descending", sorted(means.values(), reverse=True)),
        (0, "ascending", None),
        (0, "descending", None),
    ]
    for (column, order, values), (told, states, cells, focused) in zip(expected, steps, strict=True):
        assert told == column
        assert states == [order if i == column else "none" for i in range(len(states))]
        assert focused
        if values is not None:
            assert [float(cell) for cell in cells] == values
    assert steps[2][2] == steps[3][2][::-1]
    assert set(steps[2][2]) == set(found.labels)


TOGGLING = """
const boxes = [...page.querySelectorAll(".toggle input")];
const lit = () => [...page.querySelectorAll(".line.on")].map((line) => line.dataset.key).sort();
const told = [lit()];
boxes[20].click(); told.push(lit(), boxes.filter((box) => box.checked).length, boxes[20].parentNode.dataset.key);
boxes[20].click(); told.push(lit());
const colours = new Set([...page.querySelectorAll(".line.on .stroke")].map((p) => view.getComputedStyle(p).stroke));
told.push(colours.size);
return told;
"""


def test_rankers_are_put_in_colour_six_at_a_time(browse, many):
    before, after, checked, key, left, colours = browse(many.to_html(), TOGGLING)
    assert len(before) == len(after) == checked == 6
    assert key in after
    assert key not in before
    assert len(set(before) & set(after)) == 5
    assert set(left) == set(after) - {key}
    assert colours == 5


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_overflows(browse, many, width):
    """No sideways scrolling of the page, no text cut off or too small to read in a plot; headings are in reach."""
    overflow, wide, small, cut, reachable, seen = browse(many.to_html(), LAYOUT, width)
    assert seen == width
    assert overflow <= 0, wide
    assert (wide, small, cut) == ([], [], [])
    assert reachable


@pytest.mark.parametrize("headline", ["ndcg@10", "map"])
def test_every_column_of_the_differences_is_seen_on_a_laptop(browse, headline):
    chosen = gainful.metric(headline)
    labels = [f"structured-svm-tight:C={i}:tolerance=0.001" for i in range(4)]
    comparison = made_up(labels, metrics=(chosen, *(m for m in METRICS if m != chosen)))
    script = """
      const box = page.getElementById("tests").parentElement, last = page.querySelector("#tests thead th:last-child");
      return [last.textContent.trim(), box.scrollWidth - box.clientWidth, last.getBoundingClientRect().right];
    """
    heading, hidden, right = browse(comparison.to_html(), script, 1280)
    assert heading == "detectable"
    assert hidden <= 0
    assert right <= 1280


@pytest.mark.parametrize(("headline", "told"), [("map", False), ("ndcg@10", True)])
def test_the_sum_of_ndcg_is_tested_only_where_the_headline_is_one(headline, told):
    chosen = gainful.metric(headline)
    comparison = made_up(["a", "b"], metrics=(chosen, *(m for m in METRICS if m != chosen)))
    for text in (comparison.to_html(), comparison.to_markdown(), comparison.table()):
        assert ("p Wilcoxon Σndcg" in text.replace("\n", " ")) == told
        assert "Wilcoxon" in text


def test_the_best_come_first_in_every_form(found):
    order = [found.labels.index(label) for label in found.by_mean]
    assert order != sorted(order)
    tables = Tables(found.to_html()).tables
    for name in ("means", "costs", "params", "curve-values"):
        assert [row[0][0] for row in tables[name][1:]] == found.by_mean, name
    assert [row[0][0] for row in tables["tests"][1:]] == [label for label in found.by_mean if label != found.baseline]
    assert list(found.to_dict()["rankers"]) == list(found.labels)  # the record keeps the order of the call
    for text in (found.table(), found.to_markdown(), found.to_latex()):
        assert text.index("best") < text.index("base (baseline)")
