"""The process that runs cases: one after another, each with a limit of processor time and of memory."""

from __future__ import annotations

import faulthandler
import os
import re
import resource
import shutil
import signal
import tempfile
import time
import traceback
import warnings
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from fuzz.cases import Case, Target, Wholes, find_target
from fuzz.outcomes import Outcome, of_error, of_output, of_refusal, of_warning


@dataclass(frozen=True)
class Started:
    """Sent before a case runs."""

    number: int


@dataclass(frozen=True)
class Finished:
    """Sent after a case has run, with the case if it failed."""

    number: int
    outcome: Outcome
    seconds: float  # of processor time
    case: Case | None


@dataclass(frozen=True)
class Places:
    """The folder of a worker, and what it keeps there for the time after its death."""

    folder: Path

    @property
    def case(self) -> Path:
        return self.folder / "case"

    @property
    def log(self) -> Path:
        return self.folder / "faults"

    @property
    def output(self) -> Path:
        return self.folder / "output"


class Runner:
    """Runs cases in this process."""

    def __init__(self, folder: Path, *, limited: bool = True):
        self.places, self.limited = Places(folder), limited
        self._warm: set[str] = set()
        self._output = open(self.places.output, "w+b")  # noqa: SIM115  (lives as long as the process)
        if limited:
            self._log = open(self.places.log, "w")  # noqa: SIM115
            faulthandler.enable(self._log, all_threads=False)
            faulthandler.register(signal.SIGPROF, self._log, all_threads=False, chain=True)
            for descriptor in (1, 2):  # compiled libraries print; see _printed
                os.dup2(self._output.fileno(), descriptor)

    def run(self, case: Case) -> Outcome:
        """Keep the case where the parent finds it if this process dies, then use it."""
        target = find_target(case.target)
        if case.target not in self._warm:
            target.warm()
            self._warm.add(case.target)
            self._printed()
        self.places.case.write_bytes(case.to_bytes())
        with tempfile.TemporaryDirectory(dir=self.places.folder) as inner:
            path = Path(inner) / f"case{case.input.suffix}"
            path.write_bytes(case.input.content)
            return self._judge(target, path, case)

    def _judge(self, target: Target, path: Path, case: Case) -> Outcome:
        caught: list[Outcome] = []

        def note(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
            if not is_ours(category):
                caught.append(of_warning(category, str(message), traceback.extract_stack()))

        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = note
            outcome = self._use(target, path, case)
        printed = self._printed()
        if outcome.fails:
            return outcome
        if case.whole and outcome.kind == "refused":
            return of_refusal(outcome)
        if caught:
            return caught[0]
        return of_output(printed) if printed else outcome

    def _use(self, target: Target, path: Path, case: Case) -> Outcome:
        try:
            if self.limited:
                limit_memory(target.mebibytes)
                signal.setitimer(signal.ITIMER_PROF, target.seconds)
            target.use(path, case.input.options)
        except Exception as error:
            return of_error(error)
        finally:
            if self.limited:
                signal.setitimer(signal.ITIMER_PROF, 0)
                limit_memory(None)
        return Outcome("accepted")

    def _printed(self) -> str:
        """What was printed since the last call."""
        self._output.seek(0)
        text = self._output.read()
        self._output.seek(0)
        self._output.truncate()
        return KNOWN_OUTPUT.sub("", text.decode(errors="replace")).strip()


# LightGBM says so of models by other versions of it, too
KNOWN_OUTPUT = re.compile(r"\[LightGBM\] \[Warning\] Ignoring unrecognized parameter .* found in model string\.\s*")


def is_ours(category: type[Warning]) -> bool:
    """Whether gainful gives such warnings itself: of its own classes, or that a solver did not converge."""
    return category.__module__.startswith("gainful") or category.__name__ == "ConvergenceWarning"


def limit_memory(mebibytes: int | None) -> None:
    """Let the address space grow by this much from now on; None for no limit."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    if mebibytes is None:
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
        return
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (mebibytes << 20), hard))


def read_wholes(folder: Path) -> Wholes:
    return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.is_dir() else {}


def make_wholes(name: str, folder: Path) -> None:
    """The undamaged files of a target, in a folder of its own."""
    prepare = find_target(name).prepare
    assert prepare is not None
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as work:
        for file, content in prepare(Path(work)).items():
            (folder / file).write_bytes(content)


def work(folder: Path, wholes: Path, channel: Connection) -> None:
    """Run what arrives in the channel: a Case, or (target, seed, numbers), until None."""
    os.environ["OMP_NUM_THREADS"] = "1"  # threads that OpenMP cannot start within the limit would end the process
    runner = Runner(folder)
    known: dict[str, Wholes] = {}
    while (task := channel.recv()) is not None:
        for number, case in _cases(task, wholes, known):
            channel.send(Started(number))
            start = time.process_time()
            outcome = runner.run(case)
            seconds = time.process_time() - start
            channel.send(Finished(number, outcome, seconds, case if outcome.fails else None))
        channel.send(None)
    shutil.rmtree(folder, ignore_errors=True)


def _cases(task: Any, wholes: Path, known: dict[str, Wholes]) -> Any:
    if isinstance(task, Case):
        yield task.number, task
        return
    name, seed, numbers = task
    if name not in known:
        known[name] = read_wholes(wholes / name)
    target = find_target(name)
    for number in numbers:
        yield number, Case.make(name, target, seed, number, known[name])
