"""The writer that takes pieces, the reader that gives them, and the memory that both need."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from strategies import ranking_data

from gainful.data.dataset import RankingData
from gainful.errors import DataError, FormatError, ParameterError
from gainful.formats import read, write
from gainful.formats.binary import writer as binary_writer
from gainful.formats.binary.reader import BinaryFile, Writer
from gainful.formats.binary.writer import Queries


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("writer")


def writer_for(data: RankingData, path: Path, queries: Queries | None = None) -> Writer:
    return Writer(
        path,
        data.n_features,
        dtype=str(data.X.dtype),
        feature_names=data.feature_names,
        sparse=data.is_sparse,
        queries=queries,
    )


def rows_of(data: RankingData, start: int, stop: int) -> RankingData:
    """Some rows, whatever queries they cut."""
    queries = np.searchsorted(data.offsets, np.arange(start, stop), side="right") - 1
    chosen, counts = np.unique(queries, return_counts=True)
    return RankingData._build_unchecked(
        X=data.X[start:stop],
        y=data.y[start:stop],
        offsets=np.concatenate([[0], np.cumsum(counts)]),
        query_ids=data.query_ids[chosen],
        doc_ids=None if data.doc_ids is None else data.doc_ids[start:stop],
        feature_names=data.feature_names,
        query_weights=None if data.query_weights is None else data.query_weights[chosen],
    )


@settings(max_examples=30)
@given(data=ranking_data(), draw=st.data())
def test_pieces_make_the_whole(folder: Path, data: RankingData, draw: st.DataObject) -> None:
    cuts = sorted(draw.draw(st.sets(st.integers(1, data.n_rows))) | {0, data.n_rows})
    with writer_for(data, folder / "a.gnf") as writer:
        for start, stop in pairwise(cuts):
            writer.append(rows_of(data, start, stop), continues=start not in data.offsets)
    assert read(folder / "a.gnf", mmap=False).equals(data)


@settings(max_examples=30)
@given(data=ranking_data(), draw=st.data())
def test_rows_find_their_places(folder: Path, data: RankingData, draw: st.DataObject) -> None:
    order = draw.draw(st.permutations(range(data.n_rows)))
    with writer_for(data, folder / "p.gnf", Queries(data.offsets, data.query_ids, data.query_weights)) as writer:
        for row in order:
            writer.place(rows_of(data, row, row + 1), np.array([row]))
    assert read(folder / "p.gnf", mmap=False).equals(data)


@settings(max_examples=30)
@given(
    ids=st.lists(st.sampled_from(["1", "-5", "9223372036854775807", "9223372036854775808", "é", "01", ""]), min_size=1),
    draw=st.data(),
)
def test_texts_that_are_integers(folder: Path, ids: list[str], draw: st.DataObject) -> None:
    n = len(ids)
    order = draw.draw(st.none() | st.permutations(range(n)))
    whole = RankingData.from_rows(np.ones((n, 1)), np.ones(n), np.zeros(n, dtype=int), doc_ids=np.array(ids))
    queries = Queries(whole.offsets, whole.query_ids, None)
    with Writer(folder / "i.gnf", 1, text_integers=("doc_id",), queries=None if order is None else queries) as writer:
        for i in range(n):
            if order is None:
                writer.append(rows_of(whole, i, i + 1), continues=i > 0)
            else:
                writer.place(rows_of(whole, order[i], order[i] + 1), np.array([order[i]]))
    found = read(folder / "i.gnf").doc_ids
    assert found is not None
    plain = all(text in ("1", "-5", "9223372036854775807") for text in ids)
    assert found.tolist() == ([int(text) for text in ids] if plain else ids)


@settings(max_examples=30)
@given(data=ranking_data(), draw=st.data())
def test_parts_of_a_file(folder: Path, data: RankingData, draw: st.DataObject) -> None:
    write(data, folder / "o.gnf")
    first = draw.draw(st.integers(0, data.n_queries - 1))
    last = draw.draw(st.integers(first + 1, data.n_queries))
    opened = BinaryFile(folder / "o.gnf", mapped=draw.draw(st.booleans()))
    part = opened.part(first, last)
    opened.release()
    assert part.equals(data[first:last])


def test_documents_may_begin_late(tmp_path: Path) -> None:
    bare, named = (RankingData.from_rows([[1.0]], [1], [q], doc_ids=ids) for q, ids in ((1, None), (2, ["a"])))
    with Writer(tmp_path / "a.gnf", 1) as writer:
        writer.append(bare)
        writer.append(named)
        writer.append(bare.replace(query_ids=np.array([3])))
    found = read(tmp_path / "a.gnf").doc_ids
    assert found is not None
    assert found.tolist() == ["", "a", ""]


def test_weights_may_begin_late(tmp_path: Path) -> None:
    with Writer(tmp_path / "a.gnf", 1) as writer:
        writer.append(RankingData.from_rows([[1.0]], [1], [1]))
        writer.append(RankingData.from_rows([[1.0]], [1], [2], sample_weight=[3.0]))
    weights = read(tmp_path / "a.gnf").query_weights
    assert weights is not None
    assert weights.tolist() == [1.0, 3.0]


def test_wide_indices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binary_writer, "LARGEST_NARROW", 1)
    X = sparse.csr_matrix(np.eye(4))
    data = RankingData.from_rows(X, np.ones(4), [1, 1, 2, 2])
    with writer_for(data, tmp_path / "a.gnf") as writer:
        writer.append(data)
    assert "indices" in BinaryFile(tmp_path / "a.gnf").places
    assert read(tmp_path / "a.gnf").equals(data)


def test_a_sparse_file_is_as_wide_as_its_widest_piece(tmp_path: Path) -> None:
    with Writer(tmp_path / "a.gnf", None, sparse=True) as writer:
        for query, width in enumerate([2, 5, 3]):
            writer.append(RankingData.from_rows(sparse.csr_matrix(np.ones((1, width))), [1], [query]))
    assert read(tmp_path / "a.gnf").X.toarray().sum(axis=0).tolist() == [3, 3, 2, 1, 1]


def write_both(path: Path, *pieces: RankingData) -> None:
    with Writer(path, 2, dtype="float32") as writer:
        for piece in pieces:
            writer.append(piece)


def test_what_does_not_fit_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    one = RankingData.from_rows([[1.0, 2.0]], [1], [1])
    wrong = {
        "has 3 features": one.replace(X=np.ones((1, 3))),
        "different feature names": one.replace(feature_names=("a", "b")),
        "is float64, the file is float32": one,
        "one piece of the data is sparse": one.replace(X=sparse.csr_matrix(np.ones((1, 2)))),
        "query 1 is in two pieces": one.replace(X=one.X.astype(np.float32)),
        "integer query ids, others texts": one.replace(X=one.X.astype(np.float32), query_ids=np.array(["a"])),
    }
    for message, piece in wrong.items():
        with pytest.raises(DataError, match=message):
            write_both(tmp_path / "a.gnf", one.replace(X=one.X.astype(np.float32)), piece)
    with pytest.raises(FormatError, match="no rows"), Writer(tmp_path / "a.gnf", 2):
        pass
    with pytest.raises(DataError, match="no query to continue"), Writer(tmp_path / "a.gnf", 2) as writer:
        writer.append(one, continues=True)
    with Writer(tmp_path / "a.gnf", 2) as writer:
        writer.append(one)
        with pytest.raises(DataError, match="query 2 cannot continue query 1"):
            writer.append(one.replace(query_ids=np.array([2])), continues=True)
    (tmp_path / "a.gnf").unlink()
    with pytest.raises(ParameterError, match="dtype of Writer"):
        Writer(tmp_path / "a.gnf", 2, dtype="int64")
    with pytest.raises(ParameterError, match="n_features of Writer"):
        Writer(tmp_path / "a.gnf", None)
    assert not list(tmp_path.iterdir())


# -- memory ------------------------------------------------------------------------------------------------------------

ALLOWED = 60 << 20  # usually 37 MiB of text are under way; more while threads wait for a core

MEASURE = """
import sys
import numpy as np
from gainful.formats.convert import convert, iter_blocks
from gainful.formats import read
from gainful.compute.memory import PeakGrowth
import pyarrow.parquet, scipy.sparse
small, large, target, work = sys.argv[1:]
def run(source):
    if work == "convert":
        convert(source, target)
    elif work == "blocks":
        print(sum(float(np.nansum(block.X)) for block in iter_blocks(source, rows=4096)), file=sys.stderr)
    else:
        print(read(source), file=sys.stderr)
run(small)
with PeakGrowth() as growth:
    run(large)
print(growth.bytes)
"""


def write_large(path: Path, n_rows: int, *, interleaved: bool) -> int:
    """A file with 256 features; the bytes of its matrix."""
    qid = np.arange(n_rows) % 1000 if interleaved else np.arange(n_rows) // 50
    X = np.random.default_rng(0).integers(0, 1000, (1000, 256)).astype(np.float64)
    if path.suffix == ".txt":
        ends = [" ".join(f"{j + 1}:{value:g}" for j, value in enumerate(row)) for row in X.tolist()]
        path.write_text("".join(f"0 qid:{q} {ends[i % 1000]}\n" for i, q in enumerate(qid.tolist())))
    else:
        X = X[np.arange(n_rows) % 1000]
        data = RankingData.from_rows(X, np.zeros(n_rows), qid if path.suffix == ".gnf" else np.arange(n_rows))
        # in a table, a row for each query, so that they stand as we like
        write(data if path.suffix == ".gnf" else data.replace(query_ids=qid), path)
    return n_rows * 256 * 8


@pytest.fixture(scope="module")
def large_files(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, bool], tuple[Path, Path, int]]:
    """Per kind a small file, a large one and the bytes of its matrix; each is written once."""

    @cache
    def made(name: str, interleaved: bool) -> tuple[Path, Path, int]:
        small, large = (tmp_path_factory.mktemp("large") / f"{size}{name}" for size in ("small", "large"))
        write_large(small, 100, interleaved=interleaved)
        return small, large, write_large(large, 94_000, interleaved=interleaved)

    return made


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the system does not tell")
@pytest.mark.parametrize(
    ("name", "work", "interleaved"),
    [
        (".txt", "convert", False),
        (".gnf", "convert", False),
        (".gnf", "blocks", False),
        (".gnf", "read", False),
        (".arrow", "convert", True),
    ],
)
def test_memory_is_bounded(
    tmp_path: Path, large_files: Callable[[str, bool], tuple[Path, Path, int]], name: str, work: str, interleaved: bool
) -> None:
    small, large, size = large_files(name, interleaved)
    command = [sys.executable, "-c", MEASURE, str(small), str(large), str(tmp_path / "out.gnf"), work]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert size > 3 * ALLOWED
    assert int(done.stdout) < ALLOWED
