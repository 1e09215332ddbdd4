"""Structured SVM with kernels, exact or through Nyström landmarks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy.linalg

from gainful.compute.memory import size_text
from gainful.compute.randomness import seed_from
from gainful.data.dataset import RankingData
from gainful.data.rows import Array
from gainful.data.size import DataSize
from gainful.data.spread import feature_spread
from gainful.errors import DataError, wording
from gainful.linear.scaling import SCALE
from gainful.metrics import Metric
from gainful.parameters.constraints import Choice, Either, Integer, Maybe, Real, parameter
from gainful.parameters.space import Range, Space
from gainful.rankers.base import Ranker, stored_array
from gainful.rankers.memory import round_down
from gainful.rankers.paths import FitsPath, stored_certificate
from gainful.rankers.scorers import KERNEL_BLOCK as BLOCK_ROWS
from gainful.rankers.scorers import Kernel, scale_rows
from gainful.rankers.structured_svm import StructuredSVM
from gainful.training.history import Path
from gainful.training.monitor import Monitor

KERNELS = ("rbf", "laplacian", "polynomial", "cosine", "linear")  # positive semi-definite for any features
MOST_EXACT_ROWS = 10_000  # an exact float64 kernel matrix then takes 800 MB
FEWEST_LANDMARKS = 10  # fewer are not worth a kernel
SHARED = ("metric", "C", "position_weights", "ties", "tol", "max_iter", "eval_metric", "random_state")


_LINEAR = StructuredSVM.parameters


@dataclass(repr=False, eq=False)
class KernelStructuredSVM(FitsPath, Ranker):
    """The structured SVM of :class:`StructuredSVM` (convex bound) in the feature space of a kernel.

    Products of kernels are BLAS's: the last bits depend on its threads, and on sparse or dense rows.

    The solution is w = Σ_i β_i φ(l_i) over landmarks l. With all training documents as landmarks (``n_landmarks=None``)
    this is the exact dual solution; with a random sample it is Nyström's approximation. Either way φ is the explicit
    map K(x, l) K(l, l)^(−1/2), on which the linear solver works; its certificate is valid for this problem.

    Parameters
    ----------
    kernel : a kernel of ``sklearn.metrics.pairwise``
    scale : "standard": the kernel sees features minus their mean, divided by their standard deviation, both over the
        training rows, so that units do not matter; a sparse X is only divided. None: it sees the original features
    gamma : width of rbf, laplacian and polynomial; "scale" is 1/(n_features · variance of X), with ``scale="standard"``
        one over the number of features that are not constant
    degree, coef0 : of the polynomial kernel
    n_landmarks : number of training documents to draw at random, or None for all (exact, up to 10,000)
    metric, C, position_weights, ties, tol, max_iter, eval_metric, random_state : as in :class:`StructuredSVM`

    Attributes
    ----------
    landmarks_ : (n_landmarks, n_features), as given; dual_coef_ : β, (n_landmarks,)
    shift_, factor_ : subtracted from each feature, then multiplied with it, (n_features,)
    certificate_, C_, path_ : as in :class:`StructuredSVM`
    """

    uses_blas: ClassVar[bool] = True
    space: ClassVar[Space] = {
        "C": Range(1e-2, 1e3, log=True, why="as for the linear ranker"),
        "gamma": Range(
            1e-4, 1.0, log=True, why="features have variance 1, so squared distances grow with their number"
        ),
    }

    kernel: str = parameter("rbf", Choice(of=KERNELS, help="kernel of sklearn.metrics.pairwise"))
    scale: str | None = parameter("standard", SCALE)
    gamma: float | str = parameter(
        "scale",
        Either(
            of=(Choice(of=("scale",)), Real(low=0, open_low=True)),
            help="width of the kernel; 'scale' is 1/(d · var(X)) of the features as the kernel sees them",
        ),
    )
    degree: int = parameter(3, Integer(low=1, help="degree of the polynomial kernel"))
    coef0: float = parameter(1.0, Real(low=0, help="constant of the polynomial kernel"))
    n_landmarks: int | None = parameter(
        500, Maybe(inner=Integer(low=1), help="number of landmarks of Nyström's approximation; None is exact")
    )
    metric: Any = parameter("ndcg@10", _LINEAR["metric"])
    C: float | Sequence[float] = parameter(30.0, _LINEAR["C"])
    position_weights: Any = parameter("linear", _LINEAR["position_weights"])
    ties: str = parameter("average", _LINEAR["ties"])
    tol: float = parameter(1e-4, _LINEAR["tol"])
    max_iter: int = parameter(1000, _LINEAR["max_iter"])
    eval_metric: Any = parameter(None, _LINEAR["eval_metric"])
    random_state: Any = parameter(0, _LINEAR["random_state"])

    def _linear(self) -> StructuredSVM:
        return StructuredSVM(scale=None, **{name: getattr(self, name) for name in SHARED})

    def _validation_metric(self) -> Metric:
        return self._linear()._validation_metric()

    def _training_bytes(self, size: DataSize) -> float:
        m = size.rows if self.n_landmarks is None else min(self.n_landmarks, size.rows)
        mapped = 8.0 * m * (size.rows + size.valid_rows + 2 * BLOCK_ROWS)
        matrices = 4 * 8.0 * m**2  # the kernel of the landmarks, its eigenvectors and the work space
        return super()._training_bytes(size) + mapped + matrices + 8.0 * m * size.features

    def _smaller_trainings(self, size: DataSize, room: float) -> Iterator[tuple[str, float]]:
        fewer = round_down((room - super()._training_bytes(size)) / (8.0 * (size.rows + size.valid_rows)))
        if fewer >= FEWEST_LANDMARKS:
            needed = replace(self, n_landmarks=fewer)._training_bytes(size)
            setting = wording(f"n_landmarks={fewer}", f"--set n_landmarks={fewer}")
            yield f"{setting} needs {size_text(needed)}", needed

    def _fit(self, data: RankingData, monitor: Monitor) -> None:
        variance = self._look_at(data)
        self.gamma_ = self._gamma(variance, data.n_features)
        chosen = self._landmarks(data)
        self.landmarks_ = chosen if isinstance(chosen, np.ndarray) else chosen.toarray()  # the same bits when loaded
        kernel = self._kernel(np.zeros(self.landmarks_.shape[0]))
        to_features = _inverse_root(kernel.similarities(self.landmarks_))
        mapped = data.replace(X=_map(kernel, data.X, to_features), feature_names=None)
        if monitor.valid is not None:
            monitor.valid = monitor.valid.replace(X=_map(kernel, monitor.valid.X, to_features), feature_names=None)
        linear = self._linear()
        linear._fit(mapped, monitor)
        self.dual_coef_ = np.asarray(to_features @ linear.coef_)
        self.C_, self.path_ = linear.C_, linear.path_
        self.certificate_ = replace(linear.certificate_, scale=self.scale)
        self.position_weights_, self.position_weights_name_ = linear.position_weights_, linear.position_weights_name_

    def _look_at(self, data: RankingData) -> float:
        """Set the feature scaling of the kernel; returns the variance of all scaled values."""
        self.shift_, self.factor_ = np.zeros(data.n_features), np.ones(data.n_features)
        if self.scale is None:
            return _variance(data.X)
        spread = feature_spread(data.X, data.row_weights)
        self.factor_ = 1.0 / spread.scales(self.scale)
        if not data.is_sparse:
            self.shift_ = spread.mean
        return float(np.mean(self.factor_ > 0.0))  # features that vary now have variance 1

    def _gamma(self, variance: float, n_features: int) -> float:
        if self.gamma != "scale":
            return float(self.gamma)
        return 1.0 / (n_features * variance) if variance > 0 else 1.0

    def _landmarks(self, data: RankingData) -> Any:
        if self.n_landmarks is None or self.n_landmarks >= data.n_rows:
            if data.n_rows > MOST_EXACT_ROWS:
                raise DataError(
                    f"an exact kernel over {data.n_rows:,} documents needs {size_text(8 * data.n_rows**2)}; set "
                    "n_landmarks, for example to 1000"
                )
            return data.X
        chosen = np.random.default_rng(seed_from(self.random_state)).choice(
            data.n_rows, self.n_landmarks, replace=False
        )
        return data.X[np.sort(chosen)]

    def _kernel(self, weights: Array) -> Kernel:
        """The landmarks with these weights."""
        settings: dict[str, float] = {}
        if self.kernel in ("rbf", "laplacian", "polynomial"):
            settings["gamma"] = float(self.gamma_)
        if self.kernel == "polynomial":
            settings |= {"coef0": self.coef0, "degree": self.degree}
        landmarks = scale_rows(self.landmarks_, self.shift_, self.factor_)
        return Kernel(self.kernel, settings, landmarks, weights, self.shift_, self.factor_)

    def _scorer(self) -> Kernel:
        return self._kernel(self.dual_coef_)

    def _preprocessing(self) -> dict[str, Any]:
        return {} if self.scale is None else {"scale": "(x - shift) * factor"}

    def _pack(self) -> dict[str, Any]:
        return {
            "landmarks": self.landmarks_, "dual_coef": self.dual_coef_, "shift": self.shift_, "factor": self.factor_,
            "gamma": self.gamma_, "C": self.C_, "path": self.path_, "certificate": asdict(self.certificate_),
        } | ({} if self.position_weights_ is None else {"position_weights": self.position_weights_})  # fmt: skip

    def _unpack(self, state: Mapping[str, Any]) -> None:
        self.landmarks_ = stored_array(state, "landmarks", (None, self.n_features_in_), None)
        self.dual_coef_ = stored_array(state, "dual_coef", (len(self.landmarks_),))
        self.gamma_, self.C_, self.path_ = float(state["gamma"]), float(state["C"]), Path(state["path"])
        self.shift_, self.factor_ = (stored_array(state, name, (self.n_features_in_,)) for name in ("shift", "factor"))
        self.certificate_ = stored_certificate(state)
        weights = state.get("position_weights")
        self.position_weights_ = None if weights is None else np.asarray(weights, dtype=np.float64)

    def _file_params(self) -> dict[str, Any]:
        """A function cannot be stored; its weights can."""
        params = super()._file_params()
        if callable(self.position_weights) and self.position_weights_ is not None:
            params["position_weights"] = self.position_weights_.tolist()
        return params


def _inverse_root(K: Array) -> Array:
    """K(l, l)^(−1/2) on the directions in which landmarks differ, (n_landmarks, rank)."""
    values, vectors = scipy.linalg.eigh(0.5 * (K + K.T), overwrite_a=True, check_finite=False)
    kept = values > max(values[-1], 0.0) * len(values) * np.finfo(np.float64).eps
    if not kept.any():
        return np.zeros((len(values), 1))
    return np.asarray(vectors[:, kept] / np.sqrt(values[kept]))


def _map(kernel: Kernel, X: Any, to_features: Array) -> Array:
    mapped = np.empty((X.shape[0], to_features.shape[1]))
    for start in range(0, X.shape[0], BLOCK_ROWS):
        block = slice(start, start + BLOCK_ROWS)
        np.matmul(kernel.similarities(X[block]), to_features, out=mapped[block])
    return mapped


def _variance(X: Any) -> float:
    """The variance of all values together, block by block: NumPy's would make a float64 copy of X."""
    if not isinstance(X, np.ndarray):
        size = X.shape[0] * X.shape[1]
        return float(X.multiply(X).sum() / size - (X.sum() / size) ** 2)
    blocks = [X[start : start + BLOCK_ROWS] for start in range(0, len(X), BLOCK_ROWS)]
    mean = sum(float(block.sum(dtype=np.float64)) for block in blocks) / X.size
    away = (np.subtract(block, mean, dtype=np.float64).ravel() for block in blocks)
    return sum(float(a @ a) for a in away) / X.size
