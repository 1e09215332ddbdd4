"""The contestants, one line each. Each group has one reference, to which all its ratios refer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from peers.settings import SVM_C


@dataclass(frozen=True)
class Contestant:
    """A ranker of a library: the function in ``adapters/`` that fits it, and its settings."""

    name: str
    maker: str  # the file of its adapter; except for ours, also the library's module
    group: str
    function: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    smoke: bool = False  # takes part in the smoke run

    @property
    def installed(self) -> bool:
        return self.maker == "ours" or find_spec(self.maker) is not None

    @property
    def key(self) -> str:
        """For file names and the command line."""
        return "-".join(self.name.lower().replace(":", " ").replace(",", " ").split())


def _trees(name: str, smoke: bool = False, **settings: Any) -> Contestant:
    label = f"gainful {name}" + (f" {settings['loss']}" if "loss" in settings else "")
    return Contestant(label, "ours", "trees", "trees", {"name": name, **settings}, smoke)


def _linear(name: str, smoke: bool = False, label: str = "", **settings: Any) -> Contestant:
    return Contestant(f"gainful {label or name}", "ours", "linear", "linear", {"name": name, **settings}, smoke)


REFERENCE = {"trees": "LightGBM lambdarank", "linear": "scikit-learn LinearSVC on pairs"}
GROUPS = {"trees": "Boosted trees", "linear": "Linear rankers"}

CONTESTANTS = (
    Contestant("LightGBM lambdarank", "lightgbm", "trees", "trees", {"objective": "lambdarank"}, smoke=True),
    Contestant("LightGBM rank_xendcg", "lightgbm", "trees", "trees", {"objective": "rank_xendcg"}),
    Contestant("XGBoost rank:ndcg", "xgboost", "trees", "trees", {"objective": "rank:ndcg"}, smoke=True),
    Contestant("XGBoost rank:pairwise", "xgboost", "trees", "trees", {"objective": "rank:pairwise"}),
    Contestant("CatBoost YetiRank", "catboost", "trees", "trees", {"loss": "YetiRank", "shape": "symmetric"}),
    Contestant("CatBoost YetiRank, by leaf", "catboost", "trees", "trees", {"loss": "YetiRank", "shape": "by leaf"}),
    Contestant("CatBoost QueryRMSE", "catboost", "trees", "trees", {"loss": "QueryRMSE", "shape": "symmetric"}, True),
    Contestant("scikit-learn HistGradientBoosting", "sklearn", "trees", "trees", smoke=True),
    Contestant("fastrank random forest", "fastrank", "trees", "forest"),
    Contestant("pyltr LambdaMART", "pyltr", "trees", "trees", smoke=True),
    _trees("lambdamart", smoke=True),
    _trees("lambdamart-plain"),
    _trees("boosted", loss="xendcg"),
    _trees("boosted", loss="listnet"),
    _trees("boosted", loss="ranknet"),
    _trees("gbrank"),
    _trees("structured-boost"),
    _trees("shf-sdcg"),
    _trees("tree-regression"),
    _trees("mcrank"),
    _trees("mcrank-ordinal"),
    Contestant("scikit-learn LinearSVC on pairs", "sklearn", "linear", "pairs_svm", smoke=True),
    Contestant("scikit-learn Ridge", "sklearn", "linear", "ridge"),
    Contestant("fastrank coordinate ascent", "fastrank", "linear", "ascent", smoke=True),
    Contestant("gainful regression", "ours", "linear", "closed_form", {"name": "regression"}),
    Contestant("gainful coordinate-ascent", "ours", "linear", "ascent"),
    _linear("ranksvm", smoke=True, label="ranksvm, squared hinge", loss="squared-hinge", C=SVM_C),
    _linear("ranksvm", C=SVM_C),
    _linear("listnet", early_stopping=None),
    _linear("lambdarank", early_stopping=None),
    _linear("structured-svm", C=SVM_C),
    _linear("structured-svm-tight"),
    _linear("rankmm-1", C=SVM_C),
    _linear("rsrank", early_stopping=None),
)  # fmt: skip
BY_KEY = {one.key: one for one in CONTESTANTS}
