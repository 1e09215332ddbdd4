"""What all formats share: settings, results, and refusals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gainful.data.rows import Array
from gainful.errors import ExportError, wording
from gainful.exports.describe import Described, Mixture
from gainful.rankers.ensembles import Ensemble, Tree
from gainful.rankers.scorers import Kernel, Linear, ListNet, Net

DEEPEST = 400  # splits above a leaf in nested text: JSON readers refuse a thousand levels, and a split takes two

SOLR_ACTIVATIONS = ("relu", "tanh", "sigmoid")


@dataclass(frozen=True)
class Settings:
    """The options of an export."""

    to: str
    format: str | None = None
    name: str = "gainful"
    feature_set: str = "features"
    store: str | None = None
    engine_version: str | None = None
    suffix: str = ""  # of the file to write


@dataclass(frozen=True)
class Written:
    """The files of an export, by the suffix added to the requested path ("" for the model itself).

    ``read`` scores rows (float32, NaN where missing) from these files alone by the rules of the format: one array per
    file that can be scored. ``constant`` is the part of every score that the format cannot hold; it is the same for all
    rows, so it changes no ranking. ``format`` names the form of trees, for engines that have several.
    """

    files: Mapping[str, bytes]
    read: Callable[[Mapping[str, bytes], Array], list[Array]]
    constant: float = 0.0
    precision: float = 1e-6  # allowed differences, relative to the size of what is summed
    tiny: float = 0.0  # values closer to 0 are read as 0
    notes: tuple[str, ...] = field(default=())
    format: str | None = None


def setting(name: str, value: str = "") -> str:
    """An option of an export in the words of the interface in use: ``to="onnx"`` or ``--to onnx``."""
    option = f"--{name.replace('_', '-')}"
    return wording(f'{name}="{value}"', f"{option} {value}") if value else wording(name, option)


def setting_of_export(name: str) -> str:
    """The option as the subject of a message: ``store of export`` or ``--store``."""
    return wording(f"{name} of export", setting(name))


def shift_words(constant: float) -> str:
    """By how much scores without this constant are lower or higher."""
    return f"{'lower' if constant > 0 else 'higher'} by {abs(constant):.6g}"


def refuse(described: Described, where: str, why: str, instead: str) -> ExportError:
    return ExportError(f"{described.title} cannot be exported to {where}: {why}; {instead}")


def kind_of(form: Any) -> str:
    """The kind of a model without trees, in words."""
    kinds = {
        Linear: "a linear model",
        Net: "a net",
        ListNet: "a net over lists",
        Kernel: "a kernel machine",
        Mixture: "a sum of models of different kinds",
    }
    return kinds[type(form)]


def refuse_lists(described: Described, where: str) -> None:
    """Raise if the score of a document depends on the others of its query: most formats score each by itself."""
    if described.sees_lists:
        why = "it scores the documents of a query together, the format each by itself"
        raise refuse(described, where, why, f"use {setting('to', 'onnx')}")


def _takers(form: Any) -> str:
    """The targets that take a model that is not trees."""
    if isinstance(form, Kernel):
        return setting("to", "json")
    if isinstance(form, Mixture):
        return (
            f"{setting('to', 'onnx')}, or distill it into one model ({wording('gainful.distill', 'gainful distill')})"
        )
    solr = isinstance(form, Net) and form.activation in SOLR_ACTIVATIONS
    names = ["solr", "onnx", "json"] if solr else ["onnx", "json"]
    return " or ".join(setting("to", name) for name in names)


def plain_trees(described: Described, where: str) -> Ensemble:
    """The trees of a model, at least one, if its score is their sum."""
    form = described.form
    refuse_lists(described, where)
    if not isinstance(form, Ensemble):
        raise refuse(described, where, f"it is {kind_of(form)}", f"use {_takers(form)}")
    if form.link is not None:
        raise refuse(
            described, where, "its score is an expectation over grades, not a sum of trees",
            f'use {setting("to", "onnx")}, or train mode="regression"',
        )  # fmt: skip
    return form if form.trees else constant_trees(form.n_features)


def check_trees(described: Described, where: str) -> Ensemble:
    """The trees of a model, at least one, if a search engine's format can hold them."""
    form = plain_trees(described, where)
    if form.categorical:
        why = "it has splits by category, the format only thresholds"
        raise refuse(described, where, why, f"use {setting('to', 'onnx')}")
    if any(tree.depth > DEEPEST for tree in form.trees):
        raise refuse(
            described, where, f"a tree is more than {DEEPEST} splits deep, and the format nests them",
            f'use {setting("to", "onnx")}, or train with engine_params={{"max_depth": 60}}',
        )  # fmt: skip
    return form


WORDS_AT = "categories_ of gainful's model"  # for formats that cannot hold them


def note_on_words(described: Described, where: str) -> tuple[str, ...]:
    """A note for models with features of text, whose words the exported model takes as numbers."""
    if not described.words:
        return ()
    names = ", ".join(described.words)
    return (f"{names}: give the number of the word, from 0, in the list in {where}; any other word is missing (NaN)",)


def constant_trees(n_features: int) -> Ensemble:
    """One tree that adds 0, for formats that need at least one."""
    return Ensemble((Tree.constant(0.0),), n_features)


def split_cover(tree: Tree, leaf_cover: Array) -> Array:
    """The cover of each split: the sum over the leaves below it. Children come after their parents."""
    inner = np.zeros(tree.n_splits, dtype=leaf_cover.dtype)
    for split in range(tree.n_splits - 1, -1, -1):
        for child in (int(tree.left[split]), int(tree.right[split])):
            inner[split] += inner[child] if child >= 0 else leaf_cover[-child - 1]
    return inner


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
