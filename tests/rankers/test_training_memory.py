"""Training that would not fit is refused before it starts, with what would fit."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import gainful
from gainful.cli import run
from gainful.compute.memory import LIMIT_VARIABLE, memory_limit
from gainful.data.size import DataSize, data_size
from gainful.errors import GainfulError, MemoryLimitError, MemoryWarning
from gainful.rankers import memory
from gainful.rankers.memory import REFUSED, WARNED, most_rows, round_down

LARGE = DataSize(rows=7_500_000, features=136, queries=75_000, values=7_500_000 * 136)  # 4.1 GB of float32
GB = 10**9
ROOT = Path(__file__).parents[2]


@pytest.fixture
def data():
    return gainful.make_artificial(20, n_docs=10, n_features=4)


@pytest.fixture
def large(monkeypatch):
    """Any data counts as large."""
    monkeypatch.setattr(memory, "data_size", lambda data, valid: LARGE)


def quick(name: str = "lambdamart") -> gainful.Ranker:
    return gainful.ranker(name, **({"n_trees": 2} if name == "lambdamart" else {}))


@pytest.mark.parametrize("name", gainful.RANKERS)
def test_every_ranker_needs_more_for_more_rows(name):
    model = gainful.RANKERS[name].create()
    small, more = (model._training_bytes(LARGE.with_rows(rows)) for rows in (1_000_000, 2_000_000))
    assert 0 < small < more < 40 * LARGE.rows * LARGE.features


def recorded() -> list[dict[str, Any]]:
    """The fits of benchmarks/bench_cost.py whose peak is above what libraries and compiled code take."""
    text = (ROOT / "docs" / "results" / "costs.json").read_text()
    fits = [one for one in json.loads(text)["measurements"] if one["work"] == "fixed" and one["threads"] == 1]
    return [one for one in fits if (one["bytes"] or 0) > 60e6]


def test_estimates_are_near_the_recorded_peaks():
    """The factors of refusal and warning rest on this."""
    work = runpy.run_path(str(ROOT / "benchmarks" / "cost_fits.py"))["WORK"]
    outside = []
    for fit in recorded():
        rows, features = fit["rows"], fit["features"]
        size = DataSize(rows=rows, features=features, queries=rows / fit["docs"], values=rows * features)
        ratio = gainful.RANKERS[fit["ranker"]].create(**work[fit["ranker"]])._training_bytes(size) / fit["bytes"]
        if not WARNED <= ratio <= REFUSED:
            outside.append((fit["ranker"], rows, features, fit["docs"], ratio))
    assert len(recorded()) > 100
    assert outside == []


def test_bins_decide_what_trees_need():
    """Two bytes per value, in rows and in columns; one with columns only; twice that above 256 bins."""
    by_row = quick()._training_bytes(LARGE)
    by_column = gainful.LambdaMART(engine_params={"force_col_wise": True})._training_bytes(LARGE)
    fine = gainful.LambdaMART(bins=1000)._training_bytes(LARGE)
    assert 2 * LARGE.values < by_row < 3 * LARGE.values
    assert by_row - by_column > 0.5 * LARGE.values
    assert fine - by_row > 1.9 * LARGE.values


def test_classes_validation_and_landmarks_count():
    mcrank = gainful.RANKERS["mcrank"].create()
    assert mcrank._training_bytes(replace(LARGE, grades=50)) > mcrank._training_bytes(LARGE) + 40 * 16 * LARGE.rows
    more = replace(LARGE, valid_rows=LARGE.rows, valid_values=LARGE.values)
    assert quick()._training_bytes(more) > quick()._training_bytes(LARGE) + LARGE.values
    kernel = gainful.RANKERS["structured-svm-kernel"].create(n_landmarks=1000)
    assert kernel._training_bytes(LARGE) > 8 * 1000 * LARGE.rows


@pytest.mark.parametrize("model", [gainful.Blend(["ranksvm", "lambdamart"]), gainful.Auto(rankers=["lambdamart"])])
def test_a_blend_needs_what_its_largest_member_needs(model):
    trees = quick()._training_bytes(LARGE)
    assert model._training_bytes(replace(LARGE, mapped=True)) == trees
    assert model._training_bytes(LARGE) == trees + 4 * LARGE.values  # the rows of the other folds
    assert gainful.Auto(rankers=["ranksvm"])._training_bytes(LARGE) < model._training_bytes(LARGE)


def test_auto_does_not_count_a_tree_per_grade_where_it_does_not_try_that():
    many = gainful.Auto()._training_bytes(replace(LARGE, grades=1000))
    assert many == gainful.Auto()._training_bytes(replace(LARGE, grades=12)) > quick()._training_bytes(LARGE)


def test_a_blend_that_cannot_fit_is_refused(data, large):
    with pytest.raises(MemoryLimitError, match=r"^Blend needs about \d\.\d+ GB of memory .* may take 1 GB; "):
        gainful.Blend(["ranksvm", "lambdamart"]).fit(data, max_bytes="1GB")


def test_the_size_of_data_is_seen(data):
    size = data_size(data, data[:5])
    assert (size.rows, size.features, size.queries, size.values) == (200, 4, 20, 800)
    assert (size.valid_rows, size.valid_values, size.is_sparse) == (50, 200, False)


def test_what_cannot_fit_is_refused_with_what_would(data, large):
    with pytest.raises(
        MemoryLimitError,
        match=r"^LambdaMART needs about 2\.\d+ GB of memory for 7,500,000 rows × 136 features besides the data, and "
        r"this process may take 1 GB; about [\d,]+ rows would fit; a linear ranker such as ranksvm needs \d+ MB; "
        r'max_bytes="off" skips this check$',
    ) as told:
        quick().fit(data, max_bytes="1GB")
    rows = int(re.search(r"about ([\d,]+) rows", str(told.value))[1].replace(",", ""))
    assert quick()._training_bytes(LARGE.with_rows(rows)) <= WARNED * GB
    assert quick()._training_bytes(LARGE.with_rows(1.2 * rows)) > WARNED * GB


def test_one_copy_of_the_bins_is_proposed_where_it_fits(data, large):
    with pytest.warns(MemoryWarning, match=r"engine_params=\{'force_col_wise': True\} needs 1\.\d+ GB; .* may kill it"):
        quick().fit(data, max_bytes="3GB")


def test_fewer_landmarks_are_proposed_where_they_fit(data, large):
    model = gainful.ranker("structured-svm-kernel", n_landmarks=2000)
    with pytest.raises(MemoryLimitError, match=r"n_landmarks=\d+ needs") as told:
        model.fit(data, max_bytes="8GB")
    fewer = int(re.search(r"n_landmarks=(\d+) needs", str(told.value))[1])
    assert model.set_params(n_landmarks=fewer)._training_bytes(LARGE) <= WARNED * 8 * GB


def test_close_is_warned_of_and_trained(data, large):
    free = int(quick()._training_bytes(LARGE) / (0.5 * (WARNED + REFUSED)))
    with pytest.warns(MemoryWarning, match="needs about"):
        assert quick().fit(data, max_bytes=free).n_iter_ == 2


@pytest.mark.parametrize("limit", ["off", "100GB", None])
def test_what_fits_is_silent(data, limit):
    with warnings.catch_warnings():
        warnings.simplefilter("error", MemoryWarning)
        quick().fit(data, max_bytes=limit)


def test_small_trainings_are_never_refused(data):
    quick().fit(data, max_bytes=1)  # libraries and compiled code decide, which no estimate sees


def test_a_limit_for_everything_reaches_fits_without_one(data, large, monkeypatch):
    monkeypatch.setenv(LIMIT_VARIABLE, "1GB")
    with pytest.raises(MemoryLimitError, match="may take 1 GB"):
        quick().fit(data)
    quick().fit(data, max_bytes="off")
    with memory_limit("off"):
        quick().fit(data)
    with memory_limit("2GB"), pytest.raises(GainfulError, match=r"McRank needs .* may take 2 GB"):
        gainful.compare(["mcrank"], data, folds=3)
    with pytest.raises(MemoryLimitError, match="may take 1 GB"):
        quick().fit(data)


def test_the_command_line_limits_and_says_so_in_its_words(data, large, tmp_path, capsys):
    path, model = tmp_path / "data.gnf", tmp_path / "m.gainful"
    gainful.write(data, path)
    train = ["train", "lambdamart", str(path), "-o", str(model), "--set", "n_trees=2"]
    assert run([*train, "--memory-limit", "1GB"]) == 2
    assert "may take 1 GB; about" in (told := capsys.readouterr().err)
    assert "lambdamart needs about" in told
    assert told.strip().endswith("; --memory-limit off skips this check")
    assert not model.exists()
    assert run([*train, "--memory-limit", "off"]) == 0
    assert model.exists()
    capsys.readouterr()
    assert run(["compare", str(path), "--rankers", "lambdamart", "--memory-limit", "1GB"]) == 2
    assert "may take 1 GB" in capsys.readouterr().err
    assert run([*train, "--memory-limit", "much"]) == 2
    assert "--memory-limit must be a number of bytes, 'off', or a size such as" in capsys.readouterr().err


def test_the_most_rows_that_fit_are_found():
    assert most_rows(lambda n: 10 * n, 1000, 2000) == pytest.approx(200, rel=0.02)
    assert most_rows(lambda n: 1e9, 1000, 2000) < 1
    assert [round_down(n) for n in (7, 99, 123.9, 2_468_000)] == [7, 99, 120, 2_400_000]


LIMITED = """
import resource, sys
import gainful
from gainful.compute.memory import _resident
gainful.LambdaMART(n_trees=2).fit(gainful.make_artificial(20))
data = gainful.read({path!r})
most = _resident("VmData") + 60 * 2**20
resource.setrlimit(resource.RLIMIT_DATA, (most, most))
try:
    gainful.LambdaMART(n_trees=2).fit(data, max_bytes={max_bytes!r})
except gainful.GainfulError as error:
    print(type(error).__name__, error)
"""


def test_a_file_under_a_limit_gets_one_line_instead_of_an_end(tmp_path):
    """LambdaMART from a mapped file of 33 MB wants 120 MB, and the process may have 60 more."""
    if not Path("/proc/self/status").exists():
        pytest.skip("this system does not tell a process its size")
    data = gainful.make_artificial(600, n_docs=100, n_features=136)
    path = tmp_path / "mapped.gnf"
    gainful.write(data, path)

    def end(max_bytes: str | None) -> subprocess.CompletedProcess[str]:
        code = LIMITED.format(path=str(path), max_bytes=max_bytes)
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    told = end(None)
    assert told.returncode == 0, told.stderr
    assert re.match(r"MemoryLimitError LambdaMART needs about 1\d\d MB .* may take \d\d\.?\d* MB; ", told.stdout)
    unchecked = end("off")
    assert unchecked.returncode != 0 or "bad_alloc" in unchecked.stdout
