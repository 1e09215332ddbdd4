"""Every error is one line, whatever the names in it hold."""

from __future__ import annotations

import pytest

import gainful
from gainful.errors import DataError, FormatError, ParameterError


@pytest.mark.parametrize("kind", [DataError, FormatError, ParameterError])
def test_line_breaks_are_written_as_escapes(kind):
    assert str(kind("a\nb\r\nc")) == "a\\nb\\r\\nc"
    assert str(kind("a\u2028b\x85c\x0bd é")) == "a\\u2028b\\x85c\\x0bd é"


def test_a_column_name_with_a_line_break(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('qid,grade,"two\nlines"\n1,1,2020-01-01\n')
    with pytest.raises(FormatError, match=r"column 'two\\nlines' must be numeric") as caught:
        gainful.read(path)
    assert "\n" not in str(caught.value)


def test_long_names_are_cut_from_messages():
    text = str(DataError(f"data.csv, line 7: {'a' * 100_000} is not a number; write one"))
    assert len(text) <= 1000
    assert text.startswith("data.csv, line 7: aaa")
    assert text.endswith("aaa is not a number; write one")


def test_a_long_query_id_is_cut(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text(f"1 qid:{'ab' * 600} 1:2\n1 qid:2 1:2\n1 qid:{'ab' * 600} 1:2\n")
    with pytest.raises(FormatError, match=r"line 3: query (ab){20,30}a?… ends at line 1 and starts again at line 3"):
        gainful.read(path)


def test_a_long_column_name_is_cut(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(f"q,grade,{'z' * 70_000}\n1,1,2\n")
    with pytest.raises(gainful.GainfulError, match=r"there is no column .*zzz … zzz") as caught:
        gainful.read(path, qid="xy")
    assert len(str(caught.value)) <= 1000
