"""Bin codes (uint8, uint16), passed to LightGBM in blocks: it would convert them all to float32 at once.

Loads LightGBM, so it is imported on use.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gainful.data.rows import Array, row_chunks
from gainful.trees.lightgbm_library import lgb
from gainful.trees.row_chunks import distinct


class Blocks(lgb.Sequence):
    """Rows of codes, as LightGBM asks for them."""

    batch_size = 4096

    def __init__(self, X: Array):
        self.X = X

    def __len__(self) -> int:
        return len(self.X)

    def __getitem__(self, rows: Any) -> Array:
        return np.asarray(self.X[rows], dtype=np.float64)


def bins_of_codes(X: Any, params: dict[str, Any]) -> lgb.Dataset:
    """A small data set with every code of every feature, from which LightGBM takes the bins of the large one.

    To find one bin per value in the data itself it would sample all rows, twelve bytes per value.
    """
    columns = [distinct(X, j) for j in range(X.shape[1])]
    rows = np.arange(max(len(column) for column in columns))
    values = np.stack([column[np.minimum(rows, len(column) - 1)] for column in columns], axis=1)
    return lgb.Dataset(values.astype(np.float32), params=params)


# Settings that depend on how often values occur, which that small set does not say.
NOT_BY_FREQUENCY = {"feature_pre_filter": False, "enable_bundle": False, "is_enable_sparse": False}


def predict_blocks(booster: lgb.Booster, X: Array, **options: Any) -> Array:
    """``booster.predict`` of codes, block by block."""
    blocks = list(row_chunks(*X.shape)) or [slice(0)]  # LightGBM says what it predicts for no rows
    return np.concatenate([booster.predict(X[rows].astype(np.float32), **options) for rows in blocks])
