"""Where LightGBM cannot be loaded, all that needs trees says so at once, in one line; all else works."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import sklearn

import gainful

LOADER = "libgomp.so.1: cannot open shared object file: No such file or directory"
INSTALL = ("OpenMP", "apt install libgomp1", "dnf install libgomp", "brew install libomp")

COMMANDS = {
    "train": "train lambdamart data/train.txt -o refused.gainful",
    "train auto": "train auto data/train.txt --trials 1 -o refused.gainful",
    "train a blend": "train blend data/train.txt --set members=listnet,lambdamart -o refused.gainful",
    "train after a linear model": "train lambdamart data/train.txt --set init=listnet -o refused.gainful",
    "compare": "compare data --rankers listnet,lambdamart",
    "compare auto": "compare data --rankers listnet,auto:trials=1",
    "tune": "tune lambdamart data/train.txt --valid data/valid.txt --trials 1 -o refused.gainful",
    "demo": "demo --no-open --seconds 0 --out demo",
    "warm": "warm",
    "predict": "predict trees.gainful data/test.txt",
    "predict with LightGBM's file": "predict lightgbm.txt data/test.txt",
}
PYTHON = {
    "fit": "gainful.ranker('lambdamart').fit(gainful.make_artificial(4))",
    "load": "gainful.load('trees.gainful')",
    "compare in Python": "gainful.compare(['listnet', 'lambdamart'], gainful.make_artificial(9))",
}
NEED_NO_TREES = {
    "train a linear model": "train listnet data/train.txt -o linear.gainful",
    "use a linear model": "evaluate linear.gainful data/test.txt",
    "choose among linear models": "train auto data/train.txt --trials 1 --set rankers=listnet -o chosen.gainful",
}

# One process for all, whose lightgbm is a folder beside the script: what it prints is JSON, by case.
CHILD = """
import contextlib, io, json, sys
import gainful
import gainful.demo.corpus, gainful.cli.warm, gainful.rankers.base as base
from gainful.cli import run

begun = []
class Monitor(base.Monitor):
    def __init__(self, *args, **kwargs):
        begun.append("a training")
        super().__init__(*args, **kwargs)
base.Monitor = Monitor
gainful.demo.corpus.SearchCorpus.gather = classmethod(lambda cls: begun.append("reading the documentation"))
gainful.cli.warm._read = lambda: begun.append("compiling")

commands, python = json.loads(sys.argv[1]), json.loads(sys.argv[2])
answers = {}
for name, words in commands.items():
    begun.clear()
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        try:
            code = run(words.split())
        except Exception as error:
            code = repr(error)
    answers[name] = [code, out.getvalue(), err.getvalue(), list(begun)]
for name, text in python.items():
    begun.clear()
    try:
        answers[name] = [0, repr(eval(text)), "", list(begun)]
    except Exception as error:
        answers[name] = [2 if isinstance(error, gainful.GainfulError) else 1, "", str(error), list(begun)]
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """By case: exit code, what was printed, errors, and what had begun by then."""
    folder = tmp_path_factory.mktemp("without openmp")
    (folder / "lightgbm").mkdir()
    (folder / "lightgbm" / "__init__.py").write_text(f"raise OSError({LOADER!r})")
    (folder / "data").mkdir()
    for seed, part in enumerate(("train", "valid", "test")):
        (folder / "data" / f"{part}.txt").write_text(rows(seed))
    model = gainful.LambdaMART(n_trees=2, n_jobs=1).fit(folder / "data" / "train.txt")
    gainful.save(model, folder / "trees.gainful")
    model.booster_.save_model(folder / "lightgbm.txt")
    path = os.pathsep.join([str(folder), str(Path(gainful.__file__).parents[1])])
    done = subprocess.run(
        [sys.executable, "-c", CHILD, json.dumps({**COMMANDS, **NEED_NO_TREES}), json.dumps(PYTHON)],
        cwd=folder, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) | {"files": sorted(path.name for path in folder.glob("*.gainful"))}


def rows(seed: int) -> str:
    """Sixty documents of six queries, each grade with a range of its own in the first feature."""
    lines = []
    for i in range(60):
        grade, other = i % 3, (i * 7 + seed) % 11
        lines.append(f"{grade} qid:{i // 10 + 1} 1:{grade + other / 20} 2:{other}\n")
    return "".join(lines)


@pytest.mark.parametrize("case", [*COMMANDS, *PYTHON])
def test_one_line_says_what_to_install_before_anything_begins(answers, case):
    code, out, err, begun = answers[case]
    lines = [line for line in err.splitlines() if not line.startswith(("compiling kernels", "1 of 3"))]
    assert code == 2, out
    assert len(lines) == 1, err
    assert LOADER in lines[0]
    assert all(words in lines[0] for words in INSTALL)
    assert "damaged" not in lines[0]
    assert begun == []


@pytest.mark.parametrize("case", NEED_NO_TREES)
def test_linear_models_need_none_of_it(answers, case):
    code, _, err, _ = answers[case]
    assert code == 0, err


def test_what_was_refused_wrote_nothing(answers):
    assert answers["files"] == ["chosen.gainful", "linear.gainful", "trees.gainful"]


BORROW = """
import ctypes
def gomp(): return {line.split()[-1] for line in open('/proc/self/maps') if 'gomp' in line}
import gainful.compute.threads, importlib.util
from unittest import mock
before = gomp()
with mock.patch.dict('sys.modules', lightgbm=mock.MagicMock()):  # not the real one, which brings the system's OpenMP
    from gainful.trees.lightgbm_library import OPENMP, borrow_openmp
borrow_openmp()
(borrowed,) = gomp() - before
asked = ctypes.CDLL(OPENMP.decode())  # as the loader does for LightGBM: by the name inside
asked.omp_get_max_threads()
assert gomp() - before == {borrowed}, gomp()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere LightGBM asks for another library")
def test_scikit_learns_copy_of_openmp_answers_to_the_name_that_lightgbm_asks_for():
    if not list((Path(sklearn.__file__).parents[1] / "scikit_learn.libs").glob("libgomp-*")):
        pytest.skip("this scikit-learn is not a wheel for Linux")
    done = subprocess.run([sys.executable, "-c", BORROW], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
