"""Adaptive binning of features (Li, Burges and Wu 2007, section 8): codes of one or two bytes instead of floats."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np

from gainful.compute.estimators import BaseEstimator, NotFittedError, OneToOneFeatureMixin, TransformerMixin
from gainful.data.dataset import RankingData
from gainful.data.frames import as_features
from gainful.data.rows import CHUNK_VALUES, Array, refuse_empty, refuse_infinite
from gainful.errors import DataError
from gainful.parameters.constraints import DeclaredParameters, Integer, Real, check_parameters, parameter


@dataclass(repr=False, eq=False)
class AdaptiveBinner(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Replaces every feature by the number of the bin its value falls into: 0, 1, 2, … from low to high.

    Along the sorted values of a feature, a bin opens at the first value that has none and takes all values up to one
    bin length above it. The length is the smallest with which ``n_bins`` bins suffice, so no bin is spent where there
    are no data, and a feature of few distinct values keeps them all. A value between two bins, or outside the range of
    training, goes to the nearest bin.

    A feature with missing values (NaN) in training gets one bin less, and they get the code after the last bin. If a
    feature had none, a missing value is read as 0, as trees do.

    Trees use only the order of values, so the codes can replace the features; rankers with ``bins="exact"`` keep these
    bins::

        make_pipeline(AdaptiveBinner(256), LambdaMART(bins="exact"))

    Parameters
    ----------
    n_bins : maximum number of bins per feature, 2 … 65,536; codes are uint8 up to 256 and uint16 above
    start_length : bin length tried first. 0 keeps distinct values apart while they are few enough; the paper starts
        near 1e-10, which also merges values that differ by rounding.

    Attributes
    ----------
    lengths_ : (n_features,), the bin length found for each feature
    bin_edges_ : for each feature the ascending thresholds between its bins; a value on one belongs to the lower bin
    n_bins_ : (n_features,), bins of each feature, not counting that of missing values
    has_missing_ : (n_features,), whether the feature has a code for missing values
    """

    parameters: ClassVar[Any] = DeclaredParameters()

    n_bins: int = parameter(256, Integer(low=2, high=65536, help="maximum number of bins per feature"))
    _: KW_ONLY
    start_length: float = parameter(0.0, Real(low=0, help="bin length tried first"))

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the bins of each feature. X is an array, a sparse matrix, a frame or a RankingData."""
        from gainful.trees.binning_kernels import cover, smallest_length

        check_parameters(type(self).__name__, self.parameters, self.get_params())
        matrix, names = _features(X)
        if matrix.shape[1] == 0:
            raise DataError("X has no features; binning needs at least one")
        refuse_empty(matrix)
        d = matrix.shape[1]
        self.lengths_, self.n_bins_ = np.zeros(d), np.ones(d, dtype=np.int64)
        self.has_missing_ = np.zeros(d, dtype=bool)
        self.bin_edges_: list[Array] = []
        for j, values in enumerate(_columns(matrix)):
            self.has_missing_[j] = np.isnan(values[-1])  # NaN sorts last
            values = values[: len(values) - 1] if self.has_missing_[j] else values
            most = self.n_bins - int(self.has_missing_[j])
            self.lengths_[j] = smallest_length(values, most, float(self.start_length))
            self.bin_edges_.append(cover(values, self.lengths_[j]))
            self.n_bins_[j] = len(self.bin_edges_[j]) + 1
        self.n_features_in_ = d
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return self

    def transform(self, X: Any) -> Any:
        """The codes, a dense (n_rows, n_features) array of uint8 or uint16; of a RankingData, one that holds them."""
        from gainful.trees.binning_kernels import codes_of_rows, codes_of_stored

        self._check_fitted()
        matrix, names = _features(X)
        self._check_columns(matrix.shape[1], names)
        starts = np.concatenate([[0], np.cumsum([len(edges) for edges in self.bin_edges_])]).astype(np.int64)
        edges = np.concatenate([*self.bin_edges_, np.empty(0)])
        codes = np.empty(matrix.shape, dtype=np.uint8 if self.n_bins <= 256 else np.uint16)
        if isinstance(matrix, np.ndarray):
            codes_of_rows(matrix, edges, starts, self.has_missing_, codes)
        else:
            zeros = np.zeros((1, self.n_features_in_))
            codes_of_rows(zeros, edges, starts, self.has_missing_, codes[:1])
            codes[1:] = codes[:1]
            codes_of_stored(matrix.data, matrix.indices, matrix.indptr, edges, starts, self.has_missing_, codes)
        return X.replace(X=codes) if isinstance(X, RankingData) else codes

    def _check_fitted(self) -> None:
        if not hasattr(self, "n_features_in_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first")

    def _check_columns(self, n_features: int, names: tuple[str, ...] | None) -> None:
        if n_features != self.n_features_in_:
            raise DataError(
                f"X has {n_features} features, but {type(self).__name__} is expecting {self.n_features_in_} features "
                "as input"
            )
        fitted = getattr(self, "feature_names_in_", None)
        if names is not None and fitted is not None and tuple(fitted) != names:
            raise DataError(
                "The feature names should match those that were passed during fit: columns must have the names and the "
                "order they had there"
            )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "n_features_in_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = []
        return tags


def _features(X: Any) -> tuple[Any, tuple[str, ...] | None]:
    if isinstance(X, RankingData):
        return X.X, X.feature_names
    matrix, names = as_features(X)
    refuse_infinite(matrix)
    return matrix, names


def _columns(X: Any) -> Iterator[Array]:
    """The distinct values of each feature in ascending order, float64; NaN, if there is one, last."""
    if not isinstance(X, np.ndarray):
        columns = X.tocsc()
        for j in range(X.shape[1]):
            stored = columns.data[columns.indptr[j] : columns.indptr[j + 1]].astype(np.float64)
            yield np.unique(np.append(stored, 0.0) if len(stored) < X.shape[0] else stored)
        return
    # a few columns at a time: reading a row-major matrix column by column would fetch every cache line d times
    width = max(1, min(X.shape[1], CHUNK_VALUES // max(1, X.shape[0])))
    for start in range(0, X.shape[1], width):
        for column in np.array(X[:, start : start + width].T, dtype=np.float64, order="C"):
            yield np.unique(column)
