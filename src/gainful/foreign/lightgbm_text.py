"""LightGBM's model text. LightGBM itself scores it, once the text has been checked line by line.

The objective is left out where the score is a single sum, so that LightGBM gives that sum and not a probability made of
it; it stays for several classes, whose probabilities make the score.
"""

from __future__ import annotations

import re
from typing import Any

from gainful.data.categories import Categories, check_categories
from gainful.errors import shorten
from gainful.foreign.checks import MOST_FEATURES, BadModelError, count, feature_names, parse_json, without_repeats
from gainful.foreign.rankers import ImportedTrees
from gainful.rankers.base import Ranker

# What follows the trees says nothing about scores: importances, parameters, the categories of a frame.
TAIL = """end of trees

feature_importances:

parameters:
[boosting: gbdt]
[linear_tree: {linear}]

end of parameters

pandas_categorical:null
"""
END = "\nend of trees\n"
SECTION = re.compile(  # of what follows the trees; only the categories are read
    r"\n*(?:feature_importances:\n(?:.+=\d+(?:\n|$))*|(parameters|parser):\n(?:.*\n)*?end of \1(?:\n|$)"
    r"|pandas_categorical:(?P<frame>.*))\s*"
)
CODES = re.compile(r"-?\d+(?::-?\d+)*")  # the range of a feature of numbers is in brackets
SCALED = ("binary", "cross_entropy", "xentropy", "poisson", "gamma", "tweedie")  # predictions are a function of the sum


def read(raw: bytes) -> Ranker:
    text = raw.decode().replace("\r\n", "\n")
    trees, end, tail = text.partition(END)
    if not end:
        raise BadModelError("it is cut short, before the end of its trees")
    head, _, body = trees.partition("\n\n")
    header = without_repeats([line.partition("=")[::2] for line in head.split("\n")])
    n_features = count(header.get("max_feature_idx", ""), "max_feature_idx", 0, MOST_FEATURES - 1) + 1
    objective = header.get("objective", "")
    kind = objective.partition(" ")[0]
    if kind == "multiclassova":
        raise BadModelError("its objective multiclassova has one model per class; a ranker has one score")
    if kind != "multiclass":
        head = re.sub(r"\nobjective=[^\n]*", "", head)
    names = feature_names(header.get("feature_names", "").split(" "), n_features, "Column_{}", "f{}")
    words = _words(tail)
    notes = _notes(kind, objective, words)
    about = {"maker": "LightGBM", "objective": objective[:60] or "none", "notes": notes}
    rest = TAIL.format(linear=int("\nis_linear=1\n" in body))
    made = ImportedTrees.of_booster_text(f"{head}\n\n{body}\n{rest}", n_features, names, about)
    made.categories_ = _categories(header.get("feature_infos", "").split(" "), words, n_features)
    return made


def _words(tail: str) -> Any:
    """What the tail says about the categories of a frame, None if nothing. Unknown sections are refused."""
    at, frame = 0, "null"
    while section := SECTION.match(tail, at):
        at, frame = section.end(), section["frame"] or frame
    if rest := tail[at:].strip().splitlines():
        raise BadModelError(f"gainful does not know {shorten(rest[0], 40)} after its trees")
    return parse_json(frame.encode())


def _categories(infos: list[str], lists: Any, n_features: int) -> Categories | None:
    """The words of the features that were categories of a frame, which LightGBM lists in the order of its columns."""
    if not lists:
        return None
    if not isinstance(lists, list) or not all(isinstance(one, list) for one in lists):
        raise BadModelError("pandas_categorical is not a list of lists")
    held = [j for j, info in enumerate(infos) if CODES.fullmatch(info)]
    if len(held) != len(lists):  # categories with a single value have no codes here
        held = [j for j, info in enumerate(infos) if CODES.fullmatch(info) or info == "none"]
    if len(held) != len(lists):
        raise BadModelError(
            "it was trained on a frame with categories and does not say which features they are, since some features "
            "have a single value; train it without these"
        )
    words: list[list[str] | None] = [None] * n_features
    for j, one in zip(held, lists, strict=True):
        words[j] = [str(value) for value in one]
    return check_categories(words, n_features)


def _notes(kind: str, objective: str, words: Any) -> list[str]:
    notes = []
    if kind == "multiclass":
        notes.append("scores are expected classes, from the probabilities that LightGBM predicts")
    elif kind in SCALED or " sqrt" in objective:
        notes.append("scores are LightGBM's raw scores (raw_score=True), which rank as its predictions do")
    if words:
        notes.append("it was trained on a frame with categories: give their words, or their codes in an array")
    return notes
