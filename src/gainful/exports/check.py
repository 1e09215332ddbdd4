"""The check of an export: the model and the format's own rules must give the same scores.

Rows are made up around the model's thresholds (on them, just above, just below, zero, missing), and taken from data if
any is given. They are float32, as features are in every engine; ranks are also compared with those that the model
gives the data before rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from gainful.data.rows import Array
from gainful.errors import DataError
from gainful.exports.describe import Described, Form, Mixture
from gainful.exports.floats import FARTHEST, below
from gainful.exports.formats import Written
from gainful.foreign.rankers import Imported
from gainful.rankers.ensembles import Ensemble, Tree
from gainful.rankers.scorers import Kernel, Linear, ListNet, Net

MADE_UP = 2000
MOST_ROWS = 10_000
MISSING_SHARE = 0.1
LIST_ENDS = (1, 3, 8, 28, 128, 528)  # of the lists that made-up rows form; the last one has the rest
MANY_TREES = 1000  # beyond this, rounding errors grow with the square root of the number of trees
FAR = np.float32(1e38)


@dataclass(frozen=True)
class Comparison:
    """How much an export differs from its model on some rows.

    ``difference`` is the largest difference, ``allowed`` the tolerance of the row that comes closest to exceeding it.
    ``swapped`` counts the rows at another rank; ``swapped_gap`` is the largest difference between the model's scores of
    two documents that swapped places or became equal. ``moved`` counts the rows that have another rank than the model
    gives them with features in double precision. ``good``: every row is within its tolerance, and so is the order;
    rows that only rounding the features moves do not count against it.
    """

    n_rows: int
    difference: float
    allowed: float
    swapped: int
    swapped_gap: float
    good: bool
    moved: int = 0

    def __str__(self) -> str:
        order = "ranks equal"
        if self.swapped:
            order = f"{self.swapped} rows at other ranks, all among scores closer than {self.swapped_gap:.2g}"
        if self.moved != self.swapped:
            order += (
                f" with features in float32; {self.moved} rows at other ranks than with features in double precision"
            )
        return f"{self.n_rows:,} rows: largest difference {self.difference:.2g}, {order}"


def compare_scores(reference: Array, exported: Array, tolerance: Array, offsets: Array) -> Comparison:
    """Compare the scores of the model and of its export; ``tolerance`` is per row, ranks are within queries."""
    reference, exported = np.asarray(reference, dtype=np.float64), np.asarray(exported, dtype=np.float64)
    differences = np.nan_to_num(np.abs(exported - reference), nan=np.inf)
    swapped = count_moves(reference, exported, offsets)
    gap = max(swapped_gap(reference[a:b], exported[a:b]) for a, b in pairwise(offsets))
    return Comparison(
        n_rows=len(reference),
        difference=float(differences.max()),
        allowed=float(tolerance[np.argmax(differences / tolerance)]),
        swapped=swapped,
        moved=swapped,
        swapped_gap=gap,
        good=bool((differences <= tolerance).all()) and gap <= 2.0 * float(tolerance.max()),
    )


def count_moves(reference: Array, exported: Array, offsets: Array) -> int:
    """How many places within queries hold different rows by the two scores; ties keep the order of the rows."""
    query = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    before, after = (np.lexsort((-scores, query)) for scores in (reference, exported))
    return int((before != after).sum())


def swapped_gap(reference: Array, exported: Array) -> float:
    """The largest reference difference between two items that the export ties or puts in the other order."""
    if len(reference) < 2:
        return 0.0
    order = np.lexsort((-reference, exported))  # among equals the highest reference first
    highest = np.maximum.accumulate(reference[order])
    return float((highest - reference[order]).max())


def compare_rows(
    described: Described,
    model: Any,
    written: Written,
    X: Array,
    offsets: Array,
    zero: bool,
    values: Array | None = None,
) -> Comparison:
    """The worst comparison over all files of an export that can be scored.

    X is float32; ``values`` are the same rows in float64, if they had more digits.
    """
    exact = None
    if values is not None:
        exact = scores_of_model(described, model, np.where(np.isnan(values), 0.0, values) if zero else values, offsets)
    X = np.where(np.abs(X) <= written.tiny, np.float32(0.0), X)
    seen = np.where(np.isnan(X), np.float32(0.0), X) if zero else X
    reference = scores_of_model(described, model, seen.astype(np.float64), offsets) - written.constant
    tolerance = written.precision * magnitude(described.form, seen.astype(np.float64))
    found = []
    for scores in _scores_of_files(described, written, X, offsets):
        one = compare_scores(reference, scores, tolerance, offsets)
        found.append(one if exact is None else replace(one, moved=count_moves(exact, scores, offsets)))
    return max(found, key=lambda one: (not one.good, one.difference))


def scores_of_model(described: Described, model: Any, X: Array, offsets: Array) -> Array:
    """The scores of a ranker, or of a pipeline that ends in one."""
    queries = {"group": np.diff(offsets)} if described.sees_lists else {}
    return np.asarray(model.predict(X, **queries))


def made_up_lists(described: Described, n: int) -> Array:
    """Offsets of the queries of made-up rows."""
    ends = LIST_ENDS if described.sees_lists else ()
    return np.array([0, *(end for end in ends if end < n), n])


def _scores_of_files(described: Described, written: Written, X: Array, offsets: Array) -> list[Array]:
    if not described.sees_lists:
        return written.read(written.files, X)
    lists = [written.read(written.files, X[a:b]) for a, b in pairwise(offsets)]
    return [np.concatenate(one) for one in zip(*lists, strict=True)]


def magnitude(form: Form, X: Array) -> Array:
    """The size of what is summed for each row; rounding errors are proportional to it."""
    if isinstance(form, Linear):
        folded = form.fold_inputs()
        return np.asarray(np.abs(X) @ np.abs(folded.weights) + np.abs(folded.intercept) + 1e-30)
    if isinstance(form, Net):
        size = (np.abs(X) + np.abs(form.inputs.shift)) / form.inputs.scale
        for W, b in form.layers:
            size = size @ np.abs(W) + np.abs(b)
        return np.asarray(size[:, 0] + 1e-30)
    if isinstance(form, ListNet):
        return _magnitude_of_list_net(form, X)
    if isinstance(form, Kernel):
        largest = float(np.nanmax(np.abs(form.inputs(X))))
        return np.full(len(X), max(1.0, float(np.abs(form.weights).sum())) * (1.0 + largest**2))
    if isinstance(form, Mixture):
        sizes = zip(form.parts, form.factors, strict=True)
        return np.asarray(sum(abs(factor) * magnitude(part, X) for part, factor in sizes))
    total = sum(float(np.abs(tree.leaves).max()) for tree in form.trees)
    if form.link is not None:
        total = (1.0 + total) * float(np.abs(form.link.relevance).max())
    return np.full(len(X), total * max(1.0, len(form.trees) / MANY_TREES) ** 0.5 + 1e-30)


def _magnitude_of_list_net(net: ListNet, X: Array) -> Array:
    """The mean over its models. What attention adds is normalised, so it is at most the root of the width."""
    inputs, total = net.inputs, np.zeros(len(X))
    first = np.abs(X) if inputs.unit is None else np.log1p(np.abs(X) / inputs.unit)
    for model in range(net.n_models):
        size = (first + np.abs(inputs.shift)) / inputs.scale
        for W, b in net.layers:
            size = size @ np.abs(W[model]) + np.abs(b[model])
        last = net.blocks[-1]
        size = size * (1.0 + size.shape[1] ** 0.5 * np.abs(last.gain[model]) + np.abs(last.shift[model]))
        W, b = net.output
        total += size @ np.abs(W[model, :, 0]) + np.abs(b[model, 0])
    return np.asarray(total / net.n_models + 1e-30)


# -- rows --------------------------------------------------------------------------------------------------------------


def made_up_rows(form: Form, n_features: int, *, missing: bool, n: int | None = None, seed: int = 0) -> Array:
    """Rows that try every threshold of every feature, (n, n_features) float32."""
    n = MADE_UP if n is None else n
    rng = np.random.default_rng(seed)
    X = np.asarray(_spread(form, rng, n, n_features), dtype=np.float32)
    ensembles = form.ensembles if isinstance(form, Mixture) else [form] if isinstance(form, Ensemble) else []
    if ensembles:
        thresholds, categories = _thresholds_and_categories([tree for one in ensembles for tree in one.trees])
        for j in range(n_features):
            if j in categories:
                X[:, j] = rng.integers(0, max(categories[j]) + 3, n)
            elif j in thresholds:
                X[:, j] = _around(thresholds[j], rng, n)
    if missing:
        X[rng.random(X.shape) < MISSING_SHARE] = np.nan
    return X


def _thresholds_and_categories(trees: Sequence[Tree]) -> tuple[dict[int, Array], dict[int, set[int]]]:
    """Per feature."""
    values: dict[int, list[Array]] = {}
    categories: dict[int, set[int]] = {}
    for tree in trees:
        for split, inside in tree.categories.items():
            categories.setdefault(int(tree.feature[split]), set()).update(inside)
        for j in np.unique(tree.feature):
            values.setdefault(int(j), []).append(below(tree.threshold[tree.feature == j]))
    # a threshold at the end of float32 separates numbers from missing values
    return {j: np.unique(np.clip(np.concatenate(parts), -FAR, FAR)) for j, parts in values.items()}, categories


def _around(thresholds: Array, rng: np.random.Generator, n: int) -> Array:
    """On a threshold, the next float32 on either side, between thresholds, zero."""
    on = rng.choice(thresholds, n)
    low, high = float(thresholds[0]), float(thresholds[-1])
    with np.errstate(over="ignore"):
        width = np.float32(min(high - low + 1.0, 1e30))
        kinds = [
            on,
            np.nextafter(on, np.float32(np.inf)),
            np.nextafter(on, np.float32(-np.inf)),
            (np.float32(low) + width * rng.uniform(-0.2, 1.2, n)).astype(np.float32),
            np.zeros(n, dtype=np.float32),
        ]
    values = np.choose(rng.choice(len(kinds), n, p=[0.3, 0.15, 0.15, 0.3, 0.1]), kinds)
    return np.asarray(values)


def _spread(form: Form, rng: np.random.Generator, n: int, n_features: int) -> Array:
    """Values of the size the model was trained on, as far as the model reveals it."""
    normal = rng.standard_normal((n, n_features))
    if isinstance(form, (Net, ListNet)):
        seen = normal * form.inputs.scale + form.inputs.shift
        unit = form.inputs.unit
        return np.asarray(seen if unit is None else np.copysign(unit * np.expm1(np.abs(seen)), seen))
    if isinstance(form, Kernel):
        landmarks, inputs = form.landmarks, form.inputs
        seen = landmarks[rng.integers(0, len(landmarks), n)] + 0.1 * landmarks.std() * normal
        return np.asarray(seen * np.where(inputs.scale < FARTHEST, inputs.scale, 1.0) + inputs.shift)
    if isinstance(form, Linear):
        if form.inputs is not None:
            return np.asarray(normal * form.inputs.scale + form.inputs.shift)
        weights = np.abs(form.weights)
        largest = weights.max(initial=0.0)
        return np.asarray(normal * largest / np.maximum(weights, largest * 1e-6)) if largest > 0 else normal
    return np.asarray(normal)


def data_rows(data: Any, described: Described) -> tuple[Array, Array, Array]:
    """Values as given, as float32, and query offsets, of the first whole queries up to 10,000 rows."""
    from gainful.data.categories import recode
    from gainful.data.dataset import RankingData
    from gainful.data.frames import features_of

    trained = getattr(described.ranker, "categories_", None)
    if isinstance(data, RankingData):
        data = data.with_categories(trained, "the data to check on")
        X, names, offsets = data.X, data.feature_names, data.offsets
        last = max(1, int(np.searchsorted(offsets, MOST_ROWS, side="right")) - 1)
        offsets = offsets[: last + 1]
    else:
        X, names, found = features_of(data)
        X = recode(X, found, trained, "the data to check on", names)
        offsets = np.array([0, min(X.shape[0], MOST_ROWS)])
    if offsets[-1] == 0:
        raise DataError("the data to check on has no rows")
    if isinstance(described.ranker, Imported):  # finds its features by name
        X = described.ranker._choose_columns(X, names)
    else:
        _check_names(names, described)
    rows = X[: int(offsets[-1])]
    values = np.asarray(rows if isinstance(rows, np.ndarray) else rows.toarray(), dtype=np.float64)
    with np.errstate(over="ignore"):
        return values, values.astype(np.float32), offsets


def _check_names(names: tuple[str, ...] | None, described: Described) -> None:
    """Refuse columns in another order: both sides would agree, and the check would say nothing about the model."""
    if names is None or not described.named or len(names) != len(described.features):
        return
    for place, (found, trained) in enumerate(zip(names, described.features, strict=True)):
        if str(found) != trained:
            raise DataError(
                f"feature {place + 1} of the data to check on is {found!r}, but {described.title} was trained with "
                f"{trained!r} there; give the columns in the order of training"
            )
