"""scikit-learn is loaded without what rankers do not use, and nobody can tell."""

from __future__ import annotations

import importlib
import subprocess
import sys

import numpy as np
import pytest

from gainful.compute.estimators import FeatureSelector, defer_imports

FIT = """
import sys, numpy as np, gainful
rng = np.random.default_rng(0)
X, y, qid = rng.random((40, 3)), np.arange(40) % 3, np.repeat(np.arange(4), 10)
for ranker, settings in {fits!r}:
    model = gainful.ranker(ranker, **settings).fit(X, y, qid=qid, eval_set=(X, y, qid))
    gainful.metric("ndcg@10")(model.predict(X), y, qid=qid)
print([name for name in {names!r} if name in sys.modules])
"""


def loaded_by_fit(rankers, names, *settings):
    """Which of these modules a process has loaded after training each ranker with each of the settings."""
    fits = [(ranker, one) for ranker in rankers for one in settings or ({},)]
    code = FIT.format(fits=fits, names=names)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_fit_imports_neither_statistics_nor_frames_nor_scikit_learns_metrics():
    """What one of them loaded would stay loaded, so one process will do."""
    names = ["scipy.stats", "pandas", "sklearn.linear_model", "sklearn.metrics"]
    assert loaded_by_fit(["regression", "rsrank", "structured-svm-kernel"], names) == "[]"


def test_a_net_imports_no_compiler_of_nets():
    pytest.importorskip("torch")
    settings = [{"optimizer": optimizer, "epochs": 2} for optimizer in ("adam", "sgd")]
    assert loaded_by_fit(["neural"], ["torch._dynamo", "sympy"], *settings) == "[]"


def test_scikit_learn_still_finds_what_was_held_back():
    code = """
import gainful.compute.estimators, sys
assert "scipy.stats" not in sys.modules
from sklearn.utils import fixes
import scipy.stats, numpy as np
assert fixes._mode(np.array([1, 2, 2])).mode == 2
pd = fixes.pd
if pd is not None:
    import pandas
    assert pd.DataFrame is pandas.DataFrame
"""
    subprocess.run([sys.executable, "-c", code], check=True)


# -- modules that are held back ----------------------------------------------------------------------------------------


@pytest.fixture
def slow_module(tmp_path, monkeypatch):
    """A module that is installed and not loaded; each time it is loaded adds a letter to a file."""
    loads = tmp_path / "loads"
    loads.write_text("")
    text = f"with open({str(loads)!r}, 'a') as file:\n    file.write('x')\nANSWER = 42\n"
    (tmp_path / "slow_to_load.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    yield loads
    sys.modules.pop("slow_to_load", None)


def test_a_module_held_back_is_loaded_on_use_and_once(slow_module):
    with defer_imports("slow_to_load"):
        import slow_to_load as inside
    assert "slow_to_load" not in sys.modules
    assert slow_module.read_text() == ""
    assert inside.ANSWER == 42
    import slow_to_load as after

    assert inside.ANSWER == after.ANSWER == 42
    assert slow_module.read_text() == "x"


def test_a_name_taken_at_once_is_there(slow_module):
    with defer_imports("slow_to_load"):
        from slow_to_load import ANSWER
    assert ANSWER == 42
    assert sys.modules["slow_to_load"].ANSWER == 42
    assert slow_module.read_text() == "x"


def test_what_is_loaded_or_missing_stays_as_it_is():
    with defer_imports("math", "no_such_module_anywhere"):
        import math

        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("no_such_module_anywhere")
    assert sys.modules["math"] is math


def test_an_error_inside_leaves_no_stand_in(slow_module):
    with pytest.raises(ValueError, match="stop"), defer_imports("slow_to_load"):
        raise ValueError("stop")
    assert "slow_to_load" not in sys.modules


# -- feature selection -------------------------------------------------------------------------------------------------


class Odd(FeatureSelector):
    """Keeps every second feature."""

    n_features_in_ = 4

    def _get_support_mask(self):
        return np.array([False, True, False, True])


def test_a_selector_has_the_methods_of_scikit_learn():
    from sklearn.feature_selection import SelectorMixin

    public = {name for name in vars(SelectorMixin) if not name.startswith("_")}
    assert public <= set(vars(FeatureSelector))
    assert Odd().get_support(indices=True).tolist() == [1, 3]
