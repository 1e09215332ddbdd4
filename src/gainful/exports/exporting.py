"""Export: write a model for a search engine or runtime, but only if the export scores as the model does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gainful.errors import ExportError, ParameterError, UnknownNameError, shorten, wording
from gainful.exports import c_code, elasticsearch, lightgbm_model, onnx_graph, plain_json, solr, xgboost_model
from gainful.exports.check import Comparison, compare_rows, data_rows, made_up_lists, made_up_rows, scores_of_model
from gainful.exports.describe import Described, Mixture, describe
from gainful.exports.engines import TITLES, parse_version
from gainful.exports.formats import Settings, Written, setting_of_export, shift_words
from gainful.formats.files import atomic_write, refuse_unwritable
from gainful.rankers.ensembles import Ensemble

TARGETS: dict[str, Callable[[Described, Settings], Written]] = {
    "onnx": onnx_graph.write,
    "elasticsearch": elasticsearch.write,
    "opensearch": elasticsearch.write,
    "solr": solr.write,
    "json": plain_json.write,
    "lightgbm": lightgbm_model.write,
    "xgboost": xgboost_model.write,
    "c": c_code.write,
}
PLUGINS = ("elasticsearch", "opensearch")


@dataclass(frozen=True)
class Exported:
    """What :func:`export` wrote and how it was checked.

    ``checks`` has one comparison on rows made up around the model's thresholds, and one on the rows of ``check_on``.
    ``constant`` is what the format leaves out of every score (an intercept); it changes no ranking. ``format`` is the
    form of the model in an engine that has several.
    """

    to: str
    files: tuple[Path, ...]
    features: tuple[str, ...]
    checks: dict[str, Comparison]
    constant: float
    notes: tuple[str, ...]
    format: str | None = None

    @property
    def largest_difference(self) -> float:
        return max(check.difference for check in self.checks.values())


def export(
    model: Any,
    path: str | Path,
    *,
    to: str,
    format: str | None = None,
    check_on: Any = None,
    name: str = "gainful",
    feature_set: str | None = None,
    store: str | None = None,
    missing: str = "model",
    engine_version: str | None = None,
) -> Exported:
    """Write a fitted ranker for a search engine or runtime, after checking that it scores as the ranker does.

    Parameters
    ----------
    model : a fitted ranker, or a pipeline of scalers (linear models, nets) or an AdaptiveBinner (trees) and a ranker
    path : file to write; nothing is written if the check fails. For XGBoost its suffix chooses the form: .json or .ubj
    to : a name of ``gainful.exports.TARGETS``: "onnx", "elasticsearch", "opensearch", "solr", "json",
        "lightgbm", "xgboost", "c"
    format : of trees for Elasticsearch and OpenSearch: "xgboost" or "ranklib"; by default the one that is right in
        ``engine_version``, or "xgboost"
    check_on : data to check as well, at most 10,000 rows: a RankingData, array or frame
    name : of the model in the engine
    feature_set : of Elasticsearch and OpenSearch: what the model is created in; "features" unless given
    store : of Solr: its feature store
    missing : "model": the export treats missing values as the model does, and formats that cannot are refused; "zero":
        the exported model reads them as 0
    engine_version : of Elasticsearch, OpenSearch or Solr, such as "3.5", or "2" where all minor versions are alike;
        versions differ in what they do with missing values, and the export and its check follow this one. A model that
        no form fits there is refused

    Returns
    -------
    Exported : files, largest difference, notes on how to set up the engine
    """
    if to not in TARGETS:
        raise UnknownNameError.among("export target", to, TARGETS)
    if missing not in ("model", "zero"):
        raise _bad_setting("missing", "'model' or 'zero'", missing)
    for what, text in (("name", name), ("feature_set", feature_set), ("store", store)):
        if (text is not None or what == "name") and (not isinstance(text, str) or not text.strip()):
            raise _bad_setting(what, "a name", text)
    _refuse_foreign("format", format, PLUGINS, to, "only one format")
    _refuse_foreign("feature_set", feature_set, PLUGINS, to)
    _refuse_foreign("store", store, ("solr",), to)
    _refuse_foreign("engine_version", engine_version, tuple(TITLES), to)
    if engine_version is not None:
        parse_version(to, engine_version)
    refuse_unwritable(path)
    described = describe(model)
    if missing == "zero" and isinstance(described.form, (Ensemble, Mixture)):
        described = replace(described, form=described.form.with_missing_as_zero())
    suffix = Path(path).suffix.lower()
    written = TARGETS[to](
        described, Settings(to, format, name, feature_set or "features", store, engine_version, suffix)
    )
    checks, notes = _check(described, model, written, check_on, missing == "zero", to)
    files = []
    for suffix, content in written.files.items():
        file = _beside(Path(path), suffix)
        with atomic_write(file) as out:
            out.write(content)
        files.append(file)
    if written.constant:
        shift = shift_words(written.constant)
        notes += (f"every score is {shift} than the model's: the format has no intercept; rankings stay the same",)
    notes = written.notes + notes
    return Exported(to, tuple(files), described.features, checks, written.constant, notes, written.format)


def _bad_setting(name: str, expected: str, found: object) -> ParameterError:
    return ParameterError(f"{setting_of_export(name)} must be {expected}, was {shorten(found)}")


def _refuse_foreign(name: str, value: object, targets: Sequence[str], to: str, instead: str = "none") -> None:
    """Raise if an option is given that is for other targets."""
    if value is not None and to not in targets:
        known = " and ".join(filter(None, (", ".join(targets[:-1]), targets[-1])))
        raise ParameterError(f"{setting_of_export(name)} is for {known}; {to} has {instead}")


def _beside(path: Path, suffix: str) -> Path:
    """The file for a suffix: ``m.request.json`` for ``m.json``, ``m.1.request`` for ``m.1``; no two paths share one."""
    if not suffix:
        return path
    return path.with_name(path.stem + suffix + ".json" if path.suffix == ".json" else path.name + suffix)


def _check(
    described: Described, model: Any, written: Written, check_on: Any, zero: bool, to: str
) -> tuple[dict[str, Comparison], tuple[str, ...]]:
    """All comparisons and notes; raises if one fails."""
    ranker, d = described.ranker, len(described.features)
    missing = bool(ranker.accepts_missing) and isinstance(described.form, (Ensemble, Mixture))
    X = made_up_rows(described.form, d, missing=missing)
    checks = {"made up": compare_rows(described, model, written, X, made_up_lists(described, len(X)), zero)}
    notes: tuple[str, ...] = ()
    if check_on is not None:
        values, X, offsets = data_rows(check_on, described)
        checks["data"] = compare_rows(described, model, written, X, offsets, zero, values)
        notes = _rounding_note(described, model, values, X, offsets)
    for what, check in checks.items():
        if not check.good:
            raise ExportError(
                f"the export of {described.title} to {to} does not score as the model does ({what} rows, {check}; "
                f"{check.allowed:.2g} is allowed); nothing was written"
            )
    return checks, notes


def _rounding_note(described: Described, model: Any, values: Any, X: Any, offsets: Any) -> tuple[str, ...]:
    """A note if rounding to float32, as any engine does, moves values across thresholds of trees."""
    if not isinstance(described.form, (Ensemble, Mixture)) or np.array_equal(
        values, X.astype(np.float64), equal_nan=True
    ):
        return ()
    before, after = (scores_of_model(described, model, one, offsets) for one in (values, X.astype(np.float64)))
    changed = int((before != after).sum())
    if not changed:
        return ()
    advice = wording('gainful.read(…, dtype="float32")', "--read dtype=float32")
    return (
        f"{changed} of {len(X)} rows of the data score differently once rounded to float32, as in any engine; round "
        f"features to float32 before training and scoring, for instance with {advice}",
    )
