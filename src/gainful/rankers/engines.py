"""Tree rankers that LightGBM or XGBoost can grow."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass
from typing import Any

from gainful.compute.threads import limit_torch_threads
from gainful.data.dataset import Dataset
from gainful.data.size import DataSize
from gainful.errors import DataError, ParameterError
from gainful.nets.device import DeviceName, chosen_device, pytorch
from gainful.parameters.constraints import Choice, parameter
from gainful.rankers.trees import TreeRanker
from gainful.training.monitor import Monitor
from gainful.trees.objective_factory import ObjectiveFactory
from gainful.trees.xgboost_engine import grow_by_xgboost, xgboost, xgboost_params

ENGINES = ("lightgbm", "xgboost")


@dataclass(repr=False, eq=False)
class EngineRanker(TreeRanker):
    """Base of the tree rankers with a choice of engine. The model is the same kind of model whichever grew it.

    Parameters
    ----------
    engine : "lightgbm" or "xgboost" (extra ``xgboost``), which also grows trees on a GPU
    device : with XGBoost, where: "cpu", "cuda", "cuda:1", or "auto": a GPU if PyTorch finds one
    """

    _: KW_ONLY
    engine: str = parameter("lightgbm", Choice(of=ENGINES, help="what grows the trees; xgboost also on a GPU"))
    device: str = parameter("cpu", DeviceName(help="with engine=xgboost: where to grow trees; auto: a GPU if any"))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.engine == "lightgbm" and self.device not in ("cpu", "auto"):
            raise ParameterError(
                f"{type(self).__name__}: device={self.device!r} needs engine='xgboost'; LightGBM grows trees on the CPU"
            )
        if self.engine == "xgboost":
            self._xgboost_params()

    def _lightgbm_engine_params(self) -> Mapping[str, Any] | None:
        return self.engine_params if self.engine == "lightgbm" else None

    def _smaller_trainings(self, size: DataSize, room: float) -> Iterator[tuple[str, float]]:
        return super()._smaller_trainings(size, room) if self.engine == "lightgbm" else iter(())

    def _xgboost_params(self) -> dict[str, Any]:
        return xgboost_params(
            n_leaves=self.n_leaves,
            learning_rate=self.learning_rate,
            colsample=self.colsample,
            l2=self.l2,
            bins=self.bins,
            n_jobs=self.n_jobs,
            random_state=self.random_state,
            engine_params=self.engine_params,
            owner=type(self).__name__,
        )

    def _device(self) -> str:
        """Where the trees grow: "cpu" or a device of tensors."""
        if self.engine == "lightgbm":
            return "cpu"
        device = chosen_device(type(self).__name__, self.device)
        if device != "cpu":
            pytorch(f"{type(self).__name__} with device={device!r}")
        return device

    def _grow_by_xgboost(
        self, data: Dataset, start: Any, monitor: Monitor, factory: ObjectiveFactory | None
    ) -> tuple[Any, float | None]:
        xgboost()
        name = type(self).__name__
        if data.whole is None:
            raise DataError(f"{name}: engine='xgboost' needs all data in memory; for a cluster use engine='lightgbm'")
        if self._categories(data):
            raise DataError(f"{name}: engine='xgboost' takes no categories; leave them out, or use engine='lightgbm'")
        assert factory is not None
        objective = factory.make(data.whole, threads=self._threads())
        signs = self._constraints(data).get("monotone_constraints")
        torch = sys.modules.get("torch")  # loaded if the objective needs it
        with nullcontext() if torch is None else limit_torch_threads(torch):
            booster = grow_by_xgboost(
                data.whole,
                self.n_trees,
                self._xgboost_params() | ({} if signs is None else {"monotone_constraints": tuple(signs)}),
                monitor,
                objective=objective,
                device=self._device(),
                min_docs_in_leaf=self.min_docs_in_leaf,
                subsample=self.subsample,
                start=start,
                n_jobs=self.n_jobs,
            )
        return booster, getattr(objective, "scale", None)

    def _refuse_checkpoint(self) -> None:
        super()._refuse_checkpoint()
        if self.engine == "xgboost":
            raise ParameterError(
                f"{type(self).__name__}: engine='xgboost' does not write checkpoints; leave out checkpoint, or use "
                "engine='lightgbm'"
            )
