"""Rankers that were trained elsewhere: they score, explain, save, serve and export like any other, but do not train."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, NoReturn, Self

import numpy as np

from gainful.data.dataset import RankingData
from gainful.data.rows import Array
from gainful.errors import DataError, GainfulError, shorten
from gainful.foreign.checks import MOST_CATEGORIES, MOST_COVER, BadModelError
from gainful.rankers.base import LinearScores, Ranker, stored_array
from gainful.rankers.ensembles import Ensemble, Tree
from gainful.rankers.scorers import Expectation, Scorer, Trees
from gainful.training.history import History
from gainful.trees.booster_text import check_booster_text, check_children

MOST_OUTPUTS = 10_000


def expected_class(relevance: Array) -> Expectation:
    """The score of a classifier: the mean of its classes by the probabilities it predicts."""
    return Expectation("softmax", relevance.astype(np.float64), np.zeros(len(relevance)))


class Imported(Ranker):
    """Base of the rankers that another maker trained; ``training_`` holds what the file says about itself.

    Features are the maker's. X with names is read by name: all features of the model must be there, in any order,
    among others. X without names must have as many columns as the model. Where the maker's file does not say how many
    there are (``open_ended_``), it may have more: the model uses the first ones.
    """

    accepts_missing: ClassVar[bool] = True
    open_ended_: bool

    def fit(self, X: Any, y: Any = None, **_: Any) -> NoReturn:
        raise GainfulError(
            f"{type(self).__name__} was trained by {self.maker}, and gainful cannot train it; gainful.ranker(…) makes "
            "rankers that it can"
        )

    @property
    def maker(self) -> str:
        """Who made the model."""
        return str(getattr(self, "training_", {}).get("maker", "another library"))

    def _describe(
        self, n_features: int, names: Sequence[str] | None, about: Mapping[str, Any], open_ended: bool
    ) -> Self:
        self.n_features_in_ = n_features
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        self.training_ = {name: fact for name, fact in about.items() if fact != []}
        self.open_ended_ = open_ended
        self.history_ = History()
        self.n_iter_, self.interrupted_ = 0, False
        return self

    def _use_of_features(self) -> str:
        return f"the model from {self.maker} uses"

    def _own_columns(self, data: RankingData) -> RankingData:
        chosen = self._columns(data.n_features, data.feature_names)
        if chosen is None:
            return data
        places = np.arange(data.n_features)[chosen].tolist()

        def own(column: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
            return None if column is None else tuple(column[j] for j in places)

        return data.replace(X=data.X[:, places], feature_names=own(data.feature_names), categories=own(data.categories))

    def _choose_columns(self, X: Any, names: tuple[str, ...] | None) -> Any:
        chosen = self._columns(X.shape[1], names)
        return X if chosen is None else X[:, chosen]

    def _check_columns(self, n_features: int, names: tuple[str, ...] | None) -> None:
        self._columns(n_features, names)

    def _columns(self, n_features: int, names: tuple[str, ...] | None) -> Any:
        """Which columns of X the model uses; None for all, as they are."""
        own = getattr(self, "feature_names_in_", None)
        if own is None or names is None:
            if n_features > self.n_features_in_ and self.open_ended_:
                return slice(self.n_features_in_)
            if n_features != self.n_features_in_:
                least = "at least " if self.open_ended_ else ""
                raise DataError(
                    f"X has {n_features} features, but the model from {self.maker} has {least}{self.n_features_in_}"
                )
            return None
        if names == tuple(own):
            return None
        place = {name: j for j, name in enumerate(names)}
        absent = [name for name in own if name not in place]
        if absent:
            raise DataError(f"X has no feature {shorten(absent[0])}, which {self._use_of_features()}")
        return np.array([place[name] for name in own])

    def _pack(self) -> dict[str, Any]:
        return {"open_ended": self.open_ended_}

    def _unpack(self, state: Mapping[str, Any]) -> None:
        if not isinstance(state["open_ended"], bool):
            raise ValueError("open_ended is not a truth value")
        self.open_ended_ = state["open_ended"]


@dataclass(repr=False, eq=False)
class ImportedLinear(LinearScores, Imported):
    """A linear model from another maker; see :func:`gainful.load`. A missing value counts as 0.

    Attributes
    ----------
    coef_, intercept_ : the weights of the features, and what every score has on top
    maker : who made the model, such as "RankLib"
    """

    @classmethod
    def of_weights(
        cls,
        weights: Array,
        intercept: float,
        names: Sequence[str] | None,
        about: Mapping[str, Any],
        *,
        open_ended: bool = False,
    ) -> Self:
        made = cls()
        made.coef_, made.intercept_ = np.asarray(weights, dtype=np.float64), float(intercept)
        if not (np.isfinite(made.coef_).all() and np.isfinite(made.intercept_)):
            raise BadModelError("its weights are too large")
        return made._describe(len(made.coef_), names, about, open_ended)

    def _features_to_score(self, X: Any, what: str = "X") -> Any:
        matrix = super()._features_to_score(X, what)
        values = matrix if isinstance(matrix, np.ndarray) else matrix.data
        if values.dtype.kind != "f" or not np.isnan(values).any():
            return matrix
        known = np.nan_to_num(values, nan=0.0)
        if isinstance(matrix, np.ndarray):
            return known
        return type(matrix)((known, matrix.indices, matrix.indptr), shape=matrix.shape)

    def _pack(self) -> dict[str, Any]:
        return LinearScores._pack(self) | Imported._pack(self)

    def _unpack(self, state: Mapping[str, Any]) -> None:
        LinearScores._unpack(self, state)
        Imported._unpack(self, state)


@dataclass(repr=False, eq=False)
class ImportedTrees(Imported):
    """Trees from another maker; see :func:`gainful.load`. LightGBM scores its own; gainful scores all others.

    Scores are sums of leaves: what the maker predicts for ranking and regression, and its raw score (margin) where it
    would turn that into a probability or a rate. Several classes give the expected class.

    Attributes
    ----------
    maker : who made the model, such as "XGBoost 3.0.2"
    booster_ : the ``lightgbm.Booster``, if LightGBM made the model
    ensemble_ : the trees as arrays, if another maker did
    """

    @classmethod
    def of_ensemble(
        cls, ensemble: Ensemble, names: Sequence[str] | None, about: Mapping[str, Any], *, open_ended: bool = False
    ) -> Self:
        if not all(np.isfinite(tree.leaves).all() for tree in ensemble.trees):
            raise BadModelError("its leaves are too large")
        made = cls()
        made.ensemble_ = ensemble
        facts = {**about, "trees": sum(1 for tree in ensemble.trees if tree.n_splits)}
        return made._describe(ensemble.n_features, names, facts, open_ended)

    @classmethod
    def of_booster_text(cls, text: str, n_features: int, names: Sequence[str] | None, about: Mapping[str, Any]) -> Self:
        """Of LightGBM's text, which is checked here before LightGBM gets it."""
        made = cls()
        made._read_booster(text, n_features)
        return made._describe(n_features, names, {**about, "trees": made.booster_.num_trees()}, False)

    def _read_booster(self, text: str, n_features: int) -> None:
        from gainful.trees.lightgbm_library import lgb

        self.n_iterations_ = check_booster_text(text, n_features)
        self.booster_ = lgb.Booster(model_str=text)

    def _scorer(self) -> Scorer:
        if not hasattr(self, "booster_"):
            return self.ensemble_
        n_classes = self.booster_.num_model_per_iteration()
        link = expected_class(np.arange(n_classes)) if n_classes > 1 else None
        return Trees(self.booster_, self.n_iterations_, link=link)

    # -- model files ---------------------------------------------------------------------------------------------------

    def _pack(self) -> dict[str, Any]:
        if hasattr(self, "booster_"):
            return super()._pack() | {"booster": self.booster_.model_to_string()}
        return super()._pack() | _pack_ensemble(self.ensemble_)

    def _unpack(self, state: Mapping[str, Any]) -> None:
        super()._unpack(state)
        if "booster" in state:
            self._read_booster(state["booster"], self.n_features_in_)
        else:
            self.ensemble_ = _unpack_ensemble(state, self.n_features_in_)


def _pack_ensemble(ensemble: Ensemble) -> dict[str, Any]:
    trees = ensemble.trees

    def join(name: str, dtype: Any) -> Array:
        return np.concatenate([np.zeros(0, dtype=dtype), *(getattr(tree, name).astype(dtype) for tree in trees)])

    covers = [np.zeros(len(tree.leaves)) if tree.cover is None else tree.cover for tree in trees]
    sets = [(t, split, inside) for t, tree in enumerate(trees) for split, inside in sorted(tree.categories.items())]
    return {
        "n_outputs": ensemble.n_outputs,
        "relevance": np.zeros(0) if ensemble.link is None else ensemble.link.relevance,
        "n_leaves": np.array([len(tree.leaves) for tree in trees], dtype=np.int64),
        "feature": join("feature", np.int32),
        "threshold": join("threshold", np.float32),
        "nan_left": join("nan_left", np.bool_),
        "left": join("left", np.int32),
        "right": join("right", np.int32),
        "leaves": join("leaves", np.float64),
        "cover": np.concatenate([np.zeros(0), *covers]),
        "category_places": np.array([(t, split, len(inside)) for t, split, inside in sets], np.int64).reshape(-1, 3),
        "categories": np.array([one for _, _, inside in sets for one in inside], dtype=np.int32),
    }  # fmt: skip


def _unpack_ensemble(state: Mapping[str, Any], n_features: int) -> Ensemble:
    n_leaves = stored_array(state, "n_leaves", (None,), np.int64)
    if (n_leaves < 1).any() or (n_leaves > 2**31).any():
        raise ValueError("a tree has no leaf")
    n_splits = int((n_leaves - 1).sum())
    per_split = {name: stored_array(state, name, (n_splits,), np.int64) for name in ("feature", "left", "right")}
    per_split["threshold"] = stored_array(state, "threshold", (n_splits,), np.float32)
    per_split["nan_left"] = stored_array(state, "nan_left", (n_splits,), np.bool_)
    leaves, cover = (stored_array(state, name, (int(n_leaves.sum()),)) for name in ("leaves", "cover"))
    if ((cover < 0.0) | (cover > MOST_COVER)).any():
        raise ValueError("the cover of a leaf is out of range")
    categories = _unpack_categories(state, len(n_leaves))
    trees, split, leaf = [], 0, 0
    for t, n in enumerate(n_leaves.tolist()):
        own = {name: values[split : split + n - 1] for name, values in per_split.items()}
        held = cover[leaf : leaf + n]
        tree = Tree(
            **own,
            leaves=leaves[leaf : leaf + n],
            categories=categories[t],
            cover=held if held.any() else None,
        )
        check_tree(tree, n_features)
        trees.append(tree)
        split, leaf = split + n - 1, leaf + n
    relevance, n_outputs = stored_array(state, "relevance", (None,)), state["n_outputs"]
    if isinstance(n_outputs, bool) or not isinstance(n_outputs, int) or not 1 <= n_outputs <= MOST_OUTPUTS:
        raise ValueError("n_outputs is not a number of sums")
    if len(relevance) != (n_outputs if n_outputs > 1 else 0):
        raise ValueError("the classes do not fit the sums")
    return Ensemble(tuple(trees), n_features, n_outputs, expected_class(relevance) if n_outputs > 1 else None)


def _unpack_categories(state: Mapping[str, Any], n_trees: int) -> list[dict[int, tuple[int, ...]]]:
    """Of each tree, the categories by split."""
    places = stored_array(state, "category_places", (None, 3), np.int64)
    values = stored_array(state, "categories", (None,), np.int64)
    found: list[dict[int, tuple[int, ...]]] = [{} for _ in range(n_trees)]
    start = 0
    for t, split, size in places.tolist():
        if not 0 <= t < n_trees or split in found[t] or not 0 <= size <= len(values) - start:
            raise ValueError("the categories do not fit the trees")
        found[t][split] = tuple(values[start : start + size].tolist())
        start += size
    if start != len(values):
        raise ValueError("the categories do not fit the trees")
    return found


def check_tree(tree: Tree, n_features: int) -> None:
    """Raise unless its nodes make a tree over existing features that can be walked."""
    n = tree.n_splits
    check_children(tree.left, tree.right, n + 1, "a tree")
    if n and not 0 <= tree.feature.min() <= tree.feature.max() < n_features:
        raise ValueError("a tree splits a feature that is not there")
    for split, inside in tree.categories.items():
        ascending = all(a < b for a, b in pairwise(inside))
        if not 0 <= split < n or not ascending or (inside and not 0 <= inside[0] <= inside[-1] < MOST_CATEGORIES):
            raise ValueError("the categories of a tree do not fit its splits")
