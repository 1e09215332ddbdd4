"""The page to try the model: which rows it reads, which it refuses, and what is on the screen after a change."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from importlib.resources import files

import pytest
from serve_examples import client_of, train_data

import gainful
from gainful.formats.table.writer import WELL_KNOWN

ASSETS = files("gainful.serve") / "assets"
NAMED = {
    "n_features": 2,
    "feature_names": ["bm25", "clicks"],
    "contributions": False,
    "model_version": "v",
    "ranker": "r",
}
UNNAMED = NAMED | {"feature_names": None}

# What a browser would bring, as far as the script asks for it; the server answers /rank with what it was asked.
BROWSER = """
const made = {};
const element = () => ({
  value: "", textContent: "", hidden: true, className: "", files: [], style: {}, children: [],
  append(...more) { this.children.push(...more); }, replaceChildren(...more) { this.children = more; },
});
const $get = (id) => (made[id] ??= element());
globalThis.document = { getElementById: $get, createElement: element };
const rank = ({ id, documents }) => ({
  id, documents: documents.map((document, i) => ({ rank: i + 1, id: document.id, place: i, score: 0 })),
});
globalThis.fetch = async (path, options) => ({
  ok: true, status: 200,
  json: async () => (path === "model" ? MODEL
    : { model_version: "v", queries: JSON.parse(options.body).queries.map(rank) }),
});
const settle = () => new Promise((done) => setTimeout(done));
const submit = async (text) => {
  $get("rows").value = text;
  made.ask.onsubmit({ preventDefault() {} });
  await settle();
};
const shown = () => ({
  told: $get("told").textContent, isError: made.told.className === "error", results: $get("results").children.length,
});
"""


def node(script):
    """What a script prints as JSON, run by Node."""
    binary = shutil.which("node")
    if binary is None:
        pytest.skip("no Node to run the script of the page with")
    done = subprocess.run([binary, "-"], input=script, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def read_all(texts, model):
    """What the page makes of each text: a request, or the line that refuses it."""
    return node(
        f"{(ASSETS / 'rows.js').read_text()}\n"
        f"const told = {json.dumps(texts)}.map((text) => {{ try {{ return readRows(text, {json.dumps(model)}, "
        f"{json.dumps(WELL_KNOWN)}); }} catch (error) {{ return error.message; }} }});\n"
        "console.log(JSON.stringify(told));"
    )


def test_rows_that_are_read():
    letor = "2 qid:7 1:0.5 2:3 # docid = x inc = 1\n\n0 qid:7 2:1\n1 qid:8 1:NULL\n"
    semicolons = 'query;doc;grade;clicks;bm25\n7;"x;y";2;3;0.5\n8;z;0;;1e-3\n'
    tabs = "docno\tbm25\tclicks\na\t1\t2\n"
    found = read_all([letor, semicolons, tabs, '[[1, 2], {"features": {"bm25": 1}, "id": 3}]'], NAMED)
    assert found[0] == {
        "queries": [
            {"id": "7", "documents": [{"id": "x", "features": [0.5, 3]}, {"id": "line 3", "features": [0, 1]}]},
            {"id": "8", "documents": [{"id": "line 4", "features": [None, 0]}]},
        ]
    }
    assert found[1] == {
        "queries": [
            {"id": "7", "documents": [{"id": "x;y", "features": [0.5, 3]}]},
            {"id": "8", "documents": [{"id": "z", "features": [0.001, None]}]},
        ]
    }
    assert found[2] == {"queries": [{"id": "", "documents": [{"id": "a", "features": [1, 2]}]}]}
    assert found[3] == {"documents": [{"features": [1, 2]}, {"features": {"bm25": 1}, "id": 3}]}
    in_order, by_name = read_all(["qid,left,right\n1,3,4\n", "f2,extra,f1\n1,2,3\n"], UNNAMED)
    assert in_order["queries"][0]["documents"][0]["features"] == [3, 4]
    assert by_name["queries"][0]["documents"][0]["features"] == [3, 1]


REFUSED = {
    "hello": 'line 1 is not a row: "hello"; give JSON, LETOR lines',
    "hello\nworld\nagain": 'line 1 is not a row: "hello"',
    "Dear all, this is a letter\nwith lines": "the feature bm25 is not among the columns",
    "1,2\n3,4": "line 1 must name the columns, but has only numbers",
    "qid,bm25\n1,2": 'the feature clicks is not among the columns "qid, bm25"',
    "qid,bm25,clicks": "there are no rows, only column names",
    "qid,bm25,clicks\n1,2": "line 2 has 2 fields, and the first line names 3 columns",
    "qid,bm25,clicks\n1,2,many": 'line 2: clicks must be a number, was "many"',
    'qid,bm25,clicks\n1,"2,3': "line 2: a quoted field does not end",
    "1 qid:3 1:0.5\nhello": 'line 2: the grade must be a number, was "hello"',
    "1 qid:3 1:0.5 word": 'line 1: "word" is not a feature such as 3:0.5',
    "1 qid:3 1:much": 'line 1: feature 1 must be a number, was "much"',
    "1 qid:3 3:1": "line 1: feature 3 is not one of 1 … 2",
    "1 qid:3 1:1\n2": 'line 2 is not a row: "2"',
    "# only a comment": "there are no rows",
    "[]": "there are no rows",
    "[1, 2": "this is not JSON",
    "  ": "paste some rows first",
}


def test_what_is_none_of_these_is_refused_in_one_line():
    found = read_all(list(REFUSED), NAMED)
    for (text, line), told in zip(REFUSED.items(), found, strict=True):
        assert isinstance(told, str), text
        assert told.startswith(line), text
        assert "\n" not in told


def test_a_change_of_the_rows_clears_what_was_said_of_the_old_ones():
    page = (ASSETS / "page.js").read_text()
    refused, example, ranked, again, opened = node(
        f"const MODEL = {json.dumps(NAMED)};\n{BROWSER}\n(() => {{ {(ASSETS / 'rows.js').read_text()}\n"
        f"const ROLES = {json.dumps(WELL_KNOWN)};\n{page} }})();\n"
        """(async () => {
          const seen = [];
          await settle();
          await submit("hello"); seen.push(shown());
          await made.example.onclick(); await settle(); seen.push(shown());
          await submit("1 qid:1 1:2\\n0 qid:1 2:3"); seen.push(shown());
          await submit("hello"); seen.push(shown());
          await submit("1 qid:1 1:2");
          made.file.files = [{ text: async () => "1 qid:1 1:1" }];
          await made.file.onchange(); seen.push({ ...shown(), rows: made.rows.value });
          console.log(JSON.stringify(seen));
        })();"""
    )
    assert refused["isError"]
    assert example == {"told": "", "isError": False, "results": 0}
    assert ranked["told"].startswith("2 documents ranked")
    assert ranked["results"] > 0
    assert (again["isError"], again["results"]) == (True, 0)
    assert opened == {"told": "", "isError": False, "results": 0, "rows": "1 qid:1 1:1"}


def test_docs_lists_every_route(tmp_path):
    gainful.save(gainful.ranker("regression").fit(train_data()), tmp_path / "model.gainful")
    with client_of(tmp_path / "model.gainful") as client:
        answer = client.get("/docs")
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/html")
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        for path, methods in client.get("/openapi.json").json()["paths"].items():
            for method in methods:
                assert f"{method.upper()} {path}" in answer.text
        home = client.get("/").text
        links = re.findall(r'href="([a-z./]+)"', home + answer.text)
        assert {"docs", "openapi.json", "./"} <= set(links)
        assert all(client.get(f"/{link.removeprefix('./')}").status_code == 200 for link in links)


def test_features_of_text_are_sent_as_text():
    model = NAMED | {"feature_names": ["bm25", "brand"], "text_features": ["brand"]}
    (request,) = read_all(["qid,bm25,brand\n1,0.5,acme\n1,2,\n"], model)
    assert [one["features"] for one in request["queries"][0]["documents"]] == [[0.5, "acme"], [2, None]]
