"""``ClickLog``: grouping, checks, counts of what was mended."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gainful import ClickLog, DataError, DataWarning, ParameterError

ROWS = {
    "session": [1, 1, 1, 2, 2],
    "query": ["shoes", "shoes", "shoes", "hats", "hats"],
    "position": [1, 2, 3, 1, 2],
    "document": ["a", "b", "c", "d", "a"],
    "clicked": [0, 1, 0, 0, 0],
}


def log_of(**changed):
    return ClickLog.from_rows(**(ROWS | changed))


def pages_of(log):
    """Query, documents, positions and clicks of each page, with ids."""
    return [
        (
            log.query_ids[log.query[i]],
            log.document_ids[log.document[a:b]].tolist(),
            log.position[a:b].tolist(),
            log.clicked[a:b].tolist(),
        )
        for i, (a, b) in enumerate(zip(log.offsets[:-1], log.offsets[1:], strict=True))
    ]


def test_rows_become_pages():
    log = log_of()
    assert pages_of(log) == [
        ("shoes", ["a", "b", "c"], [1, 2, 3], [False, True, False]),
        ("hats", ["d", "a"], [1, 2], [False, False]),
    ]
    assert (log.n_pages, log.n_rows, log.n_queries, log.n_sessions, log.n_clicks) == (2, 5, 2, 2, 1)
    assert log.clicks_by_position.tolist() == [0, 1, 0]
    assert log.shown_by_position.tolist() == [2, 2, 1]
    assert log.clicks_by_page.tolist() == [1, 0]
    assert log.mended.lines() == []
    assert repr(log) == "ClickLog(2 pages, 5 documents shown, 1 clicks)"


def test_a_log_is_read_only():
    log = log_of()
    with pytest.raises(ValueError, match="read-only"):
        log.clicked[0] = True
    with pytest.raises(AttributeError):
        log.clicked = None


@settings(deadline=None)
@given(st.permutations(range(5)))
def test_the_order_of_rows_does_not_matter(order):
    shuffled = {name: [column[i] for i in order] for name, column in ROWS.items()}
    assert sorted(pages_of(ClickLog.from_rows(**shuffled))) == sorted(pages_of(log_of()))


def test_positions_from_zero_are_counted_from_one():
    log = log_of(position=[0, 1, 2, 0, 1])
    assert log.position.tolist() == [1, 2, 3, 1, 2]
    assert log.mended.counted_from_zero == 5


def test_a_document_shown_twice_is_merged():
    with pytest.warns(DataWarning, match="1 row with a document shown before on the same page was merged"):
        log = log_of(document=["a", "b", "a", "d", "a"], clicked=[0, 0, 1, 0, 0])
    assert pages_of(log)[0] == ("shoes", ["a", "b"], [1, 2], [True, False])
    assert log.mended.repeated_documents == 1


def test_a_page_with_a_repeated_document_can_be_dropped():
    with pytest.warns(DataWarning, match="1 page that shows a document twice was dropped"):
        log = log_of(document=["a", "b", "a", "d", "a"], repeats="drop")
    assert [query for query, *_ in pages_of(log)] == ["hats"]


@pytest.mark.parametrize(
    ("holes", "positions", "counter"),
    [("keep", [1, 2, 5], "holes_kept"), ("close", [1, 2, 3], "holes_closed"), ("drop", None, "holes_dropped")],
)
@pytest.mark.filterwarnings("ignore::gainful.errors.DataWarning")
def test_holes(holes, positions, counter):
    log = log_of(position=[1, 2, 5, 1, 2], holes=holes)
    found = {query: places for query, _, places, _ in pages_of(log)}
    assert found.get("shoes") == positions
    assert found["hats"] == [1, 2]
    assert getattr(log.mended, counter) == 1


def test_a_later_page_of_results_has_no_hole():
    log = log_of(position=[11, 12, 13, 1, 2], holes="close")
    assert log.position.tolist() == [11, 12, 13, 1, 2]
    assert log.mended.lines() == []


def test_two_documents_in_one_position_drop_the_page():
    with pytest.warns(DataWarning, match="1 page with two documents in one position was dropped"):
        log = log_of(position=[1, 1, 2, 1, 2])
    assert log.n_pages == 1


def test_rows_without_a_position_were_not_shown():
    with pytest.warns(DataWarning, match=r"1 click on a document that was not shown .*; 1 row without a position"):
        log = log_of(position=[1, np.nan, 2, 1, np.nan])
    assert log.n_rows == 3
    assert log.mended.clicks_not_shown == log.mended.rows_without_position == 1


def test_pages_tell_apart_what_session_and_query_do_not():
    log = log_of(session=[1] * 5, query=["shoes"] * 5, page=[1, 1, 1, 2, 2])
    assert log.n_pages == 2


def test_all_columns_follow_their_rows():
    order = [4, 2, 0, 3, 1]
    columns = {
        "propensity": np.arange(1, 6) / 5,
        "time": np.arange(5.0),
        "dwell": np.arange(5.0),
        "grade": np.arange(5),
    }
    X = np.arange(10.0).reshape(5, 2)
    shuffled = {name: [column[i] for i in order] for name, column in (ROWS | columns).items()}
    log = ClickLog.from_rows(**shuffled, features=X[order], feature_names=["x", "y"])
    for i in range(5):
        row = int(log.time[i])
        assert log.document_ids[log.document[i]] == ROWS["document"][row]
        assert log.features[i].tolist() == X[row].tolist()
        assert log.propensity[i] == columns["propensity"][row]
    data = log.to_data(propensity=log.propensity)
    assert data.n_queries == 2
    assert data.y.tolist() == log.clicked.astype(float).tolist()
    assert data.feature_names == ("x", "y")


def test_some_pages():
    log = log_of()
    assert pages_of(log.pages([1, 0])) == pages_of(log)[::-1]
    assert pages_of(log.pages(log.clicks_by_page > 0)) == pages_of(log)[:1]
    with pytest.raises(DataError, match="no page is chosen"):
        log.pages([])


def test_pages_are_mended_a_few_at_a_time(monkeypatch):
    """A page is never cut, whatever the order of rows."""
    rng = np.random.default_rng(0)
    n = 200
    rows = {
        "session": rng.integers(0, 40, n),
        "query": np.zeros(n),
        "position": rng.integers(0, 9, n),
        "document": rng.integers(0, 9, n),
        "clicked": rng.integers(0, 2, n),
    }
    with pytest.warns(DataWarning):
        whole = ClickLog.from_rows(**rows)
    monkeypatch.setattr("gainful.clicks.pages.ROWS_AT_ONCE", 3)
    with pytest.warns(DataWarning):
        parts = ClickLog.from_rows(**rows)
    assert pages_of(parts) == pages_of(whole)
    assert parts.mended == whole.mended


def test_other_clicks():
    assert log_of().with_clicks([1, 1, 1, 1, 1]).n_clicks == 5


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"clicked": [0, 0.5, 0, 0, 0]}, "clicked of row 1 must be 0, 1 or a number of clicks, was 0.5"),
        ({"position": [1, 2.5, 3, 1, 2]}, r"the position of row 1 must be a whole number from 0 to 1,000,000, was 2.5"),
        ({"position": [1, -2, 3, 1, 2]}, "the position of row 1"),
        ({"document": ["a", None, "c", "d", "a"]}, "document of row 1 is missing"),
        ({"query": ["a"]}, "query has 1 entries for 5 rows"),
        ({"page": [1]}, "page has 1 entries for 5 rows"),
        ({"propensity": [0, 1, 1, 1, 1]}, "the propensity of row 0 must be a probability above 0, was 0"),
        ({"features": np.ones((2, 2))}, "features has 2 rows for 5 rows of the log"),
        ({"position": [np.nan] * 5}, "no rows with a position"),
    ],
)
def test_wrong_columns_are_refused(changed, message):
    with pytest.raises(DataError, match=message):
        log_of(**changed)


def test_wrong_policies_are_refused():
    with pytest.raises(ParameterError, match="holes of the click log must be 'keep' or 'close' or 'drop', was 'fill'"):
        log_of(holes="fill")


def test_no_page_left():
    with pytest.raises(DataError, match="no page is left: 2 pages with two documents in one position were dropped"):
        log_of(position=[1, 1, 2, 1, 1])


def test_data_needs_features():
    with pytest.raises(DataError, match="has no features"):
        log_of().to_data()


@pytest.mark.parametrize("page", [[1, 1, 1, 1, 1], ["p", "p", "q", "p", "p"]])
def test_pages_of_several_sessions_may_have_the_same_id(page):
    """Pages are often numbered anew in every session."""
    log = log_of(page=page, query=["shoes"] * 5)
    assert log.n_pages == 1 + len(set(page))
    assert log.n_rows == 5


def test_a_stray_zero_does_not_shift_the_log():
    with pytest.warns(DataWarning, match="1 row with position 0 was dropped, since positions are counted from 1"):
        log = log_of(position=[0, 1, 2, 1, 2])
    assert log.position.tolist() == [1, 2, 1, 2]
    assert log.mended.counted_from_zero == 0
    assert log.mended.positions_of_zero == 1


def test_a_repeated_query_of_a_session_asks_for_the_page():
    with pytest.warns(DataWarning, match="name the column that tells its pages apart with page=…"):
        log_of(session=[1] * 5, query=["shoes"] * 5, position=[1, 2, 3, 4, 5])
    with pytest.raises(DataError, match=r"no page is left.* pages apart with page=…"):
        log_of(session=[1] * 5, query=["shoes"] * 5)


def test_several_clicks_are_one_and_a_missing_value_is_none():
    with pytest.warns(DataWarning, match="1 row without a value of clicked was taken as not clicked"):
        log = log_of(clicked=[0, 3, np.nan, 0, 0])
    assert log.clicked.tolist() == [False, True, False, False, False]
    assert (log.mended.missing_clicks, log.mended.repeated_clicks) == (1, 2)
