"""Reading LETOR text: grammar, options, errors, chunks and threads."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.datasets import load_svmlight_file

from gainful.errors import FormatError, ParameterError
from gainful.formats import read
from gainful.formats.letor import reader as letor

NAN = float("nan")


def put(folder: Path, text: str | bytes, name: str = "train.txt") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def rows(data: Any) -> list[list[float]]:
    return (data.X.toarray() if data.is_sparse else data.X).tolist()


# -- grammar -----------------------------------------------------------------------------------------------------------


def test_plain_file(tmp_path: Path) -> None:
    text = "2 qid:10 1:0.5 3:1e-5 #docid = D1 inc = 1\n0 qid:10 2:-3 #docid=D2\n1.5 qid:11 1:7\n"
    data = read(put(tmp_path, text))
    assert rows(data) == [[0.5, 0, 1e-5], [0, -3, 0], [7, 0, 0]]
    assert data.y.tolist() == [2, 0, 1.5]
    assert data.query_ids.tolist() == [10, 11]
    assert data.query_ids.dtype == np.int64
    assert data.offsets.tolist() == [0, 2, 3]
    assert data.doc_ids is not None
    assert data.doc_ids.tolist() == ["D1", "D2", ""]
    assert data.X.dtype == np.float64
    assert data.input_order is None


@pytest.mark.parametrize(
    "text",
    [
        "1 qid:1 1:2 2:3\n0 qid:2 1:4 2:5\n",
        "1 qid:1 1:2 2:3\n0 qid:2 1:4 2:5",
        "1 qid:1 1:2 2:3\r\n0 qid:2 1:4 2:5\r\n",
        "1 qid:1 1:2 2:3\r\n0 qid:2 1:4 2:5\r",
        "\ufeff1 qid:1 1:2 2:3\n0 qid:2 1:4 2:5\n",
        "\n  \t\n# a comment\r\n\r\n1 qid:1 1:2 2:3\n   # another: 7:8\n\n0 qid:2 1:4 2:5\n\n \n",
        "\t1.0 \t qid:1\t1:2.0\t 2:+3   \n 0e3 qid:2 2:5. 1:4#\n",
        "1 qid:1 001:2 000000000002:3\n-0 qid:2 1:4 2:5 # \t \n",
    ],
)
def test_the_same_data_in_other_clothes(tmp_path: Path, text: str) -> None:
    data = read(put(tmp_path, text))
    assert rows(data) == [[2, 3], [4, 5]]
    assert data.y.tolist() == [1, 0]
    assert data.query_ids.tolist() == [1, 2]
    assert data.doc_ids is None


def test_missing_values(tmp_path: Path) -> None:
    data = read(put(tmp_path, "0 qid:1 1:NULL 2:null 3:nan 4:NaN 5:-nan 6:1\n"))
    assert np.isnan(data.X[0]).tolist() == [True] * 5 + [False]


@pytest.mark.parametrize(
    ("comment", "document"),
    [
        ("#docid = GX1-2 inc = 1 prob = 0.02", "GX1-2"),
        ("#docid=7", "7"),
        ("#  DocID   =\tx:1#y rest", "x:1#y"),
        ("# some document ", "some document"),
        ("#docid =", "docid ="),
        ("#docids = 3", "docids = 3"),
        ("#doc", "doc"),
        ("#Überblick-日本", "Überblick-日本"),
        ("#", ""),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
def test_document_ids(tmp_path: Path, comment: str, document: str, end: str) -> None:
    data = read(put(tmp_path, f"0 qid:1 1:2 #docid = first\n0 qid:1 1:2 {comment}{end}"))
    assert data.doc_ids is not None
    assert data.doc_ids.tolist() == ["first", document]


@pytest.mark.parametrize(
    ("ids", "wanted"),
    [
        (["1", "-5", "0"], [1, -5, 0]),
        (["9223372036854775807", "-9223372036854775808"], [2**63 - 1, -(2**63)]),
        (["9223372036854775808", "1"], ["9223372036854775808", "1"]),
        (["01", "1"], ["01", "1"]),
        (["+1", "2"], ["+1", "2"]),
        (["1_0", "2"], ["1_0", "2"]),
        (["a:b:3", "é", "1.0"], ["a:b:3", "é", "1.0"]),
    ],
)
def test_query_ids(tmp_path: Path, ids: list[str], wanted: list[Any]) -> None:
    data = read(put(tmp_path, "".join(f"0 qid:{i} 1:2\n" for i in ids)))
    assert data.query_ids.tolist() == wanted


def test_one_very_long_id_does_not_widen_the_others(tmp_path: Path) -> None:
    text = "".join(f"0 qid:{i} 1:2 #d{i}\n" for i in range(3000)) + f"0 qid:last 1:2 #{'x' * 5000}\n"
    data = read(put(tmp_path, text))
    assert data.doc_ids is not None
    assert data.doc_ids.dtype == object
    assert data.doc_ids.tolist() == [f"d{i}" for i in range(3000)] + ["x" * 5000]


# -- options -----------------------------------------------------------------------------------------------------------


def test_types_and_number_of_features(tmp_path: Path) -> None:
    path = put(tmp_path, "0 qid:1 1:0.1 2:2\n")
    assert read(path, dtype="float32").X.dtype == np.float32
    assert read(path, dtype=np.float32).X.tolist() == [[np.float32(0.1), 2.0]]
    assert read(path, n_features=4).X.shape == (1, 4)
    with pytest.raises(FormatError, match=r"line 1, column 15: feature 2 is beyond the 1 features expected"):
        read(path, n_features=1)


def test_zero_based(tmp_path: Path) -> None:
    path = put(tmp_path, "0 qid:1 0:5 2:6\n")
    assert rows(read(path, zero_based=True)) == [[5, 0, 6]]
    with pytest.raises(FormatError, match=r"line 1, column 9: feature indices start at 1, .*; pass zero_based=True"):
        read(path)
    assert read(put(tmp_path, "0 qid:1\n"), zero_based=True).X.shape == (1, 0)


def test_storage(tmp_path: Path) -> None:
    path = put(tmp_path, "0 qid:a:b 3:5 1:0\n1 qid:a:b\n0 qid:c 2:7 4:8\n")
    dense, sparse = read(path), read(path, sparse=True)
    assert not dense.is_sparse
    assert sparse.is_sparse
    assert sparse.X.has_canonical_format
    assert rows(dense) == rows(sparse) == [[0, 0, 5, 0], [0, 0, 0, 0], [0, 7, 0, 8]]
    assert sparse.X.indices.tolist() == [0, 2, 1, 3]


def test_wide_files_become_sparse(tmp_path: Path) -> None:
    text = "".join(f"0 qid:{i} {i + 1}:1 {100_000 + i}:2\n" for i in range(200))
    data = read(put(tmp_path, text))
    assert data.is_sparse
    assert data.X.shape == (200, 100_199)
    assert data.X.sum() == 600


def test_largest_index(tmp_path: Path) -> None:
    assert read(put(tmp_path, "0 qid:1 2147483647:1\n")).X.shape == (1, 2**31 - 1)
    for index in ("2147483648", "99999999999999999999999"):
        with pytest.raises(FormatError, match="is too large"):
            read(put(tmp_path, f"0 qid:1 {index}:1\n"))


def test_dense_matrix_that_does_not_fit(tmp_path: Path) -> None:
    text = "".join(f"0 qid:{i} 2147483647:1\n" for i in range(3000))
    with pytest.raises(FormatError, match=r"would take 51\.5 TB of memory; the limit is .*: pass sparse=True"):
        read(put(tmp_path, text), sparse=False)


@pytest.mark.parametrize(
    ("option", "value"),
    [("dtype", "int32"), ("dtype", "x"), ("n_features", 0), ("n_features", 2.5), ("sparse", "yes"), ("merge", 1),
     ("n_threads", 0), ("zero_based", None)],
)  # fmt: skip
def test_options_are_checked(tmp_path: Path, option: str, value: object) -> None:
    with pytest.raises(ParameterError, match=f"{option} of read must be"):
        read(put(tmp_path, "0 qid:1 1:1\n"), **{option: value})


# -- queries that come again -------------------------------------------------------------------------------------------


GLUED = "# head\n0 qid:10 1:1 #a\n1 qid:10 1:2 #b\n\n0 qid:7 1:3 #c\n1 qid:10 1:4 #d\n0 qid:7 1:5 #e\n"


def test_a_query_that_comes_again_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="query 10 ends at line 3 and starts again at line 6:") as caught:
        read(put(tmp_path, GLUED))
    assert caught.value.line == 6


@pytest.mark.parametrize("sparse", [True, False])
def test_merge(tmp_path: Path, sparse: bool) -> None:
    data = read(put(tmp_path, GLUED), merge=True, sparse=sparse)
    assert data.query_ids.tolist() == [10, 7]
    assert data.offsets.tolist() == [0, 3, 5]
    assert rows(data) == [[1], [2], [4], [3], [5]]
    assert data.y.tolist() == [0, 1, 1, 0, 0]
    assert data.doc_ids is not None
    assert data.doc_ids.tolist() == ["a", "b", "d", "c", "e"]
    assert data.input_order is not None
    assert data.to_input_order(data.X[:, 0].toarray()[:, 0] if sparse else data.X[:, 0]).tolist() == [1, 2, 3, 4, 5]
    assert read(put(tmp_path, "0 qid:1 1:1\n"), merge=True).input_order is None


# -- errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "column", "message"),
    [
        ("x qid:1 1:2", 1, "expected a grade (a number, 0 or more) at the start of the line, found 'x'"),
        ("-1 qid:1 1:2", 1, "expected a grade (a number, 0 or more) at the start of the line, found '-1'"),
        ("NULL qid:1 1:2", 1, "found 'NULL'; a grade cannot be missing"),
        ("inf qid:1 1:2", 1, "found 'inf'; numbers must be finite"),
        ("1e999 qid:1 1:2", 1, "found '1e999', too large for float64"),
        ("qid:1 1:2", 1, "expected a grade"),
        ("1 1:2 2:3", 3, "expected 'qid:' and the query id after the grade, found '1:2'; ranking needs a query id"),
        ("1", 2, "expected 'qid:' and the query id after the grade, found the end of the line"),
        ("1 QID:1 1:2", 3, "expected 'qid:'"),
        ("1 qid: 1:2", 7, "expected a query id right after 'qid:', found none"),
        ("1 qid:1 abc", 9, "expected 'index:value', found 'abc'"),
        ("1 qid:1 a:2", 9, "expected a feature index before ':', found 'a'"),
        ("1 qid:1 :2", 9, "expected a feature index before ':', found ''"),
        ("1 qid:1 -1:2", 9, "expected a feature index before ':', found '-1'"),
        ("1 qid:1 1.0:2", 9, "expected a feature index before ':', found '1.0'"),
        ("1 qid:1 1:2 3:abc", 15, "expected a number after '3:', found 'abc'"),
        ("1 qid:1 1: 2:3", 11, "expected a number after '1:', found nothing"),
        ("1 qid:1 1:0x10", 11, "expected a number after '1:', found '0x10'"),
        ("1 qid:1 1:1e", 11, "expected a number after '1:', found '1e'"),
        ("1 qid:1 1:1_0", 11, "expected a number after '1:', found '1_0'"),
        ("1 qid:1 1:1.2.3", 11, "expected a number after '1:', found '1.2.3'"),
        ("1 qid:1 1:.", 11, "expected a number after '1:', found '.'"),
        ("1 qid:1 1:-", 11, "expected a number after '1:', found '-'"),
        ("1 qid:1 1:+NULL", 11, "expected a number after '1:', found '+NULL'"),
        ("1 qid:1 1:nano", 11, "expected a number after '1:', found 'nano'"),
        ("1 qid:é 1:ö", 11, "expected a number after '1:', found 'ö'"),
        ("1 qid:1 0:2", 9, "feature indices start at 1, found 0"),
        ("1 qid:1 1:2 1:3", 13, "feature 1 is given twice on this line"),
        ("1 qid:1 3:2 1:3 3:4", 17, "feature 3 is given twice on this line"),
        ("1 qid:1 1:2\r 2:3", 12, "a carriage return inside the line"),
        ("1 qid:1 1:2\r\r", 12, "a carriage return inside the line"),
        (b"1 qid:a\xff 1:2", 8, "the query id is not UTF-8 text"),
        (b"1 qid:a\0b 1:2", 8, "the query id holds a NUL byte"),
        (b"1 qid:1 1:2 #docid = ab\xed\xa0\x80", 24, "the document id is not UTF-8 text"),
        (b"1 qid:1 1:2 # a\0", 16, "the document id holds a NUL byte"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("sparse", [True, False])
def test_malformed_lines(tmp_path: Path, line: str | bytes, column: int, message: str, sparse: bool) -> None:
    raw = line.encode() if isinstance(line, str) else line
    path = put(tmp_path, b"# comment\n\n1 qid:1 1:1\n" + raw + b"\n0 qid:9 bad\n")
    with pytest.raises(FormatError) as caught:
        read(path, sparse=sparse)
    error = caught.value
    assert (error.path, error.line, error.column) == (path, 4, column)
    assert message in str(error)
    assert str(error).startswith(f"{path}, line 4, column {column}: ")
    assert "\n" not in str(error)


def test_no_rows(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="there are no rows, only blank lines and comments"):
        read(put(tmp_path, "# nothing\n\n"))
    with pytest.raises(FormatError, match="the file is empty"):
        read(put(tmp_path, ""))
    with pytest.raises(FormatError, match="there are no rows"):
        read(put(tmp_path, "\ufeff"))


# -- chunks, threads and compression -----------------------------------------------------------------------------------


def many_lines(n: int, seed: int = 0) -> str:
    rng = np.random.default_rng(seed)
    lines = []
    for i in range(n):
        if rng.random() < 0.1:
            lines.append(rng.choice(["", "# note 1:2", "   "]))
        chosen = rng.choice(12, int(rng.integers(0, 12)), replace=False) + 1
        if rng.random() < 0.8:
            chosen.sort()
        features = " ".join(f"{j}:{rng.choice([0.5, 3, 1e-5, 123.25, 1 / 3])}" for j in chosen)
        document = f" #docid = d{i}" if rng.random() < 0.5 else ""
        lines.append(f"{rng.integers(0, 3)} qid:q{i // 7} {features}{document}")
    return "\n".join(lines)


@pytest.mark.parametrize("sparse", [True, False])
def test_any_cut_gives_the_same(tmp_path: Path, sparse: bool) -> None:
    path = put(tmp_path, many_lines(150))
    whole = letor.read_with(path, letor.Options(sparse=sparse))
    for block in (1, 50, 700, 10**6):
        for chunk in (1, 3, 64, 500):
            for n_threads in (1, 3):
                options = letor.Options(sparse=sparse, n_threads=n_threads, chunk_bytes=block, span_bytes=chunk)
                assert letor.read_with(path, options).equals(whole)


@pytest.mark.parametrize("n_threads", [1, 4])
def test_always_the_first_bad_line(tmp_path: Path, n_threads: int) -> None:
    lines = many_lines(300).split("\n")
    rng = np.random.default_rng(1)
    for _ in range(20):
        bad = sorted(int(i) for i in rng.choice(len(lines), 3, replace=False))
        broken = [line + (" 1:x" if i in bad and "qid" in line and "#" not in line else "") for i, line in
                  enumerate(lines)]  # fmt: skip
        first = next((i for i in bad if broken[i] != lines[i]), None)
        path = put(tmp_path, "\n".join(broken))
        options = letor.Options(n_threads=n_threads, chunk_bytes=2000, span_bytes=150)
        if first is None:
            letor.read_with(path, options)
            continue
        with pytest.raises(FormatError) as caught:
            letor.read_with(path, options)
        assert caught.value.line == first + 1


def test_an_index_beyond_the_ends_of_lines(tmp_path: Path) -> None:
    text = "0 qid:1 1:1 2:2\n0 qid:1 9:3 1:4\n0 qid:2 2:1\n"
    wanted = [[1, 2, 0, 0, 0, 0, 0, 0, 0], [4, 0, 0, 0, 0, 0, 0, 0, 3], [0, 1, 0, 0, 0, 0, 0, 0, 0]]
    for name in ("a.txt", "a.txt.gz"):
        path = put(tmp_path, gzip.compress(text.encode()) if name.endswith("gz") else text, name)
        assert rows(read(path)) == rows(read(path, sparse=True)) == wanted


def zstd(raw: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(raw)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_compressed(tmp_path: Path, suffix: str) -> None:
    text = ("\ufeff" + many_lines(400)).encode()
    pack = gzip.compress if suffix == ".gz" else zstd
    plain, packed = put(tmp_path, text), put(tmp_path, pack(text), "p.svm" + suffix)
    wanted = read(plain)
    assert read(packed).equals(wanted)
    halves = put(tmp_path, pack(text[:1000]) + pack(text[1000:]), "halves.txt" + suffix)
    assert letor.read_with(halves, letor.Options(chunk_bytes=100, span_bytes=10)).equals(wanted)
    broken = put(tmp_path, pack(text)[:-40], "cut.txt" + suffix)
    with pytest.raises(FormatError, match="file is damaged or cut short"):
        read(broken)
    with pytest.raises(FormatError, match="file is damaged or cut short"):
        read(put(tmp_path, b"not compressed at all, really", "no.txt" + suffix))
    with pytest.raises(FormatError, match="line 2, column 9"):
        read(put(tmp_path, pack(b"1 qid:1 1:1\n1 qid:1 x\n"), "bad.txt" + suffix))
    with pytest.raises(FormatError, match="there are no rows"):
        read(put(tmp_path, pack(b""), "none.txt" + suffix))


# -- comments that gainful itself writes -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("feature_names = [1]", "expected a list of strings"),
        ('feature_names = ["a", "a"]', "a name is given twice"),
        ('feature_names = ["a"', "is malformed"),
        ("query_weights = [1, -2]", "weights must be finite"),
        ('query_weights = ["1"]', "expected a list of numbers"),
        ('dtype = "int8"', "expected one of"),
        ("sparse = 1", "expected one of"),
        ("n_features = -1", "expected a number of features"),
    ],
)
def test_malformed_header(tmp_path: Path, entry: str, message: str) -> None:
    with pytest.raises(FormatError, match=message) as caught:
        read(put(tmp_path, f"# first\n# gainful {entry}\n0 qid:1 1:1\n"))
    assert caught.value.line == 2


def test_header_against_rows(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="2 query weights are given for 1 queries"):
        read(put(tmp_path, "# gainful query_weights = [1, 2]\n0 qid:1 1:1\n"))
    with pytest.raises(FormatError, match="line 2, column 9: feature 2 is beyond the 1 features"):
        read(put(tmp_path, '# gainful feature_names = ["a"]\n0 qid:1 2:1\n'))
    with pytest.raises(FormatError, match="the file says that it has 1 features, not 3"):
        read(put(tmp_path, '# gainful feature_names = ["a"]\n0 qid:1 1:1\n'), n_features=3)
    with pytest.raises(FormatError, match="a document id is not an integer"):
        read(put(tmp_path, '# gainful doc_ids = "int"\n0 qid:1 1:1 #x\n'))
    later = read(put(tmp_path, '0 qid:1 1:1\n# gainful feature_names = ["a"]\n# gainful is a library\n'))
    assert later.feature_names is None
    assert read(put(tmp_path, '# gainful dtype = "float32"\n0 qid:1 1:1\n'), dtype="float64").X.dtype == np.float64


# -- against scikit-learn ----------------------------------------------------------------------------------------------


def test_like_scikit_learn(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    lines = []
    for i in range(200):
        features = " ".join(f"{j + 1}:{rng.random() * 10.0 ** rng.integers(-6, 6):.6g}" for j in range(20))
        lines.append(f"{rng.integers(0, 5)} qid:{i // 9} {features} # d{i}\n")
    path = put(tmp_path, "".join(lines))
    X, y, qid = load_svmlight_file(str(path), query_id=True, zero_based=False)
    data = read(path)
    assert np.array_equal(data.X, X.toarray())
    assert np.array_equal(data.y, y)
    assert np.array_equal(data.qid, qid)


def test_ohsumed(ohsumed: Path) -> None:
    parts = [read(ohsumed / "Fold1" / f"{name}.txt") for name in ("train", "vali", "test")]
    assert sum(part.n_queries for part in parts) == 106
    assert sum(part.n_rows for part in parts) == 16_140
    assert {part.n_features for part in parts} == {45}
    grades = np.concatenate([part.y for part in parts])
    assert [int((grades == grade).sum()) for grade in (0, 1, 2)] == [11_303, 2_585, 2_252]
    assert parts[0].doc_ids is not None
    assert parts[0].doc_ids[0] == "244338"
    X, y, qid = load_svmlight_file(str(ohsumed / "Fold1" / "train.txt"), query_id=True)
    assert np.array_equal(parts[0].X, X.toarray())
    assert np.array_equal(parts[0].y, y)
    assert np.array_equal(parts[0].qid, qid)
