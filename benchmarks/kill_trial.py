"""Kill commands at random moments and run them again: is the result that of an undisturbed run, and nothing left?

    python benchmarks/kill_trial.py --kills 200

Each command runs in a forked process in a folder of its own and gets SIGKILL at a random moment of the time it takes.
Then the same command runs again; half of the time it is killed again. After every kill, each output must be the old
file, the new one, or absent. At the end the result must have the bits of the undisturbed run, and the folder must hold
the files of the undisturbed run and no others. Every trial follows from its seed, except the moment that the machine
makes of it. Exits with 1 after a failure.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gainful
from gainful.cli import run

OUTPUT, ERRORS = "output.txt", "errors.txt"  # what a command prints
OLD = b"a file of the user's"
TIMES = {"seconds", "elapsed", "fit_seconds", "predict_seconds", "memory_bytes", "created"}
CHECKPOINT = "--checkpoint c --checkpoint-every 0"
TREES = "--set n_leaves=6 --set subsample=0.7"


@dataclass(frozen=True)
class Command:
    """A command line; ``result`` reads from its folder what must not depend on kills.

    ``refusal`` is its error where its result already exists, whole.
    """

    name: str
    line: str
    outputs: list[str]
    result: Callable[[Path], Any]
    refusal: str = ""

    @property
    def words(self) -> list[str]:
        return self.line.split()


@dataclass
class Count:
    """What happened to one command."""

    runs: int = 0
    kills: int = 0
    leftovers: int = 0  # kills after which a temporary file was left for the next run to remove
    resumed: int = 0  # runs that found something of an earlier one to start from
    failures: list[str] = field(default_factory=list)


def scores(folder: Path) -> bytes:
    """The scores of a model: all bits of what it learned."""
    return bytes(gainful.load(folder / "model").predict(gainful.read(folder / "data.txt")).tobytes())


def printed(folder: Path) -> Any:
    """What a command printed as JSON, without times and memory."""
    return _without_times(json.loads((folder / OUTPUT).read_text()))


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_times(item) for name, item in value.items() if name not in TIMES}
    return [_without_times(item) for item in value] if isinstance(value, list) else value


def contents(folder: Path) -> dict[str, bytes]:
    """The bytes of all files that the command wrote."""
    return {name: (folder / name).read_bytes() for name in files(folder) if name not in (OUTPUT, ERRORS)}


def files(folder: Path) -> list[str]:
    """All files and empty folders, by path."""
    found = [path for path in folder.rglob("*") if path.is_file() or not any(path.iterdir())]
    return sorted(str(path.relative_to(folder)) for path in found)


COMMANDS = [
    Command(
        "train (trees)", f"train lambdamart data.txt -o model {CHECKPOINT} {TREES} --set n_trees=150", ["model"], scores
    ),
    # with ranknet's solver: some others resume to rounding only, see docs/checkpoints.md
    Command("train (linear)", f"train ranknet data.txt -o model {CHECKPOINT} --set tol=1e-8", ["model"], scores),
    Command(
        "train (auto)",
        f"train auto data.txt -o model {CHECKPOINT} --trials 9 --set rankers=regression,listnet --set folds=3",
        ["model"],
        scores,
    ),
    Command(
        "tune",
        f"tune lambdamart data.txt -o model --trials 4 --store store --json {TREES} --set n_trees=20",
        ["model"],
        lambda folder: (scores(folder), printed(folder)),
    ),
    Command(
        "compare",
        "compare data.txt --rankers regression,lambdamart:n_trees=10 --folds 3 --store store --json",
        [],
        printed,
    ),
    Command("convert (file)", "data convert large.txt new.gnf", ["new.gnf"], contents),
    Command("convert (Parquet)", "data convert large.txt new.parquet", ["new.parquet"], contents),
    Command("convert (shards)", "data convert large.txt new --shard-rows 2000", [], contents, "already exists"),
    Command("export", "export trained -o new --to elasticsearch --check data.txt", ["new"], contents),
]


class Trial:
    """Kills of all commands, in a temporary folder."""

    def __init__(self, root: Path, seed: int, commands: list[Command]):
        self.root, self.random, self.commands = root, random.Random(seed), commands
        self.inputs, self.counts = root / "inputs", {command.name: Count() for command in commands}
        self.expected: dict[str, tuple[Any, list[str], dict[str, bytes]]] = {}
        self.seconds: dict[str, float] = {}
        self._prepare()

    def _prepare(self) -> None:
        """Make the inputs, and run every command once undisturbed."""
        self.inputs.mkdir()
        data = gainful.make_artificial(60, n_docs=20, n_features=10, seed=1)
        gainful.write(data, self.inputs / "data.txt")
        gainful.write(gainful.make_artificial(400, n_docs=20, n_features=10, seed=2), self.inputs / "large.txt")
        gainful.save(gainful.LambdaMART(n_trees=100, n_leaves=8, n_jobs=1).fit(data), self.inputs / "trained")
        for command in self.commands:
            folder, words = self._folder(command, old=False), command.words
            with chdir(folder), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as errors:
                assert run(words) == 0, errors.getvalue()  # children find everything loaded, and start at once
            folder = self._folder(command, old=False)
            began = time.monotonic()
            assert _run_forked(folder, words) == 0, (folder / ERRORS).read_text()
            self.seconds[command.name] = time.monotonic() - began
            outputs = {name: (folder / name).read_bytes() for name in command.outputs}
            self.expected[command.name] = command.result(folder), files(folder), outputs

    def _folder(self, command: Command, old: bool) -> Path:
        folder = self.root / "run"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.inputs, folder)
        if old:
            for name in command.outputs:
                (folder / name).write_bytes(OLD)
        return folder

    def kill_one(self, command: Command) -> None:
        """One run with one or more kills."""
        count = self.counts[command.name]
        folder = self._folder(command, old=self.random.random() < 0.5)
        count.runs += 1
        killed = False
        while not killed or self.random.random() < 0.5:
            moment = self.random.random() * 1.1 * self.seconds[command.name]
            if not _kill_after(folder, command.words, moment):
                if killed:
                    break
                folder = self._folder(command, old=False)  # it ended before: once more from the start
                continue
            killed = True
            count.kills += 1
            count.leftovers += any(".gainful-" in name for name in files(folder))
            self._check_outputs(command, folder)
        code = _run_forked(folder, command.words)
        errors = (folder / ERRORS).read_text()
        count.resumed += "resuming" in errors or (folder / "store").exists()
        if code != 0 and not (command.refusal and command.refusal in errors):  # a kill may come after its last step
            count.failures.append(f"exit code {code}: {errors}")
            return
        result, left, _ = self.expected[command.name]
        if command.result(folder) != result:
            count.failures.append("another result")
        if files(folder) != left:
            count.failures.append(f"files left: {sorted(set(files(folder)) ^ set(left))}")

    def _check_outputs(self, command: Command, folder: Path) -> None:
        for name, expected in self.expected[command.name][2].items():
            path = folder / name
            content = path.read_bytes() if path.exists() else None
            if content in (None, OLD) or (command.result is contents and content == expected):
                continue
            try:  # a model file differs by its times
                whole = command.result is not contents and scores(folder) is not None
            except gainful.GainfulError:
                whole = False
            if not whole:
                self.counts[command.name].failures.append(f"{name} is neither old nor new")


def _start(folder: Path, words: list[str]) -> int:
    """The process id of a forked child that runs a command."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        os.chdir(folder)
        for name, stream in ((OUTPUT, 1), (ERRORS, 2)):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
        code = run(words)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _run_forked(folder: Path, words: list[str]) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(_start(folder, words), 0)[1])


def _kill_after(folder: Path, words: list[str], seconds: float) -> bool:
    """Run a command and kill it; False if it had ended before."""
    child = _start(folder, words)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def table(counts: dict[str, Count]) -> str:
    lines = [f"{'command':<20}{'runs':>6}{'kills':>7}{'resumed':>9}{'leftovers':>11}{'failures':>10}"]
    for name, one in counts.items():
        lines.append(f"{name:<20}{one.runs:>6}{one.kills:>7}{one.resumed:>9}{one.leftovers:>11}{len(one.failures):>10}")
    kills, failures = sum(one.kills for one in counts.values()), sum(len(one.failures) for one in counts.values())
    return "\n".join([*lines, f"{kills} kills, {failures} failures"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200, help="number of kills over all commands")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="commands that begin so; default: all")
    given = parser.parse_args()
    commands = [command for command in COMMANDS if not given.only or command.name.startswith(tuple(given.only))]
    with tempfile.TemporaryDirectory(prefix="kill-trial-") as folder:
        trial = Trial(Path(folder), given.seed, commands)
        while sum(count.kills for count in trial.counts.values()) < given.kills:
            trial.kill_one(min(commands, key=lambda command: trial.counts[command.name].kills))
    print(table(trial.counts))
    failures = [f"{name}: {line}" for name, count in trial.counts.items() for line in count.failures]
    print("\n".join(failures), end="\n" if failures else "")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
