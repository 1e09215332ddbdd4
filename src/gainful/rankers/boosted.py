"""Boosted trees on any loss."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

from gainful.data.dataset import Dataset
from gainful.errors import DataError, ParameterError
from gainful.losses import LossSpec, loss_text
from gainful.parameters.constraints import Choice, Either, Integer, Real, parameter
from gainful.rankers.engines import EngineRanker
from gainful.rankers.with_loss import WithLoss
from gainful.solvers.certificate import ConvergenceWarning
from gainful.training.monitor import Monitor
from gainful.trees.objective import LossObjective
from gainful.trees.objective_factory import ObjectiveFactory, grades


@dataclass(repr=False, eq=False)
class LossTrees(WithLoss, EngineRanker):
    """Base of the tree rankers that minimise a registered loss; a subclass names it in ``_loss``."""

    _: KW_ONLY
    gradient_scale: float | str = parameter(
        "auto",
        Either(
            of=(Choice(of=("auto",)), Real(low=0, open_low=True)),
            help='factor on gradients; "auto" scales the first ones to size 1',
        ),
    )
    start_trees: int = parameter(
        0, Integer(low=0, help="first trees that fit the grades by squared error instead of the loss")
    )

    def _step(self) -> str:
        return "gradient"

    def _patience(self) -> int | None:
        runs_on = self.early_stopping is not None and self._loss().scheduled
        return self.n_trees if runs_on else self.early_stopping

    def _refuse_pairs(self, data: Dataset) -> None:
        super()._refuse_pairs(data)
        if self.start_trees > 0:
            raise DataError("start_trees fit the grades, but the data has preferences; set start_trees=0")

    def _fit(self, data: Dataset, monitor: Monitor) -> None:
        self.loss_ = self._loss()
        goes_on = self.warm_start and hasattr(self, "booster_")
        scale: float | str | None = self.gradient_scale
        if goes_on and scale == "auto":
            scale = getattr(self, "gradient_scale_", None)
        self.n_stages_ = int(getattr(self, "n_stages_", self.n_trees)) if goes_on else self.n_trees
        make = partial(
            self._objective_class(),
            self.loss_,
            n_stages=self.n_stages_,
            step=self._step(),
            scale="auto" if scale is None else scale,
            start_trees=self.start_trees,
        )
        found = scale is None or scale == "auto"
        factory = ObjectiveFactory(
            make, self.start_trees + 1 if found else None, self.loss_.staged or self.start_trees > 0
        )
        grown = self._grow(data, grades, monitor, factory=factory)
        self.gradient_scale_ = grown if found else float(scale)  # type: ignore[arg-type]
        if 0 < self.best_iteration_ <= self.start_trees < len(monitor.history) and not self._keeps_all_trees:
            warnings.warn(
                f"{type(self).__name__}: the {self.best_iteration_} trees kept all fit the grades "
                f"(start_trees={self.start_trees}), and none the loss {self.loss_}: no later tree did better on the "
                "validation data; tree-regression gives the same model",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _objective_class(self) -> Any:
        device = self._device()
        if device == "cpu":
            return LossObjective
        from gainful.trees.tensor_objective import TensorObjective

        return partial(TensorObjective, device=device)

    def _pack(self) -> dict[str, Any]:
        return super()._pack() | {"scale": self.gradient_scale_, "n_stages": self.n_stages_}

    def _unpack(self, state: Mapping[str, Any]) -> None:
        super()._unpack(state)
        self.loss_, self.n_stages_ = self._loss(), int(state["n_stages"])
        self.gradient_scale_ = None if state["scale"] is None else float(state["scale"])


@dataclass(repr=False, eq=False)
class BoostedRanker(LossTrees):
    """Boosted trees on any ranking loss, grown by LightGBM.

    Every tree fits the negative gradient, by score, of Σ_q ω_q L_q, where the ω_q have mean 1.

    In addition to the parameters and attributes of every :class:`TreeRanker`:

    Parameters
    ----------
    loss : a name of ``gainful.LOSSES``, with parameters as in ``"lambda(k=10)"``; a ``gainful.loss``; or a function
        ``f(scores, grades) -> (value, gradient)`` of one query
    step : "newton" divides by the curvature in the leaf, for losses that have one; "gradient" fits the plain gradient;
        "auto" is newton where possible
    gradient_scale : factor on the gradients (and curvatures); "auto" makes the first gradient's root mean square 1, or
        the first curvature's mean
    start_trees : number of first trees that fit the grades by squared error: a start for losses without a gradient
        at equal scores

    Attributes
    ----------
    loss_ : the loss
    gradient_scale_ : the factor used; None if no tree has fitted the loss yet
    n_stages_ : number of trees over which a changing loss changes: ``n_trees`` of the first training
    """

    loss: Any = parameter(
        "lambda", LossSpec(help="what is minimised: a name, a loss or a function of scores and grades")
    )
    step: str = parameter("auto", Choice(of=("auto", "newton", "gradient"), help="what a leaf divides its gradient by"))

    def _step(self) -> str:
        return self.step

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.step == "newton" and not self._loss().entry.newton:
            raise ParameterError(
                f"step='newton' needs the curvature of the loss, which {self._loss()} does not have; use 'gradient'"
            )

    def _file_params(self) -> dict[str, Any]:
        return super()._file_params() | {"loss": loss_text(self.loss)}
