"""Trees from mapped files and from blocks are those from memory, and the matrix is never in memory whole."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import gainful
from gainful.data.blocks import LocalBlocks
from gainful.data.dataset import RankingData
from gainful.data.rows import is_mapped
from gainful.data.sharded import ShardedData
from gainful.errors import InterruptedFitWarning
from gainful.trees.row_chunks import ChunkedMatrix, join_blocks

SETTINGS = {"n_trees": 12, "n_leaves": 6, "min_docs_in_leaf": 5, "n_jobs": 1, "early_stopping": 5}


def trees(model) -> str:
    text = model.booster_.model_to_string()
    return text[text.index("Tree=0") : text.index("end of trees")]


def with_holes(data: RankingData, seed: int) -> RankingData:
    """Missing values, a feature of categories and one that is mostly zero."""
    rng = np.random.default_rng(seed)
    X = data.X.copy()
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, 2] = rng.integers(0, 12, len(X))
    X[:, 5] *= rng.random(len(X)) < 0.1
    return data.replace(X=X)


def as_codes(data: RankingData, seed: int) -> RankingData:
    return data.replace(X=np.random.default_rng(seed).integers(0, 40, data.X.shape).astype(np.uint8))


FORMS = {
    "float64": lambda data, _: data,
    "float32": lambda data, _: data.replace(X=data.X.astype(np.float32)),
    "missing": with_holes,
    "sparse": lambda data, _: data.replace(X=sparse.csr_matrix(np.where(np.abs(data.X) < 0.5, 0.0, data.X))),
    "codes": as_codes,
}


def sharded(data: RankingData, cuts=(11, 12, 50)) -> ShardedData:
    edges = [0, *cuts, data.n_queries]
    return ShardedData(LocalBlocks([data[a:b] for a, b in pairwise(edges)]))


RANKERS = [
    ("lambdamart", {}),
    ("mcrank", {"bins": "exact", "subsample": 0.6}),
    ("sdcg", {"start_trees": 2}),
]
CASES = [(form, *ranker) for form in FORMS for ranker in RANKERS]
CASES += [(form, "lambdamart", {"categorical": [2]}) for form in ("missing", "codes")]


@pytest.mark.parametrize(("form", "name", "settings"), CASES)
def test_blocks_give_the_trees_of_memory(parts, form, name, settings):
    train, valid = (FORMS[form](part, i) for i, part in enumerate(parts[:2]))
    whole = gainful.ranker(name, **SETTINGS | settings).fit(train, eval_set=valid)
    split = gainful.ranker(name, **SETTINGS | settings).fit(sharded(train), eval_set=sharded(valid, (3, 9)))
    assert trees(split) == trees(whole)
    assert split.best_iteration_ == whole.best_iteration_
    assert np.array_equal(split.predict(sharded(valid, (7,))), whole.predict(valid))


@pytest.mark.parametrize("form", ["float32", "missing", "sparse"])
def test_mapped_files_give_the_trees_of_memory(form, parts, tmp_path):
    train, valid = (FORMS[form](part, i) for i, part in enumerate(parts[:2]))
    for name, part in (("train", train), ("valid", valid)):
        gainful.write(part, tmp_path / f"{name}.gnf")
    mapped, mapped_valid = gainful.read(tmp_path / "train.gnf"), gainful.read(tmp_path / "valid.gnf")
    assert is_mapped(mapped.X)
    whole = gainful.LambdaMART(**SETTINGS).fit(train, eval_set=valid)
    from_file = gainful.LambdaMART(**SETTINGS).fit(mapped, eval_set=mapped_valid)
    assert trees(from_file) == trees(whole)
    assert np.array_equal(from_file.predict(mapped_valid), whole.predict(valid))


def test_a_folder_of_shards(parts, tmp_path):
    train, valid, _ = parts
    for i, part in enumerate(sharded(train).blocks()):
        gainful.write(part, tmp_path / f"{i}.gnf")
    shards = gainful.open_shards(tmp_path)
    assert isinstance(join_blocks(shards).X, ChunkedMatrix)
    assert all(is_mapped(part) for part in join_blocks(shards).X.chunks)
    model = gainful.LambdaMART(**SETTINGS).fit(shards, eval_set=valid)
    assert trees(model) == trees(gainful.LambdaMART(**SETTINGS).fit(train, eval_set=valid))


def test_more_rows_than_lightgbm_samples_for_its_bins(parts):
    """The same rows are sampled from blocks as from one array."""
    train, valid, _ = parts
    few = SETTINGS | {"engine_params": {"bin_construct_sample_cnt": 300}}
    whole = gainful.LambdaMART(**few).fit(train, eval_set=valid)
    assert trees(gainful.LambdaMART(**few).fit(sharded(train), eval_set=valid)) == trees(whole)
    assert trees(whole) != trees(gainful.LambdaMART(**SETTINGS).fit(train, eval_set=valid))


def test_a_training_on_blocks_can_be_stopped_and_resumed(parts, tmp_path):
    train, valid, _ = parts
    path = tmp_path / "c.ckpt"
    settings = SETTINGS | {"subsample": 0.7, "colsample": 0.7}
    with pytest.warns(InterruptedFitWarning):
        gainful.LambdaMART(**settings).fit(
            sharded(train), eval_set=valid, checkpoint=path, progress=lambda event: event.iteration == 3
        )
    resumed = gainful.LambdaMART(**settings).fit(sharded(train), eval_set=valid, checkpoint=path)
    assert trees(resumed) == trees(gainful.LambdaMART(**settings).fit(train, eval_set=valid))


def test_rows_of_pieces_by_number(rng):
    X = rng.normal(size=(50, 3))
    pieces = ChunkedMatrix([X[:7], X[7:8], X[8:]])
    rows = rng.integers(0, 50, 30)
    assert pieces.shape == X.shape
    assert np.array_equal(pieces[rows], X[rows])


# -- memory ------------------------------------------------------------------------------------------------------------

# Trains on a mapped file and says what memory of the process's own (not pages of files) that took, in bytes.
CHILD = """
import json, sys, threading, time
import gainful

def own():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("RssAnon"))

def watch():
    while True:
        most[0] = max(most[0], own())
        time.sleep(0.005)

small = gainful.make_artificial(20, n_docs=20, n_features=5, seed=0)
settings = {"n_trees": 3, "n_leaves": 8, "n_jobs": 1}
# LightGBM's sample takes 12 bytes a value, and its layout by rows holds every bin twice
settings["engine_params"] = {"bin_construct_sample_cnt": 5000, "force_col_wise": True}
gainful.ranker("tree-regression", **settings).fit(small).predict(small)  # what libraries need is there before
before = own()
most = [before]
threading.Thread(target=watch, daemon=True).start()
data = gainful.open_shards(sys.argv[1])
model = gainful.ranker("tree-regression", **settings).fit(data)
model.predict(data)
print(json.dumps({"growth": most[0] - before, "trees": model.n_iter_}))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux what memory a process uses")
def test_the_matrix_is_never_in_memory(tmp_path):
    """Two files of 80 MB each: bins take a quarter of that, and what is as long as the rows the rest."""
    rng = np.random.default_rng(0)
    n, d = 100_000, 200
    for i in range(2):
        X = rng.standard_normal((n, d), dtype=np.float32)
        y = np.clip(np.rint(X[:, 0] + 1.0), 0, 2).astype(np.float64)
        ids = i * n + np.arange(n // 100)
        gainful.write(
            RankingData._build_unchecked(X=X, y=y, offsets=np.arange(0, n + 1, 100), query_ids=ids),
            tmp_path / f"{i}.gnf",
        )
    done = subprocess.run([sys.executable, "-c", CHILD, tmp_path], capture_output=True, text=True, check=True)
    said = json.loads(done.stdout)
    assert said["trees"] == 3
    assert said["growth"] < 0.45 * 2 * X.nbytes
