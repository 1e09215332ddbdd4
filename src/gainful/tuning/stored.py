"""Checks of stored trials: a line may match its checksum and still not be what a search wrote."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from gainful.tuning.search import Search
from gainful.tuning.store import Store

Trial = dict[str, Any]
FINISHED = ("done", "pruned", "failed")
STATES = (*FINISHED, "cut")  # a trial that the budget cut runs again if there is time for it
PATHS = {"C": "C_", "l1": "l1_"}  # parameters that may hold several values, and the attribute of the one kept
MOST_TRIALS = 1_000_000
LARGEST_COUNT = 2**53


def is_number(value: Any) -> bool:
    """A finite number of JSON, within double precision."""
    return (type(value) is float and math.isfinite(value)) or (type(value) is int and abs(value) <= LARGEST_COUNT)


def is_count(value: Any, low: int = 0) -> bool:
    return type(value) is int and low <= value <= LARGEST_COUNT


def is_time(value: Any) -> bool:
    return is_number(value) and value >= 0


def _is_curve(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(point, list) and len(point) == 2 and is_count(point[0]) and is_number(point[1]) for point in value
    )


CHECKS: dict[str, Callable[[Any], bool]] = {
    "trial": lambda value: is_count(value) and value < MOST_TRIALS,
    "params": lambda value: isinstance(value, dict),
    "state": lambda value: value in STATES,
    "value": lambda value: value is None or is_number(value),
    "reached": lambda value: value is None or is_number(value),
    "curve": _is_curve,
    "kept": lambda value: isinstance(value, dict) and set(value) <= set(PATHS) and all(map(is_number, value.values())),
    "models": is_count,
    "iterations": is_count,
    "best_iteration": lambda value: value is None or is_count(value, 1),
    "seconds": is_time,
    "elapsed": is_time,
    "warnings": lambda value: isinstance(value, list) and all(isinstance(text, str) for text in value),
}


def is_trial(row: Any) -> bool:
    """Whether a value from a file has all that the search and its tables read of a trial."""
    if not isinstance(row, Mapping) or not all(name in row and check(row[name]) for name, check in CHECKS.items()):
        return False
    if row["state"] == "failed" and not isinstance(row.get("reason"), str):
        return False
    done = row["state"] == "done"
    return done == (row["value"] is not None) and (not done or row["best_iteration"] is not None)


def stored_trials(store: Store | None, search: Search) -> dict[int, Trial]:
    """The stored trials by number; a line that is not a trial of this search is an error."""
    trials: dict[int, Trial] = {}
    for i, row in enumerate([] if store is None else store.rows):
        if row.get("kind") != "trial":
            continue
        assert store is not None
        trial = {name: value for name, value in row.items() if name != "kind"}
        if not is_trial(trial) or not search.may_propose(trial["trial"], trial["params"]):
            raise store.damage(i)
        if trials.get(trial["trial"], {"state": "cut"})["state"] in FINISHED:  # nothing runs again that has finished
            raise store.damage(i)
        trials[trial["trial"]] = trial
    return trials
