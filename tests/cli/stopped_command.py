"""A command in a process of its own that is stopped in the middle of its training."""

from __future__ import annotations

import signal
import subprocess

from prepared_python import PreparedPython

# A training in a thread goes on when the main thread has noticed the signal and set the event that stops it:
# beside busy processes it could otherwise end first.
SEND = """
import os, threading
noticed, set_event = threading.Event(), threading.Event.set
def set_and_notice(self):
    set_event(self)
    if threading.get_ident() == threading.main_thread().ident:  # current_thread itself sets events
        set_event(noticed)
threading.Event.set = set_and_notice
def send(how):
    os.kill(os.getpid(), how)
    if threading.current_thread() is not threading.main_thread():
        noticed.wait(60)
"""

# The process signals itself in an iteration, and so neither too early nor too late: SIGNAL ITERATION WORDS…
SCRIPT = """
import signal, sys
from gainful.cli import run
import gainful.training.monitor
inner, seen = gainful.training.monitor.Monitor.step, []
def step(self, **told):
    stop = inner(self, **told)
    seen.append(1)
    if len(seen) == int(sys.argv[2]):
        send(int(sys.argv[1]))
    return stop
gainful.training.monitor.Monitor.step = step
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(run(sys.argv[3:]))
"""


def stopped_in_iteration(
    prepared: PreparedPython, iteration: int, how: signal.Signals, words: list
) -> subprocess.CompletedProcess[str]:
    return prepared.run(SEND + SCRIPT, [int(how), iteration, *words])
