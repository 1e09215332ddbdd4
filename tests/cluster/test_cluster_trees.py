"""A cluster of two worker processes grows the same trees as memory, even if a worker dies meanwhile."""

from __future__ import annotations

import os
import signal
import threading
import time
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

import gainful
from gainful.data.blocks import LocalBlocks
from gainful.data.sharded import ShardedData
from gainful.errors import ClusterError, DataError, InterruptedFitWarning, ParameterError
from gainful.training.monitor import Monitor
from gainful.trees import sums as tree_sums
from gainful.trees.grades import Tally
from gainful.trees.query_sampling import QuerySample
from gainful.trees.row_chunks import in_chunks, join_blocks

distributed = pytest.importorskip("distributed")
from gainful.trees import shared_bins as common_bins  # noqa: E402
from gainful.trees.cluster import rounds as cluster_rounds  # noqa: E402
from gainful.trees.cluster import train as cluster_trees  # noqa: E402
from gainful.trees.cluster import workers as cluster_workers  # noqa: E402
from gainful.trees.objective_factory import ObjectiveFactory, grades  # noqa: E402

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.filterwarnings("ignore:.*trees kept all fit the grades"),  # five trees are few
]

CUTS = ((0, 9), (9, 37), (37, 60))  # blocks of unequal length
SMALL = {"n_trees": 5, "n_leaves": 6, "min_docs_in_leaf": 1}
# Where curvatures differ LightGBM estimates the documents of a leaf, below the root another way than on one machine.
STUMPS = SMALL | {"n_leaves": 2}
RANKERS = {
    "lambdamart": STUMPS,
    "lambdamart-plain": STUMPS,
    "boosted": STUMPS | {"loss": "ranknet", "l2": 1.0},
    "gbrank": STUMPS,
    "mcrank": STUMPS,
    "mcrank-ordinal": STUMPS | {"max_classes": 3},
    "structured-boost": SMALL,
    "sdcg": SMALL | {"start_trees": 2, "colsample": 0.5},
    "shf-sdcg": SMALL,
    "reg-shf-sdcg": SMALL | {"colsample": 0.5},
    "mcrank-regression": SMALL,
    "tree-regression": SMALL | {"bins": "exact", "colsample": 0.5},
}


@pytest.fixture(scope="module")
def data():
    made = gainful.make_artificial(60, n_docs=15, n_features=6, seed=3)
    X = made.X.copy()
    X[::7, 2] = np.nan
    X[:, 5] = np.floor(8 * np.abs(X[:, 5]))
    weights = np.random.default_rng(0).uniform(0.9, 1.1, made.n_queries)
    return made.replace(X=X, query_weights=weights)


@pytest.fixture(scope="module")
def valid():
    return gainful.make_artificial(20, n_docs=15, n_features=6, seed=4)


@pytest.fixture(scope="module")
def shards(data, client, tmp_path_factory):
    return on_cluster(client, tmp_path_factory.mktemp("shards"), [data[a:b] for a, b in CUTS])


@pytest.fixture(autouse=True)
def short_rounds(monkeypatch):
    monkeypatch.setattr(cluster_trees, "ROUND_TREES", 3)


def on_cluster(client, folder, blocks):
    for i, block in enumerate(blocks):
        gainful.write(block, folder / f"part-{i}.gnf")
    return gainful.open_shards(folder, cluster=client)


def same_model(ours, theirs, data):
    """The workers add up histograms in another order, so the last digits may differ, and nothing else."""
    np.testing.assert_allclose(ours.predict(data), theirs.predict(data), rtol=1e-6, atol=1e-8)
    assert ours.best_iteration_ == theirs.best_iteration_
    assert ours.booster_.current_iteration() == theirs.booster_.current_iteration()
    for a, b in zip(ours.history_, theirs.history_, strict=True):
        for what in ("objective", "validation"):
            assert (a[what] is None) == (b[what] is None)
            assert a[what] is None or a[what] == pytest.approx(b[what], rel=1e-6)


# -- the same trees ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["boosted", "tree-regression"])
def test_weights_of_documents_travel(name, data, valid, client, tmp_path):
    weights = np.random.default_rng(1).uniform(0.8, 1.2, data.n_rows)
    weighted = gainful.RankingData.from_rows(data.X, data.y, data.qid, sample_weight=weights)
    there = on_cluster(client, tmp_path, [weighted[a:b] for a, b in CUTS])
    assert there.has_document_weights
    same_model(*(gainful.ranker(name, **RANKERS[name]).fit(given) for given in (there, weighted)), valid)


def test_initial_scores_are_refused(data, client, tmp_path):
    there = on_cluster(client, tmp_path, [data[a:b].replace(init_scores=np.zeros(15 * (b - a))) for a, b in CUTS])
    with pytest.raises(DataError, match="LambdaMART cannot start from initial scores on a cluster"):
        gainful.LambdaMART().fit(there)


@pytest.mark.parametrize("name", RANKERS)
def test_a_cluster_grows_the_trees_of_memory(name, data, valid, shards, client, tmp_path):
    settings = RANKERS[name]
    here = gainful.ranker(name, **settings).fit(data, eval_set=valid)
    there = gainful.ranker(name, **settings).fit(shards, eval_set=valid)
    same_model(there, here, valid)
    assert there.booster_.current_iteration() == there.best_iteration_
    gainful.save(there, tmp_path / "model.gainful")
    np.testing.assert_array_equal(gainful.load(tmp_path / "model.gainful").predict(valid), there.predict(valid))


def test_constraints_categories_exact_bins_and_validation_on_the_cluster(data, valid, shards, client, tmp_path):
    settings = STUMPS | {"monotone": {0: 1}, "categorical": [5], "bins": "exact", "engine_params": {"cat_l2": 5.0}}
    blocks = on_cluster(client, tmp_path, [valid[:5], valid[5:]])
    here = gainful.LambdaMART(**settings).fit(data, eval_set=valid)
    there = gainful.LambdaMART(**settings).fit(shards, eval_set=blocks)
    same_model(there, here, valid)
    assert there.score(blocks) == pytest.approx(here.score(valid))


def test_exact_bins_of_categories_are_for_what_fits_here(shards, monkeypatch):
    monkeypatch.setattr(common_bins, "MOST_VALUES", 5399)  # one less than there are
    with pytest.raises(DataError, match="900 rows of 6 features are more than 5,399 values; give bins a number"):
        gainful.LambdaMART(**STUMPS, categorical=[5], bins="exact").fit(shards)


def test_sparse_features_and_a_single_block(data, valid, client, tmp_path):
    thin = data.replace(X=sparse.csr_array(np.where(np.isnan(data.X) | (data.X < 0.5), 0.0, data.X)))
    here = gainful.GBRank(**STUMPS).fit(thin)
    for i, blocks in enumerate(([thin[:40], thin[40:]], [thin])):
        folder = tmp_path / str(i)
        folder.mkdir()
        same_model(gainful.GBRank(**STUMPS).fit(on_cluster(client, folder, blocks)), here, valid)


def test_a_loss_of_the_users_own_and_warm_start(data, valid, shards):
    def squared(scores, grades):
        return 0.5 * float((scores - grades) @ (scores - grades)), scores - grades

    settings = SMALL | {"colsample": 0.5, "warm_start": True, "random_state": 3}
    here, there = gainful.BoostedRanker(squared, **settings), gainful.BoostedRanker(squared, **settings)
    for n_trees in (4, 6):
        here.set_params(n_trees=n_trees).fit(data, eval_set=valid)
        there.set_params(n_trees=n_trees).fit(shards, eval_set=valid)
    same_model(there, here, valid)
    assert there.gradient_scale_ == pytest.approx(here.gradient_scale_)


def test_early_stopping_keeps_the_exact_best_tree(data, valid, shards):
    settings = STUMPS | {"n_trees": 40, "early_stopping": 4, "learning_rate": 0.5}
    here = gainful.ranker("lambdamart-plain", **settings).fit(data, eval_set=valid)
    there = gainful.ranker("lambdamart-plain", **settings).fit(shards, eval_set=valid)
    assert len(here.history_) < 40
    assert len(there.history_) % cluster_trees.ROUND_TREES  # it ended inside a round
    same_model(there, here, valid)


def test_the_client_need_not_be_the_default_one(data, valid, shards, monkeypatch):
    monkeypatch.setattr(distributed.client, "_global_clients", {})
    here = gainful.ranker("tree-regression", **SMALL).fit(data)
    same_model(gainful.ranker("tree-regression", **SMALL).fit(shards), here, valid)


# -- whole queries -----------------------------------------------------------------------------------------------------


class Noted:
    """Squared error that writes down which queries it was asked about, and for which tree."""

    value = None

    def __init__(self, folder, data, mean_weight=None, threads=None):
        self.folder, self.data = folder, data

    def __call__(self, scores, iteration):
        assert scores.shape == (self.data.n_rows,)
        counts = np.stack([self.data.query_ids.astype(np.int64), self.data.counts], axis=1)
        np.save(os.path.join(self.folder, f"{os.getpid()}-{iteration}"), counts)
        return scores - self.data.y, np.ones_like(scores)


def test_each_worker_sees_whole_queries_and_all_of_them_once(data, shards, tmp_path):
    factory = ObjectiveFactory(partial(Noted, str(tmp_path)))
    params = gainful.LambdaMART(**SMALL)._lightgbm_params()
    cluster_trees.grow_on_cluster(shards, grades, 4, params, Monitor(gainful.metric("ndcg@10")), factory=factory)
    expected = np.stack([data.query_ids.astype(np.int64), data.counts], axis=1)
    assert len({file.name.partition("-")[0] for file in tmp_path.iterdir()}) == 2
    for tree in range(1, 5):  # Dask may place blocks anew from round to round
        seen = np.concatenate([np.load(file) for file in tmp_path.glob(f"*-{tree}.npy")])
        np.testing.assert_array_equal(seen[np.argsort(seen[:, 0])], expected[np.argsort(expected[:, 0])])


def drawn_of(counts, tree, share, seed=7):
    """Whether each query of some blocks, which are all there are, is in the sample."""
    sample = cluster_workers.BlockSample(counts, [len(one) for one in counts.values()], share, seed)
    return np.add.reduceat(sample.rows(tree), np.cumsum([0, *sample.counts[:-1]])) > 0


def test_a_query_is_drawn_by_its_place_wherever_its_block_is(data):
    counts = {i: data.counts[a:b] for i, (a, b) in enumerate(CUTS)}
    queries = [b - a for a, b in CUTS]
    together = cluster_workers.BlockSample(counts, queries, 0.5, 7)
    apart = [cluster_workers.BlockSample({i: one}, queries, 0.5, 7) for i, one in counts.items()]
    for tree in (1, 2):
        rows = together.rows(tree)
        np.testing.assert_array_equal(rows, np.concatenate([one.rows(tree) for one in apart]))
        assert set(np.add.reduceat(rows, data.offsets[:-1])) == {0.0, 15.0}  # whole queries
    assert not np.array_equal(together.rows(1), together.rows(2))
    assert isinstance(together, QuerySample)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_blocks_of_one_query_are_drawn_as_often_as_the_share_says(share):
    counts = {i: np.array([3]) for i in range(400)}
    drawn = np.mean([drawn_of(counts, tree, share).mean() for tree in range(1, 21)])
    assert drawn == pytest.approx(share, abs=5 * np.sqrt(share * (1 - share) / 8000))


def test_a_tiny_share_still_draws_one_query_of_all():
    counts = {0: np.array([3, 2]), 1: np.array([4])}
    one = [drawn_of(counts, tree, 1e-6) for tree in range(1, 30)]
    assert all(drawn.sum() == 1 for drawn in one)
    assert np.any(one, axis=0).all()  # not always the same one


def test_samples_of_queries_and_full_trees_train_as_well_as_in_memory(data, valid, shards):
    settings = SMALL | {"n_trees": 12, "subsample": 0.6}
    here = gainful.LambdaMART(**settings).fit(data)
    there = gainful.LambdaMART(**settings).fit(shards)
    assert there.score(valid) == pytest.approx(here.score(valid), abs=0.05)
    everything = gainful.LambdaMART(**settings | {"subsample": 1.0}).fit(shards)
    assert not np.allclose(there.predict(valid), everything.predict(valid))


# -- what goes wrong ---------------------------------------------------------------------------------------------------


def test_a_loss_that_fails_on_one_worker_ends_training_on_all(data, shards, valid):
    def fails(scores, grades):
        if len(grades) and np.ptp(scores) > 0.2:
            raise DataError("this loss does not like its scores")
        return 0.5 * float((scores - grades) @ (scores - grades)), scores - grades

    with pytest.raises(DataError, match="does not like"):
        gainful.BoostedRanker(fails, **SMALL).fit(shards)
    assert gainful.LambdaMART(**SMALL).fit(shards).booster_.current_iteration() == 5


REFUSED = {
    "linear_tree": True,
    "linear_trees": "true",
    "reg_sqrt": True,
    "data_sample_strategy": "goss",
    "boosting": "goss",
    "num_machine": 3,
}


def test_what_cannot_be_is_refused(data, shards, monkeypatch):
    with pytest.raises(ParameterError, match='must be "data" or "voting"'):
        gainful.LambdaMART(**SMALL, engine_params={"tree_learner": "feature"}).fit(shards)
    for name, value in REFUSED.items():
        with pytest.raises(ParameterError, match=f"must not set {name}.* on a cluster"):
            gainful.ranker("tree-regression", **SMALL, engine_params={name: value}).fit(shards)
    monkeypatch.setattr(cluster_rounds, "GRACE", 300.0)
    started = time.monotonic()
    for machines, said in {"nowhere": "each once", "a:1,a:1": "each once", "a:1,b:2": "the workers are at"}.items():
        with pytest.raises(ParameterError, match=f"machines in engine_params must .*{said}"):
            gainful.LambdaMART(**SMALL, engine_params={"machines": machines}).fit(shards)
    assert time.monotonic() - started < cluster_rounds.GRACE  # nobody is waited for
    with pytest.raises(DataError, match="eval_set is on a cluster"):
        gainful.LambdaMART(**SMALL).fit(data, eval_set=shards)


@pytest.mark.filterwarnings("ignore:.*no tree has a split")
def test_constant_features_give_no_trees(client, data, tmp_path):
    flat = data.replace(X=np.ones_like(data.X))
    model = gainful.GBRank(**SMALL).fit(on_cluster(client, tmp_path, [flat[:30], flat[30:]]))
    np.testing.assert_array_equal(model.predict(flat), 0.0)


@pytest.mark.filterwarnings("ignore::gainful.RedundantFeaturesWarning")
def test_trees_that_find_no_split_are_passed_over(client, data, valid, tmp_path):
    X = np.zeros_like(data.X)
    X[:, 0], X[7, 1:] = data.X[:, 0], 1.0  # of six features five have one document apart, too few for a leaf
    lean = data.replace(X=X, query_weights=None)
    settings = SMALL | {"n_trees": 16, "min_docs_in_leaf": 10, "colsample": 0.2, "early_stopping": None}
    settings |= {"engine_params": {"feature_pre_filter": False}}
    here = gainful.SmoothDCG(**settings).fit(lean, eval_set=valid)
    there = gainful.SmoothDCG(**settings).fit(on_cluster(client, tmp_path, [lean[:20], lean[20:]]), eval_set=valid)
    assert 0 < there.n_iter_ < 16
    same_model(there, here, valid)


def test_a_training_that_was_stopped_goes_on_from_its_checkpoint(data, valid, shards, tmp_path):
    settings = SMALL | {"n_trees": 8, "colsample": 0.5, "subsample": 0.7, "start_trees": 2}
    whole = gainful.ranker("lambdamart-plain", **settings).fit(shards, eval_set=valid)
    file = tmp_path / "check"
    stopped = gainful.ranker("lambdamart-plain", **settings)
    with pytest.warns(InterruptedFitWarning):
        stopped.fit(shards, eval_set=valid, checkpoint=file, progress=lambda now: now.iteration == 4)
    assert stopped.n_iter_ == 4
    resumed = gainful.ranker("lambdamart-plain", **settings).fit(shards, eval_set=valid, checkpoint=file)
    same_model(resumed, whole, valid)
    assert not file.exists()


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_inside_a_round_keeps_the_trees_before_it(data, valid, shards):
    def interrupt(now):
        if now.iteration == 3:
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()

    model = gainful.BoostedRanker(slow, **SMALL | {"n_trees": 300, "early_stopping": None})
    with pytest.warns(InterruptedFitWarning):
        model.fit(shards, progress=interrupt)
    assert 3 <= model.booster_.current_iteration() < 300
    assert model.booster_.current_iteration() % 3 == 0
    here = gainful.BoostedRanker(slow, **SMALL | {"n_trees": model.best_iteration_}).fit(data)
    np.testing.assert_allclose(model.predict(valid), here.predict(valid), rtol=1e-6)


def test_workers_lost_again_and_again_end_training_with_a_checkpoint(valid, shards, tmp_path, monkeypatch):
    settings = SMALL | {"n_trees": 8}
    whole = gainful.GBRank(**settings).fit(shards, eval_set=valid)
    grow = cluster_rounds.Rounds._try

    def lost(self, scores, work):
        if work.done >= 3:
            raise cluster_rounds.WorkerLost("worker tcp://nowhere was lost")
        return grow(self, scores, work)

    file = tmp_path / "check"
    monkeypatch.setattr(cluster_rounds.Rounds, "_try", lost)
    said = r"trees 4 to 6 did not grow in 3 rounds, the last time: worker tcp://nowhere was lost; .* checkpoint .*check"
    with pytest.raises(ClusterError, match=said):
        gainful.GBRank(**settings).fit(shards, eval_set=valid, checkpoint=file)
    monkeypatch.undo()
    same_model(gainful.GBRank(**settings).fit(shards, eval_set=valid, checkpoint=file), whole, valid)


class NoNanny:
    """A client of workers that are stuck and that nobody can restart."""

    def run(self, *_, **__):
        return {"tcp://stuck": {"round": 1, "machines": 2, "growing": True}, "tcp://idle": None}

    def restart_workers(self, workers, timeout):
        raise ValueError(f"{workers[0]} has no nanny")


def test_stuck_workers_that_cannot_be_restarted_end_training_with_the_error_behind_it(monkeypatch):
    monkeypatch.setattr(cluster_rounds, "GRACE", 0.0)
    rounds = object.__new__(cluster_rounds.Rounds)
    rounds.client, rounds.key, rounds.number = NoNanny(), "any", 1
    attempt, error = SimpleNamespace(before=set()), MemoryError("no room for bins")
    rounds.client.nthreads = dict
    with pytest.raises(
        ClusterError, match=r"MemoryError: no room for bins.*tcp://stuck.*could not be restarted"
    ) as told:
        rounds._explain(attempt, error)
    assert told.value.__cause__ is error


def slow(scores, grades):
    time.sleep(0.002)
    return 0.5 * float((scores - grades) @ (scores - grades)), scores - grades


def deadly(order, scores, grades):
    """Kills the process whose number is in a file."""
    if order.exists() and order.read_text() == str(os.getpid()):
        os.kill(os.getpid(), signal.SIGKILL)
    return slow(scores, grades)


def test_a_worker_killed_while_trees_grow_costs_a_round_and_changes_nothing(mortal, data, valid, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster_trees, "ROUND_TREES", 10)
    monkeypatch.setattr(cluster_rounds, "GRACE", 1.5)
    settings = SMALL | {"n_trees": 20, "early_stopping": None}
    order = tmp_path / "victim"
    loss = partial(deadly, order)
    here = gainful.BoostedRanker(loss, **settings).fit(data, eval_set=valid)
    shards = on_cluster(mortal, tmp_path, [data[a:b] for a, b in CUTS])
    victim = next(iter(mortal.run(os.getpid).values()))
    lost = []
    recover = cluster_rounds.Rounds._recover

    def recovered(self, why):
        lost.append(str(why))
        recover(self, why)

    def kill(now):
        if now.iteration == 10:  # the second round begins
            order.write_text(str(victim))

    monkeypatch.setattr(cluster_rounds.Rounds, "_recover", recovered)
    there = gainful.BoostedRanker(loss, **settings).fit(shards, eval_set=valid, progress=kill)
    assert lost, "the worker was to die inside a round"
    assert victim not in mortal.run(os.getpid).values()
    same_model(there, here, valid)


# -- sums over blocks --------------------------------------------------------------------------------------------------


def test_a_tally_over_blocks_is_that_of_all_rows(data):
    parts = Tally.of_data(ShardedData(LocalBlocks([data[a:b] for a, b in CUTS])))
    whole = Tally.of(data.y, data.row_weights)
    np.testing.assert_array_equal(parts.grades, whole.grades)
    np.testing.assert_array_equal(parts.counts, whole.counts)
    np.testing.assert_allclose(parts.weights, whole.weights)


@pytest.mark.parametrize("name", ["tree-regression", "mcrank"])
def test_scores_tree_by_tree_are_those_that_lightgbm_predicts(name, data, monkeypatch):
    monkeypatch.setattr(tree_sums, "ROWS", 100)  # several runs of queries
    full = data.replace(X=np.nan_to_num(data.X))
    booster = gainful.ranker(name, **SMALL).fit(full).booster_
    first, rest = booster.model_to_string(num_iteration=2), booster.model_to_string(start_iteration=2)
    start = tree_sums.start_scores(full, first)
    np.testing.assert_allclose(tree_sums.add_trees(full, None, first), start, rtol=1e-12)
    whole = booster.predict(full.X, raw_score=True)
    np.testing.assert_allclose(tree_sums.add_trees(full, start, rest), whole, rtol=1e-12, atol=1e-14)
    metric = gainful.metric("ndcg@10")
    values, after = tree_sums.measure_trees(full, start, rest, metric, lambda raw: raw.reshape(len(raw), -1)[:, 0])
    np.testing.assert_allclose(after, whole, rtol=1e-12, atol=1e-14)
    for t in range(3):
        raw = booster.predict(full.X, raw_score=True, num_iteration=3 + t).reshape(full.n_rows, -1)[:, 0]
        np.testing.assert_allclose(values[t], metric.per_query(raw, full), rtol=1e-12)


def test_blocks_that_were_joined_come_apart_again(data):
    blocks = [data[a:b] for a, b in CUTS]
    apart = in_chunks(join_blocks(ShardedData(LocalBlocks(blocks))))
    for one, block in zip(apart.blocks(), blocks, strict=True):
        np.testing.assert_array_equal(one.X, block.X)
        for what in ("y", "offsets", "query_ids", "query_weights"):
            np.testing.assert_array_equal(getattr(one, what), getattr(block, what))
