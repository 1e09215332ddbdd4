"""The page in Chromium, as a person uses it: typing, dropping, picking, sorting, keys; wide and narrow."""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest
import uvicorn
from serve_examples import NAMES, TOKEN, train_data

import gainful
from devtools import CONTROL, SHIFT, Chromium
from gainful.serve import Settings, create_app

WIDTHS = (1280, 390)
HEAD = "qid,doc_id,grade," + ",".join(NAMES)
IS_RANKED = "document.querySelector('tr[data-place]')"
HAS_ERROR = "document.querySelector('#message.error')"


@pytest.fixture(scope="module")
def data():
    return train_data()


@pytest.fixture(scope="module")
def models(data):
    """A linear model; the opposite order, from three of the features; one whose scores cannot be explained."""
    opposite = data.replace(y=data.y.max() - data.y, X=data.X[:, :3], feature_names=NAMES[:3])
    return {
        "old": gainful.RegressionRanker().fit(data),
        "new": gainful.RegressionRanker().fit(opposite),
        "odd": gainful.ranker("structured-svm-kernel", n_landmarks=10, tol=0.5).fit(data),
    }


@pytest.fixture(scope="module")
def folder(models, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for name, model in models.items():
        gainful.save(model, folder / f"{name}.gainful")
    return folder


@contextmanager
def serving(path, **settings):
    """The application and its address, served by a thread of this process."""
    app = create_app(path, Settings(**{"watch": 0.0, **settings}))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, ws="none"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield app, f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def one(folder):
    with serving(folder / "old.gainful") as served:
        yield served[1]


@pytest.fixture(scope="module")
def two(folder):
    with serving(folder / "old.gainful", beside=folder / "new.gainful") as served:
        yield served[1]


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    browser = Chromium(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.close()


@pytest.fixture
def tab(chromium):
    """The browser, which must not have seen a mistake or asked another server when the test ends."""
    chromium.mistakes.clear()
    chromium.asked.clear()
    yield chromium
    chromium.evaluate("0")  # events that are still on their way
    assert chromium.mistakes == []
    assert {address.split("/")[2].split(":")[0] for address in chromium.asked} <= {"127.0.0.1"}


def rows_of(data, n=6, query=1):
    return [[query, f"d{i}", int(data.y[i]), *data.X[i].tolist()] for i in range(n)]


def csv_of(data, **sizes):
    sizes = sizes or {"1": 6, "2": 3}
    rows = [row for query, n in sizes.items() for row in rows_of(data, n, query)]
    return "\n".join([HEAD, *(",".join(map(str, row)) for row in rows), ""])


def open_page(tab, address, width=1280):
    tab.resize(width)
    tab.open(address)
    tab.wait("sides !== null")


def type_rows(tab, text):
    """Replace the rows by typing, and rank by the keyboard."""
    tab.evaluate("$('rows').focus(); $('rows').select(); 0")
    tab.type(text)
    tab.press("Enter", CONTROL)


def shown(tab, column="document", table=0):
    """The cells of a column, from top to bottom."""
    return tab.evaluate(
        f"(() => {{ const t = document.querySelectorAll('table.ranking')[{table}];"
        f"const i = [...t.tHead.rows[0].cells].findIndex((c) => c.classList.contains({json.dumps(column)}));"
        "return [...t.tBodies[0].rows].map((r) => r.cells[i].textContent); })()"
    )


def text_of(tab, selector):
    return tab.evaluate(f"document.querySelector({json.dumps(selector)})?.textContent")


def order_of(model, X):
    return [f"d{i}" for i in np.argsort(-model.predict(X), kind="stable")]


def check_layout(tab):
    """Nothing is wider than the screen, and every control can be reached by the Tab key."""
    assert tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
    assert tab.evaluate(
        "[...document.querySelectorAll('button, input, select, textarea, summary, a')]"
        ".filter((e) => e.getClientRects().length).every((e) => e.tabIndex === 0)"
    )


@pytest.mark.parametrize("width", WIDTHS)
def test_type_pick_and_sort(tab, one, data, models, width):
    open_page(tab, one, width)
    type_rows(tab, csv_of(data))
    tab.wait(IS_RANKED)
    best = order_of(models["old"], data.X[:6])
    assert shown(tab) == best
    assert text_of(tab, "#message") == "6 documents of query 1 ranked."
    check_layout(tab)

    tab.click(
        "th.score button"
    )  # ascending after descending: the table starts sorted by rank, scores start at the best
    assert shown(tab) == best
    tab.click("th.score button")
    assert shown(tab) == best[::-1]
    assert text_of(tab, "[aria-sort=ascending]") == "score"
    tab.click("th.document button")
    assert shown(tab) == sorted(best)
    tab.click("th.grade button")
    grades = [int(text) for text in shown(tab, "grade")]
    assert grades == sorted(grades, reverse=True)
    assert set(grades) == set(data.y[:6].astype(int))

    tab.evaluate("$('query').focus(); 0")  # picked by the keyboard
    tab.press("ArrowDown")
    tab.wait("document.querySelectorAll('tr[data-place]').length === 3")
    assert text_of(tab, "#message") == "3 documents of query 2 ranked."
    assert shown(tab) == order_of(models["old"], data.X[:3])
    assert tab.evaluate("[$('previous').disabled, $('next').disabled]") == [False, True]
    tab.click("#previous")
    tab.wait("document.querySelectorAll('tr[data-place]').length === 6")
    tab.evaluate("$('top').value = 2; $('top').onchange(); 0")
    assert shown(tab) == best[:2]


def test_click_on_one_and_two_documents(tab, one, data, models):
    open_page(tab, one)
    type_rows(tab, csv_of(data))
    tab.wait(IS_RANKED)
    best = order_of(models["old"], data.X[:6])
    tab.click("tbody tr:nth-child(1) button")
    tab.wait("document.querySelector('#why h2')")
    a, b = (int(name[1:]) for name in (best[0], best[2]))
    explained = gainful.explain(models["old"], data.X[[a]])[0]
    assert text_of(tab, "#why caption").startswith(f"{best[0]} is number 1, with a score of {explained.score:.4g}"[:40])
    features = [share.feature for share in explained.shares]
    assert tab.evaluate("[...document.querySelectorAll('#why tbody th')].map((e) => e.textContent)") == [
        *features,
        "base, before any feature",
        "score",
    ]
    adds = tab.evaluate("[...document.querySelectorAll('#why tbody tr')].map((r) => Number(r.cells[2].textContent))")
    assert sum(adds[:-1]) == pytest.approx(adds[-1], rel=1e-2)

    tab.click("tbody tr:nth-child(3) button")
    tab.wait("document.querySelector('#why h2').textContent.includes('against')")
    pair = gainful.explain_pair(models["old"], data.X[a], data.X[b])
    assert text_of(tab, "#why h2") == f"{best[0]} against {best[2]}"
    assert text_of(tab, "#why caption").startswith(f"{best[0]} is above {best[2]}, by ")
    assert float(text_of(tab, "#why caption").split(" by ")[1]) == pytest.approx(pair.difference, rel=1e-3)
    found = tab.evaluate(
        "[...document.querySelectorAll('#why tbody tr')].map((r) => [0, 3].map((i) => r.cells[i].textContent))"
    )
    assert {name: float(adds) for name, adds in found} == pytest.approx(
        {share.feature: share.difference for share in pair.shares} | {"difference": pair.difference}, rel=1e-3
    )
    tab.press("Escape")
    assert tab.evaluate("document.querySelectorAll('[aria-pressed=true], #why table').length") == 0


def test_by_keyboard_alone(tab, one, data, models):
    open_page(tab, one)
    tab.evaluate("$('rows').focus(); 0")
    tab.type(csv_of(data, **{"1": 4}))
    for _ in range(2):  # past the hint
        tab.press("Tab")
    assert text_of(tab, ":focus") == "Rank"
    tab.press("Space")
    tab.wait(IS_RANKED)
    for _ in range(8):  # file, example, two numbers, three heads of the table (and a fourth: grades)
        tab.press("Tab")
    assert text_of(tab, ":focus") == "score"
    tab.press("Tab")
    tab.press("ArrowDown")
    tab.press("ArrowDown")
    tab.press("ArrowUp")
    best = order_of(models["old"], data.X[:4])
    assert text_of(tab, ":focus") == best[1]
    tab.press("Enter")
    tab.wait("document.querySelector('#why h2')")
    tab.press("Tab", SHIFT)
    assert text_of(tab, ":focus") == best[0]
    tab.press("Space")
    tab.wait("document.querySelector('#why h2').textContent.includes('against')")
    assert text_of(tab, "#why caption").startswith(f"{best[1]} is below {best[0]}, by ")


def test_nothing_on_the_screen_is_stale(tab, one, data):
    open_page(tab, one)
    empty = "!document.querySelector('#rankings').hasChildNodes() && !document.querySelector('#why').hasChildNodes()"
    type_rows(tab, HEAD + "\n1,a,0,1,2,3,much\n")
    tab.wait(HAS_ERROR)
    assert text_of(tab, "#message") == 'line 2, character 13: expected a number for length, found "much"'
    assert tab.evaluate("$('rows').value.slice($('rows').selectionStart, $('rows').selectionEnd)") == "much"
    tab.type("4")  # replaces what was wrong
    assert text_of(tab, "#message") == ""
    tab.press("Enter", CONTROL)
    tab.wait(IS_RANKED)
    tab.click("tbody tr button")
    tab.wait("document.querySelector('#why h2')")
    tab.evaluate("$('rows').focus(); 0")
    tab.type("5")
    assert tab.evaluate(empty)
    assert text_of(tab, "#message") == ""
    type_rows(tab, csv_of(data))
    tab.wait(IS_RANKED)
    type_rows(tab, "hello")
    tab.wait(HAS_ERROR)
    assert tab.evaluate(f"{empty} && $('picker').hidden")
    # An answer that comes after the rows were changed is dropped.
    tab.evaluate(
        "window.held = fetch; window.late = 0; window.fetch = async (...given) => {"
        "await new Promise((go) => setTimeout(go, 50)); window.late++; return held(...given); }; 0"
    )
    type_rows(tab, csv_of(data))
    tab.evaluate("$('rows').focus(); 0")
    tab.type("x")
    tab.wait("window.late >= 1")
    tab.evaluate("new Promise((go) => setTimeout(go, 150))")
    assert tab.evaluate(empty)
    assert text_of(tab, "#message") == ""
    tab.evaluate("window.fetch = () => Promise.reject(new TypeError()); 0")
    type_rows(tab, csv_of(data))
    tab.wait(HAS_ERROR)
    assert text_of(tab, "#message") == "the server does not answer; is it still running?"
    assert tab.evaluate(empty)


def test_files_are_dropped_and_opened(tab, one, data, models, tmp_path):
    open_page(tab, one)
    letor = tmp_path / "rows.txt"
    gainful.write(data, letor)
    tab.drop(letor)
    tab.wait(IS_RANKED)
    n = data.offsets[1]
    assert text_of(tab, "#message") == f"{n} documents of query {data.query_ids[0]} ranked."
    assert tab.evaluate("$('query').options.length") == data.n_queries
    scores = [float(text) for text in shown(tab, "score")]
    assert scores == pytest.approx(sorted(models["old"].predict(data.X[:n]), reverse=True), rel=1e-3)
    other = tmp_path / "rows.json"
    other.write_text(json.dumps({"documents": [{"id": "x", "features": data.X[0].tolist()}]}))
    tab.give_file("#file", other)
    tab.wait("document.querySelectorAll('tr[data-place]').length === 1")
    assert shown(tab) == ["x"]
    assert tab.evaluate("$('picker').hidden")
    binary = tmp_path / "rows.gnf"
    binary.write_bytes(b"\x00\x01")
    tab.drop(binary)
    tab.wait(HAS_ERROR)
    assert text_of(tab, "#message") == "rows.gnf is not text; the page reads CSV, JSON and LETOR text"
    assert not tab.evaluate(IS_RANKED)


@pytest.mark.parametrize("width", WIDTHS)
def test_two_models_side_by_side(tab, two, data, models, width):
    open_page(tab, two, width)
    assert text_of(tab, "h1") == "Try the models"
    tab.click("#example")  # has the features of both, and is ranked at once
    tab.wait(IS_RANKED)
    type_rows(tab, csv_of(data))
    tab.wait("$('message').textContent.startsWith('6 documents of query 1 ranked; ')")
    old, new = order_of(models["old"], data.X[:6]), order_of(models["new"], data.X[:6, :3])
    assert (shown(tab), shown(tab, table=1)) == (old, new)
    moves = [old.index(name) - new.index(name) for name in new]
    words = [f"▲ {move}" if move > 0 else f"▼ {-move}" if move < 0 else "=" for move in moves]
    assert shown(tab, "moved", 1) == words
    assert f"{sum(move != 0 for move in moves)} moved from A to B" in text_of(tab, "#message")
    left, right = tab.evaluate(
        "[...document.querySelectorAll('.ranking')].map((t) => t.getBoundingClientRect()).map((b) => [b.left, b.top])"
    )
    assert left[0] < right[0]
    assert left[1] == right[1]
    check_layout(tab)

    tab.click("table.ranking + table.ranking tbody tr:nth-child(1) button")
    tab.wait("document.querySelectorAll('#why table').length === 2")
    tab.click("table.ranking tbody tr:nth-child(1) button")
    tab.wait("document.querySelector('#why h2')?.textContent.includes('against')")
    assert tab.evaluate("document.querySelectorAll('[aria-pressed=true]').length") == 4  # two documents in two rankings
    captions = tab.evaluate("[...document.querySelectorAll('#why caption')].map((e) => e.textContent.split(', by')[0])")
    assert captions == [f"{new[0]} is below {old[0]}", f"{new[0]} is above {old[0]}"]
    check_layout(tab)
    type_rows(tab, "1 qid:1 1:1 4:2")
    tab.wait(HAS_ERROR)
    assert text_of(tab, "#message").startswith("B: line 1, character 13: expected a feature from 1 to 3")
    type_rows(tab, "hello")
    tab.wait("document.querySelector('#message').textContent.includes('hello')")
    assert text_of(tab, "#message").startswith("line 1, character 1: give JSON")  # of the rows, not of a model


def test_a_model_that_cannot_be_explained_says_so(tab, folder, data, models, tmp_path):
    shown_lists = tmp_path / "shown.jsonl"
    settings = {"interleave": folder / "odd.gainful", "impressions": shown_lists}
    with serving(folder / "old.gainful", **settings) as (_, address):
        open_page(tab, address)
        type_rows(tab, csv_of(data))
        tab.wait(IS_RANKED)
        assert shown(tab) == order_of(models["old"], data.X[:6])
        assert shown(tab, table=1) == order_of(models["odd"], data.X[:6])
        tab.click("tbody tr:nth-child(1) button")
        tab.wait("document.querySelector('#why h2')")  # which moves what stands below it
        tab.click("tbody tr:nth-child(2) button")
        tab.wait("document.querySelector('#why h2')?.textContent.includes('against')")
        assert tab.evaluate("document.querySelectorAll('#why table').length") == 1
        reason = models["odd"]._why_no_contributions()
        assert text_of(tab, "#why .soft") == f"No explanation: {reason}."
    assert shown_lists.read_text() == ""  # trying the models is not an experiment


def test_a_replaced_model_asks_to_rank_again(tab, folder, data, models, tmp_path):
    gainful.save(models["old"], tmp_path / "model.gainful")
    with serving(tmp_path / "model.gainful") as (app, address):
        open_page(tab, address)
        type_rows(tab, csv_of(data))
        tab.wait(IS_RANKED)
        gainful.save(gainful.RegressionRanker(alpha=9.0).fit(data), tmp_path / "model.gainful")
        app.model_slot.reload()
        tab.click("tbody tr:nth-child(1) button")
        tab.wait(HAS_ERROR)
        assert text_of(tab, "#message") == "the model was replaced since this ranking; rank again"
        assert not tab.evaluate(IS_RANKED)
        tab.click("[type=submit]")
        tab.wait(IS_RANKED)
        tab.click("tbody tr:nth-child(1) button")
        tab.wait("document.querySelector('#why h2')")


def test_a_server_with_a_token(chromium, folder, data):
    with serving(folder / "old.gainful", token=TOKEN) as (_, address):
        chromium.resize(1280)
        chromium.open(address)
        chromium.wait(HAS_ERROR)
        assert text_of(chromium, "#message") == "this server asks for its token"
        chromium.click("#token")
        chromium.type("wrong")
        chromium.press("Enter")
        chromium.wait("$('message').textContent === \"this is not the server's token\"")
        chromium.evaluate("$('token').select(); 0")
        chromium.type(TOKEN)
        chromium.press("Enter")
        chromium.wait("sides !== null")
        assert text_of(chromium, "#message") == ""
        type_rows(chromium, csv_of(data))
        chromium.wait(IS_RANKED)


@pytest.mark.parametrize("width", WIDTHS)
def test_docs_load_nothing(tab, two, width):
    tab.resize(width)
    tab.open(f"{two}docs")
    assert text_of(tab, "h1") == "Routes of this server"
    check_layout(tab)
    tab.click("a[href='#post-rank']")
    tab.wait("location.hash === '#post-rank'")
    assert tab.asked == [f"{two}docs"]
