"""What a comparison keeps of a model beside its scores: importances of features, and contributions on some queries.

Models are not kept, so this is computed as soon as a ranker is tested, on a share of the test queries that depends on
the data alone: all rankers explain the same queries, and a stored result has it too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gainful.comparison.baselines import Baseline, ModelFile
from gainful.data.dataset import RankingData
from gainful.data.rows import Array
from gainful.explanation.importance import query_losses, summarise_losses
from gainful.metrics import Metric
from gainful.rankers.base import Ranker

if TYPE_CHECKING:
    from gainful.comparison.result import Comparison

EXPLAINED_CELLS = 25_000  # contributions, rows × features, per ranker and fold
SCORED_ROWS = 150_000  # rows × features to score for the permutation importance, per ranker and fold
MOST_QUERIES = 300  # of the permutation importance, per fold
MOST_FEATURES = 2_000  # with more, nothing is explained
DIGITS = 6  # kept of each figure


def explain_model(model: Ranker | Baseline, test: RankingData, measure: Metric, seed: int) -> dict[str, Any] | None:
    """Importances and contributions of one trained model; None for a system that does not score by the features."""
    if test.n_features > MOST_FEATURES or not (isinstance(model, Ranker) or model.scores_features):
        return None
    inner = model._model if isinstance(model, ModelFile) else model if isinstance(model, Ranker) else None
    return {
        "features": list(test.feature_names or [f"f{j + 1}" for j in range(test.n_features)]),
        "gain": _gain(inner, test.n_features),
        **_contributions(inner, test),
        **_losses(model, test, measure, seed),
    }


def spread_queries(counts: Array, rows: int, most: int | None = None) -> Array:
    """Positions of queries, evenly spaced, that have at most ``rows`` rows together."""
    step = max(1, -(-int(counts.sum()) // max(rows, 1)), 1 if most is None else -(-len(counts) // most))
    chosen = np.arange(0, len(counts), step)
    return chosen[np.cumsum(counts[chosen]) <= rows]


def _gain(model: Ranker | None, n_features: int) -> Array | None:
    """The share of each feature in the total gain of trees or steps; None for other models."""
    found = getattr(model, "feature_importances_", None)
    if found is None:
        return None
    gain = np.asarray(found, dtype=np.float64)
    return np.round(gain / (gain.sum() or 1.0), DIGITS) if gain.shape == (n_features,) else None


def _contributions(model: Ranker | None, test: RankingData) -> dict[str, Any]:
    """The contributions on some queries, and the share of each feature in their size.

    Less the mean of their query and divided by the standard deviation of its scores, so that they sum to the
    standardised score and models of any scale can stand side by side.
    """
    chosen = spread_queries(test.counts, EXPLAINED_CELLS // test.n_features)
    if model is None or not len(chosen) or model._why_no_contributions() is not None:
        return {"contributions": None, "queries": None, "parts": None}
    rows = test[chosen]
    parts = model.contributions(rows)[:, :-1]
    if parts.shape[1] != test.n_features:
        return {"contributions": None, "queries": None, "parts": None}
    starts = rows.offsets[:-1]
    centred = parts - np.repeat(np.add.reduceat(parts, starts) / rows.counts[:, None], rows.counts, axis=0)
    spread = np.sqrt(np.add.reduceat(centred.sum(axis=1) ** 2, starts) / rows.counts)
    size = np.abs(centred).sum(axis=0)
    parts = np.round(centred / np.repeat(np.where(spread > 0, spread, 1.0), rows.counts)[:, None], 4)
    shares = np.round(size / (size.sum() or 1.0), DIGITS)
    return {"contributions": shares, "queries": chosen, "parts": parts.astype(np.float32)}


def _losses(model: Ranker | Baseline, test: RankingData, measure: Metric, seed: int) -> dict[str, Any]:
    """The loss of the measure on some queries when each feature is shuffled once."""
    chosen = spread_queries(test.counts, SCORED_ROWS // test.n_features, MOST_QUERIES)
    if not len(chosen):
        return {"losses": None}

    def predict(rows: RankingData) -> Array:
        return scores_of(model, rows)

    return {"losses": np.round(query_losses(predict, test[chosen], measure, None, 1, seed)[1], DIGITS)}


def scores_of(model: Ranker | Baseline, rows: RankingData) -> Array:
    """The scores that a comparison ranks by; a baseline's are complete."""
    scores = model.predict(rows)
    return scores if isinstance(model, Baseline) else rows.add_init_scores(scores)


# -- stored results ----------------------------------------------------------------------------------------------------

ARRAYS = {"gain": 1, "contributions": 1, "losses": 2, "parts": 2, "queries": 1}  # name → dimensions


def decode_explained(stored: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What JSON made of an explanation, with its arrays again."""
    if stored is None:
        return None
    kinds = {"parts": np.float32, "queries": np.int64}
    arrays = {
        name: None if stored[name] is None else np.asarray(stored[name], dtype=kinds.get(name, np.float64))
        for name in ARRAYS
    }
    return {"features": list(stored["features"]), **arrays}


def is_explained(value: Any) -> bool:
    """Whether a stored value is an explanation with all its parts in the right shapes."""
    if value is None:
        return True
    if not (isinstance(value, dict) and isinstance(value.get("features"), list) and {*ARRAYS} <= {*value}):
        return False
    try:
        found = decode_explained(value)
    except (TypeError, ValueError, OverflowError):
        return False
    assert found is not None
    width = len(found["features"])
    return all(
        found[name] is None or (found[name].ndim == n and (name == "queries" or found[name].shape[-1] == width))
        for name, n in ARRAYS.items()
    )


# -- over all folds ----------------------------------------------------------------------------------------------------


def importances(comparison: Comparison) -> dict[str, dict[str, Any]]:
    """By ranker: what each feature is worth to it, over all folds, the largest loss first.

    ``gain`` and ``contribution`` are shares of the total; ``loss`` is of the headline metric, with its interval over
    the queries of all folds. Figures that a ranker does not have are None; rankers without any are left out.
    """
    found = {}
    for label in comparison.labels:
        runs = [run.explained for run in comparison.runs[label] if run.explained is not None]
        if len(runs) == len(comparison.runs[label]) and all(run["features"] == runs[0]["features"] for run in runs):
            found[label] = _importance(comparison, runs)
    return found


def _importance(comparison: Comparison, runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    names = runs[0]["features"]
    losses = None if any(run["losses"] is None for run in runs) else np.concatenate([run["losses"] for run in runs])
    rows = [
        {"feature": name, "gain": gain, "contribution": share, "loss": None, "interval": None}
        for name, gain, share in zip(names, _mean_share(runs, "gain"), _mean_share(runs, "contributions"), strict=True)
    ]
    if losses is not None:
        found, order = summarise_losses(names, losses, comparison.headline, comparison.level, comparison.seed)
        for one, place in zip(found, order, strict=True):
            rows[place] |= {"loss": one.loss, "interval": (one.low, one.high)}
    rows.sort(key=lambda row: [-(row[name] or 0.0) for name in ("loss", "contribution", "gain")])
    return {"queries": 0 if losses is None else len(losses), "features": rows}


def _mean_share(runs: Sequence[Mapping[str, Any]], name: str) -> list[float | None]:
    if any(run[name] is None for run in runs):
        return [None] * len(runs[0]["features"])
    return np.mean([run[name] for run in runs], axis=0).tolist()  # type: ignore[no-any-return]
