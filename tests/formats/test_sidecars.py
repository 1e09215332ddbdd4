"""Files beside a data file: sizes of queries and weights, as LightGBM and XGBoost use them."""

from __future__ import annotations

import gzip
import json
import warnings

import numpy as np
import pytest

import gainful
from gainful import DataWarning, FormatError
from gainful.formats.convert import _join_blocks, convert, iter_blocks
from gainful.formats.letor import reader as letor_reader
from gainful.formats.letor.stream import LetorSource
from gainful.inputs.parts import open_parts

ROWS = [(1, "1:0.5 3:2"), (0, "2:1.5"), (2, ""), (0, "1:-3 2:4"), (1, "3:1e-3")]
SIZES = "2\n3\n"


def write_rows(path, rows=ROWS):
    path.write_text("".join(f"{grade} {features}\n" for grade, features in rows))


@pytest.fixture
def path(tmp_path):
    """Text without query ids, and the sizes of its queries."""
    write_rows(tmp_path / "rank.train")
    (tmp_path / "rank.train.query").write_text(SIZES)
    return tmp_path / "rank.train"


def with_ids(tmp_path, ids=(0, 0, 1, 1, 1)):
    """The same rows with query ids."""
    rows = [f"{grade} qid:{query} {features}\n" for (grade, features), query in zip(ROWS, ids, strict=True)]
    (tmp_path / "named.txt").write_text("".join(rows))
    return gainful.read(tmp_path / "named.txt", merge=True)


@pytest.mark.parametrize("suffix", [".query", ".group"])
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("small", [True, False])
def test_sizes_stand_for_query_ids(tmp_path, monkeypatch, suffix, sparse, small):
    if not small:
        monkeypatch.setattr(letor_reader, "SMALL_FILE", 0)
    write_rows(tmp_path / "a.txt")
    (tmp_path / f"a.txt{suffix}").write_text(SIZES)
    found = gainful.read(tmp_path / "a.txt", sparse=sparse)
    expected = with_ids(tmp_path)
    assert found.query_ids.tolist() == [0, 1]
    assert found.offsets.tolist() == [0, 2, 5]
    assert found.y.tolist() == expected.y.tolist()
    dense = found.X.toarray() if sparse else found.X
    assert dense.tolist() == expected.X.tolist()


def test_a_compressed_file(tmp_path):
    text = "".join(f"{grade} {features}\n" for grade, features in ROWS).encode()
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(text))
    (tmp_path / "a.txt.query").write_text(SIZES)
    assert gainful.read(tmp_path / "a.txt.gz").equals(with_ids(tmp_path))


def test_features_out_of_order_and_comments(tmp_path):
    (tmp_path / "a.txt").write_text("# a comment\n1 3:1 1:2 #docid = x\n\n0 2:5 # y\n")
    (tmp_path / "a.txt.query").write_text("2")
    data = gainful.read(tmp_path / "a.txt")
    assert data.X.tolist() == [[2, 0, 1], [0, 5, 0]]
    assert data.doc_ids.tolist() == ["x", "y"]
    (tmp_path / "a.txt").write_text("1 3:1 1:2 3:1\n0 2:5\n")
    with pytest.raises(FormatError, match="line 1, column 11: feature 3 is given twice on this line"):
        gainful.read(tmp_path / "a.txt")


def test_blocks_and_conversion(tmp_path, path):
    whole = gainful.read(path)
    assert gainful.RankingData.concatenate(list(iter_blocks(path, rows=1))).equals(whole)
    convert(path, tmp_path / "a.gnf")
    assert gainful.read(tmp_path / "a.gnf").equals(whole)


def test_small_chunks(tmp_path):
    rows = [(i % 3, f"1:{i} 2:{i * i}") for i in range(200)]
    write_rows(tmp_path / "a.txt", rows)
    sizes = [7] * 28 + [4]
    (tmp_path / "a.txt.query").write_text("\n".join(map(str, sizes)))
    (tmp_path / "a.txt.weight").write_text("\n".join(str(1 + i % 2) for i in range(29)))
    source = LetorSource([tmp_path / "a.txt"], letor_reader.check_options(), chunk_bytes=64)
    source.settle()
    joined = gainful.RankingData.concatenate(list(_join_blocks(source, 30)))
    assert joined.equals(gainful.read(tmp_path / "a.txt"))
    assert joined.query_weights.tolist() == [1 + i % 2 for i in range(29)]


def test_csv(tmp_path):
    (tmp_path / "a.csv").write_text("label,a,b\n1,2,3\n0,4,5\n2,6,7\n")
    with pytest.raises(FormatError, match="cannot tell which column is the qid"):
        gainful.read(tmp_path / "a.csv")
    (tmp_path / "a.csv.query").write_text("1\n2\n")
    data = gainful.read(tmp_path / "a.csv")
    assert data.offsets.tolist() == [0, 1, 3]
    assert data.feature_names == ("a", "b")
    assert gainful.RankingData.concatenate(list(iter_blocks(tmp_path / "a.csv", rows=1))).equals(data)
    convert(tmp_path / "a.csv", tmp_path / "a.gnf")
    assert gainful.read(tmp_path / "a.gnf").equals(data)


def test_label_first_without_a_header(tmp_path):
    """The form of LightGBM's own examples: tabs, no header, the label in the first column."""
    (tmp_path / "a.tsv").write_text("1\t2.5\t3\n0\t4\t5\n2\t6\t7\n")
    (tmp_path / "a.tsv.query").write_text("1\n2\n")
    with pytest.raises(FormatError, match="if the first line is a row, pass header=False"):
        gainful.read(tmp_path / "a.tsv")
    data = gainful.read(tmp_path / "a.tsv", header=False)
    assert data.y.tolist() == [1, 0, 2]
    assert data.X.tolist() == [[2.5, 3], [4, 5], [6, 7]]
    assert data.feature_names is None
    assert gainful.RankingData.concatenate(list(iter_blocks(tmp_path / "a.tsv", rows=1, header=False))).equals(data)
    by_column = gainful.read(tmp_path / "a.tsv", header=False, grade=2, qid=0, sidecars=False)
    assert by_column.query_ids.tolist() == [1, 0, 2]
    assert by_column.y.tolist() == [3, 5, 7]


# -- weights -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", ["2\n2\n.5\n.5\n5e-1\n", "2.0\n0.5"])
def test_weights_of_rows_or_queries(path, weights):
    (path.parent / "rank.train.weight").write_text(weights)
    assert gainful.read(path).query_weights.tolist() == [2, 0.5]
    blocks = gainful.RankingData.concatenate(list(iter_blocks(path, rows=1)))
    assert blocks.query_weights.tolist() == [2, 0.5]


def test_weights_beside_rows_with_ids_in_any_order(tmp_path):
    with_ids(tmp_path, ids=(7, 8, 7, 8, 8))
    (tmp_path / "named.txt.weight").write_text("1\n2\n1\n2\n2\n")
    data = gainful.read(tmp_path / "named.txt", merge=True)
    assert data.query_weights.tolist() == [1, 2]


def test_weights_of_documents(path):
    (path.parent / "rank.train.weight").write_text("1\n2\n1\n1\n1\n")
    data = gainful.read(path)
    assert data.row_weights.tolist() == [1, 2, 1, 1, 1]
    assert data.query_weights.tolist() == [1.5, 1]
    for rows in (1, 3):
        assert gainful.RankingData.concatenate(list(iter_blocks(path, rows=rows))).equals(data)


def test_weights_and_initial_scores_of_rows_in_any_order(tmp_path):
    with_ids(tmp_path, ids=(7, 8, 7, 8, 8))
    (tmp_path / "named.txt.weight").write_text("1\n2\n3\n4\n5\n")
    (tmp_path / "named.txt.init").write_text("1\n-2\n+.5e1\n4.\n5\n")
    data = gainful.read(tmp_path / "named.txt", merge=True)
    assert data.row_weights.tolist() == [1, 3, 2, 4, 5]
    assert data.init_scores.tolist() == [1, 5, -2, 4, 5]
    convert(tmp_path / "named.txt", tmp_path / "named.gnf", read_options={"merge": True})
    assert gainful.read(tmp_path / "named.gnf").equals(data)


@pytest.mark.parametrize("name", ["rank.train.init", "rank.train.base_margin"])
def test_initial_scores(path, name):
    (path.parent / name).write_text("1\n2\n-1\n0\n1e-3\n")
    data = gainful.read(path)
    assert data.init_scores.tolist() == [1, 2, -1, 0, 0.001]
    assert gainful.RankingData.concatenate(list(iter_blocks(path, rows=1))).equals(data)
    assert gainful.read(path, sidecars=False, query_id=1).init_scores is None


def test_initial_scores_that_do_not_fit(path):
    (path.parent / "rank.train.init").write_text("1\n2\n")
    with pytest.raises(FormatError, match=r"rank.train.init: there are 2 scores, but .* has 5 rows"):
        gainful.read(path)
    with pytest.raises(FormatError, match=r"rank.train.init: there are 2 scores, fewer than rows"):
        list(iter_blocks(path, rows=1))
    (path.parent / "rank.train.init").write_text("1\nnan\n")
    with pytest.raises(FormatError, match="line 2: expected a score, found 'nan'"):
        gainful.read(path)


@pytest.mark.parametrize(
    ("weights", "told"),
    [
        (
            "1\n2\n3\n",
            "train.weight: there are 3 weights for 5 rows of 2 queries; one weight per row or per query",
        ),
        ("0\n0\n", "rank.train.weight: all query weights are 0"),
        ("1\n-2\n", "rank.train.weight, line 2: expected a weight, found '-2'"),
        ("1\nnan\n", "rank.train.weight, line 2: expected a weight, found 'nan'"),
        ("1\n1e999\n", "rank.train.weight, line 2: a weight is too large"),
        ("", "rank.train.weight: the file is empty"),
    ],
)
def test_weights_that_cannot_be(path, weights, told):
    (path.parent / "rank.train.weight").write_text(weights)
    with pytest.raises(FormatError, match=told):
        gainful.read(path)


def test_weights_twice(tmp_path):
    (tmp_path / "a.csv").write_text("qid,label,weight,a\n1,1,1,2\n2,0,1,3\n")
    (tmp_path / "a.csv.weight").write_text("1\n2\n")
    with pytest.raises(FormatError, match=r"a.csv.weight: gives weights, and so does column 'weight'"):
        gainful.read(tmp_path / "a.csv")
    assert gainful.read(tmp_path / "a.csv", weight=False).query_weights.tolist() == [1, 2]


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "told"),
    [
        ("2\n2\n", r"rank.train.query: the sizes add up to 4 rows, but .*rank.train has 5"),
        ("2\nthree\n", "rank.train.query, line 2: expected the size of a query, found 'three'"),
        ("2\n\n3\n", "rank.train.query, line 2: expected the size of a query, found ''"),
        ("2\n0\n3\n", "rank.train.query, line 2: expected the size of a query, found '0'"),
        ("2 3\n", "rank.train.query, line 1: expected the size of a query, found '2 3'"),
        ("2\n1234567890123456\n", "rank.train.query, line 2: expected the size of a query"),
        ("\xff", "rank.train.query, line 1: expected the size of a query"),
    ],
)
def test_sizes_that_cannot_be(path, sizes, told):
    (path.parent / "rank.train.query").write_bytes(sizes.encode("latin-1"))
    with pytest.raises(FormatError, match=told):
        gainful.read(path)
    with pytest.raises(FormatError):
        list(iter_blocks(path))


def test_sizes_must_agree_with_the_ids_in_the_rows(tmp_path):
    expected = with_ids(tmp_path)
    (tmp_path / "named.txt.query").write_text(SIZES)
    assert gainful.read(tmp_path / "named.txt").equals(expected)
    (tmp_path / "named.txt.query").write_text("1\n4\n")
    with pytest.raises(FormatError, match=r"txt.query: the sizes contradict the query ids .* pass sidecars=False"):
        gainful.read(tmp_path / "named.txt")
    assert gainful.read(tmp_path / "named.txt", sidecars=False).equals(expected)


def test_two_files_of_sizes(path):
    (path.parent / "rank.train.group").write_text(SIZES)
    with pytest.raises(FormatError, match=r"rank.train.group: has the same role as rank.train.query; keep one"):
        gainful.read(path)


def test_rows_without_ids_and_without_sizes(path):
    with pytest.raises(FormatError, match=r"expected 'qid:' .* or a file FILE.query beside the data"):
        gainful.read(path, sidecars=False)


def test_what_is_ignored_is_said(path):
    (path.parent / "rank.train.position").write_text("1\n2\n3\n4\n5\n")
    with pytest.warns(DataWarning, match="rank.train.position is ignored; if the grades are clicks, train with fit"):
        data = gainful.read(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert gainful.read(path, sidecars=False, query_id="q").n_rows == data.n_rows


# -- one query in a file -----------------------------------------------------------------------------------------------


def test_a_file_of_one_query(tmp_path):
    write_rows(tmp_path / "a.txt")
    data = gainful.read(tmp_path / "a.txt", query_id="shoes")
    assert data.query_ids.tolist() == ["shoes"]
    assert data.n_rows == 5
    (tmp_path / "a.csv").write_text("grade,a\n1,2\n0,3\n")
    assert gainful.read(tmp_path / "a.csv", query_id=7).query_ids.tolist() == ["7"]
    with pytest.raises(gainful.ParameterError, match="query_id of read must be"):
        gainful.read(tmp_path / "a.csv", query_id=True)
    with_ids(tmp_path)
    with pytest.raises(FormatError, match="rows have query ids of their own; leave out query_id"):
        gainful.read(tmp_path / "named.txt", query_id="x")


def test_folders_of_files_of_one_query(tmp_path):
    rng = np.random.default_rng(0)
    folder = tmp_path / "days"
    folder.mkdir()
    for name in ("shoes", "hats", "10"):
        rows = "".join(f"{i},{a},{b}\n" for i, (a, b) in enumerate(rng.normal(size=(3, 2))))
        (folder / f"{name}.csv").write_text("grade,a,b\n" + rows)
    with pytest.raises(FormatError, match=r"cannot tell which column is the qid; .*query_per_file=True"):
        gainful.read(folder)
    data = gainful.read(folder, query_per_file=True)
    assert sorted(data.query_ids.tolist()) == ["10", "hats", "shoes"]
    assert data.counts.tolist() == [3, 3, 3]
    assert gainful.read(tmp_path / "days" / "*s.csv", query_per_file=True).query_ids.tolist() == ["hats", "shoes"]
    shards = gainful.open_shards(folder, query_per_file=True)
    assert shards.n_queries == 3
    convert(folder, tmp_path / "all.gnf", read_options={"query_per_file": True})
    assert gainful.read(tmp_path / "all.gnf").equals(data)
    with pytest.raises(FormatError, match="no file matches this pattern"):
        gainful.read(tmp_path / "days" / "*.txt")


def test_folders_of_tables_are_joined(tmp_path):
    (tmp_path / "1.csv").write_text("qid,grade,a,b\nx,1,2,3\nx,0,4,5\n")
    (tmp_path / "2.csv").write_text("b,a,grade,qid\n6,7,1,y\n8,9,0,y\n")
    data = gainful.read(tmp_path)
    assert data.X.tolist() == [[2, 3], [4, 5], [7, 6], [9, 8]]
    assert data.query_ids.tolist() == ["x", "y"]
    (tmp_path / "3.csv").write_text("qid,grade,a,b\nx,1,2,3\n")
    with pytest.raises(FormatError, match=r"3.csv: query x is also in .*1.csv; query ids must differ between files"):
        gainful.read(tmp_path)
    (tmp_path / "3.csv").write_text("qid,grade,a,c\nz,1,2,3\n")
    with pytest.raises(gainful.ParameterError, match=r"3.csv: there is no column .*'b'"):
        gainful.read(tmp_path)


# -- folders as they come ----------------------------------------------------------------------------------------------


def test_a_folder_of_lightgbm_is_divided(path):
    """rank.train and rank.test, each with its sizes, are training and test data."""
    write_rows(path.with_name("rank.test"), ROWS[:2])
    path.with_name("rank.test.query").write_text("2")
    (split,) = open_parts(path.parent)["data"]
    assert (split.train.n_queries, split.test.n_queries) == (2, 1)
    assert split.test.n_features == split.train.n_features == 3


def test_a_folder_that_is_not_divided_is_joined(tmp_path):
    for name in ("mon", "tue"):
        (tmp_path / f"{name}.csv").write_text(f"qid,grade,a\n{name},1,2\n{name},0,3\n")
    assert open_parts(tmp_path)["data"].query_ids.tolist() == ["mon", "tue"]
    assert open_parts(tmp_path / "m*.csv")["data"].query_ids.tolist() == ["mon"]
    parts = open_parts(tmp_path / "mon.csv", test=tmp_path / "tue.csv")
    assert (parts["data"].n_queries, parts["test"].n_queries) == (1, 1)


@pytest.mark.parametrize("wider", ["a.csv", "b.csv"])
def test_files_of_other_columns_are_refused_in_any_order(tmp_path, wider):
    for name in ("a.csv", "b.csv"):
        more = (",f2", ",7") if name == wider else ("", "")
        (tmp_path / name).write_text(f"qid,grade,f1{more[0]}\n{name},1,2{more[1]}\n{name},0,3{more[1]}\n")
    with pytest.raises(gainful.GainfulError, match=r"column f2 is not in .*a\.csv|no column \(features\) 'f2'"):
        gainful.read(tmp_path)
    assert gainful.read(tmp_path, features=["f1"]).feature_names == ("f1",)


@pytest.mark.parametrize("name", ["a.txt", "a.csv"])
def test_data_info_names_the_files_beside(name, tmp_path, capsys):
    from gainful.cli import run

    rows = {"a.txt": "1 1:2 2:3\n0 1:1 2:1\n2 1:4 2:5\n", "a.csv": "grade,x,z\n1,2,3\n0,1,1\n2,4,5\n"}
    (tmp_path / name).write_text(rows[name])
    (tmp_path / f"{name}.query").write_text("2\n1\n")
    (tmp_path / f"{name}.weight").write_text("1\n2\n")
    (tmp_path / f"{name}.init").write_text("0.5\n-1\n2\n")
    assert run(["data", "info", str(tmp_path / name)]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "queries 2 (weighted)" in lines
    assert "initial scores -1 to 2" in lines
    for suffix, held in {"query": "sizes of the queries", "weight": "weights", "init": "initial scores"}.items():
        assert f"file beside it {name}.{suffix}: {held}" in lines
    assert run(["data", "info", str(tmp_path / name), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["files_beside"] == {
        f"{name}.query": "sizes of the queries",
        f"{name}.weight": "weights",
        f"{name}.init": "initial scores",
    }
    assert found["init_score_range"] == [-1, 2]
    (tmp_path / "a.csv").write_text("qid,grade,x\n1,1,2\n1,0,1\n")
    assert run(["data", "info", str(tmp_path / "a.csv"), "--read", "sidecars=false", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files_beside"] == {}
