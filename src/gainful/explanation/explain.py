"""Why a document has its score, and why one ranks above another: contributions of features that sum to the score.

With c(x) from :meth:`gainful.Ranker.contributions`, score(x) = base + Σ_j c_j(x), and so
score(a) − score(b) = Σ_j (c_j(a) − c_j(b)): the base cancels, and each feature has its share of the difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gainful.data.categories import Categories, encode_features
from gainful.data.rows import Array
from gainful.display import html, plots
from gainful.errors import DataError, ParameterError, UnknownNameError, brief, plural
from gainful.errors.terminal import visible
from gainful.rankers.base import Ranker

TOP = 10  # features that a notebook or a plot shows; the others count together
FIRST = 3  # explanations that a notebook shows of a list


@dataclass(frozen=True)
class Share:
    """What one feature adds to the score of one document; ``value`` is None where missing, the word of a text."""

    feature: str
    value: float | str | None
    contribution: float


@dataclass(frozen=True)
class Explanation:
    """The score of one document, feature by feature, the largest contribution first: base + Σ contributions."""

    score: float
    base: float
    shares: tuple[Share, ...]

    def to_dict(self, top: int | None = None) -> dict[str, Any]:
        """Plain values. With ``top``, at most that many features; ``rest`` is the sum of the others."""
        shown, rest = _cut(self.shares, top, "to_dict")
        features = [{"feature": s.feature, "value": s.value, "contribution": s.contribution} for s in shown]
        return {"score": self.score, "base": self.base, "features": features, "rest": sum(s.contribution for s in rest)}

    def __str__(self) -> str:
        lines = [f"score {self.score:.6g} = base {self.base:.6g}"]
        lines += [f"  {s.contribution:+.6g}  {s.feature} = {_text(s.value)}" for s in self.shares]
        return visible("\n".join(lines))

    def _repr_html_(self) -> str:
        shown, rest = _shown(self.shares)
        most = max((abs(s.contribution) for s in self.shares), default=0.0)
        rows = [_bar_row(s.contribution, most, s.feature, _text(s.value)) for s in shown]
        rows += _rest_row([s.contribution for s in rest], most, 1)
        head = ("feature", "value", "adds", "")
        about = f"= base {self.base:.6g} + what each feature adds"
        return html.frame(f"score {self.score:.6g}", html.table(head, rows, left=(0, 3)), about=about)

    def plot(self, ax: Any = None, *, top: int = TOP) -> Any:
        """Draw what the ``top`` features add to the score as bars, the others as one; returns the axes.

        Needs the extra ``plot``.
        """
        shown, rest = _cut(self.shares, top, "plot")
        names = [f"{s.feature} = {_text(s.value, 4)}" for s in shown]
        bars = _with_rest(names, [s.contribution for s in shown], [s.contribution for s in rest])
        label = f"added to the base {self.base:.4g}; score {self.score:.4g}"
        return plots.signed_bars(ax, *bars, x=label)


@dataclass(frozen=True)
class PairShare:
    """What one feature adds to the difference between the scores of two documents: contribution_a − contribution_b."""

    feature: str
    value_a: float | str | None
    value_b: float | str | None
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
        shown, rest = _cut(self.shares, top, "to_dict")
        return {
            "score_a": self.score_a,
            "score_b": self.score_b,
            "difference": self.difference,
            "features": [dict(vars(s)) for s in shown],
            "rest": sum(s.difference for s in rest),
        }

    def __str__(self) -> str:
        lines = [f"a is {self._where} b: {self.score_a:.6g} − {self.score_b:.6g} = {self.difference:+.6g}"]
        lines += [
            f"  {s.difference:+.6g}  {s.feature}: {_text(s.value_a)} against {_text(s.value_b)}" for s in self.shares
        ]
        return visible("\n".join(lines))

    def _repr_html_(self) -> str:
        shown, rest = _shown(self.shares)
        most = max((abs(s.difference) for s in self.shares), default=0.0)
        rows = [_bar_row(s.difference, most, s.feature, _text(s.value_a), _text(s.value_b)) for s in shown]
        rows += _rest_row([s.difference for s in rest], most, 2)
        head = ("feature", "a", "b", "adds to a − b", "")
        about = f"{self.score_a:.6g} − {self.score_b:.6g} = {self.difference:+.6g}"
        return html.frame(f"a is {self._where} b:", html.table(head, rows, left=(0, 4)), about=about)

    def plot(self, ax: Any = None, *, top: int = TOP) -> Any:
        """Draw what the ``top`` features add to the difference as bars, the others as one; returns the axes.

        Bars to the right speak for a. Needs the extra ``plot``.
        """
        shown, rest = _cut(self.shares, top, "plot")
        names = [f"{s.feature}: {_text(s.value_a, 4)} against {_text(s.value_b, 4)}" for s in shown]
        bars = _with_rest(names, [s.difference for s in shown], [s.difference for s in rest])
        return plots.signed_bars(ax, *bars, x=f"a is {self._where} b: {self.difference:+.4g}")

    @property
    def _where(self) -> str:
        return "above" if self.difference > 0 else "below" if self.difference < 0 else "level with"


class Explanations(list[Explanation]):
    """Explanations of several documents: a list, of which a notebook shows the first ones."""

    def _repr_html_(self) -> str:
        shown = [html.Markup(one._repr_html_()) for one in self[:FIRST]]
        left = f"and {len(self) - FIRST:,} more: take one by its number" if len(self) > FIRST else ""
        return html.frame(plural(len(self), "explanation"), *shown, html.lines([left] if left else []))


def explain(model: Ranker, X: Any) -> Explanations:
    """One explanation per row of X, in row order."""
    check_model(model, "explain")
    matrix = model._features_to_score(X)
    parts, scores = model.contributions(X), model.predict(X)
    names, words = feature_names(model), getattr(model, "categories_", None)
    return Explanations(
        row_explanation(names, _dense_row(matrix, i), parts[i], float(scores[i]), words) for i in range(len(scores))
    )


def explain_pair(model: Ranker, a: Any, b: Any) -> PairExplanation:
    """Why document a is above document b.

    Parameters
    ----------
    model : a fitted ranker whose scores are sums over features; see :meth:`gainful.Ranker.contributions`
    a, b : features of the two documents: n_features numbers (NaN or None where missing), a mapping from names, or a
        frame of one row
    """
    check_model(model, "explain_pair")
    names = feature_names(model)
    given = {what: _with_codes(model, names, features, what) for what, features in (("a", a), ("b", b))}
    rows = np.vstack([feature_row(model, names, features, what) for what, features in given.items()])
    words = getattr(model, "categories_", None)
    return pair_explanation(names, rows, model.contributions(rows), model.predict(rows), words)


def pair_explanation(
    names: Sequence[str], rows: Array, parts: Array, scores: Array, categories: Categories | None = None
) -> PairExplanation:
    """The explanation of two rows (2, n_features) from their contributions (2, n_features + 1) and scores."""
    words = categories or (None,) * len(names)
    differences = parts[0, :-1] - parts[1, :-1]
    shares = tuple(
        PairShare(
            feature=names[j],
            value_a=_value(rows[0, j], words[j]),
            value_b=_value(rows[1, j], words[j]),
            contribution_a=float(parts[0, j]),
            contribution_b=float(parts[1, j]),
            difference=float(differences[j]),
        )
        for j in np.argsort(-np.abs(differences), kind="stable")
    )
    return PairExplanation(float(scores[0]), float(scores[1]), float(scores[0] - scores[1]), shares)


def row_explanation(
    names: Sequence[str], row: Array, parts: Array, score: float, categories: Categories | None = None
) -> Explanation:
    """The explanation of one row (n_features,) from its contributions (n_features + 1,) and its score."""
    words = categories or (None,) * len(names)
    order = np.argsort(-np.abs(parts[:-1]), kind="stable")
    shares = tuple(Share(names[j], _value(row[j], words[j]), float(parts[j])) for j in order)
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


def _with_codes(model: Ranker, names: Sequence[str], features: Any, what: str) -> Any:
    """Features by position or name, with the words in features of text replaced by their numbers."""
    categories = getattr(model, "categories_", None)
    if categories is None or len(getattr(features, "shape", ())) == 2:
        return features
    if hasattr(features, "to_dict"):
        features = features.to_dict()  # a row of a pandas frame has names
    return encode_features(features, categories, names, what)


def _only_row(model: Ranker, frame: Any, what: str) -> Array:
    """The row of a frame with one row; its columns are checked as in ``predict``."""
    if not hasattr(frame, "columns") or frame.shape[0] != 1:
        raise DataError(f"{what} must be one document: numbers, a mapping, or a frame with one row, not {frame.shape}")
    return np.asarray(_dense_row(model._features_to_score(frame, what), 0), dtype=np.float64)


def check_model(model: Any, owner: str) -> None:
    """Refuse what is not a fitted ranker."""
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


def _value(value: Any, words: tuple[str, ...] | None) -> float | str | None:
    if np.isnan(value):
        return None
    if words is None:
        return float(value)
    return words[int(value)] if 0 <= value < len(words) else float(value)  # an array may hold any number


def _cut(shares: tuple[Any, ...], top: int | None, owner: str) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    if top is not None and top < 1:
        raise ParameterError.of(owner, "top", "1 or more features, or None for all", top)
    return (shares, ()) if top is None else (shares[:top], shares[top:])


def _shown(shares: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The features that a notebook shows, and the others; no feature is shown that adds nothing."""
    telling = sum(_adds(share) != 0.0 for share in shares[:TOP])
    return shares[:telling], shares[telling:]


def _adds(share: Share | PairShare) -> float:
    return share.contribution if isinstance(share, Share) else share.difference


def _bar_row(value: float, most: float, *texts: str) -> tuple[Any, ...]:
    return (*(brief(text) for text in texts), f"{value:+.4g}", html.signed_bar(value / most if most else 0.0))


def _rest_row(rest: Sequence[float], most: float, blanks: int) -> list[tuple[Any, ...]]:
    return [_bar_row(sum(rest), most, _others(rest), *[""] * blanks)] if rest else []


def _with_rest(names: list[str], values: list[float], rest: Sequence[float]) -> tuple[list[str], list[float]]:
    return ([*names, _others(rest)], [*values, sum(rest)]) if rest else (names, values)


def _others(rest: Sequence[float]) -> str:
    return f"{plural(len(rest), 'other feature')}"


def _text(value: float | str | None, digits: int = 6) -> str:
    return "missing" if value is None else value if isinstance(value, str) else f"{value:.{digits}g}"
