"""Trainings in a process of their own that are killed in the middle."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import gainful

FOREVER = 3600.0

# Trains every ranker of a JSON mapping in a thread of its own. Each says in a file when it is in its iteration LAST,
# and waits there to be killed. Run as: python -c CHILD TESTS FOLDER JSON LAST
CHILD = """
import json, pathlib, sys, threading, time
import gainful
sys.path.insert(0, sys.argv[1])
from killed_training import FOREVER, problem

folder, rankers, last = pathlib.Path(sys.argv[2]), json.loads(sys.argv[3]), int(sys.argv[4])
train, valid = problem()

def fit(name):
    def wait(event):
        if event.iteration == last:
            (folder / f"{name}.ready").touch()
            time.sleep(FOREVER)

    gainful.ranker(name, **rankers[name]).fit(
        train, eval_set=valid, progress=wait, checkpoint=folder / f"{name}.ckpt", checkpoint_every=0
    )

threads = [threading.Thread(target=fit, args=(name,)) for name in rankers]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def problem() -> tuple[gainful.RankingData, gainful.RankingData]:
    """Training and validation data, the same in every process."""
    data = gainful.make_artificial(70, n_docs=20, n_features=12, seed=4)
    train, valid = gainful.split(data, (0.7, 0.3), seed=1)
    return train, valid


def kill_in_the_middle(folder: Path, rankers: dict[str, dict], last: int, seconds: float = 120.0) -> None:
    """Start these trainings, and SIGKILL them once all wait in iteration ``last``. Checkpoints are NAME.ckpt."""
    arguments = [str(Path(__file__).parent), str(folder), json.dumps(rankers), str(last)]
    child = subprocess.Popen([sys.executable, "-c", CHILD, *arguments])
    until = time.monotonic() + seconds
    while not all((folder / f"{name}.ready").exists() for name in rankers):
        assert child.poll() is None, "the training ended by itself"
        assert time.monotonic() < until, "the training never came so far"
        time.sleep(0.02)
    child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL


def without_seconds(history: list[dict]) -> list[dict]:
    return [{name: value for name, value in row.items() if name != "seconds"} for row in history]


class Stop:
    """A progress callback that ends training after this many iterations, normally or as Ctrl-C would."""

    def __init__(self, last: int, interrupt: bool = False):
        self.last, self.interrupt = last, interrupt

    def __call__(self, event: gainful.Progress) -> bool:
        if self.interrupt and event.iteration == self.last:
            raise KeyboardInterrupt
        return event.iteration == self.last
