"""TREC runs and qrels: what is read, what is written, and what is refused with its line."""

from __future__ import annotations

import gzip
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gainful
from gainful.errors import DataError, FormatError, ParameterError
from gainful.formats import trec

RUN = "q1 Q0 d1 1 2.5 tag\nq1 Q0 d2 2 -1e-3 tag\nq2 Q0 d1 1 7 tag\n"
QRELS = "q1 0 d1 1\nq1 0 d9 0\nq2 0 d1 -1\n"

IDS = st.text(st.characters(exclude_categories=("Z", "C")), min_size=1, max_size=6).filter(
    lambda t: t.split() == [t] and not t.startswith("#")
)
SCORES = st.floats(allow_nan=False, allow_infinity=False)


def written(tmp_path, text, name="file.run"):
    path = tmp_path / name
    data = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


@pytest.mark.parametrize(
    "text",
    [
        RUN,
        RUN.replace(" ", "\t"),
        RUN.replace(" ", "   "),
        RUN.replace(" ", " \t"),
        RUN.replace("\n", "\r\n"),
        RUN.replace("\n", "\n\n"),
        "\ufeff" + RUN,
        "\n  \n" + RUN.rstrip("\n"),
        RUN.replace("tag\n", "tag \n"),
        RUN.replace("7", "+7"),
        "# made by hand\n" + RUN.replace("q2", "#\n# q9 Q0 d1 1 7 tag\nq2"),
        RUN.replace("q2", "  # q9\nq2"),
        RUN.replace("-3 tag", "-3 tag and what came to mind"),
    ],
    ids=[
        "blanks",
        "tabs",
        "many blanks",
        "mixed",
        "crlf",
        "blank lines",
        "mark",
        "no end",
        "blank at end",
        "plus",
        "comments",
        "comment after blanks",
        "text after the tag",
    ],
)
@pytest.mark.parametrize("suffix", [".run", ".run.gz"])
def test_columns_are_separated_by_blanks_or_tabs(text, suffix, tmp_path):
    run = gainful.read_run(written(tmp_path, text, f"x{suffix}"))
    assert dict(run) == {"q1": {"d1": 2.5, "d2": -0.001}, "q2": {"d1": 7.0}}
    assert run.name == "tag"
    assert repr(run) == "Run(2 queries, 3 documents)"


def test_rows_of_a_query_need_not_be_adjacent(tmp_path):
    lines = RUN.splitlines(keepends=True)
    run = gainful.read_run(written(tmp_path, lines[0] + lines[2] + lines[1]))
    assert {query: list(run[query]) for query in run} == {"q1": ["d1", "d2"], "q2": ["d1"]}


def test_qrels_keep_subtopics_where_there_are_any(tmp_path):
    plain = gainful.read_qrels(written(tmp_path, QRELS))
    assert plain.subtopics is None
    assert dict(plain) == {"q1": {"d1": 1.0, "d9": 0.0}, "q2": {"d1": -1.0}}
    several = gainful.read_qrels(written(tmp_path, "q1 1 d1 0\nq1 2 d1 2\nq1 1 d2 1\n"))
    assert several.subtopics.tolist() == ["1", "2", "1"]
    assert dict(several) == {"q1": {"d1": 2.0, "d2": 1.0}}
    with pytest.raises(KeyError):
        several["q2"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"q1 Q0 d1 1 2.5\n", "line 1: expected 6 columns, query Q0 document rank score tag, found 5"),
        (RUN.encode() + b"q1 Q0 d3\n", "line 4: expected 6 columns"),
        (b"\n" + RUN.encode() + b"q2 Q0 d1 2 3 tag\n", "line 5: document 'd1' is given twice for query 'q2'"),
        (RUN.replace("7", "high").encode(), "line 3: expected a score, a finite number, found 'high'"),
        (RUN.replace("7", "nan").encode(), "line 3: expected a score, a finite number, found 'nan'"),
        (RUN.replace("7", "inf").encode(), "line 3: expected a score, a finite number, found 'inf'"),
        (RUN.replace("7", "1e999").encode(), "line 3: expected a score, a finite number, found '1e999'"),
        (RUN.replace("7", "1_0").encode(), "line 3: expected a score, a finite number, found '1_0'"),
        (RUN.replace("7", "٣").encode(), "line 3: expected a score, a finite number"),
        (RUN.encode() + b"q2 Q0 d\xff 2 3 tag\n", "line 4: expected UTF-8 text, found 'd�'"),
        (RUN.encode() + b"q2 Q0 d\0 2 3 tag\n", "line 4: a column holds a NUL character"),
        (RUN.encode() + b"q2 Q0 " + b"d" * 70_000 + b" 2 3 tag\n", "line 4: a column is longer than 65,536 bytes"),
        (b" \n\n", "there are no lines; a run has lines query Q0 document rank score tag"),
        (b"", "the file is empty"),
    ],
)
def test_damage_is_refused_with_its_line(text, message, tmp_path):
    with pytest.raises(FormatError) as caught:
        gainful.read_run(written(tmp_path, text))
    assert message in str(caught.value)
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_comments_in_qrels_count_as_lines_and_nothing_else(tmp_path):
    commented = "# judged in May\n" + QRELS.replace("q2", "#\n#q1 0 d1 1\nq2")
    assert dict(gainful.read_qrels(written(tmp_path, commented))) == dict(gainful.read_qrels(written(tmp_path, QRELS)))
    with pytest.raises(FormatError, match="line 7: document 'd1' is given twice for query 'q2'"):
        gainful.read_qrels(written(tmp_path, commented + "q2 0 d1 0\n"))
    with pytest.raises(FormatError, match="the query id '#1' begins with #, which begins a comment"):
        gainful.write_qrels({"#1": {"d": 1}}, tmp_path / "x.qrels")


def test_qrels_are_checked_too(tmp_path):
    for text, message in {
        "q1 0 d1 1 extra\n": "line 1: expected 4 columns, query subtopic document grade, found 5",
        "q1 0 d1 good\n": "line 1: expected a grade, a finite number, found 'good'",
        "q1 0 d1 1\nq1 0 d1 0\n": "line 2: document 'd1' is given twice for query 'q1'",
        "q1 1 d1 1\nq1 2 d1 1\nq1 2 d1 0\n": "line 3: document 'd1' is given twice for query 'q1' and subtopic '2'",
    }.items():
        with pytest.raises(FormatError, match=message):
            gainful.read_qrels(written(tmp_path, text))


def test_what_is_no_file_or_too_large_is_refused(tmp_path):
    with pytest.raises(FormatError, match="there is no such file"):
        gainful.read_run(tmp_path / "absent.run")
    with pytest.raises(FormatError, match="is a folder"):
        gainful.read_qrels(tmp_path)
    for name in ("x.run", "x.run.gz"):
        with pytest.raises(FormatError, match=r"would take .* of memory; the limit is"):
            gainful.read_run(written(tmp_path, RUN, name), max_bytes=100)
    cut = written(tmp_path, RUN, "cut.run.gz")
    cut.write_bytes(cut.read_bytes()[:-9])
    with pytest.raises(FormatError, match="the gz file is damaged or cut short"):
        gainful.read_run(cut)


@settings(max_examples=30, deadline=None)
@given(
    run=st.dictionaries(IDS, st.dictionaries(IDS, SCORES, min_size=1, max_size=4), min_size=1, max_size=3),
    quick=st.booleans(),
)
def test_what_is_written_reads_back(run, quick, tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / ("x.run" if quick else "x.run.gz")
    gainful.write_run(run, path, name="mine")
    again = gainful.read_run(path)
    assert {query: dict(again[query]) for query in again} == run
    assert again.name == "mine"
    for query in again:
        assert list(again[query].values()) == sorted(run[query].values(), reverse=True)
    grades = {query: {document: float(i) - 2 for i, document in enumerate(held)} for query, held in run.items()}
    gainful.write_qrels(grades, path)
    assert {query: dict(held) for query, held in gainful.read_qrels(path).items()} == grades


@settings(max_examples=30, deadline=None)
@given(rows=st.lists(st.tuples(IDS, IDS, SCORES), min_size=1, max_size=8, unique_by=lambda row: row[:2]))
def test_both_ways_of_reading_agree(rows):
    text = "".join(f"{query} Q0 {document} 1 {score!r} t\n" for query, document, score in rows).encode()
    quick, careful = trec._quick_columns(text, trec.RUN), trec._careful_columns(text, trec.RUN, "x")
    assert quick is not None
    assert quick.queries[0] == careful.queries[0]
    assert quick.queries[1].tolist() == careful.queries[1].tolist()
    assert quick.documents.tolist() == careful.documents.tolist()
    assert quick.numbers.tolist() == careful.numbers.tolist()


def test_subtopics_are_written(tmp_path):
    qrels = gainful.Qrels.from_rows(["q", "q"], ["d", "d"], [1, 0.5], subtopics=["a", "b"])
    gainful.write_qrels(qrels, tmp_path / "x.qrels")
    assert (tmp_path / "x.qrels").read_text() == "q a d 1\nq b d 0.5\n"


def test_writing_refuses_what_cannot_be_read(tmp_path):
    with pytest.raises(FormatError, match="the document id 'd 1' is empty or has blanks"):
        gainful.write_run({"q": {"d 1": 1.0}}, tmp_path / "x.run")
    with pytest.raises(FormatError, match="the query id '' is empty or has blanks"):
        gainful.write_qrels({"": {"d": 1.0}}, tmp_path / "x.qrels")
    with pytest.raises(ParameterError, match="name of write_run must be a word without blanks, was 'my run'"):
        gainful.write_run({"q": {"d": 1.0}}, tmp_path / "x.run", name="my run")
    assert list(tmp_path.iterdir()) == []


def test_a_model_makes_a_run(tmp_path):
    data = gainful.RankingData.from_rows(np.array([[1.0], [2.0], [3.0]]), [0, 1, 2], [7, 7, 8], doc_ids=["a", "b", "a"])
    run = gainful.Run.from_scores(data.X[:, 0], data, name="mine")
    assert dict(run) == {"7": {"a": 1.0, "b": 2.0}, "8": {"a": 3.0}}
    assert dict(gainful.Qrels.from_data(data)) == {"7": {"a": 0.0, "b": 1.0}, "8": {"a": 2.0}}
    gainful.write_run(run, tmp_path / "x.run")
    assert (tmp_path / "x.run").read_text() == "7 Q0 b 1 2.0 mine\n7 Q0 a 2 1.0 mine\n8 Q0 a 1 3.0 mine\n"
    bare = gainful.RankingData.from_rows(data.X, data.y, data.qid)
    with pytest.raises(DataError, match="the data has no document ids, which a run needs"):
        gainful.Run.from_scores(data.X[:, 0], bare)


def test_mappings_are_checked():
    with pytest.raises(DataError, match="the score of document 'd' of query 'q' must be a finite number, was inf"):
        gainful.Run({"q": {"d": math.inf}})
    with pytest.raises(DataError, match="there are no documents; a run needs at least one"):
        gainful.Run({})
    with pytest.raises(ParameterError, match="of of Run must be query → document → score"):
        gainful.Run({"q": [1.0]})
    with pytest.raises(DataError, match="document '1' is given twice for query 'q'"):
        gainful.Run({"q": {1: 1.0, "1": 2.0}})


def test_runs_are_fused():
    first, second = gainful.Run({"q": {"a": 2.0, "b": 1.0}}), gainful.Run({"q": {"b": 5.0, "c": 4.0}})
    fused = gainful.fuse([first, second], method="rrf")
    assert isinstance(fused, gainful.Run)
    assert fused["q"] == gainful.fuse([dict(first), dict(second)], method="rrf")["q"]
    assert max(fused["q"], key=fused["q"].get) == "b"
