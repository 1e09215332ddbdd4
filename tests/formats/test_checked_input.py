"""Nothing from a file is used before it is checked: damage, text that is not UTF-8, sizes, ids, special files."""

from __future__ import annotations

import gzip
import json
import os
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gainful
from gainful.data.dataset import RankingData
from gainful.errors import DataError, FormatError, ParameterError, command_line_words
from gainful.formats import read, write
from gainful.formats.binary.reader import PREFIX
from gainful.formats.convert import convert, iter_blocks
from gainful.formats.letor import reader as letor
from gainful.formats.limits import LONGEST_ID, MemoryLimit
from gainful.formats.table.reader import from_frame
from gainful.inputs.shards import open_shards

TABLE = {"qid": ["a", "a", "b", "b"], "grade": [1.0, 0.0, 1.0, 0.0], "x": [1.0, 2.0, 3.0, 4.0]}


def put(folder: Path, name: str, content: bytes) -> Path:
    (folder / name).write_bytes(content)
    return folder / name


def arrow(folder: Path, change: Callable[[bytes], bytes] = bytes, table: Any = None) -> Path:
    path = folder / "a.arrow"
    table = pa.table(TABLE) if table is None else table
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    return put(folder, "a.arrow", change(path.read_bytes()))


def parquet(folder: Path, change: Callable[[bytes], bytes] = bytes) -> Path:
    pq.write_table(pa.table(TABLE), folder / "a.parquet", use_dictionary=False, compression="none")
    return put(folder, "a.parquet", change((folder / "a.parquet").read_bytes()))


def replaced(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    def change(raw: bytes) -> bytes:
        assert old in raw
        return raw.replace(old, new)

    return change


def both_ways(path: Path, **options: Any) -> str:
    """The message of reading a file, which must also be that of reading it in blocks."""
    with pytest.raises(FormatError) as whole:
        read(path, **options)
    with pytest.raises(FormatError) as in_blocks:
        list(iter_blocks(path, **options))
    assert str(whole.value) == str(in_blocks.value)
    assert str(path) in str(whole.value)
    assert "\n" not in str(whole.value)
    return str(whole.value)


# -- Arrow and Parquet -------------------------------------------------------------------------------------------------


def test_an_offset_outside_the_column_is_refused(tmp_path: Path) -> None:
    offsets = struct.pack("<5i", 0, 1, 2, 3, 4)
    path = arrow(tmp_path, replaced(offsets, struct.pack("<5i", 0, 1, 100_000_000, 3, 4)))
    code = f"import sys, gainful\ntry: gainful.read({str(path)!r})\nexcept gainful.errors.FormatError: sys.exit(3)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 3, "in a process of its own"
    assert "column 'qid' is damaged" in both_ways(path)


def test_a_dictionary_index_outside_the_dictionary_is_refused(tmp_path: Path) -> None:
    indices = pa.array([0, 0, 1, 1], pa.int32())
    table = pa.table(TABLE).set_column(0, "qid", pa.DictionaryArray.from_arrays(indices, ["a", "b"]))
    path = arrow(tmp_path, replaced(struct.pack("<4i", 0, 0, 1, 1), struct.pack("<4i", 0, 0, 1, 99_999_999)), table)
    assert "column 'qid' is damaged" in both_ways(path)


@pytest.mark.parametrize("make", [arrow, parquet])
def test_ids_that_are_not_utf8(tmp_path: Path, make: Any) -> None:
    old, new = (b"aabb", b"\xffabb") if make is arrow else (b"\x01\0\0\0a\x01", b"\x01\0\0\0\xff\x01")
    assert "column 'qid' holds text that is not UTF-8" in both_ways(make(tmp_path, replaced(old, new)))


@pytest.mark.parametrize("make", [arrow, parquet])
def test_names_that_are_not_utf8(tmp_path: Path, make: Any) -> None:
    path = make(tmp_path, replaced(b"grade", b"gr\xf6\xdfe"))
    assert "the column names are not UTF-8 text" in both_ways(path)


def test_a_column_without_buffers_cannot_claim_any_number_of_rows(tmp_path: Path) -> None:
    columns = {"qid": pa.array([1] * 1000), "grade": pa.array([1.0] * 1000), "x": pa.nulls(1000)}
    with pytest.raises(FormatError, match=r"a table of 1,000 rows would take 116 kB of memory; the limit is 100 kB"):
        read(arrow(tmp_path, table=pa.table(columns)), max_bytes="100KB")


def test_structure_of_tables_in_memory(tmp_path: Path) -> None:
    offsets = struct.pack("<5i", 0, 1, 2, 3, 4)
    path = arrow(tmp_path, replaced(offsets, struct.pack("<5i", 0, 1, 2, 3, 100_000_000)))
    table = pa.ipc.open_file(path.read_bytes()).read_all()
    with pytest.raises(DataError, match="the frame is not a valid Arrow table"):
        from_frame(table)
    with pytest.raises(DataError, match="X is not a valid Arrow table"):
        RankingData.from_rows(table, TABLE["grade"], TABLE["qid"])


# -- CSV ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"qid,grade,gr\xf6\xdfe\n1,1,2\n", "the column names are not UTF-8 text; save the file as UTF-8"),
        (b"qid,grade,f\n1\xff,1,2\n", "line 2: column 'qid' holds text that is not UTF-8; save the file as UTF-8"),
        (b"qid,grade,f\n1,1,2\xff\n", "column 'f' must be numeric, but holds bytes, or text that is not UTF-8"),
        (b"qid,grade,f\n1,1,1\n1,0,0x1F\n", "line 3: column 'f' must be numeric, found '0x1F'"),
        (b"qid,grade,f\n1,0x1,1\n1,0x0,2\n", "line 2: column 'grade' must be numeric, found '0x1'"),
        (b"qid,grade,f,b\n1,1,0x1,true\n1,0,1,false\n", "line 2: column 'f' must be numeric, found '0x1'"),
        (b"qid,grade,f\na,1,1\na\0,0,1\n", "the query id in column 'qid' holds a NUL character"),
        (b'qid,grade,f\n"a,1,1\n' + b"1,1,1\n" * 400_000, "a row is longer than 1 MiB: a quote is not closed"),
    ],
)
def test_csv(tmp_path: Path, text: bytes, told: str) -> None:
    assert told in both_ways(put(tmp_path, "a.csv", text))


def test_truth_values_and_integers_in_csv(tmp_path: Path) -> None:
    path = put(tmp_path, "a.csv", b"qid,grade,a,b,c\n1,1,true,7,0.5\n1,0,false,9007199254740993,\n")
    expected = [[1, 7, 0.5], [0, 9007199254740992, np.nan]]
    np.testing.assert_array_equal(read(path).X, expected)
    np.testing.assert_array_equal(next(iter_blocks(path)).X, expected)


# -- ids and names -----------------------------------------------------------------------------------------------------


def test_ids_that_differ_by_a_final_nul_do_not_merge(tmp_path: Path) -> None:
    pq.write_table(pa.table({"qid": ["a", "a\0"], "grade": [1.0, 0.0], "x": [1.0, 2.0]}), tmp_path / "a.parquet")
    assert "holds a NUL character" in both_ways(tmp_path / "a.parquet")
    for ids in (["a", "a\0"], np.array(["a", "a\0"], dtype=object)):
        with pytest.raises(DataError, match=r"qid of row 1 ends in a NUL character, 'a\\x00'"):
            RankingData.from_rows([[1.0], [2.0]], [1, 0], ids)


@pytest.mark.parametrize("size", [LONGEST_ID, LONGEST_ID + 1])
@pytest.mark.parametrize("suffix", [".txt", ".csv", ".parquet", ".gnf"])
@pytest.mark.parametrize("role", ["query", "document"])
def test_long_ids(tmp_path: Path, size: int, suffix: str, role: str) -> None:
    long = "é" * (size // 2) + "x" * (size % 2)
    ids = {"query": ([long, "b"], ["c", "d"]), "document": (["a", "b"], [long, "d"])}[role]
    write(RankingData.from_rows([[1.0], [2.0]], [1, 0], ids[0], doc_ids=ids[1]), tmp_path / f"a{suffix}")
    if size <= LONGEST_ID:
        assert read(tmp_path / f"a{suffix}").n_queries == 2
    else:
        with pytest.raises(FormatError, match=rf"{role}.id.* longer than 65,536 bytes"):
            read(tmp_path / f"a{suffix}")


def test_names_that_are_not_unicode(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"feature name '\\ud800' is not valid Unicode text"):
        RankingData.from_rows([[1.0]], [1], [1], feature_names=["\ud800"])
    with pytest.raises(FormatError, match=r"line 1: the comment .*a name is not valid Unicode text"):
        read(put(tmp_path, "a.txt", b'# gainful feature_names = ["\\ud800"]\n1 qid:a 1:2\n'))
    with pytest.raises(FormatError, match=r"line 2: the comment .*not UTF-8 text at byte 3"):
        read(put(tmp_path, "a.txt", b'\n# gainful feature_names = ["\xff"]\n1 qid:a 1:2\n'))


# -- the binary form ---------------------------------------------------------------------------------------------------


def binary(folder: Path, X: Any = None, ids: Any = (5, 5, 6, 6)) -> Path:
    X = np.arange(12.0).reshape(4, 3) if X is None else X
    write(RankingData.from_rows(X, [1, 0, 1, 0], list(ids)), folder / "a.gnf")
    return folder / "a.gnf"


@pytest.mark.parametrize("mmap", [True, False])
def test_every_flipped_bit_of_a_binary_file_is_noticed(tmp_path: Path, mmap: bool) -> None:
    path = binary(tmp_path)
    whole = path.read_bytes()
    for at in range(0, len(whole), 5):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
        try:
            data = read(path, mmap=mmap)
        except FormatError:
            continue
        header = PREFIX.size + PREFIX.unpack(whole[: PREFIX.size])[2]
        assert at >= len(whole) - 64, f"byte {at} of {len(whole)}, {header} of them header"  # padding at the end
        assert data.equals(read(binary(tmp_path)))


def test_a_damaged_value_is_found_in_any_piece(tmp_path: Path) -> None:
    path = tmp_path / "a.gnf"
    data = gainful.make_artificial(2000, n_docs=5, n_features=40, seed=1)
    write(data, path)
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1  # in the matrix
    path.write_bytes(raw)
    assert "do not match their checksum" in both_ways(path)
    assert read(path, verify=False).n_rows == data.n_rows
    with pytest.raises(FormatError, match="do not match their checksum"):
        convert(path, tmp_path / "b.gnf")


def without_checksums(path: Path, change: Callable[[bytearray, int], None] = lambda raw, start: None) -> None:
    """Turn a file into one from before there were checksums, with its arrays changed."""
    raw = bytearray(path.read_bytes())
    length = PREFIX.unpack(raw[: PREFIX.size])[2]
    header = json.loads(raw[PREFIX.size : PREFIX.size + length])
    del header["arrays"]["checksums"]
    text = json.dumps(header).encode().ljust(length)
    magic, version, *_ = PREFIX.unpack(raw[: PREFIX.size])
    raw[: PREFIX.size + length] = PREFIX.pack(magic, version, length, zlib.crc32(text), 0) + text
    change(raw, PREFIX.size + length)
    path.write_bytes(raw)


def test_files_without_checksums_are_read(tmp_path: Path) -> None:
    path = binary(tmp_path)
    data = read(path, mmap=False)
    without_checksums(path)
    assert read(path).equals(data)


@pytest.mark.parametrize("mmap", [True, False])
def test_infinite_values_in_a_binary_file(tmp_path: Path, mmap: bool) -> None:
    path = binary(tmp_path)
    without_checksums(
        path, lambda raw, start: raw.__setitem__(slice(start + 32, start + 40), struct.pack("<d", np.inf))
    )
    with pytest.raises(FormatError, match="the file is damaged: feature 2 of row 1 is infinite"):
        read(path, mmap=mmap)
    assert "feature 2 of row 1 is infinite" in both_ways(path)


def test_a_query_twice_in_a_binary_file(tmp_path: Path) -> None:
    path = binary(tmp_path)
    five, six = struct.pack("<q", 5), struct.pack("<q", 6)
    without_checksums(path, lambda raw, start: raw.__setitem__(slice(0, None), raw.replace(five + six, five + five)))
    assert "the file is damaged: query 5 is there twice" in both_ways(path)
    with pytest.raises(FormatError, match="query 5 is there twice"):
        open_shards(path)


# -- memory ------------------------------------------------------------------------------------------------------------

WIDE = b"# gainful sparse = false\n1 qid:1 400000000:1\n"


def test_a_few_bytes_cannot_ask_for_gigabytes(tmp_path: Path) -> None:
    path = put(tmp_path, "a.txt", WIDE)
    assert "a dense matrix of 1 row and 400,000,000 features is far more than" in both_ways(path)
    assert "45 bytes of text hold, though the line '# gainful sparse' asks for it; pass sparse=True" in both_ways(path)
    assert read(path, sparse=True).X.shape == (1, 400_000_000)
    told = both_ways(path, sparse=False, max_bytes="1GB")
    assert "would take 3.2 GB of memory; the limit is 1 GB: pass sparse=True, or raise the limit with" in told
    assert told.endswith("max_bytes='4GB'")
    with command_line_words():
        assert both_ways(path, sparse=False, max_bytes="1GB").endswith("--memory-limit 4GB")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv.gz", gzip.compress(b"qid,grade,x\n" + b"1,1,0\n" * 300_000)),
        ("a.csv", b"qid,grade,x\n" + b"1,1,0\n" * 300_000),
        ("a.txt.gz", gzip.compress(b"1 qid:1 1:2\n" * 500_000)),
        ("a.txt.gz", gzip.compress(b"1 qid:1 1:2 #" + b"x" * 12_000_000)),
    ],
)
def test_text_that_grows(tmp_path: Path, name: str, content: bytes) -> None:
    path = put(tmp_path, name, content)
    with pytest.raises(
        FormatError, match=r"would take .* MB of memory; the limit is 10 MB: raise the limit with max_"
    ) as told:
        read(path, max_bytes=10_000_000)
    if name.endswith(".gz") and "alone" in str(told.value):  # what was read of it so far is not all
        assert str(told.value).endswith(" or more")


def test_tables_that_grow(tmp_path: Path) -> None:
    n = 1_000_000
    same = pa.table({"qid": ["a" * 50] * n, "grade": np.zeros(n), "x": np.zeros(n)})
    pq.write_table(same, tmp_path / "a.parquet")
    assert os.path.getsize(tmp_path / "a.parquet") < 100_000
    with pytest.raises(FormatError, match=r"a table of 1,000,000 rows would take 116 MB of memory; the limit is 50 MB"):
        read(tmp_path / "a.parquet", max_bytes="50MB")
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(str(tmp_path / "a.arrow"), same.schema, options=options) as writer:
        writer.write_table(same, max_chunksize=100_000)
    with pytest.raises(FormatError, match=r"would take .* of memory; the limit is 50 MB"):
        read(tmp_path / "a.arrow", max_bytes="50MB")


def test_binary_files_are_mapped_so_only_texts_count(tmp_path: Path) -> None:
    path = binary(tmp_path, np.ones((4, 5000)))
    assert read(path, max_bytes="100KB").n_rows == 4
    with pytest.raises(FormatError, match="the data would take 160 kB of memory; the limit is 100 kB"):
        read(path, max_bytes="100KB", mmap=False)


@pytest.mark.parametrize(
    ("text", "size"),
    [(7, 7), ("7", 7), ("500MB", 500e6), ("4GB", 4e9), ("4 gb", 4e9), ("2GiB", 2**31), ("1.5k", 1500), ("2TiB", 2**41)],
)
def test_sizes(text: Any, size: float) -> None:
    assert MemoryLimit("a.txt", text).bytes == size


@pytest.mark.parametrize("text", [0, -1, True, 1.5, "", "GB", "4 PB", "-1", "٤GB", "1_000", "0", "0.0001"])
def test_sizes_that_are_not(tmp_path: Path, text: Any) -> None:
    for path in (put(tmp_path, "a.txt", b"1 qid:1 1:2\n"), binary(tmp_path), arrow(tmp_path)):
        with pytest.raises(ParameterError, match="max_bytes must be a number of bytes, 'off', or a size such as"):
            read(path, max_bytes=text)


def test_the_default_limit_is_most_of_the_free_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gainful.compute.memory.available_memory", lambda: 1000)
    with pytest.raises(FormatError, match=r"the limit is 0\.9 kB, nearly all that is free: pass sparse=True, or raise"):
        read(put(tmp_path, "a.txt", b"1 qid:1 200:2\n"))
    monkeypatch.setattr("gainful.compute.memory.available_memory", lambda: None)
    assert read(tmp_path / "a.txt").n_features == 200


@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.gnf"])
def test_no_limit_and_the_limit_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    data = gainful.make_artificial(2, n_docs=2, n_features=100)
    write(data, tmp_path / name)
    how: dict[str, Any] = {"mmap": False} if name == "a.gnf" else {}
    monkeypatch.setattr("gainful.compute.memory.available_memory", lambda: 1)
    assert read(tmp_path / name, max_bytes="off", **how).n_rows == 4
    monkeypatch.setenv("GAINFUL_MEMORY_LIMIT", "1kB")
    with pytest.raises(
        FormatError, match=r"the limit is 1 kB: .*raise the limit with max_bytes='\d+kB'( or more)?$"
    ) as told:
        read(tmp_path / name, **how)
    advised = str(told.value).rpartition("max_bytes='")[2].partition("'")[0]
    assert read(tmp_path / name, max_bytes=advised, **how).n_rows == 4
    monkeypatch.setenv("GAINFUL_MEMORY_LIMIT", "off")
    assert read(tmp_path / name, **how).n_rows == 4


# -- speed -------------------------------------------------------------------------------------------------------------


def test_blank_lines_and_comments_go_through_compiled_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small compressed file may hold a long text: Python must not look at each of its lines."""
    longest = 0

    def count_lines(text: bytes) -> Any:
        nonlocal longest
        longest = max(longest, len(text))
        return python(text)

    python = letor.count_lines
    monkeypatch.setattr(letor, "count_lines", count_lines)
    text = b"\n# c\n" * 400_000 + b'# gainful dtype = "float32"\n1 qid:1 1:2\n'
    data = read(put(tmp_path, "a.txt.gz", gzip.compress(text)))
    assert data.X.dtype == np.float32
    assert longest == 0
    with pytest.raises(FormatError, match="line 800002: the comment '# gainful dtype' is malformed"):
        read(put(tmp_path, "a.txt", b"\n#\n" * 400_000 + b"\n#gainful dtype = 7\n1 qid:1 1:2\n"))
