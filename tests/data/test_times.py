"""Division by time: training has the past, testing the future."""

from __future__ import annotations

import datetime as dt
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import gainful
from gainful import DataError, FormatError, ParameterError, folds, make_artificial, split
from gainful.data.times import consecutive_parts

PLAIN = make_artificial(20, n_docs=3, n_features=2, seed=0)
TIMES = np.random.default_rng(1).permutation(20).astype(float)  # of the queries


def with_column(times=TIMES, data=PLAIN, names=("a", "day", "b")):
    """The data with a feature that holds the time of the query, between the others."""
    column = np.repeat(np.asarray(times, dtype=np.float64), data.counts)
    return data.replace(X=np.column_stack([data.X[:, 0], column, data.X[:, 1]]), feature_names=names)


def of_ids(data, times=TIMES):
    by_id = dict(zip(PLAIN.query_ids.tolist(), times, strict=True))
    return [by_id[query] for query in data.query_ids.tolist()]


@pytest.mark.parametrize("time", ["day", 2, "2"])
def test_the_earliest_are_trained_on_and_the_latest_tested(time):
    train, valid, test = split(with_column(), time=time)
    assert sorted(of_ids(train)) == list(range(12))
    assert sorted(of_ids(valid)) == list(range(12, 16))
    assert sorted(of_ids(test)) == list(range(16, 20))
    for part in (train, valid, test):
        assert part.feature_names == ("a", "b")  # the time is not a feature
        assert part.X.shape[1] == 2
        assert part.equals(PLAIN.select(part.query_ids).replace(feature_names=("a", "b")))


def test_times_may_be_given_beside_the_data():
    by_id = dict(zip(PLAIN.query_ids.tolist(), TIMES.tolist(), strict=True))
    days = [dt.date(2024, 1, 1) + dt.timedelta(days=int(day)) for day in TIMES]
    expected = [part.query_ids.tolist() for part in split(with_column(), time="day")]
    for time in (by_id, TIMES, TIMES.tolist(), days, np.array(days, dtype="datetime64[D]"), pd.Series(days)):
        assert [part.query_ids.tolist() for part in split(PLAIN, time=time)] == expected
    iso = dict(zip(PLAIN.query_ids.tolist(), map(str, days), strict=True))
    assert [part.query_ids.tolist() for part in split(PLAIN, time=iso)] == expected


def test_what_sizes_leave_out_is_the_earliest():
    train, test = split(with_column(), (5, 3), time="day")
    assert sorted(of_ids(train)) == list(range(12, 17))
    assert sorted(of_ids(test)) == list(range(17, 20))


def test_folds_roll_forward():
    made = folds(with_column(), 3, time="day")
    assert [sorted(of_ids(one.test)) for one in made] == [list(range(8, 12)), list(range(12, 16)), list(range(16, 20))]
    for one in made:
        assert max(of_ids(one.train)) < min(of_ids(one.valid))
        assert max(of_ids(one.valid)) < min(of_ids(one.test))
        assert min(of_ids(one.train)) == 0
        assert one.test.n_features == 2
    assert len(folds(with_column(), 1, time="day")) == 1


def test_sparse_data():
    dense, thin = with_column(), with_column()
    thin = thin.replace(X=sparse.csr_matrix(thin.X))
    for a, b in zip(split(dense, time="day"), split(thin, time="day"), strict=True):
        assert np.array_equal(a.X, b.X.toarray())


@given(st.lists(st.integers(0, 6), min_size=4, max_size=30), st.integers(2, 4))
def test_equal_times_stay_together(times, n_parts):
    times = np.array(times, dtype=np.float64)
    sizes = np.array([len(part) for part in np.array_split(times, n_parts)])
    if len(set(times)) < n_parts:
        with pytest.raises(DataError, match="different times, too few"):
            consecutive_parts(times, sizes)
        return
    parts = consecutive_parts(times, sizes)
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(times)))
    assert len(parts) == n_parts
    for before, after in pairwise(parts):
        assert times[before].max() < times[after].min()
        assert (np.diff(after) > 0).all()  # the order of the data


@pytest.mark.parametrize(
    ("data", "time", "message"),
    [
        (with_column(), "dya", "the data has no feature 'dya'; did you mean 'day'"),
        (with_column(), 4, "give a number from 1 to 3"),
        (PLAIN, "day", "it has 2 features, without names; give a number from 1 to 2"),
        (with_column(), "a", "feature 'a' is not a time of queries: it is .* in query 1; a query needs one time"),
        (with_column(np.where(TIMES == 3, np.nan, TIMES)), "day", "the time of query .* is missing"),
        (with_column(np.ones(20)), "day", "the queries have 1 different times, too few for 3 parts"),
        (PLAIN, {0: 1.0}, "query 1 has no time"),
        (PLAIN, [1.0, 2.0], r"time has shape \(2,\), but there are 20 queries"),
        (PLAIN, ["x"] * 20, "time of split must be the name or number of a feature"),
        (PLAIN, [np.nan] * 20, "the time of query 1 is missing"),
    ],
)
def test_what_is_not_a_time_is_refused(data, time, message):
    with pytest.raises((DataError, ParameterError), match=message):
        split(data, time=time)


def test_too_many_rolling_folds_are_refused():
    with pytest.raises(DataError, match="20 queries cannot make 19 folds by time, which need 21 parts"):
        folds(with_column(), 19, time="day")
    with pytest.raises(ParameterError, match="n_folds of folds must be an integer ≥ 1"):
        folds(with_column(), 0, time="day")


def test_the_only_feature_cannot_be_the_time():
    data = PLAIN.replace(X=np.repeat(TIMES, PLAIN.counts)[:, None])
    with pytest.raises(DataError, match="feature 1 is the only one; without it there is none to rank by"):
        split(data, time=1)


# -- dates in tables ---------------------------------------------------------------------------------------------------

DAYS = pd.Timestamp("2024-03-01") + pd.to_timedelta(np.repeat(TIMES, PLAIN.counts), unit="D")
SECONDS = (pd.DatetimeIndex(DAYS) - pd.Timestamp(0)) // pd.Timedelta("1s")


def table(days):
    return pd.DataFrame({"qid": PLAIN.qid, "grade": PLAIN.y, "a": PLAIN.X[:, 0], "day": days, "b": PLAIN.X[:, 1]})


@pytest.mark.parametrize(
    "days",
    [DAYS, DAYS.date, DAYS.strftime("%Y-%m-%d"), DAYS.strftime("%Y-%m-%dT%H:%M:%SZ"), DAYS.tz_localize("UTC")],
    ids=["timestamp", "date", "text", "text with zone", "zone"],
)
def test_dates_are_seconds_if_asked_for(days, tmp_path):
    frame = table(days)
    data = gainful.from_frame(frame, times=["day"])
    assert data.X[:, 1].tolist() == SECONDS.tolist()
    assert data.categories is None
    for name in ("t.csv", "t.parquet", "t.arrow", "t.jsonl"):
        path = tmp_path / name
        if name.endswith("csv"):
            frame.to_csv(path, index=False)
        elif name.endswith("parquet"):
            frame.to_parquet(path)
        elif name.endswith("arrow"):
            frame.to_feather(path)
        else:
            frame.assign(day=frame["day"].astype(str)).to_json(path, orient="records", lines=True)
        data = gainful.read(path, times=["day"])
        assert data.X[:, data.feature_names.index("day")].tolist() == SECONDS.tolist(), name
    for source in (frame, pa.Table.from_pandas(frame), tmp_path / "t.parquet", str(tmp_path / "t.c*v")):
        found = gainful.compare("feature:a", source, time="day")
        assert sorted(of_ids(PLAIN.select(found.query_ids))) == list(range(16, 20))
        assert found.data["features"] == 2


def test_numbers_stay_numbers_and_other_features_may_be_named(tmp_path):
    frame = table(np.repeat(TIMES, PLAIN.counts))
    frame.to_csv(tmp_path / "t.csv", index=False)
    data = gainful.read(tmp_path / "t.csv", features=["b"], times=["day"])
    assert data.feature_names == ("b", "day")
    assert data.X[:, 1].tolist() == np.repeat(TIMES, PLAIN.counts).tolist()


def test_dates_are_converted_in_bounded_memory_too(tmp_path):
    from gainful.formats.convert import convert

    table(DAYS.strftime("%Y-%m-%d")).to_csv(tmp_path / "t.csv", index=False)
    convert(tmp_path / "t.csv", tmp_path / "t.gnf", read_options={"times": ["day"]})
    assert gainful.read(tmp_path / "t.gnf").X[:, 1].tolist() == SECONDS.tolist()


def test_columns_of_times_are_checked(tmp_path):
    with pytest.raises(ParameterError, match="there is no column \\(times\\) 'dya'; did you mean 'day'"):
        gainful.from_frame(table(DAYS), times=["dya"])
    with pytest.raises(ParameterError, match="times of a table must be a list of column names, was 'day'"):
        gainful.from_frame(table(DAYS), times="day")
    with pytest.raises(DataError, match="column 'day' must hold numbers or dates such as 2024-12-31"):
        gainful.from_frame(table("yesterday"), times=["day"])
    with pytest.raises(DataError, match="column 'grade' cannot be a feature"):
        gainful.from_frame(table(DAYS), times=["grade"])
    path = tmp_path / "t.csv"
    table("yesterday").to_csv(path, index=False)
    with pytest.raises(FormatError, match=r"t\.csv: column 'day' must hold numbers or dates"):
        gainful.read(path, times=["day"])
    with pytest.raises(DataError, match=r"feature 'day' holds text, which has no order in time; .*times=\['day'\]"):
        split(gainful.from_frame(table(["monday", "tuesday", "monday"] * 20)), time="day")


# -- comparisons -------------------------------------------------------------------------------------------------------


def test_compare_divides_by_time(tmp_path):
    data = make_artificial(40, n_docs=5, n_features=4, seed=2)
    when = np.random.default_rng(0).permutation(40)
    dated = data.replace(X=np.column_stack([np.repeat(when, data.counts), data.X]))
    train, valid, test = split(dated, time=1)
    found = gainful.compare("regression", dated, time=1, metrics="ndcg@10")
    by_hand = gainful.RegressionRanker().fit(train, eval_set=valid).predict(test)
    assert np.array_equal(found.per_query("regression", "ndcg@10"), gainful.metric("ndcg@10").per_query(by_hand, test))
    assert "trained on 24 queries, validated on 8; divided by time." in found.table()
    assert found.protocol["division"] == "one split by time"
    assert found.protocol["time"] == 1
    rolling = gainful.compare("regression", data, time=when, folds=2, metrics="ndcg@10")
    assert rolling.query_ids.tolist() == [q for one in folds(data, 2, time=when) for q in one.test.query_ids.tolist()]
    # scores belong to the rows of the whole data, whatever is tested
    (tmp_path / "s.txt").write_text("".join(f"{one!r}\n" for one in dated.X[:, 2].tolist()))
    by_file = gainful.compare(f"scores:{tmp_path / 's.txt'}", dated, time=1, metrics="ndcg@10")
    label = by_file.labels[0]
    assert by_file.mean(label, "ndcg@10") == pytest.approx(gainful.metric("ndcg@10")(test.X[:, 1], test))


def test_divided_data_has_no_time(parts):
    with pytest.raises(ParameterError, match="the data is already divided; leave out time"):
        gainful.compare("regression", parts[0], test=parts[2], time=1)
    with pytest.raises(ParameterError, match="the data is already divided; leave out time"):
        gainful.compare("regression", gainful.Split(*parts), time=1)
