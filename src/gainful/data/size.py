"""The size of data in numbers, which estimates of memory start from."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gainful.data.dataset import Dataset
from gainful.data.rows import is_mapped


@dataclass(frozen=True)
class DataSize:
    """What the memory of a training depends on. ``values``: stored values of X, without the zeros of a sparse one."""

    rows: float
    features: float
    queries: float
    values: float
    value_bytes: int = 4
    is_sparse: bool = False
    grades: float = 5
    valid_rows: float = 0
    valid_values: float = 0
    mapped: bool = False  # X stays in its file

    def with_rows(self, rows: float) -> DataSize:
        """The same kind of data with this many rows."""
        share = rows / self.rows
        return replace(self, rows=rows, queries=self.queries * share, values=self.values * share)


def data_size(data: Dataset, valid: Dataset | None) -> DataSize:
    valid_rows, valid_values = (0, 0) if valid is None else (valid.n_rows, stored_values(valid))
    return DataSize(
        rows=data.n_rows,
        features=data.n_features,
        queries=data.n_queries,
        values=stored_values(data),
        value_bytes=4 if data.whole is None else data.whole.X.dtype.itemsize,
        is_sparse=is_sparse(data),
        grades=min(data.n_rows, data.highest_grade - data.lowest_grade + 1),
        valid_rows=valid_rows,
        valid_values=valid_values,
        mapped=data.whole is not None and is_mapped(data.whole.X),
    )


def is_sparse(data: Dataset) -> bool:
    """Whether X is CSR; the joined blocks of a file are neither an array nor that."""
    return data.is_sparse if data.whole is None else hasattr(data.whole.X, "indptr")


def stored_values(data: Dataset) -> int:
    """The values that X stores; for sparse blocks at most that many."""
    if data.whole is not None and is_sparse(data):
        return int(data.whole.X.nnz)
    return data.n_rows * data.n_features
