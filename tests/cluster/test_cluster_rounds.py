"""Rounds on a cluster end whatever fails, stops or competes with them, and keep the trees grown so far."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pandas
import pytest

import gainful
from gainful.errors import ClusterError, GainfulError, InterruptedFitWarning

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
dd = pytest.importorskip("dask.dataframe")
import lightgbm  # noqa: E402
import lightgbm.dask as lightgbm_dask  # noqa: E402

from gainful.trees import lightgbm_private  # noqa: E402
from gainful.trees.cluster import rounds as cluster_rounds  # noqa: E402
from gainful.trees.cluster import train as cluster_trees  # noqa: E402
from gainful.trees.cluster import workers as cluster_workers  # noqa: E402

SMALL = {"n_trees": 6, "n_leaves": 4, "min_docs_in_leaf": 1, "early_stopping": None}

pytestmark = pytest.mark.cluster
SLOW = pytest.mark.skipif("GAINFUL_SLOW" not in os.environ, reason="waits for workers to restart: make test-slow")


@pytest.fixture(scope="module")
def data():
    return gainful.make_artificial(40, n_docs=12, n_features=5, seed=3)


@pytest.fixture(scope="module")
def valid():
    return gainful.make_artificial(20, n_docs=12, n_features=5, seed=4)


@pytest.fixture(scope="module")
def folder(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards")
    for i in range(2):
        gainful.write(data[20 * i : 20 * i + 20], folder / f"part-{i}.gnf")
    return folder


@pytest.fixture(scope="module")
def shards(folder, client):
    return gainful.open_shards(folder, cluster=client)


@pytest.fixture(autouse=True)
def short_rounds(monkeypatch):
    monkeypatch.setattr(cluster_trees, "ROUND_TREES", 2)
    monkeypatch.setattr(cluster_rounds, "GRACE", 1.0)
    monkeypatch.setattr(cluster_rounds, "RESTART_SECONDS", 15.0)


def left_on(client):
    """What each worker keeps of trainings."""
    return [one for kept in client.run(standing).values() for one in kept]


def standing(dask_worker):
    from gainful.trees.cluster.workers import _STATES

    return [(key, one.growing) for (address, key), one in _STATES.items() if address == dask_worker.address]


def alive(client):
    """Whether every worker still does something."""
    futures = [client.submit(abs, -1, workers=[one], pure=False) for one in client.nthreads()]
    return distributed.wait(futures, timeout=120).not_done == set()


# -- healthy trainings -------------------------------------------------------------------------------------------------


@SLOW
def test_many_short_rounds_with_validation_all_end_well(shards, valid, monkeypatch, caplog):
    monkeypatch.setattr(cluster_trees, "ROUND_TREES", 1)
    with caplog.at_level(logging.WARNING, logger="gainful"):
        model = gainful.LambdaMART(**SMALL | {"n_trees": 50}).fit(shards, eval_set=valid)
    assert model.booster_.current_iteration() == 50
    assert not [record for record in caplog.records if record.name.startswith("gainful")]


def test_scores_are_there_before_a_round_names_them(shards, monkeypatch):
    """Another client may be ahead of ours: it must not name what the scheduler has not heard of."""
    seen = []
    made = cluster_rounds.Attempt.__init__

    def noted(self, client, blocks, scores, work, network):
        seen.extend(one.status for one in scores if one is not None)
        made(self, client, blocks, scores, work, network)

    monkeypatch.setattr(cluster_rounds.Attempt, "__init__", noted)
    monkeypatch.setattr(cluster_trees, "add_trees", slowly_added)
    gainful.LambdaMART(**SMALL).fit(shards)
    assert len(seen) == 4  # two blocks in each of the two later rounds
    assert set(seen) == {"finished"}


def slowly_added(data, scores, trees):
    from gainful.trees.sums import add_trees

    time.sleep(0.3)
    return add_trees(data, scores, trees)


def test_trainings_at_the_same_time_take_turns(cluster, folder):
    found = {}

    def fit(i):
        with distributed.Client(cluster.scheduler_address, set_as_default=False) as own:
            shards = gainful.open_shards(folder, cluster=own)
            found[i] = gainful.LambdaMART(**SMALL | {"n_trees": 8}, random_state=i).fit(shards)

    threads = [threading.Thread(target=fit, args=(i,), daemon=True) for i in range(3)]
    for thread in threads:
        thread.start()
    until = time.monotonic() + 300
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    assert sorted(found) == [0, 1, 2]
    assert all(model.booster_.current_iteration() == 8 for model in found.values())


def test_no_round_begins_while_another_training_has_its_turn(client, shards):
    other = distributed.Semaphore(1, cluster_rounds.TURN, scheduler_rpc=client.scheduler, loop=client.loop)
    gainful.LambdaMART(**SMALL).fit(shards)  # what is loaded and compiled on first use
    fitted = []
    thread = threading.Thread(target=lambda: fitted.append(gainful.LambdaMART(**SMALL).fit(shards)), daemon=True)
    assert other.acquire(timeout=60)
    try:
        thread.start()
        thread.join(3)
        assert left_on(client) == []
        assert thread.is_alive()
    finally:
        other.release()
    thread.join(300)
    assert fitted[0].booster_.current_iteration() == 6
    assert other.get_value() == 0  # it was given back


def test_trees_from_a_dask_frame(client, data, valid):
    columns = [f"x{j}" for j in range(data.n_features)]
    frame = pandas.DataFrame(data.X, columns=columns)
    frame = frame.assign(grade=data.y, query=np.repeat(data.query_ids, data.counts))
    parts = dd.concat([dd.from_pandas(part, npartitions=1) for part in (frame[:240], frame[240:])])
    here = gainful.ranker("tree-regression", **SMALL).fit(data)
    there = gainful.ranker("tree-regression", **SMALL).fit(parts[columns], parts["grade"], qid=parts["query"])
    np.testing.assert_allclose(there.predict(valid.X), here.predict(valid.X), rtol=1e-6)


def test_output_is_as_it_was_and_lightgbm_says_nothing(capfd):
    with cluster_workers._silence_lightgbm(), cluster_workers._silence_lightgbm():
        os.write(1, b"[LightGBM] [Info] Listening...\nmine\n")
        os.write(1, b"also mine\n")
    os.write(1, b"after\n")
    out, err = capfd.readouterr()
    assert out.splitlines() == ["mine", "also mine", "after"]
    assert err == ""


# -- failures ----------------------------------------------------------------------------------------------------------


def failing(monkeypatch, error, times):
    """Let the second round fail so many times, before any worker is asked."""
    trained, calls = cluster_rounds.Attempt._train, []

    def sometimes(self):
        calls.append(self.spec.done)
        if self.spec.done == 2 and calls.count(2) <= times:
            raise error
        return trained(self)

    monkeypatch.setattr(cluster_rounds.Attempt, "_train", sometimes)
    return calls


@pytest.mark.parametrize(
    "error",
    [
        lightgbm.basic.LightGBMError("Socket recv error, Connection timed out (code: 110)"),
        lightgbm.basic.LightGBMError("Binding port 12400 failed"),
        distributed.CancelledError("pack_block-1", "lost dependencies"),
    ],
    ids=["socket", "port", "keys"],
)
def test_workers_that_lose_one_another_cost_a_round(error, shards, data, valid, monkeypatch):
    calls = failing(monkeypatch, error, times=1)
    model = gainful.ranker("tree-regression", **SMALL).fit(shards)
    assert calls == [0, 2, 2, 4]
    here = gainful.ranker("tree-regression", **SMALL).fit(data)
    np.testing.assert_allclose(model.predict(valid), here.predict(valid), rtol=1e-6)


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (lightgbm.basic.LightGBMError("Socket recv error"), ClusterError, "in 3 rounds.*Socket recv error.*check"),
        (lightgbm.basic.LightGBMError("no such thing"), GainfulError, "LightGBM: no such thing"),
        (OSError("Timed out trying to connect to tcp://gone"), ClusterError, "is lost: Timed out.*check"),
        (TimeoutError(), ClusterError, "is lost: TimeoutError.*check"),
        (ValueError("odd"), ValueError, "odd"),
    ],
    ids=["socket", "lightgbm", "scheduler", "time", "other"],
)
def test_any_failure_keeps_what_is_known(error, kind, said, shards, data, valid, tmp_path, monkeypatch):
    file = tmp_path / "check"
    failing(monkeypatch, error, times=9)
    with pytest.raises(kind, match=said):
        gainful.ranker("tree-regression", **SMALL).fit(shards, checkpoint=file)
    monkeypatch.undo()
    resumed = gainful.ranker("tree-regression", **SMALL).fit(shards, checkpoint=file)
    here = gainful.ranker("tree-regression", **SMALL).fit(data)
    np.testing.assert_allclose(resumed.predict(valid), here.predict(valid), rtol=1e-6)


def test_the_threads_of_the_client_do_not_matter(shards, tmp_path, monkeypatch):
    file = tmp_path / "check"
    with pytest.warns(InterruptedFitWarning):
        gainful.LambdaMART(**SMALL).fit(shards, checkpoint=file, progress=lambda now: now.iteration == 2)
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert gainful.LambdaMART(**SMALL).fit(shards, checkpoint=file).booster_.current_iteration() == 6


def test_an_error_that_cannot_be_sent_is_described_in_words(shards):
    class Odd(Exception):
        def __init__(self, a, b):
            super().__init__(f"odd {a}")
            self.lock = threading.Lock()

    def fails(scores, grades):
        if np.ptp(scores) > 0:
            raise Odd(1, 2)
        return 0.5 * float((scores - grades) @ (scores - grades)), scores - grades

    with pytest.raises(GainfulError, match="the loss failed on a worker with Odd: odd 1") as told:
        gainful.BoostedRanker(fails, **SMALL).fit(shards)
    assert "in fails" in told.value.__notes__[0]


def test_a_name_that_lightgbm_no_longer_has_is_reported(shards, monkeypatch):
    monkeypatch.delattr(lightgbm_dask, "_train")
    with pytest.raises(GainfulError, match=r"has no lightgbm.dask._train.* tested with LightGBM"):
        gainful.LambdaMART(**SMALL).fit(shards)
    with pytest.raises(GainfulError, match=r"has no lightgbm.basic._LIB.LGBM_Nothing"):
        lightgbm_private.private("basic", "_LIB.LGBM_Nothing")


def test_what_a_dead_client_left_is_dropped(cluster, client, folder, shards):
    script = f"""
import os, gainful, distributed
if __name__ == "__main__":
    shards = gainful.open_shards({str(folder)!r}, cluster=distributed.Client({cluster.scheduler_address!r}))
    gainful.LambdaMART(n_trees=60).fit(shards, progress=lambda now: now.iteration == 1 and os.kill(os.getpid(), 9))
"""
    ended = subprocess.run([sys.executable, "-c", script], stderr=subprocess.DEVNULL, check=False, timeout=300)
    assert ended.returncode == -signal.SIGKILL
    assert left_on(client)
    gainful.LambdaMART(**SMALL).fit(shards)
    assert left_on(client) == []


# -- half a network ----------------------------------------------------------------------------------------------------


def busy(seconds):
    time.sleep(seconds)


def half_up(monkeypatch, client, seconds, then=lambda: None):
    """Keep a worker busy while the second round begins, so that the other waits in the network."""
    assign, calls, held = lightgbm_dask._assign_open_ports_to_workers, [], []

    def assigned(**about):
        ports = assign(**about)
        calls.append(1)
        if len(calls) == 2:
            one = sorted(about["workers"])[0]
            held.append(client.submit(busy, seconds, workers=[one], pure=False, priority=1000))
            time.sleep(0.3)
            then()
        return ports

    monkeypatch.setattr(lightgbm_dask, "_assign_open_ports_to_workers", assigned)
    return held


@SLOW
@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_while_a_network_is_half_up_leaves_no_worker_in_it(client, shards, monkeypatch):
    def interrupt():
        for seconds in (1.2, 1.9):  # the second one comes while workers are freed
            threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)).start()

    held = half_up(monkeypatch, client, 4, interrupt)
    with pytest.warns(InterruptedFitWarning):
        model = gainful.LambdaMART(**SMALL).fit(shards)
    assert held
    assert model.booster_.current_iteration() == 2
    assert alive(client)
    assert left_on(client) == []
    assert gainful.LambdaMART(**SMALL).fit(shards).booster_.current_iteration() == 6


@SLOW
def test_a_network_that_does_not_come_about_is_given_up(client, shards, monkeypatch, caplog):
    monkeypatch.setattr(cluster_rounds, "NETWORK_SECONDS", 1.0)
    monkeypatch.setattr(cluster_rounds, "ASK_EVERY", 0.5)
    held = half_up(monkeypatch, client, 5)
    with caplog.at_level(logging.WARNING, logger="gainful"):
        model = gainful.LambdaMART(**SMALL).fit(shards)
    assert held
    assert model.booster_.current_iteration() == 6
    assert "did not come together in 1 seconds" in caplog.text


# -- no scheduler ------------------------------------------------------------------------------------------------------


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def wait_for(port):
    for _ in range(600):
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise AssertionError("no scheduler is listening")


def test_a_scheduler_that_dies_ends_training_in_a_line_with_a_checkpoint(folder, tmp_path):
    program, port = os.path.join(os.path.dirname(sys.executable), "dask"), free_port()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    address, alone = f"tcp://127.0.0.1:{port}", ["--no-dashboard"]
    scheduler = subprocess.Popen([program, "scheduler", "--host", "127.0.0.1", "--port", str(port), *alone], **quiet)
    worker = subprocess.Popen([program, "worker", address, "--nthreads", "1", "--no-nanny", *alone], **quiet)
    soon = dask.config.set({"distributed.comm.timeouts.connect": "5s"})
    try:
        wait_for(port)
        with soon, distributed.Client(address, timeout=60, set_as_default=False) as client:
            client.wait_for_workers(1, timeout=120)
            shards = gainful.open_shards(folder, cluster=client)

            def kill(now):
                if now.iteration == 4:
                    scheduler.kill()

            with pytest.raises(ClusterError, match=r"the same call resumes from the checkpoint .*check"):
                gainful.LambdaMART(**SMALL).fit(shards, checkpoint=tmp_path / "check", progress=kill)
    finally:
        for one in (worker, scheduler):
            one.kill()
            one.wait()
