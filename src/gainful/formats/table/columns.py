"""Which column of a table has which role: as requested, as noted by the writer, or by name and first values."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from gainful.data.identifiers import why_identifier
from gainful.data.rows import Array, first_duplicate
from gainful.errors import DataError, DataWarning, ParameterError, UnknownNameError, brief, option
from gainful.formats.table.values import cut, decode, is_text_type, numeric, plain_type, times_of
from gainful.formats.table.writer import METADATA, WELL_KNOWN

AMBIGUOUS = (
    "weight",
    "query_weight",
)  # where it differs within a query, the first may be a feature, the second a mistake
HEAD_ROWS = 1000  # by which columns are judged
SLICES, SLICE_ROWS = 100, 100  # of a longer table, which are looked at for more identifiers
WHOLE_NUMBER = re.compile(r"[+-]?\d+")
NUMBER = re.compile(r"[+-]?\d*[.,]?\d+(?:[eE][+-]?\d+)?")
ID_BYTES = 100  # of a text in Python
FIELD_BYTES = 16  # of a number in a table and in the matrix
MISSING = ["", "NULL", "null", "Null", "NaN", "nan", "NAN", "NA", "N/A", "None", "-nan"]
OPTIONAL = ("doc_id", "weight", "init_score", "position", "propensity")
SEPARATORS = {"csv": ",", "tsv": "\t"}
WORDS = {"tab": "\t", "\\t": "\t"}  # what a shell can pass


@dataclass(frozen=True)
class Columns:
    """The column of each role; None to guess, False (all but the query) for none.

    ``sep`` separates the columns of text files: by default a comma in CSV, a tab in TSV. Without a ``header`` columns
    are named by their numbers, "0", "1", …. ``decimal`` is the sign before the fraction of a number. ``needs_qid`` is
    False if something else says which rows belong together. ``times`` are features that may hold dates. ``keep`` are
    columns that are features whatever they look like, in addition to ``features``.
    """

    qid: str | None = None
    grade: str | bool | None = None
    doc_id: str | bool | None = None
    weight: str | bool | None = None
    features: Sequence[str] | None = None
    sep: str | None = None
    header: bool = True
    decimal: str = "."
    needs_qid: bool = True
    times: Sequence[str] = ()
    keep: Sequence[str] = ()
    init_score: str | bool | None = None
    position: str | bool | None = None
    propensity: str | bool | None = None

    def between(self, kind: str) -> str:
        """The character that separates the columns of a text file."""
        return SEPARATORS[kind] if self.sep is None else WORDS.get(self.sep, self.sep)


@dataclass(frozen=True)
class Column:
    """A column of a table: its role (query, grade, document, weight, …, feature or ignored) and why."""

    name: str
    role: str
    why: str


def columns_of_plan(schema: pa.Schema, plan: Plan, wanted: Columns) -> list[Column]:
    """The columns of a table in their order."""
    called = {"qid": "query", "doc_id": "document", "init_score": "initial score"}
    roles = {name: role for role, name in plan.roles.items() if name is not None}
    found = []
    for name in schema.names:
        if name in roles:
            given = getattr(wanted, roles[name]) == name
            why = "named in the options" if given else f"called {name!r}"
            found.append(Column(name, called.get(roles[name], roles[name]), why))
        elif name in plan.left_out:
            found.append(Column(name, "ignored", plan.left_out[name]))
        elif name in plan.features:
            holds = "text, a category" if name in plan.texts else "times" if name in plan.times else "numbers"
            found.append(Column(name, "feature", holds))
        else:
            found.append(Column(name, "ignored", "not among the features named"))
    return found


def check_columns(wanted: Columns, merge: Any, kind: str = "frame") -> Columns:
    if wanted.header is not True:
        wanted = _number_columns(wanted, kind)
    for role in WELL_KNOWN:
        value = getattr(wanted, role)
        may_be_false = role in (*OPTIONAL, "grade") and value is False
        if not (value is None or isinstance(value, str) or may_be_false):
            raise ParameterError.of("a table", role, "the name of a column", value)
    if wanted.features is not None and (
        isinstance(wanted.features, str) or not all(isinstance(name, str) for name in wanted.features)
    ):
        raise ParameterError.of("a table", "features", "a list of column names", wanted.features)
    for role in ("times", "keep"):
        given = getattr(wanted, role)
        if isinstance(given, str) or not all(isinstance(name, str) for name in given):
            raise ParameterError.of("a table", role, "a list of column names", given)
    if not isinstance(merge, bool):
        raise ParameterError.of("a table", "merge", "True or False", merge)
    if wanted.sep is not None:
        _check_separator(wanted, kind)
    if wanted.decimal != ".":
        _check_decimal(wanted, kind)
    return wanted


def _number_columns(wanted: Columns, kind: str) -> Columns:
    """The columns of a text file without names, which are given by number; the grade is in the first by default."""
    if wanted.header is not False:
        raise ParameterError.of("a table", "header", "True or False", wanted.header)
    if kind not in SEPARATORS:
        raise ParameterError(f"header is for CSV and TSV, not for {kind}; leave it out")

    def name(column: Any) -> Any:
        return str(column) if isinstance(column, int) and not isinstance(column, bool) else column

    features = [name(one) for one in wanted.features] if isinstance(wanted.features, (list, tuple)) else wanted.features
    roles = {role: name(getattr(wanted, role)) for role in WELL_KNOWN}
    return replace(
        wanted, **{**roles, "grade": "0" if roles["grade"] is None else roles["grade"], "features": features}
    )


def _check_decimal(wanted: Columns, kind: str) -> None:
    if kind not in SEPARATORS:
        raise ParameterError(f"decimal is for CSV and TSV, not for {kind}; leave it out")
    if wanted.decimal != ",":
        raise ParameterError.of("a table", "decimal", "'.' or ','", wanted.decimal)
    if wanted.between(kind) == ",":
        raise ParameterError(
            f"a comma cannot be both the decimal sign and between columns; pass {option('sep', ';')} or another"
        )


def _check_separator(wanted: Columns, kind: str) -> None:
    if kind not in SEPARATORS:
        raise ParameterError(f"sep is for CSV and TSV, not for {kind}; leave it out")
    between = wanted.between(kind) if isinstance(wanted.sep, str) else ""
    if len(between) != 1 or not between.isascii() or between.isalnum() or between in '"\r\n.-':
        raise ParameterError.of("a table", "sep", "one character such as ';' or 'tab'", wanted.sep)


def check_types(schema: pa.Schema, plan: Plan) -> int:
    """Refuse columns of the wrong type before any is read. Returns the bytes of a row in the table and the matrix."""
    for name in plan.features:
        empty = pa.chunked_array([], type=plain_type(schema, name))
        if name in plan.times:
            times_of(empty, name)
        elif name not in plan.texts:
            numeric(empty, name)
    for role in ("grade", "weight", "init_score", "position", "propensity"):
        if plan.roles[role] is not None:
            numeric(pa.chunked_array([], type=plain_type(schema, plan.roles[role])), plan.roles[role])
    n_ids = sum(plan.roles[role] is not None for role in ("qid", "doc_id"))
    return ID_BYTES * n_ids + sum(_field_bytes(plain_type(schema, name)) for name in plan.features)


def _field_bytes(kind: pa.DataType) -> int:
    return FIELD_BYTES // 2 if pa.types.is_float32(kind) else FIELD_BYTES


def text_columns(schema: pa.Schema, plan: Plan) -> list[str]:
    """The columns of ids and features that hold text."""
    names = [plan.roles[role] for role in ("qid", "doc_id") if plan.roles[role] is not None] + [*plan.texts]
    return [name for name in names if is_text_type(schema.field(name).type)]


# -- the roles ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """The roles of a table's columns, by their names and the writer's notes."""

    roles: dict[str, Any]
    features: list[str]
    feature_names: list[str] | None
    sparse: bool
    noted_dtype: str | None
    texts: frozenset[str] = frozenset()  # the features that hold text
    left_out: dict[str, str] = field(default_factory=dict)  # columns that look like identifiers, and why
    digits: tuple[str, ...] = ()  # the features of text that hold numbers
    times: frozenset[str] = frozenset()  # the features that may hold dates
    guessed_weight: bool = False  # whether the column of the weights was recognised by its name alone
    doubtful: frozenset[str] = frozenset()  # the features that nobody named, which may be identifiers

    def all_columns(self) -> list[str]:
        """All columns that are read."""
        return [name for name in self.roles.values() if name is not None] + self.features


def make_plan(
    schema: pa.Schema, wanted: Columns, head: pa.Table | None = None, left_out: dict[str, str] | None = None
) -> Plan:
    """The roles of a table's columns; ``head`` is its first rows, by which identifiers and text are recognised.

    ``left_out`` are the identifiers, if another file of the same kind has settled them.
    """
    names = schema.names
    twice = first_duplicate(np.array(names, dtype=object))
    if twice is not None:
        raise DataError(f"there are two columns named {twice!r}; names must differ")
    notes = _notes(schema)
    roles = _roles(names, wanted, notes.get("roles", {}))
    features = _feature_names(names, wanted, roles)
    times = frozenset(wanted.times)
    doubtful = frozenset(features) - times - set(wanted.keep)
    if wanted.features is not None or "roles" in notes or head is None:  # named by the user, or a file of ours
        doubtful = frozenset()
    if left_out is None:
        left_out = {} if head is None else _identifiers(head, doubtful, roles)
    left_out = {name: left_out[name] for name in features if name in doubtful and name in left_out}
    features = [name for name in features if name not in left_out]
    texts = frozenset(name for name in features if name not in times and _is_text(schema, head, name))
    numbered = notes.get("feature_names") is False and features == [f"f{j + 1}" for j in range(len(features))]
    unnamed = numbered or not wanted.header
    is_sparse = notes.get("sparse") is True
    digits = () if head is None else tuple(name for name in features if name in texts and _holds_digits(head, name))
    guessed = str(roles["weight"]).lower() in AMBIGUOUS and wanted.weight is None and "roles" not in notes
    names_shown = None if unnamed else features
    doubtful -= left_out.keys()
    noted = notes.get("dtype")
    return Plan(roles, features, names_shown, is_sparse, noted, texts, left_out, digits, times, guessed, doubtful)


def leave_out_identifiers(table: pa.Table, plan: Plan) -> Plan:
    """The plan without features that look like identifiers over all rows, though not in the first ones."""
    if not plan.doubtful or table.num_rows <= HEAD_ROWS:
        return plan
    step = max(SLICE_ROWS, table.num_rows // SLICES)
    some = pa.concat_tables([table.slice(start, SLICE_ROWS) for start in range(0, table.num_rows, step)])
    suspects = _identifiers(some, plan.doubtful, plan.roles)  # what is nearly unique is nearly unique in parts, too
    found = _identifiers(table, suspects, plan.roles)
    return replace(
        plan,
        features=[name for name in plan.features if name not in found],
        feature_names=None if plan.feature_names is None else [n for n in plan.feature_names if n not in found],
        texts=plan.texts - found.keys(),
        digits=tuple(name for name in plan.digits if name not in found),
        left_out=plan.left_out | found,
        doubtful=plan.doubtful - found.keys(),
    )


def _identifiers(rows: pa.Table, features: Collection[str], roles: dict[str, Any]) -> dict[str, str]:
    """The features that look like identifiers in these rows, with the reason."""
    query = roles["qid"]
    several = query is not None and rows.num_rows > 0 and len(rows.column(query).unique()) > 1
    found = {name: why_identifier(name, _values(rows, name), several) for name in rows.schema.names if name in features}
    return {name: why for name, why in found.items() if why is not None}


def _values(rows: pa.Table, name: str) -> Array:
    """Texts as objects, numbers as floats; anything else is not looked at and returned as nothing.

    Neither are decimals written as text, which are amounts.
    """
    column = decode(rows, name)
    if is_text_type(column.type):
        words = [word or None for word in column.to_pylist()]
        if _are_numbers(words) and not all(word is None or WHOLE_NUMBER.fullmatch(word) for word in words):
            return np.empty(0)
        return np.array([*words, None], dtype=object)[:-1]
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        return numeric(column, name).astype(np.float64)
    return np.empty(0)


def _is_text(schema: pa.Schema, head: pa.Table | None, name: str) -> bool:
    """Whether a column holds text. In a text file, which has no types, most of the first values must not be numbers."""
    if is_text_type(plain_type(schema, name)):
        return True
    if head is None or not is_text_type(plain_type(head.schema, name)):
        return False
    return not _are_numbers(head.column(name).to_pylist())


def _holds_digits(head: pa.Table, name: str) -> bool:
    """Whether a column of text, which was not declared a category, holds numbers."""
    column = head.column(name)
    return (
        not pa.types.is_dictionary(column.type) and column.null_count < len(column) and _are_numbers(column.to_pylist())
    )


def _are_numbers(words: list[str | None]) -> bool:
    """Whether most texts are numbers: then the others are mistakes."""
    known = [word for word in words if word is not None and word not in MISSING]
    return bool(known) and 2 * sum(NUMBER.fullmatch(word.strip()) is not None for word in known) >= len(known)


def warn_of_columns(plan: Plan) -> None:
    """Warn of columns that are left out, and of numbers that are read as text."""
    if plan.left_out:
        one = len(plan.left_out) == 1
        columns = "1 column that looks" if one else f"{len(plan.left_out)} columns that look"
        keep = keep_option(next(iter(plan.left_out)))
        warnings.warn(
            f"{columns} like identifiers or row numbers {'is' if one else 'are'} left out: "
            f"{cut(', '.join(plan.left_out))}; to keep {'it, pass' if one else 'one of them, name it as in'} {keep}",
            DataWarning,
            stacklevel=2,
        )
    if plan.digits:
        warnings.warn(
            f"column {plan.digits[0]!r} holds numbers written as text, and is read as a category; turn it into numbers "
            "if it is an amount",
            DataWarning,
            stacklevel=2,
        )


def keep_option(name: str) -> str:
    """How to keep a column that looks like an identifier."""
    return option("keep", [name])


def refuse_guessed_weights(plan: Plan, query: Any) -> None:
    """Raise if the weights of one query differ and nobody said that the column holds weights."""
    if plan.guessed_weight:
        name = plan.roles["weight"]
        raise DataError(
            f"column {name!r} differs between rows of query {brief(query)}: it may hold weights of documents, or be a "
            f"feature; pass {option('weight', name)} or {option('weight', False)}"
        )


def _notes(schema: pa.Schema) -> dict[str, Any]:
    """The writer's notes in the schema; empty if they are not ours or damaged."""
    try:
        notes = json.loads((schema.metadata or {}).get(METADATA, b"{}"))
    except (ValueError, RecursionError):
        return {}
    if not isinstance(notes, dict) or not isinstance(notes.get("roles", {}), dict):
        return {}
    return notes


def _roles(names: list[str], wanted: Columns, noted: dict[str, Any]) -> dict[str, Any]:
    """The column of each role: as requested, as noted by the writer, or by a well-known name."""
    roles: dict[str, Any] = {}
    for role, known in WELL_KNOWN.items():
        given = getattr(wanted, role)
        if given is False:
            roles[role] = None
        elif given is not None:
            if given not in names:
                raise UnknownNameError.among(f"column ({role})", given, names)
            roles[role] = given
        elif noted.get("qid") in names and noted.get("grade") in names:
            roles[role] = noted[role] if noted.get(role) in names else None
        else:
            roles[role] = _guess(role, known, names, wanted)
    taken = [name for name in roles.values() if name is not None]
    twice = next((name for name in taken if taken.count(name) > 1), None)
    if twice is not None:
        raise DataError(
            f"column {twice!r} has two roles; query, grade, document, weight and initial score need columns of "
            "their own"
        )
    return roles


def _guess(role: str, known: tuple[str, ...], names: list[str], wanted: Columns) -> str | None:
    claimed = {getattr(wanted, other) for other in WELL_KNOWN} | set(wanted.features or ()) | set(wanted.keep)
    found = [name for name in names if name.lower() in known and name not in claimed]
    if len(found) == 1:
        return found[0]
    if not found and (role in OPTIONAL or (role == "qid" and not wanted.needs_qid)):
        return None
    columns = cut(", ".join(names))
    if found:
        hint = f" or {option(role, False)}" if role in OPTIONAL else ""
        raise DataError(f"columns {', '.join(found)} could each be the {role}; pass {option(role, '…')}{hint}")
    hint = ""
    if wanted.header and all(NUMBER.fullmatch(name) for name in names):
        hint = f"; if the first line is a row, pass {option('header', False)}"
    elif role == "grade":
        hint = f"; if there are preferences instead ({option('pairs')}), {option('grade', False)}"
    raise DataError(f"cannot tell which column is the {role}; pass {option(role, '…')} with one of {columns}{hint}")


def _feature_names(names: list[str], wanted: Columns, roles: dict[str, Any]) -> list[str]:
    taken, known = set(roles.values()), set(names)
    chosen = [name for name in names if name not in taken] if wanted.features is None else list(wanted.features)
    for role, given in (("features", chosen), ("times", wanted.times), ("keep", wanted.keep)):
        for name in given:
            if name not in known:
                raise UnknownNameError.among(f"column ({role})", name, names)
            if name in taken:
                raise DataError(
                    f"column {name!r} cannot be a feature: it is the query, grade, document, weight or initial score"
                )
    return list(dict.fromkeys([*chosen, *wanted.times, *wanted.keep]))
