"""Nets that see the documents of a query together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gainful.data.dataset import RankingData
from gainful.data.log_scale import log_spread, log_units
from gainful.data.rows import Array
from gainful.data.size import DataSize
from gainful.errors import ParameterError
from gainful.nets.shapes import list_net_shapes
from gainful.parameters.constraints import Flag, Integer, ListOf, Real, parameter
from gainful.parameters.space import Space
from gainful.rankers.base import Ranker, stored_array
from gainful.rankers.neural import COPIES_OF_WEIGHTS, LARGEST, NeuralRanker
from gainful.rankers.scorers import Inputs, ListNet
from gainful.rankers.spaces import LIST_NET_SPACE

if TYPE_CHECKING:
    from gainful.nets.train import NetSettings

# Numbers that a step keeps per row and unit: of inputs and hidden layers, with noise and gradients; of a block of
# attention, which keeps no pairs of documents.
PER_UNIT, PER_UNIT_OF_BLOCK = 4, 20


@dataclass(repr=False, eq=False)
class AttentionRanker(NeuralRanker):
    """A net with self-attention over the documents of a query, with any loss: a score depends on the whole list.

    z_i = hidden layers of the features of document i; c = blocks of self-attention over the z of the query's documents;
    score_i = w·(z_i (1 + c_i)) + b. Features are put on a logarithmic scale and standardised, training adds noise to
    them, and the score is the mean of several models. The order of the documents does not matter.

    ``predict`` needs the query of each row: ``predict(X, qid=qid)``, or a RankingData.

    Parameters
    ----------
    loss : a name of ``gainful.LOSSES``, with parameters as in ``"lambda(k=10)"``; a ``gainful.loss``; or a function
        ``f(scores, grades) -> (value, gradient)`` of one query, plain or compiled by numba
    hidden : units of each hidden layer, at least one; attention has the width of the last
    activation : "relu", "tanh", "sigmoid" or "silu" between the layers
    dropout : share of hidden units, and of what attention adds, dropped at random in each step
    output_scale : factor on the initial weights of the output layer
    batch_queries : queries per step
    optimizer : "adam", "adamw" (weight decay separate from the gradient) or "sgd" (Nesterov momentum 0.9)
    learning_rate, weight_decay : of the optimizer; biases and normalisations do not decay
    epochs : maximum number of passes over the training queries
    early_stopping : with ``eval_set``, stop after this many epochs without improvement and keep the best one; None
        keeps the last
    eval_metric : metric on ``eval_set``
    scale : "standard": subtract the mean of each feature and divide by its standard deviation, both over the training
        rows and after ``log_scale``; None: neither
    device : "cpu", "cuda", "cuda:1", or "auto": a GPU if PyTorch finds one
    dtype : "float32" or "float64", of the net
    random_state : seed; on the CPU the same seed gives the same model
    heads : parts of the units that attend separately; a divisor of the last number of ``hidden``
    blocks : layers of self-attention
    models : models with different first weights whose scores are averaged; they train side by side
    noise : standard deviation of the noise that each step adds to the features, in their standard deviations
    log_scale : take sign(x)·log(1 + |x|/unit) for x, where unit is the geometric mean of the feature's values other
        than 0

    Attributes
    ----------
    weights_ : of each hidden layer W (models, n, m) and b (models, m); of each block the projections to queries, keys
        and values, their biases, the projection of what attention gathers, its bias, gain and shift of the
        normalisation; W and b of the output
    shift_, scale_ : mean and standard deviation of the transformed features, (n_features,)
    unit_ : units of the logarithmic scale, (n_features,), or None
    loss_ : the loss as a value; device_ : where it was trained; best_epoch_ : the epoch of the weights

    References
    ----------
    Qin et al. 2021, Are neural rankers still outperformed by gradient boosted decision trees?
    """

    space: ClassVar[Space] = LIST_NET_SPACE
    needs_queries: ClassVar[bool] = True

    hidden: Sequence[int] = parameter((64,), ListOf(inner=Integer(low=1), help="units of each hidden layer"))
    dropout: float = parameter(0.3, Real(low=0, high=1, open_high=True, help="share of units dropped in each step"))
    heads: int = parameter(2, Integer(low=1, help="parts of the units that attend separately"))
    blocks: int = parameter(1, Integer(low=1, help="layers of self-attention"))
    models: int = parameter(3, Integer(low=1, help="models whose scores are averaged"))
    noise: float = parameter(0.3, Real(low=0, high=LARGEST, help="noise on the features in training"))
    log_scale: bool = parameter(True, Flag(help="whether features are put on a logarithmic scale first"))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.hidden[-1] % self.heads:
            raise ParameterError.of(
                type(self).__name__, "heads", f"a divisor of the last of hidden, {self.hidden[-1]}", self.heads
            )

    def _search_space(self) -> Space:
        return self.space

    # -- memory --------------------------------------------------------------------------------------------------------

    def _training_bytes(self, size: DataSize) -> float:
        width = 4 if self.dtype == "float32" else 8
        weights = sum(float(np.prod(shape)) for shape in self._shapes(int(size.features)))
        batch = min(size.rows, self.batch_queries * size.rows / size.queries)
        kept = PER_UNIT * (size.features + sum(self.hidden)) + PER_UNIT_OF_BLOCK * self.hidden[-1] * self.blocks
        held = self.models * (COPIES_OF_WEIGHTS * weights + batch * kept)
        return Ranker._training_bytes(self, size) + width * held

    # -- fitting -------------------------------------------------------------------------------------------------------

    def _net_class(self) -> Callable[[int, Any], Any]:
        from gainful.nets.lists import ListNet as TrainedNet

        return TrainedNet

    def _settings(self, device: str) -> NetSettings:
        from gainful.nets.lists import ListNetSettings

        return ListNetSettings(
            **self._common_settings(device),
            heads=int(self.heads),
            blocks=int(self.blocks),
            noise=float(self.noise),
            models=int(self.models),
        )

    def _inputs_of(self, data: RankingData) -> Inputs:
        if not self.log_scale:
            return super()._inputs_of(data)
        unit = log_units(data.X, data.row_weights)
        if self.scale is None:
            return Inputs(np.zeros(data.n_features), np.ones(data.n_features), unit)
        spread = log_spread(data.X, unit, data.row_weights)
        return Inputs(spread.mean, np.where(spread.deviation > 0.0, spread.deviation, 1.0), unit)

    def _keep_inputs(self, inputs: Inputs) -> None:
        super()._keep_inputs(inputs)
        self.unit_ = inputs.unit

    # -- scoring without PyTorch ---------------------------------------------------------------------------------------

    def _scorer(self) -> ListNet:
        return self._scorer_of(self.weights_, Inputs(self.shift_, self.scale_, self.unit_))

    def _scorer_of(self, weights: list[Array], inputs: Inputs) -> ListNet:
        return ListNet.of_weights(weights, len(self.hidden), int(self.heads), self.activation, inputs)

    # -- model files ---------------------------------------------------------------------------------------------------

    def _preprocessing(self) -> dict[str, Any]:
        first = {"transform": "sign(x) log(1 + |x| / unit)"} if self.log_scale else {}
        return first | super()._preprocessing()

    def _pack(self) -> dict[str, Any]:
        return super()._pack() | ({} if self.unit_ is None else {"unit": self.unit_})

    def _unpack(self, state: Mapping[str, Any]) -> None:
        super()._unpack(state)
        self.unit_ = stored_array(state, "unit", (self.n_features_in_,)) if self.log_scale else None
        if self.unit_ is not None and not (self.unit_ > 0.0).all():
            raise ValueError("unit is not positive")

    def _weight_shapes(self) -> list[tuple[int, ...]]:
        return [(int(self.models), *shape) for shape in self._shapes(self.n_features_in_)]

    def _shapes(self, n_features: int) -> list[tuple[int, ...]]:
        return list_net_shapes(n_features, [int(units) for units in self.hidden], int(self.blocks))
