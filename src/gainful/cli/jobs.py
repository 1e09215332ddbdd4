"""Run a comparison or a search with progress bars and the time left, to its end or until Ctrl-C."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import typer

from gainful.cli import INTERRUPTED, complain
from gainful.cli.console import progress_bars, run_interruptibly, say, show_warnings_as_lines
from gainful.comparison.baselines import Baseline
from gainful.errors import GainfulError

if TYPE_CHECKING:
    from rich.progress import Progress

    from gainful.comparison import CompareProgress, ComparisonJob
    from gainful.tuning import TuneProgress

Draw = Callable[[Any], None]  # shows one progress event


def run_with_progress(
    call: Callable[[Callable[[Any], bool]], Any], start: Callable[[Progress], Draw], show: Callable[[Any], None]
) -> None:
    """Run ``call(progress)`` in a thread under progress bars, then ``show`` its result.

    After Ctrl-C the call has a second to return. If compiled code keeps it busy for longer, ``show`` gets what has
    finished, and the process exits without waiting. After Ctrl-C the exit code is always that of an interrupt.
    """
    stop = threading.Event()
    job = result = None

    def work(event: threading.Event) -> None:
        nonlocal stop, result
        stop = event
        result = call(progress)

    def progress(event: Any) -> bool:
        nonlocal job
        job = event.job
        draw(event)
        return stop.is_set()

    stuck = False
    try:
        with progress_bars() as bars, show_warnings_as_lines():  # owned by this thread, so that Ctrl-C closes them
            draw = start(bars)
            _, stuck = run_interruptibly(work)
        if not stuck:
            show(result)
        elif job is not None:
            show(job.result(interrupted=True))
    except GainfulError as error:
        if not stop.is_set():
            raise
        complain(str(error))
    if stuck:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(INTERRUPTED)  # a compiled kernel is still busy in its thread and cannot be stopped
    if stop.is_set():
        raise typer.Exit(INTERRUPTED)


# -- comparisons -------------------------------------------------------------------------------------------------------


def comparison_bars(
    bars: Progress, first: str = "", begin: Callable[[ComparisonJob], None] = lambda job: None
) -> Callable[[CompareProgress], None]:
    """Bars for all rankers and for the current one. ``first`` is shown until training starts, which calls ``begin``."""
    runs = bars.add_task("rankers", total=None, note="", visible=False)
    current = bars.add_task(first, total=None, note="", visible=bool(first))
    started = False

    def draw(event: CompareProgress) -> None:
        nonlocal started
        job = event.job
        assert job is not None
        if not started:
            started = True
            begin(job)
        # A step is one fit: each trial, and the final training.
        trials = 0 if job.plan is None else job.plan.budget.trials or 0
        steps = trials + 1
        name = f"{event.ranker}, fold {event.fold + 1}" if event.n_folds > 1 else event.ranker
        done, note, training = event.finished_runs * steps, "", event.training
        if event.tuning is not None:
            tuning, training = event.tuning, event.tuning.training
            done += min(tuning.finished, trials)
            name = f"{name}, trial {tuning.trial + 1}"
            note = tuning.note
        elif training is not None:
            done += trials
        else:
            left = seconds_left(job)
            bars.update(runs, description="rankers" if left is None else f"rankers, {_time_left(left)}")
            if not bars.console.is_terminal:  # a log gets lines instead of bars
                verb = _verb(job, event.ranker)
                say(f"{verb} {name}" if left is None else f"{verb} {name}; {_time_left(left)}")
        bars.update(runs, completed=done, total=event.n_folds * event.n_rankers * steps, note=note, visible=True)
        _draw_training(bars, current, name, training)

    return draw


def seconds_left(job: ComparisonJob) -> float | None:
    """Time for the remaining folds if each ranker takes as long as before; None within the first fold.

    Rankers differ a thousandfold in cost, so the pace of the last ones says nothing about the next.
    """
    trials_at_once = max(1, job.n_jobs // job.workers)
    costs: dict[str, list[float]] = {label: [] for label in job.models if label not in job.failures}
    for run in job.runs:
        if run.label in costs:
            costs[run.label].append(run.fit_seconds + sum(row["seconds"] for row in run.trials) / trials_at_once)
    if not all(costs.values()):
        return None
    return sum((len(job.splits) - len(spent)) * sum(spent) / len(spent) for spent in costs.values()) / job.workers


def _verb(job: ComparisonJob, label: str) -> str:
    model = job.models[label]
    if isinstance(model, Baseline):
        return "training" if model.trained_here else "scoring"
    return "training" if job.plan is None else "tuning"


def _time_left(seconds: float) -> str:
    return f"about {seconds / 60:.0f} min left" if seconds >= 90 else f"about {seconds:.0f} s left"


# -- searches ----------------------------------------------------------------------------------------------------------


def search_bars(bars: Progress, ranker: str, first: str) -> Callable[[TuneProgress], None]:
    """Bars for all trials and for the current one. ``first`` is shown until the first trial begins."""
    overall = bars.add_task(ranker, total=None, note="", visible=False)
    current = bars.add_task(first, total=None, note="")
    logged: set[int] = set()

    def draw(event: TuneProgress) -> None:
        note = event.note
        bars.update(overall, completed=event.finished, total=event.n_trials, note=note, visible=True)
        if event.training is None and not bars.console.is_terminal and event.finished not in logged:
            logged.add(event.finished)  # a log gets lines instead of bars, and not for every trial
            if event.finished in (0, 1) or event.finished % 10 == 0 or event.finished == event.n_trials:
                of = "" if event.n_trials is None else f" of {event.n_trials}"
                say(f"tuning {ranker}: {event.finished}{of} trials{', ' + note if note else ''}")
        name = "training with the best parameters" if event.refit else f"trial {event.trial + 1}"
        _draw_training(bars, current, name, event.training)

    return draw


def _draw_training(bars: Progress, task: Any, name: str, training: Any) -> None:
    if training is None:
        bars.reset(task, description=name, total=None, note="", visible=True)
    else:
        bars.update(task, description=name, completed=training.iteration, total=training.total, note=training.note)
