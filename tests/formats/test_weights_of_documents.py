"""Weights that differ within a query, and initial scores: what each format keeps."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import gainful
from gainful import FormatError, RankingData
from gainful.formats import columns_of
from gainful.formats.convert import convert, iter_blocks

NAMED = {"weight": "weight"}  # where nothing but its name says what the column holds
CSV = "qid,grade,weight,x\n1,0,1,3\n2,0,1,3\n2,1,2,4\n"
JSON_LINES = '{"qid": 2, "grade": 0, "weight": 1, "x": 3}\n{"qid": 2, "grade": 1, "weight": 2, "x": 3}\n'


@pytest.fixture
def data(rng):
    weights = rng.random(14)
    weights[:3] = 0.0
    qid = np.repeat(["a", "b", "c"], [3, 6, 5])
    return RankingData.from_rows(rng.random((14, 2)), rng.integers(0, 3, 14), qid, sample_weight=weights)


@pytest.mark.parametrize("suffix", ["gnf", "parquet", "arrow", "csv", "jsonl", "txt"])
def test_weights_come_back_to_the_last_bit(data, suffix, tmp_path):
    path = tmp_path / f"a.{suffix}"
    gainful.write(data, path)
    back = gainful.read(path)
    assert back.document_weights.tolist() == data.document_weights.tolist()
    assert back.query_weights.tolist() == data.query_weights.tolist()
    blocks = RankingData.concatenate(list(iter_blocks(path, rows=2)))
    assert blocks.document_weights.tolist() == data.document_weights.tolist()
    assert blocks.query_weights.tolist() == data.query_weights.tolist()


@pytest.mark.parametrize(("name", "text"), [("a.csv", CSV), ("a.jsonl", JSON_LINES)])
def test_a_column_that_may_be_a_feature_is_not_taken_for_weights(name, text, tmp_path):
    path = tmp_path / name
    path.write_text(text)
    for read in (gainful.read, lambda path: list(iter_blocks(path))):
        with pytest.raises(
            FormatError, match=r"column 'weight' differs between rows of query 2: .* pass weight='weight'"
        ):
            read(path)
    assert gainful.read(path, weight=False).n_features == 2
    assert gainful.read(path, weight="weight").query_weights[-1] == 1.5
    path.write_text(text.replace("weight", "sample_weight"))
    assert gainful.read(path).query_weights[-1] == 1.5


def test_shards_keep_both(data, tmp_path):
    data = data.replace(init_scores=np.arange(14.0))
    gainful.write(data, tmp_path / "a.gnf")
    assert gainful.read(tmp_path / "a.gnf").equals(data)
    convert(tmp_path / "a.gnf", tmp_path / "shards", shard_rows=4)
    shards = gainful.open_shards(tmp_path / "shards")
    assert shards.has_document_weights
    assert shards.has_init_scores
    assert shards.query_weights.tolist() == data.query_weights.tolist()
    assert np.concatenate([block.row_weights for block in shards.blocks()]).tolist() == data.row_weights.tolist()
    assert np.concatenate([block.init_scores for block in shards.blocks()]).tolist() == list(range(14))


def test_a_query_whose_pieces_differ(tmp_path):
    """Each piece has one weight; together they do not."""
    rows = "".join(f"7,{i % 2},{1 + i // 3},{i}\n" for i in range(6))
    (tmp_path / "a.csv").write_text(f"qid,grade,weight,x\n{rows}")
    for name, how in (("a.csv", NAMED), ("b.gnf", {})):
        if name == "b.gnf":
            convert(tmp_path / "a.csv", tmp_path / name, read_options=NAMED)
        assert gainful.read(tmp_path / name, **how).row_weights.tolist() == [1, 1, 1, 2, 2, 2]
        assert gainful.read(tmp_path / name, **how).query_weights.tolist() == [1.5]


def test_initial_scores_may_begin_late(tmp_path):
    from gainful.formats.binary.writer import Writer

    pieces = [
        RankingData.from_rows([[1.0], [2.0]], [1, 0], [q, q], init_score=init) for q, init in ((1, None), (2, [3, 4]))
    ]
    with Writer(tmp_path / "a.gnf", 1) as writer:
        for piece in pieces:
            writer.append(piece)
    assert gainful.read(tmp_path / "a.gnf").init_scores.tolist() == [0, 0, 3, 4]


def test_letor_text_holds_no_initial_scores(data, tmp_path):
    with pytest.raises(FormatError, match=r"this format cannot hold initial scores; write .gnf or a table"):
        gainful.write(data.replace(init_scores=np.zeros(14)), tmp_path / "a.txt")


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "csv", "jsonl"])
def test_tables_hold_initial_scores(data, suffix, tmp_path):
    given = data.replace(init_scores=np.arange(14) / 7)
    gainful.write(given, tmp_path / f"a.{suffix}")
    found = gainful.read(tmp_path / f"a.{suffix}", weight="sample_weight")
    assert found.init_scores.tolist() == given.init_scores.tolist()
    blocks = RankingData.concatenate(list(iter_blocks(tmp_path / f"a.{suffix}", rows=3, weight="sample_weight")))
    assert blocks.init_scores.tolist() == given.init_scores.tolist()
    with pytest.raises(FormatError, match="which is the name of a query, grade, document, weight or initial score"):
        gainful.write(data.replace(feature_names=("base_margin", "x")), tmp_path / "b.csv")


START = "qid,grade,x,base\n1,1,0.5,2\n2,0,0.5,3\n1,0,0.25,-1\n"


def test_a_column_of_initial_scores(tmp_path):
    """It is named, or called as LightGBM and XGBoost call it."""
    path = tmp_path / "a.csv"
    path.write_text(START)
    for data in (gainful.read(path, init_score="base"), gainful.from_frame(pd.read_csv(path), init_score="base")):
        assert data.feature_names == ("x",)
        assert data.init_scores.tolist() == [2, -1, 3]
    assert gainful.read(path).init_scores is None
    path.write_text(START.replace("base", "init_score"))
    assert gainful.read(path).init_scores.tolist() == [2, -1, 3]
    assert gainful.read(path, init_score=False).feature_names == ("x", "init_score")
    assert {c.name: c.role for c in columns_of(path)}["init_score"] == "initial score"


def test_initial_scores_that_cannot_be(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(START.replace("-1", ""))
    for read in (gainful.read, lambda path, **how: list(iter_blocks(path, **how))):
        with pytest.raises(FormatError, match=r"the initial score of row 2 is missing \(column 'base', from row 0\)"):
            read(path, init_score="base")
    path.write_text(START.replace("-1", "no"))
    with pytest.raises(FormatError, match="line 4: column 'base' must be numeric, found 'no'"):
        gainful.read(path, init_score="base")
    path.write_text(START)
    (tmp_path / "a.csv.init").write_text("1\n2\n3\n")
    for read in (gainful.read, lambda path, **how: list(iter_blocks(path, merge=True, **how))):
        with pytest.raises(FormatError, match="gives initial scores, and so does column 'base'"):
            read(path, init_score="base")


def test_a_header_that_does_not_fit_its_rows(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("# gainful document_weights = [1, 2]\n1 qid:1 1:4\n0 qid:1 1:1\n2 qid:1 1:1\n")
    for read in (gainful.read, lambda path: list(iter_blocks(path))):
        with pytest.raises(FormatError, match="2 weights of documents are given for 3 rows"):
            read(path)
