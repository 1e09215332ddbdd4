"""Every loss on every model: the contestants of a grid, and the matrix they fill."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gainful.comparison.result import Comparison
from gainful.errors import ParameterError, UnknownNameError
from gainful.losses import LOSSES, Loss, loss
from gainful.parameters import split_outside_brackets
from gainful.rankers.base import Ranker
from gainful.rankers.registry import RANKERS

MODELS = {"linear": "linear", "trees": "boosted", "net": "neural"}
# Where all scores are equal some losses have no gradient; these settings begin elsewhere.
AWAY_FROM_FLAT: dict[str, dict[str, Any]] = {"linear": {"init": "regression"}, "trees": {"start_trees": 20}, "net": {}}
BETWEEN = " on "


def loss_grid(
    losses: str | Iterable[str | Loss] = "all",
    models: str | Iterable[str] = tuple(MODELS),
    settings: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Ranker]:
    """Label → unfitted ranker for every loss on every model, to be handed to :func:`gainful.compare`.

    Parameters
    ----------
    losses : "all" of ``gainful.LOSSES``, or names with or without parameters: ``"ranknet, lambda(k=10)"``
    models : of "linear", "trees" and "net"
    settings : further parameters of each model: ``{"trees": {"n_trees": 100}}``

    >>> import gainful
    >>> list(gainful.loss_grid("ranknet", "linear,trees"))
    ['ranknet on linear', 'ranknet on trees']
    """
    chosen = _losses(losses)
    names = _listed(models)
    for name in (*names, *(settings or {})):
        if name not in MODELS:
            raise UnknownNameError.among("model", name, MODELS)
    found: dict[str, Ranker] = {}
    for one in chosen:
        for name in names:
            start = AWAY_FROM_FLAT[name] if one.entry.flat else {}
            given = {**start, **(settings or {}).get(name, {})}
            found[f"{one}{BETWEEN}{name}"] = RANKERS[MODELS[name]].create(loss=str(one), **given)
    if not found:
        raise ParameterError("the grid is empty; name at least one loss and one model")
    return found


def _losses(losses: str | Iterable[str | Loss]) -> list[Loss]:
    if isinstance(losses, str):
        losses = list(LOSSES) if losses == "all" else split_outside_brackets(losses, ",")
    return list(dict.fromkeys(loss(one) for one in losses))


def _listed(models: str | Iterable[str]) -> list[str]:
    names = models.split(",") if isinstance(models, str) else models
    return list(dict.fromkeys(name.strip() for name in names))


@dataclass(frozen=True)
class LossMatrix:
    """What each loss reached on each model: mean of the headline measure and seconds of training, NaN where none."""

    losses: tuple[str, ...]
    models: tuple[str, ...]
    measure: str
    values: Any  # (n_losses, n_models)
    seconds: Any

    @classmethod
    def of(cls, comparison: Comparison) -> LossMatrix | None:
        """The matrix of a comparison of a grid, or None where it compares other things."""
        labels = [tuple(label.split(BETWEEN)) for label in comparison.labels]
        if not labels or any(len(label) != 2 or label[1] not in MODELS for label in labels):
            return None
        losses = tuple(dict.fromkeys(label[0] for label in labels))
        models = tuple(dict.fromkeys(label[1] for label in labels))
        values = np.full((len(losses), len(models)), np.nan)
        seconds = values.copy()
        headline = comparison.metrics[0]
        for i, one in enumerate(losses):
            for j, model in enumerate(models):
                runs = comparison.runs.get(f"{one}{BETWEEN}{model}", ())
                if runs:
                    values[i, j] = float(np.mean(np.concatenate([run.values[headline] for run in runs])))
                    seconds[i, j] = float(np.mean([run.fit_seconds for run in runs]))
        return cls(losses, models, headline.name, values, seconds)

    def to_dict(self) -> dict[str, Any]:
        return {
            "losses": self.losses,
            "models": self.models,
            "measure": self.measure,
            "values": self.values.tolist(),
            "seconds": self.seconds.tolist(),
        }

    def __str__(self) -> str:
        def cell(i: int, j: int) -> str:
            if np.isnan(self.values[i, j]):
                return "–"
            best = "*" if self.values[i, j] == np.nanmax(self.values) else " "
            return f"{self.values[i, j]:.4f}{best} {self.seconds[i, j]:7.2f} s"

        cells = [[cell(i, j) for j in range(len(self.models))] for i in range(len(self.losses))]
        return _aligned([["loss", *self.models], *([name, *row] for name, row in zip(self.losses, cells, strict=True))])


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[c]) for row in rows) for c in range(len(rows[0]))]
    lines = []
    for row in rows:
        head, *rest = (
            text.ljust(w) if c == 0 else text.rjust(w) for c, (text, w) in enumerate(zip(row, widths, strict=True))
        )
        lines.append("  ".join([head, *rest]).rstrip())
    return "\n".join(lines)
