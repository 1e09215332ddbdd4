"""Running a comparison under the eyes of a person: bars, time left, Ctrl-C."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

from gainful.cli import INTERRUPTED, complain
from gainful.errors import GainfulError

if TYPE_CHECKING:
    from rich.progress import Progress

    from gainful.comparison import CompareProgress, ComparisonJob


def run_job(job: ComparisonJob, show: Callable[[], None]) -> None:
    """Run a comparison, then ``show`` what is finished. Leaves with the exit code of an interrupt after Ctrl-C."""
    from gainful.cli.console import progress_bars, run_interruptibly

    with progress_bars() as bars:  # owned by this thread, so that an interrupt leaves the terminal as it was
        interrupted, stuck = run_interruptibly(lambda stop: _run_with_bars(job, bars, stop))
    job.interrupted = job.interrupted or interrupted
    try:
        show()
    except GainfulError as error:
        if not job.interrupted:
            raise
        complain(str(error))
    if stuck:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(INTERRUPTED)  # a compiled kernel is still busy in its thread and cannot be stopped
    if job.interrupted:
        raise typer.Exit(INTERRUPTED)


def seconds_left(job: ComparisonJob) -> float | None:
    """What the remaining folds will take if every ranker needs what it needed so far; None within the first fold.

    Rankers differ by a factor of a thousand, so the pace of the last ones says nothing about the next.
    """
    workers = 1 if job.choosing is None else job.choosing.budget.n_jobs
    costs: dict[str, list[float]] = {label: [] for label in job.models if label not in job.failures}
    for run in job.runs:
        if run.label in costs:
            costs[run.label].append(run.fit_seconds + sum(row["seconds"] for row in run.trials) / workers)
    if not all(costs.values()):
        return None
    return sum((len(job.splits) - len(spent)) * sum(spent) / len(spent) for spent in costs.values())


def _run_with_bars(job: ComparisonJob, bars: Progress, stop: threading.Event) -> None:
    from gainful.cli.console import progress_note, say

    # A step is a fit: every trial, and the final training.
    trials = 0 if job.choosing is None else job.choosing.budget.trials or 0
    each = trials + 1
    runs = bars.add_task("rankers", total=len(job.splits) * len(job.models) * each, note="")
    current = bars.add_task("", total=None, note="", visible=False)

    def show(event: CompareProgress) -> bool:
        name = f"{event.ranker}, fold {event.fold + 1}" if event.n_folds > 1 else event.ranker
        done, note, training = event.finished_runs * each, "", event.training
        if event.tuning is not None:
            tuning, training = event.tuning, event.tuning.training
            done += min(tuning.finished, trials)
            name = f"{name}, trial {tuning.trial + 1}"
            note = "" if tuning.best is None else f"best {tuning.best:.4f}"
        elif training is not None:
            done += trials
        else:
            left = seconds_left(job)
            bars.update(runs, description="rankers" if left is None else f"rankers, {_about(left)}")
            if not bars.console.is_terminal:  # a log shows lines where a terminal shows bars
                verb = "tuning" if job.choosing is not None else "training"
                say(f"{verb} {name}" if left is None else f"{verb} {name}; {_about(left)}")
        bars.update(runs, completed=done, note=note)
        if training is None:
            bars.reset(current, description=name, total=None, note="", visible=True)
        else:
            note = progress_note(training)
            bars.update(current, description=name, completed=training.iteration, total=training.total, note=note)
        return stop.is_set()

    job.run(show)


def _about(seconds: float) -> str:
    return f"about {seconds / 60:.0f} min left" if seconds >= 90 else f"about {seconds:.0f} s left"
