"""The ranker whose scores trees start from: the parameter ``init`` of tree rankers."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gainful.compute.estimators import clone
from gainful.data.checks import skip_checks
from gainful.data.dataset import RankingData
from gainful.errors import DataError, ParameterError
from gainful.metrics import metric
from gainful.parameters.constraints import Constraint
from gainful.rankers.base import Ranker
from gainful.training.monitor import Monitor, part_of_a_fit
from gainful.training.shared_setup import share

STATE = "init_"  # what the names of its state in a model file begin with


@dataclass(frozen=True)
class RankerSpec(Constraint):
    """A ranker, or a text such as "listnet"; with settings in brackets: "[ranksvm:C=10]"."""

    def accepts(self, value: Any) -> bool:
        return isinstance(value, Ranker) or (isinstance(value, str) and bool(value.strip("[] ")))

    def expected(self) -> str:
        return 'a ranker, or a text such as "listnet" or "[ranksvm:C=10]"'

    def parse(self, text: str) -> str:
        return text


def first_ranker(init: Any, eval_metric: Any) -> Ranker:
    """The ranker to train first; it stops early by ``eval_metric`` unless it names another."""
    from gainful.rankers.specs import ranker_from_spec, with_metric  # its registry knows all rankers

    if not isinstance(init, str):
        return clone(init)  # type: ignore[no-any-return]
    spec = _without_brackets(init)
    return with_metric(ranker_from_spec(spec), spec, eval_metric)


def text_of(init: Any) -> str | None:
    """``init`` as a model file stores it."""
    from gainful.rankers.specs import spec_of

    if init is None:
        return None
    spec = _without_brackets(init) if isinstance(init, str) else spec_of(init)
    return f"[{spec}]" if ":" in spec else spec


def _without_brackets(text: str) -> str:
    text = text.strip()
    return text[1:-1] if text.startswith("[") and text.endswith("]") else text


def check_first_ranker(owner: str, init: Any) -> None:
    """Raise if trees cannot start from this ranker's scores."""
    first = first_ranker(init, "ndcg@10")
    first._check_parameters()
    why = "is a blend" if first.joins_validation else "scores the documents of a query together"
    if first.joins_validation or first.needs_queries:
        raise ParameterError(f"init of {owner} cannot be {type(first).__name__}, which {why}")


@dataclass(frozen=True, eq=False)
class _Same:
    """A key that equals that of the same object; it keeps the object, so that no other can take its place."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def fit_first(init: Any, eval_metric: Any, data: RankingData, monitor: Monitor) -> Ranker:
    """Train the first ranker; trainings that share their set-up share it, too."""
    valid = monitor.valid if monitor.sets is None else monitor.sets.first

    def fit() -> Ranker:
        first = first_ranker(init, eval_metric)
        try:
            with skip_checks(), part_of_a_fit():
                first.fit(data, eval_set=valid)
        except DataError as error:
            raise DataError(f"init={text_of(init)}: {error}; or leave out init") from error
        if first.interrupted_:  # by Ctrl-C: there is no tree yet
            raise KeyboardInterrupt
        return first

    # data counts by identity: other rows may have the same grades
    return share(data, ("first model", text_of(init), metric(eval_metric), _Same(valid)), fit)


def with_signs(first: Any, signs: Sequence[int]) -> Ranker:
    """A copy of a linear ranker without the weights against these signs."""
    found = copy.copy(first)
    found.coef_ = np.where(found.coef_ * np.array(signs) < 0.0, 0.0, found.coef_)
    found.__dict__.pop("certificate_", None)  # which is that of other weights
    return found  # type: ignore[no-any-return]


def add_scores(first: Ranker, data: RankingData) -> RankingData:
    """The data, whose initial scores then include those of ``first``."""
    return data.replace(init_scores=data.add_init_scores(np.asarray(first.predict(data), dtype=np.float64)))


# -- in model files ----------------------------------------------------------------------------------------------------


def pack_first(first: Ranker) -> dict[str, Any]:
    from gainful.rankers.model_file import pack_model

    description, state = pack_model(first)
    return {"init": description} | {STATE + name: value for name, value in state.items()}


def unpack_first(state: Mapping[str, Any], n_features: int, categories: Any) -> Ranker:
    """Restore what :func:`pack_first` returned; inconsistent state raises."""
    from gainful.rankers.model_file import unpack_model

    description = state["init"]
    if not isinstance(description, dict) or description.get("n_features") != n_features:
        raise ValueError("the model that the trees start from has another number of features")
    own = {name.removeprefix(STATE): value for name, value in state.items() if name.startswith(STATE)}
    first = unpack_model(description, own, Path("init"))
    if first.joins_validation or first.needs_queries:
        raise ValueError("trees cannot start from such a model")
    first.categories_ = categories  # those of the whole model
    return first
