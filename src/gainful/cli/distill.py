"""``gainful distill``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gainful.cli import options
from gainful.cli.models import Model, refuse_overwriting

INTO, GRADES = "lambdamart", 0.5  # as in gainful.distill


def distill(
    model: Model,
    data: options.Data,
    output: Annotated[Path, typer.Option("--output", "-o", help="Model file to write.", show_default=False)],
    into: Annotated[
        str, typer.Option(metavar="RANKER", help="What to train, with settings as in lambdamart:n_trees=300.")
    ] = INTO,
    valid: Annotated[Path | None, typer.Option(help="Data that stops training early; default: no early stop.")] = None,
    test: Annotated[Path | None, typer.Option(help="Data on which to measure both models.")] = None,
    grades: Annotated[float, typer.Option(help="Share of the true grades in what is learnt, 0 to 1.")] = GRADES,
    metric: Annotated[
        str | None, typer.Option(help="What compares the models; default: the metric of MODEL.", show_default=False)
    ] = None,
    format: options.Format = None,
    merge: options.Merge = False,
    read: options.Read = None,
    memory_limit: options.MemoryLimit = None,
    json: options.Json = False,
) -> None:
    """Train one small model on the scores of a large one, such as a blend, and state what it loses."""
    from gainful.blending.distillation import distill as train_student
    from gainful.cli.console import key_value_table, print_json, progress_bars, stdout, training_bar
    from gainful.cli.inputs import load_data, load_model, read_options
    from gainful.formats.files import refuse_unwritable
    from gainful.rankers.model_file import save

    refuse_overwriting("--output", output, {"MODEL": model, "DATA": data, "--valid": valid, "--test": test})
    refuse_unwritable(output)
    teacher = load_model(model)
    how = read_options(format, merge, read, memory_limit)
    parts = {
        name: load_data(path, how, teacher)
        for name, path in {"data": data, "valid": valid, "test": test}.items()
        if path is not None
    }
    with progress_bars() as bars:
        found = train_student(
            teacher,
            parts["data"],
            into,
            valid=parts.get("valid"),
            test=parts.get("test"),
            grades=grades,
            measure=metric,
            progress=training_bar(bars, into),
        )
    where = "" if test is not None else " on data given for training"
    figures = {f"{found.metric} of the teacher{where}": found.teacher, f"{found.metric}{where}": found.student}
    save(found.model, output, metrics=figures)
    facts = {
        "model": str(output),
        "into": into,
        "queries": found.queries,
        "measured": found.quality.place + ("" if test is not None else "; give others with --test"),
        "teacher": found.teacher,
        "student": found.student,
        "difference": found.difference,
        "standard error": found.error,
    }
    if json:
        print_json(facts)
        return
    stdout().print(key_value_table(facts.items()))
