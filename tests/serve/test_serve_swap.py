"""A new model file is taken up without losing a request; a broken one is not; shutdown lets requests finish."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import urllib.error
import urllib.request

import numpy as np
import pytest
from serve_examples import TOKEN, client_of, server, train_data, wait_until

import gainful
from gainful.cli import run
from gainful.serve import Settings
from gainful.serve.run import _listen

RIGHT = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def models():
    return [gainful.RegressionRanker(alpha=alpha).fit(train_data()) for alpha in (0.1, 1e3)]


@pytest.fixture
def path(models, tmp_path):
    gainful.save(models[0], tmp_path / "model.gainful")
    return tmp_path / "model.gainful"


def score(client, row):
    return client.post("/score", json={"rows": [row]}, headers=RIGHT).json()["scores"][0]


def test_reload_takes_up_the_new_file_and_keeps_the_old_where_it_is_broken(path, models):
    row = [1.0, 2.0, 3.0, 4.0]
    scores = [float(model.predict([row])[0]) for model in models]
    with client_of(path, token=TOKEN) as client:
        before = client.get("/model", headers=RIGHT).json()["model_version"]
        assert score(client, row) == scores[0]
        whole = path.read_bytes()
        for broken in (b"", b"no model", whole[: len(whole) // 2]):
            path.write_bytes(broken)
            answer = client.post("/reload", headers=RIGHT)
            assert answer.status_code == 422
            assert str(path) in answer.json()["error"]
            told = client.get("/model", headers=RIGHT).json()
            assert (told["model_version"], told["refused"]) == (before, answer.json()["error"])
            assert score(client, row) == scores[0]
        path.unlink()
        assert client.post("/reload", headers=RIGHT).status_code == 422
        assert score(client, row) == scores[0]
        gainful.save(models[1], path)
        answer = client.post("/reload", headers=RIGHT).json()
        told = client.get("/model", headers=RIGHT).json()
        assert answer == {"status": "loaded", "model_version": told["model_version"]}
        assert told["refused"] is None
        assert told["model_version"] != before
        assert score(client, row) == scores[1]
        loads = [
            line for line in client.get("/metrics", headers=RIGHT).text.splitlines() if "model_loads_total{" in line
        ]
        assert loads == ['gainful_model_loads_total{result="ok"} 2', 'gainful_model_loads_total{result="refused"} 4']


def test_a_changed_file_is_noticed(path, models):
    with client_of(path, watch=0.05) as client:
        before = client.get("/model").json()["model_version"]
        path.write_bytes(b"half a fi")
        wait_until(lambda: client.get("/model").json()["refused"] is not None)
        assert client.get("/model").json()["model_version"] == before
        gainful.save(models[1], path)
        wait_until(lambda: client.get("/model").json()["model_version"] != before)
        assert client.get("/model").json()["refused"] is None


def test_a_request_keeps_the_model_it_began_with(path, models):
    """Swapped in the middle of a request: its scores and its contributions are of one model."""
    rows = np.random.default_rng(0).random((3000, 4))
    with client_of(path) as client:
        model = client.app.model_slot.current.model
        predict, calls = model.predict, []

        def swapping(X):
            if not calls:
                gainful.save(models[1], path)
                client.app.model_slot.reload()
            calls.append(len(X))
            return predict(X)

        model.predict = swapping
        told = client.post("/score", json={"rows": rows.tolist()}).json()
        assert len(calls) == 3
        assert np.array_equal(told["scores"], models[0].predict(rows))
        assert client.get("/model").json()["model_version"] != told["model_version"]


# -- a process of its own ----------------------------------------------------------------------------------------------


def post(url, body, timeout=120):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        return json.load(answer)


def test_swaps_under_load_lose_nothing_and_sigterm_lets_requests_finish(path, models):
    row = [1.0, 2.0, 3.0, 4.0]
    scores = {float(model.predict([row])[0]) for model in models}
    seen, lost, stop = set(), [], threading.Event()

    def load(url):
        while not stop.is_set():
            try:
                told = post(f"{url}/score", {"rows": [row]})
                seen.add((told["model_version"], told["scores"][0]))
            except Exception as error:
                lost.append(repr(error))

    with server(path, "--watch", "0.05") as (process, url, lines):
        threads = [threading.Thread(target=load, args=(url,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for i in (1, 0, 1):
            before = post(f"{url}/score", {"rows": []})["model_version"]
            gainful.save(models[i], path)
            if i == 0:
                os.kill(process.pid, signal.SIGHUP)
            wait_until(lambda before=before: post(f"{url}/score", {"rows": []})["model_version"] != before)
        stop.set()
        for thread in threads:
            thread.join()
        assert not lost
        assert {value for _, value in seen} == scores
        assert len(seen) == 2, "a version and its scores belong together"

        # send half a request, stop the server, send the other half
        body = json.dumps({"rows": [row]}).encode()
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=120) as late:
            late.sendall(b"POST /score HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
                         + f"content-length: {len(body)}\r\n\r\n".encode() + body[:5])  # fmt: skip
            wait_until(lambda: b"in_flight 2" in urllib.request.urlopen(f"{url}/metrics", timeout=120).read())
            os.kill(process.pid, signal.SIGTERM)
            wait_until(lambda: not listens(host, int(port)))
            late.sendall(body[5:])
            answer = late.recv(10_000)
            assert answer.startswith(b"HTTP/1.1 200")
            assert process.wait(timeout=120) == 0
    events = [line["event"] for line in lines]
    assert events.count("model loaded") in (4, 5)  # the signal and the watch may both have seen the second file
    assert events.count("stopped") == 1
    assert all({"time", "level", "event"} <= set(line) for line in lines)


def listens(host, port):
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True


def test_answers_are_not_held_back_for_a_second_packet():
    """asyncio switches Nagle's algorithm off where the socket names its protocol."""
    with _listen(Settings(port=0)) as listening:
        assert listening.proto == socket.IPPROTO_TCP


# -- the command -------------------------------------------------------------------------------------------------------


def test_the_command_refuses_in_one_line(path, tmp_path, capsys, monkeypatch):
    token = tmp_path / "token"
    token.write_text("two\nlines\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        cases = [
            ([str(path), "--host", "0.0.0.0"], "so a token is needed"),
            ([str(path), "--token-file", str(token)], "expected one line with the token, found 2"),
            ([str(path), "--token-file", str(tmp_path / "none")], "there is no such file"),
            ([str(path), "--token", "x" * 20, "--token-file", str(token)], "the token is given twice"),
            ([str(path), "--port", port], f"cannot listen on 127.0.0.1:{port}"),
            ([str(tmp_path / "none.gainful")], "there is no such file"),
            ([str(token)], "gainful model file"),
        ]
        for options, line in cases:
            assert run(["serve", *options]) == 2, options
            told = capsys.readouterr().err
            assert line in told
            assert told.count("\n") == 1
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert run(["serve", str(path)]) == 2
    assert "[serve]'" in capsys.readouterr().err
