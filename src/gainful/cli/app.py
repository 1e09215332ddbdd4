"""All commands. A command imports what it needs when it runs, so that ``--help`` is fast."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Annotated, Any

import typer

from gainful.cli import (
    clicks,
    compare,
    convert_model,
    data,
    demo,
    distill,
    experiments,
    explain,
    export,
    interleaving,
    models,
    rankers,
    serve,
    tune,
)
from gainful.errors import ParameterError, UnknownNameError

TRUTH = ("true", "false", "yes", "no", "on", "off")

app = typer.Typer(
    name="gainful",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Learning to rank that optimises what you measure: train rankers, compare them honestly, use the winner.",
)


def _version(asked: bool) -> None:
    if asked:
        from gainful import __version__

        print(f"gainful {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


app.command("demo")(demo.demo)
app.command("compare")(compare.compare)
app.command("tune")(tune.tune)
app.command("train")(models.train)
app.command("predict")(models.predict)
app.command("evaluate")(models.evaluate)
app.command("distill")(distill.distill)
app.command("convert-model")(convert_model.convert_model)
app.command("export")(export.export)
app.command("explain")(explain.explain)
app.command("serve")(serve.serve)
app.add_typer(data.app, name="data")
app.add_typer(clicks.app, name="clicks")
app.add_typer(interleaving.app, name="interleave")
experiments.add_reproduce(app)
app.command("rankers")(rankers.rankers)
app.command("warm")(rankers.warm)


@cache
def command() -> Any:
    """All commands, for the parser."""
    made = typer.main.get_command(app)
    for flag in _flags(made):
        flag.metavar = ""  # Typer would print ``<bool>`` for an option that takes no value
    return made


def refuse_values_of_flags(made: Any, arguments: Sequence[str]) -> None:
    """Raise if a flag is given a truth value, which the parser would take for the next argument."""
    flags = {name: flag for flag in _flags(made) for name in (*flag.opts, *flag.secondary_opts)}
    for i, argument in enumerate(arguments):
        if argument == "--":
            return
        name, equals, value = argument.partition("=")
        if not equals:
            value = next(iter(arguments[i + 1 : i + 2]), "")
        if name in flags and (equals or value.lower() in TRUTH):
            others = flags[name].secondary_opts
            how = f"give {flags[name].opts[0]} or {others[0]}" if others else f"give {name} alone, or leave it out"
            raise ParameterError(f"{name} takes no value, was {name}{equals or ' '}{value}; {how}")


def explain_unknown_option(error: Any, arguments: Sequence[str]) -> str | None:
    """How to set a parameter that was given to ``train`` as an option; None for other mistakes."""
    from gainful.rankers import RANKERS

    option = getattr(error, "option_name", "")
    ranker = next((one for one in arguments if one in RANKERS), None)
    if not option or ranker is None or arguments[0] != "train":
        return None
    name, known = option.lstrip("-").replace("-", "_"), RANKERS[ranker].cls.parameters
    if name in known:
        return f"train has no option {option}; it is a parameter of {ranker}: use --set {name}=…"
    if error.possibilities:
        return None  # the parser names an option that was probably meant
    other = UnknownNameError.among("parameter", name, known, owner=ranker)
    return f"train has no option {option}, and {other}"


def _flags(made: Any, parent: typer.Context | None = None) -> Iterator[Any]:
    context = typer.Context(made, parent=parent, **made.context_settings)
    for inner in getattr(made, "commands", {}).values():
        yield from _flags(inner, context)
    for option in (*made.params, made.get_help_option(context)):
        if getattr(option, "is_flag", False):
            yield option
