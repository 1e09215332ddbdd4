"""A server with a second model beside the first: each answers alone, under /a and /b."""

from __future__ import annotations

import numpy as np
import pytest
from serve_examples import NAMES, client_of, documents, train_data

import gainful
from gainful.cli import run
from gainful.errors import FormatError, ParameterError
from gainful.serve import Settings, create_app


@pytest.fixture(scope="module")
def data():
    return train_data()


@pytest.fixture
def files(data, tmp_path):
    gainful.save(gainful.RegressionRanker().fit(data), tmp_path / "a.gainful")
    fewer = data.replace(X=data.X[:, :3], feature_names=NAMES[:3], y=data.y.max() - data.y)
    gainful.save(gainful.RegressionRanker().fit(fewer), tmp_path / "b.gainful")
    return tmp_path


def places(answer):
    assert answer.status_code == 200, answer.text
    return [one["place"] for one in answer.json()["documents"]]


def test_each_model_answers_alone(files, data):
    X = data.X[:8]
    a, b = (gainful.load(files / f"{name}.gainful") for name in "ab")
    with client_of(files / "a.gainful", beside=files / "b.gainful") as client:
        facts = client.get("/model").json()
        assert (facts["file"], facts["beside"]["file"]) == ("a.gainful", "b.gainful")
        assert (facts["n_features"], facts["beside"]["n_features"]) == (4, 3)
        assert facts["interleaved"] is None
        first = np.argsort(-a.predict(X), kind="stable").tolist()
        assert places(client.post("/rank", json=documents(X))) == first
        assert places(client.post("/a/rank", json=documents(X))) == first
        answer = client.post("/b/rank", json=documents(X[:, :3]))
        assert places(answer) == np.argsort(-b.predict(X[:, :3]), kind="stable").tolist()
        assert answer.json()["model_version"] == facts["beside"]["model_version"]
        scores = client.post("/b/score", json={"rows": X[:, :3].tolist()}).json()["scores"]
        assert scores == b.predict(X[:, :3]).tolist()
        pair = client.post("/b/pair", json={"a": X[0, :3].tolist(), "b": X[1, :3].tolist()}).json()
        assert pair["difference"] == pytest.approx(gainful.explain_pair(b, X[0, :3], X[1, :3]).difference)
        assert client.post("/b/rank", json=documents(X)).status_code == 422
        assert {"/a/rank", "/b/pair"} <= set(client.get("/openapi.json").json()["paths"])
        assert 'route="/b/rank",status="200"} 1' in client.get("/metrics").text


def test_one_model_has_no_other_routes(files):
    with client_of(files / "a.gainful") as client:
        assert client.get("/model").json()["beside"] is None
        assert client.post("/b/rank", json={"documents": []}).status_code == 404


def test_interleaved_models_answer_alone_without_an_impression(files, data):
    gainful.save(gainful.RegressionRanker(alpha=9.0).fit(data), files / "b.gainful")
    shown = files / "shown.jsonl"
    with client_of(files / "a.gainful", interleave=files / "b.gainful", impressions=shown) as client:
        for prefix in ("/a", "/b"):
            assert "impression" not in client.post(f"{prefix}/rank", json=documents(data.X[:5])).json()
        assert shown.read_text() == ""
        assert client.post("/rank", json=documents(data.X[:5])).json()["impression"]
        assert client.get("/model").json()["beside"]["file"] == "b.gainful"


def test_the_second_model_is_reloaded_too(files, data):
    token = {"authorization": "Bearer a-token-for-tests-only"}
    settings = {"beside": files / "b.gainful", "token": token["authorization"].split()[1]}
    with client_of(files / "a.gainful", **settings) as client:
        before = client.get("/model", headers=token).json()["beside"]["model_version"]
        gainful.save(gainful.RegressionRanker(alpha=9.0).fit(data), files / "b.gainful")
        assert client.post("/reload", headers=token).status_code == 200
        after = client.get("/model", headers=token).json()["beside"]
        assert (after["model_version"] != before, after["n_features"]) == (True, 4)
        (files / "b.gainful").write_bytes(b"broken")
        assert client.post("/reload", headers=token).status_code == 422
        assert client.get("/model", headers=token).json()["beside"]["refused"]


def test_what_does_not_fit_is_refused(files, capsys):
    with pytest.raises(ParameterError, match="beside or interleave, not both"):
        Settings(beside="b", interleave="b", impressions="shown.jsonl")
    with pytest.raises(FormatError, match="no such file"):
        create_app(files / "a.gainful", Settings(beside=files / "c.gainful"))
    assert run(["serve", str(files / "a.gainful"), "--beside", str(files / "c.gainful")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
