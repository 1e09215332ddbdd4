"""What rankers take from scikit-learn, and the one place that imports it first.

scikit-learn imports all of ``scipy.stats`` and ``pandas``, 0.9 s, for functions that no ranker calls. Both are held
back while it loads: a stand-in imports the module on the first use of one of its names, and leaves ``sys.modules``
as soon as scikit-learn is there. So nothing else can tell the difference.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any


class _Later(ModuleType):
    """Stands for a module until its first use."""

    def __getattr__(self, name: str) -> Any:
        self.leave()
        return getattr(import_module(self.__name__), name)

    def leave(self) -> None:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]


@contextmanager
def defer_imports(*names: str) -> Iterator[None]:
    """Delay imports of these modules until their first use; modules already loaded or not installed are unaffected."""
    waiting = [_Later(name) for name in names if name not in sys.modules and find_spec(name) is not None]
    sys.modules.update({module.__name__: module for module in waiting})
    try:
        yield
    finally:
        for module in waiting:
            module.leave()


with defer_imports("scipy.stats", "pandas"):
    from sklearn import get_config
    from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, clone
    from sklearn.exceptions import ConvergenceWarning, NotFittedError


def predict_lists(estimator: Any, X: Any, qid: Any) -> Any:
    """The predictions of an estimator or a pipeline for rows of known queries; a model that needs these gets them."""
    steps = getattr(estimator, "steps", None)
    last = steps[-1][1] if steps else estimator
    return estimator.predict(X, qid=qid) if getattr(last, "needs_queries", False) else estimator.predict(X)


class FeatureSelector(TransformerMixin):  # type: ignore[misc]
    """The methods of scikit-learn's ``SelectorMixin``, for a class that defines ``_get_support_mask``.

    The mixin is imported when one of them is called: its package takes 1 s.
    """

    def get_support(self, indices: bool = False) -> Any:
        """Which features are kept: a mask of (n_features,), or their numbers."""
        return _selector().get_support(self, indices=indices)

    def transform(self, X: Any) -> Any:
        """The features that are kept, (n_rows, n_kept)."""
        return _selector().transform(self, X)

    def _transform(self, X: Any) -> Any:
        return _selector()._transform(self, X)

    def inverse_transform(self, X: Any) -> Any:
        """Features that are not kept come back as 0, (n_rows, n_features)."""
        return _selector().inverse_transform(self, X)

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Names of the features that are kept."""
        return _selector().get_feature_names_out(self, input_features)


def _selector() -> Any:
    from sklearn.feature_selection import SelectorMixin

    return SelectorMixin


__all__ = [
    "BaseEstimator",
    "ConvergenceWarning",
    "FeatureSelector",
    "NotFittedError",
    "OneToOneFeatureMixin",
    "TransformerMixin",
    "clone",
    "get_config",
]
