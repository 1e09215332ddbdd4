"""Which rankers to try, in which order and with which settings, by the size and kind of the data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gainful.blending.growth import Growth
from gainful.data.dataset import RankingData
from gainful.parameters.space import IntRange, Range, Space
from gainful.rankers.registry import RANKERS
from gainful.rankers.specs import spec_text

MANY_GRADES = 12  # from here on, a tree per grade costs more than it gives
LONG_QUERY = 10_000  # LightGBM's limit for lambdarank
MANY_ROWS = 200_000  # from here on, trees may be larger
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

    @property
    def key(self) -> str:
        return spec_text(self.name, self.settings)

    @property
    def trees(self) -> bool:
        return RANKERS[self.name].kind == "trees"


def _family(name: str, **settings: Any) -> Family:
    return Family(name, settings)


# In the order of trial: different in kind, good and cheap first. The first one takes no time, so that there is a model.
ORDER = (
    _family("regression"),
    _family("lambdamart"),
    _family("mcrank"),
    _family("tree-regression"),
    _family("boosted", loss="xendcg"),
    _family("listnet"),
    _family("boosted", loss="centred-squared"),
    _family("lambdarank"),
    _family("mcrank-ordinal"),
    _family("mcrank-regression"),
    _family("boosted", loss="ranknet"),
    _family("boosted", loss="listnet"),
    _family("gbrank"),
    _family("ranksvm"),
    _family("rsrank"),
    _family("structured-boost"),
    _family("softrank"),
    _family("coordinate-ascent"),
    _family("structured-svm"),
    _family("adarank-ndcg"),
)
EARLY = 10  # families tried once before further settings of the leading ones are
SETTLED = ("rsrank", "adarank-ndcg", "coordinate-ascent")  # tried once: nothing worth drawing is left to choose


TREE_PER_GRADE = ("mcrank", "mcrank-ordinal")


def families(facts: DataFacts, names: Sequence[str] | None = None, growth: Growth | None = None) -> list[Family]:
    """The families that suit the data and the time, in the order of trial; of these ``names`` only, if given."""
    found = []
    for family in ORDER:
        entry = RANKERS[family.name]
        too_slow = not family.trees and family.name not in ("regression", "listnet") and facts.n_features > WIDE
        if (
            (names is not None and family.name not in names)
            or (facts.missing and not entry.cls.accepts_missing)
            or (facts.categories and not entry.cls.accepts_categories)
            or (facts.weighted_documents and not entry.create(**family.settings)._weighs_documents())
            or (facts.blockwise and not entry.cls.accepts_shards)
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


def tree_space(facts: DataFacts) -> Space:
    """Where the settings of trees are drawn from."""
    leaves = min(128.0, max(8.0, facts.n_rows ** (0.25 if facts.n_rows < MANY_ROWS else 1 / 3)))
    fewest = min(20, max(2, facts.n_rows // 200)) if facts.n_rows < MANY_ROWS else 60
    return {
        "learning_rate": Range(0.03, 0.1, log=True),
        "n_leaves": IntRange(max(4, round(leaves / 2)), round(1.5 * leaves), log=True),
        "min_docs_in_leaf": IntRange(fewest, 5 * fewest, log=True),
        "colsample": Range(0.3, 0.7),
        "subsample": Range(0.6, 0.8),
        "l2": Range(0.1, 30.0, log=True),
    }


def first_guess(family: Family, facts: DataFacts, growth: Growth) -> dict[str, Any]:
    """Settings to try first: the middle of the range for trees, the defaults for others."""
    if not family.trees:
        return dict(family.settings)
    middle = {name: dimension.at(0.5) for name, dimension in tree_space(facts).items()}
    return {**middle, **growth.settings(middle["learning_rate"]), **family.settings}


def draw(family: Family, facts: DataFacts, growth: Growth, generator: np.random.Generator) -> dict[str, Any]:
    """Random settings."""
    space = (
        tree_space(facts)
        if family.trees
        else {
            name: dimension
            for name, dimension in RANKERS[family.name].create(**family.settings)._search_space().items()
            if family.name not in SETTLED
        }
    )
    drawn = {name: dimension.at(float(generator.random())) for name, dimension in space.items()}
    return {**drawn, **(growth.settings(drawn["learning_rate"]) if family.trees else {}), **family.settings}


def next_family(
    families: Sequence[Family], below: Mapping[str, float], generator: np.random.Generator
) -> Family | None:
    """A family at random: the fewer standard errors its best member lies ``below`` the best of all, the likelier.

    None if all were tried once and have no settings to draw.
    """
    open_ones = [family for family in families if family.name not in SETTLED]
    if not open_ones:
        return None
    shares = np.array([math.exp(-min(below.get(family.key, 1.0), 30.0)) for family in open_ones])
    return open_ones[int(generator.choice(len(open_ones), p=shares / shares.sum()))]
