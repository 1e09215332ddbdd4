"""gainful's binary format as pieces of rows, mapped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from gainful.data.dataset import RankingData
from gainful.formats.binary.reader import BinaryFile, check_options
from gainful.formats.limits import MemoryLimit
from gainful.formats.sources import Layout, Source, common_layout, rows_in_piece


def open_source(
    paths: Sequence[Path], *, mmap: bool = True, verify: bool = True, max_bytes: int | str | None = None
) -> Source:
    """The files as a source of rows, always mapped; options as in :func:`~gainful.formats.binary.reader.read`."""
    check_options(mmap, verify)
    for path in paths:
        BinaryFile(path).check_memory(MemoryLimit(path, max_bytes))
    return BinarySource(paths, verify=verify)


class BinarySource(Source):
    """Files in gainful's own binary format, mapped."""

    def __init__(self, paths: Sequence[Path], *, piece_rows: int | None = None, verify: bool = True):
        super().__init__(paths, merge=True)
        self.piece_rows, self.verify = piece_rows, verify
        files = [BinaryFile(path) for path in self.paths]
        for file in files:
            file.refuse_repeated_query()
        self._layout = common_layout(list(zip(self.paths, map(_layout_of, files), strict=True)))

    def layout(self) -> Layout:
        return self._layout

    def rows(self, *, values: bool = True) -> Iterator[RankingData]:
        rows = self.piece_rows or rows_in_piece(self._layout.n_features or 1)
        for path in self.paths:
            opened = BinaryFile(path, verify=self.verify)
            cuts = np.searchsorted(opened.offsets, np.arange(rows, opened.offsets[-1], rows))
            for first, last in pairwise(np.unique([0, *cuts.tolist(), opened.n_queries]).tolist()):
                yield opened.part(first, last)
                opened.release()


def _layout_of(opened: BinaryFile) -> Layout:
    return Layout(opened.shape.n_features, opened.shape.dtype, opened.is_sparse, opened.feature_names)
