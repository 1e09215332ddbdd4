"""Columns of tables that look like identifiers are left out, with a note, unless they are named."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import gainful
from gainful import DataWarning
from gainful.data.identifiers import is_id_name, is_monotone, is_numbering, why_identifier
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


LEFT_OUT = "3 columns that look like identifiers or row numbers are left out: product_id, serial, title; to keep "


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
    codes = np.random.default_rng(0).permutation(10**6).astype(float)
    unique = "whole numbers that differ in nearly every row"
    assert why_identifier("x", codes[:1000], several_queries=False) == unique
    assert why_identifier("x", codes[:999], several_queries=False) is None
    assert why_identifier("x", np.append(codes[:999], codes[0]), several_queries=False) is None
    assert why_identifier("x", np.append(codes[:10_000], codes[:50]), several_queries=False) == unique
    assert why_identifier("x", np.append(codes[:10_000], codes[:200]), several_queries=False) is None


def test_frames(frame):
    with pytest.warns(DataWarning, match=LEFT_OUT + r"one of them, name it as in keep=\['product_id'\]"):
        data = gainful.from_frame(frame)
    assert data.feature_names == ("price", "brand", "bm25")
    named = ["product_id", "bm25"]
    assert gainful.from_frame(frame, features=named).feature_names == tuple(named)


def test_one_is_kept_by_its_name(frame, tmp_path):
    with pytest.warns(DataWarning, match="left out: product_id, title"):
        data = gainful.from_frame(frame, keep=["serial"])
    assert data.feature_names == ("serial", "price", "brand", "bm25")
    assert gainful.from_frame(frame, features=["bm25"], keep=["serial"]).feature_names == ("bm25", "serial")
    frame.drop(columns=["title", "serial"]).to_csv(tmp_path / "a.csv", index=False)
    with pytest.warns(DataWarning, match=r"1 column .* left out: product_id; to keep it, pass keep=\['product_id'\]"):
        gainful.read(tmp_path / "a.csv")
    assert "product_id" in gainful.read(tmp_path / "a.csv", keep=["product_id"]).feature_names
    with pytest.raises(gainful.ParameterError, match="a list of column names"):
        gainful.from_frame(frame, keep="serial")
    with pytest.raises(gainful.ParameterError, match="did you mean 'serial'"):
        gainful.from_frame(frame, keep=["seral"])


def test_numbers_written_as_text_may_be_identifiers(frame):
    frame["code"] = [f"{10_000 + 7 * i}" for i in range(N)]
    frame["amount"] = [f"{i / 7:.3f}" for i in range(N)]
    with pytest.warns(DataWarning) as warned:
        data = gainful.from_frame(frame[["qid", "label", "code", "amount", "bm25"]])
    assert data.feature_names == ("amount", "bm25")
    assert [str(one.message)[:58] for one in warned] == [
        "1 column that looks like identifiers or row numbers is lef",
        "column 'amount' holds numbers written as text, and is read",
    ]


@pytest.fixture(scope="module")
def long():
    """What looks like identifiers only after the first 1,000 rows."""
    n, rng = 12_000, np.random.default_rng(4)
    late = np.arange(n) > 2000
    return pd.DataFrame(
        {
            "qid": np.repeat(np.arange(n // 10), 10),
            "label": rng.integers(0, 3, n),
            "hash": np.where(late, rng.permutation(10**7)[:n], np.nan),
            "name": [f"shop {i}" if i > 2000 else None for i in range(n)],
            "views": np.floor(rng.lognormal(10, 2, n)),
            "brand": [f"brand {i}" for i in rng.integers(0, 3000, n)],
            "bm25": rng.normal(size=n),
        }
    )


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
def test_identifiers_beyond_the_first_rows(long, tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    write = {".csv": long.to_csv, ".parquet": long.to_parquet, ".jsonl": long.to_json}[suffix]
    write(path, **({"orient": "records", "lines": True} if suffix == ".jsonl" else {"index": False}))
    with pytest.warns(DataWarning, match="2 columns .* are left out: hash, name"):
        data = gainful.read(path)
    assert data.feature_names == ("views", "brand", "bm25")
    with pytest.warns(DataWarning, match="2 columns .* are left out: hash, name"):
        assert np.allclose(data.X, gainful.from_frame(long).X)
    why = {column.name: column.why for column in columns_of(path, all_rows=True) if column.role == "ignored"}
    assert why == {
        "hash": "whole numbers that differ in nearly every row",
        "name": "text that differs in nearly every row",
    }


def test_infinite_values_are_not_whole_numbers():
    """They were subtracted from each other, with NumPy's warnings."""
    values = np.array([np.inf, np.inf, -np.inf, *range(30)])
    assert not is_monotone(values)
    assert not is_numbering(values)
    assert why_identifier("item_id", values, several_queries=True) is None


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
