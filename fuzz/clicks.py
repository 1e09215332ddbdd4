"""Click logs: CSV, JSON Lines and the two forms of text, plain and compressed; and click models as JSON."""

from __future__ import annotations

import gzip
import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.cases import Input, Random, Target, Wholes, expect
from fuzz.damage import damage_bytes, damage_text, pick
from gainful.clicks.log import ClickLog
from gainful.clicks.model_file import load_click_model
from gainful.clicks.reading import read_clicks
from gainful.clicks.registry import CLICK_MODELS, click_model
from gainful.clicks.writing import write_clicks
from gainful.errors import DataWarning

PIECES = [b",", b";", b"\t", b":", b"\n", b"\r\n", b"\n\n", b"[", b"]", b"[]", b"{", b"}", b"null", b"nan", b"inf",
          b"-1", b"1e999", b"0x1", b"true", b"2", b"1.5", b"999999999", b"\0", b"\xff", b"\xef\xbb\xbf", b"9" * 400,
          b"d" * 70000, b"session", b"user_id", b'{"query": {"a": 1}}\n', b'"\\ud800"', b"q\ta,b : a;"]  # fmt: skip


def random_log(rng: Random) -> ClickLog:
    sizes = rng.integers(1, 5, size=int(rng.integers(1, 6)))
    n = int(sizes.sum())
    return ClickLog.from_rows(
        session=np.repeat(np.arange(len(sizes)), sizes),
        query=np.repeat(rng.integers(0, 3, len(sizes)), sizes),
        position=np.concatenate([np.arange(1, size + 1) for size in sizes]),
        document=np.concatenate([rng.permutation(9)[:size] for size in sizes]),
        clicked=rng.random(n) < 0.3,
    )


def text_of(rng: Random, form: str) -> bytes:
    log, lines = random_log(rng), []
    for i in range(log.n_pages):
        rows = slice(int(log.offsets[i]), int(log.offsets[i + 1]))
        query, documents, clicks = int(log.query[i]), log.document[rows].tolist(), log.clicked[rows].tolist()
        if form == "serps":
            clicked = " , ".join(str(d) for d, c in zip(documents, clicks, strict=True) if c)
            lines.append(f"{query}\t{','.join(map(str, documents))} : {clicked};")
        elif form == "lists":
            lines.append(f"{i}\t{query}\t{documents}\t{[1] * len(documents)}\t{[int(c) for c in clicks]}")
        else:
            for r, (document, click) in enumerate(zip(documents, clicks, strict=True), 1):
                row = {"session": i, "query": f"q{query}", "position": r, "document": document, "clicked": int(click)}
                lines.append(json.dumps(row) if form == "jsonl" else ",".join(map(str, row.values())))
    head = ["session,query,position,document,clicked"] if form == "csv" else []
    return ("\n".join([*head, *lines]) + "\n").encode()


def make(rng: Random, _: Wholes, whole: bool) -> Input:
    form = pick(rng, ["csv", "jsonl", "serps", "lists"])
    text = text_of(rng, form)
    if not whole:
        text = damage_text(text, rng, text_of(rng, form), PIECES)
    suffix = f".{form}" if form in ("csv", "jsonl") else ".txt"
    if rng.random() < 0.15:
        text, suffix = gzip.compress(text, 1, mtime=0), f"{suffix}.gz"
        text = text if whole or rng.random() < 0.5 else damage_bytes(text, rng)
    return Input(text, suffix)


def use(path: Path, _: Mapping[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        log = read_clicks(path)
        again = path.with_name("again.jsonl")
        write_clicks(log, again)
        back = read_clicks(again)
    expect(np.array_equal(back.clicked, log.clicked), "a log that reads back differently")
    expect(bool((log.position >= 1).all()), "a position below 1")
    expect(np.isfinite(click_model("dbn", max_iter=2).fit(log).evaluate(log).log_likelihood), "an infinite likelihood")


def make_model(rng: Random, wholes: Wholes, whole: bool) -> Input:
    text = wholes[pick(rng, sorted(wholes))]
    return Input(text if whole else damage_text(text, rng, wholes[pick(rng, sorted(wholes))], PIECES), ".json")


def prepare(_: Path) -> dict[str, bytes]:
    from tempfile import TemporaryDirectory

    found = {}
    with TemporaryDirectory() as folder:
        for name, model in CLICK_MODELS.items():
            path = Path(folder, name)
            model(max_iter=2).fit(random_log(np.random.default_rng(1))).save(path)
            found[name] = path.read_bytes()
    return found


def use_model(path: Path, _: Mapping[str, Any]) -> None:
    model = load_click_model(path)
    log = random_log(np.random.default_rng(2))
    model.judge(log)
    model.evaluate(log)


def warm() -> None:
    log = random_log(np.random.default_rng(0))
    for model in CLICK_MODELS.values():
        model(max_iter=2).fit(log).evaluate(log)


LOG, MODEL = Target(make, use, warm=warm), Target(make_model, use_model, prepare=prepare, warm=warm)
