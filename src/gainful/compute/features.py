"""``Features``: X for the compiled products, dense or CSR, never copied."""

from __future__ import annotations

from typing import Any

import numpy as np

from gainful.data.rows import Array, read_only
from gainful.errors import ParameterError


class Features:
    """A read-only view of X (n_rows, n_features): C-contiguous float32 or float64, or CSR."""

    def __init__(self, X: Any) -> None:
        from gainful.compute import feature_kernels

        sparse = hasattr(X, "indptr")
        parts = (X.data, X.indices, X.indptr) if sparse else (np.asarray(X),)
        if parts[0].dtype not in (np.float32, np.float64) or not parts[0].flags.c_contiguous:
            found = f"{parts[0].dtype} with strides {parts[0].strides}"
            raise ParameterError.of("risk", "X", "C-contiguous float32 or float64, or CSR", found)
        self.parts = tuple(read_only(part) for part in parts)
        self.n_rows, self.n_features = int(X.shape[0]), int(X.shape[1])
        self.row_bytes = parts[0].nbytes / max(1, self.n_rows) * (1.5 if sparse else 1.0)
        self._scores: Any = feature_kernels.sparse_scores if sparse else feature_kernels.dense_scores
        self._gradient: Any = feature_kernels.sparse_gradient if sparse else feature_kernels.dense_gradient

    def scores(self, w: Array, lo: int, hi: int, out: Array) -> None:
        """out = X[lo:hi] w."""
        self._scores(*self.parts, w, lo, hi, out)

    def add_gradient(self, c: Array, lo: int, hi: int, gradient: Array) -> None:
        """gradient += X[lo:hi]' c."""
        self._gradient(*self.parts, c, lo, hi, gradient, np.empty(hi - lo, np.int32))
