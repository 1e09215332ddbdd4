"""What users have beside gainful's rankers: a feature, scores, a run, a model file, a function, each beside its own
direct computation."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import gainful
from gainful import DataError, FormatError, LambdaMART, ParameterError, RegressionRanker
from gainful.comparison.contestants import contestants

NDCG = gainful.metric("ndcg@10")


@pytest.fixture(scope="module")
def data(artificial):
    """With document ids, names of features, and rows of queries that are not together in the input."""
    order = np.random.default_rng(0).permutation(artificial.n_rows)
    return gainful.RankingData.from_rows(
        artificial.X[order],
        artificial.y[order],
        artificial.qid[order],
        doc_ids=[f"d{i}" for i in order],
        feature_names=["bm25", "price", *(f"x{j}" for j in range(3, 13))],
    )


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def of_all_folds(found, label, data, scores):
    """The values of scores of all rows, in the order of the comparison's test queries."""
    values = dict(zip(data.query_ids.tolist(), NDCG.per_query(scores, data), strict=True))
    return np.array([values[query] for query in found.query_ids.tolist()])


def assert_ranks_by(system, scores, data, **how):
    """The comparison's values of a system are those of these scores, with one split and with folds."""
    for division in ({}, {"folds": 3}):
        found = gainful.compare({"it": system}, data, metrics="ndcg@10", **division, **how)
        assert np.array_equal(found.per_query("it", "ndcg@10"), of_all_folds(found, "it", data, scores))
    return found


@pytest.mark.parametrize(
    ("spec", "column", "sign"),
    [("feature:bm25", 0, 1), ("feature:2", 1, 1), ("feature:-price", 1, -1), ("feature:-2", 1, -1)],
)
def test_a_feature_ranks_as_its_column(spec, column, sign, data):
    found = assert_ranks_by(spec, sign * data.X[:, column], data)
    assert found.table().count("Not trained here: it.") == 1
    assert "is not known here" not in found.table()  # a feature was not fitted to anything
    assert found.to_dict()["rankers"]["it"]["trained"] is False
    direct = gainful.evaluate(spec, data, metrics="ndcg@10")
    assert direct == {"ndcg@10": NDCG(sign * data.X[:, column], data)}


def test_missing_values_of_a_feature_come_last(data):
    X = data.X.copy()
    X[::3, 0] = np.nan
    scores = np.where(np.isnan(X[:, 0]), X[:, 0][~np.isnan(X[:, 0])].min() - 5, X[:, 0])
    assert_ranks_by("feature:bm25", scores, data.replace(X=X))


def test_a_feature_of_sparse_data(data):
    from scipy import sparse

    assert_ranks_by("feature:2", data.X[:, 1], data.replace(X=sparse.csr_matrix(data.X)))


@pytest.mark.parametrize("file", ["today.txt", "today.npy", "today.json"])
def test_scores_are_in_the_order_of_the_file_and_folds_take_their_rows(file, data, here, rng):
    scores = rng.normal(size=data.n_rows)
    in_file = data.to_input_order(scores)
    if file.endswith("npy"):
        np.save(file, in_file)
    elif file.endswith("json"):
        (here / file).write_text(json.dumps({"qid": [0] * data.n_rows, "score": in_file.tolist()}))
    else:
        (here / file).write_text("".join(f"{one!r}\n" for one in in_file.tolist()))
    found = assert_ranks_by(f"scores:{file}", scores, data)
    assert "What it learned from is not known here" in found.table()
    assert gainful.evaluate(f"scores:{file}", data, metrics="ndcg@10")["ndcg@10"] == NDCG(scores, data)


def test_scores_belong_to_the_test_rows_where_the_data_is_divided(parts, here):
    train, valid, test = parts
    (here / "s.txt").write_text("".join(f"{one!r}\n" for one in test.X[:, 1].tolist()))
    found = gainful.compare(["regression", "scores:s.txt"], train, valid=valid, test=test, metrics="ndcg@10")
    assert found.mean("scores:s.txt", "ndcg@10") == pytest.approx(NDCG(test.X[:, 1], test))
    with pytest.raises(FormatError, match=rf"s\.txt: there are {test.n_rows} scores for {train.n_rows} rows of data"):
        gainful.compare("scores:s.txt", train)


def test_scores_of_a_folder_are_in_the_order_of_its_files(data, here):
    """Rows of a query need not be together in a file, and the next file follows."""
    (here / "days").mkdir()
    halves, rows = (data[:50], data[50:]), []
    for i, half in enumerate(halves):
        order = np.random.default_rng(i).permutation(half.n_rows)
        frame = pd.DataFrame(half.X, columns=half.feature_names).assign(qid=half.qid, grade=half.y)
        frame.iloc[order].to_csv(f"days/{i}.csv", index=False)
        rows.append(half.X[order, 1])
    (here / "s.txt").write_text("".join(f"{one!r}\n" for one in np.concatenate(rows).tolist()))
    found = gainful.evaluate("scores:s.txt", "days", metrics="ndcg@10")
    assert found["ndcg@10"] == pytest.approx(NDCG(data.X[:, 1], data))


def test_a_run_is_joined_by_ids_and_equals_its_judgment(data, here):
    scores = data.X[:, 3]
    gainful.write_run(gainful.Run.from_scores(scores, data), "today.run")
    found = assert_ranks_by("run:today.run", scores, data)
    assert f"today.run has {data.n_rows:,} of {data.n_rows:,} test documents." in found.table()
    judged = NDCG(gainful.read_run("today.run"), gainful.Qrels.from_data(data))
    assert gainful.evaluate("run:today.run", data, metrics="ndcg@10")["ndcg@10"] == pytest.approx(judged)


def test_documents_that_a_run_lacks_come_last(data, here):
    scores, listed = data.X[:, 3], np.arange(data.n_rows) % 4 != 0
    run = gainful.Run.from_rows(data.qid[listed], data.doc_ids[listed], scores[listed])
    gainful.write_run(run, "part.run")
    found = assert_ranks_by("run:part.run", np.where(listed, scores, scores.min() - 1), data)
    assert f"part.run has {listed.sum():,} of {data.n_rows:,} test documents; the others come last." in found.table()


def test_queries_that_a_run_lacks_are_counted(data, here):
    some = data[:100]
    gainful.write_run(gainful.Run.from_scores(some.X[:, 3], some), "some.run")
    found = gainful.compare("run:some.run", data, folds=3)
    assert "some.run lacks 20 test queries: all documents are tied there" in found.table()


WORDS = pd.DataFrame(
    {"qid": np.repeat(np.arange(30), 4), "grade": [0, 1, 2, 1] * 30, "x": np.arange(120) % 7, "kind": list("abcd") * 30}
)


def test_predict_of_a_model_reads_categories_by_their_words():
    model = LambdaMART(n_trees=5, n_jobs=1, min_docs_in_leaf=2).fit(gainful.from_frame(WORDS))
    other = gainful.from_frame(WORDS.assign(kind=["b", "c", "d", "z"] * 30))  # the words have other codes here
    assert gainful.evaluate(model.predict, other) == gainful.evaluate(model, other)
    with pytest.raises(DataError, match="feature 'kind' holds text, of which a function or model of X would see"):
        gainful.evaluate(lambda X: X[:, 0], other)
    assert gainful.evaluate(lambda data: data.X[:, 0], other)


def test_initial_scores_count_for_predict_of_a_model(data):
    shifted = data.replace(init_scores=3.0 * data.X[:, 0])
    model = RegressionRanker().fit(shifted)
    assert gainful.evaluate(model.predict, shifted) == gainful.evaluate(model, shifted)


def test_readers_options_are_named_as_they_are_given():
    frame = WORDS.rename(columns={"qid": "search"})
    for call in (lambda: gainful.compare("few", frame), lambda: gainful.evaluate("feature:x", frame)):
        with pytest.raises(DataError, match=r"pass read_options=\{'qid': '…'\} with one of"):
            call()
    with pytest.raises(DataError, match=r"pass qid='…' with one of"):
        gainful.from_frame(frame)


def test_a_model_file_is_not_trained_again(data, here):
    train, rest = gainful.split(data, (0.3, 0.7))
    model = LambdaMART(n_trees=5, n_jobs=1).fit(train)
    gainful.save(model, "m.gainful")
    found = assert_ranks_by("model:m.gainful", model.predict(rest), rest)
    assert "What it learned from is not known here; if test queries were among it" in found.table()
    by_path = gainful.compare(["m.gainful", here / "m.gainful", "regression"], rest, metrics="ndcg@10")
    assert by_path.labels == ("m.gainful", f"model:{here / 'm.gainful'}", "regression")
    direct = gainful.evaluate("m.gainful", rest, metrics="ndcg@10")["ndcg@10"]
    assert direct == gainful.evaluate(model, rest, metrics="ndcg@10")["ndcg@10"] == NDCG(model.predict(rest), rest)


def test_models_of_other_makers(data, here):
    (here / "weights.csv").write_text("bm25,0.5\nprice,-1\n")
    scores = 0.5 * data.X[:, 0] - data.X[:, 1]
    assert_ranks_by("model:weights.csv", scores, data)
    assert_ranks_by(gainful.load("weights.csv"), scores, data)  # such a model cannot be trained


def test_functions_of_x_and_of_the_data(data):
    assert_ranks_by(lambda X: X[:, 1] ** 2, data.X[:, 1] ** 2, data)

    def longest_id(data):
        return [len(one) for one in data.doc_ids]

    assert_ranks_by(longest_id, longest_id(data), data)
    model = RegressionRanker().fit(data)
    found = gainful.compare([model.predict, longest_id, lambda X: X[:, 0], lambda X: X[:, 1]], data)
    assert found.labels == ("RegressionRanker.predict", "longest_id", "function", "function 2")


def test_rankers_are_tuned_and_baselines_are_not(data):
    found = gainful.compare(["regression", "feature:bm25"], data, tune=2, metrics="ndcg@10")
    assert len(found.runs["regression"][0].trials) == 2
    assert not found.runs["feature:bm25"][0].trials
    assert found.mean("feature:bm25", "ndcg@10") == gainful.compare("feature:bm25", data).mean(
        "feature:bm25", "ndcg@10"
    )


def test_a_store_keeps_the_rankers_only(data, here):
    first = gainful.compare(["regression", "feature:bm25"], data, store="kept", metrics="ndcg@10")
    again = gainful.compare(["regression", "feature:price"], data, store="kept", metrics="ndcg@10")
    assert len(list((here / "kept").iterdir())) == 1
    assert first.runs["regression"][0].fit_seconds == again.runs["regression"][0].fit_seconds
    assert first.mean("feature:bm25", "ndcg@10") != again.mean("feature:price", "ndcg@10")


def test_the_report_shows_what_was_not_trained(data, here):
    found = gainful.compare(["regression", "feature:bm25"], data, metrics="ndcg@10")
    page = found.to_html()
    assert "Not trained here: feature:bm25." in page
    row = next(line for line in found.table().splitlines() if line.strip().startswith("feature:bm25"))
    assert row.rstrip().endswith("–")


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        ("feature:bm52", ParameterError, r"the data has no feature 'bm52'; did you mean 'bm25'\?"),
        ("feature:13", ParameterError, "the data has no feature '13'; it has 12 features; give a number from 1 to 12"),
        ("feature:0", ParameterError, "give a number from 1 to 12"),
        ("feature:", ParameterError, "'feature:' needs the name or number of a feature, as in feature:bm25"),
        ("scores:none.txt", FormatError, "none.txt: there is no such file"),
        ("scores:bad.txt", FormatError, "bad.txt, line 1: expected one score, a finite number, found 'x'"),
        ("scores:bad.npy", FormatError, "bad.npy: expected one number per row"),
        ("scores:nan.npy", FormatError, "nan.npy: score 1 must be a finite number, was nan"),
        ("scores:cut.npy", FormatError, "cut.npy: is damaged: 2,400 numbers do not fill the file"),
        ("scores:bad.json", FormatError, "bad.json: expected JSON of the form"),
        ("run:other.run", DataError, "other.run has none of the test queries; its first is 'elsewhere'"),
        ("model:small.csv", DataError, "small.csv does not fit the data: X has no feature 'no-such-feature'"),
        ("model:bad.txt", FormatError, "bad.txt"),
        ("models:bad.txt", ParameterError, "there is no ranker 'models'"),
    ],
)
def test_what_cannot_be_used_is_refused_before_training(spec, error, message, data, here):
    (here / "bad.txt").write_text("x\n")
    (here / "bad.json").write_text("{}")
    (here / "small.csv").write_text("no-such-feature,1\n")
    (here / "other.run").write_text("elsewhere Q0 d1 1 2.0 tag\n")
    np.save("bad.npy", np.zeros((2, 2)))
    np.save("nan.npy", np.full(data.n_rows, np.nan))
    (here / "cut.npy").write_bytes((here / "nan.npy").read_bytes()[:200])

    def never(event):
        raise AssertionError("training has begun")

    with pytest.raises(error, match=message):
        gainful.compare(["regression", spec], data, progress=never)


def test_a_run_needs_document_ids_and_one_of_the_documents(data, here):
    query = data.query_ids[0]
    (here / "r.run").write_text("".join(f"{one} Q0 nobody 1 2.0 tag\n" for one in data.query_ids.tolist()))
    with pytest.raises(DataError, match=r"r\.run has none of the test documents; its first is 'nobody', the first of"):
        gainful.compare("run:r.run", data)
    with pytest.raises(DataError, match="is joined by document ids, but the data has none"):
        gainful.compare("run:r.run", data.replace(doc_ids=None))
    assert query in data.query_ids


def test_a_model_of_other_features_is_refused(data, here):
    gainful.save(RegressionRanker().fit(gainful.make_artificial(5, n_features=4)), "m.gainful")
    with pytest.raises(DataError, match=r"m\.gainful does not fit the data: X has 12 features, but RegressionRanker"):
        gainful.compare("model:m.gainful", data)


def test_scores_of_ids_in_two_folds_are_refused(data, here):
    again = data[:5].replace(X=data[:5].X + 1)
    splits = [gainful.Split(data[10:20], None, data[:5]), gainful.Split(data[20:30], None, again)]
    np.save("s.npy", np.zeros(2 * again.n_rows))
    with pytest.raises(DataError, match="is in the test data of two folds"):
        gainful.compare("scores:s.npy", splits)


def test_a_text_feature_is_refused(here):
    frame = pd.DataFrame({"qid": [1, 1, 2, 2] * 10, "grade": [0, 1] * 20, "colour": ["red", "blue"] * 20, "x": 1.0})
    with pytest.raises(DataError, match="feature 'colour' holds text, not numbers"):
        gainful.evaluate("feature:colour", frame)


def test_bad_scores_of_a_function_fail_that_function_alone(data):
    found = gainful.compare(
        {"r": "regression", "sum": lambda X: X.sum(), "nan": lambda X: X[:, 0] * np.nan, "words": lambda X: ["a"] * 3},
        data,
    )
    assert found.labels == ("r",)
    assert "expected one score per row" in found.failures["sum"]
    assert "must be a finite number, was nan" in found.failures["nan"]
    assert "expected one score per row" in found.failures["words"]


def test_names_come_with_pairs_and_mappings(data):
    pairs = [("ours", RegressionRanker()), ("theirs", "feature:bm25"), ("two", lambda X: X[:, 0])]
    assert gainful.compare(pairs, data).labels == ("ours", "theirs", "two")
    assert tuple(contestants(dict(pairs))) == ("ours", "theirs", "two")
    with pytest.raises(ParameterError, match="the ranker 'ours' is given twice"):
        contestants([pairs[0], pairs[0]])


# -- data as a frame or a path, and gainful.evaluate -------------------------------------------------------------------


@pytest.fixture(scope="module")
def frame(data):
    table = pd.DataFrame(data.X, columns=data.feature_names).assign(qid=data.qid, grade=data.y)
    return table.sample(frac=1.0, random_state=0)


def test_compare_and_tune_take_frames(frame, data):
    found = gainful.compare(["regression", "feature:bm25"], frame, metrics="ndcg@10")
    same = gainful.compare(["regression", "feature:bm25"], gainful.from_frame(frame), metrics="ndcg@10")
    assert found.mean("regression", "ndcg@10") == same.mean("regression", "ndcg@10")
    other = frame.rename(columns={"qid": "search"})
    named = gainful.compare("regression", other, metrics="ndcg@10", read_options={"qid": "search"})
    assert named.mean("regression", "ndcg@10") == same.mean("regression", "ndcg@10")
    assert gainful.tune("regression", frame, trials=1).best_value > 0
    half = frame["qid"] < 60
    given = gainful.compare("feature:bm25", frame[half], test=frame[~half], metrics="ndcg@10")
    assert len(given.query_ids) == frame[~half]["qid"].nunique()
    more = frame[~half].assign(note=1.0)[["note", *frame.columns[::-1]]]  # read with the features of the training data
    wider = gainful.compare("regression", frame[half], test=more, metrics="ndcg@10")
    narrow = gainful.compare("regression", frame[half], test=frame[~half], metrics="ndcg@10")
    assert wider.mean("regression", "ndcg@10") == narrow.mean("regression", "ndcg@10")
    with pytest.raises(DataError, match="cannot tell which column is the qid"):
        gainful.compare("regression", other)


def test_evaluate_takes_frames_files_folders_and_patterns(frame, data, here):
    frame.to_csv("all.csv", index=False)
    (here / "days").mkdir()
    for i, part in enumerate((data[:40], data[40:])):
        gainful.write(part, f"days/{i}.parquet")
    expected = pytest.approx(NDCG(data.X[:, 0], data))
    for given in (frame, "all.csv", here / "all.csv", "days", "days/*.parquet"):
        assert gainful.evaluate("feature:bm25", given, metrics="ndcg@10")["ndcg@10"] == expected
    # scores of a frame are in its order, those of a data set in the order of its rows
    assert gainful.evaluate(frame["bm25"], frame, metrics="ndcg@10")["ndcg@10"] == expected
    assert gainful.evaluate(data.X[:, 0], data, metrics="ndcg@10")["ndcg@10"] == expected
    assert gainful.evaluate(data.X[:, 0].tolist(), data, metrics="ndcg@10")["ndcg@10"] == expected


def test_evaluate_gives_the_means_of_all_metrics_by_name(data):
    weighted = data.replace(query_weights=np.arange(1.0, data.n_queries + 1))
    found = gainful.evaluate("feature:bm25", weighted, metrics="ndcg@5,map")
    assert list(found) == ["ndcg@5", "map"]
    assert found["map"] == gainful.metric("map")(data.X[:, 0], weighted)
    letor = gainful.evaluate("feature:bm25", data, metrics=["ndcg@5"], convention="letor4")
    assert letor["ndcg@5"] == gainful.metric("ndcg@5", convention="letor4")(data.X[:, 0], data)
    assert list(gainful.evaluate("feature:bm25", data)) == ["ndcg@10", "ndcg@1", "ndcg@5", "map"]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("no-such-file", "no-such-file: there is no such file"),
        (5, "model of evaluate must be a trained ranker or estimator, scores"),
        (RegressionRanker(), "this RegressionRanker is not trained yet"),
        ([1.0, 2.0], "expected one score per row"),
    ],
)
def test_evaluate_refuses_what_has_no_scores(model, message, data):
    with pytest.raises((gainful.GainfulError, ValueError), match=message):
        gainful.evaluate(model, data)


def test_evaluate_needs_one_data_set(data, here):
    for name in ("train", "test"):
        gainful.write(data, f"{name}.txt")
    with pytest.raises(ParameterError, match="data of evaluate must be a RankingData"):
        gainful.evaluate("feature:1", ".")
