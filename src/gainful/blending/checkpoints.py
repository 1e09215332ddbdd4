"""The members of a blend in a checkpoint. What is read is checked: a file may be damaged, or made to do harm."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gainful.blending.folds import QueryFolds
from gainful.blending.members import Member, pack_models, stored_factors, unpack_models
from gainful.data.rows import Array
from gainful.errors import GainfulError
from gainful.rankers.base import Ranker
from gainful.training.monitor import Monitor

TABLES = ("scores", "values", "kept_values", "validation_values")  # one row of numbers per member
LARGEST_SEED = 2**31 - 1
LARGEST_NUMBER = 1e100  # its square and sums of it stay finite


def members_state(members: Sequence[Member], seed: int, monitor: Monitor) -> dict[str, Any]:
    """All members so far."""
    facts = [
        {
            "spec": one.spec,
            "models": len(one.models),
            "spreads": list(one.spreads),
            "seconds": one.seconds,
            "complete": one.complete,
            "warnings": list(one.warnings),
            "dropped": one.dropped,
        }
        for one in members
    ]
    state: dict[str, Any] = {"members": facts, "seed": seed, "monitor": monitor.record()}
    state |= pack_models([model for one in members for model in one.models])
    return state | {name: np.array([getattr(one, name) for one in members]) for name in TABLES}


def stored_seed(state: Mapping[str, Any]) -> int:
    """The seed of the training; anything but a seed raises ValueError."""
    seed = state["seed"]
    if type(seed) is not int or not 0 <= seed <= LARGEST_SEED:
        raise ValueError("seed is not a seed")
    return seed


def stored_members(
    state: Mapping[str, Any], folds: QueryFolds, candidate: Callable[[int, str], Ranker]
) -> list[Member]:
    """What :func:`members_state` was given; anything else raises.

    ``candidate`` returns the ranker of a member, untrained, by its number and spec, or raises if it cannot be one.
    """
    described, stored = state["members"], state["models"]
    if not isinstance(described, list) or not described or not all(isinstance(one, dict) for one in described):
        raise ValueError("members is not a list of members")
    counts = [_number_of_models(one, folds.n) for one in described]
    if not isinstance(stored, list) or sum(counts) != len(stored):
        raise ValueError("its members have another number of models")
    widths = (folds.data.n_rows, *[folds.data.n_queries] * (len(TABLES) - 1))
    tables = [_table(state, name, len(described), width) for name, width in zip(TABLES, widths, strict=True)]
    try:
        models = iter(unpack_models(state, folds.data.n_features) if stored else ())
        members = []
        for i, (one, n) in enumerate(zip(described, counts, strict=True)):
            its_models = tuple(next(models) for _ in range(n))
            members.append(_member(one, its_models, [table[i] for table in tables], candidate(i, str(one["spec"]))))
    except GainfulError as error:
        raise ValueError(str(error)) from error
    return members


def _number_of_models(described: Mapping[str, Any], n_folds: int) -> int:
    """A member that was dropped has no models, any other at most one per fold."""
    n, dropped = described["models"], described["dropped"]
    if not isinstance(dropped, str) or type(n) is not int or not (n == 0 if dropped else 1 <= n <= n_folds):
        raise ValueError("a member has an impossible number of models")
    return n


def _table(state: Mapping[str, Any], name: str, n: int, width: int) -> Array:
    """One row of numbers per member; NaN is what was not scored."""
    table = state[name]
    if not isinstance(table, np.ndarray) or table.dtype != np.float64 or table.shape != (n, width):
        raise ValueError(f"{name} is not a table of {n:,} by {width:,} numbers")
    if (np.abs(table) > LARGEST_NUMBER).any():
        raise ValueError(f"{name} holds an infinite number, or one that is too large")
    return table


def _member(
    described: Mapping[str, Any], models: tuple[Ranker, ...], tables: Sequence[Array], ranker: Ranker
) -> Member:
    spec, seconds, complete, texts = (described[name] for name in ("spec", "seconds", "complete", "warnings"))
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ValueError("what a member says of its fits is not what was written")
    if type(seconds) not in (int, float) or not 0.0 <= seconds < math.inf or type(complete) is not bool:
        raise ValueError("a member has an impossible time")
    if any(type(model) is not type(ranker) for model in models):
        raise ValueError(f"a model is not of its member {spec!r}")
    spreads = tuple(stored_factors(described, "spreads", len(models)))
    facts = (float(seconds), complete, described["dropped"], tuple(texts))
    scores, values, kept_values, validation_values = tables
    return Member(spec, models, spreads, scores, values, kept_values, validation_values, *facts)
