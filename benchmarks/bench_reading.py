"""Reading LETOR text: time against scikit-learn's loader, peak memory against the resulting arrays. Converting it to
binary: time and peak memory against reading and writing the whole file.

The file resembles MSLR-WEB: 136 features, of which a third are whole numbers and the rest decimals with six places, a
few of them tiny. Both readers must give the same values, to the last bit.
"""

from __future__ import annotations

import gzip
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.datasets import load_svmlight_file

from gainful.formats import read, write
from gainful.formats.convert import convert
from harness import Row, best_time, main, peak_memory

N_ROWS, N_FEATURES, PER_QUERY = 75_000, 136, 120
N_THREADS = 2


def write_file(path: Path) -> None:
    """About 110 MB of text."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 3, N_FEATURES)
    with path.open("w") as file:
        for row in range(N_ROWS):
            values, whole = rng.random(N_FEATURES), rng.integers(0, 300, N_FEATURES)
            cells = []
            for j, kind in enumerate(kinds):
                if kind == 0:
                    text = str(whole[j])
                elif values[j] < 0.02:
                    text = f"{values[j] * 1e-4:.6g}"
                else:
                    text = f"{values[j] * (10 if kind == 2 else 1):.6f}"
                cells.append(f"{j + 1}:{text}")
            file.write(f"{rng.integers(0, 5)} qid:{row // PER_QUERY + 1} {' '.join(cells)}\n")


def pack(plain: Path, packed: Path) -> None:
    with plain.open("rb") as source, gzip.open(packed, "wb", compresslevel=1) as sink:
        shutil.copyfileobj(source, sink, 1 << 20)


def assert_same(path: Path) -> None:
    data = read(path, n_threads=N_THREADS)
    X, y, qid = load_svmlight_file(str(path), query_id=True)
    assert np.array_equal(data.X, X.toarray())
    assert np.array_equal(data.y, y)
    assert np.array_equal(data.qid, qid)


def time_row(path: Path, what: str, wanted: float | None) -> Row:
    read(path, n_threads=N_THREADS)  # compiled, and in the system's cache
    return Row(
        subject=f"read LETOR text{what}, {N_ROWS:,} × {N_FEATURES}",
        measure="time",
        ours=best_time(lambda: read(path, n_threads=N_THREADS), repeat=5),
        peer="scikit-learn load_svmlight_file",
        theirs=best_time(lambda: load_svmlight_file(str(path), query_id=True), repeat=1),
        unit="s",
        wanted=wanted,
        notes={"threads": N_THREADS, "MB": path.stat().st_size / 1e6},
    )


def memory_row(path: Path, what: str, dtype: str) -> Row:
    small = path.parent / "small.txt"
    small.write_text("0 qid:1 1:0.5 #docid = 1\n" * 3)
    setup = f"from gainful.formats import read\nread({str(small)!r}, n_threads=2)\nimport pyarrow"
    arrays = (N_ROWS * N_FEATURES * np.dtype(dtype).itemsize + 8 * N_ROWS) / 2**20
    return Row(
        subject=f"read LETOR text{what}, {dtype}, {N_ROWS:,} × {N_FEATURES}",
        measure="peak memory",
        ours=peak_memory(setup, f"data = read({str(path)!r}, dtype={dtype!r}, n_threads={N_THREADS})"),
        peer="3 × resulting arrays",
        theirs=3 * arrays,
        unit="MiB",
        wanted=1,
        notes={"arrays MiB": arrays},
    )


def convert_rows(path: Path, what: str) -> Iterator[Row]:
    target, small = path.parent / "target.gnf", path.parent / "small.txt"
    one, other = (f"convert({str(path)!r}, {str(target)!r})", f"write(read({str(path)!r}), {str(target)!r})")
    setup = (
        "from gainful.formats import read, write\nfrom gainful.formats.convert import convert\nimport pyarrow\n"
        f"convert({str(small)!r}, {str(target)!r})"
    )
    subject = f"convert LETOR text{what} to .gnf, {N_ROWS:,} × {N_FEATURES}"
    ours = best_time(lambda: convert(path, target), repeat=3)
    theirs = best_time(lambda: write(read(path), target), repeat=3)
    assert read(target).equals(read(path))
    speed = path.stat().st_size / 1e6 / ours
    yield Row(subject, "time", ours, "read, then write", theirs, "s", notes={"MB/s": speed})
    yield Row(subject, "peak memory", peak_memory(setup, one), "read, then write", peak_memory(setup, other), "MiB")


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        plain, packed = Path(folder) / "train.txt", Path(folder) / "train.txt.gz"
        write_file(plain)
        pack(plain, packed)
        assert_same(plain)
        yield time_row(plain, "", wanted=20)
        yield time_row(packed, ", .gz", wanted=None)
        yield memory_row(plain, "", "float64")
        yield memory_row(plain, "", "float32")
        yield memory_row(packed, ", .gz", "float64")
        yield from convert_rows(plain, "")
        yield from convert_rows(packed, ", .gz")


if __name__ == "__main__":
    main(rows)
