"""Requests whose features are all lists of numbers, read without a Python object per number.

Compiled code moves the lists into a matrix and leaves a mark in the place of each; msgspec parses the little text that
remains. Any other request, good or bad, is left to ``schema``, which also words the mistakes: what is read here must be
what is read there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import msgspec
import numpy as np

from gainful.data.rows import Array
from gainful.serve.body_kernels import take_lists
from gainful.serve.schema import LONGEST_ID

Taken = Literal["\x7f"]
TAKEN: Taken = "\x7f"  # MARK of the kernels
Count = Any  # checked below
if TYPE_CHECKING:
    Id = str | int | None
else:
    # Where only whole numbers are expected, msgspec takes 1.0 for one, and ``schema`` does not.
    Id = Annotated[str, msgspec.Meta(max_length=LONGEST_ID)] | int | float | None


class Document(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    features: Taken
    id: Id = None


class Query(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    documents: list[Document]
    id: Id = None


class RankRequest(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    documents: list[Document] | None = None
    queries: list[Query] | None = None
    top: Count = None
    contributions: bool = False
    top_features: Count = None

    @classmethod
    def of_rows(cls, n: int) -> RankRequest:
        return cls(documents=[Document(TAKEN)] * n)

    def is_plain(self, n_rows: int, max_rows: int) -> bool:
        """Whether ``schema`` would take it, and all of the ``n_rows`` lists of numbers are features of documents."""
        if (self.documents is None) == (self.queries is None):
            return False
        queries = self.queries or []
        groups = [self.documents] if self.documents is not None else [query.documents for query in queries]
        ids = [document.id for group in groups for document in group]
        return (
            len(ids) == n_rows
            and (self.queries is None or sum(max(1, len(group)) for group in groups) <= max_rows)
            and float not in {*map(type, ids), *(type(query.id) for query in queries)}
            and _is_count(self.top)
            and _is_count(self.top_features)
        )


class ScoreRequest(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    rows: list[Taken]
    contributions: bool = False
    top_features: Count = None

    @classmethod
    def of_rows(cls, n: int) -> ScoreRequest:
        return cls(rows=[TAKEN] * n)

    def is_plain(self, n_rows: int, max_rows: int) -> bool:
        """As for :class:`RankRequest`."""
        return len(self.rows) == n_rows <= max_rows and _is_count(self.top_features)


Plain = TypeVar("Plain", RankRequest, ScoreRequest)
DECODERS: dict[type, Any] = {kind: msgspec.json.Decoder(kind) for kind in (RankRequest, ScoreRequest)}


def read_plain(kind: type[Plain], body: bytes, n_features: int, max_rows: int) -> tuple[Plain, Array] | None:
    """A request and the features of all its rows; None if it is not plain."""
    if not body:
        return None
    shortest_row = 2 * n_features + 1  # [0,0,…,0]
    values = np.empty(min(max_rows, len(body) // shortest_row) * n_features)
    rest = np.empty(len(body), dtype=np.uint8)
    n_rows, size = take_lists(np.frombuffer(body, dtype=np.uint8), n_features, values, rest)
    if n_rows < 0:
        return None
    try:
        request: Plain = DECODERS[kind].decode(rest[:size])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    if not request.is_plain(n_rows, max_rows):
        return None
    return request, values[: n_rows * n_features].reshape(n_rows, n_features)


def _is_count(value: Count) -> bool:
    return value is None or (type(value) is int and value >= 1)


def compile_reader() -> None:
    """Compile what reads requests, or load it from disk if it was compiled before."""
    read_plain(ScoreRequest, b'{"rows": [[0]]}', 1, 1)
