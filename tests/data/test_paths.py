"""Paths in the place of data: one file, a folder or a list of files, wherever data are taken."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import gainful
from gainful.errors import DataError, FormatError, ParameterError


@pytest.fixture(scope="module")
def data():
    return gainful.make_artificial(40, n_docs=12, n_features=6, seed=5)


@pytest.fixture(scope="module")
def home(data, tmp_path_factory):
    made = tmp_path_factory.mktemp("home")
    gainful.write(data[:30], made / "train.gnf")
    gainful.write(data[:30], made / "train.txt")
    gainful.write(data[30:], made / "valid.gnf")
    (made / "shards").mkdir()
    gainful.write(data[:11], made / "shards" / "a.gnf")
    gainful.write(data[11:30], made / "shards" / "b.gnf")
    return made


def listed(home):
    return [str(home / "shards" / "a.gnf"), home / "shards" / "b.gnf"]


ONE_FILE = {
    "rankmm, stochastic": lambda: gainful.RankMM(solver="stochastic", n_steps=50),
    "learned weights": lambda: gainful.StructuredSVM(position_weights="learn"),
    "cutting planes": lambda: gainful.StructuredSVM(solver="cutting_plane", tol=0.05),
    "adarank": lambda: gainful.ranker("adarank-ndcg", n_rounds=5),
    "net": lambda: gainful.ranker("lambdarank-net", epochs=2),
    "trees": lambda: gainful.ranker("lambdamart", n_trees=3, min_docs_in_leaf=5),
    "linear": lambda: gainful.RankSVM(),
}


@pytest.mark.parametrize("name", ["train.gnf", "train.txt"])
@pytest.mark.parametrize("case", ONE_FILE)
def test_one_file(case, name, data, home):
    alone = case == "learned weights"  # which then holds out queries of its own
    from_path = ONE_FILE[case]().fit(home / name, eval_set=None if alone else str(home / "valid.gnf"))
    whole = ONE_FILE[case]().fit(data[:30], eval_set=None if alone else data[30:])
    np.testing.assert_allclose(from_path.predict(data), whole.predict(data), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("what", ["one", "folder", "list", "tuple", "opened"])
@pytest.mark.filterwarnings("ignore:.*validation queries are also training queries:gainful.DataWarning")
def test_what_is_done_with_a_model(what, data, home):
    model = gainful.RankSVM().fit(data[:30])
    given = {
        "one": home / "train.gnf",
        "folder": str(home / "shards"),
        "list": listed(home),
        "tuple": tuple(listed(home)),
        "opened": gainful.open_shards(home / "shards"),
    }[what]
    np.testing.assert_allclose(model.predict(given), model.predict(data[:30]), rtol=1e-12)
    np.testing.assert_array_equal(model.rank(given), model.rank(data[:30]))
    assert model.score(given) == pytest.approx(model.score(data[:30]), abs=1e-12)
    fitted = gainful.RankSVM().fit(given, eval_set=given)
    np.testing.assert_allclose(fitted.coef_, model.coef_, rtol=1e-6)
    if what == "one":
        np.testing.assert_array_equal(model.contributions(given), model.contributions(data[:30]))
    else:
        with pytest.raises(DataError, match="one block at a time"):
            model.contributions(given)


def test_mistakes(data, home, tmp_path):
    model = gainful.RankSVM().fit(data[:30])
    for call in (model.fit, model.predict, model.score, model.rank):
        with pytest.raises(FormatError, match=r"nope\.gnf: there is no such file"):
            call(tmp_path / "nope.gnf")
        with pytest.raises(FormatError, match=r"nope\.gnf: there is no such file"):
            call([str(tmp_path / "nope.gnf")])
    with pytest.raises(FormatError, match=r"nope\.txt: there is no such file"):
        gainful.open_shards(["nope.txt"])
    with pytest.raises(FormatError, match="is a folder"):
        gainful.open_shards([tmp_path])
    for given in (home / "train.gnf", home / "shards"):
        with pytest.raises(ParameterError, match="brings its own"):
            model.fit(given, data[:30].y)
        with pytest.raises(ParameterError, match="brings its own qid"):
            model.rank(given, qid=data[:30].qid)
    with pytest.raises(DataError, match="needs its data in one piece, but it has 2 blocks"):
        gainful.ranker("rankboost").fit(listed(home))


# -- weights -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["gnf", "txt", "parquet"])
def test_a_shard_may_weigh_nothing(suffix, data, tmp_path):
    weights = np.where(np.arange(40) < 15, 0.0, 1.0 + np.arange(40) % 3)
    weighted = data.replace(query_weights=weights)
    for name, part in {"a": weighted[:15], "b": weighted[15:]}.items():
        gainful.write(part, tmp_path / f"{name}.{suffix}")
    found = gainful.RankSVM().fit(tmp_path)
    np.testing.assert_allclose(found.coef_, gainful.RankSVM().fit(weighted).coef_, rtol=1e-6)
    (tmp_path / f"b.{suffix}").unlink()
    with pytest.raises(DataError, match="all queries have weight 0"):
        gainful.open_shards(tmp_path)
    with pytest.raises(DataError, match="all queries of X have weight 0"):
        gainful.RankSVM().fit(tmp_path / f"a.{suffix}")


def test_conversion_into_shards_that_weigh_nothing(data, tmp_path):
    from gainful.formats.convert import convert

    weighted = data.replace(query_weights=np.where(np.arange(40) < 15, 0.0, 2.0))
    gainful.write(weighted, tmp_path / "all.gnf")
    convert(tmp_path / "all.gnf", tmp_path / "shards", shard_rows=60)
    opened = gainful.open_shards(tmp_path / "shards")
    np.testing.assert_array_equal(opened.query_weights, weighted.query_weights)
    for name in ("none.gnf", "none.txt", "none.parquet"):  # any of these may be a shard that is converted by itself
        gainful.write(data[:3].replace(query_weights=np.zeros(3)), tmp_path / name)
        for other in ("other.gnf", "other.parquet"):
            convert(tmp_path / name, tmp_path / other)
            assert gainful.read(tmp_path / other).query_weights.tolist() == [0.0] * 3


# -- many files --------------------------------------------------------------------------------------------------------

MANY = """
import resource, sys
soft, hard = int(sys.argv[2]), int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
import gainful
try:
    print(gainful.open_shards(sys.argv[1]).n_blocks)
except gainful.DataError as error:
    print(error)
"""


@pytest.fixture(scope="module")
def many(data, tmp_path_factory):
    made = tmp_path_factory.mktemp("many")
    for q in range(40):
        for copy in range(5):
            gainful.write(data[q : q + 1].replace(query_ids=np.array([q * 5 + copy])), made / f"{q}-{copy}.gnf")
    return made


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such limit")
@pytest.mark.parametrize(("soft", "hard", "told"), [(150, 2000, "200"), (150, 160, "allows 160 per process; gainful")])
def test_more_files_than_a_process_may_open(many, soft, hard, told):
    done = subprocess.run(
        [sys.executable, "-c", MANY, str(many), str(soft), str(hard)], capture_output=True, text=True, timeout=100
    )
    assert told in done.stdout, done.stderr


def test_shards_stand_in_the_order_of_their_numbers(data, tmp_path):
    from gainful.formats.convert import _shard_name
    from gainful.formats.shards import shard_files

    numbers = [0, 9, 99998, 99999, 100000, 100001, 1000000]
    for q, number in enumerate(numbers):
        gainful.write(data[q : q + 1], tmp_path / _shard_name(number, ".gnf"))
    names = [file.name for file in shard_files(tmp_path)]
    assert names == [_shard_name(number, ".gnf") for number in numbers]
    assert gainful.open_shards(tmp_path).query_ids.tolist() == data[:7].query_ids.tolist()


def test_ids_that_shards_cannot_hold(data, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    from gainful.formats.convert import convert

    pq.write_table(pa.table({"qid": [1.5, 1.5, 2.5], "grade": [0, 1, 2], "a": [1.0, 2.0, 3.0]}), tmp_path / "f.parquet")
    for to in ("binary", "parquet"):
        with pytest.raises(FormatError) as caught:
            convert(tmp_path / "f.parquet", tmp_path / "new", shard_rows=2, to=to)
        assert ".gainful-" not in str(caught.value)
        assert str(caught.value).startswith(f"{tmp_path / 'new'}: files hold integers or strings as query ids, not")
    assert [path.name for path in tmp_path.iterdir()] == ["f.parquet"]
