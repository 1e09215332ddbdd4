"""RankLib's text format for LambdaMART models: a header, then an ensemble of trees in XML.

Features are numbered from 1 in the order of the feature set. A value goes left if it is ≤ threshold in float32; a
missing one is 0. RankLib's parser takes the first child of an element as its content, whatever it is, so there must be
no whitespace between elements.
"""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import numpy as np

from gainful.data.rows import Array
from gainful.exports.floats import below, text
from gainful.exports.formats import nest
from gainful.exports.walk import Nodes, Split, flatten
from gainful.rankers.ensembles import Ensemble, Tree


def text_of(ensemble: Ensemble) -> str:
    trees = ensemble.trees
    header = [
        "## LambdaMART",
        f"## No. of trees = {len(trees)}",
        f"## No. of leaves = {max(len(tree.leaves) for tree in trees)}",
        "## No. of threshold candidates = -1",
        "## Learning rate = 1.0",
        "## Stop early = 0",
    ]
    lines = [f'<tree id="{place + 1}" weight="1.0">{_xml(tree)}</tree>' for place, tree in enumerate(trees)]
    return "\n".join([*header, "", "<ensemble>", *lines, "</ensemble>", ""])


def _xml(tree: Tree) -> str:
    thresholds = below(tree.threshold)

    def split(place: int, left: str, right: str) -> str:
        return (
            f"<feature>{int(tree.feature[place]) + 1}</feature><threshold>{text(thresholds[place])}</threshold>"
            f'<split pos="left">{left}</split><split pos="right">{right}</split>'
        )

    return f"<split>{nest(tree, lambda leaf: f'<output>{text(tree.leaves[leaf])}</output>', split)}</split>"


# -- reading by RankLib's rules ----------------------------------------------------------------------------------------


def scores(model: str, X: Array) -> Array:
    """The sum of weight · output, rounded to float32 after each tree."""
    lines = [line for line in model.split("\n") if not line.startswith("#")]
    root = ElementTree.fromstring("".join(lines))
    values = np.where(np.isnan(X), 0.0, X).astype(np.float32)
    total = np.zeros(len(X), dtype=np.float32)
    for tree in root.iter("tree"):
        nodes = _nodes(tree[0])

        def decide(x: Array, at: Array, nodes: Nodes = nodes) -> Array:
            return np.asarray(x <= nodes.threshold[at])

        outputs = nodes.outputs(values, decide).astype(np.float64)
        total = (total + outputs * float(np.float32(tree.get("weight")))).astype(np.float32)
    return total


def _nodes(root: Any) -> Nodes:
    def read(node: Any) -> Split | np.float32:
        if node[0].tag == "output":
            return np.float32(node[0].text)
        feature, threshold, left, right = node
        return Split(int(feature.text) - 1, np.float32(threshold.text), False, left, right)

    return flatten(root, read, np.float32)
