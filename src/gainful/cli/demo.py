"""``gainful demo``."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from gainful.comparison import Comparison
    from gainful.demo.experiment import Experiment, Ranked

WIDTH = 79
COLUMN = WIDTH // 2 - 1
NAME_WIDTH = COLUMN - 5
SHOWN_PLACES = 3


def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for the search page and the report.")] = Path(
        "gainful-demo"
    ),
    seconds: Annotated[
        float,
        typer.Option(
            help="Seconds that the ranker auto may train, which blends the best it finds; 0 leaves it out.", min=0
        ),
    ] = 15.0,
    seed: Annotated[int, typer.Option(help="Seed for dividing the searches.", min=0)] = 0,
    browser: Annotated[
        bool | None,
        typer.Option("--open/--no-open", help="Open the search page. Default: if there is a browser and a terminal."),
    ] = None,
) -> None:
    """Build a search engine for Python's own documentation, and compare learned rankings with BM25.

    Gathers the documentation of the standard library on this machine, trains rankers, tests them against tuned BM25 on
    searches that none of them has seen, and writes a page where you can search yourself. About a minute; no network.
    """
    from gainful.cli.console import say, status, stdout, watch_compilation
    from gainful.cli.jobs import comparison_bars, run_with_progress
    from gainful.comparison.contestants import contestants
    from gainful.demo.corpus import SearchCorpus
    from gainful.demo.experiment import RANKERS, Experiment
    from gainful.formats.files import prepare_folder

    begun = time.monotonic()
    prepare_folder(out)
    console = stdout()
    say("1 of 3: reading the documentation of Python's standard library")
    with status("reading the documentation"):
        for model in contestants(RANKERS).values():
            model._check_parameters()
        found = Experiment.prepare(SearchCorpus.gather(), seed)
    console.print(found.about(), width=WIDTH)
    say("2 of 3: training rankers, and choosing the weights of BM25")
    watch_compilation()

    def show(comparison: Comparison) -> None:
        say("3 of 3: writing the search page and the report")
        show_result(found, comparison, out, lambda one: console.print(one, width=WIDTH))
        if may_open(browser):
            import webbrowser

            webbrowser.open((out / "search.html").resolve().as_uri())
        say(f"{time.monotonic() - begun:.0f} seconds in all")

    run_with_progress(lambda progress: found.run(seconds, progress), comparison_bars, show)


def may_open(asked: bool | None) -> bool:
    """Whether to open a browser: as asked, or else if somebody sits before a screen that can show one."""
    if asked is not None:
        return asked
    if not sys.stdout.isatty() or "SSH_CONNECTION" in os.environ:
        return False
    if sys.platform in ("win32", "darwin"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def show_result(found: Experiment, comparison: Comparison, out: Path, show: Callable[[Any], None]) -> None:
    """Print the verdict, the figures and three searches, and write both pages."""
    from rich.text import Text

    from gainful.cli.console import say
    from gainful.demo.experiment import BM25, SHOWN, tally, verdict

    if not {BM25, SHOWN} <= set(comparison.labels):
        say("stopped before there was anything to show")
        return
    show("")
    show(Text(verdict(comparison), style="bold"))
    show("")
    show(figures(comparison))
    show(Text("NDCG@10 rates the first ten results, from 0 to 1. BM25 is the usual search formula.", style="dim"))
    show("")
    show(f"{tally(comparison)} Examples, among all documents:")
    for number, one in enumerate(found.examples(), 1):
        show("")
        show(example(found, one, number))
    page, report = found.write(comparison, out)
    show("")
    show(Text(f"Search yourself:  {page}\nAll figures:      {report}\nOpen these files in a browser.", no_wrap=True))


def figures(comparison: Comparison) -> RenderableType:
    """One line per ranking: how often it is right, and its gain over BM25."""
    from rich.table import Table
    from rich.text import Text

    from gainful.demo.experiment import BM25, FIRST, HEADLINE, TOP3

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("\nranking", no_wrap=True)
    for title in ("answer\nfirst", "answer in\nfirst 3", "\nNDCG@10", "gain over tuned\nBM25 (95 %)"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    words = {1: Text("better", style="green"), -1: Text("worse", style="red"), 0: Text("undecided", style="dim")}
    for label in comparison.by_mean:
        row: list[Any] = [label, *(f"{100 * comparison.mean(label, one):.0f} %" for one in (FIRST, TOP3))]
        row.append(f"{comparison.mean(label, HEADLINE):.3f}")
        if label == BM25:
            row += ["", ""]
        else:
            low, high = comparison.paired_tests[label, HEADLINE].interval
            row += [f"{low:+.3f} to {high:+.3f}", words[comparison.verdict(label, HEADLINE)]]
        table.add_row(*row)
    return table


def example(found: Experiment, one: Ranked, number: int) -> RenderableType:
    """One search before and after, and why the right answer moved."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from gainful.demo.experiment import SHOWN

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    for title in ("BM25", f"learned ({SHOWN})"):
        table.add_column(title, width=COLUMN, no_wrap=True)
    lists = [one.order(scores) for scores in (one.bm25, one.learned)]
    for place in range(min(SHOWN_PLACES, len(one.names))):
        table.add_row(*(_line(names[place], place + 1, one.target) for names in lists))
    before, after = one.place(one.bm25), one.place(one.learned)
    if max(before, after) > SHOWN_PLACES:
        table.add_row(*(_line(one.target, p, one.target) if p > SHOWN_PLACES else Text("") for p in (before, after)))
    rival, reasons = found.reasons(one)
    where = "above" if after < one.order(one.learned).index(rival) + 1 else "below"
    why = "; ".join(f"{words} ({share:+.2f})" for words, share in reasons).replace("-", "−")
    became = "became better" if after < before else "became worse"
    return Group(
        Text(f"Search {number}, which {became} (★ right answer):"),
        Text(f"“{one.text}”", style="bold"),
        table,
        Text(f"Why ★ is now {where} {rival}: {why}.", style="dim"),
    )


def _line(name: str, place: int, target: str) -> Any:
    from rich.text import Text

    mark = "★" if name == target else " "
    short = name if len(name) <= NAME_WIDTH else f"…{name[1 - NAME_WIDTH :]}"  # the end of a name says most
    return Text(f"{place:>2} {mark} {short}", style="green" if name == target else "")
