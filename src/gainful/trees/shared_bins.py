"""One set of bins for all blocks of a training set, so that every worker splits features at the same values.

Left to itself, LightGBM finds the bins of a feature on one machine, from the rows that happen to be there. Here they
are found once, from rows of all blocks, and each worker gets them as LightGBM's own binary form of a data set of one
row. Loads LightGBM, so it is imported on use.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gainful.data.blocks import PerBlock
from gainful.data.dataset import Dataset, RankingData
from gainful.data.frames import without_codes
from gainful.data.rows import Array
from gainful.errors import DataError
from gainful.trees.codes import NOT_BY_FREQUENCY
from gainful.trees.data_sets import as_lightgbm, bins_for, sample_size
from gainful.trees.lightgbm_library import lgb

MOST_VALUES = 1 << 27  # collected here for exact bins of categories: 1 GiB in float64


@dataclass(frozen=True)
class SharedBins:
    """Bins of all features, packed; ``params`` are LightGBM's that go with them."""

    packed: bytes
    params: dict[str, Any]
    can_split: bool

    def dataset(self, params: Mapping[str, Any]) -> Any:
        """A LightGBM data set that others can use as reference."""
        handle, path = tempfile.mkstemp(suffix=".bin")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(self.packed)
            return lgb.Dataset(path, params=dict(params)).construct()
        finally:
            os.unlink(path)


def find_bins(data: Dataset, params: Mapping[str, Any], categorical: Sequence[int], exact: bool) -> SharedBins:
    """The bins, found here from rows or values that the blocks send."""
    source = data.source
    if exact and not categorical:
        return _exact_bins(source.map(_distinct, source.data), params)
    if exact and data.n_rows * data.n_features > MOST_VALUES:
        raise DataError(
            f'bins="exact" with categorical brings all values from the cluster here, and {data.n_rows:,} rows of '
            f"{data.n_features:,} features are more than {MOST_VALUES:,} values; give bins a number"
        )
    # categories are binned by frequency, so one bin each needs all rows
    rows = _draw_rows(data, data.n_rows if exact else sample_size(params), params)
    return _bins_of_rows(source.map(_sample_rows, source.data, rows), params, categorical, data.n_rows, exact)


def _draw_rows(data: Dataset, n: int, params: Mapping[str, Any]) -> PerBlock:
    """The sampled rows of each block; None for all."""
    if data.n_rows <= n:
        return PerBlock((None,) * data.n_blocks)
    rng = np.random.default_rng([int(params.get("data_random_seed", 1)), n])
    rows = np.sort(rng.choice(data.n_rows, n, replace=False, shuffle=False))
    starts = np.array(data.first_rows.parts)
    parts = np.split(rows, np.searchsorted(rows, starts[1:]))
    return PerBlock(tuple(part - start for part, start in zip(parts, starts, strict=True)))


# -- tasks -------------------------------------------------------------------------------------------------------------


def _sample_rows(data: RankingData, rows: Array | None) -> Any:
    return data.X if rows is None else data.X[rows]


def _distinct(data: RankingData) -> list[Array]:
    return _distinct_values(data.X)


def _distinct_values(X: Any) -> list[Array]:
    """The values of each feature, including the zeros of a sparse one."""
    if isinstance(X, np.ndarray):
        return [np.unique(X[:, j]) for j in range(X.shape[1])]
    columns = X.tocsc()
    ends = columns.indptr
    return [np.unique(np.append(columns.data[ends[j] : ends[j + 1]], 0.0)) for j in range(X.shape[1])]


def _bins_of_rows(
    samples: list[Any], params: Mapping[str, Any], categorical: Sequence[int], n_rows: int, exact: bool
) -> SharedBins:
    parts = [as_lightgbm(without_codes(X)) for X in samples if X.shape[0]]
    n = sum(part.shape[0] for part in parts)
    more: dict[str, Any] = {}
    if exact:
        more = bins_for(_most_values(parts), n)
    if n < n_rows:
        more["feature_pre_filter"] = False  # what is rare in the sample may be frequent enough in all rows
    return _pack(parts, dict(params) | {"bin_construct_sample_cnt": n} | more, categorical)


def _most_values(parts: list[Any]) -> int:
    by_block = [_distinct_values(part) for part in parts]
    return max(len(np.unique(np.concatenate(columns))) for columns in zip(*by_block, strict=True))


def _exact_bins(distinct: list[list[Array]], params: Mapping[str, Any]) -> SharedBins:
    """From a small data set that holds every value of every feature."""
    columns = [np.unique(np.concatenate(by_block)) for by_block in zip(*distinct, strict=True)]
    rows = np.arange(max(len(column) for column in columns))
    values = np.stack([column[np.minimum(rows, len(column) - 1)] for column in columns], axis=1)
    more = bins_for(len(rows), len(rows)) | NOT_BY_FREQUENCY
    return _pack([without_codes(values)], dict(params) | more, ())


def _pack(parts: list[Any], params: dict[str, Any], categorical: Sequence[int]) -> SharedBins:
    if len(parts) > 1 and not isinstance(parts[0], np.ndarray):
        from scipy import sparse

        parts = [sparse.vstack(parts, format="csr")]
    about: dict[str, Any] = {"params": params, "categorical_feature": list(categorical) if categorical else "auto"}
    whole = lgb.Dataset(parts if len(parts) > 1 else parts[0], **about).construct()
    row = lgb.Dataset(parts[0][:1], reference=whole, **about).construct()
    splits = any(whole.feature_num_bin(j) > 1 for j in range(whole.num_feature()))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "bins.bin")
        row.save_binary(path)
        with open(path, "rb") as file:
            return SharedBins(file.read(), params, splits)
