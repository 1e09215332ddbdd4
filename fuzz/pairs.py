"""Files of preferences. The case is that file; the data are sound."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gainful
from fuzz.cases import Input, Random, Target, Wholes
from fuzz.damage import damage_table, pick

PIECES = [b",", b'"', b"\n", b"\r\n", b"\r", b"-1", b"0", b"nan", b"inf", b"1e999", b"1_0", b"\xff", b"\0",
          b"\xef\xbb\xbf", b"query,better,worse\n", b"9" * 400, "٣".encode(), b"a,1,2\n" * 2000]  # fmt: skip


def make(rng: Random, _: Wholes, whole: bool) -> Input:
    sizes = rng.integers(2, 6, int(rng.integers(1, 8))).tolist()
    weighted, ids = bool(rng.random() < 0.5), bool(rng.random() < 0.5)
    lines = ["query,better,worse" + (",weight" if weighted else "")]
    for query, size in enumerate(sizes):
        for _pair in range(int(rng.integers(0, 4))):
            better, worse = (rng.permutation(size)[:2] + 1).tolist()
            named = [f"d{query}-{place}" if ids else str(place) for place in (better, worse)]
            lines.append(",".join([f"q{query}", *named, *([repr(float(rng.random()))] if weighted else [])]))
    content = ("\n".join(lines) + pick(rng, ["", "\n", "\r\n"])).encode()
    return Input(content if whole else damage_table(content, rng, PIECES), ".csv", {"sizes": sizes, "ids": ids})


def use(path: Path, options: Mapping[str, Any]) -> None:
    """Put the data file beside the case, and read both."""
    rows = [(query, place) for query, size in enumerate(options["sizes"]) for place in range(1, size + 1)]
    text = "".join(
        f"0 qid:q{query} 1:{place}" + (f" # d{query}-{place}\n" if options["ids"] else "\n") for query, place in rows
    )
    home = path.with_name("judged.txt")
    home.write_text(text)
    data = gainful.read(home, pairs=path)
    again = path.with_name("again.csv")
    gainful.write(data, path.with_name("again.txt"), pairs=again)
    assert gainful.read(path.with_name("again.txt"), pairs=again).equals(data)


TARGET = Target(make, use)
