"""What all formats share: settings, results, and refusals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gainful.data.rows import Array
from gainful.errors import ExportError
from gainful.exports.describe import Described
from gainful.exports.trees import Ensemble, Tree
from gainful.rankers.scorers import Kernel, Linear, Net

DEEPEST = 400  # splits above a leaf in nested text: JSON readers refuse a thousand levels, and a split takes two


@dataclass(frozen=True)
class Settings:
    """The options of an export."""

    to: str
    format: str | None = None
    name: str = "gainful"
    feature_set: str = "features"
    store: str | None = None


@dataclass(frozen=True)
class Written:
    """The files of an export, by the suffix added to the requested path ("" for the model itself).

    ``read`` scores rows (float32, NaN where missing) from these files alone by the rules of the format: one array per
    file that can be scored. ``constant`` is the part of every score that the format cannot hold; it is the same for all
    rows, so it changes no ranking.
    """

    files: Mapping[str, bytes]
    read: Callable[[Mapping[str, bytes], Array], list[Array]]
    constant: float = 0.0
    precision: float = 1e-6  # allowed differences, relative to the size of what is summed
    tiny: float = 0.0  # values closer to 0 are read as 0
    notes: tuple[str, ...] = field(default=())


def refuse(described: Described, where: str, why: str, instead: str) -> ExportError:
    return ExportError(f"{described.title} cannot be exported to {where}: {why}; {instead}")


def kind_of(form: Any) -> str:
    """The kind of a model without trees, in words."""
    return {Linear: "a linear model", Net: "a net", Kernel: "a kernel machine"}[type(form)]


def check_trees(described: Described, where: str) -> Ensemble:
    """The trees of a model, at least one, if a search engine's format can hold them."""
    form = described.form
    if not isinstance(form, Ensemble):
        raise refuse(described, where, f"it is {kind_of(form)}", "use --to onnx or --to json")
    if form.link is not None:
        raise refuse(
            described, where, "its score is an expectation over grades, not a sum of trees",
            'use --to onnx, or train mode="regression"',
        )  # fmt: skip
    if form.categorical:
        raise refuse(described, where, "it has splits by category, the format only thresholds", "use --to onnx")
    if any(tree.depth > DEEPEST for tree in form.trees):
        raise refuse(
            described, where, f"a tree is more than {DEEPEST} splits deep, and the format nests them",
            'use --to onnx, or train with engine_params={"max_depth": 60}',
        )  # fmt: skip
    return form if form.trees else constant_trees(form.n_features)


def constant_trees(n_features: int) -> Ensemble:
    """One tree that adds 0, for formats that need at least one."""
    none = np.zeros(0, dtype=np.int64)
    tree = Tree(none, np.zeros(0), np.zeros(0, dtype=bool), none, none, np.zeros(1))
    return Ensemble((tree,), n_features)


def nest(tree: Tree, leaf: Callable[[int], Any], split: Callable[[int, Any, Any], Any]) -> Any:
    """A tree as nested values, built from the leaves up without recursion."""
    if not tree.n_splits:
        return leaf(0)
    done: dict[int, Any] = {}
    order, todo = [], [0]
    while todo:
        place = todo.pop()
        order.append(place)
        todo += [int(child) for child in (tree.left[place], tree.right[place]) if child >= 0]
    for place in reversed(order):
        sides = [
            done.pop(int(child)) if child >= 0 else leaf(-int(child) - 1)
            for child in (tree.left[place], tree.right[place])
        ]
        done[place] = split(place, *sides)
    return done[0]
