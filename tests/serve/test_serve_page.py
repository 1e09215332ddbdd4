"""What the page makes of the text in its box: which rows it reads, and which it refuses, with their place."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest
from serve_examples import client_of, train_data

import gainful
from gainful.formats.table.writer import WELL_KNOWN
from gainful.serve.page import asset

NAMED = {
    "n_features": 2,
    "feature_names": ["bm25", "clicks"],
    "text_features": [],
    "accepts_missing": True,
    "ranker": "LambdaMART",
}
UNNAMED = NAMED | {"feature_names": None}
COMPLETE = NAMED | {"accepts_missing": False, "ranker": "RegressionRanker"}


def read_all(texts, model):
    """What the page makes of each text, run by Node: what it read, or the line that refuses it."""
    binary = shutil.which("node")
    if binary is None:
        pytest.skip("no Node to run the scripts of the page with")
    scripts = "\n".join(asset(name) for name in ("rows.js", "csv_rows.js", "json_rows.js"))
    script = (
        f"const ROLES = {json.dumps(WELL_KNOWN)};\n{scripts}\n"
        f"const found = {json.dumps(texts)}.map((text) => {{ try {{ return readRows(text, {json.dumps(model)}); }} "
        "catch (error) { return error.message; } });\n"
        "console.log(JSON.stringify(found));"
    )
    done = subprocess.run([binary, "-"], input=script, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def plain(read):
    """[(query, [(document, grade, features), …]), …], and what was not used."""
    assert isinstance(read, dict), read
    queries = [
        (query["id"], [(one["id"], one["grade"], one["features"]) for one in query["documents"]])
        for query in read["queries"]
    ]
    return queries, read["unused"]


# The same two queries in every form that keeps ids, grades and a missing value.
SAME = [
    "2 qid:7 1:0.5 2:3 # docid = x inc = 1\n# a comment\n\n0 qid:7 2:1 #y\n1 qid:8 1:NULL #docid=z\n",
    "query,doc,grade,clicks,bm25\n7,x,2,3,0.5\n7,y,0,1,0\n8,z,1,0,\n",
    'relevance;"bm25";docno;"clicks";qid\r\n2;0.5;"x";3;7\r\n0;0;y;1;7\r\n1;NaN;z;0;8\r\n',
    "doc_id\tlabel\tqid\tbm25\tclicks\nx\t2\t7\t.5\t3e0\ny\t0\t7\t0\t+1\nz\t1\t8\t\t0",
    '[{"qid": "7", "doc_id": "x", "grade": 2, "bm25": 0.5, "clicks": 3}, {"qid": "7", "id": "y", "label": 0, "bm25": 0,'
    ' "clicks": 1}, {"clicks": 0, "bm25": null, "qid": "8", "doc": "z", "rel": 1}]',
    '{"qid": "7", "id": "x", "grade": 2, "bm25": 0.5, "clicks": 3}\n'
    '{"qid": "7", "id": "y", "grade": 0, "bm25": 0, "clicks": 1}\n\n{"qid": "8", "id": "z", "grade": 1, "clicks": 0}\n',
    '{"queries": [{"id": "7", "documents": [{"id": "x", "grade": 2, "features": [0.5, 3]}, {"id": "y", "grade": 0, '
    '"features": {"clicks": 1, "bm25": 0}}]}, {"id": "8", "documents": [{"id": "z", "grade": 1, "features": [null, 0]}'
    ']}], "top": 3}',
]


def test_every_form_reads_the_same():
    expected = [("7", [("x", 2, [0.5, 3]), ("y", 0, [0, 1])]), ("8", [("z", 1, [None, 0])])]
    for text, read in zip(SAME, read_all(SAME, NAMED), strict=True):
        assert plain(read) == (expected, []), text


BODIES = {
    "[[1, 2], [3, 4]]": [(None, [(0, None, [1, 2]), (1, None, [3, 4])])],
    '{"documents": [{"features": [1, 2]}], "contributions": true}': [(None, [(0, None, [1, 2])])],
    '{"rows": [[1, 2], {"bm25": 3, "clicks": 4}]}': [(None, [(0, None, [1, 2]), (1, None, [3, 4])])],
    '{"a": [1, 2], "b": [3, 4], "top_features": 1}': [(None, [("a", None, [1, 2]), ("b", None, [3, 4])])],
    '{"bm25": 1, "clicks": 2}': [(None, [(0, None, [1, 2])])],
    '[{"documents": [[1, 2]]}]': [(None, [(0, None, [1, 2])])],
    'bm25,clicks\n1,"2"\n': [(None, [("row 1", None, [1, 2])])],
    'bm25,doc_id,clicks\n1,"say ""a, b""\nc",2\n': [(None, [('say "a, b"\nc', None, [1, 2])])],
    "1 qid:3 1:1\n1 qid:4 1:2\n1 qid:3 1:3": [
        ("3", [("line 1", 1, [1, 0]), ("line 3", 1, [3, 0])]),
        ("4", [("line 2", 1, [2, 0])]),
    ],
}


def test_bodies_of_requests_and_short_forms():
    for (text, expected), read in zip(BODIES.items(), read_all(list(BODIES), NAMED), strict=True):
        assert plain(read) == (expected, []), text


def test_columns_by_name_by_order_and_unused():
    in_order, by_name, too_many, objects = read_all(
        ["qid,left,right\n1,3,4\n", "f2,extra,f1\n1,2,3\n", "a,b,c\n1,2,3\n", '[{"f1": 1, "more": 2}]'], UNNAMED
    )
    assert plain(in_order) == ([("1", [("row 1", None, [3, 4])])], [])
    assert plain(by_name) == ([(None, [("row 1", None, [3, 1])])], ["extra"])
    assert too_many == "line 1, character 1: expected 2 columns of features, as the model has, found 3"
    assert plain(objects) == ([(None, [(0, None, [1, None])])], ["more"])


REFUSED = {
    "  ": "there are no rows yet",
    "# only a comment": "there are only comments",
    "hello\nworld": 'line 1, character 1: give JSON, LETOR lines (grade qid:1 1:0.5 …), or CSV',
    # LETOR
    "1 qid:3 1:0.5\nhello 1:2": 'line 2, character 1: expected a number as grade, found "hello"',
    "1 qid:3 1:0.5 word": 'line 1, character 15: expected a feature such as 3:0.5, found "word"',
    "1 qid:3 1:1\r\n0  qid:3 1:much": 'line 2, character 12: expected a number for feature 1, found "much"',
    "1 qid:3 1:0x10": 'line 1, character 11: expected a number for feature 1, found "0x10"',
    "1 qid:3 3:1": "line 1, character 9: expected a feature from 1 to 2, as the model has, found 3",
    "1 qid:3 0:1": "line 1, character 9: expected a feature from 1 to 2, as the model has, found 0",
    "1 qid:3 1:1 1:2": "line 1, character 13: expected each feature once, found feature 1 again",
    "1 qid:3 1:1\n2": "line 2, character 1: expected qid:… or features after the grade",
    # CSV
    "1,2\n3,4": "line 1, character 1: expected the names of the columns, found only numbers",
    "qid,bm25\n1,2": 'line 1, character 1: expected a column for the feature clicks, found the columns "qid, bm25"',
    "Dear all, this is a letter\nwith lines": "line 1, character 1: expected a column for the feature bm25",
    "qid,query,bm25,clicks\n1,2,3,4": "line 1, character 5: expected one column for the query, found qid and query",
    "bm25,clicks,bm25\n1,2,3": 'line 1, character 13: expected each column once, found "bm25" again',
    "qid,bm25,clicks": "line 1, character 16: expected a row below the names of the columns, found none",
    "qid,bm25,clicks\n1,2": "line 2, character 1: expected 3 fields, as the first line has, found 2",
    "# note\nqid,bm25,clicks\n1,2, many": 'line 3, character 6: expected a number for clicks, found "many"',
    'qid,bm25,clicks\n1,"2,3': "line 2, character 3: expected a quote that ends this field, found none",
    "bm25,clicks,grade\n1,2,good": 'line 2, character 5: expected a number for grade, found "good"',
    "bm25,clicks\n1,1e999": 'line 2, character 3: expected a number for clicks, found "1e999"',
    # JSON
    "[]": "line 1, character 1: expected documents, found none",
    '{"documents": []}': "line 1, character 1: expected documents, found none",
    "[1, 2": 'line 1, character 6: expected a comma or ], found the end',
    '[[1, 2],\n [3 4]]': 'line 2, character 5: expected a comma or ], found "4"',
    '[[1, 2],]': 'line 1, character 9: expected a value, found "]"',
    '{"documents": [{"features": [1, NaN]}]}': 'line 1, character 33: expected a value, found "NaN"',
    "{bm25: 1}": 'line 1, character 2: expected a name in quotes, found "bm25"',
    "[[1, 2]] [3]": 'line 1, character 10: expected nothing after the end, found "["',
    "[1, 2]": "line 1, character 2: expected a list of numbers or an object, found 1; one row is [[1, 2, …]]",
    '[[1, 2],\n [3, "4"]]': 'line 2, character 6: expected a number for clicks, found "4"',
    "[[1, 2], [3]]": "line 1, character 10: expected 2 features, as the model has, found 1",
    '[{"bm25": 1, "clicks": [2]}]': "line 1, character 24: expected a number for clicks, found a list",
    '[{"width": 1}]': 'line 1, character 2: expected features such as "bm25", found "width"',
    '{"documents": [{"features": {"bm25": 1, "click": 2}}]}': 'line 1, character 50: expected a feature of the model',
    '{"documents": [{"id": [], "features": [1, 2]}]}': "line 1, character 23: expected text or a number, found a list",
    '{"documents": {}}': "line 1, character 15: expected a list, found an object",
    '{"documents": [], "rows": []}': "line 1, character 27: expected documents or rows, found both",
    '{"documents": [[1, 2]], "color": 1}': "line 1, character 34: expected only documents and settings",
    '{"queries": [{"id": 1}]}': "line 1, character 14: expected a query with a list of documents",
    '{"bm25": 1, "clicks": 2}\n{"bm25": 1, "clicks": "x"}': 'line 2, character 23: expected a number for clicks',
    '{"bm25": 1}\n{"bm25": 1,, }': 'line 2, character 12: expected a name in quotes, found ","',
    "[" * 200: "line 1, character 102: expected at most 100 levels",
}  # fmt: skip


def test_what_cannot_be_read_is_refused_with_its_place():
    found = read_all(list(REFUSED), NAMED)
    for (text, line), refusal in zip(REFUSED.items(), found, strict=True):
        assert isinstance(refusal, str), (text, refusal)
        assert refusal.startswith(line), text
        assert "\n" not in refusal


def test_a_model_that_needs_every_feature_refuses_missing_ones():
    texts = ["bm25,clicks\n1,\n", '[{"bm25": 1}]', "[[1, null]]", "1 qid:1 2:NaN"]
    for line, refusal in zip((2, 1, 1, 1), read_all(texts, COMPLETE), strict=True):
        assert re.match(
            rf"line {line}, character \d+: expected a number for \S+( \d)?: RegressionRanker needs", refusal
        )


def test_features_of_text_are_sent_as_text():
    model = NAMED | {"feature_names": ["bm25", "brand"], "text_features": ["brand"]}
    texts = ["qid,bm25,brand\n1,0.5,acme\n1,2,\n", '[{"bm25": 0.5, "brand": "acme"}, {"bm25": 2}]']
    for read in read_all(texts, model):
        assert [one["features"] for one in read["queries"][0]["documents"]] == [[0.5, "acme"], [2, None]]


def test_docs_lists_every_route_and_object(tmp_path):
    gainful.save(gainful.ranker("regression").fit(train_data()), tmp_path / "model.gainful")
    with client_of(tmp_path / "model.gainful", beside=tmp_path / "model.gainful") as client:
        answer = client.get("/docs")
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/html")
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        described = client.get("/openapi.json").json()
        for path, methods in described["paths"].items():
            for method in methods:
                assert f"<code>{method.upper()} {path}</code></h2>" in answer.text
        for name, schema in described["components"]["schemas"].items():
            used = f'"#/components/schemas/{name}"' in json.dumps(described)
            assert (f'<section id="{name}">' in answer.text) == used
            assert not used or all(f"<code>{field}</code>" in answer.text for field in schema.get("properties", ()))
        inside = set(re.findall(r'href="#([^"]+)"', answer.text))
        assert inside <= set(re.findall(r' id="([^"]+)"', answer.text))
        links = re.findall(r'href="([a-z./]+)"', client.get("/").text + answer.text)
        assert {"docs", "openapi.json", "./"} <= set(links)
        assert all(client.get(f"/{link.removeprefix('./')}").status_code == 200 for link in links)
