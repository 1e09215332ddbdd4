"""Results by segment from a column of the data, and columns that a comparison asks for but the data left out."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import gainful
from gainful import DataError, DataWarning, ParameterError, RankingData
from gainful.cli import run
from gainful.data.splits import Split

RANKERS = ["feature:bm25", "regression"]
HOW = {"metrics": ["ndcg@10"], "tests": ["t"]}


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    n = 60
    return pd.DataFrame(
        {
            "qid": np.repeat(np.arange(n), 5),
            "label": rng.integers(0, 3, 5 * n),
            "bm25": rng.normal(size=5 * n),
            "links": rng.normal(size=5 * n),
            "lang": np.repeat(rng.choice(["de", "en", "fr"], n), 5),
        }
    )


@pytest.fixture(scope="module")
def by_mapping(frame):
    plain = gainful.from_frame(frame.drop(columns=["lang"]))
    return gainful.compare(RANKERS, plain, segments=dict(zip(frame["qid"], frame["lang"], strict=True)), **HOW)


def segments(comparison):
    """The rankers' means in each segment, with its number of queries."""
    found = comparison.by_segment(comparison.choices.segments)
    return {
        name: (len(part.query_ids), {label: part.mean(label, "ndcg@10") for label in part.runs})
        for name, part in found.items()
    }


@pytest.mark.parametrize("make", [lambda f: f, pl.from_pandas, lambda f: pa.Table.from_pandas(f, preserve_index=False)])
def test_a_column_of_a_frame(frame, by_mapping, make):
    """It equals the mapping on the data without the column, so it is not trained on."""
    found = gainful.compare(RANKERS, make(frame), segments="lang", **HOW)
    assert segments(found) == segments(by_mapping)
    assert set(segments(found)) == {"de", "en", "fr"}


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
def test_a_column_of_a_file(frame, by_mapping, tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    gainful.write(gainful.from_frame(frame), path)
    assert segments(gainful.compare(RANKERS, path, segments="lang", **HOW)) == segments(by_mapping)


def test_a_column_that_is_not_a_feature_otherwise(frame, by_mapping):
    """A column called like an identifier, or not among the features named, is read as segments all the same."""
    frame = frame.rename(columns={"lang": "lang_id"})
    assert segments(gainful.compare(RANKERS, frame, segments="lang_id", **HOW)) == segments(by_mapping)
    for named in ({"features": ["bm25", "links"]}, {"features": None}):
        found = gainful.compare(RANKERS, frame, segments="lang_id", read_options=named, **HOW)
        assert segments(found) == segments(by_mapping)


def test_a_column_that_is_named_as_a_feature_is_trained_on(frame):
    numbers = frame.assign(lang=frame["lang"].map({"de": 0, "en": 1, "fr": 2}))
    seen = []

    def watch(progress):
        seen.append(progress.job.splits[0].train.feature_names)

    how = {"segments": "lang", "progress": watch} | HOW
    gainful.compare(["regression"], numbers, read_options={"keep": ["lang"]}, **how)
    assert set(seen) == {("bm25", "links", "lang")}
    del seen[:]
    found = gainful.compare(["regression"], numbers, **how)
    assert set(seen) == {("bm25", "links")}
    assert set(segments(found)) == {"0", "1", "2"}


def test_parts_that_are_given(frame, tmp_path):
    train, test = frame[frame.qid < 40], frame[frame.qid >= 40]
    expected = segments(gainful.compare(RANKERS, train, test=test, segments="lang", **HOW))
    split = Split(gainful.from_frame(train), None, lambda: gainful.from_frame(test))
    assert segments(gainful.compare(RANKERS, split, segments="lang", **HOW)) == expected
    for name, part in (("train", train), ("test", test)):
        part.to_csv(tmp_path / f"{name}.csv", index=False)
    assert segments(gainful.compare(RANKERS, tmp_path, segments="lang", **HOW)) == expected
    given = gainful.compare(RANKERS, tmp_path / "train.csv", test=tmp_path / "test.csv", segments="lang", **HOW)
    assert segments(given) == expected
    assert sum(n for n, _ in expected.values()) == 20


def test_missing_values_are_the_others(frame):
    frame = frame.assign(lang=frame["lang"].where(frame["lang"] != "fr"))
    assert set(segments(gainful.compare(RANKERS, frame, segments="lang", **HOW))) == {"de", "en", "other"}


def test_what_is_not_a_segment(frame):
    mixed = frame.copy()
    mixed.loc[37, "lang"] = "nl"
    query, lang = mixed.loc[37, "qid"], mixed.loc[36, "lang"]
    with pytest.raises(DataError, match=f"column 'lang' is not a segment of queries: query {query} has .*{lang}.* and"):
        gainful.compare(RANKERS, mixed, segments="lang", **HOW)
    with pytest.raises(DataError, match="column 'bm25' is not a segment of queries: query 0 has"):
        gainful.compare(RANKERS, frame, segments="bm25", **HOW)
    with pytest.raises(ParameterError, match="the data has no column 'language'"):
        gainful.compare(RANKERS, frame, segments="language", **HOW)
    with pytest.raises(ParameterError, match="its columns have no names; give segments as a mapping"):
        gainful.compare(["regression"], gainful.make_artificial(20), segments="lang", **HOW)
    parts = [ten_queries(frame, k) for k in range(4)]
    splits = [Split(parts[0], None, parts[1]), Split(parts[2], None, parts[3])]
    with pytest.raises(DataError, match=r"query 1 is in segment .* and, in another fold, in"):
        gainful.compare(["feature:bm25"], splits, segments="lang", **HOW)


def ten_queries(frame, k) -> RankingData:
    """Queries with ids from 0, the odd ones in another language for each k."""
    rows = frame[(frame.qid >= 10 * k) & (frame.qid < 10 * k + 10)]
    return gainful.from_frame(rows.assign(qid=rows.qid - 10 * k, lang=[f"l{k}" if q % 2 else "x" for q in rows.qid]))


def test_on_the_command_line(frame, tmp_path, capsys):
    frame.to_csv(tmp_path / "a.csv", index=False)
    how = ["compare", str(tmp_path / "a.csv"), "--rankers", "feature:bm25,regression", "--metrics", "ndcg@10"]
    assert run([*how, "--segments", "lang"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in ("de", "en", "fr", "By segment"))
    for given, message in {"langs": "did you mean 'lang'?", "langs.csv": "langs.csv: there is no such file"}.items():
        assert run([*how, "--segments", given]) == 2
        assert message in capsys.readouterr().err
    frame.assign(shop_id=np.arange(len(frame)) % 17).to_csv(tmp_path / "a.csv", index=False)
    assert run(["compare", how[1], "--rankers", "feature:shop_id"]) == 2
    assert "to keep it, pass --read keep=shop_id" in capsys.readouterr().err.splitlines()[-1]


def test_a_feature_that_was_left_out(frame, tmp_path):
    frame = frame.assign(shop_id=np.arange(len(frame)) % 17, doc_id=[f"d{i}" for i in range(len(frame))])
    keep = r"\(named like an identifier\); to keep it, pass read_options=\{'keep': \['shop_id'\]\}"
    left_out = f"is not in the data: column 'shop_id' was left out {keep}"
    frame.to_csv(tmp_path / "a.csv", index=False)
    refused = {
        "shop_id": left_out,
        "-shop_id": left_out,
        "doc_id": r"column 'doc_id' is the document \(called 'doc_id'\)",
        "bm52": "the data has no feature 'bm52'",
    }
    for given in (frame, tmp_path / "a.csv"):
        for name, message in refused.items():
            with (
                pytest.warns(DataWarning, match="left out: shop_id"),
                pytest.raises((DataError, ParameterError), match=message),
            ):
                gainful.compare([f"feature:{name}"], given, **HOW)
    with pytest.warns(DataWarning, match="shop_id looks like identifiers"):
        gainful.compare(["feature:shop_id"], frame, read_options={"keep": ["shop_id"]}, **HOW)
