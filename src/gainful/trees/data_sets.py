"""LightGBM's data sets: binned features, with labels, weights and initial scores.

Trainings that share their set-up (:mod:`gainful.training.shared_setup`) share the bins: each takes a copy of one binned
form, which costs a hundredth of binning, and sets its own labels, weights and scores. The trees are the same, to the
last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gainful.data.dataset import RankingData
from gainful.data.frames import CODES
from gainful.data.size import is_sparse, stored_values
from gainful.errors import DataError
from gainful.training.shared_setup import is_shared, share
from gainful.trees.memory import SAMPLED_ROWS, SPARSE_VALUE_BYTES
from gainful.trees.row_chunks import chunks_of, distinct

MOST_BINS = 65_536  # two bytes per value
SAMPLE_NAMES = ("bin_construct_sample_cnt", "subsample_for_bin")
LARGE_LEAF = 300  # documents: as large as rankers search for
# Those of our parameters on which bins do not depend. Others may matter, so trainings share bins only if they agree.
NOT_OF_BINS = frozenset(
    ("num_leaves", "learning_rate", "min_data_in_leaf", "feature_fraction", "lambda_l2", "num_threads", "objective",
     "num_class", "label_gain", "lambdarank_truncation_level", "lambdarank_norm", "sigmoid")
)  # fmt: skip


@dataclass(frozen=True)
class Binning:
    """How LightGBM bins features. ``in_blocks``: they are codes, which it reads in blocks."""

    params: dict[str, Any]
    categorical: Sequence[int] = ()
    in_blocks: bool = False

    def data_set(self, data: RankingData, reference: Any, **columns: Any) -> Any:
        """LightGBM's form of the data. It reads arrays in place: those mapped from files stay there.

        ``reference`` is a data set with the bins to use; None to find them.
        """
        from gainful.trees.lightgbm_library import lgb

        parts = [as_lightgbm(part) for part in chunks_of(data.X)]
        if self.in_blocks and data.X.dtype in CODES:
            from gainful.trees.codes import Blocks

            parts = [Blocks(part) for part in parts]
        return lgb.Dataset(
            parts if len(parts) > 1 else parts[0],
            feature_name="auto",
            categorical_feature=list(self.categorical) if self.categorical else "auto",
            reference=reference,
            params=self.params,
            **columns,
        )

    def first_bins(self, data: RankingData) -> Any:
        """A data set from which to take the bins, unless LightGBM finds them in the data itself."""
        if not self.in_blocks:
            return None
        from gainful.trees.codes import bins_of_codes

        return bins_of_codes(data.X, self.params)


def binning_of(data: RankingData, params: dict[str, Any], categorical: Sequence[int], exact_bins: bool) -> Binning:
    """How to bin this data; ``exact_bins`` for one bin per distinct value."""
    if not exact_bins:
        return Binning(params, categorical)
    params = params | share(data.X, "bins of values", lambda: bins_of_values(data.X))
    # categories are binned by how often they occur
    in_blocks = data.X.dtype in CODES and not categorical
    if in_blocks:
        from gainful.trees.codes import NOT_BY_FREQUENCY

        params = params | NOT_BY_FREQUENCY
    return Binning(params, categorical, in_blocks)


def training_and_validation(
    binning: Binning, train: tuple[RankingData, Mapping[str, Any]], valid: tuple[RankingData, Mapping[str, Any]] | None
) -> tuple[Any, Any]:
    """LightGBM's data sets, each from the data and its columns; the second is None without validation data."""
    data, columns = train
    if is_shared():
        bins = _shared_bins(binning, data)
        ours = _copy(bins, data, binning.params, columns)
        if valid is None:
            return ours, None
        aligned = share(valid[0].X, bins, lambda: _without_labels(binning, valid[0], bins), _bytes_of_bins(valid[0]))
        return ours, _copy(aligned, valid[0], binning.params, valid[1])
    ours = binning.data_set(data, binning.first_bins(data), **columns)
    return ours, None if valid is None else binning.data_set(valid[0], ours, **valid[1])


# -- shared bins -------------------------------------------------------------------------------------------------------


def _shared_bins(binning: Binning, data: RankingData) -> Any:
    """The bins of this data: from an earlier training, if it found the same.

    LightGBM leaves out features that no split of two leaves of ``min_data_in_leaf`` documents could use. Where even
    large leaves leave out none, the bins serve every size of leaf up to that.
    """
    least, key = int(binning.params["min_data_in_leaf"]), _key(binning, data)
    if least < LARGE_LEAF:
        large = Binning(binning.params | {"min_data_in_leaf": LARGE_LEAF}, binning.categorical, binning.in_blocks)
        found = share(data.X, (*key, LARGE_LEAF), lambda: _unless_left_out(large, data), _bytes_of_bins(data))
        if found is not None:
            return found
    return share(data.X, (*key, least), lambda: _without_labels(binning, data), _bytes_of_bins(data))


def _key(binning: Binning, data: RankingData) -> tuple[Any, ...]:
    """What bins depend on, besides the features and the size of leaves."""
    params = {name: value for name, value in binning.params.items() if name not in NOT_OF_BINS}
    if data.n_rows <= sample_size(params):
        params.pop("seed")  # LightGBM draws no rows
    return (repr(sorted(params.items())), tuple(binning.categorical), binning.in_blocks)


def sample_size(params: Mapping[str, Any]) -> int:
    """The number of rows from which LightGBM finds bins."""
    return next((int(params[name]) for name in SAMPLE_NAMES if name in params), SAMPLED_ROWS)


def _without_labels(binning: Binning, data: RankingData, bins: Any = None) -> Any:
    reference = binning.first_bins(data) if bins is None else bins
    return binning.data_set(data, reference, label=np.zeros(data.n_rows)).construct()


def _unless_left_out(binning: Binning, data: RankingData) -> Any:
    """The data set, or None if it lacks a feature that is not constant."""
    found = _without_labels(binning, data)
    left_out = [j for j in range(data.n_features) if found.feature_num_bin(j) <= 1]
    return found if all(_is_constant(data.X, j) for j in left_out) else None


def _is_constant(X: Any, j: int) -> bool:
    columns = [chunk[:, [j]] for chunk in chunks_of(X)]
    columns = [column.toarray() if hasattr(column, "toarray") else column for column in columns]
    return all(bool((column == columns[0][0]).all()) for column in columns)


def _copy(bins: Any, data: RankingData, params: dict[str, Any], columns: Mapping[str, Any]) -> Any:
    """A data set of the same rows and bins, with these columns."""
    copied = bins.subset(range(data.n_rows), params=params).construct()
    for name, values in columns.items():
        getattr(copied, f"set_{name}")(values)
    return copied


def _bytes_of_bins(data: RankingData) -> Callable[[Any], float]:
    """About the memory of a data set with the binned features."""
    n_bytes = float((SPARSE_VALUE_BYTES if is_sparse(data) else 2) * stored_values(data))
    return lambda made: 0.0 if made is None else n_bytes


# -- features ----------------------------------------------------------------------------------------------------------


def bins_of_values(X: Any) -> dict[str, Any]:
    """LightGBM's parameters for one bin per distinct value."""
    from scipy import sparse

    n, d = X.shape
    columns = X.tocsc() if sparse.issparse(X) else X
    most = 1
    for j in range(d):
        if sparse.issparse(columns):
            most = max(most, 1 + len(np.unique(columns.data[columns.indptr[j] : columns.indptr[j + 1]])))
        else:
            most = max(most, len(distinct(columns, j)))
    return bins_for(most, n)


def bins_for(most: int, n: int) -> dict[str, Any]:
    """LightGBM's parameters for one bin per distinct value, where a feature has ``most`` and there are ``n`` rows."""
    if most > MOST_BINS:
        raise DataError(
            f'bins="exact" wants a bin for each distinct value, but a feature has {most:,} and {MOST_BINS:,} is '
            "the most; put gainful.AdaptiveBinner in front, or give bins a number"
        )
    # one more than there are values: LightGBM keeps a bin for missing ones
    return {"max_bin": max(most + 1, 2), "min_data_in_bin": 1, "bin_construct_sample_cnt": max(n, 1)}


def as_lightgbm(X: Any) -> Any:
    """X in a form LightGBM accepts: SciPy's sparse matrices, not its sparse arrays. Nothing is copied."""
    if isinstance(X, np.ndarray):
        return X
    from scipy import sparse

    return sparse.csr_matrix((X.data, X.indices, X.indptr), shape=X.shape, copy=False)


def can_split(train: Any) -> bool:
    """Whether a feature has two bins left; LightGBM drops those that no split could use."""
    return any(train.feature_num_bin(j) > 1 for j in range(train.num_feature()))
