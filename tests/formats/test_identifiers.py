"""Columns of tables that look like identifiers are left out, with a note, unless they are named."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import gainful
from gainful import DataWarning
from gainful.data.identifiers import is_id_name, why_identifier
from gainful.formats import columns_of
from gainful.formats.convert import convert, iter_blocks

N = 60


@pytest.fixture
def frame():
    rng = np.random.default_rng(2)
    return pd.DataFrame(
        {
            "qid": np.repeat(np.arange(10), 6),
            "label": rng.integers(0, 3, N),
            "product_id": rng.integers(0, 20, N),
            "serial": rng.permutation(N) + 100,
            "title": [f"title {i}" for i in range(N)],
            "price": rng.permutation(1000)[:N],
            "brand": rng.choice(["acme", "bolt"], N),
            "bm25": rng.normal(size=N),
        }
    )


LEFT_OUT = "3 columns that look like identifiers or row numbers are left out: product_id, serial, title; to keep them, "


def test_what_looks_like_an_identifier():
    assert is_id_name("product_id")
    assert is_id_name("siteID")
    assert not is_id_name("paid")
    rising = np.arange(20.0)
    assert why_identifier("x", rising, several_queries=True) == "numbers the rows"
    assert why_identifier("x", rising, several_queries=False) is None
    assert why_identifier("x", rising + 0.5, several_queries=True) is None
    assert why_identifier("x", rising[:5], several_queries=True) is None
    texts = np.array([f"t{i}" for i in range(20)], dtype=object)
    assert why_identifier("x", texts, several_queries=True) == "text that differs in nearly every row"
    assert why_identifier("x", np.array(["a", "b"] * 10, dtype=object), several_queries=True) is None
    assert why_identifier("item_id", np.array(["a", "b", "c"], dtype=object), several_queries=False) is not None
    assert why_identifier("is_id", np.array([0.0, 1.0] * 10), several_queries=False) is None


def test_frames(frame):
    with pytest.warns(DataWarning, match=LEFT_OUT + r"name all features with features=\[…\]"):
        data = gainful.from_frame(frame)
    assert data.feature_names == ("price", "brand", "bm25")
    named = ["product_id", "bm25"]
    assert gainful.from_frame(frame, features=named).feature_names == tuple(named)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".arrow", ".jsonl"])
def test_files(frame, tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    if suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in frame.to_dict("records")))
    elif suffix == ".parquet":
        frame.to_parquet(path)
    elif suffix == ".arrow":
        frame.to_feather(path)
    else:
        frame.to_csv(path, sep="\t" if suffix == ".tsv" else ",", index=False)
    with pytest.warns(DataWarning, match=LEFT_OUT):
        data = gainful.read(path)
    with pytest.warns(DataWarning, match=LEFT_OUT):
        assert data.equals(gainful.from_frame(frame))
    columns = {column.name: (column.role, column.why) for column in columns_of(path)}
    assert columns == {
        "qid": ("query", "called 'qid'"),
        "label": ("grade", "called 'label'"),
        "product_id": ("ignored", "named like an identifier"),
        "serial": ("ignored", "numbers the rows"),
        "title": ("ignored", "text that differs in nearly every row"),
        "price": ("feature", "numbers"),
        "brand": ("feature", "text, a category"),
        "bm25": ("feature", "numbers"),
    }
    named = {column.name: (column.role, column.why) for column in columns_of(path, grade="label", features=["bm25"])}
    assert named["label"] == ("grade", "named in the options")
    assert named["price"] == ("ignored", "not among the features named")


def test_blocks_and_conversion_leave_out_the_same(frame, tmp_path):
    frame.drop(columns=["brand"]).to_csv(tmp_path / "a.csv", index=False)
    with pytest.warns(DataWarning, match=LEFT_OUT):
        data = gainful.read(tmp_path / "a.csv")
    with pytest.warns(DataWarning, match=LEFT_OUT):
        assert gainful.RankingData.concatenate(list(iter_blocks(tmp_path / "a.csv", rows=7))).equals(data)
    with pytest.warns(DataWarning, match=LEFT_OUT):
        convert(tmp_path / "a.csv", tmp_path / "a.gnf")
    assert gainful.read(tmp_path / "a.gnf").equals(data)


def test_a_model_reads_just_its_features(frame, tmp_path):
    """What is left out depends on the rows of a file, so later files follow the training data."""
    frame.to_csv(tmp_path / "train.csv", index=False)
    kept = ["serial", "bm25"]
    model = gainful.ranker("lambdamart", n_trees=3, n_jobs=1)
    with pytest.warns(DataWarning, match="feature serial looks like identifiers"):
        model.fit(gainful.read(tmp_path / "train.csv", features=kept))
    few = frame.head(8).assign(extra=range(8))[["extra", "bm25", "qid", "serial", "label", "brand"]]
    few.to_csv(tmp_path / "few.csv", index=False)
    assert model.predict(tmp_path / "few.csv").tolist() == model.predict(few[kept]).tolist()
    assert model.score(tmp_path / "few.csv") == model.score(few[kept], few["label"], qid=few["qid"])


def test_files_that_gainful_wrote_are_left_as_they_are(frame, tmp_path):
    data = gainful.from_frame(frame, features=["product_id", "serial", "bm25"])
    for suffix in (".parquet", ".arrow"):
        gainful.write(data, tmp_path / f"a{suffix}")
        assert gainful.read(tmp_path / f"a{suffix}").equals(data)


def test_one_query_says_nothing_about_rising_numbers(tmp_path):
    (tmp_path / "a.csv").write_text("grade,clicks\n" + "".join(f"{i % 2},{100 - i}\n" for i in range(30)))
    assert gainful.read(tmp_path / "a.csv", query_id="x").feature_names == ("clicks",)
