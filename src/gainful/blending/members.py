"""The members of a blend: models of one ranker, one per fold, on a common scale."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gainful.blending.folds import FoldFit, QueryFolds
from gainful.data.rows import Array
from gainful.metrics import Metric
from gainful.rankers.base import Ranker
from gainful.rankers.model_file import pack_model, unpack_model
from gainful.rankers.registry import RANKERS

CONSTANT = 1e-9  # spread within queries, relative to the largest score, below which a model is constant


@dataclass(frozen=True)
class Member:
    """A ranker of a blend, trained once per fold.

    ``scores`` are out of fold: each row is scored by the model that was not trained on its query, less the query's mean
    and divided by ``spreads``, the standard deviation of the model's scores within queries. Rows of folds that were not
    trained are NaN; so are their queries in ``values``, the metric.
    """

    spec: str
    models: tuple[Ranker, ...]
    spreads: tuple[float, ...]  # one per model
    scores: Array
    values: Array
    seconds: float = 0.0
    complete: bool = True
    peeked: bool = False  # whether its queries chose an iteration of the model that scored them
    dropped: str = ""  # why it does not count
    warnings: tuple[str, ...] = ()  # of its fits

    @classmethod
    def of_fits(cls, spec: str, fits: Sequence[FoldFit], folds: QueryFolds, metric: Metric) -> Member:
        data = folds.data
        scores, values = np.full(data.n_rows, np.nan), np.full(data.n_queries, np.nan)
        spreads = []
        for fit in fits:
            valid = folds.valid(fit.fold)
            centred = fit.scores - _query_means(fit.scores, (data if valid is None else valid).offsets)
            spread = float(np.sqrt(np.mean(centred**2)))
            if spread <= CONSTANT * float(np.abs(fit.scores).max()):  # what is left of a constant by rounding
                spread = 0.0
            spreads.append(spread)
            if valid is not None:
                scores[folds.rows(fit.fold)] = centred / spread if spread > 0.0 else 0.0
                values[folds.left_out[fit.fold]] = metric.per_query(fit.scores, valid)
        return cls(
            spec,
            tuple(fit.model for fit in fits),
            tuple(spreads),
            scores,
            values,
            sum(fit.seconds for fit in fits),
            len(fits) == folds.trained and all(fit.complete for fit in fits),
            any(fit.peeked for fit in fits),
            warnings=tuple(dict.fromkeys(text for fit in fits for text in fit.warnings)),
        )

    def factors(self, weight: float) -> list[float]:
        """What the scores of each model count in the blend if the member has this weight."""
        return [weight / (len(self.models) * spread) if spread > 0.0 else 0.0 for spread in self.spreads]

    def drop(self, why: str) -> Member:
        return replace(self, models=(), spreads=(), dropped=why)


def blend_scores(members: Sequence[Member], folds: QueryFolds, weigh: Callable[[Array], Array]) -> Array:
    """The out-of-fold scores of the blend; rows that no member scored are NaN.

    ``weigh`` returns the weights of the members by the values of some queries, given as a mask. Each group of queries
    is scored with weights that the others decide.
    """
    total, known = np.zeros(folds.data.n_rows), np.zeros(folds.data.n_rows, dtype=bool)
    for group in folds.groups:
        others = np.ones(folds.data.n_queries, dtype=bool)
        others[group] = False
        rows = folds.rows_of(group)
        for member, weight in zip(members, weigh(others), strict=True):
            if weight > 0.0:
                seen = rows[np.isfinite(member.scores[rows])]
                total[seen] += weight * member.scores[seen]
                known[seen] = True
    return np.asarray(np.where(known, total, np.nan))


def values_of_scores(scores: Array, folds: QueryFolds, metric: Metric) -> Array:
    """The metric of each query; NaN for queries without scores."""
    data = folds.data
    values = np.full(data.n_queries, np.nan)
    known = np.flatnonzero(np.isfinite(scores[data.offsets[:-1]]))
    if len(known) == data.n_queries:
        return metric.per_query(scores, data)
    if len(known):
        rows = np.concatenate([np.arange(data.offsets[q], data.offsets[q + 1]) for q in known])
        values[known] = metric.per_query(scores[rows], data[known])
    return values


def _query_means(scores: Array, offsets: Array) -> Array:
    counts = np.diff(offsets)
    return np.repeat(np.add.reduceat(scores, offsets[:-1]) / counts, counts)


# -- in files ----------------------------------------------------------------------------------------------------------


def pack_models(models: Sequence[Ranker]) -> dict[str, Any]:
    """Fitted rankers as one state: ``models`` describes them, ``m0_…``, ``m1_…`` are their own states."""
    packed: dict[str, Any] = {"models": []}
    for i, model in enumerate(models):
        description, state = pack_model(model)
        packed["models"].append(description)
        packed |= {f"m{i}_{name}": value for name, value in state.items()}
    return packed


def unpack_models(state: Mapping[str, Any], n_features: int, path: Path = Path("model")) -> list[Ranker]:
    """Restore what :func:`pack_models` returned; inconsistent state raises."""
    descriptions = state["models"]
    if not isinstance(descriptions, list) or not descriptions:
        raise ValueError("models is not a list of models")
    own: list[dict[str, Any]] = [{} for _ in descriptions]
    for name, value in state.items():
        head, found, rest = name.partition("_")
        if found and head[:1] == "m" and head[1:].isdecimal() and int(head[1:]) < len(own):
            own[int(head[1:])][rest] = value
    blends = {entry.class_name for entry in RANKERS.values() if entry.kind == "blend"}
    models = []
    for description, mine in zip(descriptions, own, strict=True):
        if not isinstance(description, dict) or description.get("n_features") != n_features:
            raise ValueError("a member has another number of features")
        if description.get("class") in blends:
            raise ValueError("a member is a blend itself")
        models.append(unpack_model(description, mine, path))
    return models


def stored_factors(state: Mapping[str, Any], name: str, n: int) -> list[float]:
    """``n`` finite numbers ≥ 0 from a model file."""
    values = state[name]
    good = isinstance(values, list) and len(values) == n
    if not good or not all(type(v) in (int, float) and math.isfinite(v) and v >= 0.0 for v in values):
        raise ValueError(f"{name} is not one number ≥ 0 per model")
    return [float(v) for v in values]
