"""Linear models as text: SVMrank and SVM-light, LIBLINEAR, and lists of names and weights (JSON, CSV)."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from gainful.errors import shorten
from gainful.foreign.checks import MOST_FEATURES, BadModelError, count, real, without_repeats
from gainful.foreign.members import check_members, notes_on_version, table
from gainful.foreign.rankers import ImportedLinear
from gainful.rankers.base import Ranker

INTERCEPT = ("intercept", "(intercept)", "bias")
ROW = re.compile(rb"\s*(\"(?:[^\"\r\n]|\"\")+\"|[^,\"\r\n]+),\s*([-+.0-9eE]+|\"?weight\"?|\"?coef\"?)\s*(\r?\n|$)")
CLASSIFIERS = ("L2R_LR", "L2R_L2LOSS_SVC_DUAL", "L2R_L2LOSS_SVC", "L2R_L1LOSS_SVC_DUAL", "L1R_L2LOSS_SVC", "L1R_LR", "L2R_LR_DUAL")  # fmt: skip # noqa: E501
LIBLINEAR_HEAD = table("solver_type nr_class label nr_feature bias")
REGRESSORS = ("L2R_L2LOSS_SVR", "L2R_L2LOSS_SVR_DUAL", "L2R_L1LOSS_SVR_DUAL")


# -- SVM-light ---------------------------------------------------------------------------------------------------------


def read_svm_light(raw: bytes) -> Ranker:
    """Σ_i a_i ⟨s_i, x⟩ − b over the support vectors s_i; SVMrank writes a single one, the weights."""
    lines = iter(raw.decode().splitlines())
    version = next(lines).strip()
    values = [next(lines, "").partition("#")[0].strip() for _ in range(10)]
    if values[0] != "0":
        raise BadModelError(f"it has the kernel {shorten(values[0], 20)}; only the linear kernel, 0, can be read")
    for value, name in zip(values[1:5], "dgsr", strict=True):  # of other kernels
        real(value, f"the kernel's parameter -{name}")
    n_features = count(values[6], "the highest feature", 1, MOST_FEATURES)
    n_vectors = count(values[8], "the number of support vectors", 1, 2**31) - 1
    threshold = real(values[9], "the threshold")
    weights, found = np.zeros(n_features), 0
    for line in lines:
        words = line.partition("#")[0].split()
        if not words:
            continue
        factor = real(words[0], "the factor of a support vector")
        for word in words[1:]:
            fid, _, value = word.partition(":")
            place = count(fid, f"a feature, {shorten(fid, 40)},", 1, n_features)
            weights[place - 1] += factor * real(value, f"feature {place} of a support vector")
        found += 1
    if found != n_vectors:
        raise BadModelError(f"it has {found:,} support vectors, and says that it has {n_vectors:,}")
    notes = notes_on_version("SVM-light", shorten(version.removeprefix("SVM-light Version "), 40)[1:-1])
    about = {"maker": shorten(version, 40)[1:-1], "objective": "linear kernel", "notes": notes}
    return ImportedLinear.of_weights(weights, -threshold, None, about, open_ended=True)


# -- LIBLINEAR ---------------------------------------------------------------------------------------------------------


def read_liblinear(raw: bytes) -> Ranker:
    """The decision value for the higher of two labels, or the prediction of a regression."""
    head, mark, body = raw.decode().partition("\nw\n")
    if not mark:
        raise BadModelError("it has no weights")
    fields = without_repeats([line.partition(" ")[::2] for line in head.splitlines()])
    check_members("LIBLINEAR", fields, LIBLINEAR_HEAD)
    solver = fields.get("solver_type", "")
    n_features = count(fields.get("nr_feature", ""), "nr_feature", 1, MOST_FEATURES)
    if solver not in (*CLASSIFIERS, *REGRESSORS) or fields.get("nr_class") != "2":
        raise BadModelError(
            f"it is of {shorten(fields.get('nr_class'), 20)} classes by {shorten(solver, 40)}; two classes and "
            "regressions can be read"
        )
    bias = real(fields.get("bias", "-1"), "bias")
    words = body.split()
    if len(words) != n_features + (bias >= 0):
        raise BadModelError(f"it has {len(words):,} weights instead of {n_features + (bias >= 0):,}")
    weights = np.array([real(word, "a weight") for word in words])
    if solver in CLASSIFIERS:
        labels = [real(label, "a label") for label in fields.get("label", "").split()]
        if len(set(labels)) != 2 or len(labels) != 2:
            raise BadModelError("it does not name two labels that differ")
        weights = weights if labels[0] > labels[1] else -weights
    intercept = float(weights[-1] * bias) if bias >= 0 else 0.0
    about = {"maker": "LIBLINEAR", "objective": solver}
    return ImportedLinear.of_weights(weights[:n_features], intercept, None, about, open_ended=True)


# -- names and weights -------------------------------------------------------------------------------------------------


def of_mapping(weights: Mapping[str, Any]) -> Ranker:
    """An object of names and weights."""
    if not weights:
        raise BadModelError("it has no weights")
    if any(isinstance(value, (bool, str)) for value in weights.values()):
        raise BadModelError("a weight is not a number")
    return _by_name([(name, real(value, f"the weight of {shorten(name, 40)}")) for name, value in weights.items()])


def read_csv(raw: bytes) -> Ranker:
    """Rows ``name,weight``; the first may be a heading."""
    found = list(_rows(raw.decode()))
    if not found:
        raise BadModelError("it has no weights")
    return _by_name(found)


def _rows(text: str) -> Iterator[tuple[str, float]]:
    for number, row in enumerate(csv.reader(text.splitlines(), skipinitialspace=True, strict=True), 1):
        if not row:
            continue
        if len(row) != 2 or not row[0].strip():
            raise BadModelError(f"line {number} is not a name and a weight")
        if number > 1 or row[1].strip() not in ("weight", "coef"):
            yield row[0].strip(), real(row[1], f"the weight in line {number}")


def _by_name(pairs: list[tuple[str, float]]) -> Ranker:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise BadModelError(f"it has the name {shorten(name, 40)} twice")
        seen.add(name)
    intercept = sum(weight for name, weight in pairs if name.lower() in INTERCEPT)
    kept = [(name, weight) for name, weight in pairs if name.lower() not in INTERCEPT]
    if not kept:
        raise BadModelError("it has no weights of features")
    weights = np.array([weight for _, weight in kept])
    return ImportedLinear.of_weights(weights, intercept, [name for name, _ in kept], {"maker": "a list of weights"})
