"""The parts of the page about queries and features: what goes into it, its bounds, and its use in Chromium."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from comparison_examples import made_up

import gainful
from browser import LAYOUT
from gainful.cli import run
from gainful.comparison.explained import decode_explained, is_explained, spread_queries
from gainful.comparison.report import explorer
from gainful.persistence.jsonable import plain


@pytest.fixture(scope="module")
def settings():
    kernel = gainful.KernelStructuredSVM(n_landmarks=8, tol=0.3)
    rankers = {"regression": "regression", "trees": "lambdamart:n_trees=8", "kernel": kernel, "feature": "feature:1"}
    data = gainful.make_artificial(45, n_docs=14, n_features=12, seed=2)
    data = data.replace(doc_ids=np.array([f"<d{i}>" for i in range(data.n_rows)]))
    return {"rankers": rankers, "data": data, "folds": 3, "explain": True, "segments": lambda q: f"part {int(q) % 2}"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def found(settings, folder):
    return gainful.compare(**settings, store=folder)


@pytest.fixture(scope="module")
def page(found):
    return found.to_html()


def embedded(page):
    told = re.search(r'<script type="application/json" id="comparison">(.*?)</script>', page, re.S).group(1)
    return json.loads(told)["explorer"]


def test_a_stored_comparison_gives_the_same_explanations(settings, folder, found):
    again = gainful.compare(**settings, store=folder)
    assert plain(again.importances) == plain(found.importances)
    assert explorer.explore(again) == explorer.explore(found)


def test_importances_follow_the_models(found):
    assert set(found.importances) == {"regression", "trees", "kernel"}  # a feature needs no explanation
    for label, told in found.importances.items():
        rows = told["features"]
        assert told["queries"] == len(found.query_ids)
        assert [row["loss"] for row in rows] == sorted((row["loss"] for row in rows), reverse=True)
        assert (rows[0]["gain"] is not None) == (label == "trees")
        assert (rows[0]["contribution"] is None) == (label == "kernel")
        for name in ("gain", "contribution"):
            if rows[0][name] is not None:
                assert sum(row[name] for row in rows) == pytest.approx(1.0, abs=1e-4)
    assert found.to_dict()["importances"] == plain(found.importances)


def test_a_comparison_explains_only_if_asked(settings, found):
    plain_one = gainful.compare({"a": "regression", "b": "listnet"}, settings["data"])
    assert plain_one.importances == {}
    assert ">Features</h2>" not in plain_one.to_html()
    assert ">Features</h2>" in found.to_html()


def test_contributions_sum_to_the_standardised_score(found):
    told = explorer.explore(found)
    label = told["labels"].index("trees")
    assert told["parts"]
    for q, entry in told["parts"].items():
        place = found.query_ids.astype(str).tolist().index(told["ids"][int(q)])
        begin, end = found.documents.offsets[place : place + 2]
        scores = found.scores("trees")[begin:end]
        z = dict(zip(found.documents.doc_ids[begin:end], (scores - scores.mean()) / scores.std(), strict=True))
        sums = np.sum(entry["rankers"][label], axis=1)
        assert sums == pytest.approx([z[name] for name in told["documents"][q]["ids"]], abs=0.01)


def test_documents_and_contributions_are_bounded(monkeypatch, found):
    monkeypatch.setattr(explorer, "DOCUMENT_CELLS", 4 * 14 * 10)
    monkeypatch.setattr(explorer, "PART_CELLS", 2 * 14 * 11 * 5)
    told = explorer.explore(found)
    assert 10 <= len(told["documents"]) < 20
    assert 5 <= len(told["parts"]) < 10
    assert sum(len(one["ids"]) for one in told["documents"].values()) <= 14 * 10


def test_queries_beyond_the_bound_are_those_that_differ_least(monkeypatch):
    monkeypatch.setattr(explorer, "VALUE_CELLS", 2 * 10)
    two = made_up(["a", "b"])
    told = explorer.explore(two)
    d = np.abs(two.differences("a", "b", two.headline))
    assert (len(told["ids"]), told["n_queries"]) == (10, 40)
    chosen = [two.query_ids.tolist().index(name) for name in told["ids"]]
    extremes = {int(d.argmax())}
    assert extremes <= set(chosen)
    assert d[chosen].mean() > d.mean()


def test_spread_queries_are_evenly_spaced_and_fit():
    counts = np.full(100, 10)
    assert spread_queries(counts, 1000).tolist() == list(range(100))
    assert spread_queries(counts, 250).tolist() == list(range(0, 100, 4))
    assert spread_queries(counts, 1000, 50).tolist() == list(range(0, 100, 2))
    assert spread_queries(counts, 5).tolist() == []


@pytest.mark.parametrize(
    "damage", [{"parts": [[1.0]]}, {"gain": ["x"]}, {"features": None}, {"losses": 3}, {"queries": [[1]]}]
)
def test_damaged_explanations_in_a_store_are_noticed(found, damage):
    stored = json.loads(json.dumps(plain(found.runs["trees"][0].explained)))
    assert is_explained(stored)
    assert decode_explained(stored)["parts"].dtype == np.float32
    assert not is_explained(stored | damage)


def test_runs_have_a_page_without_documents():
    qrels = {f"q{i}": {"a": 1, "b": 0} for i in range(6)}
    runs = {"good": {q: {"a": 2.0, "b": 1.0} for q in qrels}, "bad": {q: {"a": 1.0, "b": 2.0} for q in qrels}}
    page = gainful.compare_runs(runs, qrels).to_html()
    assert embedded(page)["documents"] == {}
    for title in ("Features", "Quality against time", "Training"):
        assert f">{title}</h2>" not in page


def test_a_stored_result_without_explanations_is_not_trained_again(settings, tmp_path):
    data, rankers = settings["data"], {"a": "regression", "b": "listnet"}
    first = gainful.compare(rankers, data, store=tmp_path)
    again = gainful.compare(rankers | {"c": "ranknet"}, data, store=tmp_path, explain=True)
    assert again.fit_seconds("a") == first.fit_seconds("a")
    assert set(again.importances) == {"c"}
    assert "Not explained: " in again.to_html()


def test_the_command_line_explains_for_a_report(settings, tmp_path, capsys):
    gainful.write(settings["data"], tmp_path / "data.txt")
    command = ["compare", str(tmp_path / "data.txt"), "--rankers", "regression,feature:1"]
    for more, told in (([], True), (["--no-explain"], False)):
        assert run([*command, "--report", str(tmp_path / "r"), *more]) == 0
        assert (">Features</h2>" in (tmp_path / "r" / "report.html").read_text()) == told
    capsys.readouterr()
    assert run([*command, "--explain", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["importances"]) == {"regression"}
    assert run(["compare", "a.run", "--qrels", "q.txt", "--explain"]) == 2
    assert "leave out --explain" in capsys.readouterr().err


# -- in a browser ------------------------------------------------------------------------------------------------------

USE = """
const get = (id) => page.getElementById(id), told = {};
const change = (control, value, event = "change") => {
  control.value = value;
  control.dispatchEvent(new view.Event(event));
};
const listed = () => [...get("query-list").options].map((option) => option.textContent);
const rows = (id) => [...get(id).tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent));
const total = () => get("pair-total").textContent;
const key = (target, name) => target.dispatchEvent(
  new view.KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true }));
told.labels = [...get("ranker-a").options].map((option) => option.textContent);
told.first = total();
change(get("ranker-b"), told.labels.length - 1);
told.other = total();
get("swap").click();
told.swapped = total();
get("swap").click();
change(get("ranker-b"), 1);
told.listed = listed();
change(get("query-order"), "lost");
told.lost = listed();
change(get("query-search"), "3", "input");
told.typed = listed();
told.count = get("query-count").textContent;
change(get("query-search"), "no such query", "input");
told.none = [listed().length, get("query-view").textContent, get("pair-bars").textContent];
change(get("query-search"), "", "input");
change(get("query-segment"), "part 1");
told.segment = listed();
change(get("query-segment"), "");
get("query-search").focus();
key(get("query-search"), "ArrowDown");
told.focused = page.activeElement.id;
change(get("query-list"), get("query-list").options[1].value);
told.query = get("query-view").querySelector("h3").textContent;
told.documents = rows("documents");
told.begun = get("why").querySelector("h3").textContent;
const head = get("documents").tHead.rows[0].cells[4].querySelector("button");
head.click(); head.click();
told.sorted = rows("documents").map((row) => Number(row[4]));
const last = get("documents").tBodies[0].rows[0].querySelector("button.why");
last.click();
told.why = [last.textContent, get("why").querySelector("h3").textContent, rows("contributions")];
const svg = get("pair-bars").querySelector("svg");
key(svg, "Home"); const home = get("query-view").querySelector("h3").textContent;
key(svg, "ArrowRight"); const next = get("query-view").querySelector("h3").textContent;
told.keys = [home, next, svg.tabIndex];
told.titles = [...svg.querySelectorAll("rect title")].map((title) => title.textContent);
const bar = svg.querySelectorAll("rect")[2], box = bar.getBoundingClientRect();
const where = { clientX: box.left + box.width / 2, clientY: box.top + 1, bubbles: true };
svg.dispatchEvent(new view.PointerEvent("pointermove", where));
told.tip = [page.querySelector(".tip").textContent, bar.querySelector("title").textContent];
svg.dispatchEvent(new view.MouseEvent("click", where));
told.clicked = get("query-view").querySelector("h3").textContent;
const layout = (() => { LAYOUT })();
told.hidden = [...page.querySelectorAll(".scroll")].filter((one) => one.scrollWidth > one.clientWidth + 1)
  .map((one) => one.getAttribute("aria-label"));
return [told, layout];
""".replace("LAYOUT", LAYOUT)


@pytest.mark.parametrize("width", [1280, 390])
def test_the_reader_chooses_rankers_queries_and_documents(browse, found, page, width):
    told, (overflow, wide, small, cut, _, seen) = browse(page, USE, width)
    first, second, *_, last = found.by_mean
    assert told["labels"] == found.by_mean
    d = found.differences(first, second, found.headline)
    for name, other, sign in (("first", second, 1), ("other", last, 1), ("swapped", last, -1)):
        own = sign * found.differences(first, other, found.headline)
        shown = f"{own.mean():+.4f}".replace("-", "−")
        assert shown in told[name]
        assert (
            f"better on {(own > 0).sum()} queries, equal on {(own == 0).sum()}, worse on {(own < 0).sum()}."
            in told[name]
        )
    ids = found.query_ids.astype(str)
    assert [text.split(",")[0] for text in told["listed"]] == ids[np.argsort(-d, kind="stable")].tolist()
    assert [text.split(",")[0] for text in told["lost"]] == ids[np.argsort(d, kind="stable")].tolist()
    assert {text.split(",")[0] for text in told["typed"]} == {name for name in ids if "3" in name}
    assert told["count"].startswith(str(len(told["typed"])))
    assert told["none"] == [0, "", ""]
    assert {text.split(",")[0] for text in told["segment"]} == {name for name in ids if int(name) % 2}
    assert told["focused"] == "query-list"
    # The documents of the query, by the scores.
    q = ids.tolist().index(re.match(r"Query (\S+):", told["query"]).group(1))
    begin, end = found.documents.offsets[q : q + 2]
    names = found.documents.doc_ids[begin:end]
    ranks = [(-found.scores(label)[begin:end]).argsort(kind="stable").argsort() + 1 for label in (first, second)]
    shown = [i for i in np.argsort(ranks[0]) if min(ranks[0][i], ranks[1][i]) <= 10]
    assert [row[0] for row in told["documents"]] == names[shown].tolist()
    assert [[int(row[2]), int(row[4])] for row in told["documents"]] == [[ranks[0][i], ranks[1][i]] for i in shown]
    assert told["sorted"] == sorted(told["sorted"])
    # Explained first: the relevant document that moved furthest.
    relevant = [row for row in told["documents"] if float(row[1]) > 0]
    furthest = max(relevant, key=lambda row: abs(int(row[4]) - int(row[2])))
    assert told["begun"] == f"Why document {furthest[0]} is at rank {furthest[2]} of A and {furthest[4]} of B"
    document, why, contributions = told["why"]
    assert why.startswith(f"Why document {document} is at rank ")
    assert len(contributions) == explorer.MOST_FEATURES + 1  # ten, and the others together
    assert contributions[-1][0] == "2 other features"
    # Bars: the keyboard, the tooltip, the click.
    best = ids[np.argsort(-d, kind="stable")]
    assert told["keys"][0].startswith(f"Query {best[0]}:")
    assert told["keys"][1].startswith(f"Query {best[1]}:")
    assert told["keys"][2] == 0
    assert [re.match(r"Query (\S+),", text).group(1) for text in told["titles"]] == best.tolist()
    assert told["tip"][0] == told["tip"][1]
    assert told["clicked"].startswith(f"Query {best[2]}:")
    assert seen == width
    assert overflow <= 0
    assert (wide, small, cut) == ([], [], [])
    if width == 1280:
        assert told["hidden"] == []


def test_long_settings_are_folded_away(found, page):
    assert page.count('<details class="long">') >= 2
    assert "n_leaves=31" in page
