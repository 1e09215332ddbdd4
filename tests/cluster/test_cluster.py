"""A cluster of two worker processes gives the same models as memory, from any source and even if a worker dies."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import threading
import time
from collections import Counter
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import gainful
from gainful.cluster import DaskBlocks, close_clients
from gainful.cluster import shards as cluster_shards
from gainful.cluster.collections import ShuffledWarning
from gainful.compute.threads import thread_count
from gainful.data.blocks import PerBlock
from gainful.debiasing.regression_em import learn_propensities
from gainful.errors import ClusterError, DataError, ParameterError
from gainful.linear.blockwise import linear_risk
from linear_rankers import LINEAR

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")
key_split = pytest.importorskip("dask.utils").key_split

pytestmark = pytest.mark.cluster

NAMES = [f"f{i}" for i in range(8)]


@pytest.fixture(scope="module")
def data():
    made = gainful.make_artificial(40, n_docs=15, n_features=8, seed=3)
    return made.replace(query_weights=np.random.default_rng(0).uniform(0.5, 2.0, made.n_queries))


@pytest.fixture(scope="module")
def folder(data, tmp_path_factory):
    made = tmp_path_factory.mktemp("shards")
    for i, (a, b) in enumerate(((0, 7), (7, 24), (24, 25), (25, 40))):
        gainful.write(data[a:b], made / f"part-{i}.gnf")
    return made


@pytest.fixture(scope="module")
def shards(folder, client):
    return gainful.open_shards(folder, cluster=client)


def arrays(data, rows=170, order=None):
    """X, y, qid and weights in chunks that neither agree nor end where a query does."""
    order = np.arange(data.n_rows) if order is None else order
    columns = (np.asarray(data.y), data.qid, data.row_weights)
    made = [da.from_array(column[order], chunks=rows + 20 * i) for i, column in enumerate(columns)]
    return da.from_array(np.asarray(data.X)[order], chunks=(rows, 3)), *made


def table(data, order=None):
    frame = pd.DataFrame(np.asarray(data.X), columns=NAMES)
    frame = frame.assign(grade=data.y, query=data.qid, weight=data.row_weights)
    return frame if order is None else frame.iloc[order].reset_index(drop=True)


def assert_same(found, whole):
    np.testing.assert_allclose(found.coef_, whole.coef_, rtol=1e-6, atol=1e-6 * np.abs(whole.coef_).max())
    assert found.n_iter_ == whole.n_iter_


# -- the same models ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LINEAR)
def test_the_cluster_gives_the_weights_of_memory(name, data, shards):
    settings = LINEAR[name] | ({"C": 1.0, "tol": 0.05} if name.startswith("structured") else {})
    whole = gainful.ranker(name, **settings).fit(data)
    found = gainful.ranker(name, **settings).fit(shards)
    assert_same(found, whole)
    assert found.training_ == whole.training_


@pytest.mark.parametrize("name", ["ranksvm", "listnet"])
def test_dask_arrays_give_the_weights_of_memory(name, data, client):
    X, y, qid, weight = arrays(data)
    found = gainful.ranker(name).fit(X, y, qid=qid, sample_weight=weight)
    assert_same(found, gainful.ranker(name).fit(data))
    assert found.training_["queries"] == data.n_queries


@pytest.mark.parametrize("name", ["regression", "ranknet"])
def test_weights_of_documents_travel(name, data, client):
    weights = np.random.default_rng(4).uniform(0.2, 3.0, data.n_rows)
    weighted = gainful.RankingData.from_rows(data.X, data.y, data.qid, sample_weight=weights)
    X, y, qid, weight = arrays(weighted)
    found = gainful.ranker(name).fit(X, y, qid=qid, sample_weight=weight)
    assert found.training_["weighted_documents"]
    assert_same(found, gainful.ranker(name).fit(weighted))
    plain = gainful.ranker(name).fit(weighted.replace(document_weights=None))  # the weights of the queries alone
    assert not np.allclose(found.coef_, plain.coef_, rtol=1e-3)


def test_clicks_travel(data, client, monkeypatch):
    monkeypatch.setattr("gainful.debiasing.debias.learn_propensities", partial(learn_propensities, max_iter=4))
    shown = np.tile(np.arange(1, 16), data.n_queries)
    clicked = data.replace(y=(data.y > 2) * 1.0, query_weights=None, positions=shown, propensities=1.0 / shown)
    X, y, qid, _ = arrays(clicked.replace(query_weights=np.ones(data.n_queries)))
    columns = {"position": da.from_array(shown, chunks=190), "propensity": da.from_array(1.0 / shown, chunks=190)}
    whole = gainful.ranker("ranknet").fit(clicked, debias="em")
    found = gainful.ranker("ranknet").fit(X, y, qid=qid, **columns, debias="em")
    np.testing.assert_allclose(found.coef_, whole.coef_, rtol=1e-3, atol=1e-3 * np.abs(whole.coef_).max())
    assert found.propensities_ == pytest.approx(whole.propensities_, abs=1e-4)
    frame = table(clicked.replace(query_weights=np.ones(data.n_queries))).drop(columns="weight")
    frame = dd.from_pandas(frame.assign(examined=1.0 / shown), npartitions=1)
    found = gainful.ranker("regression").fit(frame, "grade", qid="query", propensity="examined")
    assert_same(found, gainful.ranker("regression").fit(clicked))


@pytest.mark.parametrize("name", ["regression", "rankmm-2"])
def test_dask_frames_give_the_weights_of_memory(name, data, client):
    frame = dd.from_pandas(table(data, np.random.default_rng(1).permutation(data.n_rows)), npartitions=3)
    with pytest.warns(ShuffledWarning, match="40 queries have rows in several partitions of X"):
        found = gainful.ranker(name).fit(frame, "grade", qid="query", sample_weight="weight")
    whole = gainful.ranker(name).fit(data)
    np.testing.assert_allclose(found.coef_, whole.coef_, rtol=1e-6, atol=1e-6 * np.abs(whole.coef_).max())
    assert found.feature_names_in_.tolist() == NAMES
    wider = frame.assign(title="x")[["weight", "title", *NAMES[::-1]]]  # the columns are found by name
    np.testing.assert_allclose(found.predict(wider).compute(), found.predict(frame[NAMES]).compute())
    with pytest.raises(DataError, match=r"X has no features 'f0', 'f3', which \w+ was trained with"):
        found.predict(frame[["f1", "f2", *NAMES[4:]]])


@pytest.mark.filterwarnings("ignore:.*validation queries are also training queries:gainful.DataWarning")
def test_a_frame_with_whole_queries_is_not_moved_and_validates(data, client):
    parts = [table(data[a:b]) for a, b in ((0, 11), (11, 40))]
    frame = dd.concat([dd.from_pandas(part, npartitions=1) for part in (parts[0], parts[0][:0], parts[1])])
    model = gainful.RankSVM()
    model.fit(frame[NAMES], frame["grade"], qid=frame["query"], sample_weight=frame["weight"],
              eval_set=(frame[NAMES], frame["grade"], frame["query"]))  # fmt: skip
    whole = gainful.RankSVM().fit(data, eval_set=data.replace(query_weights=None))
    assert_same(model, whole)
    assert model.history_[-1]["validation"] == pytest.approx(whole.history_[-1]["validation"], abs=1e-9)


def test_sparse_shards_and_read_ones(data, client, tmp_path):
    thin = data.replace(X=sparse.csr_matrix(np.where(data.X > 0.3, data.X, 0.0)))
    for kind, whole in (("gnf", thin), ("parquet", data)):
        (tmp_path / kind).mkdir()
        gainful.write(whole[:25], tmp_path / kind / f"a.{kind}")
        gainful.write(whole[25:], tmp_path / kind / f"b.{kind}")
        found = gainful.RankSVM().fit(gainful.open_shards(tmp_path / kind, cluster=client))
        assert_same(found, gainful.RankSVM().fit(whole))


def test_one_long_file_is_cut_and_spread(data, client, cluster, tmp_path, monkeypatch):
    gainful.write(data, tmp_path / "one.gnf")
    assert gainful.open_shards(tmp_path / "one.gnf", cluster=cluster).n_blocks == 1
    monkeypatch.setattr(cluster_shards, "ROWS_OF_ROOT", 12)  # √600 / 12 ≈ 2
    shards = gainful.open_shards(tmp_path / "one.gnf", cluster=cluster.scheduler_address)
    assert [len(one.query_ids) for one in shards.facts] == [20, 20]
    places = shards.source.client.who_has(list(shards.source.data.parts))
    assert len({worker for where in places.values() for worker in where}) == 2
    assert gainful.RankingData.concatenate(list(shards.blocks())).equals(data)
    assert_same(gainful.RankSVM().fit(shards), gainful.RankSVM().fit(data))


def test_connections_by_address_can_be_closed(client, cluster, folder):
    first, again = (gainful.open_shards(folder, cluster=cluster.scheduler_address).source.client for _ in range(2))
    assert first is again
    close_clients()
    assert first.status == "closed"
    assert client.status == "running"  # not opened here
    assert gainful.open_shards(folder, cluster=cluster.scheduler_address).source.client.status == "running"
    close_clients()
    close_clients()  # nothing is open


@pytest.mark.parametrize(("rows", "count"), [(1, 1), (1e4, 1), (1e6, 8), (1e7, 32), (1e8, 64), (1e9, 256)])
def test_blocks_grow_with_the_data_in_number_and_length(rows, count):
    assert cluster_shards.block_count(rows) == count


def test_without_a_worker_blocks_wait_for_any():
    assert cluster_shards.spread(SimpleNamespace(nthreads=dict), [1.0, 2.0]) == [None, None]
    two = SimpleNamespace(nthreads=lambda: {"a": 1, "b": 1})
    assert cluster_shards.spread(two, [2.0, 1.0, 1.0]) == ["a", "b", "b"]


@pytest.mark.parametrize("kind", ["folder", "file", "list"])
def test_relative_paths_are_meant_from_here(kind, data, folder, client, monkeypatch):
    """Workers run in another folder."""
    assert str(folder) not in set(client.run(os.getcwd).values())
    monkeypatch.chdir(folder)
    names = sorted(os.listdir("."))
    path = {"folder": ".", "file": names[0], "list": names}[kind]
    found = gainful.open_shards(path, cluster=client)
    assert found.n_rows == (data[:7] if kind == "file" else data).n_rows


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:.*validation queries are also training queries:gainful.DataWarning")
def test_small_integers_are_numbers_to_linear_rankers(data, client):
    codes = data.replace(X=(40 * np.asarray(data.X) + 120).clip(0, 255).astype(np.uint8))
    X, y, qid, weight = arrays(codes)
    whole = gainful.ranker("ranknet", max_iter=3).fit(codes, eval_set=codes.replace(query_weights=None))
    found = gainful.ranker("ranknet", max_iter=3).fit(X, y, qid=qid, sample_weight=weight, eval_set=(X, y, qid))
    assert_same(found, whole)
    assert found.score(X, y, weight, qid=qid) == pytest.approx(whole.score(codes), abs=1e-9)


def test_arrays_of_unknown_lengths_learn_them(data, client):
    """Chunks of a frame's array do not know their lengths, and these end within queries."""
    frame = dd.from_pandas(table(data), npartitions=7)
    X, y, qid = (frame[name].to_dask_array() for name in (NAMES, "grade", "query"))
    found = gainful.RegressionRanker().fit(X, y, qid=qid)
    assert_same(found, gainful.RegressionRanker().fit(data.replace(query_weights=None)))


def test_a_column_that_one_partition_lacks(data, client):
    whole = table(data)
    parts = [whole[:300], whole[300:].drop(columns=NAMES[0])]
    frame = dd.from_map(lambda i: parts[i], [0, 1], meta=whole[:0], enforce_metadata=False)
    with pytest.raises(DataError, match=rf"partition 1 of X has no column '{NAMES[0]}', which other partitions have"):
        gainful.RegressionRanker().fit(frame, "grade", qid="query")


@pytest.mark.filterwarnings("ignore::gainful.cluster.collections.ShuffledWarning")
def test_series_beside_a_frame_go_row_by_row(data, client):
    """Whatever their index, as in memory; where partitions differ, the index decides or a line says what to do."""
    whole = gainful.RegressionRanker().fit(data.replace(query_weights=None))
    cuts = ((0, 11), (11, 25), (25, 40))
    parts = [table(data[a:b]) for a, b in cuts]  # every one counts its rows from 0
    frame, y, qid = (
        dd.concat([dd.from_pandas(part[name], npartitions=1) for part in parts]) for name in (NAMES, "grade", "query")
    )
    assert_same(gainful.RegressionRanker().fit(frame, y, qid=qid), whole)
    known = [dd.from_pandas(table(data)[name], npartitions=n) for name, n in ((NAMES, 1), ("grade", 3), ("query", 2))]
    assert_same(gainful.RegressionRanker().fit(known[0], known[1], qid=known[2]), whole)
    with pytest.raises(DataError, match="y has 2 partitions, X has 3; cut them alike, or put them into one frame"):
        gainful.RegressionRanker().fit(frame, y.partitions[:2], qid=qid)
    short = dd.concat([y.partitions[0], y.partitions[0], y.partitions[2]])
    with pytest.raises(DataError, match="y has 165 values in a partition where X has 210 rows; cut them alike"):
        gainful.RegressionRanker().fit(frame, short, qid=qid)
    doubled = dd.from_pandas(table(data)["grade"].set_axis(np.arange(600) // 2), npartitions=2)
    with pytest.raises(DataError, match=r"cannot be joined to X by their index: .*give the names of the columns"):
        gainful.RegressionRanker().fit(known[0], doubled, qid=known[2])


# -- prediction --------------------------------------------------------------------------------------------------------


def test_prediction_and_score(data, shards, client):
    model = gainful.RegressionRanker().fit(data)
    want = model.predict(data)
    X, y, qid, weight = arrays(data)
    lazy = model.predict(X)
    assert lazy.chunks == X.chunks[:1]
    np.testing.assert_allclose(lazy.compute(), want, rtol=1e-12)
    frame = dd.from_pandas(table(data), npartitions=3)
    named = gainful.RegressionRanker().fit(table(data)[NAMES], data.y, qid=data.qid, sample_weight=data.row_weights)
    np.testing.assert_allclose(named.predict(frame[NAMES]).compute(), want, rtol=1e-12)
    np.testing.assert_allclose(named.predict(frame[NAMES[1:] + NAMES[:1]]).compute(), want, rtol=1e-12)
    with pytest.raises(DataError, match=f"X has no feature '{NAMES[0]}', which"):
        named.predict(frame[NAMES[1:]])
    np.testing.assert_allclose(model.predict(shards), want, rtol=1e-12)
    assert model.score(shards) == pytest.approx(model.score(data), abs=1e-12)
    assert model.score(X, y, weight, qid=qid) == pytest.approx(model.score(data), abs=1e-12)
    for given in ({"y": data.y}, {"qid": data.qid}, {"sample_weight": data.row_weights}):
        with pytest.raises(ParameterError, match="X is a ShardedData, which brings its own y, qid and weights"):
            model.score(shards, **given)


@pytest.mark.parametrize("name", ["map", "ndcg@5", "err@10"])
def test_metrics_of_scores_of_all_rows(name, data, shards):
    grades = gainful.metric(name, **({"max_grade": 4} if name.startswith("err") else {}))
    scores = gainful.RegressionRanker().fit(data).predict(shards)
    assert grades(scores, shards) == pytest.approx(grades(scores, data), abs=1e-12)
    np.testing.assert_allclose(grades.per_query(scores, shards), grades.per_query(scores, data), rtol=1e-12)
    with pytest.raises(DataError, match=r"scores must have one entry per row \(600\), had shape \(599,\)"):
        grades(scores[1:], shards)
    with pytest.raises(DataError, match="qid is given twice"):
        grades(scores, shards, qid=data.qid)


def test_nothing_is_collected_without_being_asked(data, client):
    model = gainful.RegressionRanker().fit(data)
    X, y, qid, _ = arrays(data)
    for what, call in {
        "X is a Dask Array": lambda: model.rank(X, qid=qid),
        "X is a Dask Array,": lambda: model.contributions(X),
        "X is a Dask DataFrame": lambda: gainful.RankingData.from_rows(
            dd.from_pandas(table(data)[NAMES], npartitions=2), data.y, data.qid
        ),
        "y is a Dask Array": lambda: gainful.RankSVM().fit(data.X, y, qid=data.qid),
        "qid is a Dask Array": lambda: model.score(data.X, data.y, qid=qid),
    }.items():
        with pytest.raises(DataError, match=rf"{what}.* does not compute by itself; call compute\(\) on it"):
            call()


# -- refusals ----------------------------------------------------------------------------------------------------------


def test_preferences_are_refused(data, folder, client, tmp_path):
    (tmp_path / "pairs.csv").write_text("query,better,worse\n1,1,2\n")
    with pytest.raises(ParameterError, match="a cluster cannot use a file of preferences; leave out pairs="):
        gainful.open_shards(folder, cluster=client, pairs=tmp_path / "pairs.csv")
    X, _, qid, _ = arrays(data)
    with pytest.raises(ParameterError, match="whose rows have no numbers; pairs cannot name them"):
        gainful.RankSVM().fit(X, pairs=[(0, 1)], qid=qid)


def test_arrays_that_split_queries_for_good_are_refused(data, client):
    X, y, qid, _ = arrays(data, order=np.random.default_rng(1).permutation(data.n_rows))
    with pytest.raises(DataError, match=r"rows in chunks \d and \d of X; .*sort the rows by qid, or give a Dask fr"):
        gainful.RankSVM().fit(X, y, qid=qid)


def test_what_is_missing_or_does_not_fit(data, client, folder, tmp_path):
    X, y, qid, _ = arrays(data)
    frame = dd.from_pandas(table(data).assign(colour="red"), npartitions=2)
    bad = da.where(da.arange(data.n_rows, chunks=y.chunks) == 200, np.nan, y)
    unknown, unknown_qid = (
        dd.from_pandas(table(data)[name], npartitions=4).to_dask_array() for name in (NAMES, "query")
    )
    for message, call in {
        "y is missing": lambda: gainful.RankSVM().fit(X, qid=qid),
        "qid is missing": lambda: gainful.RankSVM().fit(X, y),
        "y has 599 values for 600 rows": lambda: gainful.RankSVM().fit(X, y[:-1], qid=qid),
        "X has no column 'grades'": lambda: gainful.RankSVM().fit(frame, "grades", qid="query"),
        "column 'colour' of X must be numeric": lambda: gainful.RankSVM().fit(frame, "grade", qid="query"),
        "chunk 1 of X: grade of row 30 must be finite": lambda: gainful.RankSVM().fit(X, bad, qid=qid),
        r"call X\.compute_chunk_sizes\(\) first": lambda: gainful.RankSVM().fit(unknown, data.y, qid=qid),
        r"y has (90|330) values for 150 rows; call compute_chunk_sizes": lambda: gainful.RankSVM().fit(
            unknown, da.concatenate([y[:90], y[:90], y[:90], y[:330]]).rechunk(((90, 90, 90, 330),)), qid=unknown_qid
        ),
        "no such file": lambda: gainful.open_shards(tmp_path / "none.gnf", cluster=client),
        "AdaRank needs its data in one piece": lambda: gainful.AdaRank().fit(
            gainful.open_shards(folder, cluster=client)
        ),
    }.items():
        with pytest.raises(DataError, match=message):
            call()
    with pytest.raises(ParameterError, match="cluster of open_shards must be"):
        gainful.open_shards(folder, cluster=7)


def test_other_versions_and_missing_workers_are_reported(client, folder, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(gainful, "__version__", "9.9")
        with pytest.raises(ClusterError, match=r"worker tcp://\S+ has gainful \S+, here it is 9\.9; install the same"):
            gainful.open_shards(folder, cluster=client)
    with pytest.raises(ClusterError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:1:"):
        gainful.open_shards(folder, cluster="tcp://127.0.0.1:1")


# -- tasks -------------------------------------------------------------------------------------------------------------


def test_what_is_kept_survives_a_move(data, shards, client):
    """Parts hold compiled loops and mapped files, which cannot be sent as they are."""
    risk = linear_risk(gainful.loss("ranknet"), shards)
    w = np.linspace(-1.0, 1.0, data.n_features)
    before = risk.value_and_gradient(w)
    parts = list(risk.parts.parts)
    for worker in client.nthreads():  # a part that another worker holds moves here
        values = client.map(_value_at, parts, w=w, workers=[worker], pure=False)
        assert sum(client.gather(values)) == before[0]


def _value_at(part, w):
    return pickle.loads(pickle.dumps(part)).value.value_and_gradient(w)[0]


def test_tasks_share_the_threads_of_their_worker(shards):
    assert shards.source.threads == 1
    assert shards.map(_threads) == [1] * shards.n_blocks


def _threads(data):
    return thread_count()


def test_long_arguments_are_sent_once(data, shards):
    long = np.arange(20_000.0)
    before = shards.source.bytes_sent
    assert shards.map(_total, long) == [long.sum()] * shards.n_blocks
    assert 160_000 < shards.source.bytes_sent - before < 170_000
    parts = PerBlock(tuple(np.full(3, i) for i in range(shards.n_blocks)))
    assert shards.map(_total, parts) == [0.0, 3.0, 6.0, 9.0]


def _total(data, values):
    return float(values.sum())


def test_a_pass_is_one_task_per_worker(shards, client, cluster):
    """One message with one task for each thread of a worker that has some of the four blocks."""
    risk = linear_risk(gainful.loss("ranknet"), shards)
    w = np.linspace(-1.0, 1.0, 8)
    scores = risk.value_and_gradient(w)[2]  # blocks are prepared by now, and it is known where they are
    step = scores - risk.value_and_gradient(w / 2)[2]
    np.asarray(step)
    for name, call in {
        "evaluate": lambda: risk.value_and_gradient(w),
        "value_and_gradient": lambda: risk.without_scores(w),
        "along": lambda: risk.along(scores, step, 0.5),
        "sum": lambda: scores + 0.5 * step,
    }.items():
        with _count_tasks(cluster.scheduler) as counted:
            kept = call()
            np.asarray(kept if name == "sum" else step)  # by then, all that was sent before is computed
        assert counted.keys() == {name, "asarray"}
        assert max(counted.values()) <= 2  # Dask may have put all blocks on one worker


class Counting(distributed.SchedulerPlugin):
    """Counts the tasks that were computed, by name."""

    name = "counting"

    def __init__(self):
        self.counted = Counter()

    def transition(self, key, start, finish, *_, **__):
        if (start, finish) == ("processing", "memory"):
            self.counted[key_split(key)] += 1


@contextmanager
def _count_tasks(scheduler):
    counting = Counting()
    scheduler.add_plugin(counting)
    try:
        yield counting.counted
    finally:
        scheduler.remove_plugin(counting.name)


def test_an_answer_that_is_gone_is_computed_again(shards, client, monkeypatch):
    asked = []
    usual = client.scheduler.gather

    async def lose(**named):
        asked.append(named)
        return {"status": "error", "keys": named["keys"]} if "deserializers" in named else await usual(**named)

    monkeypatch.setattr(client.scheduler, "gather", lose, raising=False)
    lengths, kept = shards.source.map_both(_length_and_grades, shards.source.data)
    assert lengths == [105, 255, 15, 225]
    assert ["deserializers" in named for named in asked] == [True, False]
    assert shards.source.map(len, kept) == lengths


def test_an_error_on_a_worker_is_that_of_the_task(shards):
    for call in (shards.source.map, shards.source.map_both):
        with pytest.raises(ZeroDivisionError, match="division by zero"):
            call(_divide, shards.source.data)


def _length_and_grades(data):
    return data.n_rows, np.asarray(data.y)


def _divide(data):
    return data.n_rows / 0, None


@pytest.mark.usefixtures("interruptible")
def test_an_interruption_cancels_what_runs(shards, client, cluster, tmp_path):
    started, end = tmp_path / "started", tmp_path / "end"
    presser = threading.Thread(target=_press_ctrl_c_after, args=(started,))
    presser.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            shards.map(_until, started, end)
        presser.join()
        assert started.exists()
    finally:
        end.touch()
    _wait_until(lambda: not any("until" in str(key) for key in list(cluster.scheduler.tasks)))


def _press_ctrl_c_after(file):
    _wait_until(file.exists)
    os.kill(os.getpid(), signal.SIGINT)


def _until(data, started, end):
    started.touch()
    _wait_until(end.exists)


def _wait_until(condition, seconds=120.0):
    end = time.perf_counter() + seconds
    while not condition():
        assert time.perf_counter() < end
        time.sleep(0.05)


# -- a lost worker -----------------------------------------------------------------------------------------------------


def test_a_killed_worker_changes_nothing(data, folder, mortal):
    settings = {"C": 1.0, "tol": 0.02}
    whole = gainful.StructuredSVM(**settings).fit(data)
    killed = []

    def kill(progress):
        if progress.iteration == 5:
            killed.append(min(mortal.run(os.getpid).values()))
            os.kill(killed[0], signal.SIGKILL)

    found = gainful.StructuredSVM(**settings).fit(gainful.open_shards(folder, cluster=mortal), progress=kill)
    assert killed
    assert whole.n_iter_ > 5
    assert_same(found, whole)


def test_a_task_that_kills_its_workers_ends_with_a_line(folder, mortal, monkeypatch):
    shards = gainful.open_shards(folder, cluster=mortal)
    monkeypatch.setattr(mortal.cluster.scheduler, "allowed_failures", 0)
    alone = DaskBlocks(shards.source.client, shards.source.data.parts[:1])
    with pytest.raises(ClusterError, match="the same task killed several workers, most recently tcp://"):
        alone.map(_die, alone.data)


def _die(data):
    os._exit(1)


def test_nothing_is_left_on_the_cluster(cluster, client, folder):
    def nothing_is_left():
        gc.collect()  # each time: a thread of the client may have held what it is asked to forget
        return all(str(key).startswith(("open_block", "('")) for key in list(cluster.scheduler.tasks))

    _wait_until(nothing_is_left)
