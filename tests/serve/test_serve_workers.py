"""Several workers on one address: they count together, a dead one is replaced, all take up a new model."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request

import pytest
from serve_examples import TOKEN, server, train_data, wait_until

import gainful
from gainful.errors import ParameterError
from gainful.serve import Settings
from gainful.serve.monitoring import Metrics
from gainful.serve.workers import Board, Place

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="workers are forked")
RIGHT = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}


def ask(url, path, body=None):
    request = urllib.request.Request(url + path, None if body is None else json.dumps(body).encode(), RIGHT)
    with urllib.request.urlopen(request, timeout=20) as answer:
        return answer.read().decode()


def count(url, name):
    found = re.search(rf"^{name}(?:{{[^}}]*}})? (\d+)$", ask(url, "/metrics"), re.MULTILINE)
    return int(found[1]) if found else 0


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return {int(one) for one in file.read().split()}


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="reads /proc")
def test_workers_share_the_work_and_the_counts(tmp_path):
    path = tmp_path / "model.gainful"
    models = [gainful.RegressionRanker(alpha=alpha).fit(train_data()) for alpha in (0.1, 1e3)]
    gainful.save(models[0], path)
    row = [1.0, 2.0, 3.0, 4.0]
    with server(path, "--workers", "2", "--watch", "0", "--token", TOKEN) as (process, url, _):
        wait_until(lambda: len(children(process.pid)) == 2)
        for _ in range(40):
            ask(url, "/score", {"rows": [row, row]})
        wait_until(lambda: count(url, "gainful_rows_scored_total") == 80)
        assert count(url, "gainful_model_loads_total") == 1

        killed = min(children(process.pid))
        os.kill(killed, signal.SIGKILL)
        wait_until(lambda: len(children(process.pid) - {killed}) == 2)
        wait_until(lambda: count(url, "gainful_rows_scored_total") == 80)  # those of the dead one too

        gainful.save(models[1], path)
        ask(url, "/reload", {})
        expected = float(models[1].predict([row])[0])
        wait_until(lambda: all(json.loads(ask(url, "/score", {"rows": [row]}))["scores"] == [expected]
                               for _ in range(20)))  # fmt: skip
        killed = min(children(process.pid))
        os.kill(killed, signal.SIGKILL)  # the next one has the new model too
        wait_until(lambda: len(children(process.pid) - {killed}) == 2)
        assert all(json.loads(ask(url, "/score", {"rows": [row]}))["scores"] == [expected] for _ in range(20))
        before = children(process.pid)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0
        assert not any(os.path.exists(f"/proc/{pid}") for pid in before)


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="reads /proc")
def test_workers_end_when_their_parent_is_killed(tmp_path):
    gainful.save(gainful.RegressionRanker().fit(train_data()), tmp_path / "model.gainful")
    with server(tmp_path / "model.gainful", "--workers", "2") as (process, _, _):
        wait_until(lambda: len(children(process.pid)) == 2)
        before = children(process.pid)
        process.kill()
        wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in before))


def test_counts_of_workers_add_up():
    board, metrics = Board(3), [Metrics() for _ in range(3)]
    for i, one in enumerate(metrics):
        one.observe("POST", "/rank", 200, 0.002 * (i + 1))
        one.rows += 10**i
        Place(board, i).post(one)
    metrics[1].rows += 5  # not posted yet
    total = Place(board, 1).total(metrics[1])
    assert (total.rows, total.requests["POST", "/rank", 200]) == (116, 3)
    assert sum(total.latency["/rank"]) == 3
    assert total.seconds["/rank"] == pytest.approx(0.012)
    again = Metrics()
    Place(board, 2).resume(again)
    assert (again.rows, again.in_flight) == (100, 0)


def test_half_a_state_is_never_read(monkeypatch):
    """Processors may show what another one wrote in any order: any bytes may be of the last state or of the next."""
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    board, metrics, states = Board(1), Metrics(), []
    for rows in (12_345, 67_890):
        metrics.rows = rows
        board.post(0, metrics)
        states.append(bytes(board._memory))
    size = len(states[1].rstrip(b"\0"))
    whole = {state[:size] for state in states}
    for cut in range(size + 1):
        for first, then in (states, states[::-1]):
            board._memory[:size] = shown = first[:cut] + then[cut:size]
            state = board.read(0)
            assert (state is not None) == (shown in whole)
            assert state is None or state["rows"] in (12_345, 67_890)


def test_what_workers_cannot_do_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(ParameterError, match=r"several workers need a safe fork \(not Windows, nor macOS\)"):
        Settings(workers=2)
    monkeypatch.undo()
    with pytest.raises(ParameterError, match="interleave needs one worker"):
        Settings(workers=2, interleave=tmp_path / "b", impressions=tmp_path / "log")
    with pytest.raises(ParameterError, match="workers of serve must be at least 1"):
        Settings(workers=0)


def test_a_reload_before_the_handler_is_set_is_not_lost(tmp_path):
    script = """
import os, signal, sys, time
from gainful.serve.workers import run_workers

def serve(worker, reloaded):
    os.kill(os.getppid(), signal.SIGHUP)  # goes on to the workers: to this one too, before it can handle it
    end = time.monotonic() + 60
    while signal.SIGHUP not in signal.sigpending() and time.monotonic() < end:
        time.sleep(0.01)
    print("waits" if signal.SIGHUP in signal.sigpending() else "lost", flush=True)
    os.kill(os.getppid(), signal.SIGTERM)
    time.sleep(60)

run_workers(1, serve)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.stdout == "waits\n", done.stderr
