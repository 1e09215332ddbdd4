"""A server with two models: interleaved lists, logged safely, the same for a retry, and analysed with their clicks."""

from __future__ import annotations

import errno
import json
import os
import threading

import numpy as np
import pytest
from serve_examples import TOKEN, client_of, documents, server, train_data, wait_until
from test_serve_swap import post

import gainful
from gainful.cli import run
from gainful.errors import FormatError, ParameterError
from gainful.serve import Settings, create_app
from gainful.serve.interleaving import ImpressionLog

RIGHT = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def data():
    return train_data()


@pytest.fixture(scope="module")
def models(data):
    return [
        gainful.RegressionRanker(alpha=0.1).fit(data),
        gainful.RegressionRanker().fit(data.replace(y=data.y.max() - data.y)),  # the opposite order
        gainful.LambdaMART(n_trees=3, n_leaves=4, n_jobs=1).fit(data),
    ]


@pytest.fixture
def files(models, tmp_path):
    for name, model in zip(("a", "b", "trees"), models, strict=True):
        gainful.save(model, tmp_path / f"{name}.gainful")
    return tmp_path


def interleaving(files, first="a", second="b", **settings):
    return client_of(
        files / f"{first}.gainful",
        interleave=files / f"{second}.gainful",
        impressions=files / "shown.jsonl",
        **settings,
    )


def logged(files):
    return [json.loads(line) for line in (files / "shown.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("method", ["team-draft", "probabilistic", "optimised"])
def test_the_answer_is_the_list_that_is_logged(files, models, data, method):
    X = data.X[:20]
    orders = [np.argsort(-model.predict(X), kind="stable").tolist() for model in models[:2]]
    with interleaving(files, interleave_method=method, interleave_length=6) as client:
        answer = client.post("/rank", json=documents(X), headers={"x-request-id": "one"}).json()
        again = client.post("/rank", json=documents(X), headers={"x-request-id": "one"}).json()
        other = [client.post("/rank", json=documents(X), headers={"x-request-id": str(i)}).json() for i in range(10)]
        versions = [client.get("/model").json()["model_version"]]
        told = client.get("/model").json()["interleaved"]
        counted = client.get("/metrics").text
    versions.append(told["model_version"])
    expected = gainful.interleave(
        orders[0][:6], orders[1][:6], method, length=6, seed=gainful.clicks.impressions.request_seed("one", 0)
    )
    places = [one["place"] for one in answer["documents"]]
    assert places[:6] == list(expected.documents)
    assert places[6:] == [i for i in orders[0] if i not in expected.documents]  # the rest as the first model has it
    assert [one["score"] for one in answer["documents"]] == models[0].predict(X)[places].tolist()
    assert again == answer
    assert any(one["documents"] != answer["documents"] for one in other)
    lines = logged(files)
    assert len(lines) == 12
    assert {name: value for name, value in lines[0].items() if name != "time"} == {
        "impression": answer["impression"],
        "method": method,
        "models": versions,
        "documents": [f"d{i}" for i in expected.documents],
        "credit": pytest.approx(expected.credit),
    }
    assert lines[1]["impression"] == answer["impression"]
    assert len({line["impression"] for line in lines}) == 11
    assert (told["method"], told["length"], told["refused"]) == (method, 6, None)
    assert 'gainful_impressions_total{result="logged"} 12' in counted


def test_every_query_of_a_request_has_its_list(files, data):
    parts = [documents(data.X[:8])["documents"], [], documents(data.X[8:12])["documents"]]
    body = {"queries": [{"id": f"secret {i}", "documents": one} for i, one in enumerate(parts)], "top": 3}
    with interleaving(files) as client:
        answer = client.post("/rank", json=body, headers={"x-request-id": "person@example.org"}).json()["queries"]
        assert "impression" not in client.post("/score", json={"rows": data.X[:2].tolist()}).json()
    assert [len(one["documents"]) for one in answer] == [3, 0, 3]
    assert answer[1]["impression"] is None
    lines = logged(files)
    assert [line["impression"] for line in lines] == [answer[0]["impression"], answer[2]["impression"]]
    assert [line["documents"] for line in lines] == [[d["id"] for d in answer[i]["documents"]] for i in (0, 2)]
    text = (files / "shown.jsonl").read_text()
    assert "secret" not in text  # neither queries nor ids of clients
    assert "person" not in text


def test_what_cannot_be_logged_is_not_interleaved(files, models, data, monkeypatch, caplog):
    body = documents(data.X[:8])
    alone = np.argsort(-models[0].predict(data.X[:8]), kind="stable").tolist()
    real = os.write

    def full(descriptor, content):
        if b"impression" not in content and not half:
            return real(descriptor, content)
        if not half:
            half.append(real(descriptor, content[: len(content) // 2]))
            return half[0]
        raise OSError(errno.ENOSPC, "No space left on device")

    with interleaving(files) as client, caplog.at_level("INFO", "gainful.serve"):
        first = client.post("/rank", json=body).json()
        half: list[int] = []
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", full)
            failed = [client.post("/rank", json=body) for _ in range(3)]
        last = client.post("/rank", json=body).json()
        assert 'gainful_impressions_total{result="failed"} 3' in client.get("/metrics").text
    for answer in failed:
        assert answer.status_code == 200
        assert answer.json()["impression"] is None
        assert [one["place"] for one in answer.json()["documents"]] == alone
    assert [line["impression"] for line in logged(files)] == [first["impression"], last["impression"]]  # no half line
    events = [record for record in caplog.records if record.message in ("not interleaved", "interleaving again")]
    assert [record.message for record in events] == ["not interleaved", "interleaving again"]  # one line, not three
    assert "shown.jsonl: cannot be written: No space left on device" in events[0].fields["error"]


def test_a_second_model_that_cannot_score_takes_no_part(files, data):
    with interleaving(files, "trees", "a") as client:
        missing = {"documents": [{"features": [1.0, None, 2.0, 3.0]}, {"features": [1.0, 2.0, 3.0, 4.0]}]}
        answer = client.post("/rank", json=missing)
        assert answer.status_code == 200
        assert answer.json()["impression"] is None
        assert client.post("/rank", json=documents(data.X[:3])).json()["impression"]
        assert 'gainful_impressions_total{result="skipped"} 1' in client.get("/metrics").text


def test_only_answers_are_logged(files, data, monkeypatch):
    """A request that is refused after its lists are made was not shown to anyone."""
    explained = documents(data.X[:5]) | {"contributions": True}
    twice = {"documents": [{"id": one, "features": list(row)} for one, row in zip([1, "1"], data.X, strict=False)]}
    with interleaving(files) as client:
        assert client.post("/rank", json=explained).json()["impression"]
        with monkeypatch.context() as patch:
            patch.setattr(gainful.RegressionRanker, "_why_no_contributions", lambda model: "it is a test")
            assert client.post("/rank", json=explained).status_code == 422
        assert client.post("/rank", json=twice).status_code == 422
        assert client.post("/rank", json=documents(data.X[:5])).json()["impression"]
        assert 'gainful_impressions_total{result="logged"} 2' in client.get("/metrics").text
    assert len(logged(files)) == 2


def test_both_files_are_reloaded(files, models, data):
    body = documents(data.X[:5])
    with interleaving(files, token=TOKEN) as client:
        client.post("/rank", json=body, headers=RIGHT)
        gainful.save(models[2], files / "b.gainful")
        assert client.post("/reload", headers=RIGHT).status_code == 200
        client.post("/rank", json=body, headers=RIGHT)
        (first, second), (same, new) = (line["models"] for line in logged(files))
        assert first == same
        assert second != new
        # a file that cannot go with the first model: loaded, but not interleaved
        gainful.save(gainful.RegressionRanker().fit(train_data(names=("x", "y", "z"))), files / "b.gainful")
        assert client.post("/reload", headers=RIGHT).status_code == 200
        assert client.post("/rank", json=body, headers=RIGHT).json()["impression"] is None
        told = client.get("/model", headers=RIGHT).json()["interleaved"]
        assert told["refused"] == "it has 3 features, and the first model has 4"
        (files / "b.gainful").write_bytes(b"no model")
        assert "b.gainful" in client.post("/reload", headers=RIGHT).json()["error"]


def test_words_have_their_own_numbers_in_each_model(tmp_path):
    import pandas as pd

    values = {"red": 0, "blue": 1, "green": 2}
    colours = ["red", "blue", "green", "red", "green", "blue"] * 10
    age = np.random.default_rng(0).integers(0, 9, 60)
    for name, more, best in (("a", [], 2), ("b", ["amber"], 0)):
        frame = pd.DataFrame({"colour": more + colours[len(more) :], "age": age})
        grades = [2 - abs(values[one] - best) for one in colours]
        data = gainful.RankingData.from_rows(frame, np.array(grades, dtype=float), np.repeat(np.arange(10), 6))
        gainful.save(gainful.LambdaMART(n_trees=5, n_leaves=4, n_jobs=1).fit(data), tmp_path / f"{name}.gainful")
    words = [{"features": {"colour": word, "age": 3}, "id": word} for word in values]
    with interleaving(tmp_path) as client:
        lists = [client.post("/rank", json={"documents": words}).json() for _ in range(20)]
    firsts = {one["documents"][0]["id"] for one in lists}
    assert firsts == {"green", "red"}  # the best of each model


def test_processes_and_threads_append_whole_lines(tmp_path):
    logs = [ImpressionLog(tmp_path / "log") for _ in range(4)]

    def write(log, i):
        for _ in range(100):
            log.append([f"{i} " + "x" * 3000 + "\n", f"{i} end\n"])

    threads = [threading.Thread(target=write, args=(log, i)) for i, log in enumerate(logs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = (tmp_path / "log").read_text().splitlines()
    assert len(lines) == 800
    assert all(one[0] == two[0] for one, two in zip(lines[::2], lines[1::2], strict=True))
    (tmp_path / "log").rename(tmp_path / "old")
    logs[0].append(["new\n"])
    assert (tmp_path / "log").read_text() == "new\n"


def test_mistakes_are_one_line(files, capsys):
    path = files / "a.gainful"
    with pytest.raises(ParameterError, match="interleave and impressions go together"):
        Settings(interleave=path)
    with pytest.raises(ParameterError, match="interleave_length of serve must be from 1 to 12, was 13"):
        Settings(interleave=path, impressions="x", interleave_method="optimised", interleave_length=13)
    with pytest.raises(ParameterError, match="interleave_method of serve must be one of team-draft"):
        Settings(interleave=path, impressions="x", interleave_method="fancy")
    with pytest.raises(FormatError, match="cannot be written: Is a directory"):
        create_app(path, Settings(interleave=files / "b.gainful", impressions=files))
    gainful.save(gainful.RegressionRanker().fit(train_data(names=("bm25", "clicks", "age", "x"))), files / "c.gainful")
    options = ["--interleave", str(files / "c.gainful"), "--impressions", str(files / "shown.jsonl")]
    assert run(["serve", str(path), *options]) == 2
    assert "c.gainful cannot be interleaved: its features are others: 'x' where the first" in capsys.readouterr().err
    assert run(["serve", str(path), *options[:2]]) == 2
    assert "go together" in capsys.readouterr().err


def test_from_the_command_to_a_verdict(files, data, capsys):
    """Users who want what A wants click the best document of the page; the command says that A is better."""
    X = data.X[:10]
    best = int(np.argmax(gainful.load(files / "a.gainful").predict(X)))
    clicks = ["query_id,session_id,action_name,object_id"]
    options = ("--interleave", files / "b.gainful", "--impressions", files / "shown.jsonl", "--interleave-length", "4")
    with server(files / "a.gainful", *map(str, options)) as (_, url, _):
        for i in range(12):
            answer = post(f"{url}/rank", documents(X))
            shown = {one["id"] for one in answer["documents"][:4]}
            assert f"d{best}" in shown
            clicks.append(f"{answer['impression']},u{i},click,d{best}")
            clicks.append(f"{answer['impression']},u{i},hover,d{9 - best}")
        clicks.append("unknown,u,click,d1")
        clicks.append(f"{answer['impression']},u,click,d{best}")
        wait_until(lambda: len(logged(files)) == 12)
    (files / "events.csv").write_text("\n".join(clicks) + "\n")
    with (files / "shown.jsonl").open("a") as file:
        file.write('{"impression": "half')
    shown, events = str(files / "shown.jsonl"), str(files / "events.csv")
    assert run(["interleave", "analyse", shown, "--clicks", events, "--json"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert (found["wins_a"], found["wins_b"], found["winner"]) == (12, 0, "A")
    assert "12 impressions, 12 clicks" in err
    assert "1 click on impressions that are not in the log" in err
    assert "1 repeated click counted once" in err
    assert "1 damaged line of the log skipped" in err
    assert run(["interleave", "analyse", shown]) == 2
    assert "give the clicks on it with --clicks" in capsys.readouterr().err
    assert run(["interleave", "analyse", events, "--clicks", events]) == 2
    assert "is not a log of interleaved lists" in capsys.readouterr().err
    assert run(["interleave", "analyse", shown, "--clicks", events, "--read", "sku=x"]) == 2
    assert "no column of clicks 'sku'" in capsys.readouterr().err.lower()
