"""Shards that the workers of a cluster open themselves, from paths that all machines see."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from itertools import pairwise
from time import monotonic, sleep
from typing import Any

import distributed
import numpy as np

from gainful.cluster.blocks import DaskBlocks, MappedBlock, gather, plain_errors
from gainful.data.dataset import RankingData
from gainful.data.sharded import ShardedData
from gainful.errors import DataError, FormatError
from gainful.formats import format_of, read
from gainful.formats.binary.reader import BinaryFile
from gainful.formats.files import PathLike
from gainful.formats.pairs import refuse_pairs
from gainful.formats.shards import shard_files

ROWS_OF_ROOT = 128  # a block has this times √rows rows: 8 blocks for 10⁶ rows, 256 for 10⁹
UNBIND_SECONDS = 30.0


def open_on_cluster(
    client: Any, path: PathLike | Iterable[PathLike], format: str | None, options: dict[str, Any]
) -> ShardedData:
    """The files of a folder, a list or one file, each opened by a worker, spread evenly.

    .gnf files are mapped, long ones as several blocks; other files are read, one block each. Block ends depend on the
    files alone, so a training can resume from its checkpoint on a cluster of another size.
    """
    refuse_pairs(options, "a cluster")
    if isinstance(path, (str, os.PathLike)):
        listed: Any = os.path.abspath(path)  # workers have other working directories
    else:
        listed = [os.path.abspath(one) for one in path]
    paths = gather(client, [client.submit(_list_files, listed, format, pure=False)])[0]
    mapped = [_is_mapped(one, format, options) for one in paths]
    long = [one for one, is_in in zip(paths, mapped, strict=True) if is_in]
    total = sum(gather(client, [client.submit(_n_rows, one, pure=False) for one in long]))
    counting = [client.submit(_cuts, one, max(1.0, total / block_count(total)), pure=False) for one in long]
    cuts = iter(gather(client, counting))
    blocks: list[tuple[Any, ...]] = []
    names: list[str] = []
    for one, is_in in zip(paths, mapped, strict=True):
        parts = next(cuts) if is_in else [None]
        blocks += [(one, format, options, part) for part in parts]
        names += [one] if len(parts) == 1 else [f"{one} (part {i + 1})" for i in range(len(parts))]
    homes = spread(client, [_size(block) for block in blocks])
    futures = [
        client.submit(open_block, *block, workers=home, allow_other_workers=home is not None, pure=False, key=None)
        for block, home in zip(blocks, homes, strict=True)
    ]
    _unbind(client, [future.key for future in futures])
    return ShardedData(DaskBlocks(client, futures), names)


def _unbind(client: Any, keys: list[str]) -> None:
    """Allow blocks on any worker once each has been assigned to its own.

    A task bound to workers waits for one of them, forever if all are gone, even with ``allow_other_workers``.
    """
    end = monotonic() + UNBIND_SECONDS
    while keys and monotonic() < end:
        with plain_errors():
            keys = client.run_on_scheduler(_release, keys)
        sleep(0.01)


def _release(keys: list[str], dask_scheduler: Any = None) -> list[str]:
    """On the scheduler: remove the restrictions of these keys; returns the keys that have not arrived yet."""
    dask_scheduler.set_restrictions({key: [] for key in keys if key in dask_scheduler.tasks})
    return [key for key in keys if key not in dask_scheduler.tasks]


def _is_mapped(path: str, format: str | None, options: dict[str, Any]) -> bool:
    return format_of(path, format).mapped and options.get("mmap", True) is True


def block_count(rows: float) -> int:
    """The number of blocks for files with this many rows: a power of two near √rows / 128.

    Each block costs the scheduler some tasks per iteration, and workers take over work from each other in blocks. So
    both number and length grow with the data, whatever the cluster.
    """
    return 1 << max(0, round(math.log2(max(1.0, rows) ** 0.5 / ROWS_OF_ROOT)))


def _size(block: tuple[Any, ...]) -> float:
    """The work of a block, relative to others; 1 for a file that is not open yet."""
    part = block[3]
    return 1.0 if part is None else float(part[2])


def spread(client: Any, sizes: list[float]) -> list[str | None]:
    """A worker for each block: neighbours together, and work in proportion to threads.

    None if there is no worker at the moment, as on an adaptive cluster.
    """
    workers = client.nthreads()
    if not workers:
        return [None] * len(sizes)
    ends = np.cumsum(list(workers.values())) / sum(workers.values())
    middles = (np.cumsum(sizes) - np.array(sizes) / 2) / sum(sizes)
    names = list(workers)
    return [names[i] for i in np.minimum(np.searchsorted(ends, middles, side="right"), len(names) - 1)]


# -- on the worker -----------------------------------------------------------------------------------------------------


def _list_files(path: Any, format: str | None) -> list[str]:
    return [str(file) for file in shard_files(path, format)]


def _n_rows(path: str) -> int:
    return _open(path).shape.n_rows


def _cuts(path: str, rows: float) -> list[tuple[int, int, int]]:
    """Queries of each block, first and last, and its rows: blocks of about ``rows`` rows each."""
    opened = _open(path)
    opened.refuse_repeated_query()
    offsets = opened.offsets
    count = max(1, round(int(offsets[-1]) / rows))
    inner = np.searchsorted(offsets, [int(offsets[-1]) * i // count for i in range(1, count)])
    ends = np.unique([0, *inner, len(offsets) - 1]).tolist()
    return [(a, b, int(offsets[b] - offsets[a])) for a, b in pairwise(ends)]


def open_block(
    path: str, format: str | None, options: dict[str, Any], part: tuple[int, int, int] | None
) -> RankingData:
    """A block; runs on its worker."""
    if part is None:
        try:
            return read(path, format, **options)
        except FormatError as error:
            raise _missing_error(path, error) from None
    opened = _open(path)
    return MappedBlock.wrap((open_block, path, format, options, part), opened.part(part[0], part[1]), opened.pages)


def _open(path: str) -> BinaryFile:
    try:
        return BinaryFile(path)
    except FormatError as error:
        raise _missing_error(path, error) from None


def _missing_error(path: str, error: FormatError) -> DataError:
    from pathlib import Path

    if Path(path).exists():
        return error
    try:
        where = f"worker {distributed.get_worker().address}"
    except ValueError:
        where = "this machine"
    return DataError(f"{path} does not exist on {where}; put shards where all machines of the cluster can read them")
