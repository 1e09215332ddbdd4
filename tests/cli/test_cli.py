"""The command line as a user meets it: results on stdout, one line and exit code 2 for mistakes, nothing left over."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from commands import call, refused

import gainful
from gainful.cli import run
from gainful.rankers.registry import USEFUL_FEW


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """train.txt, valid.txt and test.txt of a small artificial problem."""
    home = tmp_path_factory.mktemp("data")
    data = gainful.make_artificial(60, n_docs=12, n_features=6, seed=2)
    for name, part in zip(("train", "valid", "test"), gainful.split(data, (0.6, 0.2, 0.2)), strict=True):
        gainful.write(part, home / f"{name}.txt")
    return home


@pytest.fixture(scope="module")
def model(folder, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "m.gainful"
    arguments = ["train", "lambdamart", folder / "train.txt", "-o", path, "--set", "n_trees=10", "--set", "n_jobs=1"]
    assert run([str(a) for a in arguments]) == 0
    return path


# -- compare -----------------------------------------------------------------------------------------------------------

QUICK = "regression,lambdamart:n_trees=10:n_jobs=1"


def test_compare_on_a_folder_prints_a_table(capsys, folder):
    code, out, _ = call(capsys, "compare", folder, "--rankers", QUICK, "--metrics", "ndcg@5,map")
    assert code == 0
    assert "regression (baseline)" in out
    assert "12 test queries" in out
    assert "Holm-corrected" in out


def test_compare_json_equals_the_library(capsys, folder):
    code, out, _ = call(capsys, "compare", folder, "--rankers", QUICK, "--metrics", "ndcg@5", "--json")
    train, valid, test = (gainful.read(folder / f"{name}.txt") for name in ("train", "valid", "test"))
    expected = gainful.compare(QUICK, train, valid=valid, test=test, metrics=["ndcg@5"])
    found = json.loads(out)
    assert code == 0
    for label in expected.labels:
        assert found["rankers"][label]["per_query"]["ndcg@5"] == expected.per_query(label, "ndcg@5").tolist()
    assert found["against_baseline"][0]["p"] == expected.to_dict()["against_baseline"][0]["p"]


def test_compare_one_file_with_folds_and_a_report(capsys, folder, tmp_path):
    code, out, _ = call(
        capsys, "compare", folder / "train.txt", "--rankers", "regression", "--folds", "3", "--report", tmp_path / "r"
    )
    assert code == 0
    assert "3 folds, 36 test queries" in out
    assert "<table" in (tmp_path / "r" / "report.html").read_text()
    assert json.loads((tmp_path / "r" / "comparison.json").read_text())["data"]["folds"] == 3


def test_compare_with_given_parts_and_convention(capsys, folder):
    code, out, _ = call(
        capsys, "compare", folder / "train.txt", "--test", folder / "test.txt", "--valid", folder / "valid.txt",
        "--rankers", "regression", "--convention", "letor3",
    )  # fmt: skip
    assert code == 0
    assert "discount=letor, ties=input" in out


def test_compare_trains_a_useful_few_and_shows_the_best_first(capsys, folder):
    code, out, err = call(capsys, "compare", folder, "--seconds", 1, "--metrics", "ndcg@10,map")
    assert code == 0
    assert "comparing a useful few; choose others with --rankers" in err
    table = [line.split() for line in out.splitlines() if line.strip() and line.split()[0] in USEFUL_FEW]
    table = table[: len(USEFUL_FEW)]  # the others are of the differences
    means = {cells[0]: float(next(cell for cell in cells if cell.startswith("0.")).rstrip("*")) for cells in table}
    assert sorted(means) == sorted(USEFUL_FEW)
    assert list(means.values()) == sorted(means.values(), reverse=True)
    assert "regression (baseline)" in out


def test_semicolons_are_read_and_noticed(capsys, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("query;grade;a\n1;0;0.5\n1;2;1.5\n")
    assert "pass --read 'sep=;'" in refused(capsys, "data", "info", path)
    code, out, _ = call(capsys, "data", "info", path, "--read", "sep=;", "--json")
    assert (code, json.loads(out)["documents"]) == (0, 2)
    path.write_text("query,grade,a\n1,0,0.5\n1,2,1.5\n")
    assert call(capsys, "data", "info", path, "--read", "sep=,")[0] == 0


def test_compare_reads_fold_folders(capsys, folder, tmp_path):
    def lay_out(*sources):
        for i, parts in enumerate(sources, start=1):
            home = tmp_path / f"Fold{i}"
            home.mkdir(exist_ok=True)
            for name, source in zip(("train", "vali", "test"), parts, strict=True):
                (home / f"{name}.txt").write_bytes((folder / f"{source}.txt").read_bytes())

    lay_out(("train", "valid", "test"), ("train", "test", "valid"))
    code, out, _ = call(capsys, "compare", tmp_path, "--rankers", "regression", "--json")
    assert code == 0
    assert json.loads(out)["data"]["test_queries"] == [12, 12]
    lay_out(("train", "valid", "test"), ("train", "valid", "test"))
    assert "is in the test data of Fold1 and of Fold2" in refused(
        capsys, "compare", tmp_path, "--rankers", "regression"
    )


def test_the_limit_that_a_message_advises_suffices(capsys, folder, tmp_path, monkeypatch):
    path, model = folder / "train.txt", tmp_path / "m.gainful"
    assert run(["train", "regression", str(path), "-o", str(model)]) == 0
    for command in (
        ["data", "info", str(path)],
        ["export", str(model), "--to", "json", "-o", str(tmp_path / "m.json"), "--check", str(path)],
        ["distill", str(model), str(path), "-o", str(tmp_path / "s.gainful"), "--into", "regression"],
    ):
        capsys.readouterr()
        assert run([*command, "--memory-limit", "1KB"]) == 2
        advised = capsys.readouterr().err.split()[-2:]
        assert advised[0] == "--memory-limit"
        assert run([*command, *advised]) == 0
        monkeypatch.setenv("GAINFUL_MEMORY_LIMIT", "1KB")
        assert run([*command, "--memory-limit", "off"]) == 0
        assert run(command) == 2
        assert "the limit is 1 kB: " in capsys.readouterr().err
        monkeypatch.delenv("GAINFUL_MEMORY_LIMIT")


def test_shards_obey_the_limit(capsys, folder, tmp_path, monkeypatch):
    shards = tmp_path / "shards"
    shards.mkdir()
    (shards / "1.txt").write_bytes((folder / "train.txt").read_bytes())
    train = ["train", "regression", str(shards), "-o", str(tmp_path / "m.gainful")]
    assert run([*train, "--memory-limit", "1KB"]) == 2
    told = capsys.readouterr().err
    assert "1 files of" in told
    assert "the limit is 1 kB: " in told
    assert run([*train, *told.split()[-2:]]) == 0
    monkeypatch.setattr("gainful.compute.memory.available_memory", lambda: 1000)
    assert run(train) == 2
    assert run([*train, "--memory-limit", "off"]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rankers", "lamdamart"], "did you mean 'lambdamart'"),
        (["--rankers", "regression:alpha=x"], "alpha of regression must be a number ≥ 0, was 'x'"),
        (["--metrics", "ndgc@10"], "ndcg"),
        (["--convention", "letor9"], "letor"),
        (["--tests", "anova"], "no test 'anova'"),
        (["--sizes", "a,b"], "--sizes must be comma-separated numbers"),
        (["--folds", "two"], "--folds"),
        (["--nonsense"], "--nonsense"),
        (["--baseline", "x"], "this comparison has no ranker 'x'"),
        (["--alpha", "2"], "alpha of compare"),
    ],
)
def test_compare_refuses_bad_requests(capsys, folder, arguments, message):
    assert message in refused(capsys, "compare", folder, *arguments)


def test_compare_refuses_bad_places(capsys, folder, tmp_path):
    assert "no such file" in refused(capsys, "compare", folder / "absent.txt")
    assert "the folder holds no data files" in refused(capsys, "compare", tmp_path)
    assert "leave out --test" in refused(capsys, "compare", folder, "--test", folder / "test.txt")


# -- train, predict, evaluate ------------------------------------------------------------------------------------------


def test_train_predict_evaluate_agree_with_the_library(capsys, folder, model, tmp_path):
    test = gainful.read(folder / "test.txt")
    expected = gainful.load(model).predict(test)
    code, out, _ = call(capsys, "predict", model, folder / "test.txt")
    assert code == 0
    assert [float(line) for line in out.split()] == expected.tolist()
    assert call(capsys, "predict", model, folder / "test.txt", "-o", tmp_path / "s.txt")[0] == 0
    for source in (model, tmp_path / "s.txt"):
        code, out, _ = call(capsys, "evaluate", source, folder / "test.txt", "--metrics", "ndcg@5,map", "--json")
        assert code == 0
        assert json.loads(out)["means"]["ndcg@5"] == pytest.approx(gainful.metric("ndcg@5")(expected, test))


def test_training_starts_from_scores_in_files(capsys, folder, tmp_path):
    parts = {name: gainful.read(folder / f"{name}.txt") for name in ("train", "valid")}
    starts = {name: np.linspace(0.0, 3.0, part.n_rows) for name, part in parts.items()}
    for name, start in starts.items():
        (tmp_path / name).write_text("".join(f"{score!r}\n" for score in start.tolist()))
    given = (
        "train",
        "lambdamart",
        folder / "train.txt",
        "-o",
        tmp_path / "m",
        "--set",
        "n_trees=5",
        "--set",
        "n_jobs=1",
    )
    valid = ("--valid", folder / "valid.txt")
    both = ("--init-score", tmp_path / "train", "--valid-init-score", tmp_path / "valid")
    assert call(capsys, *given, *valid, *both)[0] == 0
    expected = gainful.LambdaMART(n_trees=5, n_jobs=1).fit(
        parts["train"], init_score=starts["train"], eval_set=parts["valid"], eval_init_score=starts["valid"]
    )
    assert np.array_equal(gainful.load(tmp_path / "m").predict(parts["valid"]), expected.predict(parts["valid"]))
    code, _, err = call(capsys, *given, *valid, *both[:2])
    assert code == 2
    assert "gainful: the training data has initial scores and the data of --valid does not" in err
    assert err.endswith("so give both (--init-score, --valid-init-score) or neither\n")
    assert "--valid-init-score belongs to one --valid, but there are 0" in refused(capsys, *given, *both)
    err = call(capsys, "train", "structured-svm", *given[2:5], *both[:2])[2]
    assert "StructuredSVM cannot start from initial scores; leave out --init-score (--read sidecars=false, of" in err
    (tmp_path / "train").write_text("1\n2\n")
    assert "there are 2 scores for" in refused(capsys, *given, *both[:2])


def test_evaluation_ranks_by_the_sum(capsys, folder, model, tmp_path):
    test = gainful.read(folder / "test.txt")
    start = np.random.default_rng(0).normal(size=test.n_rows)
    (tmp_path / "test.txt").write_bytes((folder / "test.txt").read_bytes())
    (tmp_path / "test.txt.init").write_text("".join(f"{score!r}\n" for score in start.tolist()))
    _, out, _ = call(capsys, "evaluate", model, tmp_path / "test.txt", "--metrics", "ndcg@5", "--json")
    expected = gainful.metric("ndcg@5")(start + gainful.load(model).predict(test), test)
    assert json.loads(out)["means"]["ndcg@5"] == pytest.approx(expected)


def test_weights_of_documents_are_refused_in_the_words_of_the_command_line(capsys, tmp_path):
    (tmp_path / "a.txt").write_text("1 qid:7 1:0.5\n0 qid:7 1:1.5\n")
    (tmp_path / "a.txt.weight").write_text("1\n2\n")
    code, _, err = call(capsys, "train", "structured-svm", tmp_path / "a.txt", "-o", tmp_path / "m")
    assert code == 2
    assert "StructuredSVM weighs whole queries, but the weight differs between rows of query 7; give every row" in err
    (tmp_path / "b.csv").write_text("qid,grade,weight,x\n7,1,1,2\n7,0,2,3\n")
    assert "pass --read weight=weight or --read weight=false" in refused(capsys, "data", "info", tmp_path / "b.csv")


def test_evaluate_prints_conventions_and_queries(capsys, folder, model):
    _, out, _ = call(capsys, "evaluate", model, folder / "test.txt", "--metrics", "p@3,rbp(p=0.9, ties=input)")
    assert "rbp(p=0.9" in out
    _, out, _ = call(capsys, "evaluate", model, folder / "test.txt", "--metrics", "map", "--per-query")
    assert len([line for line in out.splitlines() if line.strip()]) >= 14
    _, out, _ = call(
        capsys, "evaluate", model, folder / "test.txt", "--metrics", "map", "--relevant", "3", "--per-query", "--json"
    )
    found = json.loads(out)
    assert "relevant=3" in found["metrics"]["map"]
    assert len(found["per_query"]["map"]) == len(found["per_query"]["qid"]) == 12


def test_train_reports_and_early_stops(capsys, folder, tmp_path):
    code, out, _ = call(
        capsys, "train", "lambdamart", folder / "train.txt", "--valid", folder / "valid.txt", "-o", tmp_path / "m",
        "--set", "early_stopping=3", "--set", "n_jobs=1", "--set", 'engine_params={"max_depth": 3}', "--json",
    )  # fmt: skip
    found = json.loads(out)
    assert code == 0
    assert found["iterations kept"] == gainful.load(tmp_path / "m").best_iteration_ == found["iterations"] - 3
    assert found["iterations"] < 300
    assert 0 < found["validation ndcg@10"] <= 1
    assert gainful.load(tmp_path / "m").engine_params == {"max_depth": 3}


def test_train_goes_on_from_a_model(capsys, folder, tmp_path):
    few = ("--set", "n_leaves=5", "--set", "n_jobs=1", "--set", "min_docs_in_leaf=5", "--json")
    first, longer = tmp_path / "first.gainful", tmp_path / "longer.gainful"
    call(capsys, "train", "shf-sdcg", folder / "train.txt", "-o", first, "--set", "n_trees=4", *few)
    more = ("--from", first, "--set", "n_trees=9", "--json")
    code, out, _ = call(capsys, "train", "shf-sdcg", folder / "train.txt", "-o", longer, *more)
    assert code == 0
    assert json.loads(out)["iterations"] == 9
    model = gainful.load(longer)
    assert (model.best_iteration_, model.n_leaves, model.warm_start) == (9, 5, False)
    wrong = refused(capsys, "train", "reg-shf-sdcg", folder / "train.txt", "-o", tmp_path / "no", *more)
    assert "was trained with variant='shf', but reg-shf-sdcg means variant='reg-shf'" in wrong
    wrong = refused(capsys, "train", "lambdamart", folder / "train.txt", "-o", tmp_path / "no", *more)
    assert "holds a SmoothDCG, but lambdamart is a LambdaMART" in wrong


def test_training_without_any_possible_tree_does_not_crash(capsys, tmp_path):
    data = gainful.RankingData.from_rows(np.ones((20, 2)), np.arange(20) % 2, np.repeat([1, 2], 10))
    gainful.write(data, tmp_path / "flat.txt")
    for name in ("boosted", "gbrank", "mcrank"):
        code, out, _ = call(capsys, "train", name, tmp_path / "flat.txt", "-o", tmp_path / name, "--json")
        assert code == 0
        assert json.loads(out)["iterations"] <= 1


def test_rows_of_a_query_that_reappears_come_back_in_file_order(capsys, folder, model, tmp_path):
    lines = (folder / "test.txt").read_text().splitlines(keepends=True)
    rows = [line for line in lines if not line.startswith("#")]
    order = np.random.default_rng(0).permutation(len(rows))
    (tmp_path / "mixed.txt").write_text("".join(rows[i] for i in order))
    assert "--merge" in refused(capsys, "predict", model, tmp_path / "mixed.txt")
    _, out, _ = call(capsys, "predict", model, tmp_path / "mixed.txt", "--merge")
    expected = gainful.load(model).predict(gainful.read(folder / "test.txt"))
    assert [float(line) for line in out.split()] == expected[order].tolist()
    (tmp_path / "scores.txt").write_text(out)
    means = [
        json.loads(call(capsys, "evaluate", *arguments, "--json")[1])["means"]
        for arguments in (
            (model, folder / "test.txt"),
            (tmp_path / "scores.txt", tmp_path / "mixed.txt", "--merge"),
        )
    ]
    assert means[0] == pytest.approx(means[1])


def test_text_with_fewer_features_than_the_model_is_widened(capsys, model, tmp_path):
    (tmp_path / "narrow.txt").write_text("1 qid:1 1:0.5\n0 qid:1 2:0.25\n")
    code, out, _ = call(capsys, "predict", model, tmp_path / "narrow.txt")
    assert code == 0
    assert len(out.split()) == 2
    (tmp_path / "wide.txt").write_text("1 qid:1 9:0.5\n")
    assert "9 features, but LambdaMART was trained with 6" in refused(capsys, "predict", model, tmp_path / "wide.txt")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "lambdmart", "{train}", "-o", "{out}"], "did you mean 'lambdamart'"),
        (["train", "regression", "{train}"], "--output"),
        (["train", "ranksvm", "{train}", "-o", "{out}", "--loss", "hinge"], "use --set loss=…"),
        (["train", "regression", "{train}", "-o", "{out}", "--loss", "hinge"], "regression has no parameter 'loss'"),
        (["train", "regression", "{train}", "-o", "{out}", "--vaild", "{train}"], "Possible options: --read, --valid"),
        (["predict", "ranksvm", "{train}", "--loss", "hinge"], "No such option: --loss"),
        (["train", "regression", "{train}", "-o", "{out}", "--set", "alfa=3"], "did you mean 'alpha'"),
        (["train", "regression", "{train}", "-o", "{out}", "--set", "alpha=-1"], "must be a number ≥ 0"),
        (["train", "regression", "{train}", "-o", "{absent}/m.gainful"], "does not exist"),
        (["train", "regression", "{absent}", "-o", "{out}"], "no such file"),
        (["train", "regression", "{train}", "-o", "{out}", "--valid", "{absent}"], "no such file"),
        (["train", "lambdamart", "{train}", "-o", "{out}", "--set", 'engine_params={"eta": 1}'], "use learning_rate="),
        (["predict", "{absent}", "{train}"], "no such file"),
        (["predict", "{train}", "{train}"], "not a readable gainful model"),
        (["evaluate", "{train}", "{train}"], "line 1: expected one score"),
        (["evaluate", "{scores}", "{train}"], "2 scores for"),
        (["evaluate", "{underscore}", "{train}"], "line 2: expected one score, a finite number, found '1_000'"),
        (["evaluate", "{arabic}", "{train}"], "line 1: expected one score, a finite number, found '٤'"),
        (["evaluate", "{infinity}", "{train}"], "line 1: expected one score, a finite number, found 'inf'"),
        (["evaluate", "/dev/zero", "{train}"], "is not a regular file; pipes and devices cannot be read"),
        (["data", "info", "{train}", "--memory-limit", "lots"], "a size such as '500MB' or '4GB', was 'lots'"),
        (["data", "info", "{train}", "--memory-limit", "1KB"], "raise the limit with --memory-limit "),
        (["train", "regression", "{train}", "-o", "{out}", "--memory-limit", "1KB"], "the limit is 1 kB"),
        (["data", "convert", "{train}", "{out}.gnf", "--read", "max_bytes=1KB"], "the limit is 1 kB"),
        (["evaluate", "{scores}", "{train}", "--metrics", "ndcg@x"], "was 'x'"),
        (["data", "info", "{broken}"], "line 2, column"),
        (["data", "info", "{empty}"], "empty"),
        (["data", "info", "{train}", "--format", "parkett"], "did you mean 'parquet'"),
        (["data", "info", "{train}", "--read", "dtype"], "NAME=VALUE"),
        (["data", "info", "{train}", "--read", "dtipe=float32"], "did you mean 'dtype'"),
        (["data", "convert", "{train}", "{out}.xyz"], "suffix"),
        (["data", "convert", "{broken}", "{out}.parquet"], "line 2, column"),
        (["data", "convert", "{negative}", "{out}.parquet"], "line 1"),
        (["data", "convert", "{infinite}", "{out}.parquet"], "line 1"),
        (["data", "convert", "{glued}", "{out}.parquet"], "line 3"),
        (["data", "convert", "{broken}", "{out}.gnf"], "line 2, column"),
        (["data", "convert", "{glued}", "{out}.gnf"], "line 3"),
        (["data", "convert", "{broken}", "{out}", "--shard-rows", "2"], "line 2, column"),
        (["data", "convert", "{train}", "{out}", "--shard-rows", "0"], "shard_rows"),
        (["data", "generate", "{out}.txt", "--queries", "0"], "n_queries"),
        (["data", "generate", "{out}.txt", "--queries", "3", "--grade-shares", "1,1"], "grade_shares"),
        (["data", "generate", "{out}", "--queries", "3", "--split", "0.5"], "--split"),
        (["rankers", "lambdmart"], "did you mean 'lambdamart'"),
        (["nonsense"], "nonsense"),
        (
            ["export", "{absent}", "--to", "json", "-o", "{out}", "--memory-limit", "lots"],
            "--memory-limit must be a number",
        ),
        (["distill", "{absent}", "{train}", "-o", "{out}", "--memory-limit", "0"], "--memory-limit must be a number"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing_behind(capsys, folder, tmp_path, arguments, message):
    home = tmp_path / "in"
    home.mkdir()
    files = {
        "scores": "1\n2\n",
        "underscore": "1\n1_000\n",
        "arabic": "٤\n",
        "infinity": "inf\n",
        "broken": "1 qid:1 1:2\n1 qid:1 1:x\n",
        "empty": "",
        "negative": "-1 qid:1 1:2\n",
        "infinite": "1 qid:1 1:inf\n",
        "glued": "1 qid:1 1:2\n1 qid:2 1:2\n1 qid:1 1:2\n",
    }
    for name, text in files.items():
        (home / f"{name}.txt").write_text(text)
    out = tmp_path / "out"
    out.mkdir()
    places = {name: home / f"{name}.txt" for name in files} | {
        "train": folder / "train.txt", "absent": tmp_path / "absent", "out": out / "o"}  # fmt: skip
    filled = [
        argument.format(**places) if "{" in argument and '"' not in argument else argument for argument in arguments
    ]
    assert message in refused(capsys, *filled)
    assert list(out.iterdir()) == []


# -- data and rankers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".csv", ".gnf", ".txt.gz", ".svm.zst"])
def test_convert_there_and_back(capsys, folder, tmp_path, suffix):
    assert call(capsys, "data", "convert", folder / "train.txt", tmp_path / f"d{suffix}")[0] == 0
    assert call(capsys, "data", "convert", tmp_path / f"d{suffix}", tmp_path / "back.txt")[0] == 0
    back, source = gainful.read(tmp_path / "back.txt"), gainful.read(folder / "train.txt")
    assert np.array_equal(back.X, source.X)
    assert np.array_equal(back.y, source.y)
    assert back.query_ids.tolist() == source.query_ids.tolist()


def test_convert_to_shards_and_back(capsys, folder, tmp_path):
    code, _, err = call(capsys, "data", "convert", folder / "train.txt", tmp_path / "shards", "--shard-rows", "100")
    assert code == 0
    names = sorted(path.name for path in (tmp_path / "shards").iterdir())
    assert names == [f"part-{i:05}.gnf" for i in range(len(names))]
    assert len(names) > 1
    assert f"{len(names)} shards" in err
    assert call(capsys, "data", "convert", tmp_path / "shards", tmp_path / "one.parquet")[0] == 0
    assert gainful.read(tmp_path / "one.parquet").equals(gainful.read(folder / "train.txt"))


def test_info(capsys, folder):
    code, out, _ = call(capsys, "data", "info", folder / "train.txt")
    assert code == 0
    assert "36" in out
    _, out, _ = call(capsys, "data", "info", folder / "train.txt", "--json", "--read", "dtype=float32")
    assert json.loads(out)["storage"] == "dense float32"


def test_generate_writes_what_the_library_makes(capsys, tmp_path):
    code, _, _ = call(
        capsys, "data", "generate", tmp_path / "d.gnf", "--queries", "7", "--docs", "5", "--features", "4",
        "--grades", "3", "--seed", "9", "--grade-shares", "0.5,0.3,0.2",
    )  # fmt: skip
    assert code == 0
    expected = gainful.make_artificial(7, n_docs=5, n_features=4, n_grades=3, seed=9, grade_shares=(0.5, 0.3, 0.2))
    assert gainful.read(tmp_path / "d.gnf").equals(expected)
    assert call(capsys, "data", "generate", tmp_path / "s", "--queries", "10", "--split", "0.6,0.2,0.2")[0] == 0
    assert sorted(p.name for p in (tmp_path / "s").iterdir()) == ["test.txt", "train.txt", "valid.txt"]


def test_rankers_are_listed_with_their_parameters(capsys):
    _, out, _ = call(capsys, "rankers")
    assert all(name in out for name in gainful.RANKERS)
    _, out, _ = call(capsys, "rankers", "--json")
    assert [row["name"] for row in json.loads(out)] == list(gainful.RANKERS)
    for name, entry in gainful.RANKERS.items():
        _, out, _ = call(capsys, "rankers", name, "--json")
        assert [row["parameter"] for row in json.loads(out)["parameters"]] == list(entry.cls.parameters)
    for name in {entry.kind: name for name, entry in gainful.RANKERS.items()}.values():
        _, out, _ = call(capsys, "rankers", name)
        assert all(parameter in out for parameter in gainful.RANKERS[name].cls.parameters)


def test_version_and_help(capsys):
    assert call(capsys, "--version")[1] == f"gainful {gainful.__version__}\n"
    code, out, _ = call(capsys, "--help")
    assert code == 0
    for command in ("compare", "train", "predict", "evaluate", "data", "rankers", "warm"):
        assert command in out
        assert call(capsys, command, "--help")[0] == 0


def test_names_that_look_like_markup_are_printed_as_they_are(capsys, tmp_path):
    path = tmp_path / "a[red].txt"
    path.write_text("1 qid:[/b] 1:2\n0 qid:[/b] 1:1\n")
    model = tmp_path / "m[bold].gainful"
    code, out, _ = call(capsys, "train", "regression", path, "-o", model)
    assert code == 0
    assert "m[bold].gainful" in out.replace("\n", "")
    code, out, _ = call(capsys, "evaluate", model, path, "--per-query")
    assert code == 0
    assert "[/b]" in out


def test_evaluate_tells_metrics_of_one_name_apart(capsys, folder, model):
    _, out, _ = call(capsys, "evaluate", model, folder / "test.txt", "--metrics", "map,map(relevant=3)", "--json")
    assert len(set(json.loads(out)["means"].values())) == 2


def test_json_scores_go_to_the_file_that_is_named(capsys, folder, model, tmp_path):
    assert call(capsys, "predict", model, folder / "test.txt", "--json", "-o", tmp_path / "s.json")[1] == ""
    assert len(json.loads((tmp_path / "s.json").read_text())["score"]) == 144


def test_nothing_is_made_before_it_can_be_filled(capsys, folder, tmp_path):
    (tmp_path / "bad.txt").write_text("x\n")
    refused(capsys, "compare", tmp_path / "bad.txt", "--report", tmp_path / "report")
    refused(capsys, "data", "generate", tmp_path / "g", "--queries", "2", "--split", "0.6,0.2,0.2")
    refused(capsys, "compare", folder / "train.txt", "--seed", "-1", "--rankers", "regression")
    assert [p.name for p in tmp_path.iterdir()] == ["bad.txt"]


def test_flags_are_shown_without_a_value(capsys):
    for words in (["--help"], ["compare", "-h"], ["data", "info", "-h"]):
        code, out, _ = call(capsys, *words)
        assert code == 0
        assert "bool" not in out.lower()
        assert "-h" in out
    assert "--json" in out


@pytest.mark.parametrize("words", ["rankers --json true", "rankers lambdamart --json No", "rankers --json=true"])
def test_a_flag_takes_no_value(capsys, words):
    given = words[words.index("--json") :]
    line = f"gainful: --json takes no value, was {given}; give --json alone, or leave it out"
    assert refused(capsys, *words.split()) == line


def test_a_pair_of_flags_takes_no_value(capsys):
    line = refused(capsys, "tune", "lambdamart", "--prune", "off")
    assert line == "gainful: --prune takes no value, was --prune off; give --prune or --no-prune"


def test_what_follows_a_flag_may_be_an_argument(capsys):
    code, out, _ = call(capsys, "rankers", "--json", "lambdamart")
    assert code == 0
    assert json.loads(out)["name"] == "lambdamart"


def test_without_a_command_it_helps(capsys):
    code, out, _ = call(capsys)
    assert code == 0
    assert "compare" in out


# -- as a process ------------------------------------------------------------------------------------------------------


def start(*arguments, **kwargs):
    return subprocess.Popen(
        [sys.executable, "-m", "gainful", *(str(a) for a in arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kwargs,
    )  # fmt: skip


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_in_compare_ends_soon_with_what_is_finished(tmp_path):
    """The second ranker would take minutes; the first is finished when the interrupt comes."""
    data = gainful.make_artificial(100, n_docs=20, n_features=10, seed=0)
    gainful.write(data, tmp_path / "d.gnf")
    process = start(
        "compare", tmp_path / "d.gnf", "--rankers", "regression,lambdamart:n_trees=100000:early_stopping=none",
    )  # fmt: skip
    for line in process.stderr:
        if line.startswith("training lambdamart"):
            break
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=120)  # seconds are due, 100,000 trees would take hours
    assert process.returncode == 130
    assert "regression" in out
    assert "Interrupted" in out


@pytest.mark.usefixtures("interruptible")
def test_a_job_that_cannot_be_stopped_is_known_to_be_stuck():
    code = """
import os, signal, time
from gainful.cli.console import run_interruptibly
def stuck(stop):
    time.sleep(0.5)  # until it is waited for
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(600)
print(run_interruptibly(stuck, grace_seconds=0.2))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "(True, True)"


def test_a_reader_that_leaves_early_is_not_an_error(folder, model):
    process = start("predict", model, folder / "train.txt")
    process.stdout.close()
    assert process.wait(timeout=60) in (0, 1)
    assert "Traceback" not in process.stderr.read()
    process.stderr.close()
