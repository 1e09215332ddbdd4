"""``gainful clicks``: from a simulated log to judgments, and refusals in one line."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from commands import call, refused

import gainful


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("clicks")
    data = gainful.make_artificial(6, n_docs=8, n_features=3, seed=1)
    gainful.write(data, made / "data.txt")
    gainful.save(gainful.ranker("regression").fit(data), made / "ranker.gainful")
    log = gainful.simulate_clicks(data, "dbn", sessions=400, temperature=1.0, features=True)
    gainful.write_clicks(log, made / "log.csv")
    gainful.write_clicks(gainful.simulate_clicks(data, "dbn", sessions=400, features=True), made / "fixed.csv")
    gainful.click_model("pbm").fit(gainful.read_clicks(made / "log.csv")).save(made / "pbm.json")
    return made


def test_info(folder, capsys):
    code, out, _ = call(capsys, "clicks", "info", folder / "log.csv", "--json")
    assert code == 0
    facts = json.loads(out)
    assert facts["pages"] == 400
    assert len(facts["positions"]) == 8
    code, out, _ = call(capsys, "clicks", "info", folder / "log.csv")
    assert "pages with several clicks" in out
    assert "pairs in 2+ positions" in out
    assert facts["moving_share"] == 1.0


def test_a_log_in_a_fixed_order_warns_once(folder, capsys, tmp_path):
    page = tmp_path / "clicks.html"
    for command in (("fit", "all"), ("report", "-o", page, "--resamples", "0", "--model", "pbm", "--model", "ubm")):
        code, _, err = call(capsys, "clicks", *command, folder / "fixed.csv")
        assert code == 0, err
        assert err.count("0.00% of the query-document pairs were shown in two or more positions") == 1
    assert "were shown in two or more positions" in page.read_text()


def test_what_was_dropped_is_said(folder, capsys, tmp_path):
    (tmp_path / "log.txt").write_text("q\ta,b : z;")
    code, out, err = call(capsys, "clicks", "info", tmp_path / "log.txt")
    assert code == 0
    assert "1 click on a document that was not shown was dropped" in err
    assert "1 click on a document that was not shown was dropped" in out


def test_fit_and_evaluate(folder, capsys, tmp_path):
    target = tmp_path / "dbn.json"
    code, out, err = call(
        capsys, "clicks", "fit", "dbn", folder / "log.csv", "-o", target, "--test", folder / "log.csv", "--json"
    )
    assert code == 0
    found = json.loads(out)
    model = gainful.load_click_model(target)
    expected = model.evaluate(gainful.read_clicks(folder / "log.csv"))
    assert found["log_likelihood"] == pytest.approx(expected.log_likelihood)
    assert found["continuation"] == pytest.approx(model.continuation_)
    assert "dbn of 48 query-document pairs" in err


def test_all_models_in_one_table(folder, capsys):
    code, out, _ = call(capsys, "clicks", "fit", "all", folder / "log.csv", "--set", "smoothing=2")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[1:]] == list(gainful.CLICK_MODELS)


def test_judge(folder, capsys, tmp_path):
    code, _, err = call(capsys, "clicks", "judge", folder / "pbm.json", "-o", tmp_path / "clicks.qrels")
    assert code == 0
    assert "48 judgments" in err
    judged = gainful.load_click_model(folder / "pbm.json").judge()
    assert gainful.read_qrels(tmp_path / "clicks.qrels") == judged.to_qrels()
    code, _, err = call(
        capsys, "clicks", "judge", folder / "pbm.json", "-o", tmp_path / "clicks.csv", "--log", folder / "log.csv",
        "--data", tmp_path / "train.txt", "--read", "features=f1,f2,f3", "--grades", "3",
    )  # fmt: skip
    assert code == 0, err
    table = pd.read_csv(tmp_path / "clicks.csv")
    assert list(table) == ["query", "document", "grade", "relevance", "error", "confidence"]
    assert len(table) == 48
    data = gainful.read(tmp_path / "train.txt")
    assert data.n_rows == 48
    assert data.highest_grade <= 2


def test_queries_with_blanks_are_judged_in_a_table(folder, capsys, tmp_path):
    log = gainful.read_clicks(folder / "log.csv")
    texts = log.replace(query_ids=np.array([f"red shoes {one}" for one in log.query_ids]))
    gainful.click_model("rank-ctr").fit(texts).save(tmp_path / "model.json")
    message = refused(capsys, "clicks", "judge", tmp_path / "model.json", "-o", tmp_path / "x.qrels")
    assert "has blanks, which separate the columns of qrels; write a table, such as x.csv" in message
    assert not (tmp_path / "x.qrels").exists()
    code, _, err = call(capsys, "clicks", "judge", tmp_path / "model.json", "-o", tmp_path / "x.csv")
    assert code == 0, err
    assert pd.read_csv(tmp_path / "x.csv")["query"][0].startswith("red shoes")


@pytest.mark.parametrize("model", ["ubm", "pbm.json"])
def test_simulate(folder, capsys, tmp_path, model):
    users = folder / model if model.endswith("json") else model
    code, _, err = call(
        capsys, "clicks", "simulate", folder / "data.txt", "-o", tmp_path / "log.parquet", "--model", users,
        "--ranker", folder / "ranker.gainful", "--sessions", 50, "--length", 5, "--seed", 3,
    )  # fmt: skip
    assert code == 0, err
    log = gainful.read_clicks(tmp_path / "log.parquet")
    assert (log.n_pages, log.last_position) == (50, 5)
    assert log.propensity is not None


def test_refusals_are_one_line(folder, capsys, tmp_path):
    log, model = folder / "log.csv", folder / "pbm.json"
    assert "there is no click model 'pmb'; did you mean 'pbm'?" in refused(capsys, "clicks", "fit", "pmb", log)
    assert "pbm has no parameter 'smooth'" in refused(capsys, "clicks", "fit", "pbm", log, "--set", "smooth=1")
    assert "one click model" in refused(capsys, "clicks", "fit", "all", log, "-o", tmp_path / "x.json")
    assert "there is no such file" in refused(capsys, "clicks", "info", tmp_path / "absent.csv")
    assert "there is no column 'sku'" in refused(capsys, "clicks", "info", log, "--read", "document=sku")
    assert "no keyword 'documents'" in refused(capsys, "clicks", "info", log, "--read", "documents=sku")
    assert "is not a click model" in refused(capsys, "clicks", "judge", folder / "data.txt", "-o", tmp_path / "x.qrels")
    assert "--data needs features" in refused(
        capsys, "clicks", "judge", model, "-o", tmp_path / "x.qrels", "--data", tmp_path / "x.txt"
    )
    assert "cannot infer the format" in refused(
        capsys, "clicks", "simulate", folder / "data.txt", "-o", tmp_path / "x.txt"
    )
    (tmp_path / "bare.csv").write_text("query,position,document,clicked\nq,1,a,1\n")
    assert "no column is the session; name it with --read session=…" in refused(
        capsys, "clicks", "info", tmp_path / "bare.csv"
    )


def test_from_a_log_to_a_ranker(folder, capsys, tmp_path):
    code, _, err = call(capsys, "clicks", "data", folder / "fixed.csv", "-o", tmp_path / "clicks.gnf", "--features",
                        folder / "data.txt", "--positions")  # fmt: skip
    assert code == 0
    assert "6 lists, 48 documents, with positions" in err
    model = tmp_path / "model.gainful"
    code, out, _ = call(capsys, "train", "ranknet", tmp_path / "clicks.gnf", "-o", model, "--debias", "em(clip=0.1)",
                        "--json")  # fmt: skip
    assert code == 0
    assert json.loads(out)["debias"] == "em(clip=0.1)"
    data = gainful.read(tmp_path / "clicks.gnf")
    expected = gainful.ranker("ranknet").fit(data, debias=gainful.Debias("em", clip=0.1))
    assert gainful.load(model).coef_ == pytest.approx(expected.coef_)
    # the same with files beside the data: a click model, and one number per line
    gainful.write(data.replace(positions=None), tmp_path / "plain.parquet")
    (tmp_path / "shown.txt").write_text("\n".join(map(str, data.positions.tolist())))
    call(capsys, "train", "ranknet", tmp_path / "plain.parquet", "-o", model, "--position", tmp_path / "shown.txt",
         "--propensity", folder / "pbm.json")  # fmt: skip
    users = gainful.load_click_model(folder / "pbm.json")
    expected = gainful.ranker("ranknet").fit(data, propensity=users)
    assert gainful.load(model).coef_ == pytest.approx(expected.coef_)
    code, _, err = call(capsys, "train", "ranknet", folder / "data.txt", "-o", model, "--debias", "em")
    assert code == 2
    assert "--debias is for clicks, but the data has neither positions nor propensities" in err
    assert "give --position or --propensity" in err
