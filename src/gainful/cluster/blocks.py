"""``DaskBlocks``: tasks that run on the workers that hold the blocks.

Every block, and every value kept with it, is a future. A task runs where its arguments are; the answers of all blocks
come back together. When a worker is lost, Dask recomputes its futures on another one, from the file or graph they came
from. A kept value depends on its block alone, so it is never out of date. Sums are taken in this process, in block
order, so results depend neither on the number of workers nor on their speed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any

import cloudpickle
import distributed
import numpy as np
from dask.sizeof import sizeof
from distributed.protocol import register_serialization_family

from gainful.cluster.clients import first_line
from gainful.cluster.groups import Groups, each_alone, group_blocks, in_block_order, look_up, members, wire
from gainful.compute.threads import limit_threads
from gainful.data.blocks import PerBlock, Task, n_parts
from gainful.data.dataset import RankingData
from gainful.errors import ClusterError, GainfulError
from gainful.formats.files import forget_pages

LONG_ARGUMENTS = 1 << 16  # bytes: longer arguments are sent once and shared between workers, not sent with every task
SEND_SECONDS = 0.002  # between two messages of a client, as of a worker; Dask's own is 10 ms, as long as a short pass
LOOK_SECONDS = 1.0  # between two checks of a cluster that has not answered
PATIENCE_SECONDS = 30.0  # to wait without any worker
MOST_OF_MEMORY = 0.4  # of a worker's limit that pages of mapped files may take; Dask spills from 0.6 on
BYTES_PER_ROW = 64  # rough memory of a block whose features stay in a file
LONGEST_HISTORY = 40  # additions after which a vector is recomputed from scratch
ANSWERS = "gainful-answers"  # name of a serialization: of an answer alone, without the value beside it
LOST = (
    distributed.CancelledError,
    distributed.comm.CommClosedError,
    getattr(distributed.client, "ClosedClientError", ConnectionError),  # not in older versions
    ConnectionError,
)


class DaskBlocks:
    """Blocks on the workers of a cluster; each future holds a RankingData."""

    longest_history: float = LONGEST_HISTORY

    def __init__(self, client: Any, futures: Sequence[Any]):
        self.client = client
        self.data = PerBlock(tuple(futures))
        self.threads = threads_of_task(client, len(futures))
        self.bytes_sent = self.bytes_received = 0  # arguments sent, answers received
        self._known_groups: Groups | None = None
        client.scheduler_comm.interval = min(client.scheduler_comm.interval, SEND_SECONDS)

    def map(self, task: Task, *arguments: Any) -> list[Any]:
        groups = self._groups(n_parts(arguments))
        return self._receive(groups, gather(self.client, self._submit(_run_group, task, arguments, groups)))

    def map_resident(self, task: Task, *arguments: Any) -> PerBlock:
        n = n_parts(arguments)
        if any(argument is self.data for argument in arguments):
            self._known_groups = None  # a training begins; workers may have come or gone since the last one
            # Each on its own: it may be as large as its block, and Dask spills and moves whole results.
            return PerBlock(tuple(self._submit(_keep_block, task, arguments, each_alone(n))))
        groups = self._groups(n)
        return members(groups, self._submit(_keep_group, task, arguments, groups))

    def map_both(self, task: Task, *arguments: Any) -> tuple[list[Any], PerBlock]:
        groups = self._groups(n_parts(arguments))
        both = self._submit(_both_of_group, task, arguments, groups)
        return self._receive(groups, gather_here(self.client, both)), members(groups, both)

    def _groups(self, n: int) -> Groups:
        """The blocks of each task."""
        if n != len(self.data.parts):
            return each_alone(n)
        if self._known_groups is None:
            with plain_errors():
                where, threads = self.client.who_has(list(self.data.parts)), self.client.nthreads()
            holders = [where.get(future.key, ()) for future in self.data.parts]
            if not all(holders):
                return each_alone(n)  # some are not open yet
            self._known_groups = group_blocks(holders, threads)
        return self._known_groups

    def _submit(self, how: Callable[..., Any], task: Task, arguments: Sequence[Any], groups: Groups) -> list[Any]:
        """One future per group."""
        same, columns = _split(arguments)
        call = cloudpickle.dumps((task, same, self.threads))
        wired = [wire(columns, blocks) for blocks in groups]
        rows, futures = [cloudpickle.dumps(own) for own, _ in wired], [held for _, held in wired]
        is_long = len(call) > LONG_ARGUMENTS
        self.bytes_sent += len(call) * (1 if is_long else len(groups)) + sum(map(len, rows))
        name = getattr(task, "__name__", "task").strip("_")
        with plain_errors():
            sent = self.client.submit(_identity, call, pure=False) if is_long else call
            return list(self.client.map(how, [sent] * len(groups), rows, futures, key=name, pure=False))

    def _receive(self, groups: Groups, answers: list[Any]) -> list[Any]:
        ordered = in_block_order(groups, answers)
        self.bytes_received += int(sum(map(sizeof, ordered)))
        return ordered


# -- waiting -----------------------------------------------------------------------------------------------------------


def gather(client: Any, futures: list[Any]) -> list[Any]:
    """The results, fetched to this process. Tasks still pending when this ends, as after Ctrl-C, are cancelled."""
    try:
        return _wait_for(client, client.gather, futures)
    finally:
        _release(futures)


def gather_here(client: Any, both: list[Any]) -> list[Any]:
    """The first halves of :class:`Both`; the second halves stay where they are."""
    try:
        return _wait_for(client, partial(_fetch_here, client), both)
    except BaseException:
        _release(both)
        raise


def _release(futures: list[Any]) -> None:
    for future in futures:
        future.release()


def _wait_for(client: Any, fetch: Callable[..., Any], futures: list[Any]) -> list[Any]:
    with plain_errors():
        answers: list[Any] = client.sync(_watch, client, fetch, futures)
    return answers


async def _watch(client: Any, fetch: Callable[..., Any], futures: list[Any]) -> list[Any]:
    """The results of futures; raises if the cluster has no worker for too long."""
    waiting = asyncio.ensure_future(fetch(futures, asynchronous=True))
    waiting.add_done_callback(_mark_seen)  # it may be abandoned; then it ends when its futures are released
    deserted = None
    while not (await asyncio.wait({waiting}, timeout=LOOK_SECONDS))[0]:
        there = await client.scheduler.ncores_running()
        deserted = None if there else (deserted or monotonic())
        if deserted is not None and monotonic() - deserted > PATIENCE_SECONDS:
            raise ClusterError(f"the cluster has had no running worker for {PATIENCE_SECONDS:g} seconds")
    answers: list[Any] = waiting.result()
    return answers


async def _fetch_here(client: Any, both: list[Any], asynchronous: bool) -> list[Any]:
    """The first halves. ``client.gather`` would bring the second ones too, so we ask in its place.

    If an answer is missing, the usual way reports why or computes it again: a task that takes it out.
    """
    with client.as_current():
        await distributed.wait(both)
    keys = [future.key for future in both]
    if all(future.status == "finished" for future in both):
        reply = await client.scheduler.gather(keys=keys, deserializers=[ANSWERS, "dask", "pickle", "error"])
        if reply["status"] == "OK":
            return [_here(reply["data"][key]) for key in keys]
    taken = client.map(_here, both, key="answer", pure=False)
    try:
        answers: list[Any] = await client.gather(taken, asynchronous=asynchronous)
    finally:
        _release(taken)  # an error that is kept somewhere would hold them
    return answers


def _mark_seen(waiting: asyncio.Future[Any]) -> None:
    """Retrieve the exception, or Python would log that it was never retrieved."""
    if not waiting.cancelled():
        waiting.exception()


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn errors of Dask into one line; errors of the task itself pass unchanged."""
    try:
        yield
    except GainfulError:
        raise
    except Exception as error:
        plain = _plain_error(error)
        if plain is error:
            raise
        raise plain from error


def _plain_error(error: Exception) -> Exception:
    if isinstance(error, distributed.KilledWorker):
        return ClusterError(
            f"the cluster gave up: the same task killed several workers, most recently "
            f"{error.last_worker.address}; do workers have enough memory for a block?"
        )
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == "gainful":
        return ClusterError("a worker has no gainful or a different version; install the same version everywhere")
    if isinstance(error, LOST):
        return ClusterError(f"the connection to the Dask cluster is lost: {first_line(error)}")
    return error


# -- values kept on workers --------------------------------------------------------------------------------------------


class MappedBlock(RankingData):
    """A block whose features stay in a mapped file. Sent to another process, it is opened again there."""

    opening: tuple[Any, ...]
    pages: Any

    @classmethod
    def wrap(cls, opening: tuple[Any, ...], data: RankingData, pages: Any) -> RankingData:
        """``opening``: a function and its arguments that open the same block; ``pages``: the map."""
        shard = cls._build_unchecked(**{name: getattr(data, name) for name in data.__dataclass_fields__})
        object.__setattr__(shard, "opening", opening)
        object.__setattr__(shard, "pages", pages)
        return shard

    def __reduce__(self) -> tuple[Any, ...]:
        return self.opening[0], self.opening[1:]


class Rebuildable:
    """The result of a task on a block. Another process rebuilds it, as it may hold compiled loops or mapped files.

    Arrays can be sent unchanged and are not wrapped.
    """

    def __init__(self, value: Any, call: bytes, parts: tuple[Any, ...]):
        self.value, self.call, self.parts = value, call, parts

    def __reduce__(self) -> tuple[Any, ...]:
        return _keep, (self.call, *self.parts)

    def __sizeof__(self) -> int:
        return max((BYTES_PER_ROW * part.n_rows for part in self.parts if isinstance(part, RankingData)), default=64)


@dataclass(frozen=True)
class Both:
    """The answers of a group, and the values that stay with its blocks: ``both[i]`` is that of block i."""

    here: list[Any]
    there: list[Any]

    def __getitem__(self, position: int) -> Any:
        return self.there[position]


def _dump_here(pair: Any) -> tuple[dict[str, Any], list[bytes]]:
    if not isinstance(pair, Both):
        raise NotImplementedError  # to Dask: try the next serialization
    return {}, [cloudpickle.dumps(pair.here)]


def _load_here(header: dict[str, Any], frames: list[bytes]) -> Any:
    return cloudpickle.loads(b"".join(frames))


register_serialization_family(ANSWERS, _dump_here, _load_here)


@sizeof.register(RankingData)  # type: ignore[untyped-decorator]
def _size_of_data(data: RankingData) -> int:
    """Bytes in memory: Dask uses this to decide what to spill and move."""
    X = data.X
    features = 0 if isinstance(data, MappedBlock) else X.nbytes if isinstance(X, np.ndarray) else X.data.nbytes * 2
    return int(features + BYTES_PER_ROW * data.n_rows)


@sizeof.register(Both)  # type: ignore[untyped-decorator]
def _size_of_pair(pair: Both) -> int:
    return int(sizeof(pair.here) + sizeof(pair.there))


# -- on the worker -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Slot:
    """Placeholder for an argument that differs from block to block."""

    number: int


def _split(arguments: Sequence[Any]) -> tuple[tuple[Any, ...], list[tuple[Any, ...]]]:
    """The arguments common to all blocks, with a :class:`Slot` in place of each of the others, and those others."""
    same: list[Any] = []
    parts: list[tuple[Any, ...]] = []
    for argument in arguments:
        if not isinstance(argument, PerBlock):
            same.append(argument)
        elif _is_shared(argument):
            same.append(argument.parts[0])
        else:
            same.append(Slot(len(parts)))
            parts.append(argument.parts)
    return tuple(same), parts


def _is_shared(kept: PerBlock) -> bool:
    first = kept.parts[0]
    return not isinstance(first, distributed.Future) and all(part is first for part in kept.parts)


def _call(call: bytes, parts: tuple[Any, ...]) -> Any:
    task, same, threads = cloudpickle.loads(call)
    arguments = (_unwrap(parts[one.number]) if isinstance(one, Slot) else one for one in same)
    with limit_threads(threads):
        result = task(*arguments)
    _drop_pages(parts)
    return result


def _unwrap(part: Any) -> Any:
    return part.value if isinstance(part, Rebuildable) else part


def _keep(call: bytes, *parts: Any) -> Any:
    made = _call(call, parts)
    return made if isinstance(made, np.ndarray) else Rebuildable(made, call, parts)


def _parts_of_blocks(rows: bytes, results: list[Any]) -> Iterator[tuple[Any, ...]]:
    for row in cloudpickle.loads(rows):
        yield tuple(look_up(value, results) for value in row)


def _run_group(call: bytes, rows: bytes, results: list[Any]) -> list[Any]:
    answers = [_call(call, parts) for parts in _parts_of_blocks(rows, results)]
    # the client may not see the file
    return [answer.replace() if isinstance(answer, MappedBlock) else answer for answer in answers]


def _keep_group(call: bytes, rows: bytes, results: list[Any]) -> list[Any]:
    return [_keep(call, *parts) for parts in _parts_of_blocks(rows, results)]


def _keep_block(call: bytes, rows: bytes, results: list[Any]) -> Any:
    return _keep_group(call, rows, results)[0]


def _both_of_group(call: bytes, rows: bytes, results: list[Any]) -> Both:
    pairs = [_call(call, parts) for parts in _parts_of_blocks(rows, results)]
    return Both([here for here, _ in pairs], [there for _, there in pairs])


def _here(answers: Any) -> Any:
    """The answers alone; within one process they come with the rest, unserialized."""
    return answers.here if isinstance(answers, Both) else answers


def _identity(value: Any) -> Any:
    return value


def _drop_pages(parts: tuple[Any, ...]) -> None:
    """Drop mapped pages when they fill the worker's memory: Dask counts them, and would pause or kill the worker."""
    shards = [one for part in parts for one in (part.parts if isinstance(part, Rebuildable) else (part,))]
    shards = [one for one in shards if isinstance(one, MappedBlock)]
    if not shards:
        return
    try:
        manager = distributed.get_worker().memory_manager
    except ValueError:
        return  # not on a worker
    if manager.memory_limit and _resident() > MOST_OF_MEMORY * manager.memory_limit:
        for shard in shards:
            forget_pages(shard.pages, 0, len(shard.pages))


def _resident() -> int:
    """Resident memory of this process, in bytes."""
    import psutil

    return int(psutil.Process().memory_info().rss)


def threads_of_task(client: Any, n_blocks: int) -> int:
    """Threads for the loops inside a task: a worker's own, shared among the tasks it runs at once.

    Fixed by the data and the cluster it was opened on, since the last digits of a sum depend on it.
    """
    threads: list[int] = list(client.nthreads().values()) or [1]
    at_once = -(-n_blocks // len(threads))
    return max(1, min(threads) // max(1, at_once))
