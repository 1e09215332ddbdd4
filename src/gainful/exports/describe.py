"""What a fitted ranker computes, alone or in a pipeline behind scalers or an AdaptiveBinner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gainful.data.rows import Array
from gainful.errors import ExportError, ParameterError
from gainful.exports.floats import FARTHEST
from gainful.exports.lightgbm_text import trees_of
from gainful.rankers.base import Ranker
from gainful.rankers.ensembles import Ensemble, Tree
from gainful.rankers.scorers import Constant, Inputs, Kernel, Linear, ListNet, Net, Scorer, Steps, Sum, Trees
from gainful.trees.grow import is_average

Simple = Linear | Ensemble | Net | ListNet | Kernel


@dataclass(frozen=True)
class Mixture:
    """Σ_i factors[i]·parts[i], parts of different kinds: a blend that is neither one sum of trees nor linear."""

    parts: tuple[Simple, ...]
    factors: tuple[float, ...]

    @property
    def ensembles(self) -> list[Ensemble]:
        return [part for part in self.parts if isinstance(part, Ensemble)]

    def with_missing_as_zero(self) -> Mixture:
        parts = (part.with_missing_as_zero() if isinstance(part, Ensemble) else part for part in self.parts)
        return replace(self, parts=tuple(parts))


Form = Simple | Mixture


@dataclass(frozen=True)
class Described:
    """What a ranker computes, in a form that formats can hold, and the names of its features."""

    form: Form
    features: tuple[str, ...]
    ranker: Ranker
    named: bool  # whether the training data named the features; otherwise they are f1, f2, …

    @property
    def parts(self) -> tuple[Simple, ...]:
        return self.form.parts if isinstance(self.form, Mixture) else (self.form,)

    @property
    def sees_lists(self) -> bool:
        """Whether the score of a row depends on the other rows of its query."""
        return any(isinstance(part, ListNet) for part in self.parts)

    @property
    def title(self) -> str:
        return type(self.ranker).__name__

    @property
    def words(self) -> dict[str, list[str]]:
        """The words of each feature of text: the exported model takes their numbers, from 0."""
        given = getattr(self.ranker, "categories_", None) or ()
        return {name: list(words) for name, words in zip(self.features, given, strict=False) if words is not None}


def describe(model: Any) -> Described:
    """What ``model`` computes; raises if that has no portable form."""
    steps = [step for _, step in getattr(model, "steps", [("ranker", model)])]
    before, ranker = [step for step in steps[:-1] if step not in (None, "passthrough")], steps[-1]
    if not isinstance(ranker, Ranker):
        raise ParameterError.of("export", "model", "a fitted ranker, or a pipeline that ends in one", model)
    ranker._check_fitted()
    form = portable_form(ranker._scorer(), ranker)
    for step in reversed(before):
        form = _behind(step, form)
    first = before[0] if before else ranker
    return Described(form, _feature_names(first), ranker, hasattr(first, "feature_names_in_"))


def _feature_names(first: Any) -> tuple[str, ...]:
    given = getattr(first, "feature_names_in_", None)
    if given is None:
        return tuple(f"f{j + 1}" for j in range(first.n_features_in_))
    names = tuple(str(name) for name in given)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ExportError(f"two features are called {twice!r}; formats identify features by name")
    return names


# -- rankers -----------------------------------------------------------------------------------------------------------


def portable_form(scorer: Scorer, ranker: Ranker) -> Form:
    """The scorer of a fitted ranker in a form that formats can hold."""
    match scorer:
        case Linear() | Net() | ListNet() | Ensemble():
            return scorer
        case Constant():
            return Linear(np.zeros(ranker.n_features_in_), scorer.value)
        case Steps():
            return _stumps(scorer, ranker.n_features_in_)
        case Trees():
            return _ensemble(scorer, ranker.n_features_in_)
        case Sum():
            parts = [portable_form(part, ranker) for part in scorer.parts]
            return _join([part for part in parts if not isinstance(part, Mixture)], scorer.factors)
        case Kernel():
            dense = isinstance(scorer.landmarks, np.ndarray)
            return scorer if dense else replace(scorer, landmarks=scorer.landmarks.toarray())
    raise ExportError(f"{type(ranker).__name__} cannot be exported to any format")


def _join(parts: Sequence[Simple], factors: Sequence[float]) -> Form:
    """A blend as one ensemble if all parts are plain sums of trees; such parts come first and together otherwise."""
    both = list(zip(parts, factors, strict=True))
    plain = [part.scaled(factor) for part, factor in both if isinstance(part, Ensemble) and part.link is None]
    others = [(part, factor) for part, factor in both if not isinstance(part, Ensemble) or part.link is not None]
    joint = [Ensemble(tuple(tree for one in plain for tree in one.trees), plain[0].n_features)] if plain else []
    if joint and not others:
        return joint[0]
    return Mixture((*joint, *(part for part, _ in others)), (*(1.0 for _ in joint), *(factor for _, factor in others)))


def _stumps(steps: Steps, n_features: int) -> Ensemble:
    """One tree of one split for each distinct step [x ≥ θ]: right when x is above the float64 just below θ."""
    distinct, place = np.unique(np.stack([steps.features, steps.thresholds], axis=1), axis=0, return_inverse=True)
    weights = np.bincount(place.ravel(), steps.weights, minlength=len(distinct))
    return Ensemble(
        tuple(
            _stump(int(feature), float(np.nextafter(threshold, -np.inf)), float(weight))
            for (feature, threshold), weight in zip(distinct, weights, strict=True)
        ),
        n_features,
    )


def _stump(feature: int, threshold: float, weight: float) -> Tree:
    return Tree(
        feature=np.array([feature]),
        threshold=np.array([threshold]),
        nan_left=np.array([threshold >= 0.0]),
        left=np.array([-1]),
        right=np.array([-2]),
        leaves=np.array([0.0, weight]),
    )


def _ensemble(scorer: Trees, n_features: int) -> Ensemble:
    text = scorer.booster.model_to_string(num_iteration=scorer.iterations)
    # a random forest of LightGBM's is the mean of its trees
    factor = scorer.factor / scorer.iterations if is_average(text) else scorer.factor
    scaled = tuple(replace(tree, leaves=tree.leaves * factor) for tree in trees_of(text))
    n_sums = scorer.booster.num_model_per_iteration()
    return Ensemble(scaled, n_features, n_sums, scorer.link)


# -- steps in front ----------------------------------------------------------------------------------------------------


def _behind(step: Any, form: Form) -> Form:
    """The form in terms of the features before ``step``."""
    name = type(step).__name__
    if name == "AdaptiveBinner" and isinstance(form, Ensemble):
        return replace(form, trees=tuple(_unbin(tree, step) for tree in form.trees))
    inputs = _scaler(step)
    if inputs is None:
        raise ExportError(
            f"{name} in front of the ranker is not supported by any format; StandardScaler, MinMaxScaler and "
            "MaxAbsScaler are, in front of linear models and nets, and AdaptiveBinner in front of trees"
        )
    if isinstance(form, Linear):
        return replace(form, inputs=inputs if form.inputs is None else form.inputs.after(inputs))
    if isinstance(form, (Net, ListNet)) and form.inputs.unit is None:
        return replace(form, inputs=form.inputs.after(inputs))
    if isinstance(form, ListNet):
        raise ExportError(
            f"{name} in front of a net with a logarithmic scale is not supported by any format; the net scales "
            "features itself: train it on the features as they are"
        )
    if isinstance(form, Mixture):
        raise ExportError(
            f"{name} in front of a blend is not supported by any format; train on the features as they are"
        )
    raise ExportError(
        f"{name} in front of {'trees' if isinstance(form, Ensemble) else 'a kernel'} is not supported by any format; "
        "trees need no scaling: train them on the features as they are"
    )


def _scaler(step: Any) -> Inputs | None:
    name, d = type(step).__name__, getattr(step, "n_features_in_", 0)
    if name == "StandardScaler":
        zeros, ones = np.zeros(d), np.ones(d)
        return Inputs(step.mean_ if step.with_mean else zeros, step.scale_ if step.with_std else ones)
    if name == "MinMaxScaler" and not step.clip:
        return Inputs(-step.min_ / step.scale_, 1.0 / step.scale_)
    if name == "MaxAbsScaler":
        return Inputs(np.zeros(d), np.asarray(step.scale_, dtype=np.float64))
    return None


def _unbin(tree: Tree, binner: Any) -> Tree:
    """A tree on bin numbers as a tree on values: a bin number is ≤ t if the value is at most that bin's upper edge.

    A missing value has the number after the last bin if training had some in that feature; otherwise it is read as 0.
    """
    if tree.categories:
        raise ExportError(
            "categories behind an AdaptiveBinner are not supported by any format; leave those features out of it"
        )
    threshold, nan_left = np.empty(tree.n_splits), np.empty(tree.n_splits, dtype=bool)
    for split, (feature, code) in enumerate(zip(tree.feature, np.floor(tree.threshold), strict=True)):
        edges: Array = binner.bin_edges_[feature]
        threshold[split] = -FARTHEST if code < 0 else edges[int(code)] if code < len(edges) else FARTHEST
        nan_left[split] = code >= len(edges) + 1 if binner.has_missing_[feature] else threshold[split] >= 0.0
    return replace(tree, threshold=threshold, nan_left=nan_left)
