"""scikit-learn is loaded without what rankers do not use, and nobody can tell."""

from __future__ import annotations

import importlib
import subprocess
import sys

import numpy as np
import pytest

from gainful.compute.estimators import FeatureSelector, defer_imports

# What each part of a program has loaded, in one process: what a part loaded stays loaded.
PARTS = """
import importlib.util, sys
import numpy as np, gainful
rng = np.random.default_rng(0)
X, y, qid = rng.random((40, 3)), np.arange(40) % 3, np.repeat(np.arange(4), 10)

def fit(ranker, **settings):
    model = gainful.ranker(ranker, **settings).fit(X, y, qid=qid, eval_set=(X, y, qid))
    gainful.metric("ndcg@10")(model.predict(X), y, qid=qid)

def tell(*names):
    print([name for name in names if name in sys.modules])

for ranker in ("regression", "rsrank", "structured-svm-kernel"):
    fit(ranker)
tell("scipy.stats", "pandas", "sklearn.linear_model", "sklearn.metrics")

from sklearn.utils import fixes
import scipy.stats
assert fixes._mode(np.array([1, 2, 2])).mode == 2
pd = fixes.pd
if pd is not None:
    import pandas
    assert pd.DataFrame is pandas.DataFrame
print("found")

if importlib.util.find_spec("torch"):
    for optimizer in ("adam", "sgd"):
        fit("neural", optimizer=optimizer, epochs=2)
    tell("torch._dynamo", "sympy")
"""


@pytest.fixture(scope="module")
def printed():
    done = subprocess.run([sys.executable, "-c", PARTS], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_a_fit_imports_neither_statistics_nor_frames_nor_scikit_learns_metrics(printed):
    assert printed[0] == "[]"


def test_scikit_learn_still_finds_what_was_held_back(printed):
    assert printed[1] == "found"


def test_a_net_imports_no_compiler_of_nets(printed):
    pytest.importorskip("torch")
    assert printed[2] == "[]"


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
