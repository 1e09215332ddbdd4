"""``gainful convert-model``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gainful.cli import options


def convert_model(
    model: Annotated[
        Path,
        typer.Argument(
            help="Model of LightGBM, XGBoost, CatBoost, RankLib, SVMrank or LIBLINEAR, or a list of weights.",
            show_default=False,
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Model file to write.", show_default=False)],
    json: options.Json = False,
) -> None:
    """Write a model of another library as a gainful model file, and say what it is."""
    from gainful.cli.console import key_value_table, print_json, say, stdout
    from gainful.cli.inputs import load_model
    from gainful.cli.models import refuse_overwriting
    from gainful.errors import plural
    from gainful.formats.files import refuse_unwritable
    from gainful.rankers.model_file import save

    refuse_overwriting("--output", output, {"MODEL": model})
    refuse_unwritable(output)
    fitted = load_model(model)
    save(fitted, output)
    about = dict(getattr(fitted, "training_", {}))
    names = getattr(fitted, "feature_names_in_", None)
    notes = about.pop("notes", [])
    facts: dict[str, Any] = {
        "model": str(output),
        "ranker": type(fitted).__name__,
        "maker": about.pop("maker", "gainful"),
        **{name: value for name, value in about.items() if isinstance(value, (str, int))},
        "features": fitted.n_features_in_,
        "feature_names": None if names is None else list(names),
    }
    if json:
        print_json(facts | {"notes": notes})
        return
    facts["features"] = plural(facts["features"], "feature") + ("" if names is None else ", with names")
    del facts["feature_names"]
    stdout().print(key_value_table(facts.items()))
    for note in notes:
        say(f"note: {note}")
