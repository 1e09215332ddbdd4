"""Every loss on every model: the rankers of a grid, and the matrix of their results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gainful.comparison.result import Comparison
from gainful.comparison.tables import seconds
from gainful.errors import ParameterError, UnknownNameError
from gainful.losses import LOSSES, Loss, loss
from gainful.parameters.constraints import split_outside_brackets
from gainful.rankers.base import Ranker
from gainful.rankers.registry import RANKERS
from gainful.report.parts import Cell, Table

MODELS = {"linear": "linear", "trees": "boosted", "net": "neural"}
# Some losses have no gradient where all scores are equal; these settings start elsewhere.
AWAY_FROM_FLAT: dict[str, dict[str, Any]] = {"linear": {"init": "regression"}, "trees": {"start_trees": 20}, "net": {}}
BETWEEN = " on "


def loss_grid(
    losses: str | Iterable[str | Loss] = "all",
    models: str | Iterable[str] | None = None,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Ranker]:
    """Label → unfitted ranker for every loss on every model, to pass to :func:`gainful.compare`.

    Parameters
    ----------
    losses : "all" of ``gainful.LOSSES``, or names with or without parameters: ``"ranknet, lambda(k=10)"``; a list may
        also hold your own losses
    models : some of "linear", "trees" and "net"; by default those installed
    settings : further parameters per model: ``{"trees": {"n_trees": 100}}``

    >>> import gainful
    >>> list(gainful.loss_grid("ranknet", "linear,trees"))
    ['ranknet on linear', 'ranknet on trees']
    """
    chosen = _losses(losses)
    names = (
        [name for name, ranker in MODELS.items() if RANKERS[ranker].installed]
        if models is None
        else _model_names(models)
    )
    for name in (*names, *(settings or {})):
        if name not in MODELS:
            raise UnknownNameError.among("model", name, MODELS)
    found: dict[str, Ranker] = {}
    for one in chosen:
        for name in names:
            start = AWAY_FROM_FLAT[name] if one.entry.flat else {}
            given = {**start, **(settings or {}).get(name, {})}
            written = str(one) if one.name in LOSSES else one  # your own loss has no text form
            found[f"{one}{BETWEEN}{name}"] = RANKERS[MODELS[name]].create(loss=written, **given)
    if not found:
        raise ParameterError("the grid is empty; name at least one loss and one model")
    return found


def _losses(losses: str | Iterable[str | Loss]) -> list[Loss]:
    if isinstance(losses, str):
        losses = list(LOSSES) if losses == "all" else _parts(split_outside_brackets(losses, ","))
    return list(dict.fromkeys(loss(one) for one in losses))


def _model_names(models: str | Iterable[str]) -> list[str]:
    names = _parts(models.split(",")) if isinstance(models, str) else models
    return list(dict.fromkeys(name.strip() for name in names))


def _parts(texts: Iterable[str]) -> list[str]:
    """The parts between commas that are not empty."""
    return [text for text in texts if text.strip()]


@dataclass(frozen=True)
class LossMatrix:
    """The result of each loss on each model: mean headline measure and seconds of training, NaN if missing."""

    losses: tuple[str, ...]
    models: tuple[str, ...]
    measure: str
    values: Any  # (n_losses, n_models)
    seconds: Any

    @classmethod
    def of(cls, comparison: Comparison) -> LossMatrix | None:
        """The matrix of a comparison of a grid, or None for any other comparison."""
        labels = [tuple(label.split(BETWEEN)) for label in comparison.labels]
        if not labels or any(len(label) != 2 or label[1] not in MODELS for label in labels):
            return None
        losses = tuple(dict.fromkeys(label[0] for label in labels))
        models = tuple(dict.fromkeys(label[1] for label in labels))
        values = np.full((len(losses), len(models)), np.nan)
        spent = values.copy()
        headline = comparison.metrics[0]
        for i, one in enumerate(losses):
            for j, model in enumerate(models):
                runs = comparison.runs.get(f"{one}{BETWEEN}{model}", ())
                if runs:
                    values[i, j] = comparison.mean(f"{one}{BETWEEN}{model}", comparison.headings[headline])
                    spent[i, j] = float(np.mean([run.fit_seconds for run in runs]))
        return cls(losses, models, headline.name, values, spent)

    def to_dict(self) -> dict[str, Any]:
        return {
            "losses": self.losses,
            "models": self.models,
            "measure": self.measure,
            "values": self.values.tolist(),
            "seconds": self.seconds.tolist(),
        }

    def table(self) -> Table:
        """One row per loss, with the mean and the seconds of one training for each model."""
        best = np.nanmax(self.values) if np.isfinite(self.values).any() else np.nan
        head = ["loss"]
        for model in self.models:
            head += [f"{self.measure} {model}", "fit"]
        rows = []
        for i, one in enumerate(self.losses):
            cells = [Cell(one, one)]
            for value, spent in zip(self.values[i], self.seconds[i], strict=True):
                if np.isnan(value):
                    cells += [Cell("–"), Cell("–")]
                else:
                    cells += [Cell(f"{value:.4f}", float(value), value == best), Cell(seconds(spent), float(spent))]
            rows.append(tuple(cells))
        return Table("Every loss on every model", tuple(head), tuple(rows))
