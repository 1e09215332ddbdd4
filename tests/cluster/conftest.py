"""A cluster of two worker processes, for the modules that ask for one."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def cluster():
    pytest.importorskip("distributed")
    from local_cluster import local_cluster

    with local_cluster(processes=True) as made:
        yield made


@pytest.fixture(scope="module")
def client(cluster):
    distributed = pytest.importorskip("distributed")
    with distributed.Client(cluster) as made:
        yield made


@pytest.fixture
def mortal():
    """The client of a cluster for one test alone, which may kill its workers."""
    distributed = pytest.importorskip("distributed")
    from local_cluster import local_cluster

    with local_cluster(processes=True) as cluster, distributed.Client(cluster) as made:
        yield made
