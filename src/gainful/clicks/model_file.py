"""Fitted click models as JSON. Reading one executes nothing and checks everything."""

from __future__ import annotations

import json
import math
import os
from typing import Any

import numpy as np

import gainful
from gainful.clicks.em import Beta
from gainful.clicks.index import Pairs
from gainful.clicks.models import ClickModel
from gainful.clicks.registry import click_model
from gainful.data.rows import Array, read_only
from gainful.errors import FormatError, GainfulError
from gainful.formats.files import PathLike, atomic_write, check_readable, reason
from gainful.persistence.jsonable import plain

FORMAT, VERSION = "gainful click model", 1


def write_model(model: ClickModel, path: PathLike) -> None:
    """Write a fitted model, whole or not at all."""
    pairs = model.pairs_
    content = {
        "format": FORMAT,
        "version": VERSION,
        "gainful": gainful.__version__,
        "model": model.name,
        "settings": {name: getattr(model, name) for name in model.parameters},
        "priors": {name: [prior.successes, prior.failures] for name, prior in model.priors_.items()},
        "theta": model.theta_,
        "errors": model.errors_,
        "examination": model.examination_,
        "log_likelihood": model.log_likelihood_,
        "n_iter": model.n_iter_,
        "converged": bool(model.converged_),
        "moving_share": getattr(model, "moving_share_", 1.0),
        "history": model.history_,
        "query_ids": pairs.query_ids,
        "document_ids": pairs.document_ids,
        "query": pairs.query,
        "document": pairs.document,
    }
    text = json.dumps(plain(content), separators=(",", ":"), ensure_ascii=False)
    with atomic_write(path) as file:
        file.write(text.encode("utf-8", "surrogatepass"))


def load_click_model(path: str | os.PathLike[str]) -> ClickModel:
    """Read a model that :meth:`ClickModel.save` wrote."""
    check_readable(path)
    try:
        with open(path, "rb") as file:
            content = json.loads(file.read().decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"is not a click model: {reason(error)[:100]}", path=path) from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise FormatError("is not a click model of gainful; gainful clicks fit writes one", path=path)
    if content.get("version") != VERSION:
        raise FormatError(f"has version {content.get('version')!r}; this gainful reads {VERSION}", path=path)
    try:
        return _restore(content)
    except GainfulError as error:
        raise FormatError(str(error), path=path) from None
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError) as error:
        raise FormatError(f"the click model is damaged: {reason(error)[:100]}", path=path) from None


def _restore(content: dict[str, Any]) -> ClickModel:
    model = click_model(content["model"], **content["settings"])
    pairs = Pairs(
        np.array(content["query"], dtype=np.int32),
        np.array(content["document"], dtype=np.int32),
        _ids(content["query_ids"]),
        _ids(content["document_ids"]),
    )
    _check_pairs(pairs)
    model.pairs_ = pairs
    model.priors_ = {name: Beta(*_numbers(content["priors"][name]).tolist()) for name in model.pair_parameters}
    names = (*model.pair_parameters, *model.shared_parameters)
    model.theta_ = {name: _numbers(content["theta"][name]) for name in names}
    model.errors_ = {name: _numbers(content["errors"][name]) for name in names}
    _check_theta(model)
    model.examination_ = read_only(np.array([np.nan if x is None else x for x in content["examination"]], dtype=float))
    model.log_likelihood_ = float(content["log_likelihood"])
    model.n_iter_, model.converged_ = int(content["n_iter"]), bool(content["converged"])
    model.history_ = _numbers(content["history"])
    model.moving_share_ = float(content.get("moving_share", 1.0))
    return model


def _check_theta(model: ClickModel) -> None:
    for name, values in model.theta_.items():
        size = len(values)
        if name in model.pair_parameters and size != len(model.pairs_) + 1:
            raise ValueError(f"{name} has {size} entries for {len(model.pairs_)} pairs")
        if name in model.shared_parameters and not model._fits(name, size):
            raise ValueError(f"{name} has {size} entries")
        if len(model.errors_[name]) != size:
            raise ValueError(f"{name} has {size} entries, but {len(model.errors_[name])} errors")
        for held in (values, model.errors_[name]):
            if (held < 0.0).any() or (model.has_probabilities and (held > 1.0).any()):
                raise ValueError(f"{name} must be probabilities")


def _ids(values: list[Any]) -> Array:
    if all(isinstance(one, str) for one in values) or all(type(one) is int for one in values):
        return np.array(values)
    raise ValueError("ids must be texts or whole numbers")


def _check_pairs(pairs: Pairs) -> None:
    for codes, ids in ((pairs.query, pairs.query_ids), (pairs.document, pairs.document_ids)):
        if len(codes) != len(pairs) or (len(codes) and (codes.min() < 0 or codes.max() >= len(ids))):
            raise ValueError("a pair names a query or document that is not there")
    keys = pairs.query.astype(np.int64) * len(pairs.document_ids) + pairs.document
    if not (np.diff(keys) > 0).all():
        raise ValueError("the pairs are not in order")


def _numbers(values: Any) -> Array:
    if not all(isinstance(one, (int, float)) and math.isfinite(one) for one in values):
        raise ValueError("a parameter is not a number")
    return read_only(np.array(values, dtype=np.float64))
