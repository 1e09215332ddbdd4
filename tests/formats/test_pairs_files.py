"""Files of preferences: what they say about the documents of a data file, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import gainful
from gainful.data.pairs import PreferredPairs
from gainful.errors import FormatError, ParameterError
from gainful.formats.convert import iter_blocks
from gainful.formats.pairs import read_pairs
from graded_pairs import pairs_of_grades

LETOR = "0 qid:7 1:1\n0 qid:7 1:2\n2 qid:7 1:3\n0 qid:x 1:4\n1 qid:x 1:5\n"
TABLE = "qid,doc_id,f\n7,a,1\n7,b,2\n7,c,3\nx,a,4\nx,d,5\n"


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.txt").write_text(LETOR)
    (tmp_path / "data.csv").write_text(TABLE)


def listed(data):
    pairs, x = data.pairs, data.X[:, 0]
    return [*zip(x[pairs.better].tolist(), x[pairs.worse].tolist(), pairs.weight.tolist(), strict=True)]


def written(tmp_path, text):
    (tmp_path / "p.csv").write_bytes(text.encode())
    return tmp_path / "p.csv"


def test_documents_without_ids_are_numbered_in_their_query(tmp_path):
    file = written(tmp_path, "query,better,worse\n7,3,1\nx,1,2\n")
    data = gainful.read("data.txt", pairs=file)
    assert listed(data) == [(3.0, 1.0, 1.0), (4.0, 5.0, 1.0)]
    assert not data.y.any()


def test_documents_with_ids_are_named_by_them(tmp_path):
    file = written(tmp_path, "weight,worse,query,better\r\n2.5,a,7,c\r\n1e-3,d,x,a\r\n2.5,a,7,c\r\n")
    data = gainful.read("data.csv", pairs=file, grade=False)
    assert listed(data) == [(3.0, 1.0, 5.0), (4.0, 5.0, 1e-3)]
    assert data.n_features == 1


def test_pairs_of_other_queries_belong_to_other_files(tmp_path):
    file = written(tmp_path, "query,better,worse\n7,3,1\n8,1,2\n")
    assert listed(gainful.read("data.txt", pairs=file)) == [(3.0, 1.0, 1.0)]


def test_shards_each_take_their_own_pairs(tmp_path):
    data = gainful.make_artificial(8, n_docs=4, n_features=2, seed=1)
    data = data.with_pairs(pairs_of_grades(data.y, data.offsets))
    (tmp_path / "shards").mkdir()
    for i in range(2):
        part = data[4 * i : 4 * i + 4]
        gainful.write(part, tmp_path / "shards" / f"part-{i}.gnf", pairs=tmp_path / f"p{i}.csv")
    lines = [(tmp_path / f"p{i}.csv").read_text().splitlines() for i in range(2)]
    file = written(tmp_path, "\n".join([*lines[0], *lines[1][1:]]))
    shards = gainful.open_shards(tmp_path / "shards", pairs=file)
    assert shards.has_pairs
    assert shards.n_blocks == 2
    assert gainful.read(tmp_path / "shards", pairs=file).pairs.equals(data.pairs)
    one = gainful.RankSVM().fit(shards).coef_
    assert one == pytest.approx(gainful.RankSVM().fit(data).coef_, rel=1e-6)


@pytest.mark.parametrize("suffix", [".txt", ".csv", ".gnf", ".parquet", ".jsonl"])
@pytest.mark.parametrize("ids", [False, True])
def test_writing_then_reading_is_the_identity(tmp_path, suffix, ids):
    graded = gainful.make_artificial(6, n_docs=5, n_features=3, seed=2)
    pairs = pairs_of_grades(graded.y, graded.offsets)
    weight = np.random.default_rng(1).random(len(pairs)) if ids else pairs.weight
    data = graded.with_pairs(PreferredPairs(pairs.better, pairs.worse, weight, pairs.starts))
    data = data.replace(doc_ids=np.array([f"d {i},{i}" for i in range(data.n_rows)])) if ids else data
    if suffix == ".txt" and ids:
        data = data.replace(doc_ids=np.array([f"d{i}" for i in range(data.n_rows)]))
    gainful.write(data, tmp_path / f"new{suffix}", pairs=tmp_path / "new.csv.pairs")
    found = gainful.read(tmp_path / f"new{suffix}", pairs=tmp_path / "new.csv.pairs")
    assert found.pairs.equals(data.pairs)
    assert not found.y.any()


def test_preferences_are_not_lost_in_writing(tmp_path):
    data = gainful.read("data.txt", pairs=written(tmp_path, "query,better,worse\n7,3,1\n"))
    with pytest.raises(FormatError, match=r"new.txt: preferences need a file of their own; pass pairs=FILE"):
        gainful.write(data, "new.txt")
    assert not (tmp_path / "new.txt").exists()
    with pytest.raises(FormatError, match="the data has grades, so there are no preferences to write"):
        gainful.write(gainful.read("data.txt"), "new.txt", pairs="q.csv")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "p.csv: the file is empty"),
        ("\n", "expected the columns query, better and worse, and optionally weight, found ''"),
        ("query,winner,loser\n", "line 1: expected the columns query, better and worse"),
        ("query,better,worse,worse\n7,1,2,3\n", "line 1: expected the columns"),
        ("query,better,worse\n7,3\n", "line 2: expected 3 columns"),
        ("query,better,worse\n7,3,1,1\n", "line 2: expected 3 columns"),
        (
            "query,better,worse\n7,0,1\n",
            "line 2: query 7 has no document '0'; documents are named by places from 1 to 3",
        ),
        ("query,better,worse\n7,3,4\n", "line 2: query 7 has no document '4'"),
        ("query,better,worse\n7,3,1\n7,2,2\n", "line 3 prefers document '2' to itself; give two documents"),
        ("query,better,worse,weight\n7,3,1,-1\n", "line 2: expected a weight, a number from 0, found '-1'"),
        ("query,better,worse,weight\n7,3,1,1_0\n", "line 2: expected a weight"),
        (
            "query,better,worse,weight\n7,3,1,1e999\n",
            "the weight of line 2 is inf; weights must be 0, or from 1e-30 to 1e",
        ),
        ('query,better,worse\n7,"3,1\n', "is not CSV text in UTF-8"),
    ],
)
def test_damaged_files_are_refused_by_line(tmp_path, text, words):
    with pytest.raises(FormatError, match=words):
        gainful.read("data.txt", pairs=written(tmp_path, text))


def test_other_encodings_and_missing_files_are_refused(tmp_path):
    (tmp_path / "p.csv").write_bytes(b"query,better,worse\n\xff,1,2\n")
    with pytest.raises(FormatError, match="is not CSV text in UTF-8"):
        gainful.read("data.txt", pairs="p.csv")
    with pytest.raises(FormatError, match=r"missing\.csv"):
        gainful.read("data.txt", pairs="missing.csv")
    with pytest.raises(ParameterError, match="pairs of read must be the path of a file of preferences"):
        gainful.read("data.txt", pairs=True)


def test_ids_that_name_two_documents_are_refused(tmp_path):
    (tmp_path / "twice.csv").write_text("qid,doc_id,f\n7,a,1\n7,a,2\n7,c,3\n")
    with pytest.raises(FormatError, match="line 2: query 7 has two documents 'a', so a pair cannot name them"):
        gainful.read("twice.csv", pairs=written(tmp_path, "query,better,worse\n7,c,a\n"), grade=False)


def test_an_unknown_grade_column_names_the_way_without_grades():
    with pytest.raises(
        FormatError, match=r"which column is the grade; .* preferences instead \(pairs=…\), grade=False"
    ):
        gainful.read("data.csv")


def test_what_reads_in_parts_refuses_pairs(tmp_path):
    file = written(tmp_path, "query,better,worse\n7,3,1\n")
    with pytest.raises(ParameterError, match="reading in parts cannot use a file of preferences; leave out pairs="):
        list(iter_blocks("data.txt", pairs=file))


def test_a_file_may_mean_many_rows(tmp_path):
    data = gainful.make_artificial(50, n_docs=30, n_features=2, seed=5)
    preferred = data.with_pairs(pairs_of_grades(data.y, data.offsets))
    gainful.write(preferred, "long.gnf", pairs="long.csv")
    assert read_pairs("long.csv", data).equals(preferred.pairs)
