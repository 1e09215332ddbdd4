"""Columns that look like identifiers or row numbers, which say nothing about new documents."""

from __future__ import annotations

import re

import numpy as np

from gainful.data.rows import Array

LEAST_ROWS = 12  # fewer rows than this fall into a pattern by chance
UNIQUE_ROWS = 1000  # of this many counts or prices, two are equal
MANY_ROWS = 10_000  # of this many counts or prices, more than one in a hundred has an equal
NEARLY_UNIQUE = 0.99
MOSTLY = 0.9  # "nearly all"
ID_NAME = re.compile(
    r"(?:.*[_\-. ])?(?:id|uuid|guid)|.*[a-z](?:Id|ID)|(?:doc|document|query|row|product|item|user|url|u|q)id"
    r"|index|row|row[_ ]?(?:number|num|no|index)|unnamed: ?\d+|level_\d|__index_level_\d+__"
)


def is_id_name(name: str) -> bool:
    """Whether a column is named like an identifier: ``product_id``, ``siteID``, ``index``, ``Unnamed: 0``."""
    name = name.strip()
    return ID_NAME.fullmatch(name) is not None or ID_NAME.fullmatch(name.lower()) is not None


def is_monotone(X: Array) -> Array:
    """Columns that rise, or fall, from each row to the next."""
    before, after = X[:-1], X[1:]  # compared, not subtracted: two infinite values have no difference
    return np.asarray((after > before).all(axis=0) | (after < before).all(axis=0))


def is_numbering(values: Array) -> bool:
    """Whether the values number the rows.

    Counts and prices may all differ too, but they are not a range without gaps, nor do they rise or fall from each row
    to the next.
    """
    if len(values) < LEAST_ROWS or not is_whole(values):
        return False
    if is_monotone(values):
        return True
    ordered = np.sort(values)
    if not (np.diff(ordered) > 0).all():
        return False
    return bool(ordered[-1] - ordered[0] + 1 == len(values)) or len(values) >= UNIQUE_ROWS


def is_whole(values: Array) -> bool:
    """Whether all are integers."""
    return bool((np.isfinite(values) & (values == np.floor(values))).all())


def why_identifier(name: str, values: Array, several_queries: bool) -> str | None:
    """Why a column, by its name and values, looks like an identifier; None if it does not.

    ``values`` are numbers, or texts with None where missing. Within one query, counts may rise or fall by themselves.
    """
    is_text = values.dtype == object
    if is_text:
        words = [value for value in values.tolist() if value is not None]
        n_distinct = len(set(words))
    else:
        known = values[~np.isnan(values)]
        if not is_whole(known):
            return None
        n_distinct = len(np.unique(known))
    if is_id_name(name) and n_distinct > 2:
        return "named like an identifier"
    if is_text:
        many = len(words) >= LEAST_ROWS and n_distinct >= MOSTLY * len(words)
        return "text that differs in nearly every row" if many else None
    if several_queries and len(known) == len(values) and is_numbering(values):
        return "numbers the rows"
    if n_distinct == len(known) >= UNIQUE_ROWS or n_distinct >= NEARLY_UNIQUE * len(known) >= NEARLY_UNIQUE * MANY_ROWS:
        return "whole numbers that differ in nearly every row"
    return None
