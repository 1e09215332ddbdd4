"""All click models by name."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from gainful.clicks.browsing import PBM, UBM
from gainful.clicks.chains import DBN, DCM, SDBN, Cascade
from gainful.clicks.models import ClickModel
from gainful.clicks.rates import COEC, DocumentCTR, GlobalCTR, RankCTR
from gainful.errors import ParameterError, UnknownNameError

CLICK_MODELS: MappingProxyType[str, type[ClickModel]] = MappingProxyType(
    {model.name: model for model in (GlobalCTR, RankCTR, DocumentCTR, COEC, PBM, Cascade, DCM, SDBN, DBN, UBM)}
)
"""Every click model by name, a read-only mapping."""


def click_model(name: str, **params: Any) -> ClickModel:
    """An unfitted click model.

    >>> import gainful
    >>> gainful.click_model("pbm", smoothing=1.0)
    PBM(smoothing=1.0, depth=100, max_iter=200, tol=1e-06)
    """
    if not isinstance(name, str):
        raise ParameterError.of("click_model", "name", f"one of {', '.join(CLICK_MODELS)}", name)
    if name not in CLICK_MODELS:
        raise UnknownNameError.among("click model", name, CLICK_MODELS)
    cls = CLICK_MODELS[name]
    for one in params:
        if one not in cls.parameters:
            raise UnknownNameError.among("parameter", one, cls.parameters, owner=name)
    return cls(**params)
