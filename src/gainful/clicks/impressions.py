"""The log of interleaved lists: a line of JSON per list shown, and how clicks on it are counted.

A line has ``impression`` (an id that clicks refer to), ``time``, ``method``, ``models`` (the versions of A and B),
``documents`` (ids, best first) and ``credit`` (of a click on each: positive speaks for A). It has no query and no user.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np

from gainful.clicks.columns import Named
from gainful.clicks.interleaving import Interleaved
from gainful.clicks.reading import read_click_events
from gainful.data.rows import Array
from gainful.errors import FormatError, plural
from gainful.formats.files import PathLike, check_readable

DIGITS = 16  # of an impression id
COLUMN_ROLES = ("page", "document", "session", "clicked", "action")


def impression_line(request: str, number: int, shown: Interleaved, models: Sequence[str]) -> tuple[str, str]:
    """The impression id and the line of a list that answers query ``number`` of a request.

    The id is a digest of the request and of what is shown: a retry that gets the same list gets the same id, and a
    different list never does.
    """
    content = {
        "method": shown.method,
        "models": list(models),
        "documents": list(shown.documents),
        "credit": [round(one, 9) for one in shown.credit],
    }
    digest = hashlib.sha256(json.dumps([request, number, content]).encode()).hexdigest()[:DIGITS]
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return digest, json.dumps({"impression": digest, "time": now} | content) + "\n"


def request_seed(request: str, number: int) -> int:
    """The seed of the list for query ``number`` of a request."""
    return int.from_bytes(hashlib.sha256(f"{request}/{number}".encode()).digest()[:8])


@dataclass
class InterleavingOutcomes:
    """The outcome of each impression of a log, for :func:`gainful.analyse_interleaving`."""

    impressions: list[str]
    outcomes: Array
    session: list[str]  # of the clicks on it; an impression without clicks is a session of its own
    models: list[tuple[str, str]]  # the pairs of versions that the log has
    clicks: int = 0
    ignored: dict[str, int] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """What was left out and what to know, a sentence each."""
        found = [
            text.format(plural(self.ignored[name], one, many))
            for name, (one, many, text) in IGNORED.items()
            if self.ignored.get(name)
        ]
        if len(self.models) > 1:
            found.append(f"{len(self.models)} pairs of model versions were shown; they are analysed together")
        return found


IGNORED = {
    "unknown": ("click", "clicks", "{} on impressions that are not in the log"),
    "elsewhere": ("click", "clicks", "{} on documents that are not on the interleaved list, without credit"),
    "repeated": ("repeated click", "repeated clicks", "{} counted once"),
    "damaged": ("damaged line", "damaged lines", "{} of the log skipped"),
}


def read_interleaved(log: PathLike, clicks: Any, **columns: Named) -> InterleavingOutcomes:
    """Join the log of a server that interleaves with the clicks on its answers.

    Parameters
    ----------
    log : the JSON Lines that the server wrote
    clicks : a table or JSON Lines with the impression and the document of each click, and optionally the session;
        a column ``clicked`` or ``action_name`` tells clicks from other rows
    columns : names of the columns ``page`` (of the impression), ``document``, ``session``, ``clicked`` and ``action``,
        where they are not well known
    """
    shown, models, damaged = _read_log(log)
    outcomes = dict.fromkeys(shown, 0.0)
    session: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    ignored = {"damaged": damaged, "unknown": 0, "elsewhere": 0, "repeated": 0}
    for impression, document, user in read_click_events(clicks, columns):
        credit = shown.get(impression)
        if credit is None:
            ignored["unknown"] += 1
        elif document not in credit:
            ignored["elsewhere"] += 1
        elif (impression, document) in seen:
            ignored["repeated"] += 1
        else:
            seen.add((impression, document))
            outcomes[impression] += credit[document]
            session.setdefault(impression, user)
    return InterleavingOutcomes(
        impressions=list(outcomes),
        outcomes=np.array(list(outcomes.values())),
        session=[session.get(one) or f"impression {one}" for one in outcomes],
        models=models,
        clicks=len(seen),
        ignored={name: n for name, n in ignored.items() if n},
    )


def _read_log(path: PathLike) -> tuple[dict[str, dict[str, float]], list[tuple[str, str]], int]:
    """Impression → document → credit, the pairs of models, and the number of lines that are damaged."""
    check_readable(path)
    shown: dict[str, dict[str, float]] = {}
    models: dict[tuple[str, str], None] = {}
    damaged, first = 0, ""
    with open(path, encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                credit = dict(zip(map(str, row["documents"]), map(float, row["credit"]), strict=True))
                a, b = row["models"]
                shown[str(row["impression"])] = credit
                models[str(a), str(b)] = None
            except (ValueError, TypeError, KeyError, RecursionError):
                damaged += 1
                first = first or f"line {number}"
    if not shown:
        raise FormatError(
            f"is not a log of interleaved lists, as gainful serve --impressions writes it ({first} is not one)",
            path=os.fspath(path),
        )
    return shown, list(models), damaged
