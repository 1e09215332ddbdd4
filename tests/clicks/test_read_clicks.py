"""``read_clicks`` and ``write_clicks``: tables, JSON Lines, OpenSearch's logs, text."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from test_click_log import pages_of

import gainful
from gainful import ClickLog, DataError, DataWarning, FormatError, ParameterError, read_clicks, write_clicks

CSV = """session,query,position,document,clicked,user_id,dwell,bm25
s1,red shoes,1,a,0,u7,,1.5
s1,red shoes,2,b,1,u7,12.5,2.5
s2,null,1,c,true,u8,3,0.5
s2,null,2,a,false,u8,,0.25
"""

QUERIES = [
    {"query_id": "q1", "user_query": "laptop", "client_id": "c1", "query_response_hit_ids": ["A", "B", "C"]},
    {"query_id": "q2", "user_query": "laptop", "client_id": "c2", "query_response_hit_ids": ["B", "A"]},
]
EVENTS = [
    {"action_name": "search", "query_id": "q1", "client_id": "c1"},
    {"action_name": "click", "query_id": "q1", "event_attributes": {"object": {"object_id": "B"}}},
    {"action_name": "click", "query_id": "q1", "event_attributes": {"object": {"object_id": "B"}}},
    {"action_name": "click", "query_id": "q2", "event_attributes": {"object": {"object_id": "X"}}},
]


@pytest.fixture
def write(tmp_path):
    def make(name, text):
        path = tmp_path / name
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return path

    return make


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz"])
def test_csv(write, name):
    log = read_clicks(write(name, CSV), features=["bm25"])
    assert pages_of(log) == [
        ("red shoes", ["a", "b"], [1, 2], [False, True]),
        ("null", ["c", "a"], [1, 2], [True, False]),
    ]
    assert log.features.tolist() == [[1.5], [2.5], [0.5], [0.25]]
    np.testing.assert_array_equal(log.dwell, [np.nan, 12.5, 3, np.nan])
    assert log.session_ids.tolist() == ["s1", "s2"]


def test_frames_and_parquet_hold_the_same(write, tmp_path):
    log = read_clicks(write("log.csv", CSV))
    frame = pd.read_csv(write("log.csv", CSV), keep_default_na=False, na_values={"dwell": ""})
    frame.to_parquet(tmp_path / "log.parquet")
    for other in (frame, pl.from_pandas(frame), tmp_path / "log.parquet"):
        assert pages_of(read_clicks(other)) == pages_of(log)


def test_personal_columns_are_read_only_if_named(write):
    text = CSV.replace("session,", "visit,")
    path = write("log.csv", text)
    with pytest.raises(FormatError, match=r"no column is the session; .*\(user_id may be personal"):
        read_clicks(path)
    log = read_clicks(path, session="user_id")
    assert log.session_ids.tolist() == ["u7", "u8"]
    named = read_clicks(path, session="visit")
    held = [value for value in vars(named).values() if isinstance(value, np.ndarray)]
    assert not any("u7" in column.astype(str).tolist() for column in held)


def test_personal_fields_of_json_are_not_even_parsed(write):
    """A personal field that changes its kind would be an error if it were read."""
    rows = [
        {"session": 1, "query": "q", "position": 1, "document": "a", "clicked": 1, "ip": "10.0.0.1"},
        {"session": 1, "query": "q", "position": 2, "document": "b", "clicked": 0, "ip": 7},
    ]
    assert read_clicks(write("log.jsonl", lines(rows))).n_clicks == 1


def test_rows_without_a_position_column_are_in_order(write):
    text = "session,query,document,clicked\n1,q,a,0\n2,q,b,0\n1,q,c,1\n"
    assert pages_of(read_clicks(write("log.csv", text))) == [
        ("q", ["a", "c"], [1, 2], [False, True]),
        ("q", ["b"], [1], [False]),
    ]


def test_opensearch_searches_and_events(write):
    searches, events = write("q.jsonl", lines(QUERIES)), write("e.jsonl", lines(EVENTS))
    with pytest.warns(DataWarning, match="1 click on a document that was not shown was dropped"):
        log = read_clicks(searches, events=events)
    assert pages_of(log) == [
        ("laptop", ["A", "B", "C"], [1, 2, 3], [False, True, False]),
        ("laptop", ["B", "A"], [1, 2], [False, False]),
    ]
    assert log.mended.repeated_clicks == 1


def test_opensearch_events_with_impressions(write):
    def event(action, document, ordinal):
        inside = {"object": {"object_id": document}, "position": {"ordinal": ordinal}}
        return {"action_name": action, "query_id": "q1", "user_query": "tv", "event_attributes": inside}

    rows = [event("impression", "A", 1), event("impression", "B", 2), event("click", "B", 2)]
    log = read_clicks(write("e.jsonl", lines(rows)))
    assert pages_of(log) == [("tv", ["A", "B"], [1, 2], [False, True])]
    with pytest.raises(FormatError, match="no event is an impression"):
        read_clicks(write("e.jsonl", lines(rows[2:])))


def test_searches_need_events_and_events_searches(write):
    with pytest.raises(FormatError, match="without clicks; give the file of events with events=…"):
        read_clicks(write("q.jsonl", lines(QUERIES)))
    with pytest.raises(FormatError, match="goes with a file of searches"):
        read_clicks(write("log.csv", CSV), events=write("e.jsonl", lines(EVENTS)))
    with pytest.raises(FormatError, match="no field of the events is the document"):
        read_clicks(write("q.jsonl", lines(QUERIES)), events=write("e.jsonl", lines(EVENTS[:1])))


def test_pages_of_text(write):
    text = "q1\ta,b,c : b , b , x; q1\tb,a :;\n\nq2\tz : z;"
    with pytest.warns(DataWarning, match="1 click on a document that was not shown was dropped"):
        log = read_clicks(write("log.txt.gz", text))
    assert pages_of(log) == [
        ("q1", ["a", "b", "c"], [1, 2, 3], [False, True, False]),
        ("q1", ["b", "a"], [1, 2], [False, False]),
        ("q2", ["z"], [1], [True]),
    ]
    assert log.mended.repeated_clicks == 1
    assert log.n_sessions == 3


def test_lists_of_text(write):
    text = "7\t5\t[1, 2]\t[1, 1]\t[0, 1]\t[0, 3]\n7\t5\t[1, 2]\t[1, 1]\t[0, 0]\n"
    log = read_clicks(write("log.txt", text))
    assert pages_of(log) == [(5, [1, 2], [1, 2], [False, True]), (5, [1, 2], [1, 2], [False, False])]
    np.testing.assert_array_equal(log.grade, [0, 3, np.nan, np.nan])
    assert log.n_sessions == 1


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl", ".csv.gz", ".jsonl.zst"])
def test_what_is_written_reads_back(tmp_path, suffix, monkeypatch):
    monkeypatch.setattr("gainful.clicks.writing.PAGES_AT_ONCE", 2)
    log = ClickLog.from_rows(
        session=[1, 1, 1, 2, 2, 3],
        query=["a, b", "a, b", "a, b", "é", "é", "é"],
        page=[1, 1, 2, 3, 3, 4],
        position=[1, 2, 1, 1, 2, 4],
        document=["x", "y", "x", "x", "z", "z"],
        clicked=[0, 1, 0, 1, 0, 1],
        propensity=[1, 0.5, 1, 1, 0.5, 0.25],
        dwell=[np.nan, 2, np.nan, 1, np.nan, 3],
        features=np.arange(6.0)[:, None],
        feature_names=["bm25"],
    )
    path = tmp_path / f"log{suffix}"
    write_clicks(log, path)
    back = read_clicks(path, features=["bm25"])
    assert pages_of(back) == pages_of(log)
    for name in ("session_names", "features", "propensity", "dwell"):
        np.testing.assert_array_equal(getattr(back, name), getattr(log, name))


def test_pages_stay_in_the_order_of_the_file(write):
    text = "session,query,position,document,clicked\n1,b,1,x,0\n2,a,1,y,0\n1,c,1,z,0\n1,b,2,w,1\n"
    assert [documents for _, documents, _, _ in pages_of(read_clicks(write("log.csv", text)))] == [
        ["x", "w"],
        ["y"],
        ["z"],
    ]


def test_column_names_that_are_not_text(tmp_path):
    (tmp_path / "log.csv").write_bytes(b"session,qu\xd7ry\n1,2\n")
    with pytest.raises(FormatError, match="the column names are not UTF-8"):
        read_clicks(tmp_path / "log.csv")


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
def test_parts_are_joined(tmp_path, suffix, monkeypatch):
    """Rows of a page in different parts, and codes that continue."""
    for name, small in (("PART_ROWS", 7), ("PART_BYTES", 200)):
        monkeypatch.setattr(f"gainful.clicks.tables.{name}", small)
    n = 300
    log = ClickLog.from_rows(
        session=np.arange(n) // 3,
        query=np.arange(n) // 30,
        position=np.arange(n) % 3 + 1,
        document=(np.arange(n) * 7) % 50,
        clicked=np.arange(n) % 5 == 0,
    )
    write_clicks(log, tmp_path / f"log{suffix}")
    assert pages_of(read_clicks(tmp_path / f"log{suffix}")) == pages_of(log)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("log.csv", CSV.replace("shoes,2", "shoes,1e300"), r"the position of row 2 must be .*, was 1e\+300"),
        ("log.csv", CSV.replace("true", "maybe"), "column 'clicked' must hold 0 or 1, holds 'maybe' in row 3"),
        ("log.csv", CSV.replace("2,b,1", "2,b,-3"), "clicked of row 2 must be 0, 1 or a number of clicks"),
        ("log.csv", CSV.replace("s1,red shoes,2", ",red shoes,2"), "the session of row 2 is missing"),
        ("log.csv", CSV.replace("clicked", "klicked"), r"no column is the clicked; name it with clicked=…"),
        ("log.csv", CSV.replace(",", ";"), r"pass sep=';'"),
        ("log.csv", "session,query,position,document,clicked\n", "there are no rows"),
        ("log.jsonl", '{"session": 1}\n[1]\n', "line 2: expected an object"),
        ("log.jsonl", "nonsense\n", "line 1: the line is not JSON"),
        ("log.parquet", "nonsense", "is not a Parquet file"),
        ("log.txt", "nonsense\n", "line 1: is not a click log in text"),
        ("log.txt", "q\ta,b : a; q b\n", "line 1: expected query<TAB>document"),
        ("log.txt", "q\ta : a;\nq\t : a;", "line 2: a page shows no documents"),
        ("log.txt", "1\t2\t[1, 2]\t[1]\t[0]\n", "line 1: there are 1 clicks for 2 documents"),
        ("log.txt", "1\t2\t[1]\t[1]\t[7]\n", "line 1: a click must be 0 or 1, was '7'"),
        ("log.txt", "1\t2\t[1]\t[1]\t[1]\n1\t2\n", "line 2: expected 5 or 6 columns between tabs, found 2"),
        ("log.txt", "1\t2\t[1]\t[1]\t[1]\t[x]\n", "line 1: a grade must be a number"),
    ],
)
def test_damaged_logs_are_refused(write, name, text, message):
    path = write(name, text)
    with pytest.raises(DataError, match=message) as caught:
        read_clicks(path)
    assert str(path) in str(caught.value)


def test_wrong_arguments_are_refused(write, tmp_path):
    path = write("log.csv", CSV)
    with pytest.raises(ParameterError, match="there is no column 'sess'; did you mean 'session'"):
        read_clicks(path, session="sess")
    with pytest.raises(ParameterError, match="there is no format of click logs 'letor'"):
        read_clicks(path, "letor")
    with pytest.raises(FormatError, match="there is no such file"):
        read_clicks(tmp_path / "absent.csv")
    with pytest.raises(FormatError, match="would take"):
        read_clicks(path, max_bytes=10)
    with pytest.raises(FormatError, match="cannot infer the format of the click log"):
        write_clicks(read_clicks(path), tmp_path / "log.docx")
    with pytest.raises(DataError, match="frame is needed"):
        read_clicks(7)


def test_the_names_are_public():
    assert gainful.read_clicks is read_clicks


def test_dumps_of_opensearch_are_read_as_they_are(write):
    def dumped(name, rows):
        return write(name, "".join(json.dumps({"_index": "ubi", "_id": "1", "_source": row}) + "\n" for row in rows))

    with pytest.warns(DataWarning, match="1 click on a document that was not shown"):
        log = read_clicks(dumped("q.json", QUERIES), events=dumped("e.json", EVENTS))
    assert pages_of(log) == [
        ("laptop", ["A", "B", "C"], [1, 2, 3], [False, True, False]),
        ("laptop", ["B", "A"], [1, 2], [False, False]),
    ]


def test_clicks_alone_do_not_say_what_was_shown(write):
    clicks = [one for one in EVENTS if one["action_name"] == "click"]
    path = write("e.jsonl", "".join(json.dumps(row) + "\n" for row in clicks))
    with pytest.raises(FormatError, match=r"no event is an impression .* give this one with events=…"):
        read_clicks(path)


# -- memory ------------------------------------------------------------------------------------------------------------


def many_pages(n):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "session": np.repeat(np.arange(n), 10),
            "query": np.repeat(rng.integers(0, 50, n), 10),
            "position": np.tile(np.arange(1, 11), n),
            "document": rng.random((n, 30)).argsort(axis=1)[:, :10].ravel(),
            "clicked": rng.integers(0, 2, 10 * n),
        }
    )


def test_reading_takes_little_more_memory_than_the_log(tmp_path, monkeypatch):
    """Parts are short here, so that what grows with the log shows: tracemalloc counts 1.6 times what is kept."""
    for name in ("pages.ROWS_AT_ONCE", "reading.ROWS_AT_ONCE", "tables.PART_ROWS"):
        monkeypatch.setattr(f"gainful.clicks.{name}", 1 << 12)
    frame = many_pages(20_000)
    frame.to_parquet(tmp_path / "log.parquet")
    read_clicks(many_pages(10))
    tracemalloc.start()
    log = read_clicks(tmp_path / "log.parquet")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    kept = sum(value.nbytes for value in vars(log).values() if isinstance(value, np.ndarray))
    assert peak < 1.8 * kept
    assert log.n_pages == 20_000


def test_rows_of_a_page_may_be_anywhere(monkeypatch):
    """Shuffled, in short parts, with features and times: the same pages."""
    frame = many_pages(300).assign(x=np.arange(3000.0), time=np.arange(3000.0))
    whole = read_clicks(frame, features=["x"])
    monkeypatch.setattr("gainful.clicks.pages.ROWS_AT_ONCE", 64)
    monkeypatch.setattr("gainful.clicks.tables.PART_ROWS", 100)
    for order in (np.arange(3000), np.random.default_rng(1).permutation(3000)):
        log = read_clicks(frame.iloc[order], features=["x"])
        by_session = np.argsort(log.session_names, kind="stable")
        again = log.pages(by_session)
        for name in ("document", "position", "clicked", "time", "features"):
            column = getattr(again, name) if name != "document" else again.document_ids[again.document]
            same = getattr(whole, name) if name != "document" else whole.document_ids[whole.document]
            assert np.array_equal(column, same), name
    mixed = frame.assign(session=["s" + str(one) for one in frame.session])  # ids that are texts from here on
    mixed.loc[:499, "session"] = frame.session[:500].astype(str)
    found = read_clicks(mixed)
    assert found.session_ids[[0, 49, 50]].tolist() == ["0", "49", "s50"]


def test_the_benchmark_of_memory_runs(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    import click_memory

    (tmp_path / "small").mkdir()
    click_memory.write_log(tmp_path / "small", 20, "ubi")
    click_memory.write_log(tmp_path, 200, "ubi")
    found = click_memory.measure(tmp_path, "ubi", steps=1)
    assert (found["pages"], found["rows"]) == (200, 2000)
    assert found["kept"] > 0


def test_pages_of_several_sessions_may_have_the_same_id(write):
    rows = "".join(f"{s},{p},q,{r},d{r},0\n" for s in "ab" for p in (1, 2) for r in (1, 2))
    log = gainful.read_clicks(write("log.csv", "session,page,query,position,document,clicked\n" + rows))
    assert log.counts.tolist() == [2, 2, 2, 2]
    events = "".join(
        f'{{"action_name":"{action}","session":"{s}","page":1,"query":"q","document":"d"}}\n'
        for s in "ab"
        for action in ("impression", "click")
    )
    with pytest.raises(FormatError, match=r"unknown which page a click event is on; name a column .* with page=…"):
        gainful.read_clicks(write("events.jsonl", events))


def test_one_bad_row_does_not_stop_a_log(write):
    with pytest.warns(DataWarning, match="1 row without a value of clicked was taken as not clicked"):
        log = read_clicks(write("log.csv", CSV.replace("2,b,1", "2,b,3").replace("1,a,0", "1,a,")))
    assert log.n_clicks == 2
    assert log.mended.repeated_clicks == 2
    empty = {"query_id": "q3", "user_query": "", "query_response_hit_ids": []}
    unasked = {"query_id": "q4", "user_query": "", "query_response_hit_ids": ["A"]}
    stray = {"action_name": "click", "event_attributes": {"object": {"object_id": "B"}}}
    searches = write("queries.jsonl", lines([*QUERIES, empty, unasked]))
    with pytest.warns(DataWarning, match="1 search without a query was dropped; 1 event without a page or document"):
        log = read_clicks(searches, events=write("events.jsonl", lines([*EVENTS[:3], stray])))
    assert (log.n_pages, log.n_clicks) == (2, 1)


def test_messages_name_the_row_and_file_of_an_event(write):
    searches, rows = write("queries.jsonl", lines(QUERIES)), [*EVENTS, {**EVENTS[1], "query_id": "q\0"}]
    with pytest.raises(FormatError, match=r"events\.jsonl: the page id holds a NUL"):
        read_clicks(searches, events=write("events.jsonl", lines(rows)))
    shown = [{"action_name": "search"}, {"action_name": "impression", "page": 1, "session": "", "query": "q"}]
    shown[1] |= {"document": "d"}
    with pytest.raises(FormatError, match="the session of row 2 is missing"):
        read_clicks(write("shown.jsonl", lines(shown)))


def test_fields_of_json_are_found_in_any_line(write):
    """The first events may be searches, which have no document; a field may be null for long."""
    searches = [{"action_name": "search", "query_id": "q1", "client_id": "c1", "dwell": None}] * 300
    with pytest.warns(DataWarning, match="1 click on a document that was not shown"):
        log = read_clicks(
            write("queries.jsonl", lines(QUERIES)), events=write("events.jsonl", lines([*searches, *EVENTS]))
        )
    assert log.n_clicks == 1
    row = {"session": 1, "query": "q", "clicked": 0}
    rows = [{**row, "position": i + 1, "sku": i, "pscore": None} for i in range(400)]
    rows[399] |= {"pscore": 0.5, "weight": 2.5}
    rows[0] |= {"text": '"weight": 1'}
    with pytest.raises(FormatError, match="propensity of row 1 must be a probability"):
        read_clicks(write("log.jsonl", lines(rows)), document="sku")
    log = read_clicks(write("log.jsonl", lines(rows)), document="sku", propensity=False, features=["weight"])
    assert log.features[399, 0] == 2.5


def test_ids_as_large_floats_are_refused_in_one_line():
    frame = pd.DataFrame({"session": [1], "query": ["q"], "document": [1e19], "clicked": [1]})
    with pytest.raises(DataError, match=r"column 'document' holds 1e\+19, too large for an id; store ids as text"):
        read_clicks(frame)


@pytest.mark.parametrize("word", ["1_0", "٣", "1e", "0x1", "1,5", "inf"])
@pytest.mark.parametrize("role", ["position", "clicked", "propensity", "dwell"])
def test_numbers_are_those_of_a_file(tmp_path, word, role):
    """And not what Python's float takes beside them."""
    row = {"session": "s", "query": "q", "position": "1", "document": "d", "clicked": "1", role: word}
    path = tmp_path / "log.tsv"
    path.write_text("\t".join(row) + "\n" + "\t".join(row.values()) + "\n", encoding="utf-8")
    with pytest.raises(FormatError, match="must hold"):
        read_clicks(path)


@pytest.mark.parametrize("kind", ["plain", "shuffled", "sessions", "documents", "numbers"])
def test_the_limit_is_on_what_reading_takes(tmp_path, kind):
    """A log that takes well over the limit is refused, and one that takes well under it is not."""
    import tracemalloc

    import pandas as pd

    n = 40_000
    page = np.arange(n) // 10
    names = {"sessions": page, "documents": np.arange(n)}.get(kind, np.zeros(0, dtype=int))
    long = np.array([f"a long name of something, with a number at its end: {one:060d}" for one in names])
    frame = pd.DataFrame({
        "session": long if kind == "sessions" else page, "query": page % 100, "position": np.arange(n) % 10 + 1,
        "document": long if kind == "documents" else np.arange(n) % 10, "clicked": np.arange(n) % 7 == 0,
    })  # fmt: skip
    if kind == "numbers":
        frame = frame.assign(time=1.0, dwell=2.0, propensity=0.5, grade=1.0)
    if kind == "shuffled":
        frame = frame.sample(frac=1.0, random_state=0)
    frame.to_parquet(tmp_path / "log.parquet")
    read_clicks(tmp_path / "log.parquet")
    tracemalloc.start()
    try:
        read_clicks(tmp_path / "log.parquet")
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    read_clicks(tmp_path / "log.parquet", max_bytes=5 * taken)
    with pytest.raises(FormatError, match="of memory"):
        read_clicks(tmp_path / "log.parquet", max_bytes=taken // 5)
