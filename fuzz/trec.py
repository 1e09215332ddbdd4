"""TREC runs and qrels, plain and compressed."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.cases import Input, Random, Target, Wholes, expect
from fuzz.damage import damage_bytes, damage_text, pick
from gainful.data.judgments import Qrels, Run
from gainful.formats.trec import read_qrels, read_run, write_qrels, write_run
from gainful.metrics import metric

PIECES = [b" ", b"\t", b"  ", b" \t ", b"\n", b"\r", b"\r\n", b"\n\n", b"\v", b"\f", b"\0", b"\xff", b"\xf6\xdf",
          b"\xef\xbb\xbf", b"\xc2\xa0", b"nan", b"inf", b"1e999", b"1_0", b"0x1", b"-2", b"1e-400", "١".encode(),
          b'"', b'"a b"', b"#", b"Q0", b"9" * 400, b"d" * 70000]  # fmt: skip
SPECS = ("map", "bpref", "infap", "ndcg@3(unjudged=skip)", "alpha-ndcg@3", "err-ia@3", "rprec", "judged@2", "r-ndcg")


def text_of(rng: Random, kind: str) -> bytes:
    separator = pick(rng, [" ", "\t", "  "])
    lines = []
    for query in rng.permutation(20)[: int(rng.integers(1, 4))]:
        for document in rng.permutation(30)[: int(rng.integers(1, 8))]:
            if kind == "run":
                cells = [query, "Q0", f"D{document}", 1, repr(float(rng.integers(0, 9)) / 4), "tag"]
            else:
                cells = [query, rng.integers(0, 2), f"D{document}", rng.integers(-2, 4)]
            lines.append(separator.join(map(str, cells)))
    newline = pick(rng, ["\n", "\n", "\r\n"])
    return (newline.join(lines) + newline).encode()


def target(kind: str) -> Target:
    """The target of "run" or "qrels"."""

    def make(rng: Random, _: Wholes, whole: bool) -> Input:
        text = text_of(rng, kind)
        if not whole:
            text = damage_text(text, rng, text_of(rng, kind), PIECES)
        suffix = f".{kind}"
        if rng.random() < 0.15:
            text, suffix = gzip.compress(text, 1, mtime=0), f"{suffix}.gz"
            text = text if whole or rng.random() < 0.5 else damage_bytes(text, rng)
        return Input(text, suffix)

    return Target(make, use_run if kind == "run" else use_qrels, warm=warm)


def use_run(path: Path, _: Mapping[str, Any]) -> None:
    run = read_run(path)
    expect(bool(np.isfinite(run.scores).all()), "scores that are not finite")
    again = path.with_name("again.run")
    write_run(run, again)
    expect(_same(read_run(again), run), "a run that reads back differently")
    grades = {query: {document: i % 3 for i, document in enumerate(held)} for query, held in run.items()}
    measure(run, Qrels(grades))


def use_qrels(path: Path, _: Mapping[str, Any]) -> None:
    qrels = read_qrels(path)
    again = path.with_name("again.qrels")
    write_qrels(qrels, again)
    expect(_same(read_qrels(again), qrels), "qrels that read back differently")
    run = {query: {document: float(i) for i, document in enumerate(held)} for query, held in qrels.items()}
    measure(Run(run), qrels)


def measure(run: Run, qrels: Qrels) -> None:
    judged = qrels.judge(run)
    for spec in SPECS:
        values = metric(spec).per_query(judged)
        inside = bool((values >= -1e-9).all() and (values <= 1.0 + 1e-9).all())
        expect(inside, f"{spec} is not between 0 and 1")


def _same(one: Mapping[str, Mapping[str, float]], other: Mapping[str, Mapping[str, float]]) -> bool:
    return {query: dict(held) for query, held in one.items()} == {query: dict(held) for query, held in other.items()}


def warm() -> None:
    import pyarrow.csv  # noqa: F401

    measure(Run({"q": {"d": 1.0}}), Qrels({"q": {"d": 1.0}}))


RUN, QRELS = target("run"), target("qrels")
