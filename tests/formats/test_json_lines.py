"""JSON Lines: objects as rows, nested objects opened, one-line errors with the line."""

from __future__ import annotations

import gzip
import json
import math

import pytest

import gainful
from gainful import FormatError
from gainful.formats.convert import convert
from gainful.formats.json_lines import reader


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


ROWS = [
    {"qid": "b", "grade": 1, "bm25": 2.5, "clicks": 3},
    {"qid": "a", "grade": 0, "bm25": 1, "clicks": None},
    {"qid": "b", "grade": 2, "bm25": -1e-3},
]


def test_objects_are_rows(tmp_path):
    data = gainful.read(write_lines(tmp_path / "a.jsonl", ROWS))
    assert data.query_ids.tolist() == ["b", "a"]
    assert data.y.tolist() == [1, 2, 0]
    assert data.feature_names == ("bm25", "clicks")
    assert data.X[:, 0].tolist() == [2.5, -1e-3, 1]
    assert data.X[0, 1] == 3
    assert all(map(math.isnan, data.X[1:, 1]))
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress((tmp_path / "a.jsonl").read_bytes()))
    assert gainful.read(tmp_path / "b.jsonl.gz").equals(data)
    convert(tmp_path / "a.jsonl", tmp_path / "a.gnf")
    assert gainful.read(tmp_path / "a.gnf").equals(data)


def test_nested_objects_are_opened_one_level(tmp_path):
    rows = [{"qid": 1, "grade": 1, "features": {"bm25": 2.5, "age": 1}}, {"qid": 1, "grade": 0, "features": {"age": 2}}]
    data = gainful.read(write_lines(tmp_path / "a.jsonl", rows))
    assert data.feature_names == ("features.bm25", "features.age")
    assert data.query_ids.tolist() == [1]
    rows[0]["features"]["age"] = {"days": 1}
    rows[1]["features"]["age"] = {"days": 2}
    with pytest.raises(FormatError, match=r"column 'features.age' must be numeric, but holds lists or records"):
        gainful.read(write_lines(tmp_path / "a.jsonl", rows))


def test_fields_and_types_may_first_appear_late(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "CHUNK_BYTES", 64)
    rows = [{"qid": i // 3, "grade": i % 3, "a": i} for i in range(30)]
    rows[20]["b"] = 0.5
    rows[21]["a"] = 0.25
    rows[22]["a"] = None
    data = gainful.read(write_lines(tmp_path / "a.jsonl", rows))
    assert data.feature_names == ("a", "b")
    assert data.X[20:22].tolist()[0] == [20, 0.5]
    assert data.X[21, 0] == 0.25
    assert math.isnan(data.X[22, 0])


def test_ids_that_look_like_dates_stay_text(tmp_path):
    rows = [{"qid": "2024-01-01", "grade": 1, "a": 1}, {"qid": "2024-01-02 10:00:00", "grade": 0, "a": 2}]
    assert gainful.read(write_lines(tmp_path / "a.jsonl", rows)).query_ids.tolist() == [row["qid"] for row in rows]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"qid": 1, "grade": 1}\n{"qid": 1, "grade" 2}\n', "a.jsonl, line 2: the line is not JSON: "),
        ('{"qid": 1, "grade": 1}\n[1, 2]\n', r"a.jsonl, line 2: expected an object, \{…\}, found \[1, 2\]"),
        (
            '{"qid": 1, "grade": 1}\n{"qid": 1, "grade": "high"}\n',
            "2: field 'grade' holds text, but a number on line 1",
        ),
        ('{"qid": 1, "grade": 1, "a": [1]}\n', "a.jsonl: column 'a' must be numeric, but holds lists or records"),
        ('{"qid": 1, "a": 1}\n', "a.jsonl: cannot tell which column is the grade; pass grade='…' with one of qid, a"),
        ('{"qid": 1, "grade": -1, "a": 1}\n', "a.jsonl: grade of row 0 must be finite and not negative, was -1"),
        ('{"qid": null, "grade": 1, "a": 1}\n', "a.jsonl: "),
        ('null\n{"qid": 1, "grade": 1}\n', "a.jsonl, line 1: expected an object, .*, found None"),
        ('{"qid": 1, "grade": 1} null\n', "a.jsonl, line 1: the line is not JSON: Extra data"),
        ('{"qid": 1, "grade": 1}\n{"qid": 1, "grade": ' + "[" * 100_000 + "\n", "a.jsonl, line 2: the line"),
        ('{"qid": 1, "grade": 1, "\xff": 2}\n', "a.jsonl, line 1: the line is not UTF-8 text"),
        ("\n\n", "a.jsonl: there are no rows, only blank lines"),
        ('{"qid": "\xff", "grade": 1}\n', "a.jsonl, line 1: the line is not UTF-8 text"),
    ],
)
def test_errors_name_file_and_line(tmp_path, text, told):
    (tmp_path / "a.jsonl").write_bytes(text.encode("latin-1"))
    with pytest.raises(FormatError, match=told):
        gainful.read(tmp_path / "a.jsonl")


def test_kinds_that_change_between_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "CHUNK_BYTES", 16)
    rows = [{"qid": 1, "grade": 1, "a": 1}, {"qid": 1, "grade": 0, "a": "x"}]
    with pytest.raises(FormatError, match="field 'a' holds whole numbers and later text; a field must"):
        gainful.read(write_lines(tmp_path / "a.jsonl", rows))


def test_memory_is_bounded(tmp_path):
    rows = [{"qid": i, "grade": 1, "a": i} for i in range(1000)]
    write_lines(tmp_path / "a.jsonl", rows)
    with pytest.raises(FormatError, match="the first 1,000 rows alone would take"):
        gainful.read(tmp_path / "a.jsonl", max_bytes=1000)
