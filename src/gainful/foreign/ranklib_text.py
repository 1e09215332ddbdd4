"""RankLib's model files: ensembles of trees in XML, and linear models as ``feature:weight``.

RankLib computes with float32 features, numbered from 1. In a tree, x ≤ threshold goes left; a missing value is 0. The
score is the sum of weight · output over the trees, or, for random forests, the mean of that over their bags.
"""

from __future__ import annotations

from typing import Any
from xml.parsers import expat

import numpy as np

from gainful.errors import shorten
from gainful.foreign.checks import MOST_FEATURES, BadModelError, count, real
from gainful.foreign.members import check_members, table
from gainful.foreign.nodes import Nodes
from gainful.foreign.rankers import ImportedLinear, ImportedTrees
from gainful.rankers.base import Ranker
from gainful.rankers.ensembles import Ensemble, Tree

TREES = ("LambdaMART", "MART", "Random Forests")
LINEAR = ("Coordinate Ascent", "AdaRank", "Linear Regression")
OTHERS = ("RankNet", "LambdaRank", "ListNet", "RankBoost")
ATTRIBUTES = {"tree": table("weight", "id"), "split": table("pos")}
NO_SPLIT = -1


def read(raw: bytes) -> Ranker:
    lines = raw.decode().splitlines()
    title = lines[0].removeprefix("##").strip()
    body = [line for line in lines if not line.startswith("##")]
    about = {"maker": "RankLib", "objective": title[:60]}
    if title in TREES:
        bags = Parser("\n".join(body)).bags
        if title != "Random Forests" and len(bags) != 1:
            raise BadModelError(f"it has {len(bags)} ensembles instead of 1")
        trees = [_tree(table, weight / len(bags)) for bag in bags for table, weight in bag]
        n_features = 1 + max((int(tree.feature.max()) for tree in trees if tree.n_splits), default=0)
        ensemble = Ensemble(tuple(trees), n_features)
        return ImportedTrees.of_ensemble(ensemble, None, about, open_ended=True)
    if title in LINEAR:
        return _linear(body, title, about)
    known = ", ".join((*TREES, *LINEAR))
    why = "which RankLib keeps in a form of its own" if title in OTHERS else "which is not one of RankLib's"
    raise BadModelError(f"it is of the kind {shorten(title, 40)}, {why}; {known} can be read")


# -- linear ------------------------------------------------------------------------------------------------------------


def _linear(body: list[str], title: str, about: dict[str, Any]) -> Ranker:
    """The one line that is not a comment; a feature may be there several times, and 0 is the constant."""
    line, *more = [line for line in body if line.strip()] or [""]
    if more:
        raise BadModelError(f"it has {shorten(more[0], 40)} after its weights, where RankLib has nothing")
    pairs = [word.partition(":") for word in line.partition("#")[0].split()]
    if not pairs:
        raise BadModelError("it has no weights")
    lowest = 0 if title == "Linear Regression" else 1
    places = [count(fid, "a feature", lowest, MOST_FEATURES) for fid, _, _ in pairs]
    weights = np.zeros(max(*places, 1) + 1)
    for place, (_, _, weight) in zip(places, pairs, strict=True):
        value = real(weight, f"the weight of feature {place}")
        weights[place] = value if place == 0 else weights[place] + value
    return ImportedLinear.of_weights(weights[1:], weights[0], None, about, open_ended=True)


# -- trees -------------------------------------------------------------------------------------------------------------

Node = list[Any]  # feature from 0 or NO_SPLIT, threshold, left, right, output
Bag = list[tuple[list[Node], float]]  # the nodes of each tree, and its weight


def _tree(table: list[Node], weight: float) -> Tree:
    feature, threshold, left, right, output = (list(column) for column in zip(*table, strict=True))
    limits = np.array(threshold, dtype=np.float32)
    return Nodes(left, right, np.array(feature), limits, limits >= 0.0, np.array(output) * weight).tree()


class Parser:
    """Ensembles from XML, without recursion; anything but the elements that RankLib writes is refused."""

    def __init__(self, text: str):
        self.bags: list[Bag] = []
        self._path: list[str] = []
        self._text: list[str] = []
        self._at: list[int] = []  # the nodes from the root of the tree to the element read now
        self._tree: list[Node] = []
        self._weight = 0.0
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text.append
        parser.StartDoctypeDeclHandler = _refuse_types
        parser.Parse(f"<model>{text}</model>".encode(), True)
        if not self.bags:
            raise BadModelError("it has no ensemble")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        parent = self._path[-1] if self._path else ""
        self._path.append(name)
        self._text.clear()
        check_members("RankLib", attributes, ATTRIBUTES.get(name, {}), f"<{shorten(name, 40)[1:-1]}>")
        if (parent, name) == ("model", "ensemble"):
            self.bags.append([])
        elif (parent, name) == ("ensemble", "tree"):
            self._weight = float(np.float32(real(attributes.get("weight"), "the weight of a tree")))
            self._tree, self._at = [], []
        elif name == "split" and parent in ("tree", "split"):
            self._add(attributes.get("pos"))
        elif (parent, name) not in ALLOWED:
            raise BadModelError(f"it has an element <{shorten(name, 40)[1:-1]}> where RankLib has none")

    def _add(self, side: str | None) -> None:
        if self._at:
            parent = self._tree[self._at[-1]]
            place = {"left": 2, "right": 3}.get(side or "")
            if place is None or parent[place] != -1:
                raise BadModelError("a split does not have one side left and one right")
            parent[place] = len(self._tree)
        elif self._tree:
            raise BadModelError("a tree has two roots")
        self._at.append(len(self._tree))
        self._tree.append([NO_SPLIT, None, -1, -1, None])

    def _end(self, name: str) -> None:
        self._path.pop()
        text = "".join(self._text).strip()
        self._text.clear()
        if name == "split":
            self._close(self._tree[self._at.pop()])
        elif name == "tree":
            if not self._tree:
                raise BadModelError("a tree has no nodes")
            self.bags[-1].append((self._tree, self._weight))
        elif name == "feature":
            self._fill(0, count(text, "a feature", 1, MOST_FEATURES) - 1, NO_SPLIT)
        elif name == "threshold":
            self._fill(1, _single(text, "a threshold"), None)
        elif name == "output":
            self._fill(4, _single(text, "an output"), None)

    def _fill(self, place: int, value: Any, empty: Any) -> None:
        node = self._tree[self._at[-1]]
        if node[place] is not empty and node[place] != empty:
            raise BadModelError("a node says the same twice")
        node[place] = value

    def _close(self, node: Node) -> None:
        feature, threshold, left, right, output = node
        is_split = feature != NO_SPLIT and threshold is not None and left >= 0 and right >= 0 and output is None
        is_leaf = feature == NO_SPLIT and threshold is None and left < 0 and right < 0 and output is not None
        if not (is_split or is_leaf):
            raise BadModelError("a node is neither a split nor a leaf")
        node[0], node[1], node[4] = max(feature, 0), threshold or 0.0, output or 0.0


ALLOWED = {("", "model"), ("split", "feature"), ("split", "threshold"), ("split", "output")}


def _refuse_types(*_: Any) -> None:
    raise BadModelError("it declares a document type")


def _single(text: str, name: str) -> float:
    with np.errstate(over="ignore"):
        found = np.float32(real(text, name))
    if not np.isfinite(found):
        raise BadModelError(f"{name} is beyond float32")
    return float(found)
