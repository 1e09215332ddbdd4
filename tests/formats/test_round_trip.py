"""What is written is what is read, in every format."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from scipy import sparse
from sklearn.datasets import load_svmlight_file
from strategies import ranking_data

from gainful.data.dataset import RankingData
from gainful.errors import FormatError
from gainful.formats import read, write


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("round")


def assert_same_bits(a: RankingData, b: RankingData) -> None:
    """Also -0.0, which ``equals`` does not tell from 0.0."""
    assert a.equals(b), (a, b)
    values = (a.X.data, b.X.data) if a.is_sparse else (a.X, b.X)
    assert np.array_equal(np.signbit(values[0]) & (values[0] == 0), np.signbit(values[1]) & (values[1] == 0))
    assert b.query_ids.dtype.kind == a.query_ids.dtype.kind
    assert (a.doc_ids is None) == (b.doc_ids is None)
    if a.doc_ids is not None and b.doc_ids is not None:
        assert a.doc_ids.dtype.kind == b.doc_ids.dtype.kind


@pytest.mark.parametrize("name", ["a.txt", "a.svm.gz", "a.dat.zst"])
@settings(max_examples=30)
@given(data=ranking_data())
def test_text(folder: Path, name: str, data: RankingData) -> None:
    write(data, folder / name)
    assert_same_bits(data, read(folder / name))


@settings(max_examples=40)
@given(data=ranking_data())
def test_text_with_zeros(folder: Path, data: RankingData) -> None:
    write(data, folder / "z.txt", zeros=True)
    assert_same_bits(data, read(folder / "z.txt"))


@settings(max_examples=40)
@given(data=ranking_data())
def test_binary(folder: Path, data: RankingData) -> None:
    write(data, folder / "a.gnf")
    assert_same_bits(data, read(folder / "a.gnf"))
    assert_same_bits(data, read(folder / "a.gnf", mmap=False))


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
@settings(max_examples=30)
@given(data=ranking_data(stored_zeros=False))
def test_tables(folder: Path, name: str, data: RankingData) -> None:
    write(data, folder / name)
    assert data.equals(read(folder / name))


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.csv.gz", "a.tsv.zst"])
@settings(max_examples=40)
@given(data=ranking_data(stored_zeros=False))
def test_csv_keeps_what_it_can(folder: Path, name: str, data: RankingData) -> None:
    write(data, folder / name)
    back = read(folder / name)
    X = data.X.toarray() if data.is_sparse else data.X
    np.testing.assert_array_equal(back.X.astype(X.dtype), X)
    assert back.y.tolist() == data.y.tolist()
    assert back.query_ids.astype(str).tolist() == data.query_ids.astype(str).tolist()
    assert (back.doc_ids is None) == (data.doc_ids is None)
    if data.doc_ids is not None and back.doc_ids is not None:
        assert back.doc_ids.astype(str).tolist() == data.doc_ids.astype(str).tolist()
    assert back.feature_names == (data.feature_names or tuple(f"f{j + 1}" for j in range(data.n_features)))
    assert (back.query_weights is None) == (data.query_weights is None)
    if data.query_weights is not None and back.query_weights is not None:
        assert back.query_weights.tolist() == data.query_weights.tolist()


def blocks_of_data(rng: np.random.Generator, kind: str) -> RankingData:
    X = rng.standard_normal((1200, 100)) * (rng.random((1200, 100)) < 0.3)
    X = X.astype(np.float32) if kind == "single" else X
    return RankingData.from_rows(
        sparse.csr_matrix(X) if kind == "sparse" else X,
        rng.integers(0, 5, 1200),
        np.repeat(np.arange(120), 10),
        doc_ids=[f"d{i}" for i in range(1200)],
    )


@pytest.mark.parametrize("kind", ["double", "single", "sparse"])
@pytest.mark.parametrize("suffix", [".txt", ".gnf", ".parquet", ".arrow"])
def test_several_blocks(tmp_path: Path, rng: np.random.Generator, kind: str, suffix: str,
                        monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    from gainful.formats.letor import writer as letor_writer
    from gainful.formats.table import writer as table_writer

    monkeypatch.setattr(table_writer, "GROUP_VALUES", 10_000)
    monkeypatch.setattr(letor_writer, "TEXT_VALUES", 10_000)
    data = blocks_of_data(rng, kind)
    write(data, tmp_path / ("a" + suffix))
    assert data.equals(read(tmp_path / ("a" + suffix)))


def test_text_for_scikit_learn(tmp_path: Path, rng: np.random.Generator) -> None:
    """Other readers get all columns and values, though the last feature is zero everywhere."""
    X = rng.standard_normal((30, 5))
    X[:, -1] = 0
    data = RankingData.from_rows(X, rng.integers(0, 3, 30), np.repeat(np.arange(6), 5), feature_names=list("abcde"))
    write(data, tmp_path / "a.txt")
    other, y, qid = load_svmlight_file(str(tmp_path / "a.txt"), query_id=True, zero_based=False)
    assert np.array_equal(other.toarray(), X)
    assert np.array_equal(y, data.y)
    assert np.array_equal(qid, data.qid)


def test_text_as_written(tmp_path: Path) -> None:
    data = RankingData.from_rows(
        [[1.0, 0.1, 0.0], [float("nan"), 1e-7, 0.0]], [2, 0.5], ["q", "q"], doc_ids=["D1", "a b"]
    )
    write(data, tmp_path / "a.txt")
    wanted = "2 qid:q 1:1 2:0.1 3:0 #docid = D1\n0.5 qid:q 1:NULL 2:1e-7 # a b\n"
    assert (tmp_path / "a.txt").read_text() == wanted
    write(data, tmp_path / "b.txt", zeros=True)
    assert (tmp_path / "b.txt").read_text().splitlines()[1] == "0.5 qid:q 1:NULL 2:1e-7 3:0 # a b"


@pytest.mark.parametrize("query", ["", "a b", "a\tb", "a\nb", "a#b", "a\0b", "\ud800"])
def test_query_ids_that_text_cannot_hold(tmp_path: Path, query: str) -> None:
    ids = np.array([query, "x"], dtype=object)
    data = RankingData._build_unchecked(X=np.ones((2, 1)), y=np.ones(2), offsets=np.array([0, 1, 2]), query_ids=ids)
    with pytest.raises(FormatError, match=r"the query id .* (cannot be written as text|is not valid Unicode)"):
        write(data, tmp_path / "a.txt")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("document", [" a", "a ", "a\nb", "a\rb", "\0", "docid = 3 x", "DOCID=a b", "\udfff"])
def test_document_ids_that_text_cannot_hold(tmp_path: Path, document: str) -> None:
    ids = np.array([document], dtype=object)
    data = RankingData._build_unchecked(
        X=np.ones((1, 1)), y=np.ones(1), offsets=np.array([0, 1]), query_ids=np.array([1]), doc_ids=ids
    )
    with pytest.raises(FormatError, match=r"the document id .* (cannot be written in a comment|is not valid Unicode)"):
        write(data, tmp_path / "a.txt")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("suffix", [".txt", ".gnf", ".parquet", ".csv"])
@pytest.mark.parametrize("ids", [[1.5, 2.5], [True, False], [(1, 2), (3, 4)], [1, "1"]])
def test_other_query_ids_are_refused(tmp_path: Path, suffix: str, ids: list[object]) -> None:
    data = RankingData.from_rows([[1.0], [2.0]], [0, 1], ids)
    with pytest.raises(FormatError, match="files hold integers or strings as query ids, not"):
        write(data, tmp_path / ("a" + suffix))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("suffix", [".txt", ".gnf", ".parquet"])
def test_narrow_integers_become_wide(tmp_path: Path, suffix: str) -> None:
    data = RankingData.from_rows([[1.0], [2.0]], [0, 1], np.array([3, 4], dtype=np.uint8))
    write(data, tmp_path / ("a" + suffix))
    back = read(tmp_path / ("a" + suffix))
    assert back.query_ids.dtype == np.int64
    assert back.query_ids.tolist() == [3, 4]
    large = RankingData.from_rows([[1.0], [2.0]], [0, 1], np.array([3, 2**63], dtype=np.uint64))
    with pytest.raises(FormatError, match="does not fit into a signed 64-bit integer"):
        write(large, tmp_path / ("a" + suffix))
