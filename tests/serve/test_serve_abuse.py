"""Requests made to cost much: mistakes by the hundred thousand, heads that never end, connections without number."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import textwrap
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest
from serve_examples import NAMES, client_of, server, train_data

import gainful
from gainful.errors import DataError, FormatError, ParameterError
from gainful.serve import Settings, schema
from gainful.serve.model_slot import ModelSlot

MANY = 100_000
LATE = 120.0  # seconds: far beyond what is due, far below what it would be for ever


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    file = tmp_path_factory.mktemp("abuse") / "model.gainful"
    gainful.save(gainful.RegressionRanker().fit(train_data()), file)
    return file


def many_names(value=""):
    return {f"n{i}": value for i in range(MANY)}


WRONG = {
    "texts": (schema.PairRequest, {"a": ["x"] * MANY, "b": ["x"] * MANY}, "a[0] must be a valid number, was 'x'"),
    "rows": (schema.ScoreRequest, {"rows": [0] * MANY}, "rows[0] must be a list of numbers or a mapping"),
    "mapping": (schema.ScoreRequest, {"rows": [many_names()]}, "rows[0].n0 must be a valid number, was ''"),
    "infinite": (schema.ScoreRequest, {"rows": [many_names(float("inf"))]}, "rows[0].n0 must be a finite number"),
    "fields": (schema.ScoreRequest, {"rows": []} | many_names(), "n0 is not a field of this request"),
    "documents": (schema.RankRequest, {"documents": [{}] * MANY}, "documents[0].features is missing"),
    "document": (
        schema.RankRequest,
        {"documents": [{"features": []} | many_names()]},
        "documents[0].n0 is not a field of this request",
    ),
    "queries": (schema.RankRequest, {"queries": [0] * MANY}, "queries[0] must be an object, was 0"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_hundred_thousand_mistakes_are_reported_as_quickly_as_one(name):
    kind, body, line = WRONG[name]
    content = json.dumps(body).encode()
    start = time.process_time()
    with pytest.raises(DataError) as caught:
        schema.parse(kind, schema.read_json(content))
    assert time.process_time() - start < 2.0
    assert str(caught.value).startswith(line)


def test_mistakes_do_not_fill_the_memory():
    """A process of its own, whose greatest size tells: errors of a kilobyte each would take some 800 MiB."""
    script = f"""
        import json, resource
        from gainful.serve import schema
        def size():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        before = size()
        names = {{f"n{{i}}": "" for i in range({MANY})}}
        for kind, body in (
            (schema.ScoreRequest, {{"rows": [0] * {MANY}}}),
            (schema.ScoreRequest, {{"rows": [["x"] * {MANY}] * 2}}),
            (schema.ScoreRequest, {{"rows": [names]}}),
            (schema.ScoreRequest, {{"rows": [], **names}}),
        ):
            try:
                schema.parse(kind, schema.read_json(json.dumps(body).encode()))
            except schema.DataError:
                pass
        print(size() - before)
    """
    told = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True)
    assert float(told.stdout) < 120


def test_documents_are_counted_before_anything_is_made_of_them(path, monkeypatch):
    def never(*_):
        raise AssertionError("a request was made of too many documents")

    with client_of(path, max_rows=3) as client:
        monkeypatch.setattr("gainful.serve.scoring.parse", never)
        queries = [{"documents": [0, 0]}, {"documents": []}, 0]
        for route, body in (
            ("/rank", {"documents": [0] * 4}),
            ("/rank", {"queries": queries}),
            ("/score", {"rows": [0] * 4}),
        ):
            answer = client.post(route, json=body)
            assert answer.status_code == 413
            assert "has 4 documents, 3 are allowed" in answer.json()["error"]
    assert [schema.count_rows(body) for body in ([1, 2], {"rows": "00"}, {"queries": {}})] == [0, 0, 0]


# -- a process of its own ----------------------------------------------------------------------------------------------


def connect(url):
    host, port = url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=LATE)


GET = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"


def ask(client):
    client.sendall(GET)
    told = b""
    while b"alive" not in told:
        part = client.recv(10_000)
        assert part, "the server has closed the connection"
        told += part
    assert told.startswith(b"HTTP/1.1 200")


def test_a_head_that_never_ends_is_given_up_and_an_idle_connection_is_not(path):
    with server(path, "--timeout", "2") as (_, url, _), connect(url) as silent, connect(url) as slow, \
            connect(url) as second, connect(url) as idle:  # fmt: skip
        slow.sendall(b"GET /health HTTP/1.1\r\nhost: ")
        for client in (second, idle):
            ask(client)
        second.sendall(GET[:20])
        for client in (silent, slow, second):
            assert client.recv(10_000) == b""
        ask(idle)


def test_a_long_head_is_not_kept_in_memory(path):
    with server(path) as (_, url, _), connect(url) as client:
        client.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\n")
        with contextlib.suppress(ConnectionError):
            for _ in range(1000):
                client.sendall(b"x: " + b"y" * 10_000 + b"\r\n")
            pytest.fail("the server reads on")


def test_connections_are_limited_in_number(path):
    with server(path, "--max-requests", "1") as (_, url, _):
        held = [connect(url) for _ in range(530)]
        try:
            assert select.select([held[-1]], [], [], LATE)[0]
            assert held[-1].recv(1) == b""
            ask(held[0])
        finally:
            for client in held:
                client.close()
        with urllib.request.urlopen(f"{url}/health", timeout=LATE) as answer:
            assert answer.status == 200


def ask_and_never_read(url):
    """Ask until the server drops the connection."""
    rows = json.dumps({"rows": [[0.5] * len(NAMES)] * 10_000}).encode()
    head = f"POST /score HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(rows)}"
    with connect(url) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        with contextlib.suppress(ConnectionError):
            while True:
                client.sendall(head.encode() + b"\r\n\r\n" + rows)


def test_clients_that_never_read_their_answers_are_dropped(path):
    with server(path, "--timeout", "2", "--grace", "1000") as (process, url, lines):
        ask_and_never_read(url)
        with ThreadPoolExecutor(3) as pool:
            asking = [pool.submit(ask_and_never_read, url) for _ in range(3)]
            time.sleep(1.0)
            os.kill(process.pid, signal.SIGTERM)  # must not wait for them either
            assert process.wait(timeout=LATE) == 0
        for one in asking:
            one.result()
    assert any(line["event"] == "client did not read its answer" for line in lines)


@pytest.mark.parametrize("name", ["grace", "timeout", "watch"])
@pytest.mark.parametrize("value", [float("inf"), float("nan"), -1.0, 1e9])
def test_times_are_finite(name, value):
    with pytest.raises(ParameterError, match=rf"{name} of serve must be .*seconds, was"):
        Settings(**{name: value})


def test_the_process_ends_although_a_request_does_not(path):
    script = f"""
        import time
        from gainful.serve import Settings, run_server
        from gainful.serve.scoring import Job
        Job.pair = lambda *_: time.sleep(300)
        run_server({str(path)!r}, Settings(port=0, grace=1.0, timeout=200.0))
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stderr=subprocess.PIPE, text=True)
    try:
        lines = iter(process.stderr.readline, "")
        url = next(line["url"] for line in map(json.loads, lines) if line["event"] == "listening").rstrip("/")
        with connect(url) as client:
            client.sendall(
                b"POST /pair HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
                b"content-length: 2\r\n\r\n{}"
            )
            while b"in_flight 2" not in urllib.request.urlopen(f"{url}/metrics", timeout=LATE).read():
                time.sleep(0.02)
            time.sleep(0.2)  # the body is there; let a thread take it up
            os.kill(process.pid, signal.SIGTERM)
            assert process.wait(timeout=LATE) == 0
        assert "left requests unfinished" in process.stderr.read()
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


# -- files -------------------------------------------------------------------------------------------------------------


def test_what_is_not_a_file_is_refused_and_not_read_to_its_end(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(FormatError, match="not a regular file"):
            gainful.load(place)
        with pytest.raises(FormatError, match="not a regular file"):
            ModelSlot(place)


def test_a_file_too_large_for_the_memory_leaves_the_old_model(path, monkeypatch):
    holder = ModelSlot(path)
    before = holder.current

    def exhausted(_):
        raise MemoryError

    monkeypatch.setattr("gainful.serve.model_slot.load", exhausted)
    with pytest.raises(FormatError, match="not enough memory for this model"):
        holder.reload()
    assert holder.current is before
    assert "not enough memory" in holder.refusal
