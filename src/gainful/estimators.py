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
    """Stands for a module that nobody has used yet."""

    def __getattr__(self, name: str) -> Any:
        self.leave()
        return getattr(import_module(self.__name__), name)

    def leave(self) -> None:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]


@contextmanager
def held_back(*names: str) -> Iterator[None]:
    """``import`` of these modules costs nothing inside; modules that are loaded or not installed stay as they are."""
    waiting = [_Later(name) for name in names if name not in sys.modules and find_spec(name) is not None]
    sys.modules.update({module.__name__: module for module in waiting})
    try:
        yield
    finally:
        for module in waiting:
            module.leave()


with held_back("scipy.stats", "pandas"):
    from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, clone
    from sklearn.exceptions import ConvergenceWarning, NotFittedError

__all__ = [
    "BaseEstimator",
    "ConvergenceWarning",
    "NotFittedError",
    "OneToOneFeatureMixin",
    "TransformerMixin",
    "clone",
]
