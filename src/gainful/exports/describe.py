"""From a fitted ranker, alone or behind scalers or an AdaptiveBinner in a pipeline, to what it computes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gainful.data.rows import Array
from gainful.errors import ExportError, ParameterError
from gainful.exports.floats import FARTHEST
from gainful.exports.lightgbm_text import trees_of
from gainful.exports.scorers import LARGEST, Ensemble, Expectation, Inputs, Kernel, Linear, Net, Scorer, Tree


@dataclass(frozen=True)
class Described:
    """A scorer, the names of its features, and the ranker it is of."""

    scorer: Scorer
    features: tuple[str, ...]
    ranker: Any
    named: bool  # by the training data; without names there they are f1, f2, …

    @property
    def title(self) -> str:
        return type(self.ranker).__name__


def describe(model: Any) -> Described:
    """What ``model`` computes; raises where that has no such form."""
    from gainful.rankers.base import Ranker

    steps = [step for _, step in getattr(model, "steps", [("ranker", model)])]
    before, ranker = [step for step in steps[:-1] if step not in (None, "passthrough")], steps[-1]
    if not isinstance(ranker, Ranker):
        raise ParameterError.of("export", "model", "a fitted ranker, or a pipeline that ends in one", model)
    ranker._check_fitted()
    scorer = scorer_of(ranker)
    for step in reversed(before):
        scorer = _behind(step, scorer)
    first = before[0] if before else ranker
    return Described(scorer, _feature_names(first), ranker, hasattr(first, "feature_names_in_"))


def _feature_names(first: Any) -> tuple[str, ...]:
    given = getattr(first, "feature_names_in_", None)
    if given is None:
        return tuple(f"f{j + 1}" for j in range(first.n_features_in_))
    names = tuple(str(name) for name in given)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ExportError(f"two features are called {twice!r}; the formats tell features apart by name")
    return names


# -- rankers -----------------------------------------------------------------------------------------------------------


def scorer_of(ranker: Any) -> Scorer:
    """What a fitted ranker computes from its features."""
    from gainful.rankers.base import LinearScores
    from gainful.rankers.neural import NeuralRanker
    from gainful.rankers.structured_kernel import KernelStructuredSVM
    from gainful.rankers.thresholds import StepScores
    from gainful.rankers.trees import TreeRanker

    if isinstance(ranker, LinearScores):
        return Linear(np.asarray(ranker.coef_, dtype=np.float64), float(ranker.intercept_))
    if isinstance(ranker, StepScores):
        return _stumps(ranker)
    if isinstance(ranker, TreeRanker):
        return _ensemble(ranker)
    if isinstance(ranker, NeuralRanker):
        weights = [np.asarray(weight, dtype=np.float64) for weight in ranker.weights_]
        layers = tuple(zip(weights[::2], weights[1::2], strict=True))
        return Net(layers, ranker.activation, Inputs(ranker.shift_, ranker.scale_))
    if isinstance(ranker, KernelStructuredSVM):
        return _kernel(ranker)
    raise ExportError(f"{type(ranker).__name__} has no form that an export could write")


def _stumps(ranker: Any) -> Ensemble:
    """One tree of one split for each distinct step [x ≥ θ]: right when x is above the float64 just below θ."""
    steps, place = np.unique(np.stack([ranker.features_, ranker.thresholds_], axis=1), axis=0, return_inverse=True)
    weights = np.bincount(place.ravel(), ranker.weights_, minlength=len(steps))
    return Ensemble(
        tuple(
            _stump(int(feature), float(np.nextafter(threshold, -np.inf)), float(weight))
            for (feature, threshold), weight in zip(steps, weights, strict=True)
        ),
        ranker.n_features_in_,
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


def _ensemble(ranker: Any) -> Scorer:
    from gainful.rankers.gbrank import GBRank
    from gainful.rankers.mcrank import McRank

    n_features = ranker.n_features_in_
    if isinstance(ranker, McRank) and ranker._is_constant:
        return Linear(np.zeros(n_features), float(ranker._grades.relevance[0]))
    trees = trees_of(ranker.booster_.model_to_string(num_iteration=ranker.best_iteration_))
    if isinstance(ranker, GBRank):
        trees = [replace(tree, leaves=tree.leaves * ranker._factor()) for tree in trees]
    if not isinstance(ranker, McRank) or ranker.mode == "regression":
        return Ensemble(tuple(trees), n_features)
    grades = ranker._grades
    kind, n = ("softmax", grades.n) if ranker.mode == "classification" else ("cumulative", grades.n - 1)
    return Ensemble(tuple(trees), n_features, n, Expectation(kind, grades.relevance, grades.start))


def _kernel(ranker: Any) -> Kernel:
    settings: dict[str, float] = {}
    if ranker.kernel in ("rbf", "laplacian", "polynomial"):
        settings["gamma"] = float(ranker.gamma_)
    if ranker.kernel == "polynomial":
        settings |= {"coef0": float(ranker.coef0), "degree": float(ranker.degree)}
    landmarks = ranker._scaled(ranker.landmarks_)
    landmarks = landmarks if isinstance(landmarks, np.ndarray) else landmarks.toarray()
    # a feature that was constant counts nothing: nothing is left of it in units as large as a number can be
    scale = np.divide(1.0, ranker.factor_, out=np.full(len(ranker.factor_), LARGEST), where=ranker.factor_ > 0.0)
    inputs = Inputs(ranker.shift_, scale)
    return Kernel(ranker.kernel, settings, landmarks, np.asarray(ranker.dual_coef_), inputs)


# -- steps in front ----------------------------------------------------------------------------------------------------


def _behind(step: Any, scorer: Scorer) -> Scorer:
    """The scorer of the features before ``step``."""
    name = type(step).__name__
    if name == "AdaptiveBinner" and isinstance(scorer, Ensemble):
        return replace(scorer, trees=tuple(_unbinned(tree, step) for tree in scorer.trees))
    inputs = _scaler(step)
    if inputs is None:
        raise ExportError(
            f"{name} in front of the ranker fits no format; StandardScaler, MinMaxScaler and MaxAbsScaler do in front "
            "of linear models and nets, AdaptiveBinner in front of trees"
        )
    if isinstance(scorer, Linear):
        return replace(scorer, inputs=inputs if scorer.inputs is None else scorer.inputs.after(inputs))
    if isinstance(scorer, Net):
        return replace(scorer, inputs=scorer.inputs.after(inputs))
    raise ExportError(
        f"{name} in front of {'trees' if isinstance(scorer, Ensemble) else 'a kernel'} fits no format; trees need no "
        "scaling, train them on the features as they are"
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


def _unbinned(tree: Tree, binner: Any) -> Tree:
    """A tree on bin numbers as one on values: a bin number is ≤ t when the value is on or below that bin's upper edge.

    The missing value has the number after the last bin.
    """
    if tree.categories:
        raise ExportError("categories behind an AdaptiveBinner fit no format; leave those features out of it")
    threshold, nan_left = np.empty(tree.n_splits), np.empty(tree.n_splits, dtype=bool)
    for split, (feature, code) in enumerate(zip(tree.feature, np.floor(tree.threshold), strict=True)):
        edges: Array = binner.bin_edges_[feature]
        threshold[split] = -FARTHEST if code < 0 else edges[int(code)] if code < len(edges) else FARTHEST
        nan_left[split] = code >= len(edges) + 1
    return replace(tree, threshold=threshold, nan_left=nan_left)
