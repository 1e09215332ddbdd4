"""Growing trees on a cluster: what each worker does.

A round is some trees that all workers grow together, each from the blocks of whole queries that it holds. LightGBM's
network joins their histograms; gradients need nothing from elsewhere. Between rounds a worker keeps its binned data.
Loads LightGBM, so it is imported on use.
"""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import IO, Any

import cloudpickle
import numpy as np
from distributed import get_worker

from gainful.data.blocks import LocalBlocks
from gainful.data.dataset import RankingData
from gainful.data.frames import CODES
from gainful.data.rows import Array
from gainful.data.sharded import ShardedData
from gainful.errors import GainfulError
from gainful.metrics import metric
from gainful.training.monitor import Monitor
from gainful.trees.data_sets import Binning
from gainful.trees.grow import Growth, Objective
from gainful.trees.lightgbm_library import lgb
from gainful.trees.lightgbm_private import connect, disconnect, set_start
from gainful.trees.objective_factory import Labels
from gainful.trees.query_sampling import QuerySample, skip_feature_samples
from gainful.trees.row_chunks import join_blocks
from gainful.trees.shared_bins import SharedBins

Make = Callable[..., Objective]  # called with data, mean_weight= and threads=


@dataclass(frozen=True)
class RoundSpec:
    """A round, the same for all workers.

    ``first`` trees existed before this training, ``done`` is the number of the last tree tried and ``last`` that of the
    last one to try; ``start`` is the text of the trees so far.

    ``client`` asks for the round; ``queries`` is the number of queries of each block.

    ``base``: LightGBM starts a regression from the mean label, but takes the mean of the workers' means for it. So
    gainful passes the true mean and adds it to the leaves of the first tree, as LightGBM would.
    """

    key: str
    client: str
    params: dict[str, Any]
    bins: SharedBins
    labels: Labels
    make: Make | None
    mean_weight: float
    categorical: tuple[int, ...]
    start: str | None
    first: int
    done: int
    last: int
    threads: int | None
    another_may_split: bool
    queries: tuple[int, ...]
    base: float | None = None  # what the first tree starts from
    round: int = 0


@dataclass(frozen=True)
class ScoredBlock:
    """A block, with the raw scores of its rows by the trees so far."""

    number: int
    data: RankingData
    scores: Array | None
    spec: RoundSpec


@dataclass
class WorkerState:
    """What a worker keeps from round to round, and its report on the last one."""

    numbers: tuple[int, ...]
    data: RankingData
    client: str
    train: Any = None
    round: int = 0
    machines: int = 0
    growing: bool = False
    values: list[float | None] = field(default_factory=list)
    failure: Failure | None = None

    def report(self) -> dict[str, Any]:
        fields = ("numbers", "round", "machines", "growing", "values", "failure")
        about = {"rows": self.data.n_rows, "queries": self.data.n_queries}
        return {name: getattr(self, name) for name in fields} | about


@dataclass(frozen=True)
class Failure:
    """An error on a worker, in a form that can always be sent: some errors cannot be unpickled."""

    pickled: bytes
    kind: str
    text: str
    trace: str

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        try:
            pickled = cloudpickle.dumps(error)
        except Exception:
            pickled = b""
        trace = "".join(traceback.format_exception(error))
        return cls(pickled, type(error).__name__, str(error), trace)

    def error(self) -> BaseException:
        """The error itself if it can be unpickled, else its message; with the traceback of the worker as a note."""
        found: Any = None
        with suppress(Exception):
            found = pickle.loads(self.pickled)
        if not isinstance(found, BaseException) or str(found) != self.text:
            found = GainfulError(f"the loss failed on a worker with {self.kind}: {self.text}")
        error: BaseException = found
        error.add_note(f"on a worker of the cluster:\n{self.trace}")
        return error


SURELY_SOME = 50.0  # queries expected in a sample: the chance of none is exp(−50)
_STATES: dict[tuple[str, str], WorkerState] = {}  # by worker, as several may live in one process, and by training


# -- called by the client ----------------------------------------------------------------------------------------------


def report(key: str, dask_worker: Any = None) -> dict[str, Any] | None:
    """The report of this worker; None if it has no part in the training."""
    state = _STATES.get((dask_worker.address, key))
    return None if state is None else state.report()


def forget(key: str, dask_worker: Any = None) -> None:
    _STATES.pop((dask_worker.address, key), None)


def drop_orphans(clients: Collection[str], dask_worker: Any = None) -> list[tuple[str, int]]:
    """Forget trainings whose client is not among these; returns key and machines of those that are still growing."""
    growing = []
    for (address, key), state in list(_STATES.items()):
        if address == dask_worker.address and state.client not in clients:
            if state.growing:
                growing.append((key, state.machines))
            else:
                _STATES.pop((address, key), None)
    return growing


def pack_block(number: int, data: RankingData, scores: Array | None, spec: RoundSpec) -> Array:
    """A block in the form that ``lightgbm.dask`` joins: an array, so that nothing of the data is copied."""
    holder = np.empty((1, 1), dtype=object)
    holder[0, 0] = ScoredBlock(number, data, scores, spec)
    return holder


class WorkerTrees:
    """Poses as a model of ``lightgbm.dask``, which makes one on each worker, with the network, and fits it."""

    def __init__(self, **network: Any):
        self.network = network
        self._other_params: dict[str, Any] = {}
        self.grown: GrownTrees | None = None

    def fit(self, blocks: Array, _: Array, **nothing: Any) -> WorkerTrees:
        self.grown = grow_round(sorted(blocks[:, 0], key=lambda block: block.number), self.network)
        return self


@dataclass(frozen=True)
class GrownTrees:
    """The trees after a round, and the numbers of those grown in it. ``ended``: no further tree finds a split."""

    trees: str
    numbers: tuple[int, ...]
    ended: bool


# -- a round -----------------------------------------------------------------------------------------------------------


def grow_round(blocks: Sequence[ScoredBlock], network: Mapping[str, Any]) -> GrownTrees:
    """This worker's part in a round. LightGBM's network belongs to the thread, so other threads do not disturb it."""
    spec = blocks[0].spec
    state = _worker_state(spec, blocks)
    state.round, state.machines, state.growing = spec.round, int(network["num_machines"]), True
    try:
        return _grow(spec, blocks, state, network)
    finally:
        state.growing = False


def _worker_state(spec: RoundSpec, blocks: Sequence[ScoredBlock]) -> WorkerState:
    here, numbers = str(get_worker().address), tuple(block.number for block in blocks)
    there = _STATES.get((here, spec.key))
    if there is None or there.numbers != numbers:
        data = join_blocks(ShardedData(LocalBlocks([block.data for block in blocks])))
        there = _STATES[here, spec.key] = WorkerState(numbers, data, spec.client)
    return there


def _grow(spec: RoundSpec, blocks: Sequence[ScoredBlock], state: WorkerState, network: Mapping[str, Any]) -> GrownTrees:
    threads = spec.threads or int(network["num_threads"])
    objective = None if spec.make is None else GuardedObjective(spec, state.data, threads)
    params = spec.params | spec.bins.params | {"num_threads": threads, "tree_learner": network["tree_learner"]}
    growth = _growth(spec, blocks, state.data, params, objective)
    bins = spec.bins.dataset(growth.params) if state.train is None else None
    with _join_network(network):
        if state.train is None:
            state.train = _bin_data(spec, state.data, growth, bins)
            state.data = _without_features(state.data)  # they are Dask's to keep or to spill
        booster = _booster(spec, blocks, state.train, growth, network)
        values: list[float | None] = []
        numbers: list[int] = []
        ended = False
        for number in growth.trees(spec.last):
            before = booster.current_iteration()
            if growth.update(booster, state.train) and booster.current_iteration() == before:
                ended = not spec.another_may_split
                if ended:
                    break
                continue
            numbers.append(number)
            values.append(None if objective is None else objective.total)
        if spec.base is not None:
            _add_to_first_tree(booster, spec.base)
        state.values, state.failure = values, None if objective is None else objective.failure
        return GrownTrees(booster.model_to_string(), tuple(numbers), ended)


def _without_features(data: RankingData) -> RankingData:
    return RankingData._build_unchecked(
        X=np.empty((data.n_rows, 0)),
        y=data.y,
        offsets=data.offsets,
        query_ids=data.query_ids,
        query_weights=data.query_weights,
        document_weights=data.document_weights,
    )


def _growth(
    spec: RoundSpec,
    blocks: Sequence[ScoredBlock],
    data: RankingData,
    params: dict[str, Any],
    objective: Objective | None,
) -> Growth:
    growth = Growth(data, params, Monitor(metric("ndcg@10")), objective, None, spec.mean_weight)
    growth.first, growth.tree = spec.first, spec.done
    if growth.sample is not None:
        counts = {block.number: block.data.counts for block in blocks}
        growth.sample = BlockSample(counts, spec.queries, float(params["bagging_fraction"]), int(params["seed"]))
    return growth


def _bin_data(spec: RoundSpec, data: RankingData, growth: Growth, bins: Any) -> Any:
    binning = Binning(growth.params, spec.categorical, in_blocks=data.X.dtype in CODES)
    return binning.data_set(data, bins, **growth.columns(data, spec.labels(data), growth.first_weights())).construct()


def _booster(
    spec: RoundSpec, blocks: Sequence[ScoredBlock], train: Any, growth: Growth, network: Mapping[str, Any]
) -> Any:
    """A booster that holds the trees so far and can grow more."""
    if spec.base is not None:
        train.set_init_score(np.full(train.num_data(), spec.base))
    if spec.start is not None:
        scores = [block.scores for block in blocks if block.scores is not None]
        train.set_init_score(np.concatenate(scores).ravel(order="F"))  # one model after the other
        set_start(lgb.Booster(model_str=spec.start), train)
    booster = lgb.Booster(growth.params | {"num_machines": int(network["num_machines"])}, train)
    if spec.done > spec.first and float(growth.params.get("feature_fraction", 1.0)) < 1.0:
        skip_feature_samples(booster, (spec.done - spec.first) * booster.num_model_per_iteration())
    return booster


def _add_to_first_tree(booster: Any, base: float) -> None:
    if booster.current_iteration() == 0:
        return
    for leaf in range(booster.dump_model(num_iteration=1)["tree_info"][0]["num_leaves"]):
        booster.set_leaf_output(0, leaf, booster.get_leaf_output(0, leaf) + base)


@contextmanager
def _join_network(network: Mapping[str, Any]) -> Iterator[None]:
    """LightGBM's network between the workers, for one round."""
    several = int(network["num_machines"]) > 1
    if several:
        with _silence_lightgbm():
            connect(network)
    try:
        yield
    finally:
        if several:
            disconnect()


@contextmanager
def _silence_lightgbm() -> Iterator[None]:
    """Hide LightGBM's notice that it listens, which it prints whatever its verbosity; a local worker shares our stdout.

    LightGBM prints from a thread of its own, bypassing its logger. So standard output is captured meanwhile, and
    everything but LightGBM's lines is printed afterwards.
    """
    with _CAPTURE_LOCK:
        if not _CAPTURED:
            sys.stdout.flush()
            _CAPTURED.append(CapturedStdout())
        _CAPTURED[0].users += 1
    try:
        yield
    finally:
        with _CAPTURE_LOCK:
            _CAPTURED[0].users -= 1
            if _CAPTURED[0].users == 0:
                _CAPTURED.pop().end()


class CapturedStdout:
    """The standard output of this process, redirected to a file; ``users`` counts the threads that need it."""

    def __init__(self) -> None:
        self.users, self.before = 0, os.dup(1)
        self.file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  (closed by end)
        os.dup2(self.file.fileno(), 1)

    def end(self) -> None:
        sys.stdout.flush()
        os.dup2(self.before, 1)
        os.close(self.before)
        with self.file:
            self.file.seek(0)
            kept = b"".join(line for line in self.file if not line.startswith(b"[LightGBM]"))
        while kept:
            kept = kept[os.write(1, kept) :]


_CAPTURE_LOCK, _CAPTURED = threading.Lock(), list[CapturedStdout]()


class GuardedObjective:
    """A worker's objective. After an error its gradients are 0, since all workers must reach the end of the round.

    ``total`` is the objective's value times the number of queries, which adds up over workers.
    """

    def __init__(self, spec: RoundSpec, data: RankingData, threads: int):
        self.spec, self.data, self.threads = spec, data, threads
        self.failure: Failure | None = None
        self.objective: Objective | None = None

    def __call__(self, scores: Array, iteration: int) -> tuple[Array, Array]:
        if self.failure is None:
            try:
                if self.objective is None:
                    assert self.spec.make is not None
                    self.objective = self.spec.make(self.data, mean_weight=self.spec.mean_weight, threads=self.threads)
                return self.objective(scores, iteration)
            except Exception as error:
                self.failure = Failure.of(error)
        return np.zeros_like(scores), np.zeros_like(scores)

    @property
    def total(self) -> float | None:
        value = getattr(self.objective, "value", None)
        return None if value is None else float(value) * self.data.n_queries


class BlockSample(QuerySample):
    """A share of the queries of all blocks; whether a query is drawn depends on its position in its block alone.

    ``counts``: documents per query of each block here, by block number; ``queries``: the number of queries of each
    block anywhere. At least one query is drawn.
    """

    def __init__(self, counts: Mapping[int, Array], queries: Sequence[int], share: float, seed: int):
        self.numbers, self.queries, self.share, self.seed = tuple(counts), tuple(queries), share, seed
        self.counts = np.concatenate(list(counts.values()))

    def rows(self, tree: int) -> Array:
        below = self._below(tree)
        drawn = [self._numbers_of(tree, block) < below for block in self.numbers]
        return np.repeat(np.concatenate(drawn).astype(np.float64), self.counts)

    def _numbers_of(self, tree: int, block: int) -> Array:
        """One number for each query of a block, uniform between 0 and 1."""
        return np.random.default_rng([self.seed, tree, block]).random(self.queries[block])

    def _below(self, tree: int) -> float:
        """Queries with numbers below this are drawn: the share, or just above the smallest number if that is larger."""
        if self.share * sum(self.queries) > SURELY_SOME:
            return self.share
        lowest = min(self._numbers_of(tree, block).min() for block in range(len(self.queries)) if self.queries[block])
        return max(self.share, float(np.nextafter(lowest, 2.0)))
