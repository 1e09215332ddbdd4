"""Whatever the bytes: the compiled parser never fails otherwise than by refusing, and agrees with the slow one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gainful.errors import FormatError
from gainful.formats.letor import reader as letor
from gainful.formats.letor.header import Header, read_header
from gainful.formats.letor.lines import MalformedLine, Rules, read_line

VALID = (
    b"2 qid:10 1:0.5 3:1e-5 12:-7 #docid = D1 inc = 1\n\n# note\r\n0.5 qid:10 2:NULL 1:nan\r\n"
    b"1 qid:x 4:12345678901234567890.5"
)
PIECES = [
    b"0", b"1", b"2.5", b"-1", b" ", b"\t", b"\n", b"\r\n", b"\r", b"#", b"qid:", b"qid:1", b":", b"1:2", b"2:3.5e-7",
    b"NULL", b"nan", b"inf", b"docid", b"=", b"\0", b"\xff", b"\xc3\xa9", b"e", b"E+", b".", b"\xef\xbb\xbf", b"7e-324",
    b"123456789012345678901234567890", b"1 qid:5 1:1\n", b"3:1", b" 1:1", b"00000000000",
]  # fmt: skip
SMALL = letor.Options(chunk_bytes=40, span_bytes=7, sparse=False, merge=True)


def slowly(raw: bytes, rules: Rules) -> list[tuple[float, str, dict[int, float], str]] | int:
    """The rows by the line reader, or the number of the first malformed line."""
    found = []
    for number, line in enumerate(raw.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        try:
            if not found:
                read_header("", line, 0, Header())
            row = read_line(line, rules)
        except FormatError:
            return number
        except MalformedLine:
            return number
        if row is not None:
            found.append((row.grade, row.query, dict(row.features), row.document))
    return found


def agree(path: Path, raw: bytes, options: letor.Options) -> None:
    path.write_bytes(raw)
    wanted = slowly(raw, Rules(options.zero_based, options.n_features, options.dtype == "float32"))
    if isinstance(wanted, int) or not wanted:
        with pytest.raises(FormatError) as caught:
            letor.read_with(path, options)
        assert caught.value.line == (wanted or None)
        return
    data = letor.read_with(path, options)
    if data.n_features > 10**5:
        return  # too wide to compare densely
    rows = range(len(wanted)) if data.input_order is None else data.input_order.tolist()
    X = data.X.toarray() if data.is_sparse else data.X
    assert data.qid.astype(str).tolist() == [wanted[r][1] for r in rows]
    assert data.y.tolist() == [wanted[r][0] for r in rows]
    documents = [""] * len(wanted) if data.doc_ids is None else data.doc_ids.tolist()
    assert documents == [wanted[r][3] for r in rows]
    for i, r in enumerate(rows):
        dense = np.zeros(X.shape[1], dtype=X.dtype)
        for column, value in wanted[r][2].items():
            dense[column] = value
        np.testing.assert_array_equal(X[i], dense)


@pytest.fixture(params=[0, letor.SMALL_FILE], ids=["compiled", "python"], scope="module", autouse=True)
def small_file(request: pytest.FixtureRequest) -> Iterator[None]:
    """Files are read by kernels alone, and with what is unusual left to Python."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(letor, "SMALL_FILE", request.param)
        patch.setattr(letor, "FEW_TEXTS", request.param)
        yield


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "fuzz.txt"


def any_options(draw_from: np.random.Generator) -> letor.Options:
    return letor.Options(
        dtype=str(draw_from.choice(["float64", "float32"])),
        zero_based=bool(draw_from.integers(2)),
        sparse=True if draw_from.integers(2) else "auto",
        merge=True,
        n_threads=int(draw_from.integers(1, 3)),
        chunk_bytes=int(draw_from.choice([1, 30, 10**6])),
        span_bytes=int(draw_from.choice([1, 11, 10**6])),
    )


@settings(max_examples=100)
@example(b"#gainful query_weights=")
@example(b"\n# gainful dtype = 7\n1 qid:1 1:1")
@given(st.binary(min_size=1, max_size=60))
def test_random_bytes(path: Path, raw: bytes) -> None:
    agree(path, raw, letor.Options(sparse=True, merge=True, chunk_bytes=20, span_bytes=5))


def test_mutations_of_a_valid_file(path: Path) -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        raw = bytearray(VALID)
        for _ in range(int(rng.integers(1, 4))):
            at = int(rng.integers(len(raw) + 1))
            kind = rng.integers(4)
            if kind == 0:
                raw[at : at + int(rng.integers(1, 6))] = b""
            elif kind == 1:
                raw[at:at] = PIECES[int(rng.integers(len(PIECES)))]
            elif kind == 2:
                raw[at : at + 1] = bytes([int(rng.integers(256))])
            else:
                raw = raw[:at] or bytearray(b"1")
        agree(path, bytes(raw), any_options(rng))


def test_random_pieces(path: Path) -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        raw = b"".join(PIECES[int(i)] for i in rng.integers(0, len(PIECES), int(rng.integers(1, 25))))
        agree(path, (b"1 qid:1" + raw) if rng.random() < 0.7 else raw, any_options(rng))


def test_every_cut_of_a_valid_file(path: Path) -> None:
    for stop in range(1, len(VALID)):
        agree(path, VALID[:stop], SMALL)
        agree(path, VALID[stop:], SMALL)
