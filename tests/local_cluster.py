"""Dask clusters on this machine that leave nothing running."""

from __future__ import annotations

import multiprocessing
from contextlib import contextmanager

import pytest

from gainful.cluster import close_clients

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")

# Dask would also look every 10 ms at what its workers are doing.
LIGHTGBM = "gainful.trees.lightgbm_library"  # it brings OpenMP where the system has none
IMPORTED = ["distributed", LIGHTGBM, "gainful.cluster", "gainful.linear.blockwise", "gainful.trees.cluster.workers"]
QUICK = {"distributed.worker.multiprocessing-method": "forkserver", "distributed.worker.profile.enabled": False}


@contextmanager
def local_cluster(n_workers: int = 2, processes: bool = False):
    """Workers of one thread each, in processes of their own or in this one.

    Clients that gainful opened by address go first: left without their cluster, they would try to connect again and
    again from a thread that draws random numbers. Workers are forks of a process that has imported everything, where
    each would import it for itself.
    """
    with dask.config.set(QUICK):
        distributed.utils.get_mp_context()  # sets what Dask would have imported there
        multiprocessing.set_forkserver_preload(IMPORTED)
        with distributed.LocalCluster(
            n_workers=n_workers, threads_per_worker=1, processes=processes, dashboard_address=":0"
        ) as made:
            try:
                yield made
            finally:
                close_clients()
