"""``open_shards``: files as blocks of whole queries, in this process or on a cluster."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gainful.data.dataset import Dataset
from gainful.data.sharded import ShardedData, TextInBlocksError
from gainful.formats.files import PathLike
from gainful.formats.shards import open_local_shards
from gainful.inputs.reading import read


def open_many(path: PathLike, **options: Any) -> Dataset:
    """A folder or pattern of files as blocks, or as one if a feature holds text, which blocks cannot."""
    try:
        return open_shards(path, **options)
    except TextInBlocksError:
        return read(path, **options)


def open_shards(
    path: PathLike | Iterable[PathLike], *, format: str | None = None, cluster: Any = None, **options: Any
) -> ShardedData:
    """Open a folder of shards, a list of files, or one file, without reading their values.

    Every file holds whole queries. gainful's binary (.gnf) is mapped and may be larger than memory; other formats are
    read, and refused if they would not fit. ``format`` and ``options`` as in :func:`gainful.read`.

    ``cluster``: the workers of this Dask cluster open the files, from a path that all of them can read. A
    ``distributed.Client``, the address of a scheduler ("tcp://host:8786"), or a cluster such as ``LocalCluster``.
    """
    if cluster is None:
        return open_local_shards(path, format=format, **options)
    from gainful.cluster import client_of, open_on_cluster  # needs Dask

    return open_on_cluster(client_of(cluster), path, format, options)
