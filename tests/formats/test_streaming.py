"""What is converted piece by piece is what reading and writing all at once gives."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import ranking_data

from gainful.data.dataset import RankingData
from gainful.errors import FormatError, GainfulError, ParameterError
from gainful.formats import read, write
from gainful.formats.binary import stream as binary_stream
from gainful.formats.convert import convert, iter_blocks
from gainful.formats.letor import reader as letor
from gainful.formats.letor import stream as letor_stream
from gainful.formats.sources import StartOver
from gainful.formats.table import stream as table_stream

NAMES = ["a.txt", "a.svm.gz", "a.dat.zst", "a.parquet", "a.arrow", "a.csv", "a.tsv.zst", "a.gnf"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("streaming")


@pytest.fixture(params=["tiny pieces", "usual pieces"])
def pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """So small that every query is cut, or as they are."""
    if request.param == "tiny pieces":
        make_tiny(monkeypatch)


def make_tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(letor, "SPARSE_BYTES", 300)  # so that whether to store text sparse changes inside a file
    monkeypatch.setattr(letor_stream, "SAMPLE_BYTES", 1)
    monkeypatch.setattr(letor_stream.LetorSource.__init__, "__kwdefaults__", {"chunk_bytes": 1})
    kept = table_stream.TableSource.__init__.__kwdefaults__ | {"piece_rows": 2, "chunk_bytes": 300}
    monkeypatch.setattr(table_stream.TableSource.__init__, "__kwdefaults__", kept)
    monkeypatch.setattr(binary_stream.BinarySource.__init__, "__kwdefaults__", {"piece_rows": 2, "verify": True})


def assert_same(a: RankingData, b: RankingData, *, signs: bool = True) -> None:
    assert a.equals(b), (a, b)
    assert a.query_ids.dtype.kind == b.query_ids.dtype.kind
    if a.doc_ids is not None and b.doc_ids is not None:
        assert a.doc_ids.dtype.kind == b.doc_ids.dtype.kind
    values = (a.X.data, b.X.data) if a.is_sparse else (a.X, b.X)
    assert not signs or np.array_equal(
        np.signbit(values[0]) & (values[0] == 0), np.signbit(values[1]) & (values[1] == 0)
    )


def check_conversion(source: Path, **options: Any) -> None:
    """The file, the shards and the blocks say what reading says."""
    expected = read(source, **options)
    target, parts = source.parent / "target.gnf", source.parent / "parts"
    done = convert(source, target, read_options=options)
    signs = not source.name.startswith(("a.csv", "a.tsv"))  # read all at once, a column of integers has no -0.0
    assert_same(expected, read(target, mmap=False), signs=signs)
    assert (done.n_rows, done.n_queries, done.n_features) == (*expected.X.shape[:1], len(expected), expected.X.shape[1])
    blocks = list(iter_blocks(source, rows=3, **options))
    assert_same(expected, RankingData.concatenate(blocks), signs=signs)
    shutil.rmtree(parts, ignore_errors=True)
    done = convert(source, parts, shard_rows=3, read_options=options)
    shards = [read(path) for path in sorted(parts.iterdir())]
    assert [path.name for path in done.paths] == [f"part-{i:05}.gnf" for i in range(len(shards))]
    assert_same(expected, RankingData.concatenate(shards), signs=signs)
    for some in (*blocks[:-1], *shards[:-1]):
        assert some.n_rows - some.counts[-1] < 3 <= some.n_rows
    assert not [path for path in source.parent.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.usefixtures("pieces")
def test_every_format(folder: Path, name: str) -> None:
    @settings(max_examples=10)
    @given(data=ranking_data(stored_zeros=name.endswith((".txt", ".gnf", "gz", "dat.zst"))))
    def check(data: RankingData) -> None:
        write(data, folder / name)
        check_conversion(folder / name)

    check()


TEXT = st.lists(
    st.tuples(
        st.sampled_from(["7", "8", "07", "x", "é"]),
        st.lists(st.integers(1, 30), max_size=3, unique=True),
        st.sampled_from(["", " #docid = 5", " # two words"]),
    ),
    min_size=1,
    max_size=8,
)


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("options", [{"merge": True}, {"merge": True, "sparse": True, "dtype": "float32"}, {}])
def test_text_with_scattered_rows_that_widen(folder: Path, options: dict[str, Any]) -> None:
    @settings(max_examples=10)
    @given(lines=TEXT)
    def check(lines: list[Any]) -> None:
        path = folder / "apart.txt"
        rows = [f"1 qid:{q} {' '.join(f'{i}:{i}.5' for i in features)}{doc}\n" for q, features, doc in lines]
        path.write_text("\n# comment\n".join(rows))
        try:
            read(path, **options)
        except FormatError as error:
            with pytest.raises(FormatError, match=f"^{re.escape(str(error))}$"):
                convert(path, folder / "refused.gnf", read_options=options)
            return
        check_conversion(path, **options)

    check()


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a.arrow"])
def test_tables_in_any_order(folder: Path, name: str) -> None:
    @settings(max_examples=8)
    @given(
        qids=st.lists(st.sampled_from(["3", "20", "x", "003"]), min_size=1, max_size=9),
        kind=st.sampled_from([str, hash]),
        weighted=st.booleans(),
    )
    def check(qids: list[str], kind: Any, weighted: bool) -> None:
        n = len(qids)
        columns: dict[str, Any] = {
            "qid": [kind(q) for q in qids],
            "grade": list(range(n)),
            "flag": [i % 2 == 0 for i in range(n)],
            "whole": [None if i == 1 else 2**60 + i for i in range(n)],
            "part": pa.array([i / 3 for i in range(n)], pa.float32()),
            "docno": [f"d{i}" * (i % 3) for i in range(n)],
        }
        if weighted:
            columns["weight"] = [1.0 + len(q) for q in qids]
        table = pa.table(columns)
        write_table(table, folder / name)
        check_conversion(folder / name)

    check()


def write_table(table: pa.Table, path: Path) -> None:
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=4)
    elif path.suffix == ".csv":
        from pyarrow import csv

        csv.write_csv(table, path)
    else:
        with pa.ipc.new_stream(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=4)


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize(
    ("name", "text", "options"),
    [
        ("a.csv", "qid,y,a\n1,0,16\n1,1,3\n2,0,\n", {}),
        ("a.csv", "qid,y,a\n1,0,\n1,1,\n2,0,\n", {}),
        ("a.csv", "qid,y,a,b\n1,0,true,1\n2,1,false,2\n1,0,true,3\n", {}),
        ("a.csv", "qid,y,a,b,name\n1,0,1.5,2,\"x,\ny\"\n2,1,2,3,z\n", {"features": ["b", "a"]}),
        ("a.tsv", "QID\tgrade\tweight\n1\t0\t2\n1\t1\t3\n", {"weight": False}),
        ("a.txt", "1 qid:1 0:4\n0 qid:2 1:2 0:1\n", {"zero_based": True}),
        ("a.txt", "1 qid:1 3:4 1:2\n0 qid:2 9:1 2:1\n", {"n_features": 12}),
        ("a.txt", "# gainful doc_ids = \"int\"\n1 qid:1 3:4 #docid = 3\n0 qid:2 2:1 #docid = 4\n", {}),
        ("a.txt", "# gainful query_ids = \"str\"\n1 qid:1 3:4\n0 qid:2 2:1 #docid = 4\n", {}),
        ("a.txt", "# gainful query_weights = [1, 2]\n1 qid:1 3:4\n0 qid:2 2:1\n2 qid:1 1:1\n", {"merge": True}),
        ("a.txt", "\ufeff1 qid:1 2:NULL\r\n0 qid:2\r\n", {"dtype": "float32"}),
    ],
)  # fmt: skip
def test_options_and_oddities(tmp_path: Path, name: str, text: str, options: dict[str, Any]) -> None:
    (tmp_path / name).write_text(text)
    check_conversion(tmp_path / name, **options)


def test_truth_values_in_csv_are_found_in_bounded_memory(tmp_path: Path) -> None:
    """Two columns of truth values, one of them with 0 and 1 in the first chunks, in a file beyond the limit."""
    rows = [
        f"{i // 10},{i % 3},{'true' if i % 2 else 'false'},{i % 2 if i < 9000 else 'true'},{i}" for i in range(10_000)
    ]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["qid,y,a,b,c", *rows]) + "\n")
    columns = table_stream.Columns(features=["a", "b", "c"])
    source = table_stream.TableSource([path], "csv", columns, merge=True, chunk_bytes=1 << 12, max_bytes="100KB")
    with pytest.raises(StartOver):
        list(source.pieces())
    with pytest.raises(StartOver):
        list(source.pieces())
    X = np.concatenate([piece.data.X for piece in source.pieces()])
    i = np.arange(10_000)
    assert np.array_equal(X, np.column_stack([i % 2, np.where(i < 9000, i % 2, 1), i]))
    path.write_text(path.read_text() + "1,1,true,maybe,2\n")
    source = table_stream.TableSource([path], "csv", columns, merge=True, chunk_bytes=1 << 12)
    with pytest.raises(StartOver):
        list(source.pieces())
    with pytest.raises(FormatError, match="line 9002: column 'b' must be numeric, found 'true'"):
        list(source.pieces())


MALFORMED = [
    ("a.txt", "1 qid:1 1:2\n\n1 qid:1 1:x\n", {}),
    ("a.txt", "1 qid:1 1:2\n1 qid:2 5:2\n1 qid:3 1:1e999\n", {}),
    ("a.txt", "1 qid:1 1:2\n1 qid:2 5:2\n# c\n1 qid:1 1:1\n", {}),
    ("a.txt", "1 qid:1 1:2\n1 qid:2 5:2\n", {"n_features": 4}),
    ("a.txt", "1 qid:1 1:2\n1 qid:2 99999999999:2\n", {}),
    ("a.txt", "# only\n\n", {}),
    ("a.txt", "# gainful query_weights = [1, 2]\n1 qid:1 3:4\n0 qid:2 2:1\n2 qid:3 1:1\n", {}),
    ("a.txt", "# gainful query_weights = [1, 2]\n1 qid:1 3:4\n", {}),
    ("a.txt", "# gainful query_weights = [1, 2}\n1 qid:1 3:4\n", {}),
    ("a.txt", "# gainful doc_ids = \"int\"\n1 qid:1 3:4 #docid = 3\n0 qid:2 2:1\n", {}),
    ("a.txt", "# gainful feature_names = [\"a\"]\n1 qid:1 3:4\n", {"n_features": 2}),
    ("a.csv", "qid,y,a\n1,0,1\n1,1\n", {}),
    ("a.csv", "qid,y,a\n1,0,1\n1,1,x\n", {}),
    ("a.csv", "qid,y,a\n1,0,1\n1,1,2020-01-01\n", {}),
    ("a.csv", "qid,y,a\n1,0,1\n2,1,inf\n", {}),
    ("a.csv", "qid,y,a\n1,0,1\n1,0,1\n1,0,1\n2,-1,1\n", {}),
    ("a.csv", "qid,y,a\n1,0,1\n1,0,1\n1,0,1\n2,NA,1\n", {}),
    ("a.csv", "qid,y,a\n1,0,1\n1,0,1\n1,0,1\n,1,1\n", {}),
    ("a.csv", "qid,y,a\n1,0,1\n2,0,1\n1,0,1\n", {"merge": False}),
    ("a.csv", "qid,y,a\n", {}),
    ("a.csv", "qid,y,a,a\n1,2,3,4\n", {}),
    ("a.csv", "qid,z,a\n1,2,3\n", {}),
    ("a.csv", "qid,y,weight\n1,0,1\n1,1,1\n1,1,2\n", {}),
    ("a.csv", "qid,y,weight\n1,0,1\n2,1,1\n1,1,2\n", {}),
    ("a.csv", "qid,y,weight\n1,0,0\n2,1,-1\n", {}),
    ("a.csv", "qid,y,weight\n1,0,0\n2,1,inf\n", {}),
    ("a.csv", "qid,y,a\n1,0,1\n", {"features": ["b"]}),
    ("a.parquet", "no table", {}),
    ("a.arrow", "no table", {}),
    ("a.gnf", "no data", {}),
    ("a.txt.gz", "no gz", {}),
]  # fmt: skip


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize(("name", "text", "options"), MALFORMED)
def test_errors_are_those_of_reading(tmp_path: Path, name: str, text: str, options: dict[str, Any]) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(GainfulError) as told:
        read(tmp_path / name, **options)
    for work in (
        lambda: convert(tmp_path / name, tmp_path / "t.gnf", read_options=options),
        lambda: convert(tmp_path / name, tmp_path / "t", shard_rows=1, read_options=options),
        lambda: list(iter_blocks(tmp_path / name, **options)),
    ):
        with pytest.raises(type(told.value)) as streamed:
            work()
        assert str(streamed.value) == str(told.value)
    assert os.listdir(tmp_path) == [name]


# -- folders -----------------------------------------------------------------------------------------------------------


def some_data(n_queries: int = 6, *, first: int = 0, d: int = 3, dtype: str = "float64") -> RankingData:
    rng = np.random.default_rng(first)
    n = 4 * n_queries
    return RankingData.from_rows(
        rng.random((n, d)).astype(dtype),
        rng.integers(0, 3, n),
        np.repeat(np.arange(first, first + n_queries), 4),
        doc_ids=[f"d{first}-{i}" for i in range(n)],
    )


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("suffix", [".txt", ".svm.gz", ".parquet", ".gnf"])
def test_a_folder_of_shards(tmp_path: Path, suffix: str) -> None:
    parts = [some_data(2), some_data(3, first=10), some_data(1, first=20)]
    (tmp_path / "in").mkdir()
    for i, part in enumerate(parts):
        write(part, tmp_path / "in" / f"{i}{suffix}")
    (tmp_path / "in" / "_SUCCESS").touch()
    convert(tmp_path / "in", tmp_path / "one.gnf")
    assert_same(RankingData.concatenate(parts), read(tmp_path / "one.gnf"))
    convert(tmp_path / "in", tmp_path / "out", shard_rows=9, to="parquet")
    back = [read(path) for path in sorted((tmp_path / "out").iterdir())]
    assert [shard.n_rows for shard in back] == [12, 12]
    assert_same(RankingData.concatenate(parts), RankingData.concatenate(back))


def test_text_shards_of_unequal_width_and_ids(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("1 qid:1 1:2\n")
    (tmp_path / "in" / "b.txt").write_text("1 qid:x 3:2 #docid = 7\n")
    convert(tmp_path / "in", tmp_path / "one.gnf")
    one = read(tmp_path / "one.gnf")
    assert one.X.tolist() == [[2, 0, 0], [0, 0, 2]]
    assert one.query_ids.tolist() == ["1", "x"]
    assert one.doc_ids is not None
    assert one.doc_ids.tolist() == ["", "7"]
    convert(tmp_path / "in", tmp_path / "out", shard_rows=1)
    assert_same(one, RankingData.concatenate([read(path) for path in sorted((tmp_path / "out").iterdir())]))


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("suffix", [".gnf", ".parquet", ".txt"])
def test_a_query_in_two_shards(tmp_path: Path, suffix: str) -> None:
    a, b = some_data(3), some_data(4, first=1)
    (tmp_path / "in").mkdir()
    write(a, tmp_path / "in" / f"a{suffix}")
    write(b, tmp_path / "in" / f"b{suffix}")
    options = {"merge": True} if suffix == ".txt" else {}
    if options:
        with pytest.raises(FormatError, match=r"b\.txt, line 1: query 1 has rows in .*a\.txt too, up to line 8; pass"):
            convert(tmp_path / "in", tmp_path / "one.gnf")
    expected = RankingData.from_rows(
        np.concatenate([a.X, b.X]),
        np.concatenate([a.y, b.y]),
        np.concatenate([a.qid, b.qid]),
        doc_ids=np.concatenate([a.doc_ids, b.doc_ids]),  # type: ignore[list-item]
    )
    convert(tmp_path / "in", tmp_path / "one.gnf", read_options=options)
    assert_same(expected, read(tmp_path / "one.gnf"))
    assert_same(expected, RankingData.concatenate(list(iter_blocks(tmp_path / "in", rows=1, **options))))
    convert(tmp_path / "in", tmp_path / "out", shard_rows=8, read_options=options)
    assert_same(expected, RankingData.concatenate([read(path) for path in sorted((tmp_path / "out").iterdir())]))


def test_single_and_double_shards_make_double(tmp_path: Path) -> None:
    parts = [some_data(2, dtype="float32"), some_data(2, first=5)]
    (tmp_path / "in").mkdir()
    for i, part in enumerate(parts):
        write(part, tmp_path / "in" / f"{i}.gnf")
    convert(tmp_path / "in", tmp_path / "one.gnf")
    assert_same(RankingData.concatenate(parts), read(tmp_path / "one.gnf"))
    assert {str(block.X.dtype) for block in iter_blocks(tmp_path / "in", rows=4)} == {"float64"}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "no data files"),
        ({"a.txt": "1 qid:1 1:1\n", "b.csv": "qid,y,a\n1,0,1\n"}, "b.csv: has a different format from a.txt"),
        ({"a.csv": "qid,y,a\n1,0,1\n", "b.csv": "qid,y,b\n1,0,1\n"}, "b.csv: has different feature names than"),
        ({"a.csv": "qid,y,a\n1,0,1\n", "b.csv": "qid,y\n1,0\n"}, "b.csv: has 0 features, .*a.csv has 1"),
        ({"a.txt": "1 qid:1 1:1\n", "b.txt": "1 qid:2 1:x\n"}, "b.txt, line 1, column 11"),
        ({"a.txt": "1 qid:1 1:1\n", "b.txt": ""}, "b.txt: the file is empty"),
        ({"a.csv": "qid,y,a\n1,0,1\n", "b.csv": "qid,y,a\n2,0,x\n"}, "b.csv: column 'a' holds text, which cannot be"),
        ({"a.csv": "qid,y,a\n1,0,1\n", "b.csv": "qid,y,a\n2,NA,1\n"}, "b.csv: the grade of row 0 is missing"),
    ],
)
def test_folders_that_cannot_be_one(tmp_path: Path, files: dict[str, str], message: str) -> None:
    (tmp_path / "in").mkdir()
    for name, text in files.items():
        (tmp_path / "in" / name).write_text(text)
    with pytest.raises(FormatError, match=message):
        convert(tmp_path / "in", tmp_path / "one.gnf")
    assert os.listdir(tmp_path) == ["in"]


# -- whole or not at all -----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("how", [{}, {"shard_rows": 5}, {"to": "parquet"}])
def test_an_interrupt_leaves_nothing(tmp_path: Path, how: dict[str, Any]) -> None:
    write(some_data(), tmp_path / "a.txt")
    (tmp_path / "target").write_text("old") if "shard_rows" not in how else None
    before = sorted(os.listdir(tmp_path))

    def interrupt(n_rows: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert(tmp_path / "a.txt", tmp_path / "target", progress=interrupt, **({"to": "binary"} | how))
    assert sorted(os.listdir(tmp_path)) == before
    assert "target" not in before or (tmp_path / "target").read_text() == "old"


@pytest.mark.parametrize("how", [{}, {"shard_rows": 5}])
def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: dict[str, Any]) -> None:
    write(some_data(), tmp_path / "a.txt")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FormatError, match="cannot be written: No space left on device"):
        convert(tmp_path / "a.txt", tmp_path / "target.gnf", **how)
    assert os.listdir(tmp_path) == ["a.txt"]


def test_progress_counts_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_tiny(monkeypatch)
    write(some_data(), tmp_path / "a.parquet")
    seen: list[int] = []
    convert(tmp_path / "a.parquet", tmp_path / "a.gnf", progress=seen.append)
    assert seen == list(range(2, 25, 2))


def test_refusals(tmp_path: Path) -> None:
    write(some_data(), tmp_path / "a.gnf")
    with pytest.raises(ParameterError, match="rows of iter_blocks must be an integer from 1"):
        iter_blocks(tmp_path / "a.gnf", rows=0)
    with pytest.raises(ParameterError, match="shard_rows of convert must be an integer from 1"):
        convert(tmp_path / "a.gnf", tmp_path / "b", shard_rows=0)
    with pytest.raises(ParameterError, match=r"read for this format has no option 'dtype'"):
        convert(tmp_path / "a.gnf", tmp_path / "b.gnf", read_options={"dtype": "float32"})
    with pytest.raises(ParameterError, match=r"write for this format has no option 'zeros'"):
        convert(tmp_path / "a.gnf", tmp_path / "b.gnf", write_options={"zeros": True})
    with pytest.raises(FormatError, match="new or empty folder"):
        convert(tmp_path / "a.gnf", tmp_path, shard_rows=9)
    with pytest.raises(FormatError, match="create it first"):
        convert(tmp_path / "a.gnf", tmp_path / "no" / "b", shard_rows=9)
    assert os.listdir(tmp_path) == ["a.gnf"]
