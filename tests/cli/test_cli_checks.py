"""What the command line says of data that is likely a mistake, and in which words."""

from __future__ import annotations

import csv
import json

import pytest

import gainful
from gainful.cli import run


def call(capsys, *arguments):
    """Exit code, stdout and stderr of one command."""
    capsys.readouterr()
    code = run([str(a) for a in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """shop.csv (an index and ids among its columns) and train, valid and test.txt without a fault."""
    home = tmp_path_factory.mktemp("data")
    data = gainful.make_artificial(30, n_docs=6, n_features=3, seed=4)
    with (home / "shop.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["Unnamed: 0", "search", "product_id", "doc", "label", "a", "b", "copy"])
        for i in range(data.n_rows):
            a, b = data.X[i, 0], data.X[i, 1]
            table.writerow([i, f"q{data.qid[i]}", 1000 + i % 17, f"d{i}", data.y[i], a, b, a])
    for name, part in zip(("train", "valid", "test"), gainful.split(data), strict=True):
        gainful.write(part, home / f"{name}.txt")
    return home


def test_info_names_columns_and_findings(capsys, home):
    code, out, err = call(capsys, "data", "info", home / "shop.csv", "--read", "qid=search")
    assert code == 0
    assert (
        "warning: 2 columns that look like identifiers or row numbers are left out: Unnamed: 0, product_id; to" in err
    )
    assert "keep one of them, name it as in --read 'keep=Unnamed: 0'" in err
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "column role why" in lines
    assert "search query named in the options" in lines
    assert "label grade called 'label'" in lines
    assert "doc document called 'doc'" in lines
    assert "product_id ignored named like an identifier" in lines
    assert "a feature numbers" in lines
    assert any(line.startswith("warning 1 feature repeats another in every row (copy = a)") for line in lines)


def test_info_as_json(capsys, home):
    options = ["--read", "qid=search", "--read", "features=product_id,a", "--json"]
    code, out, _ = call(capsys, "data", "info", home / "shop.csv", *options)
    assert code == 0
    told = json.loads(out)
    assert {column["name"]: column["role"] for column in told["columns"]} == {
        "Unnamed: 0": "ignored",
        "search": "query",
        "product_id": "feature",
        "doc": "document",
        "label": "grade",
        "a": "feature",
        "b": "ignored",
        "copy": "ignored",
    }
    (found,) = told["findings"]
    assert (found["code"], found["features"]) == ("identifiers", ["product_id"])
    _, out, _ = call(capsys, "data", "info", home / "train.txt", "--json")
    assert json.loads(out)["columns"] is None
    assert json.loads(out)["findings"] == []


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "tsv"])
def test_columns_of_other_tables(capsys, home, tmp_path, suffix):
    path = tmp_path / f"shop.{suffix}"
    gainful.write(gainful.read(home / "shop.csv", qid="search", features=["a", "b", "copy"]), path)
    _, out, _ = call(capsys, "data", "info", path, "--json")
    roles = [column["role"] for column in json.loads(out)["columns"]]
    assert roles == ["query", "grade", "document", "feature", "feature", "feature"]


@pytest.mark.parametrize(
    "command",
    [
        ["train", "regression", "DATA", "-o", "MODEL"],
        ["compare", "DATA", "--rankers", "regression,ranksvm", "--folds", "3"],
        ["compare", "DATA", "--rankers", "regression", "--tune", "2"],
        ["tune", "regression", "DATA", "--trials", "2", "-o", "MODEL"],
    ],
    ids=["train", "compare", "compare --tune", "tune"],
)
def test_each_finding_is_reported_once(capsys, home, tmp_path, command):
    places = {"DATA": home / "shop.csv", "MODEL": tmp_path / "m.gainful"}
    code, out, err = call(
        capsys, *(places.get(word, word) for word in command), "--read", "qid=doc", "--read", "doc_id=search"
    )
    assert code == 0
    told = [line for line in err.splitlines() if line.startswith("warning: ")]
    assert told[0].startswith("warning: 2 columns that look like identifiers or row numbers are left out")
    assert told[1].startswith(
        "warning: every query has one row, so there is nothing to rank; check which column is the query (--read qid=…)"
    )
    assert len(told) == len(set(told)) == 3
    assert err.count("there is nothing to rank") == 1
    assert "warning" not in out


def test_good_data_gives_no_message(capsys, home):
    _, _, err = call(capsys, "compare", home, "--rankers", "regression")
    assert "warning" not in err
    assert "note" not in err


def test_sizes_that_would_change_nothing_are_refused(capsys, home):
    train, test = home / "train.txt", home / "test.txt"
    for arguments, message in (
        ([home], "is a folder that is already divided; leave out --sizes"),
        ([train, "--test", test], "--test says how the data is divided; leave out --sizes or --test"),
        ([train, "--folds", "3"], "--folds says how the data is divided; leave out --sizes or --folds"),
    ):
        code, _, err = call(capsys, "compare", *arguments, "--rankers", "regression", "--sizes", "0.5,0.25,0.25")
        assert code == 2
        assert message in err
    assert call(capsys, "compare", train, "--rankers", "regression", "--sizes", "0.5,0.25,0.25")[0] == 0


def test_training_without_validation_data_is_reported(capsys, home):
    note = "note: without validation data, rankers cannot stop early and train to their last iteration"
    train, test = home / "train.txt", home / "test.txt"
    _, _, err = call(capsys, "compare", train, "--test", test, "--rankers", "regression")
    assert f"{note}; give it with --valid FILE" in err
    _, _, err = call(capsys, "compare", train, "--sizes", "0.5,0.5", "--rankers", "regression")
    assert note in err
    assert "--valid" not in err
    _, _, err = call(capsys, "compare", train, "--test", test, "--valid", home / "valid.txt", "--rankers", "regression")
    assert "note" not in err


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "search,grade,x\n1,1,2\n", "pass --read qid=… with one of search, grade, x"),
        ("a.csv", "qid,docid,docno,grade\n1,1,2,1\n", "pass --read doc_id=… or --read doc_id=false"),
        ("a.csv", "qid,grade,x,weight\n1,1,2,1\n1,0,2,3\n", "pass --read weight=weight or --read weight=false"),
        ("a.txt", "1 qid:1 0:1\n", "pass --read zero_based=true if they start at 0"),
        ("a.txt", "1 qid:1 1:1\n0 qid:2 1:1\n0 qid:1 1:1\n", "pass --merge if this is intended"),
        ("a.data", "1 qid:1 1:1\n", "pass --format … with one of letor, parquet"),
    ],
)
@pytest.mark.parametrize("command", ["info", "convert"])
def test_errors_name_the_options_of_the_command_line(capsys, tmp_path, command, name, text, message):
    (tmp_path / name).write_text(text)
    target = [tmp_path / "out.gnf"] if command == "convert" else []
    code, _, err = call(capsys, "data", command, tmp_path / name, *target)
    assert code == 2
    assert message in err
    with pytest.raises(gainful.GainfulError) as told:
        gainful.read(tmp_path / name)
    assert "--" not in str(told.value)


def test_a_command_leaves_the_words_of_python_behind(capsys, tmp_path):
    assert call(capsys, "data", "info", tmp_path / "absent.csv")[0] == 2
    (tmp_path / "a.csv").write_text("search,grade,x\n1,1,2\n")
    with pytest.raises(gainful.FormatError, match="pass qid='…' with one of"):
        gainful.read(tmp_path / "a.csv")
