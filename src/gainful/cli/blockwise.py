"""Scores and metrics block by block, so that neither the data nor the scores must fit into memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gainful.data.blocks import PerBlock, Task
from gainful.data.dataset import Dataset, RankingData
from gainful.data.judgments import Run
from gainful.data.rows import Array
from gainful.metrics import Metric

BLOCKS_AT_ONCE = 16  # on a cluster, to keep its workers busy


def scores_by_block(model: Any, rows: Dataset) -> Iterator[tuple[Array, Array]]:
    """Query ids and scores of each block, in the order of its rows."""
    return _by_block(rows, _score, model)


def runs_by_block(model: Any, rows: Dataset, tag: str) -> Iterator[Run]:
    """The run of each block: the documents of its queries with their scores."""
    return _by_block(rows, _run, model, tag)


def values_of_model(model: Any, rows: Dataset, metrics: Sequence[Metric]) -> list[Array]:
    """The value of each metric on every query."""
    return _concatenate(_by_block(rows, _values_of_model, model, list(metrics)))


def values_of_scores(scores: Array, rows: Dataset, metrics: Sequence[Metric]) -> list[Array]:
    """The same for scores in the order of the rows in the files."""
    own = PerBlock(tuple(np.split(scores, np.cumsum(rows.rows_by_block)[:-1])))
    return _concatenate(iter(rows.map(_values_of_scores, own, list(metrics))))


def _by_block(shards: Dataset, task: Task, *arguments: Any) -> Iterator[Any]:
    parts, step = shards.source.data.parts, 1 if shards.is_local else BLOCKS_AT_ONCE
    for i in range(0, len(parts), step):
        yield from shards.source.map(task, PerBlock(parts[i : i + step]), *arguments)


def _concatenate(blocks: Iterator[list[Array]]) -> list[Array]:
    return [np.concatenate(values) for values in zip(*blocks, strict=True)]


# -- tasks -------------------------------------------------------------------------------------------------------------


def _score(data: RankingData, model: Any) -> tuple[Array, Array]:
    return data.to_input_order(data.qid), data.to_input_order(model.predict(data))


def _run(data: RankingData, model: Any, tag: str) -> Run:
    return Run.from_scores(model.predict(data), data, tag)


def _values_of_model(data: RankingData, model: Any, metrics: list[Metric]) -> list[Array]:
    scores = data.add_init_scores(model.predict(data))
    return [np.asarray(one.per_query(scores, data)) for one in metrics]


def _values_of_scores(data: RankingData, scores: Array, metrics: list[Metric]) -> list[Array]:
    grouped = scores if data.input_order is None else scores[data.input_order]
    return [np.asarray(one.per_query(grouped, data)) for one in metrics]
