"""Models as C: compiled, they score as they do in Python."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import numpy as np
import pytest

import gainful
from gainful.exports import c_code

compiled = pytest.mark.skipif(c_code.find_compiler() is None, reason="there is no C compiler here")
DATA = gainful.make_artificial(12, n_docs=10, n_features=5, seed=3)
TREES = {"n_trees": 4, "n_leaves": 5, "min_docs_in_leaf": 3, "n_jobs": 1}
NET = {"epochs": 1, "hidden": (4, 3), "device": "cpu"}
KINDS = {
    "linear": ("regression", {}),
    "sums of expectations": ("mcrank", TREES),
    "cumulative": ("mcrank-ordinal", TREES),
    "relu": ("neural", NET),
    "silu": ("neural", NET | {"activation": "silu"}),
    "polynomial": ("structured-svm-kernel", {"kernel": "polynomial", "max_iter": 3}),
    "cosine": ("structured-svm-kernel", {"kernel": "cosine", "max_iter": 3}),
    "laplacian": ("structured-svm-kernel", {"kernel": "laplacian", "max_iter": 3}),
    "blend": ("blend", {"members": ["lambdamart:n_trees=3:min_docs_in_leaf=3", "regression"], "folds": 3, "n_jobs": 1}),
}


@compiled
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_models(kind, tmp_path):
    name, settings = KINDS[kind]
    model = gainful.ranker(name, **settings).fit(DATA)
    done = gainful.export(model, tmp_path / "m.c", to="c", check_on=DATA)
    assert done.largest_difference < 1e-12
    assert done.checks["data"].swapped == 0
    strict = [c_code.find_compiler(), "-std=c99", "-Wall", "-Wextra", "-Werror", "-c", "m.c"]
    subprocess.run(strict, cwd=tmp_path, check=True)


@compiled
def test_missing_values_categories_and_names_in_a_library(tmp_path):
    """Loaded as users would, and asked for rows at once."""
    rng = np.random.default_rng(0)
    X = np.round(DATA.X, 2)
    X[:, 2] = rng.integers(0, 6, len(X))
    X[rng.random(X.shape) < 0.1] = np.nan
    names = ('bm25 "body"', "what??/", "kind", "naïve", "a\\b")
    data = gainful.RankingData.from_rows(X, DATA.y, DATA.qid, feature_names=names)
    model = gainful.LambdaMART(**TREES | {"n_trees": 12}, categorical=["kind"]).fit(data)
    gainful.export(model, tmp_path / "m.c", to="c", name="1st model")
    command = [c_code.find_compiler(), "-std=c99", "-Wall", "-Werror", "-shared", "-fPIC", "-o", "m.so", "m.c", "-lm"]
    subprocess.run(command, cwd=tmp_path, check=True)
    library = ctypes.CDLL(str(tmp_path / "m.so"))
    doubles, scores = ctypes.POINTER(ctypes.c_double), np.empty(len(X))
    rows = np.ascontiguousarray(X)
    library.model_1st_model_scores(rows.ctypes.data_as(doubles), ctypes.c_long(len(X)), scores.ctypes.data_as(doubles))
    np.testing.assert_allclose(scores, model.predict(X), rtol=1e-12)
    held = (ctypes.c_char_p * len(names)).in_dll(library, "model_1st_model_features")
    assert tuple(one.decode() for one in held) == names


# A compiler of a system with streams in text mode, as Windows has them, and without libm.
TEXT_MODE = """#!{python}
import os, pathlib, subprocess, sys
if "-lm" in sys.argv:
    sys.exit("could not open 'm.lib'")
made = os.path.abspath(sys.argv[sys.argv.index("-o") + 1])
subprocess.run([{compiler!r}, *sys.argv[1:], "-lm"], check=True)
os.replace(made, made + ".real")
pathlib.Path(made).write_text({program!r}.replace("REAL", made + ".real"))
os.chmod(made, 0o755)
"""
PROGRAM = """#!{python}
import subprocess, sys
given = sys.stdin.buffer.read().partition(bytes([26]))[0].replace(bytes([13, 10]), bytes([10]))
done = subprocess.run(["REAL"], input=given, stdout=subprocess.PIPE)
sys.stdout.buffer.write(done.stdout.replace(bytes([10]), bytes([13, 10])))
sys.exit(done.returncode)
"""


@compiled
def test_streams_in_text_mode_do_not_matter(tmp_path, monkeypatch):
    script = tmp_path / "cc"
    program = PROGRAM.format(python=sys.executable)
    script.write_text(TEXT_MODE.format(python=sys.executable, compiler=c_code.find_compiler(), program=program))
    script.chmod(0o755)
    monkeypatch.setattr(c_code, "find_compiler", lambda: str(script))
    monkeypatch.setattr("sys.platform", "win32")
    value = np.frombuffer(b"\n\r\n\x1a\x1a\n\r?", "<f8")[0]  # about 3e-5: every byte that text mode changes
    X = np.where(np.arange(DATA.n_features) == 2, value, DATA.X)
    rows = gainful.RankingData.from_rows(X, DATA.y, DATA.qid)
    done = gainful.export(gainful.RegressionRanker().fit(DATA), tmp_path / "m.c", to="c", check_on=rows)
    assert done.largest_difference < 1e-12


def test_without_a_compiler_it_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(c_code, "find_compiler", lambda: None)
    done = gainful.export(gainful.RegressionRanker().fit(DATA), tmp_path / "m.c", to="c")
    assert any("there is no C compiler here" in note for note in done.notes)


def test_a_compiler_that_fails_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("CC", "false")
    with pytest.raises(gainful.GainfulError, match=r"^false failed on the C file"):
        gainful.export(gainful.RegressionRanker().fit(DATA), tmp_path / "m.c", to="c")
    assert not list(tmp_path.iterdir())


def test_a_net_over_lists_is_refused(tmp_path):
    pytest.importorskip("torch")
    model = gainful.AttentionRanker(epochs=1, hidden=(4,), models=1, device="cpu").fit(DATA)
    with pytest.raises(
        gainful.GainfulError, match="cannot be exported to c: it scores the documents of a query together"
    ):
        gainful.export(model, tmp_path / "m.c", to="c")
