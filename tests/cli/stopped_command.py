"""A command in a process of its own that is stopped in the middle of its training."""

from __future__ import annotations

import signal
import subprocess

from prepared_python import PreparedPython

# The process signals itself in an iteration, and so neither too early nor too late: SIGNAL ITERATION WORDS…
SCRIPT = """
import os, signal, sys
from gainful.cli import run
import gainful.training.monitor
inner, seen = gainful.training.monitor.Monitor.step, []
def step(self, **told):
    stop = inner(self, **told)
    seen.append(1)
    if len(seen) == int(sys.argv[2]):
        os.kill(os.getpid(), int(sys.argv[1]))
    return stop
gainful.training.monitor.Monitor.step = step
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(run(sys.argv[3:]))
"""


def stopped_in_iteration(
    prepared: PreparedPython, iteration: int, how: signal.Signals, words: list
) -> subprocess.CompletedProcess[str]:
    return prepared.run(SCRIPT, [int(how), iteration, *words])
