"""A cluster in this process: how much the scheduler remembers, and what happens when no worker is left."""

from __future__ import annotations

import gc
import json
import pickle
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import gainful
from gainful.cluster import blocks as cluster_blocks
from gainful.cluster.clients import CONNECT_SECONDS, check_workers, current_client
from gainful.cluster.shards import open_block
from gainful.errors import ClusterError
from gainful.linear.blockwise import linear_risk
from local_cluster import local_cluster

cloudpickle = pytest.importorskip("cloudpickle")
distributed = pytest.importorskip("distributed")
sizeof = pytest.importorskip("dask.sizeof").sizeof

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def data():
    return gainful.make_artificial(20, n_docs=10, n_features=5, seed=3)


@pytest.fixture
def cluster():
    with local_cluster() as made:
        yield made


@pytest.fixture
def shards(data, cluster, tmp_path):
    gainful.write(data[:8], tmp_path / "a.gnf")
    gainful.write(data[8:], tmp_path / "b.gnf")
    opened = gainful.open_shards(tmp_path, cluster=cluster)
    client = opened.source.client
    yield opened
    client.close()
    client._loop_runner.stop()  # one that gave up by itself, on a slow machine, leaves its thread


def test_a_long_training_leaves_no_trail(shards, cluster, data):
    """Every vector of scores is made of the one before; the scheduler must not keep all that led there."""
    risk = linear_risk(gainful.loss("pairwise-hinge"), shards)
    rng = np.random.default_rng(0)
    w = np.zeros(5)
    best = risk.value_and_gradient(w)[2]
    keys = []
    shards.source.longest_history = 8
    for _ in range(40):
        step = rng.normal(size=5)
        scores = risk.value_and_gradient(w + step)[2]
        best, w = best + 0.5 * (scores - best), w + 0.5 * step
        keys.append(len(cluster.scheduler.tasks))
    assert max(keys[20:]) <= max(keys[:20]) + 30  # some are on their way out; a trail would add 160
    np.testing.assert_allclose(np.asarray(best), data.X @ w, rtol=1e-9, atol=1e-9)
    del scores, best, risk
    gc.collect()
    assert shards.map(len) == [8, 12]
    assert len(cluster.scheduler.tasks) <= 6


def test_without_workers_training_ends_and_goes_on_from_its_checkpoint(shards, cluster, data, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster_blocks, "PATIENCE_SECONDS", 1.0)
    monkeypatch.setattr(cluster_blocks, "LOOK_SECONDS", 0.2)
    whole = gainful.StructuredSVM().fit(data)

    def leave(progress):
        if progress.iteration == 4:
            cluster.scale(0)

    file = tmp_path / "training.checkpoint"
    lost = rf"no running worker for 1 seconds; the same call resumes from the checkpoint .*{file.name}"
    with pytest.raises(ClusterError, match=lost):
        gainful.StructuredSVM().fit(shards, progress=leave, checkpoint=file)
    cluster.scale(2)
    seen = []
    found = gainful.StructuredSVM().fit(shards, progress=seen.append, checkpoint=file)
    np.testing.assert_allclose(found.coef_, whole.coef_, rtol=1e-6)
    assert found.n_iter_ == whole.n_iter_
    assert not file.exists()


def test_without_a_checkpoint_the_line_says_how_to_have_one(shards, cluster, monkeypatch):
    monkeypatch.setattr(cluster_blocks, "PATIENCE_SECONDS", 0.5)
    monkeypatch.setattr(cluster_blocks, "LOOK_SECONDS", 0.1)
    with pytest.raises(ClusterError, match=r"training has to start again; fit\(…, checkpoint=FILE\)"):
        gainful.RankSVM().fit(shards, progress=lambda progress: cluster.scale(0))


def test_a_lost_scheduler_ends_training(shards, cluster):
    with pytest.raises(
        ClusterError, match=r"the connection to the Dask cluster is lost: .*; training has to start again"
    ):
        gainful.RankSVM().fit(shards, progress=lambda progress: cluster.close())


def test_a_closed_client_is_reported(shards):
    shards.source.client.close()
    with pytest.raises(ClusterError, match="the connection to the Dask cluster is lost"):
        gainful.RankSVM().fit(shards)


def test_another_client_may_be_quicker(shards, data, monkeypatch):
    """Trees are grown through a client of their own, which must not ask for scores that are still on their way."""
    monkeypatch.setattr("gainful.trees.cluster.train.ROUND_TREES", 1)
    comm = shards.source.client.scheduler_comm
    usual, comm.interval = comm.interval, 0.4
    try:
        found = gainful.ranker("tree-regression", n_trees=2, n_jobs=1).fit(shards)
    finally:
        comm.interval = usual
    np.testing.assert_allclose(
        found.predict(data), gainful.ranker("tree-regression", n_trees=2, n_jobs=1).fit(data).predict(data)
    )


def test_blocks_are_bound_to_no_worker(shards, cluster, data):
    assert not any(cluster.scheduler.tasks[part.key].worker_restrictions for part in shards.source.data.parts)
    cluster.scale(0)
    cluster.scale(2)
    np.testing.assert_allclose(gainful.RegressionRanker().fit(shards).coef_, gainful.RegressionRanker().fit(data).coef_)


def test_mapped_pages_are_drop_pages_where_memory_is_short(data, tmp_path, monkeypatch):
    """Dask counts them as the worker's own, and would pause it."""
    gainful.write(data, tmp_path / "a.gnf")
    shard = open_block(str(tmp_path / "a.gnf"), None, {}, (3, 9, 60))
    assert pickle.loads(pickle.dumps(shard)).equals(data[3:9])
    held = cluster_blocks._keep(cloudpickle.dumps((_rows, (cluster_blocks.Slot(0),), 1)), shard)
    dropped = []
    monkeypatch.setattr(cluster_blocks, "forget_pages", lambda pages, start, stop: dropped.append(pages))
    worker = SimpleNamespace(memory_manager=SimpleNamespace(memory_limit=1 << 60))
    monkeypatch.setattr(distributed, "get_worker", lambda: worker)
    cluster_blocks._drop_pages((held, shard, 3))
    assert dropped == []
    worker.memory_manager.memory_limit = 1 << 20
    cluster_blocks._drop_pages((held, shard, 3))
    assert dropped == [shard.pages, shard.pages]
    assert sizeof(shard) < shard.X.nbytes + 64 * shard.n_rows <= sizeof(shard.replace())


def _rows(data):
    return {"rows": data.n_rows}


class Answering:
    """A client of workers that answer so."""

    status = "running"

    def __init__(self, workers, scheduler=gainful.__version__):
        self.workers, self.scheduler = workers, scheduler

    def nthreads(self):
        return dict.fromkeys(self.workers, 1)

    def submit(self, *_, **__):
        return SimpleNamespace(release=lambda: None)

    def wait_for_workers(self, *_, **__):
        raise TimeoutError

    def run(self, *_, **__):
        return self.workers

    def run_on_scheduler(self, *_):
        return self.scheduler


def test_workers_that_cannot_help():
    missing = ModuleNotFoundError("No module named 'gainful'", name="gainful")
    with pytest.raises(
        ClusterError, match=r"worker tcp://b has no gainful .*; install gainful \S+ with the extra dask"
    ):
        check_workers(Answering({"tcp://a": gainful.__version__, "tcp://b": missing}))
    with pytest.raises(ClusterError, match=r"the scheduler has gainful 0\.0\.1, here it is"):
        check_workers(Answering({"tcp://a": gainful.__version__}, "0.0.1"))
    with pytest.raises(ClusterError, match="has no workers; start some: dask worker"):
        check_workers(Answering({}))
    with pytest.raises(ClusterError, match="cannot load gainful: broken"):
        check_workers(Answering({"tcp://a": OSError("broken\nmore")}))


@pytest.mark.parametrize("wants", [1, 2])
def test_a_cluster_that_starts_its_workers_when_they_are_needed(wants, data, tmp_path):
    gainful.write(data, tmp_path / "a.gnf")
    with local_cluster(n_workers=0) as made:
        made.adapt(minimum=0, maximum=wants)
        shards = gainful.open_shards(tmp_path / "a.gnf", cluster=made)
        np.testing.assert_allclose(
            gainful.RegressionRanker().fit(shards).coef_, gainful.RegressionRanker().fit(data).coef_
        )


BAD_ADDRESSES = {
    "foo": "must be the address of a scheduler, as tcp://host:8786, was 'foo'",
    "": "must be the address of a scheduler, as tcp://host:8786, was ''",
    "http://x:1": "must be the address of a scheduler",
    "127.0.0.1": "must be the address of a scheduler",
    "tcp://:8786": "must be the address of a scheduler",
    "tcp://host:99999": "must be the address of a scheduler",
    "tls://127.0.0.1:1": "needs certificates; name them in Dask's configuration",
    "tcp://127.0.0.1:1": "no Dask scheduler answers at tcp://127.0.0.1:1: ",
}


def test_wrong_addresses_are_reported_at_once_and_quietly():
    """In a process of its own: a half-open client warns when it is collected."""
    code = """
import gc, json, sys, time
import gainful, gainful.cluster
for address in json.loads(sys.argv[1]):
    began = time.perf_counter()
    try:
        gainful.open_shards("somewhere", cluster=address)
    except gainful.GainfulError as error:
        print(json.dumps([str(error), time.perf_counter() - began]))
gc.collect()
"""
    command = [sys.executable, "-c", code, json.dumps(list(BAD_ADDRESSES))]
    told = subprocess.run(command, check=True, capture_output=True, text=True)
    assert told.stderr == ""
    lines = [json.loads(line) for line in told.stdout.splitlines()]
    assert len(lines) == len(BAD_ADDRESSES)
    for (text, seconds), said in zip(lines, BAD_ADDRESSES.values(), strict=True):
        assert said in text
        assert "\n" not in text
        assert seconds < CONNECT_SECONDS


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ["structured-svm", "lambdarank"])
def test_a_training_goes_on_with_fewer_workers(name, data, tmp_path, monkeypatch):
    """Where blocks end is settled by the file alone."""
    monkeypatch.setattr("gainful.cluster.shards.ROWS_OF_ROOT", 3.5)  # √200 / 3.5 ≈ 4 blocks
    gainful.write(data, tmp_path / "a.gnf")
    file = tmp_path / "training.checkpoint"

    def stop(progress):
        if progress.iteration == 3:
            raise ClusterError("enough")

    facts = []
    for workers, callback in ((4, stop), (2, None)):
        with local_cluster(n_workers=workers) as made:
            shards = gainful.open_shards(tmp_path / "a.gnf", cluster=made)
            facts.append([one.n_rows for one in shards.facts])
            model = gainful.ranker(name, max_iter=8)
            if callback is None:
                model.fit(shards, checkpoint=file, checkpoint_every=0)
            else:
                with pytest.raises(ClusterError, match="resumes from the checkpoint"):
                    model.fit(shards, progress=callback, checkpoint=file, checkpoint_every=0)
    assert facts[0] == facts[1] == [50, 50, 50, 50]
    whole = gainful.ranker(name, max_iter=8).fit(data)
    np.testing.assert_allclose(model.coef_, whole.coef_, rtol=1e-6, atol=1e-9)
    assert not file.exists()


def test_without_dask_the_line_names_the_extra():
    code = """
import sys
sys.modules["distributed"] = None
import gainful
try:
    gainful.open_shards("somewhere", cluster="tcp://host:8786")
except ImportError as error:
    print(error)
"""
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert told.startswith("training on a cluster needs Dask, which is not installed; run: pip install '")
    assert "[dask]'" in told


def test_without_a_client_the_line_says_how_to_start_one(monkeypatch):
    def none():
        raise ValueError("No global client found")

    monkeypatch.setattr(distributed, "get_client", none)
    with pytest.raises(ClusterError, match=r"none is connected; start one first: client = distributed\.Client"):
        current_client()
