"""Bodies read by compiled code: what it reads is what ``schema`` reads, and it leaves the rest alone."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from serve_examples import train_data

import gainful
from gainful.errors import GainfulError
from gainful.serve.model_slot import ModelSlot
from gainful.serve.plain_bodies import RankRequest, ScoreRequest, read_plain
from gainful.serve.scoring import Job, TooManyRowsError

N_FEATURES, MAX_ROWS = 4, 6


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    path = tmp_path_factory.mktemp("plain") / "model.gainful"
    gainful.save(gainful.LambdaMART(n_trees=3, n_leaves=4, n_jobs=1).fit(train_data()), path)
    return ModelSlot(path).current


def rows_of(*numbers):
    """The values that a text with these numbers gives, or None if it is left alone."""
    found = read_plain(ScoreRequest, b'{"rows": [[%s]]}' % ", ".join(numbers).encode(), len(numbers), MAX_ROWS)
    return None if found is None else found[1].tolist()[0]


# -- numbers -----------------------------------------------------------------------------------------------------------

NUMBERS = st.one_of(
    st.integers(-(10**18), 10**18).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(-10, 10).map(lambda value: f"{value:.6f}"),
    st.floats(0.1, 10).map(lambda value: f"{value:.17f}"),
    st.decimals(-1000, 1000, places=9).map(str).filter(lambda text: "E" not in text),
    st.tuples(st.integers(-999, 999), st.integers(-330, 310)).map(lambda pair: f"{pair[0]}E{pair[1]:+d}"),
    st.sampled_from(["0", "-0", "-0.0", "0e5", "-0e5", "1e22", "9007199254740993", "0.1e-5", "99999999.99999999"]),
)


@settings(max_examples=60)
@given(st.lists(NUMBERS, min_size=1, max_size=6))
def test_numbers_are_those_of_python(numbers):
    found = rows_of(*numbers)
    if found is not None:
        expected = [float(json.loads(number)) for number in numbers]
        assert np.array(found).tobytes() == np.array(expected).tobytes()
    else:
        assert any(is_rare(number) for number in numbers)


def is_rare(number):
    digits = number.lower().partition("e")[0].strip("-").replace(".", "").strip("0")
    value = abs(float(number))
    return len(digits) > 17 or value == math.inf or value < 1e-290


def test_null_is_missing():
    assert math.isnan(rows_of("1", "null")[1])


@pytest.mark.parametrize(
    "number",
    ["01", "1.", ".5", "+1", "-", "1e", "1e999", "nul", "-null", "NaN", "true", '"1"', "[1]",
     "1 2", "1,", "0x1", "1.5.5", "00.5", "-01", "1e1e1", "٣", "\x0b1"],
)  # fmt: skip
def test_what_is_not_a_number_is_left_alone(number):
    assert rows_of(number, "1") is None
    assert rows_of("1", number) is None


# -- requests ----------------------------------------------------------------------------------------------------------


def text_of(value, spaces):
    return json.dumps(value, separators=spaces).encode()


IDS = st.one_of(st.none(), st.text(max_size=3), st.integers(), st.sampled_from(["a" * 1000, "a" * 1001, 1.0, True]))
ROWS = st.lists(
    st.none() | st.integers(-3, 3) | st.floats(-1e3, 1e3).map(lambda value: round(value, 3)), min_size=4, max_size=4
)
FEATURES = ROWS | st.sampled_from([{"bm25": 1}, [], [1, 2, 3], [1, "2", 3, 4], "\x7f", [[]], [1e200, 1, 1, 1], None])
DOCUMENTS = st.lists(st.fixed_dictionaries({"features": ROWS}, optional={"id": IDS}), max_size=4)
ODD_DOCUMENTS = (
    st.lists(st.fixed_dictionaries({}, optional={"id": IDS | ROWS, "features": FEATURES}), max_size=3) | ROWS
)
QUERIES = st.lists(st.fixed_dictionaries({"documents": DOCUMENTS | ODD_DOCUMENTS}, optional={"id": IDS}), max_size=4)
SETTINGS = {
    "top": st.sampled_from([None, 1, 2, 10**30, 0, 1.0, True]) | ROWS,
    "contributions": st.sampled_from([True, False, None, 1]),
    "top_features": st.sampled_from([None, 1, 0, 2.0]),
}
REQUESTS = st.one_of(
    st.fixed_dictionaries({"documents": DOCUMENTS}),
    st.fixed_dictionaries({"queries": QUERIES}, optional=SETTINGS),
    st.fixed_dictionaries({"documents": DOCUMENTS}, optional=SETTINGS),
    st.fixed_dictionaries({"documents": ODD_DOCUMENTS}, optional={"queries": QUERIES, "other": ROWS}),
    st.fixed_dictionaries({"rows": st.lists(ROWS, max_size=7)}, optional=SETTINGS),
    st.fixed_dictionaries({"rows": st.lists(FEATURES, max_size=3)}, optional=SETTINGS),
)
PIECES = st.sampled_from([b'"', b"\\", b"[", b"]", b"{", b"}", b",", b":", b" ", b"\n", b"0", b"-", b".", b"e", b"null",
                          b"\x7f", rb"\u007f", rb"\u007F", rb"\ud800", b"\xff", b'"id":1,', b'"features":[1,2,3,4],',
                          b""])  # fmt: skip
DAMAGE = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 2), PIECES), max_size=3)


def damaged(body, damage):
    for where, length, piece in damage:
        at = int(where * len(body))
        body = body[:at] + piece + body[at + length :]
    return body


def outcome(job, kind, body):
    try:
        return getattr(job, kind)(body)
    except (GainfulError, TooManyRowsError) as error:
        return type(error), str(error)


@settings(max_examples=80)
@given(REQUESTS, st.sampled_from([(",", ":"), (", ", ": "), (" ,\n\t", " :\r\n")]), st.just([]) | DAMAGE)
def test_requests_are_answered_as_without_compiled_code(served, request_, spaces, damage):
    body = damaged(text_of(request_, spaces), damage)
    kind = "score" if "rows" in request_ else "rank"
    job = Job(served, math.inf, MAX_ROWS)
    quick = outcome(job, kind, body)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Job, "_plain_request", lambda *given: None)
        assert outcome(job, kind, body) == quick


def test_ordinary_requests_are_read_by_compiled_code():
    X = np.random.default_rng(0).standard_normal((5, N_FEATURES))
    documents = [{"id": f"é{i}", "features": row} for i, row in enumerate(X.tolist())]
    queries = [{"id": 1, "documents": documents[:2]}, {"documents": documents[2:]}]
    for kind, body in (
        (RankRequest, {"documents": documents, "top": 3, "contributions": True}),
        (RankRequest, {"queries": queries}),
        (ScoreRequest, {"rows": X.tolist(), "top_features": 1}),
    ):
        request, values = read_plain(kind, text_of(body, None), N_FEATURES, MAX_ROWS)
        assert np.array_equal(values, X)
    assert request.top_features == 1


def test_a_mark_is_not_taken_for_a_list():
    """A list where none belongs, and the string that stands for lists where one belongs: together, the counts agree."""
    for mark in (b"\x7f", rb"\u007f", rb"\u007F"):
        body = b'{"documents": [{"id": [1, 2, 3, 4], "features": "%s"}]}' % mark
        assert read_plain(RankRequest, body, N_FEATURES, MAX_ROWS) is None
    body = b'{"queries": [{"documents": [1, 2, 3, 4]}, {"documents": [{"features": []}]}]}'
    assert read_plain(RankRequest, body, N_FEATURES, MAX_ROWS) is None
