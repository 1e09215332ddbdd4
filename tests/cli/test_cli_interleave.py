"""``gainful interleave`` and ``gainful clicks evaluate``: as in Python, and refusals in one line."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from commands import call, refused

import gainful


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("interleave")
    gainful.write_run({"1": {"x": 3.0, "y": 2.0, "z": 1.0}, "2": {"x": 1.0}}, made / "a.run")
    gainful.write_run({"1": {"y": 3.0, "z": 2.0, "x": 1.0}}, made / "b.run")
    data = gainful.make_artificial(5, n_docs=6, n_features=3, seed=1)
    gainful.write(data, made / "data.txt")
    data = gainful.read(made / "data.txt")
    ranker = gainful.ranker("regression").fit(data)
    gainful.save(ranker, made / "new.gainful")
    gainful.save(gainful.ranker("regression", alpha=1000.0).fit(data), made / "old.gainful")
    old = gainful.load(made / "old.gainful")
    log = gainful.simulate_clicks(data, "pbm", ranker=old, sessions=800, length=3, temperature=1.0, seed=2)
    gainful.write_clicks(log, made / "log.csv")
    return made


def test_lists_then_clicks_then_a_verdict(folder, capsys, tmp_path):
    code, _, err = call(
        capsys, "interleave", "lists", folder / "a.run", folder / "b.run", "-o", tmp_path / "lists.csv", "--each", "40"
    )
    assert code == 0
    assert "40 lists for 1 query; 1 query of one run alone left out" in err
    lists = pd.read_csv(tmp_path / "lists.csv")
    assert lists.groupby("impression").document.apply(sorted).map(tuple).unique().tolist() == [("x", "y", "z")]
    lists.assign(clicked=(lists.credit > 0).astype(int)).to_csv(tmp_path / "shown.csv", index=False)
    code, out, _ = call(capsys, "interleave", "analyse", tmp_path / "shown.csv", "--json")
    assert code == 0
    found = json.loads(out)
    assert (found["units"], found["wins_a"], found["wins_b"], found["winner"]) == (40, 40, 0, "A")
    code, out, _ = call(capsys, "interleave", "analyse", tmp_path / "shown.csv")
    assert "A is better" in out


def test_sessions_are_units(capsys, tmp_path):
    (tmp_path / "shown.csv").write_text("impression,session,credit,clicked\n1,u,1,1\n2,u,1,1\n3,v,-1,1\n")
    _, out, _ = call(capsys, "interleave", "analyse", tmp_path / "shown.csv", "--json")
    assert json.loads(out)["units"] == 2


def test_size(capsys):
    _, out, _ = call(capsys, "interleave", "size", "--share", "0.55", "--ties", "0.6")
    assert out.strip() == "1,957 impressions"
    _, out, _ = call(capsys, "interleave", "size", "--share", "0.55", "--ties", "0.6", "--json")
    assert json.loads(out) == {"impressions": 1957}
    _, out, _ = call(capsys, "interleave", "size", "--effect", "0.1")
    assert out.strip() == "785 impressions"
    assert "give either --share or --effect" in refused(capsys, "interleave", "size")


def test_refusals(folder, capsys, tmp_path):
    (tmp_path / "wrong.csv").write_text("impression,credit\n1,1\n")
    line = refused(capsys, "interleave", "analyse", tmp_path / "wrong.csv")
    assert "expected the columns impression, credit and clicked, found impression, credit" in line
    (tmp_path / "wrong.csv").write_text("impression,credit,clicked\n1,1,yes\n")
    assert "line 2: clicked must be a number, was 'yes'" in refused(
        capsys, "interleave", "analyse", tmp_path / "wrong.csv"
    )
    (tmp_path / "wrong.csv").write_text("impression,credit,clicked\n1,0.5,1\n2,-0.25,1\n")
    line = refused(capsys, "interleave", "analyse", tmp_path / "wrong.csv", "--test", "sign")
    assert "the sign test is not fair here" in line
    assert "take --test t" in line
    (tmp_path / "wrong.csv").write_text("impression,credit,clicked\n1,1_0,1\n")
    assert "line 2: credit must be a number, was '1_0'" in refused(
        capsys, "interleave", "analyse", tmp_path / "wrong.csv"
    )
    gainful.write_run({"9": {"x": 1.0}}, tmp_path / "c.run")
    line = refused(capsys, "interleave", "lists", folder / "a.run", tmp_path / "c.run", "-o", tmp_path / "out.csv")
    assert "no query in common" in line
    assert "either --policy" in refused(capsys, "clicks", "evaluate", folder / "log.csv")
    line = refused(capsys, "clicks", "evaluate", folder / "log.csv", "--ranker", folder / "new.gainful")
    assert "need --data" in line


def test_a_model_is_valued_from_the_log_of_another(folder, capsys):
    how = ("--data", folder / "data.txt", "--logged", folder / "old.gainful", "--json")
    code, out, _ = call(capsys, "clicks", "evaluate", folder / "log.csv", "--ranker", folder / "new.gainful", *how)
    assert code == 0
    found = json.loads(out)
    log, data = gainful.read_clicks(folder / "log.csv"), gainful.read(folder / "data.txt")
    new, old = (
        gainful.ranking_probabilities(log, data, gainful.load(folder / f"{name}.gainful")) for name in ("new", "old")
    )
    expected = gainful.estimate_value(log, new, assumption="cascade", propensity=old)
    assert found["value"] == pytest.approx(expected.value)
    assert (found["low"], found["high"]) == pytest.approx((expected.low, expected.high))
    assert found["logged_value"] == pytest.approx(log.n_clicks / log.n_pages)


def test_a_policy_from_a_table(capsys, tmp_path):
    rng = np.random.default_rng(1)
    shown = rng.choice(["x", "y"], size=500)
    frame = pd.DataFrame({"session": np.arange(500), "query": "q", "position": 1, "document": shown})
    frame["clicked"] = (rng.random(500) < np.where(shown == "x", 0.2, 0.6)).astype(int)
    frame["propensity"] = 0.5
    frame.to_csv(tmp_path / "log.csv", index=False)
    (tmp_path / "policy.csv").write_text("document,probability\nx,0.1\ny,0.9\n")
    for method in ("snips", "dr"):
        how = ("--policy", tmp_path / "policy.csv", "--method", method)
        code, out, _ = call(capsys, "clicks", "evaluate", tmp_path / "log.csv", *how, "--json")
        assert code == 0
        found = json.loads(out)
        assert found["low"] < 0.56 < found["high"]
        assert found["method"] == method
    code, out, _ = call(capsys, "clicks", "evaluate", tmp_path / "log.csv", *how)
    assert "effective pages" in out
