"""LETOR/SVMlight text as runs of rows: the parser of :mod:`~gainful.formats.letor.reader`, a chunk of lines at a time.

The number of features, and whether to store the matrix sparse, depend on the whole file. A pass assumes what the
beginning suggests. A wider line ends the parsing: the rest is only counted, and the pass is repeated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from gainful.data.dataset import RankingData
from gainful.data.rows import Array, weight_fields
from gainful.errors import FormatError, option
from gainful.formats.files import Chunk, PathLike, compression_of, text_chunks
from gainful.formats.letor.header import Header
from gainful.formats.letor.lines import LARGEST_INDEX, Rules
from gainful.formats.letor.reader import (
    FoundIds,
    Options,
    Reading,
    check_options,
    lines_of_rows,
    span_bounds,
    split_query_error,
)
from gainful.formats.sidecars import Sidecars, find_sidecars
from gainful.formats.sources import PIECE_BYTES, Layout, Source, StartOver

CHUNK_BYTES = 8 << 20
SAMPLE_BYTES = 1 << 20
EXPANDED = 4  # rough growth of text when it is decompressed


def open_source(paths: Sequence[Path], **options: Any) -> Source:
    """The files as a source of rows; options as in :func:`~gainful.formats.letor.reader.read`."""
    return LetorSource(paths, check_options(**options))


class LetorSource(Source):
    """Text files. ``width`` and ``sparse`` are the assumptions of the current pass."""

    def __init__(self, paths: Sequence[Path], options: Options, *, chunk_bytes: int = CHUNK_BYTES):
        super().__init__(paths, merge=options.merge)
        self.options = options
        self.chunk_bytes = chunk_bytes
        self.beside = [find_sidecars(path, options.sidecars, options.query_id) for path in self.paths]
        with ThreadPoolExecutor(options.n_threads) as pool:
            samples = [self._sample(path, pool, beside) for path, beside in zip(self.paths, self.beside, strict=True)]
        self.headers = [sample.header for sample in samples]
        self.ids_are_text = all(sample.ids_are_text for sample in samples)
        self._check_headers()
        self.width = max(sample.n_features for sample in samples)
        self.sparse = self._is_sparse(sum(s.n_rows for s in samples), sum(s.n_values for s in samples), self.width)
        self.is_wrong = False  # the assumptions of this pass; then the rest is only counted
        self.is_counted = False  # all rows and values, by an earlier pass
        self.first_rows: list[int] = []

    # -- known beforehand ----------------------------------------------------------------------------------------------

    def _sample(self, path: Path, pool: ThreadPoolExecutor, beside: Sidecars) -> Reading:
        """The header, and the counts of the beginning extrapolated to the whole file."""
        reading = Reading(path, self.options, pool, 0, beside)
        looked_at = 0
        for chunk in text_chunks(path, SAMPLE_BYTES, reading.check_text):
            reading.scan(chunk)
            looked_at += chunk.stop - chunk.start
            chunk.release()
            if reading.n_rows:
                break
        if reading.n_rows == 0:
            raise FormatError("there are no rows, only blank lines and comments", path=path)
        reading.decide()
        size = path.stat().st_size * (1 if compression_of(path) is None else EXPANDED)
        stretch = max(1.0, size / looked_at)
        reading.n_rows, reading.n_values = int(reading.n_rows * stretch), int(reading.n_values * stretch)
        return reading

    def _check_headers(self) -> None:
        first = self.headers[0]
        for path, header in zip(self.paths, self.headers, strict=True):
            if header.feature_names != first.feature_names:
                raise FormatError(f"has different feature names than {self.paths[0]}", path=path)
            if self.options.sparse == "auto" and header.sparse != first.sparse:
                raise FormatError(
                    f"disagrees with {self.paths[0]} on whether it is sparse; pass {option('sparse')}", path=path
                )

    def _is_sparse(self, n_rows: int, n_values: int, width: int) -> bool:
        """Whether a matrix with these counts is sparse."""
        return self.options.stores_sparse(self.headers[0], n_rows, n_values, width)

    @property
    def _single(self) -> bool:
        asked = self.options.dtype
        return all((asked or header.dtype or "float64") == "float32" for header in self.headers)

    def _exact(self, path: Path, header: Header) -> int | None:
        return self.options.n_features if self.options.n_features is not None else header.columns(path)

    def _exacts(self) -> list[int | None]:
        return [self._exact(path, header) for path, header in zip(self.paths, self.headers, strict=True)]

    def layout(self) -> Layout:
        grows = self.sparse and self.settled is None and (len(set(self._exacts())) > 1 or None in self._exacts())
        return Layout(
            n_features=None if grows else self.width,
            dtype="float32" if self._single else "float64",
            sparse=self.sparse,
            feature_names=self.headers[0].feature_names,
            text_integers=("query_id",) if self.ids_are_text else (),
        )

    # -- a pass --------------------------------------------------------------------------------------------------------

    def rows(self, *, values: bool = True) -> Iterator[RankingData]:
        self.first_rows, self.is_wrong = [0], False
        n_rows = n_values = 0
        widest = max(exact or 0 for exact in self._exacts())
        with ThreadPoolExecutor(self.options.n_threads) as pool:
            for path, header, beside in zip(self.paths, self.headers, self.beside, strict=True):
                reading = _Streaming(path, self, header, pool, beside)
                yield from reading.pieces((n_rows, n_values, widest))
                widest = max(widest, reading.columns_needed)
                n_rows, n_values = n_rows + reading.total_rows, n_values + reading.total_values
                self.first_rows.append(n_rows)
        self.is_counted = True
        assumed = self.sparse, self.width
        exact = set(self._exacts())
        self.width = widest if len(exact) > 1 or None in exact else self.width
        self.sparse = self._is_sparse(n_rows, n_values, self.width)
        if self.is_wrong or self.sparse != assumed[0] or (not self.sparse and self.width != assumed[1]):
            raise StartOver

    def assumption_fails(self, n_rows: int, n_values: int, widest: int) -> bool:
        """Whether the counts so far rule out the assumptions of the pass."""
        too_sparse = not self.is_counted and self._is_sparse(n_rows, n_values, self.width)
        return not self.sparse and (widest > self.width or too_sparse)

    def reappearance_error(self, query: Any, ended: int, again: int) -> Exception:
        places = [self._line(row) for row in (ended - 1, again)]
        if places[0][0] == places[1][0]:
            return split_query_error(places[1][0], query, places[0][1], places[1][1])
        return FormatError(
            f"query {query} has rows in {places[0][0]} too, up to line {places[0][1]}; pass "
            f"{option('merge', True)} if this is intended",
            path=places[1][0],
            line=places[1][1],
        )

    def _line(self, row: int) -> tuple[Path, int]:
        file = max(i for i, first in enumerate(self.first_rows) if first <= row)
        return self.paths[file], lines_of_rows(self.paths[file], [row - self.first_rows[file]])[0]


class _Streaming(Reading):
    """The reading of one file, with one chunk in memory at a time."""

    def __init__(self, path: Path, source: LetorSource, header: Header, pool: ThreadPoolExecutor, beside: Sidecars):
        super().__init__(path, source.options, pool, 0, beside)
        self.source = source
        exact = source._exact(path, header)
        single = (source.options.dtype or header.dtype or "float64") == "float32"
        self.rules = Rules(source.options.zero_based, exact, single, self.with_query)
        self.n_features, self.is_sparse = source.width, source.sparse
        self.weights = _FileWeights(header)
        self.total_rows = self.total_values = 0

    def pieces(self, before: tuple[int, int, int]) -> Iterator[RankingData]:
        """The rows of each chunk, unless they are only counted; ``before``: rows, values, width of earlier files."""
        for chunk in text_chunks(self.path, self.source.chunk_bytes, self.check_text):
            for some in self._small_enough(chunk):
                data = self._piece(some, before)
                if data is not None:
                    yield data
            chunk.release()
        if not self.source.is_wrong:
            self.weights.check(self.path)
            self.header.row_weights(self.path, self.total_rows)
            self.beside.check_rows(self.total_rows)

    def _small_enough(self, chunk: Chunk) -> Iterator[Chunk]:
        """The chunk, or parts of it if its rows and features would make a large dense piece."""
        n_rows = 0 if self.is_sparse else int(np.count_nonzero(chunk.buf[chunk.start : chunk.stop] == 10)) + 1
        n_parts = 1 + n_rows * self.n_features * 8 // (2 * PIECE_BYTES)
        size = -(-(chunk.stop - chunk.start) // n_parts)
        for start, stop in span_bounds(chunk, size):
            yield Chunk(chunk.buf, start, stop, chunk.release)

    def _piece(self, chunk: Chunk, before: tuple[int, int, int]) -> RankingData | None:
        self.n_rows, self.n_values = self.total_rows, self.total_values
        part = self.scan(chunk)
        self.total_rows, self.total_values = self.n_rows, self.n_values
        self._judge(before)
        if self.source.is_wrong or part.rows == 0:
            return None
        self.n_rows, self.n_values = part.rows, sum(span.values for span in part.spans)
        part.first_row = part.first_value = 0
        self.found = FoundIds()
        self._allocate()
        self._fill_part(part)
        self._judge(before)
        return None if self.source.is_wrong else self._runs_of_chunk()

    @property
    def columns_needed(self) -> int:
        """The number of columns that the rows so far need; 0 if the file cannot need more."""
        return min(self.widest, LARGEST_INDEX) if self.rules.n_features is None else 0

    def _judge(self, before: tuple[int, int, int]) -> None:
        counts = (before[0] + self.total_rows, before[1] + self.total_values, max(before[2], self.columns_needed))
        self.source.is_wrong = self.source.is_wrong or self.source.assumption_fails(*counts)

    def _runs_of_chunk(self) -> RankingData:
        first = self.total_rows - self.n_rows
        starts, ids = self._runs(first)
        offsets = np.append(starts, self.n_rows).astype(np.int64)
        X = self._matrix()
        if self.is_sparse and X.shape[1] < self.n_features:
            X.resize((self.n_rows, self.n_features))
        documents = self._documents()
        return RankingData._build_unchecked(
            X=X,
            y=self.y,
            offsets=offsets,
            query_ids=ids,
            doc_ids=documents,
            feature_names=self.header.feature_names,
            init_scores=self.beside.init_of_part(first, self.n_rows),
            **self._weights_of_chunk(first, offsets, ids),
        )

    def _weights_of_chunk(self, first: int, offsets: Array, ids: Array) -> dict[str, Array | None]:
        by_row = self.beside.row_weights(first, self.n_rows)
        if by_row is None and self.header.document_weights is not None:
            self.header.row_weights(self.path, max(first + self.n_rows, len(self.header.document_weights)))
            by_row = self.header.document_weights[first : first + self.n_rows]
        return {"query_weights": self.weights.of(ids)} if by_row is None else weight_fields(by_row, offsets)


class _FileWeights:
    """The query weights in the header of a file, in order of first appearance."""

    def __init__(self, header: Header):
        self.header = header
        self.codes: dict[Any, int] = {}

    def of(self, ids: Array) -> Array | None:
        weights = self.header.query_weights
        if weights is None:
            return None
        codes = [self.codes.setdefault(query, len(self.codes)) for query in ids.tolist()]
        return np.asarray(weights[np.minimum(codes, len(weights) - 1)])  # check() reports too few

    def check(self, path: PathLike) -> None:
        if self.header.query_weights is not None:
            self.header.weights(path, len(self.codes))
