"""Features of text: encoded as categories, kept in model files, the same in predict, the server and exports."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import gainful
from gainful import DataError, FormatError, RankingData
from gainful.cli import run
from gainful.data.categories import check_categories, encode_words, join_categories, recode
from gainful.formats.convert import convert

BRANDS = ("acme", "bolt", "cog", "dyn")
NAMES = ["price", "brand", "age"]


def shop(n_queries=60, n_docs=10, seed=0, brands=BRANDS):
    """A frame whose grade depends on the brand, not in the order of its names."""
    rng = np.random.default_rng(seed)
    n = n_queries * n_docs
    brand = rng.choice(brands, n)
    worth = np.array([{"acme": 2.0, "bolt": 0.0, "cog": 1.5, "dyn": 0.3}.get(one, 0.0) for one in brand])
    price = rng.normal(size=n)
    grade = np.clip(np.round(worth + 0.3 * price + 0.2 * rng.normal(size=n)), 0, 3)
    return pd.DataFrame(
        {"qid": np.repeat(np.arange(n_queries), n_docs), "grade": grade, "price": price, "brand": brand,
         "age": rng.normal(size=n)}
    )  # fmt: skip


@pytest.fixture(scope="module")
def frame():
    return shop()


@pytest.fixture(scope="module")
def model(frame):
    return gainful.ranker("lambdamart", n_trees=20, n_leaves=5, n_jobs=1).fit(
        frame[NAMES], frame["grade"], qid=frame["qid"]
    )


# -- encoding ----------------------------------------------------------------------------------------------------------


def test_words_are_numbered_in_order():
    words, codes = encode_words(["b", "a", None, "unused"], np.array([0, 1, 1, 2, -1]))
    assert words == ("a", "b")
    np.testing.assert_array_equal(codes, [1, 0, 0, np.nan, np.nan])


def test_words_that_training_did_not_have_are_missing():
    X = np.array([[0.0, 7.0], [1.0, 8.0], [np.nan, 9.0], [2.0, 9.0]])
    found = recode(X, (("a", "b", "c"), None), (("b", "x", "a"), None), "X", None)
    np.testing.assert_array_equal(found[:, 0], [2, 0, np.nan, np.nan])
    assert X[0, 0] == 0.0
    assert recode(X, None, (("b",), None), "X", None) is X
    with pytest.raises(DataError, match="feature 'f' of X holds text, but held numbers in training; give numbers"):
        recode(X, (("a", "b", "c"), None), None, "X", ["f", "g"])
    with pytest.raises(DataError, match="feature 1 of X holds numbers, but held text in training; give text"):
        recode(X, (None, None), (("a",), None), "X", None)


def test_joined_categories():
    assert join_categories([None, None]) is None
    assert join_categories([(("b", "a"), None), (("c",), None)]) == (("a", "b", "c"), None)


@pytest.mark.parametrize("damaged", ["x", [["a"]], [["a", "a"], None], [[1], None], [{"a": 1}, None]])
def test_damaged_categories(damaged):
    with pytest.raises(ValueError, match="categories"):
        check_categories(damaged, 2)
    assert check_categories([None, None], 2) is None


def forms(frame):
    """The same rows in every kind of frame."""
    yield "pandas text", frame
    yield "pandas category", frame.assign(brand=frame["brand"].astype("category"))
    yield (
        "pandas other order",
        frame.assign(brand=pd.Categorical(frame["brand"], categories=["dyn", *BRANDS[:3], "new"])),
    )
    yield "polars text", pl.from_pandas(frame)
    yield "polars category", pl.from_pandas(frame).with_columns(pl.col("brand").cast(pl.Categorical))
    yield "polars enum", pl.from_pandas(frame).with_columns(pl.col("brand").cast(pl.Enum([*BRANDS, "new"])))
    table = pa.Table.from_pandas(frame, preserve_index=False)
    yield "arrow text", table
    yield "arrow dictionary", table.set_column(3, "brand", table.column("brand").dictionary_encode())


def test_every_kind_of_frame_gives_the_same(frame, model):
    expected = model.predict(frame[NAMES])
    data = gainful.from_frame(frame)
    assert data.categories == (None, BRANDS, None)
    for name, form in forms(frame):
        found = gainful.from_frame(form)
        own = tuple(word for word in ["dyn", *BRANDS] if word in BRANDS) if name == "pandas other order" else BRANDS
        assert found.categories == (None, tuple(dict.fromkeys(own)), None), name
        assert found.with_categories(data.categories).equals(data), name
        assert (
            model.predict(form.select(NAMES) if hasattr(form, "select") else form[NAMES]).tolist() == expected.tolist()
        )
        assert model.predict(found).tolist() == expected.tolist(), name


def test_selection_and_joining_keep_categories(frame):
    data = gainful.from_frame(frame)
    assert data[3:5].categories == data.categories
    first, second = gainful.from_frame(frame[frame["qid"] < 2]), gainful.from_frame(frame[frame["qid"] >= 2])
    some = first.with_categories((None, BRANDS[:2], None))
    assert np.isnan(some.X[:, 1]).any()
    assert RankingData.concatenate([first, second]).equals(data)


# -- rankers -----------------------------------------------------------------------------------------------------------


def test_trees_learn_from_text(frame, model):
    test = shop(seed=1)
    with_brand = model.score(test[NAMES], test["grade"], qid=test["qid"])
    numbers = ["price", "age"]
    without = gainful.ranker("lambdamart", n_trees=20, n_leaves=5, n_jobs=1)
    without.fit(frame[numbers], frame["grade"], qid=frame["qid"])
    assert with_brand > without.score(test[numbers], test["grade"], qid=test["qid"]) + 0.1
    text = model.booster_.model_to_string()
    assert "num_cat=0" not in text.split("Tree=0")[1][:100]


def sized(rng, n=1200):
    """Rows with a category of numbers, whose order is the frame's own, and an ordered one."""
    X = pd.DataFrame({
        "size": pd.Categorical(rng.choice([10, 2, 33, 4], n), categories=[33, 10, 5, 2, 4]),
        "level": pd.Categorical(rng.choice(["low", "mid", "high"], n), categories=["low", "mid", "high", "top"],
                                ordered=True),
        "x": rng.random(n),
    })  # fmt: skip
    y = X["size"].isin([10, 4]).to_numpy() * 1 + (X["level"] == "high") + (X["x"] > 0.7)
    return X, y.to_numpy().astype(int), np.repeat(np.arange(n // 20), 20)


def test_categories_of_pandas_are_lightgbms_bit_for_bit(rng, tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    X, y, qid = sized(rng)
    model = gainful.LambdaMART(n_trees=20, n_jobs=1).fit(X, y, qid=qid)
    theirs = lightgbm.LGBMRanker(n_estimators=20, n_jobs=1, verbose=-1).fit(X, y, group=np.full(len(y) // 20, 20))
    unseen = X.assign(
        size=pd.Categorical(X["size"].astype(int).replace(10, 99), categories=[99, 2, 4, 33]),
        level=pd.Categorical(X["level"].astype(str).replace("mid", "new"), ["new", "high", "low"], ordered=True),
    )
    gainful.save(model, tmp_path / "m.gainful")
    for one in (model, gainful.load(tmp_path / "m.gainful")):
        for frame in (X, unseen):
            np.testing.assert_array_equal(one.predict(frame), theirs.predict(frame))
        np.testing.assert_array_equal(one.predict(X.assign(size=X["size"].astype(float))), theirs.predict(X))
    data = gainful.from_frame(X.assign(qid=qid, grade=y))
    np.testing.assert_array_equal(gainful.LambdaMART(n_trees=20, n_jobs=1).fit(data).predict(data), theirs.predict(X))
    X.assign(qid=qid, grade=y).to_csv(tmp_path / "rows.csv", index=False)  # whose sizes are numbers
    np.testing.assert_array_equal(model.predict(gainful.read(tmp_path / "rows.csv")), theirs.predict(X))


@pytest.mark.parametrize("name", ["regression", "ranknet", "adarank-map", "rankboost", "coordinate-ascent"])
def test_rankers_without_categories_take_those_of_numbers_as_numbers(name, rng):
    X, y, qid = sized(rng, 400)
    plain = X.assign(size=X["size"].astype(float), level=X["level"].cat.codes)
    with pytest.warns(gainful.DataWarning, match=r"takes those of 'size' as the numbers they are; a tree") as told:
        model = gainful.ranker(name).fit(X, y, qid=qid, eval_set=(X, y, qid + 1000))
    assert len(told) == 1
    assert told[0].filename == __file__
    expected = gainful.ranker(name).fit(plain, y, qid=qid, eval_set=(plain, y, qid + 1000)).predict(plain)
    np.testing.assert_array_equal(model.predict(X), expected)
    with pytest.raises(DataError, match="feature 'size' of X holds categories, which RegressionRanker cannot use"):
        gainful.LambdaMART(n_trees=3, init="regression").fit(X, y, qid=qid)


def test_unseen_words_are_missing(frame, model):
    few = frame[NAMES].head(5)
    unseen = few.assign(brand="never seen")
    codes = np.column_stack([few["price"], np.full(5, np.nan), few["age"]])
    assert model.predict(unseen).tolist() == model.predict(codes).tolist()


def test_validation_data_has_its_own_words(frame):
    train, valid = frame[frame["qid"] < 40], shop(20, seed=5, brands=("bolt", "acme", "zeta"))
    ranker = gainful.ranker("lambdamart", n_trees=10, n_jobs=1)
    ranker.fit(train[NAMES], train["grade"], qid=train["qid"], eval_set=(valid[NAMES], valid["grade"], valid["qid"]))
    measured = gainful.metric("ndcg@10")(ranker.predict(valid[NAMES]), valid["grade"], qid=valid["qid"])
    assert ranker.training_["validation"]["best"] == pytest.approx(measured)


def test_numbers_in_place_of_text_and_the_reverse(frame, model):
    with pytest.raises(DataError, match="feature 'brand' of X holds numbers, but held text in training; give text"):
        model.predict(frame[NAMES].assign(brand=1.0))
    plain = gainful.ranker("lambdamart", n_trees=2, n_jobs=1)
    plain.fit(frame[NAMES].assign(brand=frame["age"] * 2), frame["grade"], qid=frame["qid"])
    with pytest.raises(DataError, match="feature 'brand' of X holds text, but held numbers in training; give numbers"):
        plain.predict(frame[NAMES])


@pytest.mark.parametrize("name", ["regression", "ranksvm", "rankboost", "coordinate-ascent", "listnet"])
def test_other_rankers_refuse_text(frame, name):
    told = "^feature 'brand' of X holds text, which .* cannot use; encode it as numbers, leave it out, or use a tree"
    with pytest.raises(DataError, match=told):
        gainful.ranker(name).fit(frame[NAMES], frame["grade"], qid=frame["qid"])


@pytest.mark.parametrize("name", ["mcrank", "gbrank", "tree-regression", "boosted", "shf-sdcg"])
def test_all_tree_rankers_take_text(frame, name):
    ranker = gainful.ranker(name, n_trees=3, n_jobs=1).fit(frame[NAMES], frame["grade"], qid=frame["qid"])
    assert ranker.categories_ == (None, BRANDS, None)
    assert np.isfinite(ranker.predict(frame[NAMES])).all()


def test_warm_start_needs_the_same_words(frame):
    ranker = gainful.ranker("lambdamart", n_trees=2, n_jobs=1).fit(gainful.from_frame(frame))
    ranker.set_params(warm_start=True, n_trees=4).fit(gainful.from_frame(frame))
    assert ranker.booster_.current_iteration() == 4
    with pytest.raises(DataError, match="X has other categories"):
        ranker.set_params(n_trees=6).fit(gainful.from_frame(shop(brands=("acme", "zeta"))))


# -- model files, the command line, the server, exports ----------------------------------------------------------------


def test_model_files_keep_the_words(frame, model, tmp_path):
    gainful.save(model, tmp_path / "m.gainful")
    loaded = gainful.load(tmp_path / "m.gainful")
    assert loaded.categories_ == (None, BRANDS, None)
    assert loaded.predict(frame[NAMES]).tolist() == model.predict(frame[NAMES]).tolist()
    with zipfile.ZipFile(tmp_path / "m.gainful") as file:
        assert json.loads(file.read("manifest.json"))["categories"] == [None, list(BRANDS), None]


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".arrow", ".tsv", ".jsonl"])
def test_files_and_the_command_line(frame, tmp_path, suffix, capsys):
    data = gainful.from_frame(frame)
    gainful.write(data, tmp_path / f"shop{suffix}")
    assert gainful.read(tmp_path / f"shop{suffix}").equals(data)
    shop_file, model_file = str(tmp_path / f"shop{suffix}"), str(tmp_path / "m.gainful")
    train = ["train", "lambdamart", shop_file, "-o", model_file, "--set", "n_trees=5", "--set", "n_jobs=1"]
    assert run(train) == 0, capsys.readouterr().err
    capsys.readouterr()
    few = frame.head(20).assign(brand=["new", *BRANDS] * 4, other=1.0)
    few.to_csv(tmp_path / "few.csv", index=False)
    assert run(["predict", model_file, str(tmp_path / "few.csv")]) == 0
    printed = [float(line) for line in capsys.readouterr().out.split()]
    assert printed == gainful.load(model_file).predict(few[NAMES]).tolist()
    assert run(["train", "regression", shop_file, "-o", model_file]) == 2
    assert "feature 'brand' of X holds text, which RegressionRanker cannot use" in capsys.readouterr().err


def test_conversion_warns_as_other_commands_do(frame, tmp_path, capsys):
    path = tmp_path / "a.csv"
    frame.drop(columns=["brand"]).assign(item_id=range(len(frame))).to_csv(path, index=False)
    assert run(["data", "convert", str(path), str(tmp_path / "a.gnf")]) == 0
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("warning: 1 column that looks like identifiers or row numbers is left out: item_id; to")


def test_a_folder_with_text_is_read_whole(frame, tmp_path, capsys):
    """Files in blocks cannot hold text, so trees are trained on all of them together."""
    days = tmp_path / "days"
    days.mkdir()
    for day, rows in frame.groupby(frame["qid"] % 2):
        rows.to_csv(days / f"{day}.csv", index=False)
    assert run(["train", "lambdamart", str(days), "-o", str(tmp_path / "m.gainful"), "--set", "n_trees=3"]) == 0
    model = gainful.load(tmp_path / "m.gainful")
    assert model.predict(days).tolist() == model.predict(gainful.read(days)).tolist()
    again = gainful.ranker("lambdamart", n_trees=3).fit(days)
    assert again.predict(days).tolist() == model.predict(days).tolist()
    capsys.readouterr()
    assert run(["train", "regression", str(days), "-o", str(tmp_path / "m.gainful")]) == 2
    assert "feature 'brand' of X holds text, which RegressionRanker cannot use" in capsys.readouterr().err


@pytest.mark.parametrize("suffix", [".txt", ".gnf"])
def test_formats_without_text_refuse_it(frame, tmp_path, suffix):
    with pytest.raises(FormatError, match=r"feature 'brand' holds text, which this format cannot; write .parquet"):
        gainful.write(gainful.from_frame(frame), tmp_path / f"a{suffix}")
    frame.to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(FormatError, match="column 'brand' holds text, which cannot be converted or read in blocks"):
        convert(tmp_path / "a.csv", tmp_path / f"a{suffix}")
    with pytest.raises(DataError, match="feature 'brand' holds text, which data in several blocks cannot"):
        gainful.open_shards([tmp_path / "a.csv"])


def test_a_number_that_is_mistyped_is_not_text(tmp_path):
    rows = [f"{i // 5},{i % 2},{i}.5" for i in range(50)]
    rows[20] = "4,0,1.5x"
    (tmp_path / "a.csv").write_text("qid,grade,a\n" + "\n".join(rows))
    with pytest.raises(FormatError, match=r"a.csv, line 22: column 'a' must be numeric, found '1.5x'"):
        gainful.read(tmp_path / "a.csv")


def test_pairs_are_explained(frame, model):
    cheap = {"price": 0.0, "brand": "acme", "age": 0.0}
    pair = gainful.explain_pair(model, cheap, {**cheap, "brand": "bolt"})
    assert pair.difference > 0
    rows = frame[NAMES].head(2)
    assert gainful.explain_pair(model, rows.iloc[0], rows.iloc[[1]]).score_a == pytest.approx(model.predict(rows)[0])
    with pytest.raises(DataError, match="feature 'brand' of a must be text, as in training, was 3"):
        gainful.explain_pair(model, {**cheap, "brand": 3}, cheap)
    assert {"acme", "bolt"} == {getattr(share, side) for share in pair.shares for side in ("value_a", "value_b")} & set(
        BRANDS
    )
    explained = gainful.explain(model, rows)[0]
    assert f"brand = {rows['brand'].iloc[0]}" in str(explained)


def test_the_server_takes_text(frame, model, tmp_path):
    testclient = pytest.importorskip("starlette.testclient")
    from gainful.serve import Settings, create_app

    gainful.save(model, tmp_path / "m.gainful")
    rows = frame[NAMES].head(3)
    scores = model.predict(rows).tolist()
    application = create_app(tmp_path / "m.gainful", Settings(watch=0.0))
    with testclient.TestClient(application, base_url="http://localhost") as client:
        by_place = client.post("/score", json={"rows": [list(row) for row in rows.itertuples(index=False)]})
        assert by_place.json()["scores"] == scores
        by_name = client.post("/score", json={"rows": rows.to_dict("records")})
        assert by_name.json()["scores"] == scores
        ranked = client.post("/rank", json={"documents": [{"features": row} for row in rows.to_dict("records")]})
        assert [one["score"] for one in ranked.json()["documents"]] == sorted(scores, reverse=True)
        queries = [{"documents": [{"features": rows.to_dict("records")[0]}]}]
        assert (
            client.post("/rank", json={"queries": queries}).json()["queries"][0]["documents"][0]["score"] == scores[0]
        )
        unseen = client.post("/score", json={"rows": [{"price": 0.5, "brand": "new", "age": 1}]})
        assert unseen.json()["scores"] == model.predict(np.array([[0.5, np.nan, 1]])).tolist()
        for wrong, told in (
            ({"price": 0.5, "brand": 3, "age": 1}, "feature 'brand' of rows[0] must be text, as in training, was 3"),
            ({"price": "0.5", "brand": "acme", "age": 1}, "must be a valid number, was '0.5'"),
        ):
            answer = client.post("/score", json={"rows": [wrong]})
            assert answer.status_code == 422
            assert told in answer.json()["error"]


def test_exports(frame, model, tmp_path):
    data = gainful.from_frame(frame)
    for to in ("onnx", "json"):
        done = gainful.export(model, tmp_path / f"m.{to}", to=to, check_on=data)
        assert any("brand: give the number of the word" in note for note in done.notes)
    assert json.loads((tmp_path / "m.json").read_text())["words"] == {"brand": list(BRANDS)}
    onnx = pytest.importorskip("onnx")
    props = {prop.key: prop.value for prop in onnx.load(tmp_path / "m.onnx").metadata_props}
    assert json.loads(props["categories"]) == {"brand": list(BRANDS)}
    for to in ("elasticsearch", "solr"):
        with pytest.raises(gainful.GainfulError, match="it has splits by category, the format only thresholds"):
            gainful.export(model, tmp_path / "m", to=to)


def test_numbers_written_as_text_are_pointed_out():
    frame = pd.DataFrame({"qid": [1] * 8, "grade": [0, 1] * 4, "price": ["1.5", "2", "3", "2"] * 2})
    with pytest.warns(gainful.DataWarning, match="column 'price' holds numbers written as text, and is read as a cat"):
        assert gainful.from_frame(frame).categories == (("1.5", "2", "3"),)
    declared = frame.assign(price=frame["price"].astype("category"))
    assert gainful.from_frame(declared).categories == (("1.5", "2", "3"),)


def test_blends_take_text_if_their_members_do(frame, tmp_path):
    small = "n_trees=5:n_leaves=4:n_jobs=1"
    blend = gainful.Blend([f"lambdamart:{small}", f"tree-regression:{small}"], folds=3, n_jobs=1)
    blend.fit(frame[NAMES], frame["grade"], qid=frame["qid"])
    gainful.save(blend, tmp_path / "b.gainful")
    few = frame[NAMES].head(6).assign(brand=["new", *BRANDS, "acme"])
    codes = np.column_stack([few["price"], [np.nan, 0, 1, 2, 3, 0], few["age"]])
    for one in (blend, gainful.load(tmp_path / "b.gainful")):
        assert one.predict(few).tolist() == blend.predict(codes).tolist()
    with pytest.raises(
        gainful.GainfulError, match="feature 'brand' of X holds text, which RegressionRanker cannot use"
    ):
        gainful.Blend(["regression", f"lambdamart:{small}"], folds=3, n_jobs=1).fit(
            frame[NAMES], frame["grade"], qid=frame["qid"]
        )
