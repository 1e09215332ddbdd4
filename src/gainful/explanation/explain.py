"""Why a document has its score, and why one ranks above another: contributions of features that sum to the score.

With c(x) from :meth:`gainful.Ranker.contributions`, score(x) = base + Σ_j c_j(x), and so
score(a) − score(b) = Σ_j (c_j(a) − c_j(b)): the base cancels, and each feature has its share of the difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gainful.data.frames import as_features
from gainful.data.rows import Array
from gainful.errors import DataError, ParameterError, UnknownNameError
from gainful.rankers.base import Ranker


@dataclass(frozen=True)
class Share:
    """What one feature adds to the score of one document. A missing ``value`` is None."""

    feature: str
    value: float | None
    contribution: float


@dataclass(frozen=True)
class Explanation:
    """The score of one document, feature by feature, the largest contribution first: base + Σ contributions."""

    score: float
    base: float
    shares: tuple[Share, ...]

    def to_dict(self, top: int | None = None) -> dict[str, Any]:
        """Plain values. With ``top``, at most that many features; ``rest`` is the sum of the others."""
        shown, rest = _cut(self.shares, top)
        features = [{"feature": s.feature, "value": s.value, "contribution": s.contribution} for s in shown]
        return {"score": self.score, "base": self.base, "features": features, "rest": sum(s.contribution for s in rest)}

    def __str__(self) -> str:
        lines = [f"score {self.score:.6g} = base {self.base:.6g}"]
        lines += [f"  {s.contribution:+.6g}  {s.feature} = {_text(s.value)}" for s in self.shares]
        return "\n".join(lines)


@dataclass(frozen=True)
class PairShare:
    """What one feature adds to the difference between the scores of two documents: contribution_a − contribution_b."""

    feature: str
    value_a: float | None
    value_b: float | None
    contribution_a: float
    contribution_b: float
    difference: float


@dataclass(frozen=True)
class PairExplanation:
    """Why a ranks above b, or below: ``difference`` = score_a − score_b = Σ differences, largest first."""

    score_a: float
    score_b: float
    difference: float
    shares: tuple[PairShare, ...]

    def to_dict(self, top: int | None = None) -> dict[str, Any]:
        """Plain values. With ``top``, at most that many features; ``rest`` is the sum of the others."""
        shown, rest = _cut(self.shares, top)
        return {
            "score_a": self.score_a,
            "score_b": self.score_b,
            "difference": self.difference,
            "features": [dict(vars(s)) for s in shown],
            "rest": sum(s.difference for s in rest),
        }

    def __str__(self) -> str:
        where = "above" if self.difference > 0 else "below" if self.difference < 0 else "level with"
        lines = [f"a is {where} b: {self.score_a:.6g} − {self.score_b:.6g} = {self.difference:+.6g}"]
        lines += [
            f"  {s.difference:+.6g}  {s.feature}: {_text(s.value_a)} against {_text(s.value_b)}" for s in self.shares
        ]
        return "\n".join(lines)


def explain(model: Ranker, X: Any) -> list[Explanation]:
    """One explanation per row of X, in row order."""
    _check_model(model, "explain")
    matrix = model._features_to_score(X)
    parts, scores = model.contributions(X), model.predict(X)
    names = feature_names(model)
    return [row_explanation(names, _dense_row(matrix, i), parts[i], float(scores[i])) for i in range(len(scores))]


def explain_pair(model: Ranker, a: Any, b: Any) -> PairExplanation:
    """Why document a is above document b.

    Parameters
    ----------
    model : a fitted ranker whose scores are sums over features; see :meth:`gainful.Ranker.contributions`
    a, b : features of the two documents: n_features numbers (NaN or None where missing), a mapping from names, or a
        frame of one row
    """
    _check_model(model, "explain_pair")
    names = feature_names(model)
    rows = np.vstack([feature_row(model, names, a, "a"), feature_row(model, names, b, "b")])
    return pair_explanation(names, rows, model.contributions(rows), model.predict(rows))


def pair_explanation(names: Sequence[str], rows: Array, parts: Array, scores: Array) -> PairExplanation:
    """The explanation of two rows (2, n_features) from their contributions (2, n_features + 1) and scores."""
    differences = parts[0, :-1] - parts[1, :-1]
    shares = tuple(
        PairShare(
            feature=names[j],
            value_a=_value(rows[0, j]),
            value_b=_value(rows[1, j]),
            contribution_a=float(parts[0, j]),
            contribution_b=float(parts[1, j]),
            difference=float(differences[j]),
        )
        for j in np.argsort(-np.abs(differences), kind="stable")
    )
    return PairExplanation(float(scores[0]), float(scores[1]), float(scores[0] - scores[1]), shares)


def row_explanation(names: Sequence[str], row: Array, parts: Array, score: float) -> Explanation:
    """The explanation of one row (n_features,) from its contributions (n_features + 1,) and its score."""
    order = np.argsort(-np.abs(parts[:-1]), kind="stable")
    shares = tuple(Share(names[j], _value(row[j]), float(parts[j])) for j in order)
    return Explanation(score, float(parts[-1]), shares)


def feature_names(model: Ranker) -> list[str]:
    """The feature names a model was trained with; f1, f2, … if there were none, as in tables and exports."""
    names = getattr(model, "feature_names_in_", None)
    return [f"f{j}" for j in range(1, model.n_features_in_ + 1)] if names is None else [str(name) for name in names]


def feature_row(model: Ranker, names: Sequence[str], features: Any, what: str) -> Array:
    """One row of features as float64, from numbers in the order of training or a mapping from names."""
    if getattr(features, "ndim", None) == 1 and hasattr(features, "to_dict") and hasattr(model, "feature_names_in_"):
        features = features.to_dict()  # a row of a pandas frame has names
    if len(getattr(features, "shape", ())) == 2:
        return _only_row(model, features, what)
    if isinstance(features, Mapping):
        known, given = set(names), {str(name): value for name, value in features.items()}
        if len(known) < len(names):
            raise DataError(
                f"features of {what} cannot be given by name: the model has two of the same name; give a list"
            )
        unknown = next((name for name in given if name not in known), None)
        if unknown is not None:
            raise UnknownNameError.among("feature", unknown, names, owner=f"{what}: {type(model).__name__}")
        if len(given) < len(names) and not model.accepts_missing:
            absent = next(name for name in names if name not in given)
            raise DataError(f"feature {absent!r} of {what} is missing, and {type(model).__name__} needs every feature")
        features = [given.get(name) for name in names]
    try:
        row = np.asarray(features, dtype=np.float64).ravel()
    except (TypeError, ValueError) as error:
        raise DataError(f"features of {what} must be numbers: {error}") from error
    if len(row) != len(names):
        raise DataError(f"{what} has {len(row)} features, but {type(model).__name__} was trained with {len(names)}")
    return row


def _only_row(model: Ranker, frame: Any, what: str) -> Array:
    """The row of a frame with one row; its columns are checked as in ``predict``."""
    if not hasattr(frame, "columns") or frame.shape[0] != 1:
        raise DataError(f"{what} must be one document: numbers, a mapping, or a frame with one row, not {frame.shape}")
    matrix, names = as_features(frame, what)
    model._check_columns(matrix.shape[1], names)
    return np.asarray(_dense_row(matrix, 0), dtype=np.float64)


def _check_model(model: Any, owner: str) -> None:
    if hasattr(model, "steps"):
        raise ParameterError(
            f"model of {owner} must be a fitted ranker, not a pipeline; give its last step and the transformed "
            "rows: pipeline[-1], pipeline[:-1].transform(X)"
        )
    if not isinstance(model, Ranker):
        raise ParameterError.of(owner, "model", "a fitted ranker", model)
    model._check_fitted()


def _dense_row(X: Any, i: int) -> Array:
    return np.asarray(X[i]) if isinstance(X, np.ndarray) else X[[i]].toarray()[0]


def _value(value: Any) -> float | None:
    return None if np.isnan(value) else float(value)


def _cut(shares: tuple[Any, ...], top: int | None) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    if top is not None and top < 1:
        raise ParameterError.of("to_dict", "top", "1 or more features, or None for all", top)
    return (shares, ()) if top is None else (shares[:top], shares[top:])


def _text(value: float | None) -> str:
    return "missing" if value is None else f"{value:.6g}"
