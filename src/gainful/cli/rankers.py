"""``gainful rankers`` and ``gainful warm``."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer

from gainful.cli import options


def rankers(
    name: Annotated[str | None, typer.Argument(help="Show this ranker and its parameters.", show_default=False)] = None,
    estimate: Annotated[
        str | None,
        typer.Option(
            "--estimate",
            metavar="rows=N,features=D,…",
            help="Estimate the time and memory of one training. Also takes docs_per_query, cores, grades, "
            "iterations, and parameters of the ranker.",
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """List the rankers, show the parameters of one, or estimate what training one costs."""
    from gainful.cli.console import print_json, stdout
    from gainful.errors import UnknownNameError
    from gainful.rankers import RANKERS

    if estimate is not None:
        _print_estimate(name, estimate, json)
        return
    if name is None:
        listed = [{"name": e.name, "kind": e.kind, "summary": e.summary} for e in RANKERS.values()]
        if json:
            print_json(listed)
        else:
            stdout().print(_table(listed))
        return
    if name not in RANKERS:
        raise UnknownNameError.among("ranker", name, RANKERS)
    entry = RANKERS[name]
    parameters = _parameters(entry)
    if json:
        print_json({"name": name, "summary": entry.summary, "paper": entry.paper, "parameters": parameters})
        return
    console = stdout()
    console.print(f"[bold]{name}[/bold]  {entry.summary}")
    if entry.paper:
        console.print(entry.paper, style="dim")
    shown = [{**p, "default": _text_of(p["default"])} for p in parameters]
    console.print(_table(shown))
    console.print(f"Set one with: gainful train {name} DATA -o MODEL --set {parameters[0]['parameter']}=…", style="dim")


def warm() -> None:
    """Compile the kernels ahead of time: for containers, servers and impatient users."""
    from gainful.cli.console import progress_bars, say
    from gainful.cli.warm import warm_kernels

    with progress_bars() as bars:
        task = bars.add_task("compiling kernels", total=None, note="")
        seconds = warm_kernels(lambda name, done, total: bars.update(task, completed=done, total=total, note=name))
    say(f"kernels are ready ({seconds:.1f} s)")


def _print_estimate(name: str | None, text: str, json: bool) -> None:
    from dataclasses import asdict

    from gainful.cli.console import print_json, stdout
    from gainful.costs import model as costs
    from gainful.errors import ParameterError, UnknownNameError
    from gainful.parameters.constraints import parse_setting, split_outside_brackets
    from gainful.rankers import RANKERS

    if name is None:
        raise ParameterError(
            "--estimate needs a ranker, as in gainful rankers lambdamart --estimate rows=1e6,features=136"
        )
    if name not in RANKERS:
        raise UnknownNameError.among("ranker", name, RANKERS)
    table = {**costs.SIZES, **RANKERS[name].cls.parameters}
    given = dict(parse_setting(name, table, part) for part in split_outside_brackets(text, ","))
    missing = [size for size in ("rows", "features") if size not in given]
    if missing:
        raise ParameterError(f"--estimate must give {missing[0]}=…, was {text!r}; for example rows=1e6,features=136")
    found = costs.estimate(name, **given)
    if json:
        print_json(asdict(found) | {"seconds": found.seconds})
    else:
        stdout().print(str(found), highlight=False, soft_wrap=True)


def _parameters(entry: Any) -> list[dict[str, Any]]:
    from gainful.tuning.tune import search_space

    defaults = {name: p.default for name, p in inspect.signature(entry.cls.__init__).parameters.items()}
    space = search_space(entry.create(), None, ())
    return [
        {
            "parameter": name,
            "default": entry.params.get(name, defaults[name]),
            "may be": constraint.expected(),
            "tuned within": str(space[name]) if name in space else "",
            "what it does": constraint.help,
        }
        for name, constraint in entry.cls.parameters.items()
    ]


def _text_of(default: Any) -> str:
    return default if isinstance(default, str) else repr(default)


def _table(rows: list[dict[str, str]]) -> Any:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for i, column in enumerate(rows[0]):
        table.add_column(column, no_wrap=i == 0, overflow="fold", style="bold" if i == 0 else None)
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row.values()))
    return table
