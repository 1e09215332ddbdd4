"""Random ranking data, plain and odd, that the file formats are filled with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fuzz.cases import Random
from fuzz.damage import pick

ODD_IDS = ["", " ", "a b", "#", "x#y", "007", "-0", "+7", "1e5", "9223372036854775807", "9223372036854775808", "\x00",
           "a\x00", "a", "é", "é", "𝕏", "\u202eabc", "\x1b[31mred", "x\ny", "\u2028", "ab" * 600, "nan", "NULL",
           "docid = 3", '"', ",", "a,b", "1_000", "١"]  # fmt: skip
PLAIN_WORDS = ["shoes", "été", "汉字", "q", "A-1", "x_y", "007", "𝕏"]
ODD_NAMES = ["", " ", "qid", "Grade", "f1", "bm25", "x" * 300, "\x1b[2J", "naïve", "a\nb", "#", "label", "\x00"]
ODD_NUMBERS = [np.inf, -np.inf, 1e308, -1e308, 5e-324, 1e-310, 2.0**53 + 1, 1e155, -0.0, 1e39, 16777217.0]


@dataclass
class Rows:
    """The rows of a file. Without weights or document ids these are None."""

    X: npt.NDArray[np.float64]
    y: list[float]
    qid: list[Any]  # integers or texts
    doc_ids: list[Any] | None
    names: list[str]
    weights: list[float] | None

    @property
    def n_queries(self) -> int:
        return len(set(self.qid))


def random_rows(rng: Random, whole: bool) -> Rows:
    """Rows that every format can hold if ``whole``; otherwise they may be odd or wrong."""
    odd = not whole and rng.random() < 0.6
    sizes = rng.integers(1, 6, int(rng.integers(1, 7)))
    n, d = int(sizes.sum()), int(rng.integers(1, 9))
    X = np.round(rng.normal(size=(n, d)) * 10.0 ** rng.integers(-3, 4), int(rng.integers(0, 9)))
    X[rng.random((n, d)) < pick(rng, [0.0, 0.5, 0.95])] = 0.0
    X[rng.random((n, d)) < pick(rng, [0.0, 0.0, 0.1, 1.0])] = np.nan
    y = rng.integers(0, 5, n).astype(float).tolist()
    ids = _ids(rng, len(sizes), odd)
    weights = rng.random(len(sizes)).round(3) + 0.1
    rows = Rows(
        X,
        y,
        [ids[i] for i in np.repeat(np.arange(len(sizes)), sizes)],
        _ids(rng, n, odd) if rng.random() < 0.5 else None,
        [f"f{j + 1}" for j in range(d)] if rng.random() < 0.5 else [f"name {j} é" for j in range(d)],
        np.repeat(weights, sizes).tolist() if rng.random() < 0.3 else None,
    )
    if odd:
        _make_odd(rng, rows)
    return rows


def _ids(rng: Random, n: int, odd: bool) -> list[Any]:
    kind = int(rng.integers(3))
    if kind == 0:
        return [int(i) for i in rng.permutation(np.arange(n) * 7 - 3)]
    if kind == 1 and odd:
        return [pick(rng, ODD_IDS) for _ in range(n)]
    return [f"{pick(rng, PLAIN_WORDS)}{i}" for i in range(n)]


def _make_odd(rng: Random, rows: Rows) -> None:
    n, d = rows.X.shape
    for _ in range(int(rng.integers(0, 3))):
        rows.X[rng.integers(n), rng.integers(d)] = pick(rng, ODD_NUMBERS)
    if rng.random() < 0.2:
        rows.y[int(rng.integers(n))] = pick(rng, [-1.0, np.nan, np.inf, 1e300, 40.0, 1e-5])
    if rng.random() < 0.2:
        order = rng.permutation(n).tolist()  # rows of a query are no longer adjacent
        rows.qid = [rows.qid[i] for i in order]
    if rng.random() < 0.3:
        rows.names = [pick(rng, ODD_NAMES) for _ in rows.names]
    if rows.weights is not None and rng.random() < 0.5:
        rows.weights[int(rng.integers(n))] = pick(rng, [-1.0, np.nan, np.inf, 0.0, 1e300])
