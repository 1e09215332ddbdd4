"""All commands. What a command needs is imported when it runs, so that ``--help`` answers at once."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gainful.cli import compare, data, experiments, explain, export, models, rankers, serve, tune

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


app.command("compare")(compare.compare)
app.command("tune")(tune.tune)
app.command("train")(models.train)
app.command("predict")(models.predict)
app.command("evaluate")(models.evaluate)
app.command("export")(export.export)
app.command("explain")(explain.explain)
app.command("serve")(serve.serve)
app.add_typer(data.app, name="data")
experiments.add_reproduce(app)
app.command("rankers")(rankers.rankers)
app.command("warm")(rankers.warm)


def command() -> Any:
    """All commands as the parser takes them."""
    made = typer.main.get_command(app)
    _show_flags_as_flags(made)
    return made


def _show_flags_as_flags(made: Any, parent: typer.Context | None = None) -> None:
    """The help of an option that takes no value shows none: Typer would print ``<bool>``."""
    context = typer.Context(made, parent=parent, **made.context_settings)
    for inner in getattr(made, "commands", {}).values():
        _show_flags_as_flags(inner, context)
    for option in (*made.params, made.get_help_option(context)):
        if getattr(option, "is_flag", False):
            option.metavar = ""
