"""Files with one score per row, as ``gainful evaluate`` and ``gainful compare`` read them: text, JSON, .npy."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.cases import Input, Random, Target, Wholes, expect
from fuzz.damage import damage_bytes, damage_lines
from gainful.formats.scores import read_scores

N_ROWS = 12


def file_of(rng: Random) -> bytes:
    scores, kind = rng.normal(size=N_ROWS), rng.integers(3)
    if kind == 0:
        file = io.BytesIO()
        np.save(file, scores)
        return file.getvalue()
    if kind == 1:
        return json.dumps({"qid": [1] * N_ROWS, "score": scores.tolist()}).encode()
    return "".join(f"{score!r}\n" for score in scores.tolist()).encode()


def make(rng: Random, _: Wholes, whole: bool) -> Input:
    raw = file_of(rng)
    if not whole:
        raw = damage_lines(raw, rng) if rng.random() < 0.3 else damage_bytes(raw, rng, file_of(rng))
    return Input(raw, ".txt")


def use(path: Path, _: Mapping[str, Any]) -> None:
    scores = read_scores(path, N_ROWS)
    expect(scores.shape == (N_ROWS,) and bool(np.isfinite(scores).all()), "scores that are not finite")


TARGET = Target(make, use)
