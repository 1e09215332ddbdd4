"""Worker processes: each gets some cases at a time; one that dies or hangs is replaced and the rest goes on."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fuzz.cases import Case, find_target
from fuzz.outcomes import Outcome, of_exit
from fuzz.worker import Finished, Places, Started, make_wholes, work

PATIENCE = 30.0  # seconds without any computing, after which a case is taken to wait for ever
LAST_WORDS = 10.0  # seconds to write where a hanging case hangs
Task = tuple[str, int, list[int]]  # target, seed, numbers

# A server forks the workers: it has imported gainful, but started no threads, so that each worker starts quickly.
CONTEXT = multiprocessing.get_context("forkserver")


@dataclass
class Result:
    """A case that has run; ``case`` itself only if it failed."""

    target: str
    number: int
    outcome: Outcome
    seconds: float
    case: Case | None = None


@dataclass
class Worker:
    """A process and what it is doing."""

    process: Any
    channel: Any
    places: Places
    task: Any = None
    number: int | None = None  # of the case that runs
    since: float = field(default_factory=time.monotonic)  # it was last seen to do something
    ticks: int = 0  # of the processor until then
    killed: bool = False

    def give(self, task: Any) -> None:
        self.task, self.number, self.since = task, None, time.monotonic()
        self.channel.send(task)

    def is_computing(self) -> bool:
        """Whether it has used the processor since the last call, however little a busy machine gave it."""
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            return True
        before, self.ticks = self.ticks, int(fields[11]) + int(fields[12])
        return self.ticks > before

    @property
    def target(self) -> str:
        return str(self.task.target if isinstance(self.task, Case) else self.task[0])


class Pool:
    """Workers in ``folder``. Use :func:`open_pool`."""

    def __init__(self, folder: Path, jobs: int, patience: float):
        self.patience = patience
        self.folder, self.wholes = folder, folder / "wholes"
        self.jobs, self.workers = jobs, list[Worker]()

    def prepare(self, names: list[str]) -> None:
        """Make the undamaged files of these targets, in processes that end with it."""
        for name in names:
            if find_target(name).prepare is None:
                continue
            process = CONTEXT.Process(target=make_wholes, args=(name, self.wholes / name))
            process.start()
            process.join()
            if process.exitcode != 0:
                raise SystemExit(f"the undamaged files of {name} could not be made")

    def run(self, next_task: Callable[[], Any]) -> Iterator[Result]:
        """The results of all tasks that ``next_task`` gives, until it gives None."""
        while True:
            self._hand_out(next_task)
            busy = {worker.channel: worker for worker in self.workers if worker.task is not None}
            if not busy:
                return
            for channel in multiprocessing.connection.wait(list(busy), timeout=1.0):
                yield from self._receive(busy[channel])
            for worker in busy.values():
                self._watch(worker)

    def _hand_out(self, next_task: Callable[[], Any]) -> None:
        for worker in self.workers:
            if worker.task is None and (task := next_task()) is not None:
                worker.give(task)
        while len(self.workers) < self.jobs and (task := next_task()) is not None:
            self._start(task)

    def _start(self, task: Any) -> None:
        mine, theirs = CONTEXT.Pipe()
        places = Places(Path(tempfile.mkdtemp(dir=self.folder)))
        process = CONTEXT.Process(target=work, args=(places.folder, self.wholes, theirs), daemon=False)
        process.start()
        theirs.close()
        worker = Worker(process, mine, places)
        self.workers.append(worker)
        worker.give(task)

    def _receive(self, worker: Worker) -> Iterator[Result]:
        try:
            message = worker.channel.recv()
        except (EOFError, ConnectionResetError):
            yield self._bury(worker)
            return
        worker.since = time.monotonic()
        if isinstance(message, Started):
            worker.number = message.number
        elif isinstance(message, Finished):
            worker.number = None
            yield Result(worker.target, message.number, message.outcome, message.seconds, message.case)
        else:
            worker.task = None

    def _bury(self, worker: Worker) -> Result:
        """The result of the case that ended its worker; another worker gets the cases after it."""
        worker.process.join()
        self.workers.remove(worker)
        log = worker.places.log.read_text()
        if worker.number is None:  # not a case, but the fuzzer itself is at fault
            raise SystemExit(f"a worker failed between two cases\n{worker.places.output.read_text()}{log}")
        case = Case.from_bytes(worker.places.case.read_bytes())
        shutil.rmtree(worker.places.folder, ignore_errors=True)
        outcome = of_exit(worker.process.exitcode, log, killed=worker.killed)
        if not isinstance(worker.task, Case):
            name, seed, numbers = worker.task
            rest = numbers[numbers.index(worker.number) + 1 :]
            if rest:
                self._start((name, seed, rest))
        return Result(worker.target, worker.number, outcome, time.monotonic() - worker.since, case)

    def _watch(self, worker: Worker) -> None:
        """End a worker whose case waits for something that does not come."""
        if worker.task is None or worker.number is None:
            return
        if worker.is_computing():
            worker.since = time.monotonic()
        waited = time.monotonic() - worker.since - self.patience
        if waited > LAST_WORDS:
            worker.process.kill()
        elif waited > 0 and not worker.killed:
            worker.killed = True
            os.kill(worker.process.pid, signal.SIGABRT)  # faulthandler then writes where it was

    def close(self) -> None:
        for worker in self.workers:
            if worker.task is None:
                worker.channel.send(None)
            else:
                worker.process.kill()
        for worker in self.workers:
            worker.process.join()


@contextmanager
def open_pool(jobs: int, patience: float = PATIENCE) -> Iterator[Pool]:
    CONTEXT.set_forkserver_preload(["fuzz.preload"])
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        pool = Pool(Path(folder), jobs, patience)
        try:
            yield pool
        finally:
            pool.close()


def run_one(pool: Pool, case: Case) -> Result:
    """One case in a worker."""
    waiting = [case]
    return next(iter(list(pool.run(lambda: waiting.pop() if waiting else None))))
