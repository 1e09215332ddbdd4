"""Growing trees on a cluster: what each worker does.

A round is some trees that all workers grow together, each from the blocks of whole queries that it holds. LightGBM's
network joins their histograms; gradients need nothing from elsewhere. Between rounds a worker keeps its binned data.
Loads LightGBM, so it is imported on use.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from ctypes import c_char_p, c_int
from dataclasses import dataclass, field
from typing import Any

import lightgbm as lgb
import numpy as np
from distributed import get_worker

from gainful.blocks import LocalBlocks
from gainful.data import RankingData
from gainful.engines.common_bins import CommonBins
from gainful.engines.draws import QuerySample, pass_feature_samples
from gainful.engines.pieces import joined
from gainful.engines.trees import Growth, Objective, _dataset
from gainful.frames import CODES
from gainful.metrics import metric
from gainful.monitor import Monitor
from gainful.rows import Array
from gainful.sharded import ShardedData

Labels = Callable[[RankingData], Array]
Make = Callable[..., Objective]  # of data, mean_weight= and threads=


@dataclass(frozen=True)
class Work:
    """What the workers are told of a round, all the same.

    ``first`` trees were there before this training, ``done`` is the number of the last one tried and ``last`` that of
    the last one to try; ``start`` is the text of the trees so far.

    ``base``: LightGBM begins a regression with the mean label, and takes the mean of the workers' means for it; so it
    is told the true one, and the first tree has it added to its leaves, as it would do itself.
    """

    key: str
    round: int
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
    base: float | None = None  # what the first tree starts from


@dataclass(frozen=True)
class Part:
    """A block, with the raw scores of its rows by the trees so far."""

    number: int
    data: RankingData
    scores: Array | None
    work: Work


@dataclass
class Standing:
    """What a worker keeps from round to round, and what it tells of the last one."""

    numbers: tuple[int, ...]
    data: RankingData
    train: Any = None
    round: int = 0
    machines: int = 0
    growing: bool = False
    values: list[float | None] = field(default_factory=list)
    error: BaseException | None = None

    def report(self) -> dict[str, Any]:
        told = ("numbers", "round", "machines", "growing", "values", "error")
        about = {"rows": self.data.n_rows, "queries": self.data.n_queries}
        return {name: getattr(self, name) for name in told} | about


_STANDING: dict[tuple[str, str], Standing] = {}  # by worker, as several may live in one process, and by training


# -- asked by the client -----------------------------------------------------------------------------------------------


def report_of(key: str, dask_worker: Any = None) -> dict[str, Any] | None:
    """How far this worker is; None where it has no part in the training."""
    standing = _STANDING.get((dask_worker.address, key))
    return None if standing is None else standing.report()


def forget(key: str, dask_worker: Any = None) -> None:
    _STANDING.pop((dask_worker.address, key), None)


def as_part(number: int, data: RankingData, scores: Array | None, work: Work) -> Array:
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


def _standing_of(work: Work, parts: Sequence[Part]) -> Standing:
    here, numbers = str(get_worker().address), tuple(part.number for part in parts)
    there = _STANDING.get((here, work.key))
    if there is None or there.numbers != numbers:
        data = joined(ShardedData(LocalBlocks([part.data for part in parts])))
        there = _STANDING[here, work.key] = Standing(numbers, data)
    return there


def _grow(work: Work, parts: Sequence[Part], standing: Standing, network: Mapping[str, Any]) -> Grown:
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
        standing.values, standing.error = values, None if objective is None else objective.error
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
    work: Work, parts: Sequence[Part], data: RankingData, params: dict[str, Any], objective: Objective | None
) -> Growth:
    growth = Growth(data, params, Monitor(metric("ndcg@10")), objective, None)
    growth.first, growth.tree = work.first, work.done
    if growth.sample is not None:
        growth.sample = BlockSample([part.data for part in parts], [part.number for part in parts], params)
    return growth


def _binned(work: Work, data: RankingData, growth: Growth, bins: Any) -> Any:
    in_blocks = data.X.dtype in CODES
    weight = growth.first_weights()
    labels = work.labels(data)
    return _dataset(data, labels, growth.params, work.categorical, bins, in_blocks, growth, weight).construct()


def _booster(work: Work, parts: Sequence[Part], train: Any, growth: Growth, network: Mapping[str, Any]) -> Any:
    """A live booster that holds the trees so far."""
    if work.base is not None:
        train.set_init_score(np.full(train.num_data(), work.base))
    if work.start is not None:
        scores = [part.scores for part in parts if part.scores is not None]
        train.set_init_score(np.concatenate(scores).ravel(order="F"))  # one model after the other
        start = lgb.Booster(model_str=work.start)
        train._predictor = lgb.basic._InnerPredictor.from_booster(booster=start, pred_parameter={})
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
    library, check = lgb.basic._LIB, lgb.basic._safe_call  # type: ignore[attr-defined]
    several = int(network["num_machines"]) > 1
    if several:
        machines, port = c_char_p(str(network["machines"]).encode()), c_int(int(network["local_listen_port"]))
        about = machines, port, c_int(int(network["time_out"])), c_int(int(network["num_machines"]))
        with _stdout_to_stderr():
            check(library.LGBM_NetworkInit(*about))
    try:
        yield
    finally:
        if several:
            check(library.LGBM_NetworkFree())


@contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """LightGBM prints that it listens, whatever its verbosity; a local worker shares its output with the user."""
    with _OUTPUT:
        if not _KEPT:
            sys.stdout.flush()
            _KEPT.append(os.dup(1))
            os.dup2(2, 1)
        _KEPT.append(_KEPT[0])  # once for each thread that is inside
    try:
        yield
    finally:
        with _OUTPUT:
            if len(_KEPT) == 2:
                os.dup2(_KEPT[0], 1)
                os.close(_KEPT[0])
                _KEPT.clear()
            else:
                _KEPT.pop()


_OUTPUT, _KEPT = threading.Lock(), list[int]()


class GuardedObjective:
    """The objective of a worker's rows. After an error its gradients are 0: all workers must come to the round's end.

    ``total`` is the objective's value times the number of queries, which adds up over workers.
    """

    def __init__(self, work: Work, data: RankingData, threads: int):
        self.work, self.data, self.threads = work, data, threads
        self.error: BaseException | None = None
        self.objective: Objective | None = None

    def __call__(self, scores: Array, iteration: int) -> tuple[Array, Array]:
        if self.error is None:
            try:
                if self.objective is None:
                    assert self.work.make is not None
                    self.objective = self.work.make(self.data, mean_weight=self.work.mean_weight, threads=self.threads)
                return self.objective(scores, iteration)
            except Exception as error:
                self.error = error
        return np.zeros_like(scores), np.zeros_like(scores)

    @property
    def total(self) -> float | None:
        value = getattr(self.objective, "value", None)
        return None if value is None else float(value) * self.data.n_queries


class BlockSample(QuerySample):
    """A share of the queries of each block, the same on whichever worker the block is."""

    def __init__(self, blocks: Sequence[RankingData], numbers: Sequence[int], params: Mapping[str, Any]):
        share, seed = float(params["bagging_fraction"]), int(params["seed"])
        seeds = [int(np.random.SeedSequence([seed, number]).generate_state(1)[0]) for number in numbers]
        self.samples = [QuerySample(block, share, seed) for block, seed in zip(blocks, seeds, strict=True)]
        self.counts = np.concatenate([block.counts for block in blocks])

    def rows(self, tree: int) -> Array:
        return np.concatenate([sample.rows(tree) for sample in self.samples])
