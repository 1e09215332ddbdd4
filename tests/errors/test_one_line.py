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
