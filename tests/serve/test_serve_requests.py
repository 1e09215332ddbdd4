"""Ranking, scoring and explaining over HTTP: the answers are those of the model, mistakes are one line of JSON."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import logging
import re
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from serve_examples import NAMES, TOKEN, client_of, documents, train_data

import gainful
from gainful.errors import ParameterError
from gainful.serve import Settings, create_app, schema
from gainful.serve.app import QUICK_BODY
from gainful.serve.middleware import _names_this_machine
from gainful.serve.settings import is_loopback, read_token

MAX_BODY = 600_000


@pytest.fixture(scope="module")
def data():
    return train_data()


@pytest.fixture(scope="module")
def models(data):
    return {
        "linear": gainful.RegressionRanker(alpha=1.0).fit(data),
        "trees": gainful.LambdaMART(n_trees=5, n_leaves=4, n_jobs=1).fit(data),
        "kernel": gainful.KernelStructuredSVM(n_landmarks=5).fit(data),
        "numbered": gainful.RegressionRanker().fit(train_data(names=None)),
    }


@pytest.fixture(scope="module")
def paths(models, tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    for name, model in models.items():
        gainful.save(model, folder / f"{name}.gainful")
    return {name: folder / f"{name}.gainful" for name in models}


@pytest.fixture(scope="module")
def clients(paths):
    opened = {name: client_of(path, max_rows=500, max_body=MAX_BODY) for name, path in paths.items()}
    for client in opened.values():
        client.__enter__()
    yield opened
    for client in opened.values():
        client.__exit__(None, None, None)


@pytest.fixture(scope="module")
def net(data, tmp_path_factory):
    """A net over lists, and a client of it."""
    pytest.importorskip("torch")
    model = gainful.AttentionRanker(epochs=1, hidden=(4,), device="cpu").fit(data)
    path = tmp_path_factory.mktemp("net") / "lists.gainful"
    gainful.save(model, path)
    with client_of(path, max_rows=500) as client:
        yield model, client


# -- answers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["linear", "trees", "kernel", "numbered"])
def test_a_query_is_ranked_as_the_model_ranks_it(clients, models, data, name):
    X = data.X[:20]
    answer = clients[name].post("/rank", json=documents(X))
    assert answer.status_code == 200
    told = schema.RankAnswer.model_validate(answer.json()).documents
    scores = models[name].predict(X)
    order = np.argsort(-scores, kind="stable")
    assert [d.place for d in told] == order.tolist()
    assert [d.id for d in told] == [f"d{i}" for i in order]
    assert [d.score for d in told] == scores[order].tolist()
    assert [d.rank for d in told] == list(range(1, 21))


def test_documents_of_a_query_are_scored_together(net, data, monkeypatch):
    model, client = net
    monkeypatch.setattr("gainful.serve.scoring.SCORED_BLOCK", 15)
    sizes = [20, 1, 9]
    ends = np.cumsum(sizes)
    queries = [{"id": str(q), **documents(data.X[b - n : b])} for q, (n, b) in enumerate(zip(sizes, ends, strict=True))]
    answer = client.post("/rank", json={"queries": queries})
    assert answer.status_code == 200, answer.text
    scores = model.predict(data.X[: ends[-1]], group=sizes)
    for told, n, b in zip(answer.json()["queries"], sizes, ends, strict=True):
        own = scores[b - n : b]
        assert [d["score"] for d in told["documents"]] == own[np.argsort(-own, kind="stable")].tolist()


def test_rows_without_a_query_are_refused_by_a_net_over_lists(net, data):
    _, client = net
    answer = client.post("/score", json={"rows": data.X[:2].tolist()})
    assert answer.status_code == 422
    assert "scores the documents of a query together; send them to /rank" in answer.text
    answer = client.post("/pair", json={"a": data.X[0].tolist(), "b": data.X[1].tolist()})
    assert "not a sum over features" in answer.text


def test_equal_scores_keep_their_order_and_ids_may_be_left_out(clients, data):
    row = data.X[0].tolist()
    told = clients["linear"].post("/rank", json={"documents": [{"features": row}] * 3, "top": 2}).json()["documents"]
    assert [(d["rank"], d["id"], d["place"]) for d in told] == [(1, 0, 0), (2, 1, 1)]


def test_several_queries_at_once_are_those_alone(clients, data):
    queries = [{"id": q, **documents(data.X[a:b])} for q, a, b in (("x", 0, 5), (7, 5, 9), ("none", 9, 9))]
    told = clients["trees"].post("/rank", json={"queries": queries, "contributions": True}).json()["queries"]
    assert [query["id"] for query in told] == ["x", 7, "none"]
    for query, asked in zip(told, queries, strict=True):
        alone = clients["trees"].post("/rank", json={"documents": asked["documents"], "contributions": True})
        assert query["documents"] == alone.json()["documents"]


def test_features_by_name_in_any_order(clients, data):
    rows = [dict(reversed(list(zip(NAMES, row, strict=True)))) for row in data.X[:4].tolist()]
    plain = clients["linear"].post("/score", json={"rows": data.X[:4].tolist()}).json()
    assert clients["linear"].post("/score", json={"rows": rows}).json() == plain
    numbered = [{f"f{j + 1}": value for j, value in enumerate(row)} for row in data.X[:4].tolist()]
    plain = clients["numbered"].post("/score", json={"rows": data.X[:4].tolist()}).json()
    assert clients["numbered"].post("/score", json={"rows": numbered}).json() == plain


def test_missing_values_reach_models_that_take_them(clients, models, data):
    row = data.X[0].tolist()
    told = clients["trees"].post(
        "/score", json={"rows": [[None, *row[1:]], dict(zip(NAMES[1:], row[1:], strict=True))]}
    )
    expected = models["trees"].predict([[np.nan, *row[1:]]])[0]
    assert told.json()["scores"] == [expected, expected]


@pytest.mark.parametrize("name", ["linear", "trees"])
def test_a_feature_that_is_too_large_is_refused_as_in_predict(clients, models, data, name):
    X = data.X[:3].copy()
    X[2, 1] = 1e200
    told = clients[name].post("/rank", json=documents(X))
    sentence = "is 1e+200, but rankers compute with values up to ±1e+150"
    assert f"feature {NAMES[1]!r} of documents[2] {sentence}" in told.text
    with pytest.raises(gainful.DataError, match=re.escape(sentence)):
        models[name].predict(X)


@pytest.mark.parametrize("name", ["linear", "trees"])
def test_contributions_add_up(clients, models, data, name):
    X = data.X[:12]
    told = clients[name].post("/score", json={"rows": X.tolist(), "contributions": True, "top_features": 2}).json()
    parts = models[name].contributions(X)
    for i, explained in enumerate(told["explanations"]):
        shown = {f["feature"]: f["contribution"] for f in explained["features"]}
        largest = np.argsort(-np.abs(parts[i, :-1]), kind="stable")[:2]
        assert shown == {NAMES[j]: parts[i, j] for j in largest}
        assert np.isclose(explained["base"] + explained["rest"] + sum(shown.values()), told["scores"][i])
    ranked = clients[name].post("/rank", json=documents(X) | {"contributions": True, "top": 3}).json()["documents"]
    assert [d["explanation"]["score"] for d in ranked] == [d["score"] for d in ranked]


def test_a_pair_is_explained_as_by_the_library(clients, models, data):
    told = clients["trees"].post("/pair", json={"a": data.X[0].tolist(), "b": data.X[1].tolist()}).json()
    expected = gainful.explain_pair(models["trees"], data.X[0], data.X[1]).to_dict()
    assert {name: told[name] for name in expected} == expected
    schema.PairAnswer.model_validate(told)


def test_empty_requests_have_empty_answers(clients):
    assert clients["trees"].post("/score", json={"rows": []}).json()["scores"] == []
    assert clients["trees"].post("/rank", json={"documents": []}).json()["documents"] == []
    assert clients["trees"].post("/rank", json={"queries": []}).json()["queries"] == []


def test_the_model_is_described(clients, models):
    told = schema.ModelAnswer.model_validate(clients["trees"].get("/model").json())
    assert (told.ranker, told.n_features, told.feature_names) == ("LambdaMART", 4, list(NAMES))
    assert told.parameters["n_trees"] == 5
    assert told.contributions
    kernel = schema.ModelAnswer.model_validate(clients["kernel"].get("/model").json())
    assert "no contributions" in kernel.why_no_contributions
    assert clients["numbered"].get("/model").json()["feature_names"] is None


# -- mistakes ----------------------------------------------------------------------------------------------------------

ROW = [1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize(
    ("path", "body", "status", "line"),
    [
        ("/rank", b"{", 400, "the body is not JSON"),
        ("/rank", b"", 400, "the body is not JSON"),
        ("/rank", b"\xff\xfe", 400, "the body is not JSON"),
        ("/rank", b"[" * 100_000, 400, "the body is not JSON"),
        ("/rank", [], 422, "the body must be an object, was []"),
        ("/rank", {}, 422, "give either documents (of one query) or queries"),
        ("/rank", {"documents": [], "queries": []}, 422, "give either documents (of one query) or queries"),
        ("/rank", {"documents": [{"id": 1}]}, 422, "documents[0].features is missing"),
        ("/rank", {"documents": [], "page": 2}, 422, "page is not a field of this request"),
        ("/rank", {"documents": [], "top": 0}, 422, "top must be greater than or equal to 1, was 0"),
        ("/rank", {"documents": [{"features": ROW[:3]}]}, 422, "documents[0] has 3 features, but RegressionRanker was"),
        ("/rank", {"documents": [{"features": [1, 2, "3", 4]}]}, 422, "features[2] must be a valid number, was '3'"),
        ("/rank", {"documents": [{"features": [1, 2, True, 4]}]}, 422, "features[2] must be a valid number, was True"),
        ("/rank", {"documents": [{"features": 3}]}, 422, "features must be a list of numbers or a mapping"),
        ("/rank", {"documents": [{"features": ROW, "id": 1.5}]}, 422, "id must be a string or a whole number, was 1.5"),
        ("/rank", b'{"documents": [{"features": [1, 2, 1e999, 4]}]}', 422, "must be a finite number"),
        ("/rank", b'{"documents": [{"features": [1, 2, NaN, 4]}]}', 422, "must be a finite number"),
        ("/rank", {"documents": [{"features": [1, 1e308, 3, 4]}]}, 422, "feature 'clicks' of documents[0] is 1e+308"),
        ("/rank", {"documents": [{"features": [1, None, 3, 4]}]}, 422, "feature 'clicks' of documents[0] is missing"),
        ("/rank", {"queries": [{"documents": [{"features": [1]}]}]}, 422, "queries[0].documents[0] has 1 features"),
        ("/score", {"rows": [ROW, {"click": 1}]}, 422, "rows[1]: RegressionRanker has no feature 'click'; did"),
        ("/score", {"rows": [{"bm25": 1}]}, 422, "feature 'clicks' of rows[0] is missing"),
        ("/score", {"rows": [[0] * 4] * 501}, 413, "the request has 501 documents, 500 are allowed"),
        ("/pair", {"a": ROW}, 422, "b is missing"),
        ("/pair", {"a": ROW, "b": [1]}, 422, "b has 1 features"),
    ],
)  # fmt: skip
def test_mistakes_get_one_line(clients, path, body, status, line):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = clients["linear"].post(path, content=content, headers={"content-type": "application/json"})
    assert answer.status_code == status, answer.text
    told = answer.json()
    assert set(told) == {"error"}
    assert line in told["error"]
    assert "\n" not in told["error"]
    assert "Traceback" not in told["error"]


def test_other_mistakes(clients):
    client = clients["kernel"]
    assert client.post("/rank", content="{}", headers={"content-type": "text/plain"}).status_code == 415
    assert client.get("/nowhere").json() == {"error": "no such path; /openapi.json lists the paths and their methods"}
    assert client.get("/rank").status_code == 405
    told = client.post("/score", json={"rows": [ROW], "contributions": True})
    assert told.status_code == 422
    assert "KernelStructuredSVM is not a sum over features" in told.json()["error"]
    refused = client.post("/reload")
    assert refused.status_code == 403
    assert "needs a server with a token" in refused.json()["error"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["documents", "queries", "features", "id", "top", "rows", "bm25"]), inner, max_size=3
        )
    ),
    max_leaves=20,
)


@settings(max_examples=30)
@given(st.sampled_from(["/rank", "/score", "/pair"]), JSON | st.binary(max_size=40))
def test_no_body_breaks_the_server(clients, path, body):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = clients["trees"].post(path, content=content, headers={"content-type": "application/json"})
    assert answer.status_code in (200, 400, 422)
    assert answer.status_code == 200 or set(answer.json()) == {"error"}


# -- limits ------------------------------------------------------------------------------------------------------------


def test_bodies_are_cut_off_at_their_limit_announced_or_not(paths):
    with client_of(paths["linear"], max_body=1000) as client:
        kind = {"content-type": "application/json"}
        read = []

        def chunks():
            for i in range(1000):
                read.append(i)
                yield b" " * 100

        for content in (b" " * 1001, chunks()):
            answer = client.post("/rank", content=content, headers=kind)
            assert answer.status_code == 413
            assert "more than the 1,000 bytes allowed" in answer.json()["error"]
        fits = json.dumps({"documents": []}).encode().ljust(1000)
        assert client.post("/rank", content=fits, headers=kind).status_code == 200


def test_a_request_over_its_time_gets_503_and_its_work_stops(paths):
    with client_of(paths["linear"], timeout=0.3, threads=1, max_rows=20_000) as client:
        model, scored, answered = client.app.model_slot.current.model, [], threading.Event()
        predict = model.predict

        def held(X):
            scored.append(len(X))
            answered.wait(120)
            return predict(X)

        model.predict = held
        answer = client.post("/score", json={"rows": [ROW] * 18_000})  # 18 blocks, and too long for the event loop
        assert answer.status_code == 503
        assert "took more than 0.3 s" in answer.json()["error"]
        assert answer.headers["retry-after"] == "1"
        answered.set()
        client.app._pool.submit(int).result()  # its only thread is done with the request
        assert len(scored) <= 1


def drive(app, chunks, pause, *, hosts=(b"localhost",), version="1.1"):
    """The statuses an application answers with when the body comes in chunks with pauses between them."""
    sent = []

    async def go():
        pending = list(chunks)

        async def receive():
            await asyncio.sleep(pause)
            body = pending.pop(0)
            return {"type": "http.request", "body": body, "more_body": bool(pending)}

        async def send(message):
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": "/score", "raw_path": b"/score", "query_string": b"",
                 "headers": [(b"content-type", b"application/json"), *((b"host", one) for one in hosts)],
                 "client": ("127.0.0.1", 1), "root_path": "",
                 "http_version": version, "scheme": "http", "server": ("localhost", 80)}  # fmt: skip
        await app(scope, receive, send)

    asyncio.run(go())
    app._pool.shutdown()  # as the end of a server would: here is none
    return [message["status"] for message in sent if message["type"] == "http.response.start"]


def test_a_body_that_trickles_in_is_given_up(paths):
    app = create_app(paths["linear"], Settings(timeout=0.15, watch=0.0))
    assert drive(app, [b" "] * 100, pause=0.02) == [408]
    patient = create_app(paths["linear"], Settings(timeout=30.0, watch=0.0))
    assert drive(patient, [b'{"rows"', b": []}"], pause=0.01) == [200]


def test_too_many_requests_at_once_are_turned_away_but_probes_are_not(paths):
    with client_of(paths["linear"]) as client:
        client.app._middleware._computing = client.app.settings.max_requests
        answer = client.post("/score", json={"rows": []})
        assert answer.status_code == 503
        assert "busy" in answer.json()["error"]
        assert [client.get(path).status_code for path in ("/health", "/ready", "/metrics")] == [200] * 3
        client.app._middleware._computing = 0
        assert client.post("/score", json={"rows": []}).status_code == 200
        assert client.app._middleware._computing == 0


# -- who may -----------------------------------------------------------------------------------------------------------


def test_a_token_is_asked_for_where_there_is_one(paths):
    with client_of(paths["linear"], host="0.0.0.0", token=TOKEN) as client:
        right = {"authorization": f"Bearer {TOKEN}"}
        closed = [("GET", "/model"), ("GET", "/metrics"), ("POST", "/score"), ("POST", "/reload"), ("GET", "/nowhere")]
        for method, path in closed:
            for headers in ({}, {"authorization": f"Bearer {TOKEN}x"}, {"authorization": TOKEN}, {"authorization": ""}):
                answer = client.request(method, path, headers=headers)
                assert answer.status_code == 401
                assert answer.headers["www-authenticate"] == "Bearer"
                assert TOKEN not in answer.text
            assert client.request(method, path, headers=right).status_code != 401
        assert [client.get(path).status_code for path in ("/", "/health", "/ready", "/openapi.json")] == [200] * 4
        assert client.get("/health", headers={"host": "rank.example.com"}).status_code == 200


def test_without_a_token_only_names_of_this_machine_are_answered(clients):
    answer = clients["linear"].get("/model", headers={"host": "rebound.example.com"})
    assert answer.status_code == 403
    assert "start it with a token" in answer.json()["error"]
    assert clients["linear"].get("/model", headers={"host": "127.0.0.1:8000"}).status_code == 200
    names = {
        b"localhost:80": True,
        b"[::1]:8000": True,
        b"[::2]": False,
        b"127.0.0.1.evil.com": False,
        b"[::1].evil.com": False,
        b"[::1]evil.com:80": False,
        b"localhost:80.evil.com": False,
        b"evil.com@localhost": False,
        b"[::1": False,
        b"[::1]:": True,
        b"10.0.0.1": False,
    }
    assert {name: _names_this_machine(name) for name in names} == names


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.4", "", "8.8.8.8"])
def test_beyond_loopback_needs_a_token(host):
    with pytest.raises(ParameterError, match="can be reached from other machines, so a token is needed"):
        Settings(host=host)
    assert Settings(host=host, token=TOKEN).token == TOKEN
    assert TOKEN not in repr(Settings(host=host, token=TOKEN))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost"])
def test_loopback_needs_none(host):
    assert is_loopback(host)
    assert Settings(host=host).token is None


@pytest.mark.parametrize(
    "wrong",
    [{"token": "short"}, {"token": "ein Wort mit Leerzeichen"}, {"token": "ümlautümlautümlaut"}, {"port": 70_000},
     {"timeout": 0}, {"timeout": float("nan")}, {"max_rows": 0}, {"max_body": 0}, {"threads": 0}, {"watch": -1},
     {"log_level": "loud"}],
)  # fmt: skip
def test_settings_are_checked(wrong):
    with pytest.raises(ParameterError, match=f"{next(iter(wrong))} of serve must be"):
        Settings(**wrong)


# -- what the server tells of itself -----------------------------------------------------------------------------------


def test_internal_failures_go_to_the_log_and_not_to_the_client(paths, caplog):
    with client_of(paths["linear"]) as client:
        client.app.model_slot.current.model.predict = lambda X: 1 / 0
        with caplog.at_level(logging.INFO, "gainful.serve"):
            answer = client.post("/score", json={"rows": [ROW]}, headers={"x-request-id": "my-request"})
    assert answer.status_code == 500
    assert answer.json() == {"error": "internal error; see the server's log under my-request"}
    assert answer.headers["x-request-id"] == "my-request"
    failed = next(record for record in caplog.records if record.message == "failed")
    assert failed.exc_info[0] is ZeroDivisionError


def test_counters_follow_the_requests(paths):
    with client_of(paths["linear"]) as client:
        for n in (3, 4):
            client.post("/score", json={"rows": [ROW] * n})
        client.post("/rank", json={})
        client.get('/there"is%0Anone')
        text = client.get("/metrics").text
        version = client.get("/model").json()["model_version"]
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert values['gainful_requests_total{method="POST",route="/score",status="200"}'] == "2"
    assert values['gainful_requests_total{method="POST",route="/rank",status="422"}'] == "1"
    assert values['gainful_requests_total{method="any",route="other",status="404"}'] == "1"
    assert values["gainful_rows_scored_total"] == "7"
    assert values["gainful_requests_in_flight"] == "1"
    assert values[f'gainful_model_info{{version="{version}",ranker="RegressionRanker"}}'] == "1"
    counts = [int(v) for name, v in values.items() if name.startswith('gainful_request_seconds_bucket{route="/score"')]
    assert counts == sorted(counts)
    assert counts[-1] == 2
    assert float(values['gainful_request_seconds_sum{route="/score"}']) > 0
    kinds = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert all(any(name.startswith(kind) for kind in kinds) for name in values)


def test_openapi_describes_every_route_and_its_references_lead_somewhere(clients):
    told = clients["linear"].get("/openapi.json").json()
    assert set(told["paths"]) == {"/rank", "/score", "/pair", "/reload", "/model", "/health", "/ready", "/metrics"}
    known = told["components"]["schemas"]
    references = set()

    def walk(value):
        if isinstance(value, dict):
            references.update(v for k, v in value.items() if k == "$ref")
            value = value.values()
        if not isinstance(value, str):
            for inner in value if hasattr(value, "__iter__") else ():
                walk(inner)

    walk(told)
    assert {ref.removeprefix("#/components/schemas/") for ref in references} <= set(known)
    assert {"RankRequest", "ScoreRequest", "PairRequest"} <= set(known)
    assert known["RankRequest"]["additionalProperties"] is False


def test_the_page_is_whole_and_forbids_the_network(clients):
    answer = clients["linear"].get("/")
    assert answer.headers["content-type"].startswith("text/html")
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    for name in ("style", "script"):
        (inside,) = re.findall(f"<{name}>(.*?)</{name}>", answer.text, re.S)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in policy
    assert "/*style*/" not in answer.text
    assert "/*script*/" not in answer.text
    assert "http://" not in answer.text
    assert "https://" not in answer.text


@pytest.mark.parametrize("content", [b"%s\n", b"\xef\xbb\xbf%s\r\n"])
def test_a_token_file_of_any_editor_is_read(tmp_path, content):
    (tmp_path / "token").write_bytes(content % b"a-token-for-tests-only")
    assert read_token(tmp_path / "token") == "a-token-for-tests-only"


# -- bodies of any size ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def words(data, tmp_path_factory):
    """A client of a model with a feature of text."""
    import pandas as pd

    frame = pd.DataFrame(data.X, columns=NAMES)
    frame["age"] = pd.Categorical(np.where(data.X[:, 2] > 0, "old", "new"))
    path = tmp_path_factory.mktemp("words") / "words.gainful"
    gainful.save(
        gainful.LambdaMART(n_trees=3, n_leaves=4, n_jobs=1).fit(gainful.RankingData.from_rows(frame, data.y, data.qid)),
        path,
    )
    with client_of(path, max_rows=500, max_body=MAX_BODY) as client:
        yield client


def a_body(path, kind, n):
    """A request with n rows: features by name or in order, with contributions, a gap, text, or cut off."""
    row = {"named": dict.fromkeys(NAMES, 0.5), "missing": [0.5, None, 0.5, 0.5]}.get(kind, [0.5, 0.25, 0.5, 0.5])
    if kind == "text":
        row = dict.fromkeys(NAMES, 0.5) | {"age": "old"}
    more = {"contributions": True} if kind == "explained" else {}
    if path == "/pair":
        made = {"a": row, "b": row}
    elif path == "/score":
        made = {"rows": [row] * n} | more
    else:
        made = {"documents": [{"id": f"d{i}", "features": row} for i in range(n)]} | more
    text = json.dumps(made).encode()
    return text[:-2] if kind == "cut" else text


@settings(max_examples=50, deadline=None)
@given(
    st.sampled_from(["linear", "trees", "kernel", "numbered", "words"]),
    st.sampled_from(["/rank", "/score", "/pair"]),
    st.sampled_from(["lists", "named", "explained", "missing", "text", "cut"]),
    st.sampled_from([0, 1, 3, 499, 500, 501]),
    st.sampled_from([None, "quick", "body"]),
    st.sampled_from([-1, 0, 1]),
)
def test_a_body_of_any_size_is_answered_or_refused_in_a_line(clients, words, paths, name, path, kind, n, limit, beside):
    """Blanks bring a body to either side of a limit, where another part of the server answers."""
    client = words if name == "words" else clients[name]
    body = a_body(path, kind, n)
    size = {"quick": QUICK_BODY, "body": MAX_BODY}.get(limit, 0) + beside
    answer = client.post(path, content=body.ljust(size), headers={"content-type": "application/json"})
    assert answer.status_code in (200, 400, 413, 422), answer.text
    if len(body.ljust(size)) > MAX_BODY or (n == 501 and path != "/pair" and kind != "cut"):
        assert answer.status_code == 413
    elif kind == "cut":
        assert answer.status_code == 400
    elif kind == "lists" and name != "words" and (path != "/pair" or name != "kernel"):
        assert answer.status_code == 200
    if answer.status_code != 200:
        assert "\n" not in answer.json()["error"]


@pytest.mark.parametrize(
    ("ids", "told"),
    [
        (["x", "y", "x"], "documents[2] has the id of documents[0], 'x'"),
        ([1, "1", "y"], "documents[1] has the id of documents[0], '1'"),
        (["2", None, None], "documents[2] has the id of documents[0], '2'"),  # its place is its id
    ],
)
def test_ids_that_are_equal_as_text_are_refused(clients, data, ids, told):
    rows = [{"id": one, "features": list(row)} for one, row in zip(ids, data.X, strict=False)]
    answer = clients["trees"].post("/rank", json={"documents": rows})
    assert (answer.status_code, told in answer.json()["error"]) == (422, True)
    queries = {"queries": [{"documents": [one]} for one in rows] + [{"documents": rows}]}
    assert told.replace("documents", "queries[3].documents") in clients["linear"].post("/rank", json=queries).text
    assert clients["linear"].post("/rank", json={"queries": queries["queries"][:3]}).status_code == 200


@pytest.mark.parametrize(
    ("hosts", "version", "status"),
    [
        (["localhost"], "1.1", 200),
        (["localhost", "rebound.example.com"], "1.1", 400),
        (["rebound.example.com", "localhost"], "1.0", 400),
        (["localhost", "localhost"], "1.1", 400),
        ([], "1.1", 400),
        ([], "1.0", 200),
    ],
)
def test_a_request_has_one_host_header(hosts, version, status, paths):
    app = create_app(paths["linear"], Settings(watch=0.0))
    hosts = [name.encode() for name in hosts]
    assert drive(app, [b'{"rows": []}'], 0.0, hosts=hosts, version=version) == [status]
