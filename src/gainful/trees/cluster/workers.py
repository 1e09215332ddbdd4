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
from gainful.trees.grow import Growth, Objective, _dataset
from gainful.trees.lightgbm_library import lgb
from gainful.trees.lightgbm_private import connect, disconnect, set_start
from gainful.trees.objective_factory import Labels
from gainful.trees.query_sampling import QuerySample, pass_feature_samples
from gainful.trees.row_chunks import join_blocks
from gainful.trees.shared_bins import CommonBins

Make = Callable[..., Objective]  # of data, mean_weight= and threads=


@dataclass(frozen=True)
class RoundSpec:
    """What the workers are told of a round, all the same.

    ``first`` trees were there before this training, ``done`` is the number of the last one tried and ``last`` that of
    the last one to try; ``start`` is the text of the trees so far.

    ``client`` is the one that asks for it, ``queries`` are the numbers of queries of all blocks.

    ``base``: LightGBM begins a regression with the mean label, and takes the mean of the workers' means for it; so it
    is told the true one, and the first tree has it added to its leaves, as it would do itself.
    """

    key: str
    client: str
    params: dict[str, Any]
    bins: CommonBins
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
class Part:
    """A block, with the raw scores of its rows by the trees so far."""

    number: int
    data: RankingData
    scores: Array | None
    work: RoundSpec


@dataclass
class WorkerState:
    """What a worker keeps from round to round, and what it tells of the last one."""

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
        told = ("numbers", "round", "machines", "growing", "values", "failure")
        about = {"rows": self.data.n_rows, "queries": self.data.n_queries}
        return {name: getattr(self, name) for name in told} | about


@dataclass(frozen=True)
class Failure:
    """An error of a worker, in a form that can always be sent: some errors cannot be made again elsewhere."""

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
        """The error itself where that can be, else its words; with a note that says where it came about."""
        found: Any = None
        with suppress(Exception):
            found = pickle.loads(self.pickled)
        if not isinstance(found, BaseException) or str(found) != self.text:
            found = GainfulError(f"the loss failed on a worker with {self.kind}: {self.text}")
        error: BaseException = found
        error.add_note(f"on a worker of the cluster:\n{self.trace}")
        return error


SURELY_SOME = 50.0  # queries expected in a sample: the chance of none is exp(−50)
_STANDING: dict[tuple[str, str], WorkerState] = {}  # by worker, as several may live in one process, and by training


# -- asked by the client -----------------------------------------------------------------------------------------------


def report_of(key: str, dask_worker: Any = None) -> dict[str, Any] | None:
    """How far this worker is; None where it has no part in the training."""
    standing = _STANDING.get((dask_worker.address, key))
    return None if standing is None else standing.report()


def forget(key: str, dask_worker: Any = None) -> None:
    _STANDING.pop((dask_worker.address, key), None)


def drop_orphans(clients: Collection[str], dask_worker: Any = None) -> list[tuple[str, int]]:
    """Forget trainings whose client is none of these. Those that are still at it are told: key and machines."""
    growing = []
    for (address, key), standing in list(_STANDING.items()):
        if address == dask_worker.address and standing.client not in clients:
            if standing.growing:
                growing.append((key, standing.machines))
            else:
                _STANDING.pop((address, key), None)
    return growing


def as_part(number: int, data: RankingData, scores: Array | None, work: RoundSpec) -> Array:
    """A part in the form that ``lightgbm.dask`` joins: an array, so that nothing of the data is copied."""
    holder = np.empty((1, 1), dtype=object)
    holder[0, 0] = Part(number, data, scores, work)
    return holder


class WorkerTrees:
    """What ``lightgbm.dask`` takes for a model of its own: it is made on each worker, told the network, and fitted."""

    def __init__(self, **network: Any):
        self.network = network
        self._other_params: dict[str, Any] = {}
        self.grown: Grown | None = None

    def fit(self, parts: Array, _: Array, **nothing: Any) -> WorkerTrees:
        self.grown = grow_round(sorted(parts[:, 0], key=lambda part: part.number), self.network)
        return self


@dataclass(frozen=True)
class Grown:
    """The trees after a round; those of the round by number. ``ended``: no further tree finds a split."""

    trees: str
    numbers: tuple[int, ...]
    ended: bool


# -- a round -----------------------------------------------------------------------------------------------------------


def grow_round(parts: Sequence[Part], network: Mapping[str, Any]) -> Grown:
    """This worker's share of a round. LightGBM's network belongs to the thread, so others do not disturb it."""
    work = parts[0].work
    standing = _standing_of(work, parts)
    standing.round, standing.machines, standing.growing = work.round, int(network["num_machines"]), True
    try:
        return _grow(work, parts, standing, network)
    finally:
        standing.growing = False


def _standing_of(work: RoundSpec, parts: Sequence[Part]) -> WorkerState:
    here, numbers = str(get_worker().address), tuple(part.number for part in parts)
    there = _STANDING.get((here, work.key))
    if there is None or there.numbers != numbers:
        data = join_blocks(ShardedData(LocalBlocks([part.data for part in parts])))
        there = _STANDING[here, work.key] = WorkerState(numbers, data, work.client)
    return there


def _grow(work: RoundSpec, parts: Sequence[Part], standing: WorkerState, network: Mapping[str, Any]) -> Grown:
    threads = work.threads or int(network["num_threads"])
    objective = None if work.make is None else GuardedObjective(work, standing.data, threads)
    params = work.params | work.bins.params | {"num_threads": threads, "tree_learner": network["tree_learner"]}
    growth = _growth(work, parts, standing.data, params, objective)
    bins = work.bins.dataset(growth.params) if standing.train is None else None
    with _connected(network):
        if standing.train is None:
            standing.train = _binned(work, standing.data, growth, bins)
            standing.data = _without_features(standing.data)  # they are Dask's to keep or to spill
        booster = _booster(work, parts, standing.train, growth, network)
        values: list[float | None] = []
        numbers: list[int] = []
        ended = False
        for number in growth.trees(work.last):
            before = booster.current_iteration()
            if growth.update(booster, standing.train) and booster.current_iteration() == before:
                ended = not work.another_may_split
                if ended:
                    break
                continue
            numbers.append(number)
            values.append(None if objective is None else objective.total)
        if work.base is not None:
            _add_to_first_tree(booster, work.base)
        standing.values, standing.failure = values, None if objective is None else objective.failure
        return Grown(booster.model_to_string(), tuple(numbers), ended)


def _without_features(data: RankingData) -> RankingData:
    return RankingData.trusted(
        X=np.empty((data.n_rows, 0)),
        y=data.y,
        offsets=data.offsets,
        query_ids=data.query_ids,
        query_weights=data.query_weights,
    )


def _growth(
    work: RoundSpec, parts: Sequence[Part], data: RankingData, params: dict[str, Any], objective: Objective | None
) -> Growth:
    growth = Growth(data, params, Monitor(metric("ndcg@10")), objective, None)
    growth.first, growth.tree = work.first, work.done
    if growth.sample is not None:
        counts = {part.number: part.data.counts for part in parts}
        growth.sample = BlockSample(counts, work.queries, float(params["bagging_fraction"]), int(params["seed"]))
    return growth


def _binned(work: RoundSpec, data: RankingData, growth: Growth, bins: Any) -> Any:
    in_blocks = data.X.dtype in CODES
    weight = growth.first_weights()
    labels = work.labels(data)
    return _dataset(data, labels, growth.params, work.categorical, bins, in_blocks, growth, weight).construct()


def _booster(work: RoundSpec, parts: Sequence[Part], train: Any, growth: Growth, network: Mapping[str, Any]) -> Any:
    """A live booster that holds the trees so far."""
    if work.base is not None:
        train.set_init_score(np.full(train.num_data(), work.base))
    if work.start is not None:
        scores = [part.scores for part in parts if part.scores is not None]
        train.set_init_score(np.concatenate(scores).ravel(order="F"))  # one model after the other
        set_start(train, work.start)
    booster = lgb.Booster(growth.params | {"num_machines": int(network["num_machines"])}, train)
    if work.done > work.first and float(growth.params.get("feature_fraction", 1.0)) < 1.0:
        pass_feature_samples(booster, (work.done - work.first) * booster.num_model_per_iteration())
    return booster


def _add_to_first_tree(booster: Any, base: float) -> None:
    if booster.current_iteration() == 0:
        return
    for leaf in range(booster.dump_model(num_iteration=1)["tree_info"][0]["num_leaves"]):
        booster.set_leaf_output(0, leaf, booster.get_leaf_output(0, leaf) + base)


@contextmanager
def _connected(network: Mapping[str, Any]) -> Iterator[None]:
    """LightGBM's network between the workers, for the time of a round."""
    several = int(network["num_machines"]) > 1
    if several:
        with _without_chatter():
            connect(network)
    try:
        yield
    finally:
        if several:
            disconnect()


@contextmanager
def _without_chatter() -> Iterator[None]:
    """LightGBM prints that it listens, whatever its verbosity, and a local worker shares its output with the user.

    It does so from a thread of its own, past its callback for messages. So what is printed meanwhile is set aside, and
    all but LightGBM's lines are printed after it.
    """
    with _ASIDE_LOCK:
        if not _ASIDE:
            sys.stdout.flush()
            _ASIDE.append(CapturedStdout())
        _ASIDE[0].users += 1
    try:
        yield
    finally:
        with _ASIDE_LOCK:
            _ASIDE[0].users -= 1
            if _ASIDE[0].users == 0:
                _ASIDE.pop().end()


class CapturedStdout:
    """The standard output of this process, written to a file; ``users`` are the threads that want it so."""

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


_ASIDE_LOCK, _ASIDE = threading.Lock(), list[CapturedStdout]()


class GuardedObjective:
    """The objective of a worker's rows. After an error its gradients are 0: all workers must come to the round's end.

    ``total`` is the objective's value times the number of queries, which adds up over workers.
    """

    def __init__(self, work: RoundSpec, data: RankingData, threads: int):
        self.work, self.data, self.threads = work, data, threads
        self.failure: Failure | None = None
        self.objective: Objective | None = None

    def __call__(self, scores: Array, iteration: int) -> tuple[Array, Array]:
        if self.failure is None:
            try:
                if self.objective is None:
                    assert self.work.make is not None
                    self.objective = self.work.make(self.data, mean_weight=self.work.mean_weight, threads=self.threads)
                return self.objective(scores, iteration)
            except Exception as error:
                self.failure = Failure.of(error)
        return np.zeros_like(scores), np.zeros_like(scores)

    @property
    def total(self) -> float | None:
        value = getattr(self.objective, "value", None)
        return None if value is None else float(value) * self.data.n_queries


class BlockSample(QuerySample):
    """A share of the queries of all blocks: each is drawn or not by its place in its block, wherever that is.

    ``counts`` are the documents of the queries of each block here, by number, ``queries`` those numbers of queries of
    all blocks. At least one query is drawn of all.
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
        """Queries with numbers below this are drawn: the share, or the least number where none is below that."""
        if self.share * sum(self.queries) > SURELY_SOME:
            return self.share
        lowest = min(self._numbers_of(tree, block).min() for block in range(len(self.queries)) if self.queries[block])
        return max(self.share, float(np.nextafter(lowest, 2.0)))
