"""All rankers by name. One line here makes a ranker known to the API, the command line, the contract tests and docs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from gainful.errors import UnknownNameError

if TYPE_CHECKING:
    from gainful.rankers.base import Ranker


@dataclass(frozen=True)
class RankerEntry:
    """A named ranker: its class, loaded on use, and the parameters the name presets."""

    name: str
    module: str
    class_name: str
    summary: str
    kind: str  # "linear", "trees", …
    params: Mapping[str, Any] = field(default_factory=dict)
    paper: str = ""

    @property
    def cls(self) -> type[Ranker]:
        return getattr(import_module(self.module), self.class_name)  # type: ignore[no-any-return]

    def create(self, **params: Any) -> Ranker:
        """An unfitted estimator with the preset parameters, overridden by ``params``."""
        known = self.cls.parameters
        for name in params:
            if name not in known:
                raise UnknownNameError.among(f"parameter of {self.name}", name, known)
        return self.cls(**{**self.params, **params})


class Registry(Mapping[str, RankerEntry]):
    """A read-only mapping from names to entries; :func:`ranker` refuses an unknown name with the nearest."""

    def __init__(self, *entries: RankerEntry):
        self._entries = {entry.name: entry for entry in entries}

    def __getitem__(self, name: str) -> RankerEntry:
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"RANKERS({', '.join(self)})"


CHAPELLE = "Chapelle, Le and Smola 2007, Large margin optimization of ranking measures"

RANKERS = Registry(
    RankerEntry(
        "regression",
        "gainful.rankers.regression",
        "RegressionRanker",
        "Ridge regression on the grades, or on the gains.",
        kind="linear",
    ),
    RankerEntry(
        "structured-svm",
        "gainful.rankers.structured_svm",
        "StructuredSVM",
        "Linear; large margin on NDCG@k itself, convex and certified.",
        kind="linear",
        paper=CHAPELLE,
    ),
    RankerEntry(
        "structured-svm-tight",
        "gainful.rankers.structured_svm",
        "StructuredSVM",
        "Linear; the tighter, non-convex bound of 1 − NDCG@k, started from ridge regression.",
        kind="linear",
        params={"bound": "tight", "C": 10.0},
        paper=CHAPELLE,
    ),
    RankerEntry(
        "structured-svm-slack",
        "gainful.rankers.structured_svm",
        "StructuredSVM",
        "Linear; structured SVM with slack rescaled by the loss.",
        kind="linear",
        params={"rescaling": "slack"},
        paper=CHAPELLE,
    ),
    RankerEntry(
        "structured-svm-kernel",
        "gainful.rankers.structured_kernel",
        "KernelStructuredSVM",
        "Structured SVM with kernels, exact or by Nyström landmarks.",
        kind="kernel",
        paper=CHAPELLE,
    ),
    RankerEntry(
        "svmmap",
        "gainful.rankers.structured_svm",
        "StructuredSVM",
        "Linear; large margin on average precision, convex and certified.",
        kind="linear",
        params={"metric": "map"},
        paper="Yue, Finley, Radlinski and Joachims 2007, A support vector method for optimizing average precision",
    ),
    RankerEntry(
        "lambdamart",
        "gainful.rankers.lambdamart",
        "LambdaMART",
        "Boosted trees on LightGBM's lambdarank gradients: today's yardstick.",
        kind="trees",
        paper="Burges 2010, From RankNet to LambdaRank to LambdaMART",
    ),
)


def ranker(name: str, **params: Any) -> Ranker:
    """An unfitted ranker by name; ``params`` override what the name presets.

    >>> import gainful
    >>> gainful.ranker("regression", alpha=10.0)
    RegressionRanker(alpha=10.0)
    """
    if name not in RANKERS:
        raise UnknownNameError.among("ranker", name, RANKERS)
    return RANKERS[name].create(**params)


def known_classes() -> dict[str, type[Ranker]]:
    """Class name → class, over the registry; a model file may name no other."""
    return {entry.class_name: entry.cls for entry in RANKERS.values()}
