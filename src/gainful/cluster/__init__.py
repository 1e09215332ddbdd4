"""Blocks of whole queries on a Dask cluster.

Solvers, rankers and metrics are the same as on one machine; this package only decides where a block's tasks run. It
needs the extra ``dask`` and is imported on use.
"""

from __future__ import annotations

from gainful.errors import MissingExtraError

try:
    import distributed as _distributed  # noqa: F401
except ImportError:
    raise MissingExtraError.of("training on a cluster", "Dask", "dask") from None

from gainful.cluster.blocks import DaskBlocks
from gainful.cluster.clients import client_of, close_clients, current_client
from gainful.cluster.collections import from_collections, is_collection, predict_lazily
from gainful.cluster.shards import open_on_cluster

__all__ = [
    "DaskBlocks",
    "client_of",
    "close_clients",
    "current_client",
    "from_collections",
    "is_collection",
    "open_on_cluster",
    "predict_lazily",
]
