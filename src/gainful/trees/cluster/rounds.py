"""The rounds of one training on a Dask cluster: taking turns, watching the workers, freeing stuck ones.

In a round the workers grow some trees together; ``lightgbm.dask`` finds out which worker holds which blocks, opens
ports and starts them. A worker that waits in LightGBM's network never returns by itself. So only one training at a time
has a network on a cluster; a network that does not form or loses a worker is abandoned, and the workers that wait in it
are restarted by their nannies. Loads LightGBM and Dask, so it is imported on use.
"""

from __future__ import annotations

import logging
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import distributed

from gainful.cluster.blocks import DaskBlocks
from gainful.cluster.clients import first_line
from gainful.data.blocks import PerBlock
from gainful.errors import ClusterError, ParameterError
from gainful.trees.cluster import workers
from gainful.trees.cluster.settings import MACHINES
from gainful.trees.lightgbm_library import lgb
from gainful.trees.lightgbm_private import train_on_dask

MOST_LOSSES = 3  # in a row, of the same round
LOOK_EVERY = 1.0  # seconds between two checks of which workers there are
ASK_EVERY = 10.0  # seconds between reports even if none is missing: a worker may have restarted at its old address
GRACE = 5.0  # seconds for workers to notice by themselves
NETWORK_SECONDS = 120.0  # for all workers of a round to join its network
RESTART_SECONDS = 30.0
TURN = "gainful-trees"  # name of the semaphore, on the scheduler, that allows a network
TURN_SECONDS = 1.0  # between two tries to get it

BETWEEN_WORKERS = re.compile("socket|binding port|connect", re.IGNORECASE)  # in LightGBM's messages

log = logging.getLogger(__name__)


class WorkerLost(Exception):
    """A round that cannot end, because a worker or a connection between workers is gone."""


class Rounds:
    """The rounds of the training ``key``. ``open`` until the last one has ended well."""

    def __init__(self, source: DaskBlocks, key: str, network: Mapping[str, Any]):
        self.source, self.key, self.network = source, key, dict(network)
        self.client = source.client
        self.number, self.complete, self.open = 0, False, False
        self._own: Any = None
        # not distributed.Lock: in older versions a client that dies never gives it back
        self._turn = distributed.Semaphore(1, TURN, scheduler_rpc=self.client.scheduler, loop=self.client.loop)
        self._asking = False

    def grow(self, scores: PerBlock, spec: workers.RoundSpec) -> tuple[workers.GrownTrees, list[dict[str, Any]]]:
        """The trees of a round and the report of each worker; the round is repeated if a worker is lost."""
        last: WorkerLost | None = None
        for _ in range(MOST_LOSSES):
            self._wait_for(scores)
            self._take_turn()
            try:
                grown = self._try(scores, spec)
            except WorkerLost as lost:
                last = lost
                log.warning("%s; growing trees %d to %d again", lost, spec.done + 1, spec.last)
                self._recover(lost)
            else:
                self.open = False
                self._end_turn()
                return grown
        raise ClusterError(
            f"trees {spec.done + 1} to {spec.last} did not grow in {MOST_LOSSES} rounds, the last time: {last}"
        ) from last

    def _wait_for(self, scores: PerBlock) -> None:
        """Wait until the scores exist: the round refers to them from another client, which may be ahead of this one."""
        if any(isinstance(part, distributed.Future) for part in scores.parts):
            self.source.map(_wait, scores)

    def _try(self, scores: PerBlock, spec: workers.RoundSpec) -> tuple[workers.GrownTrees, list[dict[str, Any]]]:
        self.number, self.complete, self.open = self.number + 1, False, True
        spec = replace(spec, round=self.number)
        attempt = Attempt(self._client(), self.source.data.parts, scores.parts, spec, self.network)
        self._watch(attempt)
        if attempt.error is not None:
            self._explain(attempt, attempt.error)
        assert attempt.grown is not None
        reports = self._reports_of_round()
        if not reports or len(reports) != reports[0]["machines"]:
            raise WorkerLost("a worker was lost at the end of a round")
        return attempt.grown, reports

    def _client(self) -> Any:
        """A client of our own: closing it takes back whatever a round has asked for."""
        if self._own is None:
            there = self.client
            self._own = distributed.Client(there.scheduler.address, security=there.security, set_as_default=False)
        return self._own

    # -- turns ---------------------------------------------------------------------------------------------------------

    def _take_turn(self) -> None:
        """Wait until no other training has a network: two of them would wait for each other's workers."""
        self._asking = True
        while not self._turn.acquire(timeout=TURN_SECONDS):
            pass
        self._asking = False

    def _end_turn(self) -> None:
        if self._asking:  # interrupted while waiting: the turn may still be granted
            time.sleep(1.5 * TURN_SECONDS)
            self._asking = False
        with suppress(Exception):  # it may have none, or the scheduler may be gone
            if self.client.status == "running":
                self._turn.release()

    # -- watching the workers ------------------------------------------------------------------------------------------

    def _watch(self, attempt: Attempt) -> None:
        """Wait for the round. LightGBM may wait for a lost worker for ever, so watch the workers meanwhile."""
        gone: set[str] = set()
        asked, short_since, begun = time.monotonic(), None, None
        attempt.start()
        while attempt.is_alive():
            attempt.join(LOOK_EVERY)
            gone |= attempt.before - set(self.client.nthreads())
            if not attempt.is_alive() or (not gone and time.monotonic() - asked < ASK_EVERY):
                continue
            asked, parts = time.monotonic(), self._reports_of_round()
            begun = begun or (asked if parts else None)
            if not self._is_short(parts, bool(gone)):
                short_since = None
            elif short_since is None:
                short_since = asked
            elif asked - short_since > GRACE:
                raise WorkerLost(f"worker {min(gone)} was lost" if gone else "a worker was lost and came back")
            if begun is not None and not self.complete and asked - begun > NETWORK_SECONDS:
                raise WorkerLost(f"the workers of a round did not come together in {NETWORK_SECONDS:g} seconds")

    def _is_short(self, parts: Sequence[Mapping[str, Any]], some_gone: bool) -> bool:
        """Whether workers that take part in this round are missing."""
        if not parts:
            return some_gone and not any(self.client.processing().values())  # else Dask still collects the data
        here, machines = len(parts), int(parts[0]["machines"])
        self.complete = self.complete or here >= machines
        return here < machines and (some_gone or self.complete)  # else one may be late, busy with something else

    def _reports_of_round(self) -> list[dict[str, Any]]:
        return [one for one in self._reports().values() if one["round"] == self.number]

    def _reports(self) -> dict[str, dict[str, Any]]:
        answers = self.client.run(workers.report, self.key, on_error="ignore")
        return {address: report for address, report in answers.items() if report is not None}

    def _explain(self, attempt: Attempt, error: BaseException) -> None:
        """Raise the error that a failed round stands for."""
        if isinstance(error, distributed.KilledWorker):
            raise error
        gone = attempt.before - set(self.client.nthreads())
        if gone:
            raise WorkerLost(f"worker {min(gone)} was lost") from error
        if _is_transient(error):
            raise WorkerLost(f"workers lost one another ({first_line(error)})") from error
        self._free(f"a round failed ({type(error).__name__}: {first_line(error)})", error)
        raise error

    # -- freeing workers -----------------------------------------------------------------------------------------------

    def _recover(self, lost: WorkerLost) -> None:
        """Free the workers that wait for a lost one."""
        self._close_own()
        self._free(str(lost), lost.__cause__)
        self._end_turn()
        try:
            self.client.wait_for_workers(1, timeout=RESTART_SECONDS)
        except TimeoutError as error:
            raise ClusterError(f"{lost}, and none is left") from error

    def _free(self, why: str, cause: BaseException | None, whole_may_stay: bool = False) -> None:
        """Restart the workers that do not return from LightGBM by themselves.

        ``whole_may_stay``: a round that is still running on all its workers may finish by itself.
        """
        self.open = False

        def stuck() -> list[str]:
            growing = {address: one for address, one in self._reports().items() if one["growing"]}
            whole = [one for one in growing.values() if one["machines"] == len(growing)]
            return [] if whole_may_stay and whole else list(growing)

        self._restart(stuck, why, cause)

    def _restart(self, stuck: Callable[[], list[str]], why: str, cause: BaseException | None) -> None:
        """Restart the workers that are still stuck after a while."""
        until = time.monotonic() + GRACE
        while found := stuck():
            if time.monotonic() > until:
                break
            time.sleep(0.2)
        if not found:
            return
        try:
            self.client.restart_workers(found, timeout=RESTART_SECONDS)
        except Exception as error:
            if not stuck():  # they are free; if none comes back, a later step reports it
                log.warning("%s", first_line(error))
                return
            raise ClusterError(
                f"{why}, and {found[0]}, which waits for others, could not be restarted "
                f"({first_line(error)}); restart the cluster"
            ) from cause or error

    def clear_orphans(self) -> None:
        """Drop what workers keep for trainings whose client is gone, and free those that still wait in one."""

        def known(dask_scheduler: Any) -> list[str]:  # inside, so that the scheduler need not load LightGBM
            return list(dask_scheduler.clients)

        def stuck() -> list[str]:
            answers = self.client.run(workers.drop_orphans, known_clients, on_error="ignore")
            growing = [(address, *one) for address, those in answers.items() for one in those or ()]
            together = {key: sum(key == other for _, other, _ in growing) for _, key, _ in growing}
            return sorted({address for address, key, machines in growing if together[key] < machines})

        known_clients = self.client.run_on_scheduler(known)
        self._restart(stuck, "a training whose client is gone left workers behind", None)

    def close(self) -> None:
        """Leave nothing on the workers, whatever has happened; a second Ctrl-C does not interrupt this."""
        with _ignore_interrupts():
            self._close_own()
            if self.open:
                try:
                    self._free("a round was not finished", None, whole_may_stay=True)
                except Exception as error:
                    log.warning("%s", first_line(error))
            self._end_turn()
            refreshing = getattr(self._turn, "refresh_callback", None)
            if refreshing is not None:  # else the client's event loop would keep calling it
                self.client.loop.add_callback(refreshing.stop)
            with suppress(Exception):
                self.client.run(workers.forget, self.key, on_error="ignore")

    def _close_own(self) -> None:
        if self._own is not None:
            with suppress(Exception):
                self._own.close(timeout=GRACE)
            self._own = None


def _wait(_: Any) -> None:
    """A task that ends when its argument exists."""


def _is_transient(error: BaseException) -> bool:
    """Whether another round may succeed: the error is about connections or lost keys, not about the objective."""
    if isinstance(error, lgb.basic.LightGBMError):
        return bool(BETWEEN_WORKERS.search(str(error)))
    return isinstance(error, distributed.CancelledError)


@contextmanager
def _ignore_interrupts() -> Iterator[None]:
    """Ignore Ctrl-C meanwhile. Only the main thread receives it, so other threads need nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class Attempt(threading.Thread):
    """One try at a round: ``lightgbm.dask`` runs in a thread of its own, so that this one can watch the workers."""

    def __init__(
        self,
        client: Any,
        blocks: Sequence[Any],
        scores: Sequence[Any],
        spec: workers.RoundSpec,
        network: Mapping[str, Any],
    ):
        super().__init__(daemon=True)
        self.client, self.blocks, self.scores, self.spec, self.network = client, blocks, scores, spec, dict(network)
        self.before = set(client.nthreads())
        self.held: tuple[Any, list[Any], list[Any]] = (None, [], [])
        self.grown: workers.GrownTrees | None = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            with self.client.as_current():  # lightgbm.dask waits with the current client, not the one it was given
                self.grown = self._train().grown
        except BaseException as error:
            self.error = error

    def _train(self) -> Any:
        data, labels = self._blocks_as_array()
        try:
            model = train_on_dask(
                client=self.client, data=data, label=labels, params=self.network, model_factory=workers.WorkerTrees
            )
        except KeyError:
            if not any(name in self.network for name in MACHINES):
                raise
            hosts = ", ".join(sorted(address.rpartition(":")[0].rpartition("/")[2] for address in self.before))
            raise ParameterError(
                "machines in engine_params must name a host and port for each worker that holds blocks, as "
                f'"host1:12400,host2:12400"; the workers are at {hosts}'
            ) from None
        # a future if a part failed
        return model.result() if isinstance(model, distributed.Future) else model

    def _blocks_as_array(self) -> tuple[Any, Any]:
        """The blocks as a Dask array, one row per block."""
        import dask.array
        from dask import delayed

        def ours(there: Any) -> Any:
            return distributed.Future(there.key, self.client) if isinstance(there, distributed.Future) else there

        spec = self.client.scatter(self.spec, hash=False)
        # a graph refers to futures by name; without these references they would be released
        self.held = spec, [ours(block) for block in self.blocks], [ours(scores) for scores in self.scores]
        part = delayed(workers.pack_block, pure=False)
        rows = [
            dask.array.from_delayed(part(i, block, scores, spec), (1, 1), dtype=object)
            for i, (block, scores) in enumerate(zip(*self.held[1:], strict=True))
        ]
        return dask.array.concatenate(rows), dask.array.zeros(len(rows), chunks=1)
