"""``gainful reproduce``: the command of the ``reproduction`` folder, which a checkout has and a wheel does not."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from gainful.errors import GainfulError

CHECKOUT = Path(__file__).parents[3]


def add_reproduce(app: typer.Typer) -> None:
    """Add the command of the checkout around this package, or one that says that there is none."""
    if (CHECKOUT / "reproduction" / "command.py").is_file():
        sys.path.append(str(CHECKOUT))
        from reproduction.command import app as experiments

        app.add_typer(experiments, name="reproduce")
    else:
        any_arguments = {"allow_extra_args": True, "ignore_unknown_options": True}
        app.command("reproduce", context_settings=any_arguments)(_refuse)


def _refuse() -> None:
    """Run the papers' experiments again. Needs a checkout of gainful's repository."""
    raise GainfulError(
        "the papers' experiments are not part of the installed package; run gainful reproduce from a checkout of the "
        "repository (pip install -e .)"
    )
