"""The report on a click log: clicks by position, and how well click models explain them on pages they have not seen."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from html import escape
from typing import Any

import numpy as np

import gainful
from gainful.clicks.index import moving_share
from gainful.clicks.intervals import share_intervals
from gainful.clicks.log import ClickLog
from gainful.clicks.models import LEAST_MOVING, ClickEvaluation, ClickModel, fixed_order_text
from gainful.clicks.rates import COEC, DocumentCTR, GlobalCTR, RankCTR
from gainful.clicks.registry import CLICK_MODELS, click_model
from gainful.data.rows import Array
from gainful.errors import DataError, ParameterError, plural
from gainful.formats.files import write_text
from gainful.parameters.constraints import Integer, Real, check_parameters
from gainful.persistence.jsonable import plain
from gainful.report import plots
from gainful.report.page import Section, html_page
from gainful.report.parts import Cell, Table, definitions, details, figure, html_table, notices, toggles

MODELS = ("rank-ctr", "pbm", "cascade", "dcm", "dbn", "ubm")
RATES = (GlobalCTR, RankCTR, DocumentCTR, COEC)  # they know nothing of examination
BINS = 10
RESAMPLED_PAGES = 20_000  # of a longer log, this many are resampled, and the deviation is scaled
FEW_CLICKS = 100  # on held-out pages: fewer say little about perplexity
MOST_POSITIONS = 50  # in tables
SETTINGS = {
    "held_out": Real(low=0.0, high=1.0, open_low=True, open_high=True),
    "resamples": Integer(low=0, high=1000),
    "level": Real(low=0.0, high=1.0, open_low=True, open_high=True),
}


@dataclass(frozen=True)
class Bin:
    """Rows of similar predictions: the mean prediction, and the share that was clicked, with its interval."""

    rows: int
    predicted: float
    observed: float
    low: float
    high: float


@dataclass(frozen=True)
class ModelReport:
    """A click model on held-out pages. ``examination`` and its ends are empty for rates, which have none."""

    name: str
    evaluation: ClickEvaluation
    steps: int
    converged: bool
    examination: Array
    examination_low: Array
    examination_high: Array
    calibration: list[Bin]

    @property
    def calibration_error(self) -> float:
        """The mean difference between predicted and observed click rates, over bins by their rows."""
        rows = sum(one.rows for one in self.calibration)
        return sum(one.rows * abs(one.predicted - one.observed) for one in self.calibration) / rows

    def to_dict(self) -> dict[str, Any]:
        return {
            **self.evaluation.to_dict(),
            "steps": self.steps,
            "converged": self.converged,
            "examination": self.examination,
            "examination_low": self.examination_low,
            "examination_high": self.examination_high,
            "calibration": [asdict(one) for one in self.calibration],
            "calibration_error": self.calibration_error,
        }


@dataclass(frozen=True)
class ClickReport:
    """What :func:`gainful.report_clicks` found. ``facts`` describe the log, ``mended`` what was dropped or changed."""

    facts: dict[str, Any]
    mended: list[str]
    lost: list[str]  # of these, what is no longer in the log
    models: list[ModelReport]
    fitted_pages: int
    held_pages: int
    held_clicks: int
    division: str
    resamples: int
    level: float
    seed: int
    created: str

    @property
    def best(self) -> ModelReport | None:
        """The model under which the held-out pages are most likely."""
        return max(self.models, key=lambda one: one.evaluation.log_likelihood, default=None)

    def to_dict(self) -> dict[str, Any]:
        found = {
            "created": self.created,
            "version": gainful.__version__,
            "log": self.facts,
            "division": self.division,
            "fitted_pages": self.fitted_pages,
            "held_pages": self.held_pages,
            "held_clicks": self.held_clicks,
            "resamples": self.resamples,
            "level": self.level,
            "seed": self.seed,
            "models": {one.name: one.to_dict() for one in self.models},
        }
        return dict(plain(found))

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """One self-contained page, also written to ``path`` if given."""
        facts = self.to_dict()
        sections: list[Section] = [
            ("positions", "Clicks by position", _positions(self)),
            ("examination", "Examination", _examination(self)),
            ("models", "Click models", _models(self)),
            ("perplexity", "Perplexity by position", _perplexity(self)),
            ("calibration", "Calibration", _calibration(self)),
            ("mended", "What was dropped or mended", _mended(self)),
            ("about", "About", _about(self)),
        ]
        text = html_page(
            f"Click log of {plural(self.facts['pages'], 'page')}",
            self.created,
            _answer(self),
            sections,
            "clicks-data",
            facts,
        )
        if path is not None:
            write_text(path, text)
        return text


def report_clicks(
    log: ClickLog,
    models: Sequence[str | ClickModel] = MODELS,
    *,
    test: ClickLog | None = None,
    held_out: float = 0.2,
    resamples: int = 20,
    level: float = 0.95,
    seed: int = 0,
) -> ClickReport:
    """Fit click models and report on them and on the log, for :meth:`ClickReport.to_html`.

    Parameters
    ----------
    models : names of click models, or unfitted ones
    test : pages to predict; by default a share of the sessions, ``held_out``, is kept from fitting
    resamples : fits to resampled sessions, from which the intervals of examination come; 0 for no intervals
    level : of all intervals
    seed : of the sessions held out and of the resamples

    >>> import gainful
    >>> data = gainful.make_artificial(5, n_docs=6, seed=1)
    >>> log = gainful.simulate_clicks(data, "pbm", sessions=400, temperature=1.0, seed=2)
    >>> report = gainful.report_clicks(log, ["pbm"], resamples=0)
    >>> report.held_pages, report.models[0].name
    (80, 'pbm')
    """
    given = {"held_out": held_out, "resamples": resamples, "level": level}
    check_parameters("report_clicks", SETTINGS, given)
    if not isinstance(log, ClickLog):
        raise ParameterError.of(
            "report_clicks", "log", "a ClickLog, as gainful.read_clicks returns", type(log).__name__
        )
    unfitted = [_model_of(one) for one in models]
    rng = np.random.default_rng(seed)
    if test is None:
        fitted, held = _divide(log, held_out, rng)
        division = f"{held_out:.0%} of the sessions, drawn at random, are held out"
    else:
        fitted, held, division = log, test, "the held-out pages are another log"
    return ClickReport(
        facts=log.describe() | {"moving_share": moving_share(log)},
        mended=log.mended.lines(),
        lost=log.mended.lines(lost_only=True),
        models=[_report_on(one.fit(fitted), fitted, held, resamples, level, rng) for one in unfitted],
        fitted_pages=fitted.n_pages,
        held_pages=held.n_pages,
        held_clicks=held.n_clicks,
        division=division,
        resamples=resamples,
        level=level,
        seed=seed,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _model_of(one: str | ClickModel) -> ClickModel:
    if isinstance(one, ClickModel):
        return type(one)(**{name: getattr(one, name) for name in one.parameters})
    return click_model(one)


def _divide(log: ClickLog, held_out: float, rng: np.random.Generator) -> tuple[ClickLog, ClickLog]:
    """Pages to fit and pages held out; the pages of a session stay together."""
    sessions = np.unique(log.session)
    n_held = round(held_out * len(sessions))
    if not 0 < n_held < len(sessions):
        raise DataError(
            f"the log has {plural(len(sessions), 'session')}, too few to hold {held_out:.0%} out; give another log to "
            "test on"
        )
    held = np.isin(log.session, rng.permutation(sessions)[:n_held])
    return log.pages(~held), log.pages(held)


def _report_on(
    model: ClickModel, fitted: ClickLog, held: ClickLog, resamples: int, level: float, rng: np.random.Generator
) -> ModelReport:
    known = not isinstance(model, RATES)
    examination = model.examination_ if known else np.empty(0)
    reach = np.full(len(examination), np.nan)
    if known and resamples > 1:
        reach = _quantile(level, resamples - 1) * _examination_deviation(model, fitted, resamples, rng)
    return ModelReport(
        name=model.name,
        evaluation=model.evaluate(held),
        steps=model.n_iter_,
        converged=bool(model.converged_),
        examination=examination,
        examination_low=np.clip(examination - reach, 0.0, 1.0),
        examination_high=np.clip(examination + reach, 0.0, 1.0),
        calibration=_bins(model.click_probabilities(held), held.clicked, level),
    )


def _quantile(level: float, freedom: int) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.5 + level / 2))


def _examination_deviation(model: ClickModel, log: ClickLog, resamples: int, rng: np.random.Generator) -> Array:
    """How far examination over logs of resampled sessions is, in the mean square, from that of the log they came from.

    That holds the bias of a fit too, which draws fits to resampled sessions as far from it as it is from the truth.
    """
    few, scale, whole = log, 1.0, model
    if log.n_pages > RESAMPLED_PAGES:
        few = log.pages(np.sort(rng.choice(log.n_pages, RESAMPLED_PAGES, replace=False)))
        scale, whole = math.sqrt(RESAMPLED_PAGES / log.n_pages), model.refit(few)
    sessions, session = np.unique(few.session, return_inverse=True)
    found = np.full((resamples, len(model.examination_)), np.nan)
    for one in found:
        drawn = np.bincount(rng.integers(len(sessions), size=len(sessions)), minlength=len(sessions))
        again = model.refit(few.pages(np.repeat(np.arange(few.n_pages), drawn[session])))
        n = min(len(whole.examination_), len(again.examination_))
        one[:n] = again.examination_[:n] - whole.examination_[:n]
    seen = (~np.isnan(found)).sum(axis=0) > 1
    deviation = np.full(found.shape[1], np.nan)
    deviation[seen] = scale * np.sqrt(np.nanmean(found[:, seen] ** 2, axis=0))
    return deviation


def _bins(predicted: Array, clicked: Array, level: float) -> list[Bin]:
    """Predictions in bins of about as many rows each; equal predictions are in one bin."""
    edges = np.unique(np.quantile(predicted, np.arange(1, BINS) / BINS))
    place = np.searchsorted(edges, predicted, side="right")
    rows = np.bincount(place, minlength=len(edges) + 1)
    clicks = np.bincount(place, weights=clicked, minlength=len(edges) + 1)
    total = np.bincount(place, weights=predicted, minlength=len(edges) + 1)
    low, high = share_intervals(clicks, rows, level)
    return [
        Bin(int(n), float(total[i] / n), float(clicks[i] / n), float(low[i]), float(high[i]))
        for i, n in enumerate(rows)
        if n
    ]


# -- sections ----------------------------------------------------------------------------------------------------------


def _answer(report: ClickReport) -> str:
    facts, best = report.facts, report.best
    sentences = [
        f"{plural(facts['pages'], 'page')} of {plural(facts['queries'], 'query', 'queries')}, "
        f"{plural(facts['rows'], 'document')} shown, {plural(facts['clicks'], 'click')}: "
        f"{facts['clicks_per_page']:.2f} per page. {_share(facts['pages_without_clicks'], facts['pages'])} of the "
        "pages have no click."
    ]
    if best is not None and len(report.models) > 1:
        sentences.append(
            f"Of {len(report.models)} click models, <strong>{escape(best.name)}</strong> predicts the clicks of "
            f"{plural(report.held_pages, 'held-out page')} best: log-likelihood "
            f"{_signed(best.evaluation.log_likelihood, 3)} per page."
        )
    return f"<p>{' '.join(sentences)}</p>{notices([*_cautions(report), *report.lost])}"


def _cautions(report: ClickReport) -> list[str]:
    found = []
    share = report.facts["moving_share"]
    if share < LEAST_MOVING and any(CLICK_MODELS[one.name].needs_moves for one in report.models):
        found.append(f"{fixed_order_text(share)}.")
    if report.models and report.held_clicks < FEW_CLICKS:
        found.append(
            f"The held-out pages have {plural(report.held_clicks, 'click')}; below {FEW_CLICKS}, perplexity and "
            "calibration say little."
        )
    late = [one.name for one in report.models if not one.converged and CLICK_MODELS[one.name].iterates]
    if late:
        found.append(f"EM had not converged for {', '.join(late)}; raise max_iter.")
    return found


def _positions(report: ClickReport) -> str:
    rows = report.facts["positions"]
    low, high = share_intervals([one["clicks"] for one in rows], [one["shown"] for one in rows], report.level)
    points = [(float(one["position"]), one["rate"]) for one in rows]
    band = list(zip(low.tolist(), high.tolist(), strict=True))
    picture = plots.curves(
        [plots.Line("clicks", "click rate", points, band, 0)],
        x_name="position",
        y_name="clicks per impression",
        title="Click rate by position",
        description=f"The band is the {report.level:.0%} interval. The table below has the same values.",
        from_zero=True,
    )
    cells = [
        (
            Cell(str(one["position"]), one["position"]),
            Cell(f"{one['shown']:,}", one["shown"]),
            Cell(f"{one['clicks']:,}", one["clicks"]),
            Cell(f"{one['rate']:.4f}", one["rate"]),
            Cell(f"{ends[0]:.4f} to {ends[1]:.4f}", ends[0]),
        )
        for one, ends in zip(rows[:MOST_POSITIONS], band, strict=False)
    ]
    head = ("position", "shown", "clicks", "rate", f"{report.level:.0%} interval")
    table = html_table(Table("Clicks by position", head, tuple(cells)), sortable=True, name="position-values")
    caption = (
        "Clicks per impression. A high rate at the top is examination and relevance at once; the models below tell "
        "them apart."
    )
    return figure(picture, caption) + details("Values of this plot", table)


def _examination(report: ClickReport) -> str:
    shown = [one for one in report.models if len(one.examination)]
    if not shown:
        return ""
    lines = [
        _line(report, one, one.examination, list(zip(one.examination_low, one.examination_high, strict=True)))
        for one in shown
    ]
    interval = f"{report.level:.0%} intervals from {report.resamples} fits to resampled sessions"
    bands = f"Bands are {interval}." if report.resamples > 1 else "There are no intervals: nothing was resampled."
    picture = plots.curves(
        lines,
        x_name="position",
        y_name="probability of examination",
        title="Examination by position",
        description=f"{bands} The table below has the same values.",
        from_zero=True,
        banded=True,
    )
    caption = (
        f"The mean probability that a document in this position is looked at, by each model. {bands} PBM and UBM call "
        "the first position 1; only ratios of positions count."
    )
    table = _table_by_position("Examination by position", shown, [one.examination for one in shown], "examination")
    return _with_toggles(picture, caption, lines) + details("Values of this plot", table)


def _models(report: ClickReport) -> str:
    if not report.models:
        return ""
    ordered = sorted(report.models, key=lambda one: -one.evaluation.log_likelihood)
    best = {
        name: min(getattr(one.evaluation, name) for one in ordered) for name in ("perplexity", "conditional_perplexity")
    }
    rows = []
    for one in ordered:
        found = one.evaluation
        rows.append(
            (
                Cell(one.name, one.name),
                Cell(_signed(found.log_likelihood, 4), found.log_likelihood, one is ordered[0]),
                *(
                    Cell(f"{getattr(found, name):.4f}", getattr(found, name), getattr(found, name) == least)
                    for name, least in best.items()
                ),
                Cell(f"{one.calibration_error:.4f}", one.calibration_error),
                Cell(f"{one.steps:,}" if CLICK_MODELS[one.name].iterates else "–", one.steps),
            )
        )
    head = ("model", "log-likelihood per page", "perplexity", "conditional perplexity", "calibration error", "steps")
    note = (
        f"On {plural(report.held_pages, 'held-out page')}; {plural(report.fitted_pages, 'page')} were fitted. "
        "Log-likelihood and conditional perplexity know the clicks above a document, perplexity does not. Perplexity 1 "
        "is perfect, 2 is a coin. Calibration error: the mean difference between predicted and observed click rates, "
        "over deciles."
    )
    table = Table("Click models on held-out pages", head, tuple(rows))
    return f"{html_table(table, sortable=True, name='model-values')}<p>{escape(note)}</p>"


def _perplexity(report: ClickReport) -> str:
    if not report.models:
        return ""
    lines = [_line(report, one, one.evaluation.perplexity_by_rank) for one in report.models]
    picture = plots.curves(
        lines,
        x_name="position",
        y_name="perplexity",
        title="Perplexity by position on held-out pages",
        description="The table below has the same values.",
    )
    caption = "Perplexity of the clicks in each position of held-out pages, not knowing the clicks above. Low is good."
    values = [one.evaluation.perplexity_by_rank for one in report.models]
    table = _table_by_position("Perplexity by position", report.models, values, "perplexity")
    return _with_toggles(picture, caption, lines) + details("Values of this plot", table)


def _calibration(report: ClickReport) -> str:
    if not report.models:
        return ""
    lines = [
        plots.Line(
            _key(report, one),
            one.name,
            [(bin.predicted, bin.observed) for bin in one.calibration],
            [(bin.low, bin.high) for bin in one.calibration],
            _slot(report, one),
        )
        for one in report.models
    ]
    picture = plots.curves(
        lines,
        x_name="predicted click rate",
        y_name="observed click rate",
        title="Predicted and observed click rates by decile",
        description="The dashed line is a perfect model. The table below has the same values.",
        from_zero=True,
        diagonal=True,
    )
    caption = (
        "Documents of held-out pages in ten bins of similar predictions. On the dashed line, as many are clicked as "
        f"the model predicts. Bands: {report.level:.0%} intervals of the first two models; point at another one to see "
        "its band."
    )
    head = ("model", "bin", "rows", "predicted", "observed", f"{report.level:.0%} interval")
    rows = [
        (
            Cell(one.name, one.name),
            Cell(str(i), i),
            Cell(f"{bin.rows:,}", bin.rows),
            Cell(f"{bin.predicted:.4f}", bin.predicted),
            Cell(f"{bin.observed:.4f}", bin.observed),
            Cell(f"{bin.low:.4f} to {bin.high:.4f}", bin.low),
        )
        for one in report.models
        for i, bin in enumerate(one.calibration, start=1)
    ]
    table = html_table(Table("Calibration by decile", head, tuple(rows)), sortable=True, name="calibration-values")
    return _with_toggles(picture, caption, lines) + details("Values of this plot", table)


def _mended(report: ClickReport) -> str:
    if not report.mended:
        return "<p>Nothing: every row of the log could be true.</p>"
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in report.mended)}</ul>"


def _about(report: ClickReport) -> str:
    facts = report.facts
    return definitions(
        {
            "Pages": f"{facts['pages']:,}, of {plural(facts['sessions'], 'session')}",
            "Pages with several clicks": _share(facts["pages_with_several_clicks"], facts["pages"]),
            "Documents": f"{facts['documents']:,} different ones",
            "Further columns": ", ".join(facts["columns"]),
            "Division": f"{report.division}; seed {report.seed}",
            "Version": f"gainful {gainful.__version__}",
        }
    )


# -- small things ------------------------------------------------------------------------------------------------------


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}"


def _signed(value: float, digits: int) -> str:
    return f"{value:.{digits}f}".replace("-", "−")


def _key(report: ClickReport, one: ModelReport) -> str:
    return f"m{report.models.index(one)}"


def _slot(report: ClickReport, one: ModelReport) -> int | None:
    place = report.models.index(one)
    return place if place < plots.SLOTS else None


def _line(report: ClickReport, one: ModelReport, values: Array, band: Sequence[tuple[float, float]] = ()) -> plots.Line:
    """A line over positions from 1 on; positions that were never shown have no point."""
    kept = [i for i, value in enumerate(values) if math.isfinite(value)]
    points = [(i + 1.0, float(values[i])) for i in kept]
    ends = [(float(band[i][0]), float(band[i][1])) for i in kept] if band else [(math.nan, math.nan)] * len(kept)
    return plots.Line(_key(report, one), one.name, points, ends, _slot(report, one))


def _with_toggles(picture: str, caption: str, lines: Sequence[plots.Line]) -> str:
    return f'<div class="split">{figure(picture, caption)}{toggles(lines, "Models")}</div>'


def _table_by_position(title: str, models: Sequence[ModelReport], values: Sequence[Array], name: str) -> str:
    deepest = max(len(one) for one in values)
    rows = []
    for i in range(min(deepest, MOST_POSITIONS)):
        found = [float(one[i]) if i < len(one) else math.nan for one in values]
        if any(map(math.isfinite, found)):
            rows.append((Cell(str(i + 1), i + 1), *(Cell(f"{v:.4f}" if math.isfinite(v) else "–", v) for v in found)))
    head = ("position", *(one.name for one in models))
    return html_table(Table(title, head, tuple(rows)), sortable=True, name=f"{name}-values")
