"""Files beside a data file: sizes of queries, weights, initial scores. The case is that file; the data are sound."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fuzz import data_files
from fuzz.cases import Input, Random, Target, Wholes
from fuzz.damage import damage_table, pick

PIECES = [b"0", b"-1", b" ", b"\n", b"\r\n", b"\n\n", b"nan", b"inf", b"1e999", b"1.5", b".", b"+", b"9" * 400, b"\xff",
          b"\0", b"\xef\xbb\xbf", b"1_0", "٣".encode(), b"#", b"1\n" * 5000, b"999999999999999"]  # fmt: skip


def make(rng: Random, _: Wholes, whole: bool) -> Input:
    sizes = rng.integers(1, 6, int(rng.integers(1, 8))).tolist()
    n_rows = sum(sizes)
    kind = pick(rng, ["query", "group", "weight", "init"])
    if rng.random() < 0.5:
        text = "".join(f"{i % 3} 1:{i} 2:{i * i % 7}\n" for i in range(n_rows))
        suffix = ".txt"
    else:
        text = "label,a,b\n" + "".join(f"{i % 3},{i}.5,{i * i % 7}\n" for i in range(n_rows))
        suffix = ".csv"
    if kind == "init":
        numbers = [repr(float(score)) for score in rng.normal(size=n_rows)]
    elif kind == "weight":
        of_what = pick(rng, ["documents", "rows of a query", "queries"])
        weights = rng.random(n_rows if of_what == "documents" else len(sizes)) + 0.1
        if of_what == "rows of a query":
            weights = weights.repeat(sizes)
        numbers = [repr(float(weight)) for weight in weights]
    else:
        numbers = [str(size) for size in sizes]
    content = ("\n".join(numbers) + pick(rng, ["", "\n", "\r\n"])).encode()
    if not whole:
        content = damage_table(content, rng, PIECES)
    to = ".gnf" if kind == "init" else pick(rng, data_files.REWRITE_AS)  # no other format holds initial scores
    options: dict[str, Any] = {"way": pick(rng, data_files.WAYS), "to": to, "read": {}}
    options |= {"text": text, "suffix": suffix, "kind": kind, "sizes": sizes}
    options |= {"rows": n_rows, "queries": len(sizes)} if whole else {}
    return Input(content, f".{kind}", options)


def use(path: Path, options: Mapping[str, Any]) -> None:
    """Put the data file beside the case, and read it."""
    home = path.with_name(f"data{options['suffix']}")
    home.write_text(options["text"])
    path.with_name(f"{home.name}.{options['kind']}").write_bytes(path.read_bytes())
    there = {options["kind"]}
    if options["kind"] in ("weight", "init"):
        path.with_name(f"{home.name}.query").write_text("\n".join(map(str, options["sizes"])))
        there.add("query")
    for other in {"query", "group", "weight", "init"} - there:
        path.with_name(f"{home.name}.{other}").unlink(missing_ok=True)
    data_files.use(home, options)


TARGET = Target(make, use)
