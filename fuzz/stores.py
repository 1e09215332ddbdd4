"""Stored results of ``tune`` and ``compare``. Use: the same call resumes from the folder with the damaged file.

Bytes changed by accident must be noticed, or change nothing: the result must be the same as without a store.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import gainful
from fuzz.cases import Input, Random, Target, Wholes, expect
from fuzz.damage import below, damage_bytes, damage_json, damage_lines, pick

RANKERS = ["regression", "rankboost:n_rounds=3"]
Result = list[Any]


def data() -> gainful.RankingData:
    return gainful.make_artificial(12, n_docs=6, n_features=4, seed=1)


def tune(folder: Path) -> Result:
    """Parameters and values of all trials, and the best ones."""
    found = gainful.tune("regression", data(), trials=4, store=folder)
    found.table()
    return [[[trial["params"], trial["value"]] for trial in found.trials], found.best_params]


def compare(folder: Path) -> Result:
    """The values of each ranker by fold and metric. The rankers are sound, so a failure comes from the store."""
    found = gainful.compare(RANKERS, data(), folds=3, metrics=["ndcg@10", "map"], store=folder)
    expect(not found.failures, f"a stored result is taken for a failure: {dict(found.failures)}")
    runs = [run for one in found.runs.values() for run in one]
    return [[run.label, run.fold, [values.tolist() for values in run.values.values()]] for run in runs]


def prepare(result: Callable[[Path], Result], folder: Path) -> Mapping[str, bytes]:
    whole = result(folder / "store")
    wholes = {path.name: path.read_bytes() for path in (folder / "store").iterdir()}
    return wholes | {"result": json.dumps(whole).encode()}


def make(rng: Random, wholes: Wholes, whole: bool) -> Input:
    files = sorted(set(wholes) - {"result"})
    name = pick(rng, files)
    options: dict[str, Any] = {"file": name, "result": json.loads(wholes["result"])}
    if whole:
        return Input(wholes[name], ".jsonl", options)
    draw = rng.random()
    if draw < 0.5:
        return Input(damage_bytes(wholes[name], rng, wholes[pick(rng, files)]), ".jsonl", options)
    del options["result"]  # lines may be missing, and their trials run again in another order
    if draw < 0.65:
        return Input(damage_lines(wholes[name], rng), ".jsonl", options)
    lines = wholes[name].splitlines()
    place = below(rng, len(lines))
    lines[place] = damage_line(rng, lines[place])
    return Input(b"\n".join(lines) + b"\n", ".jsonl", options)


def damage_line(rng: Random, line: bytes) -> bytes:
    """One value of a line changed, and the checksum at its end corrected, if it has one."""
    row = json.loads(line)
    if row.pop("sum", None) is None:
        return damage_json(line, rng)
    text = damage_json(json.dumps(row).encode(), rng)[:-1]
    return b'%s, "sum": "%s"}' % (text, hashlib.blake2b(text, digest_size=8).hexdigest().encode())


def use(result: Callable[[Path], Result], path: Path, options: Mapping[str, Any]) -> None:
    folder = path.with_name("store")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    shutil.copy(path, folder / options["file"])
    found = json.loads(json.dumps(result(folder)))
    if "result" in options:
        expect(found == options["result"], "the file was accepted, but the result is another")


TUNE = Target(make, partial(use, tune), partial(prepare, tune), seconds=30)
COMPARE = Target(make, partial(use, compare), partial(prepare, compare), seconds=30)
