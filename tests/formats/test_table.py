"""Tables: which column is what, missing values, order of rows, frames."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse

from gainful.data.dataset import RankingData
from gainful.errors import DataError, FormatError, ParameterError, UnknownNameError
from gainful.formats import read, write
from gainful.formats.convert import iter_blocks
from gainful.formats.table.columns import Columns, check_columns
from gainful.formats.table.reader import from_frame
from gainful.inputs.shards import open_shards

FRAME = {"query_id": [7, 7, 8], "Label": [1, 0, 2], "price": [1.5, 2.5, 3.5], "clicks": [1, 2, 3]}


def csv(folder: Path, text: str, name: str = "a.csv") -> Path:
    (folder / name).write_text(text)
    return folder / name


@pytest.mark.parametrize("make", [pa.table, pd.DataFrame, pl.DataFrame, lambda d: pa.RecordBatch.from_pydict(d)])
def test_frames(make: Any) -> None:
    data = from_frame(make(FRAME))
    assert data.query_ids.tolist() == [7, 8]
    assert data.y.tolist() == [1, 0, 2]
    assert data.X.tolist() == [[1.5, 1], [2.5, 2], [3.5, 3]]
    assert data.feature_names == ("price", "clicks")
    assert data.doc_ids is None


def test_what_is_not_a_frame() -> None:
    with pytest.raises(DataError, match=r"was LazyFrame; call \.collect\(\) first"):
        from_frame(pl.LazyFrame(FRAME))
    with pytest.raises(DataError, match="frame is needed, was dict"):
        from_frame(FRAME)
    with pytest.raises(DataError, match="cannot be read as a table"):
        from_frame(pd.DataFrame({"qid": [1, 2], "grade": [0, 1], "x": [1, "a"]}))


def test_strings_categories_and_small_types() -> None:
    frame = pd.DataFrame(
        {
            "qid": pd.Categorical(["b", "b", "a"]),
            "grade": np.array([1, 0, 1], dtype=np.int8),
            "docno": ["x", None, "z"],
            "flag": [True, False, True],
            "code": pd.array([1, None, 3], dtype="Int64"),
        }
    )
    data = from_frame(frame)
    assert data.query_ids.tolist() == ["b", "a"]
    assert data.doc_ids is not None
    assert data.doc_ids.tolist() == ["x", "", "z"]
    np.testing.assert_array_equal(data.X, [[1, 1], [0, np.nan], [1, 3]])


def test_all_single_precision_stays_so() -> None:
    base = {"qid": [1], "grade": [1]}
    assert from_frame(pa.table(base | {"a": pa.array([1], pa.float32())})).X.dtype == np.float32
    assert from_frame(pa.table(base | {"a": pa.array([1], pa.float32()), "b": [1]})).X.dtype == np.float64


def test_columns_by_name() -> None:
    frame = pa.table({"s": [1, 1], "g": [0, 1], "d": ["a", "b"], "w": [2.0, 2.0], "x": [1, 2], "label": ["u", "v"]})
    data = from_frame(frame, qid="s", grade="g", doc_id="d", weight="w", features=["x"])
    assert data.feature_names == ("x",)
    assert data.query_weights is not None
    assert data.query_weights.tolist() == [2.0]
    with pytest.raises(UnknownNameError, match=r"no column \(qid\) 'ss'; did you mean 's'"):
        from_frame(frame, qid="ss")
    with pytest.raises(UnknownNameError, match=r"no column \(features\) 'xx'"):
        from_frame(frame, qid="s", grade="g", features=["xx"])
    with pytest.raises(DataError, match="'s' cannot be a feature"):
        from_frame(frame, qid="s", grade="g", features=["s"])
    with pytest.raises(DataError, match="'s' has two roles"):
        from_frame(frame, qid="s", grade="s")
    with pytest.raises(ParameterError, match="features of a table must be a list"):
        from_frame(frame, features="x")
    with pytest.raises(ParameterError, match="qid of a table must be the name of a column"):
        from_frame(frame, qid=3)  # type: ignore[arg-type]


def test_guesses_that_fail(tmp_path: Path) -> None:
    with pytest.raises(
        FormatError, match=r"a\.csv: cannot tell which column is the qid; pass qid='…' with one of grade, x"
    ):
        read(csv(tmp_path, "grade,x\n1,2\n"))
    with pytest.raises(FormatError, match="columns qid, Query could each be the qid; pass qid='…'"):
        read(csv(tmp_path, "qid,Query,grade\n1,2,3\n"))
    with pytest.raises(FormatError, match="docid, docno could each be the doc_id; pass doc_id='…' or doc_id=False"):
        read(csv(tmp_path, "qid,grade,docid,docno\n1,2,3,4\n"))
    assert read(csv(tmp_path, "qid,Query,grade\n1,2,3\n"), qid="qid").feature_names == ("Query",)


def test_a_feature_called_weight(tmp_path: Path) -> None:
    path = csv(tmp_path, "qid,grade,weight\n1,0,5\n1,1,6\n")
    with pytest.raises(FormatError, match=r"'weight' differs between rows of query 1: .*; pass weight='weight' or wei"):
        read(path)
    assert read(path, weight=False).feature_names == ("weight",)
    assert read(path, weight="weight").row_weights.tolist() == [5.0, 6.0]


@pytest.mark.parametrize(
    ("column", "held"),
    [
        (pa.array([0], pa.timestamp("s")), "dates or times"),
        (pa.array([[1]]), "lists or records"),
        (pa.array([b"a"]), "bytes, or text that is not UTF-8"),
    ],
)
def test_types_are_named_in_plain_words(column: Any, held: str) -> None:
    with pytest.raises(DataError, match=f"column 'x' must be numeric, but holds {held}; drop it"):
        from_frame(pa.table({"qid": [1], "grade": [1], "x": column}))


def test_a_grade_that_is_no_number_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("qid,grade,x\n1,0,0.5\n1,good,1.5\n")
    with pytest.raises(DataError, match="line 3: column 'grade' must be numeric, found 'good'"):
        read(path)


SEMICOLONS = "query;doc;grade;a\n1;x;0;0.5\n1;y;2;1.5\n"


@pytest.mark.parametrize(
    ("between", "sep"), [(";", ";"), ("\t", "tab"), ("\t", "\t"), ("\t", "\\t"), ("|", "|"), (",", ",")]
)
def test_other_separators(tmp_path: Path, between: str, sep: str) -> None:
    path = csv(tmp_path, SEMICOLONS.replace(";", between))
    data = read(path, sep=sep)
    assert (data.feature_names, data.X.tolist(), data.y.tolist()) == (("a",), [[0.5], [1.5]], [0, 2])
    blocks = open_shards([path], sep=sep)
    assert (blocks.n_rows, blocks.feature_names) == (2, ("a",))


@pytest.mark.parametrize(("name", "between", "told"), [
    ("a.csv", ";", "no ',' between columns, but ';': 'query;doc;grade;a'; pass sep=';'"),
    ("a.csv", "\t", "no ',' between columns, but 'tab': .*; pass sep='tab'"),
    ("a.tsv", ",", "no 'tab' between columns, but ',': 'query,doc,grade,a'; pass sep=','"),
])  # fmt: skip
def test_another_separator_is_noticed(tmp_path: Path, name: str, between: str, told: str) -> None:
    path = csv(tmp_path, SEMICOLONS.replace(";", between), name)
    with pytest.raises(FormatError, match=told):
        read(path)
    with pytest.raises(FormatError, match=told):
        open_shards([path])


def test_separators_that_cannot_be(tmp_path: Path) -> None:
    for sep in ("", ";;", "é", '"', "\n", "a", 3):
        with pytest.raises(ParameterError, match="sep of a table must be one character such as ';' or 'tab'"):
            read(csv(tmp_path, SEMICOLONS), sep=sep)
    write(from_frame(pa.table(FRAME)), tmp_path / "a.parquet")
    with pytest.raises(ParameterError, match="sep is for CSV and TSV, not for parquet"):
        read(tmp_path / "a.parquet", sep=";")


def test_missing(tmp_path: Path) -> None:
    data = read(csv(tmp_path, "qid,grade,a,b,c\n1,0,NULL,,NA\n1,1,NaN,2,\n"))
    np.testing.assert_array_equal(data.X, [[np.nan] * 3, [np.nan, 2, np.nan]])
    with pytest.raises(FormatError, match="the grade of row 1 is missing"):
        read(csv(tmp_path, "qid,grade,a\n1,0,1\n1,,1\n"))
    with pytest.raises(FormatError, match="the query id of row 1 is missing"):
        read(csv(tmp_path, "qid,grade,a\n1,0,1\n,1,1\n"))
    with pytest.raises(DataError, match="the query id of row 0 is missing"):
        from_frame(pa.table({"qid": pa.array([None, 1]), "grade": [0, 1]}))


@pytest.mark.parametrize("bad", ["-1", "inf"])
def test_grades_are_checked(tmp_path: Path, bad: str) -> None:
    with pytest.raises(FormatError, match=r"a\.csv: grade of row 1 must be finite and not negative"):
        read(csv(tmp_path, f"qid,grade,a\n1,0.5,1\n1,{bad},1\n"))
    with pytest.raises(FormatError, match="is infinite"):
        read(csv(tmp_path, "qid,grade,a\n1,0,1\n1,1,inf\n"))


def test_order_of_rows(tmp_path: Path) -> None:
    path = csv(tmp_path, "qid,grade,a\n2,0,1\n1,1,2\n2,2,3\n")
    data = read(path)
    assert data.query_ids.tolist() == [2, 1]
    assert data.X[:, 0].tolist() == [1, 3, 2]
    assert data.to_input_order(data.X[:, 0]).tolist() == [1, 2, 3]
    with pytest.raises(FormatError, match=r"query 2 ends at row 0 and starts again at row 2 .*; pass merge=True"):
        read(path, merge=False)
    assert read(csv(tmp_path, "qid,grade,a\n2,0,1\n1,1,2\n"), merge=False).n_queries == 2


def test_ids_in_csv_are_texts_first(tmp_path: Path) -> None:
    data = read(csv(tmp_path, "qid,grade,docid,a\n007,0,NA,1\n7,1,,1\n"))
    assert data.query_ids.tolist() == ["007", "7"]
    assert data.doc_ids is not None
    assert data.doc_ids.tolist() == ["NA", ""]
    assert read(csv(tmp_path, "qid,grade,a\n7,0,1\n8,1,1\n")).query_ids.tolist() == [7, 8]


def test_broken_csv(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"is not CSV: .*Expected 3 columns, got 2") as caught:
        read(csv(tmp_path, "qid,grade,a\n1,2,3\n1,2\n"))
    assert caught.value.line == 3
    with pytest.raises(FormatError, match="there are no rows"):
        read(csv(tmp_path, "qid,grade,a\n"))
    with pytest.raises(FormatError, match="two columns named 'a'"):
        read(csv(tmp_path, "qid,grade,a,a\n1,2,3,4\n"))


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "a.csv.gz"])
def test_garbage(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"PAR1 this is no table at all, only some text that goes on for a while" * 3)
    with pytest.raises(FormatError) as caught:
        read(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "a.csv.zst"])
def test_cut_short(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write(RankingData.from_rows(np.random.default_rng(0).random((500, 9)), np.ones(500), np.arange(500)), path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(FormatError):
        read(path)


def test_arrow_streams_are_read_too(tmp_path: Path) -> None:
    table = pa.table({"qid": [1], "grade": [1.0], "a": [2.0]})
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    assert read(tmp_path / "a.arrow").X.tolist() == [[2.0]]


@pytest.mark.parametrize(("name", "feature"), [("a.parquet", "qid"), ("a.arrow", "grade"), ("a.csv", "Rating")])
def test_names_that_collide(tmp_path: Path, name: str, feature: str) -> None:
    data = RankingData.from_rows([[1.0]], [1], [1], feature_names=[feature])
    with pytest.raises(FormatError, match=f"a feature is called '{feature}'"):
        write(data, tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_well_known_names_as_features_of_our_own_files(tmp_path: Path) -> None:
    data = RankingData.from_rows([[1.0, 2.0]], [1], [1], feature_names=["query", "weight"])
    write(data, tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet").equals(data)


@pytest.mark.parametrize("name", ["wide.csv", "wide.parquet", "wide.arrow", "wide.jsonl"])
def test_a_wide_sparse_matrix_is_not_a_table(tmp_path: Path, name: str) -> None:
    data = RankingData.from_rows(sparse.csr_array(([1.0], ([0], [0])), shape=(2, 10**9)), [1, 0], [1, 1])
    with pytest.raises(FormatError, match=r"a column for each of the 1,000,000,000 features .* write \.gnf or \.txt"):
        write(data, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_foreign_metadata_is_ignored(tmp_path: Path) -> None:
    table = pa.table(FRAME)
    for note in (b"not json", b"[1]", b'{"roles": 3}', b'{"roles": {"qid": "gone"}, "sparse": 7}'):
        pq.write_table(table.replace_schema_metadata({b"gainful": note}), tmp_path / "a.parquet")
        assert read(tmp_path / "a.parquet").n_queries == 2


# -- CSV as others write it --------------------------------------------------------------------------------------------


def test_decimal_commas(tmp_path: Path) -> None:
    path = csv(tmp_path, 'qid;grade;a;b\n1;0;0,5;-1,25e1\n1;2;"1,5";7\n')
    with pytest.raises(FormatError, match=r"the first line has no ',' between columns, but ';': .*; pass sep=';'"):
        read(path)
    with pytest.raises(FormatError, match="column 'a' must be numeric, found '0,5'; pass decimal=','"):
        read(path, sep=";")
    data = read(path, sep=";", decimal=",")
    assert data.X.tolist() == [[0.5, -12.5], [1.5, 7]]
    assert RankingData.concatenate(list(iter_blocks(path, sep=";", decimal=","))).equals(data)
    for options, told in (
        ({"decimal": ","}, "a comma cannot be both the decimal sign and between columns; pass sep=';' or another"),
        ({"decimal": "x", "sep": ";"}, "decimal of a table must be '.' or ',', was 'x'"),
        ({"header": "no"}, "header of a table must be True or False, was 'no'"),
    ):
        with pytest.raises(ParameterError, match=told):
            read(path, **options)
    with pytest.raises(ParameterError, match="header is for CSV and TSV, not for frame"):
        check_columns(Columns(header=False), True)


def test_quoted_fields(tmp_path: Path) -> None:
    path = csv(
        tmp_path, '"qid","grade","doc","a, or b"\n"x, y","1","he said ""no""","2.5"\n"x, y","0","two\nlines","3"\n'
    )
    data = read(path)
    assert data.query_ids.tolist() == ["x, y"]
    assert data.doc_ids is not None
    assert data.doc_ids.tolist() == ['he said "no"', "two\nlines"]
    assert data.feature_names == ("a, or b",)
    assert data.X.tolist() == [[2.5], [3]]


@pytest.mark.filterwarnings("ignore:column 'size' holds numbers written as text")
@pytest.mark.parametrize("words", [("1", "2"), ("1e3", "-7")])
def test_texts_that_are_numbers_are_not_written_as_csv(words, tmp_path):
    frame = pd.DataFrame({"qid": [1, 1, 2, 2], "grade": [0, 1, 0, 1], "size": pd.Categorical([*words, *words])})
    data = from_frame(frame)
    with pytest.raises(
        FormatError, match=r"feature 'size' holds texts that are all numbers, such as '.*; write \.parquet"
    ):
        write(data, tmp_path / "a.csv")
    assert not (tmp_path / "a.csv").exists()
    for name in ("a.parquet", "a.jsonl"):
        write(data, tmp_path / name)
        assert read(tmp_path / name).categories == data.categories
