"""A ranker for a notebook: what was set, what training found, and all parameters folded away."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gainful.display import html
from gainful.errors import plural, shorten
from gainful.metrics.conventions import show
from gainful.statistics.quality import Quality

if TYPE_CHECKING:
    from gainful.rankers.base import Ranker


def html_of(model: Ranker) -> str:
    """The name, parameters that differ from the defaults, and facts of the training."""
    values = model.get_params(deep=False)
    usual = {name: one.default for name, one in inspect.signature(type(model)).parameters.items()}
    changed = [f"{name}={shorten(value)}" for name, value in values.items() if repr(value) != repr(usual.get(name))]
    helps = {name: constraint.help for name, constraint in model.parameters.items()}
    all_rows = [(name, shorten(value), helps.get(name, "")) for name, value in values.items()]
    table = html.table(("parameter", "value", "what it does"), all_rows, left=(0, 1, 2))
    is_fitted = hasattr(model, "n_features_in_")
    rows = [("parameters", ", ".join(changed) or "as by default"), *(_fitted_facts(model) if is_fitted else ())]
    board = getattr(model, "leaderboard_", None)
    return html.frame(
        type(model).__name__,
        html.facts(rows),
        "" if board is None else html.Markup(board._repr_html_()),
        html.folded(f"all {len(values)} parameters", table),
        about="" if is_fitted else "not trained yet",
    )


def _fitted_facts(model: Ranker) -> Iterator[tuple[str, Any]]:
    training = getattr(model, "training_", {})
    names = getattr(model, "feature_names_in_", None)
    if "queries" in training:
        yield "trained on", f"{training['queries']:,} queries, {training['rows']:,} documents"
    yield "features", f"{model.n_features_in_:,}" + ("" if names is None else f": {html.first_of(names)}")
    if getattr(model, "n_iter_", 0):
        yield "iterations", f"{model.n_iter_:,}" + (" (interrupted)" if model.interrupted_ else "")
    reached = validation_quality(model)
    if reached is not None:
        yield reached.metric, f"{reached.figure} {reached.place}"
    for name, value in getattr(model, "metrics_", {}).items():
        yield f"{name} when saved", html.figure(value)
    for name, value in model._facts().items():
        yield name, show(value)


def validation_quality(model: Ranker) -> Quality | None:
    """What a model reached on its validation data; None without any."""
    facts = getattr(model, "training_", {}).get("validation")
    known = [row["validation"] for row in model.history_ if row.get("validation") is not None]
    if facts is None or (facts["best"] is None and not known):
        return None
    best = max(known) if facts["best"] is None else facts["best"]
    name = str(facts["metric"]).partition("(")[0]
    on = f"{plural(facts['queries'], 'validation query', 'validation queries')}, iteration {facts['iteration']:,}"
    return Quality(name, best, on, "choosing the iteration" if len(known) > 1 else "")
