"""Which rankers to try, in which order and with which settings, by the size and kind of the data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gainful.blending.growth import Growth
from gainful.blending.members import Member
from gainful.blending.weights import best_member
from gainful.data.dataset import RankingData
from gainful.data.rows import Array
from gainful.parameters.space import IntRange, Range, Space
from gainful.rankers.base import Ranker
from gainful.rankers.registry import RANKERS, ranker
from gainful.rankers.specs import ranker_from_spec, spec_text
from gainful.rankers.trees import TreeRanker

MANY_GRADES = 12  # from here on, a tree per grade costs more than it gives
LONG_QUERY = 10_000  # LightGBM's limit for lambdarank
TREE_SETTINGS = ("learning_rate", "n_leaves", "min_docs_in_leaf", "colsample", "subsample", "l2")
Settings = dict[str, Any]
WIDE = 2_000  # features, beyond which most linear solvers are slow


@dataclass(frozen=True)
class DataFacts:
    """What the choice of rankers depends on."""

    n_rows: int
    n_features: int
    n_grades: int
    longest: int
    missing: bool
    blockwise: bool  # mapped from a file: rows are not to be copied
    categories: bool = False  # features that hold text
    weighted_documents: bool = False

    @classmethod
    def of(cls, data: RankingData, blockwise: bool) -> DataFacts:
        return cls(
            data.n_rows,
            data.n_features,
            len(np.unique(data.y)),
            data.longest,
            data.has_missing,
            blockwise,
            data.categories is not None,
            data.has_document_weights,
        )


@dataclass(frozen=True)
class Family:
    """One way to rank: a registered name with fixed settings; ``name`` stands for it in random choices."""

    name: str
    settings: Mapping[str, Any]
    large: bool = False  # whether its trees are large ones, if nothing is known yet

    @property
    def key(self) -> str:
        return spec_text(self.name, self.settings)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the ranker, and of the one it starts from."""
        return (self.name, self.settings["init"]) if "init" in self.settings else (self.name,)

    def rankers(self) -> list[Ranker]:
        first, *others = self.names
        return [ranker(first, **self.settings), *map(ranker, others)]

    @property
    def trees(self) -> bool:
        return RANKERS[self.name].kind == "trees"


def _family(name: str, *, large: bool = False, **settings: Any) -> Family:
    return Family(name, settings, large)


# In the order of trial: different in kind, good and cheap first. The first one takes no time, so that there is a model;
# then small trees and large ones, of which later ones take the better. Trees that start from a linear model are better
# alone; those that do not are more different from the linear ones.
ORDER = (
    _family("regression"),
    _family("tree-regression"),
    _family("tree-regression", large=True),
    _family("listnet"),
    _family("lambdamart"),
    _family("boosted", loss="xendcg", init="listnet"),
    _family("boosted", loss="ranknet", init="listnet"),
    _family("mcrank"),
    _family("lambdarank"),
    _family("boosted", loss="xendcg"),
    _family("lambdamart", init="listnet"),
    _family("boosted", loss="centred-squared"),
    _family("tree-regression", init="regression"),
    _family("boosted", loss="ranknet"),
    _family("mcrank-ordinal"),
    _family("mcrank-regression"),
    _family("boosted", loss="listnet"),
    _family("gbrank"),
    _family("ranksvm"),
    _family("rsrank"),
    _family("structured-boost"),
    _family("softrank"),
    _family("coordinate-ascent"),
    _family("structured-svm-tight"),
    _family("adarank-ndcg"),
)
# With time to train a few rankers once, those that need no second look at their settings.
HASTY = (
    _family("regression"),
    _family("boosted", loss="centred-squared"),
    _family("boosted", loss="ranknet"),
    _family("lambdamart"),
    _family("boosted", loss="xendcg"),
    _family("tree-regression"),
    _family("boosted", loss="listnet"),
    _family("gbrank"),
    _family("listnet"),
    _family("lambdarank"),
    _family("ranksvm"),
)
EARLY = 12  # families tried once before further settings of the leading ones are
SETTLED = ("rsrank", "adarank-ndcg", "coordinate-ascent")  # tried once: nothing worth drawing is left to choose


TREE_PER_GRADE = ("mcrank", "mcrank-ordinal")


def families(facts: DataFacts, names: Sequence[str] | None = None, growth: Growth | None = None) -> list[Family]:
    """The families that suit the data and the time, in the order of trial; of these ``names`` only, if given."""
    order = ORDER if growth is None or growth.bagged or names is not None else HASTY  # names may not be among those
    found = []
    for family in order:
        rankers = family.rankers()
        too_slow = not family.trees and family.name not in ("regression", "listnet") and facts.n_features > WIDE
        if (
            (names is not None and not {*family.names} <= {*names})
            or (facts.missing and not all(one.accepts_missing for one in rankers))
            or (facts.categories and not all(one.accepts_categories for one in rankers))
            or (facts.weighted_documents and not all(one._weighs_documents() for one in rankers))
            or (facts.blockwise and (len(rankers) > 1 or not rankers[0].accepts_shards))
            or (family.name == "lambdamart" and facts.longest > LONG_QUERY)
            or (family.name in TREE_PER_GRADE and facts.n_grades > MANY_GRADES)
            or (family.name in TREE_PER_GRADE and names is None and growth is not None and not growth.roomy)
            or too_slow
        ):
            continue
        found.append(family)
    if names is not None:
        known = {family.name for family in ORDER}
        found += [Family(name, {}) for name in names if name not in known]
    return found


def small_trees(facts: DataFacts) -> Settings:
    """What suits noisy grades, as those of people are."""
    return {
        "learning_rate": 0.055,
        "n_leaves": round(min(64.0, max(8.0, facts.n_rows**0.25))),
        "min_docs_in_leaf": min(45, max(2, facts.n_rows // 100)),
        "colsample": 0.5,
        "subsample": 0.7,
        "l2": 1.7,
    }


def sizes_of_trees(facts: DataFacts) -> list[int]:
    """Numbers of leaves to choose from, where there is time to try few settings."""
    return sorted({8, small_trees(facts)["n_leaves"], large_trees(facts)["n_leaves"]})


def large_trees(facts: DataFacts) -> Settings:
    """What suits grades that follow from the features."""
    return {
        "learning_rate": 0.1,
        "n_leaves": round(min(128.0, max(15.0, facts.n_rows ** (1 / 3)))),
        "min_docs_in_leaf": min(20, max(2, facts.n_rows // 500)),
        "colsample": 0.8,
        "subsample": 0.9,
        "l2": 0.1,
    }


def space_around(centre: Settings) -> Space:
    """Settings of trees near those that have done well."""
    leaves, fewest, columns, rows = (
        centre[name] for name in ("n_leaves", "min_docs_in_leaf", "colsample", "subsample")
    )
    return {
        "learning_rate": Range(0.6 * centre["learning_rate"], 1.6 * centre["learning_rate"], log=True),
        "n_leaves": IntRange(max(3, leaves // 2), max(4, 2 * leaves), log=True),
        "min_docs_in_leaf": IntRange(max(1, fewest // 2), max(2, 2 * fewest), log=True),
        "colsample": Range(max(0.25, columns - 0.25), min(1.0, columns + 0.25)),
        "subsample": Range(max(0.5, rows - 0.15), min(1.0, rows + 0.15)),
        "l2": Range(centre["l2"] / 10.0, centre["l2"] * 10.0, log=True),
    }


def centre_of(members: Sequence[Member], query_weights: Array | None) -> Settings | None:
    """The settings of the best trees so far; None before there are any."""
    trees = [
        (one, ranker)
        for one in members
        if np.isfinite(one.kept_values).any() and isinstance(ranker := ranker_from_spec(one.spec), TreeRanker)
    ]
    if not trees:
        return None
    _, best = trees[best_member(np.array([one.kept_values for one, _ in trees]), query_weights)]
    found = {name: getattr(best, name) for name in TREE_SETTINGS}
    return found | {"l2": max(found["l2"], 1e-2), "min_docs_in_leaf": max(found["min_docs_in_leaf"], 1)}


def first_guess(family: Family, facts: DataFacts, growth: Growth, centre: Settings | None = None) -> dict[str, Any]:
    """Settings to try first: those of the best trees so far, the defaults for others."""
    if not family.trees:
        return dict(family.settings)
    if family.large or centre is None:
        centre = large_trees(facts) if family.large else small_trees(facts)
        centre |= {} if growth.n_leaves is None else {"n_leaves": growth.n_leaves}
        return {**centre, **growth.first(centre["learning_rate"]), **family.settings}
    return {**centre, **growth.next(centre["learning_rate"]), **family.settings}


def draw(
    family: Family, facts: DataFacts, growth: Growth, generator: np.random.Generator, centre: Settings | None = None
) -> dict[str, Any]:
    """Random settings, of trees near the best so far."""
    if family.trees:
        space = space_around(centre or small_trees(facts))
    elif family.name in SETTLED:
        space = {}
    else:
        space = RANKERS[family.name].create(**family.settings)._search_space()
    drawn = {name: dimension.at(float(generator.random())) for name, dimension in space.items()}
    grown = {} if not family.trees else (growth.next if centre else growth.first)(drawn["learning_rate"])
    return {**drawn, **grown, **family.settings}


def next_family(
    families: Sequence[Family], below: Mapping[str, float], generator: np.random.Generator
) -> Family | None:
    """A family at random: the fewer standard errors its best member lies ``below`` the best of all, the likelier.

    None if all were tried once and have no settings to draw.
    """
    open_ones = [family for family in families if family.name not in SETTLED and not family.large]
    if not open_ones:
        return None
    shares = np.array([math.exp(-min(below.get(family.key, 1.0), 30.0)) for family in open_ones])
    return open_ones[int(generator.choice(len(open_ones), p=shares / shares.sum()))]
