"""Checks LightGBM's model text before LightGBM reads it.

LightGBM trusts its input: a child index out of range makes it read foreign memory, and a child that is its own ancestor
makes it loop for ever. :func:`check_booster_text` accepts only texts in which

- the header has the keys, counts and sizes that LightGBM writes, and the sizes are those of the trees that follow;
- every array of a tree has the length that follows from its leaves and categories, and holds finite numbers; only a
  threshold may be infinite, where a split separates all numbers from missing values;
- every node but the root is the child of exactly one node before it, so that a tree is a tree;
- split features, categories and the features of linear leaves exist;
- parameters are numbers where LightGBM expects numbers: it prints, and then raises, when it finds anything else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from gainful.errors import shorten

Ints = npt.NDArray[np.int64]

MOST_TREES = 10_000_000
MOST_LEAVES = 131_072
DEEPEST = 4_096  # LightGBM walks down by recursion, and its SHAP values take memory quadratic in the depth
LARGEST = 2**31 - 1

INTEGER_LETTERS, NUMBER_LETTERS, LONGEST_NUMBER = b"-0123456789 ", b"+-.0123456789e ", 40
OBJECTIVE = re.compile(rb"[a-z0-9_]{1,40}(?: [a-z_]{1,40}:[-+.0-9e]{1,30}| sqrt)*")
OBJECTIVES = {
    b"regression", b"regression_l1", b"huber", b"fair", b"poisson", b"quantile", b"mape", b"gamma", b"tweedie",
    b"multiclass", b"cross_entropy", b"cross_entropy_lambda", b"lambdarank",
    b"rank_xendcg", b"none", b"null", b"custom", b"na",
}  # fmt: skip
NAME = re.compile(rb"[^\x00-\x20\x7f]+")
INFO = re.compile(rb"none|\[[-+.0-9einfa]{1,40}:[-+.0-9einfa]{1,40}\]|-?[0-9]{1,10}(?::-?[0-9]{1,10})*")
IMPORTANCE = re.compile(rb"[!-~]{1,200}=[-+.0-9e]{1,40}")
TEXT_SETTINGS = (
    rb"boosting|objective|metric|tree_learner|device_type|data_sample_strategy|data|valid|monotone_constraints_method"
    rb"|interaction_constraints|categorical_feature|machines|gpu_device_id_list|[a-z]+_column|[a-z_]+_file(?:name)?"
)
NUMBER = rb"[-+]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?(?:e[-+]?[0-9]{1,5})?|inf|nan)"
SETTING = re.compile(
    rb"\[(?:(?:" + TEXT_SETTINGS + rb'): [^"\\\x00-\x1f]{0,1000000}'
    rb"|linear_tree: [01]"
    rb"|(?!linear_tree:)[a-z0-9_]{1,100}: (?:" + NUMBER + rb"(?:," + NUMBER + rb"){0,1000000})?)\]"
)

HEADER = {
    b"version", b"num_class", b"num_tree_per_iteration", b"label_index", b"max_feature_idx", b"objective",
    b"average_output", b"feature_names", b"monotone_constraints", b"feature_infos", b"tree_sizes",
}  # fmt: skip
NEEDED_HEADER = HEADER - {b"objective", b"average_output", b"monotone_constraints"}
NODE_NUMBERS = (b"split_gain", b"internal_value", b"internal_weight")
NODE_INTEGERS = (b"split_feature", b"decision_type", b"left_child", b"right_child", b"internal_count")
LEAF_NUMBERS, LEAF_INTEGERS = (b"leaf_value", b"leaf_weight"), (b"leaf_count",)
TREE = {b"num_leaves", b"num_cat", b"is_linear", b"shrinkage", b"threshold", *NODE_NUMBERS, *NODE_INTEGERS, *LEAF_NUMBERS, *LEAF_INTEGERS}  # fmt: skip # noqa: E501
CATEGORIES = {b"cat_boundaries", b"cat_threshold"}
LINEAR = {b"leaf_const", b"num_features", b"leaf_features", b"leaf_coeff"}
CATEGORICAL_BIT, HIGHEST_DECISION = 1, 11  # category, default left, and one of three kinds of missing values


class BadBoosterText(ValueError):
    """A text that LightGBM did not write."""


def check_booster_text(text: str, n_features: int) -> int:
    """The number of iterations in a text that LightGBM can read safely; any other raises :class:`BadBoosterText`."""
    raw = text.encode()
    head, blank, rest = raw.partition(b"\n\n")
    header = _header(head if blank else b"", n_features)
    sizes = _integers(header, b"tree_sizes")
    if len(sizes) > MOST_TREES or (sizes < 1).any() or int(sizes.sum()) > len(rest):
        raise BadBoosterText("the sizes of its trees are impossible")
    start = 0
    for place, size in enumerate(sizes.tolist()):
        _check_tree(rest[start : start + size], place, n_features)
        start += size
    _check_tail(rest[start:])
    if b"\nis_linear=1\n" in rest and b"\n[linear_tree: 1]\n" not in rest:
        raise BadBoosterText("its leaves are linear models and its parameters say that they are constants")
    per_iteration = int(header[b"num_tree_per_iteration"])
    if len(sizes) % per_iteration:
        raise BadBoosterText("its trees do not make whole iterations")
    return len(sizes) // per_iteration


# -- header and tail ---------------------------------------------------------------------------------------------------


def _header(head: bytes, n_features: int) -> dict[bytes, bytes]:
    first, _, lines = head.partition(b"\n")
    if first != b"tree":
        raise BadBoosterText("it does not begin as LightGBM's text does")
    header = _fields(lines.replace(b"\naverage_output\n", b"\naverage_output=\n"), HEADER, NEEDED_HEADER)
    if header[b"version"] not in (b"v3", b"v4"):
        raise BadBoosterText(f"it has the unknown version {shorten(header[b'version'].decode(), 40)}, not v3 or v4")
    classes, per_iteration = _count(header, b"num_class", 1), _count(header, b"num_tree_per_iteration", 1)
    if classes != per_iteration:
        raise BadBoosterText("its numbers of classes disagree")
    _count(header, b"label_index", 0)
    if _count(header, b"max_feature_idx", 0) + 1 != n_features:
        raise BadBoosterText("its trees are of another number of features")
    names, infos = header[b"feature_names"].split(b" "), header[b"feature_infos"].split(b" ")
    readable = all(NAME.fullmatch(name) for name in names) and all(INFO.fullmatch(info) for info in infos)
    if len(names) != n_features or len(infos) != n_features or not readable:
        raise BadBoosterText("its features do not fit their number")
    if len(_integers(header, b"monotone_constraints")) not in (0, n_features):
        raise BadBoosterText("its signs of features do not fit their number")
    _check_objective(header.get(b"objective"), classes)
    return header


def _check_objective(objective: bytes | None, classes: int) -> None:
    if objective is None:
        return
    if not OBJECTIVE.fullmatch(objective):
        raise BadBoosterText("its objective is not readable")
    kind, *settings = objective.split(b" ")
    if kind not in OBJECTIVES:
        raise BadBoosterText("its objective is unknown")
    given = [setting.partition(b":")[2] for setting in settings if setting.startswith(b"num_class:")]
    if kind.startswith(b"multiclass"):
        if given != [b"%d" % classes]:
            raise BadBoosterText("its numbers of classes disagree")
    elif given or classes != 1:
        raise BadBoosterText("its objective has one class, its trees have more")


def _check_tail(tail: bytes) -> None:
    """The text after the trees: importances, parameters, and the categories of a frame, which must be empty."""
    end, _, rest = tail.partition(b"\n\n")
    if end != b"end of trees":
        raise BadBoosterText("its trees do not end where their sizes say")
    importances, found, rest = rest.partition(b"\nparameters:\n")
    lines = importances.rstrip(b"\n").split(b"\n")
    if not found or lines[0] != b"feature_importances:" or not all(IMPORTANCE.fullmatch(one) for one in lines[1:]):
        raise BadBoosterText("its importances are not readable")
    settings, found, rest = rest.partition(b"\nend of parameters\n")
    if not found or not all(SETTING.fullmatch(line) for line in settings.rstrip(b"\n").split(b"\n")):
        raise BadBoosterText("its parameters are not readable")
    if rest.strip(b"\n") not in (b"pandas_categorical:null", b"pandas_categorical:[]", b""):
        raise BadBoosterText("something follows its parameters")


# -- trees -------------------------------------------------------------------------------------------------------------


def _check_tree(block: bytes, place: int, n_features: int) -> None:
    title, _, lines = block.partition(b"\n")
    if title != b"Tree=%d" % place or not lines.endswith(b"\n\n\n"):
        raise BadBoosterText(f"tree {place} does not stand where its size says")
    tree = _fields(lines.rstrip(b"\n"), TREE | CATEGORIES | LINEAR, TREE)
    n_leaves, n_cat = _count(tree, b"num_leaves", 1, MOST_LEAVES), _count(tree, b"num_cat", 0)
    arrays = {name: _integers(tree, name, n_leaves - 1) for name in NODE_INTEGERS}
    for name in NODE_NUMBERS:
        _numbers(tree, name, n_leaves - 1)
    thresholds = _thresholds(tree, n_leaves - 1)
    for name in LEAF_NUMBERS:
        _numbers(tree, name, n_leaves, empty=n_leaves == 1)
    for name in LEAF_INTEGERS:
        _integers(tree, name, n_leaves, empty=n_leaves == 1)
    _numbers(tree, b"shrinkage", 1)
    features = arrays[b"split_feature"]
    if len(features) and not 0 <= features.min() <= features.max() < n_features:
        raise BadBoosterText(f"tree {place} splits a feature that is not there")
    check_children(arrays[b"left_child"], arrays[b"right_child"], n_leaves, f"tree {place}")
    _check_decisions(tree, arrays[b"decision_type"], thresholds, n_cat, place)
    _check_linear(tree, n_leaves, n_features, place)


def check_children(left: Ints, right: Ints, n_leaves: int, tree: str) -> None:
    """Children come after their parents, and everything but the root is a child once: then there are no circles."""
    if n_leaves == 1:
        return
    children, parents = np.concatenate([left, right]), np.tile(np.arange(n_leaves - 1), 2)
    inner = children >= 0
    wanted = np.concatenate([np.arange(-n_leaves, 0), np.arange(1, n_leaves - 1)])
    if (children[inner] <= parents[inner]).any() or not np.array_equal(np.sort(children), wanted):
        raise BadBoosterText(f"the nodes of {tree} do not make a tree")
    if n_leaves > DEEPEST and tree_depth(left.tolist(), right.tolist()) > DEEPEST:
        raise BadBoosterText(f"{tree} is deeper than {DEEPEST:,}")


def tree_depth(left: list[int], right: list[int]) -> int:
    """The number of splits on the longest path, where children come after their parents."""
    depth = [1] * len(left)
    for node, children in enumerate(zip(left, right, strict=True)):
        for child in children:
            if child >= 0:
                depth[child] = depth[node] + 1
    return max(depth)


def _check_decisions(tree: Mapping[bytes, bytes], decisions: Ints, thresholds: Any, n_cat: int, place: int) -> None:
    if len(decisions) and not 0 <= decisions.min() <= decisions.max() <= HIGHEST_DECISION:
        raise BadBoosterText(f"tree {place} has an unknown kind of split")
    by_category = thresholds[(decisions & CATEGORICAL_BIT) > 0]
    if n_cat == 0:
        if len(by_category) or CATEGORIES & set(tree):
            raise BadBoosterText(f"tree {place} says that it has no categories, and has some")
        return
    borders = _integers(tree, b"cat_boundaries", n_cat + 1)
    sets = _integers(tree, b"cat_threshold", None, high=2**32 - 1)
    if borders[0] != 0 or (np.diff(borders) < 0).any() or borders[-1] != len(sets) or (sets < 0).any():
        raise BadBoosterText(f"the categories of tree {place} do not fit together")
    whole = by_category == np.floor(by_category)
    if not (whole & (by_category >= 0) & (by_category < n_cat)).all():
        raise BadBoosterText(f"tree {place} splits by categories that are not there")


def _check_linear(tree: Mapping[bytes, bytes], n_leaves: int, n_features: int, place: int) -> None:
    if tree[b"is_linear"] == b"0":
        if LINEAR & set(tree):
            raise BadBoosterText(f"tree {place} says that its leaves are constants, and has others")
        return
    if tree[b"is_linear"] != b"1":
        raise BadBoosterText(f"tree {place} does not say whether its leaves are constants")
    spaced = {name: b" ".join(tree.get(name, b"").split()) for name in LINEAR}  # extra spaces separate leaves
    _numbers(spaced, b"leaf_const", n_leaves)
    counts = _integers(spaced, b"num_features", n_leaves)
    features = _integers(spaced, b"leaf_features", None)
    _numbers(spaced, b"leaf_coeff", len(features))
    if (counts < 0).any() or counts.sum() != len(features) or ((features < 0) | (features >= n_features)).any():
        raise BadBoosterText(f"the leaves of tree {place} have features that are not there")


# -- lines -------------------------------------------------------------------------------------------------------------


def _fields(lines: bytes, known: set[bytes], needed: set[bytes]) -> dict[bytes, bytes]:
    """``key=value`` of each line; every key once."""
    fields: dict[bytes, bytes] = {}
    for line in lines.split(b"\n"):
        key, equals, value = line.partition(b"=")
        if not equals or key not in known or key in fields:
            raise BadBoosterText(f"the line {shorten(key.decode(), 40)} is unknown, or there twice")
        fields[key] = value
    if not needed <= set(fields):
        raise BadBoosterText(f"it has no line {min(needed - set(fields)).decode()!r}")
    return fields


def _count(fields: Mapping[bytes, bytes], name: bytes, low: int, high: int = LARGEST) -> int:
    text = fields[name]
    if not text.isdigit() or len(text) > 10 or not low <= int(text) <= high:
        raise BadBoosterText(f"{name.decode()} is not a number from {low:,} to {high:,}")
    return int(text)


def _integers(
    fields: Mapping[bytes, bytes], name: bytes, size: int | None = None, *, empty: bool = False, high: int = LARGEST
) -> Ints:
    values: Ints = _parse_numbers(fields.get(name, b""), name, INTEGER_LETTERS, np.int64)
    if len(values) and not -high - 1 <= values.min() <= values.max() <= high:
        raise BadBoosterText(f"{name.decode()} holds numbers out of range")
    _check_size(values, name, size, empty)
    return values


def _numbers(fields: Mapping[bytes, bytes], name: bytes, size: int, *, empty: bool = False) -> Any:
    values = _parse_numbers(fields.get(name, b""), name, NUMBER_LETTERS, np.float64)
    if not np.isfinite(values).all():
        raise BadBoosterText(f"{name.decode()} holds an infinite number")
    _check_size(values, name, size, empty)
    return values


def _thresholds(fields: Mapping[bytes, bytes], size: int) -> Any:
    """Numbers, or ``inf`` where all numbers go left and missing values right."""
    words = fields[b"threshold"].split(b" ")
    infinite = np.array([word == b"inf" for word in words])
    finite = b" ".join(b"0" if word == b"inf" else word for word in words)
    values = _numbers({b"threshold": finite}, b"threshold", size)
    return np.where(infinite, np.inf, values) if size else values


def _parse_numbers(text: bytes, name: bytes, letters: bytes, dtype: type) -> Any:
    """The numbers of a line, separated by single spaces."""
    words = text.split(b" ") if text else []
    if text.translate(None, letters) or max(map(len, words), default=0) > LONGEST_NUMBER:
        raise BadBoosterText(f"{name.decode()} does not hold numbers of its kind")
    try:
        return np.fromiter(map(int if dtype is np.int64 else float, words), dtype, len(words))
    except (ValueError, OverflowError):
        raise BadBoosterText(f"{name.decode()} does not hold numbers of its kind") from None


def _check_size(values: Any, name: bytes, size: int | None, empty: bool) -> None:
    if size is not None and len(values) != size and not (empty and len(values) == 0):
        raise BadBoosterText(f"{name.decode()} has {len(values):,} values instead of {size:,}")
