"""Growing trees on a Dask cluster, in rounds (:mod:`gainful.trees.cluster.rounds`).

After a round the trees come back, the validation blocks are scored tree by tree where they are, and a checkpoint may
be written. Loads LightGBM and Dask, so it is imported on use.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from gainful.cluster.blocks import plain_errors
from gainful.cluster.clients import first_line
from gainful.data.blocks import PerBlock
from gainful.data.dataset import Dataset, RankingData
from gainful.data.query_weights import mean_weight
from gainful.data.rows import Array
from gainful.errors import ClusterError, GainfulError, ParameterError
from gainful.metrics.value import mean_over_queries
from gainful.training.monitor import Monitor
from gainful.trees.cluster import workers
from gainful.trees.cluster.rounds import Rounds
from gainful.trees.cluster.settings import network_of
from gainful.trees.grow import check_saved_trees, draws_at_random
from gainful.trees.lightgbm_library import lgb
from gainful.trees.lightgbm_private import log_to
from gainful.trees.objective import GradientSize, natural_scale
from gainful.trees.objective_factory import Labels, ObjectiveFactory
from gainful.trees.query_sampling import refuse_unresumable
from gainful.trees.row_chunks import in_chunks
from gainful.trees.shared_bins import SharedBins, find_bins
from gainful.trees.sums import ToScores, add_trees, measure_trees, softmax, start_scores

ROUND_TREES = 25

log = logging.getLogger(__name__)


def grow_on_cluster(
    data: Dataset,
    labels: Labels,
    n_trees: int,
    params: dict[str, Any],
    monitor: Monitor,
    *,
    factory: ObjectiveFactory | None = None,
    categorical: Sequence[int] = (),
    exact_bins: bool = False,
    start: Any = None,
    to_scores: ToScores | None = None,
    threads: int | None = None,
) -> tuple[Any, float | None]:
    """A booster of at most ``n_trees`` iterations, and the scale of the gradients if it was found here.

    Parameters
    ----------
    data : blocks on a cluster
    labels : of a block, (n_rows,): what LightGBM's own objectives see
    factory : gradients from gainful; without it ``params`` names an objective of LightGBM's
    categorical, exact_bins, start, to_scores : as in :func:`gainful.trees.grow.grow_trees`
    threads : per worker; None for as many as Dask gave it
    """
    monitor.total = n_trees
    network = network_of(params)
    growth = ClusterGrowth(data, labels, params, network, monitor, factory, start, threads)
    growth.to_scores = to_scores or _identity
    with log_to(log), growth.clear_errors():
        growth.rounds.clear_orphans()
        growth.find_bins(categorical, exact_bins)
        if start is None and factory is not None and not growth.bins.can_split:
            # LightGBM accepts no gradients for trees without a split: no trees, and all scores are 0
            return growth.empty_booster(), None
        with monitor:
            growth.run(n_trees)
        growth.save_if_interrupted()
        return growth.booster(), growth.scale


class ClusterGrowth:
    """The state of a training on a cluster; trees are numbered from 1, including those of ``start``.

    ``trees`` is the text of all trees so far, ``tree`` the number of the last one tried. ``scores`` and
    ``valid_scores`` are the raw scores of the rows by these trees, kept with the blocks.
    """

    bins: SharedBins
    to_scores: ToScores

    def __init__(
        self,
        data: Dataset,
        labels: Labels,
        params: dict[str, Any],
        network: dict[str, Any],
        monitor: Monitor,
        factory: ObjectiveFactory | None,
        start: Any,
        threads: int | None,
    ):
        self.data, self.labels = data, labels
        self.monitor, self.factory, self.threads = monitor, factory, threads
        self.valid = None if monitor.valid is None else in_chunks(monitor.valid)
        self.key = uuid.uuid4().hex
        self.rounds = Rounds(data.source, self.key, network)  # type: ignore[arg-type]
        self.first = 0 if start is None else start.current_iteration()
        self.trees: str | None = None if start is None else start.model_to_string()
        self.tree, self.ended = self.first, False
        self.scale: float | None = None
        self.seed = (int(params["seed"]) + self.first) % 2**31
        self._resume()
        self.params = params | {"seed": self.seed} | ({} if factory is None else {"objective": "none"})
        # with 0 LightGBM may split off a leaf whose estimated number of documents is 0, and stop there
        self.params["min_data_in_leaf"] = max(1, int(params["min_data_in_leaf"]))
        self.scores = self._start_scores(data)
        self.valid_scores = None if self.valid is None else self._start_scores(self.valid)
        self.age = 0  # rounds since the scores were last computed from scratch

    def _start_scores(self, data: Dataset) -> PerBlock:
        if self.trees is None:
            return PerBlock((None,) * data.n_blocks)
        return data.map_resident(start_scores, self.trees)

    def find_bins(self, categorical: Sequence[int], exact: bool) -> None:
        self.categorical = tuple(categorical)
        self.bins = find_bins(self.data, self.params, categorical, exact)

    # -- the loop ------------------------------------------------------------------------------------------------------

    def run(self, n_trees: int) -> None:
        """Grow round after round, until there are enough trees or no better ones."""
        while self.tree < n_trees and not self.ended and not self.monitor.out_of_patience:
            self._find_scale()
            grown = self._round(self._end_of_round(n_trees))
            if self._take(*grown):
                return
            self.save_if_due()

    def _end_of_round(self, n_trees: int) -> int:
        last = min(self.tree + ROUND_TREES, n_trees)
        if self.factory is not None and self.factory.scale_from is not None:
            return min(last, self.factory.scale_from - 1)
        return last

    def _find_scale(self) -> None:
        """Set the scale, over all blocks, if the next tree is the one that sets it."""
        if self.factory is None or self.factory.scale_from is None or self.tree + 1 < self.factory.scale_from:
            return
        sizes = self.data.map(_gradient_size, self.scores, self.factory, self._mean_weight(), self.tree + 1)
        total = sizes[0]
        for size in sizes[1:]:
            total = total + size
        self._set_scale(natural_scale(total))

    def _set_scale(self, scale: float) -> None:
        assert self.factory is not None
        self.scale, self.factory = scale, self.factory.with_scale(scale)

    def _mean_weight(self) -> float:
        return mean_weight(self.data)

    def _take(self, grown: workers.GrownTrees, values: Sequence[float | None]) -> bool:
        """Add the trees of a round, and measure them one by one. True when training should stop."""
        self.ended = grown.ended
        if not grown.numbers:
            self.tree = self.spec.last
            return False
        self.trees, before = grown.trees, len(self.monitor.history)
        booster = lgb.Booster(model_str=grown.trees)
        new = booster.model_to_string(start_iteration=before, num_iteration=len(grown.numbers))
        measures = self._validate(new, len(grown.numbers))
        for number, value, validation in zip(grown.numbers, values, measures, strict=True):
            self.tree = number
            if self.monitor.step(objective=value, validation=validation):
                return True
        self.tree = self.spec.last
        self._add(new)
        return False

    def _add(self, new: str) -> None:
        """Update the scores of the training rows, without an ever longer chain of additions."""
        self.age += 1
        if self.age > self.data.source.longest_history:
            self.scores, self.age = self._start_scores(self.data), 0
        else:
            self.scores = self.data.map_resident(add_trees, self.scores, new)

    def _validate(self, new: str, n: int) -> Sequence[float | None]:
        """The validation metric after each of ``n`` new trees."""
        if self.valid is None:
            return [None] * n
        source = self.valid.source
        to_scores = RawToScores(self.to_scores, self.params["objective"] == "multiclass")
        arguments = source.data, self.valid_scores, new, self.monitor.metric, to_scores
        values, self.valid_scores = source.map_both(measure_trees, *arguments)
        if self.age + 1 > source.longest_history:
            self.valid_scores = self._start_scores(self.valid)
        weights = self.valid.query_weights
        return [mean_over_queries(row, weights) for row in np.concatenate(values, axis=1)]

    # -- a round -------------------------------------------------------------------------------------------------------

    def _round(self, last: int) -> tuple[workers.GrownTrees, Sequence[float | None]]:
        """Trees up to number ``last``, and the objective at each."""
        self.spec = self._round_spec(last)
        grown, reports = self.rounds.grow(self.scores, self.spec)
        for report in reports:
            if report["failure"] is not None:
                raise report["failure"].error()
        return grown, self._values(reports)

    def _round_spec(self, last: int) -> workers.RoundSpec:
        params = self.params
        if _restarts_each_round(params):
            # LightGBM's random draws start over with each round's booster; another seed avoids drawing the same again
            params = params | {"seed": (self.seed + self.tree) % 2**31}
        changes = self.factory is not None and self.factory.changes
        return workers.RoundSpec(
            key=self.key,
            client=self.rounds.client.id,
            params=params,
            bins=self.bins,
            labels=self.labels,
            make=None if self.factory is None else self.factory.make,
            mean_weight=self._mean_weight(),
            categorical=self.categorical,
            start=self.trees,
            first=self.first,
            done=self.tree,
            last=last,
            threads=self.threads,
            another_may_split=draws_at_random(params) or changes,
            queries=self.data.queries_by_block,
            base=self._base(),
        )

    def _base(self) -> float | None:
        """The mean label, if a regression starts from it."""
        begins = self.params["objective"] == "regression" and self.params.get("boost_from_average", True)
        if self.trees is not None or not begins:
            return None
        sums = self.data.map(_label_sums, self.labels)
        labels, weights = np.sum(sums, axis=0)
        return float(labels / weights) if weights > 0 else 0.0

    def _values(self, reports: Sequence[Mapping[str, Any]]) -> list[float | None]:
        """The objective at each tree, from the sums over each worker's queries."""
        by_tree = zip(*(report["values"] for report in reports), strict=True)
        return [None if None in sums else sum(sums) / self.data.n_queries for sums in by_tree]

    @contextmanager
    def clear_errors(self) -> Iterator[None]:
        """Whatever happens, leave nothing on the workers, save a checkpoint, and report errors in one line."""
        try:
            with plain_errors():
                yield
        except BaseException as error:
            self._save()
            if isinstance(error, lgb.basic.LightGBMError):
                raise GainfulError(f"LightGBM: {error}") from error
            if _is_lost_connection(error):
                raise ClusterError(f"the connection to the Dask cluster is lost: {first_line(error)}") from error
            raise
        finally:
            self.rounds.close()

    # -- results -------------------------------------------------------------------------------------------------------

    def booster(self) -> Any:
        """The trees that were measured."""
        n = len(self.monitor.history)
        if self.trees is None or n == 0:
            return self.empty_booster()
        return lgb.Booster(model_str=lgb.Booster(model_str=self.trees).model_to_string(num_iteration=n))

    def empty_booster(self) -> Any:
        params = {**self.params, **self.bins.params}
        return lgb.Booster(params, self.bins.dataset(params))

    # -- checkpoints ---------------------------------------------------------------------------------------------------

    def _resume(self) -> None:
        found = None if self.monitor.checkpoint is None else self.monitor.checkpoint.state
        if found is None:
            return
        assert self.monitor.checkpoint is not None
        with self.monitor.checkpoint.restoring():
            self.monitor.restore(found["monitor"])
            check_saved_trees(found, self.monitor, self.data.n_features)
            self.tree, self.trees, self.seed = int(found["tree"]), found["trees"], int(found["seed"])
            scale = (found["objective"] or {}).get("scale")
            if scale is not None and self.factory is not None and self.factory.scale_from is not None:
                self._set_scale(float(scale))

    def save_if_due(self) -> None:
        if self.monitor.checkpoint is not None and self.monitor.checkpoint.due():
            self._save()

    def save_if_interrupted(self) -> None:
        if self.monitor.interrupted:
            self._save()

    def _save(self) -> None:
        if self.monitor.checkpoint is None or not self.monitor.history:
            return
        self.monitor.checkpoint.save(
            {
                "trees": self.booster().model_to_string(),
                "tree": self.tree,
                "seed": self.seed,
                "objective": None if self.scale is None else {"scale": self.scale},
                "monitor": self.monitor.record(),
            }
        )


class RawToScores:
    """Turns raw scores into one score per row."""

    def __init__(self, to_scores: ToScores, has_classes: bool):
        self.to_scores, self.has_classes = to_scores, has_classes

    def __call__(self, raw: Array) -> Array:
        return self.to_scores(softmax(raw) if self.has_classes else raw)


def _identity(predicted: Array) -> Array:
    return predicted


def _gradient_size(
    data: RankingData, scores: Array | None, factory: ObjectiveFactory, mean_weight: float, tree: int
) -> GradientSize:
    objective: Any = factory.make(data, mean_weight=mean_weight, threads=1)
    size: GradientSize = objective.gradient_size(np.zeros(data.n_rows) if scores is None else scores, tree)
    return size


def _label_sums(data: RankingData, labels: Labels) -> tuple[float, float]:
    """Σ of weight times label, and of weights; LightGBM holds labels in float32."""
    y = np.asarray(labels(data), dtype=np.float32).astype(np.float64)
    weights = np.ones(data.n_rows) if data.row_weights is None else data.row_weights
    return float(weights @ y), float(weights.sum())


def _restarts_each_round(params: Mapping[str, Any]) -> bool:
    """Whether a booster of LightGBM has random draws or a state that the next round's booster does not continue."""
    try:
        refuse_unresumable(params, "")
    except ParameterError:
        return True
    return False


def _is_lost_connection(error: BaseException) -> bool:
    """Whether it means that the scheduler is gone. Errors of files have an errno."""
    return isinstance(error, TimeoutError) or (isinstance(error, OSError) and error.errno is None)
