"""What LightGBM needs to grow trees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gainful.data.size import DataSize

SAMPLED_ROWS = 200_000  # bin_construct_sample_cnt
SAMPLED_VALUE_BYTES = 14  # a double, its row number, and room to grow
SPARSE_VALUE_BYTES = 14
ROW_BYTES = 38  # grades, row numbers by leaf
MODEL_ROW_BYTES = 20  # scores, gradient, curvature
BIN_SUM_BYTES = 16  # of a histogram: the sums of gradients and of curvatures


def tree_bytes(size: DataSize, params: Mapping[str, Any], *, exact_bins: bool, models: float) -> float:
    """The bytes at the peak, besides the data.

    LightGBM first draws rows to place the borders of bins, with which it bins the data column by column. When the drawn
    rows are gone, it copies the bins for sums by row, and each leaf gets a histogram.
    """
    bins = 256 if exact_bins and size.value_bytes == 1 else 65_536 if exact_bins else int(params["max_bin"])
    bin_bytes = SPARSE_VALUE_BYTES if size.is_sparse else 1 if bins <= 256 else 2
    copies = 1 if size.is_sparse or params.get("force_col_wise") else 2
    sampled = size.rows if exact_bins else min(size.rows, float(params.get("bin_construct_sample_cnt", SAMPLED_ROWS)))
    drawn = SAMPLED_VALUE_BYTES * size.values * sampled / max(1.0, size.rows)
    held = bin_bytes * size.values
    histograms = BIN_SUM_BYTES * int(params["num_leaves"]) * size.features * min(bins, size.rows)
    rows = (ROW_BYTES + MODEL_ROW_BYTES * models) * (size.rows + size.valid_rows)
    return max(drawn + held, copies * held + histograms) + bin_bytes * size.valid_values + rows
