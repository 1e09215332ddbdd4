"""The members of a blend: models of one ranker, one per fold, on a common scale."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gainful.blending.folds import FoldFit, QueryFolds, centred, spread_within
from gainful.data.rows import Array
from gainful.metrics import Metric
from gainful.rankers.base import Ranker
from gainful.rankers.model_file import pack_model, unpack_model
from gainful.rankers.registry import RANKERS


@dataclass(frozen=True)
class Member:
    """A ranker of a blend, trained once per fold.

    ``scores`` are out of fold: each row is scored by the model that its query tests, less the query's mean and divided
    by their standard deviation within queries. Rows of folds that were not trained are NaN; so are their queries in
    ``values``, the metric. ``kept_values`` has it for the same models as they are kept, which all queries have decided:
    they choose members and weights, and no figure is made of them. ``validation_values`` has the metric of each query
    for the model that it validates. ``spreads`` is what the scores of each model are divided by in the blend.
    """

    spec: str
    models: tuple[Ranker, ...]
    spreads: tuple[float, ...]  # one per model
    scores: Array
    values: Array
    kept_values: Array
    validation_values: Array
    seconds: float = 0.0
    complete: bool = True
    dropped: str = ""  # why it does not count
    warnings: tuple[str, ...] = ()  # of its fits

    @classmethod
    def of_fits(cls, spec: str, fits: Sequence[FoldFit], folds: QueryFolds, metric: Metric) -> Member:
        data = folds.data
        scores = np.full(data.n_rows, np.nan)
        values, kept_values, validation_values = np.full((3, data.n_queries), np.nan)
        spreads = []
        for fit in fits:
            valid, test = folds.valid(fit.fold), folds.test(fit.fold)
            spreads.append(spread_within(fit.kept_scores, test.offsets))
            if valid is not None:
                spread = spread_within(fit.scores, test.offsets)
                scores[folds.rows(fit.fold)] = centred(fit.scores, test.offsets) / spread if spread > 0.0 else 0.0
                values[folds.tested(fit.fold)] = metric.per_query(fit.scores, test)
                kept_values[folds.tested(fit.fold)] = metric.per_query(fit.kept_scores, test)
                validation_values[folds.validated(fit.fold)] = metric.per_query(fit.valid_scores, valid)
        return cls(
            spec,
            tuple(fit.model for fit in fits),
            tuple(spreads),
            scores,
            values,
            kept_values,
            validation_values,
            sum(fit.seconds for fit in fits),
            len(fits) == folds.trained and all(fit.complete for fit in fits),
            warnings=tuple(dict.fromkeys(text for fit in fits for text in fit.warnings)),
        )

    def factors(self, weight: float) -> list[float]:
        """What the scores of each model count in the blend if the member has this weight."""
        return [weight / (len(self.models) * spread) if spread > 0.0 else 0.0 for spread in self.spreads]

    def drop(self, why: str) -> Member:
        return replace(self, models=(), spreads=(), dropped=why)


def blend_out_of_fold(
    members: Sequence[Member], folds: QueryFolds, weigh: Callable[[Array, Array | None], Array], metric: Metric
) -> tuple[Array, Array]:
    """The scores of the blend, and the metric of each query; NaN where a member did not score them.

    ``weigh`` makes weights of the members from their values and the weights of the queries. Each fold is scored with
    those by the queries that validate the models it tests: it has no say in them. Time may have ended before a member
    was trained on all folds; the others would be another blend.
    """
    data, query_weights = folds.data, folds.data.query_weights
    scores, values = np.full(data.n_rows, np.nan), np.full(data.n_queries, np.nan)
    for fold in range(folds.n):
        rows, queries = folds.rows(fold), folds.validated(fold)
        validated = np.array([member.validation_values[queries] for member in members])
        weights = weigh(validated, None if query_weights is None else query_weights[queries])
        weighed = [(weight, member.scores[rows]) for weight, member in zip(weights, members, strict=True)]
        if all(np.isfinite(part).all() for _, part in weighed):
            scores[rows] = np.sum([weight * part for weight, part in weighed if weight > 0.0], axis=0)
            values[folds.tested(fold)] = metric.per_query(scores[rows], folds.test(fold))
    return scores, values


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
        head, bar, rest = name.partition("_")
        if bar and head[:1] == "m" and head[1:].isdecimal() and int(head[1:]) < len(own):
            own[int(head[1:])][rest] = value
    blends = {entry.class_name for entry in RANKERS.values() if entry.kind == "blend"}
    models = []
    for description, its_state in zip(descriptions, own, strict=True):
        if not isinstance(description, dict) or description.get("n_features") != n_features:
            raise ValueError("a member has another number of features")
        if description.get("class") in blends:
            raise ValueError("a member is a blend itself")
        models.append(unpack_model(description, its_state, path))
    return models


def stored_factors(state: Mapping[str, Any], name: str, n: int) -> list[float]:
    """``n`` finite numbers ≥ 0 from a model file."""
    values = state[name]
    good = isinstance(values, list) and len(values) == n
    if not good or not all(type(v) in (int, float) and math.isfinite(v) and v >= 0.0 for v in values):
        raise ValueError(f"{name} is not one number ≥ 0 per model")
    return [float(v) for v in values]
