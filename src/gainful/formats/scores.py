"""Files of scores, one per row of the data: text, JSON as ``gainful predict --json`` writes it, or NumPy's .npy."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np

from gainful.data.rows import Array
from gainful.errors import FormatError, shorten, wording
from gainful.formats.files import PathLike, check_readable
from gainful.formats.letor.lines import read_number

NUMPY = b"\x93NUMPY"
# The header of a file with one column of numbers. NumPy's own reader would run a Python parser on it.
HEADER = re.compile(
    rb"\s*\{\s*'descr':\s*'([<>|=][iuf](?:1|2|4|8))',\s*'fortran_order':\s*(?:True|False),\s*"
    rb"'shape':\s*\((\d{1,18}),\),?\s*\}\s*"
)


def read_scores(path: PathLike, n_rows: int) -> Array:
    """One finite score per row, in the order of the rows, (n_rows,) float64."""
    path = Path(path)
    check_readable(path)
    raw = path.read_bytes()
    if raw.startswith(NUMPY):
        scores = _read_numpy(raw, path)
    else:
        scores = _read_json(raw, path) if raw.lstrip()[:1] == b"{" else _read_lines(raw, path)
    if len(scores) != n_rows:
        raise FormatError(f"there are {len(scores)} scores for {n_rows} rows of data", path=path)
    return scores


def _read_lines(raw: bytes, path: Path) -> Array:
    lines = raw.split(b"\n")
    while lines and not lines[-1].strip():
        lines.pop()
    scores = np.empty(len(lines))
    for i, line in enumerate(lines):
        score = read_number(line.strip())
        if score is None or not math.isfinite(score):
            found = shorten(line[:80].decode("utf-8", "replace").strip(), 40)
            hint = "" if i else _hint(line, path)
            raise FormatError(f"expected one score, a finite number, found {found}{hint}", path=path, line=i + 1)
        scores[i] = score
    return scores


def _hint(line: bytes, path: Path) -> str:
    """What to give instead of a file whose first line is this."""
    fields = line.split()
    if len(fields) == 6 and fields[1].upper() == b"Q0":
        judge = wording("judge it with gainful.metric(…)(run, qrels)", "judge it with --qrels QRELS and without DATA")
        return f"; this is a TREC run: {judge}, or by the grades of the data as {f'run:{path}'!r}"
    return "; give a model file, or a text file with one score per line"


def _read_json(raw: bytes, path: Path) -> Array:
    try:
        found: Any = json.loads(raw)["score"]
    except (ValueError, KeyError, TypeError, RecursionError):
        expected = 'expected JSON of the form {"score": […]}, as gainful predict --json writes'
        raise FormatError(expected, path=path) from None
    return _as_scores(found, path)


def _read_numpy(raw: bytes, path: Path) -> Array:
    start = 10 if raw[6:7] == b"\x01" else 12  # the length of the header has two bytes in version 1, then four
    end = start + int.from_bytes(raw[8:start], "little")
    header = HEADER.fullmatch(raw[start:end])
    if header is None:
        raise FormatError("expected one number per row, as numpy.save(path, scores) writes it", path=path)
    dtype = np.dtype(header[1].decode())
    if int(header[2]) * dtype.itemsize != len(raw) - end:
        raise FormatError(f"is damaged: {int(header[2]):,} numbers do not fill the file", path=path)
    return _as_scores(np.frombuffer(raw, dtype, offset=end), path)


def _as_scores(found: Any, path: Path) -> Array:
    try:
        column = np.asarray(found)
        kind = column.dtype.kind
    except ValueError:  # lists of different lengths
        kind = "O"
    if kind not in "iuf" or column.ndim != 1:
        raise FormatError("expected one number per row", path=path)
    scores = column.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(scores))
    if len(bad):
        raise FormatError(f"score {bad[0] + 1} must be a finite number, was {scores[bad[0]]:g}", path=path)
    return scores
