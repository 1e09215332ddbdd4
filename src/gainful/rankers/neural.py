"""Neural rankers with any loss."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gainful.compute.randomness import seed_from
from gainful.compute.threads import limit_torch_threads
from gainful.data.dataset import RankingData
from gainful.data.rows import Array
from gainful.data.size import DataSize
from gainful.data.spread import feature_spread
from gainful.linear.scaling import SCALE
from gainful.losses import LossSpec, loss
from gainful.losses.registry import loss_text
from gainful.nets.device import DeviceName, chosen_device, pytorch
from gainful.parameters.constraints import Choice, Integer, ListOf, Maybe, MetricSpec, Real, Seed, parameter, patience
from gainful.parameters.space import Space
from gainful.rankers.base import Ranker, stored_array
from gainful.rankers.scorers import Inputs, Net, Scorer, scores_of_lists
from gainful.rankers.spaces import NET_SPACE
from gainful.rankers.with_loss import WithLoss
from gainful.training.monitor import Monitor

if TYPE_CHECKING:
    from gainful.nets.train import NetSettings

COPIES_OF_WEIGHTS = 4  # weights, gradients, two moments
LARGEST = 1e6  # of steps and factors: their products fit into float32


@dataclass(repr=False, eq=False)
class NeuralRanker(WithLoss, Ranker):
    """A net of fully connected layers with any loss: minimises Σ_q ω_q L_q(f(X_q)) over batches of queries.

    f(x) = W_L a(… a(W_1 z + b_1) …) + b_L with z = (x − shift_)/scale_. Training needs PyTorch (the extra ``neural``);
    scoring, saving and loading do not: a fitted model is a few arrays.

    Parameters
    ----------
    loss : a name of ``gainful.LOSSES``, with parameters as in ``"lambda(k=10)"``; a ``gainful.loss``; or a function
        ``f(scores, grades) -> (value, gradient)`` of one query, plain or compiled by numba
    hidden : units of each hidden layer; one number is a two-layer net in the papers' terms, none is a linear model
    activation : "relu", "tanh", "sigmoid" or "silu" between the layers
    dropout : share of hidden units dropped at random in each step
    output_scale : factor on the initial weights of the output layer; below 1 for losses that need small initial
        scores, such as those with a margin
    batch_queries : queries per step
    optimizer : "adam", "adamw" (weight decay separate from the gradient) or "sgd" (Nesterov momentum 0.9)
    learning_rate, weight_decay : of the optimizer; biases do not decay
    epochs : maximum number of passes over the training queries
    early_stopping : with ``eval_set``, stop after this many epochs without improvement and keep the best one; None
        keeps the last. Losses with a schedule (reg-shf-sdcg) run all epochs and are validated in the second half
    eval_metric : metric on ``eval_set``
    scale : "standard": subtract the mean of each feature and divide by its standard deviation, both over the training
        rows; None: features as given
    device : "cpu", "cuda", "cuda:1", or "auto": a GPU if PyTorch finds one
    dtype : "float32" or "float64", of the net
    random_state : seed; on the CPU the same seed gives the same model

    Attributes
    ----------
    weights_ : W_1 (n_features, hidden[0]), b_1, W_2, b_2, …
    shift_, scale_ : mean and standard deviation of the features, (n_features,)
    loss_ : the loss as a value; device_ : where it was trained; best_epoch_ : the epoch of the weights
    """

    space: ClassVar[Space] = NET_SPACE
    resumes: ClassVar[bool] = True
    cost_without_validation: ClassVar[str | None] = ".04 to .10"
    accepts_init_scores: ClassVar[bool] = True

    loss: Any = parameter(
        "lambda", LossSpec(help="loss to minimise: a name, a loss or a function of scores and grades")
    )
    hidden: Sequence[int] = parameter(
        (64,), ListOf(inner=Integer(low=1), empty=True, help="units of each hidden layer")
    )
    activation: str = parameter("relu", Choice(of=("relu", "tanh", "sigmoid", "silu"), help="between the layers"))
    dropout: float = parameter(
        0.0, Real(low=0, high=1, open_high=True, help="share of hidden units dropped in each step")
    )
    output_scale: float = parameter(
        1.0, Real(low=0, open_low=True, high=LARGEST, help="factor on the initial weights of the output layer")
    )
    batch_queries: int = parameter(32, Integer(low=1, help="queries per step"))
    optimizer: str = parameter("adam", Choice(of=("adam", "adamw", "sgd"), help="optimizer"))
    learning_rate: float = parameter(0.01, Real(low=0, open_low=True, high=LARGEST, help="step size"))
    weight_decay: float = parameter(0.0, Real(low=0, high=LARGEST, help="shrinks the weights, not the biases"))
    epochs: int = parameter(100, Integer(low=1, help="maximum number of passes over the training queries"))
    early_stopping: int | None = parameter(10, patience("epochs"))
    eval_metric: Any = parameter("ndcg@10", MetricSpec(help="metric on eval_set that chooses the best epoch"))
    scale: str | None = parameter("standard", SCALE)
    device: str = parameter("auto", DeviceName(help="where to train; auto uses a GPU if there is one"))
    dtype: str = parameter("float32", Choice(of=("float32", "float64"), help="precision of the net"))
    random_state: Any = parameter(0, Maybe(inner=Seed(), help="seed"))

    def _search_space(self) -> Space:
        unused = () if len(self.hidden) else ("dropout",)  # needs hidden units
        return {name: dimension for name, dimension in self.space.items() if name not in unused}

    # -- memory --------------------------------------------------------------------------------------------------------

    def _training_bytes(self, size: DataSize) -> float:
        width = 4 if self.dtype == "float32" else 8
        layers = [size.features, *self.hidden, 1]
        weights = sum(a * b for a, b in itertools.pairwise(layers))
        batch = min(size.rows, self.batch_queries * size.rows / size.queries)
        units = 2 * sum(layers) + 2 * max(layers)  # of a row: before and after the activation; gradients of one layer
        held = COPIES_OF_WEIGHTS * weights + batch * units
        return super()._training_bytes(size) + width * held

    # -- fitting -------------------------------------------------------------------------------------------------------

    def _fit(self, data: RankingData, monitor: Monitor) -> None:
        torch = pytorch(type(self).__name__)
        from gainful.nets.train import Inputs as NetInputs
        from gainful.nets.train import train_net

        chosen, device = self._loss(), chosen_device(type(self).__name__, self.device)
        inputs = self._inputs_of(data)
        monitor.total = self.epochs
        runs_on = self.early_stopping is not None and chosen.scheduled
        monitor.stop_early(self.epochs if runs_on else self.early_stopping)
        with limit_torch_threads(torch):
            weights = train_net(
                chosen,
                data,
                NetInputs(inputs.shift, inputs.scale, self.dtype, inputs.unit),
                self._settings(device),
                monitor,
                # Validate with the code that predicts; on a GPU that would move the weights off it.
                partial(self._validation, monitor, inputs) if device == "cpu" else None,
                self._net_class(),
            )
        # All at once: a failed fit leaves the previous model unchanged.
        self.loss_, self.device_, self.best_epoch_ = chosen, device, monitor.best_iteration
        self.weights_ = weights
        self._keep_inputs(inputs)

    def _net_class(self) -> Callable[[int, Any], Any]:
        from gainful.nets.train import Net as TrainedNet

        return TrainedNet

    def _settings(self, device: str) -> NetSettings:
        from gainful.nets.train import NetSettings

        return NetSettings(**self._common_settings(device))

    def _common_settings(self, device: str) -> dict[str, Any]:
        return {
            "hidden": tuple(int(units) for units in self.hidden),
            "activation": self.activation,
            "dropout": float(self.dropout),
            "output_scale": float(self.output_scale),
            "batch_queries": int(self.batch_queries),
            "optimizer": self.optimizer,
            "learning_rate": float(self.learning_rate),
            "weight_decay": float(self.weight_decay),
            "epochs": int(self.epochs),
            "device": device,
            "dtype": self.dtype,
            "seed": seed_from(self.random_state),
        }

    def _inputs_of(self, data: RankingData) -> Inputs:
        """Shift and scale in the precision of X, so that x − shift adds no rounding."""
        if self.scale is None:
            return Inputs(np.zeros(data.n_features), np.ones(data.n_features))
        kind, spread = data.X.dtype, feature_spread(data.X, data.row_weights)
        too_small = spread.deviation < np.finfo(kind).tiny  # to divide by: treat as constant
        scale = np.where(too_small, 1.0, spread.deviation)
        return Inputs(spread.mean.astype(kind).astype(np.float64), scale.astype(kind).astype(np.float64))

    def _keep_inputs(self, inputs: Inputs) -> None:
        self.shift_, self.scale_ = inputs.shift, inputs.scale

    def _validation(self, monitor: Monitor, inputs: Inputs, weights: list[Array]) -> float:
        valid = monitor.valid
        return monitor.evaluate(scores_of_lists(self._scorer_of(weights, inputs), valid.X, valid.offsets))

    # -- scoring without PyTorch ---------------------------------------------------------------------------------------

    def _scorer(self) -> Scorer:
        return self._scorer_of(self.weights_, Inputs(self.shift_, self.scale_))

    def _scorer_of(self, weights: list[Array], inputs: Inputs) -> Scorer:
        return Net.of_weights(weights, self.activation, inputs)

    def _facts(self) -> dict[str, Any]:
        return {"loss": str(self.loss_), "device": self.device_, "best epoch": self.best_epoch_}

    # -- model files ---------------------------------------------------------------------------------------------------

    def _file_params(self) -> dict[str, Any]:
        params = super()._file_params()
        return params | {"loss": loss_text(params["loss"])}

    def _preprocessing(self) -> dict[str, Any]:
        return {} if self.scale is None else {"scale": "(x - shift) / scale"}

    def _pack(self) -> dict[str, Any]:
        weights = {f"weights_{place}": weight for place, weight in enumerate(self.weights_)}
        return weights | {
            "shift": self.shift_, "scale": self.scale_, "n_weights": len(self.weights_), "loss": str(self.loss_),
            "device": self.device_, "best_epoch": self.best_epoch_,
        }  # fmt: skip

    def _unpack(self, state: Mapping[str, Any]) -> None:
        self.hidden = tuple(self.hidden)  # JSON made it a list
        shapes = self._weight_shapes()
        if state["n_weights"] != len(shapes):
            raise ValueError("n_weights does not match the layers")
        self.weights_ = [stored_array(state, f"weights_{i}", shape, None) for i, shape in enumerate(shapes)]
        self.shift_, self.scale_ = (stored_array(state, name, (self.n_features_in_,)) for name in ("shift", "scale"))
        if not (self.scale_ > 0.0).all():
            raise ValueError("scale is not positive")
        self.loss_, self.device_ = loss(str(state["loss"])), str(state["device"])
        self.best_epoch_ = int(state["best_epoch"])

    def _weight_shapes(self) -> list[tuple[int, ...]]:
        """The shapes of ``weights_``."""
        units = (self.n_features_in_, *self.hidden, 1)
        return [shape for a, b in itertools.pairwise(units) for shape in ((a, b), (b,))]
